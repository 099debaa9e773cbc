"""The work of the peer rows by Agno, run in an interpreter of its own; prints JSON.

Imports only the standard library and Agno, since the project does not depend on it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from agno.agent import Agent
from agno.models.base import Model
from agno.models.message import MessageMetrics
from agno.models.response import ModelResponse

sys.path.insert(0, str(Path(__file__).parent))
from timing import ROWS, figures  # type: ignore[import-not-found]


class LoopModel(Model):
    """Calls the tool for ``turns`` turns, then answers; as fast as a model object can be."""

    def __init__(self, turns: int, tool: str) -> None:
        super().__init__(id="bench/loop", provider="bench")
        self.turns = turns
        self.tool = tool

    async def ainvoke(self, messages, assistant_message, **_):  # type: ignore[no-untyped-def, override]
        turn = sum(each.role == "assistant" for each in messages)
        usage = MessageMetrics(input_tokens=200, output_tokens=20, total_tokens=220)
        if turn >= self.turns:
            return ModelResponse(role="assistant", content="The answer is 3.", response_usage=usage)
        arguments = json.dumps({"number": turn, "text": "x"})
        call = {
            "id": f"call-{turn}",
            "type": "function",
            "function": {"name": self.tool, "arguments": arguments},
        }
        return ModelResponse(role="assistant", tool_calls=[call], response_usage=usage)

    def invoke(self, *_, **__):  # type: ignore[no-untyped-def, override]
        raise NotImplementedError

    def invoke_stream(self, *_, **__):  # type: ignore[no-untyped-def, override]
        raise NotImplementedError

    def ainvoke_stream(self, *_, **__):  # type: ignore[no-untyped-def, override]
        raise NotImplementedError

    def _parse_provider_response(self, response, **_):  # type: ignore[no-untyped-def, override]
        return response

    def _parse_provider_response_delta(self, response):  # type: ignore[no-untyped-def, override]
        return response


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


def agent(turns: int, *, plain: bool) -> Agent:
    """Return an agent as its documentation builds it: a model, a tool, no telemetry."""
    tool = plain_tool() if plain else work
    return Agent(model=LoopModel(turns, tool.__name__), tools=[tool], telemetry=False)


async def run(agent: Agent, turns: int) -> None:
    """Run the agent once, and see that it did the work."""
    result = await agent.arun("What is 1 + 2?")
    assert result.content == "The answer is 3.", result
    assert len(result.tools or ()) == turns, result


if __name__ == "__main__":
    found = asyncio.run(figures(agent, run, rounds=int(sys.argv[1])))
    print(json.dumps({"version": version("agno"), "ms": dict(zip(ROWS, found, strict=True))}))
