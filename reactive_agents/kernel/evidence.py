"""Everything that a run has seen, and whether a text rests on it.

A figure of an answer is supported when it was seen or follows from what was; a clause has evidence when it
states something of a result. What cannot be judged counts in the model's favour, and whatever more was seen
never makes a figure unsupported.

All functions are pure and total. Their work is linear in the length of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations, islice

from attrs import frozen

from reactive_agents.core.content import shows_content
from reactive_agents.core.figures import (
    MOST_SUMMED,
    NUMBER,
    NUMERALS,
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
    plain_numbers,
    read_number,
    sums_of_some,
    without_list_marks,
)
from reactive_agents.core.languages import alternatives, expression, word_set
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.tools import TRIED
from reactive_agents.core.values import Value, computed, lazy_pattern
from reactive_agents.kernel import clauses
from reactive_agents.kernel.announcements import begins_words, composes, denies, speaks_of_oneself
from reactive_agents.kernel.call_parsing.argument_schema import CALL_AGAIN
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window.tool_results import tool_results
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.toolset import FINAL_ANSWER

_NAME = lazy_pattern(r"(?<=[\w,;:(] )[^\W\d_a-z][^\W\d_]{2,}")
"""A word with a capital letter that does not begin the clause."""
_PERSON = lazy_pattern(r"(?<=[\w,;:(] )[A-Z][a-z'’-]+(?: [A-Z][a-z'’-]+)+")
"""Two words or more with capital letters, that do not begin the clause."""
_PARTIAL = lazy_pattern(r"[%/:]\s*\d|\d\s*[%/:]|percent|prozent")
"""Shares, rates and times, of which a total is no plain sum."""
_PART_END = lazy_pattern(rf",\s|\s{alternatives('and')}\s", re.IGNORECASE)
_GREATER, _LESSER, _THAN = (lazy_pattern(expression(each)) for each in ("greater", "lesser", "than"))
"""In small letters, as the others for comparisons: so they are found in a third of the time."""
_SIGNED = lazy_pattern(r"(?<![\w.,])(?<!\w-)[-−]?\d+(?:[.,]\d+)*", re.ASCII)
_LIMIT = lazy_pattern(
    rf"(?:{expression('greater')}|{expression('lesser')})(?:\s{expression('than')})?\s({_SIGNED.pattern})(?!\w)",
)
"""A number that something is compared with: "above 20"."""
_OF_SEVERAL = lazy_pattern(
    rf"(?:{expression('ordinal')}|\b(?:[2-9]|{'|'.join(NUMERALS)})) (?:\w+ ){{0,3}}?"
    rf"(?:{expression('greater')}|{expression('lesser')})",
)
"""Words such as "the second highest" and "the two cheapest"."""
_COMPARING = lazy_pattern(rf"(?:\w+\s)?(?:{expression('greater')}|{expression('lesser')})(?:\s\w+)?")
"""A comparing word with those beside it: "scored more goals"."""
_WORD_BESIDE = lazy_pattern(r"([^\W\d]+) (?=\d)|\d ([^\W\d]+)")
_UNIT = lazy_pattern(r"\s?(?:[%°€$£]\s?\w?|[^\W\d_]+)")
_BESIDE_END = lazy_pattern(r"[\d,;|{}\n]")
_AFFIRMING, _DENYING = word_set("affirming"), word_set("denying")
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
    told, found = [*context.told, *context.later_messages()], [*results_of(state)]
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


def swapped(text: str, task: str, looked_up: Mapping[str, str]) -> tuple[str, ...]:
    """Return things of which a text gives each other's figures; empty for none.

    "Oslo has 19 degrees and Rome 4", where it is the other way round. Each is named with one number, which
    its own results do not have and those of the other have. None of a result that names the other thing.

    Args:
        looked_up: the results by the thing that they are of.
    """
    if not 1 < len(looked_up) <= _MOST_FIGURES or not NUMBER.search(text):
        return ()
    told: dict[str, list[float]] = {}
    said = (each for each in clauses.clauses_of(without_list_marks(text)) if NUMBER.search(each))
    parts = (part for each in said if not denies(each) for part in _PART_END.split(plain_numbers(each)))
    for part in islice(filter(NUMBER.search, parts), _MOST_FIGURES):
        named = [each for each in looked_up if clauses.names(part, each)]
        rest = clauses.without(part, named[0]) if len(named) == 1 else ""
        numbers = [*map(read_number, NUMBER.findall(rest))]
        if len(numbers) == 1:
            told.setdefault(named[0], []).append(numbers[0])
    found = {each: {*map(read_number, NUMBER.findall(plain_numbers(looked_up[each])))} for each in told}
    given = {each: numbers[0] for each, numbers in told.items() if len(numbers) == 1}
    wrong = {each: number for each, number in given.items() if number not in found[each]}
    for each, other in combinations(wrong, 2):
        is_other_way_round = wrong[each] in found[other] and wrong[other] in found[each]
        if is_other_way_round and _is_of_other_kind(text, task, looked_up, (each, other)):
            return ()
        if is_other_way_round and not (
            clauses.names(looked_up[each], other) or clauses.names(looked_up[other], each)
        ):
            return each, other
    return ()


def _is_of_other_kind(text: str, task: str, looked_up: Mapping[str, str], things: Sequence[str]) -> bool:
    """Return whether figures are of what no result has by that name.

    They may be goals that are conceded, after results of goals scored. Results without words tell nothing
    of that, and an amount may have any name.
    """
    labels = begins_words("\n".join(looked_up.values()))
    for each in things:
        text = clauses.without(text, each)
    beside = " ".join(chain.from_iterable(_WORD_BESIDE.findall(text)))
    asked = begins_words(task) & begins_words(beside)
    return bool(labels) and not clauses.mentions_amount(task) and not asked <= labels


@lru_cache(maxsize=8)
def compares(task: str) -> int:
    """Return 1 if a text is about the greatest, -1 for the least, 0 for neither.

    It is about neither if it compares twice, or is about several, or another than the first: "the second
    highest".
    """
    task = task.lower()
    greater, lesser = len(_GREATER.findall(task)), len(_LESSER.findall(task))
    return 0 if greater + lesser != 1 or _OF_SEVERAL.search(task) else greater - lesser


def miscompared(text: str, task: str, looked_up: Mapping[str, str]) -> Mapping[str, str]:
    """Return the values of things that a text compares wrongly, by the things.

    "Riga is warmer", where Riga has 5 degrees and Naples 18; "Bern lies highest" of three of which another
    does; "Yes" to "Is it above 20?". Each thing has one number in its results, or one beside what the task
    compares, with the same words around. What is said of more than one thing is about the one before the
    comparing word. A task with another number, or that names one of a list, asks for more than to compare.

    Args:
        looked_up: the results by the thing that they are of; of one that lists things, these are compared.
    """
    sign = compares(task)
    if not sign or not looked_up or denies(task):
        return {}
    asked = task.lower()
    values, subject = _values_of(looked_up, asked)
    said = [each for each in clauses.clauses_of(text.lower()) if not clauses.QUESTION.search(each)]
    if not values or not said or _has_condition(asked, looked_up, values):
        return {}
    if (is_so := _whether(said[0])) is not None:
        truth = None if clauses.leaves_choice(task) else _truth_of(asked, sign, values)
        is_wrong = truth is not None and truth is not is_so
    elif len(values) < 2 or _THAN.search(asked) or _LIMIT.search(asked):
        is_wrong = False  # more than one may be "less than Bob"
    else:
        is_wrong = _chooses_wrongly(said, sign, values, subject)
    return {thing: f"{value:g}" for thing, (value, _) in values.items()} if is_wrong else {}


def _chooses_wrongly(
    said: Sequence[str], sign: int, values: Mapping[str, tuple[float, str]], subject: frozenset[str]
) -> bool:
    """Return whether the first clause that chooses a thing takes the wrong one.

    Args:
        subject: words of what is compared, if the results have other numbers too.
    """
    first = max(values, key=lambda each: sign * values[each][0])
    if said[0].startswith(first.lower()) and said[0][len(first) :].lstrip()[:1] in ",.!(":
        return False  # "Naples, although Riga has more sun"
    named = [each for each in values if any(clauses.names(clause, each) for clause in said)]
    for clause in said:
        if not compares(clause):
            if len(named) > 1:
                continue  # one of a list
        elif subject and subject.isdisjoint(_subject_of(clause)):
            continue  # it compares other numbers
        chosen, others, direction = _chosen_in(clause, sign, values)
        if chosen:
            return any(direction * (values[each][0] - values[chosen][0]) > 0 for each in others)
    return False


def _has_condition(task: str, looked_up: Mapping[str, str], values: Mapping[str, tuple[float, str]]) -> bool:
    """Return whether more counts than the values: "With 20 % off", "apart from Ibis".

    That is so too if the name of a thing is a part of another one.
    """
    if values.keys() != looked_up.keys() and any(clauses.names(task, each) for each in values):
        return True
    if any(each != other and each in other for each in values for other in values):
        return True  # "York" and "New York"
    rest = _LIMIT.sub(" ", task)
    for each in looked_up:
        rest = clauses.without(rest, each)
    return NUMBER.search(rest) is not None


def _subject_of(text: str) -> frozenset[str]:
    """Return the beginnings of the comparing word of a text, and of those beside it."""
    found = _COMPARING.search(text)
    return begins_words(found[0]) if found else frozenset()


def _chosen_in(
    clause: str, sign: int, values: Mapping[str, tuple[float, str]]
) -> tuple[str, Sequence[str], int]:
    """Return the thing that a clause names first of others, these, and the sign.

    Args:
        sign: what the task asks for.
    """
    places = {each: at for each in values if (at := clauses.place_of(clause, each)) is not None}
    own = compares(clause)
    word = (_GREATER if own > 0 else _LESSER).search(clause) if own else None
    is_one = len(places) == 1
    if not places or denies(clause) or (is_one and _THAN.search(clause)) or not (is_one or word):
        return "", (), 0
    if is_one or word is None:
        return next(iter(places)), [*values], own or sign
    before = {each: at for each, at in places.items() if at < word.start()}
    chosen = max(before, key=before.__getitem__) if before else min(places, key=places.__getitem__)
    if _THAN.search(clause, word.end(), places[chosen]):
        return "", (), 0  # "More than Bob earns Ada"
    return chosen, [*places], own


def _whether(clause: str) -> bool | None:
    """Return whether a clause begins with a yes, or with a no; ``None`` for neither."""
    first = clauses.SHORT_ANSWER.match(clause)
    word = first[0].casefold() if first else ""
    return True if word in _AFFIRMING else False if word in _DENYING else None


def _truth_of(task: str, sign: int, values: Mapping[str, tuple[float, str]]) -> bool | None:
    """Return whether yes is right, of two things or of one and a number."""
    if len(clauses.clauses_of(task)) > 1:
        return None
    if limit := _LIMIT.search(task):
        (value, unit), *more = values.values()
        asked = _unit_after(task, limit.end())
        known = unit == asked or not (unit and asked)
        return sign * (value - _signed(limit[1])) > 0 if known and not more else None
    chosen, others, _ = _chosen_in(task, sign, values)
    if len(others) != 2 or len(values) != 2 or not _THAN.search(task):
        return None
    other = next(each for each in others if each != chosen)
    return sign * (values[chosen][0] - values[other][0]) > 0


def _values_of(
    looked_up: Mapping[str, str], task: str
) -> tuple[Mapping[str, tuple[float, str]], frozenset[str]]:
    """Return the number and unit of each thing; of none if one is not clear.

    The second part has the words by which these were told from other numbers, if there are any.
    """
    told, is_list = looked_up, False
    if len(looked_up) == 1 and not _LIMIT.search(task):
        lines = [*filter(str.strip, without_list_marks(next(iter(looked_up.values()))).splitlines())]
        told, is_list = {each: each for each in lines[:_MOST_FIGURES]}, len(lines) > 1
        if not is_list:
            return {}, frozenset()
    found: dict[str, tuple[float, str]] = {}
    subject, beside = frozenset[str](), set[str]()
    for thing, result in told.items():
        numbers = [*_SIGNED.finditer(plain_numbers(result))]
        if len(numbers) > 1:
            subject = _subject_of(task)
            numbers = [each for each in numbers if subject & begins_words(" ".join(_around(each)))]
        if len(numbers) != 1:
            return {}, frozenset()
        number, (before, after) = numbers[0], _around(numbers[0])
        name = thing[: number.start()].strip(" :,-–|") if is_list else thing
        found[name] = _signed(number[0]), _unit_after(number.string, number.end())
        beside.add(after if is_list else clauses.without(f"{before} {after}", thing))
    return ({}, frozenset()) if len(beside) > 1 or "" in found else (found, subject)


def _around(number: re.Match[str]) -> tuple[str, str]:
    """Return the words before and after a number, up to the next sign or number."""
    before = _BESIDE_END.split(number.string[: number.start()])[-1]
    return before, _BESIDE_END.split(number.string[number.end() :])[0]


def _signed(number: str) -> float:
    return -read_number(number[1:]) if number[0] in "-−" else read_number(number)


def _unit_after(text: str, end: int) -> str:
    unit = _UNIT.match(text, end)
    return unit[0].strip().casefold() if unit else ""


def miscopied(figures: Iterable[str], seen: Seen) -> Mapping[str, str]:
    """Return those of figures without a source that look miscopied.

    Each with the number of a result that has its digits: 1,842.10 where a result has 1,482.10. Those of a
    calculation are seldom so alike.
    """
    found = {_digits_of(each): each for each in NUMBER.findall(plain_numbers(seen.found))}
    least = 2 if len(found) <= MOST_SUMMED else 3
    written = [each for each in figures if NUMBER.fullmatch(each) and len(_digits_of(each)) >= least]
    return {each: found[_digits_of(each)] for each in written if _digits_of(each) in found}


def _digits_of(number: str) -> tuple[str, ...]:
    return tuple(sorted(filter(str.isdecimal, number)))


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
