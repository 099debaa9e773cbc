"""How many model calls a search takes at most."""

from __future__ import annotations

from reactive_agents.core.config import TreeOfThoughtConfig

REPLIES = 2
"""Replies that one question gets: a second when the first cannot be read."""

VOTES = 3
"""Votes on a level: the least number that can have a majority."""


def most_calls(config: TreeOfThoughtConfig) -> int:
    """The model calls that no search goes beyond, those of the passes that follow it not counted.

    The root and, on each level but the last, at most ``breadth`` thoughts are expanded, one question each:
    ``1 + (depth - 1) * breadth``. Scoring takes one question for the thoughts after one thought, as they
    share all that is to be read: as many questions again. Voting takes ``VOTES`` questions for each level.
    Each question gets ``REPLIES`` replies at most.
    """
    expansions = 1 + (config.depth - 1) * config.breadth
    judgements = expansions if config.evaluation == "score" else VOTES * config.depth
    return REPLIES * (expansions + judgements)
