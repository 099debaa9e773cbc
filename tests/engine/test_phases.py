"""The ten phases: their order, their services, and what becomes of a run when one of them fails."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from returns.result import Failure, Result, Success

from reactive_agents.core.config import TimeoutConfig
from reactive_agents.core.errors import (
    ExecutionError,
    GuardrailViolationError,
    MaxIterationsError,
    MemoryErrors,
    MemoryUnavailable,
    ModelUnavailable,
    ServiceFailed,
    ServiceMissing,
    TaskError,
    root_cause,
)
from reactive_agents.core.events import (
    ExecutionPhaseEntered,
    ExecutionPhaseFailed,
    ExecutionPhaseSkipped,
    MemoryBootstrapped,
    MemoryFlushed,
    MemorySnapshotSaved,
    ModelCallCompleted,
    ModelRouted,
    ResultVerified,
    StrategySelected,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
)
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId
from reactive_agents.core.memory import MemoryContext
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import (
    AllowAll,
    BlockWords,
    FixedRouter,
    FixedVerifier,
    InMemoryMemory,
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
    call,
    fail,
    forever,
    say,
)
from tests.support.engines import bench
from tests.support.virtual_time import LoopClock

pytestmark = pytest.mark.anyio

ALL_PHASES = [
    "bootstrap",
    "guardrail",
    "cost-route",
    "strategy-select",
    "think",
    "act",
    "observe",
    "think",
    "verify",
    "memory-flush",
    "cost-track",
    "audit",
    "complete",
]


def script() -> ScriptedLLM:
    return ScriptedLLM(call("add", a=1, b=2), say("The answer is 3."))


async def test_all_ten_phases_run_in_order_and_each_calls_its_service() -> None:
    memory = InMemoryMemory(MemoryContext("1", semantic="Sums are exact."))
    guardrail, router = AllowAll(), FixedRouter("scripted/cheap")
    verifier, costs, log = FixedVerifier(0.9), RecordingCostTracker(), RecordingAuditLog()
    llm = script()
    made = bench(
        llm,
        memory=memory,
        guardrail=guardrail,
        cost_router=router,
        verifier=verifier,
        cost_tracker=costs,
        audit=log,
    )

    result = (await made.run()).unwrap()

    assert made.recorder.phases() == ALL_PHASES
    assert not made.recorder.of(ExecutionPhaseSkipped)
    assert (result.output, result.status, result.success) == ("The answer is 3.", "completed", True)
    assert result.metadata.model == "scripted/cheap"
    assert result.metadata.confidence == 0.9
    assert result.metadata.tokens_used == 30
    assert memory.bootstrapped[0][0] == "tester"
    assert any("Sums are exact." in message.content for message in llm.requests[0].messages)
    assert guardrail.checked == [
        ("What is 1 + 2?", "input"),
        ("3", "tool-result"),
        ("The answer is 3.", "output"),
    ]
    assert router.routed[0].id == "task-1"
    assert verifier.verified[0][1].output == "The answer is 3."
    assert memory.flushed[0][1].output == "The answer is 3."
    (snapshot,) = memory.snapshots
    assert (snapshot.total_tokens, snapshot.summary, snapshot.task_ids) == (
        30,
        "The answer is 3.",
        ("task-1",),
    )
    assert (costs.records[0].usage.total_tokens, costs.records[0].models[0].model) == (30, "scripted/cheap")
    assert [(each.action, each.status) for each in log.entries] == [("start", None), ("run", "completed")]


async def test_events_tell_what_the_services_did_once_each() -> None:
    made = bench(script(), memory=InMemoryMemory(), cost_router=FixedRouter("m"), verifier=FixedVerifier(0.2))
    await made.run()
    for kind in (
        TaskStarted,
        StrategySelected,
        MemoryBootstrapped,
        ModelRouted,
        ResultVerified,
        MemoryFlushed,
        MemorySnapshotSaved,
        TaskCompleted,
    ):
        assert len(made.recorder.of(kind)) == 1, kind
    assert made.recorder.of(ResultVerified)[0].verified is False
    sequence = [event.sequence for event in made.recorder.events]
    assert sequence == list(range(1, len(sequence) + 1))
    assert isinstance(made.recorder.events[-1], TaskCompleted)


async def test_phases_without_a_service_are_skipped_and_say_so() -> None:
    made = bench(script())
    await made.run()
    skipped = [event.phase for event in made.recorder.of(ExecutionPhaseSkipped)]
    assert skipped == ["guardrail", "cost-route", "verify", "memory-flush", "cost-track", "audit"]
    assert all("no " in event.reason for event in made.recorder.of(ExecutionPhaseSkipped))


async def test_a_blocked_input_ends_the_run_before_any_model_call() -> None:
    llm, log = script(), RecordingAuditLog()
    made = bench(llm, guardrail=BlockWords("forbidden"), audit=log)
    failed = (await made.run("A forbidden thing")).failure()
    assert isinstance(failed.error, GuardrailViolationError)
    assert failed.error.violation == "blocked-word"
    assert llm.requests == []
    assert [(entry.action, entry.status) for entry in log.entries] == [
        ("start", None),
        ("guardrail-block", None),
        ("run", "failed"),
    ]
    assert isinstance(made.recorder.events[-1], TaskFailed)


async def test_a_guardrail_that_fails_blocks_the_run() -> None:
    broken = AllowAll(fails_with=ServiceFailed("detector down", "guardrail", "check"))
    failed = (await bench(script(), guardrail=broken).run()).failure()
    assert isinstance(failed.error, ExecutionError)
    assert failed.error.phase == "guardrail"
    assert root_cause(failed.error) == ServiceFailed("detector down", "guardrail", "check")


async def test_services_that_only_help_fail_without_failing_the_run(caplog: pytest.LogCaptureFixture) -> None:
    made = bench(
        script(),
        memory=InMemoryMemory(fails_with=MemoryUnavailable("disk full", "flush")),
        cost_router=FixedRouter("m", fails_with=ServiceFailed("no table", "router", "select_model")),
        verifier=FixedVerifier(1.0, fails_with=ServiceFailed("no judge", "verifier", "verify")),
        cost_tracker=RecordingCostTracker(fails_with=ServiceFailed("locked", "costs", "record")),
        audit=RecordingAuditLog(fails_with=ServiceFailed("locked", "audit", "append")),
    )
    result = (await made.run()).unwrap()
    assert result.status == "completed"
    warned = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    for phase, cause in (("bootstrap", "disk full"), ("cost-track", "locked"), ("audit", "locked")):
        assert any(f"The phase {phase} failed" in each and cause in each for each in warned)
    failed = [(event.phase, event.fatal) for event in made.recorder.of(ExecutionPhaseFailed)]
    assert sorted(failed) == [
        ("audit", False),  # the start of the run, which is entered beside it
        ("audit", False),
        ("bootstrap", False),
        ("cost-route", False),
        ("cost-track", False),
        ("memory-flush", False),
        ("verify", False),
    ]


@pytest.mark.parametrize(
    ("required", "phase", "asked"),
    [("memory", "bootstrap", 0), ("audit", "audit", 0), ("cost", "cost-track", 2)],
)
async def test_a_required_record_that_fails_ends_the_run(required: str, phase: str, asked: int) -> None:
    llm = script()
    made = bench(
        llm,
        memory=InMemoryMemory(fails_with=MemoryUnavailable("disk full", "flush")),
        cost_tracker=RecordingCostTracker(fails_with=ServiceFailed("locked", "costs", "record")),
        audit=RecordingAuditLog(fails_with=ServiceFailed("locked", "audit", "append")),
        options={"required_records": (required,)},
    )
    failed = (await made.run()).failure()
    assert isinstance(failed.error, ExecutionError)
    assert failed.error.phase == phase
    assert len(llm.requests) == asked
    assert (phase, True) in [(event.phase, event.fatal) for event in made.recorder.of(ExecutionPhaseFailed)]


async def test_a_run_whose_audit_is_required_has_an_entry_before_anything_else() -> None:
    log = RecordingAuditLog()
    made = bench(script(), audit=log, options={"required_records": ("audit",)})
    (await made.run()).unwrap()
    assert [each.action for each in log.entries] == ["start", "run"]


async def test_the_start_of_a_run_is_entered_beside_it_and_before_its_other_entries() -> None:
    class Slow(RecordingAuditLog):
        """Enters the start once the model was asked."""

        def __init__(self) -> None:
            super().__init__()
            self.asked = anyio.Event()

        @effect
        async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
            if entry.action == "start":
                await self.asked.wait()
            return await attempt(super().append(entry))

    log = Slow()
    made = bench(script(), audit=log)

    def enter_after_the_model(event: object) -> None:
        if isinstance(event, ModelCallCompleted):
            log.asked.set()

    made.engine.ports.events.subscribe(enter_after_the_model)
    (await made.run()).unwrap()
    assert [each.action for each in log.entries] == ["start", "run"]


async def test_a_failed_model_call_ends_the_run_and_closes_its_account() -> None:
    costs, log = RecordingCostTracker(), RecordingAuditLog()
    error = ModelUnavailable("The server is down.", "m", 503)
    made = bench(ScriptedLLM(call("add", a=1, b=2), fail(error)), cost_tracker=costs, audit=log)
    failed = (await made.run()).failure()
    assert root_cause(failed.error) == error
    assert [step.type for step in failed.steps] == ["action", "observation"]
    assert failed.metadata.tokens_used == 15
    assert costs.records[0].usage.total_tokens == 15
    assert [(each.status, "The server is down." in each.detail) for each in log.of("run")] == [
        ("failed", True)
    ]
    (phase_failed,) = made.recorder.of(ExecutionPhaseFailed)
    assert (phase_failed.phase, phase_failed.fatal) == ("think", True)


async def test_without_reasoning_the_loop_answers_when_the_model_stops_calling() -> None:
    made = bench(script(), reasoning=False)
    result = (await made.run()).unwrap()
    assert (result.output, result.metadata.strategy_used) == ("The answer is 3.", "direct")
    assert made.recorder.of(StrategySelected)[0].strategy == "direct"


async def test_without_reasoning_the_limit_is_an_error_and_with_it_a_partial_result() -> None:
    endless = forever(call("add", a=1, b=2))
    failed = (
        await bench(ScriptedLLM(endless), reasoning=False, options={"max_iterations": 3}).run()
    ).failure()
    assert failed.error == MaxIterationsError("task-1", 3, 3)
    result = (await bench(ScriptedLLM(endless), options={"max_iterations": 3}).run()).unwrap()
    assert (result.status, result.success, result.metadata.terminated_by) == (
        "partial",
        False,
        "iteration_limit",
    )
    assert "Missing" in result.reason


async def test_an_enabled_service_that_is_missing_fails_the_run_at_once() -> None:
    llm = script()
    failed = (await bench(llm, options={"enable_audit": True}).run()).failure()
    assert root_cause(failed.error) == ServiceMissing("audit", "governance.audit")
    assert llm.requests == []


@pytest.mark.parametrize("text", ["", "   \n"])
async def test_a_blank_task_is_refused(text: str) -> None:
    made = bench(script())
    failed = (await made.run(text)).failure()
    assert isinstance(failed.error, TaskError)
    assert made.recorder.of(ExecutionPhaseEntered) == []
    assert isinstance(made.recorder.events[-1], TaskFailed)


async def test_a_run_out_of_time_ends_partial_with_what_it_has() -> None:
    llm = ScriptedLLM(call("add", a=1, b=2), say("Too late.", delay=5))
    made = bench(llm, options={"timeouts": TimeoutConfig(run_s=0.05)})
    outcome = await made.run()
    assert isinstance(outcome, Success), outcome
    result = outcome.unwrap()
    assert result.status == "partial"
    assert not isinstance(outcome, Failure)
    assert len(result.steps) == 2


class HangingMemory(InMemoryMemory):
    """Never comes back from a bootstrap."""

    @effect
    async def bootstrap(self, agent_id: AgentId, task: Task) -> Result[MemoryContext, MemoryErrors]:
        await anyio.sleep_forever()
        return Success(self.context)


async def test_a_service_that_hangs_is_cut_off_when_the_run_is_out_of_time() -> None:
    timeouts = TimeoutConfig(run_s=0.05, grace_s=0.02)
    made = bench(script(), memory=HangingMemory(), options={"timeouts": timeouts}, clock=LoopClock())
    result = (await made.run()).unwrap()
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")
    assert made.recorder.of(ExecutionPhaseFailed)[0].phase == "bootstrap"


@pytest.mark.parametrize(
    ("outcome", "ended_by"),
    [
        ({"text": "a forbidden thing", "guardrail": BlockWords("forbidden")}, "guardrail"),
        ({"text": " "}, "error"),
        ({"text": "x", "llm": ScriptedLLM(fail(ModelUnavailable("down", "m")))}, "error"),
    ],
)
async def test_a_failed_run_says_what_ended_it(outcome: dict[str, Any], ended_by: str) -> None:
    text, llm = outcome.pop("text"), outcome.pop("llm", None) or script()
    failed = (await bench(llm, **outcome).run(text)).failure()
    assert failed.metadata.terminated_by == ended_by
