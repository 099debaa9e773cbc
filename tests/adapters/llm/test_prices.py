"""The price of a token, by litellm's list."""

from __future__ import annotations

import anyio
import pytest

from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.adapters.llm.offline import OfflineLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.models import TokenPrice
from reactive_agents.effects import attempt
from reactive_agents.ports import PriceList


def price_of(model: str, *fallbacks: str) -> TokenPrice | None:
    service: PriceList = LiteLLM(ModelConfig(model=model, fallbacks=fallbacks))
    return anyio.run(attempt, service.price(None)).unwrap()  # type: ignore[no-any-return]


def test_a_listed_model_has_a_price_before_the_first_question() -> None:
    price = price_of("openai/gpt-4o")
    assert price == TokenPrice(2.5e-06, 1e-05, 16_384)


def test_the_dearest_tariff_counts() -> None:
    import litellm

    price = price_of("gemini/gemini-2.5-pro")
    listed = litellm.model_cost["gemini/gemini-2.5-pro"]
    assert price is not None
    assert (
        price.input_usd >= listed["input_cost_per_token_above_200k_tokens"] > listed["input_cost_per_token"]
    )
    assert price.output_usd >= listed["output_cost_per_token_above_200k_tokens"]


def test_the_dearest_of_the_fallbacks_counts() -> None:
    small, large = price_of("openai/gpt-4o-mini"), price_of("openai/gpt-4o")
    assert small is not None
    assert large is not None
    both = price_of("openai/gpt-4o-mini", "openai/gpt-4o")
    assert both == large
    assert both.input_usd > small.input_usd


@pytest.mark.parametrize("models", [("openai/no-such-model",), ("openai/gpt-4o", "openai/no-such-model")])
def test_a_model_that_is_not_listed_has_no_price(models: tuple[str, ...]) -> None:
    assert price_of(*models) is None


def test_a_model_on_the_users_own_machine_is_free() -> None:
    assert price_of("ollama/llama3.2") == TokenPrice(0.0, 0.0)
    assert price_of("ollama/llama3.2", "openai/gpt-4o") == price_of("openai/gpt-4o")
    assert anyio.run(attempt, OfflineLLM().price(None)).unwrap() == TokenPrice(0.0, 0.0)
