"""The type of checks, and checks of length, topics and toxicity."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeAlias

from reactive_agents.adapters.governance.guardrails.text_folding import fold, folded_pattern
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding

Findings: TypeAlias = Iterable[GuardrailFinding]
Check: TypeAlias = Callable[[str], Findings | Awaitable[Findings]]
"""Looks at a text and says what it found. Any function will do, such as one around presidio."""


# --- length and topics ----------------------------------------------------------------------------------


def length_limit(characters: int, *, action: GuardrailAction = "block") -> Check:
    """Return a check of the maximum length of a text; the excess is the finding."""

    def check(text: str) -> list[GuardrailFinding]:
        if len(text) <= characters:
            return []
        detail = f"The text has {len(text)} characters, more than {characters}."
        return [GuardrailFinding("length", characters, len(text), 1.0, action, detail)]

    return check


def allowed_topics(
    topics: Mapping[str, Collection[str]], *, action: GuardrailAction = "block", least_words: int = 4
) -> Check:
    """A check that a text has a word of one of the topics at least.

    Args:
        topics: the words of each topic; each stands for every word that begins with it.
        least_words: shorter texts, such as a greeting, may pass.
    """
    words = sorted({folded_pattern(word.lower()) for of_topic in topics.values() for word in of_topic})
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, words)) + ")") if words else None
    detail = f"The text is about none of the topics {', '.join(sorted(topics))}."

    def check(text: str) -> list[GuardrailFinding]:
        if len(text.split(maxsplit=least_words)) < least_words:
            return []
        if pattern is not None and pattern.search(fold(text).text):
            return []
        return [GuardrailFinding("off-topic", 0, len(text), 0.6, action, detail)]

    return check


# --- toxicity: a small list of words with their severity ------------------------------------------------


_SEVERITY: tuple[tuple[float, str], ...] = (
    (0.95, r"kill yourself|kys|i(?:'ll| will| am going to|'m going to) (?:kill|murder|rape|hurt|stab|shoot"
     r") (?:you|her|him|them)"),
    (0.95, r"(?:you|they) (?:should|deserve to) (?:die|be killed|be raped)|go (?:and )?die|bring dich um|v"
     r"errecke"),
    (0.9, r"ich (?:bringe?|mach|stech) (?:dich|euch) (?:um|kalt|ab)|gas the \w{2,12}|subhumans?|untermensc"
     r"h(?:en)?"),
    (0.75, r"(?:you(?:'re| are)?|du|ihr)(?: \w{1,9}){0,3} (?:piece of shit|scum|whore|slut|bitch|cunt|reta"
     r"rd|vermin|hurensohn|abschaum)"),
    (0.7, r"fuck (?:you|off)|fick dich|motherfuckers?|hurensohn|missgeburt|wichser|arschloch"),
    (0.6, r"(?:you(?:'re| are)|du bist)(?: (?:such|a|an|all|so|just|ein|eine|nur|total))*? (?:idiots?|moro"
     r"ns?|imbeciles?|worthless|pathetic|disgusting|idiot|vollidiot|dumm|wertlos)"),
    (0.3, r"shit|fuck(?:ing|ed)?|damn|crap|asshole|bastard|bitch|scheisse|verdammt"),
)  # fmt: skip
_PATTERNS = tuple((severity, re.compile(rf"\b(?:{words})\b")) for severity, words in _SEVERITY)


def toxicity(*, action: GuardrailAction = "block", threshold: float = 0.6) -> Check:
    """A check for insults and threats.

    Args:
        action: what is to be done from the threshold on; milder words are warnings.
        threshold: 0 to 1; 0.3 are swear words, 0.6 insults, 0.9 threats.
    """

    def check(text: str) -> list[GuardrailFinding]:
        plain = fold(text)
        return [
            GuardrailFinding(
                "toxicity",
                *plain.span(*match.span()),
                severity,
                action if severity >= threshold else "warn",
                f"The text has words of severity {severity:g}.",
            )
            for severity, pattern in _PATTERNS
            for match in pattern.finditer(plain.text)
        ]

    return check
