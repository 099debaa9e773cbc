"""Models for tests that no script can play: they answer by a rule, and fail where they are told to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import LLMErrors, ModelUnavailable
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, Usage
from reactive_agents.effects import Effect, attempt
from reactive_agents.kernel import MeteredLLM, RunEvents
from reactive_agents.ports import LLM
from reactive_agents.reasoning import StrategyServices
from tests.support.kernels import RUN, TASK, KernelBench
from tests.support.strategies import strategy_services

TOKENS = 15
"""The usage that each answer reports."""

Said: TypeAlias = str | LLMErrors | tuple[str, dict[str, object]]
"""A text, a failure, or the name of a tool with its arguments."""

DOWN = ModelUnavailable("The model is down.", "m")


class RuledLLM:
    """Answers each request by a rule, at a price of 0.25 dollars.

    Attributes:
        requests: every request so far, in order, also those that failed.
    """

    def __init__(self, rule: Callable[[ModelRequest], Said]) -> None:
        self.requests: list[ModelRequest] = []
        self._rule = rule

    @property
    def model(self) -> str:
        return "ruled/test"

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        return FutureResult(self._answer(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        yield (await self._answer(request)).map(StreamCompleted)

    async def _answer(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        self.requests.append(request)
        said = self._rule(request)
        usage = Usage(10, 5, TOKENS)
        match said:
            case str():
                return Success(ModelResponse(said, self.model, usage=usage, cost_usd=0.25))
            case (name, arguments):
                call = ToolCall(CallId(f"call-{len(self.requests)}"), name, arguments)
                return Success(ModelResponse("", self.model, (call,), "", "tool_calls", usage, cost_usd=0.25))
            case error:
                return Failure(error)


class FailingAt:
    """Another model that is down for one call, the ``index``-th from 0, or from it on with ``for_good``."""

    def __init__(self, inner: LLM, index: int, *, for_good: bool = False) -> None:
        self.asked = 0
        self.answered = 0
        self._inner, self._index, self._for_good = inner, index, for_good

    @property
    def model(self) -> str:
        return self._inner.model

    def complete(self, request: ModelRequest) -> Effect[ModelResponse, LLMErrors]:
        return FutureResult(self._complete(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        yield (await self._complete(request)).map(StreamCompleted)

    async def _complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        index = self.asked
        self.asked += 1
        if index == self._index or (self._for_good and index > self._index):
            return Failure(DOWN)
        answer = await attempt(self._inner.complete(request))
        self.answered += isinstance(answer, Success)
        return answer


def services_with(llm: LLM, bench: KernelBench) -> StrategyServices:
    """The services of a strategy, with another model than the bench's."""
    meter = MeteredLLM(llm, RunEvents(bench.bus, bench.clock, RUN, TASK), bench.clock)
    services = strategy_services(bench)
    kernel = evolve(services.kernel, llm=meter, account=meter.account)
    return evolve(services, kernel=kernel, meter=meter)
