"""The laws of structured output: schemas tell what the codec takes, and no text makes the reader raise."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import jsonschema
import jsonschema_rs
import pytest
from attrs import field, frozen
from attrs.validators import and_, ge, le, min_len
from hypothesis import given
from hypothesis import strategies as st
from returns.result import Failure, Success

from property_tests.strategies import check_each, json_values, public_classes, values_of
from reactive_agents.core.codec import decode, encode
from reactive_agents.core.json import JsonObject
from reactive_agents.core.json_schema import json_schema
from reactive_agents.reasoning.structured_output.answer_parser import read_answer
from reactive_agents.reasoning.structured_output.schema import shape_of
from tests.support.profiles import examples


@frozen
class Inner:
    """A part.

    Attributes:
        name: what it is called.
    """

    name: str = field(validator=min_len(1))
    arguments: JsonObject = field(factory=dict)


@frozen
class Other:
    """Another part."""

    size: float = field(validator=and_(ge(0.0), le(1.0)))


@frozen
class Outer:
    """The whole."""

    count: int = field(validator=ge(0))
    kind: Literal["a", "b"]
    parts: tuple[Inner, ...] = field(validator=min_len(1))
    either: Inner | Other
    note: str | None = None
    flags: frozenset[str] = frozenset()
    sure: bool = False


names = st.text(min_size=1, max_size=6)
inners = st.builds(Inner, names, st.dictionaries(names, json_values, max_size=2))
outers = st.builds(
    Outer,
    st.integers(0, 9),
    st.sampled_from(["a", "b"]),
    st.lists(inners, min_size=1, max_size=3).map(tuple),
    st.one_of(inners, st.builds(Other, st.floats(0, 1))),
    st.none() | st.text(max_size=6),
    st.frozensets(st.text(max_size=3), max_size=3),
    st.booleans(),
)
ASKED_FOR = [
    kind for kind in public_classes() if not re.search(r"\.errors|events$|event_base", kind.__module__)
]
"""Nobody is asked for an event or an error, whose unions make the largest schemas of all."""
around = st.text(alphabet=st.characters(exclude_characters="{}[]<`"), max_size=40)
shape = shape_of(Outer)


@given(outers)
def test_whatever_the_codec_writes_is_an_instance_of_the_schema(value: Outer) -> None:
    jsonschema.validate(encode(value, Outer), shape.schema)


@pytest.mark.system
def test_every_public_class_has_a_schema(subtests: pytest.Subtests) -> None:
    def law(kind: type) -> None:
        schema = json_schema(kind)
        jsonschema_rs.meta.validate(schema)
        validator = jsonschema_rs.Draft202012Validator(schema)

        @examples(2)
        @given(values_of(kind))
        def check(value: Any) -> None:
            validator.validate(encode(value, kind))

        check()

    check_each(subtests, {kind.__name__: kind for kind in ASKED_FOR}, law)


@examples(15)
@given(outers, st.data())
def test_what_the_schema_refuses_the_codec_refuses(value: Outer, data: st.DataObject) -> None:
    document: dict[str, Any] = encode(value, Outer)  # type: ignore[assignment]
    name = data.draw(st.sampled_from([*document, "unknown"]))
    document[name] = data.draw(json_values)
    fits = jsonschema.Draft202012Validator(shape.schema).is_valid(document)
    if isinstance(decode(document, Outer), Success):
        assert fits


def test_a_schema_says_what_the_docstrings_say() -> None:
    schema: dict[str, Any] = json_schema(Outer)
    part = schema["properties"]["parts"]["items"]
    assert part["description"] == "A part."
    assert part["properties"]["name"] == {
        "type": "string",
        "description": "what it is called.",
        "minLength": 1,
    }
    assert schema["required"] == ["count", "kind", "parts", "either"]
    assert schema["properties"]["parts"]["minItems"] == 1
    assert schema["properties"]["count"]["minimum"] == 0


@given(outers, around, around, st.sampled_from(["{}", "```json\n{}\n```", '<think>{{"a": 1}}</think>\n{}']))
def test_a_value_is_found_whatever_stands_around_it(value: Outer, before: str, after: str, form: str) -> None:
    text = json.dumps(encode(value, Outer))
    wrapped = form.replace("{}", text, 1) if "think" not in form else '<think>{"a": 1}</think>\n' + text
    said = f"{before}\n{wrapped}\n{after}"
    assert read_answer(said, shape) == Success(value)


@examples(20)
@given(
    st.one_of(
        st.text(max_size=200),
        st.lists(
            st.sampled_from(
                ["{", "}", "[", "]", '"', ":", ",", "count", "1", "kind", "a", "<think>", "```", " "]
            ),
            max_size=60,
        ).map("".join),
        json_values.map(json.dumps),
    )
)
def test_no_text_makes_the_reader_raise(text: str) -> None:
    read = read_answer(text, shape)
    if isinstance(read, Failure):
        assert read.failure().problems


@given(outers)
def test_types_are_converted_where_nothing_is_lost_and_unknown_fields_left_out(value: Outer) -> None:
    document: dict[str, Any] = encode(value, Outer)  # type: ignore[assignment]
    document["count"] = str(document["count"])
    document["sure"] = str(document["sure"]).lower()
    document["kind"] = document["kind"].upper()
    document["reasoning"] = "because"
    document["parts"][0]["confidence"] = 1
    if document["note"] is None:
        del document["note"]
    read = read_answer(json.dumps(document), shape)
    assert read.unwrap() == value


def test_broken_json_is_repaired() -> None:
    text = "{'count': 1, 'kind': 'a', 'parts': [{'name': 'x',}], 'either': {'tag': 'Inner', 'name': 'y'},}"
    assert read_answer(text, shape).unwrap() == Outer(1, "a", (Inner("x"),), Inner("y"))


def test_a_wrong_value_is_named_by_its_path() -> None:
    text = '{"count": -1, "kind": "c", "parts": [{"name": ""}], "either": {"tag": "Inner", "name": "y"}}'
    problems = read_answer(text, shape).failure().problems
    assert [problem.path for problem in problems] == ["$.count", "$.kind", "$.parts[0].name"]


def test_a_reply_that_was_cut_off_is_no_answer() -> None:
    assert "no whole JSON" in read_answer('{"count": 1, "kind": "a", "parts": [{"na', shape).failure().message
