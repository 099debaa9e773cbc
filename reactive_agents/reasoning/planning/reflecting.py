"""Judging what a plan has come to, and changing it where that is not enough."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.config import Depth
from reactive_agents.core.errors import StructuredOutputError
from reactive_agents.core.plans import Plan
from reactive_agents.core.steps import ReasoningStep
from reactive_agents.effects import attempt
from reactive_agents.kernel.assemble import fence
from reactive_agents.kernel.tool_results import result_budget
from reactive_agents.reasoning.evidence import evidence
from reactive_agents.reasoning.planning.making import augment, replan
from reactive_agents.reasoning.planning.output import Reflection
from reactive_agents.reasoning.planning.prompts import change_content, reflect_instructions, shown_results
from reactive_agents.reasoning.planning.quantities import planned_needs, with_required_calls
from reactive_agents.reasoning.planning.record import PlanRecord
from reactive_agents.reasoning.planning.setting import Setting
from reactive_agents.reasoning.progress import Progress, needs_left
from reactive_agents.reasoning.strategy import profile_of
from reactive_agents.reasoning.structured import Question, ask_structured, shape_of

REFLECTION_TOKENS: dict[Depth, int] = {"shallow": 1_500, "deep": 2_500}
"""Tokens that one reflection may have."""

_EXAMPLE = Reflection("UNSATISFIED", 0.7, ("the height of Mount Kazbek",))


async def reflect(
    plan: Plan, progress: Progress, setting: Setting
) -> Result[Reflection, StructuredOutputError]:
    """The model's judgement of the results. Without any completed step no judgement is satisfied.

    It also sees what the tools of composite steps gave, so that their texts can be held against it.
    """
    profile = profile_of(setting.input, setting.services)
    results = shown_results(plan, profile, setting.input.result_compression)
    found = _evidence(plan, progress, setting)
    depth = setting.config.reflection_depth
    question = Question(
        shape_of(Reflection, example=_EXAMPLE),
        reflect_instructions(depth),
        change_content(plan, f"{results}\n\n{found}".strip()),
        "reflect",
        max_tokens=REFLECTION_TOKENS[depth],
    )
    asked = await attempt(ask_structured(question, setting.input, setting.services))
    return asked.map(lambda answer: _grounded(answer.value, plan))


def described_reflection(reflection: Reflection) -> str:
    """The judgement in words, for the trace."""
    missing = f" Missing: {'; '.join(reflection.missing)}." if reflection.missing else ""
    return f"{reflection.verdict} (confidence {reflection.confidence:.2f}).{missing}"


async def refine(
    reflection: Reflection, progress: Progress, record: PlanRecord, setting: Setting
) -> Result[None, StructuredOutputError]:
    """Change the plan, so that what is missing gets done; completed steps stay.

    With steps that failed, all that is not completed is written anew; otherwise steps are added. Calls that
    the task requires get steps in any case; where these alone are missing and cannot be had, the plan stays
    as it is. Fails when the model gives no steps.
    """
    plan, now = record.plan, setting.services.kernel.clock.now()
    needs = planned_needs(needs_left(setting.input.needs, progress))
    if reflection.verdict == "SATISFIED":  # all but the required calls is done
        complete = with_required_calls(plan, needs, setting.tools, now)
        if complete is not plan:
            await record.revise(complete, "required")
        return Success(None)
    whole = all(step.status == "completed" for step in plan.steps)
    change = augment if whole else replan
    changed = await change(plan, progress, setting, reflection.missing)
    if isinstance(changed, Failure):
        return Failure(changed.failure())
    complete = with_required_calls(changed.unwrap(), needs, setting.tools, now)
    await record.revise(evolve(complete, version=plan.version + 1), "augmented" if whole else "replanned")
    return Success(None)


def _evidence(plan: Plan, progress: Progress, setting: Setting) -> str:
    """What the tools of composite steps gave; that of a tool_call is the result of its step already."""
    composite = tuple(f"{step.id}." for step in plan.steps if step.type == "composite")
    steps = tuple(
        step for step in progress.steps if step.type == "action" or _key(step).startswith(composite)
    )
    profile = profile_of(setting.input, setting.services)
    budget = result_budget(profile, setting.input.result_compression)
    given = evidence(evolve(progress, steps=steps), budget)
    return f"What the tools of composite steps gave:\n{fence('evidence', given)}" if given else ""


def _key(step: ReasoningStep) -> str:
    return (step.metadata.result_key or "") if step.metadata is not None else ""


def _grounded(reflection: Reflection, plan: Plan) -> Reflection:
    completed = {step.id for step in plan.steps if step.status == "completed" and (step.result or "").strip()}
    if reflection.answer_step not in completed:
        reflection = evolve(reflection, answer_step=None)
    if reflection.verdict == "SATISFIED" and not completed:
        return evolve(reflection, verdict="UNSATISFIED")
    return reflection
