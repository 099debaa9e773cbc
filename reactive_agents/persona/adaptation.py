"""How a plan goes on after a step: pure decisions, so that planning anew is the only effect."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from attrs import evolve
from returns.result import Failure

from reactive_agents.core.errors import (
    AddressRefused,
    AuthenticationFailed,
    GuardrailViolationError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    RequestRejected,
    ServiceMissing,
    StepIncomplete,
    StepTimedOut,
    StrategyNotFoundError,
    ToolFailed,
    ToolNotApproved,
    ToolNotFound,
    ToolTimedOut,
    WorkspaceViolation,
    root_cause,
)
from reactive_agents.core.personas import (
    DomainEvent,
    EngagementDecision,
    EngagementPolicy,
    ErrorKind,
    PersonaPlan,
    PlanAdjustment,
    StepOutcome,
)
from reactive_agents.effects import attempt
from reactive_agents.persona.cycle import Cycle, keep_thought
from reactive_agents.persona.drafts import contingencies_of, plan_shape, with_large_steps
from reactive_agents.persona.plan_changes import (
    complete_step,
    fail_step,
    insert_contingency,
    replace_open_steps,
    step_of,
    usable_contingency,
)
from reactive_agents.persona.prompts import REPLANNING, replanning_content
from reactive_agents.reasoning.structured_output import Question, ask_structured


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


# --- Classification of the error that made a step fail ---


_OF_STATUS: dict[int | None, ErrorKind] = {
    401: "access_denied",
    403: "access_denied",
    404: "missing_resource",
    408: "timeout",
    429: "rate_limit",
}
_OF_EXCEPTION: dict[str, ErrorKind] = {
    "TimeoutError": "timeout",
    "FileNotFoundError": "missing_resource",
    "NotADirectoryError": "missing_resource",
    "LookupError": "missing_resource",
    "KeyError": "missing_resource",
    "PermissionError": "access_denied",
    "ConnectionError": "network",
    "ConnectionRefusedError": "network",
    "ConnectionResetError": "network",
    "BrokenPipeError": "network",
    "gaierror": "network",
}
_WORDS: tuple[tuple[ErrorKind, tuple[str, ...]], ...] = (
    ("rate_limit", ("rate limit", "too many requests", "429")),
    ("timeout", ("timeout", "timed out", "time limit", "did not end within")),
    ("network", ("network", "connection", "unreachable", "dns")),
    ("missing_resource", ("not found", "no such", "does not exist", "there is no", "404")),
    ("access_denied", ("permission", "unauthorized", "forbidden", "denied", "not approved", "is refused")),
)


def classify_failure(outcome: StepOutcome) -> ErrorKind:
    """The kind of error that a failed step ended with. Total: what nothing is known of is ``unknown``."""
    match outcome.error:
        case None:
            return kind_of_text(outcome.detail)
        case StepTimedOut() | StepIncomplete(terminated_by="deadline"):
            return "timeout"
        case StepIncomplete(reason=reason):
            return kind_of_text(f"{outcome.detail}\n{reason}")
        case error:
            return _kind_of(root_cause(error), outcome.detail)


def _kind_of(cause: object, detail: str) -> ErrorKind:
    match cause:
        case ModelTimeout() | ToolTimedOut():
            return "timeout"
        case RateLimited():
            return "rate_limit"
        case ToolNotFound() | StrategyNotFoundError() | ServiceMissing():
            return "missing_resource"
        case (
            WorkspaceViolation()
            | AddressRefused()
            | ToolNotApproved()
            | AuthenticationFailed()
            | GuardrailViolationError()
        ):
            return "access_denied"
        case ModelUnavailable() | RequestRejected() if cause.status in _OF_STATUS:
            return _OF_STATUS[cause.status]
        case ModelUnavailable():
            return "network"
        case ToolFailed(exception=exception) if exception in _OF_EXCEPTION:
            return _OF_EXCEPTION[exception]
    return kind_of_text(f"{getattr(cause, 'message', '')}\n{detail}")


def kind_of_text(text: str) -> ErrorKind:
    """The kind of error that a message speaks of.

    >>> kind_of_text("HTTP 429: Too Many Requests")
    'rate_limit'
    >>> kind_of_text("Something odd happened.")
    'unknown'
    """
    said = text.casefold()
    for kind, words in _WORDS:
        if any(word in said for word in words):
            return kind
    return "unknown"


# --- Carrying out the decision on how a plan goes on; planning anew is the one model call of it ---


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
