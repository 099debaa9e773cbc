"""Redaction of all texts inside of values, and copies for event handlers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from enum import Enum
from functools import lru_cache
from operator import attrgetter, is_
from types import UnionType
from typing import Any, Literal, TypeAlias, TypeVar, Union, cast, get_args, get_origin

import attrs
from attrs import frozen

from reactive_agents.core.bases import Event
from reactive_agents.core.content import Digest
from reactive_agents.core.events import (
    ExecutionCancelled,
    ExecutionHookFired,
    ExecutionLoopIteration,
    ExecutionPhaseEntered,
)
from reactive_agents.core.ids import PlanId, RunId, SessionId, StepId, TaskId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.values import Value

_T = TypeVar("_T")

_NEVER_TEXT = (int, float, bool, bytes, type(None), Digest, RunId, TaskId, SessionId, StepId, PlanId)
"""Also the ids that come from the id source; those of calls and agents are other people's texts."""

_Names: TypeAlias = tuple[object, ...]
"""Types of text that is never redacted."""


OF_FIXED_NAMES: frozenset[type[Event]] = frozenset(
    {ExecutionPhaseEntered, ExecutionHookFired, ExecutionLoopIteration, ExecutionCancelled}
)
"""Events without a text of anybody: names of phases and timings alone. They are the most frequent."""


@frozen(eq=False, repr=False)
class _Plan(Value):
    """The fields of a class that are redacted.

    ``texts`` reads those that hold a text or ``None``, of ``text_names``. ``json_names`` have JSON data, and
    ``other_names`` anything else that may have texts in it.
    """

    texts: Callable[[Any], tuple[str | None, ...]] | None
    text_names: tuple[str, ...]
    json_names: tuple[str, ...]
    other_names: tuple[str, ...]
    is_flat: bool


_NOTHING = _Plan(None, (), (), (), is_flat=True)


class ValueRedactor:
    """Redacts attrs values and collections.

    A value without secrets stays the same object.

    Args:
        redactor: removes the secrets from each text.
        names: further types of text that stay unchanged, because records refer to each other by them.
        copies: whether lists and dictionaries are copied, so that who gets the value may change them.
    """

    def __init__(self, redactor: Redactor, *, names: _Names = (), copies: bool = False) -> None:
        self._redactor = redactor
        self._copies = copies
        self._names = (*_NEVER_TEXT, *names)
        self._is_known_clean = redactor.is_known_clean
        self._plans: dict[type, _Plan] = dict.fromkeys(OF_FIXED_NAMES, _NOTHING)

    def redacted(self, value: _T) -> _T:
        """Return the value with every text redacted; ids stay unchanged."""
        plan = self._plans.get(type(value))
        if plan is None:
            return cast(_T, self._without_plan(value))
        texts = plan.texts
        clean = texts is None or self._is_known_clean(texts(value))
        if clean and plan.is_flat:
            return value
        changes = {} if clean else self._changed_texts(value, plan)
        for name in plan.other_names:
            old = getattr(value, name)
            if old:
                new = self.redacted(old)
                if new is not old:
                    changes[name] = new
        for name in plan.json_names:
            old = getattr(value, name)
            new = self._redactor.redact_json(old)
            if self._copies or new != old:
                changes[name] = new
        return attrs.evolve(value, **changes) if changes else value  # type: ignore[misc]

    def _without_plan(self, value: Any) -> Any:
        if type(value) is str:
            return self._redactor.redact(value)
        if attrs.has(type(value)):
            kind: type = type(value)
            self._plans[kind] = _plan_of(kind, self._names)
            return self.redacted(value)
        return self._collection(value)

    def _changed_texts(self, value: object, plan: _Plan) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        for name in plan.text_names:
            old = getattr(value, name)
            if isinstance(old, str):
                new = self._redactor.redact(old)
                if new is not old:
                    changes[name] = new
        return changes

    def _collection(self, value: Any) -> Any:
        if isinstance(value, tuple | list | frozenset | set):
            items = self._each(value)
            if items is None and self._copies and isinstance(value, list):
                items = value
            return value if items is None else type(value)(items)
        if isinstance(value, dict | Mapping):
            keys = None if self._is_known_clean(value) else self._each(value.keys())
            items = self._each(value.values())
            if self._copies or keys is not None or items is not None:
                return dict(zip(keys or value.keys(), items or value.values(), strict=True))
        return value

    def _each(self, values: Collection[Any]) -> list[Any] | None:
        """Return the redacted values, or ``None`` when none has changed."""
        redacted, redact = self.redacted, self._redactor.redact
        made = [redact(each) if type(each) is str else redacted(each) for each in values]
        return None if all(map(is_, made, values)) else made


@lru_cache(maxsize=2_048)  # of all redactors: each agent has its own, for the same classes
def _plan_of(kind: type, names: _Names) -> _Plan:
    texts: list[str] = []
    json_fields: list[str] = []
    others: list[str] = []
    for field in attrs.fields(attrs.resolve_types(kind)):
        if field.name == "agent" and issubclass(kind, Event):  # redacted by the run, once
            continue
        parts = tuple(_parts(field.type))
        if all(_is_never_text(part, names) for part in parts):
            continue
        if {*parts} <= {Json, JsonObject, type(None)}:
            json_fields.append(field.name)
        elif all(_is_never_text(part, names) or _is_text(part) for part in parts):
            texts.append(field.name)
        else:
            others.append(field.name)
    # with one name alone the getter would not give a tuple
    getter = attrgetter(*texts, *texts[: len(texts) == 1]) if texts else None
    is_flat = not json_fields and not others
    return _Plan(getter, tuple(texts), tuple(json_fields), tuple(others), is_flat=is_flat)


def _parts(kind: Any) -> Iterable[Any]:
    """Return the members of a union; another type is its only member."""
    if get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _parts(part)
    else:
        yield kind


def _is_never_text(kind: Any, names: _Names) -> bool:
    if isinstance(kind, type) and attrs.has(kind):
        plan = _plan_of(kind, names)
        return plan.texts is None and plan.is_flat
    if get_origin(kind) is tuple:
        return all(part is Ellipsis or _is_never_text(part, names) for part in get_args(kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return True
    return kind in names or get_origin(kind) is Literal or kind is datetime


def _is_text(kind: Any) -> bool:
    return kind is str or getattr(kind, "__supertype__", None) is str
