"""Parsing and repair, one after the other, as a run uses them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing.parser import parse_calls
from reactive_agents.kernel.call_parsing.repair import coerce, repair_call

ROOT = Path(__file__).parents[3]
SEARCH = ToolDefinition(
    "web-search",
    "Searches the web.",
    {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "default": 5}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("<function=web_search><parameter=query>2024</parameter></function>", {"query": "2024"}),
        ("<function=web_search><parameter=query>true</parameter></function>", {"query": "true"}),
        ("<function=web_search><parameter=query>3.10</parameter></function>", {"query": "3.10"}),
        ('web_search("rain")', {"query": "rain"}),
        ('{"action": "web_search", "action_input": "rain"}', {"query": "rain"}),
        ("web_search(q='rain', Limit='3')", {"query": "rain", "limit": 3}),
    ],
)
def test_what_was_written_is_what_the_tool_gets(text: str, arguments: JsonObject) -> None:
    (found,) = parse_calls(text, [SEARCH.name]).calls
    repaired = repair_call(ToolCall(CallId("1"), found.name, found.arguments), [SEARCH])
    assert repaired.call.arguments == arguments


def test_an_unknown_tool_has_no_definition_and_stays() -> None:
    call = ToolCall(CallId("1"), "paint", {"a": 1})
    repaired = repair_call(call, [SEARCH])
    assert (repaired.call, repaired.repairs, repaired.definition) == (call, (), None)


def test_each_healing_is_told_in_a_sentence() -> None:
    repaired = repair_call(ToolCall(CallId("1"), "search", {"q": 7, "limit": ""}), [SEARCH])
    assert repaired.repairs == (
        "The tool 'search' was taken as 'web-search'.",
        "The argument 'q' was taken as 'query'.",
        "The argument 'query' was converted from 7 to \"7\".",
        "The empty argument 'limit' was left out.",
    )


def test_the_library_for_repairs_is_loaded_when_something_is_broken() -> None:
    script = (
        "import sys\n"
        "from reactive_agents.kernel.call_parsing.parser import parse_calls\n"
        "parse_calls('{\"name\": \"clock\"}', ['clock'])\n"
        "before = 'json_repair' in sys.modules\n"
        "parse_calls('{name: \"clock\"}', ['clock'])\n"
        "print(before, 'json_repair' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("False True\n", "")


def test_the_work_on_nested_values_that_fit_nothing_grows_with_their_depth() -> None:
    schema: Any = {
        "$defs": {
            "Node": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "inner": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
                },
                "required": ["name"],
            }
        },
        "$ref": "#/$defs/Node",
    }

    def functions_called(depth: int) -> int:
        value: Any = {"name": None}
        for _ in range(depth):
            value = {"name": "x", "inner": [value]}
        called = 0

        def count(_frame: object, event: str, _: object) -> None:
            nonlocal called
            called += event == "call"

        sys.setprofile(count)
        try:
            coerce(value, schema, schema)
        finally:
            sys.setprofile(None)
        return called

    assert functions_called(6) < 6 * functions_called(3)


def test_an_array_of_one_value_is_taken_for_the_value() -> None:
    given: JsonObject = {"query": ["hammer"], "limit": ["3"]}
    repaired = repair_call(ToolCall(CallId("1"), "web-search", given), [SEARCH])
    assert repaired.call.arguments == {"query": "hammer", "limit": 3}
    assert len(repaired.repairs) == 2
    several: JsonObject = {"query": ["hammer", "saw"]}
    assert repair_call(ToolCall(CallId("1"), "web-search", several), [SEARCH]).call.arguments == several
