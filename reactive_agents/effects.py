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
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, TypeAlias, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel
import anyio.to_thread
from attrs import frozen
from returns.future import FutureResult
from returns.io import IO, IOResult
from returns.primitives.exceptions import UnwrapFailedError
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
        """Return ``None``, or raise ``UnwrapFailedError`` with the error as its note."""
        try:
            self.result.unwrap()
        except UnwrapFailedError as failed:
            failed.add_note(str(getattr(self.failure(), "message", self.failure())))
            raise

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

    @property
    def has_calls(self) -> bool:
        """Whether a call was named in this branch."""
        return bool(self._counts)

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
