"""The planner: asks a model for a plan or for changes of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import decode
from reactive_agents.core.errors import DecodeError, StructuredOutputError
from reactive_agents.core.ids import PlanId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.plans import Plan, PlanMode, PlanStep
from reactive_agents.effects import attempt
from reactive_agents.kernel.call_parsing.argument_schema import properties_of
from reactive_agents.reasoning.planning import prompts
from reactive_agents.reasoning.planning.context import PlanningContext, evidence_of_composites, needs_left
from reactive_agents.reasoning.planning.plan_journal import apply_augment, apply_patch, replace_remaining
from reactive_agents.reasoning.planning.required_calls import with_required_calls
from reactive_agents.reasoning.planning.schemas import (
    LLMPlanOutput,
    LLMPlanStep,
    example_plan,
    example_step,
    hydrate_plan,
    next_number,
)
from reactive_agents.reasoning.planning.validation import find_problems, with_known_names
from reactive_agents.reasoning.progress import Progress
from reactive_agents.reasoning.strategy import profile_of
from reactive_agents.reasoning.structured_output import Question, Shape, ask_structured, shape_read_by

T = TypeVar("T")


async def make_plan(progress: Progress, context: PlanningContext) -> Result[Plan, StructuredOutputError]:
    """Ask for a plan, and add steps for required calls that it lacks."""
    given, kernel = context.input, context.services.kernel
    plan_id, now, mode = PlanId(kernel.ids.new()), kernel.clock.now(), context.config.plan_mode

    def hydrated(output: LLMPlanOutput) -> Plan:
        return hydrate_plan(
            output,
            plan_id=plan_id,
            task_id=given.task_id,
            agent_id=given.agent_id,
            goal=given.task_description,
            mode=mode,
            now=now,
        )

    needs = needs_left(progress, context)
    rules = _rules("s1", context, mode)
    instructions = prompts.with_requirements(prompts.plan_instructions(rules), needs)
    shape = _of_steps(hydrated, context, first=1)
    made = await _ask(shape, instructions, given.task_description, "plan", context)
    return made.map(lambda plan: evolve(with_required_calls(plan, needs, context.tools, now), version=1))


async def patch_step(
    plan: Plan, failed: PlanStep, progress: Progress, context: PlanningContext
) -> Result[Plan, StructuredOutputError]:
    """Ask for the failed step again, and return the plan with it."""
    now = context.services.kernel.clock.now()

    def read(data: Json) -> Result[Plan, DecodeError]:
        return decode(data, LLMPlanStep).bind(patched)

    def patched(step: LLMPlanStep) -> Result[Plan, DecodeError]:
        known = with_known_names(step, [tool.name for tool in context.tools])
        changed = apply_patch(plan, failed.id, known, now)
        return _checked(changed, {failed.id: "$"}, "LLMPlanStep", context)

    shape = _shape(LLMPlanStep, read, example_step(context.tools), context)
    completed = next((step.id for step in plan.steps if step.status == "completed"), "")
    instructions = prompts.patch_instructions(failed.id, _rules(completed, context))
    return await _ask_change(shape, instructions, "patch-plan", plan, progress, context)


async def replan(
    plan: Plan, progress: Progress, context: PlanningContext, missing: tuple[str, ...] = ()
) -> Result[Plan, StructuredOutputError]:
    """Ask for new steps in place of all that are not completed."""
    now, first = context.services.kernel.clock.now(), next_number(plan.steps)
    shape = _of_steps(lambda output: replace_remaining(plan, output, now), context, first=first)
    rules = _rules(f"s{first}", context, plan.mode)
    instructions = prompts.replan_instructions(f"s{first}", rules)
    return await _ask_change(shape, instructions, "replan", plan, progress, context, missing)


async def augment(
    plan: Plan, progress: Progress, context: PlanningContext, missing: tuple[str, ...]
) -> Result[Plan, StructuredOutputError]:
    """Ask for supplementary steps for what is missing."""
    now, first = context.services.kernel.clock.now(), next_number(plan.steps)
    shape = _of_steps(lambda output: apply_augment(plan, output, now), context, first=first)
    rules = _rules(f"s{first}", context, plan.mode)
    instructions = prompts.augment_instructions(f"s{first}", rules)
    return await _ask_change(shape, instructions, "augment-plan", plan, progress, context, missing)


async def _ask_change(
    shape: Shape[Plan],
    instructions: str,
    purpose: str,
    plan: Plan,
    progress: Progress,
    context: PlanningContext,
    missing: tuple[str, ...] = (),
) -> Result[Plan, StructuredOutputError]:
    profile = profile_of(context.input, context.services)
    results = prompts.shown_results(plan, profile, context.input.settings.compression)
    instructions = prompts.with_requirements(instructions, needs_left(progress, context))
    found = evidence_of_composites(plan, progress, context)
    content = prompts.change_content(plan.goal, results, missing, found)
    return await _ask(shape, instructions, content, purpose, context)


def _rules(reference: str, context: PlanningContext, mode: PlanMode | None = None) -> str:
    """Return the rules for steps; with a mode also those for their order."""
    tier, with_tools = profile_of(context.input, context.services).tier, bool(context.tools)
    rules = prompts.step_rules(reference, tier, with_tools=with_tools)
    return rules if mode is None else f"{rules}\n{prompts.order_rules(mode, with_tools=with_tools)}"


def _shape(
    kind: type[LLMPlanOutput] | type[LLMPlanStep],
    read: Callable[[Json], Result[Plan, DecodeError]],
    example: LLMPlanOutput | LLMPlanStep,
    context: PlanningContext,
) -> Shape[Plan]:
    """Return the shape of steps, without fields for tools where there are none."""
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
    change: Callable[[LLMPlanOutput], Plan], context: PlanningContext, *, first: int
) -> Shape[Plan]:
    """Return the shape of several steps, read into the plan that they lead to.

    Args:
        change: makes that plan; the steps of the model stand at its end.
        first: the number of the first of their ids.
    """
    names = [tool.name for tool in context.tools]

    def read(data: Json) -> Result[Plan, DecodeError]:
        return decode(data, LLMPlanOutput).bind(changed)

    def changed(output: LLMPlanOutput) -> Result[Plan, DecodeError]:
        steps = tuple(with_known_names(step, names) for step in output.steps)
        plan = change(LLMPlanOutput(steps))
        own = plan.steps[-len(steps) :]
        written = {step.id: f"$.steps[{index}]" for index, step in enumerate(own)}
        return _checked(plan, written, "LLMPlanOutput", context)

    return _shape(LLMPlanOutput, read, example_plan(context.tools, first), context)


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
