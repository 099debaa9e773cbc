"""Insults and threats, by a small list of words with how severe each is.

The list is short on purpose and knows English and German only. It has no sense of context: a quotation, a
reclaimed word and a report on hate speech look the same to it, and malice in polite words passes.
"""

from __future__ import annotations

import re

from reactive_agents.adapters.governance.guardrails.checks import Check
from reactive_agents.adapters.governance.guardrails.folding import fold
from reactive_agents.core.governance import GuardrailAction, GuardrailFinding

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
