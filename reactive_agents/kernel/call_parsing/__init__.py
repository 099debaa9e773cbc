"""Tool calls in any form that models emit: parsing, printing and repair."""

from __future__ import annotations

from reactive_agents.kernel.call_parsing.argument_schema import explain_schema, signature
from reactive_agents.kernel.call_parsing.call_format import CallKeys, format_call
from reactive_agents.kernel.call_parsing.json_calls import CallForm, ParsedCall, ParsedCalls
from reactive_agents.kernel.call_parsing.parser import parse_calls
from reactive_agents.kernel.call_parsing.repair import RepairedCall, repair_call

__all__ = [
    "CallForm",
    "CallKeys",
    "ParsedCall",
    "ParsedCalls",
    "RepairedCall",
    "explain_schema",
    "format_call",
    "parse_calls",
    "repair_call",
    "signature",
]
