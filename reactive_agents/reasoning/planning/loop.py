"""Judging what a plan has come to, and changing it where that is not enough."""

from __future__ import annotations

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.config import Depth
from reactive_agents.core.errors import KernelErrors, ReasoningErrors, StructuredOutputError
from reactive_agents.core.plans import Plan
from reactive_agents.core.results import ReasoningStep, StepMetadata
from reactive_agents.effects import attempt
from reactive_agents.kernel.context_window.tool_results import result_budget
from reactive_agents.kernel.open_requirements import describe_unmet
from reactive_agents.kernel.prompt import fence
from reactive_agents.reasoning.passes import Limit, limit_reached, note_step, open_requirements_of_run
from reactive_agents.reasoning.planning.context import NAME, Setting, needs_left
from reactive_agents.reasoning.planning.executor import execute_plan
from reactive_agents.reasoning.planning.plan_journal import PlanRecord
from reactive_agents.reasoning.planning.planner import augment, replan
from reactive_agents.reasoning.planning.prompts import change_content, reflect_instructions, shown_results
from reactive_agents.reasoning.planning.required_calls import with_required_calls
from reactive_agents.reasoning.planning.schemas import Reflection
from reactive_agents.reasoning.progress import Progress, evidence
from reactive_agents.reasoning.strategy import profile_of
from reactive_agents.reasoning.structured_output import Question, ask_structured, shape_of

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
    results = shown_results(plan, profile, setting.input.settings.compression)
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
    needs = needs_left(progress, setting)
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
    budget = result_budget(profile, setting.input.settings.compression)
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


# --- The loop of a planning run: execute, reflect, refine, until the goal is reached or nothing helps ---


@frozen
class End:
    """How the work on a plan ended.

    Attributes:
        why: in sentences; says what is missing unless the plan reached its goal.
        reached: whether it did.
        reflection: the last judgement, if there was one.
        may_ask: whether the model may still be asked, to write the answer.
        error: of the model, when it did not answer.
    """

    terminated_by: str
    why: str
    reached: bool = False
    reflection: Reflection | None = None
    may_ask: bool = True
    error: KernelErrors | None = None


async def reach_goal(
    progress: Progress, record: PlanRecord, setting: Setting
) -> Result[tuple[Progress, End], ReasoningErrors]:
    """Execute and reflect, and refine the plan as often as the configuration allows."""
    refinements = 0
    while True:
        executed = await execute_plan(progress, record, setting)
        if isinstance(executed, Failure):
            return executed
        done = executed.unwrap()
        progress = done.progress
        limit = done.limit or limit_reached(setting.input, setting.services)
        if limit is not None:
            return Success((progress, _ended_by(limit, record.plan)))
        judged = await reflect(record.plan, progress, setting)
        if isinstance(judged, Failure):
            why = f"{judged.failure().message.rstrip('.')}. Missing: a check of the results."
            end = End("reflection_failed", why, error=done.error)
            return Success((progress, _or_limit(end, record.plan, setting)))
        reflection = judged.unwrap()
        progress = _noted(progress, reflection, setting)
        lack = _lack(progress, setting)
        if reflection.verdict == "SATISFIED" and not lack:
            return Success((progress, End("reflection", _reached(record.plan), True, reflection)))
        missing = _missing(reflection, lack, record.plan)
        if refinements >= setting.config.max_refinements:
            why = f"The plan was refined {_times(refinements)} without reaching its goal. {missing}"
            end = End("refinement_limit", why, reflection=reflection, error=done.error)
            return Success((progress, end))
        limit = limit_reached(setting.input, setting.services)
        if limit is not None:
            return Success((progress, _ended_by(limit, record.plan, reflection)))
        version = record.plan.version
        refined = await refine(reflection, progress, record, setting)
        if isinstance(refined, Failure) or record.plan.version == version:
            said = f"{refined.failure().message.rstrip('.')}. " if isinstance(refined, Failure) else ""
            end = End("refinement_failed", f"{said}{missing}", reflection=reflection, error=done.error)
            return Success((progress, _or_limit(end, record.plan, setting)))
        refinements += 1


# --- what is said ---------------------------------------------------------------------------------------


def _noted(progress: Progress, reflection: Reflection, setting: Setting) -> Progress:
    return note_step(
        progress,
        "reflection",
        described_reflection(reflection),
        setting.services,
        strategy=NAME,
        label=f"{NAME}:reflect",
        metadata=StepMetadata(confidence=reflection.confidence),
    )


def _ended_by(limit: Limit, plan: Plan, reflection: Reflection | None = None) -> End:
    left = [step.id for step in plan.steps if step.status in ("pending", "failed", "skipped")]
    missing = f"the steps {', '.join(left)}" if left else "a check of the results and the final answer"
    why = f"{limit.reason} Missing: {missing}."
    return End(limit.name, why, reflection=reflection, may_ask=False)


def _or_limit(end: End, plan: Plan, setting: Setting) -> End:
    """The end, or the limit of the run that was behind it."""
    limit = limit_reached(setting.input, setting.services)
    return end if limit is None else _ended_by(limit, plan, end.reflection)


def _reached(plan: Plan) -> str:
    done = sum(step.status == "completed" for step in plan.steps)
    return f"{done} of {len(plan.steps)} steps of the plan were completed, and the results reach its goal."


def _lack(progress: Progress, setting: Setting) -> str:
    now = open_requirements_of_run(progress, setting.input, setting.services)
    return describe_unmet(now)


def _missing(reflection: Reflection, lack: str, plan: Plan) -> str:
    failed = [f"{step.id} ({step.error})" for step in plan.steps if step.status in ("failed", "skipped")]
    parts = (
        "; ".join(reflection.missing),
        lack,
        f"steps that failed: {', '.join(failed)}" if failed else "",
    )
    return f"Missing: {'; '.join(part for part in parts if part) or 'what the task asks for'}."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
