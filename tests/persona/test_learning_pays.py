"""Many events of a domain with hidden rules: what learning brings, and what planning costs."""

from __future__ import annotations

import pytest
from attrs import evolve

from reactive_agents.core.errors import UnknownDomain
from reactive_agents.core.persona_events import PersonaLearningChanged
from reactive_agents.core.personas import DomainEvent, EngagementPolicy, LearningPolicy, PersonaOutcome
from reactive_agents.effects import attempt
from reactive_agents.persona import VariantReport, compare_personas
from reactive_agents.testing import FakeTools
from tests.support.hidden_rules import RULES, SimulatedModel, gate_events, gate_in, is_open, try_gate
from tests.support.personas import PersonaBench, persona_bench

pytestmark = pytest.mark.anyio

EVENTS = 90


def walker(seed: int, *, learning: bool = True, reasoning: bool = True, misled: float = 0.1) -> PersonaBench:
    return persona_bench(
        SimulatedModel(seed=seed, misled=misled),
        tools=FakeTools({"try_gate": try_gate}),
        engagement=EngagementPolicy(max_events=EVENTS),
        learning=evolve(LearningPolicy(), enabled=learning),
        reasoning=reasoning,
        transcript=0,  # the simulated model looks for its gate in the whole prompt
        reuse_above=1.0,  # each gate is planned for anew, so that only learning makes a difference
    )


def opened(event: DomainEvent, outcome: PersonaOutcome) -> bool:
    return is_open(gate_in(event.content), outcome.answer)


async def reports(seed: int) -> dict[str, VariantReport]:
    variants = {
        "learning": walker(seed),
        "planning": walker(seed, learning=False),
        "reactive": walker(seed, reasoning=False),
    }
    personas = {name: bench.persona for name, bench in variants.items()}
    compared = await attempt(compare_personas("chat", gate_events(EVENTS, seed=seed), personas, opened))
    return {report.name: report for report in compared.unwrap()}


@pytest.mark.system
async def test_learning_wins_clearly_over_planning_without_it() -> None:
    found = await reports(seed=7)
    learning, planning, reactive = found["learning"], found["planning"], found["reactive"]
    assert len(learning.succeeded) == EVENTS
    assert learning.success_rate > planning.success_rate + 0.3
    assert sum(learning.succeeded[-50:]) / 50 > 0.75
    assert 0.15 < planning.success_rate < 0.35
    assert 0.15 < reactive.success_rate < 0.35  # a plan by itself knows no more than a reaction
    assert reactive.tokens < planning.tokens
    assert reactive.cost_usd < planning.cost_usd
    assert reactive.duration_ms < planning.duration_ms


@pytest.mark.system
async def test_wrong_lessons_do_not_become_trusted_ones() -> None:
    bench = walker(seed=3, misled=0.4)
    for event in gate_events(EVENTS, seed=3):
        (await attempt(bench.persona.process_event("chat", event))).unwrap()
    learnings = (await attempt(bench.persona.reasoning.learnings("chat"))).unwrap()
    right = {f"{gate.capitalize()}: {action}" for gate, action in RULES.items()}
    trusted = {each.pattern for each in learnings if each.confidence >= 0.7}
    assert len(trusted) >= 5
    assert trusted <= right
    changes = {event.change for event in bench.recorder.of(PersonaLearningChanged)}
    assert changes == {"created", "confirmed", "weakened"}


async def test_a_variant_without_the_domain_is_an_error() -> None:
    compared = await attempt(
        compare_personas("chess", gate_events(1, seed=1), {"a": walker(1).persona}, opened)
    )
    assert compared.failure() == UnknownDomain("chess", ("chat",))
