"""The codec by example: what its problems say. Its laws are in ``property_tests``."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents.core.codec import data_to_json, decode, encode, from_json, to_json
from reactive_agents.core.errors import DecodeError, RateLimited
from reactive_agents.core.events import AgentEvent, ModelCallAbandoned, ModelCallCompleted
from reactive_agents.core.ids import CallId, RunId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, UserMessage
from reactive_agents.core.models import Usage
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.usage import RunUsage

AT = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=timezone(timedelta(hours=5, minutes=30)))


def refused(text: str, kind: Any) -> dict[str, str]:
    """The problems of a document by their paths."""
    match from_json(text, kind):
        case Failure(DecodeError() as error):
            return {problem.path: problem.problem for problem in error.problems}
        case other:
            raise AssertionError(other)


def test_equal_values_give_equal_text() -> None:
    call = ToolCall(CallId("c1"), "file-read", {"path": "übersicht.md", "deep": {"b": [1, 2.0, None]}})
    assert to_json(AssistantMessage("hi", (call,))) == (
        '{"content": "hi", "tool_calls": [{"id": "c1", "name": "file-read", "arguments": '
        '{"path": "übersicht.md", "deep": {"b": [1, 2.0, null]}}, "malformed": "", '
        '"repairs": [], "written": false, "copied": []}], "thinking": ""}'
    )


def test_a_nested_union_is_tagged_at_each_level() -> None:
    error = RateLimited("Too many requests.", "m", 1.5)
    event = ModelCallAbandoned(RunId("r"), TaskId("t"), 1, AT, "think", error, 2.0)
    written = encode(event, AgentEvent)
    assert isinstance(written, dict)
    assert written["tag"] == "ModelCallAbandoned"
    assert written["at"] == "2026-01-02T03:04:05.000678+05:30"
    assert written["error"] == {
        "tag": "RateLimited",
        "message": "Too many requests.",
        "model": "m",
        "retry_after_s": 1.5,
        "refused": [],
    }
    assert decode(written, AgentEvent) == Success(event)


def test_what_was_written_before_refused_attempts_were_accounted_for_is_read() -> None:
    spent = (RunUsage("m", Usage(1, 2, 3), 0.5),)
    stamp = (RunId("r"), TaskId("t"), 1, AT, "think")
    abandoned = ModelCallAbandoned(*stamp, RateLimited("Later.", "m", refused=spent), 2.0)
    completed = ModelCallCompleted(*stamp, "m", Usage(1, 1, 2), 0.25, 2.0, spent)
    for event in (abandoned, completed):
        assert decode(encode(event, AgentEvent), AgentEvent) == Success(event)
        assert event.spent[:1] == spent
    before: Any = encode(abandoned, AgentEvent)
    del before["error"]["refused"]
    assert decode(before, AgentEvent) == Success(evolve(abandoned, error=RateLimited("Later.", "m")))
    before = encode(completed, AgentEvent)
    del before["refused"]
    assert decode(before, AgentEvent) == Success(evolve(completed, refused=()))


def test_paths_lead_through_arrays_and_keys() -> None:
    text = '[{"tag": "UserMessage", "content": 5}, {"tag": "AssistantMessage", "tool_calls": [{"id": "a"}]}]'
    assert refused(text, tuple[Message, ...]) == {
        "$[0].content": "got 5, expected a string",
        "$[1].tool_calls[0].name": "required field missing",
    }
    assert refused('{"id": "a", "name": "b", "arguments": {"x @ y": [0, 1e999]}}', ToolCall) == {
        "$.arguments['x @ y'][1]": "got inf, expected a finite number"
    }


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_json_cannot_say_are_refused(constant: str) -> None:
    result = '{"call_id": "c", "tool_name": "t", "result": %s}'
    assert len(refused(result % constant, ToolResult)) == 1
    assert len(refused(result % f"[{constant}]", ToolResult)) == 1
    assert isinstance(decode(float(constant), float), Failure)
    assert isinstance(decode({"a": float(constant)}, Json), Failure)


def test_numbers_that_json_cannot_say_are_not_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(ToolResult(CallId("c"), "t", float("nan")))


def test_data_is_written_as_any_value_is_but_for_its_spaces() -> None:
    data: dict[str, Any] = {
        "text": 'NaN, Infinity, "é"\n\x00',
        "numbers": [1, -0.0, 1e-7, 2**70],
        "none": None,
        "": {},
    }
    assert json.loads(data_to_json(data)) == data
    assert data_to_json({"text": "a", "yes": [True]}) == '{"text":"a","yes":[true]}'
    assert data_to_json({"text": "a\ud83d"}) == r'{"text": "a\ud83d"}'
    unwritten: dict[str, Any] = {"usage": Usage(1, 2, 3)}
    assert data_to_json(unwritten) == to_json(unwritten)
    for number in (float("nan"), float("-inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            data_to_json({"numbers": [number]})


def test_huge_integers_are_refused() -> None:
    assert "not JSON" in refused('{"input_tokens": ' + "9" * 5_000 + "}", Usage)["$"]
    problem = refused('{"input_tokens": ' + "9" * 4_300 + "}", Usage)["$.input_tokens"]
    assert problem == "got an integer of 14285 bits, expected an integer of at most 14284 bits"
    assert isinstance(decode(10**5_000, int), Failure)
    assert isinstance(decode(10**5_000, float), Failure)
    assert isinstance(decode([10**5_000], Json), Failure)
    assert isinstance(decode({"tag": 10**5_000}, Message), Failure)
    assert from_json(to_json(2**14_283, int), int) == Success(2**14_283)


def test_deep_nesting_is_refused_and_what_is_accepted_can_be_written() -> None:
    def nested(levels: int) -> str:
        return '{"call_id": "c", "tool_name": "t", "result": ' + "[" * levels + "]" * levels + "}"

    at_most = from_json(nested(100), ToolResult).unwrap()
    assert to_json(at_most.result).count("[") == 100
    (problem,) = refused(nested(101), ToolResult).values()
    assert "at most 100 levels" in problem
    assert "not JSON" in refused(nested(100_000), ToolResult)["$"]
    deep: Any = []
    for _ in range(sys.getrecursionlimit() * 3):
        deep = [deep]
    for kind in (Json, ToolResult, Message, str, int, tuple[Message, ...]):
        assert isinstance(decode(deep, kind), Failure)
    assert isinstance(decode({"id": "a", "name": "b", "arguments": {"x": deep}}, ToolCall), Failure)


def test_a_key_that_occurs_twice_is_refused() -> None:
    text = '{"content": "harmless", "content": "harmful"}'
    assert refused(text, UserMessage) == {"$": "not JSON: the key 'content' occurs twice in one object"}
    assert json.loads(text) == {"content": "harmful"}


def test_half_a_surrogate_pair_is_kept_and_can_be_written() -> None:
    message = from_json(r'{"content": "a\ud83d"}', UserMessage).unwrap()
    assert message.content == "a\ud83d"
    assert to_json(message) == r'{"content": "a\ud83d"}'
    assert from_json(to_json(message).encode(), UserMessage) == Success(message)
    assert r"\ud83d" in refused(r'{"content": "", "\ud83d": 1}', UserMessage).popitem()[0]


def test_keys_that_are_no_strings_are_refused() -> None:
    for data in ({1: 2}, {None: 1, "content": "x", 3: 4, (): 5}, {"content": "x", 1: 1}):
        assert isinstance(decode(data, UserMessage), Failure)
    assert isinstance(decode({1: 2}, Json), Failure)
    assert isinstance(decode({"id": "a", "name": "b", "arguments": {1: 2}}, ToolCall), Failure)


@pytest.mark.parametrize("text", ["", " ", "{", "nul", '{"a" 1}', "\ufeff{}", "[1,]", "'a'"])
def test_what_is_no_json_is_refused_at_the_root(text: str) -> None:
    assert refused(text, UserMessage)["$"].startswith("not JSON: ")


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"\x80", b'{"content": "\xff"}'])
def test_bytes_that_are_no_text_are_refused(text: bytes) -> None:
    assert isinstance(from_json(text, UserMessage), Failure)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (True, int), (1, bool), (1.0, int), ("1", int), ("1.0", float), (True, float), (1, str), (None, str),
        ("abc", tuple[str, ...]), ("abc", frozenset[str]), ({"a": 1}, tuple[str, ...]), ([], dict[str, Json]),
        ([["a", 1]], dict[str, Json]), (0, datetime), ("soon", datetime), ("2026-13-01T00:00:00", datetime),
        ([], UserMessage), ("x", UserMessage), (None, UserMessage), ([], Message), ({"tag": []}, Message),
        ({"tag": None}, Message), (object(), Json), ({1, 2}, Json), (b"", Json),
    ],
)  # fmt: skip
def test_nothing_is_converted_on_the_quiet(data: object, kind: Any) -> None:
    assert isinstance(decode(data, kind), Failure)


def test_an_integer_stands_for_a_float_and_is_written_as_one() -> None:
    assert to_json(decode(2, float).unwrap(), float) == "2.0"


def test_many_problems_are_cut_short() -> None:
    match decode([5] * 10_000, tuple[str, ...]):
        case Failure(DecodeError() as error):
            assert len(error.problems) == 21
            assert error.problems[19].path == "$[19]"
            assert error.problems[20].problem == "there are more problems"
            assert len(error.message) < 2_000
        case other:
            raise AssertionError(other)


def test_long_values_and_names_are_cut_short() -> None:
    error = decode({"content": 1, "x" * 10_000: 1}, UserMessage).failure()
    assert len(error.message) < 500
    assert len(decode("x" * 10_000, int).failure().message) < 200
    assert len(decode([0] * 10_000, int).failure().message) < 200


def test_decoded_json_shares_nothing_with_the_data() -> None:
    data: dict[str, Any] = {"id": "a", "name": "b", "arguments": {"list": [1]}}
    call = decode(data, ToolCall).unwrap()
    data["arguments"]["list"].append(2)
    assert call.arguments == {"list": [1]}


def test_a_time_of_day_keeps_its_offset() -> None:
    assert from_json(to_json(AT, datetime), datetime).unwrap().utcoffset() == timedelta(hours=5, minutes=30)
    assert from_json('"2026-01-02T03:04:05Z"', datetime) == Success(datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))


def test_a_set_of_anything_has_one_order() -> None:
    first, second = set[Any]((0, 8)), set[Any]((8, 0))
    assert list(first) != list(second)  # they collide, as texts do in some processes
    assert to_json([first, {"a": frozenset(("b", 1))}]) == to_json([second, {"a": {1, "b"}}])
    assert to_json(frozenset((frozenset(first), frozenset(second)))) == "[[0, 8]]"
    assert encode(second) == [0, 8]


def test_a_set_of_a_given_type_has_one_order_too() -> None:
    first, second = {0, 8}, set[int]((8, 0))
    assert list(first) != list(second)  # they collide
    assert to_json(first, set[int]) == to_json(second, set[int]) == "[0, 8]"
    assert encode({(8, "b"), (8, "a")}, set[tuple[int, str]]) == [[8, "a"], [8, "b"]]
    assert encode(frozenset((1, "b")), frozenset[int | str]) == encode({"b", 1}, set[int | str]) == ["b", 1]
    assert encode({10, 9, 8.5}) == [8.5, 9, 10]
