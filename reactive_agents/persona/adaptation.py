"""Adaptation of a plan after a step: continue, use a contingency, replan or abort.

The decision is a pure function of the plan and the step's outcome; replanning is the only model call. The
kind of error selects the contingency. It comes from the error's class, or from its message if the class does
not determine it.
"""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure

from reactive_agents.core import errors, results
from reactive_agents.core.personas import ErrorKind, PersonaPlan, PlanAdjustment, StepOutcome
from reactive_agents.kernel.policies.limits import BUDGET, budget_refusal
from reactive_agents.persona import plan_changes
from reactive_agents.persona.cycle import Cycle, add_thought
from reactive_agents.persona.prompts import REPLANNING, replanning_content
from reactive_agents.reasoning.structured_output.question import Question


def decide_adjustment(plan: PersonaPlan, outcome: StepOutcome, *, max_replans: int) -> PlanAdjustment:
    """Decide how the plan continues after a step.

    After a success: ``CONTINUE``. After a failure for which the plan has a contingency: ``CONTINGENCY``, with
    its steps inserted after the failed one. After another failure: ``REPLAN``, at most ``max_replans`` times
    for a plan; then ``ABORT``. A step whose budget is used up aborts at once: all else would cost more.
    """
    title = plan_changes.step_of(plan, outcome.step_id).title
    if outcome.success:
        return PlanAdjustment(
            "CONTINUE", plan_changes.complete_step(plan, outcome), f"Step {outcome.step_id} succeeded."
        )
    failed = plan_changes.fail_step(plan, outcome)
    kind = classify_failure(outcome)
    if _is_out_of_budget(outcome.error):
        message = "" if outcome.error is None else outcome.error.message
        reasoning = f"Step {outcome.step_id} ({title}) ended with its budget used up; aborting. {message}"
        return PlanAdjustment("ABORT", failed, reasoning, kind)
    contingency = plan_changes.usable_contingency(plan, outcome.step_id, kind)
    if contingency is not None:
        count = len(contingency.actions)
        reasoning = f"Step {outcome.step_id} failed ({kind}); the contingency has {count} step(s)."
        recovered = plan_changes.insert_contingency(failed, outcome.step_id, contingency, outcome.at)
        return PlanAdjustment("CONTINGENCY", recovered, reasoning, kind)
    if plan.attempts < max_replans:
        reasoning = (
            f"Step {outcome.step_id} ({title}) failed ({kind}), and the plan has no contingency for it; "
            f"replanning, attempt {plan.attempts + 1} of {max_replans}."
        )
        return PlanAdjustment("REPLAN", failed, reasoning, kind)
    reasoning = f"Step {outcome.step_id} ({title}) failed ({kind}) after {plan.attempts} new plans; aborting."
    if outcome.error is not None:
        reasoning = f"{reasoning} {outcome.error.message}"
    return PlanAdjustment("ABORT", failed, reasoning, kind)


def _is_out_of_budget(error: errors.StepErrors | None) -> bool:
    if isinstance(error, errors.StepIncomplete):
        return error.terminated_by == BUDGET
    return isinstance(error, errors.ExecutionError) and budget_refusal(error) is not None


_OF_STATUS: dict[int | None, ErrorKind] = {
    401: "access_denied",
    403: "access_denied",
    404: "missing_resource",
    408: "timeout",
    429: "rate_limit",
}
_EXCEPTIONS: dict[ErrorKind, str] = {
    "timeout": "TimeoutError",
    "missing_resource": "FileNotFoundError NotADirectoryError LookupError KeyError",
    "access_denied": "PermissionError",
    "network": "ConnectionError ConnectionRefusedError ConnectionResetError BrokenPipeError gaierror",
}
_OF_EXCEPTION: dict[str, ErrorKind] = {
    name: kind for kind, names in _EXCEPTIONS.items() for name in names.split()
}
_WORDS: tuple[tuple[ErrorKind, tuple[str, ...]], ...] = (
    ("rate_limit", ("rate limit", "too many requests", "429")),
    ("timeout", ("timeout", "timed out", "time limit", "did not end within")),
    ("network", ("network", "connection", "unreachable", "dns")),
    ("missing_resource", ("not found", "no such", "does not exist", "there is no", "404")),
    ("access_denied", ("permission", "unauthorized", "forbidden", "denied", "not approved", "is refused")),
)


def classify_failure(outcome: StepOutcome) -> ErrorKind:
    """Classify the error of a failed step; ``unknown`` when nothing identifies it."""
    match outcome.error:
        case None:
            return classify_message(outcome.detail)
        case errors.StepTimedOut() | errors.StepIncomplete(terminated_by=results.DEADLINE):
            return "timeout"
        case errors.StepIncomplete(terminated_by=results.NOT_APPROVED):  # the reason is a person's
            return "access_denied"
        case errors.StepIncomplete(reason=reason):
            return classify_message(f"{outcome.detail}\n{reason}")
        case error:
            return _kind_of(errors.root_cause(error), outcome.detail)


def _kind_of(cause: object, detail: str) -> ErrorKind:
    match cause:
        case errors.ModelTimeout() | errors.ToolTimedOut():
            return "timeout"
        case errors.RateLimited():
            return "rate_limit"
        case errors.ToolNotFound() | errors.StrategyNotFoundError() | errors.ServiceMissing():
            return "missing_resource"
        case (
            errors.WorkspaceViolation()
            | errors.AddressRefused()
            | errors.ToolNotApproved()
            | errors.ToolNotAnswered()
            | errors.AuthenticationFailed()
            | errors.GuardrailViolationError()
        ):
            return "access_denied"
        case errors.ModelUnavailable() | errors.RequestRejected() if cause.status in _OF_STATUS:
            return _OF_STATUS[cause.status]
        case errors.ModelUnavailable():
            return "network"
        case errors.ToolFailed(exception=exception) if exception in _OF_EXCEPTION:
            return _OF_EXCEPTION[exception]
    return classify_message(f"{getattr(cause, 'message', '')}\n{detail}")


def classify_message(text: str) -> ErrorKind:
    """Classify an error by its message.

    >>> classify_message("HTTP 429: Too Many Requests")
    'rate_limit'
    >>> classify_message("Something odd happened.")
    'unknown'
    """
    folded = text.casefold()
    for kind, words in _WORDS:
        if any(word in folded for word in words):
            return kind
    return "unknown"


FAILURE_IMPORTANCE = 0.8


async def adjust_plan(plan: PersonaPlan, outcome: StepOutcome, cycle: Cycle) -> PlanAdjustment:
    """Decide how the plan continues after a step, and replan with the model if needed.

    If the model returns no usable plan, the task is tried in a single step. That also counts as one of at
    most ``max_replans`` new plans.
    """
    decided = decide_adjustment(plan, outcome, max_replans=cycle.settings.max_replans)
    if outcome.success:
        return decided
    error = outcome.error.message if outcome.error is not None else outcome.detail
    failure = f"Step failed in the plan for {plan.plan.goal!r} ({decided.error_kind}): {error}"
    await add_thought(plan, "observation", failure, FAILURE_IMPORTANCE, cycle)
    if decided.action != "REPLAN":
        return decided
    content = replanning_content(decided.plan, outcome, tools=cycle.domain.tool_names())
    question = Question(plan_changes.plan_shape(), REPLANNING, content, "persona-replan")
    answered = await cycle.ask("replan", question, plan.task.description)
    now = cycle.services.clock.now()
    if isinstance(answered, Failure):
        single_step = plan_changes.replace_open_steps(decided.plan, [(plan.task.description, "")], now)
        reasoning = f"{decided.reasoning} Replanning failed: {answered.failure().message} Trying in one step."
        return evolve(decided, plan=single_step, reasoning=reasoning)
    draft = answered.unwrap().value
    replanned = plan_changes.replace_open_steps(decided.plan, draft.actions(), now).with_plan(goal=draft.goal)
    return evolve(decided, plan=plan_changes.with_draft(replanned, draft))
