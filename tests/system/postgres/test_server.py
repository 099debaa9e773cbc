"""Attacks on stores in Postgres: hostile names, lost servers, many callers, wrong clocks, foreign schemas."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from multiprocessing import get_context
from pathlib import Path
from random import Random

import anyio
import anyio.to_thread
import psutil
import psycopg
import pytest
from returns.result import Failure, Success

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters import postgres, sql
from reactive_agents.adapters.governance.audit_log import AUDIT, SqliteAuditLog, verify
from reactive_agents.adapters.governance.budget import BUDGET, SqliteBudget
from reactive_agents.adapters.governance.cost_tracker import COST, SqliteCostTracker
from reactive_agents.adapters.memory.database import MEMORY, VECTORS
from reactive_agents.adapters.memory.service import open_memory
from reactive_agents.adapters.memory.sessions import SESSIONS, SqliteSessions
from reactive_agents.adapters.postgres import MOST_CONNECTIONS, PostgresDatabase
from reactive_agents.adapters.run_record import RUNS, SqliteRunRecord
from reactive_agents.adapters.sql import shown_place
from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.telemetry.run_log import RUN_LOG, SqliteRunLog
from reactive_agents.core.content import ContentOwner, Image, stored
from reactive_agents.core.conversation import SessionKey, SessionTurn
from reactive_agents.core.errors import (
    AuditBroken,
    BudgetExceeded,
    LeaseLost,
    RunInterrupted,
    SessionUnavailable,
)
from reactive_agents.core.governance import AuditEntry, SpendingRecord
from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.memory import MemoryCandidate
from reactive_agents.core.messages import AssistantMessage, UserMessage
from reactive_agents.core.run_record import LoggedRunFilter, RecordedRun, RunEntry, RunFilter
from reactive_agents.core.tasks import Task
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.studio.logged_runs import RunLibrary
from reactive_agents.studio.records import StudioRecords
from reactive_agents.testing import FakeClock, ScriptedLLM, SequentialIds, answer, call, forever
from reactive_agents.testing.core import START
from tests.support.command_line import command as run_command
from tests.support.postgres import Proxy, Server, running_server
from tests.support.spending import a_record, check_totals, use_at_random
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
AGENT = AgentId("agent")
STORES = (MEMORY, VECTORS, SESSIONS, COST, BUDGET, AUDIT, RUNS, RUN_LOG)
HOSTILE = [
    "'; DROP TABLE reactive_agents.conversations; --",
    "a\0b",
    "a\ufdd00b",
    "a\ufdd0",
    "%s ?1 {0}",
    "ɐ😀",
]
ENTRY = AuditEntry(RunId("r1"), TaskId("t1"), AGENT, "run", "completed", "It went.", START)


def once_more(url: str, name: str) -> str:
    """Return another address of a database, so that this process has other connections to it."""
    return f"{url}&application_name={name}"


def database_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


def budget_at(url: str, daily_usd: float = 1_000.0) -> SqliteBudget:
    return SqliteBudget(url, daily_usd=daily_usd, monthly_usd=None, clock=SystemClock())


@asynccontextmanager
async def open_budget(url: str, daily_usd: float = 1_000.0) -> AsyncIterator[SqliteBudget]:
    budget = budget_at(url, daily_usd)
    yield budget
    await budget.aclose()


@pytest.fixture
async def budget(place: str) -> AsyncIterator[SqliteBudget]:
    made = budget_at(place)
    yield made
    await made.aclose()


# --- names and texts --------------------------------------------------------------------------------------


async def test_hostile_names_are_values_and_stay_apart(place: str, server: Server) -> None:
    store = SqliteSessions(place, clock=FakeClock())
    for number, name in enumerate(HOSTILE):
        key, run = SessionKey(AGENT, SessionId(name), name), RunId(f"{name}{number}")
        assert (await attempt(store.begin(key, run, size=1_000, earlier=0))).unwrap().messages == ()
        turn = SessionTurn(run, (UserMessage(name), AssistantMessage(name)), name)
        assert await attempt(store.end(key, run, turn)) == Success(None)
    infos = (await attempt(store.sessions(AGENT))).unwrap()
    assert {each.session for each in infos} == {each.user for each in infos} == set(HOSTILE)
    for name in HOSTILE:
        assert (await attempt(store.messages(AGENT, SessionId(name)))).unwrap()[0] == UserMessage(name)
        assert await attempt(store.forget(name)) == Success(1)
    assert (await attempt(store.sessions(AGENT))).unwrap() == ()
    await store.aclose()


@pytest.mark.parametrize("user", ["x" * 20_000_000, "lone \ud800"], ids=["huge", "surrogate"])
async def test_a_name_that_no_table_holds_is_a_failure(place: str, user: str) -> None:
    store = SqliteSessions(place, clock=FakeClock())
    key = SessionKey(AGENT, SessionId("s"), user[:1] if user[0] == "x" else user)
    begun = await attempt(store.begin(key, RunId(user), size=1_000, earlier=0))
    assert isinstance(begun.failure(), SessionUnavailable)
    assert (await attempt(store.sessions(AGENT))).unwrap() == ()
    await store.aclose()


async def test_hostile_queries_of_memory_find_or_fail_and_harm_nothing(place: str) -> None:
    services = open_memory(place, clock=FakeClock(), ids=SequentialIds())
    fact = MemoryCandidate("semantic", "The \0 depot of O'Hara is 40% full: \ufdd0.", "user", "test", 0.5)
    kept = (await attempt(services.memory.remember(AGENT, fact, user="o'hara\0"))).unwrap()
    for query in (
        *HOSTILE,
        "depot' OR 'x'='x",
        'depot" NEAR',
        "depot*",
        "-depot",
        "{depot}",
        "\0",
        "x" * 5_000_000,
    ):
        assert isinstance(await attempt(services.memory.search(AGENT, query, user="o'hara\0")), Success)
    found = await attempt(services.memory.search(AGENT, "40 DEPOT", user="o'hara\0"))
    assert found == Success((kept,))
    assert await attempt(services.memory.search(AGENT, "depot", user="o'hara")) == Success(())
    await services.aclose()


# --- everything of an agent in one database -----------------------------------------------------------------


def agent_at(url: str, *turns: object) -> ReactiveAgent:
    def look() -> str:
        """Look."""
        return "The animal of Zelda is a quagga."

    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(look)  # type: ignore[arg-type]
    builder = builder.with_memory(url).with_sessions(url).with_cost(url).with_run_log(url)
    return builder.with_durability(url).with_audit(url).build()


async def test_a_user_is_forgotten_in_every_table_of_an_agent(place: str, server: Server) -> None:
    turns = (call("look"), answer("The animal of Zelda is a quagga."), answer("Noted."))
    async with agent_at(place, *turns) as agent:
        await agent.run(
            "Remember that I, Zelda, like quaggas.", user="zelda", session="a", run_id="run-of-zelda"
        )
        await agent.run("Remember that I like 12.", user="bob", session="b", run_id="bob-1")
        assert {each.user for each in await agent.sessions.list()} == {"zelda", "bob"}
        assert await agent.forget(user="zelda") > 0
    tables = server.run(
        database_of(place), "SELECT tablename FROM pg_tables WHERE schemaname = 'reactive_agents'"
    )
    texts = {
        name: str(server.run(database_of(place), f"SELECT * FROM reactive_agents.{name}"))
        for (name,) in tables
    }
    assert len(texts) > 15
    # the audit log only grows, and costs count: they have ids of runs, and no text of a user
    held = {name for name, text in texts.items() if "quagga" in text or "zelda" in text.lower()}
    assert held <= {"entries", "spending_runs", "spending_models", "periods"}
    assert "quagga" not in str([texts[name] for name in held - {"entries"}])
    assert "bob" in texts["conversations"]


async def test_totals_of_usage_are_kept_by_triggers(place: str, server: Server) -> None:
    tracker = SqliteCostTracker(place, clock=FakeClock())
    await use_at_random(tracker, Random(1))
    await tracker.aclose()
    assert server.run(database_of(place), "SELECT count(*) FROM reactive_agents.spending_sums") == [(0,)]


async def test_usage_of_runs_that_end_at_once_is_summed_up(place: str) -> None:
    trackers = [SqliteCostTracker(place, clock=FakeClock()) for _ in range(3)]
    records = [a_record(Random(number), number) for number in range(60)]
    async with anyio.create_task_group() as group:
        for number, record in enumerate(records):
            group.start_soon(attempt, trackers[number % 3].record(record))
    await check_totals(trackers[0], records)
    for tracker in trackers:
        await tracker.aclose()


OLD_USAGE = """
import sys
import anyio
from attrs import evolve
from reactive_agents.adapters import sql
from reactive_agents.adapters.governance.cost_tracker import COST
from reactive_agents.core.errors import MemoryUnavailable

def write(connection):
    run = ("run-1", "t", "a", "2026-01-01", 1767225600000000, 0, "ann")
    connection.execute("INSERT INTO spending_runs VALUES (?, ?, ?, ?, ?, ?, ?)", run)
    connection.execute("INSERT INTO spending_models VALUES ('run-1', 'big', 500000000, 0, 1, 2, 3, 1)")

store = evolve(COST, versions=COST.versions[:2], postgres=COST.postgres[:2])
database = sql.open_database(sys.argv[1], store, lambda said, _: MemoryUnavailable(said))
anyio.run(database.write, "add", write).unwrap()
"""


async def test_usage_from_before_sums_were_kept_is_summed_up(place: str, server: Server) -> None:
    await anyio.run_process([sys.executable, "-c", OLD_USAGE, place])
    tracker = SqliteCostTracker(place, clock=FakeClock())
    used = (RunUsage("big", Usage(1, 2, 3), 0.5),)
    await check_totals(
        tracker, [SpendingRecord(RunId("run-1"), TaskId("t"), AgentId("a"), used, START, "ann")]
    )
    (await attempt(tracker.prune(START + timedelta(days=1)))).unwrap()
    await tracker.aclose()
    assert server.run(database_of(place), "SELECT count(*) FROM reactive_agents.spending_sums") == [(0,)]


def test_the_commands_take_the_address_of_every_store(place: str) -> None:
    async def run() -> None:
        async with agent_at(place, answer("Noted.")) as agent:
            await agent.run("Remember that I like 12.", user="bob", session="b", run_id="bob-1")

    anyio.run(run)
    for command in (
        ("memory", "show", "--path", place),
        ("sessions", "list", "--sessions", place),
        ("cost", "--path", place),
        ("audit", "show", place),
        ("runs", "list", "--runs", place),
    ):
        shown = run_command(*command, "--json")
        assert shown.exit_code == 0, shown.output
        assert json.loads(shown.stdout), command
    assert "The log is valid" in run_command("audit", "verify", place).stdout
    records, config = StudioRecords(), ReactiveAgents.create().with_memory(place).config
    assert "I like 12" in str(anyio.run(records.memories, config, AGENT, "like"))
    library = RunLibrary(place)
    assert [run.run_id for run in anyio.run(library.runs, LoggedRunFilter())] == ["bob-1"]
    assert library.place == shown_place(place)
    anyio.run(library.aclose)
    assert json.loads(
        run_command("memory", "forget", "--path", place, "-u", "bob", "-y", "--json").stdout
    ) != {"forgotten": 0}


async def test_no_connection_is_held_while_the_model_is_asked(place: str, server: Server) -> None:
    states: list[object] = []

    def look() -> str:
        """Look."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state LIKE 'idle in%%'"
        held = [server.run("postgres", query, database_of(place)) for _ in range(20)]
        states.append(min(held))  # a lease may be renewed meanwhile, for a moment
        return "seen"

    builder = ReactiveAgents.create().with_llm(ScriptedLLM(call("look"), answer("Done."))).with_reasoning()
    builder = builder.with_tools(look).with_memory(place).with_sessions(place).with_durability(place)
    async with builder.build() as agent:
        await agent.run("Look.", session="a", run_id="one")
    assert states == [[(0,)]]


# --- versions and schemas -----------------------------------------------------------------------------------


async def test_many_that_start_at_once_make_the_tables_once(place: str, server: Server) -> None:
    async def open_store(number: int) -> None:
        store = STORES[number % len(STORES)]
        more = (MEMORY,) if store is VECTORS else ()
        url = once_more(place, f"n{number // len(STORES)}")
        database = PostgresDatabase(url, (*more, store)[0], lambda *told: told, more=(*more, store)[1:])
        assert await database.write("open", lambda _: 1) == Success(1)
        await database.aclose()

    async with anyio.create_task_group() as group:
        for number in range(3 * len(STORES)):
            group.start_soon(open_store, number)
    versions = server.run(database_of(place), "SELECT name, version FROM reactive_agents.stores")
    assert dict(versions) == {store.name: len(store.postgres) for store in STORES}


async def test_newer_and_foreign_tables_are_refused_and_left_alone(place: str, server: Server) -> None:
    foreign = server.new()
    server.run(database_of(foreign), "CREATE SCHEMA reactive_agents CREATE TABLE orders (number bigint)")
    failed = (await attempt(budget_at(foreign).reserve(RunId("r"), 1.0))).failure()
    assert "is that of another program (orders)" in failed.message
    assert server.run(
        database_of(foreign), "SELECT count(*) FROM pg_tables WHERE schemaname = 'reactive_agents'"
    ) == [(1,)]
    async with open_budget(place) as known:
        await attempt(known.reserve(RunId("r"), 1.0))
    server.run(database_of(place), "UPDATE reactive_agents.stores SET version = 99")
    failed = (await attempt(budget_at(once_more(place, "new")).reserve(RunId("r"), 1.0))).failure()
    assert "found version 99 of its budget, of a newer reactive_agents" in failed.message


async def test_a_role_without_rights_fails_and_works_with_a_schema_that_is_granted(
    place: str, server: Server
) -> None:
    database = database_of(place)
    server.run(database, "CREATE ROLE clerk LOGIN")
    own = place.replace("postgres:@", "clerk:@")
    async with open_budget(own) as budget:
        failed = (await attempt(budget.reserve(RunId("r"), 1.0))).failure()
        assert "permission denied for database" in failed.message
        server.run(database, "CREATE SCHEMA reactive_agents")
        server.run(database, "GRANT USAGE, CREATE ON SCHEMA reactive_agents TO clerk")
        assert isinstance(await attempt(budget.reserve(RunId("r"), 1.0)), Success)
    server.run(database, "DROP OWNED BY clerk")
    server.run(database, "DROP ROLE clerk")


async def test_an_audit_log_only_grows_and_tampering_is_found(place: str, server: Server) -> None:
    log = SqliteAuditLog(place, clock=FakeClock())
    for _ in range(3):
        assert await attempt(log.append(ENTRY)) == Success(None)
    await log.aclose()
    database = database_of(place)
    for statement in (
        "UPDATE reactive_agents.entries SET body = '{}'",
        "DELETE FROM reactive_agents.entries WHERE sequence = 3",
        "TRUNCATE reactive_agents.entries",
        "INSERT INTO reactive_agents.entries VALUES (9, '', '', '')",
        "DELETE FROM reactive_agents.heads",
        "TRUNCATE reactive_agents.heads",
        "UPDATE reactive_agents.heads SET sequence = 2",
    ):
        with pytest.raises(psycopg.errors.RaiseException, match="only grows"):
            server.run(database, statement)
    assert verify(place).unwrap().entries == 3
    server.run(database, "ALTER TABLE reactive_agents.entries DISABLE TRIGGER ALL")
    server.run(
        database,
        "UPDATE reactive_agents.entries SET body = replace(body, 'It went', 'It did not') WHERE sequence = 2",
    )
    assert verify(place).failure() == AuditBroken(2, "its hash does not fit its content")


# --- many callers, lost connections ------------------------------------------------------------------------


async def test_many_callers_share_few_connections_and_overspend_nothing(place: str, server: Server) -> None:
    outcomes: list[object] = []
    connections: list[int] = []
    async with open_budget(place, 1.0) as one, open_budget(place, 1.0) as two:

        async def reserve(budget: SqliteBudget) -> None:
            outcomes.append(await attempt(budget.reserve(RunId("r"), 0.01)))

        async def watch() -> None:
            query = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
            while len(outcomes) < 240:
                found = await anyio.to_thread.run_sync(server.run, "postgres", query, database_of(place))
                connections.append(found[0][0])

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            for _ in range(120):
                group.start_soon(reserve, one)
                group.start_soon(reserve, two)
    granted = [each for each in outcomes if isinstance(each, Success)]
    refused = [each.failure() for each in outcomes if isinstance(each, Failure)]
    assert len(granted) == 100
    assert all(isinstance(each, BudgetExceeded) for each in refused)
    assert 0 < max(connections) <= MOST_CONNECTIONS


def test_threads_and_a_forked_process_share_a_budget(place: str) -> None:
    budget = budget_at(place, 0.5)

    def granted(count: int) -> int:
        async def reserve() -> int:
            outcomes = [await attempt(budget.reserve(RunId("r"), 0.01)) for _ in range(count)]
            return sum(isinstance(each, Success) for each in outcomes)

        return anyio.run(reserve)

    assert granted(2) == 2
    child = get_context("fork").Process(target=lambda: sys.exit(granted(8)))
    child.start()
    child.join()
    assert child.exitcode == 8  # with connections of its own
    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(granted, [10] * 6)) == 40
    anyio.run(budget.aclose)


async def test_connections_in_use_are_waited_for_and_then_a_failure(place: str) -> None:
    database = PostgresDatabase(place, BUDGET, lambda sentence, _: sentence, patience_s=0.2)
    assert await database.write("open", lambda _: None) == Success(None)
    with_each: list[Callable[[], object]] = []
    held = [database._pool.borrowed(1.0) for _ in range(MOST_CONNECTIONS)]
    with_each += [each.__enter__ for each in held]
    for enter in with_each:
        enter()
    failed = (await database.read("read", lambda _: None)).failure()
    assert "the 8 connections of this process are in use" in failed
    for each in held:
        each.__exit__(None, None, None)
    assert await database.read("read", lambda _: None) == Success(None)
    await database.aclose()


async def test_a_server_without_a_free_connection_is_waited_for_and_then_a_failure(
    place: str, server: Server
) -> None:
    name = place.partition("?")[0].rpartition("/")[2]
    role = f"few_{name}"
    server.run("postgres", f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 1")
    server.run("postgres", f"GRANT CREATE ON DATABASE {name} TO {role}")
    of_role = place.replace("postgres:@", f"{role}:@")
    database = PostgresDatabase(of_role, BUDGET, lambda sentence, _: sentence, patience_s=0.5)
    assert await database.write("open", lambda _: None) == Success(None)
    await database.aclose()
    taken = list[psycopg.Connection]()

    def take() -> bool:
        with suppress(psycopg.OperationalError):  # the server ends the other one a moment after it is closed
            taken.append(psycopg.connect(of_role))
        return bool(taken)

    await until(take)
    failed = (await database.read("read", lambda _: None)).failure()
    assert "cannot be reached" in failed
    assert "too many connections for role" in failed
    patient = PostgresDatabase(of_role, BUDGET, lambda sentence, _: sentence, patience_s=300.0)
    seen = patient._pool.absence

    async def close() -> None:
        await until(lambda: patient._pool.absence is not seen)  # its attempt has failed
        taken[0].close()

    async with anyio.create_task_group() as group:
        group.start_soon(close)
        assert await patient.read("read", lambda _: None) == Success(None)
    await patient.aclose()


async def test_a_cancelled_write_leaves_no_transaction_and_no_lock(
    place: str, budget: SqliteBudget, server: Server
) -> None:
    await attempt(budget.reserve(RunId("r"), 1.0))
    locks = "SELECT pg_advisory_lock(objid::bigint | classid::bigint << 32) FROM pg_locks WHERE false"
    with psycopg.connect(place) as holder:
        holder.execute(locks)
        holder.execute("LOCK TABLE reactive_agents.periods")
        with anyio.move_on_after(0.3) as scope:
            await attempt(budget.reserve(RunId("r"), 1.0))
        assert scope.cancelled_caught
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state LIKE 'idle in%%'"
    assert server.run("postgres", open_ones, database_of(place)) == [(0,)]
    assert isinstance(await attempt(budget.reserve(RunId("r"), 1.0)), Success)
    assert (await attempt(budget.state())).unwrap().day_usd == 2.0


async def claim(record: SqliteRunRecord, run_id: RunId) -> str:
    """Begin or continue a run; the holder of its lease."""
    run = RecordedRun(run_id, AGENT, Task(TaskId("t"), AGENT, "Do it.", SystemClock.now()))
    return (await attempt(record.claim(run, lambda _: None))).unwrap().holder


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_entries_of_a_run_are_written_whole_once_and_in_order_whatever_happens(
    place: str, server: Server
) -> None:
    record, run_id = SqliteRunRecord(place, clock=SystemClock()), RunId("r")
    holder = await claim(record, run_id)

    async def append(key: str, text: str = "") -> None:
        body = json.dumps({"text": text}, ensure_ascii=False)
        entry = RunEntry(key, "model", SystemClock.now(), body)
        (await attempt(record.append(run_id, holder, entry))).unwrap()

    await append("large", "é" * 2_000_000)  # more than the socket takes at once
    for number, name in enumerate(HOSTILE):
        await append(f"hostile-{number}", name)
    lock = record._file._lock_of(run_id)  # type: ignore[attr-defined]
    with psycopg.connect(place) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        with anyio.move_on_after(0.1) as scope:
            await append("cancelled")
    assert scope.cancelled_caught
    async with anyio.create_task_group() as group:
        for number in range(3 * MOST_CONNECTIONS):
            group.start_soon(append, f"many-{number}")
    ends = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
    server.run("postgres", ends, database_of(place))
    await append("after a loss")
    found = (await attempt(record.entries(run_id))).unwrap()
    assert [each.number for each in found] == [*range(1, len(found) + 1)]
    assert len({each.key for each in found}) == len(found) == 1 + len(HOSTILE) + 3 * MOST_CONNECTIONS + 1
    assert [json.loads(each.body)["text"] for each in found[1 : 1 + len(HOSTILE)]] == HOSTILE
    open_ones = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND state LIKE 'idle in%%'"
    # a server reports the end of a transaction a moment after its answer
    await until(lambda: server.run("postgres", open_ones, database_of(place)) == [(0,)])
    await attempt(record.end(run_id, holder, "completed", ""))
    await record.aclose()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_an_entry_that_may_come_later_is_not_waited_for_and_is_never_lost(
    place: str, server: Server
) -> None:
    record, run_id = SqliteRunRecord(place, clock=SystemClock()), RunId("r")
    holder = await claim(record, run_id)
    lock = record._file._lock_of(run_id)  # type: ignore[attr-defined]
    stored = "SELECT key FROM reactive_agents.run_entries ORDER BY number"

    async def append(key: str) -> object:
        entry = RunEntry(key, "result", SystemClock.now(), "{}")
        return await attempt(record.append(run_id, holder, entry, later=True))

    def keys() -> list[str]:
        return [key for (key,) in server.run(database_of(place), stored)]

    with psycopg.connect(place) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        assert await append("m1") == Success(None)  # the lock is held, so nobody can have written it
        assert keys() == []
    assert await attempt(record.settle(run_id, holder)) == Success("")
    assert keys() == ["m1"]
    with psycopg.connect(place) as other:
        other.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
        assert await append("m2") == Success(None)
        ends = (
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = %s AND query LIKE %s AND pid NOT IN (pg_backend_pid(), %s)"
        )  # idle ones too: on a slow machine it has given up waiting for the lock, and may do other things
        named, mine = iter(["%append_entries%"] * 1_000), other.info.backend_pid
        await until(
            lambda: server.run("postgres", ends, database_of(place), next(named, "%"), mine) != [(0,)]
        )  # it is on its way
    assert await attempt(record.settle(run_id, holder)) == Success("")
    assert keys() == ["m1", "m2"]
    await append("m3")
    await append("m4")
    await attempt(record.release(run_id, holder))  # waits for it, and so does the end of a run
    assert keys() == ["m1", "m2", "m3", "m4"]
    holder = await claim(record, run_id)
    server.run(database_of(place), "UPDATE reactive_agents.runs SET holder = 'another' RETURNING id")
    assert await append("m5") == Success(None)
    assert await attempt(record.settle(run_id, holder)) == Failure(LeaseLost(run_id))
    assert keys() == ["m1", "m2", "m3", "m4"]
    await record.aclose()


async def test_entries_on_their_way_leave_half_of_the_connections_to_others(
    place: str, server: Server
) -> None:
    record = SqliteRunRecord(place, clock=SystemClock())
    holders: dict[RunId, str] = {}
    for number in range(MOST_CONNECTIONS // 2 + 1):
        run_id = RunId(f"r{number}")
        holders[run_id] = await claim(record, run_id)
    async with anyio.create_task_group() as group:  # so that as many connections are idle
        for _ in range(4 * MOST_CONNECTIONS):
            group.start_soon(attempt, record.runs(RunFilter()))

    async def append(run_id: RunId, key: str) -> object:
        entry = RunEntry(key, "result", SystemClock.now(), "{}")
        return (await attempt(record.append(run_id, holders[run_id], entry, later=True))).unwrap()

    pool = record._file._pool  # type: ignore[attr-defined]
    orders = [await append(run_id, "m1") for run_id in holders]
    assert orders == [None] * len(holders)
    assert pool._lent_for_longer == MOST_CONNECTIONS // 2
    record.abandon(holders[RunId("r0")])
    assert await append(RunId("r4"), "m2") is None
    for run_id, holder in holders.items():
        await attempt(record.release(run_id, holder))
    assert pool._lent_for_longer == 0
    counted = (  # that of the run which was abandoned was not waited for
        "SELECT count(*) FROM reactive_agents.run_entries JOIN reactive_agents.runs ON run = id"
        " WHERE run_id <> 'r0'"
    )
    assert server.run(database_of(place), counted) == [(len(holders),)]
    await record.aclose()


async def test_a_run_that_is_deleted_while_it_is_written_leaves_no_entry(place: str, server: Server) -> None:
    record, run_id = SqliteRunRecord(place, clock=SystemClock()), RunId("r")
    holder = await claim(record, run_id)
    await attempt(record.append(run_id, holder, RunEntry("m1", "model", SystemClock.now(), "{}")))
    lock = record._file._lock_of(run_id)  # type: ignore[attr-defined]
    async with anyio.create_task_group() as group:
        with psycopg.connect(place) as writer:  # its entry is seen by nobody until it commits
            append = (
                "SELECT reactive_agents.append_entries(%s, 'off', %s, '', ARRAY['m2', 'model', '0', '{}'])"
            )
            assert writer.execute(append, (lock, holder)).fetchone() == ("",)
            group.start_soon(attempt, record.delete(run_id=run_id))
            waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            await until(lambda: server.run("postgres", waiting) != [(0,)])
    assert server.run(database_of(place), "SELECT count(*) FROM reactive_agents.runs") == [(0,)]
    assert server.run(database_of(place), "SELECT count(*) FROM reactive_agents.run_entries") == [(0,)]
    await record.aclose()


async def test_a_run_that_begins_while_the_server_is_away_is_interrupted(place: str, server: Server) -> None:
    name, llm = database_of(place), ScriptedLLM(forever(answer("Paris.")))
    described = ReactiveAgents.create().with_llm(llm).with_reasoning()
    agent = described.with_durability(place, recover=False).build()
    server.run("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    with pytest.raises(AgentError, match=r"nothing was begun.*not currently accepting") as away:
        await agent.run("What is the capital of France?", run_id="r")
    assert isinstance(away.value.error, RunInterrupted)
    server.run("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert (await agent.runs.list(), llm.requests) == ((), [])
    assert (await agent.run("What is the capital of France?", run_id="r")).output == "Paris."
    await agent.aclose()


async def test_an_outage_is_told_once_and_the_next_one_again(
    place: str, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    database = PostgresDatabase(place, BUDGET, lambda sentence, _: sentence, patience_s=0.1)
    name, ended = (
        database_of(place),
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
    )
    for _ in range(2):
        server.run("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        server.run("postgres", ended, name)
        for _ in range(3):
            assert "not currently accepting" in (await database.read("read", lambda _: None)).failure()
        assert [each.levelname for each in caplog.records] == ["WARNING"]
        server.run("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
        while isinstance(await database.read("read", lambda _: None), Failure):  # noqa: ASYNC110 - known to be away
            await anyio.sleep(0.05)
        caplog.clear()
    await database.aclose()


async def test_connections_that_the_server_ends_are_replaced(
    place: str, budget: SqliteBudget, server: Server
) -> None:
    ends = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = %s"
    granted = failed = 0
    for number in range(60):
        if number % 7 == 0:
            server.run("postgres", ends, database_of(place))
        if isinstance(await attempt(budget.reserve(RunId("r"), 1.0)), Success):
            granted += 1
        else:
            failed += 1
    assert (granted, failed) == (60, 0)
    assert (await attempt(budget.state())).unwrap().day_usd == 60.0


async def test_a_server_that_restarts_under_load_is_waited_for_and_loses_nothing_that_was_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with running_server() as own:
        url = own.new()
        granted = unknown = 0
        async with open_budget(url) as budget:
            ended = anyio.Event()

            async def spend() -> None:
                nonlocal granted, unknown
                while not ended.is_set():
                    match await attempt(budget.spend(RunId("r"), 1.0)):
                        case Success():
                            granted += 1
                        case Failure(error):
                            unknown += 1
                            assert "may have been done" in error.message

            async with anyio.create_task_group() as group:
                for _ in range(6):
                    group.start_soon(spend)
                await until(lambda: granted > 0)
                for mode in ("immediate", "fast"):
                    before = granted
                    await anyio.to_thread.run_sync(own.restart, mode)
                    await until(lambda before=before: granted > before + 20)
                ended.set()
            spent = (await attempt(budget.state())).unwrap().day_usd
        assert granted <= spent <= granted + unknown
        levels = {record.levelname for record in caplog.records if record.name == "reactive_agents"}
        assert levels <= {"WARNING"}


async def test_a_lock_that_is_held_for_too_long_is_a_failure(place: str) -> None:
    database = PostgresDatabase(place, BUDGET, lambda sentence, _: sentence, patience_s=0.2)
    settings = await database.write(
        "settings", lambda file: file.execute("SHOW idle_in_transaction_session_timeout").fetchone()
    )
    assert settings == Success(("15s",))
    with psycopg.connect(place) as holder:
        holder.execute("LOCK TABLE reactive_agents.periods")
        add = "INSERT INTO periods VALUES ('x', 1, '')"
        failed = (await database.write("add", lambda file: file.execute(add).rowcount)).failure()
    assert failed.endswith("is locked by another process.")
    assert await database.write("add", lambda file: file.execute(add).rowcount) == Success(1)
    await database.aclose()


async def test_bytes_stay_while_somebody_holds_them_and_go_with_the_last(place: str, server: Server) -> None:
    stores = [SqliteSessions(place, clock=SystemClock()) for _ in range(2)]
    data = b"the same bytes"
    part = stored(Image.from_bytes(data), data, media_type="image/png", tokens=1)

    async def hold_and_release(number: int) -> None:
        content, run = stores[number % 2].content, RunId(f"run-{number}")
        owner = ContentOwner(run, "ada")
        for _ in range(10):
            assert await attempt(content.put(part, data, owner)) == Success(None)
            assert await attempt(content.read(part.digest, "ada")) == Success(data)
            assert await attempt(content.release(run, keep=0)) == Success(None)

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(hold_and_release, number)
    for table in ("contents", "content_holders"):
        assert server.run(database_of(place), f"SELECT count(*) FROM reactive_agents.{table}") == [(0,)]
    for store in stores:
        await store.aclose()


# --- clocks -------------------------------------------------------------------------------------------------

AHEAD = """
import sys, time
from datetime import timedelta
real = time.time_ns
time.time_ns = lambda: real() + 3600 * 10**9  # the clock of this machine is an hour ahead
import anyio
from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.conversation import SessionKey
from reactive_agents.effects import attempt

class Ahead(SystemClock):
    @staticmethod
    def now():
        return SystemClock.now() + timedelta(hours=1)

async def main():
    store = SqliteSessions(sys.argv[1], clock=Ahead())
    key = SessionKey("agent", "s")
    with anyio.move_on_after(float(sys.argv[2])):
        await attempt(store.begin(key, "ahead", size=100, earlier=0))
        print("began")
    print("ended")
    await store.aclose()

anyio.run(main)
"""


async def test_a_machine_whose_clock_is_ahead_waits_for_the_ticket_of_another(place: str) -> None:
    store = SqliteSessions(place, clock=SystemClock())
    key = SessionKey(AGENT, SessionId("s"))
    assert isinstance(await attempt(store.begin(key, RunId("here"), size=100, earlier=0)), Success)
    command = [sys.executable, "-c", AHEAD, place]
    waits = await anyio.run_process([*command, "1"], cwd=ROOT, stderr=subprocess.PIPE)
    assert waits.stdout.decode().split() == ["ended"], waits.stderr.decode()
    await attempt(store.end(key, RunId("here"), None))
    begins = await anyio.run_process([*command, "60"], cwd=ROOT, stderr=subprocess.PIPE)
    assert begins.stdout.decode().split() == ["began", "ended"], begins.stderr.decode()
    await store.aclose()


async def test_a_turn_of_a_session_survives_a_connection_that_is_lost_while_it_is_committed(
    place: str, server: Server
) -> None:
    store, key, run = (
        SqliteSessions(place, clock=SystemClock()),
        SessionKey(AGENT, SessionId("s")),
        RunId("r"),
    )
    assert (await attempt(store.sessions(AGENT))) == Success(())
    server.run(
        database_of(place),
        "CREATE SEQUENCE lost; CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF nextval('public.lost') % 2 = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;"
        " RETURN NULL; END $$; CREATE CONSTRAINT TRIGGER lose AFTER INSERT OR DELETE ON"
        " reactive_agents.conversation_tickets INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION lose()",
    )
    assert (await attempt(store.begin(key, run, size=100, earlier=0))).unwrap().turn == 0
    turn = SessionTurn(run, (UserMessage("Hello."), AssistantMessage("Hi.")), "Hi.")
    for _ in range(2):  # and one that was committed
        assert await attempt(store.end(key, run, turn)) == Success(None)
    assert await attempt(store.messages(AGENT, key.session)) == Success(turn.messages)
    await store.aclose()


async def test_connections_that_are_lost_again_and_again_are_waited_for_like_a_restart(
    place: str, budget: SqliteBudget, server: Server
) -> None:
    await attempt(budget.spend(RunId("r"), 1.0))
    server.run(
        database_of(place),
        "CREATE SEQUENCE lost; CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF nextval('public.lost') < 15 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF;"
        " RETURN NEW; END $$; CREATE TRIGGER lose BEFORE UPDATE ON"
        " reactive_agents.periods FOR EACH ROW EXECUTE FUNCTION lose()",
    )
    assert isinstance(await attempt(budget.spend(RunId("r"), 1.0)), Success)
    assert (await attempt(budget.state())).unwrap().day_usd == 2.0


async def test_calls_that_wait_for_a_hanging_server_fail_together(place: str) -> None:
    """Otherwise they would fail eight at a time, each after its own attempt to connect."""
    connected = 0
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        port = listener.getsockname()[1]
        url = f"postgresql://user@127.0.0.1:{port}/base?connect_timeout=2&sslmode=disable"
        database = PostgresDatabase(url, BUDGET, lambda sentence, _: sentence, patience_s=0.1)
        failed: list[str] = []

        async def read() -> None:
            failed.append((await database.read("read", lambda _: None)).failure())

        async with anyio.create_task_group() as group:
            for _ in range(5 * MOST_CONNECTIONS):
                group.start_soon(read)
        listener.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                listener.accept()[0].close()
                connected += 1
    assert len(failed) == 5 * MOST_CONNECTIONS
    assert all("cannot be reached: connection timeout expired" in each for each in failed)
    assert connected < 2 * MOST_CONNECTIONS


async def test_a_connection_whose_server_process_hangs_is_replaced(
    place: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SILENT_S", 1.0)
    async with open_budget(place) as budget:
        await attempt(budget.spend(RunId("r"), 1.0))
        found = server.run(
            "postgres", "SELECT pid FROM pg_stat_activity WHERE datname = %s", database_of(place)
        )
        hanging = [psutil.Process(pid) for (pid,) in found]
        for each in hanging:
            each.suspend()
        try:
            assert isinstance(await attempt(budget.spend(RunId("r"), 1.0)), Success)
        finally:
            for each in hanging:
                each.resume()
        assert (await attempt(budget.state())).unwrap().day_usd == 2.0


@pytest.fixture
def proxy(place: str) -> Iterator[Proxy]:
    between = Proxy(place)
    yield between
    between.close()


async def test_a_pooler_that_begins_no_transaction_is_not_waited_for_by_each_connection(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts connections, which wait for one to the server: each would take ten seconds."""
    monkeypatch.setattr(postgres, "_SILENT_S", 0.3)
    database = PostgresDatabase(proxy.url, BUDGET, lambda sentence, _: sentence, patience_s=0.2)
    assert await database.read("warm up", lambda _: None) == Success(None)
    proxy.keeps = lambda sent: b"BEGIN" in sent
    failed = await database.read("read", lambda _: None)
    assert "accepts connections, but does not answer" in failed.failure()
    assert proxy.connections == 2
    await database.aclose()


async def test_a_transaction_that_a_pooler_begins_late_is_done_once(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SILENT_S", 0.3)
    budget = budget_at(proxy.url)
    await attempt(budget.spend(RunId("r"), 1.0))
    began = 0

    def first_two(sent: bytes) -> bool:
        nonlocal began
        began += b"BEGIN" in sent
        return b"BEGIN" in sent and began <= 1

    proxy.keeps = first_two
    assert isinstance(await attempt(budget.spend(RunId("r"), 1.0)), Success)
    proxy.goes_on.set()
    assert (await attempt(budget.state())).unwrap().day_usd == 2.0
    await budget.aclose()


async def test_after_a_migration_the_server_has_to_answer_as_fast_as_always(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_SILENT_S", 0.3)
    monkeypatch.setattr(postgres, "_LONGEST_ANSWER_S", 0.3)
    migrated = False

    def after_the_first(sent: bytes) -> bool:
        nonlocal migrated
        is_next, migrated = (
            migrated and b"BEGIN" in sent,
            migrated or b"reactive_agents.stores VALUES" in sent,
        )
        return is_next

    proxy.keeps = after_the_first
    database = PostgresDatabase(proxy.url, BUDGET, lambda sentence, _: sentence, patience_s=0.2, more=(COST,))
    assert "does not answer" in (await database.read("read", lambda _: None)).failure()
    await database.aclose()


async def test_a_run_goes_on_when_its_answer_is_stored_slower_than_the_server_answers(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write comes again, and the first one late: each entry is there once."""
    monkeypatch.setattr(postgres, "_SILENT_S", 0.3)

    def kept_once(sent: bytes) -> bool:
        return b"append_entries" in sent and not proxy.kept.is_set()

    @tool
    def note(number: int) -> str:
        """Note a number."""
        proxy.keeps = kept_once
        return "noted"

    turns = [*(call("note", number=number) for number in range(3)), answer("All is noted.")]
    described = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(note)
    agent = described.with_durability(proxy.url, recover=False).build()
    assert (await agent.run("Note the numbers.", run_id="r")).output == "All is noted."
    assert proxy.kept.is_set()
    proxy.goes_on.set()
    assert len(await agent.runs.steps("r")) == 7
    assert (await agent.runs.replay("r")).difference == ""
    await agent.aclose()


async def test_a_statement_that_is_answered_in_parts_is_not_cut_off(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_LONGEST_ANSWER_S", 0.6)
    database = PostgresDatabase(place, BUDGET, lambda sentence, _: sentence)
    parts = "DO $$ BEGIN FOR i IN 1 .. 12 LOOP RAISE NOTICE 'part'; PERFORM pg_sleep(0.1); END LOOP; END $$"
    assert await database.write("parts", lambda file: file.execute(parts) and None) == Success(None)
    await database.aclose()


async def test_a_read_is_repeated_whenever_its_connection_is_lost(place: str, server: Server) -> None:
    database, pids = PostgresDatabase(place, BUDGET, lambda sentence, _: sentence), list[int]()

    def read(file: sql.Transaction) -> int:
        (pid,) = file.execute("SELECT pg_backend_pid()").fetchone()
        if not pids:
            server.run("postgres", "SELECT pg_terminate_backend(%s, 10000)", pid)  # before its commit
        pids.append(pid)
        return len(pids)

    assert await database.read("read", read) == Success(2)
    await database.aclose()


async def test_an_answer_ends_the_absence_of_a_server(place: str, server: Server) -> None:
    """Otherwise the next restart would be waited for less long, as if it had begun then."""
    database = PostgresDatabase(place, BUDGET, lambda sentence, _: sentence, patience_s=0.1)
    begun, go_on = threading.Event(), threading.Event()

    def keep_connection(_: object) -> None:
        begun.set()
        go_on.wait()
        raise ValueError("no answer of the server")

    assert await database.read("warm up", lambda _: None) == Success(None)
    async with anyio.create_task_group() as group:
        group.start_soon(database.read, "keep", keep_connection)
        await anyio.to_thread.run_sync(begun.wait)
        server.run("postgres", f"ALTER DATABASE {database_of(place)} ALLOW_CONNECTIONS false")
        assert isinstance(await database.read("read", lambda _: None), Failure)
        server.run("postgres", f"ALTER DATABASE {database_of(place)} ALLOW_CONNECTIONS true")
        go_on.set()
    assert database.away_since < float("inf")
    assert await database.returning("answer", "SELECT CAST(? AS bigint), CAST(? AS text)") != Success(None)
    assert database.away_since == float("inf")
    await database.aclose()


async def test_a_server_is_not_away_before_its_last_answer(place: str, server: Server) -> None:
    """Otherwise no call would wait for a restart that cuts off one that took long."""
    database = PostgresDatabase(place, BUDGET, lambda sentence, _: sentence, patience_s=0.1)
    begun, go_on, name, later = threading.Event(), threading.Event(), database_of(place), float("inf")

    def read_late(file: sql.Transaction) -> None:
        begun.set()
        go_on.wait()
        file.execute("SELECT 1")

    assert await database.read("warm up", lambda _: None) == Success(None)
    async with anyio.create_task_group() as group:
        group.start_soon(database.read, "late", read_late)
        await anyio.to_thread.run_sync(begun.wait)
        later = time.monotonic()
        assert await database.read("read", lambda _: None) == Success(None)
        server.run("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        server.run("postgres", ended, name)
        go_on.set()
    server.run("postgres", f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    assert later < database.away_since < float("inf")
    await database.aclose()


async def test_what_another_process_writes_into_the_run_log_as_a_user_is_forgotten_is_deleted_too(
    place: str, proxy: Proxy
) -> None:
    @tool
    async def look() -> str:
        """Look."""
        await agent.container.core.run_log().unwrap().flush()
        proxy.keeps = lambda sent: b"12 Elm Street" in sent and not proxy.kept.is_set()
        return "12 Elm Street"

    model = ScriptedLLM(call("look"), answer("It is 12 Elm Street."))
    described = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look)
    agent, other = described.with_run_log(proxy.url).build(), SqliteRunLog(place)
    ended = anyio.Event()

    async def forget() -> None:
        assert (await attempt(other.forget("ada"))).unwrap() == 1
        ended.set()

    def waits() -> bool:
        with psycopg.connect(place) as connection:
            waiting = connection.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone()
        return waiting is not None

    async with agent, anyio.create_task_group() as group:
        group.start_soon(lambda: agent.run("Where does she live?", user="ada"))
        await anyio.to_thread.run_sync(proxy.kept.wait)
        group.start_soon(forget)
        await until(lambda: ended.is_set() or waits())
        proxy.goes_on.set()
    await other.aclose()
    with psycopg.connect(place) as connection:
        for table in ("logged_runs", "run_events", "run_texts"):
            assert connection.execute(f"SELECT count(*) FROM {postgres.SCHEMA}.{table}").fetchone() == (0,), (
                table
            )
