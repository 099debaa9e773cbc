"""Services that raise, or return something else than their port says, in whole runs.

A run then ends with a typed error that names the service, or goes on, and a warning, an event or the tool's
result says what failed. It never raises anything but ``AgentError``.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Iterator
from typing import Any, Never, TypeVar

import anyio
import pytest
from dependency_injector import providers
from returns.future import FutureResult
from returns.maybe import Some
from returns.result import Result, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import WITHHELD, EnvironmentRedactor, SystemClock
from reactive_agents.core.config import IN_PROCESS
from reactive_agents.core.conversation import History
from reactive_agents.core.errors import (
    MemoryErrors,
    ReasoningErrors,
    ServiceFailed,
    SessionErrors,
    root_cause,
)
from reactive_agents.core.events import AgentEvent, ExecutionPhaseFailed
from reactive_agents.core.governance import GuardrailReport
from reactive_agents.core.json import JsonObject
from reactive_agents.core.models import TokenPrice
from reactive_agents.core.results import ReasoningResult, StrategyEffectiveness
from reactive_agents.effects import effect
from reactive_agents.reasoning import StrategyInput, StrategyServices
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
@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("way", ["raises", "object"])
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
    assert [entry.status for entry in audit.entries] == ["failed"]


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
