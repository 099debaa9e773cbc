"""What an answer costs, by litellm's list of prices. Imports litellm; load it off the loop."""

from __future__ import annotations

from typing import Any

import litellm
from litellm.exceptions import ModelNotMappedError

from reactive_agents.adapters.llm.failures import EXPECTED
from reactive_agents.adapters.llm.providers import is_local
from reactive_agents.adapters.llm.responses import read_usage


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
