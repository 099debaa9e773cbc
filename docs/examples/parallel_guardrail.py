"""A check that runs beside the model, and stops it; no tool runs before its verdict.

Prints:

    looking up Porto
    Porto: 21 degrees
    I do not do homework.
"""

from __future__ import annotations

import anyio

from reactive_agents import ReactiveAgents, RunContext, RunTool, ToolCall, ToolResult
from reactive_agents.testing import ScriptedLLM, answer, call


async def check(text: str, is_allowed: anyio.Event) -> None:
    """Ask another model, a classifier or a service; here a word decides."""
    await anyio.sleep(0.05)
    if "essay" in text:
        raise PermissionError("homework")
    is_allowed.set()


async def when_allowed(ctx: RunContext[anyio.Event], call: ToolCall, run: RunTool) -> ToolResult:
    await ctx.deps.wait()
    return await run(call.arguments)


def weather(city: str) -> str:
    """Tell the weather of a city."""
    print("looking up", city)
    return "21 degrees"


model = ScriptedLLM(call("weather", city="Porto"), answer("Porto: 21 degrees"), call("weather", city="Faro"))
builder = ReactiveAgents.create(deps=anyio.Event).with_llm(model).with_reasoning()
agent = builder.with_tools(weather).with_tool_wrapper(when_allowed).build()


async def reply_to(text: str) -> str | None:
    is_allowed, reply = anyio.Event(), None
    try:
        async with anyio.create_task_group() as group:  # ends when the check and the run have ended
            group.start_soon(check, text, is_allowed)
            reply = (await agent.run(text, deps=is_allowed)).output
    except* PermissionError:  # which cancelled the run, and closed the connection to the model
        reply = "I do not do homework."
    return reply


async def main() -> None:
    for text in ("How is the weather in Porto?", "Write my essay about Faro."):
        print(await reply_to(text))


if __name__ == "__main__":
    anyio.run(main)
