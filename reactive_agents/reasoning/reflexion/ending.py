"""How a reflexion run is reported: its status and the reason for it."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from reactive_agents.core.reasoning import ReasoningStatus
from reactive_agents.reasoning.reflexion.attempts import Attempt, best_of

GOOD_ENOUGH = 0.7
"""The score from which an answer that no critic accepted still counts as completed."""

_ANSWERS = {1: "the only answer", 2: "either of the two answers"}


@frozen
class Verdict:
    """What attempts come to. ``output`` is ``None`` when there was no answer at all."""

    output: str | None
    status: ReasoningStatus
    reason: str
    score: float


def verdict_on(attempts: Sequence[Attempt], why: str, *, over_budget: bool = False) -> Verdict:
    """The best attempt, with an honest status.

    It is ``completed`` when the critic accepted it, or gave it a score of ``GOOD_ENOUGH`` or more: the critic
    is told that such an answer is right and complete, and has flaws that mislead nobody, which are named in
    the reason. Many critics are never satisfied, so without this a good answer could never be completed. It
    is ``partial`` below that, when nobody has judged it, when its own pass left something undone, and when
    a budget kept it from being improved.

    Args:
        why: what ended the run, in a sentence.
        over_budget: whether that was a budget.
    """
    best = best_of(attempts)
    if best is None:
        return Verdict(None, "partial", f"{why} Missing: an answer.", 0.0)
    if best.accepted:
        return Verdict(best.text, "completed", why, best.score)
    status: ReasoningStatus = "completed" if best.score >= GOOD_ENOUGH and not over_budget else "partial"
    return Verdict(best.text, status, f"{why} {_what_is_left(best, attempts, status)}", best.score)


def _what_is_left(best: Attempt, attempts: Sequence[Attempt], status: ReasoningStatus) -> str:
    if best.critique is None:
        parts = [best.shortfall, "Missing: a critic's judgement of the answer."]
        return " ".join(part for part in parts if part)
    judged = sum(each.critique is not None for each in attempts)
    of = _ANSWERS.get(judged, f"any of the {judged} answers")
    said = f"No critic accepted {of}; the best has a score of {best.score:.2f}."
    issues = "; ".join(issue.strip().rstrip(".") for issue in best.critique.issues if issue.strip())
    lead = "Missing" if status == "partial" else "Still criticised"
    told = f"{lead}: {issues or 'a reason, as the critic gave none'}."
    return f"{said} {told}"
