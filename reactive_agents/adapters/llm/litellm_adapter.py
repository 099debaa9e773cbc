"""The port to language models over litellm, with retries, timeouts and fallbacks."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import warnings
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Never, TypeAlias

import anyio
import anyio.to_thread
from attrs import evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.attempts import AttemptFailed, FailedAttempt, FailedAttempts, attempts
from reactive_agents.adapters.llm.clients import Connections, on_asyncio
from reactive_agents.adapters.llm.parameters import REFUSED, RefusedParameters, Sent, left_out, sent_with
from reactive_agents.adapters.llm.providers import (
    alternative_model,
    missing_variables,
    provider_of,
    qualified_model,
)
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core import models
from reactive_agents.core.bases import PUBLISH
from reactive_agents.core.config import FallbackModel, ModelConfig, ModelPrice
from reactive_agents.core.errors import LLMErrors, ModelUnavailable, RequestRejected
from reactive_agents.core.model_settings import NO_SETTINGS, ModelSettings
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

if TYPE_CHECKING:
    from stamina import Attempt

    from reactive_agents.adapters.llm.completion import PreparedRequest
    from reactive_agents.adapters.llm.rate_limit import Admitted, RateLimits
    from reactive_agents.core.model_profiles import ModelProfile

    _Ask: TypeAlias = Callable[[PreparedRequest], Awaitable[Result[models.ModelResponse, FailedAttempt]]]


_log = logging.getLogger("reactive_agents")
_NO_KEY: Final = "none"

FindProfile: TypeAlias = Callable[[str, str | None], "tuple[ModelProfile, int | None] | None"]

DOWN_S = 60.0
"""Seconds in which a model that used up its attempts is called once by each request, before its fallback."""


class LiteLLM:
    """Implements ``LLM`` for every model of litellm, on asyncio only.

    Each model is called up to ``max_attempts`` times while its failures are transient; then the next of
    ``fallbacks`` is called, except after a refusal by the content policy. The error is that of the first
    model, and its message names the failures of the fallbacks. A model that used up its attempts is called
    once by each request of the next ``DOWN_S`` seconds while there is a fallback, until it answers.

    A key is sent to the server that it is configured for only, and so are the headers and further fields of
    the settings. An instance is cheap: litellm is imported with the first request, off the loop.

    Args:
        config: the model, its access, timeout and attempts.
        clock: the clock for retry delays; by default the machine's.
        find_profile: finds the profile of a model at a URL, and the window that follows from it.
        settings: those of the agent, whose headers and further fields are for the server of ``config`` only.
        refused: the parameters that providers rejected; by default those of the process.
        limits: the usage of keys, for rate limits; by default that of the process.

    Attributes:
        model: the default model of requests, as ``provider/model``.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        clock: Clock | None = None,
        find_profile: FindProfile = lambda _model, _base_url: None,
        settings: ModelSettings = NO_SETTINGS,
        refused: RefusedParameters = REFUSED,
        limits: RateLimits | None = None,
    ) -> None:
        self._config = config
        self._clock: Clock = SystemClock() if clock is None else clock
        self.model = qualified_model(config.provider, config.model)
        self._connections = Connections()
        self._settings = settings
        self._refused = refused
        self._limits = limits
        self._windows: dict[_Place, int | None] = {}
        self._down: dict[_Place, float] = {}  # models that used up their attempts, with the time of that
        self._provider = config.provider or provider_of(self.model)
        self._prices = {
            alternative_model(self._provider, name): _per_token(price)
            for name, price in config.prices.items()
        }
        known = map(self._candidate, (self.model, *config.fallbacks))
        self._known = tuple(
            evolve(each, profile=found[0], window_tokens=found[1])
            if (found := find_profile(each.model, each.base_url))
            else each
            for each in _each_once(known)
        )

    @effect
    async def complete(self, request: models.ModelRequest) -> Result[models.ModelResponse, LLMErrors]:
        """Return the whole answer.

        Fails as specified by the port; with ``AuthenticationFailed`` before sending anything if there is no
        key, and with ``ModelUnavailable`` on an event loop other than asyncio's.
        """
        failed_attempts = FailedAttempts()
        try:
            for candidate in self._called(request):
                match await self._complete_with(candidate, request, failed_attempts):
                    case Success(response):
                        self._down.pop(candidate.place, None)
                        return Success(failed_attempts.before(response))
                    case Failure(failed):
                        self._give_up(candidate, failed, failed_attempts)
                if not failed_attempts.latest.elsewhere:
                    break
        except BaseException:
            await failed_attempts.report()
            raise
        return Failure(failed_attempts.verdict())

    async def stream(
        self, request: models.ModelRequest
    ) -> AsyncGenerator[Result[models.ModelChunk, LLMErrors]]:
        """Yield the answer in chunks; ends with ``StreamCompleted`` or a failure.

        The failures are those of :meth:`complete`. A broken stream is requested again, after
        ``StreamRestarted`` if chunks of it were yielded; a model that can continue its own text continues it
        without ``StreamRestarted``.
        """
        failed_attempts = FailedAttempts()
        begun = False  # whether relevant deltas were yielded
        try:
            for candidate in self._called(request):
                if begun:
                    yield Success(models.StreamRestarted(failed_attempts.latest.error.message))
                    begun = False
                async with aclosing(self._stream_from(candidate, request, failed_attempts)) as chunks:
                    async for chunk in chunks:
                        match chunk:
                            case FailedAttempt():
                                self._give_up(candidate, chunk, failed_attempts)
                            case models.StreamCompleted(response):
                                self._down.pop(candidate.place, None)
                                yield Success(models.StreamCompleted(failed_attempts.before(response)))
                                return
                            case models.StreamRestarted() if not begun:
                                pass
                            case _:
                                begun = not isinstance(chunk, models.StreamRestarted)
                                yield Success(chunk)
                if not failed_attempts.latest.elsewhere:
                    break
        except BaseException:
            await failed_attempts.report()
            raise
        yield Failure(failed_attempts.verdict())

    def count(self, request: models.ModelRequest) -> int | None:
        """Return the tokens of a request to a current OpenAI model, by litellm's counter.

        ``None`` for other models, whose tokenizers are not loaded, and before the first request, which loads
        litellm.
        """
        if not is_loaded():
            return None
        from reactive_agents.adapters.llm.catalog import count_tokens

        candidate = self._candidates(request.model)[0]
        return count_tokens(candidate.model, self._asked(candidate, request))

    def window(self, model: str | None) -> int | None:
        """Return the context window by the model's profile, or by litellm's list.

        The list is read from the second request of a process on.
        """
        candidate = self._candidates(model)[0]
        if candidate.window_tokens is not None or not is_loaded():
            return candidate.window_tokens
        if candidate.place not in self._windows:
            from reactive_agents.adapters.llm.catalog import window_tokens

            self._windows[candidate.place] = window_tokens(candidate.model)
        return self._windows[candidate.place]

    @effect
    async def price(self, model: str | None) -> Result[models.TokenPrice | None, Never]:
        """Return the highest price of the model and its fallbacks; ``None`` if unknown."""
        await load_litellm()
        from reactive_agents.adapters.llm.catalog import token_price

        prices = [each.price or token_price(each.model) for each in self._candidates(model)]
        known = [each for each in prices if each is not None]
        if len(known) < len(prices):
            return Success(None)
        longest = [each.max_output_tokens for each in known if each.output_usd]
        lengths = [each for each in longest if each is not None]
        return Success(
            models.TokenPrice(
                max(each.input_usd for each in known),
                max(each.output_usd for each in known),
                max(lengths) if lengths and len(lengths) == len(longest) else None,
            )
        )

    async def aclose(self) -> None:
        """Close the connections of the running event loop; later requests open new ones."""
        await self._connections.aclose()

    def _candidates(self, named: str | None) -> tuple[_Candidate, ...]:
        """Return the models to call, in order. ``named``: the model of the request."""
        if not named:
            return self._known
        name = alternative_model(self._provider, named)
        first = next((each for each in self._known if each.model == name), None)
        return _each_once((first or self._candidate(named), *self._known[1:]))

    def _called(self, request: models.ModelRequest) -> tuple[_Candidate, ...]:
        """Return the models to call; a probe is answered by no fallback."""
        candidates = self._candidates(request.model)
        return candidates[:1] if request.exact else candidates

    def _candidate(self, given: str | FallbackModel) -> _Candidate:
        """Return a model with its server: by name, that of the configured provider."""
        config = self._config
        name = alternative_model(self._provider, given if isinstance(given, str) else given.model)
        known, own = self._prices.get(name), provider_of(name) == provider_of(self.model)
        if isinstance(given, str):
            access = (config.base_url, config.api_key) if own else (None, None)
            return _Candidate(name, *access, own, price=known)
        same = own and given.base_url == config.base_url
        api_key = given.api_key or (config.api_key if same else None)
        price = known if given.price is None else _per_token(given.price)
        return _Candidate(
            name, given.base_url, api_key, same and api_key == config.api_key, given.settings, price
        )

    def _key_of(self, candidate: _Candidate) -> str | None:
        """Return the key for a server; ``None`` for the one in the environment.

        That belongs to the provider's own server, or else to the first of the provider's servers.
        """
        if candidate.api_key is not None or candidate.base_url is None:
            return candidate.api_key
        provider, keyless = candidate.server[0], [each for each in self._known if each.api_key is None]
        urls = [each.base_url for each in keyless if each.server[0] == provider]
        if urls and (None in urls or urls[0] != candidate.base_url):
            return _NO_KEY
        return _NO_KEY if not candidate.own and missing_variables(candidate.model, os.environ) else None

    def _asked(self, candidate: _Candidate, request: models.ModelRequest) -> models.ModelRequest:
        """Return the request as it is sent to a model: with its settings, by its profile."""
        if request.exact:
            return request
        settings = request.settings
        if settings.headers or settings.extra_body:
            settings = self._with_own_tables(candidate, request)
        if candidate.settings is not NO_SETTINGS:
            request = request.under(candidate.settings)
            settings = candidate.settings.over(settings)
        if settings is not request.settings:
            request = evolve(request, settings=settings)
        if candidate.profile is None:
            return request
        from reactive_agents.adapters.llm.profiled_llm import adapted

        return adapted(request, candidate.profile)

    def _with_own_tables(self, candidate: _Candidate, request: models.ModelRequest) -> ModelSettings:
        """Return settings without headers and fields for other servers.

        They may be keys: those of the agent for the server of its model, those of the run for that of the
        model it names.
        """
        settings, own = request.settings, self._settings
        is_home = candidate.server == self._known[0].server
        is_named = candidate.server == self._candidates(request.model)[0].server

        def kept(given: Mapping[str, Any], of_agent: Mapping[str, Any]) -> dict[str, Any]:
            agents = {name for name, value in of_agent.items() if given.get(name) == value}
            return {name: value for name, value in given.items() if (is_home if name in agents else is_named)}

        return evolve(
            settings,
            headers=kept(settings.headers, own.headers),
            extra_body=kept(settings.extra_body, own.extra_body),
        )

    async def _complete_with(
        self, candidate: _Candidate, request: models.ModelRequest, failed_attempts: FailedAttempts
    ) -> Result[models.ModelResponse, FailedAttempt]:
        prepared = await self._prepare(candidate, request)
        if isinstance(prepared, FailedAttempt):
            return Failure(prepared)
        from reactive_agents.adapters.llm.completion import ask

        parameters = _Parameters(prepared, self._refused)
        try:
            await parameters.begin()
            async for attempt in self._attempts(candidate, request):
                answer = await self._within_limits(candidate, parameters, ask, failed_attempts)
                while isinstance(answer, Failure) and parameters.refused(answer.failure()):
                    failed_attempts.enter(answer.failure())
                    answer = await self._within_limits(candidate, parameters, ask, failed_attempts)
                parameters.conclude(answer.failure() if isinstance(answer, Failure) else None)
                if isinstance(answer, Failure):
                    failed_attempts.enter(answer.failure())
                # the retry loop sees only the outcome, so that cancellation does not pass through it
                with attempt:
                    if isinstance(answer, Failure):
                        raise AttemptFailed(answer.failure())
                    return answer
        except AttemptFailed as last:
            return Failure(last.attempt)
        finally:
            parameters.go_on(taken=False)
        raise AssertionError("the last attempt answers or raises")

    async def _stream_from(
        self, candidate: _Candidate, request: models.ModelRequest, failed_attempts: FailedAttempts
    ) -> AsyncGenerator[models.ModelChunk | FailedAttempt]:
        """Yield chunks, ``StreamRestarted`` before further attempts, then the answer."""
        prepared = await self._prepare(candidate, request)
        if isinstance(prepared, FailedAttempt):
            yield prepared
            return
        from reactive_agents.adapters.llm.completion import PartialText, ask_streaming

        partial = PartialText(prepared.model, request)
        failed: FailedAttempt | None = None
        parameters = _Parameters(prepared, self._refused)
        try:
            await parameters.begin()
            async for attempt in self._attempts(candidate, request):
                if failed is not None and not partial.continues():
                    yield models.StreamRestarted(failed.error.message)
                asking = True
                while asking:
                    asking, failed = False, None
                    admission = await self._admit(
                        candidate, partial.continued(parameters.request), failed_attempts
                    )
                    asked = partial.continued(parameters.request)
                    async with aclosing(ask_streaming(asked)) as deltas:
                        async for delta in deltas:
                            if admission is not None:
                                admission.settle(delta)
                            if isinstance(delta, FailedAttempt):
                                failed = delta
                                failed_attempts.enter(delta)
                                asking = parameters.refused(delta)
                                if partial.is_refused(delta):
                                    asking = True
                                    yield models.StreamRestarted(delta.error.message)
                            else:
                                parameters.conclude(None)
                                taken = partial.take(delta)
                                if taken is not None:
                                    yield taken
                            await asyncio.sleep(0)  # many deltas at once would block the loop
                parameters.conclude(failed)
                with attempt:
                    if failed is None:
                        return
                    raise AttemptFailed(failed)
        except AttemptFailed as last:
            yield last.attempt
        finally:
            parameters.go_on(taken=False)

    async def _within_limits(
        self, candidate: _Candidate, parameters: _Parameters, ask: _Ask, failed_attempts: FailedAttempts
    ) -> Result[models.ModelResponse, FailedAttempt]:
        """Send a request when the limits of its key allow it."""
        admission = await self._admit(candidate, parameters.request, failed_attempts)
        answer = await ask(parameters.request)
        if admission is not None:
            admission.settle(answer.unwrap() if isinstance(answer, Success) else answer.failure())
        return answer

    async def _admit(
        self, candidate: _Candidate, prepared: PreparedRequest, failed_attempts: FailedAttempts
    ) -> Admitted | None:
        """Wait for the limits of the request's key; ``None`` without limits."""
        limit, model = self._config.rate_limit, prepared.model
        if limit is None or not candidate.own:
            return None
        from reactive_agents.adapters.llm.rate_limit import LIMITS, admit

        usage = (self._limits or LIMITS).of(self._config, model)
        is_charged = failed_attempts.are_charged
        return await admit(usage, limit, prepared.request, model, self._clock, is_charged=is_charged)

    def _give_up(self, candidate: _Candidate, failed: FailedAttempt, failed_attempts: FailedAttempts) -> None:
        failed_attempts.give_up(failed)
        if failed.retry:
            self._down.setdefault(candidate.place, self._clock.monotonic())

    def _attempts(self, candidate: _Candidate, request: models.ModelRequest) -> AsyncIterator[Attempt]:
        at_most, down_at = self._config.max_attempts, self._down.get(candidate.place)
        if down_at is not None and self._clock.monotonic() - down_at > DOWN_S:
            self._down.pop(candidate.place, None)
        elif down_at is not None and candidate != self._candidates(request.model)[-1]:
            at_most = 1
        return attempts(at_most=at_most, longest_wait_s=self._config.timeout_s)

    async def _prepare(
        self, candidate: _Candidate, request: models.ModelRequest
    ) -> PreparedRequest | FailedAttempt:
        """Return the request to send, or why it cannot be sent."""
        model = candidate.model
        if not model:
            return FailedAttempt(
                RequestRejected("No model is configured: name a model or a provider.", model)
            )
        if not on_asyncio():
            message = f"{model} cannot be called here: litellm works on asyncio only, not on trio."
            return FailedAttempt(ModelUnavailable(message, model), elsewhere=False)
        await load_litellm()
        from reactive_agents.adapters.llm.catalog import unsupported_content
        from reactive_agents.adapters.llm.completion import PreparedRequest, missing_key

        unsupported = unsupported_content(model, request, self._config.takes)
        if unsupported is not None:
            return FailedAttempt(unsupported)
        prepared = PreparedRequest(
            request=self._asked(candidate, request),
            model=model,
            timeout_s=self._config.timeout_s,
            api_key=self._key_of(candidate),
            base_url=candidate.base_url,
            clients=await self._connections.clients(),
            clock=self._clock,
            omitted=() if request.exact else self._refused.of(model, candidate.base_url),
            price=candidate.price,
        )
        return missing_key(prepared.model, prepared.api_key, prepared.base_url) or prepared


_Place: TypeAlias = tuple[str, str | None, str | None]
"""A model, its URL and its key."""


@frozen
class _Candidate:
    """A model to call, with its own server and settings.

    Attributes:
        own: whether it has the server and the key of the configured model, and counts for its rate limit.
    """

    model: str
    base_url: str | None
    api_key: str | None = field(repr=False)
    own: bool
    settings: ModelSettings = NO_SETTINGS
    price: models.TokenPrice | None = None
    profile: ModelProfile | None = None
    window_tokens: int | None = None

    @property
    def place(self) -> _Place:
        return self.model, self.base_url, self.api_key

    @property
    def server(self) -> tuple[str, str | None]:
        return provider_of(self.model), self.base_url


def _each_once(candidates: Iterable[_Candidate]) -> tuple[_Candidate, ...]:
    found: list[_Candidate] = []
    for each in candidates:
        if each not in found:
            found.append(each)
    return tuple(found)


def _per_token(price: ModelPrice) -> models.TokenPrice:
    return models.TokenPrice(
        price.input_usd_per_million / 1e6, price.output_usd_per_million / 1e6, price.max_output_tokens
    )


class _Parameters:
    """The request to one model, without the parameters that it rejects."""

    def __init__(self, request: PreparedRequest, known: RefusedParameters) -> None:
        self._sent: Mapping[str, Any] = {}
        self._request = evolve(request, keep_sent=self._keep_sent)
        self._known = known
        self._found = 0
        self._first: Sent | None = None

    async def begin(self) -> None:
        """Wait for the first request with the same parameters, if one is in progress."""
        asked = self._request.request
        sent = None if asked.exact else sent_with(asked, self._request.model, self._request.base_url)
        if sent is not None and await self._known.is_first(sent):
            self._first = sent

    @property
    def request(self) -> PreparedRequest:
        """The request to send next, without parameters that were rejected meanwhile."""
        request = self._request
        if not request.request.exact:
            known = self._known.of(request.model, request.base_url)
            new = tuple(each for each in known if each not in request.omitted)
            if new:
                self._request = request = evolve(request, omitted=(*new, *request.omitted))
        return request

    def refused(self, failed: FailedAttempt) -> bool:
        """Return whether to retry at once, without a rejected parameter."""
        if not failed.refusal or self._request.request.exact:
            return False
        from reactive_agents.adapters.llm.completion import without_refused

        without = without_refused(self._request, failed)
        if without is None:
            return False
        omission, model = without.omitted[-1], without.model
        if omission in self._known.of(model, without.base_url):  # another request was faster
            return True
        self._request, self._found = without, self._found + 1
        _log.warning("The provider of %s refused the parameter %s.", model, omission.parameter)
        _publish_refused(model, omission.parameter, omission.instead)
        return True

    def _keep_sent(self, body: Mapping[str, Any]) -> None:
        self._sent = body

    def _report_left_out(self) -> None:
        """Report the settings that litellm did not send, each once for a model."""
        prepared, sent = self._request, self._sent
        if not sent or prepared.request.exact or prepared.request.settings is NO_SETTINGS:
            return
        self._sent = {}
        omitted = {each.parameter for each in prepared.omitted}
        for parameter in left_out(prepared.request, sent):
            if parameter in omitted or not self._known.is_new(prepared.model, prepared.base_url, parameter):
                continue
            _log.warning("The setting %s is not sent: %s does not take it.", parameter, prepared.model)
            _publish_refused(prepared.model, parameter, "", False)

    def conclude(self, failed: FailedAttempt | None) -> None:
        """Remember the rejected parameter, unless the request without it failed too."""
        if self._found and (failed is None or not failed.refusal):
            request = self._request
            self._known.remember(request.model, request.base_url, request.omitted[-self._found :])
            self._found = 0
        if failed is None:
            self._report_left_out()
        self.go_on(taken=failed is None)

    def go_on(self, *, taken: bool) -> None:
        """Let the requests that wait for this one continue, however it ended."""
        if self._first is not None:
            first, self._first = self._first, None
            self._known.conclude(first, taken=taken)


def _publish_refused(*fields: object) -> None:
    publish = PUBLISH.get()
    if publish is not None:
        from reactive_agents.core.events import ModelParameterRefused

        publish(ModelParameterRefused, *fields)


# --- litellm itself, which is imported and set up once: off the event loop, quiet, without retries ---


_loading: Final = threading.Lock()
_loaded: Final = threading.Event()
_OURS: Final = ("reactive_agents.adapters.llm.completion", "reactive_agents.adapters.llm.catalog")
_NOISE: Final = (
    r"Item '\w+' on TypedDict class '\w+' is using the `ReadOnly`",
    "Pydantic serializer warnings",
)
"""Warnings that pydantic raises at litellm's own classes; only litellm can fix them."""
_DROPPED: Final = "LoggingWorker._worker_loop"


async def load_litellm() -> None:
    """Import litellm in a worker thread, once; that takes seconds."""
    if not _loaded.is_set():
        await anyio.to_thread.run_sync(_load, abandon_on_cancel=True)


def is_loaded() -> bool:
    """Return whether litellm is loaded."""
    return _loaded.is_set()


def _load() -> None:
    with _loading:
        if not _loaded.is_set():
            _import_litellm()
            _loaded.set()


def _import_litellm() -> None:
    # litellm contains these lists, but would download newer ones at import and at the first request
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    import litellm

    # modules that these packages would otherwise import on the event loop, during the first request
    for name in ("httpcore", "openai.resources.chat", "stamina", *_OURS):
        import_module(name)
    from reactive_agents.adapters.llm.completion import scope_clients

    litellm.suppress_debug_info = True
    litellm.num_retries = 0
    # for embeddings it treats zero retries as unset, and uses this
    litellm.DEFAULT_MAX_RETRIES = 0  # type: ignore[attr-defined]
    # to count the tokens of a prompt it would download the tokenizer of the model's family
    litellm.disable_hf_tokenizer_download = True
    # plain httpx closes its connections on request; the aiohttp transport leaves sessions behind
    litellm.disable_aiohttp_transport = True
    for noise in _NOISE:
        warnings.filterwarnings("ignore", message=noise, category=UserWarning)
    if "LITELLM_LOG" not in os.environ:
        # the caller gets every failure as a value; litellm would also print it with a stack trace
        for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        # it drops the task of its callbacks when another event loop asks a model, and asyncio complains
        logging.getLogger("asyncio").addFilter(lambda said: _DROPPED not in said.getMessage())
        warnings.filterwarnings(
            "ignore", message=f"coroutine '{_DROPPED}' was never", category=RuntimeWarning
        )
    scope_clients()
    # litellm counts the tokens of every streamed prompt, and reads its tokenizer's vocabulary first
    litellm.token_counter(model="gpt-4o", text=".")
