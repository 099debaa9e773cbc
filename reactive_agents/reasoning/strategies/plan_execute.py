"""Plan, execute, reflect (Wang et al., 2023, arXiv:2305.04091).

The strategy makes or resumes a plan, runs the planning loop over it, and writes the answer from the results.
If no plan can be made, or the plan does not reach its goal, a reactive run that is given all results so far
does the rest: so a plan that goes wrong is never worse than none.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import evolve
from returns.maybe import Maybe, Some
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.ids import PlanId
from reactive_agents.core.plans import Plan, PlanStatus
from reactive_agents.core.results import ReasoningResult, ReasoningStatus, ReasoningStrategy
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.service_calls import call_service, definitions_in
from reactive_agents.ports import PlanStore
from reactive_agents.reasoning import passes
from reactive_agents.reasoning.confidence import BY_STATUS
from reactive_agents.reasoning.passes import Progress
from reactive_agents.reasoning.planning.context import NAME as NAME
from reactive_agents.reasoning.planning.context import PlanningContext, is_answer, planning_context
from reactive_agents.reasoning.planning.loop import PlanEnd, reach_goal
from reactive_agents.reasoning.planning.plan_journal import PlanJournal, earlier_progress, resumed_plan
from reactive_agents.reasoning.planning.planner import make_plan
from reactive_agents.reasoning.planning.prompts import answer_instructions, change_content, plan_in_lines
from reactive_agents.reasoning.planning.schemas import Reflection
from reactive_agents.reasoning.strategies import reactive
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyMeasure,
    StrategyServices,
    begin_measure,
    reasoning_result,
)

Outcome: TypeAlias = Result[ReasoningResult, errors.ReasoningErrors]


@effect
async def plan_execute(strategy_input: StrategyInput, services: StrategyServices) -> Outcome:
    """Make a plan, execute it, judge the results, and refine it up to its goal.

    If the model cannot make a plan, or the plan does not reach its goal, a reactive run does the rest, and
    the result names it. With ``plan_id`` a stored plan is resumed, with its own goal. Fails with
    ``ReasoningError`` when that plan cannot be read, and with ``StrategyExecutionError`` when the model fails
    before there is any result.
    """
    measure, progress = begin_measure(services), passes.begin_progress(strategy_input, services)
    context = planning_context(strategy_input, services)
    if strategy_input.plan_id is not None:
        stored = await stored_plan(strategy_input.plan_id, services)
        if isinstance(stored, Failure):
            return stored
        tools = definitions_in(services.kernel.tools)
        plan = resumed_plan(stored.unwrap(), tools, services.kernel.clock.now())
        context = evolve(context, input=evolve(strategy_input, task_description=plan.goal))
        progress = earlier_progress(plan, progress)
        return await _work_on(plan, progress, measure, context, resumed=True)
    made = await make_plan(progress, context)
    if isinstance(made, Failure):
        why = f"{NAME} made no plan: {made.failure().message}"
        progress = passes.note_step(progress, "plan", why, services, label=f"{NAME}:plan")
        return await _hand_over(PlanEnd("no_plan", why), None, progress, measure, context)
    return await _work_on(made.unwrap(), progress, measure, context, resumed=False)


async def _work_on(
    plan: Plan, progress: Progress, measure: StrategyMeasure, context: PlanningContext, *, resumed: bool
) -> Outcome:
    journal = PlanJournal.of(plan, measure, context.services)
    await journal.begin(resumed=resumed)
    progress = passes.note_step(progress, "plan", plan_in_lines(plan), context.services, label=f"{NAME}:plan")
    worked = await reach_goal(progress, journal, context)
    if isinstance(worked, Failure):
        return worked
    progress, end = worked.unwrap()
    return await conclude_plan(progress, end, journal, context)


async def stored_plan(plan_id: PlanId, services: StrategyServices) -> Result[Plan, errors.ReasoningError]:
    """Return the plan of that id. Fails with ``ReasoningError``, with the reason."""
    store = services.plans.value_or(None)
    if store is None:
        return _unavailable(plan_id, "this agent keeps no plans: give it a memory")
    found: Result[Maybe[Plan], errors.MemoryErrors | errors.ServiceFailed] = await call_service(
        "plan store", store, PlanStore.get, Maybe, plan_id
    )
    if isinstance(found, Failure):
        return _unavailable(plan_id, found.failure().message)
    match found.unwrap():
        case Some(plan):
            return Success(plan)
        case _:
            return _unavailable(plan_id, "there is no such plan")


def _unavailable(plan_id: PlanId, reason: str) -> Failure[errors.ReasoningError]:
    return Failure(errors.ReasoningError(f"The plan {plan_id!r} cannot be resumed: {reason.rstrip('.')}."))


async def conclude_plan(
    progress: Progress, end: PlanEnd, journal: PlanJournal, context: PlanningContext
) -> Outcome:
    """Write the answer, end the plan, and return the result."""
    plan = journal.plan
    output = finished_answer(plan, end.reflection, progress, context) if end.reached else None
    usable = end.error is None or any(step.status == "completed" for step in plan.steps)
    if output is None and end.may_ask and usable:
        outcome = await _hand_over(end, plan, progress, journal.measure, context)
        await journal.end(_plan_status(end))
        return outcome
    await journal.end(_plan_status(end))
    output = output or best_so_far(plan)
    if output is None and end.error is not None:
        return Failure(errors.StrategyExecutionError(NAME, end.why, progress.iterations, end.error))
    status: ReasoningStatus = "completed" if end.reached else "partial"
    return Success(_result(NAME, output, status, end, progress, journal.measure, context))


async def _hand_over(
    end: PlanEnd, plan: Plan | None, progress: Progress, measure: StrategyMeasure, context: PlanningContext
) -> Outcome:
    """Return the outcome of a reactive run that is given all results so far.

    It writes the answer of a plan that reached its goal, and does the rest of any other plan.
    """
    services, strategy = context.services, NAME if end.reached else reactive.REACTIVE
    if not end.reached:
        end = evolve(end, why=f"{end.why.rstrip('.')}. The strategy {reactive.REACTIVE} took over.")
        services.kernel.publish(StrategySelected, strategy=strategy, reason=end.why)
    asked = answer_pass(plan, end, progress, context)
    ran = await attempt(passes.run_pass(asked, progress, strategy, context.input, services))
    if isinstance(ran, Failure):
        return ran
    state = ran.unwrap()
    progress, status = progress.after(state), state.outcome or "failed"
    output = state.output or (best_so_far(plan) if plan is not None else None)
    if status == "failed":
        if output is None:
            error = errors.StrategyExecutionError(strategy, state.reason, progress.iterations, state.error)
            return Failure(error)
        status = "partial"
    if status != "completed" or not end.reached:
        missing = " Missing: the whole answer." if status == "partial" else ""
        limit = passes.limit_reached(context.input, services)
        by = "answer_failed" if end.reached and status == "partial" else state.terminated_by
        by = by if limit is None or status != "partial" else limit.name
        end = evolve(end, terminated_by=by, why=f"{end.why} {state.reason.rstrip('.')}.{missing}")
    return Success(_result(strategy, output, status, end, progress, measure, context))


def _result(
    strategy: ReasoningStrategy,
    output: str | None,
    status: ReasoningStatus,
    end: PlanEnd,
    progress: Progress,
    measure: StrategyMeasure,
    context: PlanningContext,
) -> ReasoningResult:
    judged = end.reflection.confidence if end.reflection is not None else BY_STATUS[status]
    return reasoning_result(
        strategy,
        measure,
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
        confidence=judged if end.reached and status == "completed" else BY_STATUS[status],
    )


def _plan_status(end: PlanEnd) -> PlanStatus:
    """Return a plan's last status; one that was ended from outside can be resumed."""
    if end.reached:
        return "completed"
    return "failed" if end.terminated_by in ("refinement_limit", "refinement_failed") else "active"


def finished_answer(
    plan: Plan, reflection: Reflection | None, progress: Progress, context: PlanningContext
) -> str | None:
    """Return the step result that already is the answer; ``None`` if there is none.

    It is the result of the step that the reflection names, or of the only step, if a model wrote it as text.
    The text of an analysis has to pass the checks of an answer first; that of a composite step already has.
    """
    if reflection is None or reflection.verdict != "SATISFIED":
        return None
    completed = [step for step in plan.steps if step.status == "completed"]
    named = next((step for step in completed if step.id == reflection.answer_step), None)
    alone = completed[0] if len(plan.steps) == len(completed) == 1 else None
    if named is None and alone is not None and alone.type != "tool_call":
        named = alone
    form = context.input.answer_form
    if named is None or named.result is None or (form is not None and not form.fits(named.result)):
        return None
    if named.type == "analysis" and not is_answer(named.result, progress, context):
        return None
    return None if _call_missing(named.result, progress, context) else named.result


def _call_missing(text: str, progress: Progress, context: PlanningContext) -> str:
    """Return which call is missing for what a text of the plan says is done."""
    results = progress.tool_results
    return passes.call_missing_in(text, progress.steps, results, context.input, context.services)


def best_so_far(plan: Plan) -> str | None:
    """Return the best available text: the last of a model, or else of a tool.

    The partial result of a failed step counts when no step is completed.
    """
    completed = [step for step in plan.steps if step.status == "completed"]
    written = [step for step in completed if step.type != "tool_call"]
    for steps in (written, completed, plan.steps):
        for step in reversed(steps):
            if (step.result or "").strip():
                return step.result
    return None


def answer_pass(plan: Plan | None, end: PlanEnd, progress: Progress, context: PlanningContext) -> passes.Pass:
    """Return the reactive run that writes the answer and finds what is missing."""
    given, options = context.input, context.input.config.strategies.reactive
    task, instructions, is_done = given.task_description, "", False
    if plan is not None:
        is_done = end.reached and all(step.status == "completed" for step in plan.steps)
        judged = end.reflection
        missing = judged.missing if judged is not None and not end.reached else ()
        if is_done and (undone := _call_missing(best_so_far(plan) or "", progress, context)):
            missing = (undone,)
        task = change_content(plan, progress, context, missing, progress.tool_results)
        left = passes.calls_left_of_run(progress, given, context.services)
        with_tools = any(left.get(tool.name, 1) for tool in context.tools)
        instructions = answer_instructions(with_tools=with_tools)
    return passes.Pass(
        f"{NAME}:answer",
        "answer.",
        task,
        options.max_iterations,
        instructions=instructions,
        needs=None if is_done else context.needs,
        temperature=options.temperature,
        user_task=given.task_description,
    )
