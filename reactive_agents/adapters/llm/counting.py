"""What litellm knows of the windows and tokenizers of models. Imports litellm; load it off the loop."""

from __future__ import annotations

from typing import Any, Final

import litellm
import tiktoken

from reactive_agents.adapters.llm.prices import listed_model
from reactive_agents.adapters.llm.providers import provider_of
from reactive_agents.adapters.llm.requests import chat_arguments
from reactive_agents.core.models import ModelRequest

_ENCODING: Final = "o200k_base"
"""The one tokenizer that is in memory, since it is read when litellm is loaded."""
_LARGEST: Final = 1_000_000
"""Characters up to which a request is counted; litellm would take longer ones for a multiple of a part."""
_ANSWER_BEGINS: Final = 3
"""Tokens that the answer is begun with, which litellm does not count."""


def window_tokens(model: str) -> int | None:
    """The tokens that the model reads, by litellm's list; ``None`` when it is not on it."""
    known = listed_model(model)
    tokens = known.get("max_input_tokens") if known is not None else None
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def count_tokens(model: str, request: ModelRequest) -> int | None:
    """The tokens of messages and tools; ``None`` for models with another tokenizer than OpenAI's present one.

    litellm counts those as well, by a tokenizer that is not theirs.
    """
    name = model.partition("/")[2]
    if provider_of(model) not in ("openai", "azure") or not _is_encoded(name):
        return None
    if sum(len(message.content) for message in request.messages) > _LARGEST:
        return None
    arguments: Any = chat_arguments(request, schema_supported=False, json_supported=False)
    try:
        counted = litellm.token_counter(
            model=name, messages=arguments["messages"], tools=arguments.get("tools")
        )
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None  # a schema of a tool that litellm's own reading of schemas stumbles over
    return int(counted) + _ANSWER_BEGINS


def _is_encoded(name: str) -> bool:
    try:
        return tiktoken.encoding_name_for_model(name) == _ENCODING
    except KeyError:
        return False
