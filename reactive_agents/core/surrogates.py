"""Halves of surrogate pairs: models, files and JSON escapes bring them, and UTF-8 cannot express them."""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."  # also an escaped backslash, so that what follows it is not taken for an escape
)


def mended(text: str) -> str:
    """The text as UTF-8 can express it: halves that make a pair are joined, any other becomes U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def mended_json_text(text: str) -> str:
    """JSON text, or what a model took for it, that holds no half of a pair, neither as such nor escaped."""
    text = mended(text)
    return _ESCAPE.sub(_mended_escape, text) if "\\u" in text else text


def _mended_escape(escape: re.Match[str]) -> str:
    return r"\ufffd" if escape["half"] else escape[0]


class MendedStream:
    """A text that arrives in pieces, of which one may end between the halves of a pair."""

    def __init__(self) -> None:
        self._half = ""

    def take(self, piece: str) -> str:
        """What of the text so far can be passed on, mended; half of a pair at the end waits for the other."""
        if self._half:
            piece, self._half = self._half + piece, ""
        if "\ud800" <= piece[-1:] <= "\udbff":
            piece, self._half = piece[:-1], piece[-1]
        return mended(piece)

    def end(self) -> str:
        """What is passed on for a half whose other half never came."""
        half, self._half = self._half, ""
        return mended(half)
