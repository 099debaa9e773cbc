"""Configuration: its defaults, its limits, and messages that name the option."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from returns.result import Failure

from reactive_agents.core.codec import decode, encode, from_json, to_json
from reactive_agents.core.config import (
    ANSWER_CHECKS,
    AdaptiveConfig,
    CompactionConfig,
    ContentConfig,
    ContextProfile,
    ContextProfileOverrides,
    ModelConfig,
    PlanExecuteConfig,
    RateLimit,
    ReactiveConfig,
    ReasoningConfig,
    ReflexionConfig,
    ResultCompressionConfig,
    StrategiesConfig,
    StrategyOptions,
    TimeoutConfig,
    TreeOfThoughtConfig,
)
from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.settings import RunSettings

SHARED: dict[str, Any] = {"compaction": None}
COMPACTION = {"method": "auto", "model": None, "provider": None, "function": None, "temperature": 0.0}
DEFAULTS: dict[type, dict[str, Any]] = {
    StrategyOptions: SHARED,
    CompactionConfig: COMPACTION,
    ReactiveConfig: {"max_iterations": 10, "temperature": None, **SHARED},
    PlanExecuteConfig: {
        **SHARED,
        "max_refinements": 1,
        "reflection_depth": "deep",
        "step_retries": 1,
        "step_kernel_max_iterations": 3,
        "plan_mode": "linear",
        "patch_strategy": "in-place",
    },
    TreeOfThoughtConfig: {
        "breadth": 3,
        "depth": 3,
        "pruning_threshold": 0.5,
        "evaluation": "score",
        "kernel_max_iterations": 10,
        **SHARED,
    },
    ReflexionConfig: {
        "max_retries": 3,
        "self_critique_depth": "deep",
        "kernel_max_iterations": 10,
        **SHARED,
    },
    AdaptiveConfig: {"enabled": False, "learning": True, "selection": "heuristic", "measured": True},
    ContextProfile: {
        "tier": "mid",
        "tool_result_chars": 8_000,
        "list_items": 50,
        "search_hits": 10,
        "schema_detail": "trimmed",
        "window_tokens": 32_768,
        "max_answer_tokens": None,
    },
    ContextProfileOverrides: {
        "tier": None,
        "tool_result_chars": None,
        "list_items": None,
        "search_hits": None,
        "schema_detail": None,
        "window_tokens": None,
        "max_answer_tokens": None,
    },
    ResultCompressionConfig: {"budget": None, "head_share": 0.7, "transform": {}},
    ContentConfig: {
        "max_bytes": 20_000_000,
        "max_total_bytes": 50_000_000,
        "max_parts": 20,
        "media_types": [
            "image/png",
            "image/jpeg",
            "image/gif",
            "image/webp",
            "audio/wav",
            "audio/mpeg",
            "audio/flac",
            "audio/ogg",
            "application/pdf",
            "text/*",
        ],
        "fetch_s": 30.0,
        "allow_hosts": [],
        "unheld_bytes": 256_000_000,
    },
    TimeoutConfig: {"run_s": None, "tool_call_s": 60.0, "grace_s": 5.0, "answer_s": 300.0},
    RateLimit: {"requests_per_minute": None, "tokens_per_minute": None},
    ModelConfig: {
        "provider": "",
        "model": "",
        "api_key": None,
        "base_url": None,
        "fallbacks": [],
        "max_attempts": 5,
        "timeout_s": 120.0,
        "profiles": None,
        "takes": None,
        "rate_limit": None,
        "prices": {},
        "response_cache": None,
    },
}


@pytest.mark.parametrize("kind", DEFAULTS, ids=lambda kind: kind.__name__)
def test_the_defaults_are_those_that_are_documented(kind: type) -> None:
    assert encode(kind()) == DEFAULTS[kind]


def test_the_defaults_of_the_whole() -> None:
    assert encode(RunSettings()) == {
        "name": "agent",
        "reasoning": None,
        "system_prompt": "",
        "max_iterations": None,
        "strict_hooks": False,
        "untrusted_arguments": None,
        "written_calls": "allow",
        "required_records": [],
        "verification": None,
        "enable_guardrails": False,
        "enable_verification": False,
        "enable_cost_tracking": False,
        "enable_audit": False,
        "timeouts": DEFAULTS[TimeoutConfig],
        "model_settings": {},
        "context_profile": DEFAULTS[ContextProfileOverrides],
        "compression": DEFAULTS[ResultCompressionConfig],
        "required_tools": [],
        "content": DEFAULTS[ContentConfig],
        "budget": {"tokens": None, "cost_usd": None, "calls": []},
        "durability": None,
    }
    assert encode(ReasoningConfig()) == {
        "default_strategy": "reactive",
        "adaptive": DEFAULTS[AdaptiveConfig],
        "strategies": {field.name: DEFAULTS[type(field.default)] for field in attrs.fields(StrategiesConfig)},
        "kernel": "react",
        "parallel_tool_calls": True,
        "tool_classifier": "heuristic",
        "compaction": COMPACTION,
        "answer_checks": list(ANSWER_CHECKS),
    }


LIMITS: list[tuple[type, str, list[Any], list[Any]]] = [
    (ReactiveConfig, "max_iterations", [1, 1_000], [0, -1]),
    (ReactiveConfig, "temperature", [0.0, 2.0], [-0.1, 2.1, float("nan")]),
    (PlanExecuteConfig, "max_refinements", [1], [0]),
    (PlanExecuteConfig, "step_retries", [0, 5], [-1]),
    (PlanExecuteConfig, "step_kernel_max_iterations", [1], [0]),
    (TreeOfThoughtConfig, "breadth", [1], [0]),
    (TreeOfThoughtConfig, "depth", [1], [0]),
    (TreeOfThoughtConfig, "pruning_threshold", [0.0, 1.0], [-0.01, 1.01, float("nan")]),
    (TreeOfThoughtConfig, "kernel_max_iterations", [1], [0]),
    (ReflexionConfig, "max_retries", [1], [0]),
    (ReflexionConfig, "kernel_max_iterations", [1], [0]),
    (ContextProfile, "tool_result_chars", [200], [199]),
    (ContextProfile, "list_items", [1], [0]),
    (ContextProfile, "search_hits", [1], [0]),
    (ContextProfile, "window_tokens", [1024], [1023]),
    (ContextProfile, "max_answer_tokens", [None, 1], [0]),
    (ContextProfileOverrides, "tool_result_chars", [None, 200], [199]),
    (ContextProfileOverrides, "list_items", [None, 1], [0]),
    (ContextProfileOverrides, "search_hits", [None, 1], [0]),
    (ContextProfileOverrides, "window_tokens", [None, 1024], [1023]),
    (ContextProfileOverrides, "max_answer_tokens", [None, 1], [0]),
    (ResultCompressionConfig, "budget", [None, 200], [199]),
    (ResultCompressionConfig, "head_share", [0.0, 1.0], [-0.1, 1.1, float("nan")]),
    (ContentConfig, "max_bytes", [1], [0]),
    (ContentConfig, "max_total_bytes", [1], [0]),
    (ContentConfig, "max_parts", [1], [0]),
    (ContentConfig, "media_types", [(), ("image/*", "text/csv")], [("image/bmp",), ("image/png", "jpeg")]),
    (ContentConfig, "unheld_bytes", [0], [-1]),
    (ContentConfig, "fetch_s", [0.1], [0.0, float("nan")]),
    (TimeoutConfig, "run_s", [None, 0.1], [0.0, -1.0, float("nan")]),
    (TimeoutConfig, "tool_call_s", [0.1], [0.0, float("nan")]),
    (TimeoutConfig, "grace_s", [0.1], [0.0, float("nan")]),
    (TimeoutConfig, "answer_s", [0.1], [0.0, float("nan")]),
    (ModelConfig, "max_attempts", [1], [0]),
    (ModelConfig, "timeout_s", [0.1], [0.0, float("nan")]),
    (ModelConfig, "profiles", [None, "models.db"], [""]),
    (ModelConfig, "response_cache", [None, "models.db"], [""]),
    (RateLimit, "requests_per_minute", [1, None], [0, -1]),
    (RateLimit, "tokens_per_minute", [1, None], [0, -1]),
    (RunSettings, "max_iterations", [1], [0]),
    (CompactionConfig, "temperature", [0.0, 2.0], [-0.1, 2.1, float("nan")]),
]


def test_every_field_with_a_limit_is_in_the_table() -> None:
    limited = {
        (kind, field.name)
        for kind in [*DEFAULTS, RunSettings, ReasoningConfig, StrategiesConfig]
        for field in attrs.fields(kind)
        if field.validator is not None
    }
    assert {(kind, name) for kind, name, _, _ in LIMITS} == limited


@pytest.mark.parametrize(("kind", "name", "good", "bad"), LIMITS)
def test_a_value_out_of_its_range_is_refused_by_name(
    kind: type, name: str, good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        assert getattr(kind(**{name: value}), name) == value
    for value in bad:
        with pytest.raises(ValueError, match=f"'{name}' must be"):
            kind(**{name: value})


def test_values_that_cannot_be_compared_are_refused_too() -> None:
    with pytest.raises(TypeError):
        ReactiveConfig(max_iterations="many")  # type: ignore[arg-type]


def test_a_configuration_is_read_strictly_with_all_problems_at_once() -> None:
    text = (
        '{"name": "a", "max_iterations": "10", "reasoning": {"strategies": {'
        '"reactive": {"max_iterations": 0, "temperature": 3}, "plan_execute": {"plan_mode": "tree"},'
        ' "unheard": {}}}}'
    )
    match from_json(text, RunSettings):
        case Failure(DecodeError() as error):
            assert error.problems == (
                FieldProblem(
                    "$.reasoning.strategies.reactive.max_iterations", "'max_iterations' must be >= 1: 0"
                ),
                FieldProblem(
                    "$.reasoning.strategies.reactive.temperature", "'temperature' must be <= 2.0: 3.0"
                ),
                FieldProblem(
                    "$.reasoning.strategies.plan_execute.plan_mode",
                    "got 'tree', expected one of 'linear', 'dag'",
                ),
                FieldProblem(
                    "$.reasoning.strategies.unheard",
                    f"unknown field; known fields: {', '.join(attrs.fields_dict(StrategiesConfig))}",
                ),
                FieldProblem("$.max_iterations", "got '10', expected an integer"),
            )
            assert error.message.startswith("Not a valid RunSettings: $.reasoning.strategies.reactive.max_")
        case other:
            raise AssertionError(other)


def test_what_is_left_out_has_its_default() -> None:
    assert decode({"name": "a"}, RunSettings).unwrap() == RunSettings("a")
    assert decode({"adaptive": {"enabled": True}}, ReasoningConfig).unwrap() == ReasoningConfig(
        adaptive=AdaptiveConfig(enabled=True)
    )


def test_an_api_key_is_neither_shown_nor_named_in_a_problem() -> None:
    config = ModelConfig(api_key="sk-secret")
    assert "sk-secret" not in repr(config)
    assert from_json(to_json(config), ModelConfig).unwrap().api_key == "sk-secret"
    match decode({"api_key": ["sk-secret"]}, ModelConfig):
        case Failure(error):
            assert error.problems[0].path == "$.api_key"
            assert "sk-secret" not in error.message
        case other:
            raise AssertionError(other)
