"""The laws of output types: a value of any type is written, offered as fields, and read back equal."""

from __future__ import annotations

from dataclasses import make_dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import attrs
import jsonschema
from annotated_types import Ge, MaxLen
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from pydantic import create_model
from typing_extensions import TypedDict

from property_tests.strategies import json_values
from reactive_agents.agent.output_types import output_shape
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.kernel.call_parsing.repair import repair_call
from reactive_agents.kernel.termination import proposed_answer
from reactive_agents.reasoning.structured_output.answer_parser import read_answer
from reactive_agents.reasoning.structured_output.output_type import answer_form, text_of_value
from tests.support.profiles import examples

ATTRS = "Attrs"


class Colour(Enum):
    RED = "red"
    BLUE = 2


@frozen
class Sample:
    """A type, and values of it."""

    kind: Any
    values: SearchStrategy[Any]


texts = st.text(max_size=8) | st.sampled_from(
    ["null", "42", '"x"', "<think>x</think>", "{}", '{"a": 1}', "```json\n[1]\n```", "none", " ", "[1]"]
)
SIMPLE = (
    Sample(int, st.integers(-(2**60), 2**60)),
    Sample(bool, st.booleans()),
    Sample(str, texts),
    Sample(float, st.floats(allow_nan=False, allow_infinity=False)),
    Sample(date, st.dates()),
    Sample(Literal["a", "b c"], st.sampled_from(["a", "b c"])),
    Sample(Colour, st.sampled_from(Colour)),
    Sample(Annotated[int, Ge(0)], st.integers(0, 99)),
    Sample(Annotated[str, MaxLen(8)], st.text(max_size=8)),
    Sample(int | str, st.integers(-99, 99) | st.sampled_from(["x", "y z"])),
)
names = st.lists(
    st.from_regex(r"[a-z][a-z_]{0,6}", fullmatch=True).filter(lambda name: name.strip("_") == name),
    min_size=1,
    max_size=3,
    unique=True,
).filter(lambda found: not {"in", "is", "as", "or", "if", "and", "not", "def", "for", "copy"} & set(found))


def of_fields(fields: dict[str, Sample], form: str) -> Sample:
    """A class with these fields."""
    kinds = {name: each.kind for name, each in fields.items()}
    values = st.fixed_dictionaries({name: each.values for name, each in fields.items()})
    match form:
        case "attrs":
            kind: Any = attrs.make_class(
                ATTRS, {name: attrs.field(type=each) for name, each in kinds.items()}, frozen=True
            )
        case "dataclass":
            kind = make_dataclass("Data", kinds.items())
        case "pydantic":
            fields_of_model: Any = {name: (each, ...) for name, each in kinds.items()}
            kind = create_model("Model", __config__={"protected_namespaces": ()}, **fields_of_model)
        case _:
            make: Any = TypedDict
            return Sample(make("Typed", kinds), values)
    return Sample(kind, values.map(lambda given: kind(**given)))


def nested(inner: SearchStrategy[Sample]) -> SearchStrategy[Sample]:
    fields = names.flatmap(lambda found: st.fixed_dictionaries(dict.fromkeys(found, inner)))
    known = fields.filter(lambda found: not any(ATTRS in repr(each.kind) for each in found.values()))
    return st.one_of(
        inner.map(lambda each: Sample(list[each.kind], st.lists(each.values, max_size=3))),
        inner.map(lambda each: Sample(dict[str, each.kind], st.dictionaries(texts, each.values, max_size=2))),
        inner.map(lambda each: Sample(each.kind | None, st.none() | each.values)),
        st.builds(of_fields, fields, st.just("attrs")),
        st.builds(of_fields, known, st.sampled_from(["dataclass", "pydantic", "typed"])),
    )


samples = st.recursive(st.sampled_from(SIMPLE), nested, max_leaves=4)


@examples(30)
@given(samples, st.data())
def test_a_value_is_written_filled_in_and_read_back_equal(sample: Sample, data: st.DataObject) -> None:
    shape = output_shape(sample.kind).unwrap()
    value = data.draw(sample.values)
    text = text_of_value(value, shape)
    assert read_answer(text, shape).unwrap() == value

    form = answer_form(shape)
    assert shape.write is not None
    written: Any = shape.write(value)
    fields = written if form.response_schema == shape.schema else {"value": written}
    jsonschema.Draft202012Validator(form.tool.parameters).validate(fields)
    made = repair_call(ToolCall(CallId("c"), form.tool.name, fields), (form.tool,)).call
    proposal = proposed_answer((made,), form)
    assert proposal is not None
    assert form.problem_in(proposal.text) == ""
    assert read_answer(proposal.text, shape).unwrap() == value


@examples(15)
@given(samples, st.dictionaries(st.text(max_size=5), json_values, max_size=3) | st.text(max_size=40))
def test_no_arguments_make_an_answer_form_raise(sample: Sample, given_fields: Any) -> None:
    form = answer_form(output_shape(sample.kind).unwrap())
    malformed = given_fields if isinstance(given_fields, str) else ""
    arguments = {} if malformed or isinstance(given_fields, str) else given_fields
    call = ToolCall(CallId("c"), form.tool.name, arguments, malformed)
    proposal = proposed_answer((repair_call(call, (form.tool,)).call,), form)
    assert proposal is not None
    assert isinstance(form.problem_in(proposal.text), str)
