"""What an answer costs, and may cost, by litellm's list of prices. Imports litellm; load it off the loop."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import litellm
from litellm.exceptions import ModelNotMappedError

from reactive_agents.adapters.llm.failures import EXPECTED
from reactive_agents.adapters.llm.providers import is_local
from reactive_agents.adapters.llm.responses import read_usage
from reactive_agents.core.models import TokenPrice


def cost_usd(model: str, usage: Any) -> float | None:
    """US dollars for a litellm usage; ``None`` when the usage or the price of the model is not known.

    A model on the user's own machine costs nothing.
    """
    if not read_usage(usage).reported:
        return None
    if is_local(model):
        return 0.0
    try:
        read, written = litellm.cost_per_token(model=model, usage_object=usage)
    except (ModelNotMappedError, *EXPECTED):
        return None
    cost = read + written
    # for some providers litellm takes a model that it does not know to be free
    return cost if cost > 0 or model in litellm.model_cost else None


_INPUT = re.compile(r"(?:input_cost_per_token|cache_(?:creation|read)_input_token_cost)(?:_above_\w+)?")
_OUTPUT = re.compile(r"output_cost_per_(?:reasoning_)?token(?:_above_\w+)?")


def token_price(model: str) -> TokenPrice | None:
    """The dearest tariff of a model by the same list; ``None`` when it is not on it."""
    if is_local(model):
        return TokenPrice(0.0, 0.0)
    known = listed_model(model)
    if known is None:
        return None
    read = [cost for key, cost in known.items() if _INPUT.fullmatch(key) and _is_number(cost)]
    written = [cost for key, cost in known.items() if _OUTPUT.fullmatch(key) and _is_number(cost)]
    if not read or not written:
        return None
    longest = known.get("max_output_tokens") or known.get("max_tokens")
    return TokenPrice(max(read), max(written), longest if isinstance(longest, int) and longest > 0 else None)


def _is_number(cost: object) -> bool:
    return isinstance(cost, int | float)


def listed_model(model: str) -> Mapping[str, Any] | None:
    """What litellm's list says of a model; ``None`` when it is not on it."""
    provider, _, name = model.partition("/")
    known: Mapping[str, Any] | None = litellm.model_cost.get(model)
    if known is None and name:
        known = litellm.model_cost.get(name)
        if known is not None and known.get("litellm_provider") != provider:
            return None
    return known


def list_local_model(model: str) -> None:
    """Put a local model on the list, since litellm asks the local server about a model that is not on it.

    It does so for every answer, to compute a price, and holds up the event loop until it hears back.
    """
    if model not in litellm.model_cost:
        litellm.register_model(
            {
                model: {
                    "litellm_provider": model.partition("/")[0],
                    "mode": "chat",
                    "input_cost_per_token": 0.0,
                    "output_cost_per_token": 0.0,
                    "supports_function_calling": True,
                }
            }
        )
