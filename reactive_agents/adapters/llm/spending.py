"""What was spent on an attempt that came to nothing. Imports litellm; load it off the loop."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import litellm

from reactive_agents.adapters.llm.failures import EXPECTED
from reactive_agents.adapters.llm.prices import cost_usd
from reactive_agents.adapters.llm.providers import is_local
from reactive_agents.adapters.llm.responses import read_usage
from reactive_agents.core.usage import ModelSpending, Usage

# within a text of a JSON document its quotation marks would be escaped
_USAGE: Final = re.compile(r'"usage"\s*:\s*(?=\{)')


class Body:
    """The body of a provider's answer, as litellm shows it before it tries to understand it."""

    def __init__(self) -> None:
        self.text = ""

    def see(self, details: dict[str, Any]) -> None:
        """Called by litellm before and after a request."""
        text = details.get("original_response")
        self.text = text if isinstance(text, str) else ""


def spent_on(model: str, usage: Any, *, whole: bool = True) -> ModelSpending:
    """What an answer came to that cannot be used.

    Args:
        usage: as litellm has it; ``None`` when none is known.
        whole: the usage is that of all of the answer; else what it came to is that or more.
    """
    counted, priced = read_usage(usage), cost_usd(model, usage)
    free = is_local(model)
    return ModelSpending(
        model,
        Usage(counted.input_tokens, counted.output_tokens, counted.total_tokens, counted.reported and whole),
        priced or 0.0,
        unpriced_calls=int(not free and (priced is None or not whole)),
    )


def usage_in(body: str) -> litellm.Usage | None:
    """The usage in a body of OpenAI's form, also in one that is cut off or otherwise no JSON document."""
    for found in _USAGE.finditer(body):
        try:
            counts, _ = json.JSONDecoder().raw_decode(body, found.end())
            if "prompt_tokens" in counts:
                return litellm.Usage(**counts)
        except (*EXPECTED, RecursionError):
            continue
    return None
