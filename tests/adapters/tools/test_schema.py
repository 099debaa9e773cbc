"""The JSON Schema of each kind of annotation, and what a tool then receives."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, Optional, Required, TypedDict, Union

import attrs
import pydantic
import pytest
import typing_extensions

from reactive_agents.adapters.tools.call_checks import convert_arguments
from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.core.json import Json, JsonObject


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Address:
    city: str
    lines: list[str] = field(default_factory=list)


@attrs.frozen
class Point:
    """A place on the map.

    Attributes:
        x: steps to the east
    """

    x: int
    y: int = attrs.field(default=0, validator=attrs.validators.ge(0))
    _hidden: str = "h"
    labels: list[str] = attrs.field(factory=list)
    made: int = attrs.field(init=False, default=7)


@attrs.define
class Route:
    stops: list[Point]
    home: Point | None = None
    by_name: dict[str, Point] = attrs.Factory(dict)


@attrs.define
class Tree:
    children: list[Tree]


class Branch(TypedDict):
    branches: list[Branch]


class KnownBranch(typing_extensions.TypedDict):
    branches: list[KnownBranch]


class Movie(TypedDict):
    title: str
    year: NotRequired[int]


class Search(TypedDict, total=False):
    """The text to look for.

    Attributes:
        words: all of them
    """

    words: Required[list[str]]
    near: Point
    limit: int


class Book(pydantic.BaseModel):
    title: str
    pages: int = pydantic.Field(default=1, ge=1, description="how thick")


class Pair(NamedTuple):
    left: int
    right: str


KINDS: dict[str, tuple[Any, JsonObject, Json, Any]] = {
    "str": (str, {"type": "string"}, "a", "a"),
    "int": (int, {"type": "integer"}, "3", 3),
    "float": (float, {"type": "number"}, 3, 3.0),
    "bool": (bool, {"type": "boolean"}, True, True),
    "any": (Any, {}, {"a": [1]}, {"a": [1]}),
    "list": (list[int], {"type": "array", "items": {"type": "integer"}}, ["1", 2.0], [1, 2]),
    "set": (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, ["a"], {"a"}),
    "dict": (
        dict[str, int],
        {"type": "object", "additionalProperties": {"type": "integer"}},
        {"a": 1},
        {"a": 1},
    ),
    "tuple": (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
        [1, "a"],
        (1, "a"),
    ),
    "literal": (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
    "optional": (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),  # noqa: UP045
    "union": (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}, "3", "3"),  # noqa: UP007
    "annotated": (
        Annotated[int, pydantic.Field(ge=1, le=9)],
        {"type": "integer", "minimum": 1, "maximum": 9},
        9,
        9,
    ),
    "described": (Annotated[int, "how many"], {"type": "integer", "description": "how many"}, 1, 1),
    "date": (
        datetime.date,
        {"type": "string", "format": "date"},
        "2026-01-02",
        datetime.date(2026, 1, 2),
    ),
    "path": (Path, {"type": "string", "format": "path"}, "a/b", Path("a/b")),
}


@pytest.mark.parametrize("kind", KINDS)
def test_simple_kinds(kind: str) -> None:
    annotation, expected, sent, received = KINDS[kind]

    def use(value):  # type: ignore[no-untyped-def]
        return value

    use.__annotations__["value"] = annotation
    made = tool(use)
    assert made.definition.parameters == {
        "type": "object",
        "properties": {"value": expected},
        "required": ["value"],
        "additionalProperties": False,
    }
    assert convert_arguments("use", made.schema, {"value": sent}).unwrap() == {"value": received}


def test_an_argument_without_annotation_takes_anything() -> None:
    @tool
    def use(value, other=3):  # type: ignore[no-untyped-def]
        return value, other

    assert use.definition.parameters["properties"] == {"value": {}, "other": {"default": 3}}


def test_a_tool_without_arguments() -> None:
    @tool
    def ping() -> str:
        return "pong"

    assert ping.definition.parameters == {"type": "object", "properties": {}, "additionalProperties": False}


def test_names_that_schema_libraries_reserve_are_fine() -> None:
    @tool
    def use(_hidden: int, model_config: int, schema: int, json: int, self: int) -> None: ...

    assert use.definition.parameters["required"] == ["_hidden", "model_config", "schema", "json", "self"]


@tool
def everything(
    colour: Colour,
    level: Level,
    address: Address,
    movie: Movie,
    book: Book,
    pair: Pair,
    price: Decimal = Decimal("1.5"),
) -> None:
    """Take one of each."""


def test_classes_become_definitions() -> None:
    definitions = everything.definition.parameters["$defs"]
    assert definitions == {
        "Address": {
            "title": "Address",
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "lines": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
        "Book": {
            "title": "Book",
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "pages": {"type": "integer", "minimum": 1, "default": 1, "description": "how thick"},
            },
            "required": ["title"],
        },
        "Colour": {"title": "Colour", "type": "string", "enum": ["red", "blue"]},
        "Level": {"title": "Level", "type": "integer", "enum": [1, 2]},
        "Movie": {
            "title": "Movie",
            "type": "object",
            "properties": {"title": {"type": "string"}, "year": {"type": "integer"}},
            "required": ["title"],
            "additionalProperties": False,
        },
        "Pair": {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "minItems": 2,
            "maxItems": 2,
        },
    }


def test_classes_arrive_as_instances() -> None:
    sent: JsonObject = {
        "colour": "blue",
        "level": 2,
        "address": {"city": "Bonn"},
        "movie": {"title": "M"},
        "book": {"title": "B", "pages": "3"},
        "pair": [1, "b"],
    }
    assert convert_arguments("everything", everything.schema, sent).unwrap() == {
        "colour": Colour.BLUE,
        "level": Level.HIGH,
        "address": Address("Bonn"),
        "movie": {"title": "M"},
        "book": Book(title="B", pages=3),
        "pair": Pair(1, "b"),
    }


@tool
def travel(route: Route, start: Point = Point(1, 2), end: Optional[Point] = None) -> None:  # noqa: UP045
    """Travel."""


def test_attrs_classes_are_described_and_made() -> None:
    parameters = travel.definition.parameters
    assert parameters["$defs"]["Point"] == {  # type: ignore[index, call-overload]
        "title": "Point",
        "description": "A place on the map.",
        "type": "object",
        "properties": {
            "x": {"type": "integer", "description": "steps to the east"},
            "y": {"type": "integer", "minimum": 0, "default": 0},
            "hidden": {"type": "string", "default": "h"},
            "labels": {"type": "array", "items": {"type": "string"}, "default": []},
        },
        "required": ["x"],
        "additionalProperties": False,
    }
    assert parameters["properties"]["start"] == {"$ref": "#/$defs/Point"}  # type: ignore[index, call-overload]
    sent: JsonObject = {"route": {"stops": [{"x": "1"}, {"x": 2, "y": 3}], "by_name": {"a": {"x": 5}}}}
    assert convert_arguments("travel", travel.schema, sent).unwrap() == {
        "route": Route([Point(1), Point(2, 3)], None, {"a": Point(5)})
    }


def test_what_an_attrs_class_refuses_is_a_problem_with_its_place() -> None:
    sent: JsonObject = {"route": {"stops": [{"x": 1, "y": -1}, {"y": 2, "z": 3}]}}
    problems = convert_arguments("travel", travel.schema, sent).failure().problems
    assert [problem.argument for problem in problems] == [
        "route.stops[0]",
        "route.stops[1].x",
        "route.stops[1].z",
    ]
    assert "must be >= 0" in problems[0].expected


def test_an_attrs_class_that_contains_itself_is_refused() -> None:
    @tool
    def climb(tree: Tree) -> None: ...

    with pytest.raises(ToolDefinitionError, match="'Tree' contains itself: make it a dataclass"):
        _ = climb.definition


def test_a_typed_dict_that_contains_itself_is_refused_unless_pydantic_knows_it() -> None:
    @tool
    def climb(branch: Branch) -> None: ...

    with pytest.raises(ToolDefinitionError, match="'Branch' contains itself: import TypedDict from"):
        _ = climb.definition

    @tool
    def climb_known(branch: KnownBranch) -> None: ...

    sent: JsonObject = {"branch": {"branches": [{"branches": []}]}}
    assert convert_arguments("climb_known", climb_known.schema, sent).unwrap() == sent


def test_a_default_without_json_form_is_left_out_of_the_schema() -> None:
    marker: Any = object()

    @tool
    def use(value: int = marker) -> None: ...

    assert use.definition.parameters["properties"] == {"value": {"type": "integer"}}
    assert convert_arguments("use", use.schema, {}).unwrap() == {}


def test_a_typed_dict_may_require_some_keys_and_hold_attrs_classes() -> None:
    @tool
    def find(searches: list[Search]) -> None: ...

    searched = find.definition.parameters["$defs"]["Search"]  # type: ignore[index, call-overload]
    assert searched == {
        "title": "Search",
        "description": "The text to look for.",
        "type": "object",
        "properties": {
            "words": {"type": "array", "items": {"type": "string"}, "description": "all of them"},
            "near": {"$ref": "#/$defs/Point"},
            "limit": {"type": "integer"},
        },
        "required": ["words"],
        "additionalProperties": False,
    }
    sent: JsonObject = {"searches": [{"words": ["a"], "near": {"x": 1}}]}
    converted = convert_arguments("find", find.schema, sent).unwrap()
    assert converted == {"searches": [{"words": ["a"], "near": Point(1)}]}
