"""The store of content: who holds what, and what goes."""

from __future__ import annotations

from pathlib import Path

import pytest
from attrs import evolve

from reactive_agents.adapters import sql
from reactive_agents.adapters.memory.contents import SqliteContent
from reactive_agents.adapters.memory.sessions import SqliteSessions
from reactive_agents.core.content import Content, ContentOwner, Image, stored
from reactive_agents.core.errors import ContentUnavailable
from reactive_agents.core.ids import RunId
from reactive_agents.effects import attempt
from reactive_agents.testing import FakeClock
from tests.support.sqlite_files import counting, sqlite_file

pytestmark = pytest.mark.anyio

DAY_S = 24 * 3600


def part(data: bytes) -> Content:
    return stored(Image.from_bytes(data), data, media_type="image/png", tokens=1)


def owner(run: str, user: str | None = None) -> ContentOwner:
    return ContentOwner(RunId(run), user)


async def put(store: SqliteContent, data: bytes, run: str, user: str | None = None) -> None:
    (await attempt(store.put(part(data), data, owner(run, user)))).unwrap()


async def read(store: SqliteContent, data: bytes, user: str | None = None) -> bytes | None:
    return (await attempt(store.read(part(data).digest, user))).unwrap()


async def release(store: SqliteContent, run: str, keep: int) -> None:
    (await attempt(store.release(RunId(run), keep=keep))).unwrap()


async def test_only_the_users_who_hold_bytes_read_them(place: str) -> None:
    store = SqliteSessions(place, clock=FakeClock()).content
    await put(store, b"a", "run-1", "ada")
    assert await read(store, b"a", "ada") == b"a"
    assert await read(store, b"a", "bob") is None
    assert await read(store, b"a") is None
    await put(store, b"a", "run-2")
    assert await read(store, b"a") == b"a"
    assert await read(store, b"a", "bob") is None


async def test_what_ended_runs_leave_goes_oldest_first(place: str) -> None:
    clock = FakeClock()
    store = SqliteSessions(place, clock=clock).content
    for number in range(5):
        await put(store, bytes([number]) * 10, f"run-{number}")
        clock.advance(1)
    for number in range(4):
        await release(store, f"run-{number}", 25)
    kept = [await read(store, bytes([number]) * 10) is not None for number in range(5)]
    assert kept == [False, False, True, True, True]
    await release(store, "run-4", 0)
    assert await read(store, bytes([4]) * 10) is None


async def test_a_run_that_never_ended_holds_its_content_for_a_day(place: str) -> None:
    clock = FakeClock()
    store = SqliteSessions(place, clock=clock).content
    await put(store, b"lost", "run-1")
    await release(store, "run-2", 0)
    assert await read(store, b"lost") == b"lost"
    clock.advance(DAY_S + 1)
    await release(store, "run-2", 0)
    assert await read(store, b"lost") is None


@pytest.mark.parametrize("prunes", [False, True])
async def test_a_durable_run_that_waits_holds_its_content(place: str, *, prunes: bool) -> None:
    clock = FakeClock()
    sessions = SqliteSessions(place, clock=clock)

    async def clean_up() -> None:
        await release(sessions.content, "run-2", 0)
        if prunes:
            (await attempt(sessions.prune(clock.now()))).unwrap()

    durable = evolve(owner("run-1"), durable=True)
    (await attempt(sessions.content.put(part(b"shown"), b"shown", durable))).unwrap()
    clock.advance(30 * DAY_S)
    await clean_up()
    assert await read(sessions.content, b"shown") == b"shown"
    await release(sessions.content, "run-1", 0)
    await clean_up()
    assert await read(sessions.content, b"shown") is None
    await sessions.aclose()


async def work_of_release(path: Path, size: int) -> int:
    """Return the instructions of SQLite at the end of a run, beside so much content of sessions."""
    sessions = SqliteSessions(path, clock=FakeClock())
    await put(sessions.content, b"a", "run-a")

    def fill(file: sql.Transaction) -> None:
        rows = [(f"d{number}", f"session:{number}") for number in range(size)]
        file.executemany("INSERT INTO contents VALUES (?, 1, 'x')", [row[:1] for row in rows])
        file.executemany("INSERT INTO content_holders VALUES (?, ?, NULL, '', 1, 0)", rows)

    (await sessions._file.write("fill", fill)).unwrap()
    counted = await counting(sessions._file)
    await release(sessions.content, "run-a", 0)
    work = counted[0]
    assert await read(sessions.content, b"a") is None
    await sessions.aclose()
    return work


async def test_the_end_of_a_run_does_not_read_what_sessions_hold(tmp_path: Path) -> None:
    few, many = [await work_of_release(tmp_path / f"{size}.db", size) for size in (50, 500)]
    assert many <= 1.2 * few


async def test_two_stores_share_a_file(tmp_path: Path) -> None:
    clock = FakeClock()
    one, two = (SqliteSessions(tmp_path / "s.db", clock=clock) for _ in range(2))
    await put(one.content, b"a", "run-1")
    await put(two.content, b"a", "run-2")
    await release(one.content, "run-1", 0)
    assert await read(one.content, b"a") == b"a"
    await release(two.content, "run-2", 0)
    assert await read(one.content, b"a") is None
    await one.aclose()
    await two.aclose()
    with sqlite_file(tmp_path / "s.db") as file:
        assert file.execute("SELECT count(*) FROM contents").fetchone() == (0,)


async def test_a_file_that_cannot_be_written_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"not a database, and long enough to be taken for one " * 50)
    store = SqliteSessions(tmp_path / "s.db", clock=FakeClock()).content
    failed = (await attempt(store.put(part(b"a"), b"a", owner("run-1")))).failure()
    assert isinstance(failed, ContentUnavailable)
    assert failed.operation == "put"


async def test_pruning_deletes_what_ended_runs_without_a_session_left(place: str) -> None:
    clock = FakeClock()
    sessions = SqliteSessions(place, clock=clock)
    store = sessions.content
    await put(store, b"ended", "run-1")
    await release(store, "run-1", keep=1_000)
    await put(store, b"runs", "run-2")
    clock.advance(60)
    before = clock.now()
    clock.advance(1)
    await put(store, b"newer", "run-3")
    await release(store, "run-3", keep=1_000)
    (await attempt(sessions.prune(before))).unwrap()
    assert [await read(store, each) for each in (b"ended", b"runs", b"newer")] == [None, b"runs", b"newer"]
    clock.advance(2 * DAY_S)
    (await attempt(sessions.prune(clock.now()))).unwrap()  # its process is dead
    assert await read(store, b"runs") is None
    await sessions.aclose()
