"""What keeps a model from being asked: a budget that is used up, or one that cannot be kept."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

BudgetPeriod: TypeAlias = Literal["run", "day", "month"]


@frozen
class BudgetExceeded:
    """A reservation would take a budget past its limit, so nothing was reserved and nothing was spent.

    Attributes:
        period: the budget that is too small; days and months are those of UTC.
        limit_usd: US dollars that may be spent in the period.
        spent_usd: US dollars that are spent or reserved in it already.
        needed_usd: US dollars that were to be reserved.
    """

    period: BudgetPeriod
    limit_usd: float
    spent_usd: float
    needed_usd: float = 0.0

    @property
    def message(self) -> str:
        """One sentence for a person."""
        return (
            f"The budget of the {self.period} is exhausted: {self.spent_usd:.6g} of {self.limit_usd:.6g} US "
            f"dollars are spent or reserved, and the next call may cost {self.needed_usd:.6g}."
        )


@frozen
class BudgetUnavailable:
    """There is a budget, and it cannot be kept, so that the model is not asked.

    Attributes:
        message: why: the budget cannot be read, it is used up, or nobody knows what the call may cost.
    """

    message: str
    model: str
