"""Tool calls in whatever form a model emits them: parsed out of text, printed, healed, and explained."""

from __future__ import annotations

from reactive_agents.kernel.calls.explaining import explain_schema, signature
from reactive_agents.kernel.calls.formatting import CallKeys, format_call
from reactive_agents.kernel.calls.healing import HealedCall, heal_call
from reactive_agents.kernel.calls.parsed import CallForm, ParsedCall, ParsedCalls
from reactive_agents.kernel.calls.parsing import parse_calls

__all__ = [
    "CallForm",
    "CallKeys",
    "HealedCall",
    "ParsedCall",
    "ParsedCalls",
    "explain_schema",
    "format_call",
    "heal_call",
    "parse_calls",
    "signature",
]
