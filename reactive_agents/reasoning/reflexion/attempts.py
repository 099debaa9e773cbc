"""Attempts at an answer with their criticism: which is the best, and when criticism goes in circles."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le

from reactive_agents.kernel.words import word_similarity

REPEATED = 0.8
"""Share of their words that two critiques have in common at least when the second says nothing new."""

SHORTFALL_CAP = 0.5
"""What an attempt that lacks something known counts for at most, whatever the critic gives it."""


@frozen
class Critique:
    """What a critic finds of an answer.

    Attributes:
        issues: what is wrong or missing, a sentence each, the gravest first; empty when nothing is.
        score: 0 for useless, 0.3 for wrong in its main point, 0.5 for right in part, 0.7 for right and
            complete with flaws that mislead nobody, 1 for nothing to improve.
        satisfied: whether the answer can be delivered as it is.
    """

    issues: tuple[str, ...]
    score: float = field(validator=and_(ge(0.0), le(1.0)))
    satisfied: bool


@frozen
class Attempt:
    """An answer that was given.

    Attributes:
        critique: what the critic said; ``None`` when nobody has judged it.
        shortfall: what it lacks by the framework's own account, such as a required call; empty for an answer
            that its pass completed.
    """

    text: str
    critique: Critique | None = None
    shortfall: str = ""

    @property
    def accepted(self) -> bool:
        """Whether it can be delivered as it is."""
        return self.critique is not None and self.critique.satisfied

    @property
    def score(self) -> float:
        """0 to 1; 0 for what nobody has judged."""
        return 0.0 if self.critique is None else self.critique.score

    @property
    def rank(self) -> tuple[bool, float]:
        """What attempts are compared by: acceptance is the critic's last word, the score only a figure."""
        return self.accepted, self.score

    def judged(self, critique: Critique) -> Attempt:
        """With what a critic says of it; no critic accepts what falls short."""
        if self.shortfall:
            issues = (self.shortfall, *critique.issues)
            critique = Critique(issues, min(critique.score, SHORTFALL_CAP), satisfied=False)
        return evolve(self, critique=critique)


def best_of(attempts: Sequence[Attempt]) -> Attempt | None:
    """The attempt of the highest rank; of several the last, as it has seen the most criticism."""
    return max(reversed(attempts), key=lambda each: each.rank, default=None)


def is_stagnant(attempts: Sequence[Attempt]) -> bool:
    """Whether the last critique says what the one before it said, and gives no better score.

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
