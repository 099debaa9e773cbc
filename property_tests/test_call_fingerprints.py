"""Tool calls that ask the same have the same fingerprint."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from property_tests.strategies import texts
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | texts | st.just("{"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(texts, json_values, max_size=4)


def call_of(given_arguments: dict[str, Any], name: str = "look") -> ToolCall:
    return ToolCall(CallId("c"), name, given_arguments)


def in_another_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: in_another_order(part) for name, part in reversed(value.items())}
    return [in_another_order(part) for part in value] if isinstance(value, list) else value


@given(arguments)
def test_the_order_of_the_arguments_makes_no_other_call(given_arguments: dict[str, Any]) -> None:
    assert call_of(in_another_order(given_arguments)).fingerprint == call_of(given_arguments).fingerprint


@given(arguments, arguments)
def test_other_arguments_make_another_call(one: dict[str, Any], other: dict[str, Any]) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (call_of(one).fingerprint == call_of(other).fingerprint) == same


@given(arguments, texts)
def test_a_call_is_described_as_json(given_arguments: dict[str, Any], name: str) -> None:
    assert json.loads(call_of(given_arguments, name).described) == {
        "tool": name,
        "arguments": given_arguments,
    }
    malformed = ToolCall(CallId("c"), name, malformed="{" + name)
    assert json.loads(malformed.described) == {"tool": name, "arguments": "{" + name}
