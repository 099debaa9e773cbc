"""The choice of a strategy by rules: pure, total, and free of charge."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.reasoning import ReasoningStrategy, SelectionContext
from reactive_agents.reasoning.selection.kinds import GENERAL_TYPE, TaskKind, kind_of, score_kinds

SelectionMethod: TypeAlias = Literal["configured", "rules", "model", "history", "controller"]

REACTIVE, REFLEXION = "reactive", "reflexion"
PLAN, TREE = "plan-execute-reflect", "tree-of-thought"
NO_CANDIDATES = frozenset({"adaptive", "direct"})
"""Strategies that are never chosen: the one that chooses, and the one that does not reason."""

HARD = 0.6
"""The complexity from which on a question is planned."""
URGENT = 0.75
"""The urgency from which on there is no time for more than one pass."""

_RANKING: Mapping[TaskKind, Sequence[ReasoningStrategy]] = {
    "question": (REACTIVE, PLAN, REFLEXION, TREE),
    "writing": (REFLEXION, REACTIVE, PLAN, TREE),
    "multi-step": (PLAN, REACTIVE, REFLEXION, TREE),
    "open-ended": (TREE, REFLEXION, REACTIVE, PLAN),
}
_REASONS: Mapping[TaskKind, str] = {
    "question": "a question or a single action",
    "writing": "a text whose quality matters",
    "multi-step": "several steps that build on each other",
    "open-ended": "an open question with many possible answers",
}


@frozen
class Selection:
    """A strategy that was chosen.

    Attributes:
        reason: why, in a clause.
        confidence: 0 to 1.
        method: what it was chosen by.
    """

    strategy: ReasoningStrategy
    reason: str
    confidence: float
    method: SelectionMethod


def candidates(known: Iterable[ReasoningStrategy]) -> tuple[ReasoningStrategy, ...]:
    """The strategies that may be chosen, in their order."""
    return tuple(name for name in known if name not in NO_CANDIDATES)


def choose_by_rules(context: SelectionContext, known: Sequence[ReasoningStrategy]) -> Selection:
    """The strategy for the task; ``known`` holds one or more candidates, and the choice is one of them.

    The user's preference comes first, then the time that is left, then the kind of the task. Where the best
    strategy for a kind is not registered, the next best is chosen.
    """
    preferred = context.preferred_strategy
    if preferred is not None and preferred in known:
        return Selection(preferred, "preferred by the user", 1.0, "rules")
    if context.urgency >= URGENT and REACTIVE in known:
        return Selection(REACTIVE, "there is time for one pass only", 0.8, "rules")
    kind = kind_of(context.task_description, context.task_type)
    reason = _REASONS[kind]
    if kind == "question" and context.complexity >= HARD:
        kind, reason = "multi-step", f"a hard question (complexity {context.complexity:.2f})"
    strategy = ranking(kind, known)[0]
    best = _RANKING[kind][0]
    if strategy != best:
        reason = f"{reason}, and there is no {best}"
    return Selection(strategy, reason, _confidence(context), "rules")


def ranking(kind: TaskKind, known: Iterable[ReasoningStrategy]) -> tuple[ReasoningStrategy, ...]:
    """The known strategies, the best for the kind first; those of one's own come last."""
    order = _RANKING[kind]
    return tuple(sorted(known, key=lambda name: order.index(name) if name in order else len(order)))


def _confidence(context: SelectionContext) -> float:
    """How clearly the signs speak for one kind: 0.5 when two are equal; a type of the user's own is clear."""
    if context.task_type != GENERAL_TYPE:
        return 0.9
    first, second, *_ = sorted(score_kinds(context.task_description).values(), reverse=True)
    return round(first / (first + second), 2)
