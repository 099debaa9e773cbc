"""The tools that a step of a plan names, and the call that it stands for."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.plans import PlanStep
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.calls import heal_call
from reactive_agents.kernel.calls.tool_aliases import find_tool
from reactive_agents.reasoning.planning.output import LLMPlanStep


def healed_call(
    step: PlanStep, arguments: JsonObject, definitions: Sequence[ToolDefinition], call_id: str = ""
) -> ToolCall:
    """The call of a ``tool_call`` step, brought to the form of its tool as a model's own calls are."""
    healed = heal_call(ToolCall(CallId(call_id), step.tool_name or "", arguments), definitions)
    return evolve(healed.call, healings=healed.healings)


def with_known_names(step: LLMPlanStep, names: Sequence[str]) -> LLMPlanStep:
    """The step with its tools by their own names, where it is certain which were meant."""
    hints = tuple(dict.fromkeys(_known(name, names) for name in step.tool_hints))
    tool_name = None if step.tool_name is None else _known(step.tool_name, names)
    return evolve(step, tool_name=tool_name, tool_hints=hints)


def _known(name: str, names: Sequence[str]) -> str:
    return name if name in names else find_tool(name, tuple(names)) or name
