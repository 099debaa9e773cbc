"""The status of a result tells what its output is, also with an output type that is a union."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true
from dataclasses import dataclass
from typing import Literal, assert_type

from reactive_agents import (
    AbstainedResult,
    AgentResult,
    CompletedResult,
    ModelRetry,
    PartialResult,
    ReactiveAgents,
    RunContext,
    TypedResult,
)
from reactive_agents.core.events import TaskCompleted


@dataclass
class City:
    name: str


@dataclass
class Country:
    code: str


def of_text() -> str:
    result = ReactiveAgents.create().build().run_sync("Which city?")
    assert_type(result.output, str | None)
    if result.status == "completed":
        return result.output
    assert_type(result, PartialResult[str] | AbstainedResult[str])
    return result.reason


def of_a_class(result: TypedResult[City]) -> str:
    if result.status != "completed":
        return result.output.name  # type: ignore[union-attr]
    assert_type(result.output, City)
    return result.output.name


def unwrapped(result: TypedResult[City | Country], text: AgentResult) -> str:
    assert_type(result.unwrap(), City | Country)
    return text.unwrap()


def by_match(result: TypedResult[City]) -> str:
    match result:
        case CompletedResult(output=city):
            return city.name
        case PartialResult():
            return result.reason
        case AbstainedResult():
            return result.reason


def by_status(result: TypedResult[City]) -> str:
    match result.status:
        case "completed":
            return result.output.name
        case "partial" | "failed" | "abstained":
            return result.reason


async def of_unions() -> None:
    builder = ReactiveAgents.create()
    either = await builder.with_output_type(City | Country).build().run("Which?")
    if either.status == "completed":
        assert_type(either.output, City | Country)
    maybe = builder.with_output_type(str | None).build().run_sync("Which?")
    if maybe.status == "completed":
        assert_type(maybe.output, str | None)
    choice = builder.with_output_type(Literal["yes", "no"]).build().run_sync("Which?")
    if choice.status == "completed":
        assert_type(choice.output, Literal["yes", "no"])
    several = builder.with_output_type(list[City]).build().run_sync("Which?")
    assert_type(several, TypedResult[list[City]])
    wrong: TypedResult[City] = several  # type: ignore[assignment]
    del wrong


def of_an_event(event: TaskCompleted) -> AgentResult:
    if event.result.status == "completed":
        assert_type(event.result.output, str)
    return event.result


# --- output validators ---


class Deps:
    cities: frozenset[str]


def known(ctx: RunContext[Deps], city: City) -> City:
    if city.name not in ctx.deps.cities:
        raise ModelRetry("It is not known.")
    return city


async def later(city: City) -> City | ModelRetry | None:
    return ModelRetry("It is not known.") if city.name == "?" else None


def of_a_number(number: int) -> int:
    return number


def of_a_text(text: str) -> str:
    return text.strip()


def validated() -> None:
    typed = ReactiveAgents.create(deps=Deps).with_output_type(City)
    assert_type(
        typed.with_output_validator(known).with_output_validator(later),
        ReactiveAgents[TypedResult[City], Deps],
    )
    typed.with_output_validator(of_a_number)  # type: ignore[arg-type]
    ReactiveAgents.create().with_output_type(City).with_output_validator(known)  # type: ignore[arg-type]
    ReactiveAgents.create().with_output_validator(of_a_text).build()
    ReactiveAgents.create().with_output_validator(of_a_number)  # type: ignore[arg-type]
