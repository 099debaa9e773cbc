"""Evaluation and learning of a persona; access to its plans and learnings."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import anyio
from attrs import evolve
from returns.maybe import Nothing
from returns.result import Failure, Result, Success

from reactive_agents.core import personas
from reactive_agents.core.errors import MemoryErrors, RecordNotFound, StructuredOutputError
from reactive_agents.core.ids import LearningId
from reactive_agents.core.persona_events import (
    PersonaLearningChanged,
    PersonaOutcomeEvaluated,
)
from reactive_agents.effects import attempt, effect
from reactive_agents.persona.cycle import (
    MOST_HEARD,
    Cycle,
    OvertakenError,
    PersonaServices,
    add_thought,
    ended_steps,
)
from reactive_agents.persona.generality import RoomWords, general_form, is_general, room_words
from reactive_agents.persona.learnings import (
    LearningUpdate,
    after_feedback,
    choose_measure,
    confidence_of,
    learn_from,
    outcomes_of,
    present_confidence,
)
from reactive_agents.persona.plan_changes import answer_of, evaluation_of, evaluation_shape
from reactive_agents.persona.prompts import EVALUATING, evaluation_content
from reactive_agents.reasoning.structured_output.question import Question

REFLECTION_IMPORTANCE = 0.9
_WAIT_S = 0.01


async def evaluate_outcome(
    plan: personas.PersonaPlan, cycle: Cycle
) -> Result[personas.Evaluation, StructuredOutputError]:
    """Evaluate a plan that ended, criterion by criterion, and record the evaluation.

    Fails with ``StructuredOutputError`` if the model returns none; the plan then stays unevaluated.
    """
    answer, calls, checked = answer_of(plan), await _calls_of(plan, cycle), None
    try:
        if plan.plan.status == "completed":  # otherwise its answer was not sent
            with anyio.fail_after(cycle.settings.timeouts.evaluation_s):
                checked = await cycle.domain.judge(plan.event, answer, calls)
    except Exception as error:  # noqa: BLE001 - a check is the user's code
        problem = f"The check failed: {type(error).__name__}: {error}"
        failed = StructuredOutputError("persona-evaluate", problem, 0)
        await cycle.fail_stage("evaluate", failed)
        return Failure(failed)
    question = Question(
        evaluation_shape(), EVALUATING, evaluation_content(plan, answer, calls), "persona-evaluate"
    )
    answered = await cycle.ask("evaluate", question, plan.task.description)
    if isinstance(answered, Failure):
        return answered
    evaluation = evaluation_of(plan, answered.unwrap().value, cycle.services.clock.now())
    current = (await cycle.attempt_or("recall", cycle.services.store.get_plan(plan.id), Nothing)).value_or(
        plan
    )
    plan = evolve(plan, feedback=current.feedback)
    evaluation = _by_evidence(evaluation, plan, calls, checked)
    evaluated = evolve(plan, succeeded=evaluation.meets_criteria)
    await cycle.save(evaluated, progress=False)  # bounds the retries of one that ends the process
    await cycle.publish(PersonaOutcomeEvaluated, evaluation=evaluation)
    if evaluation.pattern:
        reflection = f"Learned: {evaluation.pattern}"
        await add_thought(plan, "self-reflection", reflection, REFLECTION_IMPORTANCE, cycle)
    return Success(evaluation)


async def _calls_of(plan: personas.PersonaPlan, cycle: Cycle) -> tuple[personas.StepCall, ...]:
    """Return the tool calls of a plan's steps, in order."""
    return tuple(call for each in await ended_steps(plan, cycle) for call in each.calls)


def _by_evidence(
    evaluation: personas.Evaluation,
    plan: personas.PersonaPlan,
    calls: Sequence[personas.StepCall],
    checked: bool | None,
) -> personas.Evaluation:
    """Return the evaluation by the best available evidence.

    Args:
        checked: the verdict of the program's check, if any.
    """
    found: tuple[personas.EvidenceSource, bool]
    if plan.liked is not None:
        found = "users", plan.liked
    elif checked is not None:
        found = "check", checked
    elif calls and calls[-1].success is False:
        found = "calls", False
    else:
        return evaluation
    source, met = found
    return evolve(evaluation, evidence=source, meets_criteria=met and plan.plan.status == "completed")


async def update_learnings(plan: personas.PersonaPlan, evaluation: personas.Evaluation, cycle: Cycle) -> None:
    """Update the learnings of the domain from an evaluation.

    What another process changes meanwhile is read again, and nothing is learned from a plan that was deleted.

    Raises:
        OvertakenError: another process has the work, or it was deleted.
    """
    while True:
        known = await cycle.learnings("learn")
        if known is None:
            return
        patterns = [each.pattern for each in known] if evaluation.pattern else []
        measure = await choose_measure(evaluation.pattern, patterns, cycle)
        updates = learn_from(
            plan,
            evaluation,
            known,
            recent=await cycle.plans(context_id=None),
            new_id=LearningId(cycle.services.ids.new()),
            policy=cycle.settings.learning,
            measure=measure,
        )
        if await _store((*updates, *await _shared(plan, known, updates, cycle)), known, cycle):
            return


async def _store(
    updates: Sequence[LearningUpdate],
    known: Sequence[personas.LearningEntry],
    cycle: Cycle,
    plan: tuple[personas.PersonaPlan, personas.PersonaPlan] | None = None,
) -> bool:
    """Store updates of learnings, and of a plan; ``False`` if others changed these.

    Raises:
        OvertakenError: another process has the work, or it was deleted.
        UnreadableError: the store failed.
    """
    before = {each.id: each for each in known}
    after = {each.learning.id: None if each.change == "dropped" else each.learning for each in updates}
    if not after and plan is None:
        return True
    changes = [(before.get(name), learning) for name, learning in after.items()]
    pending = cycle.services.store.change_learnings(changes, cycle.claim, plan=plan)
    stored = await cycle.read(pending, None, stage="learn")
    if stored == "lost":
        raise OvertakenError
    for update in updates if stored == "stored" else ():
        await cycle.publish(PersonaLearningChanged, learning=update.learning, change=update.change)
    return stored != "stale"


async def _shared(
    plan: personas.PersonaPlan,
    known: Sequence[personas.LearningEntry],
    updates: Sequence[LearningUpdate],
    cycle: Cycle,
) -> tuple[LearningUpdate, ...]:
    """Return the new learning for every room of the tenant, if it is general.

    It then has no personal goal. Older learnings are not judged again, since the messages behind them may no
    longer be available.
    """
    created = [each.learning for each in updates if each.change == "created"]
    if cycle.settings.learning.sharing != "general" or not created:
        return ()
    words = await _words_of(plan, known, cycle)
    return tuple(
        LearningUpdate(
            evolve(each, room=None, context=each.context if is_general(each.context, words) else ""), "shared"
        )
        for each in created
        if is_general(each.pattern, words)
    )


def is_waiting(learning: personas.LearningEntry) -> bool:
    """Return whether a learning can still be approved for every room of its tenant."""
    return learning.room is not None and not learning.reviewed and not learning.rejected


_PHRASES = (
    "Plan for. Planned by the model in attempt(s), with learned pattern(s). "
    "Reuses plan, whose task is similar. "
    "Step failed in the plan for. Learned. Tool, arguments."
)
"""Words of this package in notes on a room and tool calls."""


async def _words_of(
    plan: personas.PersonaPlan, learnings: Sequence[personas.LearningEntry], cycle: Cycle
) -> RoomWords:
    settings, domain, event = cycle.settings, cycle.domain, plan.event
    heard = await cycle.read(cycle.services.store.transcript(plan.room, limit=MOST_HEARD), ())
    others = await cycle.attempt_or("learn", cycle.services.store.texts_of_other_rooms(plan.room), ())
    earlier = (*(each.content for each in heard), *(each.content for each in cycle.thoughts))
    steps, calls = plan.plan.steps, await _calls_of(plan, cycle)  # tools know more than the messages
    found = [text for each in steps for text in (each.result, each.error) if text]
    found += [text for each in calls for text in (each.arguments, each.result)]
    found += [plan.task.description] if domain.describe is not None else []  # it may contain details
    learned = [text for each in learnings if each.room is not None for text in (each.pattern, each.context)]
    said = (event.content, *earlier, *found, *learned)
    speakers = (event.author, event.user, *(each.author for each in heard))
    templates = (
        text for each in domain.templates for text in (each.goal, *(one.action for one in each.steps))
    )
    tools = (f"{each.name} {each.description} {each.parameters}" for each in domain.tools())
    own = (settings.role, settings.voice, domain.name, domain.engine.settings.system_prompt)
    return room_words(said, speakers, elsewhere=others, known=(*own, *tools, *templates, _PHRASES))


MOST_PREOCCUPATIONS = 3


class PersonaReasoningSystem:
    """The plans and learnings of a persona, and how they change by outcomes."""

    def __init__(self, settings: personas.PersonaSettings, services: PersonaServices) -> None:
        self.settings = settings
        self._services = services
        self._changing = threading.Lock()  # also for the event loops of several threads

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Read, change and write learnings and self state, one caller at a time."""
        while not self._changing.acquire(blocking=False):  # noqa: ASYNC110 - callers on other event loops
            await anyio.sleep(_WAIT_S)
        try:
            yield
        finally:
            self._changing.release()

    async def evaluate_outcome(
        self, plan: personas.PersonaPlan, cycle: Cycle
    ) -> Result[personas.Evaluation, StructuredOutputError]:
        """Evaluate a plan that ended, and update learnings and self state from it.

        Fails with ``StructuredOutputError`` if the model returns no evaluation; nothing is learned then.
        """
        evaluated = await evaluate_outcome(plan, cycle)
        if isinstance(evaluated, Failure):
            return evaluated
        evaluation = evaluated.unwrap()
        async with self._alone():
            if self.settings.learning.enabled:
                await update_learnings(plan, evaluation, cycle)
        await self.update_state(cycle, mistakes=evaluation.mistakes)
        return evaluated

    async def take_feedback(self, feedback: personas.Feedback, cycle: Cycle) -> str:
        """Store a reaction to a plan's answer and learn from it; return what was done."""
        store, now = self._services.store, self._services.clock.now()
        async with self._alone():
            while True:
                found = await cycle.read(store.get_plan(feedback.plan_id), Nothing)
                plan = found.value_or(None)
                if plan is None or plan.room != cycle.room:
                    return "The answer that it is about is not known any more."
                others = tuple(each for each in plan.feedback if each.user != feedback.user)
                changed = evolve(plan, feedback=(*others, feedback))
                liked = changed.liked
                known, updates = tuple[personas.LearningEntry, ...](), tuple[LearningUpdate, ...]()
                if liked is not None and plan.succeeded is not None:
                    changed = evolve(changed, succeeded=liked and plan.plan.status == "completed")
                is_other = liked != plan.liked and plan.succeeded is not None
                if liked is not None and is_other and self.settings.learning.enabled:
                    policy, recent = self.settings.learning, await cycle.plans(context_id=None)
                    known = await cycle.learnings("learn") or ()
                    updates = after_feedback(plan, liked, known, now, policy, recent=recent)
                if await _store(updates, known, cycle, (plan, changed)):
                    break
        if liked is None or not is_other:
            return "It was noted; the users' opinion of the answer is the same."
        return f"It was noted: the answer was {'good' if liked else 'bad'} for its users."

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
        async with self._alone():
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
    async def learnings(
        self, domain: personas.Domain | None = None, *, min_confidence: float = 0.0
    ) -> Result[tuple[personas.LearningEntry, ...], MemoryErrors]:
        """Return the learnings with their current confidence, most confident first.

        Fails with ``MemoryUnavailable``.
        """
        listed = await attempt(self._services.store.list_learnings(self.settings.id, domain=domain))
        now, policy = self._services.clock.now(), self.settings.learning

        def trusted(known: tuple[personas.LearningEntry, ...]) -> tuple[personas.LearningEntry, ...]:
            kept = [each for each in known if not each.rejected]
            present = [evolve(each, confidence=present_confidence(each, now, policy)) for each in kept]
            present.sort(key=lambda each: (-each.confidence, -each.use_count))
            return tuple(each for each in present if each.confidence >= min_confidence)

        return listed.map(trusted)

    @effect
    async def delete_learning(self, learning_id: LearningId) -> Result[None, RecordNotFound | MemoryErrors]:
        """Delete a learning: it is not used or learned again.

        Its text stays stored, to recognise it. Fails with ``RecordNotFound`` or ``MemoryUnavailable``.
        """
        changed = await self._change_learning(learning_id, lambda known: evolve(known, rejected=True))
        return changed.map(lambda _: None)

    @effect
    async def review_learning(
        self, learning_id: LearningId, *, pattern: str | None = None, shared: bool = True
    ) -> Result[personas.LearningEntry, RecordNotFound | MemoryErrors]:
        """Approve a learning for every room of its tenant, or keep it in its room.

        Fails with ``RecordNotFound``, or with ``MemoryUnavailable``.

        Args:
            pattern: its general wording; by default names, numbers and quotations are removed.
            shared: ``False`` keeps it in its room, without proposing it again.
        """
        nothing = room_words((), (), elsewhere=(), known=(self.settings.role, self.settings.voice))

        def reviewed(known: personas.LearningEntry) -> personas.LearningEntry:
            if not shared:
                return evolve(known, reviewed=True)
            general = general_form(known.pattern, nothing) if pattern is None else pattern
            return evolve(known, reviewed=True, room=None, pattern=general, context="")

        return await self._change_learning(learning_id, reviewed)

    async def _change_learning(
        self, learning_id: LearningId, change: Callable[[personas.LearningEntry], personas.LearningEntry]
    ) -> Result[personas.LearningEntry, RecordNotFound | MemoryErrors]:
        store = self._services.store
        while True:
            found = await attempt(store.get_learning(learning_id))
            if isinstance(found, Failure):
                return Failure(found.failure())
            learning = found.unwrap().value_or(None)
            if learning is None or learning.persona_id != self.settings.id or learning.rejected:
                return Failure(RecordNotFound("learning", learning_id))
            changed = change(learning)
            saved = await attempt(store.change_learnings([(learning, changed)]))
            if isinstance(saved, Failure):
                return saved
            if saved.unwrap() == "stored":
                return Success(changed)

    @effect
    async def override_learning(
        self, learning_id: LearningId, *, confidence: float | None = None, pattern: str | None = None
    ) -> Result[personas.LearningEntry, RecordNotFound | MemoryErrors]:
        """Set a learning by hand and pin it; without a value, unpin it.

        Fails with ``RecordNotFound``, or with ``MemoryUnavailable``.

        Args:
            confidence: 0 to 1; below the policy's ``min_confidence`` the learning is not shown to plans.

        Raises:
            ValueError: ``confidence`` is out of range.
        """

        def overridden(known: personas.LearningEntry) -> personas.LearningEntry:
            pinned = confidence is not None or pattern is not None
            kept = known.confidence if pinned else confidence_of(outcomes_of(known))
            return evolve(
                known,
                pattern=known.pattern if pattern is None else pattern,
                confidence=kept if confidence is None else confidence,
                pinned=pinned,
            )

        return await self._change_learning(learning_id, overridden)
