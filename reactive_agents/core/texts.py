"""Texts as they look, as they are printed, and as words.

Folding gives one spelling for the many ways to write the same letters: zero-width and other invisible
characters go away, letters of other scripts that look Latin become Latin, accents and capitals are dropped,
and letters written in invisible tag characters become visible.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final

from attrs import frozen

from reactive_agents.core.values import Value, lazy_pattern

_PAIRS = (
    "аa вb еe ѕs іi јj кk мm нh оo пn рp сc тt уy хx ԁd ԛq ԝw һh ѵv үy ӏl ьb гr "
    "αa βb γy εe ηn ιi κk νv οo ρp τt υu χx ωw ıi ɩi ɑa ɡg øo łl đd "
    "ᴀa ʙb ᴄc ᴅd ᴇe ꜰf ɢg ʜh ɪi ᴊj ᴋk ʟl ᴍm ɴn ᴏo ᴘp ꞯq ʀr ꜱs ᴛt ᴜu ᴠv ᴡw ʏy ᴢz "
    'ʼ\' ’\' ‘\' “" ”" „" «" »" –- —- ‐- ‑- −-'
)
_LOOK_ALIKES = {pair[0]: pair[1] for pair in _PAIRS.split(" ")} | {"æ": "ae", "œ": "oe"}
_LOOK_ALIKES |= {
    chr(first + place): letter
    for first in (0x1F150, 0x1F170, 0x1F1E6)  # in black circles and squares, and of flags
    for place, letter in enumerate("abcdefghijklmnopqrstuvwxyz")
}
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
    if 0xE0020 <= code <= 0xE007E or code in (0xE0009, 0xE000A):
        return chr(code - _TAG_OFFSET).lower()
    if character in _KEPT_CONTROLS:
        return character
    if "가" <= character <= "힣":  # syllables that would fall apart into letters
        return character
    plain = unicodedata.normalize("NFKD", character).casefold()
    looks = (_LOOK_ALIKES.get(each, each) for each in plain if unicodedata.category(each) not in _INVISIBLE)
    return "".join(looks)


_TABLE = _Table()


@frozen(eq=False, repr=False)
class Folded(Value):
    """A text as it looks, and where in the original each part of it is.

    Attributes:
        ends: for each character of the original, how long the folded text is after it; empty when both have
            the same length.
    """

    text: str
    ends: tuple[int, ...] = ()

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


def folded(text: str) -> str:
    """Return the text as it looks, without its places."""
    return text.translate(_TABLE)


def folded_pattern(source: str) -> str:
    """Return a regular expression for folded texts, with its non-ASCII parts folded."""
    return "".join(each if each.isascii() else each.translate(_TABLE) for each in source)


def count_invisible(text: str) -> int:
    """Return the number of invisible characters of a text, without joiners."""
    if text.isascii():
        return 0
    return sum(0xE0020 <= ord(each) <= 0xE007E or each in "\u200b\u2060\u2063\u180e\ufeff" for each in text)


# --- Texts of models, tools and files, made safe to print on a terminal ----------------------------------


LINE_CHARACTERS = 160

_FILLERS = r"\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff"
"""Letters, marks and unassigned signs that Unicode shows as nothing (``Default_Ignorable_Code_Point``)."""
_CONTROL = lazy_pattern(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e"
    rf"\u2060-\u206f\ufeff\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a{_FILLERS}]"
)
"""Signs that steer a terminal, turn or break lines, or look like nothing; not the joiners of letters."""


def one_line(text: str) -> str:
    """Return the text as one printable line of at most 160 characters."""
    flat = printable(" ".join(text.split()))
    return shortened(flat, LINE_CHARACTERS)


def counted(number: int, noun: str) -> str:
    """Return a number of things in words.

    >>> counted(1, "turn"), counted(2, "turn")
    ('1 turn', '2 turns')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def with_article(noun: str) -> str:
    """Return a noun or the name of a type after "a" or "an".

    >>> with_article("int"), with_article("str"), with_article("User")
    ('an int', 'a str', 'a User')
    """
    return f"{'an' if noun[:1].casefold() in 'aeio' else 'a'} {noun}"


def shortened(text: str, most: int) -> str:
    """Return the text, or its beginning with an ellipsis where it is longer.

    >>> shortened("Elbrus", 6), shortened("Elbrus", 5)
    ('Elbrus', 'Elbr…')
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def as_sentence(text: str) -> str:
    """Return the text as a sentence, which others may follow.

    >>> as_sentence("It is cold"), as_sentence("Is it cold? ")
    ('It is cold.', 'Is it cold?')
    """
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def printable(text: str) -> str:
    """Return the text without the control characters that could steer a terminal.

    Those that turn the direction of a text, and invisible ones, are left out as well. Line breaks and tabs
    stay.
    """
    return _CONTROL.sub("", text)


def printable_json(text: str) -> str:
    r"""Return a JSON text of the same data that steers no terminal.

    What :func:`printable` leaves out is written as an escape, such as ``\u202e``.
    """
    return _CONTROL.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
_BLANK = lazy_pattern(rf"[{_FILLERS}\ufe00-\ufe0f\u2800\U0001d159]")


def escaped(text: str) -> str:
    r"""Return the text with each character that is not seen written as ``\u{202e}``.

    Such are controls, those that turn the direction of a text, fillers, variation selectors, and blanks other
    than the space; and characters that are not assigned yet. Nothing is left out, and nothing hides.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"\\u{{{ord(each):x}}}" if _is_unseen(each) else each for each in text)


def _is_unseen(character: str) -> bool:
    unseen = unicodedata.category(character) in _UNSEEN or _BLANK.match(character) is not None
    return unseen and character != " "


_ESCAPE = lazy_pattern(
    r"(?<!\\)\\++(?:u([dD][89abAB][0-9a-fA-F]{2})\\++u([dD][c-fC-F][0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|([/nrt]))"
)
_SHORT_ESCAPES = {"/": "/", "n": "\n", "r": "\r", "t": "\t"}


def unescaped(text: str) -> tuple[str, Sequence[int]]:
    r"""Return the text with JSON's escapes as the characters that they stand for.

    Also those within texts in texts, with several backslashes. Second is where in the original each of its
    characters begins, and the length of the original.

    >>> unescaped(r"\u0061da")
    ('ada', [0, 6, 7, 8])
    """
    parts: list[str] = []
    places: list[int] = []
    done = 0
    for match in _ESCAPE.finditer(text):
        high, low, code, short = match.groups()
        parts.append(text[done : match.start()])
        if high is not None:
            parts.append(chr(0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00))
        else:
            parts.append(_SHORT_ESCAPES[short] if code is None else _character(int(code, 16)))
        places += (*range(done, match.start()), match.start())
        done = match.end()
    if not parts:
        return text, range(len(text) + 1)
    return "".join((*parts, text[done:])), [*places, *range(done, len(text) + 1)]


def _character(code: int) -> str:
    return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)


# --- results of runs: one line, and HTML for notebooks, in which all texts are escaped ---------------------


_LONGEST_OUTPUT: Final = 20_000
_MOST_STEPS: Final = 100
_LONGEST_IN_LINE: Final = 100


def line_of(result: Any) -> str:
    """Return the result in a line: its output, why it is not complete, and figures."""
    output = repr(result.output)
    shown = shortened(output, _LONGEST_IN_LINE)
    reason = "" if result.success else f", reason={one_line(result.reason)!r}"
    return f"{type(result).__name__}({shown}{reason}, {figures_of(result.metadata)})"


def dollars(cost: float, unpriced_calls: int = 0) -> str:
    """Return a cost as it is shown: a tiny one with its first two digits.

    Calls without a known price make it a lower bound: ``$0.0200 or more``.

    >>> dollars(0.0), dollars(1.5), dollars(0.0000273)
    ('$0.0000', '$1.5000', '$0.000027')
    """
    digits = 4 if cost == 0 or abs(cost) >= 0.0001 else 1 - math.floor(math.log10(abs(cost)))
    return f"${cost:.{digits}f}{' or more' if unpriced_calls else ''}"


def figures_of(figures: Any) -> str:
    """Return model calls, tokens, cost and duration."""
    calls = counted(figures.model_calls, "model call")
    cost = dollars(figures.cost_usd, figures.unpriced_calls)
    return f"{calls}, {figures.tokens_used} tokens, {cost}, {figures.duration_ms / 1000:.1f} s"


def html_of(result: Any) -> str:
    """Return the result as HTML: status, output, figures, and the steps folded up."""
    output = result.output if isinstance(result.output, str) else repr(result.output)
    rows = [_block("pre", output[:_LONGEST_OUTPUT], "white-space: pre-wrap; margin: 0.4em 0")]
    if not result.success:
        rows.insert(0, _block("p", result.reason, "margin: 0.4em 0"))
    steps = "".join(map(_step, result.steps[:_MOST_STEPS]))
    left_out = len(result.steps) - _MOST_STEPS
    more = f"<li>and {left_out} more</li>" if left_out > 0 else ""
    length = counted(len(result.steps), "step")
    folded = f"<details><summary>{length}</summary><ol>{steps}{more}</ol></details>"
    head = _block("strong", result.status) + " " + _block("span", figures_of(result.metadata), "opacity: 0.7")
    return f"<div>{head}{''.join(rows)}{folded if result.steps else ''}</div>"


def _step(step: Any) -> str:
    return f"<li>{_block('em', step.type)} {_block('code', one_line(step.content))}</li>"


def _block(tag: str, text: str, style: str = "") -> str:
    from html import escape  # its table of entities is for notebooks alone

    attribute = f' style="{style}"' if style else ""
    return f"<{tag}{attribute}>{escape(printable(text))}</{tag}>"


# --- The words of texts, and how alike two texts are by them ---------------------------------------------


_WORD = lazy_pattern(r"\w+")


def places_of(part: str, text: str) -> list[int]:
    """Return all places of a part in a text, also those that overlap."""
    found: list[int] = []
    place = text.find(part)
    while place >= 0:
        found.append(place)
        place = text.find(part, place + 1)
    return found


def matches_at(pattern: re.Pattern[str], text: str, starts: Iterable[int]) -> Iterator[re.Match[str]]:
    """Yield the matches of ``finditer``, without a look at most of the text.

    Args:
        starts: where a match may begin, in order; none may begin elsewhere.
    """
    end = 0
    for start in starts:
        if start >= end and (match := pattern.match(text, start)):
            yield match
            end = match.end()


def words_of(text: str) -> list[str]:
    """The words of a text, in small letters."""
    return _WORD.findall(text.lower())


def word_similarity(one: str, other: str) -> float:
    """Return the share of common words of two texts, 0 to 1 (P. Jaccard, 1912).

    Case, punctuation and order do not count; a text without words is similar to none.

    >>> word_similarity("Check the level first.", "First, check the LEVEL!")
    1.0
    >>> word_similarity("red green", "green blue")
    0.3333333333333333
    """
    words, others = frozenset(words_of(one)), frozenset(words_of(other))
    either = words | others
    return len(words & others) / len(either) if either else 0.0


_QUOTED_FOLDERS = re.compile(
    r"""(['"])(?:[A-Za-z]:|~)?[/\\](?:(?:(?!\1).){0,4000}[/\\])?(?=(?:(?!\1)[^/\\]){1,300}\1)"""
)
_FOLDERS = re.compile(
    r"""(?:(?<![^\s('"=[{<`,;|‘“])|(?<=://)|(?<=:)(?!//))(?:[A-Za-z]:|~)?"""
    r"""[/\\]{1,2}(?:[^\s'"/\\]{1,300}[/\\])+"""
)


def without_folders(text: str) -> str:
    """Return a text with the name alone of each file with an absolute path.

    >>> without_folders("The runs file '/srv/my agents/runs.db' is damaged, see https://sqlite.org/faq.html.")
    "The runs file 'runs.db' is damaged, see https://sqlite.org/faq.html."
    >>> without_folders("No such file: /srv/agents/notes.txt, and/or notes/old.txt")
    'No such file: notes.txt, and/or notes/old.txt'
    >>> without_folders("error:/srv/a.db, [/srv/b.db], `/srv/c.db`, file:///srv/d.db and https://sqlite.org/a/b")
    'error:a.db, [b.db], `c.db`, file://d.db and https://sqlite.org/a/b'
    >>> without_folders(r"\\\\server\\agents\\a.txt is not in '/srv/agents'.")
    "a.txt is not in 'agents'."
    """
    return _FOLDERS.sub("", _QUOTED_FOLDERS.sub(r"\1", text))
