"""Arguments against JSON Schemas of strangers."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from returns.result import Success

from reactive_agents.adapters.tools.mcp.listed_tools import CHECKS_ON_LOOP, MOST_CHECKS, ArgumentCheck
from reactive_agents.core.json import Json, JsonObject

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


# --- schemas that take too long -------------------------------------------------------------------------


def doubled(keyword: str, times: int) -> JsonObject:
    """A schema in which each definition refers twice to the one before."""
    steps: dict[str, Json] = {"d0": {"type": "string"}}
    for number in range(1, times):
        steps[f"d{number}"] = {keyword: [{"$ref": f"#/$defs/d{number - 1}"}] * 2}
    return {"$defs": steps, "type": "object", "properties": {"q": {"$ref": f"#/$defs/d{times - 1}"}}}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("times", [20, 60])
def test_references_that_double_are_not_followed(keyword: str, times: int) -> None:
    error = ArgumentCheck(doubled(keyword, times))("slow", {"q": 5}).failure()
    assert "fewer or flatter values" in error.message


def renamed(kind: str, levels: int) -> JsonObject:
    """A schema whose definitions refer twice to the next, in another way than by a path from the root."""
    after = {
        "percent": "#/%24defs/d{}",
        "anchor": "#d{}",
        "id": "y#/$defs/d{}",
        "base": "#/$defs/d{}",
        "dynamic": "#d{}",
        "draft-04": "#d{}",
        "draft-07": "#d{}",
    }[kind]
    keyword = "$dynamicRef" if kind == "dynamic" else "$ref"
    names = {"anchor": "$anchor", "dynamic": "$dynamicAnchor", "draft-04": "id", "draft-07": "$id"}
    sign = "#" if kind.startswith("draft") else ""
    steps: dict[str, Any] = {
        f"d{level}": {"allOf": [{keyword: after.format(level + 1)}] * 2} for level in range(levels)
    }
    steps[f"d{levels}"] = {"type": "string"}
    if kind in names:
        steps = {name: {**step, names[kind]: sign + name} for name, step in steps.items()}
    first, definitions = {keyword: after.format(0)}, steps
    if kind in ("id", "base"):
        first = {"$ref": "#/$defs/o/$defs/d0"}
        definitions = {"o": {"$id": "http://x/y", "$defs": steps}, "d1": {"type": "string"}}
    found: dict[str, Any] = {"type": "object", "properties": {"q": first}, "$defs": definitions}
    return {**found, **({"$schema": f"http://json-schema.org/{kind}/schema#"} if sign else {})}


@pytest.mark.parametrize("kind", ["anchor", "id", "base", "dynamic", "draft-04", "draft-07"])
def test_references_that_are_no_paths_from_the_root_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match=r"by which references|no path from its root"):
        ArgumentCheck(renamed(kind, 3))


def test_references_that_are_encoded_are_counted() -> None:
    assert (
        "fewer or flatter values" in ArgumentCheck(renamed("percent", 60))("slow", {"q": 5}).failure().message
    )
    assert ArgumentCheck(renamed("percent", 3))("quick", {"q": "a"}) == Success(None)


def test_names_without_references_are_read_over() -> None:
    schema: JsonObject = {"$id": "http://x/y", "properties": {"q": {"$ref": "#/$defs/id"}}}
    check = ArgumentCheck({**schema, "$defs": {"id": {"type": "string", "examples": [{"id": "a"}]}}})
    assert check("named", {"q": "a"}) == Success(None)
    assert ArgumentCheck({"properties": {"q": {"$id": "q", "type": "string"}}})("named", {"q": 5}).failure()


def test_a_long_chain_of_references_is_refused() -> None:
    chain: JsonObject = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(5_000)}
    with pytest.raises(ValueError, match="too many references"):
        ArgumentCheck({"properties": {"q": {"$ref": "#/$defs/d0"}}, "$defs": {**chain, "d5000": {}}})


def test_a_definition_that_refers_twice_to_itself_takes_flat_values_only() -> None:
    node = {"properties": {"a": {"$ref": "#/$defs/n"}}}
    twice: JsonObject = {"type": "object", "properties": {"q": {"$ref": "#/$defs/n"}}}
    check = ArgumentCheck({"$defs": {"n": {"anyOf": [node, node]}}, **twice})
    value: Json = 5
    for _ in range(3):
        value = {"a": value}
    assert check("tree", {"q": value}) == Success(None)
    for _ in range(40):
        value = {"a": value}
    assert "flatter" in check("tree", {"q": value}).failure().message


def test_any_json_of_some_levels_is_checked() -> None:
    kinds: list[Json] = [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/j"}}]
    kinds.append({"type": "object", "additionalProperties": {"$ref": "#/$defs/j"}})
    check = ArgumentCheck({"$defs": {"j": {"anyOf": kinds}}, "properties": {"v": {"$ref": "#/$defs/j"}}})
    assert check("json", {"v": {"a": [{"b": ["c", "d"]}, "e"], "f": {"g": {"h": "i"}}}}) == Success(None)
    assert check("json", {"v": {"a": [5]}}).failure()


def nested(levels: int) -> JsonObject:
    schema: JsonObject = {"type": "string"}
    for _ in range(levels):
        schema = {"allOf": [schema]}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"},
        {"$ref": "#"},
        {"properties": {"a": {"$ref": "#/properties/a"}}},
        nested(100),
        {"properties": {f"p{number}": {"type": "string"} for number in range(30_000)}},
    ],
)
def test_schemas_in_circles_or_too_large_are_not_valid(schema: JsonObject) -> None:
    with pytest.raises(ValueError, match=r"its schema|leads back"):
        ArgumentCheck(schema)


LONG: list[Json] = ["a" * 30 + str(number) for number in range(9_000)]


@pytest.mark.parametrize(
    ("items", "value"),
    [
        ({"enum": LONG}, "a" * 30),
        ({"enum": ["a" * 300_000, "b"]}, "c"),
        ({"const": LONG}, LONG[:5]),
        ({"required": LONG}, {}),
        ({"dependentRequired": {"a": LONG}}, {"a": 1}),
        ({"patternProperties": {"a+$": {}}}, {"a" * 100_000: 1}),
        ({"propertyNames": {"pattern": "a+$"}}, {"a" * 100_000: 1}),
        ({"pattern": "a+$"}, "a" * 100_000),
        ({"pattern": "(?=(a+)+$)a*!"}, "a" * 10_000),
    ],
)
def test_values_that_are_compared_and_texts_that_are_matched_are_counted(items: Any, value: Any) -> None:
    check = ArgumentCheck({"properties": {"q": {"type": "array", "items": items}}})
    assert check.checks({"q": [value] * 800}) > MOST_CHECKS
    assert "fewer or flatter values" in check("slow", {"q": [value] * 800}).failure().message


def test_long_texts_are_counted_only_where_a_pattern_reads_them() -> None:
    fields: dict[str, Json] = {f"f{number}": {"enum": ["a", "b"]} for number in range(20)}
    check = ArgumentCheck({"properties": {**fields, "text": {"type": "string"}}})
    assert check.checks({"text": "a" * 10_000_000}) < 100
    assert check("write", {"text": "a" * 10_000_000}) == Success(None)


def test_of_many_errors_in_a_large_value_the_first_alone_is_looked_for() -> None:
    check = ArgumentCheck({"properties": {"q": {"items": {"enum": LONG[:800]}}}})
    assert len(check("few", {"q": ["x"] * 5}).failure().problems) == 5
    many: JsonObject = {"q": ["x" for _ in range(200)]}
    assert check.checks(many) > CHECKS_ON_LOOP
    (problem,) = check("many", many).failure().problems
    assert problem.argument == "q[0]"


@pytest.mark.parametrize("pattern", ["^(a+)+$", r"^(?=(a+)+$)a*$", r"^(a|aa)+\\1?$"])
def test_patterns_take_no_time(pattern: str) -> None:
    check = ArgumentCheck({"properties": {"q": {"type": "string", "pattern": pattern}}})
    assert check("match", {"q": "a" * 5_000 + "!"}).failure()
