"""The law of the audit log: no single change, removal or swap stays unseen, and the first victim is named."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from property_tests.strategies import values_of
from reactive_agents.adapters.governance.audit_log import AuditSummary, SqliteAuditLog, public_key_of, verify
from reactive_agents.core.errors import AuditBroken
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, CallId, RunId, TaskId
from reactive_agents.effects import attempt
from reactive_agents.testing.core import START, FakeClock
from tests.support.profiles import examples

KEY = bytes(range(32))
PUBLIC = public_key_of(KEY).unwrap()
COUNT = 8
COLUMNS = ("sequence", "previous", "body", "hash", "signature")


async def append_all(path: Path, entries: list[AuditEntry]) -> None:
    log = SqliteAuditLog(path, clock=FakeClock(step_s=1.0), signing_key=KEY)
    for entry in entries:
        assert await attempt(log.append(entry)) == Success(None)
    recorded = (await attempt(log.read())).unwrap()
    assert [each.entry for each in recorded] == entries
    await log.aclose()


@pytest.fixture(scope="module")
def whole() -> Iterator[Path]:
    """A signed log of some entries."""
    entries = [
        AuditEntry(RunId(f"r{n}"), TaskId("t"), AgentId("a"), "run", "completed", "It went.", START)
        if n % 2
        else AuditEntry(
            RunId(f"r{n}"),
            TaskId("t"),
            AgentId("a"),
            "guardrail-block",
            None,
            "It was blocked.",
            START,
            subject="email",
            stage="tool-result",
            call_id=CallId("c"),
        )
        for n in range(COUNT)
    ]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "audit.db")
        anyio.run(append_all, path, entries)
        yield path


def tampered(whole: Path, path: Path, *changes: tuple[str, tuple[object, ...]]) -> None:
    """A copy of the log after statements that no trigger stopped."""
    shutil.copy(whole, path)
    connection = sqlite3.connect(path, isolation_level=None)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for statement, values in changes:
        connection.execute(statement, values)
    connection.close()


def first_broken(whole: Path, *changes: tuple[str, tuple[object, ...]]) -> int:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "audit.db")
        tampered(whole, path, *changes)
        verified = verify(path, public_key=PUBLIC)
    assert isinstance(verified, Failure), verified
    error = verified.failure()
    assert isinstance(error, AuditBroken)
    return error.sequence


def value_at(path: Path, table: str, column: str, sequence: int) -> object:
    connection = sqlite3.connect(path)
    (value,) = connection.execute(f"SELECT {column} FROM {table} WHERE sequence = ?", (sequence,)).fetchone()
    connection.close()
    return value


texts = st.text(st.characters(codec="utf-8"), max_size=20)
others = (
    st.none() | texts | st.binary(max_size=20) | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False)
)
sequences = st.integers(1, COUNT)


@examples(15)
@given(sequence=sequences, column=st.sampled_from(COLUMNS), data=st.data())
def test_every_change_of_an_entry_is_found(
    whole: Path, sequence: int, column: str, data: st.DataObject
) -> None:
    old = value_at(whole, "entries", column, sequence)
    if isinstance(old, str):
        at = data.draw(st.integers(0, len(old) - 1))
        edited = st.sampled_from(
            [old[:at], old[:at] + old[at + 1 :], old[:at] + " " + old[at:], old.upper(), old.encode()]
        )
        new = data.draw((edited | others).filter(lambda value: value != old))
    else:
        new = data.draw(st.integers(-(2**63), 2**63 - 1).filter(lambda value: not 0 < value <= COUNT))
    if new is None and column != "signature":
        new = ""
    changed = first_broken(whole, (f"UPDATE entries SET {column} = ? WHERE sequence = ?", (new, sequence)))
    # an entry that is moved before the first shows there
    assert changed == (1 if column == "sequence" and isinstance(new, int) and new < 1 else sequence)


@examples(15)
@given(column=st.sampled_from(["sequence", "hash", "signature"]), data=st.data())
def test_every_change_of_the_head_is_found(whole: Path, column: str, data: st.DataObject) -> None:
    old = value_at(whole, "heads", column, COUNT)
    kinds = st.integers(0, 2**63 - 1) if column == "sequence" else texts | st.binary(max_size=20)
    new = data.draw(kinds.filter(lambda value: value != old))
    assert first_broken(whole, (f"UPDATE heads SET {column} = ?", (new,))) in (COUNT, COUNT + 1)


@examples(15)
@given(gone=st.sets(sequences, min_size=1))
def test_every_removal_is_found(whole: Path, gone: set[int]) -> None:
    changes = [("DELETE FROM entries WHERE sequence = ?", (each,)) for each in gone]
    assert first_broken(whole, *changes) == min(gone)


@examples(15)
@given(order=st.permutations(range(1, COUNT + 1)).filter(lambda order: order != sorted(order)))
def test_every_other_order_is_found(whole: Path, order: list[int]) -> None:
    apart = ("UPDATE entries SET sequence = sequence + 100", ())
    moves = [
        ("UPDATE entries SET sequence = ? WHERE sequence = ?", (new, old + 100))
        for new, old in enumerate(order, 1)
    ]
    first = next(new for new, old in enumerate(order, 1) if new != old)
    assert first_broken(whole, apart, *moves) == first


@examples(10)
@given(st.lists(values_of(AuditEntry), min_size=1, max_size=4))
def test_any_entries_make_a_chain_that_is_whole(entries: list[AuditEntry]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "audit.db")
        anyio.run(append_all, path, entries)
        match verify(path, public_key=PUBLIC):
            case Success(AuditSummary(count, _, signed)):
                assert (count, signed) == (len(entries), True)
            case other:
                pytest.fail(str(other))
