"""Everything that a run has seen, and whether a text rests on it.

A figure of an answer is supported when it was seen or follows from what was; a clause has evidence when it
states something of a result. What cannot be judged counts in the model's favour, and whatever more was seen
never makes a figure unsupported.

All functions are pure and total. Their work is linear in the length of the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from attrs import frozen

from reactive_agents.core.content import shows_content
from reactive_agents.core.figures import (
    MOST_SUMMED,
    NUMBER,
    SHARE,
    SMALL,
    KnownNumbers,
    KnownTotals,
    column_sums,
    has_between,
    has_word,
    in_another_unit,
    is_amount,
    is_common,
    is_small,
    is_within,
    items_in,
    larger_figures,
    numbers_and_names,
    numerals,
    occurs,
    read_number,
    sums_of_some,
)
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.tools import TRIED
from reactive_agents.core.values import Value, computed, lazy_pattern
from reactive_agents.kernel import clauses
from reactive_agents.kernel.announcements import begins_words, composes, denies, speaks_of_oneself
from reactive_agents.kernel.call_parsing.argument_schema import CALL_AGAIN
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window.tool_results import tool_results
from reactive_agents.kernel.prompt import told_texts
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.toolset import FINAL_ANSWER

_NAME = lazy_pattern(r"(?<=[\w,;:(] )[^\W\d_a-z][^\W\d_]{2,}")
"""A word with a capital letter that does not begin the clause."""
_PERSON = lazy_pattern(r"(?<=[\w,;:(] )[A-Z][a-z'’-]+(?: [A-Z][a-z'’-]+)+")
"""Two words or more with capital letters, that do not begin the clause."""
_PARTIAL = lazy_pattern(r"[%/:]\s*\d|\d\s*[%/:]|percent|prozent")
"""Shares, rates and times, of which a total is no plain sum."""
_CENT = 0.005
_SHORT_RESULTS = 200
"""Characters of all results up to which even a small number of theirs is evidence."""
_MOST_FIGURES = 50
"""Figures of an answer that are judged, the first ones."""


@frozen(slots=False, eq=False, repr=False)
class Seen(Value):
    """All that a run has been shown.

    Attributes:
        results: the full texts of the tool results that worked.
        told: recalled notes, instructions and earlier findings.
        given: the arguments of the calls that worked.
    """

    task: str
    results: tuple[str, ...] = ()
    told: str = ""
    given: str = ""

    @computed
    def found(self) -> str:
        """The results as one text, made once for all checks."""
        return "\n".join(self.results)

    @computed
    def everything(self) -> str:
        """All texts as one, made once for all checks."""
        return "\n".join((self.task, self.told, self.given, self.found))

    @computed
    def found_words(self) -> set[str]:
        """The words of the results."""
        return clauses.words_of(self.found)

    @computed
    def found_beginnings(self) -> frozenset[str]:
        """The beginnings of the words of the results that the task does not have."""
        return begins_words(self.found) - begins_words(self.task)

    @computed
    def reckoned(self) -> KnownNumbers:
        """The numbers of the results, and what can be worked out from them."""
        return KnownNumbers(self.found, self.results)

    @computed
    def background(self) -> Background:
        """The task, and what was told besides."""
        return Background(f"{self.task}\n{self.told}")


@frozen(slots=False, eq=False, repr=False)
class Background(Value):
    """A text known before the results, which is no evidence."""

    text: str

    @computed
    def words(self) -> set[str]:
        """Its words, and those that tell nothing."""
        return clauses.words_of(self.text) | clauses.UNTELLING


def seen_by(state: KernelState, context: KernelContext) -> Seen:
    """Return the prompt's texts, the results, and the errors of tools that ran."""
    told, found = [*told_texts(context)], [*results_of(state)]
    worked, calls = list[str](), dict[str | None, str]()
    for step in state.steps:
        about = step.metadata
        if about is None:
            continue
        if step.type == "action":
            calls[about.call_id] = step.content
        elif not is_of_tool(step):
            continue
        elif about.success is not False:
            worked.append(calls.get(about.call_id, ""))
        else:
            (found if was_run(step) else told).append(step.content)
    return Seen(context.input.asked, tuple(found), "\n".join(told), "\n".join(worked))


def results_of(state: KernelState) -> tuple[str, ...]:
    """Return the full results of the run's calls."""
    return tuple(tool_results(state.scratchpad).values()) if state.scratchpad else ()


def was_run(step: ReasoningStep) -> bool:
    """Return whether a tool was run, or its stored result was shown."""
    if step.metadata is None or step.metadata.success:
        return True
    return step.metadata.origin in TRIED and f"\n{CALL_AGAIN} " not in step.content


def is_of_tool(step: ReasoningStep) -> bool:
    """Return whether a step is what a call returned, other than a rejected answer."""
    return step.type == "observation" and not delivers(step)


def delivers(step: ReasoningStep) -> bool:
    """Return whether a step is of a call that delivers an answer."""
    return step.metadata is not None and step.metadata.tool_used == FINAL_ANSWER


def unsupported_figures(answer: str, seen: Seen) -> tuple[str, ...]:
    """Return the figures of an answer that nothing seen supports, each once.

    A figure is a number or an identifier with digits. It is supported when it stands in the task or in a
    result, or follows from numbers there: by a count, a sum, a mean, or one or two of the four operations.
    Where the task asks for a total of few whole numbers, only sums and one operation count: from a few small
    numbers two operations lead nearly everywhere. Where an image, sound or document was shown, any figure may
    come from it. A question claims nothing.
    """
    is_written = "```" in answer and composes(seen.task)  # code that was to be written
    said = clauses.BLOCK.sub("\n", answer) if is_written else answer
    told = "\n".join(each for each in clauses.clauses_of(said) if not clauses.QUESTION.search(each)) or said
    figures = [*islice(dict.fromkeys(larger_figures(told)), _MOST_FIGURES)]
    shown = seen.everything if figures else ""
    unknown = [figure for figure in figures if not (occurs(figure, shown) or is_within(figure, shown))]
    if figures and (wrong := in_another_unit(told, shown)):
        return tuple(figure for figure in figures if figure in wrong)
    if not unknown or shows_content(shown):
        return ()
    if seen.results and not clauses.LETTER.search(seen.found) and not clauses.asks_total(seen.task):
        # nothing was found that it might follow from, other than that there is nothing
        return tuple(each for each in unknown if not NUMBER.fullmatch(each) or read_number(each))
    known = KnownNumbers(shown, seen.results)
    rest = unknown
    if "%" not in told and clauses.asks_total(seen.task):
        totals, is_all = _totals(seen)
        known = totals if is_all else known
        rest = [figure for figure in unknown if not totals.supports(figure)]
    shares = set(SHARE.findall(told))
    rest = [
        each for each in rest if not (known.supports_share(each) if each in shares else known.supports(each))
    ]
    found = seen.found
    has_found = len(rest) < len(unknown) or any(occurs(each, found) for each in larger_figures(told))
    if has_found and not clauses.asks_figure(seen.task):
        rest = [each for each in rest if not is_common(each) or is_amount(each, told)]
    if not rest:
        return ()
    return _not_summed(rest, list(islice(numbers_and_names(told), _MOST_FIGURES)), known)


def _not_summed(unknown: Sequence[str], figures: Sequence[str], known: KnownNumbers) -> tuple[str, ...]:
    """Return the figures that do not follow from other ones of the same answer.

    They may be a sum of supported ones, as the last row of a table is, or so many times a known number.
    """
    read = [
        read_number(each[0])
        for figure in figures
        if figure not in unknown and (each := NUMBER.search(figure))
    ]
    summed = [each for each in read if each >= SMALL]
    sums = sums_of_some(summed) if len(summed) <= MOST_SUMMED else column_sums(summed)
    counts = {each for each in read if each < SMALL and each.is_integer()}
    reached = sorted({*sums, *(count * number for count in counts for number in known.numbers)})
    return tuple(
        figure
        for figure in unknown
        if NUMBER.fullmatch(figure) is None
        or not has_between(reached, read_number(figure) - _CENT, read_number(figure) + _CENT)
    )


def unknown_people(answer: str, seen: Seen) -> tuple[str, ...]:
    """Return the full names in an English answer that has nothing of the results.

    Of empty results, all names, as of places and days; of results with addresses, in all languages, others.
    None of their words was seen. An answer that denies something, or a task for a text, may name anybody.
    """
    if not seen.results:
        return ()
    if "@" in answer and "@" in seen.found and (addresses := clauses.ADDRESS.findall(answer)):
        shown = seen.everything.casefold()
        parts = ((each, *each.casefold().split("@")) for each in dict.fromkeys(addresses))
        unknown = tuple(each for each, user, host in parts if not (user in shown and host in shown))
        return () if shows_content(shown) or denies(answer) or composes(seen.task) else unknown
    pattern = _PERSON if clauses.LETTER.search(seen.found) else _NAME
    told = [each for each in clauses.clauses_of(answer) if not speaks_of_oneself(each)]  # no offers
    names = dict.fromkeys(pattern.findall("\n".join(told)))
    if not names or not clauses.is_english(seen.task) or composes(seen.task) or denies(answer):
        return ()
    task = Background(seen.task)
    if any(has_evidence(each, seen, task) for each in clauses.clauses_of(answer)):
        return ()
    shown = seen.everything.casefold()
    return tuple(each for each in names if not any(word.casefold() in shown for word in each.split()))


def ends_with_evidence(text: str, seen: Seen) -> bool:
    """Return whether the last clause of a text states something found in a result.

    That is a figure which the results support and the task does not have, or words of the results, at least
    half of those that the clause adds to the task. Small numbers count beside short results only: in long
    ones any of them can be found.
    """
    return has_evidence(text, seen, seen.background)


def has_evidence(text: str, seen: Seen, background: Background) -> bool:
    """Return whether the last clause states something found beyond a background."""
    if not seen.results or clauses.OPEN_END.search(text):
        return False
    clause, results = clauses.last_clause(text), seen.found
    said, is_long = _read_evidence(clause), len(results) > _SHORT_RESULTS
    judged = islice((each for each in said.figures if not (is_long and is_small(each))), _MOST_FIGURES)
    figures = [each for each in judged if not occurs(each, background.text)]
    names = [each for each in said.names if not occurs(each, background.text)]
    if any(occurs(each, results) for each in (*figures, *names)):
        return True
    if any(has_word(name[:3], results) for name in names):
        return True  # "Friday" where the result has "Fri"
    figures = [each for each in figures if not is_small(each)]
    if figures and any(map(seen.reckoned.supports, figures)):
        return True
    if said.numerals:
        items = {str(count) for result in seen.results for count in items_in(result)}
        if not said.numerals.isdisjoint(items):
            return True
    if said.words.isdisjoint(seen.found_words):
        return False
    added = said.words - background.words
    return 2 * len(added & seen.found_words) >= max(1, len(added))


@frozen(eq=False, repr=False)
class _Evidence(Value):
    """The parts of a clause that may be evidence."""

    figures: tuple[str, ...]
    numerals: frozenset[str]
    names: tuple[str, ...]
    words: frozenset[str]


@lru_cache(maxsize=64)
def _read_evidence(clause: str) -> _Evidence:
    """Return what may be evidence in a clause, which is looked at once."""
    return _Evidence(
        tuple(numbers_and_names(clause)),
        frozenset(numerals(clause)),
        tuple(_NAME.findall(clause)),
        frozenset(clauses.words_of(clause)),
    )


def works_out(text: str, seen: Seen) -> bool:
    """Return whether a text ends with a figure that follows from the task."""
    return follows_from_task(clauses.last_clause(text), seen)


def is_supported(answer: str, seen: Seen) -> bool:
    """Return whether all figures of an answer are supported, and its end by evidence.

    Evidence is something found in a result, or a figure that follows from the task.
    """
    if unsupported_figures(answer, seen):
        return False
    return ends_with_evidence(answer, seen) or works_out(answer, seen)


def _totals(seen: Seen) -> tuple[KnownTotals, bool]:
    """Return totals of the first numbers, and whether these are all, and whole."""
    shown = "\n".join((seen.task, *seen.results))
    numbers = [*islice(NUMBER.finditer(shown), MOST_SUMMED + 1)]
    is_all = len(numbers) <= MOST_SUMMED and all(each[0].isdecimal() for each in numbers)
    first = shown if len(numbers) <= MOST_SUMMED else shown[: numbers[MOST_SUMMED - 1].end()]
    return KnownTotals(first, seen.results), is_all and not _PARTIAL.search(shown)


def follows_from_task(clause: str, seen: Seen) -> bool:
    """Return whether a clause has a figure that follows from the task."""
    said = _read_evidence(clause).figures[:_MOST_FIGURES]
    figures = [each for each in said if not occurs(each, seen.task)]
    known = KnownNumbers(seen.task, ()) if figures else None
    return known is not None and any(map(known.supports, figures))
