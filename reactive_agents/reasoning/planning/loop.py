"""The planning loop: execute the plan, judge the results, refine the plan.

It ends when the model judges that the results reach the goal and no required call is missing, after the
configured number of refinements, at a limit of the run, or when a judgement or refinement fails.
"""

from __future__ import annotations

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.config import Depth
from reactive_agents.core.errors import KernelErrors, ReasoningErrors, StructuredOutputError
from reactive_agents.core.plans import Plan
from reactive_agents.core.results import StepMetadata
from reactive_agents.effects import attempt
from reactive_agents.kernel.open_requirements import describe_unmet
from reactive_agents.reasoning import passes
from reactive_agents.reasoning.planning.context import NAME, PlanningContext, needs_left
from reactive_agents.reasoning.planning.executor import execute_plan
from reactive_agents.reasoning.planning.plan_journal import PlanJournal
from reactive_agents.reasoning.planning.planner import replan, with_required_calls
from reactive_agents.reasoning.planning.prompts import change_content, reflect_instructions
from reactive_agents.reasoning.planning.schemas import Reflection
from reactive_agents.reasoning.structured_output.question import Question, ask_structured
from reactive_agents.reasoning.structured_output.schema import shape_of

REFLECTION_TOKENS: dict[Depth, int] = {"shallow": 1_500, "deep": 2_500}
"""The most tokens of one reflection."""

_EXAMPLE = Reflection(missing=("the height of Mount Kazbek",), verdict="UNSATISFIED", confidence=0.7)


async def reflect(
    plan: Plan, progress: passes.Progress, context: PlanningContext
) -> Result[Reflection, StructuredOutputError]:
    """Ask the model whether the results reach the goal.

    Without a completed step no judgement is satisfied. The model also sees the tool results of composite
    steps, by which it can check their texts.
    """
    depth = context.config.reflection_depth
    question = Question(
        shape_of(Reflection, example=_EXAMPLE),
        reflect_instructions(depth),
        change_content(plan, progress, context),
        "reflect",
        about_answer=True,
        max_tokens=REFLECTION_TOKENS[depth],
    )
    asked = await attempt(ask_structured(question, context.input, context.services))
    return asked.map(lambda answer: _grounded(answer.value, plan))


def reflection_in_words(reflection: Reflection) -> str:
    """Return the judgement in words, for the trace."""
    missing = f" Missing: {'; '.join(reflection.missing)}." if reflection.missing else ""
    return f"{reflection.verdict} (confidence {reflection.confidence:.2f}).{missing}"


async def refine(
    reflection: Reflection, progress: passes.Progress, journal: PlanJournal, context: PlanningContext
) -> Result[None, StructuredOutputError]:
    """Change the plan so that the missing parts get done; completed steps stay.

    If steps failed, all that are not completed are rewritten; otherwise steps are added. Calls that the task
    requires get steps in any case; if only such calls are missing and cannot be made, the plan stays as it
    is. Fails when the model gives no steps.
    """
    plan, now = journal.plan, context.services.kernel.clock.now()
    needs = needs_left(progress, context)
    if reflection.verdict == "SATISFIED":  # all but the required calls is done
        complete = with_required_calls(plan, needs, context.tools, now)
        if complete is not plan:
            await journal.revise(complete, "required")
        return Success(None)
    whole = all(step.status == "completed" for step in plan.steps)
    changed = await replan(plan, progress, context, reflection.missing, supplements=whole)
    if isinstance(changed, Failure):
        return Failure(changed.failure())
    complete = with_required_calls(changed.unwrap(), needs, context.tools, now)
    await journal.revise(evolve(complete, version=plan.version + 1), "augmented" if whole else "replanned")
    return Success(None)


def _grounded(reflection: Reflection, plan: Plan) -> Reflection:
    completed = {step.id for step in plan.steps if step.status == "completed" and (step.result or "").strip()}
    if reflection.answer_step not in completed:
        reflection = evolve(reflection, answer_step=None)
    if reflection.verdict == "SATISFIED" and not completed:
        return evolve(reflection, verdict="UNSATISFIED")
    return reflection


@frozen
class PlanEnd:
    """The end of the work on a plan.

    Attributes:
        why: the reason in sentences, with what is missing unless the plan reached its goal.
        reflection: the last judgement, if there was one.
        may_ask: whether the model may still be asked, to write the answer.
        error: the error of the model, if it did not answer.
    """

    terminated_by: str
    why: str
    reached: bool = False
    reflection: Reflection | None = None
    may_ask: bool = True
    error: KernelErrors | None = None


async def reach_goal(
    progress: passes.Progress, journal: PlanJournal, context: PlanningContext
) -> Result[tuple[passes.Progress, PlanEnd], ReasoningErrors]:
    """Execute and reflect, and refine the plan as often as the configuration allows."""
    refinements = 0
    while True:
        executed = await execute_plan(progress, journal, context)
        if isinstance(executed, Failure):
            return executed
        done = executed.unwrap()
        progress = done.progress
        limit = done.limit or passes.limit_reached(context.input, context.services)
        if limit is not None:
            return Success((progress, _ended_by(limit, journal.plan)))
        judged = await reflect(journal.plan, progress, context)
        if isinstance(judged, Failure):
            why = f"{judged.failure().message.rstrip('.')}. Missing: a check of the results."
            end = PlanEnd("reflection_failed", why, error=done.error)
            return Success((progress, _or_limit(end, journal.plan, context)))
        reflection = judged.unwrap()
        progress = _noted(progress, reflection, context)
        lack = describe_unmet(passes.open_requirements_of_run(progress, context.input, context.services))
        if reflection.verdict == "SATISFIED" and not lack:
            return Success((progress, PlanEnd("reflection", _reached(journal.plan), True, reflection)))
        missing = _missing(reflection, lack, journal.plan)
        if refinements >= context.config.max_refinements:
            times = "once" if refinements == 1 else f"{refinements} times"
            why = f"The plan was refined {times} without reaching its goal. {missing}"
            end = PlanEnd("refinement_limit", why, reflection=reflection, error=done.error)
            return Success((progress, end))
        limit = passes.limit_reached(context.input, context.services)
        if limit is not None:
            return Success((progress, _ended_by(limit, journal.plan, reflection)))
        version = journal.plan.version
        refined = await refine(reflection, progress, journal, context)
        if isinstance(refined, Failure) or journal.plan.version == version:
            said = f"{refined.failure().message.rstrip('.')}. " if isinstance(refined, Failure) else ""
            end = PlanEnd("refinement_failed", f"{said}{missing}", reflection=reflection, error=done.error)
            return Success((progress, _or_limit(end, journal.plan, context)))
        refinements += 1


def _noted(progress: passes.Progress, reflection: Reflection, context: PlanningContext) -> passes.Progress:
    return passes.note_step(
        progress,
        "reflection",
        reflection_in_words(reflection),
        context.services,
        label=f"{NAME}:reflect",
        metadata=StepMetadata(confidence=reflection.confidence),
    )


def _ended_by(limit: passes.Limit, plan: Plan, reflection: Reflection | None = None) -> PlanEnd:
    left = [step.id for step in plan.steps if step.status in ("pending", "failed", "skipped")]
    missing = f"the steps {', '.join(left)}" if left else "a check of the results and the final answer"
    why = f"{limit.reason} Missing: {missing}."
    return PlanEnd(limit.name, why, reflection=reflection, may_ask=False)


def _or_limit(end: PlanEnd, plan: Plan, context: PlanningContext) -> PlanEnd:
    """Return the end, or the limit of the run that caused it."""
    limit = passes.limit_reached(context.input, context.services)
    return end if limit is None else _ended_by(limit, plan, end.reflection)


def _reached(plan: Plan) -> str:
    done = sum(step.status == "completed" for step in plan.steps)
    return f"{done} of {len(plan.steps)} steps of the plan were completed, and the results reach its goal."


def _missing(reflection: Reflection, lack: str, plan: Plan) -> str:
    failed = [f"{step.id} ({step.error})" for step in plan.steps if step.status in ("failed", "skipped")]
    parts = ("; ".join(reflection.missing), lack, f"steps that failed: {', '.join(failed)}" if failed else "")
    return f"Missing: {'; '.join(part for part in parts if part) or 'what the task asks for'}."
