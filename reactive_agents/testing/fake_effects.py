"""Effects of fakes, which fail as the fake's ``fails_with`` says."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from returns.result import Failure, Result

from reactive_agents.effects import Effect, effect

_A = TypeVar("_A")
_E = TypeVar("_E")
_P = ParamSpec("_P")


def fake_effect(body: Callable[_P, Coroutine[Any, Any, Result[_A, _E]]]) -> Callable[_P, Effect[_A, _E]]:
    """Make a method of a fake an effect, which fails while ``fails_with`` is set."""

    @effect
    @wraps(body)
    async def build(*args: _P.args, **kwargs: _P.kwargs) -> Result[_A, _E]:
        error = cast(Any, args[0]).fails_with
        return await body(*args, **kwargs) if error is None else Failure(error)

    return build
