"""Drafts of plans and evaluations that a model fills in, and their conversion."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, max_len, min_len

from reactive_agents.core.ids import AgentId, LearningId, PersonaId, PlanId
from reactive_agents.core.personas import (
    Contingency,
    CriterionVerdict,
    DomainEvent,
    ErrorKind,
    Evaluation,
    PersonaPlan,
    PersonaTask,
    PlanSource,
)
from reactive_agents.core.plans import Plan
from reactive_agents.persona.plan_changes import new_steps
from reactive_agents.reasoning.structured_output import Shape, shape_of

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

    error: ErrorKind
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
    """

    goal: str = field(validator=_text)
    steps: tuple[StepDraft, ...] = field(validator=and_(min_len(1), max_len(MOST_STEPS)))
    success_criteria: tuple[str, ...] = field(validator=and_(min_len(1), max_len(MOST_ITEMS)))
    learnings: tuple[str, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    follows: tuple[int, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    risks: tuple[str, ...] = field(default=(), validator=max_len(MOST_ITEMS))
    contingencies: tuple[ContingencyDraft, ...] = field(default=(), validator=max_len(MOST_ITEMS))

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


def plan_of(
    task: PersonaTask,
    event: DomainEvent,
    *,
    plan_id: PlanId,
    persona_id: PersonaId,
    goal: str,
    actions: Sequence[tuple[str, str]],
    source: PlanSource,
    now: datetime,
) -> PersonaPlan:
    """Return an active plan of these actions, without risks and contingencies."""
    plan = Plan(
        id=plan_id,
        task_id=task.id,
        agent_id=AgentId(persona_id),
        goal=goal,
        mode="linear",
        steps=new_steps(actions),
        status="active",
        version=1,
        created_at=now,
        updated_at=now,
    )
    return PersonaPlan(plan, persona_id, task, event, source)


def with_draft(plan: PersonaPlan, draft: PlanDraft, follows: Sequence[LearningId]) -> PersonaPlan:
    """Return the plan with the parts of a draft besides its steps.

    Args:
        follows: the learned patterns that the plan follows.
    """
    return evolve(
        with_large_steps(plan, draft, [step.id for step in plan.plan.steps]),
        learnings=draft.learnings,
        follows=tuple(follows),
        risks=draft.risks,
        contingencies=contingencies_of(draft),
        success_criteria=draft.success_criteria,
    )


def with_large_steps(plan: PersonaPlan, draft: PlanDraft, ids: Sequence[str]) -> PersonaPlan:
    """Return the plan with the draft's large steps marked.

    ``ids``: those of the draft's steps, in order.
    """
    large = {step_id for step_id, step in zip(ids, draft.steps, strict=True) if step.large}
    return evolve(plan, large_steps=plan.large_steps | large)


def contingencies_of(draft: PlanDraft) -> tuple[Contingency, ...]:
    """Return one contingency for each kind of error: the first in the draft."""
    by_kind: dict[ErrorKind, Contingency] = {}
    for each in draft.contingencies:
        by_kind.setdefault(each.error, Contingency(each.error, each.actions))
    return tuple(by_kind.values())


def evaluation_of(plan: PersonaPlan, draft: EvaluationDraft, now: datetime) -> Evaluation:
    """Return the evaluation that a draft describes.

    A criterion without an entry was not met.
    """
    entries = {each.number: each for each in reversed(draft.criteria)}
    verdicts = tuple(
        CriterionVerdict(criterion, entries[number].met, entries[number].evidence)
        if number in entries
        else CriterionVerdict(criterion, False, "The evaluation has no entry for it.")
        for number, criterion in enumerate(plan.success_criteria, 1)
    )
    expanded = {each.step_id for each in plan.expansions}
    completed = [step for step in plan.plan.steps if step.status == "completed" and step.id not in expanded]
    return Evaluation(
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
