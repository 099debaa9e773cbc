"""A pattern for a secret that is known by its value, however it is quoted, escaped or encoded."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from reactive_agents.core.secret_patterns import SecretPattern, folded

_MOST_FLEXIBLE = 256
_SHORTEST_LINE = 16
# a character of these may stand for itself or begin an escape, which would leave several ways to read a text
_AMBIGUOUS = re.compile(r"[\\\"'`%\s\x00-\x1f\x7f]")

# the end of one literal and the start of the next, as in "one" + "two"
_SEAM = r"(?:\\{0,3}[\"'`]\s{0,8}[+.]?\s{0,8}\\{0,3}[\"'`])?"


DISGUISE = re.compile(r"[%\\&]|[\"'`]\s{0,8}[+.]?\s{0,8}[\"'`]")
"""Matches in every text in which a secret may be spelt otherwise than as it is."""


def pattern_of(secret: str, kind: str) -> SecretPattern:
    """Matches the secret and what it becomes in JSON, in a URL, in HTML and in literals that are joined.

    A secret that holds quotes, backslashes, percent signs, white space or control characters, or more than
    256 characters, is found in whole forms only: as it is, and escaped or encoded as a whole by the common
    writers. Forms in base64, compressed or encrypted are not found.
    """
    if len(secret) <= _MOST_FLEXIBLE and not _AMBIGUOUS.search(secret):
        pattern = re.compile(_SEAM.join(map(_any_form, secret)))
        return SecretPattern(kind, pattern, signs=(folded(secret),), disguisable=True)
    forms = sorted(set(_whole_forms(secret)), key=lambda form: (-len(form), form))
    return SecretPattern(kind, re.compile("|".join(map(re.escape, forms))), signs=tuple(map(folded, forms)))


def _any_form(char: str) -> str:
    octets = char.encode(errors="surrogatepass")
    units = char.encode("utf-16-be", errors="surrogatepass")
    percent = "".join(rf"%(?:25){{0,3}}{_hex(octet)}" for octet in octets)
    escaped = "".join(
        rf"\\\\{{0,3}}u{_hex(units[at])}{_hex(units[at + 1])}" for at in range(0, len(units), 2)
    )
    forms = [re.escape(char), percent, escaped]
    if char == "/":
        forms.append(r"\\\\{0,3}/")
    if html.escape(char) != char:
        forms.append(re.escape(html.escape(char)))
    return f"(?:{'|'.join(forms)})"


def _hex(octet: int) -> str:
    return "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{octet:02x}")


def _whole_forms(secret: str) -> Iterator[str]:
    whole = [secret, secret.strip()]
    lines = [line.strip() for line in secret.splitlines()]
    for form in (*whole, *(line for line in lines if len(line) >= _SHORTEST_LINE)):
        yield form
        yield html.escape(form)
        yield repr(form)[1:-1]
        for ascii_only in (True, False):
            once = json.dumps(form, ensure_ascii=ascii_only)[1:-1]
            yield once
            yield once.replace("/", r"\/")
            yield json.dumps(once)[1:-1]
        octets = form.encode(errors="surrogatepass")
        for encoded in (quote(octets, safe=""), quote(octets), quote_plus(octets)):
            yield encoded
            yield re.sub("%[0-9A-F]{2}", lambda found: found.group().lower(), encoded)
