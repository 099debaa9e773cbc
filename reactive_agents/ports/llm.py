"""Ports of language models, token counts and prices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Never, Protocol

from returns.result import Result

from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, TokenPrice
from reactive_agents.effects import Effect


class LLM(Protocol):
    """Answers requests; retries, timeouts and fallbacks are up to the implementation."""

    @property
    def model(self) -> str:
        """Default model, as ``provider/model``."""
        ...

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """Return the complete response.

        Fails with ``RateLimited``, ``ModelTimeout`` or ``ModelUnavailable`` when retries and fallbacks did
        not help; with ``AuthenticationFailed``, ``ContextOverflow``, ``RequestRejected`` or
        ``MalformedResponse`` when they could not. Within a run also with ``BudgetExceeded`` or
        ``BudgetUnavailable``: nothing was sent then. Answer and error list in ``refused`` the attempts that
        came to nothing and are, or may be, charged for.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """Yield the response in chunks.

        The last item is ``Success(StreamCompleted)`` with the whole answer, its usage and cost, or a
        ``Failure`` as of :meth:`complete`. After ``StreamRestarted`` the pieces start from the beginning.
        Closing the iterator early closes the connection.
        """
        ...


class TokenCounter(Protocol):
    """Knows context windows and counts tokens, without any request."""

    def count(self, request: ModelRequest) -> int | None:
        """Return the tokens of a request's messages and tools, by its model's tokenizer.

        ``None`` when that tokenizer is not available: the count of another one would be a guess. The caller
        then uses the upper bound of any tokenizer, one token a byte.
        """
        ...

    def window(self, model: str | None) -> int | None:
        """Return the context window in tokens; ``None`` when it is unknown.

        Args:
            model: as in a request; ``None`` for the default model.
        """
        ...


class PriceList(Protocol):
    """Knows the prices of models, without any request."""

    def price(self, model: str | None) -> Effect[TokenPrice | None, Never]:
        """Return the highest price of a token; ``None`` when it is unknown.

        Where a fallback may answer instead, the most expensive model counts.

        Args:
            model: as in a request; ``None`` for the default model.
        """
        ...
