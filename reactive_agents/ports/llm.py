"""The ports to language models, and to what is known of their windows and prices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Never, Protocol

from returns.result import Result

from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, TokenPrice
from reactive_agents.effects import Effect


class LLM(Protocol):
    """Answers requests. Retries, timeouts and fallbacks are the implementation's own affair."""

    @property
    def model(self) -> str:
        """The model that answers a request which names none, as ``provider/model``."""
        ...

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        """The whole answer at once.

        Fails with ``RateLimited``, ``ModelTimeout`` or ``ModelUnavailable`` when retries and fallbacks did
        not help; with ``AuthenticationFailed``, ``ContextOverflow``, ``RequestRejected`` or
        ``MalformedResponse`` when they could not. Within a run also with ``BudgetExceeded`` or
        ``BudgetUnavailable``: nothing was sent then. Answer and error list in ``refused`` the attempts that
        came to nothing and are, or may be, charged for.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """The answer piece by piece.

        The last item is ``Success(StreamCompleted)`` with the whole answer, its usage and cost, or a
        ``Failure`` as of :meth:`complete`. After ``StreamRestarted`` the pieces start from the beginning.
        Closing the iterator early closes the connection.
        """
        ...


class TokenCounter(Protocol):
    """Knows the windows of models and counts what is put into them. Asks nobody: both answer at once."""

    def count(self, request: ModelRequest) -> int | None:
        """The tokens that the messages and tools of a request take, by the tokenizer of its model.

        ``None`` when that tokenizer is not at hand: another one's count would be a guess. Whoever asks then
        has the bound that holds for every tokenizer, a token for each byte.
        """
        ...

    def window(self, model: str | None) -> int | None:
        """The tokens that the model can read; ``None`` when that is not known.

        Args:
            model: as in a request; ``None`` for the model that answers requests which name none.
        """
        ...


class PriceList(Protocol):
    """Knows what models cost. Asks no provider."""

    def price(self, model: str | None) -> Effect[TokenPrice | None, Never]:
        """The most that a token costs; ``None`` when that is not known.

        Where another model may answer in the place of this one, the dearest of them counts.

        Args:
            model: as in a request; ``None`` for the model that answers requests which name none.
        """
        ...
