"""A wrapper that passes a call through changes nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from datetime import timedelta
from typing import Any

from dependency_injector.providers import Object
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents import ModelRetry, ReactiveAgents, RunContext, ToolCall, ToolResult, tool
from reactive_agents.core.codec import encode
from reactive_agents.core.json import Json
from reactive_agents.core.tools import RunTool
from reactive_agents.testing import FakeClock, ScriptedLLM, SequentialIds, answer, call, forever
from tests.support.profiles import examples

Context = RunContext[object]


async def through(ctx: Context, call: ToolCall, run: RunTool) -> ToolResult:
    return await run(call.arguments)


def plainly_through(
    ctx: Context, call: ToolCall, run: Callable[[Mapping[str, Json]], ToolResult]
) -> ToolResult:
    same = {**call.arguments}
    call.arguments.clear()  # its own copy
    return run(same)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
returned = (
    values
    | st.builds(Success, values)
    | st.sampled_from([Failure("no"), Failure(OSError("bad")), ValueError, ModelRetry, iter, timedelta(1)])
)
arguments = st.dictionaries(st.sampled_from(["a", "n", "x"]), values, max_size=3)


def trace(wrappers: tuple[Any, ...], given: dict[str, Any], value: Any, **options: Any) -> list[str]:
    """All that a run does and says, with the same clock and ids."""
    seen: list[str] = []

    async def look(ctx: Context, a: Any = 1, n: int = 0) -> Any:
        """Look something up."""
        seen.append(f"{a!r} {n!r} {ctx}")
        if isinstance(a, list):
            a.append("changed")
        if value in (ValueError, ModelRetry):
            raise value("boom")
        return iter(()) if value is iter else value

    def approve(request: Any) -> bool:
        seen.append(repr(request))
        return True

    end = forever(answer({"answer": "It is unclear.", "could_not": "Nothing is known."}))
    builder = ReactiveAgents.create(deps=dict).with_llm(ScriptedLLM(call("look", **deepcopy(given)), end))
    builder = builder.with_reasoning().with_tools(tool(**options)(look)).with_approval(approve)
    for each in wrappers:
        builder = builder.with_tool_wrapper(each)
    agent = builder.build()
    agent.container.core.clock.override(Object(FakeClock()))
    agent.container.core.ids.override(Object(SequentialIds()))
    agent.subscribe(lambda event: seen.append(repr(encode(event))))
    seen.append(repr(agent.run_sync("Look it up.", deps=given)))
    return seen


@given(
    st.lists(st.sampled_from([through, plainly_through]), min_size=1, max_size=3),
    arguments,
    returned,
    st.fixed_dictionaries(
        {}, optional={"requires_approval": st.just(True), "risk": st.sampled_from(["low", "high"])}
    ),
)
@examples(25)
def test_a_wrapper_that_passes_through_changes_nothing(
    wrappers: list[Any], given: dict[str, Any], value: Any, options: dict[str, Any]
) -> None:
    assert trace(tuple(wrappers), given, value, **options) == trace((), given, value, **options)
