"""The values that all parts of a planning run share."""

from __future__ import annotations

from attrs import frozen

from reactive_agents.core.config import PlanExecuteConfig
from reactive_agents.core.requirements import ToolNeeds
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.toolset import toolset_for
from reactive_agents.reasoning.passes import open_requirements_of_run
from reactive_agents.reasoning.progress import Progress, requirements_left
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices, profile_of

NAME = "plan-execute-reflect"


@frozen(eq=False)
class PlanningContext:
    """Input, services and tools of a planning run.

    Attributes:
        tools: available to steps, as the model is shown them.
    """

    input: StrategyInput
    services: StrategyServices
    tools: tuple[ToolDefinition, ...]

    @property
    def config(self) -> PlanExecuteConfig:
        """The options of the strategy."""
        return self.input.config.strategies.plan_execute


def planning_context(strategy_input: StrategyInput, services: StrategyServices) -> PlanningContext:
    """Return the context of a run, with the tools that its kernel runs will have."""
    definitions = services.kernel.tools.map(lambda tools: tools.definitions()).value_or(())
    detail = profile_of(strategy_input, services).schema_detail
    toolset = toolset_for(definitions, detail, allowed=None, answers_by_tool=False)
    return PlanningContext(strategy_input, services, toolset.offered)


def needs_left(progress: Progress, context: PlanningContext) -> ToolNeeds:
    """Return the needs that a plan can still see to, with the calls to be made."""
    now = open_requirements_of_run(progress, context.input, context.services)
    return requirements_left(context.input.needs, now)
