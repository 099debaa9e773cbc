"""Events without secrets: every text in them redacted, whatever it is nested in, and nothing copied in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
from attrs import frozen

from reactive_agents.core.ids import PlanId, RunId, SessionId, StepId, TaskId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.redaction import Redactor

_T = TypeVar("_T")

_NEVER_TEXT = (int, float, bool, type(None), RunId, TaskId, SessionId, StepId, PlanId)
"""Also the ids that come from the id source; those of calls and agents are other people's texts."""


@frozen
class _Plan:
    """Which fields of a class are looked at.

    Attributes:
        texts: reads the fields that hold a text or ``None``; ``None`` when there are none.
        text_names: their names.
        json_names: fields of JSON data.
        other_names: fields of anything else that may have texts in it.
    """

    texts: Callable[[Any], tuple[str | None, ...]] | None
    text_names: tuple[str, ...]
    json_names: tuple[str, ...]
    other_names: tuple[str, ...]


class ValueRedactor:
    """Redacts attrs values and collections of them; what has no secret comes back as the same object."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._plans: dict[type, _Plan | None] = {}

    def redacted(self, value: _T) -> _T:
        """The value with every text in it redacted; run ids, task ids and the like stay."""
        kind = type(value)
        if kind is str:
            return self._redactor.redact(value)  # type: ignore[arg-type, return-value]
        try:
            plan = self._plans[kind]
        except KeyError:
            plan = self._plans[kind] = _plan_of(kind) if attrs.has(kind) else None
        return self._collection(value) if plan is None else self._with_changes(value, plan)

    def _with_changes(self, value: _T, plan: _Plan) -> _T:
        changes: dict[str, object] = {}
        if plan.texts is not None:
            texts = plan.texts(value)
            if not self._redactor.is_known_clean(texts):
                redact = self._redactor.redact
                made = (text if text is None else redact(text) for text in texts)
                changes = {
                    name: new
                    for name, old, new in zip(plan.text_names, texts, made, strict=False)
                    if new is not old
                }
        for name in plan.other_names:
            old = getattr(value, name)
            new = self.redacted(old) if old is not None else None
            if new is not old:
                changes[name] = new
        for name in plan.json_names:
            old = getattr(value, name)
            new = self._redactor.redact_json(old)
            if new != old:
                changes[name] = new
        return attrs.evolve(value, **changes) if changes else value  # type: ignore[misc]

    def _collection(self, value: Any) -> Any:
        if not isinstance(value, tuple | list | set | frozenset | Mapping) or not value:
            return value
        if isinstance(value, Mapping):
            made = {self.redacted(key): self.redacted(item) for key, item in value.items()}
            return value if made == value else made
        items = [self.redacted(each) for each in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else type(value)(items)


def _plan_of(kind: type) -> _Plan:
    texts: list[str] = []
    json_fields: list[str] = []
    others: list[str] = []
    for field in attrs.fields(attrs.resolve_types(kind)):
        parts = tuple(_parts(field.type))
        if all(_is_never_text(part) for part in parts):
            continue
        if field.type in (Json, JsonObject):
            json_fields.append(field.name)
        elif all(_is_never_text(part) or _is_text(part) for part in parts):
            texts.append(field.name)
        else:
            others.append(field.name)
    # with one name alone the getter would not give a tuple
    getter = attrgetter(*texts, texts[0]) if texts else None
    return _Plan(getter, tuple(texts), tuple(json_fields), tuple(others))


def _parts(kind: Any) -> Iterable[Any]:
    """The members of a union; a type that is none is its own only member."""
    if get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _parts(part)
    else:
        yield kind


def _is_never_text(kind: Any) -> bool:
    return kind in _NEVER_TEXT or get_origin(kind) is Literal or getattr(kind, "__module__", "") == "datetime"


def _is_text(kind: Any) -> bool:
    return kind is str or getattr(kind, "__supertype__", None) is str
