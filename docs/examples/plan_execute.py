"""A plan whose steps are executed and judged, and completed by one more step.

Prints:

    s1 Price of XRP: completed
    s2 Price of ETH: completed
    augmented: Price of BTC
    s3 Price of BTC: completed
    XRP is at 3, ETH at 30 and BTC at 300 dollars.
    completed after 5 model calls
"""

from __future__ import annotations

import json

from reactive_agents import ReactiveAgents
from reactive_agents.core.events import AgentEvent, PlanRevised, PlanStepChanged
from reactive_agents.core.json import JsonObject
from reactive_agents.testing import ScriptedLLM, say

PRICES = {"XRP": 3, "ETH": 30, "BTC": 300}


def price(coin: str) -> int:
    """Look up the price of a coin in dollars."""
    return PRICES[coin]


def step(coin: str) -> JsonObject:
    call: JsonObject = {"type": "tool_call", "tool_name": "price", "tool_args": {"coin": coin}}
    return {"title": f"Price of {coin}", "instruction": "Look it up.", **call}


def watch(event: AgentEvent) -> None:
    match event:
        case PlanStepChanged(status="completed"):
            print(event.step_id, f"{event.title}: {event.status}")
        case PlanRevised():
            print(f"{event.change}: {', '.join(step.title for step in event.steps)}")


def main() -> None:
    llm = ScriptedLLM(
        say(json.dumps({"steps": [step("XRP"), step("ETH")]})),
        say('{"verdict": "UNSATISFIED", "confidence": 0.9, "missing": ["the price of BTC"]}'),
        say(json.dumps({"steps": [step("BTC")]})),
        say('{"verdict": "SATISFIED", "confidence": 0.9}'),
        say("XRP is at 3, ETH at 30 and BTC at 300 dollars."),
    )
    planner = ReactiveAgents.create().with_reasoning("plan-execute-reflect")
    agent = planner.with_llm(llm).with_tools(price).build()
    agent.subscribe(watch)
    result = agent.run_sync("What do XRP, ETH and BTC cost?")
    print(result.output)
    print(f"{result.status} after {result.metadata.model_calls} model calls")


if __name__ == "__main__":
    main()
