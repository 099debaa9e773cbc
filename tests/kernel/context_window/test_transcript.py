"""The length of a transcript."""

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
from reactive_agents.kernel.context_window.token_estimate import characters_of

MESSAGES: tuple[Message, ...] = (
    SystemMessage("1234"),
    UserMessage("12"),
    AssistantMessage("123", (ToolCall(CallId("c"), "look", {"at": "home", "n": 12}),), "thoughts"),
    ToolMessage(CallId("c"), "look", "12345"),
    AssistantMessage("", (ToolCall(CallId("d"), "look", malformed="{"),)),
)
LENGTHS = [4, 2, 3 + 1 + 4 + 6 + 3, 1 + 4 + 5, 1 + 4 + 1]


def test_texts_calls_and_arguments_are_counted() -> None:
    assert [characters_of((message,)) for message in MESSAGES] == LENGTHS
    assert characters_of(MESSAGES) == sum(LENGTHS)
