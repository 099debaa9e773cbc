"""Runs of a server that are followed by their record, as by AG-UI, A2A and MCP after a restart."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest
from dependency_injector.providers import Object
from pydantic import AfterValidator
from returns.result import Failure, Result

from reactive_agents import AgentError, ReactiveAgents, tool
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.governance import ApprovalDecision
from reactive_agents.core.ids import RunId
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.run_errors import RecordErrors, RecordFailed
from reactive_agents.core.run_record import RecordedRun
from reactive_agents.core.tasks import TaskResult
from reactive_agents.effects import effect
from reactive_agents.server.runs import (
    AgentService,
    Answer,
    LiveRun,
    RequestKey,
    RunRequest,
    outcome_of,
    question_text,
    request_key,
)
from reactive_agents.server.web import Problem
from reactive_agents.testing import ScriptedLLM, answer, call, forever, say
from tests.support.sqlite_files import sqlite_file
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

PAID: list[str] = []
YES: Answer = ("approval", ApprovalDecision(approved=True))


@tool(requires_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    PAID.append(to)
    return "paid"


@asynccontextmanager
async def service_of(path: Path, *turns: Any) -> AsyncIterator[AgentService]:
    """The service of an agent whose payments need approval, as of a process of its own."""
    agent = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(*turns)).with_reasoning()
    agent = (
        agent.with_tools(pay, transfer).with_approval(timeout_s=3_600.0).with_durability(path, recover=False)
    )
    async with agent.build() as clerk:
        service = AgentService({"clerk": clerk})
        try:
            yield service
        finally:
            await service.drain(0)


async def waiting_run(service: AgentService) -> LiveRun:
    run = await service.start_here(service.anybody, "clerk", RunRequest("Pay Ann.", run_id=RunId("r")))
    await until(lambda: run.requests)
    return run


async def test_events_wake_nobody_who_waits_for_the_end_or_the_limit_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, turned = list[LiveRun](), LiveRun.turned

    async def counted(run: LiveRun) -> None:
        waits.append(run)
        await turned(run)

    monkeypatch.setattr(LiveRun, "turned", counted)
    async with service_of(tmp_path / "runs.db", call("pay", to="Ann"), answer("Paid.")) as service:
        run = await waiting_run(service)
        await service.settle(service.anybody, run, *next(iter(run.requests)), YES)
        await run.until_ended()
    assert len(waits) <= 5 < run.last  # both as the request is made, is settled, and as the run ends


def existing(payee: str) -> str:
    if payee not in ("Ann", "Bo"):
        raise ValueError("the name of a payee")
    return payee


@tool(requires_approval=True)
def transfer(to: Annotated[str, AfterValidator(existing)]) -> str:
    """Transfer money."""
    PAID.append(to)
    return "paid"


def approved_with(to: str) -> Answer:
    return ("approval", ApprovalDecision(approved=True, arguments={"to": to}))


async def test_other_arguments_that_only_the_tool_can_refuse_leave_the_call_waiting(tmp_path: Path) -> None:
    PAID.clear()
    turns = call("transfer", to="Ann"), answer("Paid.")
    async with service_of(tmp_path / "runs.db", *turns) as service:
        run = await waiting_run(service)
        (key,) = run.requests
        with pytest.raises(Problem, match="expected the name of a payee"):
            await service.settle(service.anybody, run, *key, approved_with("Zed"))
        assert [*run.requests] == [key]
        await service.settle(service.anybody, run, *key, approved_with("Bo"))
        await run.until_ended()
    assert PAID == ["Bo"]


async def last_of(service: AgentService, answered: set[RequestKey]) -> Any:
    """Return the run as its end or a new request is shown."""
    run: Any = None
    async with aclosing(service.follow_recorded(service.anybody, "r", answered)) as followed:
        async for run, asked in followed:
            if asked or outcome_of(run) is not None:
                return run, asked
    return run, []


async def settle_all(service: AgentService, run: Any, asked: Any) -> set[RequestKey]:
    keys = {request_key(each) for each in asked}
    for key in keys:
        await service.settle(service.anybody, run, *key, YES)
    return keys


async def test_a_request_has_one_form_before_and_after_a_restart(tmp_path: Path) -> None:
    async with service_of(tmp_path / "r.db", call("pay", to="Ann")) as service:
        (live,) = await service.open_questions(await waiting_run(service))
    async with service_of(tmp_path / "r.db") as service:
        _, (recorded,) = await last_of(service, set())
    assert request_key(live) == request_key(recorded)
    assert (live.kind, question_text(live)) == (recorded.kind, question_text(recorded))
    assert question_text(live) == 'pay {"to": "Ann"} (low risk)'


async def test_a_custom_record_that_cannot_ask_below_a_run_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class OldRecord(SqliteRunRecord):
        def questions(self, run_id: RunId | None = None) -> Any:  # type: ignore[override]
            return super().questions(run_id)

    async with service_of(tmp_path / "r.db", call("pay", to="Ann")) as service:
        await waiting_run(service)
    async with service_of(tmp_path / "r.db") as service:
        clerk = service.agents["clerk"]
        clerk.container.memory.record.override(Object(OldRecord(tmp_path / "r.db", clock=SystemClock())))
        run = await service.find(service.anybody, "r")
        with pytest.raises(AgentError, match=r"record service OldRecord raised TypeError: .*'below'"):
            await clerk.runs.questions("r", below=True)
        with pytest.raises(Problem) as refused:
            await service.open_questions(run)
        with pytest.raises(Problem) as unsettled:
            await service.settle(service.anybody, run, "r", "x", YES)
    assert (refused.value.status, unsettled.value.status) == (503, 503)
    assert "OldRecord" in caplog.text


@pytest.mark.parametrize("act", ["order", "answer"])
async def test_what_cannot_be_recorded_is_a_failure_of_the_store(tmp_path: Path, act: str) -> None:
    """Not a request that waits no more: whoever hears that gives up."""

    class FullRecord(SqliteRunRecord):
        @effect
        async def answer(self, run_id: RunId, entry: Any) -> Result[bool, RecordErrors]:
            return Failure(RecordFailed("The disk is full.", "answer"))

        @effect
        async def order(self, run_id: RunId, order: Any) -> Result[bool, RecordErrors]:
            return Failure(RecordFailed("The disk is full.", "order"))

    async with service_of(tmp_path / "r.db", call("pay", to="Ann")) as service:
        await waiting_run(service)
    async with service_of(tmp_path / "r.db") as service:
        record = FullRecord(tmp_path / "r.db", clock=SystemClock())
        service.agents["clerk"].container.memory.record.override(Object(record))
        run, (asked,) = await last_of(service, set())
        key = request_key(asked)
        acts = {"order": lambda: service.order(service.anybody, run, "pause")}
        acts["answer"] = lambda: service.settle(service.anybody, run, *key, YES)
        with pytest.raises(Problem) as failed:
            await acts[act]()
    assert (failed.value.status, failed.value.code) == (503, "store-unavailable")


async def test_a_recorded_run_is_followed_over_its_requests_to_its_end(tmp_path: Path) -> None:
    PAID.clear()
    async with service_of(tmp_path / "r.db", call("pay", to="Ann")) as service:
        await waiting_run(service)
    turns = call("pay", to="Ben"), forever(answer("Ann and Ben are paid."))
    async with service_of(tmp_path / "r.db", *turns) as service:
        run, asked = await last_of(service, set())
        assert isinstance(run, RecordedRun)
        assert PAID == []
        answered = await settle_all(service, run, asked)
        run, asked = await last_of(service, answered)
        assert (PAID, [each.request["arguments"] for each in asked]) == (["Ann"], [{"to": "Ben"}])
        answered |= await settle_all(service, run, asked)
        run, asked = await last_of(service, answered)
    assert (outcome_of(run).output, asked, PAID) == ("Ann and Ben are paid.", [], ["Ann", "Ben"])  # type: ignore[union-attr]


async def test_processes_that_follow_one_run_continue_it_once(tmp_path: Path) -> None:
    PAID.clear()
    async with service_of(tmp_path / "r.db", call("pay", to="Ann")) as service:
        await waiting_run(service)
    ends: list[Any] = []
    turns = [forever(answer("Ann is paid."))]
    async with service_of(tmp_path / "r.db", *turns) as one, service_of(tmp_path / "r.db", *turns) as other:
        answered = await settle_all(one, *await last_of(one, set()))

        async def follow(service: AgentService) -> None:
            ends.append(await last_of(service, answered))

        async with anyio.create_task_group() as group:
            for each in (one, other, one):
                group.start_soon(follow, each)
        assert max(one.started, other.started) == 1
    assert [outcome_of(run).output for run, _ in ends] == ["Ann is paid."] * 3  # type: ignore[union-attr]
    assert PAID == ["Ann"]


@pytest.mark.parametrize("approves_last", [True, False])
async def test_a_decision_that_another_process_took_first_is_not_said_to_be_taken(
    tmp_path: Path, approves_last: bool
) -> None:
    PAID.clear()
    last: Answer = ("approval", ApprovalDecision(approves_last))
    first: Answer = ("approval", ApprovalDecision(not approves_last))
    turns = call("pay", to="Ann"), forever(answer("The payment of Ann is settled."))
    async with service_of(tmp_path / "r.db", *turns) as one, service_of(tmp_path / "r.db") as other:
        run = await waiting_run(one)
        recorded, (asked,) = await last_of(other, set())
        await other.settle(other.anybody, recorded, *request_key(asked), first)
        with pytest.raises(Problem) as refused:
            await one.settle(one.anybody, run, *request_key(asked), last)
        await run.until_ended()
    assert refused.value.code == "not-waiting"
    assert ([] if approves_last else ["Ann"]) == PAID


async def test_a_run_is_continued_here_when_the_process_that_has_it_ends(tmp_path: Path) -> None:
    PAID.clear()
    looks = 0
    async with service_of(tmp_path / "r.db", forever(answer("Ann is paid."))) as here:
        async with service_of(tmp_path / "r.db", call("pay", to="Ann"), say("x", delay=3_600)) as there:
            run = await waiting_run(there)
            answered = await settle_all(there, run, run.questions)
            await until(lambda: PAID)
            followed = here.follow_recorded(here.anybody, "r", answered)
            async for found, asked in followed:
                assert isinstance(found, RecordedRun)
                assert (found.is_held, asked) == (True, [])
                looks += 1
                if looks == 2:
                    break
            await there.drain(0)
        async for found, _ in followed:
            if outcome_of(found) is not None:
                break
        await followed.aclose()
    assert (outcome_of(found).output, PAID) == ("Ann is paid.", ["Ann"])  # type: ignore[union-attr]


async def test_a_server_that_stops_follows_no_run_of_another_process(tmp_path: Path) -> None:
    async with (
        service_of(tmp_path / "r.db") as here,
        service_of(tmp_path / "r.db", call("pay", to="A")) as there,
    ):
        run = await waiting_run(there)
        keys = {request_key(each) for each in run.questions}
        async with aclosing(here.follow_recorded(here.anybody, "r", keys)) as followed:
            await anext(followed)
            await here.drain(0)
            with pytest.raises(Problem) as stopped:
                await anext(followed)
        assert not run.has_ended
    assert stopped.value.code == "draining"


async def test_a_run_that_is_deleted_is_followed_no_more(tmp_path: Path) -> None:
    async with service_of(tmp_path / "r.db", call("pay", to="Ann")) as service:
        await waiting_run(service)
    async with service_of(tmp_path / "r.db") as service:
        run, asked = await last_of(service, set())
        await service.delete(run)
        with pytest.raises(Problem) as gone:
            await last_of(service, {request_key(each) for each in asked})
    assert gone.value.status == 404


async def test_long_texts_of_the_record_hold_up_no_other_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, on_the_loop = threading.get_ident(), list[int]()
    redacted_once = Redactor._redact_once

    def redact_once(redactor: Redactor, text: str) -> str:
        if threading.get_ident() == here:
            on_the_loop.append(len(text))
        return redacted_once(redactor, text)

    long = "The code is sk-proj-0123456789abcdefghijABCDEFGHIJ0123456789. " * 1_000
    async with service_of(tmp_path / "runs.db", say("Done.")) as service:
        asked = RunRequest(long, run_id=RunId("r"))
        await (await service.start_here(service.anybody, "clerk", asked)).until_ended()
    monkeypatch.setattr(Redactor, "_redact_once", redact_once)
    async with service_of(tmp_path / "runs.db") as service:
        (listed,) = await service.recent(service.anybody, None, None, None, 50)
        found = await service.find(service.anybody, "r")
    assert "sk-proj" not in listed.task.input + found.task.input
    assert max(on_the_loop, default=0) < 50_000


@pytest.mark.parametrize("order", ["cancel", "stop", "pause"])
async def test_an_order_to_a_run_that_has_ended_is_not_carried_out_by_its_fork(
    tmp_path: Path, order: str
) -> None:
    turns = call("pay", to="Ann"), answer("Paid."), forever(call("pay", to="Ann"))
    async with service_of(tmp_path / "r.db", *turns) as service:
        run = await waiting_run(service)
        await service.settle(service.anybody, run, *next(iter(run.requests)), YES)
        await run.until_ended()
        name = await service.agents["clerk"].runs.fork("r", at=1)
        await service.order(service.anybody, await service.find(service.anybody, name), "resume")
        fork = await service.find(service.anybody, name)
        assert isinstance(fork, LiveRun)
        await until(lambda: fork.requests)
        with pytest.raises(Problem, match="The run is completed"):
            await service.order(service.anybody, run, order)
        assert fork.state == "waiting"


async def test_a_fork_of_a_run_that_is_under_way_here_waits_for_its_end(tmp_path: Path) -> None:
    turns = call("pay", to="Ann"), answer("Paid."), forever(call("pay", to="Bob"))
    async with service_of(tmp_path / "r.db", *turns) as service:
        run = await waiting_run(service)
        name = await service.agents["clerk"].runs.fork("r", at=1)
        with pytest.raises(Problem, match="a fork of a run that is under way here") as refused:
            await service.order(service.anybody, await service.find(service.anybody, name), "resume")
        assert (refused.value.status, refused.value.code) == (409, "fork-under-way")
        await service.settle(service.anybody, run, *next(iter(run.requests)), YES)
        await run.until_ended()
        await service.order(service.anybody, await service.find(service.anybody, name), "resume")
        fork = await service.find(service.anybody, name)
        assert isinstance(fork, LiveRun)
        await until(lambda: fork.state == "waiting")


async def test_a_list_reads_no_more_of_a_run_than_it_shows(tmp_path: Path) -> None:
    async with service_of(tmp_path / "r.db", say("Done."), forever(answer("Done."))) as service:
        run = await service.start_here(service.anybody, "clerk", RunRequest("Do it.", run_id=RunId("r")))
        await run.until_ended()
    async with service_of(tmp_path / "r.db") as service:
        (listed,) = await service.recent(service.anybody, None, None, None, 50)
        found = await service.find(service.anybody, "r")
    brief, whole = outcome_of(listed), outcome_of(found)
    assert isinstance(brief, TaskResult)
    assert isinstance(whole, TaskResult)
    assert whole.steps
    assert (brief.steps, brief.new_messages) == ((), ())
    assert (brief.output, brief.reason, brief.metadata) == (whole.output, whole.reason, whole.metadata)


async def test_a_run_whose_result_cannot_be_read_has_ended(tmp_path: Path) -> None:
    async with service_of(tmp_path / "r.db", forever(answer("Done."))) as service:
        run = await service.start_here(service.anybody, "clerk", RunRequest("Do it.", run_id=RunId("r")))
        await run.until_ended()
    with sqlite_file(tmp_path / "r.db") as file:
        file.execute("UPDATE runs SET result = ?", (json.dumps({"form": "unknown"}),))
    async with service_of(tmp_path / "r.db") as service:
        run, asked = await last_of(service, set())
    assert (outcome_of(run), asked) == (None, [])
