"""An effect takes the arguments that its body takes, in all the ways there are, and refuses all others."""

from __future__ import annotations

import asyncio
import inspect
from inspect import Parameter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from returns.result import Result, Success

from reactive_agents.effects import attempt, effect

KINDS = (
    Parameter.POSITIONAL_ONLY,
    Parameter.POSITIONAL_OR_KEYWORD,
    Parameter.VAR_POSITIONAL,
    Parameter.KEYWORD_ONLY,
    Parameter.VAR_KEYWORD,
)
NAMES = ("a", "b", "c", "d", "_made", "self")


@st.composite
def bodies(draw: st.DrawFn) -> Any:
    """An async function with parameters of any kinds, which gives what it got."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    kinds = sorted(draw(st.lists(st.sampled_from(KINDS), min_size=len(names), max_size=len(names))))
    parameters, has_default = [], False
    for name, kind in zip(names, kinds, strict=True):
        if kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            if all(each.kind != kind for each in parameters):
                parameters.append(Parameter(name, kind))
            continue
        chosen = draw(st.booleans())
        has_default = chosen or (has_default and kind != Parameter.KEYWORD_ONLY)
        default = 0 if (chosen if kind == Parameter.KEYWORD_ONLY else has_default) else Parameter.empty
        parameters.append(Parameter(name, kind, default=default))
    got = ", ".join(each.name for each in parameters)
    known: dict[str, Any] = {"Success": Success}
    exec(f"async def body{inspect.Signature(parameters)}:\n return Success([{got}])", known)
    return known["body"]


def outcome(function: Any, *args: Any, **kwargs: Any) -> Result[Any, str]:
    try:
        made = function(*args, **kwargs)
    except TypeError as error:
        return Success(str(error))
    given_back: Result[Any, str] = asyncio.run(made if inspect.iscoroutine(made) else attempt(made))
    return given_back


@given(
    bodies(),
    st.lists(st.integers(1, 9), max_size=4),
    st.dictionaries(st.sampled_from([*NAMES, "other"]), st.integers(1, 9), max_size=3),
)
def test_it_gets_what_its_body_would_get(body: Any, args: list[int], kwargs: dict[str, int]) -> None:
    made = effect(body)
    assert inspect.signature(made) == inspect.signature(body)
    ours, theirs = outcome(made, *args, **kwargs), outcome(body, *args, **kwargs)
    said, expected = ours.unwrap(), theirs.unwrap()
    assert said == expected or (isinstance(said, str) and isinstance(expected, str))
