"""Model routing: a task gets the lowest tier that is up to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from returns.result import Failure, Result, Success

from reactive_agents.core.complexity import estimated_tokens, task_complexity
from reactive_agents.core.config import ModelTier
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import ModelRoute, RouteNeeds
from reactive_agents.core.tasks import Task
from reactive_agents.effects import effect

Complexity: TypeAlias = Callable[[Task], float]
"""How hard a task is, 0 to 1."""
Needs: TypeAlias = Callable[[Task], frozenset[str]]
"""The capabilities that a task needs."""

DEFAULT_RESERVED_TOKENS = 4_096


def needed_capabilities(task: Task) -> frozenset[str]:
    """Those that the task lists in its details under ``capabilities``."""
    return frozenset(task.listed("capabilities"))


class TierRouter:
    """Implements ``CostRouter``: the first tier that is able and trusted, and why.

    A tier is able when the first request fits into its window and it has all capabilities that are needed,
    and trusted up to its ``max_complexity``. What the run needs by itself, such as ``tools``, is required
    as soon as one tier names it; tiers without it are not able then. A task that is too hard for every able
    tier gets the last able one. The idea of a cascade from cheap to dear is that of FrugalGPT (Chen,
    Zaharia and Zou, 2023), with rules in the place of a learned judge.

    Args:
        tiers: the tiers, the cheapest first, one or more.
        complexity: how hard a task is; by default :func:`task_complexity`.
        needs: what a task needs; by default :func:`needed_capabilities`.
        reserved_tokens: tokens of a window that the first request does not get, 0 or more: they are for the
            transcript and the answer.

    Raises:
        ValueError: there is no tier, or ``reserved_tokens`` is negative.
    """

    def __init__(
        self,
        tiers: Sequence[ModelTier],
        *,
        complexity: Complexity = task_complexity,
        needs: Needs = needed_capabilities,
        reserved_tokens: int = DEFAULT_RESERVED_TOKENS,
    ) -> None:
        if not tiers:
            raise ValueError("TierRouter: tiers: got none, expected one or more.")
        if reserved_tokens < 0:
            raise ValueError(f"TierRouter: reserved_tokens: got {reserved_tokens}, expected 0 or more.")
        self._tiers = tuple(tiers)
        self._complexity = complexity
        self._needs = needs
        self._reserved_tokens = reserved_tokens

    @effect
    async def select_model(self, task: Task, needs: RouteNeeds) -> Result[ModelRoute, ServiceFailed]:
        """Return the lowest capable tier; fails with ``ServiceFailed`` when none is."""
        implied = frozenset(each for each in needs.capabilities if self._speaks_of(each))
        return choose_tier(
            self._tiers,
            complexity=self._complexity(task),
            tokens=estimated_tokens(needs.request_bytes) + self._reserved_tokens,
            needs=self._needs(task) | implied,
        )

    def _speaks_of(self, capability: str) -> bool:
        return any(capability in tier.capabilities for tier in self._tiers)


def choose_tier(
    tiers: Sequence[ModelTier], *, complexity: float, tokens: int, needs: frozenset[str]
) -> Result[ModelRoute, ServiceFailed]:
    """The decision of the router, from figures alone.

    Args:
        complexity: of the task, 0 to 1.
        tokens: that the window must hold.
        needs: capabilities that the model must have.
    """
    able = [tier for tier in tiers if not _hindrance(tier, tokens, needs)]
    if not able:
        hindrances = "; ".join(f"{tier.model} {_hindrance(tier, tokens, needs)}" for tier in tiers)
        message = f"No model tier is able to do the task: {hindrances}."
        return Failure(ServiceFailed(message, "cost-router", "select-model"))
    figures = f"complexity {complexity:.2f}, about {tokens} tokens" + _listed(needs)
    for tier in able:
        if complexity <= tier.max_complexity:
            reason = f"the cheapest that is able and trusted up to {tier.max_complexity:.2f} ({figures})"
            return Success(ModelRoute(tier.model, reason))
    reason = f"the last tier that is able, since none is trusted with so hard a task ({figures})"
    return Success(ModelRoute(able[-1].model, reason))


def _hindrance(tier: ModelTier, tokens: int, needs: frozenset[str]) -> str:
    if missing := needs - tier.capabilities:
        return f"lacks {', '.join(sorted(missing))}"
    if tier.context_tokens is not None and tokens > tier.context_tokens:
        return f"has a window of {tier.context_tokens} tokens, and {tokens} are needed"
    return ""


def _listed(needs: frozenset[str]) -> str:
    return f", needs {', '.join(sorted(needs))}" if needs else ""
