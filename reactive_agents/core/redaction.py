"""Redaction of secrets: keys of known providers, of the environment, of patterns."""

from __future__ import annotations

import json
import re
import string
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from threading import Lock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast
from weakref import WeakSet

from attrs import evolve

from reactive_agents.core.json import MOST_LEVELS, Json
from reactive_agents.core.secret_patterns import (
    DISGUISE,
    MARKER,
    OTHER_KINDS,
    PATTERNS,
    SecretPattern,
    folded,
    is_secret_field,
    is_secret_name,
    pattern_of,
    signs_in,
)
from reactive_agents.core.secret_patterns import SHORTEST_SECRET as SHORTEST_SECRET
from reactive_agents.core.texts import matches_at, places_of
from reactive_agents.core.values import lazy_pattern

if TYPE_CHECKING:
    from reactive_agents.core.governance import GuardrailFinding

_SHORTEST_KNOWN = 4
_LARGEST_DIGITS_BITS = 1 << 13
_LONGEST_KNOWN = 1 << 15  # results of tools as models are shown them are among them
_MOST_KNOWN_CHARS = 1 << 18
_MOST_LEARNED = 100
_ENVIRONMENT, _KNOWN, _OWN, _FIELD, _DEPTH = OTHER_KINDS
_Span: TypeAlias = tuple[int, int, str]


class Prepared(dict[str | int, tuple[Json, Json]]):
    """Long texts and ids of long data, each with the data and its redacted form.

    The data itself is kept, so that no other has its id.
    """


class _Searched(NamedTuple):
    """The patterns that a redactor searches.

    Attributes:
        special: those beside the common ones.
        every: all of them.
        learned: the secrets that were learned when they were made.
    """

    special: tuple[SecretPattern, ...]
    every: tuple[SecretPattern, ...]
    learned: tuple[str, ...]


class Redactor:
    """Replaces secrets by ``[redacted:<kind>]``.

    It never fails, takes time that is linear in the text, and finds nothing in its own output. It cannot find
    secrets in base64, compressed or encrypted, or a provider's key that is cut into pieces.

    Args:
        patterns: regular expressions of the user; the secret is the group named ``secret``, or else the whole
            match. Their speed is up to the user.
        environment: the environment variables, read once. Values of 8 or more characters are redacted if the
            name of the variable looks secret (``…KEY``, ``…TOKEN``, ``…SECRET``, ``…PASSWORD`` and the like),
            also if they are quoted, escaped for JSON or encoded for a URL.
        secrets: further values of 4 or more characters that are redacted likewise, such as a configured key.

    Raises:
        ValueError: a pattern is not a regular expression.
    """

    works_in_threads: bool = True
    """Whether long data is redacted in a worker thread."""

    def __init__(
        self,
        patterns: Iterable[str | re.Pattern[str]] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
        secrets: Iterable[str] = (),
    ) -> None:
        named = {
            value.strip()
            for value in (environment.get(name, "") for name in tuple(environment) if is_secret_name(name))
            if len(value.strip()) >= SHORTEST_SECRET
        }
        known = {value.strip() for value in secrets if len(value.strip()) >= _SHORTEST_KNOWN}
        self._values = (
            *((value, _ENVIRONMENT) for value in sorted(named)),
            *((value, _KNOWN) for value in sorted(known - named)),
        )
        self._learned: tuple[str, ...] = ()
        self._searched: _Searched | None = None
        self._learning = Lock()
        self._joined: WeakSet[Redactor] = WeakSet()
        self._own = tuple(SecretPattern(_OWN, _compiled(pattern)) for pattern in patterns)
        self._clean: set[str | None] = {None, ""}
        self._clean_chars = 0
        self.is_known_clean: Callable[[Iterable[str | None]], bool] = self._clean.issuperset
        """Whether all of the texts were looked at lately and had no secret; false says nothing."""
        self._prepared = Prepared()

    def joined(self, other: Redactor) -> Redactor:
        """Return a redactor of the secrets that this one or the other knows."""
        if other is self:
            return self
        both = Redactor()
        both._values = tuple(dict.fromkeys((*self._values, *other._values)))
        both._own = (*self._own, *other._own)
        for each in (self, other):
            with each._learning:
                each._joined.add(both)
                learned = each._learned
            both.learn(learned)
        return both

    def learn(self, secrets: Iterable[str]) -> None:
        """Redact further values of 8 or more characters from now on.

        They are those that were not known before, such as a token that was renewed.

        The 100 that were given latest are known, also to the redactors that were joined with this one.
        Callable from any thread.
        """
        given = dict.fromkeys(value.strip() for value in secrets if len(value.strip()) >= SHORTEST_SECRET)
        with self._learning:
            known = {value for value, _ in self._values}
            before, new = self._learned, tuple(value for value in given if value not in known)
            latest = (*(value for value in before if value not in given), *new)[-_MOST_LEARNED:]
            joined = tuple(self._joined)
            if latest != before:
                self._learned = latest
            if not {*latest} <= {*before}:
                self._forget_clean()
                self._prepared.clear()
        for each in joined:
            each.learn(given)

    @property
    def patterns(self) -> tuple[SecretPattern, ...]:
        """All patterns that are searched."""
        return self._patterns_now().every

    @property
    def _special(self) -> tuple[SecretPattern, ...]:
        """Patterns beside the common ones, made with the first text."""
        return self._patterns_now().special

    def _patterns_now(self) -> _Searched:
        """Return the patterns with what is learned by now, made once for it."""
        searched, learned = self._searched, self._learned
        if searched is None or searched.learned is not learned:
            known = (*self._values, *((value, _KNOWN) for value in learned))
            special = (*(pattern_of(value, kind) for value, kind in known), *self._own)
            searched = self._searched = _Searched(special, (*special, *PATTERNS), learned)
        return searched

    def redact(self, text: str) -> str:
        """Return the text without its secrets; the same text when there are none."""
        if text in self._clean:
            return text
        if self._prepared and (prepared := self._prepared.get(text)) is not None:
            return cast(str, prepared[1])
        learned = self._learned
        while True:
            # again after each change, since what ends a pattern's match may now be a marker
            redacted = self._redact_once(text)
            if redacted == text:
                if learned is self._learned:  # else it may have what was learned meanwhile
                    self._keep_in_mind(text)
                return text
            text = redacted

    def redact_json(self, value: Json) -> Json:
        """Return JSON data redacted: texts, keys, numbers, fields such as ``password``.

        Data below 64 levels of arrays and objects is left out.
        """
        if self._prepared and (prepared := self._prepared.pop(id(value), None)) is not None:
            return prepared[1]  # once: who gets it may change it
        return self._value(value, MOST_LEVELS)

    def prepared(self, values: Iterable[Json]) -> Prepared:
        """Redact data that is redacted again soon, as in a worker thread.

        See :meth:`keep`.
        """
        return Prepared((_key(value), (value, self.redact_json(value))) for value in values)

    def keep(self, prepared: Prepared) -> None:
        """Use what was prepared, until it is released.

        On the event loop ``redact`` of each text then takes no time, and neither does ``redact_json`` of the
        same object, once.
        """
        self._prepared.update(prepared)

    def release(self, prepared: Prepared) -> None:
        """Forget what was prepared."""
        for key in prepared:
            self._prepared.pop(key, None)

    def _redact_once(self, text: str) -> str:
        plain = folded(text)
        signs = signs_in(plain)
        if not signs and not self._special:
            return text
        places = _Places(plain)
        suspects = self._suspects(text, places, signs)
        found = [span for pattern, near in suspects for span in _spans(pattern, text, near)]
        if not found:
            return text
        markers = {match.start(): match.end() for match in MARKER.finditer(text)}
        pieces: list[str] = []
        end = 0
        for start, stop, kind in _merged(found, markers):
            kept = markers.get(start) == stop
            pieces += (text[end:start], text[start:stop] if kept else f"[redacted:{kind}]")
            end = stop
        return "".join((*pieces, text[end:]))

    def _suspects(
        self, text: str, places: _Places, signs: set[str]
    ) -> Iterable[tuple[SecretPattern, _Places | None]]:
        """Return the patterns that may match in the text.

        Beside each are the places of signs if it matches only near its heads.
        """
        if self._special:
            disguised = DISGUISE.search(text) is not None
            for pattern in self._special:
                if not pattern.signs or (disguised and pattern.disguisable):
                    yield pattern, None
                elif any(map(places.__getitem__, pattern.signs)):
                    yield pattern, places
        if signs:
            for pattern in PATTERNS:
                if not signs.isdisjoint(pattern.signs):
                    yield pattern, places

    def _keep_in_mind(self, text: str) -> None:
        """Remember a clean text, because events repeat most texts."""
        if len(text) > _LONGEST_KNOWN:
            return
        self._clean_chars += len(text)
        if self._clean_chars > _MOST_KNOWN_CHARS:
            self._forget_clean()
            self._clean_chars = len(text)
        self._clean.add(text)

    def _forget_clean(self) -> None:
        self._clean.clear()
        self._clean.update((None, ""))
        self._clean_chars = 0

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
            if isinstance(item, str | list) and item and is_secret_field(key):
                made[unique] = self._secret(item, levels)
            else:
                made[unique] = self._value(item, levels)
        return made

    def _secret(self, value: Json, levels: int) -> Json:
        """Return a text of a secret field, or a list of them, redacted."""
        if isinstance(value, str):
            return value if not value or MARKER.fullmatch(value) else f"[redacted:{_FIELD}]"
        if isinstance(value, list):
            return [self._secret(each, levels - 1) for each in value] if levels else f"[redacted:{_DEPTH}]"
        return self._value(value, levels)

    def _number(self, value: float | None) -> Json:
        """Return a number unchanged, unless its digits are a secret."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int) and value.bit_length() > _LARGEST_DIGITS_BITS:
            return value  # Python would not write it
        text = repr(value)
        redacted = self.redact(text) if len(text) >= SHORTEST_SECRET else text
        return value if redacted == text else redacted

    def long_in(self, values: Iterable[Json]) -> tuple[Json, ...]:
        """Return the long values, which are to be redacted in a worker thread."""
        return tuple(filter(is_long, values)) if self.works_in_threads else ()


LONGEST_AT_ONCE: Final = 50_000
"""Characters of data whose redaction may hold up an event loop: some milliseconds."""
_PER_VALUE = 20


def is_long(value: Json) -> bool:
    """Return whether data should not be redacted on an event loop."""
    if isinstance(value, str):
        return len(value) > LONGEST_AT_ONCE
    waiting: list[Json] = [value]
    size = 0
    while waiting and size <= LONGEST_AT_ONCE:
        each = waiting.pop()
        size += _PER_VALUE
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, list):
            waiting += each[:LONGEST_AT_ONCE]
        elif isinstance(each, dict):
            waiting += each
            waiting += each.values()
    return size > LONGEST_AT_ONCE


def _key(value: Json) -> str | int:
    return value if isinstance(value, str) else id(value)


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"patterns: got {pattern!r}, expected a regular expression ({error})") from error


_SPARSE = 16
"""Characters of a text for each place from which on it is quicker to look at the places only."""


class _Places(dict[str, list[int]]):
    """The places in a folded text of each sign, found when they are first asked for."""

    def __init__(self, plain: str) -> None:
        super().__init__()
        self._plain = plain

    def __missing__(self, sign: str) -> list[int]:
        found = self[sign] = places_of(sign, self._plain)
        return found

    def starts(self, heads: Iterable[tuple[str, int]]) -> list[int] | None:
        """Return where matches with such heads may begin.

        ``None`` if there are so many places that a search of the whole text is quicker.
        """
        given = [(self[head], before + 1) for head, before in heads]
        if _SPARSE * sum(len(places) * size for places, size in given) > len(self._plain):
            return None
        starts = {place - before for places, size in given for place in places for before in range(size)}
        return sorted(starts)


def _spans(pattern: SecretPattern, text: str, places: _Places | None) -> Iterable[_Span]:
    group = "secret" if "secret" in pattern.pattern.groupindex else 0
    for match in _matches(pattern, text, places):
        start, stop = match.span(group)
        if start < stop and pattern.is_secret(match):
            yield start, stop, pattern.kind


def _matches(pattern: SecretPattern, text: str, places: _Places | None) -> Iterator[re.Match[str]]:
    """Return what ``finditer`` would, without a look at most of the text."""
    starts = None if places is None else places.starts(pattern.heads)
    look = pattern.pattern
    return look.finditer(text) if starts is None else matches_at(look, text, starts)


def _merged(found: list[_Span], markers: Mapping[int, int]) -> Iterable[_Span]:
    """Return matches with overlapping ones merged, each with its longest kind."""
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


# --- Redaction of a text that comes in pieces, where a secret may be cut in two ---


_FLAGS: Final = re.ASCII | re.IGNORECASE | re.DOTALL | re.MULTILINE | re.VERBOSE
_CLOSED: Final = lazy_pattern(r"[^\x00-\x08\x0e-\x1b\x21-\x7f]")
"""Blanks and all beyond ASCII: behind them no pattern continues once it has matched."""
_ALPHANUMERIC: Final = frozenset(string.ascii_letters + string.digits)
_LONG_HELD = 256
"""Characters held back from which on the text is only searched again when it has grown by a quarter."""


class StreamRedactor:
    """Redacts one text in chunks, and holds back the possible beginning of a secret.

    The joined output holds no secret that the redactor would find in the whole text. If a pattern looks
    before or behind its match, more may be redacted than in the whole text, never less. The time is linear in
    the text, even if nothing is safe before its end: a long text that is held back is only searched again
    once it has grown by a quarter.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._patterns: tuple[SecretPattern, ...] = ()
        self._looks: tuple[Any | None, ...] = ()
        self._held: list[str] = []
        self._size = 0
        self._searched = 0
        """How much was held back after the last search."""

    def feed(self, piece: str) -> str:
        """Return the redacted text that is certain so far; may be empty or longer."""
        self._held.append(piece)
        self._size += len(piece)
        if self._searched > _LONG_HELD and self._size < 1.25 * self._searched:
            return ""
        text = "".join(self._held)
        cut = self._safe_cut(text)
        self._hold(text[cut:])
        return self._redactor.redact(text[:cut])

    def finish(self) -> str:
        """Return the rest of the text, redacted."""
        rest = "".join(self._held)
        self._hold("")
        return self._redactor.redact(rest)

    def _hold(self, text: str) -> None:
        self._held = [text]
        self._size = self._searched = len(text)

    def _safe_cut(self, text: str) -> int:
        """Return a position that no secret can span, whatever text follows."""
        matches = sorted(self._matches(text))
        cut = min((start for start, _, live in matches if live), default=len(text))
        if cut == len(text):
            return cut
        cut = _before_word(text, cut)  # some patterns look at the character before their match
        for start, end in reversed(_joined(matches)):
            if start < cut < end:
                cut = _before_word(text, start)
        return cut

    def _matches(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Return matches and possible matches, and whether more text may change them."""
        closed = max((match.start() for match in _CLOSED.finditer(text)), default=-1)
        patterns = self._redactor.patterns
        if patterns is not self._patterns:  # something was learned meanwhile
            looks = [_for_chunks(each.pattern.pattern, each.pattern.flags & _FLAGS) for each in patterns]
            self._patterns, self._looks = patterns, tuple(looks)
        for look in self._looks:
            if look is None:
                yield 0, len(text), True
                continue
            for match in look.finditer(text, partial=True):
                start, end = match.span()
                yield start, end, match.partial or end > closed


@lru_cache(maxsize=1_000)
def _for_chunks(pattern: str, flags: int) -> Any | None:
    """Return the pattern as one that finds beginnings of matches, or ``None``."""
    import regex  # takes a while to import, and few redact streams

    try:
        return regex.compile(pattern, flags)
    except regex.error:  # a pattern of the user
        return None


def _joined(matches: Iterable[tuple[int, int, bool]]) -> list[tuple[int, int]]:
    """Return the stretches of matches that overlap, in order."""
    stretches: list[tuple[int, int]] = []
    for start, end, _ in matches:
        if stretches and start < stretches[-1][1]:
            first, last = stretches.pop()
            stretches.append((first, max(last, end)))
        else:
            stretches.append((start, end))
    return stretches


def _before_word(text: str, place: int) -> int:
    """Return where the letters and digits begin that end at the place."""
    while place and text[place - 1] in _ALPHANUMERIC:
        place -= 1
    return place


# --- How what checks found is taken out of a text, and out of JSON data ---


_SEPARATOR = "\n"
_HEAD = 4  # characters of a text by which it is looked for


def bounded_finding(finding: GuardrailFinding, text: str) -> GuardrailFinding:
    """Return the finding with its span and score clamped to their ranges."""
    start = min(max(finding.start, 0), len(text))
    end = min(max(finding.end, start), len(text))
    return evolve(finding, start=start, end=end, score=min(max(finding.score, 0.0), 1.0))


def redact(text: str, findings: Sequence[GuardrailFinding]) -> str:
    """Return the text with every span replaced by its category in brackets.

    Overlapping spans become one.

    >>> from reactive_agents.core.governance import GuardrailFinding
    >>> redact("write to a@b.org!", [GuardrailFinding("email", 9, 16, 1.0, "redact")])
    'write to [email]!'
    """
    kept: list[str] = []
    done = 0
    for finding in sorted(findings, key=lambda each: (each.start, -each.end)):
        if finding.start >= finding.end:
            continue
        if finding.start >= done:
            kept += (text[done : finding.start], f"[{finding.category}]")
        done = max(done, finding.end)
    return "".join((*kept, text[done:]))


def joined_texts(value: Json) -> str:
    """Return a text; of other data all texts, numbers and field names, one a line."""
    return value if isinstance(value, str) else _SEPARATOR.join(_texts(value))


def redact_texts(value: Json, findings: Iterable[GuardrailFinding]) -> Json:
    """Return data without spans of its joined texts; a number in one becomes a text."""
    given = tuple(findings)
    if isinstance(value, str):
        return redact(value, given)
    waiting = deque(sorted(enumerate(given), key=lambda each: each[1].start))
    reached: list[tuple[int, GuardrailFinding]] = []
    made: list[str] = []
    start = 0
    for text in _texts(value):
        end = start + len(text)
        while waiting and waiting[0][1].start < end:
            reached.append(waiting.popleft())
        reached = [each for each in reached if each[1].end > start]
        inside = (
            evolve(each, start=max(each.start, start) - start, end=min(each.end, end) - start)
            for _, each in sorted(reached, key=itemgetter(0))
        )
        made.append(redact(text, tuple(inside)))
        start = end + len(_SEPARATOR)
    return _rebuilt(value, iter(made))


def replacing(pairs: Iterable[tuple[str, str]]) -> Callable[[str], str]:
    """Return a function that replaces texts in a time independent of their number.

    Overlapping occurrences become one, replaced by that of the longest.

    Args:
        pairs: nonempty texts with their replacements; the first pair of a text counts.

    >>> replacing([("ann@b.org", "[email]"), ("b.org", "[host]")])("write to ann@b.org or c@b.org")
    'write to [email] or c@[host]'
    """
    known: dict[str, str] = {}
    for old, new in pairs:
        known.setdefault(old, new)
    if not known:
        return str
    size = min(_HEAD, *map(len, known))
    lengths: dict[str, set[int]] = {}
    for old in known:
        lengths.setdefault(old[:size], set()).add(len(old))
    longest_first = {head: sorted(each, reverse=True) for head, each in lengths.items()}
    starts = re.compile("[" + "".join(sorted({re.escape(old[0]) for old in known})) + "]")

    def occurrences(text: str) -> Iterator[tuple[int, str]]:
        for match in starts.finditer(text):
            at = match.start()
            for length in longest_first.get(text[at : at + size], ()):
                if text[at : at + length] in known:
                    yield at, text[at : at + length]
                    break

    def replaced(text: str) -> str:
        found = [(at, at + len(old), old) for at, old in occurrences(text)]
        kept: list[str] = []
        end = 0
        for start, stop, longest in _merged(found, {}) if found else ():
            kept += (text[end:start], known[longest])
            end = stop
        return "".join((*kept, text[end:]))

    return replaced


def _texts(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item)
    elif value is not None and not isinstance(value, bool):
        yield json.dumps(value)


def _rebuilt(value: Json, texts: Iterator[str]) -> Json:
    """Return the data with its texts replaced, in order."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, list):
        return [_rebuilt(item, texts) for item in value]
    if isinstance(value, dict):
        made: dict[str, Json] = {}
        for item in value.values():
            name = unique = next(texts)
            while unique in made:
                unique = f"{name} ({len(made) + 1})"
            made[unique] = _rebuilt(item, texts)
        return made
    if value is None or isinstance(value, bool):
        return value
    text = next(texts)
    return value if text == json.dumps(value) else text
