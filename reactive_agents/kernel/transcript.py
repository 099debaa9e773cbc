"""What was taken out of a transcript, and how many characters one has."""

from __future__ import annotations

from attrs import frozen

from reactive_agents.core.messages import AssistantMessage, Message, ToolMessage


@frozen
class TranscriptAccount:
    """What was taken out of a run's transcript.

    Attributes:
        shortened_to: characters right after earlier turns were last put in short; 0 before, and after the
            transcript was compacted.
        taken_out: characters that all of this has saved so far.
        last_words: the last text that the model had given by then; it may be in no message any more.
    """

    shortened_to: int = 0
    taken_out: int = 0
    last_words: str | None = None


def characters_of(messages: tuple[Message, ...]) -> int:
    """The characters of the messages, those of calls and their arguments included."""
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
