"""The laws of the codec, for every public type of core."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args, get_origin

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Result, Success
from typing_extensions import TypeVar

from property_tests.strategies import (
    accepts,
    check_each,
    fields_of,
    public_aliases,
    public_classes,
    union_members,
    values_of,
    values_of_field,
    wild_json,
    wild_texts,
)
from reactive_agents.core.codec import data_to_json, decode, encode, from_json, to_json
from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.json import Json
from reactive_agents.core.model_settings import Unset
from reactive_agents.core.persistent import PersistentList, PersistentSet
from reactive_agents.core.values import OMITTED
from reactive_agents.kernel.state import KernelState
from tests.support.profiles import examples

CLASSES = (*public_classes(), KernelState)
ALIASES = public_aliases()
CLASSES_BY_NAME = {kind.__name__: kind for kind in CLASSES}
KINDS = CLASSES_BY_NAME | ALIASES
UNIONS = {name: kind for name, kind in ALIASES.items() if all(map(attrs.has, union_members(kind) or (str,)))}


def problems(outcome: Result[Any, DecodeError]) -> tuple[FieldProblem, ...]:
    match outcome:
        case Failure(error):
            assert isinstance(error, DecodeError)
            assert error.problems
            assert all(problem.path.startswith("$") and problem.problem for problem in error.problems)
            error.message.encode()
            return error.problems
        case Success(value):
            raise AssertionError(f"decoded {value!r}")
    raise AssertionError(outcome)


# --- what is covered ------------------------------------------------------------------------------------


def test_the_walk_finds_the_vocabulary() -> None:
    assert len(set(CLASSES)) == len(CLASSES) > 90
    assert {"AgentEvent", "Message", "ModelChunk", "RuntimeErrors", "PhaseCause", "Stamp"} <= ALIASES.keys()
    assert {"AgentEvent", "Message", "LLMErrors", "ConfigErrors", "PhaseCause"} <= UNIONS.keys()


def test_every_class_is_frozen_and_comparable_and_has_a_strategy_for_each_field(
    subtests: pytest.Subtests,
) -> None:
    def law(kind: type) -> None:
        assert kind.__setattr__ is not object.__setattr__
        assert kind.__eq__ is not object.__eq__
        assert "tag" not in [field.name for field in fields_of(kind)], "the tag of a union would hide it"
        for field in fields_of(kind):
            values_of_field(field).validate()

    check_each(subtests, CLASSES_BY_NAME, law)


def test_what_no_strategy_is_known_for_is_refused() -> None:
    with pytest.raises(TypeError, match="complex"):
        values_of(complex)


# --- the laws of every type -----------------------------------------------------------------------------


@pytest.mark.system
def test_every_type_keeps_the_laws(subtests: pytest.Subtests) -> None:
    """One law for all, since it costs more to draw a value than to look at it from every side."""

    def law(kind: Any) -> None:
        @examples(2)
        @given(values_of(kind), wild_json, st.data())
        def check(value: Any, wild: Any, choice: st.DataObject) -> None:
            check_there_and_back(value, kind)
            check_total(wild, kind)
            if attrs.has(kind):
                check_unknown_field(value, kind, choice)
                check_missing_field(value, kind, choice)
                check_wrong_type(value, kind, choice)
                check_out_of_range(value, kind, choice)
                check_wild_field(value, kind, wild, choice)
                for union in UNIONS.values():
                    if kind in union_members(union):
                        check_tag(value, union)

        check()

    check_each(subtests, KINDS, law)


def test_a_class_whose_fields_have_defaults_is_read_from_nothing(subtests: pytest.Subtests) -> None:
    def law(kind: type) -> None:
        if all(field.default is not attrs.NOTHING for field in fields_of(kind)):
            assert decode({}, kind) == Success(kind())

    check_each(subtests, CLASSES_BY_NAME, law)


def test_every_member_of_a_union_is_a_class_of_its_own_name() -> None:
    for name, union in UNIONS.items():
        members = union_members(union)
        assert len({member.__name__ for member in members}) == len(members), f"two of one name in {name}"
        assert set(members) <= set(CLASSES), f"{name} has members whose laws are not checked"


def check_there_and_back(value: Any, kind: Any) -> None:
    """What is written is JSON, is read back equal, and written the same again."""
    data, text = encode(value, kind), to_json(value, kind)
    assert json.loads(text) == data
    assert_json(data)
    assert json.loads(data_to_json({"value": data})) == {"value": data}
    again = from_json(text, kind).unwrap()
    assert again == value
    assert type(again) is type(value)
    assert to_json(again, kind) == text
    assert from_json(text.encode(), kind) == Success(value)
    assert decode(data, kind) == Success(value)


def assert_json(data: object) -> None:
    match data:
        case dict():
            for key, item in data.items():
                assert type(key) is str
                assert_json(item)
        case list():
            for item in data:
                assert_json(item)
        case _:
            assert data is None or type(data) in (bool, int, float, str)


def check_tag(value: Any, union: Any) -> None:
    """A value of a union carries the name of its class, without which it is not read."""
    written = encode(value, union)
    assert isinstance(written, dict)
    assert next(iter(written)) == "tag"
    assert written["tag"] == type(value).__name__
    assert {"tag": type(value).__name__, **encode(value)} == written  # type: ignore[dict-item]
    untagged = {name: item for name, item in written.items() if name != "tag"}
    assert [each.path for each in problems(decode(untagged, union))] == ["$.tag"]
    assert [each.path for each in problems(decode({**written, "tag": "No"}, union))] == ["$.tag"]


# --- what is refused, and where -------------------------------------------------------------------------


class Spot(NamedTuple):
    """One field of one object inside of encoded data: where it is, and what it should be."""

    path: str
    holder: dict[str, Any]
    owner: type
    field: attrs.Attribute[Any]


def spots(data: Any, kind: Any, path: str = "$") -> Iterator[Spot]:
    """Every field of every attrs class in ``data``, which is an encoded ``kind``."""
    members = tuple(member for member in union_members(kind) if member not in (type(None), Unset))
    if data is None or kind is Json or (str in members and isinstance(data, str)):
        return
    members = tuple(member for member in members if member is not str)
    if len(members) > 1:
        kind = next(member for member in members if member.__name__ == data["tag"])
    elif members:
        (kind,) = members
    if attrs.has(kind):
        for field in fields_of(kind):
            here = f"{path}.{field.name}"
            if field.name in data or field.metadata == OMITTED:  # else a setting about which nothing is said
                yield Spot(here, data, kind, field)
            if field.name in data:
                yield from spots(data[field.name], field.type, here)
    elif get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        for index, item in enumerate(data):
            yield from spots(item, get_args(kind)[0], f"{path}[{index}]")


PROBES = (None, True, 7, 1.5, "no", ["no"], {"no": 1})
ARRAYS = (tuple, frozenset, PersistentList, PersistentSet)


def fits(data: Any, kind: Any) -> bool:
    """Whether JSON data is of a JSON type that an encoded ``kind`` may be of."""
    if kind is Json:
        return True
    if isinstance(kind, TypeVar):  # of the class itself
        return fits(data, kind.__default__)
    if members := union_members(kind):
        return any(fits(data, member) for member in members)
    if supertype := getattr(kind, "__supertype__", None):
        return fits(data, supertype)
    if attrs.has(kind) or get_origin(kind) not in (None, *ARRAYS, Literal):
        return isinstance(data, dict)
    if get_origin(kind) is Literal:
        return data in get_args(kind)
    if get_origin(kind) in ARRAYS:
        return isinstance(data, list) and fits("no", get_args(kind)[0])
    if kind is float:
        return type(data) in (int, float)
    return type(data) is (str if kind in (str, Path) else kind) and kind is not datetime


def encoded(value: Any, kind: Any) -> tuple[dict[str, Any], list[Spot]]:
    """A copy of the encoded value that may be changed, and its fields."""
    data = copy.deepcopy(encode(value))
    assert isinstance(data, dict)
    return data, list(spots(data, kind))


def check_unknown_field(value: Any, kind: type, choice: st.DataObject) -> None:
    data, fields = encoded(value, kind)
    path, holder = choice.draw(
        st.sampled_from([("$", data), *((spot.path.rpartition(".")[0], spot.holder) for spot in fields)])
    )
    holder["surprise"] = 1
    (problem,) = problems(decode(data, kind))
    assert problem.path == f"{path}.surprise"
    assert "unknown field" in problem.problem


def check_missing_field(value: Any, kind: type, choice: st.DataObject) -> None:
    data, fields = encoded(value, kind)
    if required := [spot for spot in fields if spot.field.default is attrs.NOTHING]:
        spot = choice.draw(st.sampled_from(required))
        del spot.holder[spot.field.name]
        assert problems(decode(data, kind)) == (FieldProblem(spot.path, "required field missing"),)


def check_wrong_type(value: Any, kind: type, choice: st.DataObject) -> None:
    data, fields = encoded(value, kind)
    wrong = [(spot, probe) for spot in fields for probe in PROBES if not fits(probe, spot.field.type)]
    if wrong:
        spot, probe = choice.draw(st.sampled_from(wrong))
        spot.holder[spot.field.name] = probe
        (first, *_) = problems(decode(data, kind))
        assert first.path.startswith(spot.path)


def check_out_of_range(value: Any, kind: type, choice: st.DataObject) -> None:
    data = encode(value)
    assert isinstance(data, dict)
    for field in fields_of(kind):
        if refused := out_of_range(field):
            wrong = choice.draw(st.sampled_from(refused))
            (problem,) = problems(decode({**data, field.name: wrong}, kind))
            assert problem.path == f"$.{field.name}"
            told = rf"(?:Length of )?'{field.name}' must be|{field.name}: got .*, expected"
            assert re.search(told, problem.problem)


def out_of_range(field: attrs.Attribute[Any]) -> list[Any]:
    """Values of the field's kind that its validator refuses."""
    kind: Any = field.type
    if field.validator is None or attrs.has(kind):
        return []
    if str in (union_members(kind) or (kind,)):
        return [""]
    if kind is datetime:
        return ["2026-01-01T00:00:00"]
    if get_origin(kind) is tuple:
        return [["", "x"], ["x"]] if get_args(kind)[0] is str else [[-1], [0.5, 10**6]]
    if Unset in union_members(kind) and not {int, float} & set(union_members(kind)):
        return []
    if get_origin(kind) is Mapping:
        return []
    return [number for number in (-1, 0, 3, 10**6) if not accepts(field, number)]


# --- no input raises ------------------------------------------------------------------------------------


def check_wild_field(value: Any, kind: type, wild: Any, choice: st.DataObject) -> None:
    data, fields = encoded(value, kind)
    if fields:
        spot = choice.draw(st.sampled_from(fields))
        spot.holder[spot.field.name] = wild
        check_total(data, kind)


def check_total(data: Any, kind: Any) -> None:
    outcome = decode(data, kind)
    match outcome:
        case Success(value):
            text = to_json(value, kind)
            text.encode()
            assert to_json(from_json(text, kind).unwrap(), kind) == text
        case Failure(_):
            problems(outcome)


@examples(15)
@given(st.text(max_size=40) | wild_json.map(json.dumps), st.sampled_from(list(KINDS.values())))
def test_any_text_decodes_or_says_why_not(text: str, kind: Any) -> None:
    outcome: Result[Any, DecodeError] = from_json(text, kind)
    if isinstance(outcome, Failure):
        problems(outcome)


@examples(15)
@given(st.binary(max_size=40), st.sampled_from(list(KINDS.values())))
def test_any_bytes_decode_or_say_why_not(text: bytes, kind: Any) -> None:
    outcome: Result[Any, DecodeError] = from_json(text, kind)
    if isinstance(outcome, Failure):
        problems(outcome)


@examples(20)
@given(wild_texts)
def test_half_of_a_surrogate_pair_survives_as_an_escape(text: str) -> None:
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    written = to_json(whole, str)
    written.encode()
    assert from_json(written, str) == Success(whole)
