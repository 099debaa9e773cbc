"""Plan, execute, reflect: a plan made beforehand (Wang et al., 2023, arXiv:2305.04091), run and judged."""

from __future__ import annotations

from typing import TypeAlias

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import KernelErrors, ReasoningErrors, StrategyExecutionError
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.plans import Plan, PlanStatus
from reactive_agents.core.reasoning import ReasoningResult, ReasoningStatus
from reactive_agents.core.steps import StepMetadata
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning.passes import (
    Limit,
    begin_progress,
    budget_left,
    limit_reached,
    note_step,
    run_pass,
)
from reactive_agents.reasoning.planning.answering import answer_pass, best_so_far, finished_answer
from reactive_agents.reasoning.planning.beginning import stored_plan
from reactive_agents.reasoning.planning.executing import execute_plan
from reactive_agents.reasoning.planning.making import make_plan
from reactive_agents.reasoning.planning.output import Reflection
from reactive_agents.reasoning.planning.prompts import described
from reactive_agents.reasoning.planning.quantities import planned_needs
from reactive_agents.reasoning.planning.record import PlanRecord
from reactive_agents.reasoning.planning.reflecting import described_reflection, refine, reflect
from reactive_agents.reasoning.planning.resuming import earlier_progress, resumed_plan
from reactive_agents.reasoning.planning.setting import NAME, Setting, setting_of
from reactive_agents.reasoning.progress import Progress, what_needs_lack
from reactive_agents.reasoning.strategies import reactive
from reactive_agents.reasoning.strategy import (
    CONFIDENCE,
    Measure,
    StrategyInput,
    StrategyServices,
    begin_measure,
    reasoning_result,
)

Outcome: TypeAlias = Result[ReasoningResult, ReasoningErrors]


@frozen
class _End:
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


@effect
async def plan_execute(strategy_input: StrategyInput, services: StrategyServices) -> Outcome:
    """Make a plan, run its steps, judge what they came to, and refine the plan until its goal is reached.

    A plan that the model cannot make leaves the task to the reactive strategy, and the result says so. With
    ``plan_id`` a stored plan goes on, toward the goal that it was made for. Fails with ``ReasoningError`` when
    that plan cannot be had, and with ``StrategyExecutionError`` when the model fails before there is anything
    to show.
    """
    measure, progress = begin_measure(services), begin_progress(services)
    setting = setting_of(strategy_input, services)
    if strategy_input.plan_id is not None:
        stored = await stored_plan(strategy_input.plan_id, services)
        if isinstance(stored, Failure):
            return stored
        tools = services.kernel.tools.map(lambda each: each.definitions()).value_or(())
        plan = resumed_plan(stored.unwrap(), tools, services.kernel.clock.now())
        setting = evolve(setting, input=evolve(strategy_input, task_description=plan.goal))
        progress = earlier_progress(plan, progress)
        return await _work_on(plan, progress, measure, setting, resumed=True)
    made = await make_plan(setting)
    if isinstance(made, Failure):
        return await _without_plan(made.failure().message, progress, measure, setting)
    return await _work_on(made.unwrap(), progress, measure, setting, resumed=False)


async def _work_on(
    plan: Plan, progress: Progress, measure: Measure, setting: Setting, *, resumed: bool
) -> Outcome:
    record = PlanRecord.of(plan, measure, setting.services)
    await record.begin(resumed=resumed)
    progress = note_step(
        progress, "plan", described(plan), setting.services, strategy=NAME, label=f"{NAME}:plan"
    )
    worked = await _reach_goal(progress, record, setting)
    if isinstance(worked, Failure):
        return worked
    progress, end = worked.unwrap()
    return await _conclude(progress, end, record, setting)


async def _reach_goal(
    progress: Progress, record: PlanRecord, setting: Setting
) -> Result[tuple[Progress, _End], ReasoningErrors]:
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
        judged = await reflect(record.plan, setting)
        if isinstance(judged, Failure):
            why = f"{judged.failure().message.rstrip('.')}. Missing: a check of the results."
            end = _End("reflection_failed", why, error=done.error)
            return Success((progress, _or_limit(end, record.plan, setting)))
        reflection = judged.unwrap()
        progress = _noted(progress, reflection, setting)
        lack = _lack(progress, setting)
        if reflection.verdict == "SATISFIED" and not lack:
            return Success((progress, _End("reflection", _reached(record.plan), True, reflection)))
        missing = _missing(reflection, lack, record.plan)
        if refinements >= setting.config.max_refinements:
            why = f"The plan was refined {_times(refinements)} without reaching its goal. {missing}"
            end = _End("refinement_limit", why, reflection=reflection, error=done.error)
            return Success((progress, end))
        limit = limit_reached(setting.input, setting.services)
        if limit is not None:
            return Success((progress, _ended_by(limit, record.plan, reflection)))
        version = record.plan.version
        refined = await refine(reflection, progress, record, setting)
        if isinstance(refined, Failure) or record.plan.version == version:
            said = f"{refined.failure().message.rstrip('.')}. " if isinstance(refined, Failure) else ""
            end = _End("refinement_failed", f"{said}{missing}", reflection=reflection, error=done.error)
            return Success((progress, _or_limit(end, record.plan, setting)))
        refinements += 1


async def _conclude(progress: Progress, end: _End, record: PlanRecord, setting: Setting) -> Outcome:
    """The answer, the last status of the plan, and the result."""
    plan = record.plan
    output = finished_answer(plan, end.reflection) if end.reflection is not None and end.reached else None
    if output is None and end.may_ask and any(step.status == "completed" for step in plan.steps):
        missing = end.reflection.missing if end.reflection is not None else ()
        asked = answer_pass(plan, missing, setting)
        ran = await attempt(run_pass(asked, progress, NAME, setting.input, setting.services))
        if isinstance(ran, Failure):
            return ran
        state = ran.unwrap()
        progress = progress.after(state)
        output = state.output
        if state.outcome != "completed":
            why = f"{end.why} {state.reason.rstrip('.')}. Missing: the whole answer."
            end = evolve(end, terminated_by="answer_failed", why=why, reached=False)
    output = output or best_so_far(plan)
    await record.end(_plan_status(plan, end))
    if output is None and end.error is not None:
        return Failure(StrategyExecutionError(NAME, end.why, progress.iterations, end.error))
    status: ReasoningStatus = "completed" if end.reached else "partial"
    confidence = end.reflection.confidence if end.reflection is not None else CONFIDENCE[status]
    return Success(
        reasoning_result(
            NAME,
            record.measure,
            setting.services,
            steps=progress.steps,
            output=output,
            status=status,
            iterations=progress.iterations,
            terminated_by=end.terminated_by,
            reason=end.why,
            results=progress.tool_results,
            confidence=confidence if end.reached else min(confidence, CONFIDENCE["partial"]),
        )
    )


async def _without_plan(problem: str, progress: Progress, measure: Measure, setting: Setting) -> Outcome:
    """The reactive strategy's result, which says that there was no plan; totals are those of both."""
    services = setting.services
    reason = f"{NAME} made no plan, so that the strategy {reactive.NAME} did the task: {problem}"
    events = services.kernel.events.value_or(None)
    if events is not None:
        events.publish(StrategySelected(*events.stamp(), strategy=reactive.NAME, reason=reason))
    progress = note_step(progress, "plan", reason, services, strategy=NAME, label=f"{NAME}:plan")
    left = evolve(setting.input, budget=budget_left(setting.input, services))
    outcome = await attempt(reactive.reactive(left, services))
    if isinstance(outcome, Failure):
        return outcome
    result = outcome.unwrap()
    return Success(
        reasoning_result(
            reactive.NAME,
            measure,
            services,
            steps=progress.steps + result.steps,
            output=result.output,
            status=result.status,
            iterations=result.metadata.iterations,
            terminated_by=result.metadata.terminated_by,
            reason=f"{result.metadata.reason} {reason}",
            results=result.tool_results,
            confidence=result.metadata.confidence,
        )
    )


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


def _ended_by(limit: Limit, plan: Plan, reflection: Reflection | None = None) -> _End:
    left = [step.id for step in plan.steps if step.status in ("pending", "failed", "skipped")]
    missing = f"the steps {', '.join(left)}" if left else "a check of the results and the final answer"
    why = f"{limit.reason} Missing: {missing}."
    return _End(limit.name, why, reflection=reflection, may_ask=False)


def _or_limit(end: _End, plan: Plan, setting: Setting) -> _End:
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


def _plan_status(plan: Plan, end: _End) -> PlanStatus:
    """A plan that something from outside ended stays active: it can be resumed."""
    if end.reached:
        return "completed"
    return "failed" if end.terminated_by in ("refinement_limit", "refinement_failed") else "active"
