"""The live clock and the live source of identifiers."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.adapters.system import SystemClock, UlidSource, cancel_on_sigterm, write_for_owner
from reactive_agents.ports import Clock, IdSource

CROCKFORD = set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def test_the_clock_tells_utc() -> None:
    clock: Clock = SystemClock()
    before = datetime.now(UTC)
    now = clock.now()
    assert now.utcoffset() == timedelta(0)
    assert before <= now <= datetime.now(UTC)


def test_monotonic_time_is_in_seconds_and_never_goes_back() -> None:
    clock = SystemClock()
    readings = [clock.monotonic() for _ in range(1_000)]
    assert readings == sorted(readings)


def test_deadlines_compare_with_the_standard_library() -> None:
    before = time.monotonic()
    assert before <= SystemClock().monotonic() <= time.monotonic()


def test_an_id_is_a_ulid() -> None:
    ids: IdSource = UlidSource()
    made = ids.new()
    assert type(made) is str
    assert len(made) == 26
    assert set(made) <= CROCKFORD


def test_ids_sort_by_time_even_within_a_millisecond() -> None:
    ids = UlidSource()
    made = [ids.new() for _ in range(5_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


def test_an_id_holds_the_time_of_its_making() -> None:
    def milliseconds(ulid: str) -> int:
        value = 0
        for character in ulid[:10]:
            value = value * 32 + "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(character)
        return value

    before = time.time_ns() // 1_000_000
    made = milliseconds(UlidSource().new())
    assert before <= made <= time.time_ns() // 1_000_000


def test_threads_and_sources_never_get_the_same_id() -> None:
    shared = UlidSource()
    made: list[list[str]] = [[] for _ in range(8)]
    start = threading.Barrier(len(made))

    def make(into: list[str]) -> None:
        own = UlidSource()
        start.wait()
        for _ in range(500):
            into.append(shared.new())
            into.append(own.new())

    threads = [threading.Thread(target=make, args=(into,)) for into in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = [one for into in made for one in into]
    assert len(everything) == 8_000
    assert len(set(everything)) == 8_000


@given(st.lists(st.integers(0, 10**19)))
def test_ids_get_greater_however_the_clock_is_set(times: list[int]) -> None:
    clock = iter(times)
    ids = UlidSource(lambda: next(clock))
    made = [ids.new() for _ in times]
    assert made == sorted(set(made))
    assert all(len(each) == 26 and set(each) <= CROCKFORD for each in made)


def test_importing_the_module_loads_no_large_library() -> None:
    script = (
        "import sys; from reactive_agents.adapters import system; system.UlidSource().new(); "
        "print(sorted({'pydantic', 'pydantic_core', 'email', 'logging'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_signal_that_does_not_end_the_waiting_of_the_loop_wakes_it() -> None:
    """As one does that arrives in another thread, or just before the loop begins to wait."""
    ended, woken_otherwise = threading.Event(), []

    async def wait() -> None:
        loop = asyncio.get_running_loop()

        def send() -> None:
            ended.wait(0.2)  # the loop waits meanwhile
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            if not ended.wait(20):
                loop.call_soon_threadsafe(woken_otherwise.append, True)

        sender = threading.Thread(target=send, daemon=True)
        with cancel_on_sigterm():
            loop.call_soon(sender.start)
            await anyio.sleep_forever()

    with pytest.raises(KeyboardInterrupt):
        anyio.run(wait)
    ended.set()
    assert not woken_otherwise


def test_the_programs_own_handlers_of_signals_stay() -> None:
    async def wait(*, first: bool) -> None:
        received = anyio.Event()
        loop = asyncio.get_running_loop()
        if first:
            loop.add_signal_handler(signal.SIGUSR1, received.set)
        with cancel_on_sigterm():
            if not first:
                loop.add_signal_handler(signal.SIGUSR1, received.set)
        signal.raise_signal(signal.SIGUSR1)
        await received.wait()
        loop.remove_signal_handler(signal.SIGUSR1)

    anyio.run(lambda: wait(first=True))
    anyio.run(lambda: wait(first=False))


# --- files of secrets -----------------------------------------------------------------------------------

KILLED_WHILE_WRITING = """
import resource, signal, sys
from reactive_agents.adapters.system import write_for_owner
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, 1_000))
write_for_owner(sys.argv[1], "x" * 100_000)
"""


def test_a_process_that_is_killed_while_it_writes_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_for_owner(path, "before")
    command = [sys.executable, "-c", KILLED_WHILE_WRITING, str(path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGXFSZ
    assert path.read_text() == "before"


def test_a_replaced_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("before, and longer")
    (tmp_path / "run.json").chmod(0o640)
    (tmp_path / "link.json").symlink_to("run.json")
    write_for_owner(tmp_path / "link.json", "after")
    assert (tmp_path / "link.json").is_symlink()
    assert (tmp_path / "run.json").read_text() == "after"
    assert stat.S_IMODE((tmp_path / "run.json").stat().st_mode) == 0o640
    (tmp_path / "link.json").unlink()
    (tmp_path / "link.json").symlink_to("new.json")
    write_for_owner(tmp_path / "link.json", "new")
    assert stat.S_IMODE((tmp_path / "new.json").stat().st_mode) == 0o600
    assert {each.name for each in tmp_path.iterdir()} == {"run.json", "link.json", "new.json"}


def test_what_is_no_regular_file_is_written_in_place(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    write_for_owner(f"/dev/fd/{writer}", "to a pipe")
    os.close(writer)
    with os.fdopen(reader) as file:
        assert file.read() == "to a pipe"
    with pytest.raises(IsADirectoryError):
        write_for_owner(tmp_path, "text")
