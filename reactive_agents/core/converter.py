"""How each kind of field becomes JSON data and is read back.

Used through the codec, which imports it, and cattrs with it, when something is first encoded or decoded.
"""

from __future__ import annotations

import base64
import math
import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError
from cattrs.fns import identity
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, make_mapping_structure_fn, override

from reactive_agents.core.errors import FieldProblem
from reactive_agents.core.json import Json, abbreviated, in_one_order
from reactive_agents.core.model_settings import OMIT, Unset
from reactive_agents.core.persistent import PersistentList, PersistentMap, PersistentSet
from reactive_agents.core.stored_forms import RETIRED_TAGS, TAG, tag_of, upgrade_of
from reactive_agents.core.values import LIVE, OMITTED

_T = TypeVar("_T")

MOST_PROBLEMS = 20
"""Problems that are named one by one; a last one then says that there are more."""

DEEPEST_JSON = 100
"""Levels of arrays and objects that a field of type ``Json`` may hold; deeper data is refused."""
LARGEST_INTEGER_BITS = 14_284
"""Integers beyond this are refused: they have more than 4300 digits, which Python itself does not write."""


def build_converter() -> Converter:
    """Return a converter with all hooks."""
    converter = Converter(
        forbid_extra_keys=True, detailed_validation=True, unstruct_collection_overrides={tuple: list}
    )
    converter.register_structure_hook(bool, _strict(bool, "true or false"))
    converter.register_structure_hook(str, _structure_str)
    converter.register_structure_hook(int, _structure_int)
    converter.register_structure_hook(float, _structure_float)
    converter.register_unstructure_hook(float, float)
    converter.register_structure_hook(datetime, _structure_datetime)
    converter.register_unstructure_hook(datetime, datetime.isoformat)
    converter.register_structure_hook(bytes, _structure_bytes)
    converter.register_unstructure_hook(bytes, lambda data: base64.b64encode(data).decode("ascii"))
    converter.register_structure_hook(Path, lambda data, _: Path(_structure_str(data, str)))
    converter.register_unstructure_hook(Path, str)
    converter.register_structure_hook_func(lambda kind: kind is Json, lambda data, _: _json(data))
    converter.register_unstructure_hook_func(lambda kind: kind is Json, identity)
    converter.register_unstructure_hook_factory(_is_set, _set_out_hook)
    converter.register_unstructure_hook_factory(_is_listed, _listing_hook)
    converter.register_unstructure_hook_factory(_made_of(PersistentMap), _mapping_out_hook)
    converter.register_structure_hook_func(_made_of(Literal), _structure_literal)
    converter.register_structure_hook_factory(_is_array, _array_hook)
    converter.register_structure_hook_factory(_made_of(dict, Mapping, PersistentMap), _mapping_hook)
    converter.register_structure_hook_factory(attrs.has, _class_hook)
    converter.register_structure_hook_factory(  # what is stored has no other type than the default
        lambda kind: isinstance(kind, TypeVar) and hasattr(kind, "__default__"),
        lambda kind, converter: converter.get_structure_hook(kind.__default__),
    )
    converter.register_unstructure_hook_factory(_has_omitted_fields, _omitting_hook)
    converter.register_unstructure_hook_factory(_is_optional, _optional_out_hook)
    converter.register_structure_hook_factory(_is_optional, _optional_hook)
    converter.register_unstructure_hook_factory(_is_tagged_union, _tagging_hook)
    converter.register_structure_hook_factory(_is_tagged_union, _untagging_hook)
    converter.register_structure_hook_factory(_may_be_named, _named_hook)
    converter.register_structure_hook_factory(_may_be_function, _function_hook)
    converter.register_unstructure_hook_factory(
        _may_be_named, lambda kind, converter: lambda value: converter.unstructure(value, type(value))
    )
    converter.register_structure_hook_factory(_may_be_unset, _setting_hook)
    converter.register_unstructure_hook_factory(_has_settings, _settings_out_hook)
    return converter


# --- scalars --------------------------------------------------------------------------------------------


def _strict(kind: type[_T], expected: str) -> Callable[[Any, Any], _T]:
    def structure(data: Any, _: Any) -> _T:
        if type(data) is not kind:
            raise WrongValue(data, expected)
        return data

    return structure


_structure_str = _strict(str, "a string")


def _structure_int(data: Any, _: Any) -> int:
    if type(data) is not int:
        raise WrongValue(data, "an integer")
    if data.bit_length() > LARGEST_INTEGER_BITS:
        raise WrongValue(data, f"an integer of at most {LARGEST_INTEGER_BITS} bits")
    return data


def _structure_float(data: Any, _: Any) -> float:
    if type(data) in (int, float):
        try:
            number = float(data)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise WrongValue(data, "a finite number")


def _read(read: Callable[[str], _T], expected: str) -> Callable[[Any, Any], _T]:
    def structure(data: Any, _: Any) -> _T:
        if isinstance(data, str):
            with suppress(ValueError):
                return read(data)
        raise WrongValue(data, expected)

    return structure


_structure_datetime = _read(datetime.fromisoformat, "a date and time in ISO 8601")
_structure_bytes = _read(partial(base64.b64decode, validate=True), "bytes in base64")


def _structure_literal(data: Any, kind: Any) -> Any:
    for choice in get_args(kind):
        if type(data) is type(choice) and data == choice:
            return choice
    raise WrongValue(data, "one of " + ", ".join(map(repr, get_args(kind))))


def _json(data: Any, levels: int = DEEPEST_JSON) -> Any:
    kind = type(data)
    if data is None or kind is bool or kind is str:
        return data
    if kind is int:
        return _structure_int(data, int)
    if kind is float:
        return _structure_float(data, float)
    if levels == 0:
        raise WrongValue(data, f"at most {DEEPEST_JSON} levels of arrays and objects")
    if isinstance(data, list):
        return _json_array(data, levels - 1)
    if isinstance(data, dict):
        return _json_object(data, levels - 1)
    raise WrongValue(data, "a JSON value")


def _json_array(data: list[Any], levels: int) -> list[Any]:
    items: list[Any] = []
    try:
        for item in data:
            items.append(_json(item, levels))  # noqa: PERF401 - its length is the place of a failure
    except WrongValue as wrong:
        raise wrong.inside(len(items)) from None
    return items


def _json_object(data: dict[Any, Any], levels: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    key: Any = None
    try:
        for key, item in data.items():
            fields[_structure_str(key, str)] = _json(item, levels)
    except WrongValue as wrong:
        raise wrong.inside(key) from None
    return fields


# --- containers, classes and unions ---------------------------------------------------------------------


def _made_of(*origins: Any) -> Callable[[Any], bool]:
    """Return whether a type is one of these with arguments, as ``frozenset[str]`` is."""
    return lambda kind: get_origin(kind) in origins


def _is_array(kind: Any) -> bool:
    if get_origin(kind) is tuple:
        return bool(get_args(kind)[1:] == (...,))
    return get_origin(kind) in (frozenset, PersistentSet, PersistentList)


def _is_listed(kind: Any) -> bool:
    return get_origin(kind) in (tuple, PersistentList) and _is_array(kind)


def _listing_hook(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    item = converter.get_unstructure_hook(get_args(kind)[0])
    return list if item is identity else lambda items: [item(each) for each in items]


def _is_set(kind: Any) -> bool:
    return (get_origin(kind) or kind) in (set, frozenset, PersistentSet)


def _set_out_hook(kind: Any, converter: Converter) -> Callable[[Any], list[Any]]:
    """Return a hook that gives sets one order in every process."""
    given = get_args(kind)
    item = converter.get_unstructure_hook(given[0]) if given else converter.unstructure

    return lambda items: in_one_order(map(item, items))


def _mapping_out_hook(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    value = converter.get_unstructure_hook(get_args(kind)[1])
    return lambda entries: {key: value(each) for key, each in entries.items()}


def _array_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    list_hook = converter.get_structure_hook(list[get_args(kind)[0]])  # type: ignore[misc]
    build = get_origin(kind)

    def structure(data: Any, _: Any) -> Any:
        if not isinstance(data, list | tuple):
            raise WrongValue(data, "an array")
        return build(list_hook(data, kind))

    return structure


def _mapping_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    if get_origin(kind) is not PersistentMap:
        return _objects_only(make_mapping_structure_fn(kind, converter, dict))
    plain: Any = make_mapping_structure_fn(cast(Any, dict[get_args(kind)]), converter, dict)  # type: ignore[misc]
    return _objects_only(lambda data, _: PersistentMap(plain(data, kind)))


def _class_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    special: dict[str, Any] = {
        field.name: override(struct_hook=field_hook(field, converter))
        for field in attrs.fields(kind)
        if field.metadata != LIVE and (field.validator is not None or not field.repr)
    }
    special |= {field.name: override(omit=True) for field in attrs.fields(kind) if field.metadata == LIVE}
    needed = ", ".join(field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING)
    expected = f"an object with {needed}" if needed else "an object"
    build = make_dict_structure_fn(kind, converter, **special)
    upgrade = upgrade_of(kind)
    if upgrade is None:
        return _objects_only(build, expected)
    return _objects_only(lambda data, kind: build(upgrade(data), kind), expected)


def _has_omitted_fields(kind: Any) -> bool:
    return attrs.has(kind) and any(field.metadata in (OMITTED, LIVE) for field in attrs.fields(kind))


def _omitting_hook(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    fields: dict[str, Any] = {
        field.name: override(omit=True) if field.metadata == LIVE else override(omit_if_default=True)
        for field in attrs.fields(kind)
        if field.metadata in (OMITTED, LIVE)
    }
    return make_dict_unstructure_fn(kind, converter, **fields)


def _objects_only(build: Callable[[Any, Any], Any], expected: str = "an object") -> Callable[[Any, Any], Any]:
    def structure(data: Any, kind: Any) -> Any:
        if not isinstance(data, dict):
            raise WrongValue(data, expected)
        return build(data, kind)

    return structure


def field_hook(field: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    """Return a hook that validates before construction, so that errors have paths."""

    def structure(data: Any, kind: Any) -> Any:
        try:
            value = converter.structure(data, kind)
            if field.validator is not None:
                field.validator(None, field, value)
        except Exception:
            if field.repr:
                raise
        else:
            return value
        raise ValueError("not a valid value; it is not abbreviated, since it may be secret")

    return structure


def union_members(kind: Any) -> tuple[Any, ...]:
    """Return the members of a union without ``None``; empty for other types."""
    if get_origin(kind) not in (Union, types.UnionType):
        return ()
    return tuple(member for member in get_args(kind) if member is not type(None))


def _is_tagged_union(kind: Any) -> bool:
    members = union_members(kind)
    return len(members) > 1 and all(attrs.has(member) for member in members)


def _may_be_named(kind: Any) -> bool:
    """Return whether a value is a name or an object of one class."""
    members = union_members(kind)
    return len(members) == 2 and members[0] is str and attrs.has(members[1])


def _named_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    member = union_members(kind)[1]
    hook = converter.get_structure_hook(member)

    def structure(data: Any, _: Any) -> Any:
        if not isinstance(data, str | dict):
            raise WrongValue(data, "a string or an object")
        return data if isinstance(data, str) else hook(data, member)

    return structure


def _may_be_function(kind: Any) -> bool:
    """Return whether a value is data, or a function, which has no JSON form."""
    return any(get_origin(member) is Callable for member in union_members(kind))


def _function_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    (member,) = (each for each in union_members(kind) if get_origin(each) is not Callable)
    hook = converter.get_structure_hook(member)
    return lambda data, _: data if callable(data) else hook(data, member)


def _is_optional(kind: Any) -> bool:
    return len(union_members(kind)) == 1 and type(None) in get_args(kind)


def _optional_out_hook(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    (member,) = union_members(kind)
    hook = converter.get_unstructure_hook(member)
    return identity if hook is identity else lambda value: None if value is None else hook(value)


def _optional_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    (member,) = union_members(kind)
    hook = converter.get_structure_hook(member)
    return lambda data, _: None if data is None else hook(data, member)


def _tagging_hook(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    hooks: dict[type, tuple[str, Callable[[Any], Any]]] = {}

    def unstructure(value: Any) -> Any:
        if value is None:
            return None
        member = type(value)
        if member not in hooks:
            hooks[member] = tag_of(member), converter.get_unstructure_hook(member)
        tag, hook = hooks[member]
        return {TAG: tag, **hook(value)}

    return unstructure


def _untagging_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    by_tag = {tag_of(member): member for member in union_members(kind)}
    optional = type(None) in get_args(kind)

    def structure(data: Any, _: Any) -> Any:
        if data is None and optional:
            return None
        if not isinstance(data, dict):
            raise WrongValue(data, f"an object with a {TAG!r}")
        fields = {key: item for key, item in data.items() if key != TAG}
        tag = data.get(TAG)
        if isinstance(tag, str) and tag in RETIRED_TAGS and tag not in by_tag:
            tag, upgrade = RETIRED_TAGS[tag]
            fields = upgrade(fields)
        member = by_tag.get(tag) if isinstance(tag, str) else None
        if member is None:
            raise WrongValue(tag, f"one of {', '.join(sorted(by_tag))}", at=f".{TAG}")
        return converter.structure(fields, member)

    return structure


# --- settings, which have a value, none, or nothing is said about them ----------------------------------


def _may_be_unset(kind: Any) -> bool:
    return Unset in union_members(kind)


def _setting_hook(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    (member,) = (each for each in union_members(kind) if each is not Unset)
    hook = converter.get_structure_hook(member)
    return lambda data, _: None if data is None or data == OMIT else hook(data, member)


def _has_settings(kind: Any) -> bool:
    return attrs.has(kind) and any(
        _may_be_unset(field.type) for field in attrs.fields(attrs.resolve_types(kind))
    )


def _settings_out_hook(kind: Any, converter: Converter) -> Callable[[Any], Any]:
    """Return a hook that leaves out what is not set."""
    write = make_dict_unstructure_fn(kind, converter, _cattrs_omit_if_default=True)
    return lambda value: {name: OMIT if item is None else item for name, item in write(value).items()}


# --- problems ---------------------------------------------------------------------------------------------


class WrongValue(ValueError):
    """A value of a wrong type. ``at``: its path from the decoded value."""

    def __init__(self, value: object, expected: str, *, at: str = "") -> None:
        super().__init__(f"got {abbreviated(value)}, expected {expected}")
        self.at = at

    def inside(self, place: object) -> WrongValue:
        """Return the same error with the path extended by ``place``."""
        self.at = f"[{abbreviated(place)}]{self.at}"
        return self


def problems_of(error: BaseException, path: str = "$") -> tuple[FieldProblem, ...]:
    """Return the problems of a decoder's exception, in the order of the fields."""
    found = tuple(islice(_walk(error, path), MOST_PROBLEMS + 1))
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
                yield from _walk(inner, f"{path}[{abbreviated(item.index)}]")
        case WrongValue():
            unnamed = []
            yield FieldProblem(path + error.at, str(error))
        case ForbiddenExtraKeysError():
            unnamed = []
            known = ", ".join(each.name for each in attrs.fields(error.cl) if each.metadata != LIVE) or "none"
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
    return f".{name}" if plain else f"[{abbreviated(name)}]"


def name_of(kind: Any) -> str:
    """Return the name of a type, as errors show it."""
    members = union_members(kind)
    if members:
        return " | ".join(map(name_of, members))
    if kind is ...:
        return "..."
    if get_args(kind):
        return f"{get_origin(kind).__name__}[{', '.join(map(name_of, get_args(kind)))}]"
    return str(getattr(kind, "__name__", kind))
