"""Options of one run: its model, budget, output type, approver, metadata and tags, and of no other run."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import anyio.lowlevel
import attrs
import pytest
from returns.result import Result, Success

from reactive_agents import (
    AgentError,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    agent_tool,
    create_runtime,
    tool,
)
from reactive_agents.core import models
from reactive_agents.core.errors import LLMErrors, TaskError
from reactive_agents.core.events import ApprovalDecided, ModelRouted, TaskCompleted, TaskFailed, TaskStarted
from reactive_agents.core.usage import Usage
from reactive_agents.effects import attempt
from reactive_agents.testing import (
    EventRecorder,
    FixedApprover,
    ScriptedLLM,
    answer,
    call,
    calls,
    forever,
    say,
)
from tests.support.models import RuledLLM
from tests.support.sensible import sensible

pytestmark = pytest.mark.anyio


@attrs.frozen
class City:
    name: str


@tool(requires_approval=True)
def pay(amount: int) -> str:
    """Pay an amount."""
    return f"paid {amount}"


def builder_with(*turns: Any) -> tuple[Any, ScriptedLLM]:
    model = ScriptedLLM(*turns)
    return ReactiveAgents.create().with_llm(model).with_reasoning(), model


# --- data of the task -------------------------------------------------------------------------------------


async def test_tags_and_metadata_are_in_the_first_event_the_result_and_the_context() -> None:
    seen: list[Any] = []

    def look(ctx: RunContext) -> None:
        """Look at the context."""
        seen.append((dict(ctx.metadata), ctx.tags))

    builder, model = builder_with(call("look"), answer("Done."), say(""))
    agent, recorder = builder.with_tools(look).build(), EventRecorder()
    agent.subscribe(recorder)
    given: dict[str, Any] = {"ticket": 7, "parts": [{"a": None}]}
    result = await agent.run("Look.", tags=["eu", "beta"], metadata=given)
    given["parts"][0]["a"] = "changed later"
    wanted = {"ticket": 7, "parts": [{"a": None}]}
    assert seen == [(wanted, ("eu", "beta"))]
    (started,) = recorder.of(TaskStarted)
    (ended,) = recorder.of(TaskCompleted)
    assert (started.metadata, started.tags) == (wanted, ("eu", "beta"))
    for metadata in (result.metadata, ended.result.metadata):
        assert (metadata.given, metadata.tags) == (wanted, ("eu", "beta"))
    assert "beta" not in repr(model.requests)

    with pytest.raises(AgentError) as failed:
        await agent.run("Fail.", tags=("x",))
    assert failed.value.metadata is not None
    assert failed.value.metadata.tags == ("x",)
    assert recorder.of(TaskFailed)[0].metadata.tags == ("x",)


class Colour(enum.Enum):
    RED = 1


def _deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"metadata": {1: "a"}},
            "metadata: got the key 1, expected an object of JSON data with texts",
        ),
        ({"metadata": [1]}, "metadata: got an array of 1 item, expected an object of JSON data with texts"),
        ({"metadata": {"b": 1, "a": (1,)}}, "metadata['a']: got "),
        ({"metadata": {"a": object}}, "expected JSON data: lists, "),
        ({"metadata": {"a": float("nan")}}, "expected JSON data: lists, "),
        ({"metadata": {"a": Colour.RED}}, "expected JSON data: lists, "),
        ({"metadata": {"a": "\ud800"}}, "expected JSON data: lists, "),
        ({"metadata": _deep(64)}, "metadata['a']: got an object of 1 field, expected JSON data: lists, "),
        ({"metadata": _deep(100_000)}, "expected JSON data: lists, "),
        ({"tags": "eu"}, "tags: got 'eu', expected a list of names."),
        ({"tags": 3}, "tags: got 3, expected a list of names."),
        (
            {"tags": [" "]},
            "tags: got ' ', expected a name of 1 to 1000 characters that is not blank, '.' or '..'.",
        ),
        ({"tags": [None]}, "tags: got "),
        ({"model": " "}, "model: got ' ', expected the name of a model that is not blank."),
        (
            {"model": 3},
            "model: got 3, expected the name of a model, or an object with complete, stream and model.",
        ),
        ({"budget": 3}, "budget: got 3, expected limits by name: tokens, cost_usd, calls, requests"),
        ({"budget": {"requests": 0}}, "budget.requests: got 0, expected a whole number, 1 or more."),
        ({"budget": {"tool_calls": True}}, "budget.tool_calls: got True, expected a whole number, 1 or"),
        (
            {"budget": {"token": 3}},
            "budget: got 'token', expected limits by name: tokens, cost_usd, calls, requests, tool_calls.",
        ),
        ({"budget": {"tokens": 0}}, "budget.tokens: got 0, expected a whole number, 1 or more."),
        ({"budget": {"calls": {"a": 0}}}, "budget.calls: got 'a': 0, expected names of tools"),
        ({"approver": 3}, "approver: got 3, expected a function that decides on a request, or an object"),
        (
            {"approver": lambda: True},
            "approver: got a function, expected a function that decides on a request",
        ),
        ({"output": print}, "output: got print, expected a type, not a function."),
        ({"output": "City"}, "output: got 'City', expected a type, not the name of one."),
        (
            {"output": [int, str]},
            "output: got [<class 'int'>, <class 'str'>], expected a type, or a union such as City | Country.",
        ),
        ({"otput": str}, "otput: there is no such option of a run, expected one of session, user, history"),
        ({"max_turns": 3}, "max_turns: there is no such option of a run, expected budget={'requests': …}."),
        ({"session_id": "a"}, "session_id: there is no such option of a run, expected session."),
    ],
)
async def test_a_wrong_option_is_refused_before_anything_runs(options: dict[str, Any], message: str) -> None:
    builder, model = builder_with(say("Hello."))
    agent, recorder = builder.build(), EventRecorder()
    agent.subscribe(recorder)
    failed = (await attempt(agent.run_effect("Hello?", **options))).failure()
    assert type(failed) is TaskError
    assert message in failed.message
    for begin in (agent.run, lambda task, **given: anext(agent.stream(task, **given))):
        with pytest.raises(AgentError, match="expected"):
            await begin("Hello?", **options)
    assert model.requests == []
    assert recorder.events == []


async def test_none_is_as_if_an_option_were_not_given() -> None:
    builder, _ = builder_with(say("Hello."))
    names = (
        "session",
        "user",
        "history",
        "metadata",
        "tags",
        "model",
        "budget",
        "approver",
        "output",
        "deps",
    )
    result = await builder.build().run("Hello?", **dict.fromkeys(names))
    assert (result.output, result.metadata.given, result.metadata.tags) == ("Hello.", {}, ())


# --- the model --------------------------------------------------------------------------------------------


async def test_a_model_by_name_answers_every_call_of_the_run() -> None:
    plan = '{"steps": [{"id": "s1", "title": "Say", "instruction": "Say hello.", "type": "analysis"}]}'
    for strategy in ("reactive", "reflexion", "plan-execute-reflect", "tree-of-thought"):
        model = ScriptedLLM(forever(say(plan)))
        agent = (
            ReactiveAgents.create()
            .with_llm(model)
            .with_reasoning(strategy)
            .with_memory(extraction="model")
            .with_verification()
            .build()
        )
        await attempt(agent.run_effect("Say hello.", model="other/large", output=City))
        purposes = {request.purpose for request in model.requests}
        assert {request.model for request in model.requests} == {"other/large"}, (strategy, purposes)
        asked = len(model.requests)
        await attempt(agent.run_effect("Say hello."))
        assert {request.model for request in model.requests[asked:]} == {None}, strategy


async def test_no_router_chooses_another_model_than_that_of_the_run() -> None:
    builder, model = builder_with(say("Hello."), say("Hello."))
    agent = builder.with_cost(tiers=[{"model": "other/small"}, {"model": "other/large"}]).build()
    recorder = EventRecorder()
    agent.subscribe(recorder)
    result = await agent.run("Hello?", model="other/mine")
    assert [request.model for request in model.requests] == ["other/mine"]
    assert recorder.of(ModelRouted) == []
    assert result.metadata.model == model.requests[0].model
    await agent.run("Hello?")
    assert len(recorder.of(ModelRouted)) == 1


class Minimal:
    """The least that a model can be."""

    model = "mine"

    def __init__(self) -> None:
        self.requests: list[models.ModelRequest] = []

    def complete(self, request: models.ModelRequest) -> Any:
        self.requests.append(request)
        return ScriptedLLM(say("From mine.")).complete(request)

    async def stream(
        self, request: models.ModelRequest
    ) -> AsyncIterator[Result[models.ModelChunk, LLMErrors]]:
        self.requests.append(request)
        async for chunk in ScriptedLLM(say("From mine.")).stream(request):
            yield chunk


async def test_a_model_as_an_object_takes_the_place_of_the_agents() -> None:
    builder, model = builder_with(say("From the agent's."))
    agent, mine = builder.build(), Minimal()
    assert (await agent.run("Hello?", model=mine)).output == "From mine."
    assert [event async for event in agent.stream("Hello?", model=mine)][-1].result.output == "From mine."
    assert (len(mine.requests), model.requests) == (2, [])
    assert (await agent.run("Hello?")).output == "From the agent's."


# --- budget, output type, approver --------------------------------------------------------------------------


async def test_a_budget_takes_the_place_of_the_limits_that_it_names() -> None:
    def once() -> str:
        """Do it."""
        return "done"

    turns = (call("once"), call("once"), answer("Done."))
    builder, _ = builder_with(*turns, *turns)
    agent = builder.with_tools(tool(volatile=True)(once)).with_budget(tokens=100_000).build()
    limited = await agent.run("Do it twice.", budget={"calls": {"once": 1}})
    assert len(limited.tool_results) == 1
    assert len((await agent.run("Do it twice.")).tool_results) == 2

    builder, model = builder_with(*[call("once")] * 9, answer("Done."))
    agent = builder.with_tools(tool(volatile=True)(once)).build()
    short = await agent.run("Do it.", budget={"tokens": 1})
    assert (short.status, short.metadata.terminated_by, len(model.requests)) == ("partial", "budget", 1)


@tool(volatile=True)
def look(at: str = "") -> str:
    """Look at a place."""
    return f"seen {at}"


LOOKS = tuple(call("look", at=f"place {n}") for n in range(20))


@pytest.mark.parametrize(
    ("budget", "turn", "said"),
    [
        (
            {"cost_usd": 0.1},
            say("Rome.", cost_usd=None),
            "$0.1 does not count 1 request whose price is not known",
        ),
        (
            {"tokens": 50},
            say("Rome.", usage=Usage(reported=False)),
            "50 tokens does not count 1 request whose tokens were not reported",
        ),
        ({"tokens": 50}, say("Rome.", cost_usd=None), ""),
    ],
)
async def test_a_limit_that_could_not_be_kept_is_told(budget: Any, turn: Any, said: str) -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(turn)).build()
    result = await agent.run("What is the capital of Italy?", budget=budget)
    assert result.status == "completed"
    assert result.reason.partition("The limit of ")[2] == (f"{said}." if said else "")


@pytest.mark.parametrize("strategy", ["reactive", "direct", "reflexion", ""])
async def test_the_model_calls_of_a_run_are_limited(strategy: str) -> None:
    builder: Any = ReactiveAgents.create().with_llm(ScriptedLLM(*LOOKS)).with_tools(look)
    agent = (builder.with_reasoning(strategy) if strategy else builder).build()
    result = await agent.run("Look.", budget={"requests": 4})
    assert (result.status, result.metadata.model_calls) == ("partial", 4)
    assert "The limit of 4 model calls was reached." in result.reason


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_model_calls_that_are_made_side_by_side_stay_within_the_limit(limit: int) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    builder = ReactiveAgents.create().with_llm(RuledLLM(sensible)).with_reasoning("tree-of-thought")
    agent = builder.with_tools(add).build()
    result = await agent.run("Add 1 and 2.", budget={"requests": limit})
    assert (result.status, result.metadata.model_calls) == ("partial", limit)
    assert f"The limit of {limit} model call" in result.reason


@pytest.mark.parametrize("strategy", ["reactive", "direct", "reflexion", ""])
async def test_the_tool_calls_of_a_run_are_limited_over_all_tools(strategy: str) -> None:
    turns = (calls(call("look", at=f"{n}"), call("count", n=n)) for n in range(4))

    def count(n: int) -> int:
        """Count."""
        return n

    builder: Any = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_tools(look, count)
    agent = (builder.with_reasoning(strategy) if strategy else builder).build()
    result = await agent.run("Look.", budget={"tool_calls": 3})
    assert (result.status, result.metadata.model_calls) == ("partial", 2)
    assert "The limit of 3 tool calls was reached." in result.reason
    assert len(result.tool_results) == 2


async def test_an_answer_within_the_limits_is_complete_and_asked_for_in_the_last_turn() -> None:
    turns = calls(call("look", at="a"), call("look", at="b")), answer("a and b were seen.")
    builder, model = builder_with(*turns)
    agent = builder.with_tools(look).with_budget(tool_calls=2).build()
    result = await agent.run("Look.", budget={"requests": 2})
    assert (result.status, result.output) == ("completed", "a and b were seen.")
    assert "last turn" in model.requests[1].messages[-1].content


async def test_model_calls_of_agents_that_are_tools_count_for_their_caller() -> None:
    inner = ReactiveAgents.create().with_llm(ScriptedLLM(*LOOKS))
    looking = inner.with_tools(look).with_reasoning().build()
    both = calls(*(call("agent", task=f"Look {n}.") for n in range(2)))
    builder, _ = builder_with(both, answer("Done."))
    result = await builder.with_tools(agent_tool(looking)).build().run("Ask.", budget={"requests": 4})
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert result.metadata.model_calls == 4


@pytest.mark.parametrize("strategy", ["reactive", "reflexion"])
@pytest.mark.parametrize(("limit", "looked"), [(2, 1), (3, 2), (4, 2)])
async def test_tool_calls_of_agents_that_are_tools_count_for_their_caller(
    strategy: str, limit: int, looked: int
) -> None:
    seen: list[str] = []

    def find(at: str) -> str:
        """Find something."""
        seen.append(at)
        return f"found {at}"

    inner = ScriptedLLM(call("find", at="a"), call("find", at="b"), answer("a and b were found."))
    finder: Any = ReactiveAgents.create().with_name("finder").with_llm(inner).with_tools(find)
    finder = finder.with_reasoning(strategy).build()
    builder, _ = builder_with(call("finder", task="Find."), call("look", at="c"), forever(answer("Done.")))
    result = (
        await builder.with_tools(look, agent_tool(finder)).build().run("Find.", budget={"tool_calls": limit})
    )
    assert (len(seen), result.metadata.tool_calls) == (looked, limit)
    reason = result.sub_runs[0].reason
    assert reason.startswith(f"The caller's limit of {limit} tool calls was reached.") == (limit == 2)
    assert ("look-2" in result.tool_results) == (limit == 4)
    assert result.status == ("completed" if limit == 4 else "partial")


async def test_agents_that_work_side_by_side_stay_within_the_callers_limit_of_tool_calls() -> None:
    seen: list[str] = []

    async def find(at: str) -> str:
        """Find something."""
        seen.append(at)
        await anyio.lowlevel.checkpoint()
        return f"found {at}"

    def finder(name: str) -> Any:
        model = ScriptedLLM(*(call("find", at=f"{name}{n}") for n in range(9)))
        built = ReactiveAgents.create().with_name(name).with_llm(model).with_tools(find).with_reasoning()
        return agent_tool(built.build())

    both = calls(call("one", task="Find."), call("two", task="Find."))
    builder, _ = builder_with(both, forever(answer("Done.")))
    agent = builder.with_tools(finder("one"), finder("two")).build()
    result = await agent.run("Find.", budget={"tool_calls": 5})
    assert (len(seen), result.metadata.tool_calls) == (3, 5)
    assert [each.status for each in result.sub_runs] == ["partial"] * 2
    assert sum(each.metadata.tool_calls for each in result.sub_runs) == 3


async def test_a_limit_for_a_tool_that_the_run_lacks_is_refused() -> None:
    builder, model = builder_with(answer("Done."))
    agent = builder.with_tools("calculator").build()
    failed = (await attempt(agent.run_effect("Go.", budget={"calls": {"calculatr": 1}}))).failure()
    assert failed.message == "budget.calls: got 'calculatr', expected one of the run's tools: calculator."
    assert model.requests == []
    assert (await agent.run("Go.", budget={"calls": {"pay": 1}}, tools=[pay])).output == "Done."


async def test_the_budget_of_a_run_holds_for_the_runs_that_its_tools_begin() -> None:
    inner = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Much.", cost_usd=2.0))))
    builder, _ = builder_with(*(call("agent", task="Say much."), answer("Done.")) * 2)
    agent = builder.with_tools(agent_tool(inner.with_reasoning().build())).build()
    result = await agent.run("Ask.", budget={"cost_usd": 1.0})
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")


async def test_an_output_type_is_that_of_the_run() -> None:
    builder, model = builder_with(say('{"name": "Rome"}'), say("Rome"), say("[1, 2]"))
    agent = builder.build()
    typed = await agent.run("Which?", output=City)
    assert typed.output == City("Rome")
    assert (await agent.run("Which?")).output == "Rome"
    assert (await attempt(agent.run_effect("Which?", output=list[int]))).unwrap().output == [1, 2]
    shown = ["JSON" in request.messages[0].content for request in model.requests]
    assert shown[1] is False

    builder, _ = builder_with(say("3"), say('{"name": "Rome"}'))
    agent = builder.with_output_type(City).build()
    assert (await agent.run("How many?", output=int)).output == 3
    assert (await agent.run("Which?")).output == City("Rome")


async def test_an_approver_decides_in_the_place_of_the_agents() -> None:
    turns = (call("pay", amount=3), answer("Done."), answer("Done."))
    for given in (lambda request: True, FixedApprover(True)):
        builder, _ = builder_with(*turns)
        agent, recorder = (
            builder.with_tools(pay).with_approval(lambda request: False).build(),
            EventRecorder(),
        )
        agent.subscribe(recorder)
        result = await agent.run("Pay 3.", approver=given)
        assert result.tool_results == {"pay-1": "paid 3"}
        assert [each.approved for each in recorder.of(ApprovalDecided)] == [True]
    builder, _ = builder_with(*turns)
    agent = builder.with_tools(pay).build()  # which has none
    assert (await agent.run("Pay 3.", approver=lambda request: True)).tool_results == {"pay-1": "paid 3"}


async def test_an_agent_of_a_container_takes_the_same_options() -> None:
    runtime = create_runtime(agent_id="clerk", provider="offline", model="offline")
    model = ScriptedLLM(say('{"name": "Rome"}'))
    runtime.models.llm.override(model)
    agent = ReactiveAgent(runtime, deps=City)
    result = await agent.run("Which?", deps=City("x"), output=City, tags=["a"], model="other/m")
    assert (result.output, result.metadata.tags, model.requests[0].model) == (City("Rome"), ("a",), "other/m")
    assert isinstance(Success(result), Success)


# --- options that a test sets over those of the calls ----------------------------------------------------


@tool
def owner(ctx: RunContext[City]) -> str:
    """Name the city of the caller."""
    return ctx.deps.name


async def test_an_override_comes_before_the_options_of_the_call_and_ends_with_its_block() -> None:
    own, given = ScriptedLLM(forever(say("Hello."))), ScriptedLLM(forever(say("Not this one.")))
    double = ScriptedLLM(call("owner"), answer("Oslo."))
    agent = ReactiveAgents.create(deps=City).with_llm(own).with_reasoning().with_tools(owner).build()
    with agent.override(model=double, deps=City("Oslo")):
        result = await agent.run("Which city?", deps=City("Rome"), model=given)
    assert (result.output, result.tool_results) == ("Oslo.", {"owner-1": "Oslo"})
    assert (await agent.run("Hello?", deps=City("Rome"))).output == "Hello."
    assert (double.remaining, len(own.requests), len(given.requests)) == (0, 1, 0)


async def test_overrides_apply_inside_each_other_and_to_streams() -> None:
    first, second = ScriptedLLM(forever(say("One."))), ScriptedLLM(forever(say("Two.")))
    agent = ReactiveAgents.create().with_llm(ScriptedLLM()).build()

    async def streamed() -> str | None:
        ended = [each async for each in agent.stream("Count.") if isinstance(each, TaskCompleted)]
        return ended[0].result.output

    with agent.override(model=first, budget={"requests": 3}):
        with suppress(ZeroDivisionError), agent.override(model=second):
            assert await streamed() == "Two."
            raise ZeroDivisionError
        assert await streamed() == "One."
        with agent.override(budget={"requests": 0}), pytest.raises(AgentError, match="1 or more"):
            await agent.run("Count.")


async def test_overrides_that_overlap_end_with_their_own_block() -> None:
    own, first, second = (ScriptedLLM(forever(say(each))) for each in ("Own.", "One.", "Two."))
    agent = ReactiveAgents.create().with_llm(own).build()
    one, two = agent.override(model=first), agent.override(model=second)
    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    assert (await agent.run("Count.")).output == "Two."
    two.__exit__(None, None, None)
    assert (await agent.run("Count.")).output == "Own."


async def test_an_override_gives_dependencies_in_place_of_the_function_that_makes_them() -> None:
    builder = ReactiveAgents.create(deps=City).with_llm(ScriptedLLM(call("owner"), answer("Oslo.")))
    agent = builder.with_reasoning().with_tools(owner).with_deps(lambda: City("Rome")).build()
    with agent.override(deps=City("Oslo")):
        assert (await agent.run("Which city?")).tool_results == {"owner-1": "Oslo"}
