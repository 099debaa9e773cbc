"""An event loop in a thread, for services that outlive their caller's loop.

An agent may be used from many event loops, one after the other or at once (``run_sync`` uses a loop for each
call), but a connection to a server belongs to the loop that opened it. A service with such connections keeps
them on a background loop, and can be called from any loop. The background loop always uses asyncio.
"""

from __future__ import annotations

import atexit
import contextvars
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup

from reactive_agents.effects import CallSoon, calls_on_this_loop

_T = TypeVar("_T")

_LAST_CALLS_S = 1.0
_STOP_S = 15.0
_POLL_S = 0.005


class LoopStopped(Exception):
    """The background loop was stopped before the call ended."""


class _Call(Generic[_T]):
    """A coroutine on the background loop, and its caller, which waits on another loop."""

    def __init__(self, body: Callable[[], Coroutine[Any, Any, _T]]) -> None:
        self.ended = anyio.Event()
        self._wake = calls_on_this_loop()
        self._body = body
        self._cancelled = False
        self._scope: anyio.CancelScope | None = None
        self._values: list[_T] = []
        self._error: Exception | None = LoopStopped("the background loop was stopped")

    async def run(self) -> None:
        """Run the body on the background loop; raises only on cancellation."""
        try:
            with anyio.CancelScope() as self._scope:
                if self._cancelled:
                    self._scope.cancel()
                self._values.append(await self._body())
                self._error = None
        except Exception as error:  # noqa: BLE001 - it is raised where the call was made
            self._error = error

    def cancel(self) -> None:
        """Cancel the body; on the background loop."""
        self._cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def end(self) -> None:
        """Wake the caller, from any thread."""
        self._wake(self.ended.set)

    def value(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._values[0]


class BackgroundLoop:
    """An asyncio event loop in a daemon thread, from :meth:`start` to :meth:`stop`.

    At the end of the program, running calls are cancelled and have 15 seconds to clean up.
    """

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._process = os.getpid()
        self._ready = threading.Event()
        self._lock = threading.Lock()
        self._calls: set[_Call[Any]] = set()
        self._ended = False
        self._call_soon: CallSoon = lambda _: False
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
        """Await ``function(*arguments)`` on the background loop, from any event loop.

        A cancellation is passed on, and its end is awaited. The function sees the caller's context variables.

        Raises:
            LoopStopped: the loop is not running.
        """
        call = _Call(lambda: function(*arguments))
        context = contextvars.copy_context()
        with self._lock:
            if not self.alive:
                raise LoopStopped("the background loop was stopped")
            self._calls.add(call)
        self._call_soon(lambda: context.run(self._begin, call))
        try:
            await call.ended.wait()
        except BaseException:
            self._call_soon(call.cancel)
            with anyio.CancelScope(shield=True):
                await call.ended.wait()
            raise
        return call.value()

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
            with self._lock:
                self._ended = True
                calls, self._calls = self._calls, set()
            self._ready.set()  # also of a loop that could not be created
            for call in calls:  # calls that came too late to begin
                call.end()

    async def _serve(self) -> None:
        async with anyio.create_task_group() as self._group:
            self._call_soon, self._stopping = calls_on_this_loop(), anyio.Event()
            self._ready.set()
            await self._stopping.wait()
            with anyio.move_on_after(_LAST_CALLS_S):  # cancelled calls can still report to their callers
                while self._calls:  # noqa: ASYNC110 - other threads add calls
                    await anyio.sleep(_POLL_S)
            self._group.cancel_scope.cancel()

    def _begin(self, call: _Call[Any]) -> None:
        with suppress(ImportError):  # set by trio only, and must not be passed on with the context
            import sniffio

            sniffio.current_async_library_cvar.set("asyncio")
        try:
            self._group.start_soon(self._run, call)
        except RuntimeError:  # the group has ended
            self._discard(call)

    async def _run(self, call: _Call[Any]) -> None:
        try:
            await call.run()
        finally:
            self._discard(call)

    def _discard(self, call: _Call[Any]) -> None:
        with self._lock:
            self._calls.discard(call)
        call.end()


_running: weakref.WeakSet[BackgroundLoop] = weakref.WeakSet()


def _stop_all() -> None:
    for loop in tuple(_running):
        if loop.alive:
            loop.stop()


atexit.register(_stop_all)
