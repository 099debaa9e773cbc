"""Embeddings from any embedding model of litellm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio
from returns.result import Failure, Result, Success

from reactive_agents.adapters.llm.attempts import AttemptFailed, FailedAttempt, attempts
from reactive_agents.adapters.llm.chat_format import read_usage
from reactive_agents.adapters.llm.clients import Connections, on_asyncio, used_by_litellm
from reactive_agents.adapters.llm.litellm_adapter import load_litellm
from reactive_agents.adapters.llm.providers import provider_of, qualified_model
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.errors import LLMErrors, MalformedResponse, ModelUnavailable
from reactive_agents.core.json import without_surrogates
from reactive_agents.core.usage import USAGE_RECORDER, answer_usage
from reactive_agents.effects import effect
from reactive_agents.ports import Clock, Vectors

PURPOSE = "embedding"


class LiteLLMEmbedder:
    """Implements ``Embedder`` by litellm, on asyncio only.

    litellm is imported with the first texts. The usage of a run includes its calls.

    Args:
        model: as ``provider/model``, such as ``openai/text-embedding-3-small``.
        config: the agent's model. Its key and URL are used for the same provider only, ``timeout_s`` and
            ``max_attempts`` always.
        clock: the clock for retry delays given as dates.
    """

    def __init__(self, model: str, config: ModelConfig, *, clock: Clock) -> None:
        self.model = model
        self._config = config
        self._clock = clock
        self._connections = Connections()
        own = provider_of(model) == provider_of(qualified_model(config.provider, config.model))
        self._api_key = config.api_key if own else None
        self._base_url = config.base_url if own else None

    @effect
    async def embed(self, texts: Sequence[str]) -> Result[Vectors, LLMErrors]:
        """Return one vector for each text. Fails as ``LLM.complete`` does."""
        if not on_asyncio():
            message = f"{self.model} cannot be called here: litellm works on asyncio only, not on trio."
            return Failure(ModelUnavailable(message, self.model))
        await load_litellm()
        from reactive_agents.adapters.llm.completion import missing_key

        keyless = missing_key(self.model, self._api_key, self._base_url)
        if keyless is not None:
            return Failure(keyless.error)
        config = self._config
        try:
            async for attempt in attempts(at_most=config.max_attempts, longest_wait_s=config.timeout_s):
                answer = await self._ask(texts)
                with attempt:
                    if isinstance(answer, Failure):
                        raise AttemptFailed(answer.failure())
                    return Success(answer.unwrap())
        except AttemptFailed as failed:
            return Failure(failed.attempt.error)
        raise AssertionError("the last attempt answers or raises")

    async def aclose(self) -> None:
        """Close the connections of the running event loop; later texts open new ones."""
        await self._connections.aclose()

    async def _ask(self, texts: Sequence[str]) -> Result[Vectors, FailedAttempt]:
        import litellm

        from reactive_agents.adapters.llm.completion import failed_attempt_of
        from reactive_agents.adapters.llm.error_mapping import EXPECTED

        timeout_s, started = self._config.timeout_s, self._clock.monotonic()
        clients = await self._connections.clients()
        try:
            with anyio.fail_after(timeout_s), used_by_litellm(clients):
                answer = await litellm.aembedding(
                    model=self.model,
                    input=[without_surrogates(text) for text in texts],
                    encoding_format="float",
                    api_key=self._api_key,
                    api_base=self._base_url,
                    timeout=timeout_s,
                    num_retries=0,
                    max_retries=0,
                    drop_params=True,
                )
        except EXPECTED as error:
            return Failure(failed_attempt_of(error, self.model, timeout_s, self._api_key, self._clock))
        await self._enter(answer, (self._clock.monotonic() - started) * 1000)
        return self._read(answer, len(texts))

    async def _enter(self, answer: Any, duration_ms: float) -> None:
        """Add the usage of an answer to the current run, if any."""
        from reactive_agents.adapters.llm.catalog import cost_usd

        account = USAGE_RECORDER.get()
        if account is not None:
            usage = getattr(answer, "usage", None)
            price = cost_usd(self.model, usage)
            part = answer_usage(self.model, read_usage(usage), price)
            await account((part,), purpose=PURPOSE, duration_ms=duration_ms)

    def _read(self, answer: Any, count: int) -> Result[Vectors, FailedAttempt]:
        items = [each if isinstance(each, dict) else vars(each) for each in answer.data or ()]
        vectors: list[Any] = [
            each.get("embedding") for each in sorted(items, key=lambda each: each.get("index") or 0)
        ]
        if len(vectors) == count and all(isinstance(vector, list) and vector for vector in vectors):
            return Success(vectors)
        message = f"The answer of {self.model} does not hold a vector for each of {count} texts."
        return Failure(FailedAttempt(MalformedResponse(message, self.model), retry=True))
