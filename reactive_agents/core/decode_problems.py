"""What a decoder found wrong, and where: exceptions on the inside, a flat list of problems on the outside."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import attrs
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError

from reactive_agents.core.errors import FieldProblem

MOST_PROBLEMS = 20
"""Problems that are named one by one; a last one then says that there are more."""

_SHOWN_CHARACTERS = 80


class WrongValue(ValueError):
    """Says what came and what was expected. ``at``: where, from the value that the decoder was given."""

    def __init__(self, value: object, expected: str, *, at: str = "") -> None:
        super().__init__(f"got {shown(value)}, expected {expected}")
        self.at = at

    def inside(self, place: object) -> WrongValue:
        """The same, seen from the array or object that holds the value at ``place``."""
        self.at = f"[{shown(place)}]{self.at}"
        return self


def problems_of(error: BaseException) -> tuple[FieldProblem, ...]:
    """The problems that an exception out of the decoder stands for, in the order of the fields."""
    found = tuple(islice(_walk(error, "$"), MOST_PROBLEMS + 1))
    if len(found) <= MOST_PROBLEMS:
        return found
    return (*found[:MOST_PROBLEMS], FieldProblem("$", "there are more problems"))


def _walk(error: BaseException, path: str) -> Iterator[FieldProblem]:
    match error:
        case ClassValidationError():
            named, unnamed = error.group_exceptions()
            for inner, field in named:
                yield from _walk(inner, f"{path}.{field.name}")
        case IterableValidationError():
            items, unnamed = error.group_exceptions()
            for inner, item in items:
                yield from _walk(inner, f"{path}[{shown(item.index)}]")
        case WrongValue():
            unnamed = []
            yield FieldProblem(path + error.at, str(error))
        case ForbiddenExtraKeysError():
            unnamed = []
            known = ", ".join(field.name for field in attrs.fields(error.cl)) or "none"
            for name in sorted(error.extra_fields, key=str):
                yield FieldProblem(path + _field(name), f"unknown field; known fields: {known}")
        case _:
            unnamed = []
            yield FieldProblem(path, _describe(error))
    for inner in unnamed:
        yield from _walk(inner, path)


def _describe(error: BaseException) -> str:
    match error:
        case KeyError():
            return "required field missing"
        case RecursionError():
            return "nested too deeply"
        case _:
            return str(error) or type(error).__name__


def _field(name: object) -> str:
    plain = isinstance(name, str) and name.isidentifier() and len(name) <= 40
    return f".{name}" if plain else f"[{shown(name)}]"


def shown(value: object) -> str:
    """A short form of any JSON value: a container by its size, a long text by its beginning."""
    match value:
        case dict():
            return f"an object of {len(value)} fields" if len(value) != 1 else "an object of 1 field"
        case list() | tuple():
            return f"an array of {len(value)} items" if len(value) != 1 else "an array of 1 item"
        case int() if value.bit_length() > 200:
            return f"an integer of {value.bit_length()} bits"
        case str() if len(value) > _SHOWN_CHARACTERS:
            return repr(value[: _SHOWN_CHARACTERS - 3]) + "..."
        case None | bool() | int() | float() | str():
            return repr(value)
        case _:
            return f"a {type(value).__name__}"
