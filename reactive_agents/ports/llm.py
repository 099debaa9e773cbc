"""The port to language models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from returns.result import Result

from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse
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
        ``MalformedResponse`` when they could not.
        """
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """The answer piece by piece.

        The last item is ``Success(StreamCompleted)`` with the whole answer, its usage and cost, or a
        ``Failure`` as of :meth:`complete`. After ``StreamRestarted`` the pieces start from the beginning.
        Closing the iterator early closes the connection.
        """
        ...
