"""Model routing: a task gets the lowest tier that can do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from returns.result import Failure, Result, Success

from reactive_agents.core.config import ModelTier
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import ModelRoute, RouteNeeds
from reactive_agents.core.tasks import Task, estimated_tokens, task_complexity
from reactive_agents.effects import effect

Complexity: TypeAlias = Callable[[Task], float]
"""Return the complexity of a task, 0 to 1."""
Needs: TypeAlias = Callable[[Task], frozenset[str]]
"""Return the required capabilities of a task."""

_RESERVED_TOKENS = 4_096
"""Tokens of a window for the transcript and the answer."""


def needed_capabilities(task: Task) -> frozenset[str]:
    """Return the capabilities in the details of a task, under ``capabilities``."""
    return frozenset(task.listed("capabilities"))


class TierRouter:
    """Implements ``CostRouter``: selects the first tier that is able and trusted.

    A tier is able if the first request fits into its window and it has all required capabilities, and trusted
    up to its ``max_complexity``. Requirements of the run, such as ``tools``, apply if at least one tier lists
    that capability. If no able tier is trusted with the task, the last able one is selected. The cascade from
    cheap to expensive models follows FrugalGPT (Chen, Zaharia and Zou, 2023), with rules instead of a learned
    judge.

    Args:
        tiers: the tiers, cheapest first, one or more.
        complexity: the complexity of a task; by default :func:`task_complexity`.
        needs: the required capabilities of a task; by default :func:`needed_capabilities`.

    Raises:
        ValueError: there is no tier.
    """

    def __init__(
        self,
        tiers: Sequence[ModelTier],
        *,
        complexity: Complexity = task_complexity,
        needs: Needs = needed_capabilities,
    ) -> None:
        if not tiers:
            raise ValueError("TierRouter: tiers: got none, expected one or more.")
        self._tiers = tuple(tiers)
        self._complexity = complexity
        self._needs = needs

    @effect
    async def select_model(self, task: Task, needs: RouteNeeds) -> Result[ModelRoute, ServiceFailed]:
        """Return the lowest capable tier; fails with ``ServiceFailed`` if there is none."""
        listed = frozenset[str]().union(*(tier.capabilities for tier in self._tiers))
        return choose_tier(
            self._tiers,
            complexity=self._complexity(task),
            tokens=estimated_tokens(needs.request_bytes) + _RESERVED_TOKENS,
            needs=self._needs(task) | (needs.capabilities & listed),
        )


def choose_tier(
    tiers: Sequence[ModelTier], *, complexity: float, tokens: int, needs: frozenset[str]
) -> Result[ModelRoute, ServiceFailed]:
    """Return the decision of the router, from figures only.

    Args:
        complexity: the complexity of the task, 0 to 1.
        tokens: the tokens that the window must hold.
        needs: the required capabilities.
    """
    able = [tier for tier in tiers if not _hindrance(tier, tokens, needs)]
    if not able:
        hindrances = "; ".join(f"{tier.model} {_hindrance(tier, tokens, needs)}" for tier in tiers)
        message = f"No model tier is able to do the task: {hindrances}."
        return Failure(ServiceFailed(message, "cost-router", "select-model"))
    figures = f"complexity {complexity:.2f}, about {tokens} tokens"
    figures += f", needs {', '.join(sorted(needs))}" if needs else ""
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
