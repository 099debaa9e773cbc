"""The account of a run's model calls: every call goes through here, is counted once, and told once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import BudgetExceeded, BudgetUnavailable, LLMErrors, MalformedResponse
from reactive_agents.core.events import (
    ModelCallAbandoned,
    ModelCallCompleted,
    ModelStreamRestarted,
    ModelTextStreamed,
)
from reactive_agents.core.governance import Reservation
from reactive_agents.core.models import (
    ModelChunk,
    ModelRequest,
    ModelResponse,
    StreamCompleted,
    StreamRestarted,
    TextDelta,
    Usage,
)
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.tools import ToolSpending
from reactive_agents.core.usage import ModelSpending, by_model
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.run_budget import RunBudget
from reactive_agents.kernel.run_events import RunEvents
from reactive_agents.ports import LLM, Clock

if TYPE_CHECKING:
    from reactive_agents.core.stream_redaction import StreamRedactor


@frozen
class Spending:
    """What the model calls of a run came to, by the providers' own figures.

    Attributes:
        cost_usd: US dollars, of the calls whose price is known.
        calls: calls that were answered.
        unpriced_calls: answered calls whose price is unknown.
        unreported_calls: answered calls whose usage the provider did not report.
        model: the model that answered last; empty before the first answer.
    """

    usage: Usage = field(factory=Usage)
    cost_usd: float = 0.0
    calls: int = 0
    unpriced_calls: int = 0
    unreported_calls: int = 0
    model: str = ""

    def since(self, earlier: Spending) -> Spending:
        """What came on top of an earlier account of the same run."""
        unreported = self.unreported_calls - earlier.unreported_calls
        return Spending(
            usage=Usage(
                self.usage.input_tokens - earlier.usage.input_tokens,
                self.usage.output_tokens - earlier.usage.output_tokens,
                self.usage.total_tokens - earlier.usage.total_tokens,
                reported=unreported == 0,
            ),
            cost_usd=max(0.0, self.cost_usd - earlier.cost_usd),
            calls=self.calls - earlier.calls,
            unpriced_calls=self.unpriced_calls - earlier.unpriced_calls,
            unreported_calls=unreported,
            model=self.model,
        )


class MeteredLLM:
    """A model service for one run that adds up usage and cost and publishes an event for each call.

    With ``streaming`` the answers are fetched as streams, and each piece of text is an event; with a redactor
    no secret is in the pieces, also none that is cut in two. With a budget each call is reserved for before
    it is made, and not made when there is no room for it.

    Attributes:
        spending: what the calls came to until now.
        refusal: why the budget kept the latest call from being made; ``None`` when it did not.
    """

    __slots__ = (
        "_budget",
        "_by_call",
        "_by_tools",
        "_clock",
        "_events",
        "_llm",
        "_redactor",
        "_streaming",
        "refusal",
        "spending",
    )

    def __init__(
        self,
        llm: LLM,
        events: RunEvents,
        clock: Clock,
        *,
        streaming: bool = False,
        budget: RunBudget | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._llm = llm
        self._events = events
        self._clock = clock
        self._streaming = streaming
        self._budget = budget
        self._by_call: list[tuple[str, Usage, float | None]] = []
        self._by_tools: list[ModelSpending] = []
        self._redactor = redactor
        self.spending = Spending()
        self.refusal: BudgetExceeded | BudgetUnavailable | None = None

    @property
    def model(self) -> str:
        """The model that answers a request which names none."""
        return self._llm.model

    @property
    def models(self) -> tuple[ModelSpending, ...]:
        """What each model came to, in the order of first use; those of tools come last."""
        answered = (
            ModelSpending(model, usage, cost or 0.0, 1, int(cost is None))
            for model, usage, cost in self._by_call
        )
        return by_model((*answered, *self._by_tools))

    async def add(self, spending: ToolSpending) -> None:
        """Enter what a tool spent on models of its own."""
        spent = self.spending
        unnamed = ModelSpending(
            "", spending.usage, spending.cost_usd, spending.calls, spending.unpriced_calls
        )
        self._by_tools += spending.models or (unnamed,)
        self.spending = evolve(
            spent,
            usage=spent.usage + spending.usage,
            cost_usd=spent.cost_usd + spending.cost_usd,
            calls=spent.calls + spending.calls,
            unpriced_calls=spent.unpriced_calls + spending.unpriced_calls,
        )
        if self._budget is not None and spending.cost_usd:
            await self._budget.spend(spending.cost_usd)

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """As the port says."""
        started = self._clock.monotonic()
        if self._budget is None:
            answer = await self._asked(request)
            self._account(request, answer, started)
            return answer
        reserved = await self._reserve(self._budget, request, started)
        if isinstance(reserved, Failure):
            return Failure(reserved.failure())
        answer = await self._asked(request)
        self._account(request, answer, started)
        await self._settle(reserved.unwrap(), answer)
        return answer

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """As the port says."""
        started = self._clock.monotonic()
        reservation: Reservation | None = None
        if self._budget is not None:
            reserved = await self._reserve(self._budget, request, started)
            if isinstance(reserved, Failure):
                yield Failure(reserved.failure())
                return
            reservation = reserved.unwrap()
        async with aclosing(self._llm.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                answer: Result[ModelResponse, LLMErrors]
                match chunk:
                    case Success(StreamCompleted(response)):
                        answer = Success(response)
                    case Failure(error):
                        answer = Failure(error)
                    case _:
                        yield chunk
                        continue
                self._account(request, answer, started)
                await self._settle(reservation, answer)
                yield chunk
                return
        unfinished = self._unfinished()
        self._account(request, unfinished, started)
        await self._settle(reservation, unfinished)
        yield unfinished

    async def _asked(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        if self._streaming:
            return await self._streamed(request)
        return await attempt(self._llm.complete(request))

    async def _reserve(
        self, budget: RunBudget, request: ModelRequest, started: float
    ) -> Result[Reservation | None, BudgetExceeded | BudgetUnavailable]:
        reserved = await budget.reserve(request, request.model or self.model)
        self.refusal = reserved.failure() if isinstance(reserved, Failure) else None
        if self.refusal is not None:
            self._account(request, Failure(self.refusal), started)
        return reserved

    async def _settle(
        self, reservation: Reservation | None, answer: Result[ModelResponse, LLMErrors]
    ) -> None:
        if self._budget is not None and reservation is not None:
            await self._budget.settle(reservation, answer)

    async def _streamed(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        pieces = _Pieces(request.purpose, self._events, self._redactor)
        async with aclosing(self._llm.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                match chunk:
                    case Success(TextDelta(text)):
                        pieces.publish(text)
                    case Success(StreamRestarted(reason)):
                        pieces.restart(reason)
                    case Success(StreamCompleted(response)):
                        pieces.end()
                        return Success(response)
                    case Failure(error):
                        pieces.end()
                        return Failure(error)
        pieces.end()
        return self._unfinished()

    def _unfinished(self) -> Failure[MalformedResponse]:
        return Failure(MalformedResponse("The stream ended without its last chunk.", self.model))

    def _account(
        self, request: ModelRequest, answer: Result[ModelResponse, LLMErrors], started: float
    ) -> None:
        events = self._events
        duration_ms = (self._clock.monotonic() - started) * 1000
        match answer:
            case Success(response):
                spent = self.spending
                self._by_call.append((response.model, response.usage, response.cost_usd))
                self.spending = Spending(
                    usage=spent.usage + response.usage,
                    cost_usd=spent.cost_usd + (response.cost_usd or 0.0),
                    calls=spent.calls + 1,
                    unpriced_calls=spent.unpriced_calls + (response.cost_usd is None),
                    unreported_calls=spent.unreported_calls + (not response.usage.reported),
                    model=response.model,
                )
                events.publish(
                    ModelCallCompleted(
                        *events.stamp(),
                        purpose=request.purpose,
                        model=response.model,
                        usage=response.usage,
                        cost_usd=response.cost_usd,
                        duration_ms=duration_ms,
                    )
                )
            case Failure(error):
                events.publish(
                    ModelCallAbandoned(
                        *events.stamp(), purpose=request.purpose, error=error, duration_ms=duration_ms
                    )
                )


class _Pieces:
    """The pieces of one answer on their way to the events."""

    def __init__(self, purpose: str, events: RunEvents, redactor: Redactor | None) -> None:
        self._purpose = purpose
        self._events = events
        self._redactor = redactor
        self._stream = _stream_redactor(redactor)

    def publish(self, text: str) -> None:
        """Tell the text, as far as it may be told by now."""
        self._tell(text if self._stream is None else self._stream.feed(text))

    def restart(self, reason: str) -> None:
        """Forget the answer up to here."""
        self._stream = _stream_redactor(self._redactor)
        events = self._events
        events.publish(ModelStreamRestarted(*events.stamp(), purpose=self._purpose, reason=reason))

    def end(self) -> None:
        """Tell what was held back."""
        if self._stream is not None:
            self._tell(self._stream.finish())

    def _tell(self, text: str) -> None:
        if text:
            events = self._events
            events.publish(ModelTextStreamed(*events.stamp(), purpose=self._purpose, text=text))


def _stream_redactor(redactor: Redactor | None) -> StreamRedactor | None:
    if redactor is None:
        return None
    from reactive_agents.core.stream_redaction import StreamRedactor  # its library takes a while to import

    return StreamRedactor(redactor)
