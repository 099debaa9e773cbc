"""Detection of calls and arguments that were copied from texts shown to the model.

Only letters and digits are compared, by their look: indentation, quoting, escapes, case, accents, similar
letters of other scripts, markup and the form of the call make no difference. A call occurs in a text if its
tool's name is there as in a call, with the values of its arguments nearby, in any order, or after it where it
is broken off. Texts are also compared decoded, backwards, turned by 13 letters, and with digits for letters.
A value alone, or a name in a sentence, is no call. All work is linear in the length of the texts.
"""

from __future__ import annotations

import html
import re
import string
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from urllib.parse import unquote

from attrs import evolve, frozen

from reactive_agents.core.disguised_texts import encoded_texts, unseen_texts, unwrapped
from reactive_agents.core.figures import has_between
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.texts import folded
from reactive_agents.kernel.context import Provenance

_SIGNS = re.compile(r"[\W_]+")
_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(
    r"(?<!\\)\\++(?:[uU](?:(?P<u>[0-9a-fA-F]{4})|\{(?P<point>[0-9a-fA-F]{1,6})\})|[xX](?P<x>[0-9a-fA-F]{2})"
    r"|(?P<octal>[0-3][0-7]{2})|(?P<css>[0-9a-fA-F]{2,6}) |[nrtbfNRTBF])"
)
_TAGS = re.compile("[\U000e0000-\U000e007f]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_MARKUP = re.compile(r"<[^<>]{0,200}>")
_SOFT_BREAK = re.compile(r"=[ \t]*\r?\n")
_QUOTED_PRINTABLE = re.compile(r"=(?=[0-9A-Fa-f]{2})")
_AS_LETTERS = str.maketrans("0134578", "oieastb")
_TURNED = str.maketrans(
    string.ascii_letters,
    "".join(each[13:] + each[:13] for each in (string.ascii_lowercase, string.ascii_uppercase)),
)
"""The table of rot13."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_JOINTS = re.compile(r"[\"'`]\s*+(?:[+,.]\s*+)?[\"'`]|(?<!\s)\s*\n[ \t>|*#]*")
_LINE_NUMBER = re.compile(r"^[ \t>]*\d{1,7}[ \t]*[:|.)\t→-][ \t]?", re.M)
_ROUNDS = 4
_MOST_VALUES = 50
_LONGEST_VALUE = 200
_LEAST_COPIED, _LEAST_WORD, _LEAST_LINE = 6, 8, 24
"""Fewest letters and digits of a value, a word and a line of one that are recognised."""
_MOST_DECODED = 100_000
"""Characters of a source that are searched for codes, since decoding takes time."""
_NEARBY = 300
"""Letters and digits that the form of a call may add around its name and values."""
_LEAST_SPECIFIED, _LEAST_LETTERS = 2, 16
"""Fewest values, and letters of values, that specify a call in a sentence."""
_BEFORE = re.compile(
    r"(?:name|tool|function|functions|action|invoke|toolcall|toolcalls|functioncall|toolcallbegin|toolsep|"
    r"call|to|python_?tag)\Z"
)
_AFTER = re.compile(r"(?:call)?(?:arg|param|input|actioninput|toolinput|toolarg|toolsep|toolcallarg)")
_LONGEST_BEFORE = 16
_OPENS = re.compile(r"[\s\"'`*\\\]]{0,8}[({\[<>]|\s+(?::|--?)\Z")
_OPENS_EMPTY = re.compile(r"[\s\"'`*\\]{0,8}\(\s*+\{?\s*+\}?\s*+\)")
_POINTS = re.compile(r"[^\s\w,.;!?]|\A\.\Z")


def is_shown(call: ToolCall, texts: Iterable[str], outside: Iterable[str] = ()) -> bool:
    """Return whether the call occurs, as a call, in a text or across several.

    Args:
        outside: the texts that are not from the user. In these, the tool's name and at least two values near
            each other are enough, even in a sentence.
    """
    wanted, shown = _wanted(call), "\n".join(texts)
    if not wanted.name:
        return False
    shown = unwrapped(shown, [*unseen_texts(shown)])
    if any(_occurs(wanted, text) for layer in _layers(shown) for text in _readings(layer)):
        return True
    plain = _plain(_INVISIBLE.sub("", shown))
    if _occurs(wanted.translated(_AS_LETTERS), plain.translate(_AS_LETTERS)):
        return True
    return any(_is_specified(wanted, _plain(_INVISIBLE.sub("", text))) for text in outside)


def copied_arguments(arguments: JsonObject, shown: Iterable[Provenance]) -> tuple[str, ...]:
    """Return which arguments were copied from a source, a sentence each.

    An argument is copied if it, or a line or word of it such as an address, occurs in a source, also in a
    code, and not in a trusted text of the run. Fewer than 6 letters and digits do not count.

    Args:
        shown: the texts shown to this run and its callers.
    """
    runs = [
        (_letters(_plain("\n".join(each.trusted))), {key: _known(text) for key, text in each.sources.items()})
        for each in shown
    ]
    found: dict[str, str] = {}
    for key, value in islice(_leaves(arguments), _MOST_VALUES):
        parts = [_letters(_plain(part)) for part in _parts(value)]
        for own, known in runs if key not in found else ():
            copied = [part for part in parts if part not in own]
            origin = next((name for name, text in known.items() if any(part in text for part in copied)), "")
            if origin:
                found[key] = f"The argument {key!r} was copied from {origin}."
                break
    return tuple(found.values())


@lru_cache(maxsize=64)  # the sources are the same for all calls of a run
def _known(text: str) -> str:
    """Return the letters of a text, and those of encoded texts in it."""
    plain = _INVISIBLE.sub("", text)
    decoded = (each.text for each in encoded_texts(plain[:_MOST_DECODED]))
    return _letters(_plain("\n".join((plain, *decoded))))


def _parts(value: str) -> Iterator[str]:
    """Return a value, its lines and its addresses, if long enough to be recognised."""
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
    """A call to search for.

    Attributes:
        name: the letters of its tool.
        values: the letters of each value.
        keys: the letters of the names of the arguments.
        alone: whether it has no arguments.
    """

    name: str
    values: tuple[str, ...]
    keys: tuple[str, ...]
    alone: bool

    def translated(self, table: Mapping[int, int]) -> _Wanted:
        """Return the call with substituted letters."""
        return evolve(
            self,
            name=self.name.translate(table),
            values=tuple(value.translate(table) for value in self.values),
            keys=tuple(key.translate(table) for key in self.keys),
        )

    @property
    def reach(self) -> int:
        """The maximum distance of a value from the name, in letters and digits."""
        return _NEARBY + 2 * sum(map(len, (*self.values, *self.keys)))


def _wanted(call: ToolCall) -> _Wanted:
    leaves = list(islice(_leaves(call.arguments), _MOST_VALUES))
    values = (_letters(_plain(value)[: 2 * _LONGEST_VALUE])[:_LONGEST_VALUE] for _, value in leaves)
    keys = (_letters(_plain(key)) for key, _ in leaves)
    return _Wanted(
        _letters(_plain(call.name)),
        tuple(filter(None, values)),
        tuple(filter(None, dict.fromkeys(keys))),
        alone=not call.arguments,
    )


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


def _layers(text: str) -> Iterator[str]:
    """Yield the text, and with its codes decoded, also where it is joined or turned."""
    yield text
    text = _INVISIBLE.sub("", text)
    for each in dict.fromkeys((text, _joined(text), text.translate(_TURNED))):
        decoded: list[str] = []
        whole = _decoded(each, decoded, _ROUNDS)
        if decoded:
            yield whole
            yield "\n".join(decoded)


def _decoded(text: str, decoded: list[str], rounds: int) -> str:
    """Return the text with codes, also nested ones, decoded in place, and the content."""
    found = list(encoded_texts(text)) if rounds else []
    if not found:
        return text
    decoded += (each.text for each in found)
    return unwrapped(text, [evolve(one, text=_decoded(one.text, decoded, rounds - 1)) for one in found])


def _joined(text: str) -> str:
    return _JOINTS.sub("", _LINE_NUMBER.sub("", text))


def _readings(text: str) -> Iterator[str]:
    """Yield the readings of the text: plain, without layout, turned, and backwards."""
    if _TAGS.search(text):
        yield _plain("".join(_TAGS.findall(text)))  # invisible characters that decode to letters
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
    yield _plain(text.translate(_TURNED))


def _plain(text: str) -> str:
    """Return the text without escapes, folded in case and width."""
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
    return text if text.isascii() else folded(text)


def _unescaped(escape: re.Match[str]) -> str:
    code = escape["u"] or escape["point"] or escape["x"] or escape["css"]
    number = int(code, 16) if code else int(escape["octal"] or "40", 8)
    return chr(number) if number <= sys.maxunicode else " "


def _letters(text: str) -> str:
    return _SIGNS.sub("", text)


def _occurs(wanted: _Wanted, text: str) -> bool:
    """Return whether a text has the name as in a call, with the values nearby.

    If a call is broken off, its values may be anywhere after it.
    """
    letters = _letters(text)
    if wanted.name not in letters:
        return False
    places = [_places(value, letters) for value in wanted.values]
    keys = [_places(key, letters) for key in wanted.keys]
    gaps = _gaps(text)
    for start in _places(wanted.name, letters):
        end = start + len(wanted.name)
        low, high = start - wanted.reach, end + wanted.reach
        if not _is_called(letters, gaps, start, end, alone=wanted.alone):
            continue
        if all(has_between(each, low, high) for each in places):
            return True
        is_whole = all(has_between(each, low, high) for each in keys)
        if not is_whole and all(each and each[-1] >= low for each in places):
            return True
    return False


def _is_specified(wanted: _Wanted, plain: str) -> bool:
    """Return whether a text has the name, as a word, with all values near it."""
    if len(wanted.values) < _LEAST_SPECIFIED or sum(map(len, wanted.values)) < _LEAST_LETTERS:
        return False
    letters = _letters(plain)
    if not all(value in letters for value in wanted.values):
        return False
    places = [_places(value, letters) for value in wanted.values]
    gaps = _gaps(plain)
    for start in _places(wanted.name, letters):
        end = start + len(wanted.name)
        if start in gaps and end in gaps:
            near = (has_between(each, start - wanted.reach, end + wanted.reach) for each in places)
            if all(near):
                return True
    return False


def _places(part: str, letters: str) -> list[int]:
    return [found.start() for found in re.finditer(re.escape(part), letters)]


def _gaps(text: str) -> Mapping[int, str]:
    """Return the characters before each word, by the position of the word."""
    gaps: dict[int, str] = {}
    place = end = 0
    for word in _WORD.finditer(text):
        gaps[place] = text[end : word.start()]
        place += word.end() - word.start()
        end = word.end()
    gaps[place] = text[end:]
    return gaps


def _is_called(letters: str, gaps: Mapping[int, str], start: int, end: int, *, alone: bool) -> bool:
    """Return whether the name at this place is used as in a call."""
    before, after = gaps.get(start, ""), gaps.get(end, "")
    if (_OPENS_EMPTY if alone else _OPENS).match(after):
        return True
    if _POINTS.search(before) and _BEFORE.search(letters[max(0, start - _LONGEST_BEFORE) : start]):
        return True
    return bool(after.strip()) and _AFTER.match(letters, end) is not None
