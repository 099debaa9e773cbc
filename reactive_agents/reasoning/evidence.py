"""What the tools of a strategy's passes gave, as text for a prompt."""

from __future__ import annotations

from reactive_agents.core.steps import ReasoningStep
from reactive_agents.kernel.previews import preview
from reactive_agents.kernel.toolset import RECALL
from reactive_agents.reasoning.progress import Progress

LEAST_SHOWN = 200
"""Characters that each observation gets at least; where that is too much for all, the oldest are left out."""


def evidence(progress: Progress, budget: int) -> str:
    """The calls with what they gave, or why they failed, oldest first; empty when no tool was called.

    What ``recall`` gave is left out: it is part of another result.

    Args:
        budget: characters of results that are shown, shared evenly.
    """
    calls = {_call_id(step): step.content for step in progress.steps if step.type == "action"}
    seen = [step for step in progress.steps if step.type == "observation" and _tool(step) != RECALL]
    shown = seen[-max(1, budget // LEAST_SHOWN) :]
    share = max(LEAST_SHOWN, budget // max(1, len(shown)))
    entries = [_entry(step, calls.get(_call_id(step), ""), progress, share) for step in shown]
    left_out = len(seen) - len(shown)
    if left_out:
        entries.insert(0, f"[{left_out} earlier results are left out]")
    return "\n".join(entries)


def _entry(step: ReasoningStep, call: str, progress: Progress, share: int) -> str:
    known = step.metadata
    key = known.result_key if known is not None else None
    text = step.content if key is None else progress.tool_results.get(key, step.content)
    verb = "failed" if known is not None and known.success is False else "gave"
    return f"{preview(call, None, LEAST_SHOWN) or _tool(step)} {verb}: {preview(text, key, share)}"


def _tool(step: ReasoningStep) -> str:
    return (step.metadata.tool_used or "") if step.metadata is not None else ""


def _call_id(step: ReasoningStep) -> str:
    return (step.metadata.call_id or "") if step.metadata is not None else ""
