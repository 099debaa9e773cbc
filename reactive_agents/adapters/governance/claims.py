"""Checkable claims of an answer: numbers, names, quotes and written files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

from attrs import frozen

from reactive_agents.core.governance import ClaimKind
from reactive_agents.core.languages import alternatives, by_language, expression, word_set

_QUOTED = re.compile(r"\"([^\"\n]{3,600})\"|“([^”\n]{3,600})”|„([^“”\n]{3,600})[“”]|«([^»\n]{3,600})»")
_BLOCK_QUOTE = re.compile(r"^> ?(\S.{2,600})$", re.M)
_FILE = re.compile(
    r"(?<![\w./\\:@\-])(?:[\w.\-]{1,80}[/\\]){0,12}[\w\-][\w.\-]{0,100}\.[A-Za-z][A-Za-z0-9]{0,7}(?![\w/@])"
)
_WRITTEN = re.compile(expression("written"), re.I)
"""Verbs by which an answer says that a file was written."""
_WRITTEN_AFTER = re.compile(
    rf"[`*_\"')]{{0,3}},?(?: {alternatives('has_been_written')}\b.{{0,20}}?)? ?{_WRITTEN.pattern}", re.I
)
_NOT = re.compile(expression("not_written"), re.I)
"""Words by which a file was not written, or nothing is said of who wrote it."""
_COMPOUND = re.compile(
    r"(?<![\w.,:/\-])[0-9]{1,8}(?:[:/\-][0-9]{1,8}){1,8}(?![\w/])|(?<![\w.])[0-9]+(?:\."
    r"[0-9]+){2,6}(?![\w])"
)
_GROUPS = re.compile(r"[0-9]{1,3}(?:\.[0-9]{3})+")
_ENUMERATION = re.compile(r"^[ \t>]*(?:[0-9]{1,3}[.)](?=[ \t]+\S)|#{1,6} .*$)", re.M)
_CAPITAL = r"[A-ZÀ-ÖØ-ÞĀ-ŽА-ЯΑ-Ω][\w'’\-]{0,40}"
_NAME = re.compile(rf"(?<![\w/.\-]){_CAPITAL}(?: (?:(?:{alternatives('within_name')}|&) )?{_CAPITAL}){{0,6}}")
_SENTENCE_START = re.compile(r"(?:^|[.!?:\n*#>|•(\"“„]|^\s*[-–])[\s*_`]{0,6}$")
_ODD = re.compile(r"[A-Z][a-z]*[A-Z0-9]|[A-Z]{2}")
_COMMON = word_set("no_name")
"""Words with a capital letter that are no names."""
_OPENERS = word_set("before_name")
"""Words that begin a sentence before a name."""
_ARTICLES = word_set("article_before_noun")  # before any noun of German, which are all capitalised
_SHORTEST_QUOTE_WORDS = 2


@frozen
class Claim:
    """A checkable claim of an answer.

    Attributes:
        text: the words of the answer.
        start: the position of the words.
        number: the value of a number; ``None`` for a date or version, which is compared word by word.
    """

    kind: ClaimKind
    text: str
    start: int
    number: Number | None = None


def claims_of(answer: str) -> tuple[Claim, ...]:
    """Return the claims of an answer, each once, in order.

    A quotation is one claim. A file that the answer says was written is another kind of claim than a file
    that it only names. Numbers of list items and headings are no claims.
    """
    found: list[Claim] = []
    taken = bytearray(len(answer) + 1)
    for claim, end in _claims(answer):
        if not any(taken[claim.start : end]):
            taken[claim.start : end] = b"\1" * (end - claim.start)
            if claim.text and claim.kind != "statement":
                found.append(claim)
    once = {(claim.kind, claim.text): claim for claim in reversed(found)}
    return tuple(sorted(once.values(), key=lambda each: each.start))


def _claims(answer: str) -> Iterator[tuple[Claim, int]]:
    """Yield claims with their ends, those that cover others first."""
    yield from _files(answer)
    for pattern in (_QUOTED, _BLOCK_QUOTE):
        for match in pattern.finditer(answer):
            group = match.lastindex or 0
            if len(re.findall(r"\w+", match[group])) >= _SHORTEST_QUOTE_WORDS:
                yield Claim("quote", match[group], match.start()), match.end()
    for match in _ENUMERATION.finditer(answer):
        yield Claim("statement", "", match.start()), match.end()
    for match in _COMPOUND.finditer(answer):
        if not _GROUPS.fullmatch(match[0]):
            yield Claim("number", match[0], match.start()), match.end()
    for number in numbers_of(answer):
        yield Claim("number", number.text, number.start, number), number.end
    yield from _names(answer)


def _files(answer: str) -> Iterator[tuple[Claim, int]]:
    for match in _FILE.finditer(answer):
        if (
            len(match[0]) < 4
            or not re.search(r"[A-Za-z_]", match[0].rpartition(".")[0])
            or match[0].lower().startswith("www.")
        ):
            continue
        before = re.split(r"[.!?]\s|\n", answer[max(0, match.start() - 160) : match.start()])[-1]
        after = re.split(r"[.!?]\s|\n", answer[match.end() : match.end() + 60], maxsplit=1)[0]
        said = _WRITTEN.search(before) or _WRITTEN_AFTER.match(after)
        written = said is not None and not _NOT.search(before)
        yield Claim("file" if written else "name", match[0], match.start()), match.end()


def _names(answer: str) -> Iterator[tuple[Claim, int]]:
    matches = list(_NAME.finditer(answer))
    capitals_are_common = len(matches) > 0.25 * len(answer.split())
    for match in matches:
        words = match[0].split(" ")
        start = match.start()
        at_start = _SENTENCE_START.search(answer[max(0, start - 8) : start]) is not None or start == 0
        while words and (
            words[0] in _COMMON or (at_start and len(words) > 1 and words[0].lower() in _OPENERS)
        ):
            start += len(words[0]) + 1
            words, at_start = words[1:], False
        name = " ".join(words).rstrip("'’-").removesuffix("'s").removesuffix("’s")
        if not words or len(name) < 2 or answer[match.end() : match.end() + 1] == ":":
            continue
        noun = start > match.start() and match[0].split(" ")[0] in _ARTICLES
        if len(words) == 1 and not _ODD.search(name) and (at_start or noun or capitals_are_common):
            continue
        yield Claim("name", name, start), start + len(name)


# --- numbers in texts -----------------------------------------------------------------------------------


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
    for numerals in by_language("numeral_of_claim").values()
    for number, word in enumerate(numerals)
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
        values: its possible values, since ``1.000`` is one or a thousand.
        dimension: the measured dimension; empty without a known unit.
        factor: the factor of the unit to the basic unit of the dimension.
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
    """Return the numbers of a text in order, as a reader would understand them."""
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
    """Return the numbers of a text in every reading, with number words and list items."""
    measured = bytearray(len(text))
    for number in numbers_of(text):
        if number.dimension:  # 12 km is not 12 of anything else
            measured[number.start : number.end] = b"\1" * (number.end - number.start)
        yield number
    for match in _PLAIN.finditer(text):
        if not measured[match.start()]:
            yield Number(match[0], *match.span(), (Decimal(match[0]),))
    for match in _WORD.finditer(text):
        yield Number(match[0], *match.span(), (_WORDS[match[0].lower()],))


def _readings(digits: str) -> tuple[str, ...]:
    """Return each possible value of the digits, in Python notation.

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
    """Return whether a number is another one rounded to the given decimals."""
    if decimals < 1 or abs(exact) > Decimal(10) ** 18 or decimals > 9:
        return exact == rounded
    return exact.quantize(Decimal(1).scaleb(-decimals), rounding=ROUND_HALF_UP) == rounded
