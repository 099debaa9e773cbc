"""Text files, read line by line whatever their size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

_PROBE_BYTES = 8_192
_LINE_BYTES = 65_536


def is_binary(file: BinaryIO) -> bool:
    """Whether the start of the file has a NUL byte, which text in UTF-8 never has; goes back to the start."""
    probe = file.read(_PROBE_BYTES)
    file.seek(0)
    return b"\0" in probe


def read_lines(file: BinaryIO, *, max_chars: int) -> Iterator[str]:
    """The lines without their ends, as UTF-8 with ``�`` for what is not; long ones cut with a note.

    Args:
        max_chars: of a line, 1 or more.
    """
    first = True
    while line := file.readline(_LINE_BYTES):
        length = len(line)
        if not line.endswith(b"\n") and length == _LINE_BYTES:
            length += _skip_to_end_of_line(file)
        text = line.decode("utf-8-sig" if first else "utf-8", "replace").rstrip("\r\n")
        first = False
        if len(text) > max_chars or length > _LINE_BYTES:
            text = f"{text[:max_chars]} [… line of {length} bytes cut …]"
        yield text


def _skip_to_end_of_line(file: BinaryIO) -> int:
    skipped = 0
    while rest := file.readline(_LINE_BYTES):
        skipped += len(rest)
        if rest.endswith(b"\n"):
            break
    return skipped
