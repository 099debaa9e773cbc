"""The laws of learning: counts and confidence are right, bad patterns lose, and texts are compared fairly."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from datetime import timedelta

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.core.ids import LearningId, TaskId
from reactive_agents.core.personas import Evaluation, LearningEntry, LearningPolicy, PersonaPlan
from reactive_agents.core.texts import word_similarity
from reactive_agents.persona.learnings import (
    MOST_OUTCOMES,
    WORTH_A_TRY,
    LearningUpdate,
    SimilarityMeasure,
    confidence_of,
    learn_from,
    most_similar,
    outcomes_without,
    present_confidence,
    select_learnings,
    select_warnings,
)
from reactive_agents.testing.core import START
from tests.support.personas import a_persona_plan

POLICY = LearningPolicy()
WORDS = st.lists(st.sampled_from(["red", "green", "blue", "white", "grey"]), max_size=6).map(" ".join)
outcomes = st.lists(st.booleans(), max_size=12)


def a_learning(name: str = "l1", pattern: str = "Ask first.", **fields: object) -> LearningEntry:
    learning = LearningEntry(
        id=LearningId(name),
        persona_id=a_persona_plan().persona_id,
        domain="chat",
        pattern=pattern,
        context="The goal",
        success_count=1,
        failure_count=0,
        confidence=confidence_of([True]),
        outcomes=(True,),
        learned_from=(TaskId("task-0"),),
        first_seen_at=START,
        last_used_at=START,
        use_count=1,
    )
    return evolve(learning, **fields)  # type: ignore[arg-type]


def an_evaluation(plan: PersonaPlan, pattern: str = "", *, worked: bool = True) -> Evaluation:
    return Evaluation(plan.task.id, plan.id, worked, (), (), (), (), pattern, START, 1.0, 1, 0)


def changes(
    plan: PersonaPlan,
    evaluation: Evaluation,
    known: Sequence[LearningEntry],
    recent: Sequence[PersonaPlan] = (),
) -> tuple[LearningUpdate, ...]:
    """Return the known learnings after the outcome, compared by their words."""
    by_words = SimilarityMeasure(word_similarity, POLICY.merge_above)
    return learn_from(
        plan,
        evaluation,
        known,
        recent=recent,
        new_id=LearningId("new"),
        policy=POLICY,
        measure=by_words,
    )


def shown_of(known: Sequence[LearningEntry]) -> tuple[LearningEntry, ...]:
    """Return the learnings that the next plan is shown."""
    return select_learnings(known, START, POLICY, task="", similarity=word_similarity)


# --- similarity -----------------------------------------------------------------------------------------


@given(WORDS, WORDS)
def test_similarity_is_a_fair_fraction(one: str, other: str) -> None:
    likeness = word_similarity(one, other)
    assert 0.0 <= likeness <= 1.0
    assert likeness == word_similarity(other, one) == word_similarity(one.upper() + "!", other)
    assert word_similarity(one, one) == (1.0 if one else 0.0)


@given(WORDS, st.lists(WORDS), st.floats(0.0, 1.0))
def test_the_most_similar_is_above_the_limit_and_none_is_more_alike(
    text: str, among: list[str], above: float
) -> None:
    found = most_similar(text, among, str, above=above, similarity=word_similarity)
    best = max((word_similarity(text, each) for each in among), default=0.0)
    if best > above:
        assert found is not None
        assert word_similarity(text, found) == best
    else:
        assert found is None


# --- confidence -----------------------------------------------------------------------------------------


@given(outcomes)
def test_a_success_raises_confidence_and_a_failure_lowers_it(found: list[bool]) -> None:
    now = confidence_of(found)
    assert 0.0 < now < 1.0
    assert confidence_of([*found, True]) > now > confidence_of([*found, False])


@given(outcomes)
def test_the_latest_outcomes_weigh_most(found: list[bool]) -> None:
    assert confidence_of([*found, True, False]) < confidence_of([*found, False, True])
    assert confidence_of([*found, False, False, False]) < 0.5 < confidence_of([*found, True, True, True])


@given(st.integers(1, 40))
def test_one_failure_more_than_successes_unlearns_and_three_suffice(successes: int) -> None:
    found = [True] * successes
    assert confidence_of(found) >= POLICY.min_confidence
    assert confidence_of([*found, False]) >= POLICY.min_confidence, "a single failure may be chance"
    failures = [False] * min(successes + 1, 3)
    assert confidence_of([*found, *failures][-MOST_OUTCOMES:]) < POLICY.min_confidence


@given(outcomes, outcomes)
def test_a_lesson_gains_only_as_far_as_it_matters(found: list[bool], without: list[bool]) -> None:
    alone, compared = confidence_of(found), confidence_of(found, without)
    assert min(alone, 0.5) <= compared <= alone
    assert confidence_of(found, [*without, False]) >= compared >= confidence_of(found, [*without, True])


@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_what_succeeds_as_often_without_a_lesson_is_no_evidence_for_it(found: list[bool]) -> None:
    assert confidence_of(found, found) <= 0.5
    assert confidence_of([True] * 12, [False] * 6) == confidence_of([True] * 12)


def a_plan_for(number: int, task: str, *, worked: bool = True, follows: str = "") -> PersonaPlan:
    plan = a_persona_plan(
        succeeded=worked, follows=(LearningId(follows),) if follows else (), name=f"plan-{number}"
    )
    return evolve(plan, task=evolve(plan.task, id=TaskId(f"earlier-{number}"), description=task))


@given(st.lists(st.tuples(st.sampled_from(["the red router blinks", "a cake that sinks"]), st.booleans())))
def test_a_lesson_is_compared_with_similar_tasks_that_did_not_follow_it(
    found: list[tuple[str, bool]],
) -> None:
    recent = [a_plan_for(number, task, worked=worked) for number, (task, worked) in enumerate(found)]
    followed = a_plan_for(100, "the red router blinks", follows="l1")
    plan = a_plan_for(101, "the red router blinks", follows="l1")
    without = outcomes_without(a_learning("l1"), plan, [plan, followed, *recent])
    of_its_kind = [worked for task, worked in found if "router" in task]
    assert without == tuple(reversed(of_its_kind[:MOST_OUTCOMES]))


def test_a_platitude_that_plans_follow_everywhere_is_compared_with_everything() -> None:
    tasks = ["the red router blinks", "a cake that sinks", "mail bounces"] * 3
    platitude = a_learning("l1", "Be polite and precise.", use_count=9)
    recent = [a_plan_for(number, task, follows="l1" * (number % 2)) for number, task in enumerate(tasks)]
    plan = a_plan_for(100, tasks[0], follows="l1")
    assert len(outcomes_without(platitude, plan, recent)) >= 2
    confidence = platitude.confidence
    for number in range(9):
        plan = a_plan_for(100 + number, tasks[number], follows="l1")
        (update,) = changes(plan, an_evaluation(plan), [platitude], recent)
        platitude, recent = update.learning, [plan, *recent]
    assert platitude.success_count == 10
    assert platitude.confidence <= confidence, "it works no better than other plans"
    (alone,) = changes(plan, an_evaluation(plan), [platitude])
    assert alone.learning.confidence > 0.8


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=6), max_size=8))
def test_what_failed_of_late_is_a_warning_and_what_is_trusted_is_none(found: list[list[bool]]) -> None:
    known = [
        a_learning(f"l{number}", outcomes=tuple(each), confidence=confidence_of(each))
        for number, each in enumerate(found)
    ]
    warned = select_warnings(known, POLICY, task="", similarity=word_similarity)
    assert len(warned) <= POLICY.warnings
    assert all(not each.outcomes[-1] and each not in shown_of(known) for each in warned)
    failing = [each for each in known if not any(each.outcomes)]
    assert bool(warned) or not failing


def after_tasks(known: Sequence[LearningEntry], worked: Sequence[bool]) -> dict[str, LearningEntry]:
    """Return the learnings after a plan that follows each of the first in turn."""
    return after_outcomes(known, list(enumerate(worked)))


def after_outcomes(
    known: Sequence[LearningEntry], outcomes: Sequence[tuple[int, bool]]
) -> dict[str, LearningEntry]:
    """Return the learnings after plans that follow the numbered ones."""
    now = {each.id: each for each in known}
    plans: list[PersonaPlan] = []
    for number, (followed, success) in enumerate(outcomes):
        plan = a_persona_plan()
        task = evolve(plan.task, id=TaskId(f"task-{number + 1}"), description=f"Task{followed}.")
        plan = evolve(plan, task=task, follows=(known[followed].id,), succeeded=success)
        plans.insert(0, plan)
        at = START + timedelta(minutes=number + 1)
        evaluation = evolve(an_evaluation(plan, worked=success), evaluated_at=at)
        for update in changes(plan, evaluation, tuple(now.values()), plans[:50]):
            now[update.learning.id] = update.learning
    return {str(name): each for name, each in now.items()}


def trusted_learnings(count: int) -> list[LearningEntry]:
    evidence = {"outcomes": (True,) * 9, "success_count": 9, "confidence": confidence_of([True] * 9)}
    return [a_learning(f"l{number}", f"Word{number}.", **evidence) for number in range(count)]


def warned_of(known: Sequence[LearningEntry]) -> set[str]:
    """Return the ids of the patterns that the next plan is warned of."""
    return {each.id for each in select_warnings(known, POLICY, task="", similarity=word_similarity)}


def test_after_failures_of_trusted_lessons_those_not_tried_since_are_in_doubt() -> None:
    known = [
        *trusted_learnings(6),
        a_learning("failed", outcomes=(False,), confidence=confidence_of([False])),
    ]
    after = after_tasks(known, [False] * 3)
    assert {name for name, each in after.items() if each.doubted} == {"l3", "l4", "l5", "failed"}
    assert warned_of(tuple(after.values())) == {"l0", "l1", "l2"}, "what failed before may work by now"
    assert {each.id for each in shown_of(tuple(after.values()))} == {"l3", "l4", "l5"}, (
        "they are tried once more"
    )


@pytest.mark.parametrize("worked", [True, False])
def test_a_lesson_in_doubt_is_decided_by_its_next_outcome(worked: bool) -> None:
    doubted = evolve(trusted_learnings(1)[0], doubted=True)
    plan = evolve(a_persona_plan(), follows=(doubted.id,))
    (update,) = changes(plan, an_evaluation(plan, worked=worked), [doubted])
    assert (update.learning.doubted, update.learning.held) == (False, worked)
    assert (shown_of([update.learning]) == (update.learning,)) == worked
    assert (warned_of([update.learning]) == {doubted.id}) == (not worked)
    assert len(update.learning.outcomes) == (10 if worked else 1), "what held keeps its earlier evidence"


@given(st.lists(st.booleans(), max_size=10))
def test_lessons_in_doubt_are_tried_while_enough_of_the_others_held(held: list[bool]) -> None:
    doubted = evolve(trusted_learnings(1)[0], doubted=True)
    others = [a_learning(f"o{number}", held=each, pinned=True) for number, each in enumerate(held)]
    tried = (sum(held) + 1) / (len(held) + 2) >= WORTH_A_TRY
    known = [doubted, *others]
    shown = select_learnings(known, START, evolve(POLICY, shown=20), task="", similarity=word_similarity)
    assert (doubted.id in {each.id for each in shown}) == tried
    assert (doubted.id in warned_of(known)) == (not tried)
    assert tried or held.count(False) >= 5, "a few failures decide nothing"


def test_what_held_between_the_failures_is_not_in_doubt() -> None:
    after = after_tasks(trusted_learnings(8), [False, True, False, False])
    assert [each.held for each in after.values()] == [False, True, False, False, *[None] * 4]
    assert [each.doubted for each in after.values()] == [False] * 4 + [True] * 4
    assert len(after["l1"].outcomes) == 10


def test_a_lesson_in_doubt_that_fails_again_is_a_warning_also_where_nobody_followed_it() -> None:
    doubted = evolve(trusted_learnings(1)[0], pattern="Restart the router.", doubted=True)
    plan = a_persona_plan()
    evaluation = an_evaluation(plan, "Restart the router.", worked=False)
    (update,) = changes(plan, evaluation, [doubted])
    assert (update.change, update.learning.doubted, update.learning.outcomes) == ("weakened", False, (False,))
    warned = select_warnings([update.learning], POLICY, task="", similarity=word_similarity)
    assert warned == (update.learning,)


def test_one_task_is_no_run() -> None:
    known = trusted_learnings(5)
    plan = evolve(a_persona_plan(), follows=tuple(each.id for each in known[:4]))
    updates = changes(
        plan, evolve(an_evaluation(plan, worked=False), evaluated_at=START + timedelta(1)), known
    )
    assert [each.change for each in updates] == ["weakened"] * 4
    assert all(each.learning in shown_of([each.learning]) for each in updates)


@given(st.lists(st.booleans(), max_size=8))
def test_only_a_run_that_is_a_surprise_puts_lessons_in_doubt(worked: list[bool]) -> None:
    after = after_tasks(trusted_learnings(10), worked)
    runs = "".join("+" if each else "-" for each in worked)
    doubted = any(each.doubted for each in after.values())
    assert runs.count("-") > 2 or not doubted  # three that fail shortly after each other, as "-+-+-", may do
    assert doubted or "-----" not in runs
    if not doubted:
        assert {"l8", "l9"} <= {each.id for each in after.values() if each in shown_of((each,))}


@pytest.mark.parametrize(("failed_before", "surprise"), [(0, 3), (1, 7)])
def test_what_fails_now_and_then_has_to_fail_more_often_to_surprise(
    failed_before: int, surprise: int
) -> None:
    known = [evolve(each, failure_count=failed_before) for each in trusted_learnings(10)]
    for length in range(1, surprise + 1):
        after = after_tasks(known, [False] * length)
        assert any(each.doubted for each in after.values()) == (length == surprise)


@pytest.mark.parametrize(("failing", "surprises"), [([0], False), ([0, 1], False), ([0, 1, 2], True)])
def test_repeated_failures_surprise_where_several_lessons_have_them(
    failing: Sequence[int], surprises: bool
) -> None:
    known = [evolve(each, failure_count=1) for each in trusted_learnings(10)]
    after = after_outcomes(known, [(number, False) for number in (*failing, *failing)])
    assert {each.doubted for name, each in after.items() if int(name[1:]) > 2} == {surprises}
    assert not any(after[f"l{number}"].doubted for number in failing), "they were tried since"


@pytest.mark.parametrize("noise", [0.1, 0.2])
def test_noise_alone_is_no_change_and_a_change_of_half_is_noticed_in_it(noise: float) -> None:
    known = [evolve(each, failure_count=2) for each in trusted_learnings(10)]
    wrongly = rightly = 0
    for seed in range(6):
        chance = random.Random(seed)
        tasks = [(chance.randrange(10), chance.random() >= noise) for _ in range(40)]
        wrongly += any(each.doubted for each in after_outcomes(known, tasks).values())
        broken = [(number, success and number >= 5) for number, success in tasks]
        rightly += any(each.held is not None for each in after_outcomes(known, broken).values())
    assert wrongly == 0
    assert rightly >= 3


@given(st.floats(0.0, 1.0), st.floats(0.0, 1_000.0), st.floats(0.0, 1_000.0))
def test_confidence_fades_with_time_unless_a_person_set_it(
    confidence: float, days: float, more: float
) -> None:
    learning = a_learning(confidence=confidence)
    early = present_confidence(learning, START + timedelta(days=days), POLICY)
    late = present_confidence(learning, START + timedelta(days=days + more), POLICY)
    assert confidence >= early >= late >= 0.0
    pinned = evolve(learning, pinned=True)
    assert present_confidence(pinned, START + timedelta(days=days), POLICY) == confidence


@given(st.floats(0.0, exclude_min=True), st.floats(0, 1e5), st.floats(0, 1))
def test_any_half_life_leaves_a_part_of_it(half_life: float, days: float, confidence: float) -> None:
    policy, later = evolve(POLICY, half_life_days=half_life), START + timedelta(days=days)
    left = present_confidence(a_learning(confidence=confidence), later, policy)
    assert 0 <= left <= confidence
    assert left == confidence or half_life < math.inf


def test_half_of_it_is_left_after_the_half_life() -> None:
    learning = a_learning(confidence=0.8)
    later = START + timedelta(days=POLICY.half_life_days)
    assert present_confidence(learning, later, POLICY) == pytest.approx(0.4)


@given(st.lists(st.floats(0.0, 1.0), max_size=12))
def test_only_trusted_learnings_are_shown_the_best_first_and_never_too_many(found: list[float]) -> None:
    known = [a_learning(f"l{number}", confidence=each) for number, each in enumerate(found)]
    shown = [each.confidence for each in shown_of(known)]
    trusted = [each for each in found if each >= POLICY.min_confidence]
    assert shown == sorted(trusted, reverse=True)[: POLICY.shown]


def test_a_lesson_for_the_task_is_shown_before_better_ones_for_others() -> None:
    others = [a_learning(f"l{number}", f"Topic{number}.", confidence=0.81) for number in range(6)]
    own = a_learning("own", "Restart the router.", confidence=0.45)
    shown = select_learnings(
        [*others, own], START, POLICY, task="The router blinks", similarity=word_similarity
    )
    assert (len(shown), shown[0].id) == (POLICY.shown, "own")


# --- what an outcome does -------------------------------------------------------------------------------


@given(st.lists(st.booleans(), max_size=20))
def test_the_counts_are_those_of_the_outcomes_and_what_keeps_failing_drops_out(worked: list[bool]) -> None:
    learning = a_learning(success_count=0, confidence=0.5, outcomes=())
    for number, success in enumerate(worked, 1):
        plan = a_persona_plan(follows=(learning.id,))
        (update,) = changes(plan, an_evaluation(plan, worked=success), [learning])
        learning = update.learning
        wins, losses = sum(worked[:number]), number - sum(worked[:number])
        assert (learning.success_count, learning.failure_count) == (wins, losses)
        assert learning.confidence == confidence_of(worked[:number][-12:])
        assert learning.learned_from[-1] == plan.task.id
        assert (update.change == "dropped") == (learning.confidence < 0.2)
        if update.change == "dropped":
            return
        assert update.change == ("confirmed" if success else "weakened")


def test_a_lesson_like_a_known_one_confirms_it_and_is_counted_once() -> None:
    known = a_learning(pattern="Ask for the level before explaining hooks")
    plan = a_persona_plan(follows=(known.id,))
    evaluation = an_evaluation(plan, "Ask for the level first, before explaining hooks")
    (update,) = changes(plan, evaluation, [known])
    assert (update.change, update.learning.success_count) == ("confirmed", 2)


def test_a_lesson_that_was_not_followed_is_not_credited_with_what_another_achieved() -> None:
    followed = a_learning("followed", "Be brief.")
    like = a_learning("like", "Ask for the level before explaining hooks")
    plan = a_persona_plan(follows=(followed.id,))
    evaluation = an_evaluation(plan, "Ask for the level before explaining hooks")
    (update,) = changes(plan, evaluation, [like, followed])
    assert (update.learning.id, update.change) == ("followed", "confirmed")


@given(st.booleans())
def test_a_platitude_that_no_plan_follows_gains_nothing_by_being_repeated(worked: bool) -> None:
    platitude = a_learning(pattern="Be polite and precise.")
    plan = a_persona_plan()
    assert changes(plan, an_evaluation(plan, "Be polite and precise.", worked=worked), [platitude]) == ()


@given(st.booleans())
def test_what_plans_are_not_shown_can_come_back_by_being_restated(worked: bool) -> None:
    hidden = a_learning(outcomes=(False,), confidence=confidence_of([False]))
    plan = a_persona_plan()
    (update,) = changes(plan, an_evaluation(plan, hidden.pattern, worked=worked), [hidden])
    assert update.learning.outcomes == (False, worked)


def test_a_failure_does_not_blame_a_lesson_that_was_not_tried() -> None:
    known = a_learning(pattern="Ask for the level before explaining hooks")
    plan = a_persona_plan()
    evaluation = an_evaluation(plan, "Ask for the level before explaining hooks", worked=False)
    assert changes(plan, evaluation, [known]) == ()


@given(st.booleans())
def test_a_new_lesson_rests_on_its_task_and_one_failure_is_not_shown(worked: bool) -> None:
    plan = a_persona_plan()
    evaluation = an_evaluation(plan, "  Be brief. ", worked=worked)
    (update,) = changes(plan, evaluation, [])
    learning = update.learning
    assert (update.change, learning.pattern, learning.learned_from) == (
        "created",
        "Be brief.",
        (plan.task.id,),
    )
    assert (shown_of([learning]) == (learning,)) == worked


def test_what_was_not_used_for_too_long_is_dropped() -> None:
    old = a_learning("old", last_used_at=START - timedelta(days=365))
    kept = a_learning("kept", last_used_at=START - timedelta(days=365), pinned=True)
    plan = a_persona_plan()
    updates = changes(plan, an_evaluation(plan), [old, kept])
    assert [(update.learning.id, update.change) for update in updates] == [("old", "dropped")]


def test_a_pinned_learning_keeps_its_confidence_and_stays() -> None:
    pinned = a_learning(pinned=True, confidence=0.9, failure_count=9)
    plan = a_persona_plan(follows=(pinned.id,))
    (update,) = changes(plan, an_evaluation(plan, worked=False), [pinned])
    assert (update.change, update.learning.confidence) == ("weakened", 0.9)
