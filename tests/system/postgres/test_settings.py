"""Settings of a database, a role, the environment or a clock that change nothing for the stores."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import anyio
import psycopg
import pytest
from returns.result import Failure, Success

from reactive_agents.adapters.governance.audit_log import SqliteAuditLog, verify
from reactive_agents.adapters.governance.budget import BudgetState, SqliteBudget
from reactive_agents.adapters.memory.service import open_memory
from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.adapters.postgres import SERVER_TIME, PostgresDatabase
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.sqlite import Store
from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.adapters.telemetry.run_log import SqliteRunLog
from reactive_agents.core.content import ContentOwner, Image, stored
from reactive_agents.core.conversation import SessionKey
from reactive_agents.core.errors import LeaseLost, SessionRefused
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, RunId, SessionId, TaskId
from reactive_agents.core.run_record import LoggedRunFilter, RecordedRun, RunEntry
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt
from reactive_agents.testing.core import START
from tests.support.postgres import Server
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
ROOT = Path(__file__).parents[3]
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


ON_A_MACHINE = """
import sys, time
from datetime import timedelta
from reactive_agents import ReactiveAgents
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.models import TokenPrice
from reactive_agents.testing import ScriptedLLM, say

url, ahead = sys.argv[1], timedelta(days=int(sys.argv[2]))
now, time_ns = SystemClock.now, time.time_ns
SystemClock.now = staticmethod(lambda: now() + ahead)
time.time_ns = lambda: time_ns() + ahead.days * 86_400 * 10**9
llm = ScriptedLLM(say("Hello.", cost_usd=0.25), price=TokenPrice(0.0, 0.001, max_output_tokens=100))
builder = ReactiveAgents.create().with_llm(llm).with_cost(url, daily_usd=5.0)
agent = builder.with_memory(url).with_run_log(url).build()
agent.run_sync("Greet me on machine " + sys.argv[2])
"""


async def test_a_machine_whose_clock_is_ahead_deletes_nothing_of_others(place: str) -> None:
    for days in ("0", "400"):
        await anyio.run_process([sys.executable, "-c", ON_A_MACHINE, place, days], cwd=ROOT)
    log, memory = SqliteRunLog(place), open_memory(place, clock=SystemClock(), ids=UlidSource())
    budget = SqliteBudget(place, daily_usd=5.0, monthly_usd=None, clock=SystemClock())
    assert len((await attempt(log.runs(LoggedRunFilter()))).unwrap()) == 2
    remembered = (await attempt(memory.archive.entries(kinds=("episodic",)))).unwrap()
    assert [each.content for each in remembered if "machine 0" in each.content]
    assert (await attempt(budget.state())).unwrap() == BudgetState(0.5, 0.5)
    for each in (log, memory, budget):
        await each.aclose()


class Apart(SystemClock):
    """The clock of a machine that is days ahead."""

    days = 0

    @classmethod
    def now(cls) -> datetime:
        return SystemClock.now() + timedelta(days=cls.days)


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Apart]:
    """Set the clock of this machine."""
    time_ns = time.time_ns

    def set_to(days: int) -> Apart:
        monkeypatch.setattr(Apart, "days", days)
        monkeypatch.setattr(time, "time_ns", lambda: time_ns() + days * 86_400 * 10**9)
        return Apart()

    return set_to


async def test_a_reserved_turn_is_kept_by_the_clock_of_the_server(
    place: str, server: Server, apart: Callable[[int], Apart]
) -> None:
    sessions = SqliteSessions(place, clock=apart(-1))
    key = SessionKey(AGENT, SessionId("s"))
    assert await attempt(sessions.reserve(key, RUN, 0)) == Success(True)
    left_us = f"SELECT valid_until_us - ({SERVER_TIME}) FROM reactive_agents.conversation_tickets"
    ((left,),) = server.run(database_of(place), left_us)
    assert left > 0
    origin = SessionId("origin")
    (await attempt(sessions.update_state(SessionKey(AGENT, origin), {"stage": 1}))).unwrap()
    apart(1)
    forked = await attempt(sessions.fork(AGENT, origin, key.session))
    assert isinstance(forked.failure(), SessionRefused)
    await sessions.aclose()


@pytest.mark.parametrize(("here_is", "there_is"), [(0, 3), (-3, -3), (-3, 0)])
async def test_bytes_of_a_run_stay_although_the_clock_of_a_machine_is_wrong(
    here_is: int, there_is: int, place: str, apart: Callable[[int], Apart]
) -> None:
    data = b"an image"
    part = stored(Image.from_bytes(data), data, media_type="image/png", tokens=1)
    here, there = SqliteSessions(place, clock=apart(here_is)), SqliteSessions(place, clock=Apart())
    assert await attempt(here.content.put(part, data, ContentOwner(RUN, "ada"))) == Success(None)
    apart(there_is)
    assert await attempt(there.content.release(RunId("another"), keep=0)) == Success(None)
    assert await attempt(there.content.read(part.digest, "ada")) == Success(data)
    for each in (here, there):
        await each.aclose()
