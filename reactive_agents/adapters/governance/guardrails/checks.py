"""What a check is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeAlias

from reactive_agents.core.governance import GuardrailFinding

Findings: TypeAlias = Iterable[GuardrailFinding]
Check: TypeAlias = Callable[[str], Findings | Awaitable[Findings]]
"""Looks at a text and says what it found. Any function will do, such as one around presidio."""
