"""Attempts with their critiques: the best one, stagnation, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le

from reactive_agents.core.results import ReasoningStatus
from reactive_agents.kernel.text_similarity import word_similarity

REPEATED = 0.8
"""Share of their words that two critiques have in common at least when the second says nothing new."""

SHORTFALL_CAP = 0.5
"""The highest score of an attempt with a known shortfall."""


@frozen
class Critique:
    """A critic's judgement of an answer.

    Attributes:
        issues: what is wrong or missing, a sentence each, the worst first; empty when nothing is.
        score: 0 for useless, 0.3 for wrong in its main point, 0.5 for right in part, 0.7 for right and
            complete with harmless flaws, 1 for nothing to improve.
        satisfied: whether the answer can be delivered as it is.
    """

    issues: tuple[str, ...]
    score: float = field(validator=and_(ge(0.0), le(1.0)))
    satisfied: bool


@frozen
class Attempt:
    """An answer of one pass.

    Attributes:
        critique: ``None`` for an attempt that was not judged.
        shortfall: what it lacks by the framework's own account, such as a required call; empty for an answer
            that its pass completed.
        impossible: why the task cannot be done, where that is the answer.
    """

    text: str
    critique: Critique | None = None
    shortfall: str = ""
    impossible: str = ""

    @property
    def accepted(self) -> bool:
        """Whether it can be delivered as it is."""
        return self.critique is not None and self.critique.satisfied

    @property
    def score(self) -> float:
        """0 to 1; 0 without a critique."""
        return 0.0 if self.critique is None else self.critique.score

    @property
    def rank(self) -> tuple[bool, float]:
        """The order of attempts: accepted ones are above all others, then by score."""
        return self.accepted, self.score

    def judged(self, critique: Critique) -> Attempt:
        """Return the attempt with a critique; one with a shortfall is never accepted."""
        if self.shortfall:
            issues = (self.shortfall, *critique.issues)
            critique = Critique(issues, min(critique.score, SHORTFALL_CAP), satisfied=False)
        return evolve(self, critique=critique)


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """Return the attempt of the highest rank; of several the last."""
    return max(reversed(attempts), key=lambda each: each.rank, default=None)


def is_stagnant(attempts: Sequence[Attempt]) -> bool:
    """Return whether the last critique repeats the one before, without a better score.

    An attempt that fell short does not count: the next one goes on where it ended.
    """
    if len(attempts) < 2 or any(each.shortfall for each in attempts[-2:]):
        return False
    before, last = (each.critique for each in attempts[-2:])
    if before is None or last is None:
        return False
    if last.score > before.score:
        return False
    same = last.issues == before.issues
    return same or word_similarity(" ".join(before.issues), " ".join(last.issues)) >= REPEATED


# --- How a reflexion run is reported: its status and the reason for it ---


GOOD_ENOUGH = 0.7
"""The score from which an answer that no critic accepted still counts as completed."""

_ANSWERS = {1: "the only answer", 2: "either of the two answers"}


@frozen
class Verdict:
    """The outcome of the attempts. ``output`` is ``None`` without any answer."""

    output: str | None
    status: ReasoningStatus
    reason: str
    score: float


def verdict_of(attempts: Sequence[Attempt], why: str, *, over_budget: bool = False) -> Verdict:
    """Return the best attempt with its status and reason.

    It is ``completed`` when the critic accepted it, or gave it a score of ``GOOD_ENOUGH`` or more: the critic
    is instructed that such an answer is right and complete, with harmless flaws, which are named in
    the reason. Many critics are never satisfied, so without this a good answer could never be completed. It
    is ``partial`` below that, when it was not judged, when its own pass left something undone, and when
    a budget kept it from being improved. It is ``abstained`` when its pass found the task impossible.

    Args:
        why: what ended the run, in a sentence.
        over_budget: whether that was a budget.
    """
    best = best_of(attempts)
    if best is None:
        return Verdict(None, "partial", f"{why} Missing: an answer.", 0.0)
    if best.impossible:
        return Verdict(best.text, "abstained", f"{best.impossible} {why}", best.score)
    if best.accepted:
        return Verdict(best.text, "completed", why, best.score)
    status: ReasoningStatus = "completed" if best.score >= GOOD_ENOUGH and not over_budget else "partial"
    return Verdict(best.text, status, f"{why} {_shortfall_of(best, attempts, status)}", best.score)


def _shortfall_of(best: Attempt, attempts: Sequence[Attempt], status: ReasoningStatus) -> str:
    if best.critique is None:
        parts = [best.shortfall, "Missing: a critic's judgement of the answer."]
        return " ".join(part for part in parts if part)
    judged = sum(each.critique is not None for each in attempts)
    of = _ANSWERS.get(judged, f"any of the {judged} answers")
    said = f"No critic accepted {of}; the best has a score of {best.score:.2f}."
    issues = "; ".join(issue.strip().rstrip(".") for issue in best.critique.issues if issue.strip())
    lead = "Missing" if status == "partial" else "Still criticised"
    criticised = f"{lead}: {issues or 'a reason, as the critic gave none'}."
    return f"{said} {criticised}"
