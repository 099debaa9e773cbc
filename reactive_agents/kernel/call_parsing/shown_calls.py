"""Calls, and arguments of calls, that were copied from texts shown to the model.

Only letters and digits are compared, as they look: indentation, quoting, escapes, case, accents, letters of
other scripts, markup and the form of the call make no difference. A call occurs in a text when its tool's
name stands there as in a call, and the values of its arguments stand nearby, in any order; texts are also
compared as decoded from base64, base32, hexadecimal, decimal, octal and binary digits, percent, HTML and
quoted-printable escapes, with digits for letters, rotated by any number of letters, and backwards. A value
alone, or a name in a sentence, is no call. All work is linear in the length of the texts.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from urllib.parse import unquote

from attrs import frozen

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.texts import fold

_SIGNS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r"\\+(?:[uU](?P<u>[0-9a-fA-F]{4})|[xX](?P<x>[0-9a-fA-F]{2})|[nrtbfNRTBF])")
_TAGS = re.compile("[\U000e0000-\U000e007f]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_MARKUP = re.compile(r"<[^<>]{0,200}>")
_SOFT_BREAK = re.compile(r"=[ \t]*\r?\n")
_QUOTED_PRINTABLE = re.compile(r"=(?=[0-9A-Fa-f]{2})")
_NUMBERS = re.compile(r"(?:[01]{7,8}|[0-9]{2,3})(?:[\s,;:]{1,3}(?:[01]{7,8}|[0-9]{2,3})){5,}")
_NUMBER = re.compile(r"[0-9]+")
_BASE32 = re.compile(r"[A-Z2-7]{16,}={0,6}")
_AS_LETTERS = str.maketrans("0134578", "oieastb")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINTS = re.compile(r"[\"'`]\s*[+,.]?\s*[\"'`]|\s*\n[ \t>|*#]*")
_LINE_NUMBER = re.compile(r"^[ \t>]*\d{1,7}[ \t]*[:|.)\t→-][ \t]?", re.M)
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{10,}(?:\s{1,2}[A-Za-z0-9+/_-]{4,})*={0,2}")
_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[ \t:,]{0,2}){6,}")
_HEX_SIGNS = re.compile(r"0x|\\x|[ \t:,]")
_ROUNDS = 3
_MOST_VALUES = 50
_LONGEST_VALUE = 200
_LEAST_COPIED, _LEAST_WORD, _LEAST_LINE = 6, 8, 24
"""Letters and digits from which on a value, a word and a line of one are recognised."""
_NEARBY = 300
"""Letters and digits that the form of a call may put around its name and values."""
_BEFORE = re.compile(
    r"(?:name|tool|function|functions|action|invoke|toolcall|toolcalls|functioncall|toolcallbegin|toolsep|"
    r"call|to|python_?tag)\Z"
)
_AFTER = re.compile(r"(?:call)?(?:arg|param|input|actioninput|toolinput|toolarg|toolsep|toolcallarg)")
_LONGEST_BEFORE = 16
_OPENS = re.compile(r"[\s\"'`*\\]{0,8}[({\[<>]")
_OPENS_EMPTY = re.compile(r"[\s\"'`*\\]{0,8}\(\s*\{?\s*\}?\s*\)")
_POINTS = re.compile(r"[^\s\w,.;!?]|\A\.\Z")


def is_shown(call: ToolCall, texts: Iterable[str]) -> bool:
    """Return whether the call occurs, as a call, in a text or across several."""
    wanted, shown = _wanted(call), "\n".join(texts)
    if not wanted.name:
        return False
    if any(_occurs(wanted, text) for text in _readings(shown)):
        return True
    visible = _INVISIBLE.sub("", shown)
    plain = _plain(visible)
    if _occurs(wanted.translated(_AS_LETTERS), plain.translate(_AS_LETTERS)):
        return True
    letters = _letters(plain)
    for places in range(1, len(_ALPHABET)):
        is_there = wanted.name.translate(_turned(places)) in letters  # in few texts by chance
        if is_there and _occurs(wanted, _plain(visible.translate(_turned(-places)))):
            return True
    return False


def _turned(places: int) -> dict[int, int]:
    """Return the alphabet, in both cases, moved on by some places."""
    turned = _ALPHABET[places:] + _ALPHABET[:places]
    return str.maketrans(_ALPHABET + _ALPHABET.upper(), turned + turned.upper())


def copied_arguments(
    arguments: JsonObject, trusted: Iterable[str], sources: Mapping[str, str]
) -> tuple[str, ...]:
    """Return which arguments were copied from a source, one sentence each.

    An argument is copied when it occurs in the source and not in a trusted text: as a whole, or a line or a
    word such as an address of it. What has fewer than 6 letters and digits occurs by chance.
    """
    own = _letters(_plain("\n".join(trusted)))
    known = {name: _letters(_plain(_INVISIBLE.sub("", text))) for name, text in sources.items()}
    found: dict[str, str] = {}
    for key, value in islice(_leaves(arguments), _MOST_VALUES):
        parts = [part for part in map(_letters, map(_plain, _parts(value))) if part not in own]
        origin = next((name for name, text in known.items() if any(part in text for part in parts)), None)
        if origin is not None and key not in found:
            found[key] = f"The argument {key!r} was copied from {origin}."
    return tuple(found.values())


def _parts(value: str) -> Iterator[str]:
    """Return a value, its lines and its addresses, as far as they are recognised."""
    if len(_letters(value)) >= _LEAST_COPIED:
        yield value
    for line in islice(value.splitlines(), _MOST_VALUES):
        if len(_letters(line)) >= _LEAST_LINE:
            yield line
    for word in islice(value.split(), _MOST_VALUES):
        bare = word.strip("\"'`.,;:!?()[]{}<>|&$=")
        if len(_letters(bare)) >= _LEAST_WORD and not bare.isalpha():
            yield bare


@frozen
class _Wanted:
    name: str
    values: tuple[str, ...]
    keys: tuple[str, ...]
    alone: bool

    def translated(self, table: Mapping[int, int]) -> _Wanted:
        """Return the same with other letters."""
        return _Wanted(
            self.name.translate(table),
            tuple(value.translate(table) for value in self.values),
            tuple(key.translate(table) for key in self.keys),
            self.alone,
        )

    @property
    def reach(self) -> int:
        """How far from the name a value may stand, in letters and digits."""
        return _NEARBY + 2 * sum(map(len, (*self.values, *self.keys)))


def _wanted(call: ToolCall) -> _Wanted:
    leaves = list(islice(_leaves(call.arguments), _MOST_VALUES))
    values = (_letters(_plain(value))[:_LONGEST_VALUE] for _, value in leaves)
    keys = (_letters(_plain(key)) for key, _ in leaves)
    name = _letters(_plain(call.name))
    return _Wanted(name, tuple(filter(None, values)), tuple(filter(None, keys)), alone=not call.arguments)


def _leaves(value: Json, key: str = "") -> Iterator[tuple[str, str]]:
    """Return the scalar values, each as text with its key."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _leaves(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, key)
    elif value is not None:
        yield key, value if isinstance(value, str) else str(value).lower()


def _readings(text: str) -> Iterator[str]:
    """Return the text as it reads, plainly and by each of the codes."""
    if _TAGS.search(text):
        yield _plain("".join(_TAGS.findall(text)))  # they look like nothing, and read as letters
    text = _INVISIBLE.sub("", text)
    yield _plain(text)
    if "<" in text:
        yield _plain(_MARKUP.sub("", text))
    if "=" in text:
        yield _plain(_QUOTED_PRINTABLE.sub("%", _SOFT_BREAK.sub("", text)))
    unnumbered = _LINE_NUMBER.sub("", text)
    if unnumbered != text:
        yield _plain(unnumbered)
    joined = _JOINTS.sub("", unnumbered)
    if joined != unnumbered:
        yield _plain(joined)
    yield _plain(text[::-1])
    decoded = text
    for _ in range(_ROUNDS):
        decoded = "\n".join(_decoded(decoded))
        if not decoded:
            return
        yield _plain(decoded)


def _plain(text: str) -> str:
    """Return the text without escapes, and without differences of case and width."""
    text = _of_one_width(text)
    for _ in range(_ROUNDS):
        before = text
        if "\\" in text:
            text = _ESCAPE.sub(_unescaped, text)
            if _SURROGATE.search(text):  # pairs of escapes for one character
                text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if "%" in text:
            text = unquote(text)
        if "&" in text:
            text = html.unescape(text)
        if text == before:
            break
    return _of_one_width(text).casefold()


def _of_one_width(text: str) -> str:
    return text if text.isascii() else fold(text).text


def _unescaped(escape: re.Match[str]) -> str:
    code = escape["u"] or escape["x"]
    return chr(int(code, 16)) if code else " "


def _decoded(text: str) -> Iterator[str]:
    """Return the texts that are encoded in a text by base64 or hexadecimal digits."""
    for found in _HEX.finditer(text):
        yield from _as_text(_HEX_SIGNS.sub("", found[0]), binascii.unhexlify)
    for found in _NUMBERS.finditer(text):
        yield from _from_numbers(_NUMBER.findall(found[0]))
    for found in _BASE32.finditer(text):
        yield from _as_text(found[0].rstrip("="), _from_base32)
    for found in _BASE64.finditer(text):
        lines = found[0].split()
        yield from _as_text("".join(lines), _from_base64)
        if len(lines) > 1:
            for line in lines:
                yield from _as_text(line, _from_base64)


def _from_base64(code: str) -> bytes:
    digits = code.rstrip("=").translate(str.maketrans("-_", "+/"))
    return base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)


def _from_base32(code: str) -> bytes:
    return base64.b32decode(code + "=" * (-len(code) % 8))


def _from_numbers(numbers: Sequence[str]) -> Iterator[str]:
    """Return the texts that the numbers are the codes of: binary, octal, decimal."""
    for base in (2, 8, 10):
        with suppress(ValueError):
            codes = [int(number, base) for number in numbers]
            yield bytes(codes).decode("utf-8", "ignore")


def _as_text(code: str, decode: Callable[[str], bytes]) -> Iterator[str]:
    with suppress(ValueError):  # odd digits, and bytes that are no text
        yield decode(code).decode("utf-8")


def _letters(text: str) -> str:
    return _SIGNS.sub("", text)


def _occurs(wanted: _Wanted, text: str) -> bool:
    letters = _letters(text)
    if wanted.name not in letters or not all(value in letters for value in wanted.values):
        return False
    places = [[found.start() for found in re.finditer(re.escape(value), letters)] for value in wanted.values]
    gaps = _gaps(text)
    for found in re.finditer(re.escape(wanted.name), letters):
        start, end = found.span()
        near = all(_has_between(each, start - wanted.reach, end + wanted.reach) for each in places)
        if near and _is_called(letters, gaps, start, end, alone=wanted.alone):
            return True
    return False


def _gaps(text: str) -> Mapping[int, str]:
    """Return the signs before each word, by the place of the word among the letters."""
    gaps: dict[int, str] = {}
    place = end = 0
    for word in _WORD.finditer(text):
        gaps[place] = text[end : word.start()]
        place += word.end() - word.start()
        end = word.end()
    gaps[place] = text[end:]
    return gaps


def _is_called(letters: str, gaps: Mapping[int, str], start: int, end: int, *, alone: bool) -> bool:
    """Return whether the name at this place stands as it does in a call."""
    before, after = gaps.get(start, ""), gaps.get(end, "")
    if (_OPENS_EMPTY if alone else _OPENS).match(after):
        return True
    if _POINTS.search(before) and _BEFORE.search(letters[max(0, start - _LONGEST_BEFORE) : start]):
        return True
    return bool(after.strip()) and _AFTER.match(letters, end) is not None


def _has_between(ordered: Sequence[int], low: int, high: int) -> bool:
    at = bisect_left(ordered, low)
    return at < len(ordered) and ordered[at] <= high
