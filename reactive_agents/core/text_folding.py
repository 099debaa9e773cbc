"""Folding of texts: one spelling for the many ways to write the same letters.

Zero-width and other invisible characters go away, letters of other scripts that look Latin become Latin,
accents and capitals are dropped, and letters written in invisible tag characters become visible.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

from attrs import frozen

_PAIRS = (
    "аa вb еe ѕs іi јj кk мm нh оo пn рp сc тt уy хx ԁd ԛq ԝw һh ѵv үy ӏl ьb гr "
    "αa βb γy εe ηn ιi κk νv οo ρp τt υu χx ωw ıi ɩi ɑa ɡg ɪi ʀr ɴn ᴀa ᴇe ᴏo ᴜu øo łl đd "
    'ʼ\' ’\' ‘\' “" ”" „" «" »" –- —- ‐- ‑- −-'
)
_LOOK_ALIKES = {pair[0]: pair[1] for pair in _PAIRS.split(" ")} | {"æ": "ae", "œ": "oe"}
_INVISIBLE = ("Cf", "Mn", "Me", "Cc", "Cs", "Co")
_KEPT_CONTROLS = "\n\t\r\f\v"
_TAG_OFFSET = 0xE0000


class _Table(dict[int, str]):
    """The folded form of each character, filled on demand."""

    def __missing__(self, code: int) -> str:
        folded = self[code] = _look_of(chr(code))
        return folded


def _look_of(character: str) -> str:
    code = ord(character)
    if 0xE0020 <= code <= 0xE007E:
        return chr(code - _TAG_OFFSET).lower()
    if character in _KEPT_CONTROLS:
        return character
    if "가" <= character <= "힣":  # syllables that would fall apart into letters
        return character
    plain = unicodedata.normalize("NFKD", character).casefold()
    looks = (_LOOK_ALIKES.get(each, each) for each in plain if unicodedata.category(each) not in _INVISIBLE)
    return "".join(looks)


_TABLE = _Table()


@frozen
class Folded:
    """A text as it looks, and where in the original each part of it is.

    Attributes:
        ends: for each character of the original, how long the folded text is after it; empty when both have
            the same length.
    """

    text: str
    ends: Sequence[int] = ()

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The span of the original that a span of the folded text stands for; never empty."""
        if not self.ends or start >= end:
            return start, max(start, end)
        return bisect_right(self.ends, start), bisect_right(self.ends, end - 1) + 1


def fold(text: str) -> Folded:
    """The text as it looks, in linear time."""
    if text.isascii() and text.isprintable():
        return Folded(text.lower())
    folded = text.translate(_TABLE)
    if len(folded) == len(text) and all(len(_TABLE[ord(each)]) == 1 for each in set(text)):
        return Folded(folded)
    return Folded(folded, tuple(accumulate(len(_TABLE[ord(each)]) for each in text)))


def folded_pattern(source: str) -> str:
    """Return a regular expression for folded texts, with its non-ASCII parts folded."""
    return "".join(each if each.isascii() else each.translate(_TABLE) for each in source)


def count_invisible(text: str) -> int:
    """Return the number of invisible characters of a text, without joiners."""
    if text.isascii():
        return 0
    return sum(0xE0020 <= ord(each) <= 0xE007E or each in "\u200b\u2060\u2063\u180e\ufeff" for each in text)
