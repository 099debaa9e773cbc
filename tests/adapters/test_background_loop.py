"""A loop in the background serves every other event loop."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextvars import ContextVar
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from reactive_agents.adapters import background_loop
from reactive_agents.adapters.background_loop import BackgroundLoop, LoopStopped

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
WHO: ContextVar[str] = ContextVar("who", default="nobody")


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def loop() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop("test")
    loop.start()
    yield loop
    loop.stop()
    assert not loop.alive


async def double(number: int) -> int:
    await anyio.lowlevel.checkpoint()
    return 2 * number


async def identify() -> tuple[int, str]:
    return threading.get_ident(), WHO.get()


async def refuse(kind: type[Exception]) -> None:
    raise kind("no")


@pytest.mark.parametrize("kind", [ValueError, RuntimeError, CancelledError])
async def test_a_call_gives_its_value_or_raises(loop: BackgroundLoop, kind: type[Exception]) -> None:
    assert await loop.run(double, 4) == 8
    with pytest.raises(kind, match="no"):
        await loop.run(refuse, kind)


async def test_it_runs_in_another_thread_with_the_callers_context(loop: BackgroundLoop) -> None:
    WHO.set("me")
    thread, who = await loop.run(identify)
    assert (thread != threading.get_ident(), who) == (True, "me")


async def test_a_cancellation_is_passed_on_and_waited_for(loop: BackgroundLoop) -> None:
    begun, seen = threading.Event(), []

    async def stay() -> None:
        try:
            begun.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            seen.append("ended")
            raise RuntimeError("the cleanup failed")

    async with anyio.create_task_group() as group:
        group.start_soon(loop.run, stay)
        await anyio.to_thread.run_sync(begun.wait)
        group.cancel_scope.cancel()
    assert seen == ["ended"]


async def test_stopping_ends_what_runs_and_tells_who_waits(
    loop: BackgroundLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_loop, "_LAST_CALLS_S", 0.05)
    begun, told = threading.Event(), []

    async def stay() -> None:
        begun.set()
        await anyio.sleep_forever()

    async def wait() -> None:
        try:
            await loop.run(stay)
        except LoopStopped as stopped:
            told.append(str(stopped))

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.to_thread.run_sync(begun.wait)
        await anyio.to_thread.run_sync(loop.stop)
    assert told == ["the background loop was stopped"]
    with pytest.raises(LoopStopped):
        await loop.run(double, 1)


def test_many_loops_in_many_threads_use_it_at_once(loop: BackgroundLoop) -> None:
    results: list[int] = []

    async def ask(start: int) -> None:
        results.extend([await loop.run(double, number) for number in range(start, start + 50)])

    threads = [
        threading.Thread(target=anyio.run, args=(ask, 50 * number), kwargs={"backend": backend})
        for number, backend in enumerate(("asyncio", "trio", "asyncio", "trio"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [2 * number for number in range(200)]


FORGOTTEN = """
import anyio
from reactive_agents.adapters.background_loop import BackgroundLoop

async def stay():
    try:
        await anyio.sleep_forever()
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.01)
        print("ended", flush=True)

async def main():
    loop = BackgroundLoop("forgotten")
    loop.start()
    async def begin():
        loop.start_soon(stay)
    await loop.run(begin)

anyio.run(main)
"""


def test_what_runs_at_the_end_of_the_program_is_ended_in_order() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORGOTTEN], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == ("ended\n", "")


NO_FILES = """
import resource, threading
import anyio
from reactive_agents.adapters.background_loop import BackgroundLoop, LoopStopped

raised = []
threading.excepthook = lambda each: raised.append(each.exc_type.__name__)

async def main():
    loop = BackgroundLoop("refused")
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    loop.start()
    try:
        await loop.run(anyio.sleep, 0)
    except LoopStopped:
        loop.stop()
        print("stopped", raised)

anyio.run(main)
"""


def test_a_loop_that_the_system_does_not_make_is_not_waited_for() -> None:
    program = [sys.executable, "-c", NO_FILES]
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=ROOT, timeout=60)
    assert done.stdout == "stopped ['OSError']\n"


def test_a_forked_process_has_no_such_loop(loop: BackgroundLoop) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, str(loop.alive).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 10) == b"False"
    os.close(reading)
    os.close(writing)
