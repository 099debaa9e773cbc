"""Mapping of litellm's exceptions to typed errors, with the reaction to each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from difflib import get_close_matches
from typing import Final

import httpx
import litellm
import openai
from litellm import exceptions

from reactive_agents.adapters.llm.attempts import FailedAttempt, timed_out
from reactive_agents.adapters.llm.providers import PROVIDERS, default_model
from reactive_agents.adapters.system import retry_after_s
from reactive_agents.core.errors import (
    AuthenticationFailed,
    ContextOverflow,
    MalformedResponse,
    ModelUnavailable,
    RateLimited,
    RequestRejected,
)
from reactive_agents.core.json import without_surrogates
from reactive_agents.core.redaction import Redactor

EXPECTED: Final = (
    openai.OpenAIError,
    httpx.HTTPError,
    exceptions.BudgetExceededError,
    OSError,
    ImportError,
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    AttributeError,
)
"""Exceptions of litellm calls; the built-in ones come from unexpected answers."""

_DETAIL_CHARACTERS: Final = 240
_PREFIX: Final = re.compile(r"^(?:litellm\.)?\w*(?:Error|Exception|Timeout)\b\s*[:\-]\s*")
_LIMIT: Final = re.compile(r"(?:maximum context length is|context window of|tokens >)\s*(\d[\d,]*)")
_OVERFLOWS: Final = (
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "exceeds the context window",
    "input token count exceeds",
)
_POLICY_CODES: Final = ("content_policy_violation", "content_filter", "cyber_policy")
_BAD_REQUEST: Final = (400, 422)
_NO_PROVIDER: Final = "LLM Provider NOT provided"
_NO_TOOLS: Final = re.compile(r"not support (?:tools|(?:tool|function) call)|tool choice requires", re.I)
_RETRY_DELAY: Final = re.compile(r"""['"]retryDelay['"]:\s*['"](\d+(?:\.\d+)?)s""")


def diagnose(
    error: BaseException,
    *,
    model: str,
    timeout_s: float,
    redactor: Redactor,
    now: datetime,
    suggests: bool = True,
) -> FailedAttempt:
    """Return the typed error of an exception, with a message without secrets.

    Args:
        model: the called model, as ``provider/model``.
        timeout_s: timeout of the attempt in seconds.
        redactor: knows the key.
        now: the current time in UTC, for a ``retry-after`` date.
        suggests: whether to suggest a model of litellm's list; the program's own server has others.
    """
    chain = tuple(_chain(error))
    status, headers, body = _status(chain), _headers(chain), _body(chain)
    words = _words(chain, body)
    detail = without_surrogates(_detail(redactor.redact(" ".join(words.split()))))
    text = f"{' '.join(str(link) for link in chain)} {body}"
    later_s = _retry_after(headers, text, now)
    if any(isinstance(e, openai.APITimeoutError | httpx.TimeoutException | TimeoutError) for e in chain):
        return timed_out(model, timeout_s, retry_after_s=later_s)
    if _is_any(chain, exceptions.ContextWindowExceededError) or any(sign in text for sign in _OVERFLOWS):
        message = f"The request is longer than {model} can read: {detail}"
        limit = _LIMIT.search(text)
        most = int(limit[1].replace(",", "")) if limit else None
        return FailedAttempt(ContextOverflow(message, model, most))
    coded = any(getattr(link, "code", None) in _POLICY_CODES for link in chain)
    if coded or _is_any(chain, exceptions.ContentPolicyViolationError):
        message = f"The content policy of {model} refused the request: {detail}"
        return FailedAttempt(RequestRejected(message, model, status), elsewhere=False)
    if status in (401, 403) or _is_any(chain, exceptions.AuthenticationError):
        return FailedAttempt(
            AuthenticationFailed(f"The provider of {model} refused the key: {detail}", model)
        )
    if status == 429:
        message = f"The provider of {model} accepts no more requests for now: {detail}"
        spent = "insufficient_quota" in text
        return FailedAttempt(RateLimited(message, model, later_s), retry=not spent, retry_after_s=later_s)
    if _is_any(chain, UnicodeEncodeError):  # the request's: answers are decoded
        message = f"The request to {model} holds characters that cannot be sent: {detail}"
        return FailedAttempt(RequestRejected(message, model, status))
    if _NO_PROVIDER in text:
        provider, slash, _ = model.partition("/")
        message = f"There is no provider for the model {model!r}: name it as provider/model."
        if slash:
            message = f"There is no provider {provider!r}, as the model {model!r} names it."
        return FailedAttempt(RequestRejected(message + _suggestion(model), model, status))
    if status == 404 and "model" in text.casefold():
        message = f"The provider of {model} refused the model: {detail.rstrip('.')}."
        if headers is None:  # the provider was not called: this is litellm's own error
            message = f"There is no model {model!r}, as far as the list of known models says."
        suggested = _suggestion(model) if suggests else ""
        return FailedAttempt(RequestRejected(message + suggested, model, status))
    if _reading_failed(chain):
        message = f"The answer of {model} cannot be read: {detail}"
        excerpt = without_surrogates(redactor.redact(unread_document(error))[:200])
        return FailedAttempt(MalformedResponse(message, model, excerpt), retry=True, retry_after_s=later_s)
    if headers is None and _is_any(chain, openai.APIConnectionError, httpx.TransportError, OSError):
        where = f" at {address}" if (address := _address(chain)) else ""
        return FailedAttempt(
            ModelUnavailable(f"{model} cannot be reached{where}: {detail}", model), retry=True
        )
    if status is not None and status >= 500:
        message = f"The provider of {model} failed with status {status}: {detail}"
        return FailedAttempt(ModelUnavailable(message, model, status), retry=True, retry_after_s=later_s)
    if status in _BAD_REQUEST and _NO_TOOLS.search(text):
        detail = f"{detail.rstrip('.')}. `reactive-agents models probe` finds out how it calls tools."
    if status == 404 and headers is not None:
        detail = f"{detail.rstrip('.')}. Status 404: is the path of base_url right? It often ends with /v1."
    rejected = RequestRejected(f"The request to {model} was refused: {detail}", model, status)
    return FailedAttempt(rejected, refusal=text if status in _BAD_REQUEST else "")


def _suggestion(model: str) -> str:
    similar = similar_models(model)
    return f" Did you mean {' or '.join(similar)}?" if similar else ""


def ended_in_order(error: BaseException) -> bool:
    """Return whether the server closed a stream in order, before litellm expected it."""
    return _is_any(tuple(_chain(error)), StopAsyncIteration)


def never_sent(error: BaseException) -> bool:
    """Return whether no connection was established."""
    return _is_any(tuple(_chain(error)), httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def unread_document(error: BaseException) -> str:
    """Return the text that was not valid JSON; empty for other failures."""
    return next((link.doc for link in _chain(error) if isinstance(link, json.JSONDecodeError)), "")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exception, its original, its cause and its context, recursively."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        link = pending.pop(0)
        if link is None or id(link) in seen:
            continue
        seen.add(id(link))
        yield link
        pending += [getattr(link, "original_exception", None), link.__cause__, link.__context__]


def _reading_failed(chain: tuple[BaseException, ...]) -> bool:
    """Return whether litellm failed to read an answer, rather than to connect."""
    if _is_any(chain, httpx.HTTPStatusError, httpx.TransportError, OSError):
        return False
    if _is_any(chain, ValueError, TypeError, LookupError, AttributeError):
        return True
    # litellm reports an answer without choices as a server failure, recognisable only by its exception;
    # within a stream the server may have reported one
    own = all(type(link).__module__.startswith("litellm.") for link in chain)
    return own and _status(chain) == 500 and not _is_any(chain, exceptions.MidStreamFallbackError)


def _is_any(chain: Iterable[BaseException], *kinds: type[BaseException]) -> bool:
    return any(isinstance(link, kinds) for link in chain)


def _headers(chain: Iterable[BaseException]) -> Mapping[str, str] | None:
    for link in chain:
        response = getattr(link, "response", None)
        for headers in (getattr(link, "litellm_response_headers", None), getattr(response, "headers", None)):
            if isinstance(headers, Mapping) and headers:
                return {str(name).lower(): str(value) for name, value in headers.items()}
    return None


def _address(chain: Iterable[BaseException]) -> str:
    """Return the address of the server, without path and credentials; else empty."""
    for link in chain:  # those of litellm name a request that was not made
        if isinstance(link, httpx.TransportError):
            try:
                url = link.request.url
            except RuntimeError:  # it was raised without a request
                continue
            return f"{url.scheme}://{url.netloc.decode()}"
    return ""


def _status(chain: Iterable[BaseException]) -> int | None:
    codes = (getattr(link, "status_code", None) for link in chain)
    return next((code for code in codes if isinstance(code, int)), None)


def _body(chain: Iterable[BaseException]) -> object:
    bodies = (getattr(link, "body", None) for link in chain)
    return next((body for body in bodies if body), None)


def _words(chain: tuple[BaseException, ...], body: object) -> str:
    """Return the message of the provider, else of the connection, else of litellm."""
    if body is not None:
        return _message_in(body) or str(body)
    transport = (str(link) for link in chain if isinstance(link, httpx.TransportError))
    return next(transport, "") or str(chain[0])


def _detail(text: str) -> str:
    """Return the provider's message without litellm's prefixes, to end a sentence."""
    previous = ""
    while text != previous:
        previous, text = text, _PREFIX.sub("", text)
    text = text.split(" Original exception: ")[0].split("Traceback (most recent call last)")[0].strip()
    text = _own_words(text[text.index("{") :]) or text if "{" in text else text
    short = text if len(text) <= _DETAIL_CHARACTERS else f"{text[:_DETAIL_CHARACTERS]}…"
    return short or "it gave no reason."


def _own_words(text: str) -> str:
    """Return the message in an error body that an exception contains as JSON."""
    try:
        return _message_in(json.JSONDecoder().raw_decode(text)[0])
    except (ValueError, RecursionError):
        return ""


def _message_in(body: object) -> str:
    """Return the message of an error document, which may be a text."""
    error = body.get("error", body) if isinstance(body, dict) else body
    message = (error.get("message") or error.get("detail")) if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


def _retry_after(headers: Mapping[str, str] | None, text: str, now: datetime) -> float | None:
    headers = headers or {}
    if (milliseconds := retry_after_s(headers.get("retry-after-ms", ""), now)) is not None:
        return milliseconds / 1000
    if value := headers.get("retry-after", ""):
        return retry_after_s(value, now)
    found = _RETRY_DELAY.search(text)
    return retry_after_s(found[1], now) if found else None


# --- names of models close to a misspelled one ------------------------------------------------------------


_AT_MOST: Final = 3
_CUTOFF: Final = 0.75


def similar_models(model: str) -> tuple[str, ...]:
    """Return known models with names similar to an unknown one, closest first.

    Args:
        model: ``provider/model``, a provider, or a model without its provider. A listed model gets no
            suggestion, since its name is not the problem.
    """
    provider, slash, name = model.partition("/")
    listed = {str(getattr(each, "value", each)) for each in litellm.provider_list}
    providers = sorted(listed | {each.name for each in PROVIDERS})
    if not slash:
        provider, colon, name = model.partition(":")  # as other frameworks write it
        if colon and provider in providers:
            return (f"{provider}/{name}",)
        named = [default_model(each) or each for each in _close(model, providers)]
        return tuple(named) or tuple(map(_qualified, _close(model, litellm.model_cost)))
    if provider not in providers:
        return tuple(f"{each}/{name}" for each in _close(provider.lower(), providers))
    listed_models: Iterable[str] = litellm.models_by_provider.get(provider, ())
    known = {each if "/" in each else f"{provider}/{each}" for each in listed_models}
    return () if model in known else tuple(_close(model, known))


def _qualified(name: str) -> str:
    provider = litellm.model_cost[name].get("litellm_provider", "")
    return name if "/" in name or not provider else f"{provider}/{name}"


def _close(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, sorted(known), n=_AT_MOST, cutoff=_CUTOFF)
