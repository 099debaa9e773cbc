"""Conversations that clients of OpenAI's chat completions keep."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel
from returns.result import Success

from reactive_agents.core.conversation import wrong_history
from reactive_agents.core.ids import CallId
from reactive_agents.core.message_formats import messages_from_openai, messages_to_openai
from reactive_agents.core.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage

ASKED = {"role": "user", "content": [{"type": "text", "text": "And "}, {"type": "text", "text": "now?"}]}


class Reply(BaseModel):
    """The message of a client that reads answers into objects."""

    role: str = "assistant"
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[Any] | None = None
    function_call: Any = None


def function(name: str, arguments: object) -> dict[str, object]:
    return {"name": name, "arguments": arguments}


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ({"content": None, "refusal": "I cannot."}, "I cannot."),
        ({"content": [{"type": "refusal", "refusal": "I cannot."}]}, "I cannot."),
        ({"content": "Now.", "refusal": None, "tool_calls": None, "function_call": None}, "Now."),
        (Reply(content="Now."), "Now."),
        (Reply(refusal="I cannot."), "I cannot."),
    ],
)
def test_what_an_assistant_said_is_read(reply: Any, said: str) -> None:
    given = reply if isinstance(reply, Reply) else {"role": "assistant", **reply}
    expected = (UserMessage("And now?"), AssistantMessage(said))
    assert messages_from_openai([ASKED, given]) == Success(expected)


@pytest.mark.parametrize("arguments", ['{"place": "here"}', {"place": "here"}])
def test_parallel_calls_are_answered_in_any_order(arguments: object) -> None:
    calls = [{"id": each, "type": "function", "function": function("look", arguments)} for each in "ab"]
    results = [{"role": "tool", "tool_call_id": each, "content": f"result {each}"} for each in "ba"]
    read = messages_from_openai([{"role": "assistant", "tool_calls": calls}, *results]).unwrap()
    made = tuple(ToolCall(CallId(each), "look", {"place": "here"}) for each in "ab")
    answered = tuple(ToolMessage(CallId(each), "look", f"result {each}") for each in "ba")
    assert read == (AssistantMessage("", made), *answered)
    assert wrong_history(read) is None


def test_calls_of_the_first_form_become_calls() -> None:
    turn = [
        {"role": "assistant", "content": None, "function_call": function("look", "{}")},
        {"role": "function", "name": "look", "content": "nothing"},
    ]
    read = messages_from_openai([*turn, *turn]).unwrap()
    assert wrong_history(read) is None
    assert [each.call_id for each in read if isinstance(each, ToolMessage)] == ["call-0", "call-2"]
    assert messages_from_openai(messages_to_openai(read)) == Success(read)


def test_a_result_of_the_first_form_without_a_call_is_named() -> None:
    read = messages_from_openai([{"role": "function", "name": "look", "content": "nothing"}])
    (problem,) = read.failure().problems
    assert (problem.path, "a function_call before it" in problem.problem) == ("$[0].role", True)
