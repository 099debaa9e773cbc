"""The effect vocabulary: a typed computation that may fail, built now and run when awaited.

Everything that touches the world is described by an :data:`Effect`; everything that decides is a plain
function. Errors are values: an effect ends in ``Success(value)`` or ``Failure(error)``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

import anyio
from returns.future import FutureResult
from returns.io import IO, IOResult
from returns.result import Failure, Result
from returns.unsafe import unsafe_perform_io

_A = TypeVar("_A")
_E = TypeVar("_E")
_P = ParamSpec("_P")

Effect: TypeAlias = FutureResult[_A, _E]
"""A computation that ends in an ``_A`` or a typed failure ``_E``. Nothing runs until it is awaited; once."""


def effect(body: Callable[_P, Coroutine[Any, Any, Result[_A, _E]]]) -> Callable[_P, Effect[_A, _E]]:
    """Turn an ``async def`` that returns a ``Result`` into a function that returns an :data:`Effect`.

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


async def attempt(pending: Awaitable[IOResult[_A, _E]]) -> Result[_A, _E]:
    """Run an effect and return its plain ``Result``. The only place that unwraps ``IO``."""
    return unsafe_perform_io(IO.from_ioresult(await pending))


async def gather(
    effects: Sequence[Effect[_A, _E]], *, limit: int | None = None, fail_fast: bool = False
) -> tuple[Result[_A, _E], ...]:
    """Run effects concurrently; their results come back in the order of the effects.

    Args:
        effects: what to run; each is awaited exactly once, or cancelled with ``fail_fast``.
        limit: how many may be under way at once, 1 or more; ``None`` means all of them.
        fail_fast: the first failure cancels the effects that are still under way, and only the results that
            exist by then come back. By default every sibling finishes and its result is kept.
    """
    if len(effects) == 1:
        return (await attempt(effects[0]),)
    results: list[Result[_A, _E] | None] = [None] * len(effects)
    limiter = anyio.CapacityLimiter(limit) if limit is not None else None

    async with anyio.create_task_group() as group:

        async def run_one(index: int, pending: Effect[_A, _E]) -> None:
            if limiter is None:
                result = await attempt(pending)
            else:
                async with limiter:
                    result = await attempt(pending)
            results[index] = result
            if fail_fast and isinstance(result, Failure):
                group.cancel_scope.cancel()

        for index, pending in enumerate(effects):
            group.start_soon(run_one, index, pending)
    return tuple(result for result in results if result is not None)
