"""Facts about providers that need no request."""

from __future__ import annotations

import subprocess
import sys

import pytest

from reactive_agents.adapters.llm.providers import (
    PROVIDERS,
    alternative_model,
    default_model,
    missing_variables,
    qualified_model,
)


@pytest.mark.parametrize(
    ("provider", "model", "full"),
    [
        ("openai", "gpt-4o", "openai/gpt-4o"),
        ("openai", "openai/gpt-4o", "openai/gpt-4o"),
        ("openrouter", "openai/gpt-4o", "openrouter/openai/gpt-4o"),
        ("", "groq/openai/gpt-oss-120b", "groq/openai/gpt-oss-120b"),
        ("", "claude-haiku-4-5", "anthropic/claude-haiku-4-5"),
        ("", "house-brand", "house-brand"),
        ("ollama", "", "ollama/qwen3"),
        ("azure", "", ""),
        ("", "", ""),
    ],
)
def test_a_model_gets_its_full_name(provider: str, model: str, full: str) -> None:
    assert qualified_model(provider, model) == full


def test_a_fallback_without_a_provider_belongs_to_the_configured_one() -> None:
    assert alternative_model("azure", "gpt-4o") == "azure/gpt-4o"
    assert alternative_model("azure", "openai/gpt-4o") == "openai/gpt-4o"


def test_every_default_model_names_its_provider() -> None:
    for provider in PROVIDERS:
        model = provider.default_model
        assert model is None or model.startswith(f"{provider.name}/")
        assert default_model(provider.name) == model
    assert default_model("nobody") is None


def test_a_provider_is_ready_when_its_variables_are_set() -> None:
    missing = {each.name: each.missing({"OPENAI_API_KEY": "k", "GROQ_API_KEY": ""}) for each in PROVIDERS}
    assert missing["openai"] == ()
    assert missing["groq"] == ("GROQ_API_KEY",)
    assert missing["azure"] == ("AZURE_API_KEY", "AZURE_API_BASE")
    assert default_model("azure") is None
    assert missing["offline"] == ()
    assert missing["ollama"] == ()
    assert "OLLAMA_API_BASE" in next(each.note for each in PROVIDERS if each.name == "ollama")


def test_missing_variables() -> None:
    assert missing_variables("gemini/gemini-2.5-pro", {}) == ("GEMINI_API_KEY",)
    assert missing_variables("gemini/gemini-2.5-pro", {"GOOGLE_API_KEY": "k"}) == ()
    assert missing_variables("bedrock/nova", {}) == ()
    assert missing_variables("nobody/nothing", {}) == ()
    assert missing_variables("ollama_chat/qwen3", {}) == ()
    assert missing_variables("gpt-4o", {}) == ()


def test_nothing_heavy_is_imported_before_the_first_question() -> None:
    program = """
import sys
from reactive_agents.adapters.llm import providers
from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
LiteLLM(ModelConfig("openai", "gpt-4o"))
heavy = {"litellm", "openai", "httpx", "aiohttp", "pydantic", "stamina"} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=20)
