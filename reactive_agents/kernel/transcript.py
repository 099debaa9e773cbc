"""How long a transcript is, counted as it grows: each message is looked at once."""

from __future__ import annotations

from attrs import evolve, frozen

from reactive_agents.core.messages import AssistantMessage, Message, ToolMessage


@frozen
class TranscriptAccount:
    """The length of a run's transcript.

    Attributes:
        measured: messages that are counted.
        characters: theirs, those of calls and their arguments included.
        shortened_to: characters right after earlier turns were last put in short; 0 before.
        taken_out: characters that all of this has saved so far.
        last_words: the last text that the model had given by then; it may be in no message any more.
    """

    measured: int = 0
    characters: int = 0
    shortened_to: int = 0
    taken_out: int = 0
    last_words: str | None = None


def measured(account: TranscriptAccount, messages: tuple[Message, ...]) -> TranscriptAccount:
    """The account with the messages that are new; with all of them where some have been taken away."""
    known = account.measured
    if len(messages) == known:
        return account
    if len(messages) < known:
        return evolve(account, measured=len(messages), characters=characters_of(messages))
    characters = account.characters + characters_of(messages[known:])
    return TranscriptAccount(
        len(messages), characters, account.shortened_to, account.taken_out, account.last_words
    )


def characters_of(messages: tuple[Message, ...]) -> int:
    """The characters of the messages, by the quickest way: it is asked for in each turn."""
    total = 0
    for message in messages:
        total += len(message.content)
        if isinstance(message, ToolMessage):
            total += len(message.call_id) + len(message.tool_name)
        elif isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                total += len(call.id) + len(call.name) + len(call.malformed)
                for name, value in call.arguments.items():
                    total += len(name) + len(value if isinstance(value, str) else repr(value))
    return total
