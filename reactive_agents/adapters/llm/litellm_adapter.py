"""The port to language models over litellm, with retries, timeouts and fallbacks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Never, TypeAlias

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.attempts import AttemptFailed, FailedAttempt, FailedAttempts, attempts
from reactive_agents.adapters.llm.litellm_loader import Connections, is_loaded, load_litellm, on_asyncio
from reactive_agents.adapters.llm.parameters import REFUSED, RefusedParameters, Sent, sent_with
from reactive_agents.adapters.llm.providers import alternative_model, provider_of, qualified_model
from reactive_agents.adapters.system import SystemClock
from reactive_agents.core import models
from reactive_agents.core.bases import PUBLISH
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import LLMErrors, ModelUnavailable, RequestRejected
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

if TYPE_CHECKING:
    from stamina import Attempt

    from reactive_agents.adapters.llm.completion import PreparedRequest
    from reactive_agents.adapters.llm.rate_limit import Admission, RateLimits

    _Ask: TypeAlias = Callable[[PreparedRequest], Awaitable[Result[models.ModelResponse, FailedAttempt]]]


_log = logging.getLogger("reactive_agents")

DOWN_S = 60.0
"""Seconds in which a model that used up its attempts is called once by each request, before its fallback."""


class LiteLLM:
    """Implements ``LLM`` for every model of litellm, on asyncio only.

    Each model is called up to ``max_attempts`` times while its failures are transient; then the next of
    ``fallbacks`` is called, except after a refusal by the content policy. The error is that of the first
    model, and its message names the failures of the fallbacks. A model that used up its attempts is called
    once by each request of the next ``DOWN_S`` seconds while there is a fallback, until it answers.

    The key and URL of the configuration are sent to the configured provider only, never to a fallback at
    another one. An instance is cheap: litellm is imported with the first request, off the loop.

    Args:
        config: the model, its access, timeout and attempts.
        clock: the clock for retry delays; by default the machine's.
        refused: the parameters that providers rejected; by default those of the process.
        limits: the usage of keys, for rate limits; by default that of the process.
    """

    def __init__(
        self,
        config: ModelConfig,
        *,
        clock: Clock | None = None,
        refused: RefusedParameters = REFUSED,
        limits: RateLimits | None = None,
    ) -> None:
        self._config = config
        self._clock: Clock = SystemClock() if clock is None else clock
        self._model = qualified_model(config.provider, config.model)
        self._connections = Connections()
        self._refused = refused
        self._limits = limits
        self._windows: dict[str, int | None] = {}
        self._down: dict[str, float] = {}  # models that used up their attempts, with the time of that
        self._prices = {
            alternative_model(config.provider or provider_of(self._model), name): models.TokenPrice(
                price.input_usd_per_million / 1e6, price.output_usd_per_million / 1e6, price.max_output_tokens
            )
            for name, price in config.prices.items()
        }

    @property
    def model(self) -> str:
        """The default model of requests, as ``provider/model``."""
        return self._model

    @effect
    async def complete(self, request: models.ModelRequest) -> Result[models.ModelResponse, LLMErrors]:
        """Return the whole answer.

        Fails as specified by the port; with ``AuthenticationFailed`` before sending anything if there is no
        key, and with ``ModelUnavailable`` on an event loop other than asyncio's.
        """
        failed_attempts = FailedAttempts()
        try:
            for model in self._candidates(request.model):
                match await self._complete_with(model, request, failed_attempts):
                    case Success(response):
                        self._down.pop(model, None)
                        return Success(failed_attempts.before(response))
                    case Failure(failed):
                        self._give_up(model, failed, failed_attempts)
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
            for model in self._candidates(request.model):
                if begun:
                    yield Success(models.StreamRestarted(failed_attempts.latest.error.message))
                    begun = False
                async with aclosing(self._stream_from(model, request, failed_attempts)) as chunks:
                    async for chunk in chunks:
                        match chunk:
                            case FailedAttempt():
                                self._give_up(model, chunk, failed_attempts)
                            case models.StreamCompleted(response):
                                self._down.pop(model, None)
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

        return count_tokens(self._candidates(request.model)[0], request)

    def window(self, model: str | None) -> int | None:
        """Return the context window by litellm's list; ``None`` before the first request."""
        if not is_loaded():
            return None
        name = model or self._model
        if name not in self._windows:
            from reactive_agents.adapters.llm.catalog import window_tokens

            self._windows[name] = window_tokens(self._candidates(name)[0])
        return self._windows[name]

    @effect
    async def price(self, model: str | None) -> Result[models.TokenPrice | None, Never]:
        """Return the highest price of the model and its fallbacks; ``None`` if unknown."""
        await load_litellm()
        from reactive_agents.adapters.llm.catalog import token_price

        prices = [self._prices.get(each) or token_price(each) for each in self._candidates(model)]
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

    def _candidates(self, named: str | None) -> tuple[str, ...]:
        """Return the models to call, in order. ``named``: the model of the request."""
        provider = self._config.provider or provider_of(self._model)
        first = alternative_model(provider, named) if named else self._model
        fallbacks = (alternative_model(provider, name) for name in self._config.fallbacks)
        return tuple(dict.fromkeys((first, *fallbacks)))

    async def _complete_with(
        self, model: str, request: models.ModelRequest, failed_attempts: FailedAttempts
    ) -> Result[models.ModelResponse, FailedAttempt]:
        prepared = await self._prepare(model, request)
        if isinstance(prepared, FailedAttempt):
            return Failure(prepared)
        from reactive_agents.adapters.llm.completion import ask

        parameters = _Parameters(prepared, self._refused)
        try:
            await parameters.begin()
            async for attempt in self._attempts(model, request):
                answer = await self._within_limits(parameters, ask)
                while isinstance(answer, Failure) and parameters.refused(answer.failure()):
                    failed_attempts.enter(answer.failure())
                    answer = await self._within_limits(parameters, ask)
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
            parameters.end()
        raise AssertionError("the last attempt answers or raises")

    async def _stream_from(
        self, model: str, request: models.ModelRequest, failed_attempts: FailedAttempts
    ) -> AsyncGenerator[models.ModelChunk | FailedAttempt]:
        """Yield chunks, ``StreamRestarted`` before further attempts, then the answer."""
        prepared = await self._prepare(model, request)
        if isinstance(prepared, FailedAttempt):
            yield prepared
            return
        from reactive_agents.adapters.llm.completion import PartialText, ask_streaming

        partial = PartialText(prepared.model, request)
        failed: FailedAttempt | None = None
        parameters = _Parameters(prepared, self._refused)
        try:
            await parameters.begin()
            async for attempt in self._attempts(model, request):
                if failed is not None and not partial.continues():
                    yield models.StreamRestarted(failed.error.message)
                asking = True
                while asking:
                    asking, failed = False, None
                    admission = await self._admit(partial.continued(parameters.request))
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
            parameters.end()

    async def _within_limits(
        self, parameters: _Parameters, ask: _Ask
    ) -> Result[models.ModelResponse, FailedAttempt]:
        """Send a request when the limits of its key allow it."""
        admission = await self._admit(parameters.request)
        answer = await ask(parameters.request)
        if admission is not None:
            admission.settle(answer.unwrap() if isinstance(answer, Success) else answer.failure())
        return answer

    async def _admit(self, prepared: PreparedRequest) -> Admission | None:
        """Wait for the limits of the request's key; ``None`` without limits."""
        limit, model = self._config.rate_limit, prepared.model
        if limit is None or provider_of(model) != provider_of(self._model):
            return None
        from reactive_agents.adapters.llm.rate_limit import LIMITS, admit

        usage = (self._limits or LIMITS).of(self._config, model)
        return await admit(usage, limit, prepared.request, model, self._clock)

    def _give_up(self, model: str, failed: FailedAttempt, failed_attempts: FailedAttempts) -> None:
        failed_attempts.give_up(failed)
        if failed.retry:
            self._down.setdefault(model, self._clock.monotonic())

    def _attempts(self, model: str, request: models.ModelRequest) -> AsyncIterator[Attempt]:
        at_most, down_at = self._config.max_attempts, self._down.get(model)
        if down_at is not None and self._clock.monotonic() - down_at > DOWN_S:
            self._down.pop(model, None)
        elif down_at is not None and model != self._candidates(request.model)[-1]:
            at_most = 1
        return attempts(at_most=at_most, longest_wait_s=self._config.timeout_s)

    async def _prepare(self, model: str, request: models.ModelRequest) -> PreparedRequest | FailedAttempt:
        """Return the request to send, or why it cannot be sent."""
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
        own = provider_of(model) == provider_of(self._model)
        prepared = PreparedRequest(
            request=request,
            model=model,
            timeout_s=self._config.timeout_s,
            api_key=self._config.api_key if own else None,
            base_url=self._config.base_url if own else None,
            clients=await self._connections.clients(),
            clock=self._clock,
            omitted=() if request.exact else self._refused.of(model, self._config.base_url if own else None),
            price=self._prices.get(model),
        )
        return missing_key(prepared.model, prepared.api_key, prepared.base_url) or prepared


class _Parameters:
    """The request to one model, without the parameters that it rejects."""

    def __init__(self, request: PreparedRequest, known: RefusedParameters) -> None:
        self._request = request
        self._known = known
        self._found = 0
        self._first: Sent | None = None

    async def begin(self) -> None:
        """Wait for the first request with the same parameters, if one is in progress."""
        asked = self._request.request
        sent = None if asked.exact else sent_with(asked, self._request.model, self._request.base_url)
        if sent is not None and await self._known.is_first(sent):
            self._first = sent

    def end(self) -> None:
        """Release waiting requests, however this one ended."""
        self._go_on(taken=False)

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
        publish = PUBLISH.get()
        if publish is not None:
            from reactive_agents.core.events import ModelParameterRefused

            publish(ModelParameterRefused, model, omission.parameter, omission.instead)
        return True

    def conclude(self, failed: FailedAttempt | None) -> None:
        """Remember the rejected parameter, unless the request without it failed too."""
        if self._found and (failed is None or not failed.refusal):
            request = self._request
            self._known.remember(request.model, request.base_url, request.omitted[-self._found :])
            self._found = 0
        self._go_on(taken=failed is None)

    def _go_on(self, *, taken: bool) -> None:
        """Let the requests that wait for this one continue."""
        if self._first is not None:
            first, self._first = self._first, None
            self._known.conclude(first, taken=taken)
