"""The budget of a run: reservations for model calls, and what they have cost.

The highest possible cost of a call is reserved before it is made: the request at the most expensive tariff,
and the longest answer. Requests are measured by the model's own tokenizer, or by the bound that holds for
every tokenizer: a token for each byte.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.texts import counted
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import Value
from reactive_agents.kernel.context import UsageAccount
from reactive_agents.kernel.context_window.token_estimate import fixed_size
from reactive_agents.kernel.events import RunEvents
from reactive_agents.kernel.service_calls import CheckedCounter, call_service, price_in
from reactive_agents.ports import PriceList, SpendingGuard, TokenCounter

if TYPE_CHECKING:
    from reactive_agents.core.governance import BudgetUse, Reservation


@frozen(eq=False, repr=False)
class CallBound(Value):
    """The most that a model call may take.

    Attributes:
        tokens: tokens of the request and the longest answer, as far as they are known.
        usd: US dollars; ``None`` where the price or the longest answer is not known.
        problem: why the dollars are not known, as a sentence.
    """

    tokens: int
    usd: float | None
    problem: str = ""


@frozen(eq=False, repr=False)
class Held(Value):
    """Reservations for a call, of its run and of the runs that began it."""

    bound: CallBound
    reservations: tuple[tuple[RunBudget, Reservation], ...] = ()
    shares: tuple[RunBudget, ...] = ()


class RunBudget:
    """Reserves and settles the budgets of one run's calls, and publishes warnings.

    A call also reserves from the budgets of the runs above it, so that all agents that work for one caller
    stay within its budget together. If a service keeps a budget, a call of unknown cost is not made: a budget
    that cannot be read or enforced allows no calls.

    Args:
        guard: the service that keeps budgets; ``None`` for none.
        prices: the prices of models; with ``Nothing`` the guard allows no call.
        counter: counts requests of models with a known tokenizer.
        limits: tokens, dollars and model calls of the run. Policies hold the run's own calls to them, and
            of calls side by side their number is held here; so are the calls of runs that its tools begin.
        account: the usage of the run, which the limits are compared with.
        caller: the budget of the run that began this one.
        user: for whom the run is, given to a guard that counts users.
    """

    def __init__(
        self,
        guard: SpendingGuard | None,
        events: RunEvents,
        *,
        prices: Maybe[PriceList],
        counter: Maybe[TokenCounter],
        limits: BudgetConfig | None = None,
        account: UsageAccount | None = None,
        caller: RunBudget | None = None,
        user: str | None = None,
    ) -> None:
        self._user = user if getattr(guard, "counts_users", False) else None
        self._guard = guard
        self._events = events
        self._prices = prices.value_or(None)
        self._counter = counter.map(CheckedCounter).value_or(None)
        self._warned: dict[str, float] = {}
        self._limits = limits or BudgetConfig()
        self._account = account or UsageAccount()
        self._caller = caller
        self._lock = Lock()  # runs that a tool began may be in other threads
        self._held_tokens = 0
        self._held_usd = 0.0
        self._held_calls = 0

    async def reserve(
        self, request: ModelRequest, model: str
    ) -> Result[Held | None, errors.BudgetExceeded | errors.BudgetUnavailable]:
        """Reserve the most that a request may take; ``None`` where nothing limits it."""
        if self._guard is None and self._caller is None and self._limits.requests is None:
            return Success(None)
        held = Held(await self._bound(request))
        budget: RunBudget | None = self
        while budget is not None:
            taken = await budget._take(held, model, shares=budget is not self)
            if isinstance(taken, Failure):
                await self._give_back(held)
                return Failure(taken.failure())
            held, budget = taken.unwrap(), budget._caller
        return Success(held)

    async def settle(self, held: Held, answer: Result[ModelResponse, errors.LLMErrors]) -> None:
        """Settle the cost of a call; the reserved amount counts where it is unknown."""
        spent = attempts_of(answer)
        unknown = any(each.unreported_calls for each in spent) or _may_have_cost(answer)
        most_usd = held.bound.usd or 0.0
        kept_usd = max(0.0, _cost_of(answer, most_usd) - sum(each.cost_usd for each in spent))
        for budget in held.shares:
            budget._hold(-held.bound.tokens if not unknown else 0, kept_usd - most_usd)
        for budget, reservation in held.reservations:
            await budget._settle(reservation, _cost_of(answer, reservation.amount_usd))

    async def spend(self, cost_usd: float, before: tuple[str, ...] = ()) -> None:
        """Enter spending without a reservation, into the callers' budgets too.

        Args:
            before: places of budgets into which it was already entered.
        """
        place = self._place
        if self._guard is not None:
            entered = await call_service(
                "budget",
                self._guard,
                SpendingGuard.spend,
                tuple,
                self._events.run_id,
                cost_usd,
                **self._counted_for(shared=place in before),
            )
            self._tell(entered, cost_usd, 0.0)
        if self._caller is not None:
            await self._caller.spend(cost_usd, (*before, place) if place else before)

    def _counted_for(self, *, shared: bool) -> dict[str, Any]:
        """Return the options for a guard whose budgets other agents share.

        Args:
            shared: whether another run has entered the amount there, so that it counts for this run alone.
        """
        for_user = {} if self._user is None else {"user": self._user}
        return {**for_user, "for_run_alone": True} if shared else for_user

    @property
    def _place(self) -> str:
        """The place of a budget that several agents may share; empty for none."""
        return getattr(self._guard, "place", "")

    async def _take(
        self, held: Held, model: str, *, shares: bool
    ) -> Result[Held, errors.BudgetExceeded | errors.BudgetUnavailable]:
        bound = held.bound
        if self._limits.limits_spending and (shares or self._limits.requests is not None):
            refusal = self._refusal(bound, model, shares=shares)
            if refusal is not None:
                return Failure(refusal)
            held = evolve(held, shares=(*held.shares, self))
        if self._guard is None or bound.usd == 0.0:
            return Success(held)
        shared = bool(self._place) and any(each._place == self._place for each, _ in held.reservations)
        reserved = await self._reserved(self._guard, bound, model, shared=shared)
        if not isinstance(reserved, Success):
            if self in held.shares:
                self._hold(-bound.tokens, -(bound.usd or 0.0))
            return Failure(reserved.failure())
        return Success(evolve(held, reservations=(*held.reservations, (self, reserved.unwrap()))))

    async def _reserved(
        self, guard: SpendingGuard, bound: CallBound, model: str, *, shared: bool
    ) -> Result[Reservation, errors.BudgetExceeded | errors.BudgetUnavailable]:
        if bound.usd is None:
            problem = f"The budget cannot be enforced with {model}: {bound.problem}"
            return Failure(errors.BudgetUnavailable(problem, model))
        from reactive_agents.core.governance import Reservation  # of agents with a budget

        reserved = await call_service(
            "budget",
            guard,
            SpendingGuard.reserve,
            Reservation,
            self._events.run_id,
            bound.usd,
            **self._counted_for(shared=shared),
        )
        return reserved.alt(
            lambda refused: (
                refused
                if isinstance(refused, errors.BudgetExceeded)
                else errors.BudgetUnavailable(f"The budget cannot be read. {refused.message}", model)
            )
        )

    def _refusal(
        self, bound: CallBound, model: str, *, shares: bool
    ) -> errors.BudgetExceeded | errors.BudgetUnavailable | None:
        """Hold the most that a call may take, or return why that is not possible."""
        limits, most_usd = self._limits, bound.usd or 0.0
        with self._lock:
            used = self._account.total
            tokens, usd = used.tokens + self._held_tokens, used.cost_usd + self._held_usd
            if shares and limits.tokens is not None and tokens + bound.tokens > limits.tokens:
                return errors.BudgetUnavailable(
                    f"The caller's budget is exhausted: {tokens} of {limits.tokens} tokens are used or "
                    f"reserved, and the next call may take {bound.tokens}.",
                    model,
                )
            if (shares and limits.cost_usd is not None) and (
                usd + most_usd > limits.cost_usd or (bound.usd is None and usd >= limits.cost_usd)
            ):
                return errors.BudgetExceeded("run", limits.cost_usd, usd, most_usd)
            if limits.requests is not None and used.calls + self._held_calls >= limits.requests:
                whose, most = "caller's limit" if shares else "limit", counted(limits.requests, "model call")
                return errors.BudgetUnavailable(f"The {whose} of {most} was reached.", model)
            self._held_calls += 1
            self._held_tokens += bound.tokens
            self._held_usd += most_usd
        return None

    def _hold(self, tokens: int, usd: float) -> None:
        """Change what is held for a call that has ended."""
        with self._lock:
            self._held_calls -= 1
            self._held_tokens += tokens
            self._held_usd += usd

    async def _give_back(self, held: Held) -> None:
        for budget, reservation in held.reservations:
            await budget._settle(reservation, 0.0)
        for budget in held.shares:
            budget._hold(-held.bound.tokens, -(held.bound.usd or 0.0))

    async def _settle(self, reservation: Reservation, actual_usd: float) -> None:
        if self._guard is not None:
            settled = await call_service(
                "budget", self._guard, SpendingGuard.settle, tuple, reservation, actual_usd
            )
            self._tell(settled, actual_usd, reservation.amount_usd)

    async def _bound(self, request: ModelRequest) -> CallBound:
        known = Success(None) if self._prices is None else await price_in(self._prices, request.model)
        price, tokens = known.value_or(None), self._tokens(request)
        longest = request.max_tokens or (None if price is None else price.max_output_tokens)
        most = tokens + (longest or 0)
        if price is None:
            failed, unknown = isinstance(known, Failure), "its price is not known; with_prices gives it one."
            return CallBound(most, None, known.failure().message if failed else unknown)
        if not price.input_usd and not price.output_usd:
            return CallBound(most, 0.0)
        if longest is None:
            return CallBound(most, None, "how long its answers may be is not known.")
        return CallBound(most, tokens * price.input_usd + longest * price.output_usd)

    def _tokens(self, request: ModelRequest) -> int:
        counted = None if self._counter is None else self._counter.count(request)
        return fixed_size(request.messages, request.tools) if counted is None else counted

    def _tell(
        self,
        settled: Result[tuple[BudgetUse, ...], errors.ServiceFailed],
        spent_usd: float,
        reserved_usd: float,
    ) -> None:
        if isinstance(settled, Failure):
            error = settled.failure()
            self._events.publish(
                events.BudgetNotSettled, spent_usd=spent_usd, reserved_usd=reserved_usd, error=error
            )
            return
        for use in settled.unwrap():
            if use.reached > self._warned.get(use.period, 0.0):
                self._warned[use.period] = use.reached
                self._events.publish(
                    events.BudgetWarning,
                    period=use.period,
                    limit_usd=use.limit_usd,
                    spent_usd=use.spent_usd,
                    share=use.share,
                )


def attempts_of(answer: Result[ModelResponse, errors.LLMErrors]) -> tuple[RunUsage, ...]:
    """Return the usage of all attempts of a request."""
    return answer.unwrap().spent if isinstance(answer, Success) else errors.refused_attempts(answer.failure())


def _may_have_cost(answer: Result[ModelResponse, errors.LLMErrors]) -> bool:
    """Return whether a failed call without known attempts may be charged."""
    if isinstance(answer, Success):
        return False
    return not attempts_of(answer) and errors.may_be_charged(answer.failure())


def _cost_of(answer: Result[ModelResponse, errors.LLMErrors], most_usd: float) -> float:
    """Return US dollars. ``most_usd``: for each attempt of unknown cost."""
    if _may_have_cost(answer):
        return most_usd
    spent = attempts_of(answer)
    return sum(max(each.cost_usd, most_usd) if each.unpriced_calls else each.cost_usd for each in spent)
