"""Files of earlier versions open, are read and are appended to."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from attrs import evolve
from dependency_injector.providers import Object
from returns.result import Failure, Success

from reactive_agents import ReactiveAgent, ReactiveAgents, RunContext, tool
from reactive_agents.adapters.governance.audit_log import (
    AUDIT,
    SqliteAuditLog,
    public_key_of,
    read_entries,
    verify,
)
from reactive_agents.adapters.governance.budget import BUDGET, BudgetState, SqliteBudget
from reactive_agents.adapters.governance.cost_tracker import COST, SpendingTotal, SqliteCostTracker
from reactive_agents.adapters.memory.database import MEMORY, open_memory_store
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.memory.service import MemoryServices, open_memory
from reactive_agents.adapters.memory.sessions import SESSIONS, SqliteSessions
from reactive_agents.adapters.run_record import RUNS, SqliteRunRecord
from reactive_agents.adapters.sqlite import version_of
from reactive_agents.adapters.telemetry.run_log import RUN_LOG, SqliteRunLog
from reactive_agents.core.conversation import SessionKey, SessionTurn
from reactive_agents.core.errors import BudgetExceeded
from reactive_agents.core.governance import AuditEntry, SpendingRecord
from reactive_agents.core.ids import (
    AgentId,
    ContextId,
    EventId,
    LearningId,
    PersonaId,
    PlanId,
    RunId,
    SessionId,
    TaskId,
)
from reactive_agents.core.memory import ForgetUser, MemoryCandidate
from reactive_agents.core.messages import AssistantMessage, UserMessage
from reactive_agents.core.persona_events import PersonaStageFailed, PersonaStepEnded
from reactive_agents.core.persona_queue import WorkFilter
from reactive_agents.core.personas import Room, SelfState
from reactive_agents.core.run_record import LoggedRunFilter, RunFilter
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock, ScriptedLLM, SequentialIds, answer, call
from reactive_agents.testing.core import START
from tests.agent.test_owed_stores import WRITTEN, clerk, counts
from tests.support.embedders import ToyEmbedder
from tests.support.spending import check_totals
from tests.support.sqlite_files import SAMPLES, sample

pytestmark = pytest.mark.anyio

AGENT, RUN, TASK = AgentId("agent-1"), RunId("run-9"), TaskId("task-9")
ENTRY = AuditEntry(RUN, TASK, AGENT, "run", "completed", "final answer", START)
SPENDING = SpendingRecord(RUN, TASK, AGENT, (RunUsage("big", Usage(10, 5, 15), 0.5, 1),), START)


def opened(path: Path) -> MemoryServices:
    """The memory of a file, with the embedder that it was written with."""
    return open_memory(path, clock=FakeClock(), ids=SequentialIds("new-"), embedder=ToyEmbedder())


def test_every_version_that_was_published_has_a_sample() -> None:
    for version in range(1, MEMORY.newest + 1):
        assert (SAMPLES / f"memory_{version}.db.gz").exists()
    for version in range(1, SESSIONS.newest + 1):
        assert (SAMPLES / f"sessions_{version}.db.gz").exists()
    for version in range(1, RUNS.newest + 1):
        assert (SAMPLES / f"runs_{version}.db.gz").exists()
    for version in range(1, AUDIT.newest + 1):
        assert (SAMPLES / f"audit_{version}.db.gz").exists()


# --- memory ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3])
async def test_older_memory_files_are_brought_forward(tmp_path: Path, version: int) -> None:
    path = sample(f"memory_{version}.db", tmp_path)
    services = opened(path)
    found = (await attempt(services.memory.search(AGENT, "elbrus"))).unwrap()
    assert [entry.content for entry in found] == ["Mount Elbrus is 5642 metres high."]
    (session,) = (await attempt(services.archive.sessions())).unwrap()
    assert (session.id, session.summary) == ("session-1", "Sum")
    kept = MemoryCandidate("semantic", "K2 is 8611 metres high.", "user")
    assert isinstance(await attempt(services.memory.remember(AGENT, kept)), Success)
    await services.aclose()
    connection = sqlite3.connect(path)
    assert version_of(connection, MEMORY) == MEMORY.newest
    connection.close()


async def test_memories_sessions_and_effectiveness_are_read(tmp_path: Path) -> None:
    services = opened(sample("memory_4.db", tmp_path))
    by_words = (await attempt(services.memory.search(AGENT, "Elbrus"))).unwrap()
    assert "Mount Elbrus is 5642 metres high." in [entry.content for entry in by_words]
    by_meaning = (await attempt(services.memory.search(AGENT, "vehicle"))).unwrap()
    assert [entry.content for entry in by_meaning] == ["The car of Ada is blue."]
    inside = (await attempt(services.memory.search(AgentId("agent-2"), "大学"))).unwrap()
    assert [entry.origin for entry in inside] == ["tool"]
    kinds = {entry.kind for entry in (await attempt(services.archive.entries())).unwrap()}
    assert kinds == {"episodic", "semantic", "procedural", "critique"}
    (session,) = (await attempt(services.archive.sessions())).unwrap()
    assert session.owner == ""
    called = session.messages[2]
    assert isinstance(called, AssistantMessage)
    assert (called.tool_calls[0].arguments, called.thinking) == ({"expression": "1 + 1"}, "It is a sum.")
    history = (await attempt(services.effectiveness.history("query"))).unwrap()
    assert [(each.strategy, each.success_rate) for each in history] == [
        ("plan-execute-reflect", 0.0),
        ("reactive", 1.0),
    ]
    await services.aclose()


async def test_memories_of_users_are_read_for_them_alone(tmp_path: Path) -> None:
    services = opened(sample("memory_5.db", tmp_path))
    for user, found in (("ada", 1), ("eve", 0), (None, 0)):
        assert len((await attempt(services.memory.search(AGENT, "elm", user=user))).unwrap()) == found
    (session,) = (await attempt(services.archive.sessions())).unwrap()
    assert session.owner == "user:ada"
    assert (await attempt(services.memory.forget(ForgetUser("ada")))).unwrap() == 2
    await services.aclose()


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5, 6, 7])
async def test_sessions_are_read_and_go_on(tmp_path: Path, version: int) -> None:
    store = SqliteSessions(sample(f"sessions_{version}.db", tmp_path), clock=FakeClock())
    key = SessionKey(AGENT, SessionId("one"), "ada")
    history = (await attempt(store.begin(key, RUN, size=10_000, earlier=0))).unwrap()
    assert [each.content for each in history.messages] == ["Who am I?", "You are Ada."]
    assert (history.turn, history.left_out) == (1, 0)
    assert history.holder == (("billing",) if version >= 4 else ())
    assert history.state == ({"cart": ["tea"]} if version >= 6 else {})
    said = (UserMessage("And now?"), AssistantMessage("Still Ada."))
    turn = SessionTurn(RUN, said, "And now?", state={"n": 1}, changed=("n",))
    await attempt(store.end(key, RUN, turn))
    (info,) = (await attempt(store.sessions(AGENT))).unwrap()
    assert (info.title, info.user, info.turns, info.messages) == ("Who am I?", "ada", 2, 4)
    assert (await attempt(store.state(AGENT, SessionId("one")))).unwrap() == {**history.state, "n": 1}
    for turns, state in ((1, history.state), (2, {**history.state, "n": 1})):
        into = SessionId(f"first {turns}")
        (await attempt(store.fork(AGENT, SessionId("one"), into, turns))).unwrap()
        assert (await attempt(store.state(AGENT, into))).unwrap() == state
    await store.aclose()


async def test_a_run_that_recorded_the_whole_state_of_its_session_goes_on(tmp_path: Path) -> None:
    def add(ctx: RunContext, item: str) -> list[str]:
        """Put an item into the cart, and list the cart."""
        cart: list[str] = ctx.state.change("cart", lambda cart: [*cart, item], [])
        return cart

    path = sample("state_of_session.db", tmp_path)
    model = ScriptedLLM(call("add", item="rice"), answer("All are in the cart."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_name("clerk")
    builder = builder.with_tools(tool(idempotent=True)(add)).with_sessions(path)
    agent = builder.with_durability(path, recover=False).build()
    assert await agent.sessions.state("a") == {"cart": ["salt"]}
    await agent.sessions.update_state("a", {"plan": "paid"})
    result = await agent.runs.resume("order-1", accept_changes=True)
    assert result.state == {"cart": ["salt", "tea", "milk", "rice"]}
    assert await agent.sessions.state("a") == {**result.state, "plan": "paid"}
    replay = await agent.runs.replay("order-1")
    assert replay.outcome is not None
    assert replay.outcome.unwrap().state == result.state
    await agent.aclose()


async def test_plans_are_read_and_go_on(tmp_path: Path) -> None:
    plans = opened(sample("memory_4.db", tmp_path)).plans
    plan = (await attempt(plans.get(PlanId("plan-1")))).unwrap().unwrap()
    assert [(step.id, step.status, step.result) for step in plan.steps] == [
        ("s1", "completed", "2"),
        ("s2", "pending", None),
    ]
    assert isinstance(await attempt(plans.update_step(plan.id, plan.steps[1])), Success)
    transitions = (await attempt(plans.transitions(plan.id))).unwrap()
    assert [each.step.status for each in transitions] == ["in_progress", "completed", "pending"]
    await plans.database.aclose()


async def test_records_of_personas_are_read_with_every_event_and_error(tmp_path: Path) -> None:
    store = SqlitePersonaStore(sample("memory_4.db", tmp_path))
    ada = PersonaId("ada")
    room = Room(ada, "chat", ContextId("general"))
    plan = (await attempt(store.plan_of_event(room, EventId("event-1")))).unwrap().unwrap()
    assert (len(plan.plan.steps), plan.follows, plan.large_steps) == (
        2,
        (LearningId("learning-1"),),
        frozenset({"s1"}),
    )
    (learning,) = (await attempt(store.list_learnings(ada, domain="chat"))).unwrap()
    assert (learning.pattern, learning.confidence) == ("Short answers work.", 0.75)
    thoughts = await attempt(store.recall_thoughts(room))
    assert [thought.content for thought in thoughts.unwrap()] == ["Bob asks about React."]
    state = (await attempt(store.get_self_state(room))).unwrap()
    assert state == SelfState(room), "it was of all rooms in one"
    (event,) = (await attempt(store.find_work(WorkFilter(ada, ("event",))))).unwrap()
    assert (event.room, event.key, event.plan_id, event.is_open) == (room, "event-1", plan.id, True)
    assert not (await attempt(store.add_event(room, plan.event))).unwrap().is_new
    journal = (await attempt(store.journal(TaskId("task-of-event-1")))).unwrap()
    assert [event.sequence for event in journal] == list(range(1, 38))
    assert len({type(event) for event in journal}) == 13
    errors = [event.outcome.error for event in journal if isinstance(event, PersonaStepEnded)]
    errors += [event.error for event in journal if isinstance(event, PersonaStageFailed)]
    assert len(errors) == 26
    assert None not in errors
    assert isinstance(await attempt(store.record(journal[0])), Success)
    assert isinstance(await attempt(store.save_plan(plan)), Success)
    await store.aclose()


async def test_the_work_of_personas_is_read_and_goes_on(tmp_path: Path) -> None:
    store = SqlitePersonaStore(sample("memory_6.db", tmp_path), clock=FakeClock())
    room = Room(PersonaId("ada"), "chat", ContextId("general"), "acme")
    said = (await attempt(store.transcript(room))).unwrap()
    assert [(each.author, each.content) for each in said] == [
        ("Bob", "What is React?"),
        ("", "React is a library."),
    ]  # Eve's message waits, and no guardrail has checked it
    (letter,) = (await attempt(store.find_work(WorkFilter(statuses=("dead",))))).unwrap()
    assert (letter.kind, letter.message, letter.message_kind) == ("delivery", "React is a library.", "answer")
    assert (await attempt(store.order_work(letter.number, "retry"))).unwrap()
    for kind, key in (("event", "event-2"), ("delivery", "event-1#answer"), ("evaluation", "event-1")):
        claimed = await attempt(store.claim(room.persona_id, kind, domains=("chat",)))  # type: ignore[arg-type]
        item = claimed.unwrap()
        assert item is not None
        assert (item.key, item.attempts, item.room) == (key, 1, room)
        assert (await attempt(store.end_work(item))).unwrap()
    await store.aclose()


async def test_learnings_are_read_with_what_held_since_the_rules_changed(tmp_path: Path) -> None:
    store = SqlitePersonaStore(sample("memory_8.db", tmp_path), clock=FakeClock())
    known = (await attempt(store.list_learnings(PersonaId("ada"), tenant="acme"))).unwrap()
    (held,) = [each for each in known if each.held is not None]
    assert (held.pattern, held.held, held.outcomes) == ("Look it up first.", True, (True, True, False, True))
    await store.aclose()


async def test_the_last_memory_file_is_read_without_being_written(tmp_path: Path) -> None:
    path = sample(f"memory_{MEMORY.newest}.db", tmp_path)
    before = path.read_bytes()
    database = open_memory_store(path, read_only=True)
    assert isinstance(await database.read("open", lambda _: None), Success)
    await database.aclose()
    assert path.read_bytes() == before


# --- recorded runs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
async def test_recorded_runs_are_read_and_go_on(tmp_path: Path, version: int) -> None:
    """Of an ended run, one that waits for an approval, one that was cut off in a call, and a queued one."""
    path, done = sample(f"runs_{version}.db", tmp_path), list[str]()

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        done.append(f"{a} + {b}")
        return a + b

    @tool(requires_approval=True)
    def send(to: str) -> str:
        """Send a letter."""
        done.append(f"sent to {to}")
        return f"sent to {to}"

    async def pay(invoice: int) -> str:
        """Pay an invoice."""
        raise AssertionError("the first one is paid, and the second one may be")

    def clerk(llm: ScriptedLLM) -> ReactiveAgent:
        described = ReactiveAgents.create().with_name("clerk").with_llm(llm).with_reasoning()
        described = described.with_tools(add, send, pay).with_approval(timeout_s=60)
        one = described.with_durability(path, recover=False).build()
        one.container.core.clock.override(Object(FakeClock()))
        return one

    one = clerk(ScriptedLLM())
    states = {run.run_id: (run.state, run.task.user) for run in await one.runs.list()}
    waits = {"asks": ("waiting", None), "interrupted": ("interrupted", None), "queued": ("queued", None)}
    assert states == {"ended": ("completed", "ada"), **waits}
    ended = await one.run("Add 2 and 3.", run_id="ended", user="ada")
    assert (ended.output, ended.status) == ("It is 5.", "completed")
    assert [each.text for each in await one.runs.steps("interrupted")][1::2] == ["paid 1"]
    assert [each.name for each in await one.runs.schedules()] == ["nightly"] * (version > 1)

    llm = ScriptedLLM(*[answer("Paid 1; 2 is in doubt.")] * 9)
    resumed = await clerk(llm).runs.resume("interrupted", accept_changes=True)
    assert resumed.output == "Paid 1; 2 is in doubt."
    told = "\n".join(message.content for message in llm.requests[0].messages)
    assert "paid 1" in told
    assert "may have taken effect" in told

    await one.runs.approve("asks")
    sent = await clerk(ScriptedLLM(answer("Sent to Ann."))).runs.resume("asks", accept_changes=True)
    assert sent.output == "Sent to Ann."
    worker = clerk(ScriptedLLM(call("add", a=4, b=5), answer("It is 9.")))
    await worker.runs.work("sums", until_idle=True)
    assert (await one.runs.resume("queued")).output == "It is 9."
    assert done == ["sent to Ann", "4 + 5"]
    await one.aclose()
    connection = sqlite3.connect(path)
    assert version_of(connection, RUNS) == RUNS.newest
    connection.close()


async def test_what_a_recorded_run_owes_is_read_and_written_to_its_stores(tmp_path: Path) -> None:
    """Its outcome says how many messages it was shown, which another entry has."""
    for name in ("runs", "sessions"):
        sample(f"{name}_owing.db", tmp_path).rename(tmp_path / f"{name}.db")
    later = clerk(tmp_path)
    assert (await later.runs.find("order-1")).owes == ("memory", "cost", "audit", "sessions")
    ended = await later.run("Pay.", run_id="order-1", session="s", user="ann")
    assert [each.content for each in ended.history] == ["I am Ann.", "Hello Ann."]
    assert (await later.runs.find("order-1")).owes == ()
    assert counts(tmp_path) == {**WRITTEN, "sessions": 2, "audit": 1}
    said = [each.content for each in await later.sessions.read("s")]
    assert said[:3] == ["I am Ann.", "Hello Ann.", "Pay."]
    await later.aclose()


_KILLED = """
import os, sqlite3, sys
from pkgutil import resolve_name
from reactive_agents.adapters.sqlite import Store, migrate
store = resolve_name(sys.argv[2])
*earlier, last = store.versions
for place in range(len(last) + 1):
    if not os.fork():
        killed = (*last[:place], lambda _: os._exit(9), *last[place:])
        file = sqlite3.connect(sys.argv[1], isolation_level=None)
        file.execute("PRAGMA journal_mode = WAL")
        file.execute("PRAGMA cache_size = 1")  # so that pages are written before the end
        migrate(file, Store(store.name, (*earlier, killed)))
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 9
"""


def kill_migrations(path: Path, store: str) -> None:
    """Begin a migration of a file as often as it has statements, killed before another one each time."""
    subprocess.run([sys.executable, "-c", _KILLED, str(path), store], check=True)


async def test_a_record_whose_migration_is_killed_anywhere_opens_with_all_entries(tmp_path: Path) -> None:
    path = sample("runs_3.db", tmp_path)
    query = "SELECT * FROM run_entries ORDER BY run, number"
    with closing(sqlite3.connect(path)) as file:
        before = file.execute(query).fetchall()
    kill_migrations(path, "reactive_agents.adapters.run_record:RUNS")
    with closing(sqlite3.connect(path)) as file:
        assert (version_of(file, RUNS), file.execute(query).fetchall()) == (3, before)
    record = SqliteRunRecord(path, clock=FakeClock())
    assert len((await attempt(record.entries(RunId("interrupted")))).unwrap()) == 5
    assert (await attempt(record.delete(run_id=RunId("ended")))).unwrap() == 1
    await record.aclose()
    with closing(sqlite3.connect(path)) as file:
        assert (version_of(file, RUNS), file.execute(query).fetchall()) == (
            RUNS.newest,
            [each for each in before if each[0] != 1],
        )


async def test_runs_in_a_file_with_their_log_are_read_and_go_on(tmp_path: Path) -> None:
    path = sample("logged_runs.db", tmp_path)
    before = path.read_bytes()
    log = SqliteRunLog(path, read_only=True)
    (logged,) = (await attempt(log.runs(LoggedRunFilter(user="ann")))).unwrap()
    assert (logged.run_id, logged.task, logged.status) == ("run-1", "Add 1 and 2.", "completed")
    await log.aclose()
    assert path.read_bytes() == before, "what only lacks indexes is read as it is"
    log = SqliteRunLog(path)
    assert (await attempt(log.forget("ann"))).unwrap() == 1
    await log.aclose()
    record = SqliteRunRecord(path, clock=FakeClock())
    waiting, ended = (await attempt(record.runs(RunFilter()))).unwrap()
    assert (waiting.run_id, waiting.queue, waiting.task.user) == ("run-2", "later", "bob")
    assert (ended.run_id, ended.status, ended.entries > 0) == ("run-1", "completed", True)
    assert (await attempt(record.order(waiting.run_id, "cancel"))).unwrap()
    assert (await attempt(record.delete(before=START.replace(year=9000)))).unwrap() == 2
    await record.aclose()


async def test_runs_of_a_tool_are_found_in_a_log_from_before_its_calls_had_an_index(tmp_path: Path) -> None:
    path = sample("run_log_2.db", tmp_path)
    before = path.read_bytes()
    log = SqliteRunLog(path, read_only=True)
    (adding,) = (await attempt(log.runs(LoggedRunFilter(tool="add")))).unwrap()
    await log.aclose()
    assert (adding.run_id, path.read_bytes()) == ("run-1", before)
    kill_migrations(path, "reactive_agents.adapters.telemetry.run_log:RUN_LOG")
    log = SqliteRunLog(path)
    (await attempt(log.check())).unwrap()
    assert [run.run_id for run in (await attempt(log.runs(LoggedRunFilter()))).unwrap()] == ["run-2", "run-1"]
    assert (await attempt(log.runs(LoggedRunFilter(tool="add")))).unwrap() == (adding,)
    await log.aclose()
    with closing(sqlite3.connect(path)) as file:
        assert version_of(file, RUN_LOG) == RUN_LOG.newest


# --- cost and audit -------------------------------------------------------------------------------------


async def test_usage_from_before_sums_were_kept_is_summed_up(tmp_path: Path) -> None:
    path = sample("cost_2.db", tmp_path)
    kill_migrations(path, "reactive_agents.adapters.governance.cost_tracker:COST")
    with closing(sqlite3.connect(path)) as file:
        assert version_of(file, COST) == 2
    big = RunUsage("big", Usage(10, 5, 15), 0.25, 1)
    used = (big, RunUsage("small", Usage(2, 1, 3, reported=False), 0.5))
    clerk = AgentId("clerk")
    records = [
        SpendingRecord(RunId("run-1"), TaskId("t1"), clerk, used, START, "ann"),
        SpendingRecord(RunId("run-2"), TaskId("t2"), clerk, (big,), START + timedelta(days=1), "ann"),
        SpendingRecord(RunId("run-3"), TaskId("t3"), AgentId("idle"), (), START + timedelta(days=1)),
    ]
    tracker = SqliteCostTracker(path, clock=FakeClock())
    await check_totals(tracker, records)
    assert (await attempt(tracker.forget("ann"))).unwrap() == 2
    assert (await attempt(tracker.prune(START + timedelta(days=1)))).unwrap() == 1
    await check_totals(tracker, [evolve(records[1], user=None), records[2]])
    await tracker.aclose()


@pytest.mark.parametrize("name", ["cost.db", "cost_and_audit.db", "cost_one_model_a_run.db"])
async def test_cost_files_are_read_and_go_on(tmp_path: Path, name: str) -> None:
    path = sample(name, tmp_path)
    tracker = SqliteCostTracker(path, clock=FakeClock())
    earlier = {total.name: total for total in (await attempt(tracker.totals("model"))).unwrap()}
    if name == "cost_one_model_a_run.db":
        assert earlier == {"small": SpendingTotal("small", 1, Usage(7, 8, 15), 0.5, 1)}
    else:
        assert earlier["big"].usage.input_tokens == 10
    assert await attempt(tracker.record(SPENDING)) == Success(None)
    runs = [total.name for total in (await attempt(tracker.totals("run"))).unwrap()]
    assert len(runs) == 2
    assert RUN in runs
    await tracker.aclose()
    connection = sqlite3.connect(path)
    assert version_of(connection, COST) == COST.newest
    connection.close()


@pytest.mark.parametrize(("name", "spent_usd"), [("cost.db", 0.375), ("budget.db", 0.4)])
async def test_money_that_was_spent_or_reserved_still_counts(
    tmp_path: Path, name: str, spent_usd: float
) -> None:
    path = sample(name, tmp_path)
    budget = SqliteBudget(path, daily_usd=0.5, monthly_usd=None, clock=FakeClock())
    assert await attempt(budget.state()) == Success(BudgetState(spent_usd, spent_usd))
    assert await attempt(budget.reserve(RUN, 0.25)) == Failure(BudgetExceeded("day", 0.5, spent_usd, 0.25))
    assert isinstance(await attempt(budget.reserve(RUN, 0.0625)), Success)
    await budget.aclose()
    connection = sqlite3.connect(path)
    assert version_of(connection, BUDGET) == BUDGET.newest
    connection.close()


@pytest.mark.parametrize("version", [1, 2])
async def test_a_pruned_audit_log_is_read_and_goes_on(tmp_path: Path, version: int) -> None:
    path = sample(f"audit_{version}.db", tmp_path)
    told = verify(path).unwrap()
    assert (told.entries, told.pruned) == (4, 2)
    for run, numbers in (("run-1", []), ("run-2", [3, 6]), ("run-\u00e9", [4])):
        assert [each.sequence for each in read_entries(path, run_id=RunId(run)).unwrap()] == numbers
    log = SqliteAuditLog(path, clock=FakeClock())
    (_, *last) = (await attempt(log.read(after=4))).unwrap()
    assert await attempt(log.holds(last[-1].entry)) == Success(True)
    assert await attempt(log.append(ENTRY)) == Success(None)
    assert await attempt(log.prune(START + timedelta(seconds=150))) == Success(1)
    await log.aclose()
    told = verify(path).unwrap()
    assert (told.entries, told.pruned) == (5, 3)
    connection = sqlite3.connect(path)
    assert version_of(connection, AUDIT) == AUDIT.newest
    connection.close()


@pytest.mark.parametrize(
    ("name", "key", "entries"),
    [("audit.db", None, 3), ("audit_signed.db", bytes(range(32)), 3), ("cost_and_audit.db", None, 1)],
)
async def test_audit_logs_are_verified_and_go_on(
    tmp_path: Path, name: str, key: bytes | None, entries: int
) -> None:
    path = sample(name, tmp_path)
    public = None if key is None else public_key_of(key).unwrap()
    assert verify(path, public_key=public).unwrap().entries == entries
    assert len(read_entries(path).unwrap()) == entries
    log = SqliteAuditLog(path, clock=FakeClock(), signing_key=key)
    assert await attempt(log.append(ENTRY)) == Success(None)
    assert [each.entry for each in (await attempt(log.read(after=entries))).unwrap()] == [ENTRY]
    await log.aclose()
    assert verify(path, public_key=public).unwrap().entries == entries + 1
    connection = sqlite3.connect(path)
    assert version_of(connection, AUDIT) == AUDIT.newest
    connection.close()
