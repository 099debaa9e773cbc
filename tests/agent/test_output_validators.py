"""Output validators: functions of the program that judge answers, ask again, and change them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import anyio
import attrs
import pytest
from pydantic import BaseModel

from reactive_agents import AgentError, ModelRetry, ReactiveAgents, RunContext, tool
from reactive_agents.core.errors import OutputValidatorFailed, root_cause
from reactive_agents.core.events import TaskCompleted
from reactive_agents.testing import EventRecorder, ScriptedLLM, Turn, answer, call, forever, say
from tests.support.models import RuledLLM
from tests.support.sensible import sensible

pytestmark = pytest.mark.anyio


@attrs.frozen
class City:
    name: str
    people: int
    founded: date | None = None


@dataclass
class Register:
    cities: tuple[str, ...]
    asked: int = 0


ROME: dict[str, Any] = {"name": "Rome", "people": 2_800_000}
OSLO: dict[str, Any] = {"name": "Oslo", "people": 700_000}
LOOK = call("look", city="Rome")


@tool
def look(city: str) -> str:
    """Look up a city."""
    return f"{city} has 2800000 people, Oslo 700000."


def agent(
    *turns: Turn, validators: Any, tools: bool = True, kind: Any = City, strategy: str = "reactive"
) -> Any:
    builder: Any = ReactiveAgents.create(deps=Register).with_llm(ScriptedLLM(*turns))
    builder = builder.with_tools(look) if tools else builder
    builder = builder.with_output_type(kind) if kind is not None else builder
    for validator in validators:
        builder = builder.with_output_validator(validator)
    return (builder.with_reasoning(strategy) if strategy else builder).build()


async def run(built: Any) -> Any:
    return await built.run("Which city is the largest?", deps=Register(("Rome",)))


def known(ctx: RunContext[Register], city: City) -> City:
    ctx.deps.asked += 1
    if city.name not in ctx.deps.cities:
        raise ModelRetry(f"{city.name} is not in the register.")
    return city


def returns_it(city: City) -> Any:
    return ModelRetry("It is Rome.") if city.name != "Rome" else None


async def later(ctx: RunContext[Register], city: City) -> City:
    await anyio.lowlevel.checkpoint()
    return known(ctx, city)


@pytest.mark.parametrize("validator", [known, returns_it, later])
@pytest.mark.parametrize("strategy", ["reactive", "direct", ""])
async def test_the_model_is_asked_again_with_the_reason(validator: Any, strategy: str) -> None:
    built = agent(LOOK, answer(OSLO), answer(ROME), validators=[validator], strategy=strategy)
    result = await run(built)
    assert (result.output, result.status, result.metadata.model_calls) == (City(**ROME), "completed", 3)
    shown = built.container.models.llm().requests[-1].messages[-1].content
    assert "not in the register" in shown or "It is Rome." in shown


async def test_an_answer_is_judged_once_and_the_retries_are_counted() -> None:
    seen: list[tuple[str, int, str | None]] = []

    def note(ctx: RunContext[Register], city: City) -> None:
        seen.append((city.name, ctx.retry, ctx.user))
        if city.name != "Rome":
            raise ModelRetry("No.")

    built = agent(LOOK, answer(OSLO), answer(ROME), validators=[note])
    await built.run("Which city?", deps=Register(()), user="u-17")
    assert seen == [("Oslo", 0, "u-17"), ("Rome", 1, "u-17")]


async def test_the_value_of_a_validator_is_the_answer_everywhere() -> None:
    def founded(city: City) -> City:
        return attrs.evolve(city, founded=date(753, 4, 21))

    def louder(city: City) -> City:
        return attrs.evolve(city, name=city.name.upper())

    built = agent(LOOK, answer(ROME), validators=[founded, louder])
    recorder = EventRecorder()
    built.subscribe(recorder)
    result = await run(built)
    assert result.output == City("ROME", 2_800_000, date(753, 4, 21))
    (ended,) = recorder.of(TaskCompleted)
    assert ended.result.output == result.text
    assert built.present(ended.result).output == result.output
    assert "ROME" in result.messages[-1].content


async def test_a_value_may_be_changed_in_place() -> None:
    class Note(BaseModel):
        text: str

    def trim(note: Note) -> None:
        note.text = note.text.strip()

    result = await run(agent(LOOK, answer({"text": " Rome "}), validators=[trim], kind=Note))
    assert result.output == Note(text="Rome")


async def test_plain_text_can_be_validated_too() -> None:
    def short(text: str) -> str:
        if len(text) > 10:
            raise ModelRetry("Give the name alone.")
        return text.rstrip(".")

    long = "It is the city of Rome, with 2800000 people."
    for turns, tools in (
        ((LOOK, answer(long), answer("Rome.")), True),
        ((say(long), say("Rome.")), False),
    ):
        built = agent(*turns, validators=[short], kind=None, tools=tools)
        result = await run(built)
        assert (result.output, result.status) == ("Rome", "completed")
        assert "Give the name alone." in built.container.models.llm().requests[-1].messages[-1].content


@pytest.mark.parametrize("tools", [True, False])
@pytest.mark.parametrize("kind", [City, None])
@pytest.mark.parametrize(
    ("problem", "told"), [("Only Atlantis counts", "Only Atlantis counts."), ("Atlantis?", "Atlantis?")]
)
async def test_a_validator_that_never_accepts_ends_as_partial_with_its_reason(
    tools: bool, kind: Any, problem: str, told: str
) -> None:
    def never(_: Any) -> None:
        raise ModelRetry(problem)

    given = answer(ROME) if kind else answer("Rome.")
    turns = (LOOK, forever(given)) if tools else (forever(say('{"name": "Rome", "people": 1}')),)
    built = agent(*turns, validators=[never], kind=kind, tools=tools)
    result = await run(built)
    asked = "\n".join(each.content for each in built.container.models.llm().requests[-1].messages)
    assert f"{told} " in asked
    assert (result.status, result.metadata.terminated_by) == ("partial", "output_validator")
    assert f"{told} Missing: an answer that is accepted." in result.reason
    assert result.metadata.model_calls == 3 + tools


@pytest.mark.parametrize("strategy", ["reflexion", "tree-of-thought", "plan-execute-reflect", "adaptive"])
async def test_every_strategy_is_validated(strategy: str) -> None:
    given: list[str] = []

    def rome(city: City) -> None:
        given.append(city.name)
        if city.name != "Rome":
            raise ModelRetry("It is Rome.")

    def turn(request: Any) -> Any:
        offered = {each.name: each for each in request.tools}
        typed = "final-answer" in offered and "people" in offered["final-answer"].schema_text
        if request.purpose != "think" or not typed:
            return sensible(request)
        told = any("It is Rome." in message.content for message in request.messages)
        return "final-answer", ROME if told else OSLO

    builder = ReactiveAgents.create().with_output_type(City).with_llm(RuledLLM(turn)).with_tools(look)
    built = builder.with_output_validator(rome).with_reasoning(strategy).build()
    result = await built.run("Which city is the largest? Rome has 2800000 people, Oslo 700000.")
    assert (result.output, result.status) == (City(**ROME), "completed")
    assert given[:2] == ["Oslo", "Rome"]


def raises(_: City) -> City:
    raise KeyError("no such city")


def forgets_the_type(_: City) -> Any:
    return "Rome"


def returns_an_object(_: City) -> Any:
    return object()


@pytest.mark.parametrize(
    ("validator", "problem"),
    [
        (raises, "raised KeyError: 'no such city'"),
        (forgets_the_type, "returned a value that is not of the type City: got a str"),
        (returns_an_object, "returned a value that is not of the type City: got an object"),
    ],
)
@pytest.mark.parametrize("strategy", ["reactive", "reflexion", "adaptive", ""])
async def test_anything_else_from_a_validator_is_an_error_that_names_it(
    validator: Any, problem: str, strategy: str
) -> None:
    def turn(request: Any) -> Any:
        return ("final-answer", ROME) if request.purpose == "think" and request.tools else sensible(request)

    builder = ReactiveAgents.create().with_output_type(City).with_llm(RuledLLM(turn)).with_tools(look)
    typed = builder.with_output_validator(validator)
    built = (typed.with_reasoning(strategy) if strategy else typed).build()
    with pytest.raises(AgentError) as raised:
        await built.run("Which city has 2,800,000 people?")
    error = root_cause(raised.value.error)
    assert isinstance(error, OutputValidatorFailed)
    assert error.validator == validator.__name__
    assert problem in error.message


async def test_a_validator_that_outlasts_the_run_ends_it_at_its_deadline() -> None:
    async def hangs(_: City) -> None:
        await anyio.sleep_forever()

    builder = ReactiveAgents.create().with_output_type(City).with_tools(look).with_timeout(0.2)
    builder = builder.with_llm(ScriptedLLM(LOOK, answer(ROME))).with_output_validator(hangs)
    result = await builder.with_reasoning().build().run("Which city?")
    assert (result.status, result.metadata.terminated_by) == ("partial", "deadline")


def of_three(_a: object, _b: object, _c: object) -> None: ...


def of_nothing() -> None: ...


@pytest.mark.parametrize("function", [of_three, of_nothing, "known"])
def test_a_function_of_other_arguments_is_refused(function: Any) -> None:
    with pytest.raises(AgentError, match=r"output_validator: got .*, expected a function of the answer"):
        ReactiveAgents.create().with_model("offline").with_output_validator(function).build()


def test_an_agent_with_a_validator_cannot_be_serialised() -> None:
    builder = ReactiveAgents.create().with_model("offline").with_output_validator(lambda text: None)
    with pytest.raises(AgentError, match="output_validators: got <lambda>"):
        builder.to_config()


@pytest.mark.parametrize("kind", [City, None], ids=["typed", "text"])
async def test_a_run_with_another_output_type_is_not_judged(kind: Any) -> None:
    judged: list[Any] = []

    def by_name(given: Any) -> None:
        judged.append(given if kind is None else given.name)

    built = agent(say("[7]"), say(str(ROME).replace("'", '"')), validators=[by_name], tools=False, kind=kind)
    other = await built.run("Which number?", output=list[int], deps=Register(()))
    assert (other.status, other.output, judged) == ("completed", [7], [])
    same = await built.run("Which city is the largest?", output=kind or str, deps=Register(()))
    assert (same.status, len(judged)) == ("completed", 1)


@pytest.mark.parametrize("other_kind", [None, City, "text"])
async def test_the_answer_of_an_agent_that_takes_over_passes_both_agents_validators(other_kind: Any) -> None:
    """Of the first agent always, which the answer is for; its own where it answers with its own type."""

    def no_oslo(value: Any) -> None:
        judged.append("first")
        if "Oslo" in str(value):
            raise ModelRetry("It is not Oslo.")

    def note(value: Any) -> None:
        judged.append("other")

    judged: list[str] = []
    is_text = other_kind == "text"
    turns = [answer("It is Oslo."), answer("It is Rome.")] if is_text else [answer(OSLO), answer(ROME)]
    other_model = ScriptedLLM(LOOK, *turns)
    other: Any = ReactiveAgents.create().with_name("other").with_llm(other_model).with_tools(look)
    other = other.with_output_type(City) if other_kind is City else other
    other = other.with_output_validator(note).with_reasoning()
    first: Any = ReactiveAgents.create().with_llm(ScriptedLLM(call("transfer-to-other"))).with_reasoning()
    first = first if is_text else first.with_output_type(City)
    first = first.with_output_validator(no_oslo).with_handoffs(other.build())
    result = await first.build().run("Which city is the largest?")
    assert (result.output, result.status) == ("It is Rome." if is_text else City(**ROME), "completed")
    assert judged == (["first"] * 2 if other_kind is None else ["other", "first"] * 2)
    assert "It is not Oslo." in other_model.requests[-1].messages[-1].content


async def test_an_answer_that_the_first_agent_never_accepts_is_partial_after_a_handoff() -> None:
    def never(city: City) -> None:
        raise ModelRetry("No.")

    other = ReactiveAgents.create().with_name("other").with_llm(ScriptedLLM(LOOK, *[answer(ROME)] * 3))
    first: Any = ReactiveAgents.create().with_llm(ScriptedLLM(call("transfer-to-other"))).with_reasoning()
    first = first.with_output_type(City).with_output_validator(never)
    built = first.with_handoffs(other.with_tools(look).with_reasoning().build()).build()
    result = await built.run("Which city is the largest?")
    assert (result.status, result.metadata.terminated_by) == ("partial", "output_validator")
