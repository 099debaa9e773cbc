"""Structured output of agents with tools: the fields of the value are the parameters of ``final-answer``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired

import attrs
import pytest
from annotated_types import Gt, MinLen
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from reactive_agents import ReactiveAgents, tool
from reactive_agents.core.events import ModelCallCompleted
from reactive_agents.core.messages import ToolMessage
from reactive_agents.core.tools import FINAL_ANSWER
from reactive_agents.testing import (
    EventRecorder,
    ScriptedLLM,
    Turn,
    answer,
    call,
    calls,
    forever,
    malformed_call,
    say,
)

pytestmark = pytest.mark.anyio
STRATEGIES = ["reactive", "reflexion", "tree-of-thought", "plan-execute-reflect", "adaptive", "direct", ""]


@attrs.frozen
class City:
    """A city."""

    name: str
    people: int = attrs.field(validator=attrs.validators.ge(0))


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: list[str] = []


class Visit(TypedDict):
    day: date
    guests: Annotated[int, Gt(0)]
    note: NotRequired[str]


class Reply(BaseModel):
    """It has a field of the name that a plain answer has."""

    answer: str
    sure: float = Field(ge=0, le=1)


class Apology(BaseModel):
    could_not: str


@dataclass
class Node:
    name: str
    inner: list[Node] = field(default_factory=list)


ROME = City("Rome", 2_800_000)
FIELDS: dict[str, Any] = {"name": "Rome", "people": 2_800_000}
LOOK = call("look", city="Rome")


@tool
def look(city: str) -> str:
    """Look up a city."""
    return f"{city} has 2800000 people."


def agent(output_type: Any, *turns: Turn, strategy: str = "reactive", **reasoning: Any) -> Any:
    builder = ReactiveAgents.create().with_output_type(output_type).with_llm(ScriptedLLM(*turns))
    builder = builder.with_tools(look)
    return (builder.with_reasoning(strategy, **reasoning) if strategy else builder).build()


def requests_of(built: Any) -> Any:
    return built.container.models.llm().requests


def answer_tool_in(request: Any) -> Any:
    return next(each for each in request.tools if each.name == FINAL_ANSWER)


async def test_the_model_fills_in_the_fields() -> None:
    built = agent(City, LOOK, answer(FIELDS))
    result = await built.run("How many people live in Rome?")
    assert (result.output, result.status, result.metadata.model_calls) == (ROME, "completed", 2)
    assert json.loads(result.text) == FIELDS
    first, second = requests_of(built)
    parameters = answer_tool_in(first).parameters
    assert parameters["properties"]["people"] == {"type": "integer", "minimum": 0}
    assert (parameters["required"], "could_not" in parameters["properties"]) == (["name", "people"], True)
    assert "JSON" not in first.messages[0].content
    assert (first.response_schema, second.response_schema) == (None, None)


@pytest.mark.parametrize(
    ("kind", "fields", "value"),
    [
        (list[int], {"value": [1, 2]}, [1, 2]),
        (int, {"value": 42}, 42),
        (bool, {"value": False}, False),
        (str, {"value": "It is [1] so."}, "It is [1] so."),
        (str, {"value": '"quoted"'}, '"quoted"'),
        (date, {"value": "2024-02-29"}, date(2024, 2, 29)),
        (Colour, {"value": "red"}, Colour.RED),
        (str | None, {"value": None}, None),
        (City | Cat, {"value": {"kind": "cat", "lives": 9}}, Cat(kind="cat", lives=9)),
        (
            Annotated[Cat | Dog, Field(discriminator="kind")],
            {"value": {"kind": "dog"}},
            Dog(kind="dog"),
        ),
        (Visit, {"day": "2024-02-29", "guests": 2}, {"day": date(2024, 2, 29), "guests": 2}),
        (dict[str, City], {"value": {"it": FIELDS}}, {"it": ROME}),
        (Annotated[list[int], MinLen(1)], {"value": [1]}, [1]),
        (Reply, {"answer": "So.", "sure": 0.5}, Reply(answer="So.", sure=0.5)),
        (Any, {"value": {"a": 1}}, {"a": 1}),
        (dict, {"value": {"a": {"b": 1}}}, {"a": {"b": 1}}),
        (dict[str, int] | None, {"value": None}, None),
        (Node, {"value": {"name": "a", "inner": [{"name": "b"}]}}, Node("a", [Node("b")])),
        (Node, {"name": "a", "inner": [{"name": "b"}]}, Node("a", [Node("b")])),
        (Apology, {"could_not": "It is late, sorry."}, Apology(could_not="It is late, sorry.")),
    ],
)
async def test_every_kind_of_type_has_fields(kind: Any, fields: Any, value: object) -> None:
    result = await agent(kind, LOOK, answer(fields), forever(answer(fields))).run("Tell me of Rome.")
    assert (result.output, result.status) == (value, "completed")
    assert type(result.output) is type(value)


@pytest.mark.parametrize(
    "turn",
    [
        answer(json.dumps(FIELDS)),
        answer(f"Here it is: {json.dumps(FIELDS)}"),
        answer({"answer": FIELDS}),
        answer({"city": FIELDS}),
        answer({"value": json.dumps(FIELDS)}),
        answer({"arguments": FIELDS}),
        answer({"name": "Rome", "people": "2800000"}),
        answer({"name": "Rome", "people": 2_800_000, "area": 1285, "could_not": ""}),
        malformed_call(FINAL_ANSWER, json.dumps([FIELDS])),
        malformed_call(FINAL_ANSWER, '{"people": 2800000, "name": "Rome"'),
        malformed_call(FINAL_ANSWER, json.dumps(json.dumps(FIELDS))),
        say(json.dumps(FIELDS)),
        say(f"```json\n{json.dumps([FIELDS])}\n```"),
        say(f"final-answer({json.dumps(FIELDS)})"),
        say(json.dumps({"name": FINAL_ANSWER, "arguments": FIELDS})),
        say(f"<tool_call>{json.dumps({'name': FINAL_ANSWER, 'arguments': FIELDS})}</tool_call>"),
    ],
)
async def test_what_weak_models_give_instead_is_understood(turn: Turn) -> None:
    result = await agent(City, LOOK, turn).run("How many people live in Rome?")
    assert (result.output, result.status, result.metadata.model_calls) == (ROME, "completed", 2)


async def test_json_in_the_only_text_of_a_value_is_the_value() -> None:
    class Name(BaseModel):
        name: str

    result = await agent(Name, LOOK, answer({"answer": '{"name": "Rome"}'})).run("Which city?")
    assert result.output == Name(name="Rome")


async def test_a_text_that_may_list_several_items_is_no_list_of_one() -> None:
    torn, whole = ({"kind": "dog", "tricks": tricks} for tricks in ("sit, roll", ["sit", "roll"]))
    built = agent(Dog, LOOK, answer(torn), answer(whole))
    result = await built.run("Which dog?")
    assert (result.output, result.metadata.model_calls) == (Dog(kind="dog", tricks=["sit", "roll"]), 3)
    assert "tricks: got 'sit, roll'" in requests_of(built)[-1].messages[-1].content
    one = await agent(Dog, LOOK, answer({"kind": "dog", "tricks": "sit"})).run("Which dog?")
    assert one.output == Dog(kind="dog", tricks=["sit"])


async def test_a_text_that_is_valid_as_given_stays_though_it_is_json() -> None:
    @dataclass
    class Snippet:
        text: str

    for text in ('{"text": "a"}', '{"other": 1}'):
        result = await agent(Snippet, LOOK, answer({"text": text})).run("Which snippet?")
        assert (result.output, result.metadata.model_calls) == (Snippet(text), 2)
    for name in ("answer", "body", "Snippet"):
        result = await agent(Snippet, LOOK, answer({name: '{"text": "a"}'})).run("Which snippet?")
        assert (result.output, result.metadata.model_calls) == (Snippet("a"), 2)


async def test_wrong_fields_go_back_to_the_model_with_the_value_and_what_is_expected() -> None:
    wrong = {"name": "Rome", "people": -1}
    built = agent(City, LOOK, answer(wrong), answer(FIELDS))
    result = await built.run("How many people live in Rome?")
    assert (result.output, result.metadata.model_calls) == (ROME, 3)
    refusal = next(m for m in reversed(requests_of(built)[-1].messages) if isinstance(m, ToolMessage))
    assert refusal.is_error
    assert "'people' must be >= 0: -1" in refusal.content


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_a_model_that_never_fits_ends_as_partial_with_the_reason(strategy: str) -> None:
    def turn(request: Any) -> Any:
        offered = {each.name for each in request.tools}
        return (FINAL_ANSWER, {"name": "Rome"}) if FINAL_ANSWER in offered else "Rome, I think."

    from tests.support.models import RuledLLM
    from tests.support.sensible import sensible

    asked = ("think", "output-type")
    model = RuledLLM(lambda request: turn(request) if request.purpose in asked else sensible(request))
    builder = ReactiveAgents.create().with_output_type(City).with_llm(model).with_tools(look)
    result = await (builder.with_reasoning(strategy) if strategy else builder).build().run("Which city?")
    assert (result.status, result.output) == ("partial", None)
    assert "people: Field required" in result.reason
    assert "Missing: a City." in result.reason


async def test_the_place_of_a_wrong_value_is_named() -> None:
    fields = {"kind": "dog", "tricks": ["sit", None]}
    built = agent(Dog, LOOK, answer(fields), answer({"kind": "dog"}))
    await built.run("Which dog?")
    refusal = requests_of(built)[-1].messages[-1].content
    assert "tricks[1]: got None; input should be a valid string" in refusal


async def test_retries_are_bounded() -> None:
    built = agent(City, LOOK, forever(answer({"name": "Rome"})))
    result = await built.run("How many people live in Rome?")
    assert (result.metadata.model_calls, result.metadata.terminated_by) == (4, "output_type")
    assert json.loads(result.text) == {"name": "Rome"}


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400"])
async def test_numbers_that_are_not_finite_are_refused(number: str) -> None:
    turn = malformed_call(FINAL_ANSWER, f'{{"answer": "So.", "sure": {number}}}')
    result = await agent(Reply, LOOK, forever(turn)).run("How many people live in Rome?")
    assert (result.status, result.output) == ("partial", None)


async def test_a_key_that_is_named_twice_has_its_last_value() -> None:
    turn = malformed_call(FINAL_ANSWER, '{"answer": "No.", "answer": "So.", "sure": 1}')
    result = await agent(Reply, LOOK, turn).run("How many people live in Rome?")
    assert result.output == Reply(answer="So.", sure=1)


async def test_a_text_is_asked_for_with_its_fields_once() -> None:
    built = agent(City, LOOK, say("Rome has 2800000 people."), answer(FIELDS))
    recorder = EventRecorder()
    built.subscribe(recorder)
    assert (await built.run("How many people live in Rome?")).output == ROME
    assert [event.purpose for event in recorder.of(ModelCallCompleted)] == ["think"] * 3


async def test_a_text_that_is_given_again_is_converted() -> None:
    text = say("Rome has 2800000 people.")
    built = agent(City, LOOK, text, text, say(json.dumps(FIELDS)))
    result = await built.run("How many people live in Rome?")
    assert (result.output, result.metadata.model_calls) == (ROME, 4)
    assert requests_of(built)[-1].response_schema["required"] == ["name", "people"]


async def test_a_model_can_abstain_in_place_of_the_fields() -> None:
    why = "There is no register of the people of Rome here."
    result = await agent(City, LOOK, forever(answer({"could_not": why}))).run("How many people live in Rome?")
    assert (result.status, result.output, result.text) == ("abstained", None, why)


async def test_the_last_turn_offers_the_fields_alone() -> None:
    built = agent(City, LOOK, LOOK, answer(FIELDS), strategies={"reactive": {"max_iterations": 3}})
    assert (await built.run("How many people live in Rome?")).output == ROME
    (only,) = requests_of(built)[-1].tools
    assert "people" in only.parameters["properties"]


async def test_without_tools_the_answer_is_held_to_the_schema_by_the_provider() -> None:
    llm = ScriptedLLM(say(json.dumps(FIELDS)))
    built = ReactiveAgents.create().with_output_type(City).with_llm(llm).with_reasoning().build()
    assert (await built.run("Which city?")).output == ROME
    (request,) = llm.requests
    assert request.response_schema["required"] == ["name", "people"]
    assert '"people"' in request.messages[0].content


async def test_the_offline_model_fills_in_the_fields() -> None:
    built = ReactiveAgents.create().with_model("offline").with_output_type(City).with_tools(look)
    result = await built.with_reasoning().build().run("How many people live in Rome?")
    assert (result.status, type(result.output)) == ("completed", City)


async def test_an_answer_beside_calls_is_refused_with_its_fields() -> None:
    built = agent(City, calls(LOOK, answer(FIELDS)), answer(FIELDS))
    result = await built.run("How many people live in Rome?")
    assert (result.output, result.metadata.model_calls) == (ROME, 2)


@pytest.mark.parametrize("strategy", STRATEGIES)
async def test_every_strategy_delivers_the_fields(strategy: str) -> None:
    from tests.support.models import RuledLLM
    from tests.support.sensible import sensible

    def turn(request: Any) -> Any:
        offered = {each.name: each for each in request.tools}
        if request.purpose != "think":
            return sensible(request)
        if "look" in offered and not any(isinstance(each, ToolMessage) for each in request.messages):
            return "look", {"city": "Rome"}
        if FINAL_ANSWER not in offered:
            return "Rome has 2800000 people."
        typed = "people" in offered[FINAL_ANSWER].parameters["properties"]
        return FINAL_ANSWER, FIELDS if typed else {"answer": "Rome has 2800000 people."}

    model = RuledLLM(turn)
    builder = ReactiveAgents.create().with_output_type(City).with_llm(model).with_tools(look)
    built = (builder.with_reasoning(strategy) if strategy else builder).build()
    result = await built.run("How many people live in Rome?")
    assert (result.output, result.status) == (ROME, "completed")
    assert not [request for request in model.requests if request.purpose == "output-type"]


class Batch(BaseModel):
    pieces: int

    @field_validator("pieces")
    @classmethod
    def fills_boxes(cls, pieces: int) -> int:
        if pieces % 6:
            raise ValueError("a box has 6 pieces")
        return pieces


async def test_what_a_validator_of_a_field_says_comes_with_the_value() -> None:
    llm = ScriptedLLM(call(FINAL_ANSWER, pieces=7), call(FINAL_ANSWER, pieces=12))
    built = ReactiveAgents.create().with_llm(llm).with_tools(look).with_reasoning().with_output_type(Batch)
    result = await built.build().run("How many pieces?")
    assert result.output == Batch(pieces=12)
    assert "pieces: got 7; a box has 6 pieces" in llm.requests[1].messages[-1].content
