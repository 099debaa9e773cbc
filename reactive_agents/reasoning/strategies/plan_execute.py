"""Plan, execute, reflect: a plan made beforehand (Wang et al., 2023, arXiv:2305.04091), run and judged."""

from __future__ import annotations

from typing import TypeAlias

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors
from reactive_agents.core.events import StrategySelected
from reactive_agents.core.plans import Plan
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning.passes import begin_progress, note_step
from reactive_agents.reasoning.planning.answering import conclude_plan
from reactive_agents.reasoning.planning.beginning import stored_plan
from reactive_agents.reasoning.planning.making import make_plan
from reactive_agents.reasoning.planning.prompts import described
from reactive_agents.reasoning.planning.record import PlanRecord
from reactive_agents.reasoning.planning.resuming import earlier_progress, resumed_plan
from reactive_agents.reasoning.planning.setting import NAME as NAME
from reactive_agents.reasoning.planning.setting import Setting, setting_of
from reactive_agents.reasoning.planning.working import reach_goal
from reactive_agents.reasoning.progress import Progress
from reactive_agents.reasoning.strategies import reactive
from reactive_agents.reasoning.strategy import (
    Measure,
    StrategyInput,
    StrategyServices,
    begin_measure,
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
        events.publish(StrategySelected(*events.stamp(), strategy=reactive.NAME, reason=reason))
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
