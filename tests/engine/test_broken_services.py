"""A service that raises or returns the wrong thing gives a typed error that names it; no answer is lost."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Never, TypeVar

import anyio
import pytest
from attrs import evolve
from returns.future import future_safe
from returns.maybe import Some
from returns.result import Result, Success

from reactive_agents.core.config import AdaptiveConfig, ReasoningConfig, TimeoutConfig
from reactive_agents.core.errors import BudgetErrors, ExecutionError, ServiceFailed, root_cause
from reactive_agents.core.events import (
    AgentEvent,
    BudgetNotSettled,
    ExecutionPhaseFailed,
    StrategySelected,
    TaskCompleted,
)
from reactive_agents.core.governance import (
    BudgetUse,
    GuardrailReport,
    ModelRoute,
    Reservation,
    VerificationReport,
)
from reactive_agents.core.ids import RunId
from reactive_agents.core.memory import FlushReport, MemoryContext
from reactive_agents.core.models import TokenPrice
from reactive_agents.effects import effect
from reactive_agents.engine import ExecutionContext, LifecycleHook
from reactive_agents.reasoning import ReasoningService, StrategyRegistry
from reactive_agents.testing import (
    AllowAll,
    FakeTools,
    FixedRouter,
    FixedVerifier,
    InMemoryMemory,
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
    answer,
    say,
)
from tests.support.engines import bench
from tests.support.virtual_time import LoopClock

pytestmark = pytest.mark.anyio
T = TypeVar("T")


def raising(*_: object, **__: object) -> object:
    raise OSError("the disk is gone")


@effect
async def raising_effect(*_: object, **__: object) -> Any:
    raise OSError("the disk is gone")


@future_safe
async def unsafe(*_: object, **__: object) -> object:
    raise OSError("the disk is gone")


async def awaits_what_was_cancelled(*_: object, **__: object) -> object:
    task = asyncio.ensure_future(asyncio.sleep(1))
    task.cancel()
    return await task


def wrong_type(*_: object, **__: object) -> int:
    return 42


@effect
async def wrong_value(*_: object, **__: object) -> Any:
    return Success(42)


def lacking(_: object) -> object:
    raise AttributeError


BROKEN: dict[str, tuple[object, str]] = {
    "lacks it": (property(lacking), "has no "),
    "raises": (raising, "raised OSError: the disk is gone"),
    "raises later": (raising_effect, "raised OSError: the disk is gone"),
    "future_safe": (unsafe, "failed with OSError, which is no typed error: OSError('the disk is gone')"),
    "cancelled inside": (awaits_what_was_cancelled, "raised CancelledError: "),
    "no effect": (wrong_type, "returned int, expected an effect: an async function with @effect."),
}
WRONG_VALUE = (wrong_value, "returned Success(int), expected ")
SERVICES: list[tuple[str, type[Any], str, str, str]] = [
    ("memory", InMemoryMemory, "bootstrap", "bootstrap", "memory"),
    ("guardrail", AllowAll, "check", "guardrail", "guardrail"),
    ("cost_router", lambda: FixedRouter("m"), "select_model", "cost-route", "cost router"),  # type: ignore[list-item]
    ("verifier", lambda: FixedVerifier(1.0), "verify", "verify", "verification"),  # type: ignore[list-item]
    ("memory", InMemoryMemory, "flush", "memory-flush", "memory"),
    ("memory", InMemoryMemory, "snapshot", "memory-flush", "memory"),
    ("cost_tracker", RecordingCostTracker, "record", "cost-track", "cost tracking"),
    ("audit", RecordingAuditLog, "append", "audit", "audit"),
]
ANSWERS_NOTHING = {"snapshot", "record", "append"}


def with_method(service: Any, name: str, method: object) -> Any:
    """The service with another method, as a class of the user has it."""
    service.__class__ = type("Custom", (type(service),), {name: method})
    return service


@pytest.mark.parametrize("how", [*BROKEN, "wrong value"])
@pytest.mark.parametrize(
    ("port", "make", "method", "phase", "name"),
    SERVICES,
    ids=[f"{port}.{method}" for port, _, method, *_ in SERVICES],
)
async def test_a_service_that_breaks_its_contract_is_named(
    port: str, make: Callable[[], Any], method: str, phase: str, name: str, how: str
) -> None:
    broken, problem = BROKEN.get(how, WRONG_VALUE)
    service = with_method(make(), method, broken)
    made = bench(ScriptedLLM(answer("The answer.")), **{port: service})
    outcome = await made.run()
    if phase == "guardrail":  # what could not be checked does not run
        error = root_cause(outcome.failure().error)
    else:
        result = outcome.unwrap()
        assert (result.status, result.output) == ("completed", "The answer.")
        if how == "wrong value" and method in ANSWERS_NOTHING:
            return  # nobody reads what such a service returns
        *first, failed = made.recorder.of(ExecutionPhaseFailed)
        assert len(first) == (phase == "audit")  # of the start of the run
        assert (failed.phase, failed.fatal) == (phase, False)
        error = root_cause(failed.error)
    assert isinstance(error, ServiceFailed)
    assert (error.service, error.operation) == (name, method)
    assert error.message.startswith(f"The {name} service Custom {problem}")


@pytest.mark.parametrize(
    ("port", "make", "method", "given"),
    [
        ("memory", InMemoryMemory, "bootstrap", MemoryContext("1")),
        ("memory", InMemoryMemory, "flush", FlushReport(0, 0)),
        ("guardrail", AllowAll, "check", GuardrailReport(allowed=True)),
        ("cost_router", lambda: FixedRouter("m"), "select_model", ModelRoute("m", "cheap")),
        ("verifier", lambda: FixedVerifier(1.0), "verify", VerificationReport(1.0, True)),
        ("cost_tracker", RecordingCostTracker, "record", None),
        ("audit", RecordingAuditLog, "append", None),
    ],
)
async def test_a_service_whose_effect_was_forgotten_is_accepted(
    port: str, make: Callable[[], Any], method: str, given: object
) -> None:
    async def forgotten(*_: object, **__: object) -> object:
        return Success(given)

    service = with_method(make(), method, forgotten)
    made = bench(ScriptedLLM(answer("The answer.")), **{port: service})
    assert (await made.run()).unwrap().output == "The answer."
    assert made.recorder.of(ExecutionPhaseFailed) == []


async def test_a_service_that_raises_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    memory = with_method(InMemoryMemory(), "flush", raising)
    with caplog.at_level(logging.WARNING, "reactive_agents"):
        await bench(ScriptedLLM(answer("The answer.")), memory=memory).run()
    assert "in raising" in caplog.text
    assert "the disk is gone" in caplog.text


async def test_learning_that_raises_loses_no_answer() -> None:
    class Reasoning(ReasoningService):
        def learns_from(self, result: object) -> bool:
            return True

        async def learn(self, *args: object, **kwargs: object) -> None:
            raise OSError("the disk is gone")

    service = Reasoning(StrategyRegistry(), ReasoningConfig())
    made = bench(ScriptedLLM(answer("The answer.")), reasoning_service=service)
    assert (await made.run()).unwrap().output == "The answer."
    (failed,) = made.recorder.of(ExecutionPhaseFailed)
    assert "OSError: the disk is gone" in failed.error.message
    assert isinstance(made.recorder.events[-1], TaskCompleted)


@pytest.mark.parametrize("how", [*BROKEN])
@pytest.mark.parametrize("method", ["record", "history"])
async def test_records_of_strategies_that_fail_lose_no_answer(method: str, how: str) -> None:
    class Tracker:
        async def record(self, *_: object, **__: object) -> Result[None, ServiceFailed]:
            return Success(None)

        async def history(self, task_type: str) -> Result[tuple[()], ServiceFailed]:
            return Success(())

    broken, problem = BROKEN[how]
    tracker = with_method(Tracker(), method, broken)
    config = ReasoningConfig(adaptive=AdaptiveConfig(enabled=True))
    service = ReasoningService(StrategyRegistry(), config, effectiveness=Some(tracker))
    made = bench(
        ScriptedLLM(answer("The answer.")),
        reasoning_service=service,
        options={"reasoning": config},
    )
    assert (await made.run()).unwrap().output == "The answer."
    assert isinstance(made.recorder.events[-1], TaskCompleted)
    if method == "record":
        (failed,) = made.recorder.of(ExecutionPhaseFailed)
        error = root_cause(failed.error)
        assert isinstance(error, ServiceFailed)
        assert error.message.startswith(f"The effectiveness service Custom {problem}")
    else:
        reasons = [event.reason for event in made.recorder.of(StrategySelected)]
        assert f"The effectiveness service Custom {problem}" in " ".join(reasons)


@pytest.mark.parametrize(
    ("broken", "problem"),
    [
        (raising, "raised OSError: the disk is gone"),
        (wrong_type, "returned int, expected a tuple of ToolDefinition."),
        (
            awaits_what_was_cancelled,
            "returned coroutine, expected a tuple of ToolDefinition.",
        ),
    ],
)
async def test_a_tool_service_that_cannot_list_its_tools_is_named(
    broken: Callable[..., object], problem: str
) -> None:
    made = bench(ScriptedLLM(answer("The answer.")), tools=with_method(FakeTools({}), "definitions", broken))
    error = root_cause((await made.run()).failure().error)
    assert error == ServiceFailed(f"The tool service Custom {problem}", "tools", "definitions")


@pytest.mark.parametrize("broken", [raising, awaits_what_was_cancelled, lambda *_: "many"])
async def test_a_token_counter_that_fails_is_logged_and_the_run_goes_on(
    broken: Callable[..., object], caplog: pytest.LogCaptureFixture
) -> None:
    class Counter:
        count = window = staticmethod(broken)

    with caplog.at_level(logging.WARNING, "reactive_agents"):
        made = bench(ScriptedLLM(answer("The answer.")), counter=Counter())
        assert (await made.run()).unwrap().output == "The answer."
    assert "window of the token counter Counter" in caplog.text


async def test_a_completion_that_fails_loses_no_answer() -> None:
    """A hook leaves nothing to complete: the phase fails, the answer is handed over."""

    def spoil(context: ExecutionContext) -> ExecutionContext:
        return evolve(context, reasoning=None)

    made = bench(ScriptedLLM(answer("The answer.")), hooks=[LifecycleHook("complete", "before", spoil)])
    result = (await made.run()).unwrap()
    assert (result.status, result.output) == ("completed", "The answer.")
    assert "The phase complete failed: The agent loop has no outcome." in result.reason
    assert [(event.phase, event.fatal) for event in made.recorder.of(ExecutionPhaseFailed)] == [
        ("complete", False)
    ]


async def test_an_event_bus_that_raises_fails_no_run(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def publish(self, event: AgentEvent) -> None:
            raise OSError("the wire is cut")

        def subscribe(self, *_: object, **__: object) -> Callable[[], None]:
            return lambda: None

    made = bench(ScriptedLLM(answer("The answer.")), bus=Broken())
    with caplog.at_level(logging.WARNING, "reactive_agents"):
        assert (await made.run()).unwrap().output == "The answer."
    assert "the wire is cut" in caplog.text


async def test_a_service_that_cannot_be_opened_is_a_typed_error() -> None:
    made = bench(ScriptedLLM(say("never")), open_service=raising)
    failed = (await made.run()).failure()
    assert isinstance(failed.error, ExecutionError)
    assert "OSError: the disk is gone" in failed.error.message


async def test_services_that_open_late_are_given_up_at_the_time_limit_of_the_run() -> None:
    @effect
    async def wait() -> Result[None, ServiceFailed]:
        await anyio.sleep_forever()
        raise AssertionError

    timeouts = {"timeouts": TimeoutConfig(run_s=0.02)}
    made = bench(ScriptedLLM(say("never")), open_service=wait, options=timeouts, clock=LoopClock())
    failed = (await made.run()).failure()
    assert failed.error.message.endswith("The services were not open before the time limit of the run.")


class Budget:
    """Implements ``SpendingGuard`` and ``PriceList``, and raises where it is told to."""

    def __init__(self, raises_in: str) -> None:
        self._raises_in = raises_in

    @effect
    async def reserve(self, run_id: RunId, amount_usd: float) -> Result[Reservation, BudgetErrors]:
        return Success(self._answer("reserve", Reservation(1, run_id, amount_usd)))

    @effect
    async def settle(
        self, reservation: Reservation, actual_usd: float
    ) -> Result[tuple[BudgetUse, ...], ServiceFailed]:
        return Success(self._answer("settle", ()))

    @effect
    async def spend(self, run_id: RunId, amount_usd: float) -> Result[tuple[BudgetUse, ...], ServiceFailed]:
        return Success(self._answer("spend", ()))

    @effect
    async def price(self, model: str | None) -> Result[TokenPrice | None, Never]:
        return Success(self._answer("price", TokenPrice(1e-6, 1e-6, 100)))

    def _answer(self, method: str, answer: T) -> T:
        if method == self._raises_in:
            raise OSError("the disk is gone")
        return answer


async def test_a_budget_that_cannot_be_settled_loses_no_answer() -> None:
    budget = Budget("settle")
    made = bench(ScriptedLLM(answer("The answer.", cost_usd=0.01)), budget=budget, prices=budget)
    assert (await made.run()).unwrap().output == "The answer."
    (failed,) = made.recorder.of(BudgetNotSettled)
    assert failed.error.message == "The budget service Budget raised OSError: the disk is gone"


@pytest.mark.parametrize("method", ["reserve", "price"])
async def test_a_budget_that_cannot_be_read_allows_no_call(method: str) -> None:
    budget = Budget(method)
    llm = ScriptedLLM(answer("never"))
    result = (await bench(llm, budget=budget, prices=budget).run()).unwrap()
    assert (result.status, result.metadata.terminated_by) == ("partial", "budget")
    assert llm.requests == []
