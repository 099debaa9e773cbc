"""The turns of a scripted model: what it says, which tools it calls, how it fails."""

from __future__ import annotations

from attrs import evolve, field, frozen
from attrs.validators import ge

from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.models import FinishReason, Usage

TURN_USAGE = Usage(input_tokens=10, output_tokens=5, total_tokens=15)
"""What a turn reports when its script says nothing else."""


@frozen
class ScriptedCall:
    """A tool call as a script has it; its id is given when it is played."""

    name: str
    arguments: JsonObject
    malformed: str = ""


@frozen
class Turn:
    """One turn of a script; made by :func:`say`, :func:`call`, :func:`calls` and :func:`fail`.

    Attributes:
        error: the turn fails with it; the other contents then do not matter.
        when: text that the messages of a request must contain for the turn to fit; empty fits always.
        delay: seconds before the answer, 0 or more.
        cost_usd: US dollars; ``None`` for a model whose price is unknown.
        endless: stays in the script however often it is taken.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    finish_reason: FinishReason = "stop"
    error: LLMErrors | None = None
    when: str = ""
    delay: float = field(default=0.0, validator=ge(0.0))
    usage: Usage = TURN_USAGE
    cost_usd: float | None = 0.0
    endless: bool = False


def say(
    text: str,
    *,
    thinking: str = "",
    finish_reason: FinishReason = "stop",
    when: str = "",
    delay: float = 0.0,
    usage: Usage = TURN_USAGE,
    cost_usd: float | None = 0.0,
) -> Turn:
    """A turn that answers with text.

    Args:
        text: the answer.
        thinking: reasoning text that the model exposes.
        finish_reason: why it stopped; ``length`` scripts an answer that was cut off.
        when: text that the messages of a request must contain for the turn to fit; empty fits always.
        delay: seconds before the answer, 0 or more.
        usage: the tokens that the turn reports.
        cost_usd: US dollars; ``None`` for a model whose price is unknown.
    """
    return Turn(
        text, thinking, finish_reason=finish_reason, when=when, delay=delay, usage=usage, cost_usd=cost_usd
    )


def call(
    tool: str,
    arguments: JsonObject | None = None,
    /,
    *,
    when: str = "",
    delay: float = 0.0,
    usage: Usage = TURN_USAGE,
    cost_usd: float | None = 0.0,
    **named: Json,
) -> Turn:
    """A turn that calls one tool.

    >>> call("file-read", path="notes.md").calls[0].arguments
    {'path': 'notes.md'}
    >>> call("sensor", {"when": "now", "two words": 2}).calls[0].arguments
    {'when': 'now', 'two words': 2}

    Args:
        tool: the tool's name.
        arguments: the tool's arguments; needed for names that are no Python names, or that this function
            takes for itself (``when``, ``delay``, ``usage``, ``cost_usd``).
        when: text that the messages of a request must contain for the turn to fit; empty fits always.
        delay: seconds before the answer, 0 or more.
        usage: the tokens that the turn reports.
        cost_usd: US dollars; ``None`` for a model whose price is unknown.
        named: further arguments of the tool.
    """
    scripted = ScriptedCall(tool, {**(arguments or {}), **named})
    return _calling((scripted,), when=when, delay=delay, usage=usage, cost_usd=cost_usd)


def malformed_call(tool: str, text: str) -> Turn:
    """A turn that calls one tool with ``text`` where its arguments should be a JSON object."""
    return _calling((ScriptedCall(tool, {}, malformed=text),))


def calls(
    *turns: Turn,
    text: str = "",
    thinking: str = "",
    when: str = "",
    delay: float = 0.0,
    usage: Usage = TURN_USAGE,
    cost_usd: float | None = 0.0,
) -> Turn:
    """One turn that makes several calls.

    Args:
        turns: the calls, each made by :func:`call`. Their own ``when``, ``delay``, ``usage`` and
            ``cost_usd`` do not count; a turn has those once.
        text: what the model says along with the calls.
        thinking: reasoning text that the model exposes.
        when: text that the messages of a request must contain for the turn to fit; empty fits always.
        delay: seconds before the answer, 0 or more.
        usage: the tokens that the turn reports.
        cost_usd: US dollars; ``None`` for a model whose price is unknown.

    Raises:
        ValueError: one of the turns calls no tool.
    """
    if not turns or not all(turn.calls for turn in turns):
        raise ValueError("calls() takes one or more turns made by call().")
    made = tuple(scripted for turn in turns for scripted in turn.calls)
    turn = _calling(made, when=when, delay=delay, usage=usage, cost_usd=cost_usd)
    return evolve(turn, text=text, thinking=thinking)


def fail(error: LLMErrors, *, when: str = "", delay: float = 0.0) -> Turn:
    """A turn that fails.

    Args:
        error: the failure that the caller gets.
        when: text that the messages of a request must contain for the turn to fit; empty fits always.
        delay: seconds before the failure, 0 or more.
    """
    return Turn(error=error, when=when, delay=delay)


def forever(turn: Turn) -> Turn:
    """The turn, answering however often it fits. Without a ``when``, turns after it are never reached."""
    return evolve(turn, endless=True)


def _calling(
    made: tuple[ScriptedCall, ...],
    *,
    when: str = "",
    delay: float = 0.0,
    usage: Usage = TURN_USAGE,
    cost_usd: float | None = 0.0,
) -> Turn:
    return Turn(
        calls=made, finish_reason="tool_calls", when=when, delay=delay, usage=usage, cost_usd=cost_usd
    )
