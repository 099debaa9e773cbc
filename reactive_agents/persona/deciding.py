"""How a plan goes on after a step: pure decisions, so that planning anew is the only effect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from reactive_agents.core.persona_config import EngagementPolicy
from reactive_agents.core.personas import (
    DomainEvent,
    EngagementDecision,
    PersonaPlan,
    PlanAdjustment,
    StepOutcome,
)
from reactive_agents.persona.classification import classify_failure
from reactive_agents.persona.plan_changes import (
    complete_step,
    fail_step,
    insert_contingency,
    step_of,
    usable_contingency,
)


def decide_adjustment(plan: PersonaPlan, outcome: StepOutcome, *, max_replans: int) -> PlanAdjustment:
    """What follows from a step's outcome.

    A step that worked: ``CONTINUE``. One that failed in a way that the plan foresaw: ``CONTINGENCY``, its
    steps inserted after the failed one. Otherwise ``REPLAN``, with the plan as it has to be made anew, until
    it was made anew ``max_replans`` times; then ``ABORT``.
    """
    title = step_of(plan, outcome.step_id).title
    if outcome.success:
        return PlanAdjustment("CONTINUE", complete_step(plan, outcome), f"Step {outcome.step_id} worked.")
    failed = fail_step(plan, outcome)
    kind = classify_failure(outcome)
    contingency = usable_contingency(plan, outcome.step_id, kind)
    if contingency is not None:
        count = len(contingency.actions)
        reasoning = f"Step {outcome.step_id} failed ({kind}); the plan has {count} step(s) for that."
        recovered = insert_contingency(failed, outcome.step_id, contingency, outcome.at)
        return PlanAdjustment("CONTINGENCY", recovered, reasoning, kind)
    if plan.attempts < max_replans:
        reasoning = (
            f"Step {outcome.step_id} ({title}) failed ({kind}), and the plan has nothing for that; "
            f"planning anew, attempt {plan.attempts + 1} of {max_replans}."
        )
        return PlanAdjustment("REPLAN", failed, reasoning, kind)
    reasoning = (
        f"Step {outcome.step_id} ({title}) failed ({kind}) after {plan.attempts} new plans; giving up."
    )
    return PlanAdjustment("ABORT", failed, reasoning, kind)


def should_engage(
    event: DomainEvent,
    *,
    name: str,
    policy: EngagementPolicy,
    recent: Sequence[datetime],
    now: datetime,
    handled: bool,
) -> EngagementDecision:
    """Whether a persona takes up an event.

    Args:
        name: the persona's own; what it said itself it does not answer.
        recent: when it took up events of the same context.
        handled: whether it has a plan for this very event that came to its end.
    """
    if event.author == name:
        return EngagementDecision(False, "It is an event of my own.")
    if event.author in policy.ignored_authors:
        return EngagementDecision(False, f"Events by {event.author} are ignored.")
    if handled:
        return EngagementDecision(False, "It was handled already.")
    if event.priority < policy.min_priority:
        limit = policy.min_priority
        return EngagementDecision(False, f"Its priority {event.priority:g} is below {limit:g}.")
    begin = now - timedelta(seconds=policy.window_s)
    count = sum(moment > begin for moment in recent)
    if count >= policy.max_events:
        return EngagementDecision(
            False, f"{count} events of this context were taken up within {policy.window_s:g} seconds."
        )
    return EngagementDecision(True, "It is for me, and there is room for it.")
