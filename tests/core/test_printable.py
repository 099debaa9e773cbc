"""Results and agents as people see them, in a line and in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.core.tasks import TaskResult
from reactive_agents.testing import ScriptedLLM, answer, call, forever, say

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
