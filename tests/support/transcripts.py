"""Transcripts of turns, as a kernel makes them."""

from __future__ import annotations

from collections.abc import Sequence

from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from reactive_agents.kernel import CompactionMaterial


def turn(
    number: int,
    *outcomes: str | None,
    said: str = "",
    tool: str = "look",
    arguments: JsonObject | None = None,
) -> tuple[Message, ...]:
    """A turn that says something and makes a call for each outcome; ``None`` is a call that failed."""
    ids = [CallId(f"call-{number}.{index}") for index in range(len(outcomes))]
    asked: JsonObject = {"at": number} if arguments is None else arguments
    made = tuple(ToolCall(each, tool, asked) for each in ids)
    results = (
        ToolMessage(each, tool, "it broke" if outcome is None else outcome, outcome is None)
        for each, outcome in zip(ids, outcomes, strict=True)
    )
    return (AssistantMessage(said, made), *results)


def keys_for(messages: Sequence[Message]) -> dict[CallId, str]:
    """The keys that the kernel would store the results under."""
    worked = [each for each in messages if isinstance(each, ToolMessage) and not each.is_error]
    return {each.call_id: f"{each.tool_name}-{index}" for index, each in enumerate(worked, 1)}


def material(
    *turns: tuple[Message, ...],
    budget: int = 4_000,
    records: tuple[str, ...] = (),
    failing: tuple[str, ...] = (),
) -> CompactionMaterial:
    """Return the texts of all turns that are summarized."""
    dropped = tuple(message for each in turns for message in each)
    return CompactionMaterial("Find it.", records, dropped, (), keys_for(dropped), failing, budget)
