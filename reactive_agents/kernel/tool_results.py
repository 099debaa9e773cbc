"""How tool results are kept and shown: the full text once under a key, a view of it in the prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping

from reactive_agents.core.config import ContextProfile, ResultCompressionConfig
from reactive_agents.core.json import Json


def result_text(result: Json) -> str:
    """The full text of a result: a string as it is, anything else as JSON."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def result_key(tool_name: str, scratchpad: Mapping[str, str]) -> str:
    """The key of the next result, such as ``file-read-3``; unique within the run."""
    return f"{tool_name}-{len(scratchpad) + 1}"


def preview(text: str, key: str | None, profile: ContextProfile, compression: ResultCompressionConfig) -> str:
    """What the prompt shows of a result: all of it within the budget, else head, tail and what is missing.

    Args:
        key: where the full text is stored; ``None`` for an error, which is not.
    """
    budget = compression.budget or profile.tool_result_chars
    if len(text) <= budget:
        return text
    head = int(budget * compression.head_share)
    tail = budget - head
    left_out = len(text) - budget
    stored = f"; the full result is stored as {key}" if key else ""
    note = f"\n[… {left_out} of {len(text)} characters left out{stored} …]\n"
    return text[:head] + note + (text[-tail:] if tail else "")
