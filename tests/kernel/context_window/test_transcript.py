"""The size of a transcript."""

from __future__ import annotations

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from reactive_agents.kernel.context_window.token_estimate import transcript_size

MESSAGES: tuple[Message, ...] = (
    SystemMessage("1234"),
    UserMessage("12"),
    AssistantMessage("123", (ToolCall(CallId("c"), "look", {"at": "home", "n": 12}),), "thoughts"),
    ToolMessage(CallId("c"), "look", "12345"),
    AssistantMessage("", (ToolCall(CallId("d"), "look", malformed="{"),)),
)
ARGUMENTS = len('{"at": "home", "n": 12}')
SIZES = [8 + 4, 8 + 2, 8 + 3 + 8 + 1 + 4 + ARGUMENTS, 8 + 1 + 4 + 5, 8 + 8 + 1 + 4 + 2 + 1]


def test_texts_calls_and_arguments_are_counted() -> None:
    assert [transcript_size((message,)) for message in MESSAGES] == SIZES
    assert transcript_size(MESSAGES) == sum(SIZES)
