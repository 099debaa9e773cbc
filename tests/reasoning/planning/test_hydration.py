"""Steps that a model wrote, as steps of a plan: only what belongs to their type is kept."""

from __future__ import annotations

import pytest

from reactive_agents.core.plans import PlanStepType
from reactive_agents.reasoning.planning.schemas import LLMPlanStep, hydrate_step


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        ("tool_call", ("look", {"a": 1}, ())),
        ("composite", (None, {}, ("see",))),
        ("analysis", (None, {}, ())),
    ],
)
def test_a_step_keeps_what_its_type_has(
    kind: PlanStepType, kept: tuple[str | None, dict[str, int], tuple[str, ...]]
) -> None:
    written = LLMPlanStep(
        "Look",
        "Look at {{from_step:s1}}.",
        kind,
        tool_name="look",
        tool_args={"a": 1},
        tool_hints=("see",),
        depends_on=("s2",),  # itself, which says nothing
    )
    step = hydrate_step(written, step_id="s2", seq=2)
    assert (step.tool_name, step.tool_args, step.tool_hints) == kept
    assert (step.id, step.seq, step.status, step.depends_on) == ("s2", 2, "pending", ("s1",))
