"""Whatever is tried on a kernel state: only what the rules allow succeeds, and nothing is ever lost."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import event, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from returns.result import Failure, Success

from property_tests.strategies import values_of
from reactive_agents.core.errors import IllegalTransition
from reactive_agents.core.ids import StepId, TaskId
from reactive_agents.core.results import ReasoningStep
from reactive_agents.kernel import (
    KernelState,
    deserialize_kernel_state,
    initial_kernel_state,
    serialize_kernel_state,
    transition_state,
)
from tests.support.profiles import examples

FOLLOWERS = {
    "thinking": ["thinking", "acting", "done", "failed"],
    "acting": ["acting", "observing", "done", "failed"],
    "observing": ["observing", "thinking", "done", "failed"],
    "done": ["done"],
    "failed": ["failed"],
}
"""The rules once more, so that the table is checked against something else than itself."""

FREE = [
    "messages",
    "scratchpad",
    "tools_used",
    "pending",
    "results",
    "proposal",
    "guidance",
    "output",
    "error",
    "outcome",
    "terminated_by",
    "reason",
    "meta",
]

counts = st.integers(-1, 3)
steps = values_of(ReasoningStep)


def text_of(state: KernelState) -> str:
    return json.dumps(serialize_kernel_state(state), ensure_ascii=False)


def after(state: KernelState, **changes: Any) -> KernelState:
    """The state with the changes; ``tokens`` and ``cost`` are those of its usage."""
    tokens, cost = changes.pop("tokens", state.tokens), changes.pop("cost", state.cost)
    usage = evolve(state.usage, usage=evolve(state.usage.usage, total_tokens=tokens), cost_usd=cost)
    return evolve(state, usage=usage, **changes)


class KernelTransitions(RuleBasedStateMachine):
    """A state that is pushed around, beside what it should have become."""

    @initialize(meta=values_of(KernelState).map(lambda state: state.meta))
    def begin(self, meta: dict[str, Any]) -> None:
        self.state = initial_kernel_state(
            id="k", task_id=TaskId("t"), strategy="reactive", kernel_type="react", meta=meta
        )
        self.highest = self.state

    def push(self, *, legal: bool, **changes: Any) -> None:
        """Try the changes; they take effect together when they are legal, and not at all otherwise."""
        old, before = self.state, text_of(self.state)
        outcome = transition_state(old, **changes)
        assert text_of(old) == before
        match outcome:
            case Success(following):
                assert legal, changes
                assert following == after(old, **changes)
                self.state = following
            case Failure(error):
                assert not legal, (changes, error)
                assert isinstance(error, IllegalTransition)
                assert error.field in changes
                event(f"refused: {error.field}")

    @rule(status=st.sampled_from(sorted(FOLLOWERS)))
    def change_status(self, status: str) -> None:
        self.push(legal=status in FOLLOWERS[self.state.status], status=status)

    @rule(to=st.sampled_from(["thinking", "acting", "observing"]))
    def go_round(self, to: str) -> None:
        """Terminal states are reached by the other rule; this one keeps the run going."""
        self.push(legal=to in FOLLOWERS[self.state.status], status=to)

    @rule(iteration=counts, tokens=counts, cost=st.floats(-0.5, 5.0))
    def count(self, iteration: int, tokens: int, cost: float) -> None:
        now = self.state
        self.push(
            legal=min(iteration, tokens) >= 0 and now.cost + cost >= now.cost,
            iteration=now.iteration + iteration,
            tokens=now.tokens + tokens,
            cost=now.cost + cost,
        )

    @rule(cost=st.sampled_from([float("nan"), float("inf")]))
    def lose_the_cost(self, cost: float) -> None:
        self.push(legal=False, cost=cost)

    @rule(more=st.lists(steps, max_size=3))
    def add_steps(self, more: list[ReasoningStep]) -> None:
        self.push(legal=True, steps=(*self.state.steps, *more))

    @rule(kept=st.integers(0, 6), more=st.lists(steps, max_size=3))
    def replace_steps(self, kept: int, more: list[ReasoningStep]) -> None:
        old = self.state.steps
        new = (*old[:kept], *more)
        self.push(legal=new[: len(old)] == old, steps=new)

    @rule(data=st.data())
    def edit_a_step(self, data: st.DataObject) -> None:
        old = self.state.steps
        if not old:
            return
        index = data.draw(st.integers(0, len(old) - 1))
        edited = evolve(old[index], id=StepId(old[index].id + "'"))
        self.push(legal=False, steps=(*old[:index], edited, *old[index + 1 :]))

    @rule(state=values_of(KernelState))
    def fill_in(self, state: KernelState) -> None:
        """Everything that no rule speaks of may change freely."""
        self.push(legal=True, **{name: getattr(state, name) for name in FREE})

    @rule(status=st.sampled_from(["sleeping", "", "Done"]))
    def decode_what_is_no_state(self, status: str) -> None:
        data: Any = serialize_kernel_state(self.state)
        assert isinstance(deserialize_kernel_state({**data, "status": status}), Failure)

    @invariant()
    def nothing_goes_back(self) -> None:
        before, now = self.highest, self.state
        assert now.iteration >= before.iteration
        assert now.tokens >= before.tokens
        assert now.cost >= before.cost
        assert now.steps[: len(before.steps)] == before.steps
        if before.status in ("done", "failed"):
            assert now.status == before.status
        self.highest = now

    @invariant()
    def it_survives_the_way_through_json(self) -> None:
        text = text_of(self.state)
        restored = deserialize_kernel_state(json.loads(text)).unwrap()
        assert restored == self.state
        assert text_of(restored) == text


TestKernelTransitions = KernelTransitions.TestCase
TestKernelTransitions.settings = settings(examples(15), stateful_step_count=20)


@given(values_of(KernelState))
@examples(15)
def test_any_state_is_json_both_ways_byte_for_byte(state: KernelState) -> None:
    text = text_of(state)
    restored = deserialize_kernel_state(json.loads(text)).unwrap()
    assert restored == state
    assert text_of(restored) == text


junk = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary(max_size=3)
    | st.sets(st.integers()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["scratchpad", "meta", "output"]), junk, st.floats(), st.integers())
def test_whatever_custom_code_puts_into_a_state_it_survives_json_or_is_refused(
    name: str, value: Any, cost: float, tokens: int
) -> None:
    begun = initial_kernel_state(id="k", task_id=TaskId("t"), strategy="s", kernel_type="own")
    outcome = transition_state(begun, status="done", cost=cost, tokens=tokens, **{name: value})
    if isinstance(outcome, Success):
        state = outcome.unwrap()
        assert deserialize_kernel_state(json.loads(text_of(state))).unwrap() == state
        event("accepted")
