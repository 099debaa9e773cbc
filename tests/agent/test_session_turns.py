"""The order of runs in a session, where processes stand still, users leave and names are taken."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters import leases
from reactive_agents.adapters.leases import LeaseRenewal
from reactive_agents.adapters.memory import sessions
from reactive_agents.adapters.memory.sessions import LEASE_S, SqliteSessions
from reactive_agents.adapters.telemetry.console import Line, describe
from reactive_agents.adapters.telemetry.run_log import SqliteRunLog
from reactive_agents.core.conversation import History, SessionKey, SessionTurn
from reactive_agents.core.errors import ExecutionError, SessionRefused
from reactive_agents.core.events import ExecutionPhaseFailed, SessionAwaited, TaskFailed
from reactive_agents.core.governance import ApprovalRequest
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt
from reactive_agents.engine import ExecutionContext
from reactive_agents.studio.run_document import timeline_of
from reactive_agents.testing import EventRecorder, FakeClock, ScriptedLLM, answer, call, calls, forever
from reactive_agents.testing.core import START
from tests.support.sqlite_files import counting
from tests.support.virtual_time import SettableClock
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

AGENT = AgentId("agent")
KEY = SessionKey(AGENT, SessionId("a"), "ada")
ONE, TWO, THREE = RunId("run-1"), RunId("run-2"), RunId("run-3")


class CountingClock(FakeClock):
    """Counts how often it is looked at."""

    count = 0

    def now(self) -> datetime:
        """Return the time."""
        self.count += 1
        return super().now()


def turn(run: RunId) -> SessionTurn:
    return SessionTurn(run, (UserMessage(f"asked {run}"), AssistantMessage(f"said {run}")), f"text {run}")


async def begun(store: SqliteSessions, run: RunId, key: SessionKey = KEY) -> History:
    return (await attempt(store.begin(key, run, size=10_000, earlier=0))).unwrap()


async def test_a_ticket_from_before_the_clock_was_set_back_does_not_hold_up_its_session_for_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that lives renews its ticket by the new clock; this one is gone."""
    slept = [0.0]
    gone, other = (
        SqliteSessions(tmp_path / "sessions.db", clock=FakeClock(START + timedelta(hours=ahead)))
        for ahead in (1, 0)
    )
    await begun(gone, ONE)
    gone._tickets.let_go(ONE)
    wait = anyio.lowlevel.checkpoint

    async def sleep(seconds: float) -> None:
        slept[0] += seconds
        assert slept[0] <= 2 * LEASE_S
        await wait()

    monkeypatch.setattr(anyio, "sleep", sleep)
    await begun(other, TWO)
    assert slept[0] >= LEASE_S
    monkeypatch.undo()
    assert await attempt(other.end(KEY, TWO, turn(TWO))) == Success(None)


async def test_a_turn_is_reserved_by_one_process_after_the_turns_it_has_seen(tmp_path: Path) -> None:
    clock = FakeClock()
    here, there = (SqliteSessions(tmp_path / "sessions.db", clock=clock) for _ in range(2))
    await begun(here, ONE)
    assert (await attempt(here.end(KEY, ONE, turn(ONE)))) == Success(None)
    seen = {"TWO": 1, "THREE": 1}
    reserved: dict[str, bool] = {}

    async def reserve(store: SqliteSessions, name: str, run: RunId) -> None:
        reserved[name] = (await attempt(store.reserve(KEY, run, seen[name]))).unwrap()

    async with anyio.create_task_group() as group:
        group.start_soon(reserve, here, "TWO", TWO)
        group.start_soon(reserve, there, "THREE", THREE)
    assert sorted(reserved.values()) == [False, True]
    first, other = (TWO, THREE) if reserved["TWO"] else (THREE, TWO)
    assert (await begun(there, first)).turn == 1
    assert (await attempt(there.end(KEY, first, turn(first)))) == Success(None)
    assert await attempt(here.reserve(KEY, other, 1)) == Success(False), "it has a turn more by now"
    assert isinstance(await attempt(here.reserve(evolve(KEY, user="bob"), other, 2)), Failure)
    assert await attempt(here.reserve(KEY, other, 2)) == Success(True)
    clock.advance(LEASE_S + 1)
    assert await attempt(there.reserve(KEY, RunId("run-4"), 2)) == Success(True), "its process never began it"


async def asked(store: SqliteSessions, session: str = "a") -> list[str]:
    messages = (await attempt(store.messages(AGENT, SessionId(session)))).unwrap()
    return [each.content for each in messages if isinstance(each, UserMessage)]


# --- processes that stand still -------------------------------------------------------------------------


@pytest.fixture
def stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No ticket is renewed, which would be valid again by a clock that a test has set forward."""
    monkeypatch.setattr(LeaseRenewal, "hold", lambda *_: None)


@pytest.mark.usefixtures("stands_still")
async def test_a_run_that_begins_again_has_the_same_turn_unless_another_came_after_it(tmp_path: Path) -> None:
    path, clock = tmp_path / "s.db", FakeClock()
    killed, other = SqliteSessions(path, clock=clock), SqliteSessions(path, clock=clock)
    assert [(await begun(each, ONE)).turn for each in (killed, other, other)] == [0, 0, 0]
    clock.advance(LEASE_S + 1)
    later = SqliteSessions(path, clock=clock)
    assert (await begun(later, TWO)).turn == 1
    await attempt(later.end(KEY, TWO, turn(TWO)))
    assert (await begun(other, ONE)).turn == 2


@pytest.mark.usefixtures("stands_still")
async def test_a_clock_that_jumps_ahead_takes_no_turn_from_a_live_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SettableClock()
    live, other = (SqliteSessions(tmp_path / "s.db", clock=each) for each in (SettableClock(), clock))
    monkeypatch.setattr(leases, "DOUBTED_S", 600.0)
    await begun(live, ONE)
    assert await attempt(other.reserve(KEY, TWO, 0)) == Success(False)
    clock.time += timedelta(days=90)
    assert await attempt(other.reserve(KEY, TWO, 0)) == Success(False)
    monkeypatch.setattr(leases, "DOUBTED_S", 0.0)
    assert await attempt(other.reserve(KEY, TWO, 0)) == Success(True)


@pytest.mark.usefixtures("stands_still")
async def test_a_clock_that_jumps_ahead_gives_no_turn_to_a_run_that_has_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ticket of the live process is renewed by the new clock, which is not that of the one that waits."""
    ahead, clock = FakeClock(), FakeClock()
    live, other = (SqliteSessions(tmp_path / "s.db", clock=each) for each in (ahead, clock))
    monkeypatch.setattr(leases, "DOUBTED_S", 600.0)
    await begun(live, ONE)
    waits, steps, wait = list[float](), list[str](), anyio.lowlevel.checkpoint

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        if sum(waits) > LEASE_S and not steps:
            for each in (ahead, clock):
                each.advance(86_400)
            await live._renew_tickets({ONE: None})
            steps.append("jump")
        elif sum(waits) > 2 * LEASE_S and steps == ["jump"]:
            await attempt(live.end(KEY, ONE, turn(ONE)))
            steps.append("end")
        await wait()

    monkeypatch.setattr(anyio, "sleep", sleep)
    await begun(other, TWO)
    assert steps == ["jump", "end"]


@pytest.mark.usefixtures("stands_still")
async def test_a_run_that_stood_still_is_added_in_its_place_once(tmp_path: Path) -> None:
    path, clock = tmp_path / "s.db", FakeClock()
    stopped, other = SqliteSessions(path, clock=clock), SqliteSessions(path, clock=clock)
    first = await begun(stopped, ONE)
    clock.advance(LEASE_S + 1)
    second = await begun(other, TWO)
    assert (first.turn, second.turn) == (0, 1)  # the keys of their tool results do not meet
    await attempt(other.end(KEY, TWO, turn(TWO)))
    assert await attempt(stopped.end(KEY, ONE, turn(ONE))) == Success(None)
    assert await asked(other) == ["asked run-1", "asked run-2"]
    third = (await attempt(other.begin(KEY, THREE, size=200, earlier=100))).unwrap()
    assert (third.turn, third.left_out) == (2, 2)
    await other.aclose()
    await stopped.aclose()


@pytest.mark.usefixtures("stands_still")
async def test_a_waiting_run_that_stood_still_does_not_begin_beside_another(tmp_path: Path) -> None:
    path, clock, looks = tmp_path / "s.db", FakeClock(), CountingClock()
    store, other = SqliteSessions(path, clock=clock), SqliteSessions(path, clock=clock)
    waiting = SqliteSessions(path, clock=looks)
    order: list[str] = []
    await begun(store, ONE)

    async def wait() -> None:
        await begun(waiting, TWO)
        order.append("two begins")
        await attempt(waiting.end(KEY, TWO, turn(TWO)))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await until(lambda: looks.count > 3)  # it has its ticket, and waits
        looks.advance(LEASE_S + 1)
        clock.advance(LEASE_S + 1)
        await begun(other, THREE)
        await attempt(store.end(KEY, ONE, turn(ONE)))
        seen = looks.count
        await until(lambda: looks.count > seen + 2)  # it looked again since
        order.append("three ends")
        await attempt(other.end(KEY, THREE, turn(THREE)))
    assert order == ["three ends", "two begins"]
    for each in (store, other, waiting):
        await each.aclose()


def test_all_runs_of_a_process_renew_their_tickets_with_one_thread(tmp_path: Path) -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(forever(answer("Yes.")))).with_reasoning()
    ready = agent.with_sessions(tmp_path / "s.db").build()
    before = set(threading.enumerate())
    for number in range(5):
        ready.run_sync("Hello?", session=str(number))
    new = [each for each in set(threading.enumerate()) - before if each.name == "session-tickets"]
    assert len(new) == 1


def test_a_run_whose_event_loop_was_closed_does_not_hold_its_session() -> None:
    model = ScriptedLLM(answer("Never.", delay=60.0), forever(answer("Yes.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().build()
    loop = asyncio.new_event_loop()
    run = loop.create_task(agent.run("Hello?", session="a"))
    loop.run_until_complete(until(lambda: model.requests))
    loop.close()
    assert not run.done()
    assert agent.run_sync("Hello?", session="a").output == "Yes."


async def test_a_run_waits_for_its_session_until_its_time_limit() -> None:
    model = ScriptedLLM(forever(answer("Yes.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_timeout(run=0.3).build()
    store = agent.container.memory.sessions().unwrap()
    key = SessionKey(agent.agent_id, SessionId("a"))
    (await attempt(store.begin(key, ONE, size=100, earlier=0))).unwrap()
    with pytest.raises(AgentError, match="until the time limit of the run") as late:
        await agent.run("Hello?", session="a")
    assert isinstance(late.value.error, ExecutionError)
    assert not model.requests
    await attempt(store.end(key, ONE, None))
    assert (await agent.run("Hello?", session="a")).output == "Yes."


async def test_a_session_whose_run_waits_without_a_process_is_not_pruned(tmp_path: Path) -> None:
    clock = FakeClock()
    store, gone = (SqliteSessions(tmp_path / "s.db", clock=clock) for _ in range(2))
    await begun(store, ONE)
    assert await attempt(store.end(KEY, ONE, turn(ONE))) == Success(None)
    clock.advance(95 * 86_400)
    await begun(gone, TWO)
    assert await attempt(gone.end(KEY, TWO, None)) == Success(None)  # a durable run is interrupted
    clock.advance(86_400)
    assert (await attempt(store.prune(clock.now() - timedelta(days=90)))).unwrap() == 0
    assert (await begun(store, TWO)).messages == turn(ONE).messages
    assert await attempt(store.end(KEY, TWO, None)) == Success(None)
    clock.advance(91 * 86_400)
    assert (await attempt(store.prune(clock.now() - timedelta(days=90)))).unwrap() == 1
    for each in (store, gone):
        await each.aclose()


async def test_a_run_that_waits_for_its_session_says_so_once(tmp_path: Path) -> None:
    model, log = ScriptedLLM(forever(answer("Yes."))), tmp_path / "log.db"
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_run_log(log).build()
    events = EventRecorder()
    agent.subscribe(events)
    store, key = agent.container.memory.sessions().unwrap(), SessionKey(agent.agent_id, SessionId("a"))
    (await attempt(store.begin(key, ONE, size=100, earlier=0))).unwrap()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.run("Hello?", session="a"))
        await until(lambda: events.of(SessionAwaited))
        assert not model.requests
        await attempt(store.end(key, ONE, None))
    await agent.run("And now?", session="a")
    await agent.aclose()
    (waited,) = events.of(SessionAwaited)
    assert waited.session == "a"
    shown = "waits until earlier runs of the session a have ended"
    assert describe(waited) == Line("phase", shown)
    run = (await attempt(SqliteRunLog(log, read_only=True).run(waited.run_id))).unwrap()
    logged = (await attempt(SqliteRunLog(log, read_only=True).events(waited.run_id))).unwrap()
    assert run is not None
    rows = timeline_of(run, logged).rows
    assert [each.note for each in rows if each.title == "Waits"] == [shown.removeprefix("waits ")]


async def test_a_turn_that_cannot_be_written_lets_the_next_run_begin(place: str) -> None:
    deep: Json = 1
    for _ in range(100_000):
        deep = [deep]
    called = AssistantMessage("", (ToolCall(CallId("c"), "look", {"at": deep}),))
    store = SqliteSessions(place, clock=FakeClock())
    await begun(store, ONE)
    unwritable = SessionTurn(ONE, (UserMessage("x"), called, ToolMessage(CallId("c"), "look", "y")), "x")
    with pytest.raises(RecursionError):
        await attempt(store.end(KEY, ONE, unwritable))
    assert (await begun(store, TWO)).messages == ()


async def test_a_negative_limit_is_a_failure_in_every_database(place: str) -> None:
    store = SqliteSessions(place, clock=FakeClock())
    await begun(store, ONE)
    await attempt(store.end(KEY, ONE, turn(ONE)))
    asked = (store.sessions(AGENT, limit=-1), store.fork(AGENT, KEY.session, SessionId("copy"), -1))
    for each in asked:
        failed = (await attempt(each)).failure()
        assert "limit: got -1, expected a whole number, 0 or more" in failed.message
    assert len((await attempt(store.sessions(AGENT))).unwrap()) == 1
    assert (await attempt(store.sessions(AGENT, limit=2**70))).unwrap()


# --- users who leave, names that are taken --------------------------------------------------------------


@pytest.mark.parametrize("how", ["deleted", "forgotten"])
async def test_a_run_of_a_session_that_is_deleted_meanwhile_adds_nothing(how: str, place: str) -> None:
    store = SqliteSessions(place, clock=FakeClock())
    await begun(store, ONE)
    await attempt(store.end(KEY, ONE, turn(ONE)))
    await begun(store, TWO)
    if how == "deleted":
        await attempt(store.delete(AGENT, KEY.session))
    else:
        assert await attempt(store.forget("ada")) == Success(1)
    refused = SessionRefused("a", "it was deleted while the run was under way")
    assert await attempt(store.end(KEY, TWO, turn(TWO))) == Failure(refused)
    assert (await attempt(store.sessions(AGENT))).unwrap() == ()
    assert (await begun(store, THREE)).messages == ()


async def test_forgetting_a_user_leaves_the_runs_of_others(place: str) -> None:
    store = SqliteSessions(place, clock=FakeClock())
    other = SessionKey(AGENT, SessionId("b"), "eve")
    await begun(store, ONE, other)
    await attempt(store.forget("ada"))
    assert await attempt(store.end(other, ONE, turn(ONE))) == Success(None)
    assert await asked(store, "b") == ["asked run-1"]


async def test_no_session_is_forked_into_the_name_of_one_that_just_begins(place: str) -> None:
    gate = anyio.Event()

    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    model = ScriptedLLM(answer("Hello Eve."), call("hold"), answer("Hello Ada."))
    agent = (
        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(hold).with_sessions(place).build()
    )
    await agent.run("I am Eve.", session="eve's", user="eve")
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: agent.run("I am Ada.", session="new", user="ada"))
        await until(lambda: len(model.requests) == 2)
        with pytest.raises(AgentError, match="there is one of this name already"):
            await agent.sessions.fork("eve's", "new")
        gate.set()
    assert {each.session: each.user for each in await agent.sessions.list()} == {"eve's": "eve", "new": "ada"}


@pytest.mark.usefixtures("stands_still")
async def test_a_run_is_not_added_to_the_session_of_somebody_else(tmp_path: Path) -> None:
    clock = FakeClock()
    store = SqliteSessions(tmp_path / "s.db", clock=clock)
    await begun(store, ONE)
    clock.advance(LEASE_S + 1)
    others = SessionKey(AGENT, KEY.session, "eve")
    await begun(store, TWO, others)
    await attempt(store.end(others, TWO, turn(TWO)))
    assert isinstance((await attempt(store.end(KEY, ONE, turn(ONE)))).failure(), SessionRefused)
    assert await asked(store) == ["asked run-2"]
    await store.aclose()


async def test_a_deleted_session_is_reported_and_the_answer_kept(place: str) -> None:
    gate = anyio.Event()

    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    model = ScriptedLLM(call("hold"), answer("Done."))
    agent = (
        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(hold).with_sessions(place).build()
    )
    recorder = EventRecorder()
    agent.subscribe(recorder)
    outputs: list[str | None] = []

    async def run() -> None:
        outputs.append((await agent.run("Hello?", session="a", user="ada")).output)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await until(lambda: len(model.requests) == 1)
        await agent.forget(user="ada")
        gate.set()
    assert outputs == ["Done."]
    (failed,) = recorder.of(ExecutionPhaseFailed)
    assert "it was deleted while the run was under way" in failed.error.message
    assert await agent.sessions.list() == ()


async def test_a_hook_that_changes_the_task_does_not_move_the_run_to_another_session(place: str) -> None:
    def as_eve(context: ExecutionContext) -> ExecutionContext:
        return replaced(context, task=evolve(context.task, user="eve", session="other"))

    model = ScriptedLLM(forever(answer("Yes.")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_hook("bootstrap", "before", as_eve)
    ready = agent.with_sessions(place).build()
    for _ in range(2):
        await ready.run("Hello?", session="a", user="ada")
    (info,) = await ready.sessions.list()
    assert (info.session, info.user, info.turns) == ("a", "ada", 2)


# --- approval that ends the process -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("calls_of_the_turn", [1, 2])
@pytest.mark.parametrize("in_a_file", [True, False])
def test_a_session_is_free_after_an_approval_that_exits(
    tmp_path: Path, kind: type[BaseException], calls_of_the_turn: int, *, in_a_file: bool
) -> None:
    @tool(requires_approval=True)
    def pay(amount: int) -> int:
        """Pay."""
        return amount

    def leave(_: ApprovalRequest) -> bool:
        raise kind

    def agent(approve: Callable[[ApprovalRequest], bool]) -> ReactiveAgent:
        turn = calls(*(call("pay", amount=each) for each in range(calls_of_the_turn)))
        made = ReactiveAgents.create().with_llm(ScriptedLLM(turn, forever(answer("done")))).with_tools(pay)
        made = made.with_reasoning().with_approval(approve)
        return (made.with_sessions(tmp_path / "s.db") if in_a_file else made).build()

    first = agent(leave)
    events = EventRecorder()
    first.subscribe(events)
    with pytest.raises(kind):
        first.run_sync("Pay it.", session="a")
    last = events.events[-1]
    assert isinstance(last, TaskFailed)
    assert f"raised {kind.__name__}" in last.error.message
    second = agent(lambda _: True) if in_a_file else first
    assert second.run_sync("Pay it.", session="a").output == "done"


async def test_a_turn_reads_no_more_of_a_long_session_than_of_a_short_one(tmp_path: Path) -> None:
    async def work_of_turn(turns: int) -> int:
        store = SqliteSessions(tmp_path / f"{turns}.db", clock=FakeClock())
        key = SessionKey(AgentId("a"), SessionId("s"))
        for number in range(turns):
            run = RunId(f"r{number}")
            (await attempt(store.begin(key, run, size=0, earlier=0))).unwrap()
            (await attempt(store.end(key, run, turn(run)))).unwrap()
        counted = await counting(store._file)
        run = RunId("last")
        assert (await attempt(store.begin(key, run, size=0, earlier=0))).unwrap().turn == turns
        (await attempt(store.end(key, run, turn(run)))).unwrap()
        await store.aclose()
        return counted[0]

    assert await work_of_turn(100) <= 1.1 * await work_of_turn(20)


# --- pruning --------------------------------------------------------------------------------------------


async def test_sessions_are_pruned_by_their_last_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "_DELETED_AT_ONCE", 2)
    clock = FakeClock()
    store = SqliteSessions(tmp_path / "s.db", clock=clock)

    async def use(name: str, run: str, agent: AgentId = AGENT) -> None:
        key = SessionKey(agent, SessionId(name), "ada")
        await begun(store, RunId(run), key)
        (await attempt(store.end(key, RunId(run), turn(RunId(run))))).unwrap()

    for number in range(5):
        await use(f"old-{number}", f"run-{number}")
    await use("used again", "run-6")
    await use("of another agent", "run-7", AgentId("other"))
    clock.advance(86_400)
    before = clock.now()
    await use("used again", "run-8")
    await use("new", "run-9")
    assert await attempt(store.prune(before)) == Success(6)
    left = (await attempt(store.sessions(AGENT))).unwrap()
    assert {each.session: each.turns for each in left} == {"new": 1, "used again": 2}
    assert (await attempt(store.sessions(AgentId("other")))).unwrap() == ()
    assert await attempt(store.prune(before)) == Success(0)
    await store.aclose()


async def test_a_session_of_a_run_that_is_under_way_is_not_pruned(tmp_path: Path) -> None:
    clock = FakeClock()
    store = SqliteSessions(tmp_path / "s.db", clock=clock)
    await begun(store, ONE)
    (await attempt(store.end(KEY, ONE, turn(ONE)))).unwrap()
    clock.advance(3_600)
    await begun(store, TWO)
    assert await attempt(store.prune(clock.now())) == Success(0)
    (await attempt(store.end(KEY, TWO, turn(TWO)))).unwrap()
    assert await asked(store) == ["asked run-1", "asked run-2"]
    clock.advance(1)
    assert await attempt(store.prune(clock.now())) == Success(1)
    await store.aclose()
