"""What a run must do with its tools, and what it may spend."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, ge, gt, instance_of, optional

_COUNT = and_(instance_of(int), ge(1))


@frozen
class ToolRequirement:
    """A tool that must have worked before an answer counts. ``min_calls``: how often, 1 or more."""

    name: str
    min_calls: int = field(default=1, validator=_COUNT)


@frozen
class ToolNeeds:
    """What a task needs of its tools.

    Attributes:
        required: no answer is complete before these have worked, each as often as it says.
        relevant: tools that may help besides.
    """

    required: tuple[ToolRequirement, ...] = ()
    relevant: frozenset[str] = frozenset()


@frozen
class CallLimit:
    """How often a tool may be called in a run: 1 or more."""

    name: str
    max_calls: int = field(validator=_COUNT)


@frozen
class BudgetConfig:
    """What a run may spend; it then ends as ``partial`` with what it has.

    Attributes:
        tokens: total tokens of all model calls, 1 or more; ``None`` for no limit.
        cost_usd: US dollars of the model calls whose price is known, above 0; ``None`` for no limit.
        calls: tools that may be called only so often; further calls are refused.
    """

    tokens: int | None = field(default=None, validator=optional(_COUNT))
    cost_usd: float | None = field(default=None, validator=optional(gt(0.0)))
    calls: tuple[CallLimit, ...] = ()

    @property
    def limits_spending(self) -> bool:
        """Whether there is a limit on tokens or dollars."""
        return self.tokens is not None or self.cost_usd is not None
