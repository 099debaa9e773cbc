"""The fakes for safety, cost, verification and audit answer as they were told to, and remember."""

from __future__ import annotations

import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import (
    AuditEntry,
    GuardrailReport,
    ModelRoute,
    RouteNeeds,
    SpendingRecord,
    VerificationReport,
)
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.results import ReasoningMetadata, ReasoningResult
from reactive_agents.core.tasks import Task
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.ports import AuditLog, CostRouter, CostTracker, Guardrail, Verifier
from reactive_agents.testing import (
    AllowAll,
    BlockWords,
    FixedRouter,
    FixedVerifier,
    RecordingAuditLog,
    RecordingCostTracker,
    ScriptedLLM,
)
from reactive_agents.testing.core import START
from tests.support.virtual_time import Backend, virtual_time

pytestmark = pytest.mark.anyio

RUN, TASK_ID, AGENT = RunId("run-1"), TaskId("task-1"), AgentId("agent-1")
TASK = Task(TASK_ID, AGENT, "Go.", START)
RESULT = ReasoningResult("reactive", (), "Done.", ReasoningMetadata(0.0, 0.0, 0, 0, 0.5), "completed")
SPENT = SpendingRecord(RUN, TASK_ID, AGENT, (RunUsage("scripted/test", Usage(1, 2, 3), 0.25, 1),), START)
DEARER = (RunUsage("scripted/test", Usage(1, 2, 3), 0.5, 1),)
NEEDS = RouteNeeds(100)
ENTRY = AuditEntry(RUN, TASK_ID, AGENT, "run", "completed", "Went.", START)
DOWN = ServiceFailed("Out of order.", "service", "operation")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Backend:
    return virtual_time(request.param)


async def test_allow_all_lets_every_text_pass() -> None:
    guardrail = AllowAll()
    port: Guardrail = guardrail
    assert await attempt(port.check("anything", "input")) == Success(GuardrailReport(allowed=True))
    assert guardrail.checked == [("anything", "input")]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("The SECRET plan", "secret"),
        ("secret", "secret"),
        ("Use C++!", "c++"),
        ("secretary of state", None),
        ("a c+ grade", None),
        ("", None),
    ],
)
async def test_words_are_blocked_as_whole_words(text: str, word: str | None) -> None:
    guardrail = BlockWords("secret", "c++")
    report = (await attempt(guardrail.check(text, "output"))).unwrap()
    assert report.allowed == (word is None)
    assert report.violation == ("blocked-word" if word else "")
    if word:
        assert repr(word) in report.detail
    assert guardrail.checked == [(text, "output")]


async def test_words_may_be_blocked_at_some_stages_only() -> None:
    guardrail = BlockWords("secret", stages=["output"])
    assert (await attempt(guardrail.check("secret", "input"))).unwrap().allowed
    assert not (await attempt(guardrail.check("secret", "output"))).unwrap().allowed


async def test_the_router_always_chooses_the_same_model() -> None:
    router = FixedRouter("offline/quotes", reason="cheap")
    port: CostRouter = router
    assert await attempt(port.select_model(TASK, NEEDS)) == Success(ModelRoute("offline/quotes", "cheap"))
    assert router.routed == [TASK]


async def test_spending_is_recorded_and_summed() -> None:
    tracker = RecordingCostTracker()
    port: CostTracker = tracker
    await attempt(port.record(SPENT))
    assert await attempt(port.record(evolve(SPENT, models=DEARER))) == Success(None)
    assert [each.cost_usd for each in tracker.records] == [0.25, 0.5]


@pytest.mark.parametrize(("confidence", "verified"), [(0.9, True), (0.7, True), (0.69, False)])
async def test_the_verifier_compares_its_confidence_with_the_threshold(
    confidence: float, verified: bool
) -> None:
    verifier = FixedVerifier(confidence, findings=("No source.",))
    port: Verifier = verifier
    report = VerificationReport(confidence, verified, ("No source.",))
    assert await attempt(port.verify(TASK, RESULT, llm=ScriptedLLM())) == Success(report)
    assert verifier.verified == [(TASK, RESULT)]


async def test_the_audit_log_keeps_its_entries_in_order() -> None:
    log = RecordingAuditLog()
    port: AuditLog = log
    await attempt(port.append(ENTRY))
    assert await attempt(port.append(evolve(ENTRY, action="retry"))) == Success(None)
    assert [entry.action for entry in log.entries] == ["run", "retry"]


async def test_each_service_can_be_made_to_fail() -> None:
    tracker, log = RecordingCostTracker(fails_with=DOWN), RecordingAuditLog(fails_with=DOWN)
    assert await attempt(AllowAll(fails_with=DOWN).check("x", "input")) == Failure(DOWN)
    assert await attempt(BlockWords("y", fails_with=DOWN).check("x", "input")) == Failure(DOWN)
    assert await attempt(FixedRouter("m", fails_with=DOWN).select_model(TASK, NEEDS)) == Failure(DOWN)
    assert await attempt(
        FixedVerifier(1.0, fails_with=DOWN).verify(TASK, RESULT, llm=ScriptedLLM())
    ) == Failure(DOWN)
    assert await attempt(tracker.record(SPENT)) == Failure(DOWN)
    assert await attempt(log.append(ENTRY)) == Failure(DOWN)
    assert (tracker.records, log.entries) == ([], [])


async def test_a_service_may_recover() -> None:
    guardrail = AllowAll(fails_with=DOWN)
    assert isinstance(await attempt(guardrail.check("x", "input")), Failure)
    guardrail.fails_with = None
    assert isinstance(await attempt(guardrail.check("x", "input")), Success)
    assert len(guardrail.checked) == 2
