"""Plan, execute, reflect: a plan made beforehand (Wang et al., 2023, arXiv:2305.04091), run and judged."""

from __future__ import annotations

from typing import TypeAlias

from attrs import evolve
from returns.maybe import Some
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningError, ReasoningErrors, StrategyExecutionError
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.ids import PlanId
from reactive_agents.core.plans import Plan, PlanStatus
from reactive_agents.core.results import ReasoningResult, ReasoningStatus
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel import one_shot_kernel
from reactive_agents.reasoning.passes import Pass, begin_progress, limit_reached, note_step, run_pass
from reactive_agents.reasoning.planning.context import NAME as NAME
from reactive_agents.reasoning.planning.context import Setting, setting_of
from reactive_agents.reasoning.planning.executor import NO_NEEDS
from reactive_agents.reasoning.planning.loop import End, reach_goal
from reactive_agents.reasoning.planning.plan_journal import PlanRecord, earlier_progress, resumed_plan
from reactive_agents.reasoning.planning.planner import make_plan
from reactive_agents.reasoning.planning.prompts import (
    ANSWER_INSTRUCTIONS,
    change_content,
    described,
    shown_results,
)
from reactive_agents.reasoning.planning.schemas import Reflection
from reactive_agents.reasoning.progress import Progress
from reactive_agents.reasoning.strategies import reactive
from reactive_agents.reasoning.strategy import (
    CONFIDENCE,
    Measure,
    StrategyInput,
    StrategyServices,
    begin_measure,
    profile_of,
    reasoning_result,
)

Outcome: TypeAlias = Result[ReasoningResult, ReasoningErrors]


@effect
async def plan_execute(strategy_input: StrategyInput, services: StrategyServices) -> Outcome:
    """Make a plan, run its steps, judge what they came to, and refine the plan until its goal is reached.

    A plan that the model cannot make leaves the task to the reactive strategy, and the result says so. With
    ``plan_id`` a stored plan goes on, toward the goal that it was made for. Fails with ``ReasoningError``
    when that plan cannot be had, and with ``StrategyExecutionError`` when the model fails before there is
    anything to show.
    """
    measure, progress = begin_measure(services), begin_progress(strategy_input, services)
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
    made = await make_plan(progress, setting)
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
    worked = await reach_goal(progress, record, setting)
    if isinstance(worked, Failure):
        return worked
    progress, end = worked.unwrap()
    return await conclude_plan(progress, end, record, setting)


async def _without_plan(problem: str, progress: Progress, measure: Measure, setting: Setting) -> Outcome:
    """The reactive strategy's result, which says that there was no plan; totals are those of both."""
    services = setting.services
    reason = f"{NAME} made no plan, so that the strategy {reactive.NAME} did the task: {problem}"
    events = services.kernel.events.value_or(None)
    if events is not None:
        events.publish(StrategySelected, strategy=reactive.NAME, reason=reason)
    progress = note_step(progress, "plan", reason, services, strategy=NAME, label=f"{NAME}:plan")
    outcome = await attempt(reactive.reactive(setting.input, services))
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


# --- The plan that a run begins with: a new one, or a stored one that goes on ---


async def stored_plan(plan_id: PlanId, services: StrategyServices) -> Result[Plan, ReasoningError]:
    """The plan of that id. Fails with ``ReasoningError`` when it cannot be had, with the reason."""
    store = services.plans.value_or(None)
    if store is None:
        return _unavailable(plan_id, "this agent keeps no plans: give it a memory")
    found = await attempt(store.get(plan_id))
    if isinstance(found, Failure):
        return _unavailable(plan_id, found.failure().message)
    match found.unwrap():
        case Some(plan):
            return Success(plan)
        case _:
            return _unavailable(plan_id, "there is no such plan")


def _unavailable(plan_id: PlanId, reason: str) -> Failure[ReasoningError]:
    return Failure(ReasoningError(f"The plan {plan_id!r} cannot be resumed: {reason.rstrip('.')}."))


# --- The answer that a plan comes to, and the result of its run ---


async def conclude_plan(
    progress: Progress, end: End, record: PlanRecord, setting: Setting
) -> Result[ReasoningResult, ReasoningErrors]:
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
            limit = limit_reached(setting.input, setting.services)
            by = "answer_failed" if limit is None else limit.name
            end = evolve(end, terminated_by=by, why=why, reached=False)
    output = output or best_so_far(plan)
    await record.end(_plan_status(end))
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


def _plan_status(end: End) -> PlanStatus:
    """A plan that something from outside ended stays active: it can be resumed."""
    if end.reached:
        return "completed"
    return "failed" if end.terminated_by in ("refinement_limit", "refinement_failed") else "active"


def finished_answer(plan: Plan, reflection: Reflection) -> str | None:
    """The result that is the answer already; ``None`` when it is still to be written.

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
    """What there is of an answer when none can be written any more: the last text of a model, else of a tool.

    What a failed step had come to counts when no step is completed.
    """
    completed = [step for step in plan.steps if step.status == "completed"]
    written = [step for step in completed if step.type != "tool_call"]
    for steps in (written, completed, plan.steps):
        for step in reversed(steps):
            if (step.result or "").strip():
                return step.result
    return None


def answer_pass(plan: Plan, missing: tuple[str, ...], setting: Setting) -> Pass:
    """The model call that writes the answer from the results of the steps."""
    profile = profile_of(setting.input, setting.services)
    results = shown_results(plan, profile, setting.input.settings.compression)
    return Pass(
        f"{NAME}:answer",
        "answer.",
        change_content(plan, results, missing),
        1,
        instructions=ANSWER_INSTRUCTIONS,
        allowed_tools=frozenset(),
        needs=NO_NEEDS,
        kernel=one_shot_kernel,
        kernel_type="one-shot",
        answers_by_tool=False,
    )
