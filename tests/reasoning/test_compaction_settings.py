"""How the transcripts of a strategy are shortened: as its own options say, else those for all."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from reactive_agents.core.codec import decode
from reactive_agents.core.config import ReasoningConfig
from reactive_agents.kernel import CompactionMaterial, CompactionSettings
from reactive_agents.kernel.context import CompactionFunction
from reactive_agents.reasoning.strategy import GIVEN_FUNCTION, compaction_of
from tests.support.kernels import kernel_bench
from tests.support.strategies import strategy_services

TABLES = {
    "reactive": "reactive",
    "plan_execute": "plan-execute-reflect",
    "tree_of_thought": "tree-of-thought",
    "reflexion": "reflexion",
}


def config(**document: Any) -> ReasoningConfig:
    """A configuration as it is written."""
    return decode(document, ReasoningConfig).unwrap()


def settings(
    given: ReasoningConfig, strategy: str, functions: dict[str, CompactionFunction] | None = None
) -> CompactionSettings:
    services = evolve(strategy_services(kernel_bench()), compaction_functions=functions or {})
    return compaction_of(given, strategy, services)


def one(material: CompactionMaterial) -> str:
    """A function."""
    return "one"


def two(material: CompactionMaterial) -> str:
    """Another function."""
    return "two"


def test_the_default_is_auto_with_the_model_of_the_run() -> None:
    assert settings(ReasoningConfig(), "reactive") == CompactionSettings("auto", None, 0.0, None)


@pytest.mark.parametrize("table", TABLES)
def test_the_options_of_a_strategy_take_the_place_of_those_for_all(table: str) -> None:
    name = TABLES[table]
    given = config(
        compaction={"method": "model", "model": "a/big", "temperature": 0.5},
        strategies={table: {"compaction": {"method": "drop"}}},
    )
    assert settings(given, name) == CompactionSettings("drop")
    assert settings(given, name.replace("-", "_")) == CompactionSettings("drop")
    for other in {"adaptive", "mine", *TABLES.values()} - {name}:
        assert settings(given, other) == CompactionSettings("model", "a/big", 0.5)


@pytest.mark.parametrize(
    ("options", "model"),
    [
        ({"model": "big", "provider": "a"}, "a/big"),
        ({"model": "a/big", "provider": "a"}, "a/big"),
        ({"model": "x/big", "provider": "a"}, "a/x/big"),
        ({"model": "big"}, "big"),
        ({}, None),
    ],
)
def test_provider_and_model_make_one_name(options: dict[str, Any], model: str | None) -> None:
    assert settings(config(compaction=options), "reactive").model == model


def test_a_function_is_taken_by_its_name_or_else_the_given_one() -> None:
    functions: dict[str, CompactionFunction] = {"m:one": one, GIVEN_FUNCTION: two}
    named = {"method": "custom", "function": "m:one"}
    given = config(compaction={"method": "custom"}, strategies={"reactive": {"compaction": named}})
    assert settings(given, "reactive", functions).function is one
    assert settings(given, "reflexion", functions).function is two
    assert settings(config(compaction=named), "reflexion", {GIVEN_FUNCTION: two}).function is None


# --- the options as they were named before --------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
def test_earlier_options_are_read_field_by_field(table: str) -> None:
    name = TABLES[table]
    top = {"synthesis": "deep", "synthesis_model": "a/big", "synthesis_temperature": 0.5}
    assert settings(config(**top), name) == CompactionSettings("model", "a/big", 0.5)
    for own, expected in (
        ({"synthesis": "off"}, CompactionSettings("drop", "a/big", 0.5)),
        ({"synthesis_model": "b/small"}, CompactionSettings("model", "b/small", 0.5)),
        ({"synthesis_temperature": 0.0}, CompactionSettings("model", "a/big", 0.0)),
        ({"synthesis": None}, CompactionSettings("model", "a/big", 0.5)),
    ):
        given = config(**top, strategies={table: own})
        assert settings(given, name) == expected
        for other in {"adaptive", "mine", *TABLES.values()} - {name}:
            assert settings(given, other) == CompactionSettings("model", "a/big", 0.5)


@pytest.mark.parametrize(
    ("top", "own", "model"),
    [
        ({"synthesis_model": "big", "synthesis_provider": "a"}, {}, "a/big"),
        ({"synthesis_model": "big", "synthesis_provider": "a"}, {"synthesis_provider": "b"}, "b/big"),
        ({"synthesis_model": "big", "synthesis_provider": "a"}, {"synthesis_model": "small"}, "a/small"),
        ({"synthesis_model": "big", "synthesis_provider": "a"}, {"synthesis_model": "b/small"}, "b/small"),
        ({"synthesis_model": "big"}, {}, "big"),
    ],
)
def test_earlier_provider_and_model_make_one_name(
    top: dict[str, Any], own: dict[str, Any], model: str | None
) -> None:
    assert settings(config(**top, strategies={"reactive": own}), "reactive").model == model


@pytest.mark.parametrize(
    ("before", "now"), [("auto", "auto"), ("fast", "template"), ("custom", "custom"), ("off", "drop")]
)
def test_earlier_modes_are_methods(before: str, now: str) -> None:
    assert config(synthesis=before).compaction.method == now


def test_a_wrong_earlier_value_is_an_error_that_names_the_option() -> None:
    (problem,) = decode({"synthesis": "sometimes"}, ReasoningConfig).failure().problems
    assert problem.path == "$.compaction.method"
    assert "'template'" in problem.problem
