"""Figures of an answer that contradict the results, as swapped ones do.

Only what plainly contradicts is one: each thing has one number in its results, and the task asks for no more
than to tell or compare them. All functions are pure and total.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, combinations, islice, permutations
from math import prod
from statistics import fmean

from reactive_agents.core.figures import (
    MOST_SUMMED,
    NUMBER,
    NUMERALS,
    SHARE,
    SMALL,
    follows_at_once,
    numbers_and_names,
    numerals,
    plain_numbers,
    read_number,
    readings,
    sums_of_some,
    without_list_marks,
)
from reactive_agents.core.languages import alternatives, expression, word_set
from reactive_agents.core.values import lazy_pattern
from reactive_agents.kernel import clauses
from reactive_agents.kernel.announcements import begins_words, denies
from reactive_agents.kernel.evidence import Seen, unsupported_figures

_PART_END = lazy_pattern(rf",\s|\s{alternatives('and')}\s", re.IGNORECASE)
_GREATER, _LESSER, _THAN = (lazy_pattern(expression(each)) for each in ("greater", "lesser", "than"))
"""In small letters, as the others for comparisons: so they are found in a third of the time."""
_SIGNED = lazy_pattern(r"(?<![\w.,])(?<!\w-)[-−]?\d+(?:[.,]\d+)*", re.ASCII)
_RANK = lazy_pattern(expression("rank"), re.IGNORECASE)
"""Words of places and versions, whose order is no order of numbers."""
_ADDED = lazy_pattern(expression("added"), re.IGNORECASE)
"""Words of what is counted besides."""
_EXCHANGE = lazy_pattern(expression("exchange"), re.IGNORECASE)
"""Words of what one has from another."""
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
_DECIMALS = lazy_pattern(r"(?<=\d[.,])\d{1,2}(?![\d.,]*\d)")
_VERSION = lazy_pattern(r"\d[.,]\d{1,2}[.,]\d")
_WORD_BESIDE = lazy_pattern(r"([^\W\d]+) (?=\d)|\d ([^\W\d]+)")
_UNIT = lazy_pattern(r"\s?(?:[%°€$£]\s?\w?|[^\W\d_]+)")
_BESIDE_END = lazy_pattern(r"[\d,;|{}\n]")
_DEGREE = lazy_pattern(expression("degree"))
_MONEY = lazy_pattern(expression("money"), re.IGNORECASE)
_CENT = 0.005
_PAIR = 2
_MOST_TOTALLED = 5
"""Results whose totals are compared, in any order."""
_AFFIRMING, _DENYING = word_set("affirming"), word_set("denying")
_LONGEST = 15
"""Characters of a number that is totalled."""
_MOST_TIMES = 31
"""Persons or days that a total is for, or is shared by."""
_MOST_FIGURES = 50
"""Figures of an answer that are judged, the first ones."""


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
    """Return whether figures may be of what no result has by that name.

    They may be goals that are conceded, after results of goals scored. Of results without words it is not
    known what they are where the answer has a verb of its own, or the task is about an exchange: "Who gets
    what?". An amount may have any name.
    """
    labels = begins_words("\n".join(looked_up.values()))
    for each in things:
        text = clauses.without(text, each)
    beside = _WORD_BESIDE.findall(text)
    if clauses.mentions_amount(task):
        return False
    asked, verbs = begins_words(task), begins_words(" ".join(before for before, _ in beside))
    if not labels:
        return not verbs <= asked or _EXCHANGE.search(task) is not None
    return not asked & begins_words(" ".join(chain.from_iterable(beside))) <= labels


def mistotalled(text: str, seen: Seen, looked_up: Mapping[str, str]) -> tuple[str, ...]:
    """Return the numbers of results of which a text has another total or mean.

    Each result is of one thing and has one number, and nothing else that was seen has any, other than how
    many of each the task asks the price of. A sum or difference of some, their product, ratio or mean, and
    one in another unit or rounded may be right, and so may several times it, a share, and a mean that is of
    one thing. A text with all of them may tell a mean of each.

    Args:
        looked_up: the results by the thing that they are of.
    """
    if not len(looked_up) == len(seen.results) <= _MOST_TOTALLED or (counts := _counts_in(seen)) is None:
        return ()
    found = _figures_alike(looked_up.values(), is_price=bool(counts))
    if len(found) != len(counts) if counts else len(found) < _PAIR:
        return ()
    is_of_mean = clauses.asks_mean(seen.task)
    said = [each for each in clauses.clauses_of(text) if not (denies(each) or clauses.QUESTION.search(each))]
    told = [NUMBER.findall(plain_numbers(clause)) for clause in said[:_MOST_FIGURES]]
    if sorted(map(read_number, chain(*told))) == sorted(map(read_number, found)):
        return ()
    asks = clauses.asks_mean if is_of_mean else clauses.asks_total
    right, parts = _worked_out(found, counts, is_of_mean=is_of_mean)
    known = () if is_of_mean else {*chain(*map(readings, found)), *counts, *parts - right}
    for clause, figures in zip(said, told, strict=False):
        others = [each for each in figures if read_number(each) not in known]
        if len(others) != 1 or not (counts or asks(clause)) or SHARE.search(clause):
            continue
        if is_of_mean and sum(clauses.names(clause, each) for each in looked_up) == 1:
            continue  # "Rome, with an average rent of 900"
        if len(found) > _PAIR and not is_of_mean and not unsupported_figures(clause, seen):
            continue  # one of them may be a rate
        if not any(_may_be(each, right, parts) for each in readings(others[0])):
            return tuple(found)
    return ()


def _figures_alike(results: Iterable[str], *, is_price: bool) -> list[str]:
    """Return the number of each result; none if one has not one, or another unit.

    A price with further words may be of more than one: "4.50 a pair".
    """
    figures, units = list[str](), set[str]()
    for result in results:
        found = _numbers_in(result)
        after = plain_numbers(result).rpartition(found[0])[2] if len(found) == 1 else ""
        if len(found) != 1 or len(found[0]) > _LONGEST or (is_price and after.strip().count(" ")):
            return []
        figures += found
        units.add(_unit_after(after, 0))
    return figures if len(units) == 1 else []


def _worked_out(
    figures: Sequence[str], counts: Sequence[float], *, is_of_mean: bool
) -> tuple[set[float], set[float]]:
    """Return the mean and sum, or totals of so many of each, and parts of these.

    A number may have two readings, as "1.250" has in two languages.
    """
    right, parts = set[float](), set[float]()
    read = [readings(each) for each in figures]
    for numbers in {tuple(each[at] for each in read) for at in (0, -1)}:
        parts |= {one / other for one, other in permutations(numbers, 2) if other}
        if is_of_mean:
            right |= {fmean(numbers), sum(numbers)}  # which may be shared by others
            continue
        parts.add(fmean(numbers))
        if len(numbers) == 1:
            right.add(numbers[0])  # "a 3 course menu" for several
        for each in {*permutations(counts or (1.0,) * len(numbers))}:
            values = [count * number for count, number in zip(each, numbers, strict=True)]
            sums = sums_of_some(values)
            right |= {sum(values), prod(values)}
            parts |= {*sums, *(abs(sum(values) - 2 * some) for some in sums)}
            parts |= {one * other + rest for one, other, rest in permutations(values, 3)}
    return right, parts


def _counts_in(seen: Seen) -> tuple[float, ...] | None:
    """Return how many of each a task asks for; ``None`` if other numbers may count.

    It asks for a total or mean, or for the price of "3 notebooks and 2 pens".
    """
    task, beside = seen.task, f"{seen.told}\n{seen.given}".replace(seen.task, " ")
    is_of_mean, is_of_total = clauses.asks_mean(task), clauses.asks_total(task)
    if not (is_of_mean or is_of_total or clauses.mentions_amount(task)):
        return None
    if _numbers_in(beside) or any(numerals(f"{task}\n{beside}")):
        return None
    if _MONEY.search(task) or "%" in seen.everything or clauses.CONDITION.search(task):
        return None
    counts = tuple(map(read_number, _numbers_in(task)))
    if not all(each.is_integer() and 1 < each < SMALL for each in counts):
        return None
    is_meant = not is_of_mean if counts else is_of_mean or is_of_total
    return counts if is_meant else None


def _numbers_in(text: str) -> list[str]:
    """Return the numbers of a text that are no part of an identifier."""
    return [*filter(NUMBER.fullmatch, numbers_and_names(text))]


def _may_be(number: float, right: Iterable[float], parts: Iterable[float]) -> bool:
    """Return whether a number is a right one or a part, or that rounded.

    Also one that is right of several or in another unit.
    """
    if any(_is_multiple(number, each) or follows_at_once(number, (each,)) for each in right):
        return True
    return any(_is_rounded(number, each) for each in chain(right, parts))


def _is_multiple(number: float, other: float) -> bool:
    """Return whether one of two numbers is the other for so many persons or days."""
    least, most = sorted((number, other))
    return 0 < most <= _MOST_TIMES * least and abs(most / least - round(most / least)) < _CENT / _MOST_TIMES


def _is_rounded(number: float, right: float) -> bool:
    """Return whether a number is another one, or that rounded, as of "465 thousand"."""
    return any(
        abs(number - round(right / scale, places)) < _CENT
        for scale in (1, 1e3, 1e6)
        for places in range(-len(str(int(right))), 3)
    )


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
    does; "Yes" to "Is it above 20?", but not "No" to "Is it far above 20?". Each thing has one number in its
    results, or one beside what the task compares, with the same words around. What is said of more than one
    thing is about the one before the comparing word. A task with another number, or that names one of a list,
    asks for more than to compare; of ranks and versions the first may be the highest.

    Args:
        looked_up: the results by the thing that they are of; of one that lists things, these are compared.
    """
    sign = compares(task)
    if not sign or not looked_up or denies(task) or _RANK.search("\n".join((task, *looked_up.values()))):
        return {}
    asked = task.lower()
    values, subject = _values_of(looked_up, asked)
    if not any(unit for _, unit in values.values()) and _may_be_versions([asked, *looked_up.values()]):
        return {}
    said = [each for each in clauses.clauses_of(text.lower()) if not clauses.QUESTION.search(each)]
    if not values or not said or _has_condition(asked, looked_up, values):
        return {}
    if (is_so := _whether(said[0])) is not None:
        truth = None if clauses.leaves_choice(task) else _truth_of(asked, sign, values)
        is_of_degree = _DEGREE.search(asked) is not None or any(numerals(asked))  # "much warmer"
        is_wrong = truth is not None and truth is not is_so and (is_so or not is_of_degree)
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
    """Return whether more counts than the values: "with tax", "apart from Ibis".

    That is so too if the task has another number, or the name of a thing is a part of another one.
    """
    if values.keys() != looked_up.keys() and any(clauses.names(task, each) for each in values):
        return True
    if any(each != other and each in other for each in values for other in values):
        return True  # "York" and "New York"
    rest = _LIMIT.sub(" ", task)
    for each in looked_up:
        rest = clauses.without(rest, each)
    return NUMBER.search(rest) is not None or _ADDED.search(rest) is not None


def _may_be_versions(texts: Sequence[str]) -> bool:
    """Return whether numbers without a unit may be versions: "3.10" and "3.9"."""
    decimals = [each for text in texts for each in _DECIMALS.findall(text)]
    return len({*map(len, decimals)}) > 1 or any(map(_VERSION.search, texts))


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
