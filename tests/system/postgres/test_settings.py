"""Settings of a database, of a role and of the environment that change nothing for the stores."""

from __future__ import annotations

import json

import anyio
import psycopg
import pytest
from returns.result import Failure, Success

from reactive_agents.adapters.governance.audit_log import SqliteAuditLog, verify
from reactive_agents.adapters.postgres import PostgresDatabase
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.sqlite import Store
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.errors import LeaseLost
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.run_record import RecordedRun, RunEntry
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.testing.core import START
from tests.support.postgres import Server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
AGENT, RUN = AgentId("agent"), RunId("r1")
AUDITED = AuditEntry(RUN, TaskId("t1"), AGENT, "run", "completed", "It went.", START)
MANY = 24


def database_of(url: str) -> str:
    return url.partition("?")[0].rpartition("/")[2]


async def claim(record: SqliteRunRecord) -> str:
    """Begin the run; return the holder of its lease."""
    run = RecordedRun(RUN, AGENT, Task(TaskId("t1"), AGENT, "Go.", START))
    return (await attempt(record.claim(run, lambda _: None))).unwrap().holder


async def recorded(place: str, text: str) -> list[str]:
    """Return a text as it is read of entries, one written in a transaction and one by a statement."""
    record = SqliteRunRecord(place, clock=SystemClock())
    holder = await claim(record)
    for key in ("first", "second"):
        body = json.dumps({"text": text}, ensure_ascii=False)
        entry = RunEntry(key, "model", SystemClock.now(), body)
        (await attempt(record.append(RUN, holder, entry))).unwrap()
    found = (await attempt(record.entries(RUN))).unwrap()
    await attempt(record.end(RUN, holder, "completed", ""))
    await record.aclose()
    return [json.loads(each.body)["text"] for each in found]


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_writes_at_once_are_kept_whatever_the_isolation_of_the_database(
    place: str, server: Server, isolation: str
) -> None:
    setting = f"default_transaction_isolation = '{isolation}'"
    server.run("postgres", f"ALTER DATABASE {database_of(place)} SET {setting}")
    logs = [SqliteAuditLog(f"{place}&application_name=n{n}", clock=SystemClock()) for n in range(3)]

    async def append(log: SqliteAuditLog) -> None:
        assert await attempt(log.append(AUDITED)) == Success(None)

    async with anyio.create_task_group() as group:
        for number in range(MANY):
            group.start_soon(append, logs[number % len(logs)])
    for log in logs:
        await log.aclose()
    assert verify(place).unwrap().entries == MANY


async def test_an_entry_that_waited_is_refused_whatever_the_isolation_if_the_run_was_taken_meanwhile(
    place: str, server: Server
) -> None:
    database = database_of(place)
    setting = "default_transaction_isolation = 'repeatable read'"
    server.run("postgres", f"ALTER DATABASE {database} SET {setting}")
    record = SqliteRunRecord(place, clock=SystemClock())
    holder = await claim(record)
    answers: list[object] = []

    async def append(key: str) -> None:
        entry = RunEntry(key, "model", SystemClock.now(), "{}")
        answers.append(await attempt(record.append(RUN, holder, entry)))

    await append("before")
    waiting = "SELECT 1 FROM pg_stat_activity WHERE datname = %s AND wait_event = 'advisory'"
    async with anyio.create_task_group() as group:
        with psycopg.connect(place) as other:
            lock = record._file._lock_of(RUN)  # type: ignore[attr-defined]
            other.execute("SELECT pg_advisory_xact_lock(%s)", (lock,))
            other.execute("UPDATE reactive_agents.runs SET holder = 'another'")
            group.start_soon(append, "after")
            await until(lambda: bool(server.run("postgres", waiting, database)))
    assert answers == [Success(""), Failure(LeaseLost(RUN))]
    await record.aclose()


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
async def test_texts_are_read_as_they_were_written_whatever_the_encoding_of_the_database(
    server: Server, encoding: str
) -> None:
    name = f"encoded_in_{encoding.lower()}"
    made = f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    server.run("postgres", made)
    assert await recorded(server.of(name), "Größe") == ["Größe"] * 2


async def test_texts_are_read_as_they_were_written_whatever_the_encoding_of_the_environment(
    place: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    assert await recorded(place, "Größe") == ["Größe"] * 2
    monkeypatch.undo()
    bodies = server.run(database_of(place), "SELECT body FROM reactive_agents.run_entries")
    assert {json.loads(body)["text"] for (body,) in bodies} == {"Größe"}


async def test_a_migration_may_take_longer_than_statements_of_the_role(place: str, server: Server) -> None:
    server.run("postgres", f"ALTER DATABASE {database_of(place)} SET statement_timeout = '2s'")
    slow = Store("slow", (), (("SELECT pg_sleep(3)",),))
    database = PostgresDatabase(place, slow, lambda *told: told)
    assert await database.write("open", lambda _: 1) == Success(1)
    await database.aclose()
