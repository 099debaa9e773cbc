"""The values that all parts of a planning run share."""

from __future__ import annotations

from attrs import evolve, frozen

from reactive_agents.core.config import PlanExecuteConfig
from reactive_agents.core.plans import Plan
from reactive_agents.core.requirements import ToolNeeds
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.kernel.toolset import toolset_for
from reactive_agents.reasoning.passes import open_requirements_of_run
from reactive_agents.reasoning.progress import Progress, evidence_of_run, requirements_left
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices, profile_of

NAME = "plan-execute-reflect"


@frozen(eq=False)
class PlanningContext:
    """Input, services and tools of a planning run.

    Attributes:
        tools: available to steps, as the model is shown them.
        needs: of the run, those that were derived from the task too.
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


def needs_left(progress: Progress, context: PlanningContext) -> ToolNeeds:
    """Return the needs that a plan can still see to, with the calls to be made."""
    now = open_requirements_of_run(progress, context.input, context.services)
    return requirements_left(context.input.needs, now)


def calls_under(progress: Progress, prefixes: tuple[str, ...]) -> tuple[ReasoningStep, ...]:
    """Return all calls, and the results whose keys begin so."""
    return tuple(step for step in progress.steps if step.type == "action" or _key(step).startswith(prefixes))


def evidence_in(steps: tuple[ReasoningStep, ...], progress: Progress, context: PlanningContext) -> str:
    """Return calls with their results, as far as the profile admits."""
    return evidence_of_run(evolve(progress, steps=steps), context.input, context.services)


def evidence_of_composites(plan: Plan, progress: Progress, context: PlanningContext) -> str:
    """Return what the tools of composite steps gave, also of those that were replaced.

    The results of ``tool_call`` steps are those of their steps.
    """
    shown = {step.id for step in plan.steps if step.type == "tool_call"}
    others = {_key(step).partition(".")[0] for step in progress.steps} - shown - {""}
    steps = calls_under(progress, tuple(f"{step_id}." for step_id in others)) if others else ()
    return evidence_in(steps, progress, context)


def _key(step: ReasoningStep) -> str:
    return (step.metadata.result_key or "") if step.metadata is not None else ""
