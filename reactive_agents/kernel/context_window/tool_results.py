"""How tool results are kept and shown: the full text once under a key, a view of it in the prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import frozen
from returns.result import Failure, Result

from reactive_agents.core.config import ContextProfile, ResultCompressionConfig
from reactive_agents.core.json import Json
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.context_window.json_query import compile_query, run_query
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.toolset import RECALL

_SHOWN_EXPRESSION = 40


@frozen
class ResultView:
    """What becomes of a result.

    Attributes:
        shown: what the prompt says of it, within the budget.
        key: where its full text is kept; ``None`` for an error.
        full: the text to keep under the key; ``None`` when there is none, or when it is kept already.
        in_part: whether there is more under the key than is shown.
    """

    shown: str
    key: str | None = None
    full: str | None = None
    in_part: bool = False


def result_text(result: Json) -> str:
    """The full text of a result: a string as it is, anything else as JSON."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


def result_key(tool_name: str, scratchpad: Mapping[str, str], prefix: str = "") -> str:
    """The key of the next result, such as ``file-read-3``; unique within the run."""
    return f"{prefix}{tool_name}-{len(scratchpad) + 1}"


def tool_results(scratchpad: Mapping[str, str]) -> Mapping[str, str]:
    """The tool results among what is stored, without what compaction put there under keys with a colon."""
    if not any(":" in key for key in scratchpad):
        return scratchpad
    return {key: text for key, text in scratchpad.items() if ":" not in key}


def result_budget(profile: ContextProfile, compression: ResultCompressionConfig) -> int:
    """Characters that the prompt shows of one result: the configuration's figure, or the profile's."""
    return compression.budget or min(profile.tool_result_chars, profile.window_tokens)


def view_of(
    result: ToolResult,
    scratchpad: Mapping[str, str],
    profile: ContextProfile,
    compression: ResultCompressionConfig,
    *,
    known_key: str | None = None,
    key_prefix: str = "",
) -> ResultView:
    """How a result is kept and shown. What ``recall`` gave is not kept again: it is kept where it is from.

    Args:
        known_key: where the result of a call that was made before is kept already.
        key_prefix: begins the key of a new one.
    """
    if result.error:
        budget = result_budget(profile, compression)
        return ResultView(preview(result.error, None, budget, head_share=compression.head_share))
    text = result_text(result.result)
    if result.tool_name == RECALL:
        return ResultView(preview(text, None, result_budget(profile, compression)))
    key = known_key or result_key(result.tool_name, scratchpad, key_prefix)
    shown = shown_of(text, key, result.tool_name, profile, compression)
    full = text if known_key is None else None
    return ResultView(shown, key, full, not shown.startswith(text))


def shown_of(
    text: str, key: str, tool_name: str, profile: ContextProfile, compression: ResultCompressionConfig
) -> str:
    """What the prompt shows of a stored text.

    Where the configuration has an expression for the tool, that is what it takes out of the result, as long
    as this is shorter; a note says so, and also when the expression did not fit the result.
    """
    budget = result_budget(profile, compression)
    expression = compression.transform.get(tool_name)
    if expression is None:
        return _preview(text, key, budget, profile, compression)
    transformed = _transformed(expression, text)
    told = expression if len(expression) <= _SHOWN_EXPRESSION else expression[:_SHOWN_EXPRESSION] + "…"
    if isinstance(transformed, Failure):
        note = f"\n[… shown as it is: the transform {told} failed …]"
        return _preview(text, key, budget - len(note), profile, compression) + note
    taken = result_text(transformed.unwrap())
    note = f'\n[… {told} of a result of {len(text)} characters; all of it: recall(key="{key}") …]'
    if len(taken) + len(note) >= len(text):
        return _preview(text, key, budget, profile, compression)
    return preview(
        taken,
        None,
        budget - len(note),
        head_share=compression.head_share,
        list_items=profile.list_items,
    ) + note  # fmt: skip


def _transformed(expression: str, text: str) -> Result[Json, str]:
    return compile_query(expression).bind(lambda query: run_query(query, text))


def _preview(
    text: str, key: str, budget: int, profile: ContextProfile, compression: ResultCompressionConfig
) -> str:
    return preview(text, key, budget, head_share=compression.head_share, list_items=profile.list_items)
