"""What happens with the budgets of a run, and with answers that are not verified."""

from __future__ import annotations

from attrs import frozen

from reactive_agents.core.errors import BudgetPeriod, ServiceFailed
from reactive_agents.core.event_base import Event
from reactive_agents.core.service_config import VerificationAction


@frozen
class BudgetWarning(Event):
    """A budget is used up to a share that was to be warned of; once a run, period and share.

    Attributes:
        period: ``run``, ``day`` or ``month``, both of UTC.
        limit_usd: US dollars that may be spent in the period.
        spent_usd: US dollars that are spent or reserved in it.
        share: what is used, as a part of the limit; above 1 when more was spent than may be.
    """

    period: BudgetPeriod
    limit_usd: float
    spent_usd: float
    share: float


@frozen
class BudgetNotSettled(Event):
    """What was spent could not be entered into a budget; what was reserved for it stays counted.

    Attributes:
        spent_usd: US dollars that were spent.
        reserved_usd: US dollars that stay counted in their place.
    """

    spent_usd: float
    reserved_usd: float
    error: ServiceFailed


@frozen
class VerificationActed(Event):
    """What was done about an answer that is not verified.

    Attributes:
        action: ``annotate``, ``retry`` or ``fail``.
        detail: why, in a sentence.
    """

    action: VerificationAction
    detail: str
