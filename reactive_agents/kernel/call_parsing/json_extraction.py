"""Extraction of JSON from text, and repair of broken JSON."""

from __future__ import annotations

import json
import re
from math import isfinite
from typing import cast

from attrs import define, frozen

from reactive_agents.core.json import Json
from reactive_agents.core.values import Value, lazy_pattern

REPAIRABLE_CHARS = 64 * 1024
"""The maximum of characters of broken JSON to repair in one text: repair is far slower than parsing."""

_MAX_DEPTH = 100
_MAX_BROKEN_DEPTH = 32  # the time of json_repair grows with the square of the depth
_STRICT = json.JSONDecoder()
_LENIENT = json.JSONDecoder(strict=False)  # accepts line breaks in strings
_OUTSIDE = lazy_pattern(r"//[^\n]*|[\"'(){}\[\]]")
_REST_OF_STRING = {
    '"': re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.S),
    "'": re.compile(r"[^'\\]*+(?:\\.[^'\\]*+)*+'", re.S),
}
_COMPLETE_END = lazy_pattern(r"(?:[}\])\"']|\b(?:true|false|null|True|False|None))[\s,;]*$")
_COMMENT = lazy_pattern(r"(?:(?<=[\s,{}\[\]])|^)(?://|#)[^\n]*|/\*.*?\*/", re.S)
_ESCAPE = lazy_pattern(r"\\(?:u[0-9a-fA-F]{4}|.)", re.S)
_MARKDOWN_ESCAPE = lazy_pattern(r"(?<!\\)\\(?=[_*])")
"""A backslash that is invalid in JSON: ``get\\_price``."""
_STRING_OR_SURPLUS = lazy_pattern(
    r'"""(?P<long>.*?)"""|`(?P<template>[^`]*)`|(?P<string>"(?:[^"\\]|\\.)*")'
    r"|//[^\n]*|#[^\n]*|/\*.*?\*/|,(?=\s*[}\]])",
    re.S,
)
_BARE_QUOTE = lazy_pattern(r'\\.|"', re.S)
_GUESSED = lazy_pattern(r'[{\[,:]\s*(?:"""|`|&quot;)|"\s*\+\s*"|["\']\s*:\s*#')
"""Quotes of other languages, joined texts, ``#`` without quotes: ``json_repair`` invents values for them."""
_FENCE = lazy_pattern(r"^```\w*\s*|\s*```$")
_BEGUN = lazy_pattern(r'\{\s*"|\[\s*["{]')
_WORD = lazy_pattern(r"\w+")
_MANY_WORDS = 20
_SIGN = lazy_pattern(r"[^\w\s]")
_WORK = 2**24
_MOST_FAILURES = 500


def breaks_off(text: str) -> bool:
    """Return whether a text is JSON that ends within a value, or before one.

    >>> breaks_off('{"answer": '), breaks_off('{"answer": "4'), breaks_off('{"answer": 4')
    (True, True, False)
    """
    body = _FENCE.sub("", text.strip()) if "{" in text or "[" in text else ""
    if not _BEGUN.match(body):
        return False
    try:
        _LENIENT.raw_decode(body)
    except json.JSONDecodeError as error:
        lacks_bracket = error.msg.startswith("Expecting ',' delimiter")
        return error.msg.startswith("Unterminated") or (error.pos >= len(body) and not lacks_bracket)
    except RecursionError:
        return False
    return False


@frozen(eq=False, repr=False)
class Decoded(Value):
    """A JSON value found in a text. ``end``: the position behind it."""

    value: Json
    end: int
    repaired: bool = False


@frozen(eq=False, repr=False)
class BracketSpan(Value):
    """The extent of a bracket.

    Attributes:
        end: the position after the matching bracket; ``None`` if it is never closed.
        stopped: where the lexing stopped.
        sound: false when the text ends inside a string, or nests deeper than can be repaired.
    """

    end: int | None
    stopped: int
    sound: bool = True


def decode(text: str, start: int = 0) -> Decoded | None:
    """Return the JSON value at ``start``; strings may contain line breaks."""
    for decoder in (_STRICT, _LENIENT):
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        return Decoded(value, end, decoder is _LENIENT) if _is_plain(value) else None
    return None


def bracket_span(text: str, start: int, stop: int) -> BracketSpan:
    """Return the end of the bracket at ``start`` in ``text[:stop]``, ignoring quotes."""
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
    """Reads JSON in one text, and repairs it within limits of work.

    Attributes:
        left: remaining characters of broken JSON.
        work: remaining work of repairs, characters times punctuation marks; all of it takes half a second.
        failures: remaining pieces of broken JSON, since for each the decoder scans all text before it.
    """

    left: int = REPAIRABLE_CHARS
    work: int = _WORK
    failures: int = _MOST_FAILURES

    def read(self, text: str, start: int, edge: re.Pattern[str] | None = None) -> Decoded | None:
        """Return the object or array at ``start``; a broken one ends at the next ``edge``."""
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
        """Return the object in a whole text, which may be quoted; empty text is ``{}``."""
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
        """Return the end of the bracket at ``start``, within the remaining work."""
        found = bracket_span(text, start, min(len(text), start + self.left))
        self.left -= found.stopped - start
        return found.end

    def _repaired(self, text: str, start: int, edge: re.Pattern[str] | None) -> Decoded | None:
        """Return repaired JSON, unless it was truncated within a value."""
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
        if reach.end is None and broken.endswith(","):  # something was to follow
            return None
        self.work -= len(broken) * len(_SIGN.findall(broken))  # it may scan all of it for every character
        if self.work < 0:
            return None
        value = _cleaned(broken) or _repair(_MARKDOWN_ESCAPE.sub("", broken))
        return None if value is None else Decoded(value, end, repaired=True)


def json_text(value: Json) -> str:
    """Return the value as JSON without markup: ``<`` is escaped."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _cleaned(broken: str) -> Json:
    """Return the value of JSON with comments, surplus commas and other quotes alone."""
    text = broken
    for _ in range(2):  # a comma may stand before a comment
        text = _STRING_OR_SURPLUS.sub(_cleaned_part, text)
    found = decode(text)
    return found.value if found is not None and found.end == len(text) else None


def _cleaned_part(part: re.Match[str]) -> str:
    text = part["long"] if part["template"] is None else part["template"]
    if text is None:
        return part["string"] or ""
    return '"' + _BARE_QUOTE.sub(lambda sign: '\\"' if sign[0] == '"' else sign[0], text) + '"'


def _repair(broken: str) -> dict[str, Json] | list[Json] | None:
    """Return the value of broken JSON, or ``None`` if a repair would lose a word."""
    if _GUESSED.search(broken):
        return None
    from json_repair import loads

    try:
        value = cast(Json, loads(broken, skip_json_loads=True))
    except (ValueError, RecursionError, IndexError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(value, dict | list) or not value or not _is_plain(value):
        return None
    return value if _keeps_words(broken, value) else None


def _is_plain(value: object) -> bool:
    """Return whether a value nests at most 100 levels and has no infinities."""
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
