"""What the parts of a planning run share."""

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
class Setting:
    """What is given to every part of a planning run.

    Attributes:
        tools: what steps may call, as the model is told of it.
    """

    input: StrategyInput
    services: StrategyServices
    tools: tuple[ToolDefinition, ...]

    @property
    def config(self) -> PlanExecuteConfig:
        """The strategy's own options."""
        return self.input.config.strategies.plan_execute


def setting_of(strategy_input: StrategyInput, services: StrategyServices) -> Setting:
    """The setting of a run, with the tools that its kernel runs will have."""
    definitions = services.kernel.tools.map(lambda tools: tools.definitions()).value_or(())
    detail = profile_of(strategy_input, services).schema_detail
    toolset = toolset_for(definitions, detail, allowed=None, answers_by_tool=False)
    return Setting(strategy_input, services, toolset.offered)


def needs_left(progress: Progress, setting: Setting) -> ToolNeeds:
    """Return the needs of the task that a plan can still see to, with the calls that are to be made."""
    now = open_requirements_of_run(progress, setting.input, setting.services)
    return requirements_left(setting.input.needs, now)
