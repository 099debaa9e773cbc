"""Texts without secrets: keys of the known providers, the environment's, what the user's patterns match."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

from reactive_agents.core.json import Json
from reactive_agents.core.secret_patterns import (
    PATTERNS,
    SecretPattern,
    folded,
    has_any_sign,
    is_secret_field,
    is_secret_name,
)
from reactive_agents.core.secret_values import DISGUISE, pattern_of

SHORTEST_SECRET = 8
"""Values of the environment below this many characters occur everywhere, and stay."""

_SHORTEST_KNOWN = 4
_DEEPEST = 64
_LARGEST_DIGITS_BITS = 1 << 13
_LONGEST_KNOWN = 1 << 14
_MOST_KNOWN_CHARS = 1 << 18
_ENVIRONMENT, _KNOWN, _OWN, _FIELD, _DEPTH = "environment", "known", "pattern", "field", "depth"
_KINDS = sorted({each.kind for each in PATTERNS} | {_ENVIRONMENT, _KNOWN, _OWN, _FIELD, _DEPTH})
_MARKER = re.compile(rf"\[redacted:(?:{'|'.join(_KINDS)})\]")
_Span: TypeAlias = tuple[int, int, str]


class Redactor:
    """Puts ``[redacted:<kind>]`` in the place of secrets.

    It never fails, takes time that is linear in the text, and finds nothing in what it returned. What it
    cannot find: secrets in base64, compressed or encrypted, and a provider's key that is cut into pieces.

    Args:
        patterns: regular expressions of the user; a group named ``secret`` is the secret, else the whole
            match. That they are fast is up to the user.
        environment: variables, of which those whose names look secret (``…KEY``, ``…TOKEN``, ``…SECRET``,
            ``…PASSWORD`` and the like) have values of 8 or more characters that are looked for, also quoted,
            escaped for JSON or encoded for a URL. Read once.
        secrets: further values of 4 or more characters to look for in the same way, such as a configured key.

    Raises:
        ValueError: a pattern is no regular expression.
    """

    def __init__(
        self,
        patterns: Iterable[str | re.Pattern[str]] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
        secrets: Iterable[str] = (),
    ) -> None:
        named = {
            value.strip()
            for name, value in environment.items()
            if is_secret_name(name) and len(value.strip()) >= SHORTEST_SECRET
        }
        known = {value.strip() for value in secrets if len(value.strip()) >= _SHORTEST_KNOWN}
        self._values = (
            *((value, _ENVIRONMENT) for value in sorted(named)),
            *((value, _KNOWN) for value in sorted(known - named)),
        )
        self._own = tuple(SecretPattern(_OWN, _compiled(pattern)) for pattern in patterns)
        self._clean: set[str | None] = {None, ""}
        self._clean_chars = 0
        self.is_known_clean: Callable[[Iterable[str | None]], bool] = self._clean.issuperset
        """Whether all of the texts were looked at lately and had no secret; false says nothing."""

    @cached_property
    def patterns(self) -> tuple[SecretPattern, ...]:
        """Everything that is looked for."""
        return (*self._special, *PATTERNS)

    @cached_property
    def _special(self) -> tuple[SecretPattern, ...]:
        """What is not looked for by everybody; compiled when the first text comes, since it takes a while."""
        return (*(pattern_of(value, kind) for value, kind in self._values), *self._own)

    def redact(self, text: str) -> str:
        """The text without its secrets; the same text when there are none."""
        if text in self._clean:
            return text
        while True:
            # again after each change, since what ends a pattern's match may now be a marker
            redacted = self._redact_once(text)
            if redacted == text:
                self._keep_in_mind(text)
                return text
            text = redacted

    def redact_json(self, value: Json) -> Json:
        """The value with its texts redacted: also keys, numbers, and any text in a field like ``password``.

        What lies below 64 levels of arrays and objects is left out.
        """
        return self._value(value, _DEEPEST)

    def _redact_once(self, text: str) -> str:
        plain = folded(text)
        any_sign = has_any_sign(plain)
        if not any_sign and not self._special:
            return text
        suspects = self._suspects(text, plain, any_sign=any_sign)
        found = [span for pattern in suspects for span in _spans(pattern, text)]
        if not found:
            return text
        markers = {match.start(): match.end() for match in _MARKER.finditer(text)}
        pieces: list[str] = []
        end = 0
        for start, stop, kind in _merged(found, markers):
            kept = markers.get(start) == stop
            pieces += (text[end:start], text[start:stop] if kept else f"[redacted:{kind}]")
            end = stop
        return "".join((*pieces, text[end:]))

    def _suspects(self, text: str, plain: str, *, any_sign: bool) -> Iterable[SecretPattern]:
        """The patterns that may match in the text: few, in most texts none."""
        if self._special:
            disguised = DISGUISE.search(text) is not None
            for pattern in self._special:
                if not pattern.signs or (disguised and pattern.disguisable) or _has_sign(pattern, plain):
                    yield pattern
        if any_sign:
            for pattern in PATTERNS:
                if _has_sign(pattern, plain):
                    yield pattern

    def _keep_in_mind(self, text: str) -> None:
        """Events repeat most texts; those that are clean need not be looked at again."""
        if len(text) > _LONGEST_KNOWN:
            return
        self._clean_chars += len(text)
        if self._clean_chars > _MOST_KNOWN_CHARS:
            self._clean.clear()
            self._clean.update((None, ""))
            self._clean_chars = len(text)
        self._clean.add(text)

    def _value(self, value: Json, levels: int) -> Json:
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, list):
            return [self._value(each, levels - 1) for each in value] if levels else f"[redacted:{_DEPTH}]"
        if isinstance(value, dict):
            return self._object(value, levels - 1) if levels else f"[redacted:{_DEPTH}]"
        return self._number(value)

    def _object(self, value: dict[str, Json], levels: int) -> Json:
        made: dict[str, Json] = {}
        for key, item in value.items():
            name = unique = self.redact(key)
            count = 1
            while unique in made:
                count += 1
                unique = f"{name} ({count})"
            if isinstance(item, str) and item and is_secret_field(key):
                made[unique] = item if _MARKER.fullmatch(item) else f"[redacted:{_FIELD}]"
            else:
                made[unique] = self._value(item, levels)
        return made

    def _number(self, value: float | None) -> Json:
        """Numbers as they are, unless their digits are a secret."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and value.bit_length() > _LARGEST_DIGITS_BITS:
            return value  # Python would not write it
        text = repr(value)
        redacted = self.redact(text) if len(text) >= SHORTEST_SECRET else text
        return value if redacted == text else redacted


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"Redactor: patterns: {pattern!r} is no regular expression: {error}.") from error


def _has_sign(pattern: SecretPattern, plain: str) -> bool:
    return any(sign in plain for sign in pattern.signs)


def _spans(pattern: SecretPattern, text: str) -> Iterable[_Span]:
    group = "secret" if "secret" in pattern.pattern.groupindex else 0
    for match in pattern.pattern.finditer(text):
        start, stop = match.span(group)
        if start < stop and pattern.is_secret(match):
            yield start, stop, pattern.kind


def _merged(found: list[_Span], markers: Mapping[int, int]) -> Iterable[_Span]:
    """Stretches of what overlaps, with the markers that they touch, in order; each of its longest kind."""
    spans = [*found, *((start, stop, "") for start, stop in markers.items())]
    spans.sort(key=lambda span: (span[0], -span[1]))
    start, stop, kind = spans[0]
    longest = stop - start if kind else 0
    for next_start, next_stop, next_kind in spans[1:]:
        if next_start >= stop:
            yield start, stop, kind
            start, stop, kind, longest = next_start, next_stop, next_kind, 0
        stop = max(stop, next_stop)
        if next_kind and next_stop - next_start > longest:
            kind, longest = next_kind, next_stop - next_start
    yield start, stop, kind
