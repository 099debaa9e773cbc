"""Tree of thought: search for an approach, then follow it.

Yao et al., 2023, arXiv:2305.10601.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import results
from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import KernelState
from reactive_agents.reasoning.passes import Pass, begin_progress, limit_reached, note_step, run_pass
from reactive_agents.reasoning.progress import Progress, evidence_of_run
from reactive_agents.reasoning.strategies.tree_of_thought.questions import (
    WORK_INSTRUCTIONS,
    paths_of,
    thoughts_on,
    work_task,
)
from reactive_agents.reasoning.strategies.tree_of_thought.search import SearchedTree, search_tree
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyServices,
    begin_measure,
    reasoning_result,
)

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
