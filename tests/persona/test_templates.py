"""Plans for known kinds of events: which template fits, and what becomes of its parameters."""

from __future__ import annotations

import re

import pytest
from attrs import evolve

from reactive_agents import AgentError, Personas
from reactive_agents.core.errors import RateLimited
from reactive_agents.core.personas import Contingency, PlanTemplate, TemplateStep
from reactive_agents.persona import PersonaDomain
from reactive_agents.persona.domain import LONGEST_MATCHED, matching_template
from reactive_agents.testing import ScriptedLLM, fail, say
from tests.support.personas import assessed, persona_bench

pytestmark = pytest.mark.anyio

WEATHER = PlanTemplate(
    "weather",
    r"What is the weather in (?P<place>.+)\?",
    "The weather in {place} is known.",
    (TemplateStep("Look up {place}.", "The weather of {place}, {unit}."),),
    (Contingency("rate_limit", ("Guess for {place}.",)),),
    ("It names {place}.",),
)


def test_the_first_template_that_fits_as_a_whole_is_filled_in() -> None:
    other = evolve(WEATHER, name="other", pattern=".*")
    found = matching_template([WEATHER, other], "What is the weather in Oslo?")
    assert found is not None
    assert (found.name, found.goal) == ("weather", "The weather in Oslo is known.")
    assert found.steps == (TemplateStep("Look up Oslo.", "The weather of Oslo, {unit}."),)
    assert found.contingencies[0].actions == ("Guess for Oslo.",)
    assert found.success_criteria == ("It names Oslo.",)
    second = matching_template([WEATHER, other], "Hello. What is the weather in Oslo?")
    assert second is not None
    assert second.name == "other"
    assert matching_template([WEATHER], "Hello.") is None
    assert matching_template([other], "x" * (LONGEST_MATCHED + 1)) is None


def test_a_parameter_that_looks_like_another_is_not_filled_in_again() -> None:
    template = evolve(WEATHER, pattern=r"(?P<place>\S+) (?P<unit>\S+)")
    found = matching_template([template], "{unit} celsius")
    assert found is not None
    assert found.steps[0] == TemplateStep("Look up {unit}.", "The weather of {unit}, celsius.")


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (evolve(WEATHER, pattern="("), "templates.weather.pattern: got '(', expected a regular expression"),
        (evolve(WEATHER, steps=()), "templates.weather.steps: got none, expected one step or more"),
    ],
)
def test_a_template_that_cannot_be_used_is_refused_with_its_place(template: PlanTemplate, said: str) -> None:
    engine = persona_bench(ScriptedLLM()).persona.domains["chat"].engine
    with pytest.raises(ValueError, match=re.escape(said)):
        PersonaDomain("chat", engine, templates=(template,))
    described = Personas.create("Ada").with_llm(ScriptedLLM()).with_domain("chat", templates=[template])
    with pytest.raises(AgentError, match=re.escape(f"domains.chat.{said}")):
        described.build()


async def test_a_template_needs_no_planning_call_and_adapts_as_any_plan() -> None:
    llm = ScriptedLLM(
        fail(RateLimited("Too many requests.", "m"), when="Look up Oslo.\n"),
        say("Rain, I guess.", when="Guess for Oslo.\n"),
        assessed(),
    )
    bench = persona_bench(llm)
    chat = bench.persona.domains["chat"]
    bench.persona.domains["chat"] = PersonaDomain("chat", chat.engine, templates=(WEATHER,))
    outcome = await bench.process("What is the weather in Oslo?")
    assert (outcome.status, outcome.answer) == ("completed", "Rain, I guess.")
    assert outcome.plan is not None
    assert (outcome.plan.source, outcome.plan.derived_from) == ("template", "weather")
    assert [request.purpose for request in llm.requests] == ["think", "think", "persona-evaluate"]
