"""Numbers as texts write them, and whether two ways of writing mean the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

from attrs import frozen

_UNITS: dict[str, tuple[str, str]] = {
    "%": ("share", "0.01"), "percent": ("share", "0.01"), "prozent": ("share", "0.01"),
    "‰": ("share", "0.001"),
    "mm": ("length", "0.001"), "cm": ("length", "0.01"), "m": ("length", "1"), "km": ("length", "1000"),
    "mg": ("mass", "0.000001"), "g": ("mass", "0.001"), "kg": ("mass", "1"), "t": ("mass", "1000"),
    "ms": ("time", "0.001"), "s": ("time", "1"), "sec": ("time", "1"), "seconds": ("time", "1"),
    "second": ("time", "1"), "sekunden": ("time", "1"), "min": ("time", "60"), "minutes": ("time", "60"),
    "minute": ("time", "60"), "minuten": ("time", "60"), "h": ("time", "3600"), "hours": ("time", "3600"),
    "hour": ("time", "3600"), "stunden": ("time", "3600"), "days": ("time", "86400"),
    "tage": ("time", "86400"),
    "ml": ("volume", "0.001"), "l": ("volume", "1"), "kb": ("data", "1000"), "mb": ("data", "1000000"),
    "gb": ("data", "1000000000"), "°c": ("temperature", "1"),
}  # fmt: skip
_FACTORS = {
    "k": "1000", "thousand": "1000", "tausend": "1000", "million": "1000000", "millions": "1000000",
    "millionen": "1000000", "mio": "1000000", "bn": "1000000000", "billion": "1000000000",
    "milliarden": "1000000000", "mrd": "1000000000",
}  # fmt: skip
_WORDS = {
    word: Decimal(number)
    for words in (
        "zero one two three four five six seven eight nine ten eleven twelve",
        "null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    )
    for number, word in enumerate(words.split(" "))
}
_NAMED = sorted({*_UNITS, *_FACTORS}, key=len, reverse=True)
NUMBER = re.compile(
    r"(?<![\w.,])(?P<sign>[-−+])?(?:[$€£¥] ?)?"
    r"(?P<digits>[0-9]{1,3}(?:[,.'\u00a0\u202f][0-9]{3}){1,12}(?:[.,][0-9]{1,30})?(?![0-9])"
    r"|[0-9]{1,40}(?:[.,][0-9]{1,30})?)(?P<exponent>[eE][+-]?[0-9]{1,3})?"
    rf"(?: ?(?P<unit>{'|'.join(map(re.escape, _NAMED))})(?!\w))?(?![0-9])",
    re.I,
)
_PLAIN = re.compile(r"(?<![0-9.])-?[0-9]{1,40}(?:\.[0-9]{1,30})?(?:[eE][+-]?[0-9]{1,3})?(?![0-9])")
_WORD = re.compile(r"\b(?:" + "|".join(_WORDS) + r")\b", re.I)
_GROUPED = re.compile(r"[0-9]{1,3}(?:([,.'\u00a0\u202f])[0-9]{3})+")


@frozen
class Number:
    """A number of a text.

    Attributes:
        values: what it may mean, since ``1.000`` is one or a thousand.
        dimension: what is measured; empty without a known unit.
        factor: of the unit, to compare it with others of the dimension.
        decimals: digits after the decimal sign.
    """

    text: str
    start: int
    end: int
    values: tuple[Decimal, ...]
    dimension: str = ""
    factor: Decimal = Decimal(1)
    decimals: int = 0

    @property
    def quantities(self) -> tuple[Decimal, ...]:
        """The values in the basic unit of the dimension."""
        return tuple(value * self.factor for value in self.values)


def numbers_of(text: str) -> Iterator[Number]:
    """The numbers of a text in order, as its reader would take them."""
    for match in NUMBER.finditer(text):
        unit = (match["unit"] or "").lower()
        dimension, factor = _UNITS.get(unit, ("", "1"))
        scale = Decimal(_FACTORS.get(unit, "1"))
        sign = "-" if match["sign"] in ("-", "−") else ""
        plain = tuple(
            Decimal(sign + each + (match["exponent"] or "")) * scale for each in _readings(match["digits"])
        )
        fraction = re.search(r"[.,]([0-9]+)$", match["digits"])
        exact = match["exponent"] or scale != 1 or fraction is None
        decimals = 0 if exact or fraction is None else len(fraction[1])
        yield Number(match[0].strip(), *match.span(), plain, dimension, Decimal(factor), decimals)


def observed_numbers(text: str) -> Iterator[Number]:
    """The numbers of a text in every way that they can be read: also the items of ``[1,2,3]``, and words."""
    measured = bytearray(len(text))
    for number in numbers_of(text):
        if number.dimension:  # what is 12 km is not 12 of anything else
            measured[number.start : number.end] = b"\1" * (number.end - number.start)
        yield number
    for match in _PLAIN.finditer(text):
        if not measured[match.start()]:
            yield Number(match[0], *match.span(), (Decimal(match[0]),))
    for match in _WORD.finditer(text):
        yield Number(match[0], *match.span(), (_WORDS[match[0].lower()],))


def _readings(digits: str) -> tuple[str, ...]:
    """Python's spelling of each thing that the digits may mean.

    >>> _readings("1,000"), _readings("1.234,5"), _readings("0,12")
    (('1000', '1.000'), ('1234.5',), ('0.12',))
    """
    grouped = _GROUPED.match(digits)
    if grouped is None:
        return (digits.replace(",", "."),)
    whole, rest = re.sub(r"[^0-9]", "", grouped[0]), digits[grouped.end() :]
    separators = re.findall(r"[^0-9]", grouped[0])
    if rest[:1] in (",", "."):
        return (f"{whole}.{rest[1:]}",)
    if len(separators) == 1 and separators[0] in ",.":
        return (whole, grouped[0].replace(",", "."))
    return (whole,)


def rounds_to(exact: Decimal, rounded: Decimal, decimals: int) -> bool:
    """Whether a number that is written with so many decimals is the rounded form of another."""
    if decimals < 1 or abs(exact) > Decimal(10) ** 18 or decimals > 9:
        return exact == rounded
    return exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP) == rounded
