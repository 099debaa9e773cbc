"""The laws of plans that adapt: nothing is lost, nothing is repeated, and every plan comes to its end."""

from __future__ import annotations

from datetime import timedelta

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from reactive_agents.core.errors import (
    BudgetExceeded,
    ExecutionError,
    ModelTimeout,
    ModelUnavailable,
    RateLimited,
    StepErrors,
    StepIncomplete,
    StepTimedOut,
    ToolNotApproved,
    ToolNotFound,
)
from reactive_agents.core.ids import RunId
from reactive_agents.core.personas import Contingency, ErrorKind, PersonaPlan, StepOutcome
from reactive_agents.persona.plan_changes import (
    begin_step,
    depth_of,
    end_plan,
    expand_step,
    replace_open_steps,
)
from reactive_agents.persona.planning import classify_failure, classify_message, decide_adjustment
from reactive_agents.testing.core import START
from tests.support.personas import a_persona_plan

KINDS: tuple[ErrorKind, ...] = (
    "timeout",
    "rate_limit",
    "missing_resource",
    "access_denied",
    "network",
    "unknown",
)
ERRORS: dict[ErrorKind, StepErrors] = {
    "timeout": ExecutionError("", "t", "think", ModelTimeout("Late.", "m", 1.0)),
    "rate_limit": ExecutionError("", "t", "think", RateLimited("Slow down.", "m")),
    "missing_resource": ExecutionError("", "t", "act", ToolNotFound("web")),
    "access_denied": ExecutionError("", "t", "act", ToolNotApproved("shell", "nobody")),
    "network": ExecutionError("", "t", "think", ModelUnavailable("Gone.", "m")),
    "unknown": ExecutionError("Odd.", "t", "think"),
}
MOST_REPLANS = 3
actions = st.lists(st.sampled_from(["look", "write", "send"]), min_size=1, max_size=4)
contingencies = st.dictionaries(
    st.sampled_from(KINDS), st.lists(st.just("make up"), min_size=1, max_size=3), max_size=6
)


def outcome_of(plan: PersonaPlan, kind: ErrorKind | None, number: int) -> StepOutcome:
    step = plan.next_step
    assert step is not None
    error = None if kind is None else ERRORS[kind]
    at = START + timedelta(seconds=number)
    return StepOutcome(step.id, RunId(f"run-{number}"), error is None, f"output {number}", at, error)


def with_contingencies(plan: PersonaPlan, foreseen: dict[ErrorKind, list[str]]) -> PersonaPlan:
    return evolve(plan, contingencies=tuple(Contingency(kind, tuple(do)) for kind, do in foreseen.items()))


@given(st.data())
def test_whatever_happens_every_plan_ends_loses_no_step_and_repeats_none(data: st.DataObject) -> None:
    plan = with_contingencies(a_persona_plan(*data.draw(actions)), data.draw(contingencies))
    executed: list[str] = []
    status, number = "completed", 0
    while (step := plan.next_step) is not None:
        if depth_of(plan, step.id) < 2 and data.draw(st.sampled_from([False, False, True])):
            plan = expand_step(plan, step.id, [(action, "") for action in data.draw(actions)], START)
            continue
        number += 1
        # plans of 4 steps of 4 each, each with a chain of 6 contingencies of 3 steps, made 4 times
        assert number < 4 * 4 * (MOST_REPLANS + 1) * 3**6
        before = plan
        plan = begin_step(plan, step.id, START)
        executed.append(step.id)
        kind = data.draw(st.sampled_from([None, None, *KINDS]))
        decided = decide_adjustment(plan, outcome_of(plan, kind, number), max_replans=MOST_REPLANS)
        plan = decided.plan
        assert (decided.action == "CONTINUE") == (kind is None)
        assert decided.error_kind == kind
        assert decided.reasoning
        if decided.action == "CONTINGENCY":
            recovery = plan.recoveries[-1]
            assert (recovery.failed_step, recovery.kind) == (step.id, kind)
            ids = [each.id for each in plan.plan.steps]
            place = ids.index(step.id) + 1
            assert tuple(ids[place : place + len(recovery.steps)]) == recovery.steps
        if decided.action == "REPLAN":
            fresh = [(action, "") for action in data.draw(actions)]
            plan = with_contingencies(replace_open_steps(plan, fresh, START), data.draw(contingencies))
        kept = {each.id: each for each in plan.plan.steps}
        assert [each.seq for each in plan.plan.steps] == list(range(1, len(kept) + 1))  # ids are unique too
        for each in before.plan.steps:
            assert kept[each.id].instruction == each.instruction
            if each.status == "completed":
                assert kept[each.id] == evolve(each, seq=kept[each.id].seq)
        if decided.action == "ABORT":
            assert plan.attempts == MOST_REPLANS
            status = "failed"
            break
    assert len(executed) == len(set(executed))
    assert plan.attempts <= MOST_REPLANS
    assert len({(each.failed_step, each.kind) for each in plan.recoveries}) == len(plan.recoveries)
    ended = end_plan(plan, "completed" if status == "completed" else "failed", START)
    assert ended.next_step is None
    made_up = {each.failed_step for each in ended.recoveries}
    if status == "completed" and not ended.attempts:
        lost = [each for each in ended.plan.steps if each.status == "failed" and each.id not in made_up]
        assert lost == []


@given(st.sampled_from(KINDS), st.integers(1, 3))
def test_a_recovery_that_fails_in_the_same_way_is_not_tried_again(kind: ErrorKind, count: int) -> None:
    plan = with_contingencies(a_persona_plan("look"), {kind: ["make up"] * count})
    first = decide_adjustment(plan, outcome_of(plan, kind, 1), max_replans=MOST_REPLANS)
    assert first.action == "CONTINGENCY"
    second = decide_adjustment(first.plan, outcome_of(first.plan, kind, 2), max_replans=MOST_REPLANS)
    assert second.action == "REPLAN"


@given(st.sampled_from(KINDS))
def test_each_failing_step_may_use_the_contingency_once(kind: ErrorKind) -> None:
    plan = with_contingencies(a_persona_plan("look", "write"), {kind: ["make up"]})
    for number, worked in enumerate([False, True, False, True]):
        decided = decide_adjustment(plan, outcome_of(plan, None if worked else kind, number), max_replans=0)
        assert decided.action == ("CONTINUE" if worked else "CONTINGENCY")
        plan = decided.plan
    assert plan.next_step is None


@given(st.sampled_from(["day", "user's month"]), contingencies, st.booleans())
def test_a_step_whose_budget_is_used_up_ends_the_plan(
    period: str, foreseen: dict[ErrorKind, list[str]], refused: bool
) -> None:
    """Contingencies and new plans would cost more."""
    plan = with_contingencies(a_persona_plan("look", "write"), foreseen)
    spent = BudgetExceeded(period, 1.0, 0.9, 0.2)
    partial = StepIncomplete("s1", spent.message, "budget")
    error = ExecutionError(spent.message, "t", "think", spent) if refused else partial
    decided = decide_adjustment(plan, evolve(outcome_of(plan, "unknown", 1), error=error), max_replans=3)
    assert decided.action == "ABORT"
    assert spent.message in decided.reasoning


@given(st.sampled_from(KINDS))
def test_a_typed_error_is_classified_by_its_class_whatever_the_texts_say(kind: ErrorKind) -> None:
    outcome = outcome_of(a_persona_plan(), kind, 1)
    misleading = "404 not found, timeout, permission denied, rate limit"
    if kind != "unknown":
        outcome = evolve(outcome, detail=misleading)
    assert classify_failure(outcome) == kind


def test_where_a_step_stopped_says_what_kind_of_failure_it_is() -> None:
    outcome = evolve(outcome_of(a_persona_plan(), "unknown", 1), error=StepTimedOut("s1", 1.0))
    assert classify_failure(outcome) == "timeout"
    assert classify_failure(evolve(outcome, error=StepIncomplete("s1", "No time.", "deadline"))) == "timeout"
    left = evolve(outcome, error=StepIncomplete("s1", "Turns used up.", "iteration_limit"))
    assert classify_failure(left) == "unknown"
    assert classify_failure(evolve(left, detail="No such file: a.txt")) == "missing_resource"


@given(st.text())
def test_every_text_has_a_kind(text: str) -> None:
    assert classify_message(text) in KINDS
