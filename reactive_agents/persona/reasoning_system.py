"""Planning, adaptation and evaluation of a persona; access to its learnings."""

from __future__ import annotations

import anyio
from attrs import evolve
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.core import personas
from reactive_agents.core.errors import MemoryErrors, RecordNotFound, StructuredOutputError
from reactive_agents.core.ids import LearningId
from reactive_agents.core.persona_events import PersonaLearningChanged, PersonaOutcomeEvaluated
from reactive_agents.effects import attempt, effect
from reactive_agents.persona.adaptation import adjust_plan
from reactive_agents.persona.cycle import Cycle, PersonaServices, add_thought
from reactive_agents.persona.learnings import choose_measure, confidence_of, learn_from, present_confidence
from reactive_agents.persona.plan_changes import answer_of, evaluation_of, evaluation_shape
from reactive_agents.persona.planning import FormulatedPlan, formulate_plan
from reactive_agents.persona.prompts import EVALUATING, evaluation_content
from reactive_agents.reasoning.structured_output import Question

REFLECTION_IMPORTANCE = 0.9


async def evaluate_outcome(
    plan: personas.PersonaPlan, cycle: Cycle
) -> Result[personas.Evaluation, StructuredOutputError]:
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
    await cycle.save(evaluated)
    await cycle.publish(PersonaOutcomeEvaluated, evaluation=evaluation)
    if evaluation.pattern:
        reflection = f"Learned: {evaluation.pattern}"
        await add_thought(plan, "self-reflection", reflection, REFLECTION_IMPORTANCE, cycle)
    return Success(evaluation)


async def update_learnings(plan: personas.PersonaPlan, evaluation: personas.Evaluation, cycle: Cycle) -> None:
    """Update the learnings of the domain from an evaluation.

    It reads what it writes back, so only one call may run at a time.
    """
    settings, services = cycle.settings, cycle.services
    room = plan.room
    listed = services.store.list_learnings(settings.id, domain=room.domain, tenant=room.tenant)
    known = await cycle.attempt_or("learn", listed, None)
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


# --- the reasoning system -------------------------------------------------------------------------------

MOST_PREOCCUPATIONS = 3


class PersonaReasoningSystem:
    """The reasoning of a persona: planning, adaptation, evaluation and learning."""

    def __init__(self, settings: personas.PersonaSettings, services: PersonaServices) -> None:
        self.settings = settings
        self._services = services
        self._changing = anyio.Lock()  # learnings and self state are read and written back

    async def formulate_plan(
        self, task: personas.PersonaTask, event: personas.DomainEvent, cycle: Cycle
    ) -> FormulatedPlan:
        """Formulate a plan; see :func:`reactive_agents.persona.planning.formulate_plan`."""
        return await formulate_plan(task, event, cycle)

    async def adjust_plan(
        self, plan: personas.PersonaPlan, outcome: personas.StepOutcome, cycle: Cycle
    ) -> personas.PlanAdjustment:
        """Adjust a plan after a step.

        See :func:`reactive_agents.persona.adaptation.adjust_plan`.
        """
        return await adjust_plan(plan, outcome, cycle)

    async def evaluate_outcome(
        self, plan: personas.PersonaPlan, cycle: Cycle
    ) -> Result[personas.Evaluation, StructuredOutputError]:
        """Evaluate a plan that ended, and update learnings and self state from it.

        Fails with ``StructuredOutputError`` when the model gives no evaluation; nothing is learned then.
        """
        evaluated = await evaluate_outcome(plan, cycle)
        if isinstance(evaluated, Failure):
            return evaluated
        evaluation = evaluated.unwrap()
        async with self._changing:
            if self.settings.learning.enabled:
                await update_learnings(plan, evaluation, cycle)
        await self.update_state(cycle, mistakes=evaluation.mistakes)
        return evaluated

    async def update_state(
        self,
        cycle: Cycle,
        *,
        focus: str | None = None,
        load: float | None = None,
        mistakes: tuple[str, ...] = (),
    ) -> None:
        """Change the self state of the persona in the room.

        Arguments that are not given leave their field unchanged.

        Args:
            load: 0 to 1.
            mistakes: recent mistakes, newest first; the last few are kept as preoccupations.
        """
        store = self._services.store
        async with self._changing:
            known = await cycle.attempt_or("recall", store.get_self_state(cycle.room), None)
            if known is None:
                return
            changed = evolve(
                known,
                focus=known.focus if focus is None else focus,
                cognitive_load=known.cognitive_load if load is None else load,
                preoccupations=tuple(dict.fromkeys((*mistakes, *known.preoccupations)))[:MOST_PREOCCUPATIONS],
            )
            if changed != known:
                await cycle.attempt_or("record", store.save_self_state(changed), None)

    # --- introspection ----------------------------------------------------------------------------------

    @effect
    async def current_plan(self) -> Result[Maybe[personas.PersonaPlan], MemoryErrors]:
        """Return the newest active plan, or ``Nothing``. Fails with ``MemoryUnavailable``."""
        listed = self._services.store.list_plans(self.settings.id, status="active", limit=1)
        found = await attempt(listed)
        return found.map(lambda plans: Maybe.from_optional(plans[0] if plans else None))

    @effect
    async def learnings(
        self, domain: personas.Domain | None = None, *, min_confidence: float = 0.0
    ) -> Result[tuple[personas.LearningEntry, ...], MemoryErrors]:
        """Return the learnings with their present confidence, the most confident first.

        Fails with ``MemoryUnavailable``.
        """
        listed = await attempt(self._services.store.list_learnings(self.settings.id, domain=domain))
        now, policy = self._services.clock.now(), self.settings.learning

        def trusted(known: tuple[personas.LearningEntry, ...]) -> tuple[personas.LearningEntry, ...]:
            present = [evolve(each, confidence=present_confidence(each, now, policy)) for each in known]
            present.sort(key=lambda each: (-each.confidence, -each.use_count))
            return tuple(each for each in present if each.confidence >= min_confidence)

        return listed.map(trusted)

    @effect
    async def delete_learning(self, learning_id: LearningId) -> Result[None, RecordNotFound | MemoryErrors]:
        """Delete a learning. Fails with ``RecordNotFound``, or with ``MemoryUnavailable``."""
        async with self._changing:
            found = await self._own_learning(learning_id)
            if isinstance(found, Failure):
                return found
            deleted = await attempt(self._services.store.delete_learning(learning_id))
            return deleted.map(lambda _: None)

    @effect
    async def override_learning(
        self,
        learning_id: LearningId,
        *,
        confidence: float | None = None,
        pattern: str | None = None,
    ) -> Result[personas.LearningEntry, RecordNotFound | MemoryErrors]:
        """Set a learning by hand, which pins it; without any value it is unpinned.

        Fails with ``RecordNotFound``, or with ``MemoryUnavailable``.

        Args:
            confidence: 0 to 1; below the policy's ``min_confidence`` the learning is not shown to plans.

        Raises:
            ValueError: ``confidence`` is out of its range.
        """
        async with self._changing:
            found = await self._own_learning(learning_id)
            if isinstance(found, Failure):
                return found
            known = found.unwrap()
            pinned = confidence is not None or pattern is not None
            kept = known.confidence if pinned else confidence_of(known.success_count, known.failure_count)
            changed = evolve(
                known,
                pattern=known.pattern if pattern is None else pattern,
                confidence=kept if confidence is None else confidence,
                pinned=pinned,
            )
            saved = await attempt(self._services.store.save_learning(changed))
            return saved.map(lambda _: changed)

    async def _own_learning(
        self, learning_id: LearningId
    ) -> Result[personas.LearningEntry, RecordNotFound | MemoryErrors]:
        found = await attempt(self._services.store.get_learning(learning_id))
        if isinstance(found, Failure):
            return Failure(found.failure())
        learning = found.unwrap().value_or(None)
        if learning is None or learning.persona_id != self.settings.id:
            return Failure(RecordNotFound("learning", learning_id))
        return Success(learning)
