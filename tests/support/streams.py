"""A model whose streams are cut where a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator

from returns.future import FutureResult
from returns.result import Result, Success

from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, TextDelta
from reactive_agents.effects import Effect


class PiecewiseLLM:
    """Implements ``LLM``: each answer is the same pieces."""

    model = "test/piecewise"

    def __init__(self, *pieces: str) -> None:
        self._pieces = pieces

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        return FutureResult.from_value(ModelResponse("".join(self._pieces), self.model))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        for piece in self._pieces:
            yield Success(TextDelta(piece))
        yield Success(StreamCompleted(ModelResponse("".join(self._pieces), self.model)))
