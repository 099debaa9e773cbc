"""Plan, execute, reflect (Wang et al., 2023, arXiv:2305.04091).

The strategy makes or resumes a plan, runs the planning loop over it, and writes the answer from the results.
A task for which no plan can be made is left to the reactive strategy, since an answer without a plan is
better than none.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import evolve
from returns.maybe import Maybe, Some
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import (
    MemoryErrors,
    ReasoningError,
    ReasoningErrors,
    ServiceFailed,
    StrategyExecutionError,
)
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.ids import PlanId
from reactive_agents.core.plans import Plan, PlanStatus
from reactive_agents.core.results import ReasoningResult, ReasoningStatus
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.policies.answers import MOST_CUT_OFF
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.reasoning.confidence import BY_STATUS
from reactive_agents.reasoning.passes import Pass, begin_progress, limit_reached, note_step, run_pass
from reactive_agents.reasoning.planning.context import NAME as NAME
from reactive_agents.reasoning.planning.context import PlanningContext, planning_context
from reactive_agents.reasoning.planning.executor import NO_NEEDS
from reactive_agents.reasoning.planning.loop import PlanEnd, reach_goal
from reactive_agents.reasoning.planning.plan_journal import PlanJournal, earlier_progress, resumed_plan
from reactive_agents.reasoning.planning.planner import make_plan
from reactive_agents.reasoning.planning.prompts import (
    ANSWER_INSTRUCTIONS,
    change_content,
    plan_in_lines,
    shown_results,
)
from reactive_agents.reasoning.planning.schemas import Reflection
from reactive_agents.reasoning.progress import Progress
from reactive_agents.reasoning.strategies import reactive
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyMeasure,
    StrategyServices,
    begin_measure,
    profile_of,
    reasoning_result,
)

Outcome: TypeAlias = Result[ReasoningResult, ReasoningErrors]


@effect
async def plan_execute(strategy_input: StrategyInput, services: StrategyServices) -> Outcome:
    """Make a plan, execute it, judge the results, and refine it up to its goal.

    Where the model cannot make a plan, the reactive strategy does the task, and the result's reason names
    that. With ``plan_id`` a stored plan is resumed, with its own goal. Fails with ``ReasoningError`` when
    that plan cannot be had, and with ``StrategyExecutionError`` when the model fails before there is anything
    to show.
    """
    measure, progress = begin_measure(services), begin_progress(strategy_input, services)
    context = planning_context(strategy_input, services)
    if strategy_input.plan_id is not None:
        stored = await stored_plan(strategy_input.plan_id, services)
        if isinstance(stored, Failure):
            return stored
        tools = services.kernel.tools.map(lambda each: each.definitions()).value_or(())
        plan = resumed_plan(stored.unwrap(), tools, services.kernel.clock.now())
        context = evolve(context, input=evolve(strategy_input, task_description=plan.goal))
        progress = earlier_progress(plan, progress)
        return await _work_on(plan, progress, measure, context, resumed=True)
    made = await make_plan(progress, context)
    if isinstance(made, Failure):
        return await _without_plan(made.failure().message, progress, measure, context)
    return await _work_on(made.unwrap(), progress, measure, context, resumed=False)


async def _work_on(
    plan: Plan, progress: Progress, measure: StrategyMeasure, context: PlanningContext, *, resumed: bool
) -> Outcome:
    journal = PlanJournal.of(plan, measure, context.services)
    await journal.begin(resumed=resumed)
    progress = note_step(
        progress, "plan", plan_in_lines(plan), context.services, strategy=NAME, label=f"{NAME}:plan"
    )
    worked = await reach_goal(progress, journal, context)
    if isinstance(worked, Failure):
        return worked
    progress, end = worked.unwrap()
    return await conclude_plan(progress, end, journal, context)


async def _without_plan(
    problem: str, progress: Progress, measure: StrategyMeasure, context: PlanningContext
) -> Outcome:
    """Return the reactive strategy's result, with the reason and the totals of both."""
    services = context.services
    reason = f"{NAME} made no plan, so that the strategy {reactive.NAME} did the task: {problem}"
    events = services.kernel.events.value_or(None)
    if events is not None:
        events.publish(StrategySelected, strategy=reactive.NAME, reason=reason)
    progress = note_step(progress, "plan", reason, services, strategy=NAME, label=f"{NAME}:plan")
    outcome = await attempt(reactive.reactive(context.input, services))
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
        )
    )


# --- The plan that a run begins with: a new one, or a stored one that goes on ---


async def stored_plan(plan_id: PlanId, services: StrategyServices) -> Result[Plan, ReasoningError]:
    """Return the plan of that id. Fails with ``ReasoningError``, with the reason."""
    store = services.plans.value_or(None)
    if store is None:
        return _unavailable(plan_id, "this agent keeps no plans: give it a memory")
    found: Result[Maybe[Plan], MemoryErrors | ServiceFailed] = await call_service(
        "plan store.get", store.get, Maybe, plan_id
    )
    if isinstance(found, Failure):
        return _unavailable(plan_id, found.failure().message)
    match found.unwrap():
        case Some(plan):
            return Success(plan)
        case _:
            return _unavailable(plan_id, "there is no such plan")


def _unavailable(plan_id: PlanId, reason: str) -> Failure[ReasoningError]:
    return Failure(ReasoningError(f"The plan {plan_id!r} cannot be resumed: {reason.rstrip('.')}."))


# --- the answer -----------------------------------------------------------------------------------------


async def conclude_plan(
    progress: Progress, end: PlanEnd, journal: PlanJournal, context: PlanningContext
) -> Result[ReasoningResult, ReasoningErrors]:
    """Write the answer, end the plan, and return the result."""
    plan = journal.plan
    output = finished_answer(plan, end.reflection) if end.reflection is not None and end.reached else None
    if output is None and end.may_ask and any(step.status == "completed" for step in plan.steps):
        missing = end.reflection.missing if end.reflection is not None else ()
        asked = answer_pass(plan, missing, context)
        ran = await attempt(run_pass(asked, progress, NAME, context.input, context.services))
        if isinstance(ran, Failure):
            return ran
        state = ran.unwrap()
        progress = progress.after(state)
        output = state.output
        if state.outcome != "completed":
            why = f"{end.why} {state.reason.rstrip('.')}. Missing: the whole answer."
            limit = limit_reached(context.input, context.services)
            by = "answer_failed" if limit is None else limit.name
            end = evolve(end, terminated_by=by, why=why, reached=False)
    output = output or best_so_far(plan)
    await journal.end(_plan_status(end))
    if output is None and end.error is not None:
        return Failure(StrategyExecutionError(NAME, end.why, progress.iterations, end.error))
    status: ReasoningStatus = "completed" if end.reached else "partial"
    if progress.impossible and end.may_ask and not end.reached:  # no limit ended it: there is no other way
        status, end = "abstained", evolve(end, why=f"{progress.impossible} {end.why}")
    confidence = end.reflection.confidence if end.reflection is not None else BY_STATUS[status]
    return Success(
        reasoning_result(
            NAME,
            journal.measure,
            context.services,
            steps=progress.steps,
            output=output,
            status=status,
            iterations=progress.iterations,
            terminated_by=end.terminated_by,
            reason=end.why,
            results=progress.tool_results,
            rejections=progress.rejections,
            task=context.input.task_description,
            confidence=confidence if end.reached else min(confidence, BY_STATUS["partial"]),
        )
    )


def _plan_status(end: PlanEnd) -> PlanStatus:
    """Return the last status.

    A plan ended from outside stays active and can be resumed.
    """
    if end.reached:
        return "completed"
    return "failed" if end.terminated_by in ("refinement_limit", "refinement_failed") else "active"


def finished_answer(plan: Plan, reflection: Reflection) -> str | None:
    """Return the step result that is the answer already; ``None`` without one.

    It is that of the step which the reflection names, or of the only step, where it is a text that a model
    wrote.
    """
    if reflection.verdict != "SATISFIED":
        return None
    completed = [step for step in plan.steps if step.status == "completed"]
    for step in completed:
        if step.id == reflection.answer_step:
            return step.result
    alone = completed[0] if len(plan.steps) == len(completed) == 1 else None
    return alone.result if alone is not None and alone.type != "tool_call" else None


def best_so_far(plan: Plan) -> str | None:
    """Return the best available text: the last of a model, else of a tool.

    The partial result of a failed step counts when no step is completed.
    """
    completed = [step for step in plan.steps if step.status == "completed"]
    written = [step for step in completed if step.type != "tool_call"]
    for steps in (written, completed, plan.steps):
        for step in reversed(steps):
            if (step.result or "").strip():
                return step.result
    return None


def answer_pass(plan: Plan, missing: tuple[str, ...], context: PlanningContext) -> Pass:
    """Return the model call that writes the answer from the results of the steps."""
    profile = profile_of(context.input, context.services)
    results = shown_results(plan, profile, context.input.settings.compression)
    return Pass(
        f"{NAME}:answer",
        "answer.",
        change_content(plan.goal, results, missing),
        1 + MOST_CUT_OFF,
        instructions=ANSWER_INSTRUCTIONS,
        allowed_tools=frozenset(),
        needs=NO_NEEDS,
        kernel="one-shot",
        answers_by_tool=False,
    )
