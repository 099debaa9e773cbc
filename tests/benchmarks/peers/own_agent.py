"""The work of the peer rows by this framework: an agent with reasoning and one tool, and nothing else."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable

from reactive_agents import ReactiveAgent, ReactiveAgents
from tests.benchmarks.framework import LoopModel
from tests.benchmarks.peers.timing import ROWS, figures


async def work(number: int, text: str) -> str:
    """Do some work.

    Args:
        number: which work.
        text: what to do it with.
    """
    return f"{number}{text}"


def plain_tool() -> Callable[..., str]:
    """Return a function that is defined anew, as inside a request."""

    def plain_work(number: int, text: str) -> str:
        """Do some work.

        Args:
            number: which work.
            text: what to do it with.
        """
        return f"{number}{text}"

    return plain_work


def agent(turns: int, *, plain: bool) -> ReactiveAgent:
    """Return an agent with reasoning whose model calls the tool for so many turns."""
    tool = plain_tool() if plain else work
    builder = ReactiveAgents.create().with_llm(LoopModel(turns, tool=tool.__name__))
    return builder.with_reasoning().with_tools(tool).with_max_iterations(1000).build()


async def run(agent: ReactiveAgent, turns: int) -> None:
    """Run the agent once, and see that it did the work."""
    result = await agent.run("What is 1 + 2?")
    assert result.output == "The answer is 3.", result
    assert result.metadata.model_calls == turns + 1, result


if __name__ == "__main__":
    found = asyncio.run(figures(agent, run, rounds=int(sys.argv[1])))
    print(json.dumps({"version": "", "ms": dict(zip(ROWS, found, strict=True))}))
