"""What a run saw: every tool result in full, and the task."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

from attrs import field, frozen

from reactive_agents.adapters.governance.verification.numbers import Number, observed_numbers
from reactive_agents.core.json import Json
from reactive_agents.core.reasoning import ReasoningResult
from reactive_agents.core.tasks import Task

TASK_KEY = "task"
SHOWN_CHARS = 60_000
"""How much of the observations a model is shown that checks an answer, shared evenly among them."""
_WORDS = re.compile(r"\w+")
_EXCERPT_CHARS = 60
_COMBINED_NUMBERS = 40
"""How many numbers of one observation are calculated with: among more, chance finds anything."""


def plain_words(text: str) -> str:
    """The words of a text in lower case with single spaces: punctuation and line ends do not count."""
    return " ".join(_WORDS.findall(unicodedata.normalize("NFKC", text).casefold()))


@frozen
class Observation:
    """One text that the run saw.

    Attributes:
        key: the tool result's key, or ``task``.
        words: see :func:`plain_words`.
        numbers: its numbers by each value that they may have, in the basic unit.
        ordered: the same values, sorted.
        combined: the first numbers that differ, to be calculated with.
    """

    key: str
    text: str
    words: str
    numbers: Mapping[Decimal, tuple[Number, ...]]
    ordered: tuple[Decimal, ...] = field(repr=False)
    combined: tuple[Decimal, ...] = field(repr=False)

    def excerpt(self, start: int, end: int) -> str:
        """A place of the text with a little of what is around it, on one line."""
        before, after = max(0, start - _EXCERPT_CHARS), end + _EXCERPT_CHARS
        return " ".join(self.text[before:after].split())

    def excerpt_of(self, words: str) -> str:
        """The place of the text that has these plain words."""
        place = self.words.find(words)
        return self.words[max(0, place - _EXCERPT_CHARS) : place + len(words) + _EXCERPT_CHARS].strip()


def observation(key: str, text: str) -> Observation:
    """What can be looked up in a text."""
    numbers: dict[Decimal, dict[tuple[str, str], Number]] = {}
    combined: dict[Decimal, None] = {}
    for number in observed_numbers(text):
        for value in (*number.values, *number.quantities):
            numbers.setdefault(value, {}).setdefault((number.dimension, str(number.factor)), number)
        if len(combined) < _COMBINED_NUMBERS and len(number.values) == 1:
            combined.setdefault(number.values[0])
    kept = {value: tuple(by_unit.values()) for value, by_unit in numbers.items()}
    return Observation(key, text, f" {plain_words(text)} ", kept, tuple(sorted(kept)), tuple(combined))


def observations_of(task: Task, result: ReasoningResult) -> tuple[Observation, ...]:
    """Everything that the run saw: tool results in full, observations that were not stored, the task."""
    return tuple(observation(key, text) for key, text in _texts(task, result))


def _texts(task: Task, result: ReasoningResult) -> Iterator[tuple[str, str]]:
    yield from result.tool_results.items()
    for step in result.steps:
        key = step.metadata.result_key if step.metadata else None
        if step.type == "observation" and (key is None or key not in result.tool_results):
            yield step.id, step.content
    yield TASK_KEY, task.input


def tools_that_worked(result: ReasoningResult) -> tuple[str, ...]:
    """Names of the tools whose observations are no errors, each once, in order."""
    return tuple(dict.fromkeys(_worked(result)))


def _worked(result: ReasoningResult) -> Iterable[str]:
    for step in result.steps:
        if step.type == "observation" and step.metadata and step.metadata.success is not False:
            yield from (step.metadata.tool_used,) if step.metadata.tool_used else ()


def shown_in_short(observations: Sequence[Observation]) -> list[Json]:
    """The observations as JSON data for a model, each cut to its share."""
    share = SHOWN_CHARS // max(1, len(observations))
    return [{"key": seen.key, "text": seen.text[:share]} for seen in observations]
