"""Services that raise, or return something else than their port says, in whole runs.

A run then ends with a typed error that names the service, or goes on, and a warning, an event or the tool's
result says what failed. It never raises anything but ``AgentError``.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import re
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Never, TypeVar

import anyio
import pytest
from attrs import evolve
from dependency_injector import providers
from returns.future import FutureResult
from returns.maybe import Some
from returns.result import Result, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import WITHHELD, EnvironmentRedactor, SystemClock
from reactive_agents.core.config import IN_PROCESS
from reactive_agents.core.control_events import ExecutionHookFailed
from reactive_agents.core.conversation import History
from reactive_agents.core.errors import (
    MemoryErrors,
    ReasoningErrors,
    ServiceFailed,
    SessionErrors,
    root_cause,
)
from reactive_agents.core.events import AgentEvent, ExecutionPhaseFailed, TaskFailed
from reactive_agents.core.governance import GuardrailReport, ModelRoute, VerificationReport
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.memory import MemoryContext
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelResponse, TokenPrice
from reactive_agents.core.results import ReasoningMetadata, ReasoningResult, StrategyEffectiveness
from reactive_agents.core.tools import ToolDefinition, ToolResult
from reactive_agents.core.usage import Usage
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning import StrategyInput, StrategyServices
from reactive_agents.reasoning.strategies.reactive import reactive
from reactive_agents.testing import (
    AllowAll,
    EventRecorder,
    FakeClock,
    FixedApprover,
    FixedRouter,
    FixedVerifier,
    InMemoryBudget,
    InMemoryEffectivenessTracker,
    InMemoryEventBus,
    InMemoryMemory,
    InMemoryPlanStore,
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
    SequentialIds,
    answer,
    call,
    forever,
    say,
)
from tests.support.virtual_time import LoopClock, in_virtual_time

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:coroutine")]

T = TypeVar("T")
PRICE = TokenPrice(0.0, 0.001, max_output_tokens=10)


class Counter:
    """A token counter."""

    def count(self, _: object) -> int:
        return 100

    def window(self, _: object) -> int:
        return 100_000


class Prices:
    """A price list."""

    def price(self, _: object) -> Any:
        return FutureResult.from_value(PRICE)


SERVICES: dict[str, tuple[Callable[[], object], tuple[str, ...]]] = {
    "core.clock": (FakeClock, ("now", "monotonic")),
    "core.ids": (SequentialIds, ("new",)),
    "core.events": (InMemoryEventBus, ("publish", "has_subscribers")),
    "core.redactor": (EnvironmentRedactor, ("redact", "redact_json")),
    "models.llm": (
        lambda: ScriptedLLM(call("delete", name="a"), answer("It is done."), price=PRICE),
        ("model", "complete"),
    ),
    "models.counter": (Counter, ("count", "window")),
    "models.prices": (Prices, ("price",)),
    "tooling.tools": (lambda: None, ("definitions", "execute")),
    "memory.memory": (InMemoryMemory, ("bootstrap", "flush", "snapshot")),
    "memory.sessions": (lambda: None, ("begin", "end")),
    "memory.plan_store": (InMemoryPlanStore, ("save", "list_plans")),
    "memory.effectiveness": (InMemoryEffectivenessTracker, ("record",)),
    "governance.approver": (FixedApprover, ("decide",)),
    "governance.guardrail": (AllowAll, ("check",)),
    "governance.cost_router": (lambda: FixedRouter("scripted/1"), ("select_model",)),
    "governance.cost_tracker": (RecordingCostTracker, ("record",)),
    "governance.budget": (InMemoryBudget, ("reserve", "settle")),
    "governance.verifier": (lambda: FixedVerifier(0.9), ("verify",)),
    "governance.audit": (RecordingAuditLog, ("append",)),
}
QUIET = {
    ("core.events", "publish"),
    ("core.events", "has_subscribers"),
    ("memory.plan_store", "list_plans"),
    ("memory.plan_store", "save"),
}
"""Not called in this run, or where a wrong value has no effect."""


def _raises(*_: object, **__: object) -> Any:
    raise RuntimeError("on purpose")


@effect
async def _wrong_effect(*_: object, **__: object) -> Any:
    raise KeyError("on purpose")


def _object(*_: object, **__: object) -> Any:
    return object()


async def _coroutine(*_: object, **__: object) -> Any:
    return object()


WAYS = {"raises": _raises, "raises later": _wrong_effect, "object": _object, "coroutine": _coroutine}


def broken(service: object, method: str, way: Callable[..., Any], *, after: int = 0) -> object:
    """Return a service of which one method breaks from one call on; the others work."""
    calls = 0

    def misbehave(self: object, *args: object, **kwargs: object) -> Any:
        nonlocal calls
        calls += 1
        if calls > after:
            return way(*args, **kwargs)
        found = getattr(service, method)
        return found(*args, **kwargs) if callable(found) else found

    misbehave.__qualname__ = f"Broken.{method}"
    member: Any = misbehave if callable(getattr(service, method, None)) else property(misbehave)
    members = {method: member, "__getattr__": lambda _, name: getattr(service, name)}
    made: object = type("Broken", (), members)()
    return made


@tool(requires_approval=True)
async def delete(name: str) -> str:
    """Delete a file."""
    return f"deleted {name}"


@pytest.fixture(autouse=True)
def redactors_end_with_their_test(request: pytest.FixtureRequest) -> Iterator[None]:
    """The log is redacted as long as a redactor exists, also a broken one of an earlier test."""
    yield
    if "redact" in request.node.name:
        gc.collect()


def agent_with_all_services() -> ReactiveAgent:
    llm = ScriptedLLM(call("delete", name="a"), answer("It is done."), price=PRICE)
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(delete).with_memory()
    builder = builder.with_approval(lambda _: True).with_cost(run_usd=1.0).with_audit()
    agent = builder.with_guardrails().with_verification().build()
    for place, (make, _) in SERVICES.items():
        layer, name = place.split(".")
        if layer in ("memory", "governance") and make() is not None:
            getattr(getattr(agent.container, layer), name).override(providers.Object(Some(make())))
    return agent


def replace(agent: ReactiveAgent, place: str, method: str, way: Callable[..., Any], after: int = 0) -> None:
    layer, name = place.split(".")
    provider = getattr(getattr(agent.container, layer), name)
    inner = SERVICES[place][0]()
    if inner is None:
        inner = provider().value_or(None)
    made = broken(inner, method, way, after=after)
    is_optional = layer != "core" and place != "models.llm"
    provider.override(providers.Object(Some(made) if is_optional else made))


async def outcome(agent: ReactiveAgent) -> tuple[str, AgentError | None, list[AgentEvent]]:
    """Run the task; return the answer, the error and the events."""
    recorder = EventRecorder()
    agent.subscribe(recorder)
    try:
        result = await agent.run("Delete a.", session="s", user="u")
    except AgentError as error:
        return "", error, recorder.events
    finally:
        await agent.aclose()
    return str(result.output), None, recorder.events


@pytest.mark.system
@pytest.mark.parametrize(("way", "after"), [*((way, 0) for way in WAYS), ("raises", 2)])
@pytest.mark.parametrize(
    ("place", "method"), [(place, method) for place, (_, methods) in SERVICES.items() for method in methods]
)
async def test_a_service_that_breaks_its_port_never_makes_a_run_raise(
    place: str, method: str, way: str, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    agent = agent_with_all_services()
    replace(agent, place, method, WAYS[way], after)
    with caplog.at_level(logging.WARNING, "reactive_agents"):
        output, error, events = await outcome(agent)
    if error is None and (after or (place, method) in QUIET):
        return
    told = [str(error or ""), output, caplog.text, *map(repr, events)]
    sign = WITHHELD if place == "core.redactor" else "Broken"
    assert any(sign in text for text in told), (output, error)


@pytest.mark.parametrize(
    ("place", "method", "service"),
    [
        ("core.clock", "now", "clock"),
        ("core.clock", "monotonic", "clock"),
        ("core.ids", "new", "ids"),
        ("models.llm", "model", "llm"),
    ],
)
@pytest.mark.parametrize(("after", "way"), [(0, "raises"), (1, "raises"), (2, "raises"), (0, "object")])
async def test_a_clock_ids_or_a_model_that_fail_end_the_run_with_the_service_and_method(
    place: str, method: str, service: str, after: int, way: str
) -> None:
    agent = agent_with_all_services()
    replace(agent, place, method, WAYS[way], after)
    _, error, _ = await outcome(agent)
    if error is None:
        assert after >= 2  # it was not asked as often before the last turn
        return
    cause = root_cause(error.error)  # type: ignore[arg-type]
    assert isinstance(cause, ServiceFailed)
    if cause.service == "sessions":  # its store reads the clock too
        assert (cause.operation, method, after) == ("begin", "monotonic", 1)
        assert "on purpose" in str(error)
        return
    assert (cause.service, cause.operation) == (service, method)
    assert f"{method} of the {service} service Broken" in str(error)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("place", ["memory.effectiveness", "governance.audit"])
async def test_a_service_that_lacks_a_method_loses_no_answer(
    place: str, durable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    model = ScriptedLLM(forever(answer("It is done.")))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning("adaptive")
    agent = (builder.with_durability(":memory:") if durable else builder).with_memory().build()
    layer, name = place.split(".")
    getattr(getattr(agent.container, layer), name).override(object())
    async with agent:
        assert (await agent.run("Do it.")).output == "It is done."
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_an_event_handler_that_asks_for_what_was_cancelled_ends_no_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def report(event: AgentEvent) -> None:
        raise asyncio.CancelledError  # as the result of a cancelled future does

    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("It is done."))).build()
    agent.subscribe(report)
    assert (await agent.run("Do it.")).output == "It is done."
    assert "report failed on TaskStarted" in caplog.text


async def test_a_clock_whose_attributes_raise_is_named() -> None:
    class Remote(FakeClock):
        @property
        def now(self) -> Any:  # type: ignore[override]
            raise ConnectionError("no clock is reached")

    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("It is done."))).build()
    agent.container.core.clock.override(Remote())
    with pytest.raises(AgentError, match="now of the clock service Remote raised ConnectionError"):
        await agent.run("Do it.")


async def test_a_record_that_counts_as_empty_is_used() -> None:
    class Empty(SqliteRunRecord):
        def __len__(self) -> int:
            return 0

    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("It is done."))).build()
    agent.container.memory.record.override(Empty(IN_PROCESS, clock=SystemClock()))
    assert (await agent.run("Do it.", run_id="r")).output == "It is done."
    assert [each.run_id for each in await agent.runs.list()] == ["r"]
    await agent.aclose()


@pytest.mark.parametrize("method", ["begin", "end", "state"])
async def test_sessions_that_lack_a_method_are_named_before_the_model_is_asked(method: str) -> None:
    class Sessions:
        pass

    model = ScriptedLLM(answer("It is done."))
    agent = ReactiveAgents.create().with_llm(model).build()
    sessions = Sessions()
    for present in {"begin", "end", "state"} - {method}:
        setattr(sessions, present, lambda *_: None)
    agent.container.memory.sessions.override(sessions)
    with pytest.raises(AgentError) as raised:
        await agent.run("Do it.", session="s")
    assert root_cause(raised.value.error) == ServiceFailed(  # type: ignore[arg-type]
        f"The sessions service Sessions has no {method!r}.", "sessions", method
    )
    assert not model.requests


def test_a_service_in_the_place_of_the_clock_is_named() -> None:
    agent = ReactiveAgents.create().with_model("offline").build()
    agent.container.core.clock.override(SequentialIds())
    with pytest.raises(AgentError, match="now of the clock service SequentialIds"):
        agent.run_sync("Do it.")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1"])
async def test_a_time_that_is_no_number_is_no_time(value: object) -> None:
    agent = agent_with_all_services()
    replace(agent, "core.clock", "monotonic", lambda: value)
    _, error, _ = await outcome(agent)
    assert "monotonic of the clock service Broken returned" in str(error)


async def test_a_run_with_a_broken_clock_is_recorded_and_has_its_last_event() -> None:
    agent = agent_with_all_services()
    replace(agent, "core.clock", "now", _raises, 3)
    _, error, events = await outcome(agent)
    assert error is not None
    assert type(events[-1]).__name__ == "TaskFailed"
    audit: Any = agent.container.governance.audit().unwrap()
    assert [entry.status for entry in audit.entries] == [None, "failed"]  # its start, and its end


@pytest.mark.parametrize(
    "wrong",
    [TokenPrice(float("nan"), 0.1), TokenPrice(-1.0, 0.1), TokenPrice(0.1, "1")],  # type: ignore[arg-type]
)
async def test_a_price_that_is_none_is_the_reason_why_the_budget_allows_no_call(
    wrong: TokenPrice, caplog: pytest.LogCaptureFixture
) -> None:
    agent = agent_with_all_services()
    replace(agent, "models.prices", "price", lambda _: FutureResult.from_value(wrong))
    result = await agent.run("Delete a.")
    assert result.metadata.terminated_by == "budget"
    assert "The prices service Broken returned TokenPrice(" in result.reason
    assert "The prices service Broken returned TokenPrice(" in caplog.text


@pytest.mark.parametrize("way", WAYS)
async def test_where_nothing_can_be_redacted_texts_are_withheld(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "the secret of the run"

    def tells(*_: object) -> Any:
        raise ValueError(secret)

    agent = agent_with_all_services()
    replace(agent, "core.redactor", "redact", WAYS[way])
    agent.container.models.llm.override(providers.Object(broken(ScriptedLLM(price=PRICE), "complete", tells)))
    _, error, events = await outcome(agent)
    assert WITHHELD in str(error)
    assert secret not in f"{error!r} {caplog.text}"
    assert not any(secret in repr(event) for event in events)


# --- Services and strategies that never return -----------------------------------------------------------


class Silent:
    """Implements parts of several ports; the methods that are given never return."""

    def __init__(self, *silent: str) -> None:
        self._silent = silent

    @effect
    async def begin(self, *_: object, **__: object) -> Result[History, SessionErrors]:
        return await self._answer("begin", History())

    @effect
    async def end(self, *_: object) -> Result[None, SessionErrors]:
        return await self._answer("end", None)

    @effect
    async def state(self, *_: object) -> Result[JsonObject, SessionErrors]:
        return await self._answer("state", {})

    @effect
    async def check(self, text: str, stage: str, llm: object) -> Result[GuardrailReport, ServiceFailed]:
        return await self._answer(stage, GuardrailReport(allowed=True))

    @effect
    async def history(self, _: str) -> Result[tuple[StrategyEffectiveness, ...], MemoryErrors]:
        return await self._answer("history", ())

    async def _answer(self, name: str, answer: T) -> Result[T, Never]:
        if name in self._silent:
            await anyio.sleep_forever()
        return Success(answer)


def limited_agent(**services: object) -> ReactiveAgent:
    """An agent with a time limit for its runs, on the clock of the event loop."""
    llm = ScriptedLLM(forever(answer("It is done.")))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_timeout(run=60).build()
    agent.container.core.clock.override(LoopClock())
    for place, service in services.items():
        layer, _, name = place.partition("_")
        getattr(getattr(agent.container, layer), name).override(service)
    return agent


@in_virtual_time
async def test_a_strategy_that_never_returns_is_cut_off_at_the_time_limit_of_the_run() -> None:
    @effect
    async def endless(
        _: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        await anyio.sleep_forever()
        raise AssertionError

    builder = ReactiveAgents.create().with_llm(ScriptedLLM()).with_strategy("endless", endless)
    agent = builder.with_reasoning("endless").with_timeout(run=60).build()
    agent.container.core.clock.override(LoopClock())
    result = await agent.run("Do it.")
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")
    assert result.reason == "The time limit of the run was reached. Missing: a final answer."


@in_virtual_time
async def test_an_output_that_the_guardrail_never_checks_is_withheld_at_the_time_limit() -> None:
    agent = limited_agent(governance_guardrail=Silent("output"))
    with pytest.raises(AgentError) as caught:
        await agent.run("Do it.")
    cause = root_cause(caught.value.error)
    late = "The guardrail service did not check the output before the time limit of the run."
    assert cause == ServiceFailed(late, "guardrail", "check")
    assert "It is done." not in repr(caught.value)


@in_virtual_time
async def test_records_of_strategies_that_are_never_read_withhold_no_answer() -> None:
    agent = limited_agent(memory_effectiveness=Silent("history"))
    assert (await agent.run("Do it.")).output == "It is done."


@in_virtual_time
async def test_a_session_that_is_never_ended_withholds_no_answer() -> None:
    agent = limited_agent(memory_sessions=Silent("end"))
    recorder = EventRecorder()
    agent.subscribe(recorder)
    assert (await agent.run("Do it.", session="s")).output == "It is done."
    (failed,) = recorder.of(ExecutionPhaseFailed)
    assert failed.error.message == "The sessions service did not answer in time."


# --- Services that raise after the loop --------------------------------------------------------------------


def _raising(name: str, inner: object, after: int = 0) -> object:
    """Return a service of which one attribute raises when it is read once more."""
    reads = 0

    def read(_: object) -> Any:
        nonlocal reads
        reads += 1
        if reads <= after:
            return getattr(inner, name)
        raise ConnectionError("nothing is reached")

    members = {name: property(read), "__getattr__": lambda _, other: getattr(inner, other)}
    made: object = type("Unreached", (), members)()
    return made


@pytest.mark.parametrize(
    ("place", "attribute", "inner"),
    [
        ("governance.verifier", "verify", FixedVerifier(0.9)),
        ("memory.memory", "flush", InMemoryMemory()),
        ("memory.memory", "snapshot", InMemoryMemory()),
        ("governance.cost_tracker", "place", RecordingCostTracker()),
        ("governance.cost_tracker", "record", RecordingCostTracker()),
        ("governance.audit", "append", RecordingAuditLog()),
        ("memory.effectiveness", "record", InMemoryEffectivenessTracker()),
    ],
)
async def test_a_service_that_raises_after_the_loop_never_loses_the_paid_answer(
    place: str, attribute: str, inner: object
) -> None:
    output, error, events = await with_service(place, _raising(attribute, inner))
    assert (output, error) == ("It is done.", None)
    told = [each.error.message for each in events if isinstance(each, ExecutionPhaseFailed)]
    assert any("ConnectionError" in each for each in told)
    assert type(events[-1]).__name__ == "TaskCompleted"


async def test_a_session_store_that_raises_at_the_end_never_loses_the_paid_answer() -> None:
    agent = ReactiveAgents.create().with_llm(scripted()).with_reasoning().build()
    agent.container.memory.sessions.override(_raising("end", Silent(), after=1))
    output, error, events = await outcome(agent)
    assert (output, error) == ("It is done.", None)
    (failed,) = [each for each in events if isinstance(each, ExecutionPhaseFailed)]
    problem = "raised ConnectionError for its 'end': nothing is reached"
    assert failed.error.message == f"The sessions service Unreached {problem}"


async def test_the_log_says_of_a_failed_run_that_its_session_is_held_and_not_that_it_lacks_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM()).with_reasoning().build()
    agent.container.memory.sessions.override(_raising("end", Silent(), after=1))
    _, error, _ = await outcome(agent)
    assert error is not None
    (said,) = (each.getMessage() for each in caplog.records if "session" in each.getMessage())
    assert " did not give back its turn of session " in said


async def test_a_reasoning_service_that_raises_at_the_end_never_loses_the_paid_answer() -> None:
    agent = ReactiveAgents.create().with_llm(scripted()).with_reasoning().build()
    reasoning = agent.container.reasoning.reasoning().unwrap()
    agent.container.reasoning.reasoning.override(_raising("learns_from", reasoning))
    output, error, events = await outcome(agent)
    assert (output, error) == ("It is done.", None)
    (failed,) = [each for each in events if isinstance(each, ExecutionPhaseFailed)]
    assert failed.error.message == "Learning from the run raised ConnectionError: nothing is reached"


async def test_a_run_whose_end_raises_ends_with_a_typed_error_and_its_figures() -> None:
    model = scripted()
    inner = ReactiveAgents.create().with_llm(model).with_reasoning().with_cost().build()
    inner.container.governance.cost_tracker.override(_raising("place", RecordingCostTracker()))
    raised: list[AgentError] = []

    @tool
    async def ask(question: str) -> str:
        """Ask another agent."""
        try:
            return str((await inner.run(question)).output)
        except AgentError as error:
            raised.append(error)
            raise

    llm = ScriptedLLM(call("ask", question="What?"), forever(answer("It is done.")))
    outer = ReactiveAgents.create().with_llm(llm)
    recorder = EventRecorder()
    inner.subscribe(recorder)
    assert (await outer.with_reasoning().with_tools(ask).build().run("Do it.")).output == "It is done."
    (error,) = raised
    assert "ConnectionError" in str(error)
    (failed,) = recorder.of(TaskFailed)
    assert (failed.metadata.model_calls, failed.error) == (len(model.requests), error.error)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize(
    ("phase", "field"),
    [
        ("bootstrap", "task"),
        ("bootstrap", "selected_model"),
        ("verify", "task"),
        ("verify", "reasoning"),
        ("memory-flush", "verification"),
        ("complete", "result"),
    ],
)
async def test_a_run_always_ends_with_a_typed_error_its_figures_and_its_record(
    phase: Any, field: str, durable: bool, tmp_path: Path
) -> None:
    """A hook that changes its context in place stands for any defect while a run is ended."""
    model, recorder = scripted(), EventRecorder()
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_memory().with_verification()
    builder = builder.with_durability(tmp_path / "runs.db") if durable else builder
    agent = builder.with_hook(phase, "after", lambda context: vars(context).update({field: 5})).build()
    agent.subscribe(recorder)
    async with agent:
        with pytest.raises(AgentError) as raised:
            await agent.run("Do it.", run_id="r")
        assert agent.running() == ()
        if durable:
            assert [each.status for each in await agent.runs.list()] == ["failed"]
    last = recorder.events[-1]
    assert isinstance(last, TaskFailed)
    assert (last.error, last.metadata.model_calls) == (raised.value.error, len(model.requests))


# --- The right class with a wrong field --------------------------------------------------------------------


def returns(method: str, value: object) -> object:
    """Return a service whose method returns a value."""

    @effect
    async def give(*_: object, **__: object) -> Any:
        return Success(value)

    made: object = type("Wrong", (), {method: give, "end": give, "state": give, "flush": give})()
    return made


def scripted() -> ScriptedLLM:
    return ScriptedLLM(forever(answer("It is done.")))


async def with_service(place: str, service: object) -> tuple[str, AgentError | None, list[AgentEvent]]:
    builder = ReactiveAgents.create().with_llm(scripted()).with_reasoning().with_memory()
    agent = builder.with_cost().with_audit().build()
    layer, name = place.split(".")
    getattr(getattr(agent.container, layer), name).override(providers.Object(service))
    return await outcome(agent)


ENDS_THE_RUN: list[tuple[str, str, object, str]] = [
    ("governance.guardrail", "check", GuardrailReport("no"), "allowed: got 'no'"),  # type: ignore[arg-type]
    ("governance.guardrail", "check", GuardrailReport(1), "allowed: got 1"),  # type: ignore[arg-type]
    ("governance.guardrail", "check", GuardrailReport(True, findings=None), "findings: got None"),  # type: ignore[arg-type]
    ("governance.guardrail", "check", GuardrailReport(True, redacted=5), "redacted: got 5"),  # type: ignore[arg-type]
    ("memory.sessions", "begin", History(results=None), "results: got None"),  # type: ignore[arg-type]
    ("memory.sessions", "begin", History(messages=(5,)), "messages: got an array"),  # type: ignore[arg-type]
]
IS_TOLD: list[tuple[str, str, object, str]] = [
    ("governance.verifier", "verify", VerificationReport(0.9, "no"), "verified: got 'no'"),  # type: ignore[arg-type]
    ("governance.verifier", "verify", VerificationReport("x", True), "confidence: got 'x'"),  # type: ignore[arg-type]
    ("governance.verifier", "verify", VerificationReport(float("nan"), True), "confidence: got nan"),
    (
        "governance.verifier",
        "verify",
        VerificationReport(1.01, True),
        "confidence: got 1.01, expected 0 to 1",
    ),
    (
        "governance.verifier",
        "verify",
        VerificationReport(-0.5, True),
        "confidence: got -0.5, expected 0 to 1",
    ),
    ("governance.verifier", "verify", VerificationReport(1, True, agreement=2.0), "agreement: got 2.0"),
    ("governance.verifier", "verify", VerificationReport(0.9, True, None), "findings: got None"),  # type: ignore[arg-type]
    ("governance.cost_router", "select_model", ModelRoute(5, "x"), "model: got 5"),  # type: ignore[arg-type]
    ("memory.memory", "bootstrap", MemoryContext("1", episodes=None), "episodes: got None"),  # type: ignore[arg-type]
    ("memory.memory", "bootstrap", MemoryContext("9"), "tier: got '9'"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("place", "method", "value", "problem"), ENDS_THE_RUN)
async def test_a_wrong_field_of_a_service_that_is_needed_ends_the_run_with_its_name(
    place: str, method: str, value: object, problem: str
) -> None:
    _, error, events = await with_service(place, returns(method, value))
    assert error is not None
    service = place.partition(".")[2]
    message = f"The {service} service Wrong returned a {type(value).__name__} with a wrong {problem}"
    assert message in str(error)
    assert type(events[-1]).__name__ == "TaskFailed"


@pytest.mark.parametrize(("place", "method", "value", "problem"), IS_TOLD)
async def test_a_wrong_field_of_a_service_that_is_not_needed_is_an_event_with_its_name(
    place: str, method: str, value: object, problem: str
) -> None:
    output, _, events = await with_service(place, returns(method, value))
    assert output == "It is done."
    failed = [each.error.message for each in events if isinstance(each, ExecutionPhaseFailed)]
    assert any(f"returned a {type(value).__name__} with a wrong {problem}" in each for each in failed)


async def test_a_list_of_right_values_in_a_report_is_no_wrong_field() -> None:
    report = VerificationReport(1, True, ["a finding"])  # type: ignore[arg-type]
    _, error, events = await with_service("governance.verifier", returns("verify", report))
    assert error is None
    assert not [each for each in events if isinstance(each, ExecutionPhaseFailed)]


class Models(StrEnum):
    """The models of a program."""

    SMALL = "scripted/small"


@pytest.mark.parametrize(
    ("place", "method", "value"),
    [
        ("governance.cost_router", "select_model", ModelRoute(Models.SMALL, "it is small")),
        ("memory.sessions", "begin", History(results=MappingProxyType({"a": "b"}))),
    ],
)
async def test_a_subclass_or_a_mapping_of_another_kind_is_no_wrong_field(
    place: str, method: str, value: object
) -> None:
    _, error, events = await with_service(place, returns(method, value))
    assert error is None
    problems = [each.error.message for each in events if isinstance(each, ExecutionPhaseFailed)]
    assert not [each for each in problems if "wrong" in each]


async def test_a_wrong_item_of_a_history_names_the_service() -> None:
    tracker: Any = returns("history", (5,))
    tracker.record = InMemoryEffectivenessTracker().record
    agent = ReactiveAgents.create().with_llm(scripted()).with_reasoning("adaptive").build()
    agent.container.memory.effectiveness.override(tracker)
    _, error, events = await outcome(agent)
    assert "The effectiveness service" in f"{error} {events}"
    assert "a wrong items: got" in f"{error} {events}"


async def test_a_durable_run_with_a_wrong_field_is_ended_in_its_record(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_llm(scripted()).with_reasoning()
    agent = builder.with_durability(tmp_path / "runs.db").build()
    agent.container.governance.guardrail.override(returns("check", GuardrailReport("no")))  # type: ignore[arg-type]
    async with agent:
        with pytest.raises(AgentError, match="wrong allowed"):
            await agent.run("Do it.", run_id="r")
        assert [each.status for each in await agent.runs.list()] == ["failed"]


USAGE: Any = Usage("1", "2", "3")  # type: ignore[arg-type]
RESPONSES: list[tuple[dict[str, Any], str]] = [
    ({"thinking": None}, "thinking None"),
    ({"model": 5}, "model 5"),
    ({"refused": None}, "refused None"),
    ({"refused": (5,)}, "refused (5,)"),
    ({"usage": USAGE}, "usage Usage(input_tokens='1'"),
    ({"tool_calls": (ToolCall(CallId("c"), None, {}),)}, "tool_calls (ToolCall(id='c', name=None"),  # type: ignore[arg-type]
    ({"tool_calls": (ToolCall(CallId("c"), "look", {"n": {1}}),)}, "tool_calls (ToolCall("),  # type: ignore[dict-item]
]


@pytest.mark.parametrize(("fields", "problem"), RESPONSES)
async def test_a_wrong_field_of_a_response_names_the_model_service(
    fields: dict[str, Any], problem: str
) -> None:
    response = ModelResponse(**{"content": "It is done.", "model": "scripted/1", **fields})
    llm: Any = returns("complete", response)
    llm.model, llm.stream = "scripted/1", None
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().build()
    with pytest.raises(AgentError, match=re.escape(f"service Wrong returned a response with the {problem}")):
        await agent.run("Do it.")


@pytest.mark.parametrize(
    "given",
    [5, ToolDefinition(None, "", {}), ToolDefinition("look", "", None)],  # type: ignore[arg-type]
)
async def test_a_wrong_definition_names_the_tool_service(given: object) -> None:
    tools: Any = returns("execute", None)
    tools.definitions = lambda: (given,)
    agent = ReactiveAgents.create().with_llm(scripted()).with_reasoning().build()
    agent.container.tooling.tools.override(tools)
    with pytest.raises(AgentError, match=r"The tool service Wrong returned .*, expected a tuple of Tool"):
        await agent.run("Do it.")


@pytest.mark.parametrize(("field", "value"), [("call_id", None), ("result", {1}), ("duration_ms", "long")])
async def test_a_wrong_field_of_a_tool_result_names_the_tool_service(field: str, value: object) -> None:
    fields: dict[str, Any] = {"call_id": "c", "tool_name": "look", "result": "found", field: value}
    tools: Any = returns("execute", ToolResult(**fields))
    tools.definitions = lambda: (ToolDefinition("look", "Look", {"type": "object"}),)
    llm = ScriptedLLM(call("look"), forever(answer("It is done.")))
    agent = ReactiveAgents.create().with_llm(llm).with_reasoning().build()
    agent.container.tooling.tools.override(tools)
    result = await agent.run("Do it.")
    observed = [step.content for step in result.steps if step.type == "observation"]
    assert f"The tool service Wrong returned a ToolResult with a wrong {field}" in str(observed)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"status": "nice"}, "status: got 'nice'"),
        ({"output": 7}, "output: got 7"),
        ({"metadata": None}, "metadata: got None"),
        (
            {"metadata": ReasoningMetadata(0.0, 0.0, 0, 0, 2.0)},
            "metadata.confidence: got 2.0",
        ),
        ({"steps": None}, "steps: got None"),
    ],
)
async def test_a_wrong_field_of_a_result_names_the_strategy(changes: dict[str, Any], problem: str) -> None:
    @effect
    async def mine(
        given: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        return (await attempt(reactive(given, services))).map(lambda result: evolve(result, **changes))

    builder = ReactiveAgents.create().with_llm(scripted()).with_strategy("mine", mine)
    agent = builder.with_reasoning("mine").build()
    with pytest.raises(AgentError) as raised:
        await agent.run("Do it.")
    assert f"The strategy mine returned a ReasoningResult with a wrong {problem}" in str(raised.value)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("phase", "change"),
    [
        ("bootstrap", {"task": None}),
        ("bootstrap", {"selected_model": 5}),
        ("think", {"messages": None}),
        ("verify", {"verification": VerificationReport(0.9, "no")}),  # type: ignore[arg-type]
        ("memory-flush", {"reasoning": 5}),
    ],
)
async def test_a_context_with_a_wrong_field_is_dropped_or_fails_a_strict_hook(
    phase: Any, change: dict[str, Any], strict: bool
) -> None:
    builder = ReactiveAgents.create().with_llm(scripted()).with_reasoning().with_memory()
    builder = builder.with_verification().with_hook(phase, "after", lambda context: evolve(context, **change))
    output, error, events = await outcome(builder.with_strict_hooks(strict).build())
    problem = f"returned a context with a wrong {next(iter(change))}"
    assert any(problem in each.error for each in events if isinstance(each, ExecutionHookFailed))
    assert (problem in str(error)) if strict else (output == "It is done.")


async def test_a_hook_may_keep_any_object_in_the_metadata_of_its_context() -> None:
    kept = object()
    builder = ReactiveAgents.create().with_llm(scripted()).with_reasoning()
    builder = builder.with_hook("bootstrap", "after", lambda it: evolve(it, metadata={"mine": kept}))  # type: ignore[dict-item]
    _, error, events = await outcome(builder.build())
    assert error is None
    assert not [each for each in events if isinstance(each, ExecutionHookFailed)]


@pytest.mark.parametrize(
    ("place", "given", "problem"),
    [
        ("engine.ports", 5, "engine.ports: got 5, expected EnginePorts"),
        ("engine.engine", 5, "engine.engine: got 5, expected ExecutionEngine"),
        ("governance.guardrail", int, "governance.guardrail: got the class int, expected a service"),
        ("memory.memory", int, "memory.memory: got the class int, expected a service"),
    ],
)
async def test_an_override_with_a_wrong_object_names_its_provider(
    place: str, given: object, problem: str
) -> None:
    agent = ReactiveAgents.create().with_llm(scripted()).with_reasoning().build()
    layer, name = place.split(".")
    getattr(getattr(agent.container, layer), name).override(given)
    with pytest.raises(TypeError, match=problem):
        await agent.run("Do it.")


async def test_a_controller_that_is_none_is_named() -> None:
    agent = ReactiveAgents.create().with_llm(scripted()).with_reasoning().build()
    agent.container.reasoning.controller.override(providers.Object(lambda _: None))
    expected = "reasoning.controller: got a function, expected a ReasoningController"
    with pytest.raises(AgentError, match=expected):
        await agent.run("Do it.")
