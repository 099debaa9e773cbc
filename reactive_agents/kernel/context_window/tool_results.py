"""Tool results: the full text is stored under a key, a preview is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import frozen
from returns.result import Failure

from reactive_agents.core.config import ContextProfile, ResultCompressionConfig
from reactive_agents.core.json import Json
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.values import Value
from reactive_agents.kernel.context_window.previews import compile_query, preview, run_query
from reactive_agents.kernel.toolset import RECALL

_SHOWN_EXPRESSION = 41  # with the ellipsis


@frozen(eq=False, repr=False)
class ResultView(Value):
    """The stored and shown forms of a result.

    Attributes:
        shown: its text in the prompt, within the budget.
        key: the key of its full text; ``None`` for an error.
        full: the text to store under the key; ``None`` when there is none, or when it is stored already.
        in_part: whether the stored text is longer than the shown one.
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


def tool_of(key: str) -> str:
    """Return the tool of a result's key.

    >>> tool_of("turn3.billing.file-read-3")
    'file-read'
    """
    return key.rpartition(".")[2].rpartition("-")[0]


def tool_results(scratchpad: Mapping[str, str]) -> Mapping[str, str]:
    """Return the stored tool results, without texts that compaction stored."""
    if ":" not in "".join(scratchpad):
        return scratchpad
    return {key: text for key, text in scratchpad.items() if ":" not in key}


def result_budget(profile: ContextProfile, compression: ResultCompressionConfig) -> int:
    """Return the maximum characters of one result in the prompt."""
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
    """Return the forms of a result; results of ``recall`` are not stored again.

    Args:
        known_key: the key of an earlier result of the same call.
        key_prefix: the prefix of a new key.
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
    """Return the shown form of a stored text.

    Where the configuration has an expression for the tool, its result is shown if that is shorter; a note
    reports it, and also that an expression did not match.
    """
    budget = result_budget(profile, compression)
    expression = compression.transform.get(tool_name)
    if expression is None:
        return _preview(text, key, budget, profile, compression)
    transformed = compile_query(expression).bind(lambda query: run_query(query, text))
    told = shortened(expression, _SHOWN_EXPRESSION)
    if isinstance(transformed, Failure):
        note = f"\n[… shown as it is: the transform {told} failed …]"
        return _preview(text, key, budget - len(note), profile, compression) + note
    taken = result_text(transformed.unwrap())
    note = f'\n[… {told} of a result of {len(text)} characters; all of it: recall(key="{key}") …]'
    if len(taken) + len(note) >= len(text):
        return _preview(text, key, budget, profile, compression)
    return _preview(taken, None, budget - len(note), profile, compression) + note


def _preview(
    text: str, key: str | None, budget: int, profile: ContextProfile, compression: ResultCompressionConfig
) -> str:
    return preview(text, key, budget, head_share=compression.head_share, list_items=profile.list_items)
