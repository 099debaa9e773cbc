"""Recorded runs, managed from another process: continued, waited for, steered, approved, answered, queued."""

from __future__ import annotations

import asyncio
import sqlite3
from base64 import urlsafe_b64encode
from contextlib import aclosing, closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.lowlevel
import pytest
from attrs import frozen
from dependency_injector.providers import Object
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents import (
    AgentError,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    agent_tool,
    external_tool,
    tool,
)
from reactive_agents.adapters.encryption import KEY_VARIABLE
from reactive_agents.adapters.governance.audit_log import SqliteAuditLog, read_entries
from reactive_agents.adapters.governance.cost_tracker import SqliteCostTracker
from reactive_agents.adapters.leases import give_up
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.agent.queue_worker import queued_run
from reactive_agents.containers import LateOverrideError
from reactive_agents.core.errors import (
    InvalidConfig,
    LeaseLost,
    LLMErrors,
    RecordFailed,
    RunCancelled,
    RunInterrupted,
    RunRefused,
    ServiceMissing,
)
from reactive_agents.core.events import (
    AgentEvent,
    ApprovalRequested,
    ExecutionPaused,
    ExternalCallRequested,
    ModelCallCompleted,
    QuestionAsked,
    TaskCompleted,
    TaskFailed,
    TaskStarted,
)
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest, AuditEntry
from reactive_agents.core.ids import CallId, RunId
from reactive_agents.core.messages import ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.run_record import QueueLimits, RecordedRun, RunEntry, RunFilter
from reactive_agents.core.tasks import TaskResult
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, calls, say
from tests.support.sqlite_files import audited, sqlite_file
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


class Work:
    """A tool that hangs until it may go on."""

    def __init__(self) -> None:
        self.begun, self.may_end = anyio.Event(), anyio.Event()
        self.done: list[int] = []

    async def step(self, number: int) -> str:
        """Do a step."""
        self.begun.set()
        await self.may_end.wait()
        self.done.append(number)
        return f"did {number}"


def agent(path: Path, llm: ScriptedLLM, *tools: Any, recover: bool = False, **options: Any) -> ReactiveAgent:
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(*tools)
    if "approval" in options:
        described = described.with_approval(timeout_s=60)
    return described.with_durability(path, recover=recover).build()


def paying(work: Work) -> Any:
    """Return a tool that has an effect each time it is called."""

    @tool(risk="high")
    async def pay(number: int) -> str:
        """Pay an invoice."""
        return await work.step(number)

    return pay


async def interrupt(one: ReactiveAgent, begun: anyio.Event, run_id: str = "r1") -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: one.run("Do it.", run_id=run_id))
        await begun.wait()
        group.cancel_scope.cancel()


def asked_of(one: ReactiveAgent) -> anyio.Event:
    """An event that is set when the agent asks for approval."""
    asked = anyio.Event()
    one.subscribe(lambda event: asked.set() if isinstance(event, ApprovalRequested) else None)
    return asked


async def test_entering_an_agent_continues_what_was_interrupted(tmp_path: Path) -> None:
    work = Work()
    step = tool(idempotent=True)(work.step)
    await interrupt(agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1)), step), work.begun)
    work.may_end.set()
    later = agent(tmp_path / "r.db", ScriptedLLM(answer("Did 1.")), step, recover=True)
    assert [run.state for run in await later.runs.list()] == ["interrupted"]
    async with later:
        result = await later.runs.wait("r1")
    assert result.output == "Did 1."
    assert work.done == [1]
    assert [run.state for run in await later.runs.list(state="completed")] == ["completed"]


async def test_waiting_tells_that_nobody_works_on_an_interrupted_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work()
    step = tool(idempotent=True)(work.step)
    one = agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1), answer("Did 1.")), step)
    await interrupt(one, work.begun)
    work.may_end.set()
    outputs: list[Any] = []

    async def wait() -> None:
        outputs.append((await one.runs.wait("r1")).output)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await until(lambda: "The run r1 is interrupted: no process works on it." in caplog.text)
        await one.runs.resume("r1")
    assert outputs == ["Did 1."]
    assert caplog.text.count("is interrupted") == 1


async def test_a_sub_run_is_continued_by_its_caller_alone(tmp_path: Path) -> None:
    """By itself, what it has cost would be nobody's, and its caller would begin it once more."""
    work = Work()
    step = tool(idempotent=True)(work.step)

    def described(*turns: Any) -> ReactiveAgent:
        payer = ReactiveAgents.create().with_name("payer").with_llm(ScriptedLLM(*turns)).with_reasoning()
        return payer.with_tools(step).with_durability(tmp_path / "r.db", recover=False).build()

    lead = ScriptedLLM(call("payer", task="Do 1."))
    await interrupt(agent(tmp_path / "r.db", lead, agent_tool(described(call("step", number=1)))), work.begun)
    work.may_end.set()
    alone = described()
    assert await alone.runs.list() == ()
    assert await alone.runs.recover() == {}
    await alone.runs.work(until_idle=True)
    assert work.done == []
    payer = described(answer("Did 1."))
    later = agent(tmp_path / "r.db", ScriptedLLM(answer("Did 1.")), agent_tool(payer))
    assert (await later.runs.resume("r1")).output == "Did 1."
    assert work.done == [1]


async def test_recover_returns_how_each_run_ended(tmp_path: Path) -> None:
    work = Work()
    step = tool(idempotent=True)(work.step)
    await interrupt(agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1)), step), work.begun)
    work.may_end.set()
    outcomes = await agent(tmp_path / "r.db", ScriptedLLM(answer("Did 1.")), step).runs.recover()
    assert [type(each) for each in outcomes.values()] == [Success]
    assert list(outcomes) == [RunId("r1")]


class Clerk(ScriptedLLM):
    """Answers each task; asks back first where the task says so."""

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        self.requests.append(request)
        texts = [each.content for each in request.messages if isinstance(each, UserMessage | ToolMessage)]
        await anyio.lowlevel.checkpoint()
        if "ask" in texts[0] and len(texts) == 1:
            return Success(
                ModelResponse("", "m", (ToolCall(CallId("c1"), "ask-user", {"question": "Which?"}),))
            )
        return Success(
            ModelResponse("", "m", (ToolCall(CallId("c2"), "final-answer", {"answer": "It is done."}),))
        )


@pytest.mark.system
async def test_two_hundred_runs_are_recovered_one_by_one_the_oldest_first(tmp_path: Path) -> None:
    described = ReactiveAgents.create().with_llm(Clerk()).with_reasoning().with_ask_user()
    one = described.with_durability(tmp_path / "r.db", recover=False).build()
    record = one.container.memory.record().unwrap()
    names = [RunId(f"r{number}") for number in range(200)]
    for number, name in enumerate(names):
        task = one.new_task("Please ask back." if number < 3 else f"Do {number}.")
        await attempt(record.add(RecordedRun(name, one.agent_id, task, status="open")))
    with closing(sqlite3.connect(tmp_path / "r.db")) as file, file:
        file.execute("UPDATE runs SET attempt = 1")
        file.execute("UPDATE runs SET task = '{' WHERE run_id = 'r5'")
        file.execute("""UPDATE runs SET definition = '{"tools": "others"}' WHERE run_id = 'r6'""")
    begun, under_way, most = list[str](), set[str](), 0

    def follow(event: AgentEvent) -> None:
        nonlocal most
        if isinstance(event, TaskStarted):
            begun.append(event.run_id)
            under_way.add(event.run_id)
            most = max(most, len(under_way))
        elif isinstance(event, TaskCompleted | TaskFailed | QuestionAsked):
            under_way.discard(event.run_id)
        if isinstance(event, TaskCompleted) and event.run_id == names[-1]:
            for question in one.pending_questions():
                one.answer(question.run_id, question.question_id, "That one.")

    one.subscribe(follow)
    outcomes = await one.runs.recover(concurrency=1)
    await one.aclose()
    assert list(outcomes) == names
    assert {name for name, each in outcomes.items() if isinstance(each, Failure)} == {"r5", "r6"}
    assert (begun, most) == ([name for name in names if name not in ("r5", "r6")], 1)
    with pytest.raises(AgentError, match="concurrency"):
        await one.runs.recover(concurrency=0)


async def test_a_run_is_cancelled_from_another_process(tmp_path: Path) -> None:
    begun, may_end = anyio.Event(), anyio.Event()

    async def step() -> None:
        """Do a step, which takes its time to end."""
        begun.set()
        with anyio.CancelScope(shield=True):
            await may_end.wait()

    running = agent(tmp_path / "r.db", ScriptedLLM(call("step")), step)
    other = agent(tmp_path / "r.db", ScriptedLLM())
    errors: list[Any] = []

    async def run() -> None:
        with pytest.raises(AgentError) as failed:
            await running.run("Do it.", run_id="r1")
        errors.append(failed.value.error)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await begun.wait()
        await other.runs.cancel("r1")
        for order in (other.runs.unpause, other.runs.pause):
            with pytest.raises(AgentError, match="is being cancelled"):
                await order("r1")
        may_end.set()
    assert isinstance(errors[0], RunCancelled)
    ended_run = await other.runs.find("r1")
    assert (ended_run.state, ended_run.order) == ("cancelled", "")
    with pytest.raises(AgentError) as ended:
        await other.runs.cancel("r1")
    assert isinstance(ended.value.error, RunRefused)


@pytest.mark.parametrize("order", ["stop", "cancel", "pause"])
async def test_the_audit_log_says_who_ended_or_paused_a_run_from_another_process(
    tmp_path: Path, order: str
) -> None:
    work, path, audit = Work(), tmp_path / "r.db", tmp_path / "audit.db"
    turns = call("step", number=1), answer("Did 1.")
    described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(work.step)
    running = described.with_durability(path, recover=False).with_audit(audit).build()
    other, paused, outcomes = agent(path, ScriptedLLM()), anyio.Event(), list[TaskResult | AgentError]()
    running.subscribe(lambda event: paused.set() if isinstance(event, ExecutionPaused) else None)

    async def run() -> None:
        try:
            outcomes.append(await running.run("Do it.", run_id="r1"))
        except AgentError as error:
            outcomes.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await work.begun.wait()
        if order == "stop":
            await other.runs.stop("r1", "enough is done", by="ada")
        else:
            await getattr(other.runs, order)("r1", by="ada")
        if order == "pause":
            work.may_end.set()
            await paused.wait()
            await other.runs.unpause("r1", by="bo")
    entries = [(each.entry.action, each.entry.detail) for each in read_entries(audit).unwrap()]
    (outcome,) = outcomes
    match order:
        case "stop":
            assert isinstance(outcome, TaskResult)
            assert (outcome.status, outcome.metadata.terminated_by) == ("partial", "stopped")
            assert outcome.reason == "The run was stopped: enough is done. Missing: a final answer."
            assert entries[1:-1] == [("stop", "Stopped by ada: enough is done.")]
        case "cancel":
            assert entries[1:-1] == [("cancel", "Cancelled by ada.")]
        case _:
            assert entries[1:-1] == [("pause", "Paused by ada."), ("resume", "Resumed by bo.")]
    assert (entries[0][0], entries[-1][0]) == ("start", "run")
    assert (await running.runs.replay("r1")).difference == ""


async def test_a_stop_that_was_entered_before_a_crash_is_in_the_audit_log_once(tmp_path: Path) -> None:
    work = Work()
    killed = tmp_path / "killed"
    killed.mkdir()

    class Noted(SqliteAuditLog):
        @effect
        async def append(self, entry: AuditEntry) -> Any:
            appended = await attempt(super().append(entry))
            for name in ("r.db", "audit.db") if entry.action == "stop" else ():  # if it is killed now
                with sqlite_file(tmp_path / name) as file, sqlite_file(killed / name) as copy:
                    file.backup(copy)
            return appended

    def described(folder: Path, *turns: Any) -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning()
        one = one.with_tools(tool(idempotent=True)(work.step)).with_audit(folder / "audit.db")
        return one.with_durability(folder / "r.db", recover=False).build()

    running = described(tmp_path, call("step", number=1))
    log = Noted(tmp_path / "audit.db", clock=SystemClock())
    running.container.governance.audit.override(Object(Some(log)))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: running.run("Do it.", run_id="r1"))
        await work.begun.wait()
        await running.runs.stop("r1", "enough is done", by="ada")
    assert audited(killed / "audit.db") == ["start", "stop"]
    with sqlite_file(killed / "r.db") as file:
        file.execute("UPDATE runs SET holder = '', lease_until_us = 0")
    await described(killed).runs.resume("r1")
    assert audited(killed / "audit.db") == ["start", "stop", "run"]


@pytest.mark.parametrize("place", ["here", "elsewhere"])
async def test_a_run_that_was_taken_over_while_a_person_decided_does_nothing_with_the_decision(
    tmp_path: Path, place: str
) -> None:
    """The process that has it now enters and records it, once; one here may only be that no one answered."""
    work, path = Work(), tmp_path / "r.db"
    described = ReactiveAgents.create().with_llm(ScriptedLLM(call("step", number=1))).with_reasoning()
    described = described.with_tools(tool(requires_approval=True)(work.step)).with_approval()
    running = described.with_audit(tmp_path / "audit.db").with_durability(path, recover=False).build()
    ended: list[AgentError] = []

    async def run() -> None:
        with pytest.raises(AgentError) as raised:
            await running.run("Do it.", run_id="r1")
        ended.append(raised.value)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: running.pending_approvals())
        decided = (
            "INSERT INTO run_entries SELECT id, 99, 't1/q1?=', 'answer', 0, '{\"approved\": true}' FROM runs;"
        )
        with sqlite_file(path) as file:
            taken = "UPDATE runs SET holder = 'another';"
            file.executescript(f"BEGIN; {taken} {decided if place == 'elsewhere' else ''} COMMIT")
        (request,) = running.pending_approvals()
        if place == "here":
            running.approve(request.run_id, request.approval_id).unwrap()
    assert isinstance(ended[0].error, RunInterrupted)
    assert isinstance(ended[0].error.cause, LeaseLost)
    assert audited(tmp_path / "audit.db") == ["start", "request"]
    with sqlite_file(path) as file:
        answers = file.execute("SELECT count(*) FROM run_entries WHERE kind = 'answer'").fetchone()
    assert answers == (0 if place == "here" else 1,)
    assert not work.begun.is_set()


async def test_a_run_that_was_handed_over_is_stopped_from_another_process_with_the_reason(
    tmp_path: Path,
) -> None:
    work, path = Work(), tmp_path / "r.db"
    model = ScriptedLLM(call("step", number=1))
    billing = ReactiveAgents.create().with_name("billing").with_llm(model).with_reasoning()
    desk = ReactiveAgents.create().with_name("desk").with_llm(ScriptedLLM(call("transfer-to-billing")))
    desk = desk.with_reasoning().with_handoffs(billing.with_tools(work.step).build())
    running = desk.with_durability(path, recover=False).build()
    results: list[TaskResult] = []

    async def run() -> None:
        results.append(await running.run("Do it.", run_id="r1"))

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await work.begun.wait()
        await agent(path, ScriptedLLM()).runs.stop("r1", "enough is done")
    assert [each.metadata.terminated_by for each in results] == ["stopped"]
    assert results[0].reason == "The run was stopped: enough is done."


async def test_a_queued_run_that_is_stopped_asks_no_model(tmp_path: Path) -> None:
    llm = ScriptedLLM()
    one = agent(tmp_path / "r.db", llm)
    later = await one.submit("Greet me.", queue="q")
    await one.runs.stop(later, "nobody is here")
    assert await one.runs.work("q", until_idle=True) == ()
    result = await one.runs.wait(later)
    assert (result.status, llm.requests) == ("partial", [])
    assert result.reason == "The run was stopped: nobody is here. Missing: a final answer."


async def test_a_call_under_way_when_its_process_ended_is_in_doubt_when_its_run_is_stopped(
    tmp_path: Path,
) -> None:
    work = Work()
    one = agent(tmp_path / "r.db", ScriptedLLM(call("pay", number=1)), paying(work))
    await interrupt(one, work.begun)
    await one.runs.stop("r1", "it is late")
    with pytest.raises(AgentError, match="is being stopped"):
        await one.runs.unpause("r1")
    result = await one.runs.resume("r1")
    assert result.metadata.terminated_by == "stopped"
    assert [(each.type, each.is_declined_or_in_doubt) for each in result.steps] == [
        ("action", False),
        ("observation", True),
    ]


async def test_a_call_that_its_process_had_not_begun_is_not_in_doubt_when_its_run_is_stopped(
    tmp_path: Path,
) -> None:
    work, path = Work(), tmp_path / "r.db"
    one = agent(path, ScriptedLLM(call("pay", number=1)), paying(work))
    await interrupt(one, work.begun)
    with sqlite_file(path) as file:  # as if the process had ended when it had recorded the answer
        file.execute("DELETE FROM run_entries WHERE kind = 'intent'")
    await one.runs.stop("r1", "it is late")
    result = await one.runs.resume("r1")
    assert [each.type for each in result.steps] == ["action"]


async def test_an_interrupted_run_is_cancelled_at_once(tmp_path: Path) -> None:
    work = Work()
    one = agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1)), work.step)
    await interrupt(one, work.begun)
    await one.runs.cancel("r1")
    with pytest.raises(AgentError) as failed:
        await one.runs.resume("r1")
    assert isinstance(failed.value.error, RunCancelled)


@pytest.mark.parametrize("by", ["wait", "resume", "recover"])
async def test_a_cancellation_that_a_process_left_needs_no_dependencies(tmp_path: Path, by: str) -> None:
    work, made = Work(), list[RunContext[int]]()

    def described() -> ReactiveAgents[Any, int]:
        llm = ScriptedLLM(call("step", number=1))
        builder = ReactiveAgents.create(deps=int).with_llm(llm).with_reasoning().with_tools(work.step)
        return builder.with_durability(tmp_path / "r.db", recover=False)

    async def cannot(context: RunContext[int]) -> int:
        made.append(context)
        raise OSError("no database")

    one = described().build()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: one.run("Do it.", run_id="r1", deps=7))
        await work.begun.wait()
        group.cancel_scope.cancel()
    with sqlite_file(tmp_path / "r.db") as file:
        file.execute("UPDATE runs SET wanted = 'cancel'")
    later = (described().with_deps(cannot) if by == "recover" else described()).build()
    if by == "recover":
        outcomes = await later.runs.recover()
        error: object = outcomes[RunId("r1")].failure()
    else:
        with pytest.raises(AgentError) as ended:
            await (later.runs.wait if by == "wait" else later.runs.resume)("r1")
        error = ended.value.error
    assert isinstance(error, RunCancelled)
    assert made == []
    run = await later.runs.find("r1")
    assert (run.state, run.order, work.done) == ("cancelled", "", [])


async def test_a_cancellation_that_a_process_left_calls_no_instructions(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They have no dependencies, and were not given before their process died."""
    begun, asked = anyio.Event(), list[Any]()

    async def instructions(context: RunContext[int]) -> str:
        asked.append(context.deps)
        begun.set()
        await anyio.sleep_forever()
        return "Be brief."

    builder = ReactiveAgents.create(deps=int).with_llm(ScriptedLLM()).with_reasoning()
    builder = builder.with_instructions(instructions).with_durability(tmp_path / "r.db", recover=False)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: builder.build().run("Do it.", run_id="r1", deps=7))
        await begun.wait()
        group.cancel_scope.cancel()
    with sqlite_file(tmp_path / "r.db") as file:
        file.execute("UPDATE runs SET wanted = 'cancel'")
    with pytest.raises(AgentError) as ended:
        await builder.build().runs.resume("r1")
    assert isinstance(ended.value.error, RunCancelled)
    assert (asked, "raised" in caplog.text) == ([7], False)


async def test_a_run_that_is_cancelled_while_it_waits_for_a_worker_is_waited_for_no_longer(
    tmp_path: Path,
) -> None:
    """Its worker took the order, and died before it carried that out."""
    one = agent(tmp_path / "r.db", ScriptedLLM())
    record = one.container.memory.record().unwrap()
    task = one.new_task("Do it.")
    waiting = queued_run(task, RunId("r1"), queue="q", priority=0, due=None)
    assert (await attempt(record.add(waiting))).unwrap()
    ((_, holder),) = (await attempt(record.dequeue(one.agent_id, "q", QueueLimits(), at_most=1))).unwrap()
    await one.runs.cancel("r1")
    assert (await one.runs.find("r1")).order == "cancel"
    give_up(holder)
    with pytest.raises(AgentError) as ended:
        await one.runs.wait("r1")
    assert isinstance(ended.value.error, RunCancelled)


async def test_a_run_is_paused_and_goes_on_from_another_process(tmp_path: Path) -> None:
    work = Work()
    running = agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1), answer("Did 1.")), work.step)
    other = agent(tmp_path / "r.db", ScriptedLLM())
    paused = anyio.Event()
    running.subscribe(lambda event: paused.set() if isinstance(event, ExecutionPaused) else None)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: running.run("Do it.", run_id="r1"))
        await work.begun.wait()
        await other.runs.pause("r1")
        work.may_end.set()
        await paused.wait()
        assert (await other.runs.find("r1")).state == "paused"
        await other.runs.unpause("r1")
    assert (await other.runs.wait("r1")).output == "Did 1."


async def test_a_queued_run_that_is_paused_is_listed_as_paused(tmp_path: Path) -> None:
    one = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello there.")))
    later = await one.submit("Greet me.", delay_s=86_400)
    await one.runs.pause(later)
    assert (await one.runs.find(later)).state == "paused"
    assert [run.run_id for run in await one.runs.list(state="paused")] == [later]
    assert await one.runs.list(state="queued") == ()
    await one.runs.unpause(later)
    assert [run.run_id for run in await one.runs.list(state="queued")] == [later]


async def test_a_pause_outlives_its_process(tmp_path: Path) -> None:
    work = Work()
    step = tool(idempotent=True)(work.step)
    await interrupt(agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1)), step), work.begun)
    work.may_end.set()
    other = agent(tmp_path / "r.db", ScriptedLLM())
    await other.runs.pause("r1")
    llm, paused = ScriptedLLM(answer("Did 1.")), anyio.Event()
    later = agent(tmp_path / "r.db", llm, step)
    record = later.container.memory.record().unwrap()
    assert await attempt(record.interrupted(later.agent_id)) == Success(()), "recover leaves it"
    for queue in ("", "default"):  # and so do workers
        due = record.dequeue(later.agent_id, queue, QueueLimits(), at_most=1)
        assert await attempt(due) == Success(())
    later.subscribe(lambda event: paused.set() if isinstance(event, ExecutionPaused) else None)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: later.runs.resume("r1"))
        await paused.wait()
        assert (llm.requests, work.done) == ([], [])
        await other.runs.unpause("r1")
    assert (await other.runs.wait("r1")).output == "Did 1."


@pytest.mark.parametrize("whom", ["caller", "sub-run"])
async def test_an_agent_that_is_a_tool_is_paused_from_another_process(tmp_path: Path, whom: str) -> None:
    """Its own pause holds over a restart; that of its caller comes after its call, which is a step."""
    path, work = tmp_path / "r.db", Work()
    step, waiting = tool(idempotent=True)(work.step), list[RunId]()

    def described(lead: list[Any], helper: list[Any]) -> tuple[ReactiveAgent, ScriptedLLM]:
        llm = ScriptedLLM(*helper)
        payer = ReactiveAgents.create().with_name("payer").with_llm(llm).with_reasoning().with_tools(step)
        inner = payer.build()
        one = agent(path, ScriptedLLM(*lead), agent_tool(inner))
        for each in (one, inner):
            each.subscribe(note)
        return one, llm

    def note(event: AgentEvent) -> None:
        if isinstance(event, ExecutionPaused):
            waiting.append(event.run_id)

    other = agent(path, ScriptedLLM())
    one, llm = described([call("payer", task="Do 1.")], [call("step", number=1), answer("Did 1.")])
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: one.run("Do it.", run_id="r1"))
        await work.begun.wait()
        every = (
            await attempt(one.container.memory.record().unwrap().runs(RunFilter(children=True)))
        ).unwrap()
        (sub_run,) = (run.run_id for run in every if run.parent == "r1")
        paused = RunId("r1") if whom == "caller" else sub_run
        await other.runs.pause(paused)
        work.may_end.set()
        await until(lambda: waiting)
        group.cancel_scope.cancel()
    assert waiting == [paused]
    assert len(llm.requests) == (2 if whom == "caller" else 1)
    waiting.clear()
    later, llm = described([answer("It did 1.")], [answer("Did 1.")] * (whom == "sub-run"))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: later.runs.resume("r1"))
        await until(lambda: waiting)
        assert (waiting, llm.requests) == ([paused], [])
        await other.runs.unpause(paused)
    assert (await other.runs.wait("r1")).output == "It did 1."
    assert work.done == [1]


async def test_a_paused_run_whose_process_is_gone_is_taken_by_one_that_waits_for_it(tmp_path: Path) -> None:
    work = Work()
    step = tool(idempotent=True)(work.step)
    first = agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1)), step)
    paused = anyio.Event()
    first.subscribe(lambda event: paused.set() if isinstance(event, ExecutionPaused) else None)
    second = agent(tmp_path / "r.db", ScriptedLLM(answer("Did 1.")), step)
    taken = anyio.Event()
    second.subscribe(lambda event: taken.set() if isinstance(event, ExecutionPaused) else None)
    async with anyio.create_task_group() as group:
        async with anyio.create_task_group() as process:
            process.start_soon(lambda: first.run("Do it.", run_id="r1"))
            await work.begun.wait()
            await second.runs.pause("r1")
            work.may_end.set()
            await paused.wait()
            group.start_soon(lambda: second.run("Do it.", run_id="r1"))
            while (await second.runs.find("r1")).state != "paused":
                await anyio.lowlevel.checkpoint()
            process.cancel_scope.cancel()
        await taken.wait()
        await second.runs.unpause("r1")
    assert (await second.runs.wait("r1")).output == "Did 1."


async def test_a_run_that_waits_for_an_approval_ends_when_it_is_deleted(tmp_path: Path) -> None:
    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        return "sent"

    turns = [call("send", to="Ann"), answer("Hello there.")]
    one = agent(tmp_path / "r.db", ScriptedLLM(*turns), send, approval=True)
    asked = asked_of(one)

    async def delete() -> None:
        await asked.wait()
        await agent(tmp_path / "r.db", ScriptedLLM(), send).runs.delete("r1")

    lost: list[AgentError] = []
    async with anyio.create_task_group() as group:
        group.start_soon(delete)
        try:
            await one.run("Send.", run_id="r1", session="s")
        except AgentError as error:
            lost.append(error)
    (failed,) = lost
    assert failed.error.message == "Run 'r1' was deleted from its record while it was under way."
    assert failed.metadata is not None
    assert (failed.metadata.terminated_by, failed.metadata.model_calls) == ("error", 1)
    assert (await one.run("Greet me.", session="s")).output == "Hello there."


async def test_a_run_that_is_deleted_between_two_steps_says_so_at_the_next(tmp_path: Path) -> None:
    work = Work()
    one = agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1)), work.step)
    events = EventRecorder()
    one.subscribe(events)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: attempted(one))
        await work.begun.wait()
        await one.runs.delete("r1")
        work.may_end.set()
    (failed,) = events.of(TaskFailed)
    assert (failed.status, "deleted from its record" in failed.error.message) == ("failed", True)
    assert await one.runs.list() == ()


async def test_the_cost_and_the_end_of_a_run_that_is_deleted_under_way_are_recorded(tmp_path: Path) -> None:
    """Its money was spent; the user, who may have wanted to be forgotten, is not named."""
    work = Work()
    llm = ScriptedLLM(call("step", number=1))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(work.step)
    builder = builder.with_cost(tmp_path / "cost.db").with_audit(tmp_path / "audit.db")
    one = builder.with_durability(tmp_path / "r.db", recover=False).build()
    failed: list[AgentError] = []

    async def run() -> None:
        try:
            await one.run("Do it.", run_id="r1", user="ann")
        except AgentError as error:
            failed.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await work.begun.wait()
        await one.runs.delete("r1")
        work.may_end.set()
    assert "deleted from its record" in str(failed[0])
    costs = SqliteCostTracker(tmp_path / "cost.db", clock=SystemClock())
    (spent,) = (await attempt(costs.totals("user"))).unwrap()
    assert (spent.name, spent.runs, spent.usage.total_tokens > 0) == ("", 1, True)
    entries = [each.entry for each in read_entries(tmp_path / "audit.db").unwrap()]
    assert [(each.action, each.status) for each in entries] == [("start", None), ("run", "failed")]
    assert "deleted from its record" in entries[1].detail


async def attempted(one: ReactiveAgent) -> None:
    with suppress(AgentError):
        await one.run("Do it.", run_id="r1")


async def test_a_task_that_is_cancelled_while_several_calls_wait_interrupts_its_run(tmp_path: Path) -> None:
    """As by ``asyncio.wait_for``; a scope of anyio is another way."""

    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        return "sent"

    asked = anyio.Event()

    async def decide(request: ApprovalRequest) -> bool:
        asked.set()
        await anyio.sleep_forever()
        return True

    turn = calls(call("send", to="Ann"), call("send", to="Bob"))
    described = ReactiveAgents.create().with_llm(ScriptedLLM(turn)).with_reasoning().with_tools(send)
    one = described.with_approval(decide).with_durability(tmp_path / "r.db", recover=False).build()
    task = asyncio.ensure_future(one.run("Pay.", run_id="r1"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await one.runs.find("r1")).status == "open"
    await one.aclose()


async def test_an_approval_outlives_its_process_and_is_given_from_another(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    first = agent(tmp_path / "r.db", ScriptedLLM(call("send", to="Ann")), send, approval=True)
    asked = asked_of(first)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Send.", run_id="r1"))
        await asked.wait()
        group.cancel_scope.cancel()
    other = agent(tmp_path / "r.db", ScriptedLLM(), send)
    assert [(each.kind, each.request["tool_name"]) for each in await other.runs.questions()] == [
        ("approval", "send")
    ]
    assert (await other.runs.find("r1")).state == "waiting"
    for wrong in (5, None):  # an answer holds for good, and this one the run could not read
        with pytest.raises(AgentError, match=f"reason: got {wrong}, expected a text"):
            await other.runs.deny("r1", reason=cast(str, wrong))
    await other.runs.approve("r1")
    with pytest.raises(AgentError):
        await other.runs.approve("r1")
    second = agent(tmp_path / "r.db", ScriptedLLM(answer("Sent to Ann.")), send, approval=True)
    assert (await second.runs.resume("r1")).output == "Sent to Ann."
    assert sent == ["Ann"]


@pytest.mark.parametrize("is_approved", [True, False])
async def test_an_approval_holds_for_no_other_arguments_and_at_no_other_place(
    tmp_path: Path, is_approved: bool
) -> None:
    """Neither for those of another version of the tool, nor for the same call once more."""
    sent: list[tuple[str, int]] = []

    def send(to: str, copies: int = 1) -> str:
        """Send a mail."""
        sent.append((to, copies))
        return "sent"

    def send_more(to: str, copies: int = 9) -> str:
        """Send a mail."""
        return send(to, copies)

    first_tool = tool(requires_approval=True, volatile=True)(send)
    second_tool = tool(name="send", requires_approval=True, volatile=True)(send_more)

    async def until_asked(key: str, *turns: Any, tools: Any = second_tool) -> Any:
        one = agent(tmp_path / "r.db", ScriptedLLM(*turns), tools, approval=True)
        async with anyio.create_task_group() as group:
            if tools is first_tool:
                group.start_soon(lambda: one.run("Send.", run_id="r1"))
            else:
                group.start_soon(partial(one.runs.resume, "r1", accept_changes=True))
            while [each.key for each in await other.runs.questions()] != [key]:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        (question,) = await other.runs.questions()
        return question.request["arguments"]

    other = agent(tmp_path / "r.db", ScriptedLLM(), second_tool)
    asked = await until_asked("t1/q1?", call("send", to="Ann"), tools=first_tool)
    assert asked == {"to": "Ann", "copies": 1}
    if is_approved:
        await other.runs.approve("r1")
    assert await until_asked("t1/q2?") == {"to": "Ann", "copies": 9}
    assert sent == []
    await other.runs.approve("r1")
    await until_asked("t2/q1?", call("send", to="Ann"))
    assert sent == [("Ann", 9)]
    await other.runs.deny("r1")
    last = agent(tmp_path / "r.db", ScriptedLLM(answer("Sent to Ann.")), second_tool, approval=True)
    await last.runs.resume("r1", accept_changes=True)
    assert sent == [("Ann", 9)]


async def test_an_approved_call_that_was_cut_off_is_in_doubt_and_not_made_again(tmp_path: Path) -> None:
    """What was approved was the call that may have taken effect."""
    sent: list[str] = []
    begun = anyio.Event()

    @tool(requires_approval=True)
    async def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        if not begun.is_set():
            begun.set()
            await anyio.sleep_forever()
        return "sent"

    def mailer(llm: ScriptedLLM) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(send)
        described = described.with_approval(lambda request: True)
        return described.with_durability(tmp_path / "r.db", recover=False).build()

    await interrupt(mailer(ScriptedLLM(call("send", to="Ann"))), begun)
    llm = ScriptedLLM(*[answer("It is not known whether the mail was sent.")] * 9)
    await mailer(llm).runs.resume("r1")
    assert sent == ["Ann"]
    assert "may have taken effect" in llm.requests[0].messages[-1].content


async def test_a_denied_call_is_not_in_doubt_when_its_process_died_at_once(tmp_path: Path) -> None:
    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        raise AssertionError("it was denied")

    class Record(SqliteRunRecord):
        @effect
        async def append(self, run_id: RunId, holder: str, *entries: RunEntry, **when: bool) -> Any:
            if entries[0].kind == "result":
                denied.set()
                await anyio.sleep_forever()
            return await attempt(super().append(run_id, holder, *entries, **when))

    def mailer(llm: ScriptedLLM) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(send)
        described = described.with_approval(lambda request: ApprovalDecision(False, "not today."))
        return described.with_durability(tmp_path / "r.db", recover=False).build()

    denied = anyio.Event()
    first = mailer(ScriptedLLM(call("send", to="Ann")))
    first.container.memory.record.override(Object(Record(tmp_path / "r.db", clock=SystemClock())))
    await interrupt(first, denied)
    llm = ScriptedLLM(*[answer("The mail was not sent.")] * 9)
    await mailer(llm).runs.resume("r1")
    assert "not today" in llm.requests[0].messages[-1].content


async def test_of_several_decisions_at_once_the_first_holds(tmp_path: Path) -> None:
    sent: list[str] = []

    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    llm = ScriptedLLM(call("send", to="Ann"), *[answer("It is settled.")] * 9)
    one = agent(tmp_path / "r.db", llm, send, approval=True)
    asked, accepted, refused = asked_of(one), list[str](), list[Any]()

    async def decide(other: ReactiveAgent, verb: str) -> None:
        try:
            await getattr(other.runs, verb)("r1")
            accepted.append(verb)
        except AgentError as error:
            refused.append(error.error)

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: one.run("Send.", run_id="r1"))
        await asked.wait()
        async with anyio.create_task_group() as deciding:
            for verb in ("approve", "deny") * 4:
                deciding.start_soon(decide, agent(tmp_path / "r.db", ScriptedLLM(), send), verb)
    assert len(accepted) == 1
    assert [type(each) for each in refused] == [RunRefused] * 7
    assert sent == ["Ann"] * (accepted == ["approve"])


async def test_a_request_for_approval_is_in_the_run_log_before_the_call_has_its_result(
    tmp_path: Path,
) -> None:
    """A call with a recorded result asks nobody again, so that its log would lack what was not written."""
    sent: list[str] = []

    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        sent.append(to)
        return "sent"

    class Record(SqliteRunRecord):
        @effect
        async def append(self, run_id: RunId, holder: str, *entries: RunEntry, **when: bool) -> Any:
            if entries[0].kind == "result" or entries[0].key.endswith("+"):  # nobody publishes it again
                with closing(sqlite3.connect(tmp_path / "log.db")) as file:
                    logged.extend(kind for (kind,) in file.execute("SELECT kind FROM run_events"))
            return await attempt(super().append(run_id, holder, *entries, **when))

    logged: list[str] = []
    llm = ScriptedLLM(call("send", to="Ann"), answer("Sent to Ann."))
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(send)
    described = described.with_approval(lambda request: True).with_run_log(tmp_path / "log.db")
    one = described.with_durability(tmp_path / "r.db", recover=False).build()
    one.container.memory.record.override(Object(Record(tmp_path / "r.db", clock=SystemClock())))
    await one.run("Send.", run_id="r1")
    requested, decided = "ApprovalRequested", "ApprovalDecided"
    assert [each for each in logged if each.startswith("Approval")] == [requested, requested, decided]


async def test_a_request_is_in_the_run_log_also_when_its_process_died_as_soon_as_it_had_asked(
    tmp_path: Path,
) -> None:
    """Another process answers at once, so that nobody would ask again."""

    class Record(SqliteRunRecord):
        @effect
        async def append(self, run_id: RunId, holder: str, *entries: RunEntry, **when: bool) -> Any:
            added = await attempt(super().append(run_id, holder, *entries, **when))
            if entries[0].kind == "question":
                recorded.set()
                await anyio.sleep_forever()  # what comes now is lost
            return added

    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        return "sent"

    def described(*turns: Any) -> ReactiveAgents:
        agent = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(send)
        agent = agent.with_approval(timeout_s=60).with_run_log(tmp_path / "log.db")
        return agent.with_durability(tmp_path / "r.db", recover=False)

    recorded = anyio.Event()
    first = described(call("send", to="Ann")).build()
    first.container.memory.record.override(Object(Record(tmp_path / "r.db", clock=SystemClock())))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Send.", run_id="r1"))
        await recorded.wait()
        group.cancel_scope.cancel()
    second = described(answer("Sent to Ann.")).build()
    await second.runs.approve("r1")
    assert (await second.runs.resume("r1")).output == "Sent to Ann."
    await second.aclose()
    with closing(sqlite3.connect(tmp_path / "log.db")) as file:
        kinds = [kind for (kind,) in file.execute("SELECT kind FROM run_events ORDER BY sequence")]
    assert [each for each in kinds if each.startswith("Approval")][-2:] == [
        "ApprovalRequested",
        "ApprovalDecided",
    ]


@pytest.mark.parametrize("decision", ["approval", "denial"])
async def test_the_audit_has_each_request_and_its_decision_once_over_restarts(
    tmp_path: Path, decision: str
) -> None:
    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        return "sent"

    def mailer(*turns: Any) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(send)
        described = described.with_approval(timeout_s=60).with_audit(tmp_path / "audit.db")
        return described.with_durability(tmp_path / "r.db", recover=False).build()

    for turns in ([call("send", to="Ann")], []):  # two processes that ask, and end
        one = mailer(*turns)
        asked = asked_of(one)
        async with anyio.create_task_group() as group:
            group.start_soon(lambda one=one: one.run("Send.", run_id="r1"))
            await asked.wait()
            group.cancel_scope.cancel()
    other = mailer()
    await (other.runs.approve("r1") if decision == "approval" else other.runs.deny("r1", reason="No."))
    await mailer(*[answer("It is settled.")] * 2).runs.resume("r1")
    assert audited(tmp_path / "audit.db") == ["start", "request", decision, "run"]


async def test_a_live_run_hears_of_a_denial_from_another_process(tmp_path: Path) -> None:
    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        raise AssertionError("it was denied")

    llm = ScriptedLLM(call("send", to="Ann"), *[answer("It was not allowed.")] * 2)
    first = agent(tmp_path / "r.db", llm, send, approval=True)
    other = agent(tmp_path / "r.db", ScriptedLLM(), send)
    asked = asked_of(first)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Send.", run_id="r1"))
        await asked.wait()
        await other.runs.deny("r1", reason="not today.")
    assert "not today" in llm.requests[1].messages[-1].content


async def test_a_call_in_doubt_is_settled_with_its_result(tmp_path: Path) -> None:
    work = Work()
    path = tmp_path / "r.db"
    described = ReactiveAgents.create().with_reasoning().with_tools(work.step)
    described = described.with_durability(path, in_doubt="fail", recover=False)
    await interrupt(described.with_llm(ScriptedLLM(call("step", number=1))).build(), work.begun)
    llm = ScriptedLLM(answer("Did 1."))
    later = described.with_llm(llm).build()
    with pytest.raises(AgentError):
        await later.runs.resume("r1")
    assert [each.kind for each in await later.runs.questions()] == ["doubt"]
    await later.runs.answer("r1", "receipt 17")
    assert (await later.runs.resume("r1")).output == "Did 1."
    assert "receipt 17" in llm.requests[0].messages[-1].content
    assert work.done == []


async def test_queued_runs_are_done_in_the_order_of_their_priority(tmp_path: Path) -> None:
    told: list[str] = []

    def tell(text: str) -> str:
        """Tell it."""
        told.append(text)
        return "told"

    turns = [turn for text in ("b", "c", "a") for turn in (call("tell", text=text), answer(f"Told {text}."))]
    worker = agent(tmp_path / "r.db", ScriptedLLM(*turns), tell)
    submitter = agent(tmp_path / "r.db", ScriptedLLM(), tell)
    submitter.runs.ensure_worker = lambda queue: None  # type: ignore[method-assign]  # as in a process that ended
    await submitter.submit("Tell a.", run_id="a")
    await submitter.submit("Tell b.", run_id="b", priority=2)
    await submitter.submit("Tell c.", run_id="c", priority=1)
    await submitter.submit("Tell d.", run_id="d", delay_s=3600)
    assert await submitter.submit("Tell a.", run_id="a") == RunId("a")
    await worker.runs.work(concurrency=1, until_idle=True)
    assert told == ["b", "c", "a"]
    assert (await submitter.runs.wait("c")).output == "Told c."
    assert [run.run_id for run in await submitter.runs.list(state="queued")] == ["d"]


async def test_a_submitted_run_is_done_by_the_agent_itself(tmp_path: Path) -> None:
    one = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello there.")))
    async with one:
        run_id = await one.submit("Greet me.")
        assert (await one.runs.wait(run_id)).output == "Hello there."


async def test_a_run_that_a_tool_submits_is_none_of_the_run_that_called_the_tool(tmp_path: Path) -> None:
    clerk = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(say("Filed.")))
    filing = clerk.with_durability(tmp_path / "r.db").build()

    async def file(text: str) -> str:
        """File a text."""
        return (await filing.runs.wait(await filing.submit(text, run_id="r2"))).output or ""

    desk = ReactiveAgents.create().with_llm(ScriptedLLM(call("file", text="A."), answer("It is filed.")))
    one = desk.with_reasoning().with_tools(file).with_durability(tmp_path / "r.db", recover=False).build()
    async with filing:
        result = await one.run("File it.", run_id="r1", user="ada")
    assert result.tool_results == {"file-1": "Filed."}
    assert result.sub_runs == ()
    assert result.metadata.model_calls == 2


async def test_ended_runs_are_pruned_and_others_stay(tmp_path: Path) -> None:
    work = Work()
    one = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello there.")), work.step)
    await one.run("Greet me.", run_id="r0")
    llm = ScriptedLLM(call("step", number=1))
    await interrupt(agent(tmp_path / "r.db", llm, work.step), work.begun)
    assert await one.runs.prune(timedelta(days=1)) == 0
    assert await one.runs.prune(timedelta(0)) == 1
    assert [run.run_id for run in await one.runs.list()] == ["r1"]
    await one.runs.delete("r1")
    assert await one.runs.list() == ()


def running(one: ReactiveAgent, run_id: str) -> Any:
    """A tool that runs an agent under an id, which is that of a run in the agent's own record."""

    @tool(name="agent", idempotent=True)
    async def run(task: str) -> str:
        """Give a task to an agent."""
        return str((await one.run(task, run_id=run_id)).output)

    return run


@pytest.mark.parametrize("place", ["r.db", "own.db"])
async def test_sub_runs_are_pruned_with_their_caller_or_by_age_in_a_record_of_their_own(
    tmp_path: Path, place: str
) -> None:
    clerk = agent(tmp_path / place, ScriptedLLM(answer("Hello Ann.")))
    llm = ScriptedLLM(call("agent", task="Greet Ann."), answer("Hello Ann."))
    await agent(tmp_path / "r.db", llm, running(clerk, "r2")).run("Greet Ann.", run_id="r1")
    with sqlite_file(tmp_path / place) as file:
        file.execute("UPDATE runs SET updated_us = 0 WHERE parent IS NOT NULL")
    is_pruned = await clerk.runs.prune(timedelta(days=1)) == 1
    assert is_pruned == (place == "own.db")
    assert await clerk.runs.prune(timedelta(0)) == (not is_pruned)
    with sqlite_file(tmp_path / place) as file:
        assert file.execute("SELECT count(*) FROM runs").fetchone() == (0,)


@pytest.mark.parametrize("age", [timedelta.max, timedelta(days=-1), 30])
async def test_an_age_that_no_run_has_is_refused_and_nothing_is_deleted(tmp_path: Path, age: Any) -> None:
    one = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello there.")))
    await one.run("Greet me.", run_id="r0")
    with pytest.raises(AgentError) as refused:
        await one.runs.prune(age)
    assert isinstance(refused.value.error, InvalidConfig)
    assert len(await one.runs.list()) == 1


async def test_without_durability_there_are_no_recorded_runs() -> None:
    plain = ReactiveAgents.create().with_llm(ScriptedLLM()).build()
    with pytest.raises(AgentError) as missing:
        _ = plain.runs
    assert isinstance(missing.value.error, ServiceMissing)
    assert "with_durability(path)" in str(missing.value)


async def test_a_record_is_encrypted_with_a_key(tmp_path: Path) -> None:
    path, key = tmp_path / "r.db", bytes(range(32))

    def keyed(llm: ScriptedLLM, key: Any) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(llm).with_reasoning()
        return described.with_durability(path, recover=False, key=key).build()

    sealed = keyed(ScriptedLLM(*[answer("The code is violet-harbour.")] * 2), key)
    await sealed.run("Tell the secret code.", run_id="r1")
    await sealed.runs.fork("r1", at=1, message="Is violet-harbour the secret code?")
    stored = b"".join([await each.read_bytes() async for each in anyio.Path(tmp_path).iterdir()])
    assert b"violet-harbour" not in stored
    assert b"secret code" not in stored
    opened = keyed(ScriptedLLM(), lambda: urlsafe_b64encode(key).decode())
    assert (await opened.runs.wait("r1")).output == "The code is violet-harbour."
    assert (await opened.runs.replay("r1")).difference == ""
    wrong_ones = (b"short", "é", lambda: {}["no key"], (), (bytes(32), b"short"))
    for unusable in wrong_ones:
        one = keyed(ScriptedLLM(), unusable)
        for listed in (one.runs.list(), one.runs.questions(), one.runs.schedules()):
            with pytest.raises(AgentError, match=" key"):
                await listed
    for wrong in (None, bytes(32), *wrong_ones):
        with pytest.raises(AgentError) as refused:
            await keyed(ScriptedLLM(), wrong).runs.find("r1")
        assert isinstance(refused.value.error, RecordFailed)
        assert " key" in refused.value.error.message
    with pytest.raises(AgentError, match="32 bytes"):  # the library would take it for AES-128
        await keyed(ScriptedLLM(), bytes(16)).runs.find("r1")
    for empty in ("", b""):  # as from a variable that is not set
        with pytest.raises(AgentError, match="32 bytes"):
            await keyed(ScriptedLLM(), empty).run("Tell the secret code.", run_id="r2")


async def test_the_key_of_a_record_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, work = bytes(range(32)), bytes(range(32, 64)), Work()

    def keyed(llm: ScriptedLLM, key: Any) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(work.step)
        return described.with_durability(tmp_path / "r.db", recover=False, key=key).build()

    await interrupt(keyed(ScriptedLLM(call("step", number=1)), old), work.begun)
    with pytest.raises(AgentError, match="to change keys, give the new and the old one"):
        await keyed(ScriptedLLM(), new).runs.resume("r1")
    both = keyed(ScriptedLLM(answer("The step is in doubt.")), (new, old))
    assert (await both.runs.resume("r1")).output == "The step is in doubt."
    monkeypatch.setenv(KEY_VARIABLE, ", ".join(urlsafe_b64encode(each).decode() for each in (new, old)))
    later = keyed(ScriptedLLM(answer("Good morning.")), None)
    assert (await later.run("Say good morning.", run_id="r2")).output == "Good morning."
    assert (await later.runs.replay("r1")).difference == ""
    runs = {run.run_id: run.state for run in await keyed(ScriptedLLM(), new).runs.list()}
    assert runs == {"r2": "completed", "r1": "unreadable"}  # which still needs the old key


async def test_queues_that_are_overridden_after_the_first_use_are_too_late(tmp_path: Path) -> None:
    one = agent(tmp_path / "r.db", ScriptedLLM())
    assert await one.runs.list() == ()
    one.container.memory.queues.override(object())
    for late in (one.submit("Greet.", run_id="r1"), one.runs.work(until_idle=True)):
        with pytest.raises(LateOverrideError, match=r"memory\.queues"):
            await late
    assert await one.runs.list() == ()
    await one.aclose()


async def test_recorded_runs_go_on_with_the_services_of_today(tmp_path: Path) -> None:
    """Also those of an agent whose runs were looked at before its services changed."""
    one = agent(tmp_path / "r.db", ScriptedLLM())
    await one.submit("Greet.", run_id="r1", delay_s=3600)
    await one.runs.stop_workers()
    one.container.models.llm.override(ScriptedLLM(say("Hello there, from another model.")))
    with pytest.raises(LateOverrideError):
        await one.runs.resume("r1")
    assert [each.run_id for each in await one.runs.list()] == ["r1"]
    one.container.reset_singletons()
    assert (await one.runs.resume("r1")).output == "Hello there, from another model."
    await one.aclose()


async def test_the_runs_of_a_user_are_forgotten(tmp_path: Path) -> None:
    one = agent(tmp_path / "r.db", ScriptedLLM(answer("Hello Ann."), answer("Hello Bob.")))
    await one.run("Greet me.", run_id="r1", user="Ann")
    await one.run("Greet me.", run_id="r2", user="Bob")
    for user in ("Ann", "Bob"):
        await one.schedule(f"greet {user}", "0 0 1 1 *", "Greet me.", user=user)
    assert await one.forget(user="Ann") == 2
    assert [run.run_id for run in await one.runs.list()] == ["r2"]
    assert [each.name for each in await one.runs.schedules()] == ["greet Bob"]
    with closing(sqlite3.connect(tmp_path / "r.db")) as file:
        bodies = " ".join(body for (body,) in file.execute("SELECT body FROM run_entries"))
    assert ("Hello Ann" in bodies, "Hello Bob" in bodies) == (False, True)


async def test_a_stream_that_is_left_interrupts_a_durable_run(tmp_path: Path) -> None:
    work = Work()
    step = tool(idempotent=True)(work.step)
    one = agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1)), step)
    async with aclosing(one.stream("Do it.", run_id="r1")) as events:
        async for event in events:
            if isinstance(event, ModelCallCompleted):
                break
    assert (await one.runs.find("r1")).state == "interrupted"
    work.may_end.set()
    later = agent(tmp_path / "r.db", ScriptedLLM(answer("Did 1.")), step)
    last = [event async for event in later.stream("Do it.", run_id="r1")][-1]
    assert isinstance(last, TaskCompleted)
    assert last.result.output == "Did 1."


async def test_a_queued_run_that_was_interrupted_goes_on(tmp_path: Path) -> None:
    work = Work()
    step = tool(idempotent=True)(work.step)
    one = agent(tmp_path / "r.db", ScriptedLLM(call("step", number=1)), step)
    async with one:
        await one.submit("Do it.", run_id="r1")
        await work.begun.wait()
    work.may_end.set()
    later = agent(tmp_path / "r.db", ScriptedLLM(answer("Did 1.")), step)
    await later.runs.work(until_idle=True)
    assert (await later.runs.wait("r1")).output == "Did 1."


async def test_a_queued_run_of_another_task_or_agent_is_not_begun(tmp_path: Path) -> None:
    def named(name: str) -> ReactiveAgent:
        described = ReactiveAgents.create().with_name(name).with_llm(ScriptedLLM(say("It is done.")))
        return described.with_durability(tmp_path / "r.db", recover=False).build()

    one, other = named("one"), named("other")
    await one.submit("Do it.", run_id="r1", delay_s=3600)
    for refused, problem in (
        (one.run("Do something else.", run_id="r1"), "has another task"),
        (other.run("Do it.", run_id="r1"), "belongs to the agent 'one'"),
        (other.runs.resume("r1"), "belongs to the agent 'one'"),
    ):
        with pytest.raises(AgentError, match=problem) as raised:
            await refused
        assert isinstance(raised.value.error, RunRefused)
        assert (await one.runs.find("r1")).state == "queued"
    assert (await one.run("Do it.", run_id="r1")).output == "It is done."
    for each in (one, other):
        await each.aclose()


async def test_the_result_of_a_call_that_waits_is_json_data(tmp_path: Path) -> None:
    described = ReactiveAgents.create().with_llm(ScriptedLLM(call("place"), answer("In Oslo.")))
    described = described.with_reasoning().with_tools(
        external_tool("place", {"type": "object"}, description="Where I am.")
    )
    one, asked = described.with_durability(tmp_path / "r.db", recover=False).build(), anyio.Event()
    one.subscribe(lambda event: asked.set() if isinstance(event, ExternalCallRequested) else None)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: one.run("Where?", run_id="r1"))
        await asked.wait()
        for wrong in (object(), float("nan")):
            with pytest.raises(AgentError, match="expects JSON data as its result"):
                await one.runs.answer("r1", cast(Any, wrong))
        await one.runs.answer("r1", "Oslo")


@pytest.mark.parametrize("blank", ["", " \n", 5, None])
async def test_a_question_takes_no_blank_answer_from_another_process(tmp_path: Path, blank: Any) -> None:
    def clerk(*turns: Any) -> ReactiveAgent:
        described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_ask_user()
        return described.with_durability(tmp_path / "r.db", recover=False).build()

    first, asked = clerk(call("ask-user", question="Which size?")), anyio.Event()
    first.subscribe(lambda event: asked.set() if isinstance(event, QuestionAsked) else None)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: first.run("Order a shirt.", run_id="r1"))
        await asked.wait()
        group.cancel_scope.cancel()
    other = clerk(answer("Ordered in blue."))
    with pytest.raises(AgentError, match="not blank"):
        await other.runs.answer("r1", blank)
    await other.runs.answer("r1", "blue")
    assert (await other.runs.resume("r1")).output == "Ordered in blue."


# --- damaged records ------------------------------------------------------------------------------------


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "column",
    ["task", "definition", "changes", "result", "origin_entries", "due_us", "created_us", "updated_us"],
)
async def test_a_damaged_run_is_a_typed_error_and_hides_no_other(tmp_path: Path, column: str) -> None:
    turns = (say("All is well."), say("All is well."))
    described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns))
    async with described.with_durability(tmp_path / "sound.db").build() as agent:
        await agent.run("How are things?", run_id="r1")
        await agent.run("How are things?", run_id="r2")
    for number, value in enumerate(("{broken", b"\xff", "null", "[]", 10**18, DEEP)):
        path = tmp_path / f"damaged-{number}.db"
        with sqlite_file(tmp_path / "sound.db") as sound, sqlite_file(path) as file:
            sound.backup(file)
            file.execute(f"UPDATE runs SET {column} = ? WHERE run_id = 'r1'", (value,))
        async with described.with_durability(path).build() as agent:
            assert {run.run_id for run in await agent.runs.list()} == {"r1", "r2"}
            for operation in (agent.runs.resume, agent.runs.replay, agent.runs.find):
                with suppress(AgentError):  # any other exception fails
                    await operation("r1")
            with sqlite_file(path) as file:  # of itself
                file.execute("UPDATE runs SET origin = id, origin_entries = 1 WHERE run_id = 'r2'")
            with pytest.raises(AgentError, match="r2 is a fork of a later one"):
                await agent.runs.steps("r2")
            assert (await agent.runs.resume("r2")).output == "All is well."


@pytest.mark.parametrize(
    "body", ["{", "null", "[1]", '"x"', b"\xff", "{}", '{"asked": 1}', DEEP], ids=lambda body: str(body)[:9]
)
async def test_a_damaged_entry_is_a_typed_error_that_names_it(tmp_path: Path, body: str | bytes) -> None:
    path, work = tmp_path / "r.db", Work()
    await interrupt(agent(path, ScriptedLLM(call("step", number=1)), work.step), work.begun)
    with sqlite_file(path) as file:
        entries = [key for (key,) in file.execute("SELECT key FROM run_entries")]
        file.execute("CREATE TABLE sound AS SELECT * FROM run_entries")
    for key in entries:
        with sqlite_file(path) as file:
            file.execute("DELETE FROM run_entries")
            file.execute("INSERT INTO run_entries SELECT * FROM sound")
            file.execute("UPDATE run_entries SET body = ? WHERE key = ?", (body, key))
        one = agent(path, ScriptedLLM(*[answer("Did 1.")] * 2), work.step)
        fork = partial(one.runs.fork, at=1)
        for operation in (one.runs.replay, one.runs.steps, one.runs.recording, fork, one.runs.resume):
            told = ""
            try:
                await operation("r1")
            except AgentError as error:
                told = error.error.message
            assert body in ("{}", '{"asked": 1}') or f"the entry {key!r} cannot be read" in told
        await one.aclose()


async def test_a_damaged_definition_of_an_interrupted_run_is_a_typed_error(tmp_path: Path) -> None:
    path, work = tmp_path / "r.db", Work()
    await interrupt(agent(path, ScriptedLLM(call("step", number=1)), work.step), work.begun)
    with sqlite_file(path) as file:
        file.execute("UPDATE runs SET definition = '1'")
    with pytest.raises(AgentError, match="the run r1 has a damaged value"):
        await agent(path, ScriptedLLM(answer("Did 1.")), work.step).runs.resume("r1")


class Held(ScriptedLLM):
    """A model that answers when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_answer = anyio.Event(), anyio.Event()

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        self.asked.set()
        await self.may_answer.wait()
        return Success(ModelResponse("Hello.", "m"))


async def test_a_run_under_way_is_left_alone_by_those_that_recover(tmp_path: Path) -> None:
    class Read(SqliteRunRecord):
        @effect
        async def interrupted(self, agent_id: Any) -> Any:
            found = await attempt(super().interrupted(agent_id))
            model.may_answer.set()
            return found

    model, recovered = Held(), list[Any]()
    one, other = agent(tmp_path / "r.db", model), agent(tmp_path / "r.db", ScriptedLLM())
    other.container.memory.record.override(Object(Read(tmp_path / "r.db", clock=SystemClock())))
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: one.run("Greet.", run_id="r1"))
        await model.asked.wait()
        recovered.append(await other.runs.recover())
    assert recovered == [{}]


async def test_a_question_of_a_run_that_has_ended_waits_for_nobody(tmp_path: Path) -> None:
    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        raise AssertionError("it was not approved")

    one = agent(tmp_path / "r.db", ScriptedLLM(call("send", to="Ann")), send, approval=True)
    await interrupt(one, asked_of(one))
    assert [each.run_id for each in await one.runs.questions()] == ["r1"]
    await one.runs.cancel("r1")
    assert await one.runs.questions() == ()
    assert await one.runs.questions("r1") == ()
    with pytest.raises(AgentError):
        await one.runs.approve("r1")


@pytest.mark.parametrize("places", ["r.db", "own.db", "own.db r.db"])
@pytest.mark.parametrize("ends_by", ["cancel", "stop"])
async def test_a_question_of_a_sub_run_waits_for_nobody_when_its_caller_has_ended(
    tmp_path: Path, ends_by: str, places: str
) -> None:
    """Neither in the record of its caller nor in another one, at any depth."""

    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a mail."""
        raise AssertionError("it was not approved")

    path, outcomes = tmp_path / "r.db", list[TaskResult | AgentError]()
    asking, *between = [tmp_path / each for each in places.split()]
    clerk = agent(asking, ScriptedLLM(call("send", to="Ann")), send, approval=True)
    for number, each in enumerate((*between, path), 2):
        llm = ScriptedLLM(call("agent", task="Write to Ann."))
        clerk = agent(each, llm, running(clerk, f"r{number}"), approval=True)
    one, caller, other = clerk, agent(path, ScriptedLLM()), agent(asking, ScriptedLLM())
    task = one.new_task("Do it.")

    async def run() -> None:
        try:
            outcomes.append(await one.run(task, run_id="r1"))
        except AgentError as error:
            outcomes.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        asked = await other.runs.questions()
        while not asked:
            await anyio.lowlevel.checkpoint()
            asked = await other.runs.questions()
        if ends_by == "cancel":
            await caller.runs.cancel("r1")
        else:
            one.stop(task.id).unwrap()
    assert isinstance(outcomes[0], AgentError) == (ends_by == "cancel")
    assert await other.runs.questions() == ()
    (question,) = asked
    assert (await other.runs.find(question.run_id)).state == "cancelled"
    with pytest.raises(AgentError):
        await other.runs.approve(question.run_id)
    for each in {path, asking, *between}:
        with sqlite_file(each) as file:
            assert file.execute("SELECT count(*) FROM runs WHERE status = 'open'").fetchone() == (0,)


async def test_a_sub_run_that_a_tool_began_in_the_background_outlives_its_caller(tmp_path: Path) -> None:
    begun, go_on, path = asyncio.Event(), asyncio.Event(), tmp_path / "r.db"

    @tool
    async def work() -> str:
        """Work for long."""
        begun.set()
        await go_on.wait()
        return "worked"

    clerk = agent(path, ScriptedLLM(call("work"), say("It is done.")), work)
    outcomes = list["asyncio.Task[Any]"]()

    @tool
    async def start() -> str:
        """Begin the work in the background."""

        async def run() -> Any:
            return await clerk.run("Work.", run_id="background")

        outcomes.append(asyncio.create_task(run()))
        await begun.wait()
        return "begun"

    one = agent(path, ScriptedLLM(call("start"), say("It is under way.")), start)
    await one.run("Do it.")
    assert (await one.runs.find("background")).state == "running"
    go_on.set()
    assert (await outcomes[0]).output == "It is done."
    assert (await one.runs.find("background")).state == "completed"


async def test_runs_in_the_background_that_end_while_their_caller_ends_do_not_fail_it(tmp_path: Path) -> None:
    begun, clerks, outcomes = asyncio.Event(), tmp_path / "clerks.db", list["asyncio.Task[Any]"]()

    class Record(SqliteRunRecord):
        @effect
        async def find(self, run_id: RunId) -> Any:
            found = await attempt(super().find(run_id))
            if outcomes and is_over:  # as asked by the end of the caller
                go_on.set()
                await asyncio.wait(outcomes)
            return found

    is_over, go_on = False, asyncio.Event()

    @tool
    async def work() -> str:
        """Work for long."""
        begun.set()
        await go_on.wait()
        return "worked"

    clerk = agent(clerks, ScriptedLLM(call("work"), say("It is done.")), work)
    clerk.container.memory.record.override(Object(Record(clerks, clock=SystemClock())))

    @tool
    async def start() -> str:
        """Begin the work in the background."""

        async def run() -> Any:
            return await clerk.run("Work.", run_id="background")

        outcomes.append(asyncio.create_task(run()))
        await begun.wait()
        nonlocal is_over
        is_over = True
        return "begun"

    one = agent(tmp_path / "r.db", ScriptedLLM(call("start"), say("It is under way.")), start)
    assert (await one.run("Do it.")).output == "It is under way."
    assert (await outcomes[0]).output == "It is done."


# --- dependencies, which no record has -------------------------------------------------------------------


@frozen
class Shop:
    owner: str


def seller(path: Path, *turns: Any) -> ReactiveAgent[Any, Shop]:
    @tool(requires_approval=True)
    def sell(ctx: RunContext[Shop], count: int) -> str:
        """Sell tea."""
        return f"{ctx.deps.owner} sold {count} to {ctx.user} in {ctx.session}"

    described = ReactiveAgents.create(deps=Shop).with_llm(ScriptedLLM(*turns)).with_reasoning()
    described = described.with_tools(sell).with_approval(timeout_s=60)
    return described.with_durability(path, recover=False).build()


async def waiting_sale(path: Path, run_id: str, **options: Any) -> None:
    """Leave a run that waits for approval, which is then given."""
    one = seller(path, call("sell", count=4))
    asked = anyio.Event()
    one.subscribe(lambda event: asked.set() if isinstance(event, ApprovalRequested) else None)
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: one.run("Sell 4.", deps=Shop("first"), run_id=run_id, **options))
        await asked.wait()
        group.cancel_scope.cancel()
    await one.runs.approve(run_id)


@pytest.mark.parametrize(
    ("go_on", "got"),
    [
        (lambda one: one.runs.resume("r1"), "nothing"),
        (lambda one: one.runs.resume("r1", deps=7), "an int"),
        (lambda one: one.runs.recover(), "nothing"),
        (lambda one: one.runs.recover(deps=7), "an int"),
        (lambda one: one.runs.work(until_idle=True), "nothing"),
        (lambda one: one.runs.work(until_idle=True, deps=7), "an int"),
    ],
)
async def test_no_run_goes_on_without_its_dependencies(tmp_path: Path, go_on: Any, got: str) -> None:
    await waiting_sale(tmp_path / "r.db", "r1")
    one = seller(tmp_path / "r.db")
    with pytest.raises(AgentError) as refused:
        await go_on(one)
    assert refused.value.error == InvalidConfig("deps", got, "a Shop, with which the agent was created")
    assert ((await one.runs.find("r1")).status, (await one.runs.find("r1")).attempt) == ("open", 1)
    result = await seller(tmp_path / "r.db", answer("4 sold.")).runs.resume("r1", deps=Shop("second"))
    assert result.tool_results == {"sell-1": "second sold 4 to None in None"}
    assert (await one.runs.resume("r1")).output == "4 sold."  # a recorded result needs none


async def test_a_queue_is_left_to_workers_that_have_the_dependencies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("croniter")
    async with seller(tmp_path / "r.db") as one:
        for run_id in ("r1", "r2"):
            await one.submit("Sell 4.", run_id=run_id)
        await one.schedule("s", "0 0 1 1 *", "Sell 4.")
        await waiting_sale(tmp_path / "r.db", "r3")  # a worker would continue it
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert {run.status for run in await one.runs.list()} == {"queued", "open"}
    (told,) = [each.getMessage() for each in caplog.records if "is left to workers" in each.getMessage()]
    assert "queue default" in told
    assert "deps: got nothing, expected a Shop" in told


@pytest.mark.parametrize("how", ["resume", "recover", "work"])
async def test_a_function_makes_the_dependencies_of_each_recorded_run(tmp_path: Path, how: str) -> None:
    for name in ("ada", "eve"):
        await waiting_sale(tmp_path / "r.db", f"of-{name}", user=name, session=f"chat-{name}")
    one = seller(tmp_path / "r.db", *[answer("4 sold.")] * 2)

    async def shop_of(ctx: RunContext[None]) -> Shop:
        return Shop(f"the shop of {ctx.user}, {ctx.session}, {ctx.run_id}")

    if how == "resume":
        for name in ("ada", "eve"):
            await one.runs.resume(f"of-{name}", deps=shop_of)
    elif how == "recover":
        await one.runs.recover(deps=shop_of)
    else:
        await one.runs.work(until_idle=True, deps=shop_of)
    for name in ("ada", "eve"):
        (sold,) = (await one.runs.wait(f"of-{name}")).tool_results.values()
        assert sold == f"the shop of {name}, chat-{name}, of-{name} sold 4 to {name} in chat-{name}"


async def test_a_run_whose_dependencies_cannot_be_made_stays_interrupted(tmp_path: Path) -> None:
    for name in ("ada", "eve", "bob"):
        await waiting_sale(tmp_path / "r.db", name, user=name)
    one = seller(tmp_path / "r.db", answer("4 sold."))

    def shop_of(ctx: RunContext[None]) -> object:
        if ctx.user == "ada":
            raise LookupError("no such shop")
        return Shop("third") if ctx.user == "bob" else 7

    def no_function(first: object, second: object) -> None: ...

    outcomes = await one.runs.recover(deps=shop_of)
    told = {run_id: outcome.failure() for run_id, outcome in outcomes.items() if isinstance(outcome, Failure)}
    name, expected = "shop_of", "deps: got an int, expected a Shop, with which the agent was created"
    assert told == {
        "ada": RunRefused("ada", f"has no dependencies: {name} raised LookupError"),
        "eve": RunRefused("eve", f"has no dependencies from {name}: {expected}"),
    }
    assert {*await one.runs.work(until_idle=True, deps=shop_of)} == {"ada", "eve"}
    runs = {run.run_id: (run.status, run.attempt) for run in await one.runs.list()}
    assert runs == {"ada": ("open", 3), "eve": ("open", 3), "bob": ("completed", 2)}
    with pytest.raises(AgentError, match="deps: got a function, expected a function that takes at most"):
        await one.runs.recover(deps=no_function)
