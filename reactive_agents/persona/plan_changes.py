"""Pure changes of a plan's steps; plans and evaluations from model drafts.

No step is lost, and completed ones stay completed.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, max_len, min_len

from reactive_agents.core import personas
from reactive_agents.core.plans import PlanStatus, PlanStep
from reactive_agents.core.texts import shortened
from reactive_agents.reasoning.planning.schemas import next_number
from reactive_agents.reasoning.structured_output.schema import Shape, shape_of

RECOVERY_OUTCOME = "Recovery from the failure."


def new_steps(actions: Sequence[tuple[str, str]], *, after: Sequence[PlanStep] = ()) -> tuple[PlanStep, ...]:
    """Return pending steps for actions and their outcomes, with new ids."""
    return tuple(
        PlanStep(
            f"s{number}",
            number,
            shortened(" ".join(action.split()), 80),
            action,
            "composite",
            expected_outcome=expected,
        )
        for number, (action, expected) in enumerate(actions, next_number(after))
    )


def begin_step(plan: personas.PersonaPlan, step_id: str, now: datetime) -> personas.PersonaPlan:
    """Return the plan with the step in progress; a second time counts as a retry."""
    step = step_of(plan, step_id)
    again = step.retries + 1 if step.status == "in_progress" else step.retries
    return _with_step(plan, evolve(step, status="in_progress", started_at=now, retries=again), now)


def complete_step(plan: personas.PersonaPlan, outcome: personas.StepOutcome) -> personas.PersonaPlan:
    """Return the plan with the step completed."""
    return _with_ended_step(plan, outcome, status="completed", result=outcome.output)


def fail_step(plan: personas.PersonaPlan, outcome: personas.StepOutcome) -> personas.PersonaPlan:
    """Return the plan with the step failed; others replace it, or the plan ends."""
    error = outcome.error.message if outcome.error is not None else outcome.detail
    return _with_ended_step(plan, outcome, status="failed", result=outcome.output or None, error=error)


def usable_contingency(
    plan: personas.PersonaPlan, step_id: str, kind: personas.ErrorKind
) -> personas.Contingency | None:
    """Return the contingency for a failed step that is not part of it, or ``None``."""
    if kind in _kinds_tried(plan, step_id):
        return None
    return next((each for each in plan.contingencies if each.kind == kind and each.actions), None)


def insert_contingency(
    plan: personas.PersonaPlan, step_id: str, contingency: personas.Contingency, now: datetime
) -> personas.PersonaPlan:
    """Return the plan with the steps of a contingency inserted after the failed step."""
    actions = [(action, RECOVERY_OUTCOME) for action in contingency.actions]
    added = new_steps(actions, after=plan.plan.steps)
    place = next(index for index, step in enumerate(plan.plan.steps) if step.id == step_id) + 1
    steps = (*plan.plan.steps[:place], *added, *plan.plan.steps[place:])
    recovery = personas.Recovery(step_id, contingency.kind, tuple(step.id for step in added))
    return evolve(_with_steps(plan, steps, now), recoveries=(*plan.recoveries, recovery))


def replace_open_steps(
    plan: personas.PersonaPlan, actions: Sequence[tuple[str, str]], now: datetime
) -> personas.PersonaPlan:
    """Skip the plan's open steps, append new ones, and count one more attempt."""
    kept = _without_open(plan)
    steps = (*kept, *new_steps(actions, after=kept))
    return evolve(_with_steps(plan, steps, now), attempts=plan.attempts + 1)


def expand_step(
    plan: personas.PersonaPlan, step_id: str, actions: Sequence[tuple[str, str]], now: datetime
) -> personas.PersonaPlan:
    """Return the plan with a step completed by new ones in its place."""
    added = new_steps(actions, after=plan.plan.steps)
    place = next(index for index, step in enumerate(plan.plan.steps) if step.id == step_id)
    replaced = evolve(plan.plan.steps[place], status="completed", completed_at=now)
    steps = (*plan.plan.steps[:place], replaced, *added, *plan.plan.steps[place + 1 :])
    expansion = personas.Expansion(step_id, tuple(step.id for step in added))
    return evolve(_with_steps(plan, steps, now), expansions=(*plan.expansions, expansion))


def depth_of(plan: personas.PersonaPlan, step_id: str) -> int:
    """Return the nesting level of a step; the plan's own steps are at 1."""
    for expansion in plan.expansions:
        if step_id in expansion.steps:
            return depth_of(plan, expansion.step_id) + 1
    return 1


def end_plan(plan: personas.PersonaPlan, status: PlanStatus, now: datetime) -> personas.PersonaPlan:
    """Return the ended plan, with unreached steps skipped."""
    return _with_steps(plan, _without_open(plan), now).with_plan(status=status)


def answer_of(plan: personas.PersonaPlan) -> str:
    """Return the plan's answer: the result of its last completed step, or empty."""
    done = [step for step in plan.plan.steps if step.status == "completed"]
    return done[-1].result or "" if done else ""


def step_of(plan: personas.PersonaPlan, step_id: str) -> PlanStep:
    """Return the step with the id.

    Raises:
        KeyError: the plan has no such step.
    """
    for step in plan.plan.steps:
        if step.id == step_id:
            return step
    raise KeyError(step_id)


def _kinds_tried(plan: personas.PersonaPlan, step_id: str) -> frozenset[personas.ErrorKind]:
    for recovery in plan.recoveries:
        if step_id in recovery.steps:
            earlier = _kinds_tried(plan, recovery.failed_step)
            return earlier.union((recovery.kind,))
    return frozenset()


def _without_open(plan: personas.PersonaPlan) -> tuple[PlanStep, ...]:
    return tuple(
        evolve(step, status="skipped") if step.status in ("pending", "in_progress") else step
        for step in plan.plan.steps
    )


def _with_step(plan: personas.PersonaPlan, changed: PlanStep, now: datetime) -> personas.PersonaPlan:
    steps = tuple(changed if step.id == changed.id else step for step in plan.plan.steps)
    return plan.with_plan(steps=steps, updated_at=now)


def _with_ended_step(
    plan: personas.PersonaPlan, outcome: personas.StepOutcome, **fields: Any
) -> personas.PersonaPlan:
    step = step_of(plan, outcome.step_id)
    ended = evolve(step, tokens_used=outcome.tokens, completed_at=outcome.at, **fields)
    tokens, cost_usd = plan.plan.total_tokens + outcome.tokens, plan.plan.total_cost + outcome.cost_usd
    return _with_step(plan, ended, outcome.at).with_plan(total_tokens=tokens, total_cost=cost_usd)


def _with_steps(plan: personas.PersonaPlan, steps: Sequence[PlanStep], now: datetime) -> personas.PersonaPlan:
    numbered = tuple(evolve(step, seq=number) for number, step in enumerate(steps, 1))
    return plan.with_plan(steps=numbered, version=plan.plan.version + 1, updated_at=now)


# --- drafts of plans and evaluations that a model fills in, and their conversion ------------------------

MOST_STEPS = 12
MOST_ACTIONS = 5
MOST_ITEMS = 10

_text: Any = and_(min_len(1), max_len(2_000))


@frozen
class StepDraft:
    """One step of a plan.

    Attributes:
        action: what to do, concrete enough to be executed as it stands.
        expected: the expected result of the step.
        large: whether it is too large for one step, so that it is planned separately when it is reached.
    """

    action: str = field(validator=_text)
    expected: str = ""
    large: bool = False


@frozen
class ContingencyDraft:
    """Alternative steps for one kind of error.

    Attributes:
        error: the kind of error.
        actions: the steps that then replace the failed one.
    """

    error: personas.ErrorKind
    actions: tuple[str, ...] = field(validator=and_(min_len(1), max_len(MOST_ACTIONS)))


@frozen
class PlanDraft:
    """A plan for a task.

    Attributes:
        goal: what is to be achieved, specific and measurable.
        steps: what to do, in order.
        success_criteria: conditions that show that the goal is reached, one each.
        learnings: known facts that are relevant to the task.
        follows: the numbers of the learned patterns that the plan follows.
        risks: what could go wrong.
        contingencies: what to do when something goes wrong.
        corrects: whether the event says that your last answer to its author was wrong.
    """

    goal: str = field(validator=_text)
    steps: tuple[StepDraft, ...] = field(validator=and_(min_len(1), max_len(MOST_STEPS)))
    success_criteria: tuple[str, ...] = field(validator=and_(min_len(1), max_len(MOST_ITEMS)))
    learnings: tuple[str, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    follows: tuple[int, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    risks: tuple[str, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    contingencies: tuple[ContingencyDraft, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    corrects: bool = False

    def actions(self) -> tuple[tuple[str, str], ...]:
        """Return each step's action and expected result."""
        return tuple((step.action, step.expected) for step in self.steps)


PLAN_EXAMPLE = PlanDraft(
    goal="The user knows how to undo the last commit without losing the changes.",
    steps=(
        StepDraft("Look up in the documents how a commit is undone.", "The command and what it keeps."),
        StepDraft("Write a short answer with the command and a warning.", "An answer that can be sent."),
    ),
    success_criteria=("The answer names one command.", "The answer says that the changes are kept."),
    learnings=("Short answers with one command were well received.",),
    follows=(1,),
    risks=("The documents may be unreachable.",),
    contingencies=(ContingencyDraft("network", ("Answer from general knowledge, and say so.",)),),
)


def plan_shape() -> Shape[PlanDraft]:
    """Return the structured output of a planning call."""
    return shape_of(PlanDraft, example=PLAN_EXAMPLE)


@frozen(kw_only=True)
class CriterionDraft:
    """Whether one success criterion was met; the evidence comes before the verdict.

    Attributes:
        number: of the criterion, from 1.
        evidence: the part of the result that shows it.
        met: whether the result meets it.
    """

    number: int = field(validator=ge(1))
    evidence: str = ""
    met: bool


@frozen
class EvaluationDraft:
    """An evaluation of the outcome.

    Attributes:
        criteria: one entry for each success criterion.
        what_worked: steps or methods that helped.
        mistakes: what went wrong.
        improvements: what to do differently next time.
        pattern: one sentence that helps with similar tasks later; empty when there is nothing to learn.
    """

    criteria: tuple[CriterionDraft, ...] = field(validator=min_len(1))
    what_worked: tuple[str, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    mistakes: tuple[str, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    improvements: tuple[str, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    pattern: str = field(default="", validator=max_len(500))


EVALUATION_EXAMPLE = EvaluationDraft(
    criteria=(
        CriterionDraft(number=1, evidence="It names `git reset --soft HEAD~1`.", met=True),
        CriterionDraft(number=2, evidence="It says nothing of the changes.", met=False),
    ),
    what_worked=("Looking the command up first.",),
    mistakes=("The warning was left out.",),
    improvements=("Check the answer against each criterion before it is sent.",),
    pattern="When a user asks how to undo something in git, say what happens to their changes.",
)


def evaluation_shape() -> Shape[EvaluationDraft]:
    """Return the structured output of an evaluation call."""
    return shape_of(EvaluationDraft, example=EVALUATION_EXAMPLE)


def with_draft(plan: personas.PersonaPlan, draft: PlanDraft) -> personas.PersonaPlan:
    """Return the plan, whose last steps are those of a draft, with its other parts."""
    return evolve(
        with_large_steps(plan, draft, [step.id for step in plan.plan.steps[-len(draft.steps) :]]),
        risks=draft.risks,
        contingencies=contingencies_of(draft),
        success_criteria=draft.success_criteria,
    )


def with_large_steps(
    plan: personas.PersonaPlan, draft: PlanDraft, ids: Sequence[str]
) -> personas.PersonaPlan:
    """Mark the draft's large steps in the plan; ``ids`` are the draft's, in order."""
    large = {step_id for step_id, step in zip(ids, draft.steps, strict=True) if step.large}
    return evolve(plan, large_steps=plan.large_steps | large)


def contingencies_of(draft: PlanDraft) -> tuple[personas.Contingency, ...]:
    """Return one contingency for each kind of error: the first in the draft."""
    by_kind: dict[personas.ErrorKind, personas.Contingency] = {}
    for each in draft.contingencies:
        by_kind.setdefault(each.error, personas.Contingency(each.error, each.actions))
    return tuple(by_kind.values())


def evaluation_of(plan: personas.PersonaPlan, draft: EvaluationDraft, now: datetime) -> personas.Evaluation:
    """Return the evaluation in a draft; a criterion without an entry was not met."""
    entries = {each.number: each for each in reversed(draft.criteria)}
    verdicts = tuple(
        personas.CriterionVerdict(criterion, entries[number].met, entries[number].evidence)
        if number in entries
        else personas.CriterionVerdict(criterion, False, "The evaluation has no entry for it.")
        for number, criterion in enumerate(plan.success_criteria, 1)
    )
    expanded = {each.step_id for each in plan.expansions}
    completed = [step for step in plan.plan.steps if step.status == "completed" and step.id not in expanded]
    return personas.Evaluation(
        task_id=plan.task.id,
        plan_id=plan.id,
        meets_criteria=plan.plan.status == "completed" and all(each.met for each in verdicts),
        criteria=verdicts,
        what_worked=draft.what_worked,
        mistakes=draft.mistakes,
        improvements=draft.improvements,
        pattern=draft.pattern.strip(),
        evaluated_at=now,
        duration_ms=(plan.plan.updated_at - plan.plan.created_at).total_seconds() * 1000,
        steps_executed=len(completed),
        replans=plan.attempts,
    )
