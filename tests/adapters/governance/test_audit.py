"""The audit log: entries stay, in one chain, on the disk; and whoever tampers with it is found out."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents.adapters import sql, sqlite
from reactive_agents.adapters.governance import audit_log
from reactive_agents.adapters.governance.audit_log import (
    AuditHead,
    AuditSummary,
    SqliteAuditLog,
    kept_head,
    public_key_of,
    read_entries,
    verify,
)
from reactive_agents.adapters.system import EnvironmentRedactor
from reactive_agents.core.errors import AuditBroken, ServiceFailed
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.effects import attempt
from reactive_agents.ports import AuditLog
from reactive_agents.testing.core import START, FakeClock
from tests.support.sqlite_files import counted_work

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[3]
ENTRY = AuditEntry(RunId("r1"), TaskId("t1"), AgentId("a1"), "run", "completed", "It went.", START)
KEY = bytes(range(32))


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.db"


@pytest.fixture
async def log(path: Path) -> AsyncIterator[SqliteAuditLog]:
    made = SqliteAuditLog(path, clock=FakeClock())
    yield made
    await made.aclose()


async def fill(log: SqliteAuditLog, count: int = 5) -> None:
    for number in range(1, count + 1):
        assert await attempt(log.append(evolve(ENTRY, run_id=RunId(f"r{number}")))) == Success(None)
    await log.aclose()


def tamper(path: Path, *statements: str) -> None:
    """Tamper as someone who can write the file: drop the triggers, then anything."""
    connection = sqlite3.connect(path, isolation_level=None)
    names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for (name,) in names:
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def broken(path: Path) -> tuple[int, str]:
    error = verify(path).failure()
    assert isinstance(error, AuditBroken)
    return error.sequence, error.problem


@ON_BOTH
async def test_entries_come_back_in_their_order(log: SqliteAuditLog) -> None:
    port: AuditLog = log
    await attempt(port.append(ENTRY))
    await attempt(port.append(evolve(ENTRY, status="failed", detail="Ünd \ud800 'so' weiter.")))
    first, second = (await attempt(log.read())).unwrap()
    assert (first.sequence, first.entry, first.recorded_at) == (1, ENTRY, START.isoformat())
    assert (second.sequence, second.entry.detail) == (2, "Ünd \ud800 'so' weiter.")
    assert await attempt(log.read(after=1)) == Success((second,))
    assert await attempt(log.read(limit=1)) == Success((first,))


@pytest.mark.parametrize("durable_starts", [True, False])
async def test_a_start_that_need_not_outlive_a_loss_of_power_waits_for_no_disk(
    path: Path, durable_starts: bool
) -> None:
    log = SqliteAuditLog(path, clock=FakeClock(), durable_starts=durable_starts)
    begin = evolve(ENTRY, action="start", status=None)
    assert await attempt(log.append(begin)) == Success(None)
    assert (kept_head(path) is not None) == durable_starts  # the file beside it is written with the next one
    level = "SELECT synchronous FROM pragma_synchronous"
    assert await sql.rows(log._file, "look", int, level) == Success(
        (2 if durable_starts else 1,)
    )  # FULL or NORMAL
    assert await attempt(log.append(ENTRY)) == Success(None)
    assert await sql.rows(log._file, "look", int, level) == Success((2,))
    await log.aclose()
    assert verify(path).unwrap().entries == 2
    assert kept_head(path) == verify(path).unwrap().head


async def test_a_whole_log_has_a_summary(path: Path, log: SqliteAuditLog) -> None:
    await fill(log, 4)
    head = (await attempt(log.append_with_head(ENTRY))).unwrap()
    assert head.sequence == 5
    assert verify(path) == Success(AuditSummary(5, head, signed=False))  # also while others have it open
    assert verify(path, head=head) == Success(AuditSummary(5, head, signed=False))
    await fill(log, 1)
    assert verify(path, head=head).unwrap().entries == 6


async def test_ordinary_statements_change_nothing(path: Path, log: SqliteAuditLog) -> None:
    await fill(log)
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "UPDATE entries SET body = '{}'",
        "DELETE FROM entries WHERE sequence = 5",
        "INSERT OR REPLACE INTO entries SELECT 3, previous, '{}', hash, NULL FROM entries WHERE sequence = 3",
        "INSERT INTO entries SELECT 9, hash, '{}', hash, NULL FROM entries WHERE sequence = 5",
        "INSERT INTO entries SELECT 6, previous, '{}', hash, NULL FROM entries WHERE sequence = 5",
        "UPDATE heads SET sequence = 4",
        "DELETE FROM heads",
        "INSERT OR REPLACE INTO heads VALUES (1, 1, 'x', NULL)",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="only grows"):
            connection.execute(statement)
    connection.close()
    assert verify(path).unwrap().entries == 5


FOLLOWS = "it does not follow from the entry before it"
HASH, MISSING = "its hash does not fit its content", "it is missing"
COPY = "INSERT INTO entries SELECT {}, hash, body, hash, NULL FROM entries WHERE sequence = 5"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE entries SET body = replace(body, 'r3', 'r9') WHERE sequence = 3", (3, HASH)),
        ("UPDATE entries SET body = CAST(body AS BLOB) WHERE sequence = 3", (3, HASH)),
        ("UPDATE entries SET body = x'ff' WHERE sequence = 3", (3, HASH)),
        ("UPDATE entries SET body = CAST(x'ff' AS TEXT) WHERE sequence = 3", (3, HASH)),
        ("UPDATE entries SET hash = 'x' WHERE sequence = 3", (3, HASH)),
        ("UPDATE entries SET signature = 'x' WHERE sequence = 3", (3, HASH)),
        ("UPDATE entries SET previous = 'x' WHERE sequence = 3", (3, FOLLOWS)),
        ("DELETE FROM entries WHERE sequence = 1", (1, MISSING)),
        ("DELETE FROM entries WHERE sequence = 3", (3, MISSING)),
        ("UPDATE entries SET sequence = 9 WHERE sequence = 5", (5, MISSING)),
        ("DELETE FROM entries WHERE sequence > 3", (4, f"{MISSING}, and the log ends with entry 5")),
        ("DELETE FROM entries", (1, f"{MISSING}, and the log ends with entry 5")),
        (COPY.format(6), (6, HASH)),
        (COPY.format(0), (1, MISSING)),
        ("DELETE FROM heads", (5, "the head of the log is missing")),
        ("UPDATE heads SET hash = 'x'", (5, "the head of the log is another one")),
        ("UPDATE heads SET sequence = 4", (5, "the head of the log is another one")),
        ("DROP TABLE heads", (1, "a table of the log is missing")),
    ],
)
async def test_the_first_entry_that_was_tampered_with_is_named(
    path: Path, log: SqliteAuditLog, statement: str, found: tuple[int, str]
) -> None:
    await fill(log)
    tamper(path, statement)
    assert broken(path) == found


async def test_entries_that_change_places_are_found(path: Path, log: SqliteAuditLog) -> None:
    await fill(log)
    swap = "UPDATE entries SET sequence = {} WHERE sequence = {}"
    tamper(path, swap.format(9, 2), swap.format(2, 3), swap.format(3, 9))
    assert broken(path) == (2, FOLLOWS)


async def test_a_stored_head_reveals_a_recomputed_chain(path: Path, log: SqliteAuditLog) -> None:
    await fill(log, 2)
    head = (await attempt(log.append_with_head(ENTRY))).unwrap()
    await log.aclose()
    await delete(path)
    await fill(log, 2)
    missing = AuditBroken(3, "it is missing, and the log had a head at entry 3")
    assert verify(path, head=head) == Failure(missing)
    await attempt(log.append(evolve(ENTRY, detail="It went otherwise.")))
    assert verify(path).unwrap().entries == 3
    assert verify(path, head=head) == Failure(AuditBroken(3, "it is not the entry of the known head"))


async def test_nothing_is_added_to_a_log_whose_end_was_cut(path: Path, log: SqliteAuditLog) -> None:
    await fill(log)
    tamper(path, "DELETE FROM entries WHERE sequence = 5")
    failed = (await attempt(log.append(ENTRY))).failure()
    assert "its head is not its last entry" in failed.message


async def delete(path: Path) -> None:
    """Delete the log with the head that is kept beside it."""
    await anyio.Path(path).unlink()
    await anyio.Path(f"{path}-head").unlink()


async def test_a_log_that_was_deleted_replaced_or_cut_is_noticed(
    path: Path, log: SqliteAuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(log, 2)
    older = await anyio.Path(path).read_bytes()
    await fill(log, 2)
    await anyio.Path(path).write_bytes(older)
    assert broken(path) == (3, "it is missing, and the log had a head at entry 4")
    failed = (await attempt(log.append(ENTRY))).failure()
    assert "entry 4 of the head that is kept beside it is missing" in failed.message
    assert "the log was deleted, replaced or cut" in caplog.text
    await log.aclose()
    await anyio.Path(path).unlink()
    assert broken(path) == (1, "it is missing: the log of 4 entries was deleted")
    assert "ends with entry 0" in (await attempt(log.append(ENTRY))).failure().message
    await log.aclose()
    await delete(path)
    await fill(log, 1)
    assert verify(path).unwrap().entries == 1, "who deletes both begins anew"


async def test_a_head_that_cannot_be_kept_or_read_is_a_failure(path: Path, log: SqliteAuditLog) -> None:
    await fill(log, 1)
    head = anyio.Path(f"{path}-head")
    await head.write_text("nonsense")
    assert "holds no head" in (await attempt(log.append(ENTRY))).failure().message
    assert "holds no head" in verify(path).failure().message
    await head.unlink()
    await head.mkdir()
    assert isinstance(await attempt(log.append(ENTRY)), Failure)


async def test_secrets_do_not_reach_the_log(path: Path) -> None:
    log = SqliteAuditLog(
        path, clock=FakeClock(), redactor=EnvironmentRedactor(environment={"A_KEY": "hush-hush"})
    )
    await attempt(log.append(evolve(ENTRY, action="hush-hush", detail='It said "hush-hush".')))
    (recorded,) = (await attempt(log.read())).unwrap()
    assert recorded.entry.action == "[redacted:environment]"
    assert recorded.entry.detail == 'It said "[redacted:environment]".'
    await log.aclose()
    assert verify(path).unwrap().entries == 1
    assert b"hush-hush" not in await anyio.Path(path).read_bytes()


# --- signatures -----------------------------------------------------------------------------------------


def signed(path: Path) -> SqliteAuditLog:
    return SqliteAuditLog(path, clock=FakeClock(), signing_key=KEY)


async def test_a_signed_log_is_checked_by_the_public_key(path: Path, log: SqliteAuditLog) -> None:
    public = public_key_of(KEY).unwrap()
    await fill(log, 2)  # signing begins later, and the head vouches for what was before
    assert verify(path, public_key=public) == Failure(
        AuditBroken(2, "the signature of the head does not fit")
    )
    await fill(signed(path), 3)
    summary = verify(path, public_key=public).unwrap()
    assert (summary.entries, summary.signed) == (5, True)
    other = public_key_of(bytes(32)).unwrap()
    assert verify(path, public_key=other) == Failure(AuditBroken(3, "its signature does not fit"))


async def test_a_signed_log_is_not_continued_without_the_key(path: Path, log: SqliteAuditLog) -> None:
    await fill(signed(path), 1)
    failed = (await attempt(log.append(ENTRY))).failure()
    assert "there is no signing key" in failed.message


SIGNATURE, HEAD_SIGNATURE = "its signature does not fit", "the signature of the head does not fit"
FROM_ENTRY = "(SELECT signature FROM entries WHERE sequence = 3)"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("UPDATE entries SET signature = NULL WHERE sequence = 2", (2, HASH)),
        ("UPDATE entries SET signature = upper(signature) WHERE sequence = 2", (2, SIGNATURE)),
        ("UPDATE entries SET signature = signature || ' ' WHERE sequence = 2", (2, SIGNATURE)),
        ("UPDATE heads SET signature = NULL", (3, HEAD_SIGNATURE)),
        (f"UPDATE heads SET signature = {FROM_ENTRY}", (3, HEAD_SIGNATURE)),
    ],
)
async def test_signatures_are_not_taken_off(path: Path, statement: str, found: tuple[int, str]) -> None:
    await fill(signed(path), 3)
    tamper(path, statement)
    public = public_key_of(KEY).unwrap()
    assert verify(path, public_key=public) == Failure(AuditBroken(*found))


async def test_a_signature_shows_a_tail_that_was_cut_with_the_head(path: Path) -> None:
    await fill(signed(path), 3)
    tamper(
        path,
        "DELETE FROM entries WHERE sequence = 3",
        "UPDATE heads SET sequence = 2, (hash, signature) ="
        " (SELECT hash, signature FROM entries WHERE sequence = 2)",
    )
    assert broken(path) == (3, "it is missing, and the log had a head at entry 3")
    await anyio.Path(f"{path}-head").unlink()
    assert verify(path).unwrap().entries == 2
    public = public_key_of(KEY).unwrap()
    assert verify(path, public_key=public) == Failure(
        AuditBroken(2, "the signature of the head does not fit")
    )


async def test_a_key_that_is_none_is_a_failure(path: Path) -> None:
    log = SqliteAuditLog(path, clock=FakeClock(), signing_key=b"short")
    failed = (await attempt(log.append(ENTRY))).failure()
    assert failed == ServiceFailed("The signing key is not an Ed25519 key of 32 bytes.", "audit", "sign")
    assert "not an Ed25519 key" in public_key_of(b"short").failure().message
    assert "public key is not an Ed25519 key" in verify(path, public_key=b"short").failure().message


def test_without_the_extra_its_name_is_told() -> None:
    script = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from reactive_agents.adapters.governance.audit_log import *\n"
        "for made in (signer, signature_check, public_key_of): print(made(bytes(32)).failure().message)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    sentence = "Signatures need the package 'cryptography': pip install 'reactive-agents[sign]'."
    assert done.stdout.splitlines() == [sentence] * 3


# --- several writers, crashes and broken files ----------------------------------------------------------


async def test_writers_of_several_connections_make_one_chain(path: Path) -> None:
    logs = [SqliteAuditLog(path, clock=FakeClock()) for _ in range(4)]

    async def write(number: int) -> None:
        for index in range(8):
            entry = evolve(ENTRY, run_id=RunId(f"{number}-{index}"))
            assert await attempt(logs[number].append(entry)) == Success(None)

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(write, number)
    recorded = (await attempt(logs[0].read())).unwrap()
    assert [each.sequence for each in recorded] == list(range(1, 33))
    for number in range(4):
        own = [each.entry.run_id for each in recorded if each.entry.run_id.startswith(f"{number}-")]
        assert own == [f"{number}-{index}" for index in range(8)]
    assert verify(path).unwrap().entries == 32
    for log in logs:
        await log.aclose()


async def test_a_cancelled_append_leaves_a_whole_log(path: Path, log: SqliteAuditLog) -> None:
    for seconds in (0.0, 0.001, 0.003):
        with anyio.move_on_after(seconds):
            while True:
                await attempt(log.append(ENTRY))
    entries = len((await attempt(log.read(limit=1_000))).unwrap())
    assert verify(path) == Success(AuditSummary(entries, verify(path).unwrap().head, signed=False))


def read_only(path: Path) -> None:
    """Say in the header of the file that a newer SQLite wrote it, which others may only read."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.close()
    data = bytearray(path.read_bytes())
    data[18] = 9
    path.write_bytes(data)


def overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:] = b"\xff" * (len(data) - 100)
    path.write_bytes(data)


def no_database(path: Path) -> None:
    path.write_bytes(b"This is a letter, and no database. " * 200)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [(read_only, "is read-only"), (overwritten, "is damaged"), (no_database, "is not a database")],
)
async def test_a_file_that_does_not_serve_is_a_failure(
    path: Path, log: SqliteAuditLog, spoil: Callable[[Path], None], said: str
) -> None:
    await fill(log)
    spoil(path)
    failed = (await attempt(log.append(ENTRY))).failure()
    assert (failed.service, failed.operation) == ("audit", "append")
    assert said in failed.message
    assert str(path) in failed.message
    if spoil is not read_only:
        assert isinstance(verify(path).failure(), ServiceFailed)


async def test_a_locked_file_is_a_failure_in_the_end(path: Path) -> None:
    log = SqliteAuditLog(path, clock=FakeClock(), patience_s=0.05)
    await fill(log, 1)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    failed = (await attempt(log.append(ENTRY))).failure()
    assert "is locked by another process" in failed.message
    assert verify(path).unwrap().entries == 1  # readers need not wait
    holder.execute("ROLLBACK")
    holder.close()
    await fill(log, 1)
    assert verify(path).unwrap().entries == 2


FILLING = """
import resource, sys, anyio
from datetime import UTC, datetime
from reactive_agents.adapters.governance.audit_log import SqliteAuditLog
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.governance import AuditEntry
from reactive_agents.effects import attempt
from returns.result import Failure

async def main():
    log = SqliteAuditLog(sys.argv[1], clock=SystemClock())
    resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))
    for number in range(1_000):
        entry = AuditEntry("r", "t", "a", "run", "completed", "x" * 5_000, datetime.now(UTC))
        appended = await attempt(log.append(entry))
        if isinstance(appended, Failure):
            print(number, appended.failure().message)
            break
    await log.aclose()

anyio.run(main)
"""


def test_a_disk_without_room_is_a_failure(path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    command = [sys.executable, "-c", FILLING, str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    number, _, message = done.stdout.partition(" ")
    assert message.startswith(f"The audit file {str(path)!r} cannot be")
    assert verify(path).unwrap().entries == int(number)


def test_a_log_that_is_not_there_is_a_failure(path: Path) -> None:
    failed = verify(path).failure()
    assert isinstance(failed, ServiceFailed)
    assert (failed.operation, "cannot be opened" in failed.message) == ("verify", True)
    assert not path.exists()
    assert isinstance(verify("a\0b").failure(), ServiceFailed)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def another_database(path: Path) -> None:
    path.unlink()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE spending_runs (run_id TEXT)")
    connection.close()


@pytest.mark.parametrize(
    ("replace", "said"),
    [
        (emptied, "is not an audit log"),
        (another_database, "found the database of another program (spending_runs)"),
    ],
)
async def test_what_took_the_place_of_a_log_is_no_log(
    path: Path, replace: Callable[[Path], None], said: str
) -> None:
    await fill(signed(path), 3)
    replace(path)
    public = public_key_of(KEY).unwrap()
    for verified in (verify(path), verify(path, public_key=public), verify(path, head=AuditHead(1, "x"))):
        failed = verified.failure()
        assert isinstance(failed, ServiceFailed)
        assert said in failed.message
        assert str(path) in failed.message


async def test_a_log_that_nobody_wrote_to_is_whole_unless_something_vouches_for_it(
    path: Path, log: SqliteAuditLog
) -> None:
    assert await attempt(log.read()) == Success(())
    assert verify(path) == Success(AuditSummary(0, None, signed=False))
    assert isinstance(verify(path, head=AuditHead(1, "x")).failure(), AuditBroken)
    assert verify(path, public_key=public_key_of(KEY).unwrap()) == Failure(
        AuditBroken(1, "it is missing, and so is the signed head of the log")
    )


# --- pruning --------------------------------------------------------------------------------------------


def days_old(days: float) -> datetime:
    """A time so many days before the start of the clock."""
    return START - timedelta(days=days)


async def dated(path: Path, *days: float, signing_key: bytes | None = None) -> SqliteAuditLog:
    """A log with an entry of each of the given ages, oldest first."""
    for age in days:
        log = SqliteAuditLog(path, clock=FakeClock(days_old(age)), signing_key=signing_key)
        assert await attempt(log.append(evolve(ENTRY, run_id=RunId(f"r{age:g}")))) == Success(None)
        await log.aclose()
    return SqliteAuditLog(path, clock=FakeClock(), signing_key=signing_key)


async def runs_of(log: SqliteAuditLog) -> list[str]:
    return [each.entry.run_id or each.entry.action for each in (await attempt(log.read())).unwrap()]


async def test_a_pruned_log_keeps_its_chain(path: Path) -> None:
    log = await dated(path, 40, 35, 31, 29, 1)
    old = verify(path).unwrap().head
    assert await attempt(log.prune(days_old(30))) == Success(3)
    assert await runs_of(log) == ["r29", "r1", "prune"]
    summary = verify(path).unwrap()
    assert (summary.entries, summary.pruned) == (3, 3)
    assert verify(path, head=old).unwrap() == summary, "a head that is still there"
    assert await attempt(log.prune(days_old(30))) == Success(0)
    assert verify(path).unwrap() == summary, "nothing is added when nothing is deleted"
    assert await attempt(log.append(ENTRY)) == Success(None)
    assert await attempt(log.prune(days_old(0.5))) == Success(2)
    assert await runs_of(log) == ["prune", "r1", "prune"]
    assert verify(path).unwrap().pruned == 5
    await log.aclose()


async def test_the_whole_of_a_log_can_be_pruned(path: Path) -> None:
    log = await dated(path, 3, 2)
    assert await attempt(log.prune(START)) == Success(2)
    assert await runs_of(log) == ["prune"]
    assert verify(path).unwrap().entries == 1
    await log.aclose()


async def test_an_older_entry_after_a_newer_one_stays(path: Path) -> None:
    log = await dated(path, 40, 10, 35)
    assert await attempt(log.prune(days_old(30))) == Success(1)
    assert await runs_of(log) == ["r10", "r35", "prune"]
    await log.aclose()


async def test_a_long_log_is_pruned_in_several_transactions(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "_MOST_PRUNED", 2)
    log = await dated(path, 40, 39, 38, 37, 36, 1)
    assert await attempt(log.prune(days_old(30))) == Success(5)
    assert await runs_of(log) == ["r1", "prune", "prune", "prune"]
    assert verify(path).unwrap().pruned == 5
    await log.aclose()


async def work_of_operations(path: Path, size: int) -> dict[str, int]:
    """Return the instructions of SQLite for each operation on a log with so many entries."""
    log = SqliteAuditLog(path, clock=FakeClock())

    def fill(file: sql.Transaction) -> None:
        for number in range(size):
            log._appended(file, log._body(evolve(ENTRY, run_id=RunId(f"r{number}"))), None)

    log._beside, beside = "", log._beside
    (await log._file.write("fill", fill)).unwrap()
    log._beside = beside
    work, works = await counted_work(log._file)
    assert await work("holds", log.holds(evolve(ENTRY, run_id=RunId("r7"))))
    assert not await work("holds none", log.holds(evolve(ENTRY, run_id=RunId("none"))))
    await work("append", log.append(ENTRY))
    assert await work("prune none", log.prune(days_old(30))) == 0
    await log.aclose()
    return works


async def test_an_operation_on_a_log_of_many_entries_takes_no_more_than_on_one_of_few(tmp_path: Path) -> None:
    few = await work_of_operations(tmp_path / "few.db", 1_100)
    many = await work_of_operations(tmp_path / "many.db", 4_400)
    assert {name: work for name, work in many.items() if work > 1.2 * few[name]} == {}


async def test_the_entries_of_a_run_and_the_latest_are_read_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = SqliteAuditLog(path, clock=FakeClock())
    long = "r" * 60
    names = ["r1", "r2", "r\u00e9", f"{long}1", f"{long}2", "r1"]
    for each in names:
        await attempt(log.append(evolve(ENTRY, run_id=RunId(each), detail='"run_id":"r2"')))
    third = evolve(ENTRY, run_id=RunId(names[2]), detail='"run_id":"r2"')
    assert await attempt(log.holds(third)) == Success(True)
    decoded = list[int]()
    recorded = audit_log.recorded

    def counted(sequence: int, *row: object) -> Any:
        decoded.append(sequence)
        return recorded(sequence, *row)

    monkeypatch.setattr(audit_log, "recorded", counted)
    for each in dict.fromkeys(names):
        found = read_entries(path, run_id=RunId(each)).unwrap()
        assert [one.entry.run_id for one in found] == [each] * names.count(each)
    assert decoded == [1, 6, 2, 3, 4, 5, 4, 5]
    assert [each.sequence for each in read_entries(path, latest=2).unwrap()] == [5, 6]
    assert decoded[8:] == [5, 6]
    await log.aclose()


async def test_a_head_of_a_pruned_entry_cannot_be_compared(path: Path) -> None:
    log = await dated(path, 40)
    first = verify(path).unwrap().head
    await (await dated(path, 39, 1)).aclose()
    last_pruned = (await attempt(log.read())).unwrap()[1]
    assert await attempt(log.prune(days_old(30))) == Success(2)
    assert verify(path, head=first) == Failure(AuditBroken(1, "it was pruned, and cannot be compared"))
    assert verify(path, head=AuditHead(2, last_pruned.hash)).unwrap().pruned == 2
    assert verify(path, head=AuditHead(2, "1" * 64)) == Failure(
        AuditBroken(2, "it is not the entry of the known head")
    )
    await log.aclose()


async def test_a_signed_log_is_pruned_with_its_key(path: Path, log: SqliteAuditLog) -> None:
    signed = await dated(path, 40, 1, signing_key=KEY)
    failed = (await attempt(log.prune(days_old(30)))).failure()
    assert "there is no signing key" in failed.message
    assert await attempt(signed.prune(days_old(30))) == Success(1)
    assert verify(path, public_key=public_key_of(KEY).unwrap()).unwrap().signed
    await signed.aclose()


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("DELETE FROM entries WHERE sequence = 4", (4, "it is missing")),
        ("DELETE FROM entries WHERE sequence = 3", (1, "it is missing")),
        ("UPDATE entries SET body = replace(body, '2:', '3:') WHERE sequence = 5", (1, "it is missing")),
        ("UPDATE entries SET body = replace(body, 'r1', 'r2') WHERE sequence = 4", (4, HASH)),
    ],
)
async def test_tampering_with_a_pruned_log_is_found(
    path: Path, statement: str, found: tuple[int, str]
) -> None:
    log = await dated(path, 40, 39, 2, 1)
    assert await attempt(log.prune(days_old(30))) == Success(2)
    await log.aclose()
    tamper(path, statement)
    assert broken(path) == found


async def test_a_log_that_was_cut_at_its_beginning_is_not_taken_for_pruned(path: Path) -> None:
    await (await dated(path, 40, 39, 1)).aclose()
    tamper(path, "DELETE FROM entries WHERE sequence = 1")
    assert broken(path) == (1, "it is missing")


async def test_what_was_tampered_with_is_not_pruned(path: Path) -> None:
    log = await dated(path, 40, 39, 1)
    await log.aclose()
    tamper(path, "UPDATE entries SET body = replace(body, 'r39', 'r38') WHERE sequence = 2")
    failed = (await attempt(log.prune(days_old(30)))).failure()
    assert "nothing is deleted from it" in failed.message
    assert broken(path) == (2, HASH)
    await log.aclose()


@pytest.mark.parametrize("pruned_before", [0, 2])
async def test_a_log_that_was_cut_at_its_beginning_is_not_pruned(path: Path, pruned_before: int) -> None:
    log = await dated(path, 60, 59, 40, 39, 1)
    assert await attempt(log.prune(days_old(50) if pruned_before else days_old(70))) == Success(pruned_before)
    await log.aclose()
    tamper(path, f"DELETE FROM entries WHERE sequence <= {pruned_before + 1}")
    failed = (await attempt(log.prune(days_old(30)))).failure()
    assert "nothing is deleted from it" in failed.message
    assert broken(path) == (1, "it is missing")
    await log.aclose()


async def test_an_entry_of_a_program_with_the_action_prune_changes_nothing(path: Path) -> None:
    log = await dated(path, 40, 1)
    assert await attempt(log.prune(days_old(30))) == Success(1)
    own = evolve(ENTRY, action="prune", subject=f"2:{'1' * 64}")
    assert await attempt(log.append(own)) == Success(None)
    assert verify(path).unwrap().pruned == 1
    forged = await attempt(log.append(evolve(own, agent_id=AgentId(""))))
    assert "which only prune writes" in forged.failure().message
    await log.aclose()


async def test_a_slower_writer_that_kept_an_older_head_hinders_nobody(path: Path) -> None:
    log = await dated(path, 40)
    older = await anyio.Path(f"{path}-head").read_bytes()
    await (await dated(path, 39, 1)).aclose()
    assert await attempt(log.prune(days_old(30))) == Success(2)
    await anyio.Path(f"{path}-head").write_bytes(older)
    assert verify(path).unwrap().pruned == 2
    assert await attempt(log.append(ENTRY)) == Success(None)
    await log.aclose()


async def test_after_pruning_entries_still_cannot_be_deleted(path: Path) -> None:
    log = await dated(path, 40, 1)
    assert await attempt(log.prune(days_old(30))) == Success(1)
    await log.aclose()
    deleting = sql.open_database(path, audit_log.AUDIT, sqlite.failure_of("audit"))
    done = await deleting.write("delete", lambda file: file.execute("DELETE FROM entries"))
    assert isinstance(done, Failure)
    await deleting.aclose()
    assert verify(path).unwrap().entries == 2
