"""Learned patterns: their selection for a plan, and their update by its outcome.

Pure functions with the figures of a policy. Confidence is the rule of succession (P.-S. Laplace, 1814) over
weighted outcomes: one success gives two thirds, one failure a third, so that a single lucky task proves
nothing; each later outcome makes the earlier ones count less, so that what was learned by many successes is
unlearned by three failures when the world has changed. It rises above a half only as far as tasks that follow
a pattern succeed more often than similar ones that do not. Where trusted patterns fail, and their earlier
outcomes make that improbable, the world has changed: each one is then tried once more, and by how many hold
it is decided whether the others are. Confidence decays while a pattern is not used. Evidence counts for the
patterns that a plan followed, and for no others. What failed of late is shown as a warning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from statistics import NormalDist, median_low
from typing import TypeAlias, TypeVar

from attrs import evolve, frozen
from returns.maybe import Some
from returns.result import Failure

from reactive_agents.core.ids import LearningId
from reactive_agents.core.personas import (
    Evaluation,
    LearningChange,
    LearningEntry,
    LearningPolicy,
    PersonaPlan,
    Room,
)
from reactive_agents.core.texts import word_similarity
from reactive_agents.core.usage import USAGE_RECORDER
from reactive_agents.effects import attempt
from reactive_agents.persona.cycle import Cycle

FORGETTING = 0.7
"""The weight of an outcome beside that of the next one."""
MOST_OUTCOMES = 12
"""Latest outcomes that a learning keeps; earlier ones would weigh less than a fiftieth."""
SURPRISE = 10_000
"""How much likelier the latest outcomes are after a change than without one, where the world has changed."""
BROKEN = 0.9
"""How often a pattern fails that no longer holds."""
ALONE = 0.003
"""How likely a pattern has broken by itself; so one that fails again and again is no change of the world."""
WORTH_A_TRY = 0.15
"""The share of patterns that held since a change, from which on those not tried since are tried again."""
DOUBT = 0.5
"""The factor of a confidence whose evidence is from before a change."""
_ALIKE = 0.8
"""The share of the highest similarity that another failure needs to be a warning."""
MOST_SOURCES = 50
"""Maximum number of tasks that a learning lists as its sources; the oldest are removed first."""


@frozen
class LearningUpdate:
    """A learning after an outcome, and the kind of change."""

    learning: LearningEntry
    change: LearningChange


def confidence_of(outcomes: Sequence[bool], without: Sequence[bool] = ()) -> float:
    """Return the confidence in a pattern, between 0 and 1.

    Args:
        outcomes: of the tasks that followed it, the latest last.
        without: those of similar tasks that did not. Above a half, confidence is at most the probability that
            a task succeeds more often with the pattern than without it.

    >>> round(confidence_of([]), 2), round(confidence_of([True]), 2), round(confidence_of([True] * 9), 2)
    (0.5, 0.67, 0.81)
    >>> round(confidence_of([True] * 9 + [False]), 2), round(confidence_of([True] * 9 + [False] * 2), 2)
    (0.62, 0.49)
    >>> round(confidence_of([True] * 9, [True] * 9), 2), round(confidence_of([True] * 9, [False] * 9), 2)
    (0.5, 0.81)
    """
    mean, variance = _success_rate(outcomes)
    if mean <= 0.5 or not without:
        return mean
    other, other_variance = _success_rate(without)
    better = NormalDist().cdf((mean - other) / math.sqrt(variance + other_variance))
    return min(mean, max(0.5, better))


def _success_rate(outcomes: Sequence[bool]) -> tuple[float, float]:
    weights = [FORGETTING**age for age in range(len(outcomes))]
    worked = sum(weight for weight, success in zip(weights, reversed(outcomes), strict=True) if success)
    count = sum(weights) + 2
    mean = (worked + 1) / count
    return mean, mean * (1 - mean) / (count + 1)


def present_confidence(learning: LearningEntry, now: datetime, policy: LearningPolicy) -> float:
    """Return a learning's decayed confidence, 0 to 1; a pinned one does not decay."""
    if learning.pinned:
        return learning.confidence
    age = max(timedelta(0), now - learning.last_used_at)
    halvings: float = age / timedelta(days=policy.half_life_days)
    return float(learning.confidence * 0.5**halvings * (DOUBT if learning.doubted else 1.0))


def select_learnings(
    known: Sequence[LearningEntry],
    now: datetime,
    policy: LearningPolicy,
    *,
    task: str,
    similarity: Similarity,
) -> tuple[LearningEntry, ...]:
    """Return the learnings that a plan is shown, with present confidence, best first.

    They are ranked by the sum of confidence and similarity to the task, as a share of the highest one: by
    confidence alone, the same few would be shown for every task.

    Args:
        similarity: compares it with a learning's topic; see :func:`topic_of`.
    """
    present = [evolve(each, confidence=present_confidence(each, now, policy)) for each in known]
    least = {
        False: policy.min_confidence,
        True: policy.min_confidence * DOUBT if is_worth_a_try(known) else 1.0,
    }
    trusted = [each for each in present if each.confidence >= least[each.doubted]]

    near = {each.id: similarity(task, topic_of(each)) for each in trusted}
    nearest = max(near.values(), default=0.0) or 1.0

    def score(each: LearningEntry) -> tuple[float, int]:
        return each.confidence + near[each.id] / nearest, each.use_count

    return tuple(sorted(trusted, key=score, reverse=True)[: policy.shown])


def select_warnings(
    known: Sequence[LearningEntry], policy: LearningPolicy, *, task: str, similarity: Similarity
) -> tuple[LearningEntry, ...]:
    """Return what failed of late in tasks like this one, the latest first.

    These are lessons of failures, patterns whose last task failed and that are trusted no more, and those in
    doubt that are not worth a try. They are few, since what failed long ago may work by now.
    """
    retried = is_worth_a_try(known)
    failed = [
        (similarity(task, topic_of(each)), each)
        for each in known
        if not each.pinned and (not retried if each.doubted else _warns(each, policy))
    ]
    nearest = max((near for near, _ in failed), default=0.0)
    alike = [each for near, each in failed if near >= _ALIKE * nearest]
    return tuple(sorted(alike, key=lambda each: each.last_used_at, reverse=True)[: policy.warnings])


def _warns(learning: LearningEntry, policy: LearningPolicy) -> bool:
    return not all(outcomes_of(learning)[-1:]) and learning.confidence < policy.min_confidence


def is_worth_a_try(known: Iterable[LearningEntry]) -> bool:
    """Return whether patterns not tried since a change are to be tried again.

    By the share of the others that held (rule of succession): whether one of them still works is more
    probable then than that a guess does.
    """
    held = [each.held for each in known if each.held is not None]
    return (sum(held) + 1) / (len(held) + 2) >= WORTH_A_TRY


def is_refuted(learning: LearningEntry) -> bool:
    """Return whether the latest task of a learning failed, or it is in doubt."""
    return learning.doubted or not all(outcomes_of(learning)[-1:])


def outcomes_of(learning: LearningEntry) -> tuple[bool, ...]:
    """Return the latest outcomes; of a learning of an earlier version, by its counts."""
    if learning.outcomes or not learning.success_count + learning.failure_count:
        return learning.outcomes
    worked = min(learning.success_count, MOST_OUTCOMES // 2)
    return (False,) * min(learning.failure_count, MOST_OUTCOMES // 2) + (True,) * worked


def usable_in(room: Room, known: Iterable[LearningEntry]) -> tuple[LearningEntry, ...]:
    """Return the learnings of a room, and those of every room of its tenant."""
    return tuple(
        each
        for each in known
        if each.tenant == room.tenant and each.room in (None, room.context_id) and not each.rejected
    )


def topic_of(learning: LearningEntry) -> str:
    """Return the text by which a learning is compared with tasks."""
    return f"{learning.pattern} {learning.context}"


def learn_from(
    plan: PersonaPlan,
    evaluation: Evaluation,
    known: Sequence[LearningEntry],
    *,
    recent: Sequence[PersonaPlan] = (),
    new_id: LearningId,
    policy: LearningPolicy,
    measure: SimilarityMeasure,
) -> tuple[LearningUpdate, ...]:
    """Return the changes of a domain's learnings after an evaluated task.

    Each learning occurs once.

    A success confirms, and a failure weakens, the learnings that the plan followed. When it followed none, it
    is evidence for the learning that its own lesson restates only where the plan was reused, so that it did
    the same, or where plans are not shown that learning, so that none can follow it. A lesson that restates
    no learning becomes a new one. After failures that are a surprise, learnings that were not tried since are
    doubted. Learnings whose confidence is too low, by failures or by time, are dropped.

    Args:
        known: all learnings of the persona in the domain.
        recent: the latest plans of the domain, the newest first, with which the outcome is compared.
        new_id: the id of a new learning, if there is one.
        measure: decides which known pattern the lesson restates.
    """
    lesson = evaluation.pattern.strip()
    similar = None
    if lesson:
        similar = most_similar(
            lesson,
            known,
            lambda each: each.pattern,
            above=measure.same_above,
            similarity=measure.similarity,
        )
    if similar is not None and similar.rejected:  # a person has deleted it
        lesson, similar = "", None
    affected = [each for each in known if each.id in plan.follows and not each.rejected]
    if not affected and similar is not None:
        present = present_confidence(similar, evaluation.evaluated_at, policy)
        could_follow = present >= policy.min_confidence and not similar.doubted
        affected = [similar] if plan.source == "reused" or not could_follow else []
    now, success = evaluation.evaluated_at, evaluation.meets_criteria
    after = {each.id: _with_outcome(each, plan, success, now, recent) for each in affected}
    if not success:
        changed = [after[each.id].learning if each.id in after else each for each in known]
        after |= _after_surprise(changed, recent, policy)
    untouched = (LearningUpdate(each, "dropped") for each in known if each.id not in after)
    updates = [
        evolve(update, change="dropped") if _should_drop(update.learning, now, policy) else update
        for update in after.values()
    ]
    updates += [update for update in untouched if _should_drop(update.learning, now, policy)]
    if lesson and similar is None:
        updates.append(LearningUpdate(_new(lesson, plan, evaluation, new_id), "created"))
    return tuple(updates)


def after_feedback(
    plan: PersonaPlan,
    good: bool,
    known: Sequence[LearningEntry],
    now: datetime,
    policy: LearningPolicy,
    *,
    recent: Sequence[PersonaPlan] = (),
) -> tuple[LearningUpdate, ...]:
    """Return the changes of learnings after the users' reactions to an answer.

    They are evidence for the learnings that the plan followed, and for the one that was learned from it.
    """
    affected = (each for each in known if each.id in plan.follows or plan.task.id in each.learned_from)
    updates = [_with_outcome(each, plan, good, now, recent) for each in affected if not each.rejected]
    return tuple(
        evolve(each, change="dropped") if _should_drop(each.learning, now, policy) else each
        for each in updates
    )


def _with_outcome(
    learning: LearningEntry, plan: PersonaPlan, success: bool, at: datetime, recent: Sequence[PersonaPlan]
) -> LearningUpdate:
    before = () if learning.doubted and not success else outcomes_of(learning)
    outcomes = (*before, success)[-MOST_OUTCOMES:]
    sources = tuple(each for each in learning.learned_from if each != plan.task.id)
    confidence = confidence_of(outcomes, outcomes_without(learning, plan, recent))
    changed = evolve(
        learning,
        success_count=learning.success_count + success,
        failure_count=learning.failure_count + (not success),
        outcomes=outcomes,
        confidence=learning.confidence if learning.pinned else confidence,
        learned_from=(*sources, plan.task.id)[-MOST_SOURCES:],
        last_used_at=at,
        use_count=learning.use_count + 1,
        doubted=False,
        held=success if learning.doubted else learning.held,
    )
    return LearningUpdate(changed, "confirmed" if success else "weakened")


def outcomes_without(
    learning: LearningEntry, plan: PersonaPlan, recent: Sequence[PersonaPlan]
) -> tuple[bool, ...]:
    """Return the outcomes of similar tasks that did not follow a learning.

    The latest is the last. Such a task is as similar as the middle one of those that followed or taught it:
    a lesson for one kind of task is compared within that kind, and one that is followed everywhere with all
    tasks.

    Args:
        recent: plans, the newest first.
    """
    task = plan.task
    others = [
        (word_similarity(task.description, each.task.description), each)
        for each in recent
        if each.task.id != task.id and each.succeeded is not None
    ]
    like = [
        near for near, each in others if learning.id in each.follows or each.task.id in learning.learned_from
    ]
    least = median_low(like) if like else 1.0
    without = [
        bool(each.succeeded)
        for near, each in others
        if near >= least and learning.id not in each.follows and each.task.id not in learning.learned_from
    ]
    return tuple(reversed(without[:MOST_OUTCOMES]))


def _after_surprise(
    known: Sequence[LearningEntry], recent: Sequence[PersonaPlan], policy: LearningPolicy
) -> dict[LearningId, LearningUpdate]:
    """Return the changes where the latest outcomes of trusted learnings surprise.

    For each moment: how much likelier are the outcomes since, of all learnings together, where every second
    one has broken then, than by the share of earlier failures, with those that break by themselves (a mixture
    over the learnings, Y. Xie and D. Siegmund, 2013)? At the moment for which that is most, the world has
    changed. Learnings that were tried since have held, or keep that failure alone; the others are doubted.

    Args:
        recent: the latest plans of the domain, the newest first.
    """
    trusted = {
        each.id: each
        for each in known
        if not (each.pinned or each.rejected or each.doubted)
        and confidence_of(outcomes_of(each)[:-1]) >= policy.min_confidence
        and len(outcomes_of(each)) > 1
    }
    failures = sum(max(0, each.failure_count - _latest_failures(each)) for each in trusted.values())
    tasks = failures + sum(each.success_count for each in trusted.values())
    chance = (failures + 1) / (tasks + 2)
    learned_by = {task: each.id for each in trusted.values() for task in each.learned_from}
    ratios: dict[LearningId, float] = {}
    most, since = 0.0, 0
    for number, plan in enumerate(recent, 1):
        learning_id = learned_by.get(plan.task.id)
        if learning_id is None or plan.succeeded is None:
            continue
        ratio = (1 - BROKEN) / (1 - chance) if plan.succeeded else BROKEN / chance
        ratios[learning_id] = ratios.get(learning_id, 1.0) * ratio
        likelier = math.prod((1 + each) / 2 / (1 + ALONE * each) for each in ratios.values())
        if likelier > most:
            most, since = likelier, number
    if most < SURPRISE:
        return {}
    tried = {each.task.id for each in recent[:since]}
    return {
        each.id: _after_change(
            each, trusted=each.id in trusted, tried=not tried.isdisjoint(each.learned_from)
        )
        for each in known
        if not (each.pinned or each.rejected)
    }


def _latest_failures(learning: LearningEntry) -> int:
    return len(list(takewhile(lambda worked: not worked, reversed(outcomes_of(learning)))))


def _after_change(learning: LearningEntry, *, trusted: bool, tried: bool) -> LearningUpdate:
    if not tried:
        return LearningUpdate(evolve(learning, doubted=True, held=None), "doubted")
    held = all(outcomes_of(learning)[-1:])
    changed = evolve(learning, held=held if trusted else None)
    if trusted and not held:
        changed = evolve(changed, outcomes=(False,), confidence=confidence_of((False,)))
    return LearningUpdate(changed, "confirmed" if held else "weakened")


def _should_drop(learning: LearningEntry, now: datetime, policy: LearningPolicy) -> bool:
    """Return whether a learning failed too often or was not used for too long.

    What a person has set stays, and so does what a person has deleted: it would be learned again.
    """
    if learning.pinned or learning.rejected:
        return False
    return present_confidence(learning, now, policy) < policy.drop_below


def _new(lesson: str, plan: PersonaPlan, evaluation: Evaluation, new_id: LearningId) -> LearningEntry:
    success = evaluation.meets_criteria
    return LearningEntry(
        id=new_id,
        persona_id=plan.persona_id,
        domain=plan.domain,
        pattern=lesson,
        context=plan.plan.goal,
        success_count=int(success),
        failure_count=int(not success),
        outcomes=(success,),
        confidence=confidence_of((success,)),
        learned_from=(plan.task.id,),
        first_seen_at=evaluation.evaluated_at,
        last_used_at=evaluation.evaluated_at,
        use_count=1,
        tenant=plan.event.tenant,
        room=plan.context_id,
    )


# --- similarity of texts ------------------------------------------------------------------------------------


Similarity: TypeAlias = Callable[[str, str], float]
"""Returns the similarity of two texts, 0 to 1; symmetric."""

_T = TypeVar("_T")


@frozen(eq=False)
class SimilarityMeasure:
    """A similarity of texts, with the threshold above which two texts state the same.

    Attributes:
        same_above: the threshold, 0 to 1.
    """

    similarity: Similarity
    same_above: float


def most_similar(
    text: str, among: Iterable[_T], text_of: Callable[[_T], str], *, above: float, similarity: Similarity
) -> _T | None:
    """Return the most similar candidate above the threshold.

    The first of equal ones, ``None`` for none.
    """
    best: _T | None = None
    for candidate in among:
        similarity_of_candidate = similarity(text, text_of(candidate))
        if similarity_of_candidate > above:
            best, above = candidate, similarity_of_candidate
    return best


# --- the choice of a similarity measure ---------------------------------------------------------------------


async def choose_measure(text: str, others: Sequence[str], cycle: Cycle) -> SimilarityMeasure:
    """Return the measure for comparing the text with the others.

    By meaning where the persona has a comparison service, else by words. A comparison that fails is
    published, and the words are compared.
    """
    policy = cycle.settings.learning
    by_words = SimilarityMeasure(word_similarity, policy.merge_above)
    match cycle.services.comparison:
        case Some(comparison) if others:
            account = USAGE_RECORDER.set(cycle.meter.add)
            try:
                compared = await attempt(comparison.compare(text, others))
            finally:
                USAGE_RECORDER.reset(account)
        case _:
            return by_words
    if isinstance(compared, Failure):
        await cycle.fail_stage("compare", compared.failure())
        return by_words
    similarities = dict(zip(others, compared.unwrap(), strict=True))
    return SimilarityMeasure(lambda _, other: similarities[other], policy.merge_above_cosine)
