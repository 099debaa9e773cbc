"""Which settings hold for a strategy: its own, else those for all, else the default."""

from __future__ import annotations

from typing import Any

import pytest

from reactive_agents.core.codec import decode
from reactive_agents.core.config import ReasoningConfig
from reactive_agents.reasoning.synthesis import (
    GIVEN,
    SynthesisMaterial,
    SynthesisSettings,
    synthesis_settings,
)

TABLES = {
    "reactive": "reactive",
    "plan_execute": "plan-execute-reflect",
    "tree_of_thought": "tree-of-thought",
    "reflexion": "reflexion",
}


def config(**document: Any) -> ReasoningConfig:
    """A configuration as it is written."""
    return decode(document, ReasoningConfig).unwrap()


def one(material: SynthesisMaterial) -> str:
    """A function."""
    return "one"


def two(material: SynthesisMaterial) -> str:
    """Another function."""
    return "two"


def test_the_default_is_auto_with_the_model_of_the_run() -> None:
    assert synthesis_settings(ReasoningConfig(), "reactive", {}) == SynthesisSettings("auto", None, 0.0, None)


@pytest.mark.parametrize("table", TABLES)
def test_each_field_of_a_strategy_goes_before_that_for_all(table: str) -> None:
    name = TABLES[table]
    top = {"synthesis": "deep", "synthesis_model": "a/big", "synthesis_temperature": 0.5}
    assert synthesis_settings(config(**top), name, {}) == SynthesisSettings("deep", "a/big", 0.5)
    for own, expected in (
        ({"synthesis": "off"}, SynthesisSettings("off", "a/big", 0.5)),
        ({"synthesis_model": "b/small"}, SynthesisSettings("deep", "b/small", 0.5)),
        ({"synthesis_temperature": 0.0}, SynthesisSettings("deep", "a/big", 0.0)),
    ):
        given = config(**top, strategies={table: own})
        assert synthesis_settings(given, name, {}) == expected
        assert synthesis_settings(given, name.replace("-", "_"), {}) == expected
        for other in {"adaptive", "mine", *TABLES.values()} - {name}:
            assert synthesis_settings(given, other, {}) == SynthesisSettings("deep", "a/big", 0.5)


@pytest.mark.parametrize(
    ("top", "own", "model"),
    [
        ({"synthesis_model": "big", "synthesis_provider": "a"}, {}, "a/big"),
        ({"synthesis_model": "a/big", "synthesis_provider": "a"}, {}, "a/big"),
        ({"synthesis_model": "x/big", "synthesis_provider": "a"}, {}, "a/x/big"),
        ({"synthesis_model": "big", "synthesis_provider": "a"}, {"synthesis_provider": "b"}, "b/big"),
        ({"synthesis_model": "big", "synthesis_provider": "a"}, {"synthesis_model": "small"}, "a/small"),
        ({"synthesis_model": "big", "synthesis_provider": "a"}, {"synthesis_model": "b/small"}, "b/small"),
        ({"synthesis_model": "big"}, {}, "big"),
        ({}, {}, None),
    ],
)
def test_provider_and_model_make_one_name(
    top: dict[str, Any], own: dict[str, Any], model: str | None
) -> None:
    given = config(**top, strategies={"reactive": own})
    assert synthesis_settings(given, "reactive", {}).model == model


def test_the_function_of_the_strategy_goes_first_then_the_given_one() -> None:
    top = {"synthesis": "custom", "synthesis_strategy": "m:one"}
    functions = {"m:one": one, "m:two": two}
    own = config(**top, strategies={"reactive": {"synthesis_strategy": "m:two"}})
    assert synthesis_settings(own, "reactive", functions).function is two
    assert synthesis_settings(own, "reflexion", functions).function is one
    assert synthesis_settings(own, "reflexion", {**functions, GIVEN: two}).function is two
    assert synthesis_settings(own, "reactive", {GIVEN: one}).function is None
    assert synthesis_settings(config(synthesis="custom"), "reactive", {GIVEN: one}).function is one
