"""Plan, execute, reflect (Wang et al., 2023, arXiv:2305.04091).

The strategy makes or resumes a plan, runs the planning loop over it, and writes the answer from the results.
If no plan can be made, or the plan does not reach its goal, a reactive run that is given all results so far
does the rest: so a plan that goes wrong is never worse than none. The loop, ``reach_goal``, ends when the
model judges that the results reach the goal and no required call is missing, after the configured number of
refinements, at a limit of the run, or when a judgement or refinement fails.
"""

from __future__ import annotations

from typing import TypeAlias

from attrs import evolve, frozen
from returns.maybe import Maybe, Some
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.config import Depth
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.ids import PlanId
from reactive_agents.core.plans import Plan, PlanStatus
from reactive_agents.core.results import ReasoningResult, ReasoningStatus, ReasoningStrategy, StepMetadata
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.open_requirements import describe_unmet
from reactive_agents.kernel.service_calls import call_service, definitions_in
from reactive_agents.ports import PlanStore
from reactive_agents.reasoning import passes
from reactive_agents.reasoning.confidence import BY_STATUS
from reactive_agents.reasoning.passes import Progress
from reactive_agents.reasoning.planning.context import NAME as NAME
from reactive_agents.reasoning.planning.context import (
    PlanJournal,
    PlanningContext,
    earlier_progress,
    is_answer,
    needs_left,
    planning_context,
    resumed_plan,
)
from reactive_agents.reasoning.planning.executor import execute_plan
from reactive_agents.reasoning.planning.planner import make_plan, replan, with_required_calls
from reactive_agents.reasoning.planning.prompts import (
    answer_instructions,
    change_content,
    plan_in_lines,
    reflect_instructions,
)
from reactive_agents.reasoning.planning.schemas import Reflection
from reactive_agents.reasoning.strategies import reactive
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyMeasure,
    StrategyServices,
    begin_measure,
    reasoning_result,
)
from reactive_agents.reasoning.structured_output.question import Question, ask_structured
from reactive_agents.reasoning.structured_output.schema import shape_of

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
    if end.reached:
        end = evolve(end, why=progress.with_doubts(end.why, output))
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
    elif plan is not None:
        end = evolve(end, why=progress.with_doubts(end.why, output, *(step.result for step in plan.steps)))
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
        form=context.input.answer_form,
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


REFLECTION_TOKENS: dict[Depth, int] = {"shallow": 1_500, "deep": 2_500}
"""The most tokens of one reflection."""

_EXAMPLE = Reflection(missing=("the height of Mount Kazbek",), verdict="UNSATISFIED", confidence=0.7)


async def reflect(
    plan: Plan, progress: passes.Progress, context: PlanningContext
) -> Result[Reflection, errors.StructuredOutputError]:
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
) -> Result[None, errors.StructuredOutputError]:
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
    error: errors.KernelErrors | None = None


async def reach_goal(
    progress: passes.Progress, journal: PlanJournal, context: PlanningContext
) -> Result[tuple[passes.Progress, PlanEnd], errors.ReasoningErrors]:
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
