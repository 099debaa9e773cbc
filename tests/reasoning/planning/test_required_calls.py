"""Steps for required calls that a plan lacks."""

from __future__ import annotations

from attrs import evolve

from reactive_agents.core.settings import ToolNeeds, ToolRequirement
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.reasoning.planning.planner import with_required_calls
from tests.support.memories import START, a_plan

SEARCH = ToolDefinition("search", "Search.", {"type": "object", "properties": {}})


def test_what_a_plan_that_only_writes_lacks_is_gathered_first() -> None:
    plan = a_plan(steps=2)
    written = tuple(evolve(step, type="analysis", tool_name=None, tool_args={}) for step in plan.steps)
    needs = ToolNeeds((ToolRequirement("search"),))
    changed = with_required_calls(evolve(plan, steps=written), needs, (SEARCH,), START)
    assert [(step.id, step.tool_name, step.seq) for step in changed.steps] == [
        ("s3", "search", 1),
        ("s1", None, 2),
        ("s2", None, 3),
    ]
    assert "{{from_step:s3}}" in changed.steps[1].instruction
    assert changed.version == plan.version + 1
