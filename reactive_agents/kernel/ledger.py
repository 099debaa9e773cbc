"""What a run's tool calls have come to: the facts that policies and the gate decide by."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult

_WORD = re.compile(r"\w+")


@frozen
class CallLedger:
    """The account of the tool calls of a kernel run.

    Attributes:
        attempts: how often each tool was run, whatever came of it.
        succeeded: how often each tool worked.
        failed_in_a_row: how often each tool has failed since it last worked.
        answers: where the result of each call is stored, as long as it can be relied on.
        errors: how each call failed when it was last made.
        words: the distinct words of all results.
        gathered: how many distinct words there were before the last turn's results.
        novelty: 0 to 1, the share of the last turn's words that were new; ``None`` without results.
        idle_turns: turns in a row that brought nothing new.
        repeated: whether the last turn made a call again whose result was stored.
        said: the model's last answer that was turned down.
    """

    attempts: Mapping[str, int] = field(factory=dict)
    succeeded: Mapping[str, int] = field(factory=dict)
    failed_in_a_row: Mapping[str, int] = field(factory=dict)
    answers: Mapping[str, str] = field(factory=dict)
    errors: Mapping[str, str] = field(factory=dict)
    words: frozenset[str] = frozenset()
    gathered: int = 0
    novelty: float | None = None
    idle_turns: int = 0
    repeated: bool = False
    said: str = ""


def fingerprint(call: ToolCall) -> str:
    """What two calls have in common when they ask the same: the tool and its arguments."""
    arguments = call.malformed or json.dumps(call.arguments, sort_keys=True, ensure_ascii=False)
    return f"{call.name} {arguments}"


def changes_the_world(definition: ToolDefinition | None) -> bool:
    """Whether other tools may answer otherwise after this one has run."""
    return definition is None or definition.output or definition.risk != "low"


@frozen
class Entry:
    """One call of a turn, for the ledger. ``key``: where its result is stored; ``text``: what came of it."""

    call: ToolCall
    definition: ToolDefinition | None
    result: ToolResult
    text: str
    key: str | None


def enter_turn(ledger: CallLedger, entries: Sequence[Entry]) -> CallLedger:
    """The ledger after the calls of a turn."""
    attempts, succeeded = dict(ledger.attempts), dict(ledger.succeeded)
    failed, errors = dict(ledger.failed_in_a_row), dict(ledger.errors)
    answers = dict(ledger.answers)
    new_words: set[str] = set()
    idle = True
    for entry in entries:
        if entry.result.origin != "executed":
            continue
        name, asked = entry.call.name, fingerprint(entry.call)
        attempts[name] = attempts.get(name, 0) + 1
        if entry.result.success:
            idle = False
            succeeded[name] = succeeded.get(name, 0) + 1
            failed.pop(name, None)
            errors.pop(asked, None)
            new_words.update(words_of(entry.text))
            if changes_the_world(entry.definition):
                answers.clear()
            elif entry.key is not None:
                answers[asked] = entry.key
        else:
            failed[name] = failed.get(name, 0) + 1
            idle = idle and errors.get(asked) == entry.text
            errors[asked] = entry.text
    return evolve(
        ledger,
        attempts=attempts,
        succeeded=succeeded,
        failed_in_a_row=failed,
        answers=answers,
        errors=errors,
        words=ledger.words | new_words if new_words - ledger.words else ledger.words,
        gathered=len(ledger.words),
        novelty=len(new_words - ledger.words) / len(new_words) if new_words else None,
        idle_turns=ledger.idle_turns + 1 if idle else 0,
        repeated=any(entry.result.origin == "stored" for entry in entries),
    )


def enter_answer(ledger: CallLedger, text: str) -> CallLedger:
    """The ledger after an answer was proposed: the same one once more brings nothing new."""
    said = " ".join(words_of(text))
    again = bool(said) and said == ledger.said
    return evolve(ledger, said=said, idle_turns=ledger.idle_turns + again)


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return _WORD.findall(text.lower())
