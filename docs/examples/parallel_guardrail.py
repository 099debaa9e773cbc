"""A check that runs beside the model, and stops it; no tool runs before its verdict.

Prints:

    Porto: 21 degrees
    I do not do homework. (3 requests to the model, tools ran for ['Porto'])
"""

from __future__ import annotations

import anyio
from attrs import field, frozen

from reactive_agents import ReactiveAgents, RunContext, ToolCall, ToolResult
from reactive_agents.core.tools import RunTool
from reactive_agents.testing import ScriptedLLM, answer, call


@frozen
class Question:
    text: str
    is_allowed: anyio.Event = field(factory=anyio.Event)


class Blocked(Exception):
    """A question that the check turned down."""


async def check(question: Question) -> None:
    """Ask another model, a classifier or a service; here a word decides."""
    await anyio.sleep(0.05)
    if "essay" in question.text:
        raise Blocked
    question.is_allowed.set()


async def when_allowed(ctx: RunContext[Question], call: ToolCall, run: RunTool) -> ToolResult:
    await ctx.deps.is_allowed.wait()
    return await run(call.arguments)


ran: list[str] = []


def weather(city: str) -> str:
    """Tell the weather of a city."""
    ran.append(city)
    return "21 degrees"


model = ScriptedLLM(
    call("weather", city="Porto", when="Porto"),
    answer("Porto: 21 degrees", when="tool weather: 21 degrees"),
    call("weather", city="Faro", when="essay", delay=60),
)
builder = ReactiveAgents.create(deps=Question).with_llm(model).with_reasoning().with_tools(weather)
agent = builder.with_tool_wrapper(when_allowed).build()


async def reply_to(text: str) -> str | None:
    question, reply = Question(text), None
    try:
        async with anyio.create_task_group() as group:  # ends when the check and the run have ended
            group.start_soon(check, question)
            reply = (await agent.run(text, deps=question)).output
    except* Blocked:  # which cancelled the run, and closed the connection to the model
        reply = "I do not do homework."
    return reply


async def main() -> None:
    print(await reply_to("How is the weather in Porto?"))
    refused = await reply_to("Write my essay about Faro.")
    print(f"{refused} ({len(model.requests)} requests to the model, tools ran for {ran})")


if __name__ == "__main__":
    anyio.run(main)
