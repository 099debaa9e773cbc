"""Whatever a builder is given, it is accepted and can be written and read back, or ``build`` says why not."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reactive_agents import AgentError, ReactiveAgents, read_config
from tests.support.profiles import examples

anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.complex_numbers(),
    st.timedeltas(),
    st.lists(st.integers() | st.text(max_size=4), max_size=2),
    st.tuples(st.text(max_size=4)),
    st.frozensets(st.integers() | st.text(max_size=4), max_size=2),
    st.dictionaries(st.integers() | st.text(max_size=4), st.none() | st.integers() | st.floats(), max_size=2),
    st.sampled_from([object(), object, print, "offline", "reactive", "think", "before", "1", "json:loads"]),
)

CALLS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("with_model", ("", "api_key", "base_url", "settings")),
    ("with_model_settings", ("",)),
    ("with_rate_limit", ("requests_per_minute", "tokens_per_minute")),
    ("with_response_cache", ("",)),
    ("with_provider", ("", "api_key", "base_url")),
    ("with_llm", ("",)),
    ("with_fallbacks", ("", "")),
    ("with_prices", ("",)),
    ("with_name", ("",)),
    ("with_reasoning", ("", "strategies", "compaction")),
    ("with_strategy", ("", "")),
    ("with_controller", ("",)),
    ("with_compaction_function", ("",)),
    ("with_synthesis_strategy", ("",)),
    ("with_policies", ("", "")),
    ("with_tools", ("", "")),
    ("with_mcp", ("", "")),
    ("with_workspace", ("",)),
    ("with_system_prompt", ("",)),
    ("with_instructions", ("", "")),
    ("with_toolset", ("", "prefix", "rename", "only", "filter")),
    ("with_max_iterations", ("",)),
    ("with_timeout", ("", "model_call", "tool_call", "answer")),
    ("with_required_tools", ("", "min_calls")),
    ("with_budget", ("tokens", "cost_usd", "calls")),
    ("with_context_profile", ("", "list_items", "unheard_of")),
    ("with_content", ("model_takes", "max_bytes", "media_types")),
    ("with_result_compression", ("budget", "head_share", "transform")),
    ("with_hook", ("", "", "")),
    ("with_tool_wrapper", ("",)),
    ("with_deps", ("",)),
    ("with_strict_hooks", ("",)),
    ("with_output_type", ("",)),
    ("with_output_validator", ("",)),
    (
        "with_memory",
        (
            *("", "tier", "token_budget", "embedding_model", "embedder", "extraction", "scope", "anonymous"),
            "on_failure",
        ),
    ),
    ("with_sessions", ("",)),
    ("with_session_state", ("",)),
    ("with_guardrails", ("", "", "judge_model")),
    ("with_console", ("output",)),
    ("with_telemetry", ("tracer_provider", "meter_provider", "content")),
    ("with_logging", ()),
    ("with_run_log", ("", "keep_days", "keep_runs")),
    ("with_durability", ("", "in_doubt", "recover")),
    ("with_redaction", ("", "")),
    ("with_verification", ("threshold", "action", "judge_model", "self_consistency", "deliverables")),
    ("with_audit", ("", "signing_key")),
    ("with_cost", ("", "tiers", "run_usd", "daily_usd", "monthly_usd", "warn_at")),
    ("with_approval", ("", "timeout_s")),
    ("with_ask_user", ("",)),
    ("with_handoffs", ("", "")),
    ("with_kernel", ("", "")),
    ("from_config", ("",)),
)
"""Each call, with its positional arguments as empty names; see the next test."""


def test_each_call_of_the_builder_is_tried() -> None:
    assert {name for name, _ in CALLS} == {
        name for name in dir(ReactiveAgents) if name.startswith("with_") or name == "from_config"
    }


@pytest.mark.system
@pytest.mark.parametrize(("name", "arguments"), CALLS)
@settings(examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_value_is_accepted_for_good_or_reported_by_build(
    name: str,
    arguments: tuple[str, ...],
    data: st.DataObject,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    positional = [data.draw(anything) for argument in arguments if not argument]
    options = {
        argument: data.draw(anything) for argument in arguments if argument and data.draw(st.booleans())
    }
    builder: Any = ReactiveAgents.create().with_model("offline")
    described = getattr(builder, name)(*positional, **options)
    problem = _problem(described.build)
    assert not list(tmp_path.iterdir())
    if problem is not None:
        return
    if "serialised" in (_problem(described.to_config) or ""):
        return
    config = described.to_config()
    assert read_config(json.loads(config.to_json())).unwrap() == config
    assert read_config(tomllib.loads(config.to_toml())).unwrap() == config


def _problem(made: Callable[[], object]) -> str | None:
    try:
        made()
    except AgentError as error:
        return str(error)
    return None
