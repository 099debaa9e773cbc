"""Texts within other texts: encoded, spelt out, or in markup that is hidden.

The codes are those that a model reads by itself: base64, hexadecimal and other numbers of characters, and
signs that are not seen. What has to be computed first, as compressed data or base85, gives it no orders.

An encoded text is found by its alphabet, decoded from every alignment, and taken as a text when it reads as
one. All work is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import html
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from urllib.parse import unquote

from attrs import frozen

from reactive_agents.core.secret_patterns import folded
from reactive_agents.core.texts import matches_at, places_of
from reactive_agents.core.values import Value, lazy_pattern

_HEX = lazy_pattern(r"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[ \t:,]{0,2}){6,}")
_HEX_SIGNS = lazy_pattern(r"0x|\\x|[ \t:,]")
_NUMBERS = lazy_pattern(r"(?:[01]{7,8}|[0-9]{2,3})(?:[\s,;:]{1,3}(?:[01]{7,8}|[0-9]{2,3})){5,}")
_NUMBER = lazy_pattern(r"[0-9]+")
_BASE64 = lazy_pattern(r"[A-Za-z0-9+/_-]{10,}(?:\s{1,2}[A-Za-z0-9+/_-]{4,})*={0,2}")
_SELECTORS = lazy_pattern("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{6,}")
_FIRST_SELECTORS, _MORE_SELECTORS = 0xFE00, 0xE0100 - 16
_ZERO_WIDTH = lazy_pattern("[\u200b-\u200d\u2060-\u2064\ufeff]{48,}")
_MOST_SAMPLED = 2_000
_LEAST_READABLE = 0.9
_LEAST_TEXT = 4
_PERCENT = lazy_pattern(r"(?:[\w\-.]{0,8}(?:%[0-9A-Fa-f]{2})+[\w\-.]{0,8}){3,}")
_BEFORE_PERCENT = 8
_ENTITIES = lazy_pattern(r"(?:&#x?[0-9A-Fa-f]{2,6};[ ]?){6,}")
_ESCAPES = lazy_pattern(r"(?:\\u00[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}){6,}")
_SPACED = lazy_pattern(r"(?<!\w)(?:\w[ .\-_*|/]{1,3}){7,}\w(?!\w)")
_LEET = lazy_pattern(r"[a-z][013457][a-z]|(?<!\w)[013457@$!][a-z]{2}")
_LEET_LETTERS = str.maketrans("013457@$!", "oieastasi")
_TURNED = frozenset(
    {
        "gur", "naq", "lbh", "lbhe", "nyy", "bs", "va", "vf", "gung", "ner", "vg", "guvf", "sbe", "abg",
        "jvgu", "vtaber", "cerivbhf", "vafgehpgvbaf", "flfgrz", "cebzcg", "ehyrf",
    }
)  # fmt: skip
_REVERSED = frozenset(
    {
        "eht", "dna", "uoy", "ruoy", "lla", "taht", "era", "siht", "htiw", "ton", "erongi", "suoiverp",
        "snoitcurtsni", "metsys", "tpmorp", "selur",
    }
)  # fmt: skip
"""Frequent English words in rot13, and backwards."""
_LEAST_TURNED = 2
_WORD = lazy_pattern(r"[a-z]+")
_HIDING_STYLE = lazy_pattern(
    r"display\s{0,3}:\s{0,3}none|visibility\s{0,3}:\s{0,3}hidden|font-size\s{0,3}:\s{0,3}0|opacity\s{0,3}:"
    r"\s{0,3}0(?![.\d]*[1-9])"
    r"|color\s{0,3}:\s{0,3}(?:white|#fff(?:fff)?\b|transparent)|(?:left|top|text-indent)\s{0,3}:\s{0,3}-\d"
    r"{3}|aria-hidden=.true",
    re.I,
)
_HIDING_STYLES = (
    "display", "visibility", "font-size", "opacity", "color", "left", "top", "text-indent", "aria-hidden",
)  # fmt: skip
"""What such a style begins with."""
_MARKDOWN_COMMENT = lazy_pattern(
    r"\[(?://|comment|_|hidden|)\]:\s{0,4}(?:#|<>)?\s{0,4}[(\"'][^\n]{1,2000}", re.I
)
_ATTRIBUTE = lazy_pattern(r"\b(?:alt|title|aria-label|content|data-[\w\-]{1,30})=\"([^\"\n]{20,600})\"", re.I)
_MOST_LAYERS = 3
_LEAST_DECODED = 8
_LONGEST_HIDDEN = 2000
_AFTER_ENTITIES = 200
_AROUND = 120


@frozen(eq=False, repr=False)
class Encoded(Value):
    """A text that is encoded in another one, from ``start`` to ``end``, in a code."""

    text: str
    start: int
    end: int
    how: str


def encoded_texts(text: str) -> Iterator[Encoded]:
    """Yield the texts that are encoded in a text, one layer deep.

    A code may be read in several ways.
    """
    for found in _HEX.finditer(text):
        digits = _HEX_SIGNS.sub("", found[0])
        yield from _readable(found, "hexadecimal", digits, binascii.unhexlify, 2)
    for found in _NUMBERS.finditer(text):
        numbers = _NUMBER.findall(found[0])
        for base in (2, 8, 10):
            with suppress(ValueError):
                read = bytes([int(number, base) for number in numbers]).decode("utf-8", "ignore")
                yield Encoded(read, *found.span(), "number codes")
    yield from unseen_texts(text)
    for found in _BASE64.finditer(text):
        lines = found[0].split()
        yield from _readable(found, "base64", "".join(lines), _from_base64, 4)
        if len(lines) > 1:
            for line in lines:
                yield from _readable(found, "base64", line, _from_base64, 4)


def unseen_texts(text: str) -> Iterator[Encoded]:
    """Yield the texts that signs without an appearance stand for."""
    if text.isascii():
        return
    for found in _SELECTORS.finditer(text):
        numbers_of = (
            ord(each) - (_FIRST_SELECTORS if each < "\uffff" else _MORE_SELECTORS) for each in found[0]
        )
        yield Encoded(_as_text(bytes(numbers_of)), *found.span(), "variation selectors")
    for found in _ZERO_WIDTH.finditer(text):
        signs = sorted(set(found[0]))
        if len(signs) == 2:
            for zero in signs:
                bits = "".join("0" if each == zero else "1" for each in found[0])
                octets = (int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
                yield Encoded(_as_text(bytes(octets)), *found.span(), "zero-width signs")


def unwrapped(text: str, found: list[Encoded]) -> str:
    """Return the text with encoded texts decoded in their places."""
    parts: list[str] = []
    end = 0
    for each in sorted(found, key=lambda one: (one.start, -one.end)):
        if each.start >= end:
            parts += (text[end : each.start], " ", each.text, " ")
            end = each.end
    return "".join((*parts, text[end:]))


def _readable(
    found: re.Match[str], how: str, code: str, decode: Callable[[str], bytes], alignments: int
) -> Iterator[Encoded]:
    """Yield the text of a code, if it is one.

    Something else may stand directly before the code.
    """
    for start in range(alignments):
        with suppress(ValueError):
            read = _as_text(decode(code[start:]))
            if read:
                yield Encoded(read, *found.span(), how)
                return


def _from_base64(code: str) -> bytes:
    digits = code.rstrip("=").replace("-", "+").replace("_", "/")
    whole = digits if len(digits) % 4 != 1 else digits[:-1]
    return base64.b64decode(whole + "=" * (-len(whole) % 4))


def _as_text(data: bytes) -> str:
    """Return the text of some bytes; empty when they do not read as one."""
    if data.count(0) * 3 > len(data):  # UTF-16
        data = data.replace(b"\0", b"")
    read = data.decode("utf-8", "replace")
    sample = read[:: len(read) // _MOST_SAMPLED + 1]
    plain = sum(each.isprintable() or each.isspace() for each in sample) - sample.count("\ufffd")
    return read if len(read) >= _LEAST_TEXT and plain >= _LEAST_READABLE * len(sample) else ""


def nested_texts(text: str) -> Iterator[Encoded]:
    """Yield the texts that are encoded in a text, a few layers deep.

    Percent encoding, character entities and escapes are decoded too. Each layer is no longer than the one
    around it, and each place is decoded in one way, so that the total time is linear in the text.
    """
    layer = list(_decoded(text))
    yield from layer
    for _ in range(_MOST_LAYERS - 1):
        layer = [
            Encoded(inner.text, outer.start, outer.end, f"{inner.how} in {outer.how}")
            for outer in layer
            for inner in _decoded(outer.text)
        ]
        yield from layer


def _decoded(text: str) -> Iterator[Encoded]:
    end = 0
    for found in encoded_texts(text):
        if len(found.text) >= _LEAST_DECODED:
            yield found
    starts = {place - before for place in places_of("%", text) for before in range(_BEFORE_PERCENT + 1)}
    for match in matches_at(_PERCENT, text, sorted(starts)):
        yield Encoded(unquote(match[0]).replace("+", " "), *match.span(), "percent encoding")
    for match in _ENTITIES.finditer(text) if "&" in text else ():
        if match.start() >= end:
            end = min(len(text), match.end() + _AFTER_ENTITIES)
            yield Encoded(html.unescape(text[match.start() : end]), match.start(), end, "character entities")
    for match in _ESCAPES.finditer(text) if "\\" in text else ():
        decoded = re.sub(r"\\(?:u00|x)(..)", lambda each: chr(int(each[1], 16)), match[0])
        yield Encoded(decoded, *match.span(), "escapes")


def spelt_texts(text: str) -> Iterator[Encoded]:
    """Yield readings of a folded text: joined letters, rot13, reversed, digits."""
    for match in _SPACED.finditer(text):
        words = re.sub(r"(?<=\w)[ .\-_*|/](?=\w)", "", match[0])
        yield Encoded(re.sub(r"\W{2,}", " ", words), *match.span(), "spaced letters")
    read: set[str] = set(_WORD.findall(text))
    if len(read & _TURNED) >= _LEAST_TURNED:
        yield Encoded(codecs.encode(text, "rot13"), 0, len(text), "rot13")
    if len(read & _REVERSED) >= _LEAST_TURNED:
        yield Encoded(text[::-1], 0, len(text), "reversed text")
    for start, end in _around(_LEET, text):
        yield Encoded(text[start:end].translate(_LEET_LETTERS), start, end, "digits for letters")


def _around(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Return the parts of a text around matches of a pattern, merged if adjacent."""
    start = end = 0
    for match in pattern.finditer(text):
        if match.start() - _AROUND > end:
            if end:
                yield start, end
            start = match.start() - _AROUND
        end = min(len(text), match.end() + _AROUND)
    if end:
        yield start, end


def hidden_texts(text: str) -> Iterator[Encoded]:
    """Yield texts that are invisible when displayed as HTML or Markdown."""
    place = text.find("<!--")
    while place >= 0:
        close = text.find("-->", place + 4)
        end = len(text) if close < 0 else close
        yield Encoded(text[place + 4 : min(end, place + _LONGEST_HIDDEN)], place, end, "HTML comment")
        place = -1 if close < 0 else text.find("<!--", close)
    done = 0
    plain = folded(text) if "<" in text else ""
    starts = sorted(place for style in _HIDING_STYLES for place in places_of(style, plain))
    for match in matches_at(_HIDING_STYLE, text, starts):
        if match.start() < done:
            continue
        start = text.find(">", match.end(), match.end() + 200) + 1
        if start:
            close = text.find("</", start, start + _LONGEST_HIDDEN)
            done = close if close >= 0 else min(len(text), start + _LONGEST_HIDDEN)
            yield Encoded(text[start:done], start, done, "invisible HTML")
    for match in _MARKDOWN_COMMENT.finditer(text):
        yield Encoded(match[0], *match.span(), "Markdown comment")
    for match in _ATTRIBUTE.finditer(text):
        yield Encoded(match[1], *match.span(1), "HTML attribute")
