"""JSON text that arrives in deltas: a string of an object, needless escapes."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from reactive_agents.core.json import SurrogateFilter

_Place: TypeAlias = Literal[
    "start", "name", "in name", "colon", "value", "in text", "skipped", "after", "end"
]

_PLAIN: Final = re.compile(r'[^"\\]*')
_SKIPPED: Final = re.compile(r'[^"\\{}\[\],]*')
_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_BLANK: Final = " \t\r\n"
_LONGEST_NAME: Final = 200


class MemberText:
    """Decodes a member of a JSON object as far as its text has arrived.

    The time is linear in the text, however it is cut. A member that is no string, and whatever comes after a
    mistake in the JSON, gives no text: only the complete object says what it holds.

    >>> answer = MemberText("answer")
    >>> [answer.feed(delta) for delta in ('{"n": [1, "answer"], "ans', 'wer": "It is', ' 3."}')]
    ['', 'It is', ' 3.']

    Args:
        name: of the member; of several with the name the first counts.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._place: _Place = "start"
        self._escape = ""
        """The beginning of an escape sequence that has not ended yet."""
        self._read: list[str] = []
        self._depth = 0
        self._quoted = False
        self._repaired = SurrogateFilter()

    def feed(self, delta: str) -> str:
        """Return the text that the next part of the JSON adds."""
        found: list[str] = []
        at = 0
        while at < len(delta) and self._place != "end":
            match self._place:
                case "in text" | "in name":
                    at = self._take_string(delta, at, found)
                case "skipped":
                    at = self._skip(delta, at)
                case _:
                    at += delta[at] in _BLANK or self._take_sign(delta[at])
        return self._repaired.take("".join(found)) + (self.finish() if self._place == "end" else "")

    def finish(self) -> str:
        """Return what was held back: half of a surrogate pair, as U+FFFD."""
        return self._repaired.end()

    def _take_sign(self, sign: str) -> bool:
        """Go on by a sign; return whether it is not also a part of what begins."""
        match self._place, sign:
            case "start", "{":
                self._place = "name"
            case "name", '"':
                self._place = "in name"
            case "colon", ":":
                self._place = "value"
            case "after", ",":
                self._place = "name"
            case "value", '"' if "".join(self._read) == self._name:
                self._place = "in text"
            case "value", _ if sign not in ",:}]" and "".join(self._read) != self._name:
                self._place, self._depth, self._quoted, self._read = "skipped", 0, False, []
            case _:  # its end, a mistake, or a member of the name that is no string
                self._place = "end"
        return self._place != "skipped"

    def _take_string(self, delta: str, at: int, found: list[str]) -> int:
        """Take a part of a string; return the position after it."""
        if self._escape:
            self._escape += delta[at]
            self._take_escape(found)
            return at + 1
        plain = _PLAIN.match(delta, at)
        end = at if plain is None else plain.end()
        self._add(delta[at:end], found)
        if end == len(delta):
            return end
        if delta[end] == "\\":
            self._escape = "\\"
        elif self._place == "in name":
            self._place = "colon"
        else:
            self._place = "end"
        return end + 1

    def _take_escape(self, found: list[str]) -> None:
        kind, digits = self._escape[1], self._escape[2:]
        if kind == "u" and len(digits) < 4 and all(each in "0123456789abcdefABCDEF" for each in digits):
            return
        self._escape = ""
        try:
            self._add(chr(int(digits, 16)) if kind == "u" else _ESCAPES[kind], found)
        except (KeyError, ValueError):
            self._place = "end"

    def _add(self, text: str, found: list[str]) -> None:
        if self._place == "in text":
            found.append(text)
        elif len(self._read) < _LONGEST_NAME:
            self._read.append(text)

    def _skip(self, delta: str, at: int) -> int:
        """Skip a part of a value of another member; return the position after it."""
        if self._escape:
            self._escape = ""
            return at + 1
        other = (_PLAIN if self._quoted else _SKIPPED).match(delta, at)
        at = at if other is None else other.end()
        if at == len(delta):
            return at
        sign = delta[at]
        if sign == "\\":
            self._escape = sign if self._quoted else ""
        elif sign == '"':
            self._quoted = not self._quoted
        elif sign in "{[":
            self._depth += 1
        elif self._depth:
            self._depth -= sign in "}]"
        else:  # it has ended before this sign
            self._place = "name" if sign == "," else "end"
        return at + 1


_WHOLE: Final = re.compile(r"(?:[^\\]+|\\u[0-9a-fA-F]{4}|\\[^u])*")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|.)", re.DOTALL)
_LONGEST_ESCAPE: Final = 6


class PlainEscapes:
    """Writes out characters that are escaped without need: ``s`` for ``\\u0073``.

    What is looked for in the text is then found however it was written.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, delta: str) -> str:
        """Return the JSON text so far; the beginning of an escape is held back."""
        text = self._held + delta
        if "\\" not in text:
            return text
        whole = _WHOLE.match(text)
        end = len(text) if whole is None else whole.end()
        if len(text) - end >= _LONGEST_ESCAPE:  # it is no escape
            end = len(text)
        self._held = text[end:]
        return _ESCAPE.sub(_written_out, text[:end])

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return held


def _written_out(escape: re.Match[str]) -> str:
    if escape[0] == "\\/":
        return "/"
    sign = chr(int(escape[1], 16)) if escape[1] else ""
    return sign if " " <= sign <= "~" and sign not in '"\\' else escape[0]
