"""Structured output of simulated weak models: fields that are wrapped, texts, or prose."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any

import pytest
from attrs import evolve, frozen

from reactive_agents import ReactiveAgents
from tests.lab.laboratory import Figures, ModelServer, run_tasks
from tests.lab.slips import BY_TEXT, CAPABLE, WEAK, Profile
from tests.lab.tasks import FAMILIES
from tests.support.openai_server import Answer, Call, Received, Reply

pytestmark = pytest.mark.system

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@frozen
class Price:
    """A price.

    Attributes:
        amount: in euros, with its cents.
    """

    amount: float
    currency: str = "EUR"


def typed_server(rate: float) -> type[ModelServer]:
    """Return a server whose model gives its answers as prices, a share of them in another form."""

    class TypedServer(ModelServer):
        def _next(self, received: Received) -> Reply:
            body, rng = received.body, random.Random(json.dumps(received.body))
            asked = "\n".join(str(message.get("content")) for message in body["messages"])
            if not body.get("tools") and "Put what it says into that form" in asked:
                return _answer(asked.rpartition("<answer")[2], rng, slips=rng.random() < rate / 2)
            reply = super()._next(received)
            if not isinstance(reply, Answer):
                return reply
            lone = reply.calls[0] if len(reply.calls) == 1 and reply.calls[0].name == "final-answer" else None
            given = lone.arguments if lone is not None and isinstance(lone.arguments, Mapping) else {}
            if lone is None or "could_not" in given or not _NUMBER.search(str(given.get("answer"))):
                return reply
            fields = _fields(str(given["answer"]), rng, slips=rng.random() < rate)
            return evolve(reply, calls=(Call("final-answer", fields, lone.id),))

    return TypedServer


def _fields(text: str, rng: random.Random, *, slips: bool) -> Any:
    right = {"amount": float(_NUMBER.findall(text)[-1])}
    if not slips:
        return right
    return rng.choice(
        (
            {"answer": text},
            {"answer": json.dumps(right)},
            {"Price": right},
            {"amount": f"{right['amount']}"},
            {"amount": f"{right['amount']} euros"},
            {"amount": None},
            {**right, "note": "as looked up"},
            {"price": right["amount"]},
            [right],
        )
    )


def _answer(text: str, rng: random.Random, *, slips: bool) -> Answer:
    found = _NUMBER.findall(text)
    value = json.dumps({"amount": float(found[-1])}) if found else "There is no price."
    return Answer(
        rng.choice((f"Here it is: {value}", value[:-1], f"The price is {value}.")) if slips else value
    )


def run(profile: Profile, rate: float, strategy: str = "reactive", count: int = 3) -> Figures:
    families = [each for each in FAMILIES if each.name in ("sum of prices", "unit prices")]
    tasks = [(family, family.task(number)) for family in families for number in range(count)]

    def build(builder: ReactiveAgents) -> Any:
        return builder.with_output_type(Price)

    return run_tasks(tasks, profile, strategy, build=build, serve=typed_server(rate))


@pytest.mark.parametrize("strategy", ["reactive", "plan-execute-reflect", "direct"])
def test_a_capable_model_fills_in_the_fields_without_a_further_call(strategy: str) -> None:
    figures = run(evolve(CAPABLE, answers_by_text=0.0), 0.0, strategy)
    assert [(o.task_id, o.status, o.output) for o in figures.outcomes if o.ending != "right"] == []
    if strategy in ("reactive", "direct"):
        plain = run_tasks(_tasks(), evolve(CAPABLE, answers_by_text=0.0), strategy)
        assert figures.calls == plain.calls


def _tasks() -> Any:
    families = [each for each in FAMILIES if each.name in ("sum of prices", "unit prices")]
    return [(family, family.task(number)) for family in families for number in range(3)]


def test_a_model_that_answers_in_prose_gives_values_too() -> None:
    figures = run(BY_TEXT, 0.0)
    assert figures.count("right") == len(figures.outcomes)


@pytest.mark.parametrize("profile", [CAPABLE, WEAK], ids=lambda profile: profile.name)
def test_other_forms_of_fields_are_understood_or_asked_for_again(profile: Profile) -> None:
    figures = run(profile, 0.8, count=8)
    assert figures.count("right") >= 0.85 * len(figures.outcomes)
    assert figures.count("false success") <= 0.05 * len(figures.outcomes)


if __name__ == "__main__":
    for label, how, share in (
        ("capable", CAPABLE, 0.0),
        ("by text", BY_TEXT, 0.0),
        ("capable, forms", CAPABLE, 0.8),
        ("weak", WEAK, 0.0),
        ("weak, forms", WEAK, 0.8),
    ):
        for strategy in ("reactive", "reflexion", "plan-execute-reflect", "direct"):
            done = run(how, share, strategy, 10)
            ends = [done.count(each) for each in ("right", "false success", "honest failure")]
            spent = f"{done.calls} calls, {done.prompt_tokens} tokens"
            print(f"{label:15} {strategy:22} {ends} of {len(done.outcomes)}, {spent}")
