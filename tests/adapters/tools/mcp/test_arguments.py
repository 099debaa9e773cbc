"""Arguments against JSON Schemas of strangers."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from returns.result import Success

from reactive_agents.adapters.tools.mcp.listed_tools import ArgumentCheck

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": ["integer", "null"], "minimum": 1, "maximum": 9},
        "unit": {"enum": ["C", "F"]},
        "kind": {"const": "x"},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}},
    },
    "required": ["city", "unit"],
    "additionalProperties": False,
    "$defs": {"stop": {"type": "object", "required": ["at"], "properties": {"at": {"type": "number"}}}},
}


def problems(schema: dict[str, Any], **arguments: Any) -> dict[str, tuple[str, str]]:
    error = ArgumentCheck(schema)("tool", arguments).failure()
    assert error.tool_name == "tool"
    return {problem.argument: (problem.got, problem.expected) for problem in error.problems}


def test_arguments_that_fit_pass() -> None:
    check = ArgumentCheck(SCHEMA)
    assert check("tool", {"city": "Oslo", "unit": "C", "days": None, "stops": [{"at": 1}]}) == Success(None)
    assert check("tool", {"city": "Rome", "unit": "F"}) == Success(None)


def test_each_problem_is_named() -> None:
    found = problems(SCHEMA, city="O", days="3", unit="K", kind="y", stops=[{"at": 1}, {}], more=1)
    assert found == {
        "city": ('"O"', "a value that fits minLength 2 of the schema"),
        "days": ('"3"', "a value of type integer or null"),
        "unit": ('"K"', 'one of ["C", "F"]'),
        "kind": ('"y"', '"x"'),
        "stops[1].at": ("nothing", "a value, since it is required"),
        "more": ("1", "no argument of that name; known arguments: city, days, unit, kind, stops"),
    }


def test_all_that_is_missing_is_named_once() -> None:
    missing = ("nothing", "a value, since it is required")
    assert problems(SCHEMA) == {"city": missing, "unit": missing}
    assert problems(SCHEMA, city="Oslo", unit="C", days=0)["days"] == ("0", "a number of at least 1")
    assert problems(SCHEMA, city="Oslo", unit="C", days=10)["days"] == ("10", "a number of at most 9")


def test_a_flood_of_problems_is_cut() -> None:
    found = problems({"additionalProperties": False}, **{f"a{number}": number for number in range(30)})
    assert len(found) == 11
    assert found["further arguments"] == ("20 more problems", "valid values")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": 3},
        {"properties": {"a": {"$ref": "#/nowhere"}}},
        {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}},
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"properties": {"a": {"pattern": "(?<oops"}}},
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        ArgumentCheck(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        {"$schema": "http://example.org/unknown", "properties": {"a": {"type": "integer"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"type": "integer"}}},
    ],
)
def test_a_schema_that_only_looks_odd_is_followed(schema: dict[str, Any]) -> None:
    assert ArgumentCheck(schema)("tool", {"a": 1}) == Success(None)


def test_a_missing_library_does_not_turn_the_check_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(ImportError):
        ArgumentCheck(SCHEMA)


def test_a_pattern_that_would_backtrack_for_ever_is_checked_at_once() -> None:
    check = ArgumentCheck({"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}})
    assert check("tool", {"a": "a" * 100_000}) == Success(None)
    assert "pattern" in check("tool", {"a": "a" * 100_000 + "!"}).failure().problems[0].expected
