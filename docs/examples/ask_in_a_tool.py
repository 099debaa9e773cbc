"""A tool that asks a person in its middle, and goes on with the answer, also in another process.

The first process ends while the question waits. The answer is recorded meanwhile; the next process runs the
call again, and it gets the answer at once.

Prints:

    looks for a hotel in Rome
    Which hotel in Rome?
    looks for a hotel in Rome
    Inn is booked.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio

from reactive_agents import QuestionAsked, ReactiveAgent, ReactiveAgents, RunContext, tool
from reactive_agents.testing import ScriptedLLM, Turn, answer, call


@tool(idempotent=True)  # nothing before the question changes anything, so that it may be run again
async def book(ctx: RunContext, city: str) -> str:
    """Book a hotel."""
    print("looks for a hotel in", city)
    hotel = await ctx.ask_user(f"Which hotel in {city}?", ["Ritz", "Inn"])
    return f"{hotel} is booked"


def clerk(folder: str, *turns: Turn) -> ReactiveAgent:
    """Return the agent of one process, whose model says the next turns."""
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(book)
    return builder.with_durability(Path(folder) / "runs.db").build()


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        agent = clerk(folder, call("book", city="Rome"))
        waits = anyio.Event()
        agent.subscribe(lambda event: waits.set() if isinstance(event, QuestionAsked) else None)
        async with anyio.create_task_group() as process:
            process.start_soon(lambda: agent.run("Book a hotel in Rome.", run_id="trip-1"))
            await waits.wait()
            process.cancel_scope.cancel()
        (question,) = await agent.runs.questions("trip-1")
        print(question.request["text"])
        await agent.runs.answer("trip-1", "Inn")
        await agent.aclose()

        agent = clerk(folder, answer("Inn is booked."))
        print((await agent.runs.resume("trip-1")).output)
        await agent.aclose()


if __name__ == "__main__":
    anyio.run(main)
