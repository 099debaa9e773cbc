"""Any value that a tool may return, as JSON."""

from __future__ import annotations

import datetime
import enum
import json
import math
import uuid
from collections import OrderedDict, deque
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import attrs
import pydantic
import pytest
from returns.maybe import Nothing, Some

from reactive_agents.adapters.tools.json_value import as_text, to_json_value


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@attrs.frozen
class Point:
    x: int
    inner: Any = None


@dataclass
class Box:
    side: float


class Model(pydantic.BaseModel):
    when: datetime.date


class Pair(NamedTuple):
    left: int
    right: object


class Opaque:
    def __str__(self) -> str:
        return "opaque"


class Broken:
    def __str__(self) -> str:
        raise LookupError


class BrokenProperty:
    def model_dump(self) -> object:
        raise LookupError

    def __str__(self) -> str:
        return "broken"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (3, 3),
        (1.5, 1.5),
        ("é", "é"),
        (math.inf, "inf"),
        (math.nan, "nan"),
        (10**20, 10**20),
        ((1, 2), [1, 2]),
        ({3, 1, 2}, [1, 2, 3]),
        (deque([1]), [1]),
        (OrderedDict(a=1), {"a": 1}),
        ({1: "a", 2.5: "b", None: "c", (1, 2): "d"}, {"1": "a", "2.5": "b", "null": "c", "(1, 2)": "d"}),
        (Colour.RED, "red"),
        (Level.LOW, 1),
        ({Colour.RED: 1}, {"red": 1}),
        (Point(1, Box(2.0)), {"x": 1, "inner": {"side": 2.0}}),
        (Pair(1, Colour.RED), {"left": 1, "right": "red"}),
        (Model(when=datetime.date(2026, 1, 2)), {"when": "2026-01-02"}),
        (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02T03:00:00+00:00"),
        (Decimal("1.50"), "1.50"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("a/b"), "a/b"),
        (b"text", "text"),
        (b"\xff", {"base64": "/w==", "bytes": 1}),
        (Some(1), 1),
        (Nothing, None),
        (range(3), [0, 1, 2]),
        (Opaque(), "opaque"),
        (Broken(), "<Broken>"),
        (BrokenProperty(), "broken"),
        ("\ud800", "\ufffd"),
        (int, "<class 'int'>"),
    ],
)
def test_values(value: object, expected: object) -> None:
    converted = to_json_value(value)
    assert converted == expected
    assert type(converted) is type(expected)
    json.dumps(converted, allow_nan=False).encode()


def test_cycles_and_depth_end() -> None:
    cycle: list[Any] = []
    cycle.append({"again": cycle})
    assert to_json_value(cycle) == [{"again": "<cycle>"}]
    deep: list[Any] = []
    for _ in range(500):
        deep = [deep]
    assert "<nested too deep>" in json.dumps(to_json_value(deep))


def test_the_result_shares_nothing() -> None:
    inner = [1]
    converted = to_json_value({"a": inner})
    inner.append(2)
    assert converted == {"a": [1]}


def test_numbers_beyond_the_limit_on_digits() -> None:
    assert str(to_json_value(10**5000)).startswith("0x")


def test_as_text_never_fails() -> None:
    assert as_text(Broken()) == "<Broken>"
