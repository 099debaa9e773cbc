"""Carrying out the decision on how a plan goes on; planning anew is the one model call of it."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure

from reactive_agents.core.personas import PersonaPlan, PlanAdjustment, StepOutcome
from reactive_agents.effects import attempt
from reactive_agents.persona.cycle import Cycle
from reactive_agents.persona.deciding import decide_adjustment
from reactive_agents.persona.drafts import contingencies_of, plan_shape, with_large_steps
from reactive_agents.persona.plan_changes import replace_open_steps
from reactive_agents.persona.prompts import REPLANNING, replanning_content
from reactive_agents.persona.thinking import keep_thought
from reactive_agents.reasoning.structured import Question, ask_structured

FAILURE_IMPORTANCE = 0.8


async def adjust_plan(plan: PersonaPlan, outcome: StepOutcome, cycle: Cycle) -> PlanAdjustment:
    """How the plan goes on after a step, with the plan that it goes on with.

    When the model gives no usable new plan, the task itself is tried in one step: that counts as a new plan
    too, so a plan ends after at most ``max_replans`` of them.
    """
    decided = decide_adjustment(plan, outcome, max_replans=cycle.settings.max_replans)
    if outcome.success:
        return decided
    error = outcome.error.message if outcome.error is not None else outcome.detail
    failure = f"Step failed in the plan for {plan.plan.goal!r} ({decided.error_kind}): {error}"
    await keep_thought(plan, "observation", failure, FAILURE_IMPORTANCE, cycle)
    if decided.action != "REPLAN":
        return decided
    content = replanning_content(decided.plan, outcome, tools=cycle.domain.tool_names())
    question = Question(
        plan_shape(),
        REPLANNING,
        content,
        "persona-replan",
        model=cycle.settings.planning_model,
    )
    asking = cycle.asking(plan.task.description, cycle.settings.timeouts.planning_s)
    answered = await attempt(ask_structured(question, *asking))
    now = cycle.services.clock.now()
    if isinstance(answered, Failure):
        await cycle.fail_stage("replan", answered.failure())
        whole = replace_open_steps(decided.plan, [(plan.task.description, "")], now)
        said = f"{decided.reasoning} No new plan came: {answered.failure().message} Trying in one step."
        return evolve(decided, plan=whole, reasoning=said)
    draft = answered.unwrap().value
    replanned = replace_open_steps(decided.plan, draft.actions(), now).with_plan(goal=draft.goal)
    recovered = evolve(
        replanned,
        risks=draft.risks,
        contingencies=contingencies_of(draft),
        success_criteria=draft.success_criteria,
    )
    ids = [step.id for step in recovered.plan.steps[-len(draft.steps) :]]
    return evolve(decided, plan=with_large_steps(recovered, draft, ids))
