"""Tool calls in any form that models emit: parsing, printing and repair.

Models without native function calling, and those that have it and forget, write their calls as text: in the
tags of their training, as JSON, as code. Without this they would appear to give those texts as answers. What
counts as a call is decided by ``parser`` alone, by rules that err towards prose: a quoted or described call
must never run. What nearly fits its tool is brought to fit by ``repair``, where it is certain what was meant.

What must stay true: parsing and repair are total, linear in the text, and never invent a value; what
``call_format`` prints is parsed as the same call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.kernel.call_parsing.argument_schema import explain_schema, signature
    from reactive_agents.kernel.call_parsing.call_format import CallKeys, format_call
    from reactive_agents.kernel.call_parsing.json_calls import CallForm, ParsedCall, ParsedCalls
    from reactive_agents.kernel.call_parsing.parser import parse_calls
    from reactive_agents.kernel.call_parsing.repair import RepairedCall, repair_call

_HOMES = {
    "explain_schema": "reactive_agents.kernel.call_parsing.argument_schema",
    "signature": "reactive_agents.kernel.call_parsing.argument_schema",
    "CallKeys": "reactive_agents.kernel.call_parsing.call_format",
    "format_call": "reactive_agents.kernel.call_parsing.call_format",
    "CallForm": "reactive_agents.kernel.call_parsing.json_calls",
    "ParsedCall": "reactive_agents.kernel.call_parsing.json_calls",
    "ParsedCalls": "reactive_agents.kernel.call_parsing.json_calls",
    "parse_calls": "reactive_agents.kernel.call_parsing.parser",
    "RepairedCall": "reactive_agents.kernel.call_parsing.repair",
    "repair_call": "reactive_agents.kernel.call_parsing.repair",
}

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

__getattr__ = lazy_names(__name__, _HOMES)
