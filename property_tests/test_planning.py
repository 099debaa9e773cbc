"""The laws of plans: waves are topological, references total, and changes leave completed steps alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from attrs import evolve
from hypothesis import assume, given
from hypothesis import strategies as st
from returns.result import Failure, Success

from property_tests.strategies import json_values
from reactive_agents.core.errors import FieldProblem
from reactive_agents.core.ids import AgentId, PlanId, TaskId
from reactive_agents.core.plans import Plan, PlanMode, PlanStep, PlanStepStatus
from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.reasoning.planning.context import (
    apply_augment,
    apply_patch,
    replace_remaining,
    resumed_plan,
)
from reactive_agents.reasoning.planning.executor import compute_waves, next_batch
from reactive_agents.reasoning.planning.planner import (
    find_cycle,
    find_problems,
    planned_calls,
    with_required_calls,
)
from reactive_agents.reasoning.planning.schemas import (
    LLMPlanOutput,
    LLMPlanStep,
    hydrate_steps,
    interpolate,
    references_in,
)
from reactive_agents.testing.core import START
from tests.support.profiles import examples

TOOLS = tuple(
    ToolDefinition(name, f"The tool {name}.", schema, idempotent=name == "look", output=name == "send")
    for name, schema in {
        "look": {"type": "object"},
        "find": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
        "send": {"type": "object", "properties": {"body": {"type": "string"}}, "required": ["body"]},
    }.items()
)
quick = examples(20)
STATUSES: tuple[PlanStepStatus, ...] = ("pending", "in_progress", "completed", "failed", "skipped")
ids = st.sampled_from([f"s{number}" for number in range(1, 8)])
references = st.builds(
    lambda step, form: f"see {{{{from_step:{step}{form}}}}}", ids, st.sampled_from(["", ":full", ":summary"])
)
texts = st.text(min_size=1, max_size=8) | references
arguments = st.dictionaries(st.text(max_size=3), json_values | references, max_size=2)


@st.composite
def contents(draw: Any) -> LLMPlanStep:
    """A step as a model may write it."""
    kind = draw(st.sampled_from(["tool_call", "analysis", "composite"]))
    name = draw(st.sampled_from(["look", "find", "send", "none", None]))
    hints = draw(st.lists(st.sampled_from(["look", "find", "send"]), max_size=2).map(tuple))
    needed = draw(st.lists(ids, max_size=2).map(tuple))
    return LLMPlanStep("A step", draw(texts), kind, name, draw(arguments), hints, needed)


outputs = st.lists(contents(), min_size=1, max_size=5).map(lambda steps: LLMPlanOutput(tuple(steps)))


def hydrated(output: LLMPlanOutput, mode: PlanMode = "dag") -> Plan:
    steps = hydrate_steps(output.steps, first=1)
    return Plan(PlanId("p"), TaskId("t"), AgentId("a"), "Goal", mode, steps, "active", 1, START, START)


@st.composite
def plans(draw: Any) -> Plan:
    """A plan somewhere on its way."""
    plan = hydrated(draw(outputs), draw(st.sampled_from(["linear", "dag"])))
    return evolve(
        plan, steps=tuple(_on_its_way(step, draw(st.sampled_from(STATUSES))) for step in plan.steps)
    )


def _on_its_way(step: PlanStep, status: PlanStepStatus) -> PlanStep:
    result = f"result of {step.id}" if status == "completed" else None
    return evolve(step, status=status, result=result)


def completed(plan: Plan) -> tuple[PlanStep, ...]:
    return tuple(step for step in plan.steps if step.status == "completed")


def assert_sound(before: Plan, after: Plan) -> None:
    """Completed steps are the same in the same order; ids are unique; positions rise; the version grew."""
    assert completed(after) == completed(before)
    assert len({step.id for step in after.steps}) == len(after.steps)
    positions = [step.seq for step in after.steps]
    assert positions == sorted(set(positions))
    assert after.version == before.version + 1 or after == before


# --- order ----------------------------------------------------------------------------------------------


@quick
@given(plans() | outputs.map(hydrated))
def test_waves_have_each_pending_step_once_and_after_what_it_depends_on(plan: Plan) -> None:
    waves = compute_waves(plan)
    ordered = [step for wave in waves for step in wave]
    pending = [step for step in plan.steps if step.status == "pending"]
    assert len({step.id for step in ordered}) == len(ordered)
    if plan.mode == "linear":
        assert ordered == pending
        assert all(len(wave) == 1 for wave in waves)
        return
    open_ids = {step.id for step in pending}
    own_circle = any(step.id in step.depends_on for step in pending)
    if not find_cycle(pending) and not own_circle:
        assert {step.id for step in ordered} == open_ids
    position = {step.id: number for number, wave in enumerate(waves) for step in wave}
    for step in ordered:
        for needed in set(step.depends_on) & open_ids:
            assert position[needed] < position[step.id]


@quick
@given(
    plans(),
    st.dictionaries(st.sampled_from(["look", "find"]), st.integers(0, 5)),
    st.integers(1, 3),
    st.booleans(),
)
def test_running_batch_by_batch_takes_each_step_of_the_waves_once(
    plan: Plan, left: dict[str, int], attempts: int, parallel: bool
) -> None:
    wanted = {step.id for wave in compute_waves(plan) for step in wave}
    taken: list[str] = []
    while batch := next_batch(plan, left, attempts=attempts, parallel=parallel):
        assert parallel or len(batch) == 1
        for name, calls in left.items():
            single = sum(step.type == "tool_call" and step.tool_name == name for step in batch)
            free = sum(
                step.type == "composite" and (not step.tool_hints or name in step.tool_hints)
                for step in batch
            )
            assert single <= 1 or single * attempts <= calls
            assert not free or single + free == 1 or not calls, "a model may use up all calls by itself"
        taken += [step.id for step in batch]
        done = {step.id for step in batch}
        plan = evolve(
            plan, steps=tuple(evolve(s, status="completed") if s.id in done else s for s in plan.steps)
        )
    assert len(taken) == len(set(taken))
    assert set(taken) == wanted


@quick
@given(outputs)
def test_a_cycle_is_a_path_of_dependencies_back_to_its_start(output: LLMPlanOutput) -> None:
    steps = hydrated(output).steps
    cycle = find_cycle(steps)
    by_id = {step.id: step for step in steps}
    if cycle:
        assert cycle[0] == cycle[-1]
        assert len(cycle) > 2
        assert all(after in by_id[before].depends_on for before, after in pairwise(cycle))
        return
    plain = [evolve(s, depends_on=tuple(d for d in s.depends_on if d != s.id)) for s in steps]
    waves = compute_waves(evolve(hydrated(output), steps=tuple(plain)))
    assert sum(map(len, waves)) == len(steps), "without a circle every step has its place"


@quick
@given(outputs, st.sampled_from(["linear", "dag"]))
def test_a_plan_without_problems_has_a_place_for_every_step(output: LLMPlanOutput, mode: PlanMode) -> None:
    plan = hydrated(output, mode)
    assert (plan.version, plan.status) == (1, "active")
    problems = find_problems(plan, {s.id: f"$.steps[{i}]" for i, s in enumerate(plan.steps)}, TOOLS)
    assert all(isinstance(problem, FieldProblem) and problem.path.startswith("$") for problem in problems)
    if problems:
        return
    waves = compute_waves(plan)
    assert sum(map(len, waves)) == len(plan.steps)
    done: set[str] = set()
    for wave in waves:
        assert all(done.issuperset(step.depends_on) for step in wave)
        done |= {step.id for step in wave}
    assert all(step.tool_name in {t.name for t in TOOLS} for step in plan.steps if step.type == "tool_call")


# --- references -----------------------------------------------------------------------------------------

wild = st.text(alphabet="{}from_step:s1 fulmary", max_size=40) | references | st.just("{{from_step:s2")


@quick
@given(json_values | wild | st.dictionaries(wild, wild | json_values, max_size=3), plans())
def test_interpolation_is_total_and_leaves_no_reference(value: Any, plan: Plan) -> None:
    step = plan.steps[0]
    filled = interpolate(value, step, plan.steps)
    known = {each.id for each in completed(plan)} - {step.id}
    if isinstance(filled, Failure):
        assert filled.failure()
        return
    assert set(references_in(value)) <= known
    assert references_in(filled.unwrap()) == ()
    if not references_in(value):
        assert filled.unwrap() == value


@quick
@given(st.text(max_size=2_000), st.text(max_size=5))
def test_a_reference_delivers_the_whole_result_and_nothing_in_it_is_looked_at(
    result: str, around: str
) -> None:
    assume("{{" not in around)
    steps = hydrated(
        LLMPlanOutput((LLMPlanStep("a", "a", "analysis"), LLMPlanStep("b", "b", "analysis")))
    ).steps
    source = evolve(steps[0], status="completed", result=result + "{{from_step:s9}}")
    value = {"deep": [f"{around}{{{{from_step:s1}}}}", {"x": "{{ from_step:s1:full }}"}]}
    filled = interpolate(value, steps[1], (source, steps[1]))
    whole = result + "{{from_step:s9}}"
    assert filled == Success({"deep": [around + whole, {"x": whole}]})
    short = interpolate("{{from_step:s1:summary}}", steps[1], (source, steps[1])).unwrap()
    assert isinstance(short, str)
    assert len(short) <= 500
    assert whole.startswith(short)


# --- changes --------------------------------------------------------------------------------------------


@quick
@given(plans(), ids, contents())
def test_a_patch_changes_one_step_that_is_not_completed(plan: Plan, failed: str, step: LLMPlanStep) -> None:
    patched = apply_patch(plan, failed, step, START)
    assert_sound(plan, patched)
    assert [each.id for each in patched.steps] == [each.id for each in plan.steps]
    changed = [new.id for old, new in zip(plan.steps, patched.steps, strict=True) if old != new]
    assert set(changed) <= {failed}
    assert all(new.status == "pending" for new in patched.steps if new.id in changed)


@quick
@given(plans(), outputs)
def test_replanning_replaces_all_that_is_not_completed(plan: Plan, output: LLMPlanOutput) -> None:
    changed = replace_remaining(plan, output, START)
    assert_sound(plan, changed)
    added = changed.steps[len(completed(plan)) :]
    assert len(added) == len(output.steps)
    assert all(step.status == "pending" for step in added)
    assert {step.id for step in added}.isdisjoint(step.id for step in plan.steps)


@quick
@given(plans(), outputs)
def test_augmenting_adds_steps_at_the_end(plan: Plan, output: LLMPlanOutput) -> None:
    changed = apply_augment(plan, output, START)
    assert_sound(plan, changed)
    assert changed.steps[: len(plan.steps)] == plan.steps
    assert len(changed.steps) == len(plan.steps) + len(output.steps)


@quick
@given(plans(), st.dictionaries(st.sampled_from(["look", "find", "send", "none"]), st.integers(1, 4)))
def test_required_calls_are_all_planned_and_none_too_many(plan: Plan, counts: dict[str, int]) -> None:
    needs = ToolNeeds(tuple(ToolRequirement(name, count) for name, count in counts.items()))
    changed = with_required_calls(plan, needs, TOOLS, START)
    assert_sound(plan, changed)
    before = {step.id: step for step in plan.steps}
    added = tuple(step for step in changed.steps if step.id not in before)
    assert [step.id for step in changed.steps if step.id in before] == list(before)
    written = {step.id: "$" for step in added if not step.depends_on}
    assert not [p for p in find_problems(changed, written, TOOLS) if "circle" not in p.problem]
    for name, count in counts.items():
        made = planned_calls(plan.steps, name)
        planned = planned_calls(changed.steps, name)
        assert planned >= (made if name == "none" else max(made, count))
        own = [step for step in added if name in (step.tool_name, *step.tool_hints)]
        calls = [step for step in own if step.type == "tool_call"]
        assert len(own) <= 1 or len(calls) == len(own) == count - made, (
            "one step makes them, or each is one call"
        )
        assert name != "none" or not own, "a tool that the run does not have"
    assert with_required_calls(changed, needs, TOOLS, START) == changed


@quick
@given(outputs, st.sampled_from(["linear", "dag"]), st.integers(1, 4))
def test_added_steps_come_before_what_uses_them_and_are_used(
    output: LLMPlanOutput, mode: PlanMode, count: int
) -> None:
    plan = hydrated(output, mode)
    changed = with_required_calls(plan, ToolNeeds((ToolRequirement("find", count),)), TOOLS, START)
    before = {step.id: evolve(step, seq=0) for step in plan.steps}
    place = {step.id: number for number, step in enumerate(changed.steps)}
    new = [step for step in changed.steps if step.id not in before]
    users = [
        step for step in changed.steps if evolve(step, seq=0) != before.get(step.id, evolve(step, seq=0))
    ]
    for each in new:
        later = changed.steps[place[each.id] + len(new) :]
        assert not any(step.tool_name in ("look", "find") for step in later), "all that gather come before"
        writing = [step for step in later if step.type == "analysis"]
        assert users or not writing
        assert all(
            place[step.id] > place[each.id] and each.id in references_in([step.instruction]) for step in users
        )


@quick
@given(plans())
def test_a_resumed_plan_has_no_step_under_way_and_keeps_what_is_done(plan: Plan) -> None:
    resumed = resumed_plan(plan, TOOLS, START)
    assert_sound(plan, resumed)
    for old, new in zip(plan.steps, resumed.steps, strict=True):
        assert new.status != "in_progress"
        if old.status != "in_progress":
            assert new == old
        elif old.type == "tool_call":
            assert new.status == ("pending" if old.tool_name == "look" else "failed")
        elif old.type == "analysis":
            assert new.status == "pending"
        else:
            assert (new.status == "pending") == (set(old.tool_hints) == {"look"})
