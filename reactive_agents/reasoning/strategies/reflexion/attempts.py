"""Attempts with their critiques: the best one, stagnation, and the verdict."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le
from returns.result import Result

from reactive_agents.core.codec import decode
from reactive_agents.core.errors import DecodeError
from reactive_agents.core.json import Json
from reactive_agents.core.results import ReasoningStatus
from reactive_agents.core.texts import word_similarity
from reactive_agents.kernel.answer_check import Seen, figures_of, is_supported, unsupported_figures

REPEATED = 0.8
"""Share of their words that two texts have in common at least when the second says nothing new."""

GOOD_ENOUGH = 0.7
"""The score from which an answer that no critic accepted still counts as completed."""

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


def read_critique(data: Json) -> Result[Critique, DecodeError]:
    """Return the critique that JSON data describes.

    Other shapes that models give are read as well: a score as ``8/10``, ``80%`` or 80, issues as objects or
    as none, and a critique without the fields that follow from the others. Fails with ``DecodeError``.
    """
    if isinstance(data, dict):
        issues = _issues_in(data.get("issues"))
        score = _score_in(data.get("score"), data.get("satisfied"))
        satisfied = data.get("satisfied", isinstance(score, float) and score >= GOOD_ENOUGH and not issues)
        satisfied = _YES_OR_NO.get(str(satisfied).strip().lower(), satisfied)
        data = {"issues": issues, "score": score, "satisfied": satisfied}
    return decode(data, Critique)


_YES_OR_NO: Mapping[str, bool] = {"yes": True, "true": True, "no": False, "false": False}
_SCORE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(?:%|/\s*(\d+)|out of\s+(\d+))?\s*")


def _issues_in(issues: Json) -> Json:
    if isinstance(issues, dict):
        issues = list(issues.values())
    if isinstance(issues, str) or issues is None:
        issues = [issues] if issues else []
    if not isinstance(issues, list):
        return issues
    texts: list[Json] = [
        " ".join(str(part) for part in each.values() if part) if isinstance(each, dict) else each
        for each in issues
    ]
    return texts


def _score_in(score: Json, satisfied: Json) -> Json:
    """Return a score from 0 to 1; without one it follows from the verdict."""
    if score is None and isinstance(satisfied, bool):
        return GOOD_ENOUGH if satisfied else SHORTFALL_CAP
    written = _SCORE.fullmatch(str(score)) if isinstance(score, str | int | float) else None
    if written is None or isinstance(score, bool):
        return score
    value = float(written[1])
    scale = 100 if "%" in str(score) or value > 10 else 10 if value > 1 else 1
    most = float(written[2] or written[3] or scale)
    return value / most if most else score


@frozen
class Attempt:
    """An answer of one pass.

    Attributes:
        critique: ``None`` for an attempt that was not judged.
        shortfall: what it lacks by the framework's own account, such as a required call; empty for an answer
            that its pass completed.
        impossible: why the task cannot be done, where that is the answer.
        evidence: 2 where what was seen supports the text, 0 where nothing supports one of its figures, and 1
            where neither can be said.
        unsupported: the figures that nothing supports.
    """

    text: str
    critique: Critique | None = None
    shortfall: str = ""
    impossible: str = ""
    evidence: int = 1
    unsupported: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether it can be delivered as it is."""
        return self.critique is not None and self.critique.satisfied

    @property
    def score(self) -> float:
        """0 to 1; 0 without a critique."""
        return 0.0 if self.critique is None else self.critique.score

    @property
    def rank(self) -> tuple[bool, bool, int, float]:
        """The order of attempts.

        Accepted ones are above all others, then complete ones, then by evidence, then by score.
        """
        return self.accepted, not self.shortfall, self.evidence, self.score

    def judged(self, critique: Critique) -> Attempt:
        """Return the attempt with a critique; facts go before the critic.

        One with a shortfall or an unsupported figure is never accepted; one with a good score is, where the
        critic names no issue.
        """
        if self.shortfall:
            issues = (self.shortfall, *critique.issues)
            critique = Critique(issues, min(critique.score, SHORTFALL_CAP), satisfied=False)
        elif self.unsupported:
            issues = (f"Nothing supports: {', '.join(self.unsupported)}.", *critique.issues)
            critique = Critique(issues, critique.score, satisfied=False)
        elif critique.score >= GOOD_ENOUGH and not any(issue.strip() for issue in critique.issues):
            critique = evolve(critique, satisfied=True)
        return evolve(self, critique=critique)

    def confirms(self, earlier: Attempt) -> bool:
        """Return whether it stands with an earlier attempt against the criticism of that.

        Both say the same, what was seen supports it, and the criticism names no figure that they lack.
        """
        if self.shortfall or earlier.shortfall or min(self.evidence, earlier.evidence) < 2:
            return False
        issues = () if earlier.critique is None else earlier.critique.issues
        figures = figures_of(self.text)
        if figures != figures_of(earlier.text) or not figures_of(" ".join(issues)) <= figures:
            return False
        return bool(figures) or word_similarity(self.text, earlier.text) >= REPEATED


def attempt_at(text: str, seen: Seen, *, shortfall: str = "", impossible: str = "") -> Attempt:
    """Return an attempt with the evidence for it.

    Args:
        seen: what the run was shown. Without results nothing is said against a figure.
    """
    unsupported = unsupported_figures(text, seen) if seen.results and not impossible else ()
    evidence = 0 if unsupported else 1 + is_supported(text, seen)
    return Attempt(text, None, shortfall, impossible, evidence, unsupported)


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


_ANSWERS = {1: "the only answer", 2: "either of the two answers"}


@frozen
class Verdict:
    """The outcome of the attempts.

    ``output`` is ``None`` without any answer, and ``score`` without a judgement.
    """

    output: str | None
    status: ReasoningStatus
    reason: str
    score: float | None


def verdict_of(
    attempts: Sequence[Attempt],
    why: str,
    *,
    over_budget: bool = False,
    confirmed: bool = False,
    unread: bool = False,
) -> Verdict:
    """Return the best attempt with its status and reason.

    It is ``completed`` when the critic accepted it, or gave it a score of ``GOOD_ENOUGH`` or more: the critic
    is instructed that such an answer is right and complete, with harmless flaws, which are named in
    the reason. Many critics are never satisfied, so without this a good answer could never be completed. So
    is one that was confirmed, and a complete one whose critic could not be read, unless nothing supports a
    figure of it. It is ``partial`` below that, when a limit kept it from being judged, when its own pass left
    something undone, and when a budget kept it from being improved. It is ``abstained`` when its pass found
    the task impossible.

    Args:
        why: what ended the run, in a sentence.
        over_budget: whether that was a budget.
        confirmed: whether that was an attempt which confirmed an earlier one.
        unread: whether that was a critic that failed.
    """
    best = best_of(attempts)
    if best is None:
        return Verdict(None, "partial", f"{why} Missing: an answer.", 0.0)
    if best.impossible:
        return Verdict(best.text, "abstained", f"{best.impossible} {why}", best.score)
    if best.accepted:
        return Verdict(best.text, "completed", why, best.score)
    if best.critique is None and unread and not best.shortfall and best.evidence:
        return Verdict(best.text, "completed", f"{why} The answer was not judged.", None)
    good = confirmed or best.score >= GOOD_ENOUGH
    status: ReasoningStatus = "completed" if good and not over_budget else "partial"
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
