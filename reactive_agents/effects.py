"""Effects: typed computations that may fail, built now and run when awaited.

Everything that touches the world is described by an :data:`Effect`; everything that decides is a plain
function. Errors are values: an effect ends in ``Success(value)`` or ``Failure(error)``.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import math
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial, wraps
from threading import get_ident
from time import monotonic
from typing import Any, Generic, ParamSpec, Protocol, Self, TypeAlias, TypeVar, cast

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
from attrs import frozen
from returns.future import FutureResult
from returns.io import IO, IOResult
from returns.primitives.reawaitable import ReAwaitable
from returns.result import Failure, Result, Success
from returns.unsafe import unsafe_perform_io

_log = logging.getLogger("reactive_agents")

_A = TypeVar("_A")
_E = TypeVar("_E")
_P = ParamSpec("_P")


Effect: TypeAlias = FutureResult[_A, _E]
"""A computation that ends in an ``_A`` or a typed failure ``_E``. Nothing runs until it is awaited.

It runs once, and gives the same result when it is awaited again: what must be run again is a function that
makes an effect.
"""


def effect(body: Callable[_P, Coroutine[Any, Any, Result[_A, _E]]]) -> Callable[_P, Effect[_A, _E]]:
    """Make an ``async def`` a function that returns an :data:`Effect`.

    >>> import anyio
    >>> from returns.result import Success
    >>> @effect
    ... async def double(number: int) -> Result[int, str]:
    ...     return Success(number * 2)
    >>> anyio.run(attempt, double(21))
    <Success: 42>
    """

    @wraps(body)
    def build(*args: _P.args, **kwargs: _P.kwargs) -> Effect[_A, _E]:
        return FutureResult(body(*args, **kwargs))

    return build


@frozen
class Settled(Generic[_E]):
    """The result of an operation that took effect at once; it may be awaited too.

    >>> Settled(Success(None)).unwrap()
    """

    result: Result[None, _E]

    def __await__(self) -> Generator[Any, Any, Result[None, _E]]:
        return self.result
        yield

    def unwrap(self) -> None:
        """Return ``None``, or raise ``UnwrapFailedError`` when it had no effect."""
        self.result.unwrap()

    def failure(self) -> _E:
        """Return the error, or raise ``UnwrapFailedError`` when it took effect."""
        return self.result.failure()


async def call_function(
    function: Callable[..., Any], *args: Any, limiter: anyio.CapacityLimiter | None = None
) -> Any:
    """Return the value of a program's function, plain or ``async``.

    An ``async`` function runs on this event loop, a plain one in a worker thread, since it may block. When
    this is cancelled, the thread runs to its end.

    Args:
        limiter: limits the threads, instead of the usual one.
    """
    if inspect.iscoroutinefunction(function):
        return await outcome_of(function(*args))
    calling = partial(_called, function, args)
    (value,) = await outcome_of(anyio.to_thread.run_sync(calling, abandon_on_cancel=True, limiter=limiter))
    return await awaited(value)


async def awaited(returned: Any) -> Any:
    """Return what a program's function, plain or ``async``, returned."""
    return await outcome_of(returned) if inspect.isawaitable(returned) else returned


async def outcome_of(pending: Awaitable[_A]) -> _A:
    """Await the value that a program's function returned.

    Raises:
        RuntimeError: something that it waited for was cancelled, although this task was not.
    """
    try:
        return await pending
    except anyio.get_cancelled_exc_class() as error:
        if is_cancelled():
            raise
        raise RuntimeError("something that it waited for was cancelled") from error


def _called(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any]:
    try:
        return (function(*args),)  # in a tuple, since trio refuses what is to be awaited
    except StopIteration as error:  # a future does not take it
        raise RuntimeError("StopIteration") from error


async def attempt(pending: Awaitable[IOResult[_A, _E]]) -> Result[_A, _E]:
    """Run an effect, and return its plain ``Result``.

    This is the only place that unwraps ``IO``. A coroutine with a plain ``Result``, from an ``async def``
    without :func:`effect`, is accepted too.
    """
    if isinstance(pending, FutureResult):  # holds an awaitable of the result, without a detour by IO
        held: Result[_A, _E] = await pending._inner_value
        return held
    result: Any = await pending
    return unsafe_perform_io(IO.from_ioresult(result)) if isinstance(result, IOResult) else result


@frozen
class BrokenContract:
    """A function raised, or returned no effect.

    Attributes:
        problem: what it did, such as "raised ValueError: 3", to follow the function's name.
    """

    problem: str


async def attempt_foreign(
    function: Callable[_P, object], expected: type, *args: _P.args, **kwargs: _P.kwargs
) -> Result[Any, Any] | BrokenContract:
    """Run an effect of foreign code, such as a custom kernel or strategy.

    Returns:
        The plain ``Result`` of the effect. ``BrokenContract`` when the function raised or returned no effect,
        or when the effect ended in anything but a success of the expected type or an error with a
        ``message``. An exception is logged with its traceback. A cancellation of the running task passes
        through; a cancellation of something that the function waited for counts as an exception.
    """
    try:
        pending = function(*args, **kwargs)
        if isinstance(pending, FutureResult):
            result: Any = await pending._inner_value
        elif isinstance(pending, Awaitable):
            result = await attempt(pending)
        else:
            kind = type(pending).__name__
            return BrokenContract(f"returned {kind}, expected an effect: an async function with @effect.")
    except (Exception, anyio.get_cancelled_exc_class()) as error:  # whatever a user's function raises
        if not isinstance(error, Exception) and is_cancelled():
            raise
        _log.warning("%s raised.", getattr(function, "__qualname__", function), exc_info=True)
        return BrokenContract(f"raised {type(error).__name__}: {error}")
    if isinstance(result, Success):  # not a match statement, which takes three times as long
        value = result.unwrap()
        if isinstance(value, expected):
            return result
        return BrokenContract(f"returned Success({type(value).__name__}), expected {expected.__name__}.")
    if not isinstance(result, Failure):
        kind = type(result).__name__
        return BrokenContract(f"returned {kind}, expected Success({expected.__name__}) or a Failure.")
    failed = result.failure()
    if hasattr(failed, "message"):
        return result
    kind = type(failed).__name__
    return BrokenContract(f"failed with {kind}, which is no typed error: {failed!r:.100}")


class Branch:
    """A position in the structure of a run's calls, by which each call has a name.

    The name of a call depends on what was called before it in its branch, and not on how concurrent branches
    were scheduled: the same run calls by the same names. :func:`gather` gives each of its effects a branch.

    Attributes:
        path: the path from the root, whose path is empty; a branch's path ends with a slash.
    """

    __slots__ = ("_counts", "path")

    def __init__(self, path: str = "") -> None:
        self.path = path
        self._counts: dict[str, int] = {}

    def name(self, kind: str) -> str:
        """Return the name of the next call of a kind in this branch."""
        self._counts[kind] = number = self._counts.get(kind, 0) + 1
        return f"{self.path}{kind}{number}"

    def next(self, kind: str) -> str:
        """Return the name that the next call of a kind in this branch will have."""
        return f"{self.path}{kind}{self._counts.get(kind, 0) + 1}"

    def fork(self, name: str) -> Branch:
        """Return a new branch of that name."""
        return Branch(f"{name}/")

    def join(self, branches: Sequence[Branch]) -> None:
        """Continue after the branches have ended."""

    async def begin_function(self) -> None:
        """Note the recorded calls that a function of the program has to make again."""

    def hold_to_record(self, kind: str) -> None:
        """Raise if a new call, or the end of the branch, leaves out a recorded call.

        Args:
            kind: that of the next call; empty at the end.
        """

    @property
    def is_repeated(self) -> bool:
        """Whether a function of the program has been here before, by the record."""
        return False

    async def once(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the result of a service's call, from a record if it is there."""
        return await call()


BRANCH: contextvars.ContextVar[Branch | None] = contextvars.ContextVar("branch", default=None)
"""The branch of the run under way; ``None`` where calls need no names."""


def branched(effects: Sequence[Effect[_A, _E]]) -> Sequence[Effect[_A, _E]]:
    """Return the effects, each in a new branch if calls have names."""
    current = BRANCH.get()
    if current is None:
        return effects
    name = current.name("g")
    branches = [current.fork(f"{name}.{index}") for index in range(len(effects))]

    async def within_branch(branch: Branch, pending: Effect[_A, _E]) -> Result[_A, _E]:
        token = BRANCH.set(branch)
        try:
            return await attempt(pending)
        finally:
            BRANCH.reset(token)
            current.join((branch,))

    return [FutureResult(within_branch(*each)) for each in zip(branches, effects, strict=True)]


async def gather(
    effects: Sequence[Effect[_A, _E]], *, limit: int | None = None
) -> tuple[Result[_A, _E], ...]:
    """Run effects concurrently; return their results in the order of the effects.

    An exception in an effect cancels the others and propagates by itself, not in a group; of several at once,
    the first. However this ends, no effect is still running then.

    Args:
        effects: each is awaited exactly once, or never when it is stopped before its turn.
        limit: maximum number of running effects, 1 or more; ``None`` for all.

    Raises:
        ValueError: when ``limit`` is below 1; nothing has run then.
    """
    if len(effects) == 1 and (limit is None or limit >= 1):  # begun at once: there is nothing to discard
        return (await attempt(effects[0]),)
    try:
        if limit is not None and limit < 1:
            raise ValueError(f"limit: got {limit}, expected 1 or more")
        effects = branched(effects)
        return await _run_all(effects, len(effects) if limit is None else limit)
    finally:
        for pending in effects:
            _discard(pending)


async def _run_all(effects: Sequence[Effect[_A, _E]], limit: int) -> tuple[Result[_A, _E], ...]:
    results: list[Result[_A, _E] | None] = [None] * len(effects)
    waiting = iter(enumerate(effects))
    raised: list[BaseException] = []

    async def work_off(scope: anyio.CancelScope) -> None:
        try:
            while True:
                await anyio.lowlevel.checkpoint_if_cancelled()
                match next(waiting, None):
                    case None:
                        return
                    case (index, pending):
                        results[index] = await attempt(pending)
        except anyio.get_cancelled_exc_class() as error:
            if scope.cancel_called or is_cancelled():
                raise
            cancelled = RuntimeError("an effect waited for something that was cancelled")
            cancelled.__cause__ = error
            raised.append(cancelled)  # or its result would be missing, and the others be in its place
            scope.cancel()
        except BaseException as error:  # noqa: BLE001 - raised below: sys.exit() in a task ends its event loop
            raised.append(error)
            scope.cancel()

    async with anyio.create_task_group() as group:
        for _ in range(min(limit, len(effects))):
            group.start_soon(work_off, group.cancel_scope)
    if raised:
        raise raised[0]
    return tuple(result for result in results if result is not None)


@asynccontextmanager
async def task_group() -> AsyncIterator[anyio.abc.TaskGroup]:
    """Open a task group, and wait for its tasks at the end of the block.

    An exception of the block cancels them, and propagates by itself, or in a group with those of the tasks.
    """
    raised: list[BaseException] = []
    try:
        async with anyio.create_task_group() as group:
            try:
                yield group
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:
                raised.append(error)
                raise
    except BaseExceptionGroup as errors:
        if errors.exceptions != tuple(raised):  # tasks raised too
            raise
    if raised:
        raise raised[0]


@asynccontextmanager
async def beside(work: Callable[[anyio.CancelScope], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run a task beside the block, until the block ends.

    The task may cancel the block by the scope that it is given.
    """
    async with task_group() as group:
        group.start_soon(work, group.cancel_scope)
        yield
        group.cancel_scope.cancel()


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
                scope.deadline = anyio.current_time() + left_s
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
            scope.deadline = anyio.current_time() + left_s

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
"""The timeouts of the tool calls within which this code runs."""


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


def is_cancelled() -> bool:
    """Return whether the running task is being cancelled.

    If so, it must pass on the cancellation that it catches. Code that awaits another, cancelled task gets the
    same exception without being cancelled itself. On asyncio the scopes of anyio count as well, as soon as
    they have reached the task.
    """
    if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
        task, error = asyncio.current_task(), sys.exception()
        if task is not None and task.cancelling() and sys.version_info < (3, 13):
            _take_back_cancellations(error, task)
        return task is not None and (task.cancelling() > 0 or _passed_gather(error))
    return anyio.current_effective_deadline() == -math.inf


def _take_back_cancellations(error: BaseException | None, task: asyncio.Task[Any]) -> None:
    """Take back the cancellations that task groups have left in their host.

    A task of ``asyncio.TaskGroup`` that fails while the host waits for it at the end of the block leaves the
    host counted as cancelled, though the failure is all that it raises.
    """
    trace = None if error is None else error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is asyncio.TaskGroup.__aexit__.__code__:
            within: Any = trace.tb_frame.f_locals
            group = within["self"]
            is_left = group._parent_cancel_requested and within["et"] is not asyncio.CancelledError
            if is_left and group._parent_task is task and task.cancelling():
                group._parent_cancel_requested = False  # once
                task.uncancel()
        trace = trace.tb_next
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            _take_back_cancellations(each, task)
    if error is not None and error.__context__ is not None:
        _take_back_cancellations(error.__context__, task)


def _passed_gather(error: BaseException | None) -> bool:
    """Return whether a cancellation comes from :func:`gather`, which ends its tasks.

    The task group may have taken back the count of ``Task.cancel()`` of its host, as if it had cancelled the
    host itself: where a task of the group left a group below that was cancelled.
    """
    trace = error.__traceback__ if isinstance(error, asyncio.CancelledError) else None
    while trace is not None and trace.tb_frame.f_code is not _run_all.__code__:
        trace = trace.tb_next
    return trace is not None


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


def _discard(pending: object) -> None:
    """Close an effect that was never started, so that no warning is raised."""
    if isinstance(pending, FutureResult):
        pending = pending._inner_value
    if isinstance(pending, ReAwaitable):
        pending = pending._coro
    if inspect.iscoroutine(pending) and inspect.getcoroutinestate(pending) == inspect.CORO_CREATED:
        made_of = tuple(inspect.getcoroutinelocals(pending).values())
        pending.close()
        for part in made_of:
            _discard(part)
