"""Names of models close to a misspelled one.

Imports litellm; load it off the loop."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

import litellm

from reactive_agents.adapters.llm.providers import PROVIDERS, default_model

_AT_MOST: Final = 3
_CUTOFF: Final = 0.75


def similar_models(model: str) -> tuple[str, ...]:
    """Return known models with names close to an unknown one, the closest first.

    Args:
        model: ``provider/model``, a provider, or a model without its provider. For a model that litellm
            lists there is no suggestion: its name is right, and something else is wrong.
    """
    provider, slash, name = model.partition("/")
    listed = {str(getattr(each, "value", each)) for each in litellm.provider_list}
    providers = sorted(listed | {each.name for each in PROVIDERS})
    if not slash:
        named = [default_model(each) or each for each in _close(model, providers)]
        return tuple(named) or tuple(map(_qualified, _close(model, litellm.model_cost)))
    if provider not in providers:
        return tuple(f"{each}/{name}" for each in _close(provider, providers))
    listed_models: Iterable[str] = litellm.models_by_provider.get(provider, ())
    known = {each if "/" in each else f"{provider}/{each}" for each in listed_models}
    return () if model in known else tuple(_close(model, known))


def _qualified(name: str) -> str:
    provider = litellm.model_cost[name].get("litellm_provider", "")
    return name if "/" in name or not provider else f"{provider}/{name}"


def _close(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, sorted(known), n=_AT_MOST, cutoff=_CUTOFF)
