"""Texts of models, tools and files, made safe to print on a terminal."""

from __future__ import annotations

import re

LINE_CHARACTERS = 160

_CONTROL = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)


def one_line(text: str) -> str:
    """Return the text as one printable line of at most 160 characters."""
    flat = printable(" ".join(text.split()))
    return flat if len(flat) <= LINE_CHARACTERS else flat[: LINE_CHARACTERS - 1] + "…"


def printable(text: str) -> str:
    """Return the text without the control characters that could steer a terminal.

    Those that turn the direction of a text, and invisible ones, are left out as well. Line breaks and tabs
    stay.
    """
    return _CONTROL.sub("", text)
