"""Requirements on the use of tools, and limits of calls, tokens and dollars."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, ge, gt, instance_of, optional

from reactive_agents.core.values import Value

_COUNT = and_(instance_of(int), ge(1))


@frozen(eq=False, repr=False)
class ToolRequirement(Value):
    """A tool that must succeed before an answer counts.

    Attributes:
        min_calls: how often it must succeed, 1 or more.
        derived: whether it was derived from the task, and not given by the user. Such a requirement sets no
            limit of calls, and an answer without it is accepted when the model insists.
    """

    name: str
    min_calls: int = field(default=1, validator=_COUNT)
    derived: bool = False


@frozen(eq=False, repr=False)
class ToolNeeds(Value):
    """The tools that a task requires, and those that may help.

    Attributes:
        required: tools that must succeed before an answer is complete.
        relevant: further tools that may help.
    """

    required: tuple[ToolRequirement, ...] = ()
    relevant: frozenset[str] = frozenset()


@frozen(eq=False, repr=False)
class CallLimit(Value):
    """The maximum number of calls of a tool in a run, 1 or more."""

    name: str
    max_calls: int = field(validator=_COUNT)


@frozen(eq=False, repr=False)
class BudgetConfig(Value):
    """Limits of a run, which ends as ``partial`` when one is reached.

    Attributes:
        tokens: total tokens of all model calls, 1 or more; ``None`` for no limit.
        cost_usd: US dollars of model calls with a known price, above 0; ``None`` for no limit.
        calls: tools with a limited number of calls; further calls are refused.
    """

    tokens: int | None = field(default=None, validator=optional(_COUNT))
    cost_usd: float | None = field(default=None, validator=optional(gt(0.0)))
    calls: tuple[CallLimit, ...] = ()

    @property
    def limits_spending(self) -> bool:
        """Return whether there is a limit on tokens or dollars."""
        return self.tokens is not None or self.cost_usd is not None
