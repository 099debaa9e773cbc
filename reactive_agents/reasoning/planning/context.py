"""The values that all parts of a planning run share."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import evolve, frozen

from reactive_agents.core.config import PlanExecuteConfig
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.settings import ToolNeeds
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.answer_check import judge_text
from reactive_agents.kernel.evidence import Seen, ends_with_evidence, unsupported_figures
from reactive_agents.kernel.prompt import stable_prefix
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.kernel.toolset import toolset_for
from reactive_agents.reasoning import passes
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices, kernel_input, profile_of

NAME = "plan-execute-reflect"


@frozen(eq=False)
class PlanningContext:
    """Input, services and tools of a planning run.

    ``tools``: as the model is shown them; ``needs``: with those that were derived from the task.
    """

    input: StrategyInput
    services: StrategyServices
    tools: tuple[ToolDefinition, ...]
    needs: ToolNeeds

    @property
    def config(self) -> PlanExecuteConfig:
        """The options of the strategy."""
        return self.input.config.strategies.plan_execute


def planning_context(strategy_input: StrategyInput, services: StrategyServices) -> PlanningContext:
    """Return the context of a run, with the tools that its kernel runs will have.

    Requirements that were derived from the task do not hold for steps: the plan itself is a better reading of
    it.
    """
    definitions = definitions_in(services.kernel.tools)
    detail = profile_of(strategy_input, services).schema_detail
    toolset = toolset_for(definitions, detail, allowed=None, answers_by_tool=False)
    needs = strategy_input.needs
    given = tuple(each for each in needs.required if not each.derived)
    planned = evolve(strategy_input, needs=evolve(needs, required=given))
    return PlanningContext(planned, services, toolset.offered, needs)


def needs_left(progress: passes.Progress, context: PlanningContext) -> ToolNeeds:
    """Return the needs that a plan can still meet, with the calls still to make."""
    now = passes.open_requirements_of_run(progress, context.input, context.services)
    return passes.requirements_left(context.input.needs, now)


def calls_under(progress: passes.Progress, prefixes: tuple[str, ...]) -> tuple[ReasoningStep, ...]:
    """Return all calls, and the results whose keys have the prefix."""
    return tuple(step for step in progress.steps if step.type == "action" or _key(step).startswith(prefixes))


def evidence_in(steps: tuple[ReasoningStep, ...], progress: passes.Progress, context: PlanningContext) -> str:
    """Return calls with their results, as many as the model's profile admits."""
    return passes.evidence_of_run(evolve(progress, steps=steps), context.input, context.services)


def evidence_of_composites(plan: Plan, progress: passes.Progress, context: PlanningContext) -> str:
    """Return the results of tools in composite steps, replaced ones included.

    The result of a ``tool_call`` step is that of the step itself.
    """
    shown = {step.id for step in plan.steps if step.type == "tool_call"}
    others = {_key(step).partition(".")[0] for step in progress.steps} - shown - {""}
    steps = calls_under(progress, tuple(f"{step_id}." for step_id in others)) if others else ()
    return evidence_in(steps, progress, context)


def _key(step: ReasoningStep) -> str:
    return (step.metadata.result_key or "") if step.metadata is not None else ""


# --- Whether the text of a step is a result, or the answer ---
# The checks are those that the answer of a reactive run has to pass.


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")


def is_answer(text: str, progress: passes.Progress, context: PlanningContext) -> bool:
    """Return whether the text of a step that a judge named can be sent as the answer.

    It plainly is one, or else some sentence of it bears evidence of what was found, and it announces nothing.
    Nothing in it is made up. Without tools every text is an answer.
    """
    if not context.tools:
        return bool(text.strip())
    seen = _seen(progress, context)
    judgement = judge_text(text, _described(context), seen)
    if judgement == "unclear" and any(ends_with_evidence(each, seen) for each in _SENTENCE_END.split(text)):
        judgement = "answer"
    return judgement == "answer" and not unsupported_figures(text, seen)


def problem_of(step: PlanStep, progress: passes.Progress, context: PlanningContext) -> str:
    """Return why a text is not the result of an analysis; empty when it is.

    Figures that nothing supports are questioned once, as in a reactive run, since they may be estimates.
    """
    text = step.result or ""
    if step.type != "analysis" or not context.tools:
        return ""
    seen = _seen(progress, context)
    if judge_text(text, _described(context), seen) == "announcement":
        return "It announced the result, and did not give it."
    told = f"{seen.told}\n{step.instruction}"
    figures = () if step.retries else unsupported_figures(text, evolve(seen, told=told))
    return f"Nothing that was found supports: {', '.join(figures)}." if figures else ""


def _seen(progress: passes.Progress, context: PlanningContext) -> Seen:
    given = context.input
    told = "\n".join(message.content for message in stable_prefix(kernel_input(given)))
    earlier = given.earlier.stored if given.earlier is not None else {}
    return Seen(given.task_description, (*earlier.values(), *progress.tool_results.values()), told)


def _described(context: PlanningContext) -> Mapping[str, str]:
    return {tool.name: tool.description for tool in context.tools}
