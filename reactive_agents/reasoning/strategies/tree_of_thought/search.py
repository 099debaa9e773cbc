"""The breadth-first search of a tree of thoughts (Yao et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import frozen
from returns.result import Failure, Success

from reactive_agents.core.config import TreeOfThoughtConfig
from reactive_agents.core.results import ThoughtNode
from reactive_agents.effects import gather
from reactive_agents.reasoning.passes import limit_reached
from reactive_agents.reasoning.strategies.tree_of_thought.questions import (
    VOTES,
    Questions,
    with_scores,
    with_votes,
)
from reactive_agents.reasoning.strategies.tree_of_thought.tree import children_of, pruned, survivors
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output import ask_structured

Family: TypeAlias = tuple[ThoughtNode, ...]
"""The thoughts after one thought."""


@frozen
class SearchedTree:
    """The tree of a search. ``note``: why it ended early; empty when it did not."""

    nodes: tuple[ThoughtNode, ...] = ()
    note: str = ""


async def search_tree(strategy_input: StrategyInput, services: StrategyServices) -> SearchedTree:
    """Grow the tree level by level: expand, judge, prune, continue from the survivors.

    The questions of a level run concurrently. It ends after ``depth`` levels, when no thought of a level
    survives, when the time or budget of ``strategy_input`` is used up, and when nothing can be expanded.
    Where only some questions fail, it goes on with what the others gave. It never asks the model more often
    than :func:`most_calls` says.
    """
    config = strategy_input.config.strategies.tree_of_thought
    search = _Search(_questions(strategy_input, services), strategy_input, services)
    nodes: tuple[ThoughtNode, ...] = ()
    frontier: tuple[ThoughtNode | None, ...] = (None,)
    for depth in range(1, config.depth + 1):
        limit = limit_reached(strategy_input, services)
        if limit is not None:
            note = f"The search ended before level {depth}, as its share of the {limit.name} was used up."
            return SearchedTree(nodes, note)
        known = {node.id: node for node in nodes}
        families, problem = await search.expand(frontier, known)
        if not families:
            return SearchedTree(nodes, f"No thoughts could be had for level {depth}: {problem}")
        level = tuple(node for family in families for node in family)
        known |= {node.id: node for node in level}
        judged = await (
            search.score(families, known) if config.evaluation == "score" else search.vote(level, known)
        )
        level = pruned(judged, config)
        nodes += level
        frontier = survivors(level)
        if not frontier:
            return SearchedTree(nodes, _nothing_left(level, config))
    return SearchedTree(nodes)


def _questions(strategy_input: StrategyInput, services: StrategyServices) -> Questions:
    definitions = services.kernel.tools.map(lambda service: service.definitions()).value_or(())
    breadth = strategy_input.config.strategies.tree_of_thought.breadth
    return Questions(strategy_input.task_description, tuple(definitions), breadth)


def _nothing_left(level: Sequence[ThoughtNode], config: TreeOfThoughtConfig) -> str:
    depth = level[0].depth
    if all(node.score is None for node in level):
        return f"The thoughts of level {depth} could not be judged."
    return f"No thought of level {depth} reached the threshold of {config.pruning_threshold:.2f}."


@frozen
class _Search:
    """The questions of a level, asked concurrently."""

    questions: Questions
    strategy_input: StrategyInput
    services: StrategyServices

    async def expand(
        self, frontier: Sequence[ThoughtNode | None], known: Mapping[str, ThoughtNode]
    ) -> tuple[tuple[Family, ...], str]:
        """Return the new thoughts by their parent, and the problem where there are none."""
        asked = [self.questions.expansion(node, known) for node in frontier]
        answers = await gather([ask_structured(each, self.strategy_input, self.services) for each in asked])
        families, problem = [], "the model gave none that says anything."
        for node, answer in zip(frontier, answers, strict=True):
            match answer:
                case Success(structured):
                    families.append(children_of(node, structured.value.thoughts, self.questions.breadth))
                case Failure(error):
                    problem = error.message
        return tuple(family for family in families if family), problem

    async def score(self, families: Sequence[Family], known: Mapping[str, ThoughtNode]) -> Family:
        """Return the thoughts of a level with their scores.

        Unscored where a question failed.
        """
        asked = [self.questions.scoring(family, known) for family in families]
        answers = await gather([ask_structured(each, self.strategy_input, self.services) for each in asked])
        judged: Family = ()
        for family, answer in zip(families, answers, strict=True):
            judged += with_scores(family, answer.unwrap().value) if isinstance(answer, Success) else family
        return judged

    async def vote(self, level: Family, known: Mapping[str, ThoughtNode]) -> Family:
        """Return the thoughts of a level with their shares of the votes."""
        asked = [self.questions.vote(level, known) for _ in range(VOTES)]
        answers = await gather([ask_structured(each, self.strategy_input, self.services) for each in asked])
        votes = [answer.unwrap().value for answer in answers if isinstance(answer, Success)]
        return with_votes(level, votes, self.questions.breadth)
