"""Texts that are encoded within other texts.

The codes are those that a model reads by itself: base64, hexadecimal and other numbers of characters, and
signs that are not seen. What has to be computed first, as compressed data or base85, gives it no orders.

An encoded text is found by its alphabet, decoded from every alignment, and taken as a text when it reads as
one. All work is linear in the length of the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from contextlib import suppress

from attrs import frozen

from reactive_agents.core.values import Value

_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[ \t:,]{0,2}){6,}")
_HEX_SIGNS = re.compile(r"0x|\\x|[ \t:,]")
_NUMBERS = re.compile(r"(?:[01]{7,8}|[0-9]{2,3})(?:[\s,;:]{1,3}(?:[01]{7,8}|[0-9]{2,3})){5,}")
_NUMBER = re.compile(r"[0-9]+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{10,}(?:\s{1,2}[A-Za-z0-9+/_-]{4,})*={0,2}")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{6,}")
_FIRST_SELECTORS, _MORE_SELECTORS = 0xFE00, 0xE0100 - 16
_ZERO_WIDTH = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff]{48,}")
_MOST_SAMPLED = 2_000
_LEAST_READABLE = 0.9
_LEAST_TEXT = 4


@frozen(eq=False, repr=False)
class Encoded(Value):
    """A text that is encoded in another one, from ``start`` to ``end``, in a code."""

    text: str
    start: int
    end: int
    how: str


def encoded_texts(text: str) -> Iterator[Encoded]:
    """Yield the texts that are encoded in a text, one layer deep.

    A code may be read in several ways.
    """
    for found in _HEX.finditer(text):
        digits = _HEX_SIGNS.sub("", found[0])
        yield from _readable(found, "hexadecimal", digits, binascii.unhexlify, 2)
    for found in _NUMBERS.finditer(text):
        numbers = _NUMBER.findall(found[0])
        for base in (2, 8, 10):
            with suppress(ValueError):
                read = bytes([int(number, base) for number in numbers]).decode("utf-8", "ignore")
                yield Encoded(read, *found.span(), "number codes")
    yield from unseen_texts(text)
    for found in _BASE64.finditer(text):
        lines = found[0].split()
        yield from _readable(found, "base64", "".join(lines), _from_base64, 4)
        if len(lines) > 1:
            for line in lines:
                yield from _readable(found, "base64", line, _from_base64, 4)


def unseen_texts(text: str) -> Iterator[Encoded]:
    """Yield the texts that signs without an appearance stand for."""
    if text.isascii():
        return
    for found in _SELECTORS.finditer(text):
        numbers_of = (
            ord(each) - (_FIRST_SELECTORS if each < "\uffff" else _MORE_SELECTORS) for each in found[0]
        )
        yield Encoded(_as_text(bytes(numbers_of)), *found.span(), "variation selectors")
    for found in _ZERO_WIDTH.finditer(text):
        signs = sorted(set(found[0]))
        if len(signs) == 2:
            for zero in signs:
                bits = "".join("0" if each == zero else "1" for each in found[0])
                octets = (int(bits[at : at + 8], 2) for at in range(0, len(bits) - 7, 8))
                yield Encoded(_as_text(bytes(octets)), *found.span(), "zero-width signs")


def unwrapped(text: str, found: list[Encoded]) -> str:
    """Return the text with encoded texts decoded in their places."""
    parts: list[str] = []
    end = 0
    for each in sorted(found, key=lambda one: (one.start, -one.end)):
        if each.start >= end:
            parts += (text[end : each.start], " ", each.text, " ")
            end = each.end
    return "".join((*parts, text[end:]))


def _readable(
    found: re.Match[str], how: str, code: str, decode: Callable[[str], bytes], alignments: int
) -> Iterator[Encoded]:
    """Yield the text of a code, if it is one.

    Something else may stand directly before the code.
    """
    for start in range(alignments):
        with suppress(ValueError):
            read = _as_text(decode(code[start:]))
            if read:
                yield Encoded(read, *found.span(), how)
                return


def _from_base64(code: str) -> bytes:
    digits = code.rstrip("=").replace("-", "+").replace("_", "/")
    whole = digits if len(digits) % 4 != 1 else digits[:-1]
    return base64.b64decode(whole + "=" * (-len(whole) % 4))


def _as_text(data: bytes) -> str:
    """Return the text of some bytes; empty when they do not read as one."""
    if data.count(0) * 3 > len(data):  # UTF-16
        data = data.replace(b"\0", b"")
    read = data.decode("utf-8", "replace")
    sample = read[:: len(read) // _MOST_SAMPLED + 1]
    plain = sum(each.isprintable() or each.isspace() for each in sample) - sample.count("\ufffd")
    return read if len(read) >= _LEAST_TEXT and plain >= _LEAST_READABLE * len(sample) else ""
