"""The loop of a planning run: execute, reflect, refine, until the goal is reached or nothing helps."""

from __future__ import annotations

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import KernelErrors, ReasoningErrors
from reactive_agents.core.plans import Plan
from reactive_agents.core.steps import StepMetadata
from reactive_agents.reasoning.passes import Limit, limit_reached, note_step
from reactive_agents.reasoning.planning.executing import execute_plan
from reactive_agents.reasoning.planning.output import Reflection
from reactive_agents.reasoning.planning.quantities import planned_needs
from reactive_agents.reasoning.planning.record import PlanRecord
from reactive_agents.reasoning.planning.reflecting import described_reflection, refine, reflect
from reactive_agents.reasoning.planning.setting import NAME, Setting
from reactive_agents.reasoning.progress import Progress, what_needs_lack


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
    return what_needs_lack(planned_needs(setting.input.needs), progress)


def _missing(reflection: Reflection, lack: str, plan: Plan) -> str:
    failed = [f"{step.id} ({step.error})" for step in plan.steps if step.status in ("failed", "skipped")]
    parts = (
        "; ".join(reflection.missing),
        f"required calls: {lack}" if lack else "",
        f"steps that failed: {', '.join(failed)}" if failed else "",
    )
    return f"Missing: {'; '.join(part for part in parts if part) or 'what the task asks for'}."


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
