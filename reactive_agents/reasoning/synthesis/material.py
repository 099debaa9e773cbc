"""What of a transcript is put in short, and what stays as it is."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import AssistantMessage, Message, SystemMessage, UserMessage
from reactive_agents.kernel.transcript import characters_of
from reactive_agents.reasoning.synthesis.notes import is_notes, read_records


@frozen
class SynthesisMaterial:
    """What earlier turns are put in short from.

    Attributes:
        task: the task of the run, which the model is shown in any case.
        records: what still earlier turns were put in short to, one line each, oldest first.
        dropped: the messages to put in short, oldest first; each call is among them with its result.
        kept: the messages that stay, so that nothing of them needs to be told.
        keys: for the calls of the run the key that the full result is stored under.
        failing: calls that failed and have not worked since, each with its error.
        budget: characters that the text may have; what goes beyond is cut off.
    """

    task: str
    records: tuple[str, ...]
    dropped: tuple[Message, ...]
    kept: tuple[Message, ...]
    keys: Mapping[CallId, str]
    failing: tuple[str, ...]
    budget: int


@frozen
class Division:
    """A transcript in parts.

    Attributes:
        foreign: messages that are neither turns nor notes, such as those of a hook; they stay.
        records: the lines of earlier notes.
        dropped: turns to put in short.
        kept: the last turn, and the turns before it that have room.
        turns: how many turns are dropped.
    """

    foreign: tuple[Message, ...]
    records: tuple[str, ...]
    dropped: tuple[Message, ...]
    kept: tuple[Message, ...]
    turns: int


def divide(messages: tuple[Message, ...], room: int) -> Division:
    """The parts of a transcript. A turn is a model's message with all that follows before the next one.

    Args:
        room: characters of whole turns at the end that are kept; the last turn is kept whatever its length.
    """
    start = _first_kept(messages, room)
    foreign: list[Message] = []
    records: list[str] = []
    dropped: list[Message] = []
    turns = 0
    for message in messages[:start]:
        if is_notes(message):
            records.extend(read_records(message))
        elif isinstance(message, UserMessage | SystemMessage):
            foreign.append(message)
        else:
            dropped.append(message)
            turns += isinstance(message, AssistantMessage)
    return Division(tuple(foreign), tuple(records), tuple(dropped), messages[start:], turns)


def _first_kept(messages: tuple[Message, ...], room: int) -> int:
    """Where the kept turns begin; 0 when there is no turn that could be dropped."""
    first = end = len(messages)
    used = 0
    for position in range(len(messages) - 1, -1, -1):
        if not isinstance(messages[position], AssistantMessage):
            continue
        used += characters_of(messages[position:end])
        if used > room and first < len(messages):
            return first
        first = end = position
    return first if first < len(messages) else 0
