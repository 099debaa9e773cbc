"""Names of tools that every model API takes, each of them once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container

_MOST_CHARS = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def valid_name(name: str) -> str:
    """The name with ``_`` for what is no letter, digit, ``_`` or ``-``, at most 64 characters.

    A longer one ends in a digest of the whole, so that two that begin alike stay apart.

    >>> valid_name("files.read")
    'files_read'
    """
    made = _FORBIDDEN.sub("_", name) or "_"
    if len(made) <= _MOST_CHARS:
        return made
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{made[: _MOST_CHARS - 9]}-{digest}"


def prefixed_name(prefix: str, name: str, taken: Container[str]) -> str:
    """The valid name ``<prefix>-<name>``, with a number at its end when it is taken.

    >>> prefixed_name("files", "read", {"files-read"})
    'files-read-2'
    """
    candidate, number = valid_name(f"{prefix}-{name}"), 1
    while candidate in taken:
        number += 1
        candidate = valid_name(f"{prefix}-{name}-{number}")
    return candidate
