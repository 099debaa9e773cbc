"""Arguments of high-risk calls that were copied from texts of strangers.

A page cannot call a tool, but it can hold the address or the command that the model then passes to one. Such
an argument is marked with its source; the setting ``untrusted_arguments`` says what is done about the call.
"""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve

from reactive_agents.core.messages import ToolCall, UserMessage
from reactive_agents.core.tools import ASK_USER
from reactive_agents.kernel.call_parsing.response_calls import needs_care
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window.tool_results import tool_of
from reactive_agents.kernel.state import KernelState


def mark_copied(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...]
) -> tuple[ToolCall, ...]:
    """Return the calls; those of high risk say which arguments were copied."""
    if not any(_is_risky(call, context) for call in calls):
        return calls
    from reactive_agents.kernel.call_parsing.shown_calls import copied_arguments

    sources = _sources(state, context)
    answers = [sources.pop(key) for key in _answers(sources, context)]
    trusted = [context.input.asked, context.input.settings.system_prompt, *answers]
    return tuple(
        evolve(call, copied=copied_arguments(call.arguments, trusted, sources))
        if _is_risky(call, context)
        else call
        for call in calls
    )


def call_needs_approval(call: ToolCall, context: KernelContext) -> bool:
    """Return whether a call needs approval for how it came about, whatever its tool."""
    definition = context.toolset.definition(call.name)
    if call.written and (definition is None or needs_care(definition)):
        return True
    return bool(call.copied) and context.input.settings.asks_about_copied(approves=context.approves)


def why_blocked(call: ToolCall, context: KernelContext) -> str | None:
    """Return why a call with copied arguments is not run, or ``None``."""
    if not call.copied or context.input.settings.untrusted_arguments != "block":
        return None
    return f"Not run: {' '.join(call.copied)} Arguments from outside are not passed to this tool."


def _is_risky(call: ToolCall, context: KernelContext) -> bool:
    definition = context.toolset.definition(call.name)
    return definition is not None and (definition.risk == "high" or definition.requires_approval)


def _answers(sources: Mapping[str, str], context: KernelContext) -> list[str]:
    """Return the keys of results that are the user's own words: answers."""
    asking = context.toolset.definition(ASK_USER)
    if asking is None or not asking.external:
        return []
    return [key for key in sources if tool_of(key) == ASK_USER]


def _sources(state: KernelState, context: KernelContext) -> dict[str, str]:
    """Return the texts of strangers by the names of their sources."""
    notes = [
        message.content
        for message in context.prefix
        if isinstance(message, UserMessage) and message.content != context.input.asked
    ]
    found = {key: text for key, text in state.scratchpad.items() if ":" not in key}
    return found | ({"recalled notes": "\n".join(notes)} if notes else {})
