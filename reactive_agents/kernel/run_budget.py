"""A run's hold on its budgets: before each model call the most that it may cost is set aside.

The most is what the request takes at the dearest tariff, and the longest answer. Requests are measured by the
model's own tokenizer, or by the bound that holds for every tokenizer: a token for each byte.
"""

from __future__ import annotations

from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import (
    BudgetExceeded,
    BudgetUnavailable,
    LLMErrors,
    ServiceFailed,
    may_be_charged,
    refused_attempts,
)
from reactive_agents.core.events import BudgetNotSettled, BudgetWarning
from reactive_agents.core.governance import BudgetUse, Reservation
from reactive_agents.core.models import ModelRequest, ModelResponse, TokenPrice
from reactive_agents.effects import attempt
from reactive_agents.kernel.extent import fixed_size
from reactive_agents.kernel.run_events import RunEvents
from reactive_agents.ports import PriceList, SpendingGuard, TokenCounter


class RunBudget:
    """Reserves and settles for the calls of one run, and warns, once a period and share.

    What cannot be bounded is not asked: a budget that can be neither read nor kept allows no spending.

    Args:
        prices: ``Nothing`` when nobody knows any, so that no call is allowed.
        counter: counts requests where it knows the tokenizer.
    """

    __slots__ = ("_counter", "_events", "_guard", "_prices", "_warned")

    def __init__(
        self,
        guard: SpendingGuard,
        events: RunEvents,
        *,
        prices: Maybe[PriceList],
        counter: Maybe[TokenCounter],
    ) -> None:
        self._guard = guard
        self._events = events
        self._prices = prices.value_or(None)
        self._counter = counter.value_or(None)
        self._warned: dict[str, float] = {}

    async def reserve(
        self, request: ModelRequest, model: str
    ) -> Result[Reservation | None, BudgetExceeded | BudgetUnavailable]:
        """Set aside the most that the request may cost; nothing is set aside for a model that is free.

        Args:
            model: the one that the request is for.
        """
        price = await self._price(request)
        if price is None:
            message = f"No budget can be kept with {model}: its price is not known."
            return Failure(BudgetUnavailable(message, model))
        if not price.input_usd and not price.output_usd:
            return Success(None)
        longest = request.max_tokens or price.max_output_tokens
        if longest is None:
            message = f"No budget can be kept with {model}: how long its answers may be is not known."
            return Failure(BudgetUnavailable(message, model))
        most = self._tokens(request) * price.input_usd + longest * price.output_usd
        reserved = await attempt(self._guard.reserve(self._events.run_id, most))
        if isinstance(reserved, Failure):
            refusal = reserved.failure()
            if isinstance(refusal, ServiceFailed):
                return Failure(BudgetUnavailable(f"The budget cannot be read. {refusal.message}", model))
            return Failure(refusal)
        return Success(reserved.unwrap())

    async def settle(self, reservation: Reservation, answer: Result[ModelResponse, LLMErrors]) -> None:
        """Enter what the call cost; for an attempt of which nobody knows that, what was set aside."""
        actual = _cost_of(answer, reservation.amount_usd)
        settled = await attempt(self._guard.settle(reservation, actual))
        self._tell(settled, actual, reservation.amount_usd)

    async def spend(self, cost_usd: float) -> None:
        """Enter what was spent without a reservation."""
        entered = await attempt(self._guard.spend(self._events.run_id, cost_usd))
        self._tell(entered, cost_usd, 0.0)

    async def _price(self, request: ModelRequest) -> TokenPrice | None:
        if self._prices is None:
            return None
        return (await attempt(self._prices.price(request.model))).unwrap()

    def _tokens(self, request: ModelRequest) -> int:
        counted = None if self._counter is None else self._counter.count(request)
        return fixed_size(request.messages, request.tools) if counted is None else counted

    def _tell(
        self, settled: Result[tuple[BudgetUse, ...], ServiceFailed], spent_usd: float, reserved_usd: float
    ) -> None:
        events = self._events
        if isinstance(settled, Failure):
            error = settled.failure()
            events.publish(
                BudgetNotSettled(*events.stamp(), spent_usd=spent_usd, reserved_usd=reserved_usd, error=error)
            )
            return
        for use in settled.unwrap():
            if use.reached > self._warned.get(use.period, 0.0):
                self._warned[use.period] = use.reached
                events.publish(
                    BudgetWarning(
                        *events.stamp(),
                        period=use.period,
                        limit_usd=use.limit_usd,
                        spent_usd=use.spent_usd,
                        share=use.share,
                    )
                )


def _cost_of(answer: Result[ModelResponse, LLMErrors], most_usd: float) -> float:
    """US dollars. ``most_usd``: for each attempt of which nobody knows what it cost."""
    if not isinstance(answer, Failure):
        attempts = answer.unwrap().spent
    else:
        error = answer.failure()
        attempts = refused_attempts(error)
        if not attempts and may_be_charged(error):
            return most_usd
    return sum(max(each.cost_usd, most_usd) if each.unpriced_calls else each.cost_usd for each in attempts)
