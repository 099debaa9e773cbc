"""Values in a model's text: find the JSON, repair it, fit it to a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, TypeVar

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.call_parsing.argument_schema import branches, properties_of, required_of
from reactive_agents.kernel.call_parsing.json_extraction import Decoded, JsonReader, decode
from reactive_agents.kernel.call_parsing.parser import parse_calls
from reactive_agents.kernel.call_parsing.repair import coerce
from reactive_agents.kernel.call_parsing.tool_names import squash
from reactive_agents.reasoning.structured_output.schema import WRAPPED, Shape, has_fields

T = TypeVar("T")

NO_VALUE = "there is no whole JSON value in it"
"""The problem of a text in prose."""
SEVERAL_VALUES = "there are different values in it, and one is expected"
"""The problem of a text with several different objects or lists of the shape."""
MOST_CANDIDATES = 20
"""The most pieces of JSON in one text that are tried."""

_START = re.compile(r"[{\[]")
_FENCED = re.compile(r"```[\w-]*\s(.*)```", re.S)
_BLOCK = re.compile(r"^[ \t]*```(?:json)?[ \t]*\n\s*(?=[{\[])", re.M | re.I)
_MAX_DEPTH = 32
_MOST_WRAPPERS = 2
_AROUND_NAMES = " \t\n.:\"'`*"


def read_answer(text: str, shape: Shape[T]) -> Result[T, DecodeError]:
    """Return the first JSON value in the text that has the shape. Total.

    Values in fenced blocks come before others, and blocks of thinking do not count. Values are converted if
    nothing is lost by it, and unknown fields are left out. If no value has the shape, common other forms are
    tried: an object that is wrapped in another or in a list, the bare list of an object's only list, and the
    bare name of a choice.

    Fails with ``DecodeError``: with the problems of the candidate that has the fewest, when several different
    objects or lists have the shape, since nothing shows which is meant, or when there is no JSON.
    """
    inside = unwrapped(text, shape)
    if inside is not None:
        return shape.read(inside.value)
    prose = text if _is_json(text) else parse_calls(text, ()).prose
    sources = (*_sources(prose, shape), _other_forms(prose, shape))
    # Without required fields any object is of the shape, also one around another.
    any_object = bool(properties_of(shape.schema)) and not required_of(shape.schema)
    problems: list[DecodeError] = []
    for source in (sources[-1], *sources[:-1]) if any_object else sources:
        read = _read_source(source, shape, problems)
        if read is not None:
            return read
    if problems:
        return Failure(min(problems, key=lambda error: len(error.problems)))
    nothing = NO_VALUE if text.strip() else "it is empty"
    return Failure(DecodeError(shape.name, (FieldProblem("$", nothing),)))


def _read_source(
    source: Iterator[Decoded], shape: Shape[T], problems: list[DecodeError]
) -> Result[T, DecodeError] | None:
    """Return the value of the shape, or the problem of several; ``None`` for none.

    Args:
        problems: gets those of the candidates that do not have the shape.
    """
    found: tuple[Decoded, T] | None = None
    for candidate in source:
        if found is not None and candidate.end == found[0].end:  # the same JSON in another form
            continue
        fitted = candidate.value
        if shape.is_fitted:
            fitted = fitted_to_schema(fitted, shape.schema)
        if isinstance(fitted, dict) and not fitted and candidate.value:
            problems[:] = [_only_unknown(shape)]  # which says more than those of the others
            continue
        read = shape.read(fitted)
        if isinstance(read, Failure):
            problems.append(read.failure())
        elif not (isinstance(fitted, dict | list) and fitted and shape.schema):
            return read if found is None else Success(found[1])
        elif found is None:
            found = (evolve(candidate, value=fitted), read.unwrap())
        elif found[0].value != fitted:
            return Failure(DecodeError(shape.name, (FieldProblem("$", SEVERAL_VALUES),)))
    return None if found is None else Success(found[1])


def _only_unknown(shape: Shape[Any]) -> DecodeError:
    """Return the problem of an object whose value would be made up of defaults alone."""
    known = ", ".join(properties_of(shape.schema)) or "those of the type"
    problem = FieldProblem("$", f"none of its fields is known, expected some of {known}")
    return DecodeError(shape.name, (problem,))


def unwrapped(text: str, shape: Shape[T]) -> Decoded | None:
    """Return the value of an only field ``WRAPPED``, if it has the shape."""
    if has_fields(shape.schema):
        return None
    whole = text.strip()
    fenced = _FENCED.fullmatch(whole)
    found = (
        JsonReader().read_object(whole if fenced is None else fenced[1]) if whole[:1] in ("{", "`") else None
    )
    if found is None or not isinstance(found.value, dict) or found.value.keys() != {WRAPPED}:
        return None
    value = fitted_to_schema(found.value[WRAPPED], shape.schema)
    return evolve(found, value=value) if isinstance(shape.read(value), Success) else None


def _is_json(text: str) -> bool:
    """Return whether a text is one JSON value, whose texts are not thinking."""
    whole = text.strip()
    found = decode(whole) if whole[:1] in ("{", "[", '"') else None
    return found is not None and found.end == len(whole)


def fitted_to_schema(value: Json, schema: JsonObject) -> Json:
    """Return the value in names and types of the schema, without unknown fields."""
    return _pruned(coerce(_named(value, schema), schema, schema), schema, schema, 0)


def _named(value: Json, schema: JsonObject) -> Json:
    """Return an object whose missing fields are taken from other spellings."""
    if not isinstance(value, dict):
        return value
    missing = {squash(name): name for name in properties_of(schema) if name not in value}
    unknown = [squash(key) for key in value if key not in properties_of(schema)]
    return {
        missing.get(squash(key), key)
        if key not in properties_of(schema) and unknown.count(squash(key)) == 1
        else key: item
        for key, item in value.items()
    }


def _sources(text: str, shape: Shape[T]) -> tuple[Iterator[Decoded], ...]:
    """Return the JSON values in the text in order, without those inside others.

    A text that is one JSON value as a whole is that value. Values at the beginning of a block of JSON come
    before the others, since brackets in prose are not an answer. For a shape whose values are not objects or
    arrays, the text itself may be the value.
    """
    whole = text.strip()
    fenced = _FENCED.fullmatch(whole)
    simple = _simple_value(whole if fenced is None else fenced[1].strip())
    is_text = shape.schema.get("type") not in ("object", "array") or _choice_of(shape.schema) is not None
    return (
        iter(() if simple is None else (simple,)),
        _in_blocks(text),
        _in_text(text),
        iter((Decoded(whole, len(text)),) if is_text else ()),
    )


def _in_blocks(text: str) -> Iterator[Decoded]:
    reader = JsonReader()
    for block in islice(_BLOCK.finditer(text), MOST_CANDIDATES):
        found = reader.read(text, block.end())
        if found is not None:
            yield found


def _in_text(text: str) -> Iterator[Decoded]:
    reader = JsonReader()
    position = 0
    for _ in range(MOST_CANDIDATES):
        start = _START.search(text, position)
        if start is None:
            break
        found = reader.read(text, start.start())
        if found is None:
            position = start.end()
            continue
        yield found
        position = found.end


def _other_forms(text: str, shape: Shape[T]) -> Iterator[Decoded]:
    """Yield the values that the JSON values in the text stand for in other forms."""
    is_object = shape.schema.get("type") == "object"
    value: Json
    for candidate in chain(*_sources(text, shape)):
        if not is_object:
            for value in _unwrapped(candidate.value, _MOST_WRAPPERS):
                yield evolve(candidate, value=value)
        elif not (candidate.repaired and _is_plain_list(candidate.value)):  # as [a note] in prose
            for value in _reshaped(candidate.value, shape.schema, _MOST_WRAPPERS):
                yield evolve(candidate, value=value)


def _unwrapped(value: Json, wrappers: int) -> Iterator[Json]:
    """Yield the value inside of an object of one field."""
    while isinstance(value, dict) and len(value) == 1 and wrappers:
        (value,) = value.values()
        wrappers -= 1
        yield value
        if isinstance(value, str) and (inner := decode(value)) is not None and inner.end == len(value):
            yield inner.value


def _reshaped(value: Json, schema: JsonObject, wrappers: int) -> Iterator[Json]:
    known = properties_of(schema)
    if isinstance(value, str):
        start = _START.search(value) if wrappers else None
        within = JsonReader().read(value, start.start()) if start is not None else None
        if within is not None:  # JSON inside of JSON
            yield within.value
            yield from _reshaped(within.value, schema, 0)
        choice = _choice_of(schema)
        if choice is not None:
            yield {choice: value.strip(_AROUND_NAMES)}
    elif isinstance(value, list):
        lists = [name for name, each in known.items() if isinstance(each, dict) and "items" in each]
        if len(lists) == 1 and required_of(schema).issubset(lists) and _holds_items(value):
            yield {lists[0]: value}
        if len(value) == 1 and isinstance(value[0], dict):
            yield value[0]
            yield from _reshaped(value[0], schema, wrappers)
    elif isinstance(value, dict) and len(value) == 1 and wrappers and known.keys().isdisjoint(value):
        (inner,) = value.values()
        yield inner
        yield from _reshaped(inner, schema, wrappers - 1)


def _holds_items(value: list[Json]) -> bool:
    """Return whether a list holds texts or objects, unlike a footnote."""
    return bool(value) and all(isinstance(each, dict | str) for each in value)


def _is_plain_list(value: Json) -> bool:
    return isinstance(value, list) and not any(isinstance(each, dict) for each in value)


def _choice_of(schema: JsonObject) -> str | None:
    """Return the only field that an object needs, if that is a choice among texts."""
    required = required_of(schema)
    if len(required) != 1:
        return None
    (name,) = required
    field = properties_of(schema).get(name)
    choices = field.get("enum") if isinstance(field, dict) else None
    return name if isinstance(choices, list) and all(isinstance(each, str) for each in choices) else None


def _simple_value(text: str) -> Decoded | None:
    """Return the string, whole number, boolean or null that the text is in JSON.

    Other numbers are left as text: reading them may lose digits that the shape could keep.
    """
    found = None if text[:1] in ("{", "[") else decode(text)
    if found is None or found.end != len(text) or isinstance(found.value, float):
        return None
    return found


def _pruned(value: Json, schema: Json, root: JsonObject, depth: int) -> Json:
    alternatives = branches(schema, root)
    if depth > _MAX_DEPTH or not alternatives:
        return value
    if isinstance(value, list):
        items = [each for each in alternatives if "items" in each]
        return [_pruned(item, items[0]["items"], root, depth + 1) for item in value] if items else value
    if not isinstance(value, dict):
        return value
    chosen = _branch_of(value, alternatives)
    known, required = properties_of(chosen), required_of(chosen)
    if not known or chosen.get("additionalProperties", True) is not False:
        return value
    return {
        name: _pruned(item, known[name], root, depth + 1)
        for name, item in value.items()
        if name in known
        and not (item is None and name not in required and not _may_be_null(known[name], root))
    }


def _branch_of(value: JsonObject, alternatives: tuple[JsonObject, ...]) -> JsonObject:
    """Return the kind of object that fits the value best, constants first."""

    def likeness(schema: JsonObject) -> tuple[int, int]:
        known = properties_of(schema)
        constants = sum(
            isinstance(part, dict) and "const" in part and value.get(name) == part["const"]
            for name, part in known.items()
        )
        return constants, len(known.keys() & value.keys())

    return max(alternatives, key=likeness)


def _may_be_null(schema: Json, root: JsonObject) -> bool:
    return any(each.get("type") in ("null", None) for each in branches(schema, root))
