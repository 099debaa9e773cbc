"""Where to cut a text so that no line or word is torn, as long as that costs little."""

from __future__ import annotations

_SHARE = 5
_SHORT = 40


def cut_before(text: str, length: int) -> int:
    """How many of the first ``length`` characters to keep, so that they end with a line or word.

    The end of the line is kept too. A greater length never gives an earlier end.
    """
    if length >= len(text):
        return len(text)
    least = length - _slack(length)
    line_end = text.rfind("\n", least, length) + 1
    word_end = max(text.rfind(blank, least, length + 1) for blank in " \t")
    if line_end:
        return line_end
    return length if word_end < 0 else word_end


def cut_after(text: str, length: int) -> int:
    """How many of the last ``length`` characters to keep, so that they begin with a line or word.

    A greater length never gives a later beginning.
    """
    if length == 0 or length >= len(text):
        return min(length, len(text))
    first = len(text) - length
    for blanks in ("\n", "\n \t"):
        found = [at for blank in blanks if (at := text.find(blank, first - 1, first + _slack(length))) >= 0]
        if found:
            return len(text) - min(found) - 1
    return length


def _slack(length: int) -> int:
    """Characters that an undamaged line or word may cost: a fifth, and of short texts up to the half."""
    return max(length // _SHARE, min(length // 2, _SHORT))
