"""Redaction of a text that comes in pieces, where a secret may be cut in two."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from typing import Final

import regex

from reactive_agents.core.redaction import Redactor

_FLAGS: Final = re.ASCII | re.IGNORECASE | re.DOTALL | re.MULTILINE | re.VERBOSE
_CLOSED: Final = re.compile(r"[\s\x80-\U0010ffff]")
"""What ends a match for good: none of the patterns goes on behind it, once they have matched."""
_ALPHANUMERIC: Final = string.ascii_letters + string.digits


class StreamRedactor:
    """Redacts one text piece by piece, and holds back just what may be the beginning of a secret.

    What it gives, put together, holds no secret that the redactor would find in the whole text. It may differ
    from the whole text redacted where a pattern looks at what stands before or behind its match, and it is
    then redacted rather more than less.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, piece: str) -> str:
        """As much of the text as can be told by now, redacted; often empty, or more than the piece."""
        text = self._held + piece
        cut = self._safe_cut(text)
        self._held = text[cut:]
        return self._redactor.redact(text[:cut])

    def finish(self) -> str:
        """The rest of the text, redacted."""
        rest, self._held = self._held, ""
        return self._redactor.redact(rest)

    def _safe_cut(self, text: str) -> int:
        """Where no secret begins before and ends behind, whatever follows the text."""
        spans = tuple(self._matches(text))
        cut = min((start for start, _, live in spans if live), default=len(text))
        while True:
            before = min((start for start, end, _ in spans if start < cut < end), default=cut)
            if before == len(text):
                return before
            # some patterns look at the character before their match
            moved = len(text[:before].rstrip(_ALPHANUMERIC))
            if moved == cut:
                return cut
            cut = moved

    def _matches(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Where the patterns match or may come to match, and whether more text may change that."""
        for pattern in self._redactor.patterns:
            try:
                look = regex.compile(pattern.pattern.pattern, pattern.pattern.flags & _FLAGS)
            except regex.error:  # of the user, and of a form that cannot be looked for in parts
                yield 0, len(text), True
                continue
            for match in look.finditer(text, partial=True):
                start, end = match.span()
                yield start, end, match.partial or _CLOSED.search(text, end) is None
