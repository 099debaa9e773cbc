"""Evaluation of a plan that ended, and the update of learnings from it."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import StructuredOutputError
from reactive_agents.core.ids import LearningId
from reactive_agents.core.persona_events import PersonaLearningChanged, PersonaOutcomeEvaluated
from reactive_agents.core.personas import Evaluation, PersonaPlan
from reactive_agents.persona.cycle import Cycle, add_thought
from reactive_agents.persona.drafts import evaluation_of, evaluation_shape
from reactive_agents.persona.learnings import choose_measure, learn_from
from reactive_agents.persona.plan_changes import answer_of
from reactive_agents.persona.prompts import EVALUATING, evaluation_content
from reactive_agents.reasoning.structured_output import Question

REFLECTION_IMPORTANCE = 0.9


async def evaluate_outcome(plan: PersonaPlan, cycle: Cycle) -> Result[Evaluation, StructuredOutputError]:
    """Evaluate a plan that ended, criterion by criterion, and record the evaluation.

    Fails with ``StructuredOutputError`` when the model gives none; the plan then stays unevaluated.
    """
    question = Question(
        evaluation_shape(), EVALUATING, evaluation_content(plan, answer_of(plan)), "persona-evaluate"
    )
    answered = await cycle.ask("evaluate", question, plan.task.description)
    if isinstance(answered, Failure):
        return answered
    evaluation = evaluation_of(plan, answered.unwrap().value, cycle.services.clock.now())
    evaluated = evolve(plan, succeeded=evaluation.meets_criteria)
    await cycle.attempt_or("record", cycle.services.store.save_plan(evaluated), None)
    await cycle.publish(PersonaOutcomeEvaluated, evaluation=evaluation)
    if evaluation.pattern:
        reflection = f"Learned: {evaluation.pattern}"
        await add_thought(plan, "self-reflection", reflection, REFLECTION_IMPORTANCE, cycle)
    return Success(evaluation)


async def update_learnings(plan: PersonaPlan, evaluation: Evaluation, cycle: Cycle) -> None:
    """Update the learnings of the domain from an evaluation.

    It reads what it writes back, so only one call may run at a time.
    """
    settings, services = cycle.settings, cycle.services
    known = await cycle.attempt_or(
        "learn", services.store.list_learnings(settings.id, domain=plan.domain), None
    )
    if known is None:
        return
    patterns = [each.pattern for each in known] if evaluation.pattern else []
    measure = await choose_measure(evaluation.pattern, patterns, cycle)
    updates = learn_from(
        plan,
        evaluation,
        known,
        new_id=LearningId(services.ids.new()),
        policy=settings.learning,
        measure=measure,
    )
    for update in updates:
        learning = update.learning
        if update.change == "dropped":
            await cycle.attempt_or("learn", services.store.delete_learning(learning.id), False)
        else:
            await cycle.attempt_or("learn", services.store.save_learning(learning), None)
        await cycle.publish(PersonaLearningChanged, learning=learning, change=update.change)
