"""Prices, windows and token counts from litellm's list of models.

Imports litellm; load it off the loop."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

import litellm
import tiktoken
from attrs import evolve
from litellm.exceptions import ModelNotMappedError

from reactive_agents.adapters.llm.chat_format import chat_arguments, impossible_count, read_usage
from reactive_agents.adapters.llm.error_mapping import EXPECTED
from reactive_agents.adapters.llm.providers import is_local, provider_of
from reactive_agents.core.content import ContentKind, map_parts, media_type_of, parts_in
from reactive_agents.core.errors import ContentUnsupported
from reactive_agents.core.models import ModelRequest, TokenPrice
from reactive_agents.core.usage import RunUsage

_log = logging.getLogger("reactive_agents")


def cost_usd(model: str, usage: Any, price: TokenPrice | None = None) -> float | None:
    """Return US dollars for a litellm usage; ``None`` without usage or price.

    A model on the user's own machine costs nothing, unless a price is given. An impossible count is logged as
    a warning, and the usage has no price.
    """
    if impossible := impossible_count(usage):
        _log.warning("%s reports a usage that cannot be: %s. Its price is unknown.", model, impossible[:100])
    counted = read_usage(usage)
    if not counted.reported:
        return None
    if price is not None and not impossible:
        return counted.input_tokens * price.input_usd + counted.output_tokens * price.output_usd
    if is_local(model):
        return 0.0
    if impossible:
        return None
    try:
        read, written = litellm.cost_per_token(model=model, usage_object=usage)
    except (ModelNotMappedError, *EXPECTED):
        return None
    cost = read + written
    # litellm treats unknown models of some providers as free
    return cost if cost > 0 or model in litellm.model_cost else None


_INPUT = re.compile(r"(?:input_cost_per_token|cache_(?:creation|read)_input_token_cost)(?:_above_\w+)?")
_OUTPUT = re.compile(r"output_cost_per_(?:reasoning_)?token(?:_above_\w+)?")


def token_price(model: str) -> TokenPrice | None:
    """Return the most expensive tariff of a model; ``None`` for an unlisted one."""
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
    """Return litellm's entry of a model; ``None`` for an unlisted one."""
    provider, _, name = model.partition("/")
    known: Mapping[str, Any] | None = litellm.model_cost.get(model)
    if known is None and name:
        known = litellm.model_cost.get(name)
        if known is not None and known.get("litellm_provider") != provider:
            return None
    return known


def list_local_model(model: str) -> None:
    """Add a local model to the list, so that litellm does not query its server.

    It would do so for every answer, to compute a price, and block the event loop.
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
                    "supports_vision": True,
                }
            }
        )


# inside a JSON string its quotation marks would be escaped
_USAGE: Final = re.compile(r'"usage"\s*:\s*(?=\{)')


class Body:
    """The body of a provider's answer, as litellm logs it before parsing it.

    Args:
        keep: called with the body of the request.
    """

    def __init__(self, keep: Callable[[Mapping[str, Any]], object]) -> None:
        self.text = ""
        self._keep = keep

    def see(self, details: dict[str, Any]) -> None:
        """Called by litellm before and after a request."""
        sent = (details.get("additional_args") or {}).get("complete_input_dict")
        if isinstance(sent, Mapping):
            self._keep(sent)
        text = details.get("original_response")
        self.text = text if isinstance(text, str) else ""


def spent_on(model: str, usage: Any, price: TokenPrice | None, *, whole: bool = True) -> RunUsage:
    """Return the usage of an unusable answer.

    Args:
        usage: litellm's usage; ``None`` when it is unknown.
        price: that of the configuration, in place of litellm's list.
        whole: whether the usage is complete; otherwise it is a lower bound.
    """
    counted, priced = read_usage(usage), cost_usd(model, usage, price)
    free = is_local(model) and price is None
    return RunUsage(
        model,
        evolve(counted, reported=counted.reported and whole),
        priced or 0.0,
        unpriced_calls=int(not free and (priced is None or not whole)),
        unreported_calls=int(not (counted.reported and whole)),
    )


def usage_in(body: str) -> litellm.Usage | None:
    """Return the usage in a body in OpenAI's format, which may be truncated."""
    for found in _USAGE.finditer(body):
        try:
            counts, _ = json.JSONDecoder().raw_decode(body, found.end())
            if "prompt_tokens" in counts:
                return litellm.Usage(**counts)
        except (*EXPECTED, RecursionError):
            continue
    return None


_ENCODING: Final = "o200k_base"
"""The only tokenizer that litellm loads with its import."""
_LARGEST: Final = 1_000_000
"""Longest request to count, in characters; litellm extrapolates longer ones."""
_ANSWER_BEGINS: Final = 3
"""Tokens that start the answer, which litellm does not count."""


def window_tokens(model: str) -> int | None:
    """Return the context window of a model; ``None`` for an unlisted one."""
    known = listed_model(model)
    tokens = known.get("max_input_tokens") if known is not None else None
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def count_tokens(model: str, request: ModelRequest) -> int | None:
    """Return the tokens of messages and tools.

    ``None`` for models of other tokenizers, which litellm would count with a wrong one.
    """
    name = model.partition("/")[2]
    if provider_of(model) not in ("openai", "azure") or not _is_encoded(name):
        return None
    if sum(len(message.content) for message in request.messages) > _LARGEST:
        return None
    content = list(parts_in(request.messages))
    if content:  # litellm would fetch URLs to measure them
        without_bytes = partial(evolve, data=b"", passed_on=False)
        texts = (map_parts(message, without_bytes) for message in request.messages)
        request = evolve(request, messages=tuple(texts))
    arguments: Any = chat_arguments(request, schema_supported=False, json_supported=False)
    try:
        counted = litellm.token_counter(
            model=name, messages=arguments["messages"], tools=arguments.get("tools")
        )
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return None  # a tool schema that litellm cannot read
    return int(counted) + _ANSWER_BEGINS + sum(part.tokens for part in content)


def _is_encoded(name: str) -> bool:
    try:
        return tiktoken.encoding_name_for_model(name) == _ENCODING
    except KeyError:
        return False


_FLAGS: Final = {
    "image": "supports_vision",
    "audio": "supports_audio_input",
    "document": "supports_pdf_input",
}
_URL_PROVIDERS: Final = frozenset({"openai", "azure", "anthropic", "openrouter", "xai", "groq"})
"""Providers that fetch image URLs themselves; for others litellm would, bypassing the address guard."""


def unsupported_content(
    model: str, request: ModelRequest, takes: Collection[ContentKind] | None
) -> ContentUnsupported | None:
    """Return the content of a request that its model does not accept, or ``None``.

    Every model accepts text documents, which are sent as text.

    Args:
        takes: the accepted kinds; ``None`` uses litellm's list, and accepts everything for an unlisted model.
            Of these, Ollama is only sent images: its protocol has nothing else, and litellm drops the rest.
    """
    for part in parts_in(request.messages):
        if part.passed_on and provider_of(model) not in _URL_PROVIDERS:
            message = f"{model} does not fetch URLs: take {part.label} with fetch=True."
            return ContentUnsupported(message, model, "url")
        if part.data and (part.media_type or media_type_of(part.data)).startswith("text/"):
            continue
        if not _takes(model, part.kind, takes):
            message = f"{model} takes no {part.kind}, and the request has {part.label}."
            return ContentUnsupported(message, model, part.kind)
    return None


def _takes(model: str, kind: ContentKind, takes: Collection[ContentKind] | None) -> bool:
    if is_local(model) and kind != "image":
        return False
    if takes is not None:
        return kind in takes
    known = listed_model(model)
    return known is None or bool(known.get(_FLAGS[kind]))
