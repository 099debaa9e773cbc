"""``web-search`` over engines of this process, and over the library without its network."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from returns.result import Failure, Result, Success

from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.adapters.tools.builtin.web import SearchEngine, web_search, web_search_tool
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.core.errors import InvalidToolArguments, ToolErrors, ToolFailed
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolResult, ToolScope
from reactive_agents.effects import attempt

pytestmark = pytest.mark.anyio

SCOPE = ToolScope(RunId("run"), TaskId("task"), AgentId("agent"), SessionId("session"), "run-1.0")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Every test here runs on both event loops."""
    return str(request.param)


async def search(engine: SearchEngine, query: str, **arguments: Json) -> Result[ToolResult, ToolErrors]:
    service = LocalToolService([web_search_tool(engine)], workspace=Path("/"), clock=SystemClock())
    call = ToolCall(CallId("c1"), "web-search", {"query": query, **arguments})
    return await attempt(service.execute(call, SCOPE))


def hit(number: int) -> dict[str, str]:
    return {"title": f"Page {number}", "url": f"https://example.com/{number}", "snippet": "apples"}


def library(query: str, max_results: int) -> list[dict[str, str]]:
    return [hit(number) for number in range(100) if query == "apples"]


async def remote(query: str, max_results: int) -> Result[list[dict[str, str]], str]:
    return Success([hit(number) for number in range(max_results)])


def test_the_tool_as_a_model_sees_it() -> None:
    assert builtin_tools()["web-search"] is web_search
    definition = web_search.definition
    assert (definition.name, definition.idempotent, definition.risk) == ("web-search", True, "low")
    assert list(definition.parameters["properties"]) == ["query", "max_results"]  # type: ignore[call-overload]


@pytest.mark.parametrize("engine", [library, remote, lambda query, most: remote(query, most)])
async def test_an_engine_is_any_function(engine: SearchEngine) -> None:
    found = (await search(engine, "apples")).unwrap().result
    assert found == {"results": [hit(number) for number in range(5)]}
    found = (await search(engine, "apples", max_results=2)).unwrap().result
    assert found == {"results": [hit(0), hit(1)]}


async def test_nothing_was_found() -> None:
    assert (await search(library, "pears")).unwrap().result == {"results": []}


async def test_results_have_three_texts() -> None:
    def endless(query: str, max_results: int) -> Iterator[dict[str, Any]]:
        while True:
            yield {"title": None, "url": Path("/x"), "rank": 1}

    found = (await search(endless, "apples", max_results=1)).unwrap().result
    assert found == {"results": [{"title": "", "url": "/x", "snippet": ""}]}


@pytest.mark.parametrize(("argument", "value"), [("query", " \n"), ("max_results", 0)])
async def test_searches_that_make_no_sense(argument: str, value: Json) -> None:
    error = (await search(library, **{"query": "apples", argument: value})).failure()  # type: ignore[arg-type]
    assert isinstance(error, InvalidToolArguments)
    assert error.problems[0].argument == argument


async def test_an_engine_that_fails() -> None:
    def raises(query: str, max_results: int) -> list[dict[str, str]]:
        raise ConnectionError("the line is dead")

    async def refuses(query: str, max_results: int) -> Result[list[dict[str, str]], str]:
        return Failure("too many requests")

    def nonsense(query: str, max_results: int) -> Any:
        return [3]

    error = (await search(raises, "apples")).failure()
    assert error == ToolFailed("web-search", "the line is dead", "ConnectionError")
    assert (await search(refuses, "apples")).failure() == ToolFailed("web-search", "too many requests")
    error = (await search(nonsense, "apples")).failure()
    assert isinstance(error, ToolFailed)


# --- the library ----------------------------------------------------------------------------------------


class Refused(Exception): ...


class Limited(Refused): ...


class Late(Refused): ...


EXCEPTIONS = SimpleNamespace(DDGSException=Refused, RatelimitException=Limited, TimeoutException=Late)
"""Those of the library; a test below looks for their names in the real one."""


def ask() -> str:
    message: str = anyio.run(web_search.function, "apples").failure().message
    return message


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (Limited(), "want fewer requests"),
        (Late("x"), "did not answer in time"),
        (Refused("no route"), "cannot be reached: no route"),
    ],
)
def test_what_the_library_raises_is_told(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, told: str
) -> None:
    def text(query: str, max_results: int) -> Any:
        raise raised

    engines = SimpleNamespace(DDGS=lambda timeout: SimpleNamespace(text=text))
    monkeypatch.setitem(sys.modules, "ddgs", engines)
    monkeypatch.setitem(sys.modules, "ddgs.exceptions", EXCEPTIONS)
    assert told in ask()


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ddgs", None)
    message = ask()
    assert message.startswith("The tool 'web-search' failed")
    assert "pip install 'reactive-agents[web]'" in message


def test_the_real_library_raises_what_is_caught() -> None:
    exceptions = pytest.importorskip("ddgs.exceptions")
    ddgs = pytest.importorskip("ddgs")
    assert issubclass(exceptions.RatelimitException, exceptions.DDGSException)
    assert issubclass(exceptions.TimeoutException, exceptions.DDGSException)
    assert callable(ddgs.DDGS(timeout=1).text)
