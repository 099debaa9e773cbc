"""JSON out of texts: what is read, what is repaired, and what is refused since a repair would lose words."""

from __future__ import annotations

import json

import pytest

from reactive_agents.core.json import Json
from reactive_agents.kernel.call_parsing.json_extraction import JsonReader


def read(text: str) -> Json:
    found = JsonReader().read(text, 0)
    return None if found is None else found.value


def read_object(text: str) -> Json:
    found = JsonReader().read_object(text)
    return None if found is None else found.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ("{'a': 'b'}", {"a": "b"}),
        ('{"a": [1, 2 "x"}', {"a": [1, 2, "x"]}),
        ('{"a": 1 /* a comment */}', {"a": 1}),
        ('{"a": 1, lost words here}', None),
        ("{'a': 'b', lost}", None),
        ('{"a": "b" c}', None),
        ("{]", None),
        ('{"a": 1e999,}', None),
        ('{"a": 1, "b": "" /* empty */}', {"a": 1, "b": ""}),
        ('{"a": "C:\\\\dir\\\\", // a folder\n}', {"a": "C:\\dir\\"}),
        ('{"a": """say "x"\nor `y`""", "b": `"z"`}', {"a": 'say "x"\nor `y`', "b": '"z"'}),
        ("""{'a': '\"\"\"x\"\"\" // y, # z,'}""", {"a": '"""x""" // y, # z,'}),
        ('{"a": `x` "b": 1}', None),
        ('{"a": "x" + "y"}', None),
        ("{&quot;a&quot;: &quot;x&quot;}", None),
        ('{"a": #x}', None),
        ('{"a": "x"', {"a": "x"}),
        ('{"a": "x",', None),
    ],
)
def test_a_repair_keeps_every_word(text: str, value: Json) -> None:
    assert read(text) == value


def test_a_repair_does_not_nest_without_bound() -> None:
    assert read("[" * 20 + "1,]" + "]" * 19) == json.loads("[" * 20 + "1" + "]" * 20)
    assert read("[" * 40 + "1,]" + "]" * 39) is None


def test_a_value_nests_a_hundred_levels_at_most() -> None:
    assert read("[" * 100 + "]" * 100) == json.loads("[" * 100 + "]" * 100)
    assert read("[" * 101 + "]" * 101) is None


@pytest.mark.parametrize("text", ["", "null", "None", "{}", " \n"])
def test_nothing_is_an_empty_object(text: str) -> None:
    assert read_object(text) == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        (json.dumps('{"a": 1}'), {"a": 1}),
        (json.dumps('{"a": 1}') + " x", None),
        (json.dumps("[1]"), None),
        ('"a', None),
        ('{"a": 1} x', None),
        ("[1]", None),
    ],
)
def test_an_object_is_the_whole_text_or_quoted_in_it(text: str, value: Json) -> None:
    assert read_object(text) == value


@pytest.mark.parametrize(
    "error", [ValueError, RecursionError, IndexError, KeyError, TypeError, AttributeError]
)
def test_what_the_repair_of_json_stumbles_over_is_not_read(
    error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("json_repair.loads", stumble)
    assert read("{'a': 1}") is None
