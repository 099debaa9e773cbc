"""Which model a name means, and whose key goes with it."""

from __future__ import annotations

from attrs import evolve

from reactive_agents.adapters.llm.providers import default_model, is_well_known, provider_of
from reactive_agents.core.config import ModelConfig


def name_model(
    known: ModelConfig, model: str, api_key: str | None = None, base_url: str | None = None
) -> ModelConfig:
    """The configuration with another model.

    Key and address stay only while the provider does: one provider's key never goes to another.

    Args:
        model: ``provider/model``, a model of the known provider, or a provider alone for its default model.
    """
    provider = known.provider or provider_of(known.model)
    if "/" not in model and default_model(model):
        return name_provider(known, model, api_key, base_url)
    named = provider_of(model) if is_well_known(provider_of(model)) else ""
    kept = known if not named or named == provider else _without_access(known)
    return evolve(
        kept,
        provider="" if named else known.provider,
        model=model,
        api_key=api_key or kept.api_key,
        base_url=base_url or kept.base_url,
    )


def name_provider(
    known: ModelConfig, provider: str, api_key: str | None = None, base_url: str | None = None
) -> ModelConfig:
    """The configuration with another provider, and its default model unless a model of its own is known."""
    own = known.provider or provider_of(known.model)
    kept = known if own in ("", provider) else evolve(_without_access(known), model="")
    return evolve(
        kept, provider=provider, api_key=api_key or kept.api_key, base_url=base_url or kept.base_url
    )


def _without_access(known: ModelConfig) -> ModelConfig:
    return evolve(known, api_key=None, base_url=None)
