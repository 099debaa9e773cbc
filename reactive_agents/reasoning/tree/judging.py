"""What scores and votes make of the thoughts of a level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from attrs import evolve

from reactive_agents.core.reasoning import ThoughtNode
from reactive_agents.reasoning.tree.prompts import ThoughtScores, Vote


def with_scores(candidates: Sequence[ThoughtNode], judged: ThoughtScores) -> tuple[ThoughtNode, ...]:
    """The candidates with their scores; the first one holds, and numbers that are none of theirs do not."""
    scores: dict[int, float] = {}
    for each in judged.scores:
        scores.setdefault(each.candidate, each.score)
    return tuple(evolve(node, score=scores.get(number)) for number, node in enumerate(candidates, 1))


def with_votes(
    candidates: Sequence[ThoughtNode], votes: Sequence[Vote], breadth: int
) -> tuple[ThoughtNode, ...]:
    """The candidates with the share of the votes that name them; without a score when nobody voted.

    Args:
        breadth: how many candidates count of one vote.
    """
    if not votes:
        return tuple(candidates)
    possible = range(1, len(candidates) + 1)
    named: Counter[int] = Counter()
    for vote in votes:
        named.update([number for number in dict.fromkeys(vote.best) if number in possible][:breadth])
    return tuple(evolve(node, score=named[number] / len(votes)) for number, node in enumerate(candidates, 1))
