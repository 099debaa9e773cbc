"""How long a transcript is, counted as it grows: each message is looked at once."""

from __future__ import annotations

from typing import assert_never

from attrs import evolve, frozen

from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage


@frozen
class TranscriptAccount:
    """The length of a run's transcript.

    Attributes:
        measured: messages that are counted.
        characters: theirs, those of calls and their arguments included.
        shortened_to: characters right after earlier turns were last put in short; 0 before.
        taken_out: characters that all of this has saved so far.
    """

    measured: int = 0
    characters: int = 0
    shortened_to: int = 0
    taken_out: int = 0


def measured(account: TranscriptAccount, messages: tuple[Message, ...]) -> TranscriptAccount:
    """The account with the messages that are new; with all of them where some have been taken away."""
    known = account.measured
    if len(messages) == known:
        return account
    if len(messages) < known:
        return evolve(account, measured=len(messages), characters=characters_of(messages))
    characters = account.characters + characters_of(messages[known:])
    return TranscriptAccount(len(messages), characters, account.shortened_to, account.taken_out)


def characters_of(messages: tuple[Message, ...]) -> int:
    """The characters of the messages."""
    total = 0
    for message in messages:
        match message:
            case AssistantMessage(content, calls):
                total += len(content)
                for call in calls:
                    total += len(call.id) + len(call.name) + len(call.malformed)
                    total += _arguments(call.arguments)
            case ToolMessage(call_id, tool_name, content):
                total += len(call_id) + len(tool_name) + len(content)
            case UserMessage(content) | SystemMessage(content):
                total += len(content)
            case _:
                assert_never(message)
    return total


def _arguments(arguments: JsonObject) -> int:
    return sum(
        len(name) + (len(value) if isinstance(value, str) else len(repr(value)))
        for name, value in arguments.items()
    )
