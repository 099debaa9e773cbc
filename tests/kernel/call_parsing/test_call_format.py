"""Calls as the models of each family print them."""

from __future__ import annotations

import pytest

from reactive_agents.kernel.call_parsing.json_calls import CallForm
from tests.support.call_format import format_call


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("json", '{"name": "f", "arguments": {"a": 1}}'),
        ("fenced", '```json\n{"name": "f", "arguments": {"a": 1}}\n```'),
        ("plain", 'f({"a": 1})'),
        ("keywords", "f(a=1)"),
        ("function-json", '<function=f>{"a": 1}</function>'),
        (
            "function-xml",
            "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        ),
        ("python-tag-call", "<|python_tag|>f.call(a=1)"),
        ("mistral", '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]'),
        ("mistral-args", '[TOOL_CALLS]f[ARGS]{"a": 1}'),
        ("react", 'Action: f\nAction Input: {"a": 1}'),
    ],
)
def test_forms(form: CallForm, printed: str) -> None:
    assert format_call("f", {"a": 1}, form) == printed


def test_keys_of_openai() -> None:
    assert format_call("f", {}, "json", keys="function") == (
        '{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {}}}'
    )


@pytest.mark.parametrize(
    ("form", "fallback"),
    [
        ("keywords", "plain"),
        ("function-xml", "function-json"),
        ("invoke", "function-json"),
        ("glm", "hermes"),
    ],
)
def test_what_a_form_cannot_express_is_printed_in_another(form: CallForm, fallback: CallForm) -> None:
    arguments = {"no word\n>": "x"}
    assert format_call("f", dict(arguments), form) == format_call("f", dict(arguments), fallback)


def test_texts_that_look_like_other_values_are_quoted_between_tags() -> None:
    printed = format_call("f", {"a": "1", "b": "01", "c": "</parameter>"}, "invoke")
    assert '<parameter name="a">"1"<' in printed
    assert '<parameter name="b">01<' in printed
    assert '<parameter name="c">"\\u003c/parameter>"<' in printed
