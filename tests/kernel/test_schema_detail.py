"""Definitions in fewer words: what goes, what stays, and that the arguments are the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from reactive_agents.core.config import SchemaDetail
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.toolset import first_sentence, fit_definitions

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "title": "Arguments",
    "description": "All of it. And more.",
    "properties": {
        "title": {"type": "string", "description": "What it is called. Keep it short.", "examples": ["A"]},
        "default": {"enum": ["description", {"title": 1}], "default": "description"},
        "where": {
            "title": "Where",
            "type": "object",
            "description": "The place. In the north.",
            "properties": {"description": {"type": "string", "description": "Words. Many.", "title": "D"}},
            "required": ["description"],
        },
        "many": {"type": "array", "items": {"$ref": "#/$defs/one"}, "default": [1]},
        "any": True,
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {"one": {"type": "integer", "description": "A number. Whole.", "minimum": 1}},
}
TOOL = ToolDefinition("keep", "Keep a thing, e.g. a book. It stays.\n\nMore to say.", PARAMETERS)


def fitted(detail: SchemaDetail, tool: ToolDefinition = TOOL) -> ToolDefinition:
    (one,) = fit_definitions([tool], detail)
    return one


def test_in_full_nothing_changes() -> None:
    assert fitted("full") is TOOL


def test_trimmed_leaves_out_titles_and_examples_and_shortens_what_is_said_of_nested_values() -> None:
    tool = fitted("trimmed")
    assert tool.description == TOOL.description
    assert tool.parameters == {
        "type": "object",
        "description": "All of it. And more.",
        "properties": {
            "title": {"type": "string", "description": "What it is called. Keep it short."},
            "default": {"enum": ["description", {"title": 1}], "default": "description"},
            "where": {
                "type": "object",
                "description": "The place. In the north.",
                "properties": {"description": {"type": "string", "description": "Words."}},
                "required": ["description"],
            },
            "many": {"type": "array", "items": {"$ref": "#/$defs/one"}, "default": [1]},
            "any": True,
        },
        "required": ["title"],
        "additionalProperties": False,
        "$defs": {"one": {"type": "integer", "description": "A number.", "minimum": 1}},
    }


def test_compact_keeps_the_first_sentence_of_the_tool_and_of_each_argument() -> None:
    tool = fitted("compact")
    assert tool.description == "Keep a thing, e.g. a book."
    assert tool.parameters == {
        "type": "object",
        "description": "All of it.",
        "properties": {
            "title": {"type": "string", "description": "What it is called."},
            "default": {"enum": ["description", {"title": 1}]},
            "where": {
                "type": "object",
                "description": "The place.",
                "properties": {"description": {"type": "string"}},
                "required": ["description"],
            },
            "many": {"type": "array", "items": {"$ref": "#/$defs/one"}},
            "any": True,
        },
        "required": ["title"],
        "additionalProperties": False,
        "$defs": {"one": {"type": "integer", "minimum": 1}},
    }


def test_the_tools_own_definition_is_not_touched() -> None:
    before = copy.deepcopy(PARAMETERS)
    fitted("compact")
    assert before == PARAMETERS


def test_a_definition_that_is_short_already_stays_the_same_object() -> None:
    plain = ToolDefinition("add", "Add.", {"type": "object", "properties": {"a": {"type": "integer"}}})
    assert fitted("compact", plain) is plain


def test_a_tool_named_as_that_of_skills_needs_no_description() -> None:
    plain = ToolDefinition("load-skill", "", {"type": "object"})
    assert fitted("compact", plain) == plain


def test_a_schema_that_refers_into_what_would_be_left_out_is_kept() -> None:
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/examples/0"}},
        "examples": [{"type": "integer"}],
    }
    tool = fitted("compact", ToolDefinition("odd", "Odd.", parameters))
    assert not Draft202012Validator(tool.parameters).is_valid({"a": "x"})
    assert tool.parameters == parameters


def test_a_very_long_description_is_cut_between_words() -> None:
    tool = fitted("trimmed", ToolDefinition("long", "word " * 1_000, {"type": "object"}))
    assert tool.description.endswith("word…")
    assert len(tool.description) <= 1_200


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("One. Two.", "One."),
        ("One, e.g. Two. Three.", "One, e.g. Two."),
        ("Version 1.5 is out. Good.", "Version 1.5 is out."),
        ("A line\nand another\n\nnew paragraph", "A line and another"),
        ("no end", "no end"),
        ("What? Yes.", "What?"),
        ("", ""),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_the_first_sentence_of_a_text(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence
