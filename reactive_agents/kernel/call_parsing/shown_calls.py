"""Detection of calls and arguments that were copied from texts shown to the model.

Only letters and digits are compared, by their look: indentation, quoting, escapes, case, accents, similar
letters of other scripts, markup and the form of the call make no difference. A call occurs in a text if its
tool's name is there as in a call, with the values of its arguments nearby, in any order, or in pieces after
it. Texts are also compared decoded, with substituted letters, backwards, and by a part of their letters;
words with scrambled letters are recognised too. If a text contains an undecodable code, a call whose
arguments occur in no text counts as copied from the code. A value alone, or a name in a sentence, is no call.
All work is linear in the length of the texts.
"""

from __future__ import annotations

import html
import re
import string
import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from urllib.parse import unquote

from attrs import evolve, field, frozen

from reactive_agents.core.encodings import encoded_texts, unseen_texts, unwrapped
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
_PLACE_IN_ALPHABET = re.compile(r"(?<!\d)(?:1\d|2[0-6]|[1-9])(?!\d)")
_TAGS = re.compile("[\U000e0000-\U000e007f]")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
_MARKUP = re.compile(r"<[^<>]{0,200}>")
_MARK_LINE = re.compile(r"^(?:</?[a-z]+(?:-[a-z]+)*>|>[a-z]+(?:-[a-z]+)*/?<)$", re.M)
_SOFT_BREAK = re.compile(r"=[ \t]*\r?\n")
_QUOTED_PRINTABLE = re.compile(r"=(?=[0-9A-Fa-f]{2})")
_AS_LETTERS = str.maketrans("0134578", "oieastb")
_ALPHABET = string.ascii_lowercase
_VISIBLE = "".join(map(chr, range(33, 127)))
_UPSIDE_DOWN = str.maketrans("ɐɔǝɟƃɥıɾʞɯɹʇʌʍʎqpunbd", "acefghijkmrtvwybdnuqp")
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
_LEAST_JOINED, _MOST_JOINED = 8, 3
"""Fewest letters and digits of a piece of a value, and the maximum of pieces."""
_NEARBY = 300
"""Letters and digits that the form of a call may add around its name and values."""
_LEAST_PIECE, _MOST_PIECES = 4, 6
"""Letters of the pieces by which a value is recognised, and the maximum of pieces."""
_LEAST_HIDDEN, _MOST_SKIPPED = 12, 4
"""Fewest letters of a hidden call that are no coincidence, and most letters to skip between its letters."""
_LEAST_WORDS, _WORDS_AROUND = 4, 40
_LEAST_SPECIFIED, _LEAST_LETTERS = 2, 16
"""Fewest values, and letters of values, that specify a call in a sentence; also of a piece of plain words."""
_NO_DIGITS = dict.fromkeys(map(ord, string.digits))
_UNREAD = re.compile(r"[!-~]{24,}")
_ODD_SIGNS = frozenset("!\"$'()*,;<>@[\\]^`{|}~")
_LEAST_ODD, _LEAST_MIXED = 3, 0.5
_KNOWN_WORD = 4
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
    layers = list(_layers(shown))
    if any(
        _occurs(wanted, text) for each in (shown, *(one.whole for one in layers)) for text in _readings(each)
    ):
        return True
    if any(_stands_in(wanted, _letters(_plain(one.decoded))) for one in layers):
        return True
    visible = _INVISIBLE.sub("", shown)
    plain = _plain(visible)
    if _occurs(wanted.translated(_AS_LETTERS), plain.translate(_AS_LETTERS)):
        return True
    if any(_is_specified(wanted, _plain(_INVISIBLE.sub("", text))) for text in outside):
        return True
    letters = _letters(plain)
    with_decoded = "\n".join((visible, *(one.decoded for one in layers)))
    known = _letters(_plain(with_decoded))
    for table in _SUBSTITUTIONS:
        inverted = {to: sign for sign, to in table.items()}
        is_there = wanted.name.translate(inverted) in known  # in few texts by chance
        if is_there and _occurs(wanted, _plain(with_decoded.translate(table))):
            return True
    return (
        _occurs_by_words(wanted, plain, letters)
        or _occurs_by_letters(wanted, plain, letters)
        or _may_be_in_code(wanted, layers[-1].whole if layers else visible, letters)
    )


def _turned(alphabet: str, places: int) -> dict[int, int]:
    """Return the table that shifts each letter of an alphabet by some places."""
    return str.maketrans(alphabet, alphabet[places:] + alphabet[:places])


def _in_both_cases(letters: str) -> dict[int, int]:
    return str.maketrans(_ALPHABET + _ALPHABET.upper(), letters + letters.upper())


_SUBSTITUTIONS = (
    *(_in_both_cases(_ALPHABET[places:] + _ALPHABET[:places]) for places in range(1, len(_ALPHABET))),
    _in_both_cases(_ALPHABET[::-1]),
)
"""Letter substitutions: shifted alphabets (Caesar ciphers), and the reversed one (Atbash)."""


def copied_arguments(arguments: JsonObject, shown: Iterable[Provenance]) -> tuple[str, ...]:
    """Return which arguments were copied from a source, a sentence each.

    An argument is copied if it, or a line or word of it such as an address, occurs in a source, also in a
    code or in pieces of several sources, and not in a trusted text of the run. Fewer than 6 letters and
    digits do not count, nor do short pieces of plain words.

    Args:
        shown: the texts shown to this run and its callers.
    """
    runs = [
        (_letters(_plain("\n".join(each.trusted))), {key: _known(text) for key, text in each.sources.items()})
        for each in shown
    ]
    found: dict[str, str] = {}
    for key, value in islice(_leaves(arguments), _MOST_VALUES):
        parts = {_letters(_plain(part)): _is_of_plain_words(part) for part in _parts(value)}
        for own, known in runs if key not in found else ():
            origin = _origin({part: plain for part, plain in parts.items() if part not in own}, known)
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


def _origin(parts: Mapping[str, bool], known: Mapping[str, str]) -> str:
    """Return the source of one of the parts; empty for none.

    Args:
        parts: whether each of them is of plain words.
    """
    for name, text in known.items():
        if any(part in text for part in parts):
            return name
    for part, plain in parts.items():
        names = _sources_of_pieces(part, known, plain=plain)
        if names:
            return " and ".join(names)
    return ""


def _sources_of_pieces(part: str, known: Mapping[str, str], *, plain: bool) -> list[str]:
    """Return the sources of the pieces of a part, if it was assembled from them.

    A piece of plain words, such as "customer asked", has to be longer, since every text has such words.
    """
    names: list[str] = []
    while part and len(names) < _MOST_JOINED:
        size, name = max(
            ((_longest_start(part, text), name) for name, text in known.items()), default=(0, "")
        )
        if size < (_LEAST_LETTERS if plain else min(_LEAST_JOINED, len(part))):
            return []
        names, part = [*names, name], part[size:]
    return [] if part else list(dict.fromkeys(names))


def _longest_start(part: str, text: str) -> int:
    return bisect_left(range(len(part)), True, key=lambda size: part[: size + 1] not in text)


def _is_of_plain_words(value: str) -> bool:
    """Return whether a value has two or more words of small letters, and no name."""
    first, *others = [word.strip(".,;:!?'\"()") for word in value.split()] or [""]
    return (
        bool(others)
        and all(word.isalpha() for word in (first, *others) if word)
        and "".join(others).islower()
    )


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
        spoken: the values with the characters between their words.
        words: the words of the name, the keys and the values.
        alone: whether it has no arguments.
    """

    name: str
    values: tuple[str, ...]
    keys: tuple[str, ...]
    spoken: tuple[str, ...]
    words: tuple[str, ...]
    alone: bool

    def translated(self, table: Mapping[int, int | None]) -> _Wanted:
        """Return the call with substituted letters."""
        return evolve(
            self,
            name=self.name.translate(table),
            values=tuple(filter(None, (value.translate(table) for value in self.values))),
            keys=tuple(filter(None, (key.translate(table) for key in self.keys))),
        )

    @property
    def reach(self) -> int:
        """The maximum distance of a value from the name, in letters and digits."""
        return _NEARBY + 2 * sum(map(len, (*self.values, *self.keys)))


def _wanted(call: ToolCall) -> _Wanted:
    leaves = list(islice(_leaves(call.arguments), _MOST_VALUES))
    spoken = tuple(_plain(value)[: 2 * _LONGEST_VALUE] for _, value in leaves)
    keys = tuple(dict.fromkeys(_plain(key) for key, _ in leaves))
    name = _plain(call.name)
    words = tuple(word for text in (name, *keys, *spoken) for word in _WORD.findall(text))
    values = (_letters(value)[:_LONGEST_VALUE] for value in spoken)
    return _Wanted(
        _letters(name),
        tuple(filter(None, values)),
        tuple(filter(None, map(_letters, keys))),
        spoken,
        words,
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


@frozen
class _Layer:
    """A text with decoded codes: the content of the codes, and the whole."""

    decoded: str
    whole: str


def _layers(text: str) -> Iterator[_Layer]:
    text = _INVISIBLE.sub("", text)
    for each in dict.fromkeys((_joined(text), text, text[::-1], text.translate(_SUBSTITUTIONS[12]))):
        decoded: list[str] = []
        whole = _decoded(each, decoded, _ROUNDS)
        if decoded:
            yield _Layer("\n".join(decoded), whole)


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
    """Return the readings of the text: plain, without layout, and backwards."""
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
    unmarked = _MARK_LINE.sub(".", text)  # backwards, the text before a mark would open a call
    yield _plain(_WORD.sub(lambda word: word[0][::-1], unmarked))
    yield _plain(" ".join(unmarked.split()[::-1]))
    yield _plain("".join(text.splitlines()[::-1]))
    yield _plain(_PLACE_IN_ALPHABET.sub(lambda place: _ALPHABET[int(place[0]) - 1], text))
    yield _plain(text.translate(_turned(_VISIBLE, len(_VISIBLE) // 2)))
    if not text.isascii():
        yield _plain(text.translate(_UPSIDE_DOWN)[::-1])


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

    If a call is broken off, its values may be anywhere after it, whole or in pieces.
    """
    letters = _letters(text)
    if wanted.name not in letters:
        return False
    places = [_places(value, letters) for value in wanted.values]
    keys = [_places(key, letters) for key in wanted.keys]
    gaps, known = _gaps(text), _Letters(letters)
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
        if all(known.stands_in_pieces(value, max(0, low), high) for value in wanted.values):
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


@frozen
class _Letters:
    """The letters of a text, and the last positions of parts of values."""

    text: str
    last: dict[str, int] = field(factory=dict)

    def stands_in_pieces(self, value: str, low: int, high: int) -> bool:
        """Return whether a value begins between two places and continues in pieces."""
        size = self._longest(value, lambda part: self.text.find(part, low, high) >= 0)
        for _ in range(_MOST_PIECES):
            if size == len(value):
                return True
            if size < min(_LEAST_PIECE, len(value)):
                return False
            value = value[size:]
            size = self._longest(value, lambda part: self._last(part) >= low)
        return size == len(value)

    def _longest(self, value: str, is_there: Callable[[str], bool]) -> int:
        """Return the length of the longest beginning of a value that occurs."""
        return bisect_left(range(len(value)), True, key=lambda size: not is_there(value[: size + 1]))

    def _last(self, part: str) -> int:
        place = self.last.get(part)
        if place is None:
            place = self.last[part] = self.text.rfind(part)
        return place


def _occurs_by_words(wanted: _Wanted, plain: str, letters: str) -> bool:
    """Return whether the words of a call, with scrambled letters, are near each other."""
    words = Counter("".join(sorted(word)) for word in wanted.words if len(word) > 1)
    if len(words) < _LEAST_WORDS or all(value in letters for value in wanted.values):
        return False
    missing, window = sum(words.values()), dict[str, list[int]]()
    for place, found in enumerate(_WORD.finditer(plain)):
        word = "".join(sorted(found[0]))
        if word not in words:
            continue
        places = window.setdefault(word, [])
        places.append(place)
        if len(places) <= words[word]:
            missing -= 1
        else:
            places.pop(0)
        if not missing and place - min(each[0] for each in window.values()) <= 3 * len(words) + _WORDS_AROUND:
            return True
    return False


def _occurs_by_letters(wanted: _Wanted, plain: str, letters: str) -> bool:
    """Return whether a subset of a text's letters spells the call."""
    words = _WORD.findall(plain)
    lines = [_letters(line) for line in plain.splitlines()]
    readings = ["".join(word[end] for word in some if word) for some in (words, lines) for end in (0, -1)]
    readings += [letters[start::gap] for gap in range(2, _MOST_SKIPPED + 1) for start in range(gap)]
    if any(_stands_in(wanted, reading) for reading in readings):
        return True
    without = letters.translate(_NO_DIGITS)
    return not _stands_in(wanted, letters) and _stands_in(wanted.translated(_NO_DIGITS), without)


def _stands_in(wanted: _Wanted, letters: str) -> bool:
    """Return whether the name and the values occur in unstructured text."""
    parts = (wanted.name, *wanted.values)
    return sum(map(len, parts)) >= _LEAST_HIDDEN and all(part in letters for part in parts)


def _may_be_in_code(wanted: _Wanted, text: str, letters: str) -> bool:
    """Return whether arguments can only come from an undecodable code."""
    if all(
        word in letters
        for value in wanted.spoken
        for word in _WORD.findall(value)
        if len(word) >= _KNOWN_WORD
    ):
        return False
    return any(_is_code(found[0]) for found in _UNREAD.finditer(text))


def _is_code(token: str) -> bool:
    """Return whether characters are a code, and no words, address or data."""
    if len(_ODD_SIGNS.intersection(token)) < _LEAST_ODD:
        return False
    words = _WORD.findall(token)
    mixed = sum(len(word) for word in words if not (word.isdigit() or word[1:].islower() or word.isupper()))
    return len(words) > 1 and mixed >= _LEAST_MIXED * sum(map(len, words))


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
