"""A long text of which the beginning and the end are kept."""

from __future__ import annotations


class HeadAndTail:
    """Collects bytes and keeps at most ``kept_bytes`` of them: half from the start, half from the end.

    >>> output = HeadAndTail(4)
    >>> output.add(b"abcdefgh")
    >>> output.text()
    'ab\\n[… 4 bytes left out …]\\ngh'
    """

    def __init__(self, kept_bytes: int) -> None:
        self._half = kept_bytes // 2
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, piece: bytes) -> None:
        """Take in the next bytes."""
        self._total += len(piece)
        room = self._half - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        del self._tail[: -self._half]

    @property
    def total(self) -> int:
        """How many bytes came in."""
        return self._total

    @property
    def left_out(self) -> int:
        """How many bytes were not kept."""
        return self._total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """What was kept, as UTF-8 with ``�`` for what is not, and a note in the gap."""
        if not self.left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        head, tail = self._head.decode("utf-8", "replace"), self._tail.decode("utf-8", "replace")
        return f"{head}\n[… {self.left_out} bytes left out …]\n{tail}"
