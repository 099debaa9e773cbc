"""The body of a response, decompressed piece by piece and never beyond its limit."""

from __future__ import annotations

import zlib
from typing import Final, Literal, TypeAlias

Coding: TypeAlias = Literal["identity", "zlib"]

_CODINGS: Final[dict[str, Coding]] = {
    "": "identity",
    "identity": "identity",
    "gzip": "zlib",
    "x-gzip": "zlib",
    "deflate": "zlib",
}
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def coding_of(header: str) -> Coding | None:
    """How a body with this ``Content-Encoding`` is read; ``None`` when it cannot be."""
    return _CODINGS.get(header.strip().lower())


class BodyReader:
    """Collects a body; what a decompression bomb would blow up to is never in memory.

    Args:
        max_bytes: of the decompressed body, 1 or more; no more bytes than this are taken in either.
    """

    def __init__(self, coding: Coding, *, max_bytes: int) -> None:
        self._inflating = zlib.decompressobj(_GZIP_OR_ZLIB) if coding == "zlib" else None
        self._max_bytes = max_bytes
        self._received = 0
        self._body = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take in the next bytes as they came over the wire.

        Raises:
            ValueError: they are not compressed as the server said.
        """
        self._received += len(piece)
        room = self._max_bytes + 1 - len(self._body)
        if self._inflating is None:
            self._body += piece[:room]
        elif room > 0:
            try:
                self._body += self._inflating.decompress(piece, room)
            except zlib.error as error:
                raise ValueError(f"it is not compressed as it says ({error})") from error

    @property
    def full(self) -> bool:
        """Whether no more of the body is wanted."""
        return max(self._received, len(self._body)) > self._max_bytes

    @property
    def cut(self) -> bool:
        """Whether there is more to the body than what was kept."""
        unfinished = self._inflating is not None and self._received > 0 and not self._inflating.eof
        return self.full or unfinished or bool(self._inflating and self._inflating.unused_data)

    @property
    def body(self) -> bytes:
        """What was kept."""
        return bytes(self._body[: self._max_bytes])
