"""Labelled texts for the guardrails, one a line in ``samples/``; ``\\n`` and ``\\uXXXX`` are escapes."""

from __future__ import annotations

import re
from pathlib import Path

_FOLDER = Path(__file__).parent / "samples"


def _unescaped(line: str) -> str:
    line = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), line)
    return line.replace("\\n", "\n")


def _lines(name: str) -> tuple[str, ...]:
    return tuple((_FOLDER / name).read_text(encoding="utf-8").splitlines())


HARMLESS = tuple(map(_unescaped, _lines("harmless.txt")))
ATTACKS = tuple(map(_unescaped, _lines("attacks.txt")))
PERSONAL: tuple[tuple[str, str], ...] = tuple(
    (line.partition("\t")[0], line.partition("\t")[2]) for line in _lines("personal_data.txt")
)
"""Texts with the kind of datum that each has; ``none`` for what only looks like one."""
