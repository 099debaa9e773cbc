"""Personal data: addresses and numbers that name one person or one account.

What has check digits is found only when they are right. Texts in which a number is spelt out or broken over
lines are outside of these rules.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

import anyio.to_thread
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.guardrails import checksums
from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding

PersonalDatum: TypeAlias = Literal[
    "email", "phone", "iban", "credit-card", "us-ssn", "german-tax-id", "spanish-id", "french-id"
]
Span: TypeAlias = tuple[int, int]
ALL_KINDS: tuple[PersonalDatum, ...] = get_args(PersonalDatum)

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


def personal_data(
    kinds: Collection[PersonalDatum] = ALL_KINDS, *, action: GuardrailAction = "redact"
) -> Check:
    """Return a check for personal data; a specific kind takes precedence over phones.

    Args:
        kinds: the kinds of data to find.
        action: the reaction to a finding.
    """

    def check(text: str) -> list[GuardrailFinding]:
        found: list[GuardrailFinding] = []
        taken = bytearray(len(text))
        for kind, (find, score, label) in _FINDERS.items():
            for start, end in find(text) if kind in kinds else ():
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
        length = checksums.IBAN_LENGTHS.get(head[0][:2].upper())
        body = _IBAN_BODY.match(text, head.end()) if length and head.start() >= done else None
        if length is None or body is None:
            continue
        compact = _GAP.sub("", text[head.start() : body.end()])[:length].upper()
        if checksums.iban(compact):
            done = _end_of(text, head.start(), length)
            if not text[done : done + 1].isalnum():
                yield head.start(), done


def _end_of(text: str, start: int, length: int) -> int:
    """Where so many letters and digits from the start end."""
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
                if len(digits) >= 13 and checksums.card_number(digits):
                    yield groups[first][0], groups[last][1]
                    size = last - first + 1
                    break
            first += size


_FINDERS: dict[PersonalDatum, tuple[Callable[[str], Iterator[Span]], float, str]] = {
    "email": (_spans(_EMAIL), 0.95, "an e-mail address"),
    "iban": (_ibans, 0.99, "a bank account number with the right check digits"),
    "credit-card": (_cards, 0.97, "a payment card number with the right check digit"),
    "us-ssn": (_spans(_SSN), 0.8, "what looks like a US social security number"),
    "german-tax-id": (_checked(_TAX_ID, checksums.german_tax_id), 0.95, "a German tax id"),
    "spanish-id": (_checked(_SPANISH, checksums.spanish_id), 0.95, "a Spanish identity number"),
    "french-id": (_checked(_FRENCH, checksums.french_id), 0.95, "a French social security number"),
    "phone": (_phones, 0.7, "what looks like a telephone number"),
}


# --- the presidio library -------------------------------------------------------------------------------


_LIBRARY = "presidio_analyzer"
_MISSING = (
    "The check 'presidio' needs the package 'presidio-analyzer': pip install 'reactive-agents[presidio]'."
)


def presidio_check(
    *,
    action: GuardrailAction = "redact",
    threshold: float = 0.5,
    entities: Sequence[str] = (),
    language: str = "en",
    load: Callable[[], Any] | None = None,
) -> Result[Check, ServiceFailed]:
    """Return a check by presidio, which runs in a worker thread.

    The first text waits until its language model is loaded.

    Fails with ``ServiceFailed`` when the extra is not installed.

    Args:
        threshold: 0 to 1; findings with a lower score are ignored.
        entities: presidio's names of kinds to find, such as ``PERSON``; all by default.
        language: the language of the texts, as presidio names it; its language model must be installed.
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
            text=text, language=language, entities=list(entities) or None, score_threshold=threshold
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
    except SystemExit as error:  # it tries to install the language model, and ends the process when it cannot
        raise RuntimeError("presidio's language model is not installed") from error
