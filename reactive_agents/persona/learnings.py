"""What outcomes do to learned patterns: pure, with the figures of a policy.

Confidence is the rule of succession (P.-S. Laplace, 1814): one success gives two thirds, one failure a third,
so that a single lucky task proves nothing. It fades while a pattern is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

from attrs import evolve, frozen
from returns.maybe import Some
from returns.result import Failure

from reactive_agents.core.governance import ACCOUNT_OF_RUN
from reactive_agents.core.ids import LearningId
from reactive_agents.core.personas import (
    Evaluation,
    LearningChange,
    LearningEntry,
    LearningPolicy,
    PersonaPlan,
)
from reactive_agents.effects import attempt
from reactive_agents.kernel.text_similarity import word_similarity
from reactive_agents.persona.cycle import Cycle

MOST_SOURCES = 50
"""Tasks that a learning names as those it rests on; the oldest go first."""


@frozen
class LearningUpdate:
    """A learning after an outcome, and what the outcome did to it."""

    learning: LearningEntry
    change: LearningChange


def confidence_of(successes: int, failures: int) -> float:
    """How far a pattern may be relied on, between 0 and 1.

    >>> confidence_of(0, 0), confidence_of(3, 1)
    (0.5, 0.6666666666666666)
    """
    return (successes + 1) / (successes + failures + 2)


def present_confidence(learning: LearningEntry, now: datetime, policy: LearningPolicy) -> float:
    """What is left of a learning's confidence, 0 to 1; all of it when a person set it."""
    if learning.pinned:
        return learning.confidence
    age = max(timedelta(0), now - learning.last_used_at)
    halvings: float = age / timedelta(days=policy.half_life_days)
    return float(learning.confidence * 0.5**halvings)


def select_learnings(
    known: Sequence[LearningEntry],
    now: datetime,
    policy: LearningPolicy,
    *,
    about: str,
    by: Similarity,
) -> tuple[LearningEntry, ...]:
    """The learnings that a plan is shown, the best first; their confidence is the present one.

    They are ordered by confidence and by how much they are about the task, which weigh the same: by
    confidence alone, the same few would be shown for every task.

    Args:
        about: what the task is.
        by: how much a learning's topic is about it; see :func:`topic_of`.
    """
    present = [evolve(each, confidence=present_confidence(each, now, policy)) for each in known]
    trusted = [each for each in present if each.confidence >= policy.min_confidence]

    def worth(each: LearningEntry) -> tuple[float, int]:
        return each.confidence + by(about, topic_of(each)), each.use_count

    return tuple(sorted(trusted, key=worth, reverse=True)[: policy.shown])


def topic_of(learning: LearningEntry) -> str:
    """What tells which tasks a learning is about."""
    return f"{learning.pattern} {learning.context}"


def learn_from(
    plan: PersonaPlan,
    evaluation: Evaluation,
    known: Sequence[LearningEntry],
    *,
    new_id: LearningId,
    policy: LearningPolicy,
    measure: Measure,
) -> tuple[LearningUpdate, ...]:
    """What an assessed task did to the learnings of its domain; each learning occurs once.

    The evidence belongs to what was tried: a success confirms, and a failure weakens, the learnings that the
    plan followed. Where it followed none, a success confirms the learning that its own lesson is like; a
    failure blames none. A lesson that is like no learning is a new one. What has lost its confidence, by
    failures or by time, is dropped.

    Args:
        known: all learnings of the persona in the domain.
        new_id: the id of a new learning, if there is one.
        measure: tells which known pattern the lesson restates.
    """
    lesson = evaluation.pattern.strip()
    similar = None
    if lesson:
        above, by = measure.same_above, measure.likeness
        similar = most_similar(lesson, known, lambda each: each.pattern, above=above, by=by)
    concerned = [each for each in known if each.id in plan.follows]
    if not concerned and similar is not None and evaluation.meets_criteria:
        concerned = [similar]
    after = {each.id: _after(each, plan, evaluation) for each in concerned}
    untouched = (LearningUpdate(each, "dropped") for each in known if each.id not in after)
    now = evaluation.evaluated_at
    updates = [
        evolve(update, change="dropped") if _is_hopeless(update.learning, now, policy) else update
        for update in after.values()
    ]
    updates += [update for update in untouched if _is_hopeless(update.learning, now, policy)]
    if lesson and similar is None:
        updates.append(LearningUpdate(_new(lesson, plan, evaluation, new_id), "created"))
    return tuple(updates)


def _after(learning: LearningEntry, plan: PersonaPlan, evaluation: Evaluation) -> LearningUpdate:
    worked = evaluation.meets_criteria
    successes = learning.success_count + worked
    failures = learning.failure_count + (not worked)
    changed = evolve(
        learning,
        success_count=successes,
        failure_count=failures,
        confidence=learning.confidence if learning.pinned else confidence_of(successes, failures),
        learned_from=(*learning.learned_from, plan.task.id)[-MOST_SOURCES:],
        last_used_at=evaluation.evaluated_at,
        use_count=learning.use_count + 1,
    )
    return LearningUpdate(changed, "confirmed" if worked else "weakened")


def _is_hopeless(learning: LearningEntry, now: datetime, policy: LearningPolicy) -> bool:
    """Failed too often, or was not used for too long."""
    return present_confidence(learning, now, policy) < policy.drop_below


def _new(lesson: str, plan: PersonaPlan, evaluation: Evaluation, new_id: LearningId) -> LearningEntry:
    successes, failures = (1, 0) if evaluation.meets_criteria else (0, 1)
    return LearningEntry(
        id=new_id,
        persona_id=plan.persona_id,
        domain=plan.domain,
        pattern=lesson,
        context=plan.plan.goal,
        success_count=successes,
        failure_count=failures,
        confidence=confidence_of(successes, failures),
        learned_from=(plan.task.id,),
        first_seen_at=evaluation.evaluated_at,
        last_used_at=evaluation.evaluated_at,
        use_count=1,
    )


# --- Which of several texts is most like another one ---


Similarity: TypeAlias = Callable[[str, str], float]
"""Of two texts, 0 to 1; the same for the texts the other way round."""

_T = TypeVar("_T")


@frozen(eq=False)
class Measure:
    """A way to compare texts.

    Attributes:
        likeness: how alike two texts are.
        same_above: 0 to 1; texts that are more alike than this say the same.
    """

    likeness: Similarity
    same_above: float


def most_similar(
    text: str, among: Iterable[_T], text_of: Callable[[_T], str], *, above: float, by: Similarity
) -> _T | None:
    """The one most like the text, by more than ``above``; of equal ones the first; ``None`` for none."""
    best: _T | None = None
    for candidate in among:
        likeness = by(text, text_of(candidate))
        if likeness > above:
            best, above = candidate, likeness
    return best


# --- How alike a text is to what is known: by what they mean where that can be told, else by their words ---


async def measure(text: str, others: Sequence[str], cycle: Cycle) -> Measure:
    """What the text can be compared with the others by. A comparison that fails is told, and words serve."""
    policy = cycle.settings.learning
    by_words = Measure(word_similarity, policy.merge_above)
    match cycle.services.comparison:
        case Some(comparison) if others:
            account = ACCOUNT_OF_RUN.set(cycle.meter.add)
            try:
                compared = await attempt(comparison.compare(text, others))
            finally:
                ACCOUNT_OF_RUN.reset(account)
        case _:
            return by_words
    if isinstance(compared, Failure):
        await cycle.fail_stage("compare", compared.failure())
        return by_words
    likeness = dict(zip(others, compared.unwrap(), strict=True))
    return Measure(lambda _, other: likeness[other], policy.merge_above_cosine)
