"""Laws of calls written as text: parsing is total and fast, prose stays prose, and printing is undone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reactive_agents.core.json import JsonObject
from reactive_agents.kernel.call_parsing.json_calls import CallForm, ParsedCalls
from reactive_agents.kernel.call_parsing.json_extraction import breaks_off
from reactive_agents.kernel.call_parsing.parser import parse_calls
from reactive_agents.kernel.call_parsing.tool_names import squash
from tests.support.call_format import CallKeys, format_call
from tests.support.operations import assert_linear
from tests.support.profiles import examples

FORMS: tuple[CallForm, ...] = get_args(CallForm)
KEYS: tuple[CallKeys, ...] = get_args(CallKeys)
KNOWN = ("web-search", "file_read", "clock", "x")

FALLBACKS: dict[str, set[str]] = {
    "keywords": {"plain"},
    "function-xml": {"function-json"},
    "invoke": {"function-json"},
    "glm": {"hermes"},
    "name-line": {"plain"},
}
"""The form that a call is found in when the form asked for could not express it."""

FRAGMENTS = [
    *(
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "<function=clock>",
        "</function>",
        "<|tool_call|>",
    ),
    *("<parameter=a>", "</parameter>", "<|python_tag|>", "[TOOL_CALLS]", "[ARGS]", '<invoke name="clock">'),
    *("<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>"),
    *("to=functions.clock", "<|message|>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
    *(
        "```json\n",
        "```",
        "```tool_code\n",
        "`",
        "\n",
        " ",
        "Action: clock\n",
        "Action Input: ",
        "Observation:",
    ),
    *(
        '{"name": "clock", "arguments": {}}',
        '{"name": "web_search"',
        '"arguments":',
        '"tool_calls": [',
        '"name":',
    ),
    *(
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        '"',
        "'",
        "\\",
        ",",
        ":",
        ";",
        "//",
        "#",
        "clock(",
        "web-search(",
        "x(a=1)",
    ),
    *(
        "clock",
        "functions.",
        ".call(",
        "for example ",
        "final answer: ",
        "1e999",
        "NaN",
        "\ud800",
        "\x00",
        "é",
    ),
]

names = st.from_regex(r"[A-Za-z0-9_-]{1,64}", fullmatch=True).filter(squash)
registries = st.lists(names, min_size=1, max_size=4, unique=True)
scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.lists(st.sampled_from(FRAGMENTS), max_size=4)
    .map("".join)
    .filter(lambda text: text.isprintable() or "\n" in text)
)
arguments_of_calls: st.SearchStrategy[JsonObject] = st.dictionaries(
    st.text(max_size=8) | st.sampled_from(["query", "a b", "class", "path"]),
    st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)
shuffled = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=25).map("".join)


@st.composite
def mangled(draw: st.DrawFn) -> str:
    """Printed calls, cut, nested into each other and stuck together."""
    texts = draw(
        st.lists(
            st.builds(
                format_call,
                st.sampled_from(KNOWN),
                arguments_of_calls,
                st.sampled_from(FORMS),
                keys=st.sampled_from(KEYS),
            ),
            min_size=1,
            max_size=3,
        )
    )
    text = draw(st.sampled_from(["", "\n", " so ", "<think>"])).join(texts)
    start = draw(st.integers(0, len(text)))
    stop = draw(st.integers(start, len(text)))
    middle = draw(st.integers(start, stop))
    return text[start:middle] + draw(st.sampled_from([*FRAGMENTS, text])) + text[middle:stop]


@given(text=st.text() | shuffled | mangled())
@example(text="{" * 5000)
@example(text="<tool_call>" * 500 + "{'" * 50)
def test_parsing_is_total(text: str) -> None:
    parsed = parse_calls(text, KNOWN)
    assert isinstance(parsed, ParsedCalls)
    assert {call.name for call in parsed.calls} <= set(KNOWN)
    assert len(parsed.prose) <= len(text)
    if not parsed.calls:
        assert all(word in text for word in parsed.prose.split())


@given(text=st.text() | shuffled | mangled())
def test_without_known_tools_there_are_no_calls(text: str) -> None:
    assert parse_calls(text, ()).calls == ()


@given(text=st.text() | shuffled | mangled(), known=registries)
def test_a_text_that_names_no_tool_holds_no_call(text: str, known: list[str]) -> None:
    if any(squash(name) in squash(text) for name in known):
        return
    assert parse_calls(text, known).calls == ()


@given(words=st.lists(st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=12), max_size=12))
def test_prose_is_kept_as_it_is(words: list[str]) -> None:
    text = " ".join(word.replace("`", "").replace("(", "") for word in words).strip()
    assert parse_calls(text, ["a-tool-of-quite-another-name"]).prose == text


def the_call(text: str, known: Iterable[str]) -> tuple[str, JsonObject, str]:
    parsed = parse_calls(text, list(known))
    assert len(parsed.calls) == 1, (text, parsed)
    assert parsed.prose == ""
    assert not parsed.calls[0].repaired
    return parsed.calls[0].name, parsed.calls[0].arguments, parsed.calls[0].source


@pytest.mark.parametrize("form", FORMS)
@examples(15)
@given(known=registries, arguments=arguments_of_calls, keys=st.sampled_from(KEYS))
def test_what_is_printed_is_parsed(
    form: CallForm, known: list[str], arguments: JsonObject, keys: CallKeys
) -> None:
    name, found, source = the_call(format_call(known[0], arguments, form, keys=keys), known)
    assert name == known[0]
    assert same(found, arguments)
    assert source == form or source in FALLBACKS.get(form, set())


@pytest.mark.parametrize("form", [form for form in FORMS if form != "name-line"])
@examples(15)
@given(arguments=arguments_of_calls)
def test_words_around_a_call_stay(form: CallForm, arguments: JsonObject) -> None:
    text = f"I will look.\n\n{format_call('web-search', arguments, form)}"
    parsed = parse_calls(text, KNOWN)
    assert [call.name for call in parsed.calls] == ["web-search"]
    assert same(parsed.calls[0].arguments, arguments)
    assert parsed.prose == "I will look."


@pytest.mark.parametrize("form", FORMS)
@examples(15)
@given(arguments=arguments_of_calls)
def test_a_call_in_thinking_does_not_count(form: CallForm, arguments: JsonObject) -> None:
    parsed = parse_calls(f"<think>{format_call('web-search', arguments, form)}</think>Done.", KNOWN)
    assert parsed.calls == ()
    assert parsed.prose == "Done."


@pytest.mark.system
@pytest.mark.parametrize(
    "form", [form for form in FORMS if form not in ("json", "plain", "keywords", "react", "name-line")]
)
@examples(15)
@given(batch=st.lists(arguments_of_calls, min_size=2, max_size=3))
def test_several_calls_come_in_order(form: CallForm, batch: list[JsonObject]) -> None:
    parsed = parse_calls("\n".join(format_call("x", arguments, form) for arguments in batch), KNOWN)
    assert len(parsed.calls) == len(batch)
    assert all(same(call.arguments, each) for call, each in zip(parsed.calls, batch, strict=True))


def same(one: object, other: object) -> bool:
    """Equal, and of the same types: in Python ``1 == True == 1.0``."""
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


UNITS = [
    *("{", "[", "(", "<tool_call>", "<tool_call>{", '<tool_call>{"name": "clock", ', "<think>", "```json\n"),
    *("```\n", "[TOOL_CALLS]", "[TOOL_CALLS]clock{", "<function=clock>", "<function=clock><parameter=a>"),
    *("<function=clock><parameter=a>1</parameter>x", "<|python_tag|>clock(", "<｜tool▁call▁begin｜>clock{"),
    *(
        "clock(\n",
        "\nclock({",
        "\nclock(a=",
        "\n{",
        "\n[",
        '\n{"name": "clock',
        "{'",
        "\n[clock(",
        "`",
        "Action: clock\n",
    ),
    *(
        ' <tool_call>["',
        '{"a":',
        "<tool_call>clock\n<arg_key>a</arg_key><arg_value>",
        " ",
        "\n",
        "}",
        "to=functions.x",
    ),
    *(
        '<tool_call>{"name":"clock","arguments":{"a":"}}\n',
        "<tool_call>{'a':'b'c",
        "clock;",
        "\\",
        '"',
        "for example ",
    ),
]


@pytest.mark.system
@pytest.mark.parametrize("unit", UNITS)
def test_the_work_grows_with_the_length_alone(unit: str) -> None:
    assert_linear(lambda size: parse_calls((unit * (size // len(unit) + 1))[:size], KNOWN), 2_000)


# --- JSON that breaks off ---------------------------------------------------------------------------------

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@given(values, st.sampled_from(["", "\n", " That is all.", "\n```"]))
def test_whole_json_does_not_break_off(value: Any, after: str) -> None:
    assert not breaks_off(json.dumps(value) + after)
    assert not breaks_off(f"```json\n{json.dumps(value, indent=1)}\n```")


@given(
    st.dictionaries(st.text(max_size=6), values, min_size=1, max_size=3),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=8),
    st.data(),
)
def test_json_that_ends_within_its_last_text_breaks_off(
    value: dict[str, Any], last: str, data: st.DataObject
) -> None:
    text = json.dumps({**value, "last of all": last}, ensure_ascii=False)
    begin = text.rindex('"last of all": "') + len('"last of all":')
    cut = text[: data.draw(st.integers(begin, len(text) - 2))]
    assert breaks_off(cut)
    assert breaks_off(f"```json\n{cut}\n```")


@given(st.text() | st.text(alphabet='{}[]",:\\ a1`'))
def test_any_text_can_be_asked_whether_it_breaks_off(text: str) -> None:
    breaks_off(text)
    breaks_off("[" * 100_000 + '"')
    breaks_off('{"a": ' * 100_000)
