"""What a check is, and how the spans that checks found are taken out of a text."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

from attrs import evolve

from reactive_agents.core.governance import GuardrailFinding

Findings: TypeAlias = Iterable[GuardrailFinding]
Check: TypeAlias = Callable[[str], Findings | Awaitable[Findings]]
"""Looks at a text and says what it found. Any function will do, such as one around presidio."""


def within(finding: GuardrailFinding, text: str) -> GuardrailFinding:
    """The finding with its span held inside the text and its score inside of 0 to 1."""
    start = min(max(finding.start, 0), len(text))
    end = min(max(finding.end, start), len(text))
    return evolve(finding, start=start, end=end, score=min(max(finding.score, 0.0), 1.0))


def redact(text: str, findings: Sequence[GuardrailFinding]) -> str:
    """The text with every span replaced by its category in brackets; spans that overlap become one.

    >>> redact("write to a@b.org!", [GuardrailFinding("email", 9, 16, 1.0, "redact")])
    'write to [email]!'
    """
    kept: list[str] = []
    done = 0
    open_span: GuardrailFinding | None = None
    for finding in sorted(findings, key=lambda each: (each.start, -each.end)):
        if finding.start >= finding.end:
            continue
        if open_span is not None and finding.start < open_span.end:
            open_span = evolve(open_span, end=max(open_span.end, finding.end))
            continue
        if open_span is not None:
            kept += (text[done : open_span.start], f"[{open_span.category}]")
            done = open_span.end
        open_span = finding
    if open_span is not None:
        kept += (text[done : open_span.start], f"[{open_span.category}]")
        done = open_span.end
    return "".join((*kept, text[done:]))
