"""The breadth-first search of a tree of thoughts (Yao et al., 2023)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.config import TreeOfThoughtConfig
from reactive_agents.core.errors import StructuredOutputError
from reactive_agents.core.results import ThoughtNode
from reactive_agents.effects import attempt, effect, gather
from reactive_agents.reasoning.passes import limit_reached
from reactive_agents.reasoning.strategies.tree_of_thought.questions import (
    VOTES,
    Questions,
    children_of,
    path_to,
    pruned,
    survivors,
    with_scores,
    with_votes,
)
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output import ask_structured

NOTHING_LEFT = "Nothing was left to think out."

Family: TypeAlias = tuple[ThoughtNode, ...]
"""The thoughts after one thought."""


@frozen
class SearchedTree:
    """The tree of a search. ``note``: why it ended early; empty when it did not."""

    nodes: tuple[ThoughtNode, ...] = ()
    note: str = ""


async def search_tree(strategy_input: StrategyInput, services: StrategyServices) -> SearchedTree:
    """Grow the tree level by level: expand, judge, prune, continue from the survivors.

    The best thought of a level is expanded first: where nothing is left to think out after it, the search
    ends. The other questions of a level run concurrently. It ends also after ``depth`` levels, when no
    thought of a level survives, when the time or budget of ``strategy_input`` is used up, and when nothing
    can be expanded. Where only some questions fail, it goes on with what the others gave. It never asks the
    model more often than :func:`most_calls` says.
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
        if families == ():
            return SearchedTree(_with_finished(nodes, frontier[0]), NOTHING_LEFT)
        if families is None:
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
            return SearchedTree(nodes, _no_survivor(level, config))
        if frontier[0].finished:
            return SearchedTree(nodes, NOTHING_LEFT)
        frontier = tuple(node for node in frontier if not node.finished)
    return SearchedTree(nodes)


def _with_finished(nodes: Family, last: ThoughtNode | None) -> Family:
    return tuple(evolve(node, finished=True) if node is last else node for node in nodes)


def _questions(strategy_input: StrategyInput, services: StrategyServices) -> Questions:
    definitions = services.kernel.tools.map(lambda service: service.definitions()).value_or(())
    breadth = strategy_input.config.strategies.tree_of_thought.breadth
    return Questions(strategy_input.task_description, tuple(definitions), breadth)


def _no_survivor(level: Sequence[ThoughtNode], config: TreeOfThoughtConfig) -> str:
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
    ) -> tuple[tuple[Family, ...] | None, str]:
        """Return the new thoughts by their parent.

        Empty when there are none after the first thought; ``None``, with the problem, when none were given.
        """
        best, *others = frontier
        first = await attempt(self._after(best, known))
        if first == Success(()):
            return (), ""
        families, problem = [], "the model gave none that says anything."
        for answer in (first, *await gather([self._after(node, known) for node in others])):
            match answer:
                case Success(family):
                    families.append(family)
                case Failure(error):
                    problem = error.message
        return tuple(family for family in families if family) or None, problem

    @effect
    async def _after(
        self, node: ThoughtNode | None, known: Mapping[str, ThoughtNode]
    ) -> Result[Family, StructuredOutputError]:
        """Return the new thoughts after a thought."""
        asked = ask_structured(self.questions.expansion(node, known), self.strategy_input, self.services)
        path = () if node is None else path_to(node, known)
        answered = await attempt(asked)
        return answered.map(
            lambda given: children_of(node, given.value.thoughts, self.questions.breadth, path)
        )

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
