"""Disguised texts: encodings, spelt-out letters, markup that is not displayed."""

from __future__ import annotations

import codecs
import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

from reactive_agents.core.encodings import Encoded
from reactive_agents.core.encodings import encoded_texts as texts_in_codes
from reactive_agents.core.secret_patterns import folded
from reactive_agents.core.texts import matches_at, places_of

_PERCENT = re.compile(r"(?:[\w\-.]{0,8}(?:%[0-9A-Fa-f]{2})+[\w\-.]{0,8}){3,}")
_BEFORE_PERCENT = 8
_ENTITIES = re.compile(r"(?:&#x?[0-9A-Fa-f]{2,6};[ ]?){6,}")
_ESCAPES = re.compile(r"(?:\\u00[0-9A-Fa-f]{2}|\\x[0-9A-Fa-f]{2}){6,}")
_SPACED = re.compile(r"(?<!\w)(?:\w[ .\-_*|/]{1,3}){7,}\w(?!\w)")
_LEET = re.compile(r"[a-z][013457][a-z]|(?<!\w)[013457@$!][a-z]{2}")
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
_WORD = re.compile(r"[a-z]+")
_HIDING_STYLE = re.compile(
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
_MARKDOWN_COMMENT = re.compile(
    r"\[(?://|comment|_|hidden|)\]:\s{0,4}(?:#|<>)?\s{0,4}[(\"'][^\n]{1,2000}", re.I
)
_ATTRIBUTE = re.compile(r"\b(?:alt|title|aria-label|content|data-[\w\-]{1,30})=\"([^\"\n]{20,600})\"", re.I)
_MOST_LAYERS = 3
_LEAST_DECODED = 8
_LONGEST_HIDDEN = 2000
_AFTER_ENTITIES = 200
_AROUND = 120


def encoded_texts(text: str) -> Iterator[Encoded]:
    """Yield texts decoded from base64, hexadecimal, percent encoding and others.

    Decodes a few nested layers. Each layer is no longer than the one around it, and each place is decoded in
    one way, so that the total time is linear in the text.
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
    for found in texts_in_codes(text):
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


def spelt_texts(folded: str) -> Iterator[Encoded]:
    """Yield readings of a folded text: joined letters, rot13, reversed, digits."""
    for match in _SPACED.finditer(folded):
        words = re.sub(r"(?<=\w)[ .\-_*|/](?=\w)", "", match[0])
        yield Encoded(re.sub(r"\W{2,}", " ", words), *match.span(), "spaced letters")
    read: set[str] = set(_WORD.findall(folded))
    if len(read & _TURNED) >= _LEAST_TURNED:
        yield Encoded(codecs.encode(folded, "rot13"), 0, len(folded), "rot13")
    if len(read & _REVERSED) >= _LEAST_TURNED:
        yield Encoded(folded[::-1], 0, len(folded), "reversed text")
    for start, end in _around(_LEET, folded):
        yield Encoded(folded[start:end].translate(_LEET_LETTERS), start, end, "digits for letters")


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
