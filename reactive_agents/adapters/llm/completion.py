"""One request to one model through litellm.

Imports litellm; load it off the loop."""

from __future__ import annotations

import os
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import anyio
import httpx
import litellm
from attrs import evolve, frozen
from litellm.caching.llm_caching_handler import LLMClientCache
from litellm.llms.custom_httpx.http_handler import get_async_httpx_client
from returns.result import Failure, Result

from reactive_agents.adapters.llm import catalog, chat_format, error_mapping
from reactive_agents.adapters.llm.attempts import FailedAttempt, timed_out
from reactive_agents.adapters.llm.clients import clients_in_use, used_by_litellm
from reactive_agents.adapters.llm.parameters import Omission, for_provider, omission_of
from reactive_agents.adapters.llm.providers import is_local, is_well_known, missing_variables, provider_of
from reactive_agents.core import models
from reactive_agents.core.errors import AuthenticationFailed, RequestRejected, may_be_charged
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.model_settings import NO_SETTINGS, texts_in
from reactive_agents.core.models import ModelRequest, ModelResponse, StreamCompleted
from reactive_agents.core.redaction import Redactor
from reactive_agents.ports import Clock

Streamed: TypeAlias = chat_format.Delta | StreamCompleted | FailedAttempt
_ROUTES = {"ollama": "ollama_chat"}
"""``ollama`` is called through its chat protocol, the only one that supports tools."""
_STREAMED = {"stream_options": {"include_usage": True}}


@frozen
class PreparedRequest:
    """A request with its model and access.

    Attributes:
        model: as ``provider/model``.
        timeout_s: maximum seconds to wait for an answer, or for the next chunk of a stream.
        clients: the HTTP clients to use, by litellm's keys.
        omitted: parameters that the provider rejected.
        price: that of the configuration, in place of litellm's list.
        keep_sent: called with the body that litellm sends.
    """

    request: ModelRequest
    model: str
    timeout_s: float
    api_key: str | None
    base_url: str | None
    clients: dict[str, Any]
    clock: Clock
    omitted: tuple[Omission, ...] = ()
    price: models.TokenPrice | None = None
    keep_sent: Callable[[Mapping[str, Any]], object] = lambda _: None


def missing_key(model: str, api_key: str | None, base_url: str | None) -> FailedAttempt | None:
    """Refuse a request whose provider needs an environment variable that is not set."""
    missing = missing_variables(model, os.environ)
    if not missing and api_key is None and base_url is None:
        missing = _missing_by_litellm(model)
    given = {True: base_url, False: api_key}
    missing = tuple(name for name in missing if given[name.endswith(("_BASE", "_URL"))] is None)
    if not missing:
        return None
    message = f"No key for {model}: set the environment variable {' and '.join(missing)}, or give an api_key."
    return FailedAttempt(AuthenticationFailed(message, model, missing[0]))


async def ask(prepared: PreparedRequest) -> Result[ModelResponse, FailedAttempt]:
    """Return the whole answer, or a failed attempt."""
    body = catalog.Body(prepared.keep_sent)
    try:
        with anyio.fail_after(prepared.timeout_s), used_by_litellm(prepared.clients):
            completion = await litellm.acompletion(**_arguments(prepared), logger_fn=body.see)
    except error_mapping.EXPECTED as error:
        return Failure(_failed_attempt(error, prepared, body.text))
    usage = getattr(completion, "usage", None)
    return chat_format.read_completion(
        completion,
        model=prepared.model,
        cost_usd=catalog.cost_usd(prepared.model, usage, prepared.price),
        calls_before=chat_format.count_tool_calls(prepared.request.messages),
    ).alt(
        lambda malformed: FailedAttempt(
            malformed, retry=True, spent=catalog.spent_on(prepared.model, usage, prepared.price)
        )
    )


async def ask_streaming(prepared: PreparedRequest) -> AsyncGenerator[Streamed]:
    """Yield the deltas of the answer, then the whole of it, or a failed attempt.

    The timeout limits each wait for the provider, not the whole stream.
    """
    assembly = chat_format.Assembly(
        prepared.model, calls_before=chat_format.count_tool_calls(prepared.request.messages)
    )
    stream: Any = None
    try:
        try:
            with _waiting(prepared):
                arguments, body = _arguments(prepared, **_STREAMED), catalog.Body(prepared.keep_sent)
                stream = await litellm.acompletion(**arguments, stream=True, logger_fn=body.see)
        except error_mapping.EXPECTED as error:
            yield _failed_attempt(error, prepared)
            return
        while True:
            try:
                with _waiting(prepared):
                    chunk = await anext(stream)
            except StopAsyncIteration:
                break
            except error_mapping.EXPECTED as error:
                if error_mapping.ended_in_order(error):  # this module decides whether the answer is complete
                    break
                yield _broken(error, stream, prepared)
                return
            for delta in assembly.absorb(chunk):
                yield delta
        for delta in assembly.rest():
            yield delta
        yield _finished(assembly, stream, prepared)
    finally:
        if stream is not None:
            await stream.aclose()


def _finished(
    assembly: chat_format.Assembly, stream: Any, prepared: PreparedRequest
) -> StreamCompleted | FailedAttempt:
    # litellm invents a missing finish reason, for Gemini in each delta
    usage, closed = _usage_sent(stream)
    native_reason = stream.received_finish_reason or stream.intermittent_finish_reason
    answer = assembly.finish(
        usage=chat_format.read_usage(usage),
        cost_usd=catalog.cost_usd(prepared.model, usage, prepared.price),
        native_reason=native_reason,
        closed=closed,
    )
    if isinstance(answer, Failure):
        is_whole = closed or native_reason is not None
        spent = catalog.spent_on(prepared.model, usage, prepared.price, whole=is_whole)
        return FailedAttempt(answer.failure(), retry=True, spent=spent)
    return StreamCompleted(answer.unwrap())


def _broken(error: BaseException, stream: Any, prepared: PreparedRequest) -> FailedAttempt:
    failed = _failed_attempt(error, prepared)
    if not stream.chunks:
        return failed
    usage, closed = _usage_sent(stream)
    return evolve(failed, spent=catalog.spent_on(prepared.model, usage, prepared.price, whole=closed))


def _usage_sent(stream: Any) -> tuple[Any, bool]:
    """Return the provider's last usage, and whether it closes the stream."""
    # litellm invents a missing usage; its record of the chunks has the real one
    sent = [chunk for chunk in stream.chunks if getattr(chunk, "usage", None) is not None]
    if not sent:
        return None, False
    # usage beside a choice is no end: some providers send it with every delta
    return sent[-1].usage, sent[-1] is stream.chunks[-1] and not sent[-1].choices


@contextmanager
def _waiting(prepared: PreparedRequest) -> Iterator[None]:
    """Limit a wait for litellm; raises ``TimeoutError`` after the timeout."""
    with anyio.fail_after(prepared.timeout_s), used_by_litellm(prepared.clients):
        yield


def _arguments(prepared: PreparedRequest, **further: Any) -> dict[str, Any]:
    provider, slash, name = prepared.model.partition("/")
    model, request = f"{_ROUTES.get(provider, provider)}{slash}{name}", prepared.request
    structured = request.response_schema is not None
    if is_local(prepared.model):
        catalog.list_local_model(model)
    accepted = litellm.get_supported_openai_params(model=model) if structured else None
    arguments = chat_format.chat_arguments(
        request,
        schema_supported=structured and litellm.supports_response_schema(model=model),
        json_supported="response_format" in (accepted or ()),
        parts_in_results=provider_of(model) == "anthropic",
    )
    return {
        **for_provider({**arguments, **further}, request, prepared.model, prepared.omitted),
        "model": model,
        "api_key": prepared.api_key,
        "api_base": prepared.base_url,
        "timeout": prepared.timeout_s,
        "num_retries": 0,
        "max_retries": 0,
        "drop_params": True,
    }


def without_refused(prepared: PreparedRequest, failed: FailedAttempt) -> PreparedRequest | None:
    """Return the request without the rejected parameter; ``None`` if there is none."""
    omission = omission_of(failed.refusal, _arguments(prepared, **_STREAMED)) if failed.refusal else None
    if omission is None or omission in prepared.omitted:
        return None
    return evolve(prepared, omitted=(*prepared.omitted, omission))


def _missing_by_litellm(model: str) -> tuple[str, ...]:
    """Return the variables that litellm requires for a provider not in our table."""
    if is_well_known(provider_of(model)) or provider_of(model) not in litellm.provider_list:
        return ()
    missing: list[str] = litellm.validate_environment(model=model)["missing_keys"]
    return tuple(name for name in missing if name.endswith(("_KEY", "_TOKEN")))


def _failed_attempt(error: BaseException, prepared: PreparedRequest, body: str = "") -> FailedAttempt:
    """Return a failed attempt. ``body``: an unreadable answer, if any."""
    model = prepared.model
    settings = prepared.request.settings
    secrets = (*settings.secrets, *texts_in(dict(settings.extra_body))) if settings is not NO_SETTINGS else ()
    failed = failed_attempt_of(
        error,
        model,
        prepared.timeout_s,
        prepared.api_key,
        prepared.clock,
        secrets,
        suggests=prepared.base_url is None,
    )
    if not may_be_charged(failed.error) or error_mapping.never_sent(error):
        return failed
    usage = catalog.usage_in(body or error_mapping.unread_document(error))
    return evolve(failed, spent=catalog.spent_on(model, usage, prepared.price))


def failed_attempt_of(
    error: BaseException,
    model: str,
    timeout_s: float,
    api_key: str | None,
    clock: Clock,
    secrets: Sequence[str] = (),
    *,
    suggests: bool = True,
) -> FailedAttempt:
    """Return the failed attempt behind litellm's exception, without secrets."""
    if isinstance(error, TimeoutError):
        return timed_out(model, timeout_s)
    redactor = Redactor(environment=os.environ, secrets=[api_key or "", *secrets])
    return error_mapping.diagnose(
        error, model=model, timeout_s=timeout_s, redactor=redactor, now=clock.now(), suggests=suggests
    )


# --- litellm's clients: those of an adapter's calls stay with that adapter ----------------------------------


class _ScopedClientCache(LLMClientCache):
    """litellm's cache of clients, with separate clients for each adapter's calls."""

    def get_cache(self, key: str, *args: Any, **kwargs: Any) -> Any:
        clients = clients_in_use()
        shared: Any = super()
        return shared.get_cache(key, *args, **kwargs) if clients is None else clients.get(key)

    def set_cache(self, key: str, value: object, *args: Any, **kwargs: Any) -> None:
        clients = clients_in_use()
        if clients is None:
            super().set_cache(key, value, *args, **kwargs)
        else:
            clients[key] = value
            _read_listed_contents(value)


def _read_listed_contents(client: Any) -> None:
    """Make a litellm client read lists of parts as texts."""
    http = getattr(client, "_client", None) or getattr(client, "client", None)
    if not isinstance(http, httpx.AsyncClient) or _make_content_plain in http.event_hooks["response"]:
        return
    http.headers["Accept-Encoding"] = "gzip, deflate"
    http.event_hooks = {**http.event_hooks, "response": [*http.event_hooks["response"], _make_content_plain]}


async def _make_content_plain(response: httpx.Response) -> None:
    coding = response.headers.get("content-encoding", "identity").lower()
    if response.status_code != 200 or coding not in ("identity", "gzip", "deflate"):
        return
    inner = response.stream
    if isinstance(inner, httpx.AsyncByteStream):
        response.headers.pop("content-encoding", None)
        kind = response.headers.get("content-type", "")
        by_line = "event-stream" in kind or "ndjson" in kind
        response.stream = _PlainContent(inner, by_line=by_line, compressed=coding != "identity")


_MOST_BYTES: Final = 50_000_000
"""Bytes of an answer, or of an event of a stream, which a small compressed body may exceed by far."""


class _PlainContent(httpx.AsyncByteStream):
    """The body of an answer, with contents converted to texts.

    Args:
        inner: the original body.
        by_line: whether each line is a document, as in a stream of events.
        compressed: whether the body is compressed.
    """

    def __init__(self, inner: httpx.AsyncByteStream, *, by_line: bool, compressed: bool) -> None:
        self._inner = inner
        self._by_line = by_line
        self._inflating = zlib.decompressobj(32 + zlib.MAX_WBITS) if compressed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = b""
        async for chunk in self._inner:
            held += chunk if self._inflating is None else self._inflated(chunk)
            if len(held) > _MOST_BYTES:
                raise httpx.ReadError(f"the answer has more than {_MOST_BYTES} bytes")
            whole, end, rest = held.rpartition(b"\n") if self._by_line else (b"", b"", held)
            if end:
                lines = map(_plain_line, (whole + end).splitlines(keepends=True))
                yield b"".join(map(chat_format.with_tags_apart, lines))
            held = rest
        if held:
            yield _plain_line(held)

    def _inflated(self, chunk: bytes) -> bytes:
        assert self._inflating is not None
        try:
            return self._inflating.decompress(chunk, _MOST_BYTES + 1)  # the rest is not needed then
        except zlib.error as error:
            raise httpx.DecodingError(str(error)) from error

    async def aclose(self) -> None:
        await self._inner.aclose()


def _plain_line(line: bytes) -> bytes:
    if not line.startswith(b"data:"):
        return chat_format.with_plain_content(line)
    ending = line[len(line.rstrip(b"\r\n")) :]
    return b"data: " + chat_format.with_plain_content(line[5:].strip()) + ending


class _CachedClient:
    """Replaces litellm's global client for streams by the caller's."""

    def __getattr__(self, name: str) -> Any:
        return getattr(get_async_httpx_client(llm_provider="reactive-agents"), name)


def scope_clients() -> None:
    """Make litellm respect ``clients.used_by_litellm``.

    Other calls are unaffected.
    """
    litellm.in_memory_llm_clients_cache = _ScopedClientCache()
    litellm.module_level_aclient = _CachedClient()  # type: ignore[assignment]


# --- A text whose stream broke, continued by a model that writes on from there ---
# Some models accept a partial answer as the last message of a request, and continue it. So text streamed
# before a break is kept and not paid twice. Partial reasoning and tool calls cannot be continued.
#


_PROVIDERS = frozenset({"anthropic"})
"""Providers that take the beginning of an answer as an ordinary message."""


class PartialText:
    """The text of an answer so far, over the attempts to stream it."""

    def __init__(self, model: str, request: models.ModelRequest) -> None:
        self._possible = request.response_schema is None and _continues(model)
        self._text = ""
        self._kept = ""
        """The text that the current attempt continues."""
        self._blank = False
        """Whether streamed blanks may be repeated."""

    def continues(self) -> bool:
        """Return whether the next attempt continues the text; otherwise discard it."""
        self._kept = self._text if self._possible else ""
        if not self._kept.strip():
            self._kept = self._text = ""
        self._blank = self._kept != self._kept.rstrip()
        return bool(self._kept)

    def continued(self, prepared: PreparedRequest) -> PreparedRequest:
        """Return the request with the text to continue, if any."""
        if not self._kept:
            return prepared
        begun = AssistantMessage(self._kept.rstrip())  # trailing blanks would be rejected
        request = prepared.request
        return evolve(prepared, request=evolve(request, messages=(*request.messages, begun)))

    def is_refused(self, failed: FailedAttempt) -> bool:
        """Return whether the provider rejected the text, which is then discarded."""
        if not self._kept or not isinstance(failed.error, RequestRejected):
            return False
        self._possible = False
        self._kept = self._text = ""
        return True

    def take(self, chunk: Any) -> Any:
        """Return a chunk without repeated blanks; ``None`` if it adds nothing."""
        match chunk:
            case models.TextDelta(text):
                if self._blank:
                    text = text.lstrip()
                    self._blank = not text
                self._text += text
                return models.TextDelta(text) if text else None
            case models.StreamCompleted(response) if self._kept:
                return models.StreamCompleted(evolve(response, content=self._text))
            case models.StreamCompleted():
                return chunk
        self._possible = False
        return chunk


def _continues(model: str) -> bool:
    if provider_of(model) not in _PROVIDERS:
        return False
    known = catalog.listed_model(model) or {}
    return bool(known.get("supports_assistant_prefill"))
