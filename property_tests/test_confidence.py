"""Confidence is worked out from what happened: whatever more goes wrong never raises it."""

from __future__ import annotations

from typing import get_args

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.core.results import ReasoningStatus
from reactive_agents.kernel.evidence import Seen
from reactive_agents.reasoning.confidence import (
    BY_STATUS,
    RunCourse,
    confidence_in,
    rejections_in,
    unsupported_share,
)

statuses = st.sampled_from(get_args(ReasoningStatus))
counts = st.integers(0, 40)
shares = st.floats(0, 1)
courses = st.builds(RunCourse, counts, counts, shares)
judgements = st.none() | shares


@given(statuses, courses, judgements, counts, counts, shares)
def test_more_failures_never_raise_it(
    status: ReasoningStatus,
    course: RunCourse,
    judged: float | None,
    rejections: int,
    failed: int,
    share: float,
) -> None:
    worse = RunCourse(
        course.rejections + rejections, course.failed_calls + failed, max(course.unsupported, share)
    )
    assert 0 <= confidence_in(status, worse, judged) <= confidence_in(status, course, judged) <= 1


@given(statuses, courses, shares, shares)
def test_a_better_judgement_never_lowers_it(
    status: ReasoningStatus, course: RunCourse, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert confidence_in(status, course, low) <= confidence_in(status, course, high)


@given(courses)
def test_a_completed_run_has_the_most_and_a_failed_one_the_least(course: RunCourse) -> None:
    ranked = [confidence_in(status, course) for status in ("failed", "partial", "abstained", "completed")]
    assert ranked == sorted(ranked)
    assert BY_STATUS.keys() == set(get_args(ReasoningStatus))
    assert confidence_in("completed", evolve(course, rejections=0, failed_calls=0, unsupported=0.0)) == 0.8


@given(st.text(max_size=60), st.text(max_size=60), st.lists(st.text(max_size=60), max_size=3))
def test_the_share_of_unsupported_figures_is_one(answer: str, task: str, results: list[str]) -> None:
    share = unsupported_share(answer, Seen(task, tuple(results)))
    assert 0 <= share <= 1
    assert unsupported_share(answer, Seen(f"{task} {answer}", tuple(results))) == 0


@given(st.dictionaries(st.sampled_from(["progress", "unsupported", "text_answer"]), counts))
def test_reminders_are_no_rejections(told: dict[str, int]) -> None:
    assert rejections_in(told) == sum(told.values()) - told.get("progress", 0)
