"""The desk of requests to people: handlers, decisions from elsewhere, and what happens without any."""

from __future__ import annotations

import threading

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.requests import Answer, ApprovalHandler, LocalRequestDesk
from reactive_agents.core.errors import ApprovalNotPending, ServiceFailed
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest, QuestionRequest, Reply
from reactive_agents.core.ids import AgentId, ApprovalId, CallId, RequestId, RunId, TaskId
from reactive_agents.effects import attempt
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

RUN, ASKED = RunId("run"), ApprovalId("asked")
REQUEST = ApprovalRequest(
    RUN, TaskId("task"), AgentId("agent"), ASKED, CallId("call"), "shell", {"command": ["ls"]}, "high"
)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def says_yes(request: ApprovalRequest) -> Answer:
    return request.tool_name == "shell"


async def raises(request: ApprovalRequest) -> Answer:
    raise OSError("terminal closed")


@pytest.mark.parametrize(
    ("handler", "decision"),
    [
        (says_yes, ApprovalDecision(True)),
        (lambda request: True, ApprovalDecision(True)),
        (lambda request: says_yes(request), ApprovalDecision(True)),
        (lambda request: False, ApprovalDecision(False)),
        (lambda request: None, ApprovalDecision(False)),
        (lambda request: "yes", ApprovalDecision(False)),
        (lambda request: ApprovalDecision(False, "too risky"), ApprovalDecision(False, "too risky")),
        (raises, ApprovalDecision(False, "asking for approval failed (OSError: terminal closed).")),
    ],
)
async def test_a_handler_decides_and_only_a_clear_yes_approves(
    handler: ApprovalHandler, decision: ApprovalDecision
) -> None:
    assert (await attempt(LocalRequestDesk(handler).decide(REQUEST))).unwrap() == decision


async def test_a_handler_in_which_something_is_cancelled_denies_at_once() -> None:
    async def waits(request: ApprovalRequest) -> Answer:
        raise anyio.get_cancelled_exc_class()

    decided = (await attempt(LocalRequestDesk(waits, timeout_s=3_600.0).decide(REQUEST))).unwrap()
    assert not decided.approved
    assert decided.reason.startswith("asking for approval failed (")


async def test_a_plain_handler_runs_beside_the_event_loop() -> None:
    threads: list[int] = []

    def ask(request: ApprovalRequest) -> bool:
        threads.append(threading.get_ident())
        return True

    await attempt(LocalRequestDesk(ask).decide(REQUEST))
    assert threads != [threading.get_ident()]


async def test_a_handler_that_takes_its_time_keeps_no_tool_waiting_for_a_thread() -> None:
    anyio.to_thread.current_default_thread_limiter().total_tokens = 1
    asked, answered = anyio.Event(), threading.Event()

    def ask(request: ApprovalRequest) -> bool:
        anyio.from_thread.run_sync(asked.set)
        return answered.wait()

    async def decide() -> None:
        assert (await attempt(LocalRequestDesk(ask).decide(REQUEST))).unwrap() == ApprovalDecision(True)

    async with anyio.create_task_group() as group:
        group.start_soon(decide)
        await asked.wait()
        await anyio.to_thread.run_sync(answered.set)


async def decide_elsewhere(
    desk: LocalRequestDesk, *, approve: bool
) -> Result[ApprovalDecision, ServiceFailed]:
    decisions: list[Result[ApprovalDecision, ServiceFailed]] = []

    async def ask() -> None:
        decisions.append(await attempt(desk.decide(REQUEST)))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await until(lambda: desk.pending() == (REQUEST,))
        settled = desk.approve(RUN, ASKED) if approve else desk.deny(RUN, ASKED, "not today")
        assert isinstance(settled, Success)
        assert isinstance(desk.approve(RUN, ASKED), Failure)
    assert desk.pending() == ()
    return decisions[0]


async def test_a_decision_may_come_from_elsewhere() -> None:
    assert (await decide_elsewhere(LocalRequestDesk(), approve=True)).unwrap() == ApprovalDecision(True)
    denied = await decide_elsewhere(LocalRequestDesk(), approve=False)
    assert denied.unwrap() == ApprovalDecision(False, "not today")


async def test_the_arguments_of_a_waiting_call_are_in_no_text_of_the_desk() -> None:
    """Programs log their objects, and a call may have a password."""
    shown: list[str] = []

    def look(request: ApprovalRequest) -> bool:
        shown.append(repr(desk))
        return False

    desk = LocalRequestDesk(look)
    await attempt(desk.decide(REQUEST))
    assert len(shown) == 1
    assert "ls" not in shown[0]


async def test_a_decision_from_elsewhere_goes_before_the_handler() -> None:
    ended: list[str] = []

    async def slow(request: ApprovalRequest) -> bool:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("handler")
        return False

    decided = await decide_elsewhere(LocalRequestDesk(slow), approve=True)
    assert decided.unwrap() == ApprovalDecision(True)
    assert ended == ["handler"]


async def test_nobody_deciding_is_a_denial() -> None:
    decision = (await attempt(LocalRequestDesk(timeout_s=0.02).decide(REQUEST))).unwrap()
    assert decision == ApprovalDecision(False, "no decision came within 0.02 seconds.")


async def test_the_same_call_cannot_be_asked_about_twice_at_once() -> None:
    desk = LocalRequestDesk(timeout_s=0.1)
    failures: list[ServiceFailed] = []

    async def ask() -> None:
        decided = await attempt(desk.decide(REQUEST))
        if isinstance(decided, Failure):
            failures.append(decided.failure())

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        group.start_soon(ask)
    assert [failure.operation for failure in failures] == ["decide"]
    assert desk.pending() == ()


async def test_deciding_what_is_not_pending_is_a_typed_failure() -> None:
    desk = LocalRequestDesk()
    error = desk.deny(RUN, ASKED).failure()
    assert error == ApprovalNotPending(RUN, ASKED)
    assert "'asked'" in error.message


# --- questions and external calls -----------------------------------------------------------------------

QUESTION = QuestionRequest(
    RunId("run"), TaskId("task"), AgentId("agent"), RequestId("q"), CallId("call"), "Which?", timeout_s=5.0
)


async def test_of_many_answers_from_many_threads_one_counts() -> None:
    desk = LocalRequestDesk()
    pending = desk.reply(QUESTION)
    together = threading.Barrier(8)
    accepted: list[str] = []

    def reply(text: str) -> None:
        together.wait()
        if isinstance(desk.answer(RunId("run"), RequestId("q"), text), Success):
            accepted.append(text)

    threads = [threading.Thread(target=reply, args=(str(number),)) for number in range(8)]
    for each in threads:
        each.start()
    answered = (await attempt(pending)).unwrap()
    for each in threads:
        each.join()
    assert accepted == [answered.value]
    assert desk.questions() == ()


async def test_a_question_is_pending_before_it_is_awaited_and_no_more_when_that_is_cancelled() -> None:
    desk = LocalRequestDesk()
    pending = desk.reply(QUESTION)
    assert desk.questions() == (QUESTION,)
    async with anyio.create_task_group() as group:
        group.start_soon(attempt, pending)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert desk.questions() == ()
    assert isinstance(desk.answer(RunId("run"), RequestId("q"), "late"), Failure)
    assert isinstance((await attempt(desk.reply(evolve(QUESTION, timeout_s=0.001)))).unwrap(), Reply)
