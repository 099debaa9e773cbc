"""Figures of a text, and what follows from known ones.

A figure is a number, or an identifier with digits. One that was found differs from an invented one in that it
stands in a text that was seen, or can be worked out from those that do: by a count, a sum, a mean, or one or
two of the four operations.

All functions are pure and total. More known numbers never make a figure unknown.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise, takewhile

from reactive_agents.core.languages import alternatives, by_language, word_set
from reactive_agents.core.values import lazy_pattern

_FIGURE = lazy_pattern(r"(?<![\w.,-])[#$€£]?(?P<text>[A-Za-z]{0,4}-?\d[\w.,:/-]*)", re.ASCII)
NUMBER = lazy_pattern(r"\d+(?:[.,]\d+)*", re.ASCII)
COUNTED = lazy_pattern(r"(?<![A-Za-z]-)(?<!\d)\d+(?:[.,]\d+)*", re.ASCII)
"""A number that can be reckoned with, which that of an identifier cannot."""
_MORE_THAN_A_DIGIT = lazy_pattern(r"\d(?:(?<=[^\s*(]\d)|(?![.,!?;:*)]*(?:\s|\Z)))")
"""A digit with others, letters or signs beside it, as every figure has that is no small count."""
_LONG_NAME = 5
_COMMON = lazy_pattern(r"\d{1,2}(?:-?[a-z]{1,6})?", re.ASCII | re.IGNORECASE)
"""Numbers that are hardly ever looked up, such as 90 in \"a 90-day policy\"."""
SHARE = lazy_pattern(
    rf"(?<![\d.,])((?>{NUMBER.pattern}))(?=(?:\s?\S{{1,3}}\s(?>{NUMBER.pattern}))?\s?(?:%|percent|prozent))",
    re.IGNORECASE,
)
"""A percentage, or the first one of "from 64 to 80 %"."""
_LATIN = lazy_pattern(r"[A-Za-z]")
_QUANTITY = lazy_pattern(r"\d[\d.,]*[a-zA-Z]{0,3}", re.ASCII)
LIST_MARK = lazy_pattern(r"(?m)^[ \t]*(?:[-*][ \t]*)?\(?\d{1,2}[.)]\s+", re.ASCII)
NUMERALS = {
    word: str(value)
    for row in by_language("numeral").values()
    for value, word in enumerate(row)
    if value != 1 and word != "-"
} | dict.fromkeys(word_set("dozen"), "12")
NUMBERED = lazy_pattern(r"(?<!\S)\(?[1-9][.)]\s")
"""A number before a part of a list, within a line too."""
_PRECISE = lazy_pattern(r"\d+[.,]\d\d(?!\d)|[A-Za-z]{1,4}-?\d{3,}", re.ASCII)
"""Amounts of money and identifiers, which are seldom known without a look-up."""
_ROUNDED = lazy_pattern(r"(?:(?:[.,]?0){2,}|(?<=\d\d)0)\Z")
_ROUNDING = 0.01
"""The largest share by which "about 7,300" may differ from the figure that it stands for."""
_MONEY = rf"(?:[€$£¥]|{alternatives('money')}\b)"
_DIGITS = frozenset("0123456789")
_POINTS = frozenset(".,")
_WORD_MARKS = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_WORD_MARKS_OR_POINT = _WORD_MARKS | {"."}
SMALL = 10
"""Whole numbers below this are counts that need no source: parts, steps, choices."""
_MOST_NUMBERS = 40
"""Distinct numbers seen up to which it is judged what follows from them; from more, anything can."""
MOST_SUMMED = 10
"""Numbers up to which all sums of some, or shares of sums, are compared."""
_LONGEST_STRIDE = 8
_LONGEST_NUMBER = 300
_MILLION, _HUNDRED = 1e6, 100
_LONGEST_COUNT = 60.0
"""The largest unit of which the rest is told too."""
_YEARS = range(1900, 2200)
"""Numbers that may be years, of which the next one is known too."""
_UNITS = (7.0, 12.0, 24.0, 60.0, 100.0, 1000.0)
"""Factors between common units, which need no look-up."""
_CONVERSIONS = (2.54, 3.28084)
"""Those between units of two systems, for figures of results, besides :data:`_IN_OTHER_UNIT`."""
_MOST_OF_BYTE = 255
"""The full brightness of many lamps, of which a task gives a share."""
_IN_OTHER_UNIT: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "km": ("mi", lambda value: value / 1.609344),
    "mi": ("km", lambda value: value * 1.609344),
    "C": ("F", lambda value: value * 1.8 + 32),
    "F": ("C", lambda value: (value - 32) / 1.8),
    "kg": ("lb", lambda value: value * 2.20462),
    "lb": ("kg", lambda value: value / 2.20462),
}
"""The other unit that is taken for each, and a value in it."""
_ERROR, _LEAST_ERROR = 0.04, 0.3
"""The largest share by which a value in another unit may be rounded, and what it may differ by besides."""
_UNIT = lazy_pattern(
    r"\s?(?:°\s?|(?:degrees?|grad|degrés|grados|gradi)\s+)?(?:(?P<km>km|kilomet\w*)|(?P<mi>mi|mil(?:es?|las?)|meilen?)"
    r"|(?P<C>c|celsius)|(?P<F>f|fahrenheit)|(?P<kg>kg|kilos?|kilogram\w*)|(?P<lb>lbs?))\b",
    re.IGNORECASE,
)
"""Units of two systems, which are taken for each other."""
_CONVERTED = 0.005
"""The largest share by which a converted number may be rounded."""
_SCALES = (1e3, 1e4, 1e6, 1e9)
"""By which "660k" and "0.66 million" are shorter than the figure that they stand for."""
_OTHER_DIGIT = lazy_pattern(r"(?![0-9])\d")
_GROUPED = lazy_pattern(r"(?<![\w.,-])[1-9]\d{0,2}(?:[ \u00a0\u2009\u202f'’]\d{3})+(?!\d)", re.ASCII)
_GROUP_SEPARATOR = lazy_pattern(r"[ \u00a0\u2009\u202f'’]")
_GROUP = 3
"""Digits between two separators of thousands."""


def gives_figures(task: str) -> bool:
    """Return whether a task has several numbers, from which others can be worked out."""
    return len(NUMBER.findall(task)) > 1


def has_precise_figures(figures: Iterable[str], text: str) -> bool:
    """Return whether a figure of a text is an amount of money or an identifier."""
    return any(_PRECISE.fullmatch(each) or is_amount(each, text) for each in figures)


def is_amount(figure: str, text: str) -> bool:
    """Return whether a figure of a text is money, by the sign or word beside it."""
    beside = rf"[€$£¥]\s?{re.escape(figure)}(?!\w)|(?<![\w.,]){re.escape(figure)}\s?{_MONEY}"
    return re.search(beside, plain_numbers(text), re.IGNORECASE) is not None


def larger_figures(text: str) -> Iterable[str]:
    """Return the figures of a text without its small counts."""
    if _MORE_THAN_A_DIGIT.search(text) is None:
        return ()
    return (figure for figure in numbers_and_names(text) if not is_small(figure))


def numbers_and_names(text: str) -> Iterable[str]:
    """Return the figures of a text, in their order."""
    plain = plain_numbers(without_list_marks(text))
    return (found["text"].rstrip(".,:/-") for found in _FIGURE.finditer(plain))


def plain_numbers(text: str) -> str:
    """Return a text with its numbers in digits from 0 to 9, without blanks in them.

    >>> plain_numbers("١٢ / 1 250 000")
    '12 / 1250000'
    """
    if not text.isascii():
        text = _OTHER_DIGIT.sub(lambda digit: str(int(digit[0])), text)
    return _GROUPED.sub(lambda number: _GROUP_SEPARATOR.sub("", number[0]), text)


def without_list_marks(text: str) -> str:
    """Return a text without the numbers of its parts, where there are several."""
    text = LIST_MARK.sub(" ", text)
    return NUMBERED.sub(" ", text) if len(NUMBERED.findall(text)) > 1 else text


def numerals(text: str) -> Iterable[str]:
    """Return the numbers that are written as words, in five languages."""
    return (NUMERALS[word] for word in text.lower().replace(".", " ").split() if word in NUMERALS)


def is_small(figure: str) -> bool:
    """Return whether a figure is a count that needs no source."""
    size = figure.removeprefix("-")
    return size.isdecimal() and len(size) < _LONGEST_NUMBER and int(size) < SMALL


def occurs(figure: str, shown: str) -> bool:
    """Return whether the figure occurs in a text, and not as a part of a longer one."""
    if _LATIN.search(figure) is not None:
        figure, shown = figure.lower(), shown.lower()
    for before, after in _places(figure, shown):
        goes_on = after[:1] in _WORD_MARKS or (after[:1] in _POINTS and after[1:] in _DIGITS)
        if not goes_on and before not in _WORD_MARKS_OR_POINT:
            return True
    return False


def has_word(word: str, text: str) -> bool:
    """Return whether a text has a word of letters, in its case."""
    return any(
        not any(each.isalnum() or each == "_" for each in before + after[:1])
        for before, after in _places(word, text)
    )


def _places(part: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield, for each place of a part, the character before it and the two after."""
    start = text.find(part)
    while start >= 0:
        end = start + len(part)
        yield text[max(start - 1, 0) : start], text[end : end + 2]
        start = text.find(part, start + 1)


def is_common(figure: str) -> bool:
    """Return whether a figure beside those found may be one that everybody knows."""
    return _COMMON.fullmatch(figure) is not None


def is_within(figure: str, shown: str) -> bool:
    """Return whether a long identifier is a part of a longer one of a text."""
    return len(figure) >= _LONG_NAME and _LATIN.search(figure) is not None and figure in shown


class KnownNumbers:
    """The numbers of a text, and those that can be worked out from them."""

    def __init__(self, shown: str, results: Iterable[str]) -> None:
        self._read: dict[str, tuple[float, ...]] = {}
        self.numbers: dict[float, None] = {}
        self._each: dict[float, None] = {}
        written = _counted(shown)
        for text in dict.fromkeys(written):
            if len(self.numbers) > _MOST_NUMBERS:
                break  # any figure may follow from so many
            self.numbers.update(dict.fromkeys(self._values(text)))
            self._each[self._values(text)[0]] = None
        first = [self._values(text) for text in written[:_MOST_NUMBERS]]
        shares = SHARE.findall(shown)
        others = _counted(SHARE.sub(" ", shown)) if shares else []
        self._shares = {*map(read_number, shares)} - {*map(read_number, others)}
        self._every = [values[0] for values in first]
        self._others = [values[-1] for values in first]
        self._results = tuple(results)
        self._counts = {count for result in self._results for count in _counts(result)}
        self._reached: list[float] | None = None
        self._computed: list[float] = []
        self._sums: list[float] = []
        self._simple: list[float] = []

    def _values(self, text: str) -> tuple[float, ...]:
        """Return what a written number may mean, which is read once."""
        if text not in self._read:
            self._read[text] = readings(text)
        return self._read[text]

    def supports(self, figure: str) -> bool:
        """Return whether a figure, or each part of one such as a date, is known."""
        figure = figure.removeprefix("-")
        if _QUANTITY.fullmatch(figure):
            return self._has(figure)
        parts = re.split(r"[:/-]|(?<=\d)h(?=\d)", figure)
        if figure[0].isdecimal():  # "30-day", "690/month"
            parts = [part for part in parts if not part.isalpha()]
        if not all(map(_QUANTITY.fullmatch, parts)):
            return False
        return all((len(parts) > 1 and is_small(part)) or self._has(part) for part in parts)

    def supports_share(self, figure: str) -> bool:
        """Return whether a percentage was seen, or is a share or change of others."""
        if not NUMBER.fullmatch(figure):
            return self.supports(figure)
        # of the first, and of the first so many of all, since further results do not make a share wrong
        numbers = list(islice(self.numbers, MOST_SUMMED))
        of_all = accumulate(takewhile(numbers.__contains__, self._every))
        sums = {*numbers, *(a + b for a in numbers for b in numbers), *of_all}
        shares = {100 * a / b for a in sums for b in sums if b} | {100 * a for a in numbers}
        shares |= {*sums, *(a - b for a in numbers for b in numbers)}  # also points of percentages
        shares |= {*(100 - each for each in (*numbers, *shares)), *(each - 100 for each in shares)}
        slack = 0.5 * 10.0 ** -len(figure.replace(",", ".").partition(".")[2]) + 1e-9
        if has_between(sorted(shares), read_number(figure) - slack, read_number(figure) + slack):
            return True
        return len(self.numbers) > MOST_SUMMED and self.supports(figure)

    def _has(self, quantity: str) -> bool:
        digits = NUMBER.match(quantity)
        if digits is None:
            return True
        return any(self._has_value(value, digits[0]) for value in readings(digits[0]))

    def _has_value(self, value: float, written: str) -> bool:
        if value in self.numbers or value in self._counts or len(self.numbers) > _MOST_NUMBERS:
            return True
        if rounded := _ROUNDED.search(written):
            unit = 10 ** sum(map(str.isdecimal, rounded[0]))
            slack = min(0.5 * unit, _ROUNDING * value)
            if self._follows(value, 1e-9):
                return True
            once = self._computed or sorted(_operations(list(self.numbers), self._shares))  # with sums of all
            if has_between(once, value - slack, value + slack):
                return True
        else:
            is_whole = value == float(re.sub(r"[.,]", "", written)[:_LONGEST_NUMBER])
            decimals = 0 if is_whole else len(written.replace(",", ".").rpartition(".")[2])
            slack = 0.5 * 10 ** -min(decimals, 15) + 1e-9
            if self._follows(value, slack):
                return True
        reached, largest = self._reached or [], max(self.numbers, default=0.0)
        return any(
            has_between(reached, (value - slack) * scale, (value + slack) * scale)
            for scale in _SCALES
            if scale <= 10 * largest
        )

    def _follows(self, value: float, slack: float) -> bool:
        """Return whether a value can be worked out, within the rounding of its last digit."""
        numbers = list(self.numbers)
        low, high = value - slack, value + slack
        if not self._sums:
            plain = [each for each in numbers if each not in self._shares]
            self._sums = sorted({0.0, *plain, *(a + b for a in plain for b in plain)})
        terms = [n for n in (1, 3, 4) if n <= max(1, len(self._every))]
        for part in self._sums:
            if any(has_between(self._sums, low * n - part, high * n - part) for n in terms):
                return True
        if self._reached is None:
            found = (self._values(text)[0] for each in self._results for text in _counted(each))
            # in other units a number is not computed with: of one result all would follow
            more = {*_converted(islice(found, _MOST_NUMBERS))}
            more |= {each + step for each in numbers if each in _YEARS for step in (-1, 1)}
            more |= {each / 2 for each in numbers}
            columns = ([*self._each], self._every, self._others)
            added = ([each for each in column if each not in self._shares] for column in columns)
            sums = {total for column in added for total in column_sums(column)}
            self._computed = sorted({*_operations(numbers, self._shares), *sums})
            self._reached = sorted({*self._computed, *_rests(numbers, sums), *more})
        if has_between(self._reached, low, high):
            return True
        before = self._computed
        if value < _HUNDRED and value.is_integer():  # two operations of any kind lead there nearly always
            products = (a * b for a in numbers for b in numbers)
            before = self._simple = self._simple or sorted({*self._sums, *products})
        return any(
            has_between(before, *sorted(ends))
            for each in numbers
            for ends in _before_last_operation(low, high, each, is_share=each in self._shares)
        )


class KnownTotals(KnownNumbers):
    """The whole numbers of a text, and sums of them and of products of neighbours."""

    def _follows(self, value: float, slack: float) -> bool:
        if self._reached is None:
            numbers = list(self._every)
            products = [a * b for a, b in pairwise(numbers)]
            one_step = _operations(numbers)
            self._reached = sorted({*sums_of_some(numbers), *sums_of_some(products), *one_step})
        return has_between(self._reached, value - 1e-9, value + 1e-9)


def sums_of_some(numbers: Iterable[float]) -> set[float]:
    """Return the sums of all selections of numbers; twice as many for each number."""
    sums = {0.0}
    for number in numbers:
        sums |= {total + number for total in sums}
    return sums


def read_number(text: str) -> float:
    """Return the number that is written, with its separators of thousands taken out."""
    whole, separator, rest = text.rpartition("." if text.rfind(".") > text.rfind(",") else ",")
    if not separator:
        return float(text[:_LONGEST_NUMBER])
    is_thousands = len(rest) == 3 and (separator == "," or "." in whole or "," in whole)
    digits = re.sub(r"[.,]", "", whole)
    return float((digits + rest if is_thousands else f"{digits}.{rest}")[:_LONGEST_NUMBER])


def _counted(text: str) -> list[str]:
    """Return the numbers of a text that can be reckoned with, as they are written."""
    return COUNTED.findall(plain_numbers(text))


def readings(text: str) -> tuple[float, ...]:
    """Return what a written number may mean: "1.250" is two numbers in two languages.

    The first is that of :func:`read_number`.
    """
    value = read_number(text)
    separator = "," if "," in text else "."
    whole, _, rest = text.partition(separator)
    if len(rest) != _GROUP or not rest.isdecimal() or not 0 < len(whole) <= _GROUP:
        return (value,)
    return (value, float(f"{whole}.{rest}") if separator == "," else float(whole + rest))


def _counts(result: str) -> tuple[float, ...]:
    """Return what can be counted in a result: lines, words, items and objects."""
    lines, words, items = result.count("\n") + 1, len(result.split()), result.count(",") + 1
    filled = sum(1 for line in result.splitlines() if line.strip())
    return (lines, filled, words, items, result.count("{"))


def items_in(result: str) -> tuple[int, ...]:
    """Return how many lines or objects a result has."""
    return (sum(1 for line in result.splitlines() if line.strip()), result.count("{"))


def _operations(numbers: Sequence[float], shares: Container[float] = ()) -> Iterable[float]:
    """Yield what one operation leads to; a percentage is not added to what is none."""
    for a in numbers:
        for unit in _UNITS:
            yield a * unit
            yield a / unit
        if a >= _MILLION:
            yield a / _MILLION
            yield a / _MILLION / 1000
        for b in numbers:
            if (a in shares) == (b in shares):
                yield a + b
                yield a - b
            yield a * b
            yield a * b / 100
            if b and a != b:
                yield a / b
                yield a / b * 100


def _rests(numbers: Sequence[float], sums: Iterable[float] = ()) -> Iterable[float]:
    """Yield the smaller unit beside a larger one: "2 hours and 22 minutes"."""
    yield from (each % unit for each in (*numbers, *sums) for unit in _UNITS if each > unit <= _LONGEST_COUNT)
    yield from (a / b % 1 * 60 for a in numbers for b in numbers if b)


def in_another_unit(text: str, shown: str) -> frozenset[str]:
    """Return the numbers of a text with a unit of which only another was shown.

    "24 km" or "15 km", where a result has 24 miles, and nothing has kilometres: neither is what at most one
    operation leads to, in that unit.
    """
    said = [*_with_units(text)]
    given = [*_with_units(shown)] if said else []
    units, numbers = {unit for unit, _ in given}, NUMBER.findall(shown) if given else []
    if len(numbers) > _MOST_NUMBERS:
        return frozenset()
    bare, known = {*numbers} - {each for _, each in given}, [*map(read_number, numbers)]
    reached = {*known, *_operations(known)}
    return frozenset(
        each
        for unit, each in said
        if unit not in units and each not in bare and _IN_OTHER_UNIT[unit][0] in units
        if all(
            abs(abs(_IN_OTHER_UNIT[unit][1](read_number(each))) - value) > _LEAST_ERROR + _ERROR * abs(value)
            for value in reached
        )
    )


def _with_units(text: str) -> Iterator[tuple[str, str]]:
    """Yield the first numbers that have one of the units, each after its unit."""
    for each in islice(NUMBER.finditer(text), _MOST_NUMBERS):
        if unit := _UNIT.match(text, each.end()):
            yield unit.lastgroup or "", each[0]


def follows_at_once(value: float, numbers: Iterable[float]) -> bool:
    """Return whether one operation leads to a value, or it is in another unit.

    An hour after noon is one too. Anything may follow from many numbers.
    """
    known = [*islice(numbers, _MOST_NUMBERS + 1)]
    if len(known) > _MOST_NUMBERS:
        return True
    exact = (
        *_operations(known),
        *_rests(known),
        *(each + 12 for each in known if each <= 12),
    )
    other = (*_converted(known), *(each / 100 * _MOST_OF_BYTE for each in known))
    return any(abs(each - value) < 1e-9 for each in exact) or any(
        abs(each - value) <= _CONVERTED * value for each in other
    )


def column_sums(numbers: Sequence[float]) -> Iterable[float]:
    """Return sums and means of neighbouring numbers, and of every second, third …"""
    for stride in range(1, _LONGEST_STRIDE + 1):
        for start in range(len(numbers)):
            for count, total in enumerate(accumulate(numbers[start::stride]), 1):
                yield total
                yield total / count


def _converted(numbers: Iterable[float]) -> Iterable[float]:
    """Return numbers in the units of another system."""
    for each in numbers:
        yield from (convert(each) for _, convert in _IN_OTHER_UNIT.values())
        yield abs(_IN_OTHER_UNIT["C"][1](-each))  # signs are no part of known numbers
        for unit in _CONVERSIONS:
            yield each * unit
            yield each / unit


def _before_last_operation(
    low: float, high: float, number: float, *, is_share: bool
) -> Iterable[tuple[float, float]]:
    """Return the ranges that one operation with a number leads into low to high."""
    if not is_share:
        yield low - number, high - number
        yield low + number, high + number
        yield number - low, number - high
    if number:
        yield low * number, high * number
        yield low / number, high / number
        yield low * 100 / number, high * 100 / number
        yield low * number / 100, high * number / 100
    if number and low > 0:
        yield number / low, number / high


def has_between(ordered: Sequence[float], low: float, high: float) -> bool:
    """Return whether sorted numbers have one from low to high."""
    at = bisect_left(ordered, low)
    return at < len(ordered) and ordered[at] <= high
