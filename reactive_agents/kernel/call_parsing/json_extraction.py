"""JSON inside of text: where it ends, what it says, and its repair where it is broken."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import cast

from attrs import define, frozen

from reactive_agents.core.json import Json

REPAIRABLE_CHARS = 64 * 1024
"""How much broken JSON of one text is looked at: repairing is far slower than reading."""

_MAX_DEPTH = 100
_MAX_BROKEN_DEPTH = 32  # the time of json_repair grows with the square of the depth
_STRICT = json.JSONDecoder()
_LENIENT = json.JSONDecoder(strict=False)  # takes line breaks inside of strings
_OUTSIDE = re.compile(r"//[^\n]*|[\"'(){}\[\]]")
_REST_OF_STRING = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.S),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+'", re.S),
}
_COMPLETE_END = re.compile(r"(?:[}\])\"']|\b(?:true|false|null|True|False|None))[\s,;]*$")
_COMMENT = re.compile(r"(?:(?<=[\s,{}\[\]])|^)(?://|#)[^\n]*|/\*.*?\*/", re.S)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.S)
_WORD = re.compile(r"\w+")
_MANY_WORDS = 20
_SIGN = re.compile(r"[^\w\s]")
_WORK = 2**24
_MOST_FAILURES = 500


@frozen
class Decoded:
    """A JSON value found in a text. ``end``: the position behind it."""

    value: Json
    end: int
    repaired: bool = False


@frozen
class BracketSpan:
    """How far a bracket reaches.

    Attributes:
        end: the position behind the bracket that closes the first one; ``None`` when it stays open.
        stopped: where the lexing stopped.
        sound: false when the text ends inside a string, or nests deeper than can be repaired.
    """

    end: int | None
    stopped: int
    sound: bool = True


def decode(text: str, start: int = 0) -> Decoded | None:
    """The JSON value that begins exactly at ``start``; line breaks inside of strings are forgiven."""
    for decoder in (_STRICT, _LENIENT):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return Decoded(value, end, decoder is _LENIENT) if _is_plain(value) else None
    return None


def bracket_span(text: str, start: int, stop: int) -> BracketSpan:
    """How far the bracket at ``start`` reaches within ``text[:stop]``, quoted brackets not counted."""
    depth, position = 0, start
    while True:
        token = _OUTSIDE.search(text, position, stop)
        if token is None:
            return BracketSpan(None, stop)
        position = token.end()
        sign = token[0]
        if sign in _REST_OF_STRING:
            rest = _REST_OF_STRING[sign].match(text, position, stop)
            if rest is None:
                return BracketSpan(None, stop, sound=False)
            position = rest.end()
        elif sign in "({[":
            depth += 1
            if depth > _MAX_BROKEN_DEPTH:
                return BracketSpan(None, position, sound=False)
        elif sign in ")}]":
            depth -= 1
            if depth <= 0:
                return BracketSpan(position, position)


@define
class JsonReader:
    """Reads the JSON of one text, and repairs it as long as there is something left to spend on it.

    Attributes:
        left: characters of broken JSON that are still looked at.
        work: characters times punctuation marks that are still repaired; all of it is half a second.
        failures: pieces of broken JSON that are still looked at: each costs the decoder a pass over all text
            before it, to say in which line it is.
    """

    left: int = REPAIRABLE_CHARS
    work: int = _WORK
    failures: int = _MOST_FAILURES

    def read(self, text: str, start: int, edge: re.Pattern[str] | None = None) -> Decoded | None:
        """The object or array that begins at ``start``; a broken one ends before the next ``edge``."""
        if text[start : start + 1] not in ("{", "["):
            return None
        if self.failures <= 0:
            return None
        found = decode(text, start)
        if found is not None:
            return found
        self.failures -= 1
        return self._repaired(text, start, edge)

    def read_object(self, text: str) -> Decoded | None:
        """The object that the whole text is, also when it is quoted once more; empty text is ``{}``."""
        stripped = text.strip()
        if stripped in ("", "null", "None", "{}"):
            return Decoded({}, len(text))
        if stripped[0] == '"':
            inner = decode(stripped)
            if inner is None or inner.end != len(stripped) or not isinstance(inner.value, str):
                return None
            stripped = inner.value.strip()
        found = self.read(stripped, 0)
        if found is None or not isinstance(found.value, dict):
            return None
        return found if not stripped[found.end :].strip() else None

    def reach(self, text: str, start: int) -> int | None:
        """Behind the bracket that closes the one at ``start``, as far as there is something left to spend."""
        found = bracket_span(text, start, min(len(text), start + self.left))
        self.left -= found.stopped - start
        return found.end

    def _repaired(self, text: str, start: int, edge: re.Pattern[str] | None) -> Decoded | None:
        """Broken JSON, repaired. One that was cut off inside a value is not: what is missing is unknown."""
        stop = min(len(text), start + self.left)
        if edge is not None and (found := edge.search(text, start, stop)) is not None:
            stop = found.start()
        reach = bracket_span(text, start, stop)
        self.left -= reach.stopped - start
        if not reach.sound:
            return None
        end = stop if reach.end is None else reach.end
        broken = text[start:end].rstrip()
        if not _COMPLETE_END.search(broken, max(0, len(broken) - 64)):
            return None
        self.work -= len(broken) * len(_SIGN.findall(broken))  # it may look through all for every sign
        if self.work < 0:
            return None
        value = _repair(broken)
        return None if value is None else Decoded(value, end, repaired=True)


def json_text(value: Json) -> str:
    """The value as JSON in which no markup occurs: ``<`` is written as an escape."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _repair(broken: str) -> dict[str, Json] | list[Json] | None:
    """What broken JSON says, or ``None``; a repair that would lose a word of it is no repair."""
    from json_repair import loads

    try:
        value = cast(Json, loads(broken, skip_json_loads=True))
    except (ValueError, RecursionError, IndexError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(value, dict | list) or not value or not _is_plain(value):
        return None
    return value if _keeps_words(broken, value) else None


def _is_plain(value: object) -> bool:
    """Whether the value nests no deeper than 100 and has no infinities, which JSON lacks."""
    level: list[object] = [value]
    for _ in range(_MAX_DEPTH):
        following: list[object] = []
        for item in level:
            if isinstance(item, dict):
                following.extend(item.values())
            elif isinstance(item, list):
                following.extend(item)
            elif isinstance(item, float) and not isfinite(item):
                return False
        if not following:
            return True
        level = following
    return False


def _keeps_words(broken: str, value: Json) -> bool:
    said = set(_WORD.findall(_ESCAPE.sub(" ", _COMMENT.sub(" ", broken)).casefold()))
    kept = "\n".join(_texts(value)).casefold()
    missing = said.difference(_WORD.findall(kept))
    return len(missing) <= _MANY_WORDS and all(word in kept for word in missing)


def _texts(value: object) -> list[str]:
    found: list[str] = []
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            found.extend(map(str, item))
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
        else:
            found.append("null none undefined" if item is None else str(item))
    return found
