"""Tree of thought: search for an approach, then follow it.

Yao et al., 2023, arXiv:2305.10601.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import results
from reactive_agents.core.config import TreeOfThoughtConfig
from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError, StructuredOutputError
from reactive_agents.core.events import ThoughtsJudged
from reactive_agents.core.results import ThoughtNode
from reactive_agents.effects import attempt, effect, gather
from reactive_agents.kernel import KernelState
from reactive_agents.reasoning.passes import (
    Pass,
    Progress,
    begin_progress,
    evidence_of_run,
    limit_reached,
    note_step,
    run_pass,
)
from reactive_agents.reasoning.strategies.tree_of_thought.questions import (
    VOTES,
    WORK_INSTRUCTIONS,
    Questions,
    children_of,
    path_to,
    paths_of,
    pruned,
    survivors,
    thoughts_on,
    with_scores,
    with_votes,
    work_task,
)
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyServices,
    begin_measure,
    reasoning_result,
)
from reactive_agents.reasoning.structured_output import ask_structured

NAME = "tree-of-thought"

_FINAL: Mapping[results.ReasoningStatus | None, results.ReasoningStatus] = {
    "completed": "completed",
    "abstained": "abstained",
}
"""Outcomes of a pass after which no other path is tried."""

SEARCH_SHARE = 0.5
"""Part of the time and of the budget that the search may take, so that something is left for the work."""


@frozen
class _Worked:
    """One pass along a path; ``number`` from 1, ``path`` empty without a path."""

    number: int
    path: tuple[results.ThoughtNode, ...]
    state: KernelState


@effect
async def tree_of_thought(
    strategy_input: StrategyInput, services: StrategyServices
) -> Result[results.ReasoningResult, ReasoningErrors]:
    """Search a tree of thoughts for an approach, then follow the best path.

    A pass that neither completes the task nor finds it impossible is followed by one along the next best
    path, while there are time and budget; there are ``breadth`` paths at most. When none does, the best path
    that gave a text is the partial result. A search that gave no path leaves the work to be done without one.
    The result has the tree, and its reason names the path. Fails with ``StrategyExecutionError`` when the
    model failed in every pass.

    Asks the model at most :func:`most_calls` times for the tree, and then ``kernel_max_iterations`` times in
    each pass.
    """
    measure, progress = begin_measure(services), begin_progress(strategy_input, services)
    searched = await search_tree(_share_of(strategy_input, services), services)
    breadth = strategy_input.config.strategies.tree_of_thought.breadth
    paths = paths_of(searched.nodes)[:breadth] or ((),)
    passes: list[_Worked] = []
    for number, path in enumerate(paths, 1):
        progress = _note_path(progress, path, services)
        each = _pass_along(path, number, evidence_of_run(progress, strategy_input, services), strategy_input)
        ran = await attempt(run_pass(each, progress, NAME, strategy_input, services))
        if isinstance(ran, Failure):
            if not passes:
                return ran
            break
        worked = _Worked(number, path, ran.unwrap())
        progress = progress.after(worked.state)
        passes.append(worked)
        if worked.state.outcome in _FINAL or limit_reached(strategy_input, services) is not None:
            break
    best = _best_of(passes)
    if best.state.status == "failed":
        state = best.state
        return Failure(StrategyExecutionError(NAME, state.reason, progress.iterations, state.error))
    status: results.ReasoningStatus = _FINAL.get(best.state.outcome, "partial")
    return Success(
        reasoning_result(
            NAME,
            measure,
            services,
            steps=progress.steps,
            output=best.state.output,
            status=status,
            iterations=progress.iterations,
            terminated_by=best.state.terminated_by,
            reason=_reason(best, len(paths), searched),
            results=progress.tool_results,
            rejections=progress.rejections,
            task=strategy_input.task_description,
            tree=results.ThoughtTree(searched.nodes, tuple(node.id for node in best.path)),
        )
    )


def _pass_along(
    path: tuple[results.ThoughtNode, ...], number: int, found: str, strategy_input: StrategyInput
) -> Pass:
    return Pass(
        f"{NAME}:path-{number}",
        f"p{number}.",
        work_task(strategy_input.task_description, path, found),
        strategy_input.config.strategies.tree_of_thought.kernel_max_iterations,
        instructions=WORK_INSTRUCTIONS if path else "",
    )


def _note_path(
    progress: Progress, path: tuple[results.ThoughtNode, ...], services: StrategyServices
) -> Progress:
    if not path:
        return progress
    known = results.StepMetadata(confidence=path[-1].score)
    label = f"{NAME}:search"
    return note_step(
        progress, "plan", thoughts_on(path), services, strategy=NAME, label=label, metadata=known
    )


def _best_of(passes: list[_Worked]) -> _Worked:
    """Return the completed pass, else the first with a text or without an error."""
    completed = [each for each in passes if each.state.outcome in _FINAL]
    with_text = [each for each in passes if (each.state.output or "").strip()]
    ended = [each for each in passes if each.state.status != "failed"]
    return (completed or with_text or ended or passes)[0]


def _reason(best: _Worked, paths: int, searched: SearchedTree) -> str:
    along = f"along path {best.number} of {paths}" if best.path else "without an approach"
    return f"{best.state.reason} It was worked out {along}. {searched.note}".strip()


def _share_of(strategy_input: StrategyInput, services: StrategyServices) -> StrategyInput:
    """Return the input with the deadline and the budget of the search."""
    now, spent = services.kernel.clock.monotonic(), services.meter.usage
    deadline, budget = strategy_input.deadline, strategy_input.settings.budget
    tokens, cost = budget.tokens, budget.cost_usd
    used = spent.usage.total_tokens
    share = evolve(
        budget,
        tokens=None if tokens is None else max(1, used + int((tokens - used) * SEARCH_SHARE)),
        cost_usd=None
        if cost is None
        else max(1e-12, spent.cost_usd + (cost - spent.cost_usd) * SEARCH_SHARE),
    )
    until = None if deadline is None else now + (deadline - now) * SEARCH_SHARE
    return evolve(strategy_input, deadline=until, settings=evolve(strategy_input.settings, budget=share))


# --- The breadth-first search of a tree of thoughts (Yao et al., 2023) ---


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
        events = services.kernel.events.value_or(None)
        if events is not None:
            events.publish(ThoughtsJudged, level)
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
