"""Calls that stand in a text without tags: where they count, and where they are prose."""

from __future__ import annotations

import pytest

from reactive_agents.core.json import JsonObject
from reactive_agents.kernel.call_parsing.parser import parse_calls

KNOWN = ["clock", "web-search"]


def calls(text: str) -> list[tuple[str, JsonObject]]:
    return [(call.name, call.arguments) for call in parse_calls(text, KNOWN).calls]


@pytest.mark.parametrize(
    "text",
    [
        "For example:\nclock(zone='a')\n\nNow I look.\nclock(zone='b')",
        'For example:\n{"name": "clock", "arguments": {"zone": "a"}}\n\nNow I look.\n'
        '{"name": "clock", "arguments": {"zone": "b"}}',
        'Action: paint\nAction Input: {}\nAction: clock\nAction Input: {"zone": "b"}',
    ],
)
def test_what_is_an_example_or_unknown_does_not_hide_the_call_behind_it(text: str) -> None:
    assert calls(text) == [("clock", {"zone": "b"})]


@pytest.mark.parametrize("form", ["{}", "Now I look.\n{}", "<tool_call>{}</tool_call>", "<|python_tag|>{}"])
def test_a_list_of_calls_is_read_if_it_has_nothing_else(form: str) -> None:
    assert calls(form.format("[clock(zone='a'), clock(zone='b')]")) == [
        ("clock", {"zone": "a"}),
        ("clock", {"zone": "b"}),
    ]
    assert calls(form.format("[clock(zone='a'), 'b']")) == []


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ("on=true, off=false, no=null", {"on": True, "off": False, "no": None}),
        ("on=True, off=False, no=None", {"on": True, "off": False, "no": None}),
        ("'Oslo'", {"input": "Oslo"}),
        ("{'zone': 'a'}", {"zone": "a"}),
        ("", {}),
    ],
)
def test_arguments_are_literals(arguments: str, read: JsonObject) -> None:
    assert calls(f"clock({arguments})") == [("clock", read)]


@pytest.mark.parametrize(
    "arguments", ["zone=here", "1 + 1", "'a', 'b'", "'a', zone='b'", "-" * 20_000 + "1", "a=("]
)
def test_code_is_no_call(arguments: str) -> None:
    assert calls(f"clock({arguments})") == []


def test_an_action_without_its_end_is_no_call() -> None:
    assert calls('Action: clock\nAction Input: {"zone": "a"} and then some more words') == []


def test_a_tag_in_backticks_is_a_mention() -> None:
    text = "`<think>` opens the thinking of some models."
    parsed = parse_calls(text, KNOWN)
    assert (parsed.calls, parsed.prose, parsed.thinking) == ((), text, "")
