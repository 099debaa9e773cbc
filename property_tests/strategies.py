"""Values of every public type, derived from its annotations: a new class needs no line here."""

from __future__ import annotations

import importlib
import pkgutil
import types
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from enum import Enum
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

import reactive_agents.core
from reactive_agents.core.events import AgentEvent
from reactive_agents.core.governance import HandoffInfo
from reactive_agents.core.json import Json
from reactive_agents.core.model_settings import Unset
from reactive_agents.core.persistent import PersistentList, PersistentMap, PersistentSet
from reactive_agents.core.run_context import ContextFunction, DepsFunction, RunContext
from reactive_agents.core.tools import ToolScope
from reactive_agents.core.values import LIVE as LIVE_FIELD

# --- one law for many types -------------------------------------------------------------------------------


def check_each(subtests: pytest.Subtests, kinds: Mapping[str, Any], law: Callable[[Any], None]) -> None:
    """Check a law for each type; one that breaks it fails by its name, and the others are checked as well."""
    for name, kind in kinds.items():
        with subtests.test(name):
            law(kind)


# --- what there is --------------------------------------------------------------------------------------


def core_modules() -> tuple[ModuleType, ...]:
    """Every module of ``reactive_agents.core``."""
    found = pkgutil.walk_packages(reactive_agents.core.__path__, "reactive_agents.core.")
    return tuple(importlib.import_module(each.name) for each in found)


LIVE = (RunContext, ContextFunction, DepsFunction, HandoffInfo, ToolScope)
"""Classes that hold live objects of a program, and are never written."""


def public_classes() -> tuple[type, ...]:
    """Every public attrs class of data in ``reactive_agents.core``, once, in the order of the modules."""
    named = (
        value
        for module in core_modules()
        for name, value in vars(module).items()
        if not name.startswith("_")
        and isinstance(value, type)
        and attrs.has(value)
        and value.__module__ == module.__name__
        and value not in LIVE
    )
    return tuple(dict.fromkeys(named))


def public_aliases() -> dict[str, Any]:
    """Every public ``TypeAlias`` of values in ``reactive_agents.core`` by its name; functions are none."""
    named = {
        name: vars(module)[name]
        for module in core_modules()
        for name, annotation in vars(module).get("__annotations__", {}).items()
        if not name.startswith("_") and "TypeAlias" in str(annotation)
    }
    named["AgentEvent"] = AgentEvent  # made on first use, so that no annotation of its module names it
    return {name: kind for name, kind in named.items() if not _is_function(kind)}


def _is_function(kind: Any) -> bool:
    return get_origin(kind) is Callable or any(map(_is_function, union_members(kind)))


def union_members(kind: Any) -> tuple[Any, ...]:
    """The members of a union, ``None`` among them; empty for other kinds."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else ()


# --- values of a type -----------------------------------------------------------------------------------

texts: SearchStrategy[str] = st.text(max_size=12)
"""Texts without halves of surrogate pairs, which have a test of their own."""

json_values: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)

_offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))

_scalars: Mapping[Any, SearchStrategy[Any]] = {
    Json: json_values,
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: texts,
    bytes: st.binary(max_size=12),
    datetime: st.datetimes(timezones=st.just(UTC) | _offsets | st.none()),
    Path: texts.map(Path),
    type(None): st.none(),
}


@cache
def values_of(kind: Any) -> SearchStrategy[Any]:
    """Values of a type, as the annotations of core write types; ``TypeError`` for what is not known here."""
    if kind in _scalars:
        return _scalars[kind]
    if attrs.has(kind):
        return st.deferred(lambda: _instances(kind))
    if isinstance(kind, TypeVar):
        return values_of(kind.__default__)  # type: ignore[attr-defined]
    if members := union_members(kind):
        return st.one_of(*map(values_of, members))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return st.sampled_from(list(kind))
    if supertype := getattr(kind, "__supertype__", None):
        return values_of(supertype)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple and arguments[1:] == (...,):
        is_plain = arguments[0] in _scalars  # trees of classes would grow too large
        return st.lists(values_of(arguments[0]), max_size=2 if is_plain else 1).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    if origin is frozenset:
        return st.frozensets(values_of(arguments[0]), max_size=3)
    if origin in (dict, Mapping):
        return st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
    if origin is PersistentList:
        return st.lists(values_of(arguments[0]), max_size=2).map(PersistentList)
    if origin is PersistentSet:
        return st.frozensets(values_of(arguments[0]), max_size=3).map(PersistentSet)
    if origin is PersistentMap:
        entries = st.dictionaries(values_of(arguments[0]), values_of(arguments[1]), max_size=2)
        return entries.map(PersistentMap)
    raise TypeError(f"no strategy for {kind!r}: teach property_tests/strategies.py to make such values")


@cache
def _instances(kind: type) -> SearchStrategy[Any]:
    return st.builds(kind, **{field.name: values_of_field(field) for field in fields_of(kind)})


def fields_of(kind: Any) -> tuple[attrs.Attribute[Any], ...]:
    """The fields of an attrs class that are written, their types resolved."""
    return tuple(each for each in attrs.fields(attrs.resolve_types(kind)) if each.metadata != LIVE_FIELD)


def values_of_field(field: attrs.Attribute[Any]) -> SearchStrategy[Any]:
    """Values that the field's type and its validator accept."""
    kind: Any = field.type
    values = values_of(kind)
    if field.validator is None:
        return values
    kinds = union_members(kind) or (kind,)
    if kind is str and not accepts(field, "text"):
        return st.sampled_from([probe for probe in _TEXTS if accepts(field, probe)])
    if str in kinds or datetime in kinds or get_origin(kind) is Mapping or attrs.has(kind):
        return values.filter(lambda value: accepts(field, value))
    if Unset in kinds and not {int, float} & set(kinds):
        return values.filter(lambda value: accepts(field, value))
    if get_origin(kind) is tuple:
        fitting = [(probe,) for probe in (*_PROBES, *_TEXTS) if accepts(field, (probe,))]
        return st.sampled_from([(), *fitting])
    low, high = accepted_range(field)
    numbers: SearchStrategy[Any] = st.integers(int(low), int(high))
    if float in kinds:
        numbers = st.floats(low, high)
    for other in {type(None), Unset} & set(kinds):
        numbers = numbers | values_of(other)
    return numbers.filter(lambda value: accepts(field, value))


_TEXTS = ("UTC", "Europe/Berlin", "22:00-07:00", "00:00-23:59", "image/png")
_PROBES = (-1e6, -1, 0, 1e-6, 0.5, 1, 2, 100, 200, 5_000, 1e6)


def accepted_range(field: attrs.Attribute[Any]) -> tuple[float, float]:
    """The least and the greatest of some numbers that the field's validator lets pass."""
    accepted = [probe for probe in _PROBES if accepts(field, probe)]
    if not accepted:
        raise TypeError(f"no strategy for the validator of {field.name!r}: it is not about numbers")
    return min(accepted), max(accepted)


def accepts(field: attrs.Attribute[Any], value: object) -> bool:
    """Whether the field's validator lets the value pass."""
    try:
        if field.validator is not None:
            field.validator(None, field, value)
    except (ValueError, TypeError):
        return False
    return True


# --- JSON as strangers write it -------------------------------------------------------------------------

wild_texts: SearchStrategy[str] = st.text(
    st.characters(codec=None) | st.sampled_from("\ud800\udfff\x00\"\\@.[]'$"), max_size=12
)

wild_json: SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**400, -(10**400), 2**14_284, 10**4300 - 1])
    | st.floats()
    | wild_texts
    | st.sampled_from(["tag", "pending", "2026-01-02T03:04:05+00:00", "2026-13-45", "TaskStarted"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(wild_texts | st.just("tag"), inner, max_size=4)
    ),
    max_leaves=12,
)
"""Everything that ``json.loads`` may return, NaN and all, without regard to any type."""
