"""Planning: a plan for a task, for its large steps, and after a failed step.

A plan comes from a matching template, from an earlier plan for a similar task, or from the model, in this
order, because the first two cost nothing. If the model returns no valid plan, the task is a single step, so
that every event is answered.

How a plan continues after a step (continue, use a contingency, replan or abort) is a pure function of the
plan and the step's outcome; replanning is the only model call. The kind of error selects the contingency. It
comes from the error's class, or from its message if the class does not determine it.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from attrs import evolve, frozen
from returns.result import Failure

from reactive_agents.core import errors, results
from reactive_agents.core.ids import AgentId, LearningId, PlanId, TaskId
from reactive_agents.core.persona_events import PersonaStepExpanded
from reactive_agents.core.personas import (
    DomainEvent,
    ErrorKind,
    LearningEntry,
    PersonaPlan,
    PersonaTask,
    PlanAdjustment,
    PlanSource,
    SelfState,
    StepOutcome,
)
from reactive_agents.core.plans import Plan, PlanStep
from reactive_agents.core.texts import word_similarity, words_of
from reactive_agents.kernel.policies.limits import BUDGET, budget_refusal
from reactive_agents.persona import plan_changes
from reactive_agents.persona.cycle import Cycle, add_thought
from reactive_agents.persona.domain import matching_template
from reactive_agents.persona.learnings import (
    choose_measure,
    is_refuted,
    most_similar,
    select_learnings,
    select_warnings,
    topic_of,
)
from reactive_agents.persona.prompts import (
    EXPANDING,
    PLANNING,
    REPLANNING,
    expansion_content,
    planning_content,
    replanning_content,
)
from reactive_agents.reasoning.structured_output.question import Question

REACTIVE_CRITERION = "The answer does what was asked."


@frozen
class FormulatedPlan:
    """A plan with its origin.

    Attributes:
        reason: the origin of the plan, in a sentence.
        shown: the learnings in the planning prompt.
        warnings: the warnings in the planning prompt.
        corrects: whether the event says that the last answer to its author was wrong.
    """

    plan: PersonaPlan
    reason: str
    shown: tuple[LearningEntry, ...] = ()
    corrects: bool = False
    warnings: tuple[LearningEntry, ...] = ()


async def formulate_plan(task: PersonaTask, event: DomainEvent, cycle: Cycle) -> FormulatedPlan:
    """Return a plan for the task; a single step, with the reason, if planning fails.

    Needs no model call for a template that matches the event, or to reuse a completed plan of the same domain
    for a similar task.
    """
    if not cycle.reasons:
        return FormulatedPlan(_reactive_plan(task, event, cycle), "Planning is switched off.")
    template = matching_template(cycle.domain.templates, event.content)
    if template is not None:
        plan = _new_plan(
            task,
            event,
            cycle,
            goal=template.goal,
            actions=[(step.action, step.expected) for step in template.steps],
            source="template",
            contingencies=template.contingencies,
            success_criteria=template.success_criteria or (REACTIVE_CRITERION,),
            derived_from=template.name,
        )
        return FormulatedPlan(plan, f"Template {template.name} matches.")
    reused = await _reused_plan(task, event, cycle)
    if reused is not None:
        return reused
    shown, warnings, state = await _recall(task, cycle)
    content = planning_content(
        task,
        event,
        thoughts=cycle.thoughts,
        learnings=shown,
        warnings=warnings,
        state=state,
        tools=cycle.domain.tool_names(),
        now=cycle.local_time,
    )
    question = Question(plan_changes.plan_shape(), PLANNING, content, "persona-plan")
    answered = await cycle.ask("plan", question, task.description)
    if isinstance(answered, Failure):
        reason = f"Planning failed, so the event is answered without a plan: {answered.failure().message}"
        return FormulatedPlan(_reactive_plan(task, event, cycle), reason, shown, warnings=warnings)
    draft, attempts = answered.unwrap().value, answered.unwrap().attempts
    plan = _new_plan(
        task,
        event,
        cycle,
        goal=draft.goal,
        actions=draft.actions(),
        source="model",
        learnings=draft.learnings,
        follows=followed_learnings(draft, shown, same_above=cycle.settings.learning.merge_above),
    )
    reason = f"Planned by the model in {attempts} attempt(s), with {len(shown)} learned pattern(s)."
    return FormulatedPlan(plan_changes.with_draft(plan, draft), reason, shown, draft.corrects, warnings)


def followed_learnings(
    draft: plan_changes.PlanDraft, shown: Sequence[LearningEntry], *, same_above: float
) -> tuple[LearningId, ...]:
    """Return the shown patterns that a draft names by number or restates.

    Args:
        shown: the learned patterns in the order of their numbers.
        same_above: 0 to 1; a stated learning with more similarity to a pattern restates it.
    """
    return tuple(
        learning.id
        for number, learning in enumerate(shown, 1)
        if number in draft.follows
        or any(word_similarity(stated, learning.pattern) > same_above for stated in draft.learnings)
    )


async def _recall(
    task: PersonaTask, cycle: Cycle
) -> tuple[tuple[LearningEntry, ...], tuple[LearningEntry, ...], SelfState]:
    settings, store = cycle.settings, cycle.services.store
    learnings: tuple[LearningEntry, ...] = ()
    warnings: tuple[LearningEntry, ...] = ()
    if settings.learning.enabled:
        known = [each for each in await cycle.learnings() or () if not each.rejected]
        measure = await choose_measure(task.description, [topic_of(each) for each in known], cycle)
        now, policy = cycle.services.clock.now(), settings.learning
        similarity = measure.similarity
        learnings = select_learnings(known, now, policy, task=task.description, similarity=similarity)
        warnings = select_warnings(known, policy, task=task.description, similarity=similarity)
    state = await cycle.attempt_or("recall", store.get_self_state(cycle.room), SelfState(cycle.room))
    return learnings, warnings, state


async def _reused_plan(task: PersonaTask, event: DomainEvent, cycle: Cycle) -> FormulatedPlan | None:
    above = cycle.settings.reuse_above
    refuted: set[TaskId] = set()
    if cycle.settings.learning.enabled:
        learnings = await cycle.learnings() or ()
        refuted = {task for each in learnings if is_refuted(each) for task in each.learned_from}
    # a plan of another room may contain private words
    proven = _proven(await cycle.plans(), task.description, refuted)
    # by words: two tasks may be close in meaning, yet need different plans
    known = most_similar(
        task.description, proven, lambda plan: plan.task.description, above=above, similarity=word_similarity
    )
    if known is None:
        return None
    completed = [step for step in known.plan.steps if step.status == "completed"]
    plan = _new_plan(
        task,
        event,
        cycle,
        goal=known.plan.goal,
        actions=[(step.instruction, step.expected_outcome) for step in completed],
        source="reused",
        learnings=known.learnings,
        follows=known.follows,
        risks=known.risks,
        contingencies=known.contingencies,
        success_criteria=known.success_criteria,
        derived_from=known.id,
    )
    similarity = word_similarity(task.description, known.task.description)
    return FormulatedPlan(plan, f"Reuses plan {known.id}, whose task is similar ({similarity:.2f}).")


def _proven(plans: Sequence[PersonaPlan], task: str, refuted: Container[TaskId]) -> list[PersonaPlan]:
    """Return the plans that may be reused for a task.

    Excludes plans whose latest reuse failed, and plans with words of the earlier task that the new task
    lacks, such as another order number.

    Args:
        refuted: the tasks of learnings that failed last or are doubted; their plans are not reused.
    """
    latest: dict[str, PersonaPlan] = {}
    by_id = {str(each.id): each for each in plans}
    for plan in plans:  # the newest first
        root = plan
        while root.derived_from in by_id:
            root = by_id[root.derived_from]
        latest.setdefault(root.derived_from or root.id, plan)
    words = set(words_of(task))
    return [
        plan
        for plan in latest.values()
        if _is_proven(plan)
        and plan.task.id not in refuted
        and not (set(words_of(plan.task.description)) - words) & _words_of(plan)
    ]


def _words_of(plan: PersonaPlan) -> set[str]:
    texts = (plan.plan.goal, *plan.success_criteria, *(each.instruction for each in plan.plan.steps))
    return {word for text in texts for word in words_of(text)}


def _is_proven(plan: PersonaPlan) -> bool:
    as_planned = plan.plan.status == "completed" and not (plan.attempts or plan.recoveries)
    return plan.source != "reactive" and plan.succeeded is not False and as_planned


def _reactive_plan(task: PersonaTask, event: DomainEvent, cycle: Cycle) -> PersonaPlan:
    return _new_plan(
        task,
        event,
        cycle,
        goal=task.description,
        actions=[(task.description, "")],
        source="reactive",
        success_criteria=(REACTIVE_CRITERION,),
    )


def _new_plan(
    task: PersonaTask,
    event: DomainEvent,
    cycle: Cycle,
    *,
    goal: str,
    actions: Sequence[tuple[str, str]],
    source: PlanSource,
    **parts: Any,
) -> PersonaPlan:
    settings, now = cycle.settings, cycle.services.clock.now()
    plan = Plan(
        id=PlanId(cycle.services.ids.new()),
        task_id=task.id,
        agent_id=AgentId(settings.id),
        goal=goal,
        mode="linear",
        steps=plan_changes.new_steps(actions),
        status="active",
        version=1,
        created_at=now,
        updated_at=now,
    )
    return PersonaPlan(plan, settings.id, task, event, source, **parts)


async def expand_large_step(plan: PersonaPlan, step: PlanStep, cycle: Cycle) -> PersonaPlan | None:
    """Plan a large step, and return the plan with the new steps in its place.

    ``None`` if the step is not large, is at the depth limit, or the model returns no valid plan for it; it is
    then executed unchanged.
    """
    settings = cycle.settings
    if step.id not in plan.large_steps or plan_changes.depth_of(plan, step.id) >= settings.max_depth:
        return None
    content = expansion_content(plan, step, tools=cycle.domain.tool_names())
    question = Question(plan_changes.plan_shape(), EXPANDING, content, "persona-plan")
    answered = await cycle.ask("plan", question, plan.task.description)
    if isinstance(answered, Failure):
        return None
    draft = answered.unwrap().value
    expanded = plan_changes.expand_step(plan, step.id, draft.actions(), cycle.services.clock.now())
    ids = expanded.expansions[-1].steps
    known = {each.kind for each in plan.contingencies}
    added_contingencies = tuple(
        each for each in plan_changes.contingencies_of(draft) if each.kind not in known
    )
    expanded = evolve(
        plan_changes.with_large_steps(expanded, draft, ids),
        contingencies=(*plan.contingencies, *added_contingencies),
    )
    await cycle.save(expanded)
    added = tuple(each for each in expanded.plan.steps if each.id in ids)
    await cycle.publish(PersonaStepExpanded, plan_id=plan.id, step_id=step.id, steps=added)
    return expanded


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
