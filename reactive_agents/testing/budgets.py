"""A budget in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import BudgetErrors, BudgetExceeded, BudgetPeriod, ServiceFailed
from reactive_agents.core.governance import BudgetUse, Reservation
from reactive_agents.core.ids import RunId
from reactive_agents.effects import effect


class InMemoryBudget:
    """Implements ``SpendingGuard`` for the runs of one process, in which all happens on one day.

    Args:
        run_usd: US dollars that each run may spend; ``None`` for no limit, as with the others.
        daily_usd: US dollars for all runs together.
        monthly_usd: likewise.
        warn_at: shares of a limit to warn at, above 0 and up to 1.
        fails_with: every method fails with it, so that nothing may be spent.

    Attributes:
        reserved: every reservation that was made, in order.
        settled: what was spent, by the id of the reservation.
    """

    def __init__(
        self,
        *,
        run_usd: float | None = None,
        daily_usd: float | None = None,
        monthly_usd: float | None = None,
        warn_at: Collection[float] = (),
        fails_with: ServiceFailed | None = None,
    ) -> None:
        self.fails_with = fails_with
        self.reserved: list[Reservation] = []
        self.settled: dict[int, float] = {}
        limits: Mapping[BudgetPeriod, float | None] = {"run": run_usd, "day": daily_usd, "month": monthly_usd}
        self._limits: dict[BudgetPeriod, float] = {
            period: limit for period, limit in limits.items() if limit is not None
        }
        self._warn_at = tuple(warn_at)
        self._of_run: dict[RunId, float] = {}
        self._of_all = 0.0

    @property
    def spent_usd(self) -> float:
        """What all runs have spent or reserved, in US dollars."""
        return self._of_all

    @effect
    async def reserve(self, run_id: RunId, amount_usd: float) -> Result[Reservation, BudgetErrors]:
        """As the port says."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        for period, limit in self._limits.items():
            spent = self._spent(period, run_id)
            if spent + amount_usd > limit:
                return Failure(BudgetExceeded(period, limit, spent, amount_usd))
        self._add(run_id, amount_usd)
        reservation = Reservation(len(self.reserved) + 1, run_id, amount_usd)
        self.reserved.append(reservation)
        return Success(reservation)

    @effect
    async def settle(
        self, reservation: Reservation, actual_usd: float
    ) -> Result[tuple[BudgetUse, ...], ServiceFailed]:
        """As the port says."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        if reservation.id not in self.settled:
            self.settled[reservation.id] = actual_usd
            self._add(reservation.run_id, actual_usd - reservation.amount_usd)
        return Success(self._uses(reservation.run_id))

    @effect
    async def spend(self, run_id: RunId, amount_usd: float) -> Result[tuple[BudgetUse, ...], ServiceFailed]:
        """As the port says."""
        if self.fails_with is not None:
            return Failure(self.fails_with)
        self._add(run_id, amount_usd)
        return Success(self._uses(run_id))

    def _add(self, run_id: RunId, amount_usd: float) -> None:
        self._of_run[run_id] = self._of_run.get(run_id, 0.0) + amount_usd
        self._of_all += amount_usd

    def _spent(self, period: BudgetPeriod, run_id: RunId) -> float:
        return self._of_run.get(run_id, 0.0) if period == "run" else self._of_all

    def _uses(self, run_id: RunId) -> tuple[BudgetUse, ...]:
        uses = []
        for period, limit in self._limits.items():
            spent = self._spent(period, run_id)
            reached = max((share for share in self._warn_at if spent >= share * limit), default=0.0)
            uses.append(BudgetUse(period, limit, spent, reached))
        return tuple(uses)
