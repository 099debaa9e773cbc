"""Texts that are encoded within other texts.

The codes are base64 and its relatives, codes of numbers, Morse, signs that are not seen, and compressed data.

An encoded text is found by its alphabet, decoded from every alignment, and taken as a text when it reads as
one. All work is linear in the length of the text, also where compressed data is much longer than its code.
"""

from __future__ import annotations

import base64
import binascii
import re
import string
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from attrs import frozen

from reactive_agents.core.values import Value

_HEX = re.compile(r"(?:(?:0x|\\x)?[0-9a-fA-F]{2}[ \t:,]{0,2}){6,}")
_HEX_SIGNS = re.compile(r"0x|\\x|[ \t:,]")
_NUMBERS = re.compile(r"(?:[01]{7,8}|[0-9]{2,3})(?:[\s,;:]{1,3}(?:[01]{7,8}|[0-9]{2,3})){5,}")
_NUMBER = re.compile(r"[0-9]+")
_BASE32 = re.compile(r"[A-Z2-7]{16,}={0,6}")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{10,}(?:\s{1,2}[A-Za-z0-9+/_-]{4,})*={0,2}")
_SPACED_BASE64 = re.compile(r"(?<![A-Za-z0-9+/])(?:[A-Za-z0-9+/]{2,8} ){5,}[A-Za-z0-9+/]{2,8}={0,2}")
_DIGIT = re.compile(r"[0-9]")
_CODE_POINTS = re.compile(r"(?:U\+[0-9A-Fa-f]{4,6}[\s,;]{0,3}){6,}")
_CHARACTERS = re.compile(
    r"(?:(?:chr|char|chrw)\([0-9]{1,5}\)[\s+.&,|]{0,6}){6,}|(?:\\u[0-9]{2,5} ?\?){6,}", re.IGNORECASE
)
"""Of programs that put a text together, and of RTF."""
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{6,}")
_FIRST_SELECTORS, _MORE_SELECTORS = 0xFE00, 0xE0100 - 16
_ZERO_WIDTH = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff]{48,}")
_BASE62 = re.compile(r"[A-Za-z0-9]{16,2000}")
_UUENCODED = re.compile(r"begin [0-7]{3} [^\n]{0,80}\n((?:[ -`]{1,62}\n){1,4000})")
_MORSE = re.compile(r"(?:[.\-–—−·•_]{1,6}[ /|]{1,12}){7,}[.\-–—−·•_]{0,6}")
_MORSE_SIGN = re.compile(r"[.\-]+|/")
_MORSE_CODES = (
    ".- -... -.-. -.. . ..-. --. .... .. .--- -.- .-.. -- "
    "-. --- .--. --.- .-. ... - ..- ...- .-- -..- -.-- --.. "
    "----- .---- ..--- ...-- ....- ..... -.... --... ---.. ----. /"
)
"""Of the letters, the digits, and the gap between words."""
_MORSE_LETTERS = dict(zip(_MORSE_CODES.split(), string.ascii_lowercase + string.digits + " ", strict=True))
_MORSE_SIGNS = str.maketrans("–—−_·•", "----..")
_BASE58_DIGITS = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE62_DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RFC1924 = _BASE62_DIGITS + "!#$%&()*+-;<=>?@^_`{|}~"
_BASE85_DIGITS = (
    _RFC1924,
    "".join(map(chr, range(33, 118))),
    string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#",
)
"""Of Git and RFC 1924, of Adobe, and of ZeroMQ."""
_BASE85 = tuple(
    (re.compile(rf"[{re.escape(digits)}]{{16,}}(?:\s{{1,2}}[{re.escape(digits)}]{{16,}})*"), digits)
    for digits in _BASE85_DIGITS
)
_MOST_SAMPLED = 2_000
_MOST_DECOMPRESSED = 20_000
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

    Of compressed texts, those are left out that together are far longer than the text.
    """
    room = _MOST_DECOMPRESSED + 2 * len(text)
    for each in _all_encoded(text):
        if len(each.text) > 2 * (each.end - each.start):
            room -= len(each.text)
            if room < 0:
                continue
        yield each


def _all_encoded(text: str) -> Iterator[Encoded]:
    for found in _HEX.finditer(text):
        digits = _HEX_SIGNS.sub("", found[0])
        yield from _readable(found, "hexadecimal", digits, binascii.unhexlify, 2)
    for found in _NUMBERS.finditer(text):
        numbers = _NUMBER.findall(found[0])
        for base in (2, 8, 10):
            with suppress(ValueError):
                read = bytes([int(number, base) for number in numbers]).decode("utf-8", "ignore")
                yield Encoded(read, *found.span(), "number codes")
    yield from _of_characters(text)
    yield from unseen_texts(text)
    for found in _SPACED_BASE64.finditer(text):
        is_mixed = not (found[0].islower() or found[0].isupper()) and _DIGIT.search(found[0])
        if is_mixed:  # words are not
            yield from _readable(found, "base64", found[0].replace(" ", ""), _from_base64, 4)
    for found in _BASE32.finditer(text):
        yield from _readable(found, "base32", found[0].rstrip("="), _from_base32, 1)
    for found in _BASE64.finditer(text):
        lines = found[0].split()
        yield from _readable(found, "base64", "".join(lines), _from_base64, 4)
        if len(lines) > 1:
            for line in lines:
                yield from _readable(found, "base64", line, _from_base64, 4)
    for pattern, digits in _BASE85:
        turned = str.maketrans(digits, _RFC1924)
        for found in pattern.finditer(text):
            code = (
                re.sub(r"\s", "", found[0])
                .removeprefix("<~")
                .replace("z", "!!!!!" if digits[0] == "!" else "z")
            )
            yield from _readable(found, "base85", code.translate(turned), _from_base85, 5)
    for found in _BASE62.finditer(text):
        for digits, how in ((_BASE58_DIGITS, "base58"), (_BASE62_DIGITS, "base62")):
            yield from _readable(found, how, found[0], partial(_from_number, digits), 1)
    for found in _UUENCODED.finditer(text):
        with suppress(ValueError):
            yield Encoded(
                _as_text(b"".join(map(binascii.a2b_uu, found[1].splitlines()))), *found.span(), "uuencode"
            )
    for found in _MORSE.finditer(text):
        signs = _MORSE_SIGN.findall(found[0].translate(_MORSE_SIGNS))
        yield Encoded("".join(_MORSE_LETTERS.get(sign, "") for sign in signs), *found.span(), "Morse")


def _of_characters(text: str) -> Iterator[Encoded]:
    """Yield texts of which each character is named by a number."""
    for pattern, base in ((_CODE_POINTS, 16), (_CHARACTERS, 10)):
        for found in pattern.finditer(text):
            numbers = re.findall(r"[0-9A-Fa-f]{4,6}" if base == 16 else r"[0-9]+", found[0])
            read = "".join(chr(int(each, base)) for each in numbers if int(each, base) <= sys.maxunicode)
            yield Encoded(read, *found.span(), "code points")


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


def _from_base32(code: str) -> bytes:
    return base64.b32decode(code + "=" * (-len(code) % 8))


def _from_base85(code: str) -> bytes:
    try:
        return base64.b85decode(code)
    except ValueError:  # of the last digits, when something else stands behind
        return base64.b85decode(code[: len(code) // 5 * 5])


def _from_number(digits: str, code: str) -> bytes:
    values = {digit: value for value, digit in enumerate(digits)}
    number = 0
    for digit in code:
        if digit not in values:
            return b""
        number = number * len(digits) + values[digit]
    return number.to_bytes((number.bit_length() + 7) // 8)


def _as_text(data: bytes) -> str:
    """Return the text of some bytes; empty when they do not read as one."""
    data = _decompressed(data)
    sign = "utf-8"
    if data.count(0) * 3 > len(data):
        has_mark = data[:2] in (b"\xff\xfe", b"\xfe\xff")
        sign = "utf-16" if has_mark else "utf-16-le" if data[1::2].count(0) else "utf-16-be"
    read = data.decode(sign, "replace")
    sample = read[:: len(read) // _MOST_SAMPLED + 1]
    plain = sum(each.isprintable() or each.isspace() for each in sample) - sample.count("\ufffd")
    return read if len(read) >= _LEAST_TEXT and plain >= _LEAST_READABLE * len(sample) else ""


def _decompressed(data: bytes) -> bytes:
    """Return the beginning of compressed data as it was before; other data as it is."""
    if data[:3] == b"BZh" or data[:6] == b"\xfd7zXZ\x00":
        import bz2
        import lzma  # imported for the few texts that hold such data

        opened = bz2.BZ2Decompressor() if data[:1] == b"B" else lzma.LZMADecompressor()
        with suppress(OSError, EOFError, lzma.LZMAError):
            return opened.decompress(data, _MOST_DECOMPRESSED)
        return data
    for window in (47, -15) if _is_deflated(data) else ():
        with suppress(zlib.error):
            read = zlib.decompressobj(window).decompress(data, _MOST_DECOMPRESSED)
            if len(read) >= _LEAST_TEXT:
                return read
    return data


def _is_deflated(data: bytes) -> bool:
    """Return whether data may be compressed: not all of it is text."""
    return len(data) >= 8 and any(byte >= 128 or byte < 9 for byte in data[:24])
