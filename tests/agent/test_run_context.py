"""The context of a run in tools: dependencies, user, session, usage and retries, hidden from the model."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Protocol, cast, runtime_checkable

import attrs
import pytest
from returns.result import Failure

from reactive_agents import (
    AgentError,
    Personas,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    ToolContext,
    agent_tool,
    create_runtime,
    tool,
)
from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools.decorator import as_tool
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.core.errors import TaskError, ToolFailed
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolScope
from reactive_agents.effects import attempt
from reactive_agents.testing import InMemoryPersonaStore, ScriptedLLM, Turn, answer, call, calls, forever, say
from tests.support.personas import assessed, planned

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
    return {"left": ctx.deps.stock[item], "call": ctx.tool_call_id, "of": ctx.tool_name, "n": ctx.usage.calls}


async def on_loop(item: str, ctx: RunContext[Shop]) -> str:
    """Return what is seen on the loop."""
    return f"{ctx.deps.name}: {ctx.deps.stock[item]} for {ctx.user} in {ctx.session}, {ctx.model}"


@tool(name="both", timeout_s=5)
def both(ctx: RunContext[Shop] | None, context: ToolContext) -> bool:
    """Return whether both contexts are of one run."""
    return ctx is not None and ctx.run_id == context.run_id


def agent_with(*turns: Turn, tools: tuple[Any, ...] = (), deps: Any = Shop) -> Any:
    model = ScriptedLLM(*turns)
    builder: Any = ReactiveAgents.create() if deps is None else ReactiveAgents.create(deps=deps)
    return builder.with_llm(model).with_reasoning().with_tools(*(tools or ("calculator",))).build(), model


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
        f'{{"left": 4, "call": "{first.tool_calls[0].id}", "of": "in_thread", "n": 1}}',
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

    agent, _ = agent_with(*[call("flaky")] * 4, answer("Well."), tools=(flaky,), deps=None)
    await agent.run("Try.")
    assert tried == [0, 1, 2, 0]


def test_a_tool_has_one_context_of_each_kind() -> None:
    def two(one: RunContext[int], other: RunContext[int]) -> None: ...

    with pytest.raises(ToolDefinitionError, match="more than one RunContext: one, other"):
        _ = tool(two).definition


def test_a_test_of_a_tool_makes_its_context_and_its_text_has_no_dependencies() -> None:
    context = RunContext(Shop("hunter2", {"tea": 4}), user="ada")
    assert Price()(context, "tea") == "hunter2 sells tea for 3"
    assert "hunter2" not in repr(context)


# --- dependencies of the wrong type ---------------------------------------------------------------------


@runtime_checkable
class Named(Protocol):
    """Anything with a name."""

    name: str


class Unchecked(Protocol):
    """A protocol that says nothing at run time."""

    def call(self) -> None:
        """Call."""


@pytest.mark.parametrize(
    ("declared", "given", "message"),
    [
        (Shop, None, "deps: got nothing, expected a Shop, with which the agent was created."),
        (
            Shop,
            {"password": "hunter2"},
            "deps: got a dict, expected a Shop, with which the agent was created.",
        ),
        (
            None,
            SHOP,
            "deps: got a Shop, expected none: the agent was created without deps; "
            "create(deps=…) declares their type.",
        ),
        (int | str, 1.5, "deps: got a float, expected an int | str, with which the agent was created."),
        (list[int], {}, "deps: got a dict, expected a list[int], with which the agent was created."),
        (Named, 3, "deps: got an int, expected a Named, with which the agent was created."),
        (Shop | None, None, ""),
        (Any, object(), ""),
        (Named, SHOP, ""),
        (Unchecked, 3, ""),
        (Annotated[Shop, "the shop"], SHOP, ""),
        (Literal["a"], "a", ""),
    ],
)
async def test_dependencies_of_another_type_are_refused_before_anything_runs(
    declared: Any, given: Any, message: str
) -> None:
    agent, model = agent_with(answer("Done."), deps=declared)
    options = {} if given is None else {"deps": given}
    if not message:
        assert (await agent.run("Do it.", **options)).success
        return
    failed = (await attempt(agent.run_effect("Do it.", **options))).failure()
    assert (type(failed), failed.message) == (TaskError, message)
    for begin in (agent.run, lambda task, **given: anext(agent.stream(task, **given))):
        with pytest.raises(AgentError) as refused:
            await begin("Do it.", **options)
        assert str(refused.value) == message
    assert model.requests == []


@pytest.mark.parametrize("deps", [SHOP, "Shop", 5, {"shop": SHOP}])
def test_an_object_in_place_of_the_type_is_refused_by_build(deps: Any) -> None:
    with pytest.raises(AgentError, match="expected a type: each run is given an object of it"):
        agent_with(deps=deps)


@pytest.mark.parametrize("deps", [Any, list[int], Shop | None, Annotated[int, "id"], NewType("Id", int)])
def test_every_form_of_a_type_is_taken(deps: Any) -> None:
    agent_with(deps=deps)


def test_a_tool_of_other_dependencies_is_refused_by_build() -> None:
    def of_shop(ctx: RunContext[Shop]) -> None: ...

    for deps, has in ((int, "an agent with deps=int, as here"), (None, "an agent without deps")):
        with pytest.raises(AgentError) as refused:
            agent_with(tools=(of_shop,), deps=deps)
        assert str(refused.value) == (
            f"tools: got 'of_shop', which takes RunContext[Shop], expected a tool for {has}, "
            "or create(deps=Shop)."
        )
    for deps in (Shop, type("Branch", (Shop,), {}), Any):
        agent_with(tools=(of_shop,), deps=deps)


async def test_dependencies_are_in_no_event_record_or_stored_form(tmp_path: Path) -> None:
    class Secretive:
        def __init__(self) -> None:
            self.key = "hunter2-the-key"

        def __repr__(self) -> str:
            return self.key

    def use(ctx: RunContext[Secretive]) -> int:
        """Return how long the key is."""
        return len(ctx.deps.key)

    model = ScriptedLLM(call("use"), answer("It has 15 characters."))
    builder = ReactiveAgents.create(deps=Secretive).with_llm(model).with_reasoning().with_tools(use)
    agent = (
        builder.with_memory(tmp_path / "m.db")
        .with_sessions(tmp_path / "s.db")
        .with_audit(tmp_path / "a.db")
        .with_cost(tmp_path / "c.db")
        .build()
    )
    seen: list[Any] = []
    agent.subscribe(seen.append)
    async with agent:
        result = await agent.run("How long?", deps=Secretive(), session="s", user="u")
    assert result.success
    assert "hunter2" not in repr(seen) + repr(result) + repr(model.requests)
    assert not any(b"hunter2" in file.read_bytes() for file in tmp_path.iterdir())  # noqa: ASYNC240


async def test_an_agent_as_a_tool_is_given_the_dependencies_of_its_caller() -> None:
    inner, _ = agent_with(call("left", item="tea"), answer("Four."), tools=(SHOP.left,))
    outer, _ = agent_with(
        call("agent", task="How much tea is left?"), answer("Four."), tools=(agent_tool(inner),)
    )
    result = await outer.run("How much?", deps=SHOP)
    assert result.tool_results == {"agent-1": "Four."}
    with pytest.raises(AgentError, match=r"an agent with deps=int, as here, or create\(deps=Shop"):
        agent_with(tools=(agent_tool(inner),), deps=int)
    optional = agent_tool(agent_with(answer("Nothing needed."), deps=Shop | None)[0])
    caller, _ = agent_with(call("agent", task="Say it."), answer("It."), tools=(optional,), deps=None)
    assert (await caller.run("Ask.")).tool_results == {"agent-1": "Nothing needed."}


async def test_a_container_with_a_tool_of_other_dependencies_makes_no_agent() -> None:
    runtime = create_runtime(agent_id="clerk", provider="offline", model="offline", tools=[in_thread])
    with pytest.raises(AgentError, match=r"'in_thread', which takes RunContext\[Shop\]"):
        ReactiveAgent(runtime)
    runtime.models.llm.override(ScriptedLLM(call("in_thread", item="tea"), say("Four.")))
    result = await ReactiveAgent(runtime, deps=Shop).run("How much?", deps=SHOP)
    assert "in_thread-1" in result.tool_results


async def test_a_tool_service_of_the_container_refuses_other_dependencies() -> None:
    runtime = create_runtime(agent_id="clerk", provider="offline", model="offline")
    runtime.models.llm.override(
        ScriptedLLM(call("on_loop", item="tea"), forever(say("I could not find it out.")))
    )
    service = LocalToolService([as_tool(on_loop)], workspace=Path("/"), clock=SystemClock())
    runtime.tooling.tools.override(service)
    result = await ReactiveAgent(runtime).run("How much?")
    (seen,) = [step.content for step in result.steps if step.type == "observation"]
    assert seen == (
        "The tool 'on_loop' failed: it takes RunContext[Shop], "
        "and the dependencies of the run are a NoneType."
    )


async def test_the_runs_of_a_personas_domain_have_its_dependencies() -> None:
    llm = ScriptedLLM(planned("Count."), call("left", item="tea"), answer("Four."), assessed())
    agent = ReactiveAgents.create(deps=Shop).with_reasoning().with_tools(SHOP.left)
    described = Personas.create("Ada").with_llm(llm).with_store(InMemoryPersonaStore())
    async with described.with_domain("chat", agent, deps=SHOP).build() as ada:
        assert (await ada.send("How much tea is left?")).answer == "Four."
    with pytest.raises(AgentError, match=r"domains\.chat\.deps: got nothing, expected a Shop"):
        cast(Any, described).with_domain("chat", agent).build()


async def test_a_context_outside_of_an_agent_is_refused() -> None:
    service = LocalToolService([as_tool(on_loop)], workspace=Path("/"), clock=SystemClock())
    scope = ToolScope(RunId("r"), TaskId("t"), AgentId("a"), SessionId("s"), "r-1.0")
    made = await attempt(service.execute(ToolCall(CallId("c"), "on_loop", {"item": "tea"}), scope))
    assert made == Failure(ToolFailed("on_loop", "it takes a RunContext, which only an agent's runs have."))
