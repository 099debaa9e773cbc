"""The context of a run in tools: dependencies, user, session, usage and retries, hidden from the model."""

from __future__ import annotations

import threading
from typing import Any

import attrs
import pytest

from reactive_agents import ReactiveAgents, RunContext, ToolContext, tool
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.testing import ScriptedLLM, Turn, answer, call, calls

pytestmark = pytest.mark.anyio


@attrs.frozen
class Shop:
    """Dependencies of the tools of these tests."""

    name: str
    stock: dict[str, int]

    def left(self, ctx: RunContext[Shop], item: str) -> int:
        """Return how many of an item are left."""
        return ctx.deps.stock[item]


class Price:
    """A callable object."""

    def __call__(self, ctx: RunContext[Shop], item: str) -> str:
        """Return the price of an item."""
        return f"{ctx.deps.name} sells {item} for 3"


SHOP = Shop("Corner", {"tea": 4})


def in_thread(ctx: RunContext[Shop], item: str) -> dict[str, Any]:
    """Return what is seen in a thread."""
    assert threading.current_thread() is not threading.main_thread()
    return {"stock": ctx.deps.stock[item], "call": ctx.tool_call_id, "calls": ctx.usage.calls}


async def on_loop(item: str, ctx: RunContext[Shop]) -> str:
    """Return what is seen on the loop."""
    return f"{ctx.deps.name}: {ctx.deps.stock[item]} for {ctx.user} in {ctx.session}, {ctx.model}"


@tool(name="both", timeout_s=5)
def both(ctx: RunContext[Shop] | None, context: ToolContext) -> bool:
    """Return whether both contexts are of one run."""
    return ctx is not None and ctx.run_id == context.run_id


def agent_with(*turns: Turn, tools: tuple[Any, ...]) -> Any:
    model = ScriptedLLM(*turns)
    return ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(*tools).build(), model


async def test_every_kind_of_tool_gets_the_context_and_the_model_does_not_see_it() -> None:
    agent, model = agent_with(
        calls(call("in_thread", item="tea"), call("on_loop", item="tea"), call("both")),
        calls(call("left", item="tea"), call("Price", item="tea")),
        answer("Done."),
        tools=(in_thread, on_loop, both, SHOP.left, Price()),
    )
    result = await agent.run("What is left?", deps=SHOP, user="ada", session="s1")
    first = next(each for each in result.new_messages if getattr(each, "tool_calls", ()))
    assert list(result.tool_results.values()) == [
        f'{{"stock": 4, "call": "{first.tool_calls[0].id}", "calls": 1}}',
        f"Corner: 4 for ada in s1, {model.model}",
        "true",
        "4",
        "Corner sells tea for 3",
    ]
    for definition in model.requests[0].tools[:-1]:
        assert set(definition.parameters.get("properties", {})) <= {"item"}, definition


async def test_a_call_that_names_the_context_is_refused() -> None:
    agent, _ = agent_with(
        call("on_loop", item="tea", ctx={"deps": 1}),
        call("on_loop", item="tea"),
        answer("It is."),
        tools=(on_loop,),
    )
    result = await agent.run("Try it.", deps=SHOP)
    seen = [step.content for step in result.steps if step.type == "observation"]
    assert "The arguments of 'on_loop' are not valid" in seen[0]
    assert "ctx" in seen[0]


async def test_retry_counts_the_failures_of_a_tool_in_a_row() -> None:
    tried: list[int] = []

    @tool(volatile=True)
    def flaky(ctx: RunContext[None]) -> str:
        """Fail twice."""
        tried.append(ctx.retry)
        if len(tried) in (1, 2):
            raise ValueError("not yet")
        return "well"

    agent, _ = agent_with(*[call("flaky")] * 4, answer("Well."), tools=(flaky,))
    await agent.run("Try.")
    assert tried == [0, 1, 2, 0]


def test_a_tool_has_one_context_of_each_kind() -> None:
    def two(one: RunContext[int], other: RunContext[int]) -> None: ...

    with pytest.raises(ToolDefinitionError, match="more than one RunContext: one, other"):
        _ = tool(two).definition


def test_dependencies_are_in_no_text_of_a_context() -> None:
    context = RunContext(deps={"password": "hunter2"}, run_id=Any, task_id=Any)  # type: ignore[arg-type]
    assert "hunter2" not in repr(context)
