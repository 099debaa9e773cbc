"""The values of a kernel state: of the declared types, and such as JSON can hold.

A state that custom code made may hold anything, and would fail later, in a policy or when it is stored, far
from who made it. Only what changed is looked at, and of what grew only the new part, so that a check costs as
much as the change.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import attrs
from returns.result import Failure

from reactive_agents.core.codec import abbreviated, decode, encode
from reactive_agents.core.errors import FieldProblem
from reactive_agents.core.persistent import PersistentList, PersistentMap, PersistentSet

_T = TypeVar("_T")


def wrong_value(old: _T, new: _T) -> FieldProblem | None:
    """Return the first changed value that is of a wrong type or has no JSON form.

    Its path begins with the name of a field.
    """
    return _in_fields(type(old), old, new, "")


def _in_fields(kind: type, before: object, after: object, path: str) -> FieldProblem | None:
    for name, field_kind in _kinds(kind).items():
        inner = f"{path}.{name}" if path else name
        problem = _wrong(field_kind, getattr(before, name, None), getattr(after, name), inner)
        if problem is not None:
            return problem
    return None


@cache
def _kinds(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in attrs.fields(kind)}


def _wrong(kind: Any, before: object, after: object, path: str) -> FieldProblem | None:
    if after is before:
        return None
    if attrs.has(kind):
        if type(after) is kind:
            return _in_fields(kind, before, after, path)
        return FieldProblem(path, f"got {abbreviated(after)}, expected {_named(kind)}")
    try:
        added = _added(kind, before, after)
        decoded = decode(encode(added, kind), kind)
        equal = isinstance(decoded, Failure) or bool(decoded.unwrap() == added)
    except Exception:  # noqa: BLE001 - the value is an arbitrary object, which may raise on any use
        return FieldProblem(path, f"got {abbreviated(after)}, expected {_named(kind)}")
    if isinstance(decoded, Failure):
        problem = decoded.failure().problems[0]
        return FieldProblem(path + problem.path.removeprefix("$"), problem.problem)
    return None if equal else FieldProblem(path, f"got {abbreviated(after)}, expected {_named(kind)}")


def _added(kind: Any, before: Any, after: Any) -> Any:
    """Return the part of a growing collection that came on top; else the value."""
    origin = get_origin(kind)
    if origin is PersistentList:
        after = tuple(after) if isinstance(after, list) else after
        return (
            after[len(before) :] if isinstance(after, PersistentList) and after.starts_with(before) else after
        )
    if isinstance(after, PersistentMap | PersistentSet):
        return after.added_to(before)
    if origin is tuple and isinstance(after, tuple) and isinstance(before, tuple):
        return after[len(before) :] if after[: len(before)] == before else after
    return after


def _named(kind: Any) -> str:
    arguments = get_args(kind)
    if kind is type(None):
        return "None"
    if not arguments:
        return getattr(kind, "__name__", str(kind))
    origin = get_origin(kind)
    if not isinstance(origin, type) or origin.__module__ == "types":
        return " or ".join(_named(each) for each in arguments)
    return f"a {origin.__name__} of {', '.join(_named(each) for each in arguments if each is not ...)}"
