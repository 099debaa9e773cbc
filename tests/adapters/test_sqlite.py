"""The one rule for every SQLite file: marked, versioned, durable, and never somebody else's."""

from __future__ import annotations

import gc
import logging
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio.testing
from returns.result import Failure, Result, Success

from reactive_agents import ReactiveAgents
from reactive_agents.adapters import sql, sqlite
from reactive_agents.adapters.governance.audit_log import AUDIT, SqliteAuditLog, verify
from reactive_agents.adapters.governance.budget import BUDGET, SqliteBudget
from reactive_agents.adapters.governance.cost_tracker import COST, SqliteCostTracker
from reactive_agents.adapters.memory.database import MEMORY, open_memory_store
from reactive_agents.adapters.memory.store import add
from reactive_agents.adapters.sql import Transaction, rows
from reactive_agents.adapters.sqlite import (
    APPLICATION_ID,
    LAYOUT,
    SqliteFile,
    Store,
    UnusableFile,
    look_into,
    migrate,
    moment_of,
    version_of,
)
from reactive_agents.core.errors import MemoryUnavailable
from reactive_agents.core.governance import AuditEntry, SpendingRecord
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.effects import attempt
from reactive_agents.testing import ScriptedLLM, say
from reactive_agents.testing.core import START, FakeClock
from tests.support.fakes import refuse_thread
from tests.support.memories import an_entry
from tests.support.waiting import until, until_blocking

pytestmark = pytest.mark.anyio

RUN, TASK, AGENT = RunId("run-1"), TaskId("task-1"), AgentId("agent-1")
ENTRY = AuditEntry(RUN, TASK, AGENT, "run", "completed", "final answer", START)
SPENDING = SpendingRecord(RUN, TASK, AGENT, (RunUsage("big", Usage(10, 5, 15), 0.25, 1),), START)

NOTES = Store("notes", (("CREATE TABLE IF NOT EXISTS notes (note TEXT)",),))


async def keep_memory(path: Path) -> Result[Any, Any]:
    database = open_memory_store(path)
    kept = await database.write("keep", lambda connection: add(connection, an_entry("m1", "A fact.")))
    await database.aclose()
    return kept


async def record_cost(path: Path) -> Result[Any, Any]:
    tracker = SqliteCostTracker(path, clock=FakeClock())
    recorded = await attempt(tracker.record(SPENDING))
    await tracker.aclose()
    return recorded


async def reserve_money(path: Path) -> Result[Any, Any]:
    budget = SqliteBudget(path, daily_usd=1.0, monthly_usd=None, clock=FakeClock())
    reserved = await attempt(budget.reserve(RUN, 0.5))
    await budget.aclose()
    return reserved


async def append_entry(path: Path) -> Result[Any, Any]:
    log = SqliteAuditLog(path, clock=FakeClock())
    appended = await attempt(log.append(ENTRY))
    await log.aclose()
    return appended


Write = Callable[[Path], Awaitable[Result[Any, Any]]]
WRITES: tuple[Write, ...] = (keep_memory, record_cost, reserve_money, append_entry)
STORES = (MEMORY, COST, BUDGET, AUDIT)

every_store = pytest.mark.parametrize(
    ("write", "store"), [pytest.param(*each, id=each[1].name) for each in zip(WRITES, STORES, strict=True)]
)


def table_of_another_program(path: Path, name: str = "accounts") -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE {name} (id)")
    connection.commit()
    connection.close()


def marked_by_another_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA application_id = 7")
    connection.close()


def counted_by_another_program(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()


def tables_of(path: Path) -> set[str]:
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    connection.close()
    return names


# --- every store ----------------------------------------------------------------------------------------


@every_store
async def test_missing_directories_are_made(tmp_path: Path, write: Write, store: Store) -> None:
    path = tmp_path / "logs" / "today" / "agent.db"
    assert isinstance(await write(path), Success)
    modes = [each.stat().st_mode & 0o777 for each in (path, path.parent)]
    assert modes == [0o600, 0o700]  # who may write the folder may replace the file


@every_store
async def test_a_file_carries_the_application_id_and_the_versions_of_its_stores(
    tmp_path: Path, write: Write, store: Store
) -> None:
    path = tmp_path / "agent.db"
    await write(path)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("PRAGMA user_version").fetchone() == (LAYOUT,)
    assert connection.execute("SELECT name, version FROM reactive_agents_stores").fetchall() == [
        (store.name, store.newest)
    ]
    connection.close()


@every_store
@pytest.mark.parametrize(
    ("make", "found"),
    [
        (table_of_another_program, "the database of another program (accounts)"),
        (lambda path: table_of_another_program(path, "entries"), "the database of another program (entries)"),
        (marked_by_another_program, "the database of another program (application id 0x7)"),
        (counted_by_another_program, "the database of another program (user_version 3)"),
    ],
)
async def test_the_database_of_another_program_is_refused_and_stays_as_it_is(
    tmp_path: Path, write: Write, store: Store, make: Callable[[Path], None], found: str
) -> None:
    path = tmp_path / "theirs.db"
    make(path)
    before = path.read_bytes()
    message = (await write(path)).failure().message
    expected = "an empty file or one that reactive_agents made"
    assert message == (
        f"The {store.name} file {str(path)!r} cannot be used: found {found}, expected {expected}."
    )
    assert path.read_bytes() == before


@every_store
async def test_a_newer_version_is_refused_and_stays_as_it_is(
    tmp_path: Path, write: Write, store: Store
) -> None:
    path = tmp_path / "agent.db"
    await write(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE reactive_agents_stores SET version = 99")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    message = (await write(path)).failure().message
    assert f"{str(path)!r} cannot be used: found version 99 of its {store.name}" in message
    assert f"expected at most {store.newest}" in message
    assert path.read_bytes() == before


@every_store
async def test_a_newer_layout_is_refused(tmp_path: Path, write: Write, store: Store) -> None:
    path = tmp_path / "agent.db"
    await write(path)
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {LAYOUT + 1}")
    connection.close()
    assert f"found layout {LAYOUT + 1}" in (await write(path)).failure().message


@every_store
async def test_a_failure_is_a_warning_with_its_cause(
    tmp_path: Path, write: Write, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "agent.db"
    assert isinstance(await write(path), Failure)
    (warning,) = [record for record in caplog.records if record.name == "reactive_agents"]
    assert warning.levelno == logging.WARNING
    assert str(path) in warning.getMessage()
    assert "FileExistsError" in warning.getMessage()


async def test_a_full_disk_is_one_warning_until_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)

    async def limit(pages: int) -> None:
        assert isinstance(await file.read("limit", lambda each: each.execute(pages_of(pages))), Success)

    def pages_of(pages: int) -> str:
        return f"PRAGMA max_page_count = {pages}"

    def grow(connection: Any) -> None:
        connection.execute("INSERT INTO notes VALUES (?)", ("x" * 50_000,))

    for outage in (1, 2):
        await limit(1)  # no more than there are
        for write in (file.write, file.write_soon, file.write):
            assert "the disk is full" in (await write("note", grow)).failure().message
        assert caplog.text.count("cannot grow: the disk is full") == outage
        await limit(10_000)
        assert await file.write("note", grow) == Success(None)
    await file.aclose()


async def test_one_file_may_hold_every_store(tmp_path: Path) -> None:
    path = tmp_path / "agent.db"
    for write in WRITES:
        assert isinstance(await write(path), Success)
    connection = sqlite3.connect(path)
    assert {store.name: version_of(connection, store) for store in STORES} == {
        store.name: store.newest for store in STORES
    }
    connection.close()
    assert verify(path).unwrap().entries == 1


# --- one file -------------------------------------------------------------------------------------------


async def test_a_commit_outlives_a_loss_of_power(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    settings = ("synchronous", "journal_mode", "secure_delete")
    found = await file.read(
        "settings", lambda each: [each.execute(f"PRAGMA {name}").fetchone()[0] for name in settings]
    )
    await file.aclose()
    assert found == Success([2, "wal", 1])  # 2 is FULL


async def test_what_is_forgotten_is_in_no_unused_part_of_the_file_either(tmp_path: Path) -> None:
    """Rows of several sizes that grow are moved between pages, which leaves copies in their unused parts."""
    store = Store(
        "rows", (("CREATE TABLE grown (id INTEGER PRIMARY KEY, whose TEXT, said TEXT, more TEXT)",),)
    )
    file = SqliteFile(path := tmp_path / "rows.db", store, MemoryUnavailable)

    def write(connection: Transaction) -> None:
        for number in range(2_000):
            whose = ("ann", "bob")[number % 2]
            said = f"{whose}-secret {number} " + "x" * (number * 7919 % 300 + 100)
            connection.execute("INSERT INTO grown (whose, said) VALUES (?, ?)", (whose, said))
            more = f"{whose}-secret " + "y" * (number * 104_729 % 800 + 100)
            connection.execute("UPDATE grown SET more = ? WHERE id = ?", (more, number - 7))

    def forget(connection: Transaction) -> int:
        return connection.execute("DELETE FROM grown WHERE whose = 'bob'").rowcount

    assert (await file.write("write", write)).unwrap() is None
    assert await sql.erase(file, "delete", forget) == Success(1_000)
    assert b"bob-secret" in path.read_bytes(), "with this, SQLite does as is checked"
    assert await sql.erase(file, "forget", forget, rewrites=True) == Success(0)
    assert b"bob-secret" not in path.read_bytes()
    assert b"ann-secret" in path.read_bytes()
    assert await anyio.Path(f"{path}-wal").read_bytes() == b""
    await file.aclose()


async def test_a_file_that_others_write_is_not_rewritten_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = SqliteFile(path := tmp_path / "notes.db", NOTES, MemoryUnavailable, patience_s=0.1)
    await file.check()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        await file.empty_log(rewrites=True)
        other.execute("ROLLBACK")
    assert [each.levelname for each in caplog.records] == ["WARNING"] * len(caplog.records)
    assert "may have what was deleted until VACUUM rewrites it" in caplog.text
    caplog.clear()
    await file.empty_log(rewrites=True)
    assert caplog.text == ""
    await file.aclose()


async def test_a_file_that_takes_too_long_to_be_rewritten_is_left_as_it_is_and_that_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)"
    fill = f"INSERT INTO notes {rows} SELECT hex(randomblob(200)) FROM n"
    assert (await file.write("fill", lambda each: each.execute(fill).rowcount)).unwrap() == 50_000
    monkeypatch.setattr(sqlite, "_REWRITE_SHARE", 0.0)
    await file.empty_log(rewrites=True)
    assert "may have what was deleted until VACUUM rewrites it" in caplog.text
    count = "SELECT count(*) FROM notes"
    assert (await file.read("count", lambda each: each.execute(count).fetchone())).unwrap() == (50_000,)
    await file.aclose()


async def test_what_many_wrote_is_brought_to_the_disk_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    await file.check()
    begun, may_end = threading.Event(), threading.Event()
    logs: list[int] = []

    def slow_disk(log: int) -> None:
        logs.append(os.fstat(log).st_size)
        begun.set()
        may_end.wait()

    monkeypatch.setattr(sqlite, "_DATA_TO_DISK", slow_disk)
    written: list[str] = []

    async def note(text: str) -> None:
        def work(connection: Any) -> None:
            connection.execute("INSERT INTO notes VALUES (?)", (text,))
            written.append(text)

        assert await file.write_soon("note", work, durable=True) == Success(None)
        assert may_end.is_set()

    async with anyio.create_task_group() as group:
        group.start_soon(note, "first")
        await until(begun.is_set)
        for number in range(20):
            group.start_soon(note, str(number))
        await until(lambda: len(written) == 21)
        may_end.set()
    assert len(logs) == 2
    assert logs[1] > logs[0]
    await file.aclose()


async def test_a_short_write_is_done_on_the_calling_thread_when_the_file_is_not_in_use(
    tmp_path: Path,
) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    begun, may_end = threading.Event(), threading.Event()
    threads: list[int] = []

    def long_work(connection: Any) -> None:
        begun.set()
        may_end.wait()

    def work(connection: Any) -> None:
        threads.append(threading.get_ident())

    async with anyio.create_task_group() as group:
        group.start_soon(file.write, "long", long_work)
        await until(begun.is_set)
        for _ in range(3):
            group.start_soon(file.write_soon, "note", work)
        await anyio.lowlevel.checkpoint()
        assert threads == []
        may_end.set()
    assert threads == [threading.get_ident()] * 3
    await file.aclose()


async def test_what_the_disk_refuses_is_a_failure_of_those_who_wait_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    await file.check()

    def broken_disk(log: int) -> None:
        raise OSError(5, "Input/output error")

    def work(connection: Any) -> None:
        connection.execute("INSERT INTO notes VALUES ('Zebra')")

    results: list[Any] = []

    async def note() -> None:
        results.append(await file.write_soon("note", work, durable=True))

    with monkeypatch.context() as broken:
        broken.setattr(sqlite, "_DATA_TO_DISK", broken_disk)
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(note)
    refused = [each for each in results if isinstance(each, Failure)]
    assert {type(each.failure()) for each in refused} == {MemoryUnavailable}
    others = len(results) - len(refused)  # of whom the failure itself may have written back what they wrote
    assert bytes_of(tmp_path / "notes.db").count(b"Zebra") >= others
    assert await file.write_soon("note", work, durable=True) == Success(None)
    await file.aclose()
    assert look_into(
        tmp_path / "notes.db", NOTES, lambda each: each.execute("SELECT count(*) FROM notes").fetchone()
    ) == Success((4,))


async def test_what_the_disk_refused_is_written_back_although_others_use_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "notes.db"
    file, other = (SqliteFile(path, NOTES, MemoryUnavailable) for _ in range(2))
    await file.check()
    await other.check()

    def broken_disk(log: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(sqlite, "_DATA_TO_DISK", broken_disk)
    written = await file.write_soon(
        "note", lambda each: each.execute("INSERT INTO notes VALUES ('Zebra')").rowcount, durable=True
    )
    assert isinstance(written, Failure)
    assert b"Zebra" in bytes_of(path)
    await file.aclose()
    await other.aclose()


async def test_what_is_on_the_disk_is_no_failure_where_the_log_cannot_be_written_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    class Refusing(sqlite3.Connection):
        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if "wal_checkpoint" in statement:
                refused.append(statement)
                raise sqlite3.OperationalError("disk I/O error")
            return super().execute(statement, *values)

    monkeypatch.setattr(sqlite, "_MOST_IN_LOG", 5)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Refusing))
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    for _ in range(20):
        assert await file.write_soon("note", add_a_note, durable=True) == Success(None)
    await file.aclose()
    assert len(refused) == 4


def add_a_note(connection: Any) -> None:
    connection.execute("INSERT INTO notes VALUES ('a')")


async def test_what_was_written_is_on_the_disk_also_when_the_file_is_closed_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    file = SqliteFile(path, NOTES, MemoryUnavailable)
    results: list[Any] = []

    async def note() -> None:
        results.append(await file.write_soon("note", add_a_note, durable=True))

    for _ in range(5):
        async with anyio.create_task_group() as group:
            group.start_soon(note)
            group.start_soon(file.aclose)
    await file.aclose()
    assert results == [Success(None)] * 5
    assert look_into(path, NOTES, lambda each: each.execute("SELECT count(*) FROM notes").fetchone()) == (
        Success((5,))
    )


async def test_a_file_whose_owner_is_dropped_is_closed_in_order(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    await file.write("note", add_a_note)
    connection: Any = file._connection
    file.itself = file  # type: ignore[attr-defined]  # a circle, which the collector may take apart in any order
    del file

    def is_closed() -> bool:
        gc.collect()  # until the thread that wrote has let go of it
        try:
            connection.execute("SELECT 1")
        except sqlite3.ProgrammingError:
            return True
        return False

    await until(is_closed)


async def test_what_was_written_to_a_file_that_is_closed_and_deleted_meanwhile_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "notes.db"
    file = SqliteFile(path, NOTES, MemoryUnavailable)
    close = file._close
    results: list[Any] = []

    def close_and_delete() -> None:
        close()
        path.unlink(missing_ok=True)

    async def note() -> None:
        results.append(await file.write_soon("note", add_a_note, durable=True))

    monkeypatch.setattr(file, "_close", close_and_delete)
    async with anyio.create_task_group() as group:
        group.start_soon(note)
        group.start_soon(file.aclose)
    assert [type(each) for each in results] == [Failure]


async def test_a_file_that_is_deleted_while_it_is_in_use_is_made_again_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "notes.db"
    file = SqliteFile(path, NOTES, MemoryUnavailable)
    for _ in range(2):
        assert await file.write_soon("note", add_a_note, durable=True) == Success(None)
    assert caplog.messages == []
    async for each in anyio.Path(tmp_path).iterdir():
        await each.unlink()
    for _ in range(2):
        assert await file.write_soon("note", add_a_note, durable=True) == Success(None)
    (told,) = caplog.messages
    assert f"The notes file {str(path)!r} was deleted or replaced while it was in use" in told
    await file.aclose()


async def test_a_log_that_was_deleted_fails_one_write_and_loses_none(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    file = SqliteFile(path, NOTES, MemoryUnavailable)
    assert await file.write_soon("note", add_a_note, durable=True) == Success(None)
    (tmp_path / "notes.db-wal").unlink()
    assert isinstance(await file.write_soon("note", add_a_note, durable=True), Failure)
    assert await file.write_soon("note", add_a_note, durable=True) == Success(None)
    await file.aclose()
    assert look_into(path, NOTES, lambda each: each.execute("SELECT count(*) FROM notes").fetchone()) == (
        Success((3,))
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
async def test_the_name_of_a_file_need_not_be_text(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / os.fsdecode(b"\xff.db"), NOTES, MemoryUnavailable)
    assert await file.write_soon("note", add_a_note, durable=True) == Success(None)
    await file.aclose()


async def test_a_database_in_the_process_is_written_on_the_calling_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sqlite, "_MOST_IN_LOG", 5)
    file = SqliteFile(sqlite.IN_PROCESS, NOTES, MemoryUnavailable)
    await file.check()
    works: list[Callable[[], None]] = []
    start = sqlite._THREADS.start

    def started(work: Callable[[], None]) -> None:
        works.append(work)
        start(work)

    monkeypatch.setattr(sqlite._THREADS, "start", started)
    for _ in range(20):
        assert await file.write_soon("note", add_a_note, durable=True) == Success(None)
    assert works == []


async def test_a_file_that_is_written_without_waiting_is_written_back_from_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_MOST_IN_LOG", 5)
    path = tmp_path / "notes.db"
    file = SqliteFile(path, NOTES, MemoryUnavailable)
    for _ in range(50):
        await file.write_soon(
            "note", lambda each: each.execute("INSERT INTO notes VALUES ('Zebra')").rowcount
        )
    assert bytes_of(path).count(b"Zebra") >= 40
    assert len(bytes_of(tmp_path / "notes.db-wal")) < 10 * 4120
    await file.aclose()


async def test_the_log_of_waiting_writes_is_soon_written_from_its_start_again(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    sizes: list[int] = []
    for _ in range(200):
        assert await file.write_soon("note", add_a_note, durable=True) == Success(None)
        sizes.append(os.stat(tmp_path / "notes.db-wal").st_size)
    assert sizes[-1] == sizes[60]  # it grew no more, and a file that does not grow is flushed faster
    await file.aclose()


@pytest.mark.parametrize("durable", [False, True])
async def test_large_entries_do_not_stay_in_the_log(tmp_path: Path, durable: bool) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    for _ in range(100):
        await file.write_soon(
            "note",
            lambda each: each.execute("INSERT INTO notes VALUES (?)", ("a" * 500_000,)).rowcount,
            durable=durable,
        )
    assert len(bytes_of(tmp_path / "notes.db-wal")) < 40 * 500_000
    await file.aclose()


@pytest.mark.parametrize("soon", [False, True])
async def test_a_log_that_grew_under_a_long_reader_becomes_small_again(tmp_path: Path, soon: bool) -> None:
    path = tmp_path / "notes.db"
    file = SqliteFile(path, NOTES, MemoryUnavailable)
    write = file.write_soon if soon else file.write

    async def add(number: int) -> None:
        for _ in range(number):
            added = await write(
                "note", lambda each: each.execute("INSERT INTO notes VALUES (?)", ("a" * 500_000,))
            )
            assert isinstance(added, Success)

    await add(1)
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM notes").fetchall()
    await add(40)
    assert os.stat(tmp_path / "notes.db-wal").st_size > 40 * 500_000
    reader.close()
    await add(35)  # it is written back, and reset by a later write
    assert os.stat(tmp_path / "notes.db-wal").st_size < 40 * 500_000
    await file.aclose()


async def test_what_is_erased_leaves_the_log_as_soon_as_nobody_reads_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "notes.db"
    file = SqliteFile(path, NOTES, MemoryUnavailable, patience_s=0.0)
    await file.write("note", lambda each: each.execute("INSERT INTO notes VALUES ('Zebra')").rowcount)
    reader = sqlite3.connect(path)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM notes").fetchall()
    erased = await sql.erase(file, "erase", lambda each: each.execute("DELETE FROM notes").rowcount)
    assert erased == Success(1)
    assert "has what was deleted until it is closed" in caplog.text
    reader.close()
    await sql.erase(file, "erase", lambda each: each.execute("DELETE FROM notes").rowcount)
    assert [bytes_of(each).count(b"Zebra") for each in (path, tmp_path / "notes.db-wal")] == [0, 0]
    await file.aclose()


def add_bear(file: Transaction) -> int:
    return file.execute("INSERT INTO notes VALUES ('Bear')").rowcount


def unreadable(note: str) -> str:
    raise ValueError(f"{note} cannot be read")


async def test_a_row_that_cannot_be_read_leaves_no_old_view_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    file = SqliteFile(path, NOTES, MemoryUnavailable, patience_s=0.0)
    await file.write(
        "note", lambda each: each.executemany("INSERT INTO notes VALUES (?)", [("Zebra",)] * 3).rowcount
    )
    gc.disable()
    try:
        refused = await rows(file, "read", unreadable, "SELECT * FROM notes")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("INSERT INTO notes VALUES ('Lion')")
        counted = await rows(file, "count", int, "SELECT count(*) FROM notes")
        added = await file.write(
            "note", lambda each: each.execute("INSERT INTO notes VALUES ('Bear')").rowcount
        )
    finally:
        gc.enable()
    assert "Zebra cannot be read" in refused.failure().message
    assert counted == Success((4,))
    assert added == Success(1)
    assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    other.close()
    await file.aclose()


async def test_a_stored_value_of_a_wrong_type_is_a_failure(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    await file.write("note", lambda each: each.execute("INSERT INTO notes VALUES ('yesterday')").rowcount)
    refused = await rows(file, "read", moment_of, "SELECT note FROM notes")
    assert isinstance(refused.failure(), MemoryUnavailable)
    await file.aclose()


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def test_what_is_refused_says_what_was_found_and_expected(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    table_of_another_program(path)
    connection = sqlite3.connect(path)
    with pytest.raises(UnusableFile) as raised:
        migrate(connection, NOTES)
    connection.close()
    assert str(raised.value) == (
        "found the database of another program (accounts),"
        " expected an empty file or one that reactive_agents made"
    )


def test_a_version_that_fails_half_way_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    broken = Store("notes", (*NOTES.versions, ("CREATE TABLE more (id)", "CREATE TABLE more (id)")))
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, NOTES)
    with pytest.raises(sqlite3.OperationalError, match="more"):
        migrate(connection, broken)
    assert version_of(connection, broken) == 1
    connection.close()
    assert "more" not in tables_of(path)


def test_a_file_that_another_process_is_just_making_is_not_foreign(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"

    def make_it(statement: str) -> None:
        if "user_version" in statement:  # after the application id was read
            other = sqlite3.connect(path, isolation_level=None, timeout=0)
            with suppress(sqlite3.OperationalError):  # it is locked where the reader has one view of the file
                migrate(other, NOTES)
            other.close()

    connection = sqlite3.connect(path, isolation_level=None)
    connection.set_trace_callback(make_it)
    assert version_of(connection, NOTES) == 0
    connection.close()


@pytest.mark.system
def test_a_file_that_stays_locked_holds_up_one_operation_and_not_each(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    waits: list[float] = []

    async def main() -> None:
        file = SqliteFile(path, NOTES, MemoryUnavailable, patience_s=0.1)
        other = SqliteFile(path, NOTES, MemoryUnavailable, patience_s=0.1)
        await file.write("note", lambda each: each.execute("INSERT INTO notes VALUES ('a')").rowcount)
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        for each in (file, file, other, file):
            started = anyio.current_time()
            written = await each.write("note", lambda each: each.execute("DELETE FROM notes").rowcount)
            waits.append(round((anyio.current_time() - started) / 0.1))
            assert isinstance(written, Failure)
        holder.execute("ROLLBACK")
        assert isinstance(await file.write("note", lambda each: None), Success)
        holder.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            started = anyio.current_time()
            await file.write("note", lambda each: None)
            waits.append(round((anyio.current_time() - started) / 0.1))
        holder.execute("ROLLBACK")
        assert isinstance(await file.write_soon("note", lambda each: None), Success)
        holder.execute("BEGIN IMMEDIATE")
        started = anyio.current_time()
        await file.write("note", lambda each: None)
        waits.append(round((anyio.current_time() - started) / 0.1))
        holder.close()
        await file.aclose()
        await other.aclose()

    # on a clock that leaps from deadline to deadline
    clock = trio.testing.MockClock(autojump_threshold=0)
    anyio.run(main, backend="trio", backend_options={"clock": clock})
    assert waits == [1, 0, 0, 0, 1, 0, 1]  # in whole patiences


def test_a_path_may_begin_with_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    async def main() -> None:
        for traced in (False, True):
            file = SqliteFile("~/data/notes.db", NOTES, MemoryUnavailable, traced=traced)
            await file.write("note", lambda each: each.execute("INSERT INTO notes VALUES ('a')").rowcount)
            await file.aclose()

    anyio.run(main)
    assert not list((tmp_path / "here").iterdir())
    assert {each.name for each in (tmp_path / "home" / "data").iterdir()} == {"notes.db", "notes.db-notes"}
    count = look_into("~/data/notes.db", NOTES, lambda each: each.execute("SELECT * FROM notes").fetchall())
    assert count == Success([("a",), ("a",)])


async def test_what_a_file_is_asked_for_is_done_one_after_the_other_in_threads_that_files_share(
    tmp_path: Path,
) -> None:
    files = [SqliteFile(tmp_path / f"{name}.db", NOTES, MemoryUnavailable) for name in "ab"]
    under_way: dict[int, int] = {}
    done: list[tuple[int, int]] = []
    threads: set[int] = set()

    async def note(file: int, number: int) -> None:
        def work(connection: sqlite3.Connection) -> None:
            assert under_way.setdefault(file, number) == number
            threads.add(threading.get_ident())
            connection.execute("INSERT INTO notes VALUES (?)", (str(number),))
            done.append((file, number))
            del under_way[file]

        assert await files[file].write("note", work) == Success(None)

    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(note, number % 2, number)
    assert [number for file, number in done if file == 0] == [*range(0, 40, 2)]
    assert len(threads) <= 3
    for file in files:
        await file.aclose()


async def test_what_has_begun_in_a_file_is_done_although_its_task_is_cancelled(tmp_path: Path) -> None:
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    begun, may_end = threading.Event(), threading.Event()

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO notes VALUES ('a')")
        begun.set()
        may_end.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(file.write, "note", work)
        await until(begun.is_set)
        group.cancel_scope.cancel()
        may_end.set()
    assert await sql.rows(file, "notes", str, "SELECT note FROM notes") == Success(("a",))
    await file.aclose()


async def test_a_file_is_used_where_the_system_gives_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_THREADS", sqlite._Threads())
    file = SqliteFile(tmp_path / "notes.db", NOTES, MemoryUnavailable)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_thread)
        assert await file.write(
            "note", lambda each: each.execute("INSERT INTO notes VALUES ('a')").rowcount
        ) == Success(1)
    assert await file.write(
        "note", lambda each: each.execute("INSERT INTO notes VALUES ('b')").rowcount
    ) == Success(1)
    await file.aclose()


# --- files that agents share ------------------------------------------------------------------------------


def open_below(folder: Path) -> list[str]:
    """The files below a folder that this process has open."""
    found: list[str] = []
    for each in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.append(os.readlink(f"/proc/self/fd/{each}"))
    return sorted(name.removeprefix(f"{folder}/") for name in found if name.startswith(f"{folder}/"))


needs_proc = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts open files")


@needs_proc
def test_agents_that_are_built_for_each_request_and_not_closed_open_each_file_once(tmp_path: Path) -> None:
    agents: list[object] = []

    def serve(number: int) -> None:
        builder = ReactiveAgents.create().with_llm(ScriptedLLM(say("Hi.")))
        builder = builder.with_memory(tmp_path / "memory.db").with_sessions(tmp_path / "sessions.db")
        builder = builder.with_durability(tmp_path / "runs.db").with_cost(tmp_path / "cost.db")
        agent = builder.build()
        agents.append(agent)
        anyio.run(partial(agent.run, "Say hi.", session=f"s{number}"))

    serve(0)
    once = open_below(tmp_path)
    assert {"memory.db", "sessions.db", "runs.db", "cost.db"} <= {*once}
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(serve, range(1, 13)))
    assert open_below(tmp_path) == once
    agents.clear()
    without_leases = {"memory.db", "cost.db"}  # the others are open until the next renewal
    until_blocking(lambda: gc.collect() >= 0 and without_leases.isdisjoint(open_below(tmp_path)))


@needs_proc
async def test_a_shared_file_that_one_closes_is_opened_again_by_the_others(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    file, other = (sqlite.shared_file(path, NOTES, MemoryUnavailable) for _ in range(2))
    add_note = "INSERT INTO notes VALUES ('a')"
    for each in (file, other):
        assert await each.write("note", lambda to: to.execute(add_note).rowcount) == Success(1)
    assert open_below(tmp_path).count("notes.db") == 1
    await file.aclose()
    assert open_below(tmp_path) == []
    assert await other.write("note", lambda to: to.execute(add_note).rowcount) == Success(1)
    assert await sql.rows(other, "notes", str, "SELECT note FROM notes") == Success(("a",) * 3)
    await other.aclose()


def test_only_what_is_opened_alike_is_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes.db"
    file = sqlite.shared_file(path, NOTES, MemoryUnavailable)
    monkeypatch.chdir(tmp_path)
    assert sqlite.shared_file("notes.db", NOTES, MemoryUnavailable) is file
    assert sqlite.shared_file(path, NOTES, MemoryUnavailable, read_only=True) is not file
    assert sqlite.shared_file(path, MEMORY, MemoryUnavailable) is not file
    assert sqlite.shared_file(tmp_path / "other.db", NOTES, MemoryUnavailable) is not file
    in_process = [sqlite.shared_file(sqlite.IN_PROCESS, NOTES, MemoryUnavailable) for _ in range(2)]
    assert in_process[0] is not in_process[1]


FORKED = """
import os, sys, threading
import anyio
from reactive_agents.adapters.sqlite import Store, shared_file
from reactive_agents.core.errors import MemoryUnavailable

NOTES = Store("notes", (("CREATE TABLE notes (note TEXT)",),))
before = shared_file(sys.argv[1], NOTES, MemoryUnavailable)

def note(file, times):
    async def main():
        for _ in range(times):
            done = await file.write("note", lambda to: to.execute("INSERT INTO notes VALUES ('a')").rowcount)
            done.unwrap()
    anyio.run(main)

note(before, 1)
threads = [threading.Thread(target=note, args=(before, 20)) for _ in range(3)]
for each in threads:
    each.start()
children = []
for _ in range(3):
    child = os.fork()
    if not child:
        connection = before._connection
        note(shared_file(sys.argv[1], NOTES, MemoryUnavailable), 10)
        note(before, 10)
        os._exit(0 if connection is None else 9)
    children.append(child)
for each in threads:
    each.join()
for child in children:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
note(before, 1)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_does_not_use_the_connection_that_threads_of_its_parent_share(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    subprocess.run([sys.executable, "-c", FORKED, str(path)], check=True)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM notes").fetchone() == (1 + 3 * 20 + 3 * 20 + 1,)
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_threads_that_wait_for_a_while_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "_IDLE_S", 0.01)
    threads, ran = sqlite._Threads(), list[threading.Thread]()
    for _ in range(3):
        threads.start(lambda: ran.append(threading.current_thread()))
        until_blocking(lambda: ran)
        ran.pop().join()
    assert threads._idle == 0


AFTER_MAIN = """
import sys, threading
from reactive_agents import ReactiveAgents
from reactive_agents.testing import ScriptedLLM, answer

agent = ReactiveAgents.create().with_llm(ScriptedLLM(*[answer("Hello there.")] * 2)).with_reasoning()
durable = agent.with_durability(sys.argv[1]).build()

def work():
    threading.main_thread().join()
    print(durable.run_sync("Greet me.", run_id="r1").output)

threading.Thread(target=work).start()
"""


def test_a_thread_uses_a_file_after_the_main_thread_has_ended(tmp_path: Path) -> None:
    program = [sys.executable, "-c", AFTER_MAIN, str(tmp_path / "runs.db")]
    ended = subprocess.run(program, capture_output=True, text=True, check=False)
    if sys.version_info[:2] == (3, 12):  # which starts no thread then, so that no lease could be renewed
        assert "can't create new thread" in ended.stderr
    else:
        assert (ended.returncode, ended.stdout) == (0, "Hello there.\n"), ended.stderr


def test_a_file_that_cannot_be_opened_on_a_full_disk_is_not_said_to_be_broken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failed = sqlite3.OperationalError("disk I/O error")  # as its shared memory cannot grow
    failed.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    (tmp_path / "notes.db").touch()
    said = []
    for free in (100, 0):
        with_free_blocks(monkeypatch, tmp_path, free)
        said.append(sqlite.sentence_of(failed, tmp_path / "notes.db", NOTES).rpartition("' ")[2])
    assert said == ["cannot be read or written by the system.", "cannot grow: the disk is full."]


def with_free_blocks(monkeypatch: pytest.MonkeyPatch, folder: Path, free: int) -> None:
    found = [*os.statvfs(folder)]
    found[4] = free
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(found))


def test_what_is_missing_or_may_not_be_read_is_said_to_be_on_a_full_disk_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with_free_blocks(monkeypatch, tmp_path, 0)
    (tmp_path / "a file").touch()
    folder = str(tmp_path / "no folder")
    said = {}
    for name in ("notes.db", "no folder/notes.db", "a file/notes.db"):
        looked = sqlite.look_into(tmp_path / name, NOTES, lambda _: None)
        said[name] = looked.failure().removeprefix(f"The notes file {str(tmp_path / name)!r} ")
    (tmp_path / "notes.db").touch()
    failed = sqlite3.OperationalError("unable to open database file")
    failed.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    monkeypatch.setattr(os, "access", lambda *_: False)
    denied = sqlite.sentence_of(failed, tmp_path / "notes.db", NOTES)
    assert said == {
        "notes.db": "cannot be opened: it does not exist.",
        "no folder/notes.db": f"cannot be opened: its folder {folder!r} does not exist.",
        "a file/notes.db": "cannot be opened: Not a directory.",
    }
    assert denied.endswith("may not be accessed.")


def test_a_log_whose_index_is_missing_is_said_to_need_someone_who_may_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("notes.db", "notes.db-wal"):
        (tmp_path / name).touch()
    failed = sqlite3.OperationalError("unable to open database file")
    failed.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    monkeypatch.setattr(os, "access", lambda _, kind: kind == os.R_OK)
    told = sqlite.sentence_of(failed, tmp_path / "notes.db", NOTES)
    assert told.endswith("has to be opened once by someone who may write to it.")


async def test_a_log_that_vanishes_while_a_file_is_opened_does_not_make_it_immutable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, looks, opened = tmp_path / "notes.db", iter([False, True]), list[str]()
    connect = sqlite3.connect
    with closing(connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        migrate(connection, NOTES)

    def connected(place: str, **options: Any) -> Any:
        opened.append(place.partition("?")[2])
        return connect(place, **options)

    monkeypatch.setattr(sqlite, "_is_still", lambda _: next(looks))
    monkeypatch.setattr(sqlite3, "connect", connected)
    file = SqliteFile(path, NOTES, MemoryUnavailable, read_only=True)
    assert await file.read("read", lambda notes: notes.execute("SELECT note FROM notes").fetchall()) == (
        Success([])
    )
    assert opened == ["mode=ro"]


@pytest.mark.parametrize("is_in_log", [False, True])
def test_on_a_full_disk_a_file_is_read_without_a_log_unless_it_has_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_in_log: bool
) -> None:
    path, opened, connect = tmp_path / "notes.db", list[str](), sqlite3.connect

    def connected(place: str, **options: Any) -> Any:
        opened.append(place.partition("?")[2])
        return connect(place, **options)

    with closing(connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        migrate(writer, NOTES)
        if not is_in_log:
            writer.close()
            Path(f"{path}-wal").touch()  # as a writer leaves it that found no room
        with_free_blocks(monkeypatch, tmp_path, 1)
        monkeypatch.setattr(sqlite3, "connect", connected)
        looked = look_into(path, NOTES, lambda notes: notes.execute("SELECT note FROM notes").fetchall())
    assert (looked, opened) == (Success([]), ["mode=ro" if is_in_log else "mode=ro&immutable=1"])


CUT_OFF = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE notes SET note = 'half' || note")
os._exit(0)
"""


def test_a_write_that_was_cut_off_is_not_read_where_nobody_may_undo_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "notes.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, NOTES)
        connection.executemany("INSERT INTO notes VALUES (?)", [("x" * 1_000,)] * 1_000)
    monkeypatch.setattr(os, "access", lambda *_: False)

    def found() -> Any:
        return sqlite.look_into(path, NOTES, lambda notes: notes.execute("SELECT note FROM notes").fetchall())

    assert found() == Success([("x" * 1_000,)] * 1_000)
    subprocess.run([sys.executable, "-c", CUT_OFF, path], check=True)
    assert Path(f"{path}-journal").exists()
    told = "has a write that was cut off, and has to be opened once by someone who may write to it."
    assert found() == Failure(f"The notes file {str(path)!r} {told}")


AS_READER = """
import os, sys, anyio
from reactive_agents.adapters.governance.audit_log import verify
from reactive_agents.adapters.sqlite import SqliteFile
from tests.adapters.test_sqlite import NOTES, MemoryUnavailable
async def main():
    for folder in sys.argv[1:]:  # of the first one, to import what reading needs
        file = SqliteFile(f"{folder}/notes.db", NOTES, MemoryUnavailable, read_only=True)
        for _ in range(2):
            print(await file.read("read", lambda notes: notes.execute("SELECT note FROM notes").fetchall()))
            print(verify(f"{folder}/audit.db"), flush=True)
            sys.stdin.readline()
        if os.getuid() == 0:
            os.setuid(65534)
anyio.run(main)
"""


def test_who_may_only_read_a_file_and_its_folder_reads_it_as_it_is_then() -> None:
    def note(folder: Path, text: str) -> None:
        folder.chmod(0o700)
        with closing(sqlite3.connect(folder / "notes.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            migrate(connection, NOTES)
            connection.execute("INSERT INTO notes VALUES (?)", (text,))
        anyio.run(append_entry, folder / "audit.db")
        for each in folder.iterdir():
            each.chmod(0o644)
        folder.chmod(0o555)

    with tempfile.TemporaryDirectory() as own, tempfile.TemporaryDirectory() as others:
        note(Path(own), "first")
        note(Path(others), "first")
        command = [sys.executable, "-c", AS_READER, own, others]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, **pipes, cwd=Path(__file__).parents[2]) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write("\n\n")
                process.stdin.flush()
                before = [process.stdout.readline() for _ in range(6)][4:]
                note(Path(others), "second")
                process.stdin.write("\n\n")
                process.stdin.close()
                after = process.stdout.readlines()
            finally:
                process.kill()
                for each in (own, others):
                    Path(each).chmod(0o700)
    assert [line.partition(", head")[0].strip() for line in (*before, *after)] == [
        "<Success: [('first',)]>",
        "<Success: AuditSummary(entries=1",
        "<Success: [('first',), ('second',)]>",
        "<Success: AuditSummary(entries=2",
    ]
