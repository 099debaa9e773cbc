"""The event loop, asyncio or trio: calls from other threads, timeouts, last work."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import get_ident
from time import monotonic
from typing import Any, Generic, Protocol, Self, TypeAlias, TypeVar, cast

import anyio

_A = TypeVar("_A")


CallSoon: TypeAlias = Callable[[Callable[[], object]], bool]
"""Have a function called on an event loop, from any thread; ``False`` when the loop has ended."""


def _trio_here() -> Any:
    """Return trio where it runs this task; another thread may be importing it."""
    trio = sys.modules.get("trio")
    if trio is None:
        return None
    is_running = getattr(getattr(trio, "lowlevel", None), "in_trio_run", None)
    return trio if is_running is not None and is_running() else None


def schedule_on_this_loop() -> Callable[[Callable[[], object]], object]:
    """Return a function that schedules a call on this loop, from any thread or signal.

    The function raises ``RuntimeError`` when the loop has ended.
    """
    trio = _trio_here()
    if trio is not None:
        return trio.lowlevel.current_trio_token().run_sync_soon  # type: ignore[no-any-return]
    return asyncio.get_running_loop().call_soon_threadsafe


def end_of_this_loop() -> Callable[[], bool]:
    """Return a function that tells whether this event loop was closed.

    In a forked process it has ended, since only the parent runs it. One of trio ends with all its tasks.
    """
    process = os.getpid()
    loop = asyncio._get_running_loop() if _trio_here() is None else None
    is_closed: Callable[[], bool] = bool if loop is None else loop.is_closed
    return lambda: is_closed() or os.getpid() != process


class LoopEvent(Protocol):
    """An event that tasks of one loop wait for."""

    def set(self) -> object:
        """Let the waiting tasks continue."""
        ...

    async def wait(self) -> object:
        """Wait until it is set."""
        ...


def event_on_this_loop() -> LoopEvent:
    """Return an event of this loop; an event of anyio takes four times as long."""
    trio = _trio_here()
    return asyncio.Event() if trio is None else trio.Event()


async def wait_whatever_happens(event: LoopEvent) -> None:
    """Wait for an event, which comes before the cancellation of a scope is noticed.

    The scope that shields it, which takes longer than the rest, is made for a cancellation alone.
    """
    try:
        await event.wait()
    except anyio.get_cancelled_exc_class():
        if anyio.current_effective_deadline() != -math.inf:
            raise  # of the task itself, which is told once; a scope tells again
        with anyio.CancelScope(shield=True):
            await event.wait()


def _time_of_this_loop() -> float:
    """Return the loop's time, also outside of its tasks."""
    trio = _trio_here()
    return asyncio.get_running_loop().time() if trio is None else trio.current_time()


def call_soon_on_this_loop(function: Callable[[], object]) -> None:
    """Call a function when the running task has waited for something."""
    trio = _trio_here()
    if trio is not None:
        trio.lowlevel.current_trio_token().run_sync_soon(function)
    else:
        asyncio.get_running_loop().call_soon(function)


def call_later_on_this_loop(delay_s: float, function: Callable[[], object]) -> Callable[[], object]:
    """Call a function that must not raise after seconds; return how to cancel that."""
    trio = _trio_here()
    if trio is None:
        return asyncio.get_running_loop().call_later(delay_s, function).cancel
    scope = anyio.CancelScope()

    async def wait() -> None:
        with scope:
            await trio.sleep(delay_s)
            function()

    trio.lowlevel.spawn_system_task(wait)
    return scope.cancel


_spawned: set[asyncio.Task[None]] = set()


def spawn_on_this_loop(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Start a task that no task group waits for, on this loop; it must not raise."""
    trio = _trio_here()
    if trio is not None:
        trio.lowlevel.spawn_system_task(body, context=contextvars.copy_context())
        return
    spawned = asyncio.get_running_loop().create_task(body())
    _spawned.add(spawned)  # the event loop itself holds tasks weakly
    spawned.add_done_callback(_spawned.discard)


def after_other_tasks(function: Callable[[], object]) -> None:
    """Call a function when all other tasks of this thread's loop have ended, or now.

    Those of trio have ended where the block around them has, so there the function is called now.
    """
    others: set[asyncio.Task[Any]] = set()
    if _trio_here() is None:
        with suppress(RuntimeError):  # without an event loop
            others = asyncio.all_tasks() - {asyncio.current_task()}

    def note(task: asyncio.Task[Any]) -> None:
        others.discard(task)
        if not others:
            function()

    for each in tuple(others):
        each.add_done_callback(note)
    if not others:
        function()


_TO_THE_END_S = 300.0
"""Seconds after the first cancellation for which work goes on; no service is waited for that long."""


async def to_the_end(work: Callable[[], Awaitable[_A]]) -> _A:
    """Return the result of work that no cancellation cuts off; one is raised after it.

    A shield of anyio holds back the scopes around it, but not ``Task.cancel()`` of asyncio, which comes again
    and again where a scope waits for this task. So there the work is a separate task that only this one
    knows: the end of the event loop cancels this one, and waits for it. The work should end by itself; after
    a cancellation it is cut off when minutes have passed.
    """
    returned: list[_A] = []
    raised: list[BaseException] = []
    if _trio_here() is not None:
        with anyio.CancelScope(shield=True):
            returned.append(await work())
        return returned[0]
    ended = asyncio.Event()

    async def do() -> None:
        try:
            returned.append(await work())
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            raised.append(error)
        finally:
            ended.set()

    context = contextvars.copy_context()
    task = _begun_task(do(), context)
    cancelled: asyncio.CancelledError | None = None
    forget: Callable[[], object] = bool
    if not ended.is_set():
        with anyio.CancelScope(shield=True):
            while not ended.is_set():
                try:
                    await ended.wait()
                except asyncio.CancelledError as error:
                    if cancelled is None:
                        forget = call_later_on_this_loop(_TO_THE_END_S, task.cancel)
                    cancelled = error
                except GeneratorExit:  # nothing waits for it any more, but the end of the event loop
                    asyncio._register_task(task)
                    raise
    forget()
    for variable, value in context.items():  # such as the current span of a trace, which the work has ended
        if variable.get(None) is not value:
            variable.set(value)
    try:
        if raised:
            raise raised[0]
        if cancelled is not None:
            raise cancelled
    finally:
        raised.clear()  # it refers to this frame, as the next does
        cancelled = None
    return returned[0]


def _begun_task(coroutine: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
    """Run a coroutine up to where it waits, and the rest as a task that is not listed.

    The first part runs here and now, as in an eager task of Python 3.12: what need not wait costs no turn of
    the event loop.
    """
    loop, here = asyncio.get_running_loop(), asyncio.current_task()
    rest = _Rest[None](coroutine.__await__())
    task: asyncio.Task[None] = asyncio.Task(cast(Any, rest), loop=loop, context=context)
    asyncio._unregister_task(task)
    _spawned.add(task)
    task.add_done_callback(_spawned.discard)
    if here is not None:
        asyncio._leave_task(loop, here)
    asyncio._enter_task(loop, task)
    try:
        context.run(rest.begin)
    finally:
        asyncio._leave_task(loop, task)
        if here is not None:
            asyncio._enter_task(loop, here)
    return task


def calls_on_this_loop() -> CallSoon:
    """Return a function that calls another on this event loop, from any thread.

    While the loop runs its own thread the function is called at once, else soon. Nothing waits for it.
    """
    schedule = schedule_on_this_loop()

    def call_soon(function: Callable[[], object]) -> bool:
        if _runs_here(schedule):
            function()
            return True
        try:
            schedule(function)
        except RuntimeError:  # the loop is closed
            return False
        return True

    return call_soon


def _runs_here(schedule: object) -> bool:
    try:
        return schedule_on_this_loop() == schedule
    except RuntimeError:  # this thread runs no loop now
        return False


class _Rest(Generic[_A], Generator[Any, Any, _A]):
    """The rest of a coroutine that waits for something, or has ended with ``None``."""

    def __init__(self, begun: Generator[Any, Any, _A], *waits_for: Any) -> None:
        self._begun = begun
        self._waits_for = [*waits_for]

    def begin(self) -> None:
        try:
            self._waits_for.append(next(self._begun))
        except StopIteration:
            self._begun = cast(Any, (each for each in range(0)))

    def __await__(self) -> Self:
        return self

    def send(self, value: Any) -> Any:
        return self._waits_for.pop() if self._waits_for else self._begun.send(value)

    def throw(self, *error: Any) -> Any:
        return self._begun.throw(*error)


async def within(
    seconds: float, running: Coroutine[Any, Any, _A], late: _A, *, timeout: Timeout | None = None
) -> _A:
    """Return the coroutine's result, or ``late`` when the timeout cancelled it.

    The timer is set when the coroutine waits for the first time, since one that never waits could not be
    cancelled.

    Args:
        timeout: the timeout, for code that may stop its time.
    """
    begun_at = monotonic()
    if timeout is not None:
        timeout._expires_at = begun_at + seconds
    with anyio.CancelScope() as scope:
        begun = running.__await__()
        returned: _A
        try:
            waits_for = next(begun)
        except StopIteration as ended:
            returned = ended.value
        else:
            left_s = seconds - (monotonic() - begun_at)
            if timeout is None:
                scope.deadline = _time_of_this_loop() + left_s
            else:
                timeout.begin(scope, left_s)
            returned = await _Rest(begun, waits_for)
        return returned
    return late


class Timeout:
    """A timeout whose time stands still during a wait for people.

    It belongs to the event loop on which it is created; any thread may use it.
    """

    def __init__(self) -> None:
        self._call_soon = calls_on_this_loop()
        self._thread = get_ident()
        self._scope: anyio.CancelScope | None = None
        self._left_s = math.inf
        self._stops = 0
        self._expires_at = math.inf
        self._is_cut_off = False
        self._handlers: list[Callable[[], object]] = []

    def begin(self, scope: anyio.CancelScope, left_s: float) -> None:
        """Cancel the scope when the seconds have passed."""
        self._scope, self._left_s = scope, left_s
        if not self._stops:
            scope.deadline = _time_of_this_loop() + left_s

    def stop(self) -> None:
        """Let no time pass until :meth:`go_on` is called as often."""
        self._call_soon(self._stop)

    def go_on(self) -> None:
        """Let the time pass again, after as many calls of :meth:`stop`."""
        self._call_soon(self._go_on)

    def cut_off(self) -> None:
        """Call the handlers, since the code under the timeout runs on in its thread."""
        self._is_cut_off = True
        for handler in tuple(self._handlers):
            handler()

    def on_cut_off(self, handler: Callable[[], object]) -> Callable[[], None]:
        """Register a handler, which may be called twice; return a function to remove it."""
        self._handlers.append(handler)
        if self._is_cut_off:
            handler()
        return lambda: self._handlers.remove(handler)

    def blocked_s(self) -> float:
        """Return the seconds that are left if this thread blocks the event loop."""
        return self._expires_at - monotonic() if self._thread == get_ident() else math.inf

    def _stop(self) -> None:
        self._stops += 1
        if self._stops == 1 and self._scope is not None:
            self._left_s = self._scope.deadline - _time_of_this_loop()
            self._scope.deadline = math.inf

    def _go_on(self) -> None:
        self._stops -= 1
        if not self._stops and self._scope is not None:
            self._scope.deadline = _time_of_this_loop() + self._left_s


TIMEOUTS: ContextVar[tuple[Timeout, ...]] = ContextVar("timeouts", default=())
"""The timeouts of the tool calls, and of the step of a persona, within which this code runs."""


@contextmanager
def cut_off_with_caller(seconds: float = math.inf) -> Iterator[None]:
    """Cancel the block with the tool call that it is part of, or after seconds."""
    call_soon = calls_on_this_loop()
    with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
        registered = [each.on_cut_off(partial(call_soon, scope.cancel)) for each in TIMEOUTS.get()]
        try:
            yield
        finally:
            for unregister in registered:
                unregister()


def blocked_seconds() -> float:
    """Return how many seconds this event loop may be blocked by its timeouts."""
    left = math.inf
    with suppress(RuntimeError):  # in a callback, which has no deadline
        left = anyio.current_effective_deadline() - anyio.current_time()
    return min((left, *(each.blocked_s() for each in TIMEOUTS.get())))
