"""The questions of a search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import frozen

from reactive_agents.core.reasoning import ThoughtNode
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.reasoning.structured import Question, shape_of
from reactive_agents.reasoning.tree.calls import REPLIES
from reactive_agents.reasoning.tree.paths import path_to
from reactive_agents.reasoning.tree.prompts import (
    SCORE_INSTRUCTIONS,
    Thoughts,
    ThoughtScore,
    ThoughtScores,
    Vote,
    expand_instructions,
    numbered,
    situation,
    vote_instructions,
)

VARIED = 0.7
"""Temperature of expansions and votes, which are to differ; scores are asked for at 0."""

_THOUGHTS = Thoughts(("Look the date up in the log.", "Ask the archive."))
_SCORES = ThoughtScores((ThoughtScore(1, "The log has no dates.", 0.2),))
_VOTE = Vote("Only the archive has dates.", (2,))


@frozen
class Questions:
    """Makes the questions about one task. ``breadth``: how many thoughts are asked for."""

    task: str
    tools: tuple[ToolDefinition, ...]
    breadth: int

    def expansion(self, node: ThoughtNode | None, known: Mapping[str, ThoughtNode]) -> Question[Thoughts]:
        """What could come after a thought, or first."""
        path = () if node is None else path_to(node, known)
        return Question(
            shape_of(Thoughts, example=_THOUGHTS),
            expand_instructions(self.breadth),
            situation(self.task, self.tools, path),
            "expand",
            temperature=VARIED,
            max_retries=REPLIES - 1,
        )

    def scoring(
        self, family: Sequence[ThoughtNode], known: Mapping[str, ThoughtNode]
    ) -> Question[ThoughtScores]:
        """How promising the thoughts after one thought are."""
        parent = family[0].parent
        path = () if parent is None else path_to(known[parent], known)
        candidates = numbered([node.thought for node in family])
        return Question(
            shape_of(ThoughtScores, example=_SCORES),
            SCORE_INSTRUCTIONS,
            f"{situation(self.task, self.tools, path)}\n\n{candidates}",
            "score",
            max_retries=REPLIES - 1,
        )

    def vote(self, level: Sequence[ThoughtNode], known: Mapping[str, ThoughtNode]) -> Question[Vote]:
        """Which thoughts of a level are the most promising, each with the steps that lead to it."""
        paths = [" → ".join(step.thought for step in path_to(node, known)) for node in level]
        return Question(
            shape_of(Vote, example=_VOTE),
            vote_instructions(self.breadth),
            f"{situation(self.task, self.tools)}\n\n{numbered(paths)}",
            "vote",
            temperature=VARIED,
            max_retries=REPLIES - 1,
        )
