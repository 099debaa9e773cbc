"""Custom functions as tools: their schemas, and the error of an invalid call.

Prints:

    convert: Convert an amount of money from euros.
    {"amount": {"type": "number"}, "currency": {"enum": ["EUR", "USD"], "type": "string"}}
    convert failed: currency: got "GBP", expected 'EUR' or 'USD'
    convert succeeded: 108.0
"""

from __future__ import annotations

import json
from typing import Literal

from reactive_agents import ReactiveAgents, tool
from reactive_agents.core.events import ToolCallCompleted
from reactive_agents.testing import EventRecorder, ScriptedLLM, call, say


@tool(timeout_s=5, idempotent=True)
def convert(amount: float, currency: Literal["EUR", "USD"]) -> float:
    """Convert an amount of money from euros."""
    return round(amount * {"EUR": 1.0, "USD": 1.08}[currency], 2)


def main() -> None:
    print(f"{convert.definition.name}: {convert.definition.description}")
    print(json.dumps(convert.definition.parameters["properties"]))

    model = ScriptedLLM(
        call("convert", amount=100, currency="GBP"),
        call("convert", amount=100, currency="USD"),
        say("It is 108 dollars."),
    )
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(convert).build()
    events = EventRecorder()
    agent.subscribe(events)
    result = agent.run_sync("How much are 100 euros in dollars?")
    failed, succeeded = events.of(ToolCallCompleted)
    print("convert failed:", failed.error.splitlines()[0].partition("not valid: ")[2].rstrip("."))
    print("convert succeeded:", result.tool_results["convert-1"] if succeeded.success else succeeded.error)


if __name__ == "__main__":
    main()
