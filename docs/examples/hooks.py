"""Lifecycle hooks: add a message before a model's turn, inspect a phase after it.

Prints:

    think with 0 messages
    act done: ['temperature']
    think with 3 messages
    complete: completed
    the model was told: Today is Monday.
"""

from __future__ import annotations

from attrs import evolve

from reactive_agents import ReactiveAgents
from reactive_agents.core.messages import UserMessage
from reactive_agents.engine import ExecutionContext
from reactive_agents.testing import ScriptedLLM, call, say

TODAY = UserMessage("Today is Monday.")


def temperature(city: str) -> int:
    """The temperature of a city in degrees."""
    return 21


def tell_the_day(context: ExecutionContext) -> ExecutionContext:
    print("think with", len(context.messages), "messages")
    return context if TODAY in context.messages else evolve(context, messages=(*context.messages, TODAY))


async def show_tools(context: ExecutionContext) -> None:
    print("act done:", [result.tool_name for result in context.tool_results])


def show_status(context: ExecutionContext) -> None:
    print("complete:", context.result.status if context.result else "no result")


def main() -> None:
    model = ScriptedLLM(call("temperature", city="Lisbon"), say("It is 21 degrees."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(temperature)
    builder = builder.with_hook("think", "before", tell_the_day).with_hook("act", "after", show_tools)
    agent = builder.with_hook("complete", "after", show_status).with_strict_hooks().build()
    agent.run_sync("How warm is it in Lisbon today?")
    print("the model was told:", next(m.content for m in model.requests[0].messages if m == TODAY))


if __name__ == "__main__":
    main()
