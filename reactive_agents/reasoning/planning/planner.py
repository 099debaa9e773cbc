"""The planner: asks a model for a plan or for changes of one, and validates it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from math import ceil, inf
from typing import TypeVar

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import decode
from reactive_agents.core.errors import DecodeError, FieldProblem, StructuredOutputError
from reactive_agents.core.ids import CallId, PlanId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.plans import Plan, PlanMode, PlanStep
from reactive_agents.core.settings import ToolNeeds
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import attempt
from reactive_agents.kernel.call_parsing.argument_schema import (
    properties_of,
    required_of,
    signature,
    types_of,
)
from reactive_agents.kernel.call_parsing.repair import repair_call
from reactive_agents.kernel.call_parsing.tool_names import find_tool
from reactive_agents.reasoning.passes import Progress
from reactive_agents.reasoning.planning import prompts, schemas
from reactive_agents.reasoning.planning.context import (
    PlanningContext,
    apply_augment,
    apply_patch,
    needs_left,
    replace_remaining,
)
from reactive_agents.reasoning.strategy import profile_of
from reactive_agents.reasoning.structured_output.question import Question, ask_structured
from reactive_agents.reasoning.structured_output.schema import Shape, shape_read_by

T = TypeVar("T")


async def make_plan(progress: Progress, context: PlanningContext) -> Result[Plan, StructuredOutputError]:
    """Ask for a plan, and add steps for required calls that it lacks."""
    given, kernel = context.input, context.services.kernel
    plan_id, now, mode = PlanId(kernel.ids.new()), kernel.clock.now(), context.config.plan_mode
    goal, ids = given.task_description, (plan_id, given.task_id, given.agent_id)

    def hydrate_plan(output: schemas.LLMPlanOutput) -> Plan:
        steps = schemas.hydrate_steps(output.steps, first=1)
        return Plan(*ids, goal, mode, steps, "active", 1, now, now, owner=given.owner)

    needs = needs_left(progress, context)
    rules = _rules("s1", context, mode)
    instructions = prompts.with_requirements(prompts.plan_instructions(rules), needs)
    shape = _of_steps(hydrate_plan, context, first=1)
    made = await _ask(shape, instructions, goal, "plan", context)
    return made.map(lambda plan: evolve(with_required_calls(plan, needs, context.tools, now), version=1))


async def patch_step(
    plan: Plan, failed: PlanStep, progress: Progress, context: PlanningContext
) -> Result[Plan, StructuredOutputError]:
    """Ask for the failed step again, and return the plan with it."""
    now = context.services.kernel.clock.now()

    def read(data: Json) -> Result[Plan, DecodeError]:
        return decode(data, schemas.LLMPlanStep).bind(patched)

    def patched(step: schemas.LLMPlanStep) -> Result[Plan, DecodeError]:
        known = with_known_names(step, [tool.name for tool in context.tools])
        changed = apply_patch(plan, failed.id, known, now)
        return _checked(changed, {failed.id: "$"}, "LLMPlanStep", context)

    shape = _shape(schemas.LLMPlanStep, read, schemas.example_step(context.tools), context)
    completed = next((step.id for step in plan.steps if step.status == "completed"), "")
    instructions = prompts.patch_instructions(failed.id, _rules(completed, context))
    return await _ask_change(shape, instructions, "patch-plan", plan, progress, context)


async def replan(
    plan: Plan,
    progress: Progress,
    context: PlanningContext,
    missing: tuple[str, ...] = (),
    *,
    supplements: bool = False,
) -> Result[Plan, StructuredOutputError]:
    """Ask for steps in place of all that are not completed, or for supplementary ones."""
    change, instructed, purpose = replace_remaining, prompts.replan_instructions, "replan"
    if supplements:
        change, instructed, purpose = apply_augment, prompts.augment_instructions, "augment-plan"
    now, first = context.services.kernel.clock.now(), schemas.next_number(plan.steps)
    shape = _of_steps(lambda output: change(plan, output, now), context, first=first)
    instructions = instructed(f"s{first}", _rules(f"s{first}", context, plan.mode))
    return await _ask_change(shape, instructions, purpose, plan, progress, context, missing)


async def _ask_change(
    shape: Shape[Plan],
    instructions: str,
    purpose: str,
    plan: Plan,
    progress: Progress,
    context: PlanningContext,
    missing: tuple[str, ...] = (),
) -> Result[Plan, StructuredOutputError]:
    instructions = prompts.with_requirements(instructions, needs_left(progress, context))
    content = prompts.change_content(plan, progress, context, missing)
    return await _ask(shape, instructions, content, purpose, context)


def _rules(reference: str, context: PlanningContext, mode: PlanMode | None = None) -> str:
    """Return the rules for steps and, with a mode, for their order."""
    tier, with_tools = profile_of(context.input, context.services).tier, bool(context.tools)
    rules = prompts.step_rules(reference, tier, with_tools=with_tools)
    return rules if mode is None else f"{rules}\n{prompts.order_rules(mode, with_tools=with_tools)}"


def _shape(
    kind: type[schemas.LLMPlanOutput] | type[schemas.LLMPlanStep],
    read: Callable[[Json], Result[Plan, DecodeError]],
    example: schemas.LLMPlanOutput | schemas.LLMPlanStep,
    context: PlanningContext,
) -> Shape[Plan]:
    """Return the shape of steps, without fields for tools if there are no tools."""
    shape = shape_read_by(kind, read, example=example)
    return shape if context.tools else evolve(shape, schema=_without_tools(shape.schema))


def _without_tools(schema: JsonObject) -> JsonObject:
    fields = properties_of(schema)
    kept: JsonObject = {
        name: _without_tools(each) if isinstance(each, dict) else each
        for name, each in fields.items()
        if not name.startswith("tool_")
    }
    if "type" in kept:
        kept["type"] = {"enum": ["analysis"]}
    items = schema.get("items")
    inner: JsonObject = {"items": _without_tools(items)} if isinstance(items, dict) else {}
    return {**schema, **inner, **({"properties": kept} if fields else {})}


def _of_steps(
    change: Callable[[schemas.LLMPlanOutput], Plan], context: PlanningContext, *, first: int
) -> Shape[Plan]:
    """Return the shape of several steps, read into the plan that they lead to.

    Args:
        change: makes that plan; the steps of the model stand at its end.
        first: the number of the first of their ids.
    """
    names = [tool.name for tool in context.tools]

    def read(data: Json) -> Result[Plan, DecodeError]:
        return decode(data, schemas.LLMPlanOutput).bind(changed)

    def changed(output: schemas.LLMPlanOutput) -> Result[Plan, DecodeError]:
        steps = tuple(with_known_names(step, names) for step in output.steps)
        plan = change(schemas.LLMPlanOutput(steps))
        own = plan.steps[-len(steps) :]
        written = {step.id: f"$.steps[{index}]" for index, step in enumerate(own)}
        return _checked(plan, written, "LLMPlanOutput", context)

    return _shape(schemas.LLMPlanOutput, read, schemas.example_plan(context.tools, first), context)


def _checked(
    plan: Plan, written: dict[str, str], type_name: str, context: PlanningContext
) -> Result[Plan, DecodeError]:
    problems = find_problems(plan, written, context.tools)
    return Failure(DecodeError(type_name, problems)) if problems else Success(plan)


async def _ask(
    shape: Shape[T], instructions: str, content: str, purpose: str, context: PlanningContext
) -> Result[T, StructuredOutputError]:
    tools = prompts.described_tools(context.tools)
    question = Question(shape, instructions, content, purpose, about_answer=True, background=tools)
    asked = await attempt(ask_structured(question, context.input, context.services))
    return asked.map(lambda answer: answer.value)


# --- Validation of plans, before any of their steps runs ---


def repaired_call(
    step: PlanStep, arguments: JsonObject, definitions: Sequence[ToolDefinition], call_id: str = ""
) -> ToolCall:
    """Return the call of a ``tool_call`` step, repaired like a model's own calls."""
    repaired = repair_call(ToolCall(CallId(call_id), step.tool_name or "", arguments), definitions)
    return evolve(repaired.call, repairs=repaired.repairs)


def with_known_names(step: schemas.LLMPlanStep, names: Sequence[str]) -> schemas.LLMPlanStep:
    """Return the step with the exact names of its tools, where they are certain."""
    hints = tuple(dict.fromkeys(_known(name, names) for name in step.tool_hints))
    tool_name = None if step.tool_name is None else _known(step.tool_name, names)
    return evolve(step, tool_name=tool_name, tool_hints=hints)


def _known(name: str, names: Sequence[str]) -> str:
    return name if name in names else find_tool(name, tuple(names)) or name


# --- What is wrong with a plan, found before any of it runs ---


def find_problems(
    plan: Plan, written: Mapping[str, str], definitions: Sequence[ToolDefinition]
) -> tuple[FieldProblem, ...]:
    """Return the problems of the steps that a model wrote; empty when they can run.

    Args:
        plan: the plan with these steps in it.
        written: the path of each such step in the model's text, such as ``$.steps[0]``, by the step's id.
    """
    found: list[FieldProblem] = []
    for step in plan.steps:
        path = written.get(step.id)
        if path is not None:
            found += (FieldProblem(f"{path}{place}", said) for place, said in _of_tools(step, definitions))
            found += (FieldProblem(f"{path}{place}", said) for place, said in _of_order(step, plan))
    cycle = find_cycle(plan.steps)
    if cycle:
        path = next((written[step_id] for step_id in cycle if step_id in written), "$")
        found.append(FieldProblem(f"{path}.depends_on", f"a circle of steps: {' → '.join(cycle)}"))
    return tuple(found)


def find_cycle(steps: Sequence[PlanStep]) -> tuple[str, ...]:
    """Return a cycle of dependencies, with its first id again at the end.

    It is empty if there is none. A step that depends on itself is not such a cycle: it is a problem of its
    own.
    """
    after = {step.id: [needed for needed in step.depends_on if needed != step.id] for step in steps}
    try:
        TopologicalSorter(after).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1]  # each before those that depend on it
        return tuple(reversed(cycle))
    return ()


def _of_tools(step: PlanStep, definitions: Sequence[ToolDefinition]) -> Iterator[tuple[str, str]]:
    known = {definition.name: definition for definition in definitions}
    names = ", ".join(known) or "there are none"
    for name in step.tool_hints:
        if name not in known:
            yield ".tool_hints", f"there is no tool {name!r}; expected some of: {names}"
    if step.type != "tool_call":
        return
    if not step.tool_name:
        yield ".tool_name", f"missing: a tool_call step names its tool; expected one of: {names}"
        return
    definition = known.get(step.tool_name)
    if definition is None:
        yield ".tool_name", f"there is no tool {step.tool_name!r}; expected one of: {names}"
        return
    call = repaired_call(step, step.tool_args, definitions)
    lacking = sorted(required_of(definition.parameters) - call.arguments.keys())
    if lacking:
        yield ".tool_args", f"missing: {', '.join(lacking)}; the tool is called as {signature(definition)}"


def _of_order(step: PlanStep, plan: Plan) -> Iterator[tuple[str, str]]:
    steps = {each.id: each for each in plan.steps}
    wrong = schemas.malformed_reference([step.instruction, step.tool_args])
    if wrong is not None:
        yield "", f"{wrong!r} is no reference of the form {{{{from_step:s1}}}}"
    for needed in step.depends_on:
        other = steps.get(needed)
        if needed == step.id:
            yield "", f"{step.id} refers to itself"
        elif other is None:
            yield "", f"{step.id} depends on {needed}, which does not exist; there are: {', '.join(steps)}"
        elif other.status in ("failed", "skipped"):
            ended = "failed" if other.status == "failed" else "been skipped"
            yield "", f"{step.id} depends on {needed}, which has {ended}"
        elif plan.mode == "linear" and other.seq > step.seq:
            yield "", f"{step.id} depends on {needed}, which comes after it"


# --- Required tool calls: a plan that has too few calls of a tool gets the rest ---


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
    """Return the calls of a tool in pending steps; infinite with a composite one."""
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
        if step.type != "tool_call" or schemas.references_in(step.tool_args):
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
