"""Answers as values of a type: every kind of type, with every way to run an agent."""

from __future__ import annotations

import json
import pickle
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import pytest
from pydantic import BaseModel, Field
from returns.io import IOSuccess
from typing_extensions import TypedDict

from reactive_agents import (
    AgentError,
    AgentResult,
    CompletedResult,
    PartialResult,
    ReactiveAgents,
    TypedResult,
    agent_tool,
    result_adapter,
)
from reactive_agents.agent.output_types import output_shape
from reactive_agents.core.codec import decode, encode
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.events import ModelCallCompleted, TaskCompleted
from reactive_agents.core.models import TokenPrice
from reactive_agents.core.tasks import TaskResult
from reactive_agents.reasoning.confidence import BY_STATUS
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, call, fail, forever, say

pytestmark = pytest.mark.anyio


@attrs.frozen
class City:
    """A city.

    Attributes:
        people: how many live there.
    """

    name: str
    people: int = attrs.field(validator=attrs.validators.ge(0))


@dataclass
class Point:
    x: float
    y: float = 0.0


class Movie(TypedDict):
    title: str
    year: int


class Verdict(BaseModel):
    label: Literal["good", "bad"]
    score: float = Field(ge=0, le=1)
    parts: list[Point] = []


CITY = '{"name": "Rome", "people": 2800000}'
ROME = City("Rome", 2_800_000)


def agent(output_type: Any, *turns: Turn, strategy: str = "reactive", **options: Any) -> Any:
    builder = ReactiveAgents.create().with_output_type(output_type).with_llm(ScriptedLLM(*turns))
    if options:
        builder = builder.with_budget(**options)
    return (builder.with_reasoning(strategy) if strategy else builder).build()


@pytest.mark.parametrize("strategy", ["reactive", "direct"])
def test_a_completed_result_unwraps_to_its_answer_and_others_raise_their_reason(strategy: str) -> None:
    assert agent(City, say(CITY), strategy=strategy).run_sync("Which city?").unwrap() == ROME
    nothing = agent(City | None, say("null"), strategy=strategy).run_sync("Which city?")
    assert (nothing.status, nothing.unwrap()) == ("completed", None)
    partial = agent(City, forever(say("None.")), strategy=strategy).run_sync("Which city?")
    with pytest.raises(ValueError, match=r"^The run ended as partial: The answer could not be made a City"):
        partial.unwrap()


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (City, CITY, ROME),
        (City, f"Here it is:\n```json\n{CITY}\n```\nBye.", ROME),
        (City, '{"name": "Rome", "people": "2800000", "more": 1}', ROME),
        (Point, '{"x": 1}', Point(1.0)),
        (Movie, '{"title": "Alien", "year": 1979}', {"title": "Alien", "year": 1979}),
        (
            Verdict,
            '{"label": "good", "score": 0.5, "parts": [{"x": 1}]}',
            Verdict(label="good", score=0.5, parts=[Point(1)]),
        ),
        (list[int], "[1, 2, 3]", [1, 2, 3]),
        (list[City], f"[{CITY}]", [ROME]),
        (dict[str, float], '{"a": 1.5}', {"a": 1.5}),
        (tuple[int, str], '[1, "a"]', (1, "a")),
        (int, "42", 42),
        (bool, "true", True),
        (str, "Just [1] text.", "Just [1] text."),
        (Literal["yes", "no"], "Yes", "yes"),
        (int | None, "7", 7),
        (City | Point, '{"x": 2, "y": 3}', Point(2, 3)),
    ],
)
async def test_the_output_is_a_value_of_the_type(kind: Any, said: str, value: object) -> None:
    result = await agent(kind, say(said)).run("Which?")
    assert isinstance(result, TypedResult)
    assert (result.output, result.status, result.success) == (value, "completed", True)
    assert type(result.output) is type(value)
    assert (result.text, result.metadata.model_calls) == (said, 1)


@pytest.mark.parametrize("strategy", ["reactive", "direct", "adaptive", ""])
async def test_an_answer_that_does_not_fit_is_turned_with_every_strategy(strategy: str) -> None:
    built = agent(City, say("Rome has 2.8 million people."), say(CITY, cost_usd=0.5), strategy=strategy)
    recorder = EventRecorder()
    built.subscribe(recorder)
    result = await built.run("Which city?")
    assert (result.output, result.text) == (ROME, CITY)
    assert [event.purpose for event in recorder.of(ModelCallCompleted)] == ["think", "output-type"]
    assert (result.metadata.model_calls, result.metadata.cost_usd) == (2, 0.5)
    first, second = built.container.models.llm().requests
    assert '"people"' in first.messages[0].content
    assert "Rome has 2.8 million people." in second.messages[-1].content


async def test_an_answer_with_two_different_values_is_asked_for_again() -> None:
    draft = '{"name": "Rome", "people": 3}'
    result = await agent(City, say(f"First {draft}, then {CITY}"), say(CITY)).run("Which city?")
    assert (result.output, result.metadata.model_calls) == (ROME, 2)


@attrs.frozen
class Found:
    """What was found; every field may be missing."""

    title: str = ""
    pages: int = 0


@pytest.mark.parametrize(
    ("kind", "said", "problem"),
    [
        (dict[str, int], '{"a": "one"}', "$.a: got 'one'"),
        (dict[str, int], 'Either {"a": 1} or {"b": 2}.', "there are different values in it"),
        (Point | Found, '{"error": "there is none"}', "Not a valid"),
        (Found, '{"error": "there is none"}', "none of its fields is known, expected some of title, pages"),
    ],
)
async def test_no_value_is_made_of_what_does_not_fit(kind: Any, said: str, problem: str) -> None:
    result = await agent(kind, forever(say(said))).run("What was found?")
    assert (result.status, result.output) == ("partial", None)
    assert problem in result.reason


async def test_fields_that_are_all_unknown_are_no_answer() -> None:
    turns = (call("final-answer", error="there is none"), call("final-answer", title="Emma"))
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools("calculator")
    result = await builder.with_output_type(Found).build().run("What was found?")
    assert result.output == Found("Emma")


@pytest.mark.parametrize(
    ("kind", "data", "path"),
    [
        (City, {"name": "Rome", "people": True}, "$.people"),
        (int, True, "$"),
        (int | None, False, "$"),
        (list[float], [1.5, False], "$[1]"),
        (dict[str, int], {"a": True}, "$.a"),
        (tuple[str, int], ["a", True], "$[1]"),
        (City | Point, {"x": True}, "$.x"),
        (list[Point], [{"x": 1, "y": True}], "$[0].y"),
    ],
)
def test_a_boolean_is_no_number(kind: Any, data: Any, path: str) -> None:
    (problem,) = output_shape(kind).unwrap().read(data).failure().problems
    assert (problem.path, problem.problem.endswith("a number is expected, not a boolean")) == (path, True)


@pytest.mark.parametrize(
    ("kind", "data"),
    [(bool, True), (int | bool, True), (list[int | bool], [True]), (Any, True), (dict, {"a": True})],
)
def test_a_boolean_stays_one_where_it_is_wanted(kind: Any, data: Any) -> None:
    assert json.dumps(output_shape(kind).unwrap().read(data).unwrap()) == json.dumps(data)


async def test_values_that_are_no_objects_are_asked_for_inside_of_one() -> None:
    built = agent(list[Point], say("one and two"), say('{"value": [{"x": 1}, {"x": 2}]}'))
    assert (await built.run("Which?")).output == [Point(1), Point(2)]
    schema = built.container.models.llm().requests[1].response_schema
    assert (schema["type"], schema["required"], "Point" in schema["$defs"]) == ("object", ["value"], True)


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (Literal["yes", "no"], '"yes"', "yes"),
        (Literal["yes", "no"], '```json\n"yes"\n```', "yes"),
        (date, '"2024-02-29"', date(2024, 2, 29)),
        (Path, '"/tmp"', Path("/tmp")),
        (str, r'"one\ntwo"', "one\ntwo"),
        (str, '"quoted" and more', '"quoted" and more'),
        (str, "042.10", "042.10"),
        (str, "42.10", "42.10"),
        (str, "null", "null"),
        (str | None, '"yes"', "yes"),
        (str | None, "null", None),
        (str | int, '"42"', "42"),
        (Decimal, "1.10", Decimal("1.10")),
        (int, "```\n42\n```", 42),
        (City, json.dumps(CITY), ROME),
    ],
)
async def test_an_answer_that_is_a_json_value_as_the_model_is_told_counts_as_that_value(
    kind: Any, said: str, value: object
) -> None:
    result = await agent(kind, say(said)).run("Which?")
    assert (result.output, type(result.output)) == (value, type(value))
    assert (result.status, result.metadata.model_calls) == ("completed", 1)


@pytest.mark.parametrize(
    ("kind", "said", "value"),
    [
        (list[int], "Not [1], as [2] says, but:\n```json\n[5, 6]\n```\nSee also [3].", [5, 6]),
        (list[int], "Not [1], but\n```\n[5, 6]\n```", [5, 6]),
        (list[int], "Not [1], but\n  ```JSON\n  [5, 6]\n  ```", [5, 6]),
        (list[int], "[5, 6], and not\n```json\nx\n```", [5, 6]),
        (list[int], "It is [5, 6]. Again: [5, 6].", [5, 6]),
    ],
)
async def test_a_block_of_json_goes_before_what_stands_in_the_prose(
    kind: Any, said: str, value: object
) -> None:
    result = await agent(kind, say(said)).run("Which?")
    assert (result.output, result.metadata.model_calls) == (value, 1)


@pytest.mark.parametrize(
    "said",
    [
        "Not\n```json\n[1]\n```\nbut\n```json\n[5, 6]\n```",
        "[1] was the first try, [5, 6] is better.",
        "[5, 6], and not ```json [1]",
    ],
)
async def test_of_several_different_lists_none_is_taken(said: str) -> None:
    result = await agent(list[int], say(said), say("[5, 6]")).run("Which?")
    assert (result.output, result.metadata.model_calls) == ([5, 6], 2)


@pytest.mark.parametrize(
    ("kind", "turned", "value"),
    [
        (int, "42", 42),
        (int, '{"value": 42}', 42),
        (Literal["yes", "no"], '"yes"', "yes"),
        (list[int], "[1, 2]", [1, 2]),
        (Annotated[str, Field(max_length=3)] | int, '{"value": "42"}', "42"),
    ],
)
async def test_a_turned_answer_counts_with_the_object_around_it_and_without(
    kind: Any, turned: str, value: object
) -> None:
    result = await agent(kind, say("It is hard to say."), say(turned)).run("Which?")
    assert (result.output, result.status) == (value, "completed")


@pytest.mark.parametrize(
    ("kind", "said", "value", "text"),
    [
        (str, '{"value": "Rome."}', "Rome.", "Rome."),
        (str | None, '```json\n{"value": "Rome."}\n```', "Rome.", "Rome."),
        (str | None, '{"value": null}', None, "null"),
        (int, '{"value": 42}', 42, "42"),
        (list[int], '{"value": [1, 2]}', [1, 2], "[1, 2]"),
        (dict, '{"value": {"a": 1}}', {"a": 1}, '{"a": 1}'),
        (dict[str, int], '{"value": 1}', {"value": 1}, '{"value": 1}'),
        (str, '{"values": "Rome."}', '{"values": "Rome."}', '{"values": "Rome."}'),
    ],
)
async def test_a_value_within_the_one_field_of_the_response_format_is_that_value(
    kind: Any, said: str, value: object, text: str
) -> None:
    built = agent(kind, say(said))
    result = await built.run("Which?")
    assert (result.output, result.text, result.metadata.model_calls) == (value, text, 1)
    (request,) = built.container.models.llm().requests
    assert request.response_schema["required"] == ["value"]
    assert '"required": ["value"]' in request.messages[0].content


async def test_the_turning_asks_for_one_form_alone() -> None:
    built = agent(int, say("It is hard to say."), say('{"value": 42}'))
    await built.run("Which?")
    asked = built.container.models.llm().requests[1].messages[0].content
    assert "The final answer to the user's task has to be" not in asked


async def test_turning_is_tried_again_with_what_was_wrong() -> None:
    built = agent(City, say("Rome"), say('{"name": "Rome", "people": -1}'), say(CITY))
    assert (await built.run("Which city?")).output == ROME
    assert "people" in built.container.models.llm().requests[2].messages[-1].content


@pytest.mark.parametrize(
    "turns", [(say("Rome"), forever(say("No."))), (say("Rome"), fail(ModelUnavailable("down", "m")))]
)
async def test_an_answer_that_cannot_be_turned_is_partial_with_its_text(turns: Any) -> None:
    result = await agent(City, *turns).run("Which city?")
    assert (result.output, result.text, result.status, result.success) == (None, "Rome", "partial", False)
    assert result.metadata.terminated_by == "output_type"
    assert "Missing: a City." in result.reason


async def test_nothing_is_asked_once_the_budget_is_spent() -> None:
    result = await agent(City, say("Rome"), say(CITY), tokens=15).run("Which city?")
    assert (result.status, result.text, result.metadata.model_calls) == ("partial", "Rome", 1)
    assert "15 tokens" in result.reason
    assert result.metadata.terminated_by == "budget"


async def test_a_budget_without_room_for_the_turning_is_named(tmp_path: Path) -> None:
    price = TokenPrice(0.0, 0.001, max_output_tokens=100)
    llm = ScriptedLLM(say("Rome", cost_usd=0.1), say(CITY, cost_usd=0.1), price=price)
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_output_type(City)
    async with builder.with_cost(tmp_path / "cost.db", run_usd=0.15).build() as built:
        result = await built.run("Which city?")
    assert (result.status, result.text, result.metadata.model_calls) == ("partial", "Rome", 1)
    assert result.metadata.terminated_by == "budget"
    assert "The budget of the run is exhausted" in result.reason


async def test_a_partial_answer_is_not_made_up() -> None:
    built = agent(City, forever(call("nowhere")))
    result = await built.run("Which city?")
    assert (result.output, result.status) == (None, "partial")
    assert result.metadata.terminated_by != "output_type"


async def test_an_answer_that_a_guardrail_leaves_no_value_of_is_partial() -> None:
    card = say('{"name": "Rome", "people": 4111111111111111}')
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(card)).with_reasoning().with_output_type(City)
    result = await builder.with_guardrails("personal-data").build().run("Which city?")
    assert (result.status, result.output, result.metadata.terminated_by) == ("partial", None, "output_type")
    assert result.text == '{"name": "Rome", "people": [credit-card]}'
    assert "since a guardrail redacted it. Missing: a City." in result.reason


async def test_events_carry_the_text_and_the_agent_reads_it() -> None:
    built = agent(City, say("It is Rome."), say(CITY))
    async with aclosing(built.stream("Which city?")) as events:
        last = [event async for event in events][-1]
    assert isinstance(last, TaskCompleted)
    assert last.result.output == CITY
    assert decode(encode(last.result), TaskResult).unwrap() == last.result
    assert built.present(last.result).output == ROME


async def test_the_other_ways_to_run_give_it_too() -> None:
    assert agent(City, say(CITY)).run_sync("Which city?").output == ROME
    outcome = await agent(City, say(CITY)).run_effect("Which city?")
    assert isinstance(outcome, IOSuccess)


async def test_an_agent_with_a_type_works_as_a_tool() -> None:
    inner = agent(City, say(CITY))
    outer = ReactiveAgents.create().with_llm(ScriptedLLM(call("agent", task="Which city?"), say("Rome.")))
    result = await outer.with_tools(agent_tool(inner)).with_reasoning().build().run("Where?")
    assert list(result.tool_results.values()) == [CITY]


async def test_the_offline_model_fills_the_type() -> None:
    result = await ReactiveAgents.create().with_model("offline").with_output_type(Point).build().run("Where?")
    assert (result.output, result.status) == (Point(0, 0), "completed")


def test_a_type_without_a_json_form_is_refused_by_name() -> None:
    class Opaque:
        pass

    with pytest.raises(AgentError, match=r"output_type: got Opaque, expected a type with a JSON form"):
        ReactiveAgents.create().with_model("offline").with_output_type(Opaque).build()

    class Needy:
        @classmethod
        def __get_pydantic_core_schema__(cls, *_: object) -> None:
            raise ImportError("phonenumbers is not installed")

    for kind, reason in ((Needy, "phonenumbers is not"), (Annotated[str, Field(pattern="(")], "Error build")):
        with pytest.raises(AgentError, match=rf"expected a type with a JSON form \({reason}"):
            ReactiveAgents.create().with_model("offline").with_output_type(kind).build()
    with pytest.raises(AgentError, match="to be serialised"):
        ReactiveAgents.create().with_model("offline").with_output_type(City).to_config()


def test_a_validator_that_raises_anything_is_a_problem_of_the_value() -> None:
    @attrs.frozen
    class Odd:
        n: int = attrs.field()

        def __attrs_post_init__(self) -> None:
            raise LookupError("odd")

    read = output_shape(Odd).unwrap().read({"n": 1})
    assert "odd" in read.failure().message
    assert json.dumps(output_shape(City).unwrap().schema)


def test_a_typed_result_has_every_attribute_of_a_plain_one() -> None:
    llm = ScriptedLLM(say("[2, 3]"))
    agent = ReactiveAgents.create().with_llm(llm).with_output_type(list[int]).with_verification().build()
    result = agent.run_sync("Which primes are below 5?")
    assert result.verification is not None
    assert isinstance(result, TaskResult)
    assert (result.result.output, result.text) == ("[2, 3]", "[2, 3]")
    for name in {field.name for field in attrs.fields(TaskResult)} - {"output", "output_text"}:
        assert getattr(result, name) == getattr(result.result, name), name


def test_the_class_of_a_result_is_that_of_its_status() -> None:
    done = agent(City, say(CITY)).run_sync("Which city?")
    early = agent(City, forever(say("No."))).run_sync("Which city?")
    plain = ReactiveAgents.create().with_llm(ScriptedLLM(say("Rome."))).build().run_sync("Which city?")
    assert [type(each) for each in (done, early, plain)] == [CompletedResult, PartialResult, CompletedResult]
    match done:
        case CompletedResult(output=City() as city):
            assert city == ROME
        case _:
            raise AssertionError(done)
    assert type(decode(encode(plain), AgentResult).unwrap()) is CompletedResult
    assert pickle.loads(pickle.dumps(done)) == done


@pytest.mark.parametrize("given", ["NaN", "-Infinity", "1e999", 10**400, float("nan"), float("inf")])
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (float, lambda x: {"value": x}),
        (Point, lambda x: {"x": 1.0, "y": x}),
        (list[Point], lambda x: {"value": [{"x": x}]}),
    ],
    ids=["float", "field", "nested"],
)
def test_nan_and_infinities_are_asked_for_again(kind: Any, fields: Any, given: Any) -> None:
    llm = ScriptedLLM(call("final-answer", **fields(given)), call("final-answer", **fields(2.5)))
    builder = ReactiveAgents.create().with_llm(llm).with_tools("calculator").with_output_type(kind)
    result = builder.with_reasoning("reactive").build().run_sync("Say 2.5 and 1.0.")
    assert result.status == "completed"
    assert "2.5" in str(result.text)
    assert len(llm.requests) == 2
    assert "a finite number is expected" in str(llm.requests[1].messages[-2:])
    assert result_adapter(kind).validate_json(result_adapter(kind).dump_json(result)) == result


@pytest.mark.parametrize("text", ["NaN", "Infinity", '"-inf"'])
def test_nan_in_prose_is_no_number(text: str) -> None:
    result = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(forever(say(text))))
        .with_output_type(float)
        .build()
        .run_sync("x")
    )
    assert (result.status, result.output) == ("partial", None)
    assert result_adapter(float).validate_json(result_adapter(float).dump_json(result)) == result


def test_a_text_that_reads_like_nan_stays_a_text() -> None:
    @dataclass
    class Person:
        name: str

    builder = ReactiveAgents.create().with_llm(ScriptedLLM(say('{"name": "Nan"}'))).with_output_type(Person)
    assert builder.build().run_sync("Who?").output == Person("Nan")


class Sold(BaseModel):
    year: int
    pieces: int
    confidence: Annotated[float, Field(ge=0, le=1)]


class Sales(BaseModel):
    sold: list[Sold]
    quality: Annotated[float, Field(ge=0, le=1)] | None = None


def pieces(year: int) -> str:
    """How many pieces were sold in a year."""
    return f"{year}: 4711 pieces"


async def test_a_number_between_0_and_1_is_the_models_own_judgement_and_needs_no_source() -> None:
    found = {"sold": [{"year": 2024, "pieces": 4711, "confidence": 0.87}], "quality": 0.65}
    model = ScriptedLLM(call("pieces", year=2024), call("final-answer", found))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(pieces)
    result = await builder.with_output_type(Sales).build().run("How many were sold in 2024?")
    assert (result.output, result.reason) == (Sales.model_validate(found), "The model gave its final answer.")
    assert result.metadata.confidence == BY_STATUS["completed"]


async def test_the_models_own_judgement_needs_no_source_in_reflexion_either() -> None:
    found = {"sold": [{"year": 2024, "pieces": 4711, "confidence": 0.87}], "quality": 0.65}
    critique = say(json.dumps({"issues": [], "score": 0.9, "satisfied": True}))
    model = ScriptedLLM(call("pieces", year=2024), call("final-answer", found), critique)
    builder = ReactiveAgents.create().with_llm(model).with_tools(pieces).with_reasoning("reflexion")
    result = await builder.with_output_type(Sales).build().run("How many were sold in 2024?")
    assert (result.output, result.status) == (Sales.model_validate(found), "completed")
    assert result.reason == "The critic was satisfied with attempt 1."
    assert result.metadata.confidence == 0.9


async def test_other_numbers_of_an_answer_with_ratings_need_a_source() -> None:
    wrong, right = (
        {"sold": [{"year": 2024, "pieces": number, "confidence": 0.87}]} for number in (8350, 4711)
    )
    corrected = call("final-answer", right, when="Nothing that you have seen supports: 8350. Look")
    model = ScriptedLLM(call("pieces", year=2024), call("final-answer", wrong), corrected)
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(pieces)
    result = await builder.with_output_type(Sales).build().run("How many were sold in 2024?")
    assert result.output == Sales.model_validate(right)
