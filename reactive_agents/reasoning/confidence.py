"""Confidence in a result, calculated from the course of its run.

It begins with the judgement of a critic or of a reflection, or else with a figure for the status. Each
rejected answer, each turn that was cut off and each failed call lowers it by a factor, and so does the share
of the answer's figures that nothing seen supports. Nothing raises it.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen

from reactive_agents.core.results import ReasoningResult, ReasoningStatus
from reactive_agents.core.values import Value
from reactive_agents.kernel.evidence import Seen, unsupported_figures

BY_STATUS: Mapping[ReasoningStatus, float] = {
    "completed": 0.8,
    "abstained": 0.6,
    "partial": 0.4,
    "failed": 0.0,
}
"""Confidence when nothing went wrong and nothing was judged, by status."""
AFTER_REJECTION = 0.9
AFTER_FAILED_CALL = 0.95
UNSUPPORTED = 0.5
"""The factor for an answer none of whose figures is supported."""
_REMINDERS = frozenset({"progress", "synthesis", "diminishing_returns", "last_turn"})
"""Policies whose guidance says nothing against the model's last turn."""


@frozen(eq=False, repr=False)
class RunCourse(Value):
    """The facts about a run that its confidence depends on, each 0 or more.

    Attributes:
        rejections: how often a policy gave guidance because of the model's last turn.
        failed_calls: number of calls that were run and failed.
        unsupported: 0 to 1, the share of the answer's figures that nothing seen supports.
    """

    rejections: int = 0
    failed_calls: int = 0
    unsupported: float = 0.0


def confidence_in(status: ReasoningStatus, course: RunCourse, judged: float | None = None) -> float:
    """Return the confidence in a result, 0 to 1.

    >>> round(confidence_in("completed", RunCourse(rejections=1, failed_calls=2)), 3)
    0.65

    Args:
        judged: the judgement of a critic or of a reflection, 0 to 1; ``None`` without one.
    """
    begin = BY_STATUS[status] if judged is None else min(1.0, max(0.0, judged))
    kept = AFTER_REJECTION**course.rejections * AFTER_FAILED_CALL**course.failed_calls
    return begin * kept * (1 - (1 - UNSUPPORTED) * course.unsupported)


def ended_partial(result: ReasoningResult, terminated_by: str, reason: str) -> ReasoningResult:
    """Return a result that something else ended as ``partial``, with less confidence."""
    confidence = min(result.metadata.confidence, BY_STATUS["partial"])
    metadata = evolve(result.metadata, terminated_by=terminated_by, reason=reason, confidence=confidence)
    return evolve(result, status="partial", metadata=metadata)


def rejections_in(told: Mapping[str, int]) -> int:
    """Return how often guidance was given because of a turn of the model."""
    return sum([times for policy, times in told.items() if policy not in _REMINDERS]) if told else 0


def unsupported_share(answer: str, seen: Seen) -> float:
    """Return the share of unsupported figures, 0 to 1; 0 without tool results."""
    if not seen.results:
        return 0.0
    unknown = len(unsupported_figures(answer, seen))
    if not unknown:
        return 0.0
    figures = len(unsupported_figures(answer, Seen("")))
    return min(1.0, unknown / figures) if figures else 0.0
