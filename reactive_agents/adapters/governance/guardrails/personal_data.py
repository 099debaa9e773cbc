"""Personal data: addresses and numbers that name one person or one account.

Numbers with check digits are found only if these are correct. Numbers that are spelt out or split over lines
are not found.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from threading import Lock
from typing import Any, Literal, TypeAlias

import anyio.to_thread
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding

_DOUBLED = tuple(sum(divmod(2 * digit, 10)) for digit in range(10))
_DNI_LETTERS = "TRWAGMYFPDXBNJZSQVHLCKE"
_LETTERS_AS_NUMBERS = {ord("A") + place: str(10 + place) for place in range(26)}
IBAN_LENGTHS = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28,
    "IE": 22, "IL": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MT": 31, "NL": 18, "NO": 15, "PK": 24,
    "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24,
    "SM": 27, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "XK": 20,
}  # fmt: skip
"""Length of an account number by country, from the SWIFT registry."""


def luhn(digits: str) -> bool:
    """Return whether the last digit is the Luhn check digit (ISO/IEC 7812).

    >>> luhn("4111111111111111"), luhn("4111111111111112")
    (True, False)
    """
    values = [int(digit) for digit in reversed(digits)]
    return (sum(values[::2]) + sum(_DOUBLED[value] for value in values[1::2])) % 10 == 0


def card_number(digits: str) -> bool:
    """Return whether digits are a card number: issuer prefix, length and Luhn digit."""
    size = len(digits)
    issued = (
        (digits[0] == "4" and size in (13, 16, 19))
        or (digits[0] == "5" and size == 16 and digits[1] in "012345678")
        or (digits[0] == "6" and size in (16, 19))
        or (digits[0] == "2" and size == 16 and "2221" <= digits[:4] <= "2720")
        or (digits[:2] in ("34", "37") and size == 15)
        or (digits[:2] in ("30", "36", "38", "39") and size == 14)
        or (digits[:2] == "35" and size == 16)
    )
    return issued and luhn(digits)


def iban(compact: str) -> bool:
    """Return whether a compact IBAN has its country's length and check digits."""
    if len(compact) != IBAN_LENGTHS.get(compact[:2]):
        return False
    return int((compact[4:] + compact[:4]).translate(_LETTERS_AS_NUMBERS)) % 97 == 1


def german_tax_id(digits: str) -> bool:
    """Whether eleven digits are a German tax id.

    One digit occurs two or three times among the first ten, the others once at most; the last is the check
    digit by ISO 7064 MOD 11,10.
    """
    counts = sorted(Counter(digits[:10]).values())
    if digits[0] == "0" or counts[-1] not in (2, 3) or (len(counts) > 1 and counts[-2] > 1):
        return False
    product = 10
    for digit in digits[:10]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def spanish_id(compact: str) -> bool:
    """Return whether the check letter of a Spanish DNI or NIE is valid."""
    number = compact[:-1].replace("X", "0").replace("Y", "1").replace("Z", "2")
    return _DNI_LETTERS[int(number) % 23] == compact[-1]


def french_id(digits: str) -> bool:
    """Return whether fifteen digits are a French social security number with its key."""
    return 97 - int(digits[:13]) % 97 == int(digits[13:])


PersonalDatum: TypeAlias = Literal[
    "email", "phone", "iban", "credit-card", "us-ssn", "german-tax-id", "spanish-id", "french-id"
]
Span: TypeAlias = tuple[int, int]

_EMAIL = re.compile(r"(?<![\w.%+\-])[\w.%+\-]{1,64}@(?:[\w\-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w@])")
_INTERNATIONAL = re.compile(r"(?<![\w+])(?<![0-9] )(?:\+|00)[1-9][0-9]{0,2}[ .\-/()0-9]{5,22}[0-9](?![\w])")
_AMERICAN = re.compile(
    r"(?<![\w.\-+])(?:1[ .\-])?"
    r"(?:\([2-9][0-9]{2}\) ?|[2-9][0-9]{2}[ .\-])[2-9][0-9]{2}[ .\-][0-9]{4}(?![\w\-])"
)
_NATIONAL = re.compile(
    r"(?<![\w.,/\-])(?<![0-9] )"
    r"(?:\(0[1-9][0-9]{1,4}\) ?|0[1-9][0-9]{1,4}[ /\-]{1,3})[0-9][0-9 \-]{3,12}[0-9](?![\w,]|\.[0-9])"
)
_IBAN_HEAD = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}[0-9]{2}(?=[ \-]?[A-Za-z0-9])")
_IBAN_BODY = re.compile(r"(?:[ \-]?[A-Za-z0-9]){11,27}")
_GAP = re.compile(r"[ \-]")
_DIGIT_RUN = re.compile(r"(?<![\w.,])[0-9]{3,19}(?:[ \-][0-9]{3,19}){0,5000}(?![\w])")
_GROUP = re.compile(r"[0-9]+")
_SSN = re.compile(r"(?<![\w\-])(?!000|666|9)[0-9]{3}([ \-])(?!00)[0-9]{2}\1(?!0000)[0-9]{4}(?![\w\-])")
_TAX_ID = re.compile(r"(?<![\w.,+\-])[1-9][0-9](?P<gap> ?)[0-9]{3}(?P=gap)[0-9]{3}(?P=gap)[0-9]{3}(?![\w])")
_SPANISH = re.compile(r"(?<![\w\-])(?:[0-9]{8}|[XYZ]-?[0-9]{7})[ \-]?[A-HJ-NP-TV-Z](?![\w\-])")
_FRENCH = re.compile(
    r"(?<![\w.,+\-])[12] ?[0-9]{2} ?(?:0[1-9]|1[0-2]) ?[0-9]{2} ?[0-9]{3} ?[0-9]{3} ?[0-9]{2}(?![\w])"
)
_MOST_GROUPS = 5
_PHONE_DIGITS = range(8, 16)


def personal_data(*, action: GuardrailAction = "redact") -> Check:
    """Return a check for personal data; a specific kind takes precedence over phones."""

    def check(text: str) -> list[GuardrailFinding]:
        found: list[GuardrailFinding] = []
        taken = bytearray(len(text))
        for kind, (find, score, label) in _FINDERS.items():
            for start, end in find(text):
                if kind != "phone" or not any(taken[start:end]):
                    taken[start:end] = b"\1" * (end - start)
                    found.append(GuardrailFinding(kind, start, end, score, action, f"The text has {label}."))
        return found

    return check


def _spans(pattern: re.Pattern[str]) -> Callable[[str], Iterator[Span]]:
    return lambda text: (match.span() for match in pattern.finditer(text))


def _checked(pattern: re.Pattern[str], is_valid: Callable[[str], bool]) -> Callable[[str], Iterator[Span]]:
    return lambda text: (
        match.span() for match in pattern.finditer(text) if is_valid(re.sub(r"[ \-]", "", match[0]))
    )


def _phones(text: str) -> Iterator[Span]:
    for pattern in (_INTERNATIONAL, _AMERICAN, _NATIONAL):
        for match in pattern.finditer(text):
            if sum(character.isdigit() for character in match[0]) in _PHONE_DIGITS:
                yield match.span()


def _ibans(text: str) -> Iterator[Span]:
    done = 0
    for head in _IBAN_HEAD.finditer(text):
        length = IBAN_LENGTHS.get(head[0][:2].upper())
        body = _IBAN_BODY.match(text, head.end()) if length and head.start() >= done else None
        if length is None or body is None:
            continue
        compact = _GAP.sub("", text[head.start() : body.end()])[:length].upper()
        if iban(compact):
            done = _end_of(text, head.start(), length)
            if not text[done : done + 1].isalnum():
                yield head.start(), done


def _end_of(text: str, start: int, length: int) -> int:
    """Return the end of a number of letters and digits from the start."""
    place = start
    while length:
        length -= text[place].isalnum()
        place += 1
    return place


def _cards(text: str) -> Iterator[Span]:
    for run in _DIGIT_RUN.finditer(text):
        groups = [match.span() for match in _GROUP.finditer(text, *run.span())]
        first = 0
        while first < len(groups):
            digits, size = "", 1
            for last in range(first, min(first + _MOST_GROUPS, len(groups))):
                digits += text[slice(*groups[last])]
                if len(digits) > 19:
                    break
                if len(digits) >= 13 and card_number(digits):
                    yield groups[first][0], groups[last][1]
                    size = last - first + 1
                    break
            first += size


_FINDERS: dict[PersonalDatum, tuple[Callable[[str], Iterator[Span]], float, str]] = {
    "email": (_spans(_EMAIL), 0.95, "an e-mail address"),
    "iban": (_ibans, 0.99, "a bank account number with the right check digits"),
    "credit-card": (_cards, 0.97, "a payment card number with the right check digit"),
    "us-ssn": (_spans(_SSN), 0.8, "what looks like a US social security number"),
    "german-tax-id": (_checked(_TAX_ID, german_tax_id), 0.95, "a German tax id"),
    "spanish-id": (_checked(_SPANISH, spanish_id), 0.95, "a Spanish identity number"),
    "french-id": (_checked(_FRENCH, french_id), 0.95, "a French social security number"),
    "phone": (_phones, 0.7, "what looks like a telephone number"),
}


_LIBRARY = "presidio_analyzer"
_MISSING = (
    "The check 'presidio' needs the package 'presidio-analyzer': pip install 'reactive-agents[presidio]'."
)


def presidio_check(
    *,
    action: GuardrailAction = "redact",
    threshold: float = 0.5,
    entities: Sequence[str] = (),
    load: Callable[[], Any] | None = None,
) -> Result[Check, ServiceFailed]:
    """Return a check by presidio, which runs in a worker thread.

    The first text waits until its language model is loaded.

    Fails with ``ServiceFailed`` when the extra is not installed.

    Args:
        threshold: 0 to 1; findings with a lower score are ignored.
        entities: presidio's names of kinds to find, such as ``PERSON``; all by default.
        load: makes the analyzer; presidio's ``AnalyzerEngine`` by default.
    """
    if load is None and importlib.util.find_spec(_LIBRARY) is None:
        return Failure(ServiceFailed(_MISSING, "guardrail", "check"))
    analyzers: list[Any] = []
    loading = Lock()

    def analyze(text: str) -> list[GuardrailFinding]:
        with loading:
            if not analyzers:
                analyzers.append((load or _load)())
        found = analyzers[0].analyze(
            text=text, language="en", entities=list(entities) or None, score_threshold=threshold
        )
        return [
            GuardrailFinding(
                str(each.entity_type).lower().replace("_", "-"),
                each.start,
                each.end,
                each.score,
                action,
                "The text has personal data by presidio's judgement.",
            )
            for each in found
        ]

    async def check(text: str) -> list[GuardrailFinding]:
        return await anyio.to_thread.run_sync(analyze, text)

    return Success(check)


def _load() -> Any:
    try:
        return importlib.import_module(_LIBRARY).AnalyzerEngine()
    except SystemExit as error:  # it tries to install the language model, and ends the process if that fails
        raise RuntimeError("presidio's language model is not installed") from error
