"""The memory file: opening, versions, locks, and everything that can be wrong with a file."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import pytest
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.database import MEMORY, MemoryStore, open_memory_store
from reactive_agents.adapters.memory.store import Living, Reach, add, search
from reactive_agents.adapters.sql import open_database
from reactive_agents.adapters.sqlite import LAYOUT, migrate, version_of
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable
from reactive_agents.testing.core import START
from tests.support.memories import AGENT, an_entry
from tests.support.sqlite_files import sqlite_file

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.anyio


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
async def database(path: Path) -> AsyncIterator[MemoryStore]:
    database = open_database(path, MEMORY, MemoryUnavailable, patience_s=0.2)
    yield database
    await database.aclose()


def keep(connection: sqlite3.Connection) -> None:
    add(connection, an_entry("m1", "The sky is blue."))


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM memories").fetchone()[0])


def bytes_of(path: Path) -> bytes:
    return path.read_bytes()


def list_of(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def why(result: Result[object, MemoryErrors]) -> str:
    match result:
        case Failure(MemoryUnavailable(message, _)):
            return message
    raise AssertionError(result)


# --- a file that is well --------------------------------------------------------------------------------


async def test_the_file_and_its_folders_are_made_for_the_user_alone(tmp_path: Path) -> None:
    database = open_memory_store(tmp_path / "a" / "b" / "memory.db")
    assert await database.read("open", lambda _: None) == Success(None)
    assert stat.S_IMODE(database.path.stat().st_mode) == 0o600
    await database.aclose()
    await database.aclose()


async def test_it_can_be_used_again_after_it_was_closed(database: MemoryStore) -> None:
    assert await database.write("keep", keep) == Success(None)
    await database.aclose()
    assert await database.read("count", count) == Success(1)


async def test_the_file_is_in_wal_mode_and_of_the_newest_version(database: MemoryStore, path: Path) -> None:
    await database.read("open", lambda _: None)
    assert await database.read("mode", lambda each: each.execute("PRAGMA journal_mode").fetchone()[0]) == (
        Success("wal")
    )
    await database.aclose()
    with sqlite_file(path) as direct:
        assert direct.execute("PRAGMA user_version").fetchone() == (LAYOUT,)


@ON_BOTH
async def test_work_that_fails_leaves_nothing_behind(database: MemoryStore) -> None:
    def half(connection: sqlite3.Connection) -> None:
        keep(connection)
        connection.execute("SELECT * FROM nowhere")

    assert "no such table" in why(await database.write("half", half))
    assert await database.read("count", count) == Success(0)


async def test_many_tasks_at_once_write_one_after_the_other(database: MemoryStore) -> None:
    async with anyio.create_task_group() as group:
        for number in range(20):
            entry = an_entry(f"m{number}", f"Fact {number}")
            group.start_soon(database.write, "keep", lambda connection, entry=entry: add(connection, entry))
    assert await database.read("count", count) == Success(20)


async def test_a_value_that_cannot_be_stored_is_a_failure(database: MemoryStore) -> None:
    def odd(connection: sqlite3.Connection) -> None:
        connection.execute("UPDATE memories SET content = ? WHERE seq = ?", ("\ud800", 1 << 70))

    assert "cannot be used" in why(await database.write("odd", odd))


def test_one_database_serves_one_event_loop_after_the_other(path: Path) -> None:
    database = open_memory_store(path)

    async def one_more() -> Result[int, MemoryErrors]:
        found = await database.read("count", count)
        name = f"m{found.unwrap()}"
        await database.write("keep", lambda connection: add(connection, an_entry(name, name)))
        return await database.read("count", count)

    counts = [anyio.run(one_more, backend=backend).unwrap() for backend in ("asyncio", "trio", "asyncio")]
    anyio.run(database.aclose)
    assert counts == [1, 2, 3]


def test_one_database_serves_event_loops_in_several_threads(path: Path) -> None:
    database = open_memory_store(path)
    results: list[Result[object, MemoryErrors]] = []

    async def write(name: str) -> None:
        for number in range(20):
            entry = an_entry(f"{name}{number}", f"{name} {number}")
            results.append(
                await database.write("keep", lambda connection, entry=entry: add(connection, entry))
            )

    def work(name: str, backend: str) -> None:
        anyio.run(write, name, backend=backend)

    threads = [
        threading.Thread(target=work, args=(f"t{number}", backend))
        for number, backend in enumerate(("asyncio", "trio", "asyncio"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 60
    assert all(isinstance(result, Success) for result in results)

    async def total() -> Result[int, MemoryErrors]:
        found = await database.read("count", count)
        await database.aclose()
        return found

    assert anyio.run(total) == Success(60)


FORKING = """
import os, sys, anyio
from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.store import add
from tests.support.memories import an_entry

database = open_memory_store(sys.argv[1])

async def write(name):
    entry = an_entry(name, name)
    result = await database.write("keep", lambda connection: add(connection, entry).id)
    os.write(1, f"{result}\\n".encode())  # in one piece: two processes write

anyio.run(write, "before")
child = os.fork()
if child == 0:
    anyio.run(write, "in-child")
    anyio.run(database.aclose)
    os._exit(0)
anyio.run(write, "in-parent")
os.write(1, f"{os.waitpid(child, 0)[1]}\\n".encode())
anyio.run(write, "after")
anyio.run(database.aclose)
"""


def test_a_forked_process_has_a_connection_of_its_own(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", FORKING, path],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.stderr == ""
    assert sorted(done.stdout.split("\n")) == sorted(
        ["<Success: before>", "<Success: in-child>", "<Success: in-parent>", "0", "<Success: after>", ""]
    )
    direct = sqlite3.connect(path)
    assert direct.execute("SELECT count(*) FROM memories").fetchone() == (4,)
    assert direct.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    direct.close()


def test_a_new_memory_that_is_read_only_is_refused() -> None:
    with pytest.raises(ValueError, match="memory: read_only: "):
        open_memory_store(":memory:", read_only=True)


async def test_without_a_file_it_holds_until_it_is_gone() -> None:
    database = open_memory_store(":memory:")
    assert await database.write("keep", keep) == Success(None)
    await database.aclose()
    assert await database.read("count", count) == Success(1)
    assert await open_memory_store(":memory:").read("count", count) == Success(0)


# --- versions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, MEMORY.newest))
async def test_a_file_of_an_older_version_is_brought_forward_with_what_is_in_it(
    database: MemoryStore, path: Path, version: int
) -> None:
    old = sqlite3.connect(path, isolation_level=None)
    migrate(old, MEMORY, to=version)
    for number in range(50):
        entry = an_entry(f"m{number}", f"Fact number{number} is old.")
        old.execute(
            "INSERT INTO memories (id, agent_id, kind, content, fingerprint, origin, source, task_id,"
            " importance, created_at, seen_at, fades_at, successes, executions)"
            " VALUES (?, ?, ?, ?, ?, ?, '', '', 0.5, 0, 0, ?, 0, 0)",
            (entry.id, AGENT, entry.kind, entry.content, str(number), entry.origin, 2**62),
        )
    old.close()

    assert await database.read("count", count) == Success(50)
    among = Living(Reach(AGENT), START)
    found = await database.read("search", lambda each: search(each, among, "number7"))
    assert [entry.id for entry in found.unwrap()] == ["m7"]
    await database.write("forget", lambda each: each.execute("DELETE FROM memories WHERE id = 'm7'").rowcount)
    assert await database.read("search", lambda each: search(each, among, "number7")) == Success(())


def test_a_version_that_fails_half_way_changes_nothing(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, MEMORY, to=1)
    connection.execute("CREATE TABLE memory_words (in_the_way)")
    with pytest.raises(sqlite3.OperationalError, match="memory_words"):
        migrate(connection, MEMORY)
    assert version_of(connection, MEMORY) == 1
    connection.close()


async def test_a_file_of_a_newer_version_is_left_alone(database: MemoryStore, path: Path) -> None:
    newer = sqlite3.connect(path, isolation_level=None)
    migrate(newer, MEMORY)
    newer.execute("UPDATE reactive_agents_stores SET version = 99")
    newer.close()
    before = bytes_of(path)
    assert f"of a newer reactive_agents, expected at most {MEMORY.newest}" in why(
        await database.read("open", lambda _: None)
    )
    assert bytes_of(path) == before


async def test_the_database_of_another_program_is_left_alone(database: MemoryStore, path: Path) -> None:
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE accounts (id)")
    other.commit()
    other.close()
    before = bytes_of(path)
    assert "another program" in why(await database.write("keep", keep))
    assert bytes_of(path) == before


# --- a file that is not well ----------------------------------------------------------------------------


@ON_BOTH
async def test_a_lock_that_is_held_too_long_is_a_failure_and_then_none(
    database: MemoryStore, path: Path
) -> None:
    await database.write("keep", keep)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    assert "is locked" in why(await database.write("keep", keep))
    assert await database.read("count", count) == Success(1)  # readers do not wait for writers
    holder.execute("ROLLBACK")
    holder.close()
    assert await database.write("keep", keep) == Success(None)


@ON_BOTH
async def test_a_lock_that_is_let_go_in_time_is_waited_for(path: Path) -> None:
    database = open_memory_store(path)
    await database.read("open", lambda _: None)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    results = []

    async def write() -> None:
        results.append(await database.write("keep", keep))

    async with anyio.create_task_group() as group:
        group.start_soon(write)
        await anyio.sleep(0.15)
        holder.execute("COMMIT")
    holder.close()
    await database.aclose()
    assert results == [Success(None)]


async def test_waiting_for_a_lock_can_be_cancelled(path: Path) -> None:
    database = open_database(path, MEMORY, MemoryUnavailable, patience_s=60)
    await database.read("open", lambda _: None)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with anyio.move_on_after(0.1) as scope:
        await database.write("keep", keep)
    holder.close()
    await database.aclose()
    assert scope.cancelled_caught


def nothing_but_noise(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


def damaged_in_the_middle(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection, MEMORY)
    connection.execute("BEGIN")
    for number in range(200):
        add(connection, an_entry(f"m{number}", f"Fact {number} " + "long " * 50))
    connection.execute("COMMIT")
    connection.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)


def cut_short(path: Path) -> None:
    damaged_in_the_middle(path)
    os.truncate(path, 5000)


@pytest.mark.parametrize("damage", [nothing_but_noise, damaged_in_the_middle, cut_short])
async def test_a_damaged_file_is_a_failure_until_it_is_replaced(
    database: MemoryStore, path: Path, damage: Callable[[Path], None]
) -> None:
    damage(path)
    for result in (await database.read("count", count), await database.write("keep", keep)):
        assert "is damaged" in why(result) or "is not a database" in why(result)
    for each in path.parent.iterdir():
        each.unlink()
    assert await database.write("keep", keep) == Success(None)


@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_is_deleted_meanwhile_is_made_anew(
    database: MemoryStore, path: Path, replaced: bool
) -> None:
    await database.write("keep", keep)
    for each in path.parent.iterdir():
        each.unlink()
    if replaced:
        other = open_memory_store(path)
        await other.write("keep", lambda connection: add(connection, an_entry("m9", "Another file.")))
        await other.aclose()
    assert await database.write("keep", keep) == Success(None)
    await database.aclose()
    direct = sqlite3.connect(path)
    assert direct.execute("SELECT count(*) FROM memories").fetchone() == (1 + replaced,)
    direct.close()


async def test_a_folder_in_the_place_of_the_file_is_a_failure(database: MemoryStore, path: Path) -> None:
    os.mkdir(path)
    assert "cannot be opened" in why(await database.read("open", lambda _: None))


async def test_a_file_in_the_place_of_the_folder_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot be used" in why(
        await open_memory_store(tmp_path / "file" / "memory.db").read("open", lambda _: None)
    )


async def test_a_full_disk_is_a_failure_and_what_was_kept_stays(path: Path) -> None:
    roomy = open_memory_store(path)
    await roomy.write("keep", keep)
    await roomy.aclose()
    full = open_memory_store(path)
    limit = f"PRAGMA max_page_count = {len(bytes_of(path)) // 4096}"
    await full.read("limit", lambda connection: connection.execute(limit).fetchone())
    entry = an_entry("m2", "word " * 4000)
    assert "the disk is full" in why(await full.write("keep", lambda connection: add(connection, entry)))
    assert await full.read("count", count) == Success(1)
    assert await full.read("check", lambda each: each.execute("PRAGMA integrity_check").fetchone()[0]) == (
        Success("ok")
    )
    await full.aclose()


async def test_a_file_opened_for_reading_alone_is_read_and_never_written(path: Path) -> None:
    reader = open_memory_store(path, read_only=True)
    assert "cannot be opened" in why(await reader.read("open", lambda _: None))
    assert list_of(path.parent) == []
    writer = open_memory_store(path)
    await writer.write("keep", keep)
    assert await reader.read("count", count) == Success(1)
    assert "is read-only" in why(await reader.write("keep", keep))
    await reader.aclose()
    await writer.aclose()


@pytest.mark.parametrize(
    ("version", "said"), [(0, "found an empty file"), (1, "found version 1 of its memory")]
)
async def test_a_file_opened_for_reading_alone_is_not_brought_forward(
    path: Path, version: int, said: str
) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("VACUUM")
    migrate(connection, MEMORY, to=version)
    assert said in why(await open_memory_store(path, read_only=True).read("open", lambda _: None))
    assert version_of(connection, MEMORY) == version
    connection.close()


AS_NOBODY = """
import os, sys, anyio
from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.store import add
from tests.support.memories import an_entry
from reactive_agents.effects import attempt
async def main():
    database = open_memory_store(sys.argv[1])
    await anyio.to_thread.run_sync(lambda: None)
    if os.getuid() == 0:
        os.setuid(65534)
    print(await database.write("keep", lambda connection: add(connection, an_entry("m2", "More"))))
    await database.aclose()
anyio.run(main)
"""


def test_a_file_without_the_right_to_write_is_a_failure() -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "memory.db"
        connection = sqlite3.connect(path, isolation_level=None)
        migrate(connection, MEMORY)
        connection.close()
        path.chmod(0o444)
        path.parent.chmod(0o555)
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, path], capture_output=True, text=True, check=False, cwd=ROOT
        )
        path.parent.chmod(0o700)
    assert "attempt to write a readonly database" in done.stderr  # the warning names the cause
    assert "MemoryUnavailable" in done.stdout
    assert "is read-only" in done.stdout
