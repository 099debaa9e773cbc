"""The answer of a run while it arrives, as partial values of its output type."""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, NotRequired, Required, TypeVar, Union

import attrs
from attrs import frozen
from returns.result import Result
from typing_extensions import is_typeddict

from reactive_agents.agent.errors import AgentError, result_or_raise
from reactive_agents.core.errors import ExecutionError, StructuredOutputError
from reactive_agents.core.events import (
    ModelStreamRestarted,
    ModelTextRetracted,
    ModelTextStreamed,
    TaskFailed,
    TaskStarted,
)
from reactive_agents.core.json import Json
from reactive_agents.core.tasks import TaskResult, TypedResult
from reactive_agents.kernel.answer_form import COULD_NOT
from reactive_agents.reasoning.structured_output.schema import WRAPPED, Shape, has_fields

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from reactive_agents.core.events import AgentEvent

T = TypeVar("T")

_GROWTH: Final = 64
"""A text is read again when it has grown by a 64th, so that the total time is linear in its length."""


class OutputStream(Generic[T]):
    """An async iterator over the partial values of an answer, and then the answer.

    Each value replaces the one before. Leaving the loop early cancels the run; on trio close the stream with
    :meth:`aclose`.
    """

    def __init__(
        self,
        stream: Callable[[Callable[[Result[TaskResult, TaskFailed]], None]], AsyncGenerator[AgentEvent]],
        present: Callable[[TaskResult], Any],
        shape: Shape[Any] | None,
    ) -> None:
        self._result: Any = None
        self._outcome: Result[TaskResult, TaskFailed] | None = None
        self._events = stream(self._end)
        self._present = present
        self._shape = shape
        self._values: AsyncGenerator[T] = self._yielded()

    def __aiter__(self) -> AsyncGenerator[T]:
        return self._values

    @property
    def result(self) -> TypedResult[T]:
        """The result of the run, after the last value.

        Raises:
            AttributeError: the run has not ended.
        """
        if self._result is None:
            raise AttributeError("result: the run has no result before the last value was read")
        result: TypedResult[T] = self._result
        return result

    async def aclose(self) -> None:
        """Cancel the run, if it has not ended."""
        await self._values.aclose()

    def _end(self, outcome: Result[TaskResult, TaskFailed]) -> None:
        self._outcome = outcome

    async def _yielded(self) -> AsyncGenerator[T]:
        answer, latest = _GrowingText(), MISSING
        async with aclosing(self._events) as events:
            async for event in events:
                if answer.take(event):
                    value = self._read(answer.text())
                    if value is not MISSING and value != latest:
                        latest = value
                        yield value
        if self._outcome is None:  # the run was continued elsewhere
            return
        result = result_or_raise(self._outcome)
        self._result = self._present(result)
        if self._result.status != "completed" and self._result.output is None:
            calls = max(1, result.metadata.model_calls)
            missing = StructuredOutputError("output", result.reason, calls)
            error = ExecutionError(missing.message, result.task_id, "complete", missing)
            raise AgentError(error, result.steps, result.metadata, result.run_id)
        last: T = self._result.output
        yield last

    def _read(self, text: str) -> Any:
        if self._shape is None:
            return text or MISSING
        data = partial_json(text)
        return MISSING if data is MISSING else partial_value(self._shape.kind, _answer_in(data, self._shape))


def _answer_in(data: Json, shape: Shape[Any]) -> Json:
    """Return the answer in the arguments of ``final-answer``."""
    if not isinstance(data, dict):
        return data
    known = shape.schema.get("properties")
    names = known if isinstance(known, dict) else {}
    if not has_fields(shape.schema) and WRAPPED in data:
        return data[WRAPPED]
    return {name: each for name, each in data.items() if name != COULD_NOT or name in names}


class _GrowingText:
    """The text of the answer so far, by the events of a run."""

    def __init__(self) -> None:
        self._run_id: str | None = None
        self._parts: list[str] = []
        self._size = self._read_at = self._model_call = 0

    def take(self, event: AgentEvent) -> bool:
        """Take an event; return whether the text has grown by enough to be read."""
        if self._run_id is None and isinstance(event, TaskStarted):
            self._run_id = event.run_id
        if event.run_id != self._run_id:  # of a sub-agent
            return False
        match event:
            case ModelTextStreamed(text=text):
                self._parts.append(text)
                self._size += len(text)
                self._model_call = event.model_call
            case ModelTextRetracted():
                self._clear()
            case ModelStreamRestarted() if event.model_call == self._model_call:
                self._clear()
        return self._size > self._read_at + self._read_at // _GROWTH

    def text(self) -> str:
        self._parts, self._read_at = ["".join(self._parts)], self._size
        return self._parts[0]

    def _clear(self) -> None:
        self._parts.clear()
        self._size = self._read_at = 0


# --- Values of a type, made of as much of their JSON as has arrived ---
# Pydantic validates what has arrived, part by part. A complete value is validated as a whole. An incomplete
# one is made without calling its class, of the fields that have arrived and are valid; the others have their
# defaults, or ``None``. A list has its valid items. So a reader sees fields appear and texts grow, and every
# value is of its type; only the end of the stream shows that the value is complete.


MISSING: Final = object()
"""The value of a part that has not arrived, or is not valid yet."""

_NUMBER: Final = "0123456789+-.eE"
_SEQUENCES: Final = (list, tuple, set, frozenset)


def partial_json(text: str) -> Any:
    """Return the data of JSON text that may be incomplete; ``MISSING`` for none.

    A string at its end may be cut; a number there is left out, since more digits may follow.

    >>> partial_json('{"title": "On st'), partial_json('Here: [12, 1'), partial_json('{"a": {"b": tr')
    ({'title': 'On st'}, [12], {'a': {}})
    """
    from pydantic_core import from_json

    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return MISSING
    given = text[start:]
    try:
        if given[-1] in _NUMBER and not _ends_in_string(given):
            given = given.rstrip(_NUMBER)
        return from_json(given, allow_partial="trailing-strings")
    except ValueError:
        return MISSING


def _ends_in_string(text: str) -> bool:
    return text.replace("\\\\", "").replace('\\"', "").count('"') % 2 == 1


def partial_value(kind: Any, data: Json) -> Any:
    """Return the value that incomplete data stands for, or ``MISSING``."""
    whole = _validated(kind, data)
    if whole is not MISSING:
        return whole
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Annotated, Required, NotRequired):
        return partial_value(arguments[0], data)
    if origin in (Union, types.UnionType):
        return _one_of(arguments, data)
    if isinstance(data, dict):
        fields = _fields_of(kind)
        if fields is not None:
            return _object(kind, fields, _arrived(fields, data)[0])
        if origin in (dict, Mapping) and len(arguments) == 2:
            values = {name: partial_value(arguments[1], each) for name, each in data.items()}
            return {name: each for name, each in values.items() if each is not MISSING}
    if isinstance(data, list) and arguments and isinstance(origin, type):
        return _items(origin, arguments, data)
    return MISSING


def _one_of(kinds: tuple[Any, ...], data: Json) -> Any:
    """Return the value of the first type that has one; of classes, the best fit."""
    if isinstance(data, dict):
        classes = [(each, fields) for each in kinds if (fields := _fields_of(_bare(each))) is not None]
        if len(classes) > 1:
            arrived = [_arrived(fields, data) for _, fields in classes]
            fits = [len(found) - wrong for found, wrong in arrived]
            best = fits.index(max(fits))
            if fits[best] > 0:  # otherwise nothing tells them apart yet
                kind, fields = classes[best]
                return _object(_bare(kind), fields, arrived[best][0])
            of_class = [each for each, _ in classes]
            kinds = tuple(each for each in kinds if each not in of_class)
    tried = (partial_value(each, data) for each in kinds)
    return next((value for value in tried if value is not MISSING), MISSING)


def _bare(kind: Any) -> Any:
    return _bare(typing.get_args(kind)[0]) if typing.get_origin(kind) is Annotated else kind


def _items(origin: type, arguments: tuple[Any, ...], data: list[Json]) -> Any:
    kinds = arguments * len(data) if origin is not tuple or arguments[-1] is Ellipsis else arguments
    found = [partial_value(kind, each) for kind, each in zip(kinds, data, strict=False)]
    valid = [each for each in found if each is not MISSING]
    sequence = origin if origin in _SEQUENCES else list
    try:
        return sequence(valid)
    except TypeError:  # parts that cannot be hashed yet
        return MISSING


@lru_cache(maxsize=256)
def _adapter(kind: Any) -> TypeAdapter[Any] | None:
    from pydantic import TypeAdapter

    from reactive_agents.adapters.tools.schema import bridge_classes

    try:
        return TypeAdapter(bridge_classes(kind, {}))
    except Exception:  # noqa: BLE001 - a type may run any code for its schema
        return None


def _validated(kind: Any, data: Json) -> Any:
    try:
        adapter = _adapter(kind)
        return MISSING if adapter is None else adapter.validate_json(json.dumps(data))
    except Exception:  # noqa: BLE001 - also the validators of the type, which are the user's code
        return MISSING


# --- objects ----------------------------------------------------------------------------------------------


@frozen
class _Field:
    """A field of a class.

    Attributes:
        names: the names that it may have in the data.
        default: makes its value when it is missing; ``None`` leaves it out.
    """

    name: str
    kind: Any
    names: tuple[str, ...]
    default: Callable[[Any], Any] | None


def _none(_: Any) -> None:
    return None


@lru_cache(maxsize=256)
def _fields_of(kind: Any) -> tuple[_Field, ...] | None:
    """Return the fields of a class; ``None`` for a type without any."""
    if not isinstance(kind, type):
        return None
    if is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return tuple(_Field(name, each, (name,), None) for name, each in hints.items())
    if hasattr(kind, "model_fields"):
        return tuple(_of_model(name, each) for name, each in kind.model_fields.items())
    if attrs.has(kind):
        return tuple(map(_of_attribute, attrs.fields(attrs.resolve_types(kind, include_extras=True))))
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return tuple(_of_dataclass(each, hints[each.name]) for each in dataclasses.fields(kind))
    return None


def _of_model(name: str, field: Any) -> _Field:
    kind = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    names = tuple(each for each in (name, field.alias, field.validation_alias) if isinstance(each, str))
    if field.is_required():
        return _Field(name, kind, names, _none)
    return _Field(
        name, kind, names, lambda _: field.get_default(call_default_factory=True, validated_data={})
    )


def _of_attribute(field: attrs.Attribute[Any]) -> _Field:
    names = (field.name, field.alias or field.name)
    default: Any = field.default
    if default is attrs.NOTHING:
        return _Field(field.name, field.type, names, _none)
    if isinstance(default, attrs.Factory):  # type: ignore[arg-type]
        return _Field(
            field.name,
            field.type,
            names,
            default.factory if default.takes_self else lambda _: default.factory(),
        )
    return _Field(field.name, field.type, names, lambda _: default)


def _of_dataclass(field: dataclasses.Field[Any], kind: Any) -> _Field:
    if field.default_factory is not dataclasses.MISSING:
        factory = field.default_factory
        return _Field(field.name, kind, (field.name,), lambda _: factory())
    default = None if field.default is dataclasses.MISSING else field.default
    return _Field(field.name, kind, (field.name,), lambda _: default)


def _arrived(fields: tuple[_Field, ...], data: Mapping[str, Json]) -> tuple[dict[str, Any], int]:
    """Return the fields that have arrived and are valid, and how many are not valid."""
    found: dict[str, Any] = {}
    wrong = 0
    for field in fields:
        given: Any = next((data[name] for name in field.names if name in data), MISSING)
        value = MISSING if given is MISSING else partial_value(field.kind, given)
        if value is not MISSING:
            found[field.name] = value
        elif given is not MISSING:
            wrong += 1
    return found, wrong


def _object(kind: Any, fields: tuple[_Field, ...], found: dict[str, Any]) -> Any:
    """Return an object of a class with these fields, and defaults for the others."""
    if all(field.default is None for field in fields):
        return found
    try:
        if hasattr(kind, "model_construct"):
            missing = {
                each.name: each.default and each.default(None) for each in fields if each.name not in found
            }
            return kind.model_construct(**missing, **found)
        instance = kind.__new__(kind)
        for field in fields:
            value = found[field.name] if field.name in found else field.default and field.default(instance)
            object.__setattr__(instance, field.name, value)
    except Exception:  # noqa: BLE001 - defaults and classes are the user's code
        return MISSING
    return instance
