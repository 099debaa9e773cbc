"""The examples of planning prompts pass the checks that the steps of a model have to pass."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from reactive_agents.core.codec import encode
from reactive_agents.core.config import ContextTier
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.reasoning.planning.context import apply_augment, apply_patch, replace_remaining
from reactive_agents.reasoning.planning.planner import find_problems
from reactive_agents.reasoning.planning.prompts import described_tools, step_rules
from reactive_agents.reasoning.planning.schemas import (
    LLMPlanOutput,
    example_arguments,
    example_plan,
    example_step,
    hydrate_steps,
    next_number,
)
from tests.support.memories import START, a_plan

NAMES = st.sampled_from(["city", "day", "items", "mode", "from"])
PLAIN: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "format": "date"},
        {"type": "integer", "minimum": 3},
        {"type": "number"},
        {"type": "boolean"},
        {"enum": ["fast", "slow"]},
        {"const": 7},
        {"anyOf": [{"type": "null"}, {"type": "string"}]},
    ]
)


def objects(fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas of objects, with some of the fields required."""

    def required(known: dict[str, Any]) -> st.SearchStrategy[Any]:
        chosen = st.lists(st.sampled_from(sorted(known)), unique=True) if known else st.just([])
        return chosen.map(lambda names: {"type": "object", "properties": known, "required": names})

    return st.dictionaries(NAMES, fields, max_size=4).flatmap(required)


SCHEMAS = st.recursive(
    PLAIN, lambda inner: objects(inner) | inner.map(lambda each: {"type": "array", "items": each})
)
TOOLS = st.lists(
    st.builds(
        ToolDefinition,
        st.sampled_from(["book", "look-up", "send"]),
        st.just("Does it."),
        objects(SCHEMAS),
        output=st.booleans(),
    ),
    unique_by=lambda tool: tool.name,
)


@given(objects(SCHEMAS))
def test_example_arguments_are_valid(schema: Any) -> None:
    assert list(Draft202012Validator(schema).iter_errors(example_arguments(schema))) == []


def test_an_example_takes_the_first_choice_and_ends_in_a_type_of_itself() -> None:
    tree: Any = {
        "type": "object",
        "properties": {"kind": {"enum": ["leaf", "branch"]}, "part": {"$ref": "#"}},
        "required": ["kind", "part"],
    }
    part: Any = example_arguments(tree)
    levels = 0
    while part:
        assert part["kind"] == "leaf"
        part, levels = part["part"], levels + 1
    assert levels == 8


@given(TOOLS, st.integers(0, 4))
def test_example_steps_pass_the_checks_of_steps(tools: list[ToolDefinition], completed: int) -> None:
    plan = a_plan(steps=completed + 1)
    done = tuple(evolve(step, status="completed", result="x") for step in plan.steps[:completed])
    plan = evolve(plan, steps=(*done, evolve(plan.steps[-1], status="failed", error="no")))
    output = example_plan(tools, next_number(plan.steps))
    for changed in (replace_remaining(plan, output, START), apply_augment(plan, output, START)):
        written = {step.id: step.id for step in changed.steps[-len(output.steps) :]}
        assert find_problems(changed, written, tools) == ()
    failed = plan.steps[-1].id
    assert find_problems(apply_patch(plan, failed, example_step(tools), START), {failed: "$"}, tools) == ()
    first = evolve(plan, steps=hydrate_steps(example_plan(tools, 1).steps, first=1))
    assert find_problems(first, {step.id: step.id for step in first.steps}, tools) == ()


def test_the_example_shows_a_call_first_and_an_analysis_where_there_are_no_tools() -> None:
    look_up = ToolDefinition("look-up", "Look it up.", {"type": "object", "properties": {}})
    send = evolve(look_up, name="send", output=True)
    kinds = [(step.type, step.tool_name) for step in example_plan((send, look_up), 1).steps]
    assert kinds == [("tool_call", "look-up"), ("analysis", None)]
    assert [step.type for step in example_plan((), 1).steps] == ["analysis", "analysis"]
    assert "from_step:s4" in str(encode(example_plan((), 4), LLMPlanOutput))


BOOK = ToolDefinition(
    "book",
    "Book a journey.",
    {
        "type": "object",
        "properties": {
            "date": {"type": "string", "format": "date", "description": "The day of departure."},
            "who": {"type": "string", "description": "The name of the traveller."},
            "seats": {"type": "integer"},
            "items": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"kind": {"enum": ["bag", "bike"]}, "kg": {"type": "number"}},
                    "required": ["kind"],
                },
            },
        },
        "required": ["date", "who", "items"],
    },
)


def test_the_planner_sees_the_whole_schema_of_a_tool() -> None:
    shown = described_tools((BOOK,))
    assert (
        "- book(date: string, who: string, items: array of object, seats?: integer): Book a journey." in shown
    )
    assert '  date: {"type": "string", "format": "date", "description": "The day of departure."}' in shown
    assert "  who: The name of the traveller." in shown
    assert '"properties": {"kind": {"enum": ["bag", "bike"]}, "kg": {"type": "number"}}' in shown
    assert "  seats:" not in shown, "its type says all"


def test_arguments_that_a_long_signature_leaves_out_are_listed() -> None:
    many = {f"argument_number_{n}": {"type": "string"} for n in range(40)}
    shown = described_tools((evolve(BOOK, parameters={"type": "object", "properties": many}),))
    assert all(f"  {name}: " in shown for name in many)


@pytest.mark.parametrize("with_any", [True, False])
def test_local_models_get_shorter_rules_and_nobody_hears_of_tools_that_there_are_not(with_any: bool) -> None:
    def rules(tier: ContextTier) -> str:
        return step_rules("s1", tier, with_tools=with_any)

    assert len(rules("local")) < len(rules("mid")) == len(rules("frontier"))
    for tier in ("local", "frontier"):
        assert ("tool" in rules(tier)) is with_any
        assert "{{from_step:s1}}" in rules(tier)
    assert "from_step" not in step_rules("", "mid", with_tools=with_any)
