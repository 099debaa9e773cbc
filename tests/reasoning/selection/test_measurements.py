"""Heavier strategies are chosen only where the laboratory measured a gain, and the reason says so."""

from __future__ import annotations

import pytest
from attrs import evolve

from reactive_agents.core.config import AdaptiveConfig, ReasoningConfig
from reactive_agents.effects import attempt
from reactive_agents.reasoning.selection.rules import Selection
from reactive_agents.reasoning.selection.selector import (
    SLIPS_OF_TIER,
    Measurement,
    StrategySelector,
    hold_to_gain,
    packaged_measurements,
    selection_context,
)
from tests.support.fakes import registry_of
from tests.support.kernels import kernel_bench
from tests.support.strategies import strategy_input, strategy_services

FOUR = ("reactive", "plan-execute-reflect", "reflexion", "tree-of-thought")
FAVOURITE = Selection("reflexion", "a text whose quality matters", 0.8, "rules")
LIGHT = Measurement("reactive", 0.5, runs=40, right=30, false_success=1, prompt_tokens=40_000)
HEAVY = Measurement("reflexion", 0.5, runs=40, right=36, false_success=1, prompt_tokens=100_000)


def test_a_gain_is_taken_and_named() -> None:
    chosen = hold_to_gain(FAVOURITE, FOUR, "local", (LIGHT, HEAVY))
    assert chosen.strategy == "reflexion"
    assert chosen.reason == (
        "a text whose quality matters; in the laboratory, with 50% of turns slipped, reflexion was right in "
        "36 of 40 runs and reactive in 30 of 40, at 2.5 times the tokens"
    )


@pytest.mark.parametrize(
    "heavy",
    [
        evolve(HEAVY, right=30),
        evolve(HEAVY, right=31),
        evolve(HEAVY, right=33),
        evolve(HEAVY, false_success=3),
        evolve(HEAVY, runs=8, right=8),
        evolve(HEAVY, slips=0.25),
        evolve(HEAVY, strategy="tree-of-thought"),
    ],
    ids=[
        "no gain",
        "a small gain",
        "a gain by chance",
        "less honest",
        "few runs",
        "other slips",
        "not measured",
    ],
)
def test_without_a_gain_reactive_is_chosen_with_the_reason(heavy: Measurement) -> None:
    chosen = hold_to_gain(FAVOURITE, FOUR, "local", (LIGHT, heavy))
    assert chosen.strategy == "reactive"
    assert chosen.reason.startswith("a text whose quality matters, but ")
    assert "reflexion" in chosen.reason


def test_custom_strategies_and_those_without_an_alternative_stay() -> None:
    own = evolve(FAVOURITE, strategy="oracle")
    assert hold_to_gain(own, (*FOUR, "oracle"), "local", (LIGHT,)) == own
    assert hold_to_gain(FAVOURITE, ("reflexion",), "local", (LIGHT,)) == FAVOURITE


def test_the_figures_come_with_the_package() -> None:
    found = packaged_measurements()
    assert {each.slips for each in found} == set(SLIPS_OF_TIER.values())
    assert {each.strategy for each in found} == set(FOUR)
    assert all(each.right + each.false_success <= each.runs for each in found)


@pytest.mark.anyio
@pytest.mark.parametrize("measured", [True, False])
async def test_the_selector_holds_the_rules_to_the_figures(measured: bool) -> None:
    config = ReasoningConfig(adaptive=AdaptiveConfig(enabled=True, measured=measured))
    given = strategy_input("Write a technical report", reasoning=config)
    services = strategy_services(kernel_bench())
    selector = StrategySelector(registry_of().strategies, (evolve(LIGHT, slips=0.25),))
    selection = await attempt(selector.select(selection_context(given, services), given, services))
    chosen = selection.unwrap()
    assert chosen.strategy == ("reactive" if measured else "reflexion")
    assert ("was not measured" in chosen.reason) == measured
