"""Agents one after the other, side by side, and by a condition: plain Python.

Prints:

    summary: There are rooms everywhere.
    Porto, Lisbon: asked side by side
    the letter was written by the polite agent
"""

from __future__ import annotations

import anyio
from returns.result import Success

from reactive_agents import AgentResult, ReactiveAgent, ReactiveAgents
from reactive_agents.effects import gather
from reactive_agents.testing import ScriptedLLM, Turn, forever, say


def agent(name: str, *turns: Turn) -> ReactiveAgent:
    model = ScriptedLLM(*turns)  # in your program: .with_model("openai/gpt-4o-mini")
    return ReactiveAgents.create().with_name(name).with_llm(model).with_reasoning().build()


async def one_after_the_other(places: list[str]) -> AgentResult:
    searcher = agent("searcher", forever(say("There are rooms.")))
    writer = agent("writer", forever(say("There are rooms everywhere.")))
    found = [(await searcher.run(f"Rooms in {place}?")).unwrap() for place in places]
    return await writer.run("Sum this up:\n" + "\n".join(found))


async def side_by_side(places: list[str]) -> list[str]:
    """At most two at once; a run that fails is a failure in its place, and ends no other."""
    clerk = agent("clerk", forever(say("There are rooms.")))
    outcomes = await gather([clerk.run_effect(f"Rooms in {place}?") for place in places], limit=2)
    return [place for place, each in zip(places, outcomes, strict=True) if isinstance(each, Success)]


async def by_a_condition(letter: str) -> str:
    judge = agent("judge", forever(say("angry")))
    kind = (await judge.run(f"Is this letter angry or friendly? {letter}")).unwrap()
    clerk = agent("polite" if kind == "angry" else "brief", forever(say("We are sorry.")))
    return (await clerk.run(f"Reply to this letter: {letter}")).agent


async def main() -> None:
    places = ["Porto", "Lisbon", "Faro"]
    print("summary:", (await one_after_the_other(places)).output)
    print(", ".join(await side_by_side(places[:2])) + ": asked side by side")
    print("the letter was written by the", await by_a_condition("Where is my money?"), "agent")


if __name__ == "__main__":
    anyio.run(main)
