"""The progress of a strategy of several kernel runs: pure, one sum of all."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen

from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.core.results import ReasoningStep
from reactive_agents.kernel import KernelState
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.context_window.tool_results import result_budget, tool_results
from reactive_agents.kernel.ledger import NO_CALLS, CallCounts
from reactive_agents.kernel.open_requirements import OpenRequirements
from reactive_agents.kernel.toolset import FINAL_ANSWER, RECALL
from reactive_agents.reasoning.confidence import rejections_in
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices, profile_of


@frozen
class Progress:
    """The sum of all passes of a strategy.

    Attributes:
        id: begins the ids of the strategy's own steps.
        steps: of all passes and of the strategy itself, in order.
        tool_results: the full text of each result, by the key that its observation names.
        iterations: turns that the model has taken in all passes.
        calls: the tool calls of all passes, and of earlier tries of the run.
        rejections: how often guidance was given because of a turn of the model.
    """

    id: str
    steps: tuple[ReasoningStep, ...] = ()
    tool_results: Mapping[str, str] = field(factory=dict)
    iterations: int = 0
    calls: CallCounts = NO_CALLS
    rejections: int = 0

    def after(self, state: KernelState) -> Progress:
        """Return the progress after a kernel run, however it ended."""
        return evolve(
            self,
            calls=self.calls.then(state.ledger.calls),
            steps=self.steps + state.steps,
            tool_results={**self.tool_results, **tool_results(state.scratchpad)},
            iterations=self.iterations + state.iteration,
            rejections=self.rejections + rejections_in(state.ledger.told),
        )

    def with_steps(self, *steps: ReasoningStep) -> Progress:
        """Return the progress with steps of the strategy itself."""
        return evolve(self, steps=self.steps + steps)


def requirements_left(needs: ToolNeeds, open_: OpenRequirements) -> ToolNeeds:
    """Return the needs with the open requirements alone, and the calls to be made."""
    left = (ToolRequirement(each.name, each.min_calls - done) for each, done in open_.open)
    return evolve(needs, required=tuple(left))


# --- What the tools of a strategy's passes gave, as text for a prompt ---


_NO_EVIDENCE = frozenset({RECALL, FINAL_ANSWER})
LEAST_SHOWN = 200
"""Characters that each observation gets at least; where that is too much for all, the oldest are left out."""


def evidence_of_run(progress: Progress, strategy_input: StrategyInput, services: StrategyServices) -> str:
    """Return the tool calls with their results, as far as the profile admits."""
    return evidence(
        progress, result_budget(profile_of(strategy_input, services), strategy_input.settings.compression)
    )


def evidence(progress: Progress, budget: int) -> str:
    """Return the tool calls with their results or errors, oldest first, for a prompt.

    Empty when no tool was called. Results of ``recall`` are left out: they are parts of other results. So are
    answers that were turned down, and calls that are the same and gave the same are shown once.

    Args:
        budget: characters of results that are shown, shared evenly.
    """
    calls = {_call_id(step): step.content for step in progress.steps if step.type == "action"}
    seen = [step for step in progress.steps if step.type == "observation" and _tool(step) not in _NO_EVIDENCE]
    shown = seen[-max(1, budget // LEAST_SHOWN) :]
    share = max(LEAST_SHOWN, budget // max(1, len(shown)))
    made = (_entry(step, calls.get(_call_id(step), ""), progress, share) for step in shown)
    entries = list(dict.fromkeys(made))
    left_out = len(seen) - len(shown)
    if left_out:
        entries.insert(0, f"[{left_out} earlier results are left out]")
    return "\n".join(entries)


def _entry(step: ReasoningStep, call: str, progress: Progress, share: int) -> str:
    known = step.metadata
    key = known.result_key if known is not None else None
    text = step.content if key is None else progress.tool_results.get(key, step.content)
    verb = "failed" if known is not None and known.success is False else "gave"
    return f"{preview(call, None, LEAST_SHOWN) or _tool(step)} {verb}: {preview(text, key, share)}"


def _tool(step: ReasoningStep) -> str:
    return (step.metadata.tool_used or "") if step.metadata is not None else ""


def _call_id(step: ReasoningStep) -> str:
    return (step.metadata.call_id or "") if step.metadata is not None else ""
