"""Error messages for calls that do not fit the schema."""

from __future__ import annotations

import pytest

from reactive_agents.core.json import JsonObject
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing.argument_schema import explain_schema, signature

READ: JsonObject = {
    "type": "object",
    "properties": {
        "start_line": {"type": "integer", "default": 1},
        "path": {"type": "string"},
        "mode": {"enum": ["text", "raw"]},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
        "owner": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "other": {},
    },
    "required": ["path"],
    "$defs": {"tag": {"type": "string"}},
}


def test_the_signature_shows_types_defaults_and_what_may_be_left_out() -> None:
    assert signature(ToolDefinition("file-read", "", READ)) == (
        "file-read(path: string, start_line: integer = 1, "
        'mode?: "text" | "raw", tags?: array of string, owner?: string | null, other?: any)'
    )


def test_an_explanation_says_what_is_wrong_and_how_it_is_right() -> None:
    told = explain_schema(ToolDefinition("clock", "", {"type": "object"}), "zone: got 3,\n expected text.")
    assert told.splitlines()[:2] == ["zone: got 3, expected text.", "Call it again as: clock()"]


@pytest.mark.parametrize("count", [50, 1])
def test_an_explanation_is_short_whatever_the_tool(count: int) -> None:
    properties: JsonObject = {f"argument_{'x' * 300}_{index}": {"type": "string"} for index in range(count)}
    definition = ToolDefinition("t" * 64, "", {"type": "object", "properties": properties})
    told = explain_schema(definition, "wrong " * 500)
    assert len(told) < 800
    assert "…" in told
