"""Results and agents as people see them, in a line and in a notebook."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest
import regex

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.errors import ModelUnavailable
from reactive_agents.core.tasks import TaskResult
from reactive_agents.core.texts import escaped, printable, printable_json
from reactive_agents.testing import ScriptedLLM, answer, call, fail, forever, say

HOSTILE = "<script>alert('x')</script><img src=x onerror=alert(1)>\"&\x1b[2J"


def look_up(name: str) -> str:
    """Look a name up."""
    return f"{name} {HOSTILE}"


def result_of(*texts: str) -> TaskResult:
    turns = [call("look_up", name=HOSTILE), *(answer(text) for text in texts)]
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(*turns)).with_reasoning().with_tools(look_up)
    return builder.build().run_sync("Look.")


class Tags(HTMLParser):
    """Collects the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_result_is_one_short_line() -> None:
    shown = repr(result_of("It is Mars. " * 100))
    assert shown.startswith("CompletedResult('It is Mars. ")
    assert "2 model calls, 30 tokens, $0.0000" in shown
    assert len(shown) < 250
    assert "\n" not in shown
    partial = (
        ReactiveAgents.create().with_llm(ScriptedLLM(forever(call("look_up", name="a")))).with_reasoning()
    )
    result = partial.with_tools(look_up).with_max_iterations(1).build().run_sync("Look.")
    assert "reason=" in repr(result)
    assert repr(result).startswith("PartialResult(")


def test_no_text_of_a_run_becomes_html() -> None:
    parser = Tags()
    parser.feed(result_of(f"It is {HOSTILE}.")._repr_html_())
    assert parser.tags == {"div", "strong", "span", "pre", "details", "summary", "ol", "li", "em", "code"}
    assert parser.attributes == {"style"}
    assert "It is <script>alert('x')</script>" in parser.text
    assert "\x1b" not in parser.text


def test_values_of_types_are_shown_too() -> None:
    llm = ScriptedLLM(say("[2, 3]"))
    result = ReactiveAgents.create().with_llm(llm).with_output_type(list[int]).build().run_sync("Count.")
    assert repr(result).startswith("CompletedResult([2, 3], ")
    assert ">[2, 3]</pre>" in result._repr_html_()


@pytest.mark.parametrize("scripted", [True, False])
def test_an_agent_is_one_short_line(scripted: bool) -> None:
    builder = ReactiveAgents.create().with_name("guide").with_tools(look_up)
    agent = (
        builder.with_llm(ScriptedLLM()) if scripted else builder.with_model("openai/gpt-4o", api_key="sk-1")
    )
    model = "a model object" if scripted else "openai/gpt-4o"
    assert repr(agent.build()) == f"ReactiveAgent('guide', model={model!r}, tools=['look_up'])"


@pytest.mark.parametrize(
    "sign",
    ["\x1b", "\x07", "\x9b", "\r", "\u202e", "\u2066", "\u200b", "\u2028", "\u061c", "\u00ad", "\u3164"],
)
def test_signs_that_steer_a_terminal_or_are_not_seen_are_not_printed(sign: str) -> None:
    assert printable(f"pay {sign}Ada") == "pay Ada"


def test_tag_characters_are_not_printed_and_joined_letters_stay() -> None:
    assert printable("a" + "".join(chr(0xE0000 + ord(each)) for each in "rm -rf") + "b") == "ab"
    assert printable("می\u200cخواهم 👩\u200d🚀") == "می\u200cخواهم 👩\u200d🚀"


def test_json_for_a_terminal_has_unseen_signs_as_escapes_and_loses_none() -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    shown = printable_json(json.dumps({every: [every, 1.5]}, ensure_ascii=False, indent=2))
    assert json.loads(shown) == {every: [every, 1.5]}
    assert printable(shown) == shown
    assert printable_json('["Grüße", "👩\u200d🚀"]') == '["Grüße", "👩\u200d🚀"]'


def test_an_error_of_an_agent_is_safe_to_print() -> None:
    llm = ScriptedLLM(fail(ModelUnavailable("\x1b[2J\x1b]0;gone\x07 down", "m")))
    with pytest.raises(AgentError) as raised:
        ReactiveAgents.create().with_llm(llm).build().run_sync("Look.")
    assert "down" in str(raised.value)
    assert "\x1b" not in str(raised.value)


def test_no_character_that_unicode_ignores_is_left_as_it_is() -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    ignored = regex.findall(r"\p{DI}|\p{Cc}|\p{Cf}|\p{Co}|\p{Z}", every)
    assert len(ignored) > 140_000
    assert {each for each in ignored if escaped(each) == each} == {" "}
    assert escaped("Grüße, 世界 👍 naïve न") == "Grüße, 世界 👍 naïve न"
    kept = [each for each in regex.findall(r"\p{DI}", every) if printable(each)]
    assert "".join(kept) == "\u200c\u200d" + "".join(map(chr, range(0xFE00, 0xFE10)))
