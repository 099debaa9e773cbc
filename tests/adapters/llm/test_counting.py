"""Windows and tokens of models, as far as litellm knows them."""

from __future__ import annotations

import anyio
import pytest

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM, load_litellm
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.context_window.token_estimate import fixed_size

TOOL = ToolDefinition("add", "Add numbers.", {"type": "object", "properties": {"a": {"type": "integer"}}})
REQUEST = ModelRequest(
    (
        SystemMessage("You are careful."),
        UserMessage("What is 1 + 2? " * 30),
        AssistantMessage("", (ToolCall(CallId("c"), "add", {"a": 1}),)),
        ToolMessage(CallId("c"), "add", "漢字 🙂 3"),
    ),
    (TOOL,),
)


@pytest.fixture(autouse=True)
def loaded() -> None:
    """litellm is there."""
    anyio.run(load_litellm)


def service(model: str) -> LiteLLM:
    """A service for a model."""
    return LiteLLM(ModelConfig(model=model))


@pytest.mark.parametrize("model", ["openai/gpt-4o", "gpt-5.4-mini", "openai/o3"])
def test_openais_models_are_counted_below_the_bound_of_bytes(model: str) -> None:
    counted = service(model).count(REQUEST)
    assert counted is not None
    assert 200 < counted < fixed_size(REQUEST.messages, REQUEST.tools)


def test_the_parts_together_are_no_less_than_the_whole() -> None:
    llm = service("openai/gpt-4o")
    parts = [llm.count(ModelRequest((message,))) for message in REQUEST.messages]
    whole = llm.count(ModelRequest(REQUEST.messages))
    assert whole is not None
    assert sum(part or 0 for part in parts) >= whole


@pytest.mark.parametrize(
    "model",
    [
        "anthropic/claude-sonnet-5",
        "ollama/qwen3",
        "openai/my-own",
        "openai/gpt-4",
        "groq/openai/gpt-oss-120b",
    ],
)
def test_models_whose_tokenizer_is_not_at_hand_are_not_counted(model: str) -> None:
    assert service(model).count(REQUEST) is None


def test_a_request_of_megabytes_is_not_counted() -> None:
    assert service("openai/gpt-4o").count(ModelRequest((UserMessage("x" * 1_000_001),))) is None


def test_a_schema_that_cannot_be_read_is_not_counted() -> None:
    schema: JsonObject = {"type": "object"}
    for _ in range(2000):
        schema = {"type": "object", "properties": {"a": schema}}
    deep = ToolDefinition("deep", "Deep.", schema)
    counted = service("openai/gpt-4o").count(ModelRequest((UserMessage("hi"),), (deep,)))
    assert counted is None


def test_windows_are_those_of_the_list() -> None:
    llm = service("openai/gpt-4o")
    assert llm.window(None) == llm.window("gpt-4o") == llm.window("openai/gpt-4o") == 128_000
    assert llm.window("anthropic/claude-sonnet-5") == 1_000_000
    assert llm.window("openai/my-own") is None
    assert llm.window("ollama/gpt-4o") is None
