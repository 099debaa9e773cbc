"""Which profile a model gets by its name, and what replaces its fields."""

from __future__ import annotations

import itertools

import pytest
from attrs import evolve

from reactive_agents.adapters.llm.providers import PROVIDERS
from reactive_agents.core.config import CONTEXT_PROFILES, ContextProfile, ContextProfileOverrides
from reactive_agents.kernel.context_window.window import merge_profile, profile_for

TIERS = {
    "local": [
        "ollama/llama3.3:70b",
        "ollama_chat/qwen3",
        "lm_studio/any",
        "meta-llama/Llama-3.1-8B",
        "mistral-7b-instruct",
        "together_ai/qwen2.5-3b",
        "qwen-0.5B",
        "openai/gpt-5-nano",
        "phi-4",
        "google/gemma",
    ],
    "mid": [
        "",
        "scripted/test",
        "offline/quotes",
        "azure/my-deployment",
        "openai/gpt-5.4-mini",
        "o4-mini",
        "anthropic/claude-haiku-4-5",
        "gemini/gemini-2.5-flash",
        "gpt-3.5-turbo",
        "groq/openai/gpt-oss-20b",
        "qwen3-30b-a3b",
        "mixtral-8x7b",
        "minimax/minimax-m2",
        "foo1o1",
        "web",
    ],
    "large": [
        "openai/gpt-4o",
        "gpt-4.1",
        "claude-3-5-sonnet-20240620",
        "bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0",
        "groq/openai/gpt-oss-120b",
        "deepinfra/meta-llama/Llama-3.3-70B-Instruct-Turbo",
        "mixtral-8x22b",
        "mistral/mistral-large-latest",
        "deepseek/deepseek-chat",
    ],
    "frontier": [
        "openai/gpt-5",
        "gpt-5.4",
        "anthropic/claude-sonnet-5",
        "claude-opus-4-5",
        "gemini/gemini-2.5-pro",
        "Gemini-Pro-Latest",
        "xai/grok-4.5-latest",
        "o3",
    ],
}


@pytest.mark.parametrize(("tier", "model"), [(tier, model) for tier in TIERS for model in TIERS[tier]])
def test_the_name_of_a_model_says_its_tier(tier: str, model: str) -> None:
    assert profile_for(model).tier == tier


def test_no_default_model_of_a_hosted_provider_counts_as_local() -> None:
    models = [each.default_model for each in PROVIDERS if each.default_model and not each.local]
    assert len(models) > 10
    assert [model for model in models if profile_for(model).tier == "local"] == []


def test_each_tier_has_a_profile_of_its_own_and_a_larger_one_takes_more() -> None:
    assert list(CONTEXT_PROFILES) == ["local", "mid", "large", "frontier"]
    assert CONTEXT_PROFILES["mid"] == ContextProfile()
    assert all(profile.tier == tier for tier, profile in CONTEXT_PROFILES.items())
    for smaller, larger in itertools.pairwise(CONTEXT_PROFILES.values()):
        for name in ("tool_result_chars", "list_items", "search_hits", "window_tokens"):
            assert getattr(smaller, name) < getattr(larger, name)
    assert all(each.tool_result_chars <= each.window_tokens for each in CONTEXT_PROFILES.values())


def test_overrides_replace_single_fields_and_a_tier_replaces_the_base() -> None:
    large = profile_for("gpt-4o")
    assert merge_profile(large, ContextProfileOverrides()) == large
    assert merge_profile(large, ContextProfileOverrides(search_hits=3)) == evolve(large, search_hits=3)
    assert merge_profile(large, ContextProfileOverrides(tier="local")) == CONTEXT_PROFILES["local"]
    both = ContextProfileOverrides(tier="local", schema_detail="full", max_answer_tokens=9)
    expected = evolve(CONTEXT_PROFILES["local"], schema_detail="full", max_answer_tokens=9)
    assert merge_profile(large, both) == expected
