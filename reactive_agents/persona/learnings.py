"""Learned patterns: their selection for a plan, and their update by its outcome.

Pure functions of a policy. Confidence is the rule of succession (P.-S. Laplace, 1814) over weighted outcomes:
one success gives two thirds, one failure a third, so that a single lucky task proves nothing. Each later
outcome reduces the weight of earlier ones, so that three failures unlearn a pattern of many successes when
the world has changed. Confidence exceeds a half only if tasks that follow the pattern succeed more often than
similar tasks that do not. If trusted patterns fail, and their earlier outcomes make that improbable, the
world has changed: the others are doubted, and tried again if enough of the tried ones hold. Confidence decays
while a pattern is not used. Evidence counts only for the patterns that a plan followed. Recent failures are
shown as warnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from itertools import takewhile
from operator import not_
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
)
from reactive_agents.core.texts import word_similarity
from reactive_agents.core.usage import USAGE_RECORDER
from reactive_agents.effects import attempt
from reactive_agents.persona.cycle import Cycle

FORGETTING = 0.7
"""The weight of an outcome relative to the next one."""
MOST_OUTCOMES = 12
"""Latest outcomes stored in a learning; earlier ones would weigh less than a fiftieth."""
SURPRISE = 10_000
"""The likelihood ratio of the latest outcomes, with and without a change, that proves a change."""
BROKEN = 0.9
"""The failure rate of a pattern that no longer holds."""
ALONE = 0.003
"""The probability that a single pattern broke, so that repeated failures of one prove no change."""
WORTH_A_TRY = 0.15
"""The share of patterns that held since a change above which untried ones are tried again."""
DOUBT = 0.5
"""The factor for a confidence with evidence from before a change."""
_ALIKE = 0.8
"""The share of the highest similarity that a failure needs to be a warning."""
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
        outcomes: outcomes of the tasks that followed the pattern, latest last.
        without: outcomes of similar tasks that did not. Above a half, confidence is at most the probability
            that tasks succeed more often with the pattern than without it.

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
    halvings = age / timedelta(days=1) / policy.half_life_days  # which may be infinite, or very short
    return float(learning.confidence * 0.5**halvings * (DOUBT if learning.doubted else 1.0))


def select_learnings(
    known: Sequence[LearningEntry],
    now: datetime,
    policy: LearningPolicy,
    *,
    task: str,
    similarity: Similarity,
) -> tuple[LearningEntry, ...]:
    """Return the learnings for the prompt of a plan, best first.

    They have their current confidence, and are ranked by the sum of confidence and relative similarity to the
    task. By confidence alone, every task would get the same few.

    Args:
        similarity: compares the task with a learning's topic; see :func:`topic_of`.
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
    """Return the recent failures in tasks like this one, latest first.

    These are lessons of failures, patterns that failed last and are no longer trusted, and doubted patterns
    that are not worth a try. They are few, since earlier failures may no longer apply.
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
    """Return whether to try patterns again that were not tried since a change.

    This depends on the share of the others that held (rule of succession): the pattern must be more likely to
    work than a guess.
    """
    held = [each.held for each in known if each.held is not None]
    return (sum(held) + 1) / (len(held) + 2) >= WORTH_A_TRY


def is_refuted(learning: LearningEntry) -> bool:
    """Return whether the latest task of a learning failed, or it is doubted."""
    return learning.doubted or not all(outcomes_of(learning)[-1:])


def outcomes_of(learning: LearningEntry) -> tuple[bool, ...]:
    """Return the latest outcomes; those of an earlier version follow from its counts."""
    if learning.outcomes or not learning.success_count + learning.failure_count:
        return learning.outcomes
    worked = min(learning.success_count, MOST_OUTCOMES // 2)
    return (False,) * min(learning.failure_count, MOST_OUTCOMES // 2) + (True,) * worked


def topic_of(learning: LearningEntry) -> str:
    """Return the text of a learning for comparison with tasks."""
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

    Each learning occurs once. A success confirms, and a failure weakens, the learnings that the plan
    followed. If it followed none, it is evidence for the learning that its own lesson restates only if the
    plan was reused, and so did the same, or if plans are not shown that learning, and so cannot follow it. A
    lesson that restates no learning becomes a new one. After surprising failures, learnings that were not
    tried since are doubted. Learnings with too little confidence, by failures or by time, are dropped.

    Args:
        known: all learnings of the persona in the domain.
        recent: the latest plans of the domain for comparison, newest first.
        new_id: the id for a new learning.
        measure: decides which known pattern the lesson restates.
    """
    lesson = evaluation.pattern.strip()
    similar = None
    if lesson:
        similar = most_similar(
            lesson, known, lambda each: each.pattern, above=measure.same_above, similarity=measure.similarity
        )
    if similar is not None and similar.rejected:  # a person deleted it
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

    Reactions are evidence for the learnings that the plan followed and for the one learned from it.
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

    Similar tasks are at least as similar as the median of those that followed or taught the learning: a
    lesson for one kind of task is compared within that kind, and one that is followed everywhere with all
    tasks.

    Args:
        recent: plans, newest first.
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
    """Return the changes if the latest outcomes of trusted learnings are surprising.

    For each moment, computes the likelihood ratio of all later outcomes: that every second learning broke
    then, against the earlier failure rate with learnings that break by themselves (a mixture over the
    learnings, Y. Xie and D. Siegmund, 2013). The world changed at the moment with the highest ratio.
    Learnings that were tried since have held, or keep only that failure; the others are doubted.

    Args:
        recent: the latest plans of the domain, newest first.
    """
    trusted = {
        each.id: each
        for each in known
        if not (each.pinned or each.rejected or each.doubted)
        and confidence_of(outcomes_of(each)[:-1]) >= policy.min_confidence
        and len(outcomes_of(each)) > 1
    }
    failures = sum(
        max(0, each.failure_count - len([*takewhile(not_, reversed(outcomes_of(each)))]))
        for each in trusted.values()
    )
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

    Learnings that a person set stay, and so do deleted ones, which would be learned again.
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


Similarity: TypeAlias = Callable[[str, str], float]
"""Returns the similarity of two texts, 0 to 1; symmetric."""

_T = TypeVar("_T")


@frozen(eq=False)
class SimilarityMeasure:
    """A similarity of texts, with the threshold above which two texts are equivalent.

    Attributes:
        same_above: the threshold, 0 to 1.
    """

    similarity: Similarity
    same_above: float


def most_similar(
    text: str, among: Iterable[_T], text_of: Callable[[_T], str], *, above: float, similarity: Similarity
) -> _T | None:
    """Return the most similar candidate above the threshold, if any."""
    best: _T | None = None
    for candidate in among:
        similarity_of_candidate = similarity(text, text_of(candidate))
        if similarity_of_candidate > above:
            best, above = candidate, similarity_of_candidate
    return best


async def choose_measure(text: str, others: Sequence[str], cycle: Cycle) -> SimilarityMeasure:
    """Return the measure for comparing the text with the others.

    Compares by meaning if the persona has a comparison service, else by words. If the service fails, the
    failure is published and the words are compared.
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
