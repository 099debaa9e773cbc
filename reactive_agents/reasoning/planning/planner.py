"""The planner: asks a model for a plan or for changes of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import decode
from reactive_agents.core.errors import DecodeError, StructuredOutputError
from reactive_agents.core.ids import PlanId
from reactive_agents.core.json import Json
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.effects import attempt
from reactive_agents.reasoning.planning.context import PlanningContext, needs_left
from reactive_agents.reasoning.planning.plan_journal import apply_augment, apply_patch, replace_remaining
from reactive_agents.reasoning.planning.prompts import (
    augment_instructions,
    change_content,
    patch_instructions,
    plan_instructions,
    replan_instructions,
    shown_results,
    with_tools,
)
from reactive_agents.reasoning.planning.required_calls import with_required_calls
from reactive_agents.reasoning.planning.schemas import LLMPlanOutput, LLMPlanStep, hydrate_plan, next_number
from reactive_agents.reasoning.planning.validation import find_problems, with_known_names
from reactive_agents.reasoning.progress import Progress
from reactive_agents.reasoning.strategy import profile_of
from reactive_agents.reasoning.structured_output import Question, Shape, ask_structured, shape_read_by

T = TypeVar("T")

_EXAMPLE_STEP = LLMPlanStep("Height of Elbrus", "Look up the height.", "composite")
_EXAMPLE = LLMPlanOutput(
    (
        _EXAMPLE_STEP,
        LLMPlanStep("Answer", "Answer the question from this:\n{{from_step:s1}}", "analysis"),
    )
)


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
    instructions = with_tools(plan_instructions(mode), context.tools, needs)
    shape = _of_steps(hydrated, context)
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

    shape = shape_read_by(LLMPlanStep, read, example=_EXAMPLE_STEP)
    return await _ask_change(shape, patch_instructions(failed.id), "patch-plan", plan, progress, context)


async def replan(
    plan: Plan, progress: Progress, context: PlanningContext, missing: tuple[str, ...] = ()
) -> Result[Plan, StructuredOutputError]:
    """Ask for new steps in place of all that are not completed."""
    now, first_id = context.services.kernel.clock.now(), f"s{next_number(plan.steps)}"
    shape = _of_steps(lambda output: replace_remaining(plan, output, now), context)
    instructions = replan_instructions(plan.mode, first_id)
    return await _ask_change(shape, instructions, "replan", plan, progress, context, missing)


async def augment(
    plan: Plan, progress: Progress, context: PlanningContext, missing: tuple[str, ...]
) -> Result[Plan, StructuredOutputError]:
    """Ask for supplementary steps for what is missing."""
    now, first_id = context.services.kernel.clock.now(), f"s{next_number(plan.steps)}"
    shape = _of_steps(lambda output: apply_augment(plan, output, now), context)
    instructions = augment_instructions(plan.mode, first_id)
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
    results = shown_results(plan, profile, context.input.settings.compression)
    instructions = with_tools(instructions, context.tools, needs_left(progress, context))
    return await _ask(shape, instructions, change_content(plan, results, missing), purpose, context)


def _of_steps(change: Callable[[LLMPlanOutput], Plan], context: PlanningContext) -> Shape[Plan]:
    """Return the shape of several steps, read into the plan that they lead to.

    Args:
        change: makes that plan; the steps of the model stand at its end.
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

    return shape_read_by(LLMPlanOutput, read, example=_EXAMPLE)


def _checked(
    plan: Plan, written: dict[str, str], type_name: str, context: PlanningContext
) -> Result[Plan, DecodeError]:
    problems = find_problems(plan, written, context.tools)
    return Failure(DecodeError(type_name, problems)) if problems else Success(plan)


async def _ask(
    shape: Shape[T], instructions: str, content: str, purpose: str, context: PlanningContext
) -> Result[T, StructuredOutputError]:
    question = Question(shape, instructions, content, purpose, about_answer=True)
    asked = await attempt(ask_structured(question, context.input, context.services))
    return asked.map(lambda answer: answer.value)
