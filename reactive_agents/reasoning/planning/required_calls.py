"""Required tool calls: a plan that has too few calls of a tool gets the rest."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil, inf

from attrs import evolve

from reactive_agents.core.json import JsonObject
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.requirements import ToolNeeds
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing.argument_schema import properties_of, required_of, types_of
from reactive_agents.reasoning.planning import schemas
from reactive_agents.reasoning.planning.schemas import references_in

_QUESTIONS = frozenset({"prompt", "q", "query", "question", "search", "task", "text", "topic"})
"""Names of arguments that the task itself is a value for."""


def with_required_calls(
    plan: Plan, needs: ToolNeeds, definitions: Sequence[ToolDefinition], now: datetime
) -> Plan:
    """Return the plan with steps for required calls that it lacks; pure.

    One step makes all missing calls of a tool, so that it knows which it has made: a tool_call where one call
    is missing whose arguments follow from the task, otherwise a composite step with that tool alone. It comes
    before the step that uses what was found, which then refers to it; a step that delivers comes last. A
    composite step of the plan with the tool among its hints makes all that is missing.

    Args:
        needs: what is still open of the task's requirements.
        definitions: the tools that the run has; requirements of others add nothing.
    """
    known = {definition.name: definition for definition in definitions}
    steps = plan.steps
    for requirement in needs.required:
        definition = known.get(requirement.name)
        missing = requirement.min_calls - planned_calls(steps, requirement.name)
        if definition is not None and missing > 0:
            steps = _with_calls(steps, int(missing), definition, known, plan.goal)
    if steps == plan.steps:
        return plan
    return evolve(plan, steps=steps, version=plan.version + 1, updated_at=now)


def planned_calls(steps: Sequence[PlanStep], name: str) -> float:
    """Return how many calls of a tool the pending steps make.

    Infinite for a composite.
    """
    pending = [step for step in steps if step.status == "pending"]
    if any(name in step.tool_hints for step in pending):
        return inf
    return sum(step.tool_name == name for step in pending)


def share_of_calls(step: PlanStep, missing: int, steps: Sequence[PlanStep], name: str) -> int:
    """Return how many of the missing calls of a tool a composite step has to make.

    Calls that other steps make do not count, and composite steps with the same tool share the rest; it is at
    least 1.
    """
    others = [each for each in steps if each.id != step.id and each.status in ("pending", "in_progress")]
    left = missing - sum(each.tool_name == name for each in others)
    return max(1, ceil(left / (1 + sum(name in each.tool_hints for each in others))))


def _with_calls(
    steps: tuple[PlanStep, ...],
    missing: int,
    definition: ToolDefinition,
    known: Mapping[str, ToolDefinition],
    goal: str,
) -> tuple[PlanStep, ...]:
    made = _missing_steps(steps, missing, definition, goal)
    place = len(steps) if definition.output else _place_of_user(steps, known)
    added = schemas.hydrate_steps(made, first=schemas.next_number(steps), position=1)
    users = steps[place:] if definition.output else _with_user(steps[place:], added)
    position = schemas.next_position(steps[:place])
    placed = tuple(evolve(step, seq=seq) for seq, step in enumerate((*added, *users), position))
    return steps[:place] + placed


def _missing_steps(
    steps: Sequence[PlanStep], missing: int, definition: ToolDefinition, goal: str
) -> list[schemas.LLMPlanStep]:
    name = definition.name
    title, calls = f"Call {name}", "one call" if missing == 1 else f"{missing} calls"
    instruction = f"Make {calls} of {name} that the task needs."
    arguments = _derived(definition, goal)
    others = [step for step in steps if step.tool_name == name]
    if arguments == {}:
        return [schemas.LLMPlanStep(title, instruction, "tool_call", name)] * missing
    if arguments is not None and missing == 1 and not others:
        return [schemas.LLMPlanStep(title, instruction, "tool_call", name, arguments)]
    if others and not definition.output:
        made = "\n".join(f"- {name}: {_without_references(step)}" for step in others)
        instruction += f" Ask for what these other steps do not ask for:\n{made}"
    to_deliver = [step.id for step in steps if step.status not in ("failed", "skipped")]
    if definition.output and to_deliver:
        instruction += f" Deliver this:\n{{{{from_step:{to_deliver[-1]}}}}}"
    return [schemas.LLMPlanStep(title, instruction, "composite", tool_hints=(name,))]


def _without_references(step: PlanStep) -> str:
    """Return the arguments of a call as text that refers to no step."""
    return json.dumps(step.tool_args, ensure_ascii=False).replace("{{", "{ {")


def _place_of_user(steps: Sequence[PlanStep], known: Mapping[str, ToolDefinition]) -> int:
    """Return the position of the first pending step after all that gather."""
    place = 0
    for position, step in enumerate(steps, 1):
        tools = [known[name] for name in (step.tool_name or "", *step.tool_hints) if name in known]
        if step.status != "pending" or any(not tool.output for tool in tools):
            place = position
    return place


def _with_user(steps: tuple[PlanStep, ...], added: Sequence[PlanStep]) -> tuple[PlanStep, ...]:
    """Return the steps with the first that uses results referring to the added ones."""
    results = "\n".join(f"{{{{from_step:{step.id}}}}}" for step in added)
    for position, step in enumerate(steps):
        if step.type != "tool_call" or references_in(step.tool_args):
            return (*steps[:position], _using(step, results), *steps[position + 1 :])
    return steps


def _using(step: PlanStep, results: str) -> PlanStep:
    """Return the step with further results; a call is then left to the model."""
    instruction, kind, hints = step.instruction, step.type, step.tool_hints
    if step.type == "tool_call":
        planned = json.dumps(step.tool_args, ensure_ascii=False)
        instruction += f"\nCall {step.tool_name} once. The arguments planned until now:\n{planned}"
        kind, hints = "composite", (step.tool_name or "",)
    content = schemas.LLMPlanStep(
        step.title,
        f"{instruction}\nUse these results too:\n{results}",
        kind,
        tool_hints=hints,
        depends_on=step.depends_on,
    )
    return schemas.hydrate_step(content, step_id=step.id, seq=step.seq)


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
