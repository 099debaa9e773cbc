"""An event loop in a thread, for services that outlive their caller's loop.

An agent may be used from many event loops, one after the other or at once (``run_sync`` uses a loop for each
call), but a connection to a server belongs to the loop that opened it. A service with such connections keeps
them on a background loop, and can be called from any loop. The background loop always uses asyncio.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup
from anyio.from_thread import BlockingPortal
from returns.result import Failure, Result, Success

from reactive_agents.event_loop import CallSoon, calls_on_this_loop

_T = TypeVar("_T")

_LAST_CALLS_S = 1.0
_STOP_S = 15.0
_POLL_S = 0.005


class LoopStopped(Exception):
    """The background loop was stopped before the call ended."""

    def __init__(self) -> None:
        super().__init__("the background loop was stopped")


class BackgroundLoop:
    """An asyncio event loop in a daemon thread, from :meth:`start` to :meth:`stop`.

    At the end of the program, running calls are cancelled and have 15 seconds to clean up.
    """

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._process = os.getpid()
        self._ready = threading.Event()
        self._calls = 0
        self._ended = False
        self._call_soon: CallSoon = lambda _: False
        self._portal: BlockingPortal
        self._group: TaskGroup
        self._stopping: anyio.Event

    @property
    def alive(self) -> bool:
        """Whether calls can be made; false in a forked process, which lacks the thread."""
        return self._process == os.getpid() and self._thread.is_alive() and not self._ended

    def start(self) -> None:
        """Start the thread and its loop; without a loop, calls raise ``LoopStopped``."""
        self._thread.start()
        self._ready.wait()
        _running.add(self)

    async def run(self, function: Callable[..., Coroutine[Any, Any, _T]], *arguments: Any) -> _T:
        """Await ``function(*arguments)`` on the background loop, for another one.

        A cancellation is passed on, and its end is awaited. The function sees the caller's context variables.

        Raises:
            LoopStopped: the loop is not running.
        """

        async def call() -> Result[_T, Exception]:
            self._calls += 1
            try:
                return Success(await function(*arguments))
            except Exception as error:  # noqa: BLE001 - so that what is raised below is the portal's
                return Failure(error)
            finally:
                self._calls -= 1

        if not self.alive:
            raise LoopStopped
        try:
            outcome = await self._portal.call_async(call)
        except (CancelledError, RuntimeError):  # ended by the end of the loop, or too late to begin
            raise LoopStopped from None
        if isinstance(outcome, Failure):
            raise outcome.failure()
        return outcome.unwrap()

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, None]], *arguments: Any) -> None:
        """Start a detached task; call it on the background loop itself.

        Args:
            function: must raise nothing but a cancellation.
        """
        self._group.start_soon(function, *arguments)

    def request_stop(self) -> None:
        """Request the end of the loop, from any thread."""
        self._call_soon(lambda: self._stopping.set())

    def stop(self) -> None:
        """Cancel all calls and await the end, 15 s at most; from any other thread."""
        self.request_stop()
        self._thread.join(_STOP_S)

    def _main(self) -> None:
        try:
            anyio.run(self._serve, backend="asyncio")
        finally:
            self._ended = True
            self._ready.set()  # also of a loop that could not be created

    async def _serve(self) -> None:
        async with BlockingPortal() as self._portal, anyio.create_task_group() as self._group:
            self._call_soon, self._stopping = calls_on_this_loop(), anyio.Event()
            self._ready.set()
            await self._stopping.wait()
            with anyio.move_on_after(_LAST_CALLS_S):  # most end by themselves, and tell their callers
                while self._calls:  # noqa: ASYNC110 - other threads add calls
                    await anyio.sleep(_POLL_S)
            await self._portal.stop(cancel_remaining=True)
            self._group.cancel_scope.cancel()


_running: weakref.WeakSet[BackgroundLoop] = weakref.WeakSet()


def _stop_all() -> None:
    for loop in tuple(_running):
        if loop.alive:
            loop.stop()


atexit.register(_stop_all)
