"""Laws of call repair: total, idempotent, nothing changed that fits, and what it changes fits better."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from property_tests.strategies import json_values, wild_json
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.kernel.call_parsing.argument_schema import explain_schema
from reactive_agents.kernel.call_parsing.repair import repair_call

NAMES = [
    "path",
    "filePath",
    "file_path",
    "query",
    "q",
    "content",
    "text",
    "n",
    "a_b",
    "aB",
    "start_line",
    "input",
]
TOOLS = ["web-search", "file-read", "file_write", "get_user", "set_user", "clock", "search", "read"]

scalars = st.sampled_from(
    [
        "3",
        "3.0",
        3,
        3.0,
        2.5,
        "true",
        "True",
        True,
        None,
        "",
        "null",
        "None",
        "RED",
        "red",
        '{"a": 1}',
        "[1]",
        "x",
        "1,2",
    ]
)
values: st.SearchStrategy[Any] = scalars | st.lists(scalars, max_size=2) | json_values
simple_schemas: st.SearchStrategy[Any] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
        {"type": "object"},
        {"type": "array"},
        {"type": ["integer", "null"]},
        {"enum": ["red", "green", 1]},
        {"type": "string", "enum": ["red", "Red"]},
        {"const": "red"},
        {"type": "string", "default": "x"},
        {"$ref": "#/$defs/colour"},
        {},
        True,
    ]
)
schemas: st.SearchStrategy[Any] = st.recursive(
    simple_schemas,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda parts: {"anyOf": parts}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(
            lambda properties, closed: {
                "type": "object",
                "properties": properties,
                "required": list(properties)[:1],
                "additionalProperties": not closed,
            },
            st.dictionaries(st.sampled_from(NAMES), inner, max_size=2),
            st.booleans(),
        )
    ),
    max_leaves=3,
)


@st.composite
def object_schemas(draw: st.DrawFn) -> JsonObject:
    properties = draw(st.dictionaries(st.sampled_from(NAMES), schemas, max_size=4))
    required = draw(st.lists(st.sampled_from(list(properties)), unique=True)) if properties else []
    schema: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": required,
        "$defs": {"colour": {"type": "string", "enum": ["red", "blue"]}},
    }
    closed = draw(st.sampled_from([False, True, None]))
    return schema if closed is None else {**schema, "additionalProperties": closed}


calls = st.builds(
    ToolCall,
    st.just(CallId("call-1")),
    st.sampled_from([*TOOLS, "websearch", "functions.clock", "File_Read", "getuser"]) | st.text(max_size=8),
    st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), values, max_size=4),
    st.just("")
    | st.sampled_from(['{"q": "x",}', '{"path": "a', "```json\n{}\n```", "null", "nonsense", "[1]"]),
)
definitions = st.lists(
    st.builds(ToolDefinition, st.sampled_from(TOOLS), st.just("does it"), object_schemas()),
    max_size=4,
    unique_by=lambda definition: definition.name,
)


@given(call=calls, known=definitions)
def test_healing_is_idempotent(call: ToolCall, known: list[ToolDefinition]) -> None:
    repaired = repair_call(call, known)
    again = repair_call(repaired.call, known)
    assert again.call == repaired.call
    assert again.repairs == ()
    assert again.definition == repaired.definition


@given(call=calls, known=definitions)
def test_a_change_is_told_and_only_a_change(call: ToolCall, known: list[ToolDefinition]) -> None:
    repaired = repair_call(call, known)
    assert repaired.call.id == call.id
    unchanged = exact(repaired.call.arguments) == exact(call.arguments) and repaired.call == call
    assert unchanged == (repaired.repairs == ())


@settings(
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)  # few values fit a schema by chance
@given(arguments=st.data(), schema=object_schemas())
def test_what_fits_is_not_touched(arguments: st.DataObject, schema: JsonObject) -> None:
    properties: Any = schema["properties"]
    given_arguments = arguments.draw(
        st.fixed_dictionaries({}, optional=dict.fromkeys(properties, values)) if properties else st.just({})
    )
    assume(jsonschema.Draft202012Validator(schema).is_valid(given_arguments))
    call = ToolCall(CallId("1"), "clock", given_arguments)
    repaired = repair_call(call, [ToolDefinition("clock", "tells the time", schema)])
    assert repaired.call == call
    assert all(".0" in told for told in repaired.repairs), "3.0 for 3 is all that may be written anew"


@given(
    arguments=st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), values, max_size=4),
    schema=object_schemas(),
)
def test_the_result_never_fits_less(arguments: JsonObject, schema: JsonObject) -> None:
    repaired = repair_call(ToolCall(CallId("1"), "clock", arguments), [ToolDefinition("clock", "", schema)])
    assert problems(repaired.call.arguments, schema) <= problems(arguments, schema)
    made = repaired.call.arguments.keys() - arguments.keys()
    assert made <= set(schema["properties"])  # type: ignore[arg-type]
    assert len(repaired.call.arguments) <= max(
        [len(arguments), *map(len, filter(is_object, arguments.values()))]
    )


@given(arguments=st.dictionaries(st.text(), wild_json, max_size=4), schema=object_schemas() | st.just({}))
def test_healing_is_total(arguments: JsonObject, schema: JsonObject) -> None:
    repair_call(ToolCall(CallId("1"), "clock", arguments), [ToolDefinition("clock", "", schema)])


@given(
    name=st.text(),
    malformed=st.text(),
    schema=st.dictionaries(st.sampled_from(["properties", "required", "anyOf", "$ref", "type"]), wild_json),
)
def test_healing_and_explaining_are_total_on_any_schema(
    name: str, malformed: str, schema: JsonObject
) -> None:
    definition = ToolDefinition("clock", "", schema)
    repair_call(ToolCall(CallId("1"), name, {}, malformed), [definition])
    repair_call(ToolCall(CallId("1"), "clock", {"a": "1", "b": None}), [definition])
    assert len(explain_schema(definition, name)) < 800


@given(
    problem=st.text(max_size=2000),
    schema=object_schemas(),
    name=st.from_regex(r"[a-z-]{1,64}", fullmatch=True),
)
def test_an_explanation_is_short_and_names_the_tool(problem: str, schema: JsonObject, name: str) -> None:
    text = explain_schema(ToolDefinition(name, "", schema), problem)
    assert len(text) < 800
    assert f"{name}(" in text


def problems(arguments: JsonObject, schema: JsonObject) -> int:
    """How many arguments are missing, unknown, or do not fit."""
    properties: Any = schema["properties"]
    required: Any = schema["required"]
    count = len([name for name in required if name not in arguments])
    for name, value in arguments.items():
        if name in properties:
            whole = {"$defs": schema["$defs"], "allOf": [properties[name]]}
            count += not jsonschema.Draft202012Validator(whole).is_valid(value)
        else:
            count += schema.get("additionalProperties") is False
    return count


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def exact(value: Json) -> str:
    return json.dumps(value)
