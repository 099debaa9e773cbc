"""Evidence of a run: the full tool results, and the task."""

from __future__ import annotations

import re
import stat
import unicodedata
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from attrs import field, frozen

from reactive_agents.adapters.governance.claims import Claim, Number, observed_numbers, rounds_to
from reactive_agents.core.governance import ClaimEvidence
from reactive_agents.core.json import Json
from reactive_agents.core.results import ReasoningResult
from reactive_agents.core.tasks import Task

TASK_KEY = "task"
SHOWN_CHARS = 60_000
"""How much of the observations a model is shown that checks an answer, shared evenly among them."""
_WORDS = re.compile(r"\w+")
_EXCERPT_CHARS = 60
_COMBINED_NUMBERS = 40
"""How many numbers of one observation are calculated with: among more, chance finds anything."""


def plain_words(text: str) -> str:
    """Return the lower-case words of a text, without punctuation and line breaks."""
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
    """Return a text as searchable evidence."""
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
    """Return all evidence of a run: full tool results, other observations, the task."""
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


# --- support of a claim; another observation never takes it away ----------------------------------------


_Found = tuple[str, str]


def evidence_for(claim: Claim, observations: Sequence[Observation]) -> ClaimEvidence:
    """The claim with the first observation that supports it, or without one."""
    found = _find(claim, observations)
    if found is None:
        return ClaimEvidence(claim.kind, claim.text, supported=False)
    return ClaimEvidence(claim.kind, claim.text, True, *found)


def _find(claim: Claim, observations: Sequence[Observation]) -> _Found | None:
    number = claim.number
    if number is not None:
        return (
            _first(observations, lambda seen: _same_number(number, seen))
            or _first(observations, lambda seen: _rounded(number, seen))
            or _calculated(number, observations)
        )
    words = plain_words(claim.text)
    if claim.kind == "quote":
        return _first(observations, lambda seen: seen.excerpt_of(words) if words in seen.words else None)
    if not words:
        return _first(observations, lambda seen: claim.text if claim.text in seen.text else None)
    if claim.kind == "number":
        exactly = re.compile(rf"(?<![0-9]){re.escape(claim.text)}(?![0-9])")
        dated = _first(observations, lambda seen: _place(exactly, seen))
        if dated is not None:
            return dated
    whole = _first(observations, lambda seen: seen.excerpt_of(words) if f" {words} " in seen.words else None)
    if whole is not None or claim.kind != "name":
        return whole
    parts = words.split(" ")
    return _first(
        observations,
        lambda seen: seen.excerpt_of(parts[-1]) if all(f" {part} " in seen.words for part in parts) else None,
    )


def _first(observations: Sequence[Observation], look: Callable[[Observation], str | None]) -> _Found | None:
    for seen in observations:
        excerpt = look(seen)
        if excerpt is not None:
            return seen.key, excerpt
    return None


def _place(pattern: re.Pattern[str], seen: Observation) -> str | None:
    match = pattern.search(seen.text)
    return seen.excerpt(*match.span()) if match else None


def _same_number(claimed: Number, seen: Observation) -> str | None:
    for value in (*claimed.values, *claimed.quantities):
        for number in seen.numbers.get(value, ()):
            if _fit(claimed, number):
                return seen.excerpt(number.start, number.end)
    return None


def _fit(claimed: Number, number: Number) -> bool:
    if claimed.dimension and number.dimension:
        return claimed.dimension == number.dimension and bool(
            set(claimed.quantities) & set(number.quantities)
        )
    if "share" in (claimed.dimension, number.dimension):
        return bool({*claimed.values, *claimed.quantities} & {*number.values, *number.quantities})
    return bool(set(claimed.values) & set(number.values))


def _rounded(claimed: Number, seen: Observation) -> str | None:
    if not claimed.decimals:
        return None
    half = Decimal(1).scaleb(-claimed.decimals) / 2
    for value in claimed.values:
        for scaled in dict.fromkeys((value, value * claimed.factor)):
            tolerance = half * (claimed.factor if scaled != value else 1)
            for index in range(bisect_left(seen.ordered, scaled - tolerance), len(seen.ordered)):
                if seen.ordered[index] > scaled + tolerance:
                    break
                for number in seen.numbers[seen.ordered[index]]:
                    if _is_rounded(claimed, number):
                        return seen.excerpt(number.start, number.end)
    return None


def _is_rounded(claimed: Number, number: Number) -> bool:
    same_unit = claimed.dimension == number.dimension and claimed.factor == number.factor
    return same_unit and any(
        rounds_to(exact, value, claimed.decimals) for exact in number.values for value in claimed.values
    )


def _calculated(claimed: Number, observations: Sequence[Observation]) -> _Found | None:
    """The sum, difference or ratio of two observed numbers that the claimed number is."""
    of_key = {value: seen.key for seen in reversed(observations) for value in seen.combined}
    values = sorted(of_key)
    half = Decimal(1).scaleb(-claimed.decimals) / 2 if claimed.decimals else Decimal(0)
    for target in claimed.values:
        for value in values:
            if (other := _within(values, target - value, half)) is not None:
                return of_key[value], f"{value} + {other} = {target}"
            if (other := _within(values, value - target, half)) is not None:
                return of_key[value], f"{value} - {other} = {target}"
    for target in dict.fromkeys((*claimed.values, *claimed.quantities)):
        share = half * claimed.factor if target in claimed.quantities else half
        for value in values:
            if value > 0 and (other := _within(values, target * value, share * value)) is not None:
                return of_key[other], f"{other} / {value} = {target}"
    return None


def _within(values: Sequence[Decimal], target: Decimal, tolerance: Decimal) -> Decimal | None:
    """Return the smallest of the sorted values within the tolerance of the target."""
    index = bisect_left(values, target - tolerance)
    if index < len(values) and values[index] <= target + tolerance:
        return values[index]
    return None


# --- deliverables ---------------------------------------------------------------------------------------


WORKSPACE_KEY = "workspace"


def declared_deliverables(task: Task, configured: Sequence[str]) -> tuple[str, ...]:
    """Return the configured deliverables and those in the task's details."""
    return tuple(dict.fromkeys((*configured, *task.listed("deliverables"))))


def look_for_file(path: str, workspace: Path) -> ClaimEvidence:
    """Return the path with the file's size, or without evidence if there is no file.

    A path outside of the workspace, by ``..`` or a symlink, counts as missing.
    """
    try:
        root = workspace.resolve()
        place = (root / path.replace("\\", "/")).resolve()
        status = place.stat() if place.is_relative_to(root) else None
    except (OSError, ValueError, RuntimeError):
        status = None
    if status is None or not stat.S_ISREG(status.st_mode):
        return ClaimEvidence("file", path, supported=False)
    return ClaimEvidence("file", path, True, WORKSPACE_KEY, f"{status.st_size} bytes")
