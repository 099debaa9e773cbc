"""Required tool calls: a plan that has too few calls of a tool gets the rest."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve

from reactive_agents.core.json import JsonObject
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.requirements import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing.argument_schema import properties_of, required_of, types_of
from reactive_agents.reasoning.planning.schemas import LLMPlanStep, hydrate_steps, next_number, next_position

_QUESTIONS = frozenset({"prompt", "q", "query", "question", "search", "task", "text", "topic"})
"""Names of arguments that the task itself is a value for."""


def with_required_calls(
    plan: Plan, needs: ToolNeeds, definitions: Sequence[ToolDefinition], now: datetime
) -> Plan:
    """Return the plan with steps at its end for required calls that it lacks; pure.

    Such a step is a tool_call where its arguments follow from the task: where the tool requires none, or only
    a text that the task is fit for, and the plan does not call it yet. Otherwise it is a composite step with
    that tool alone.

    Args:
        needs: what is still open of the task's requirements.
        definitions: the tools that the run has; requirements of others add nothing.
    """
    known = {definition.name: definition for definition in definitions}
    added: list[LLMPlanStep] = []
    for requirement in needs.required:
        definition = known.get(requirement.name)
        if definition is not None:
            added += _missing_steps(plan, requirement, definition)
    if not added:
        return plan
    steps = hydrate_steps(added, first=next_number(plan.steps), position=next_position(plan.steps))
    return evolve(plan, steps=plan.steps + steps, version=plan.version + 1, updated_at=now)


def planned_calls(step: PlanStep, name: str) -> int:
    """Return how many calls of a tool a step is planned to make: 1 or 0."""
    if step.type == "tool_call":
        return int(step.tool_name == name)
    return int(name in step.tool_hints)


def _missing_steps(plan: Plan, requirement: ToolRequirement, definition: ToolDefinition) -> list[LLMPlanStep]:
    name = requirement.name
    pending = [step for step in plan.steps if step.status == "pending"]
    planned = sum(planned_calls(step, name) for step in pending)
    used = any(planned_calls(step, name) for step in plan.steps)
    to_deliver = [step.id for step in plan.steps if step.status not in ("failed", "skipped")]
    found: list[LLMPlanStep] = []
    for _ in range(requirement.min_calls - planned):
        title, instruction = f"Call {name}", f"Make one call of {name} that the task needs."
        arguments = _derived(definition, plan.goal)
        if arguments is not None and not (arguments and used):  # without any, there are no others to make
            found.append(LLMPlanStep(title, instruction, "tool_call", name, arguments))
            used = True
            continue
        if definition.output and to_deliver:
            instruction = f"{instruction} Deliver this:\n{{{{from_step:{to_deliver[-1]}}}}}"
        elif found or planned:
            instruction = f"{instruction} Ask for something that no other step asks for."
        found.append(LLMPlanStep(title, instruction, "composite", tool_hints=(name,)))
    return found


def _derived(definition: ToolDefinition, goal: str) -> JsonObject | None:
    required = required_of(definition.parameters)
    if not required:
        return {}
    (name, *others) = required
    schema = properties_of(definition.parameters).get(name)
    is_text = isinstance(schema, dict) and types_of(schema) == {"string"} and "enum" not in schema
    if others or not is_text or name not in _QUESTIONS or definition.output:
        return None
    return {name: goal}
