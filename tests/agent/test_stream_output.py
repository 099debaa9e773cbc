"""Partial values of an answer: of each kind of type, over the script and over a real server."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Any, Literal

import attrs
import pytest
from pydantic import BaseModel, Field, field_validator
from typing_extensions import TypedDict

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.agent.output_stream import MISSING, partial_json, partial_value
from reactive_agents.core.errors import ModelUnavailable, StructuredOutputError, root_cause
from reactive_agents.core.models import ToolCallDelta
from reactive_agents.testing import ScriptedLLM, answer, call, fail, say, streamed
from tests.support.openai_server import Answer, Call, OpenAIServer

pytestmark = pytest.mark.anyio


@attrs.frozen
class Moon:
    name: str
    radius_km: float
    notes: tuple[str, ...] = ()


@attrs.frozen
class Report:
    planet: str
    moons: list[Moon]
    mood: Literal["good", "bad"] = "good"


@dataclasses.dataclass(frozen=True)
class Plain:
    planet: str
    moons: list[str]


class Typed(TypedDict):
    planet: str
    moons: list[str]


class Model(BaseModel):
    planet: str
    moons: Annotated[list[str], Field(min_length=2)]
    count: int = 0

    @field_validator("planet")
    @classmethod
    def named(cls, value: str) -> str:
        return value.upper()


MARS = {"planet": "The red one", "moons": ["Phobos", "Deimos"]}


def look_up(name: str) -> str:
    """Look a name up."""
    return name


def in_parts(fields: Any, size: int = 4) -> tuple[ToolCallDelta, ...]:
    text = json.dumps(fields)
    parts = [text[at : at + size] for at in range(0, len(text), size)]
    return tuple(ToolCallDelta(0, "final-answer" if not at else "", part) for at, part in enumerate(parts))


async def values_of(kind: Any, fields: Any, task: str = "Report.") -> list[Any]:
    turn = streamed(call("final-answer", fields), *in_parts(fields))
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(turn)).with_reasoning().with_tools(look_up)
    return [each async for each in builder.with_output_type(kind).build().stream_output(task)]


@pytest.mark.parametrize("kind", [Plain, Typed, Model])
async def test_fields_appear_and_texts_grow(kind: Any) -> None:
    values = await values_of(kind, MARS)

    def read(value: Any, name: str) -> Any:
        return value.get(name) if isinstance(value, dict) else getattr(value, name)

    assert all(isinstance(each, dict if kind is Typed else kind) for each in values)
    assert values[0] != values[-1]
    planets = list(dict.fromkeys(read(each, "planet") for each in values))
    assert len(planets) > 3
    assert all("the red one".startswith(each.casefold()) for each in planets if each)
    assert any(read(each, "moons") in (["Phobos"], ["Phobos", ""]) for each in values)
    assert read(values[-1], "moons") == ["Phobos", "Deimos"]


async def test_nested_values_are_made_of_what_is_there_and_valid() -> None:
    fields = {"planet": "Mars", "moons": [{"name": "Phobos", "radius_km": 11.27}], "mood": "bad"}
    values = await values_of(Report, fields, "Report that the radius of Phobos is 11.27.")
    assert values[-1] == Report("Mars", [Moon("Phobos", 11.27)], "bad")
    firsts = [each.moons[0] for each in values if each.moons]
    assert any(each.name == "Phobos" and each.radius_km is None and each.notes == () for each in firsts)
    assert {each.radius_km for each in firsts} == {None, 11.27}  # a number that may go on is left out
    assert {each.mood for each in values} == {"good", "bad"}
    assert all(repr(each) for each in values)


async def test_values_that_are_no_objects_and_texts_stream_too() -> None:
    numbers = await values_of(list[int], {"value": [2, 3, 5, 7]})
    assert numbers[-1] == [2, 3, 5, 7]
    assert [2, 3] in numbers
    assert all([2, 3, 5, 7][: len(each)] == each for each in numbers)
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(answer("The answer is 3."))).with_reasoning()
    stream = agent.with_tools(look_up).build().stream_output("What?")
    with pytest.raises(AttributeError, match="result: the run has no result before the last value was read"):
        _ = stream.result
    texts = [each async for each in stream]
    assert texts[-1] == "The answer is 3."
    assert len(texts) > 1
    assert all("The answer is 3.".startswith(each) for each in texts)
    assert stream.result.status == "completed"


async def test_the_same_over_a_real_server() -> None:
    reply = Answer(calls=(Call("final-answer", json.dumps(MARS)),))
    with OpenAIServer(reply) as server:
        builder = ReactiveAgents.create().with_model(
            "openai/gpt-4o-mini", api_key="k", base_url=server.base_url
        )
        async with builder.with_reasoning().with_tools(look_up).with_output_type(Plain).build() as agent:
            values = [each async for each in agent.stream_output("Report.")]
    assert values[-1] == Plain("The red one", ["Phobos", "Deimos"])
    assert len(values) > 1


async def test_a_value_that_is_turned_down_is_replaced() -> None:
    wrong = {"planet": "Mars", "moons": [["many"]]}
    turns = (streamed(call("final-answer", wrong), *in_parts(wrong)), call("final-answer", MARS))
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(look_up)
    values = [each async for each in builder.with_output_type(Plain).build().stream_output("Report.")]
    assert values[0].moons is None
    assert values[-1] == Plain("The red one", ["Phobos", "Deimos"])


async def test_a_run_without_an_answer_raises() -> None:
    down = ModelUnavailable("The server is down.", "m")
    agent = (
        ReactiveAgents.create().with_llm(ScriptedLLM(fail(down), say("No idea."))).with_output_type(list[int])
    )
    with pytest.raises(AgentError) as failed:
        [each async for each in agent.build().stream_output("Count.")]
    assert root_cause(failed.value.error) == down
    llm = ScriptedLLM(*[say("No idea.")] * 6)
    stream = ReactiveAgents.create().with_llm(llm).with_output_type(list[int]).build().stream_output("Count.")
    with pytest.raises(AgentError) as missing:
        [each async for each in stream]
    assert isinstance(root_cause(missing.value.error), StructuredOutputError)
    assert stream.result.status == "partial"


async def test_none_is_an_answer_of_a_type_that_has_it() -> None:
    llm = ScriptedLLM(call("final-answer", value=None))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools("calculator")
    stream = builder.with_output_type(Literal[1, None]).build().stream_output("Which one?")
    assert {value async for value in stream} == {None}
    assert stream.result.status == "completed"


async def test_leaving_the_loop_cancels_the_run() -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("one two three", delay=0.0))).build()
    stream = agent.stream_output("Count.")
    async for _ in stream:
        break
    await stream.aclose()
    assert agent.running() == ()


def test_what_is_no_json_has_no_value() -> None:
    assert [partial_json(text) for text in ("", "nothing", "{", "```json\n[", "[1, 2] and", "{]")] == [
        MISSING,
        MISSING,
        {},
        [],
        [1, 2],
        MISSING,
    ]
    assert partial_value(int, "x") is MISSING
    assert partial_value(set[int], [1, "x"]) == {1}
    assert partial_value(dict[str, int], {"a": 1, "b": "x"}) == {"a": 1}
    assert partial_value(int | None, None) is None
    assert partial_value(Plain | Moon, {"planet": "Mars"}) == Plain("Mars", None)  # type: ignore[arg-type]


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    name: str


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str
    tricks: list[str]


@pytest.mark.parametrize("kind", [Cat | Dog, Annotated[Cat | Dog, Field(discriminator="kind")]])
def test_a_part_of_a_union_is_of_the_type_that_fits_best(kind: Any) -> None:
    text = '{"kind": "dog", "name": "Rex", "tricks": ["sit"]}'
    values = [partial_value(kind, partial_json(text[:end])) for end in range(1, len(text) + 1)]
    assert {type(each) for each in values if each is not MISSING} == {Dog}
    assert values[1:11] == [MISSING] * 10  # until the kind is complete
    assert partial_value(list[kind], [{"kind": "d"}, {"kind": "cat", "name": "M"}]) == [Cat(name="M")]
    assert partial_value(Annotated[Plain, "a planet"] | Moon, {"planet": "Mars"}).planet == "Mars"  # type: ignore[arg-type]
    assert partial_value(Cat | Dog | dict[str, int], {"count": 1}) == {"count": 1}  # type: ignore[arg-type]


async def test_a_stream_of_a_union_shows_no_other_type() -> None:
    dog = {"kind": "dog", "name": "Rex", "tricks": ["sit"]}
    model = ScriptedLLM(streamed(answer(dog), *in_parts(dog, 3)))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(look_up).build()
    shown = [each async for each in agent.stream_output("Which pet?", output=Cat | Dog)]
    assert len(shown) > 3
    assert {type(each) for each in shown} == {Dog}
