"""Answers that are tool calls written as text: the calls are run instead."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve
from returns.result import Result, Success

from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import AssistantMessage, ToolCall
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.call_parsing.response_calls import Authorship, may_hold_calls, written_calls
from reactive_agents.kernel.call_parsing.spelled_calls import lone_answer, spelled_answer
from reactive_agents.kernel.clauses import WORD
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window.tool_results import result_text
from reactive_agents.kernel.prompt import shown_texts
from reactive_agents.kernel.reducers import absorb_results, record_actions, with_calls_as_made
from reactive_agents.kernel.state import KernelState, successor
from reactive_agents.kernel.termination import RETURN_DIRECT, proposed_answer
from reactive_agents.kernel.tool_execution import (
    guards_written_calls,
    mark_copied,
    run_calls,
    texts_from_outside,
)
from reactive_agents.kernel.toolset import FINAL_ANSWER, FINAL_ANSWER_TOOL

if TYPE_CHECKING:
    from reactive_agents.core.errors import KernelErrors


NOTHING_CALLED = "No tool was called."
"""Part of the reason of an answer without a call; not where the answer itself was one."""


async def run_embedded_calls(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
    """Run a tool call that is the text of an answer, and return its result instead.

    A call of the ``final-answer`` tool is not run: its answer is extracted. Output that no model wrote, such
    as the result of a tool, contains no calls.
    """
    if state.terminated_by == RETURN_DIRECT:
        return Success(state)
    if state.status != "done" or not state.iteration or state.outcome == "abstained":
        return Success(state)
    form = context.input.answer_form
    if not state.output or (form is not None and form.fits(state.output)):
        return Success(state)
    calls = calls_of_answer(state.output, state, context) if may_hold_calls(state.output) else ()
    if not calls:
        said = (_spelled(state.output, context) or {}).get("answer")
        return Success(evolve(state, output=said) if isinstance(said, str) and said.strip() else state)
    delivered = proposed_answer(calls)
    if delivered is not None or any(call.name == FINAL_ANSWER for call in calls):
        return Success(state if delivered is None else evolve(state, output=delivered.text))
    return await _run(state, context, calls)


def _spelled(output: str, context: KernelContext) -> JsonObject | None:
    """Return an answer spelled as a call; not JSON that was asked for."""
    spelled = spelled_answer(output, whole=True)
    alone = None if spelled else lone_answer(output)
    if alone is None:
        return spelled
    given = context.input
    asked = f"{given.task}\n{given.settings.system_prompt}\n{given.instructions}".casefold()
    return None if "json" in asked else alone


def calls_of_answer(output: str, state: KernelState, context: KernelContext) -> tuple[ToolCall, ...]:
    """Return the calls that an answer makes.

    A call that it shows, as one beside other words, is none of them.
    """
    offered = context.toolset.available(recall=state.transcript.shown_in_part)
    if not any(definition.name == FINAL_ANSWER for definition in offered):
        offered = (*offered, FINAL_ANSWER_TOOL)
    written = written_calls(output, offered, authorship(state, context))
    if WORD.search(written.prose):
        return ()
    return tuple(
        evolve(call, id=CallId(f"embedded-{number}")) for number, call in enumerate(written.calls, 1)
    )


def authorship(state: KernelState, context: KernelContext) -> Authorship:
    """Return the facts that decide whether a call in a text is the model's own."""
    approves = context.approves and context.input.settings.written_calls != "block"
    shown, outside = partial(shown_texts, state, context), partial(texts_from_outside, state, context)
    return Authorship(shown, outside, approves, guards_written_calls(state, context))


def results_of_written_calls(state: KernelState) -> str | None:
    """Return the full results of the last turn, if it was only calls written as text.

    They are for a run that ends before the model has seen the results: such a text is often meant as the
    answer. ``None`` when one of the calls failed, or was made by the provider's protocol.
    """
    turn = next((each for each in reversed(state.messages) if isinstance(each, AssistantMessage)), None)
    if turn is None or not turn.tool_calls or not all(call.written for call in turn.tool_calls):
        return None
    keys = {
        step.call_id: step.result_key
        for step in state.steps[-len(turn.tool_calls) :]
        if step.type == "observation" and step.metadata is not None and step.metadata.success
    }
    found = [state.scratchpad.get(keys.get(call.id) or "") for call in turn.tool_calls]
    return None if None in found else "\n".join(text for text in found if text is not None)


async def _run(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...]
) -> Result[KernelState, KernelErrors]:
    now = context.clock.now()
    made = AssistantMessage("", calls)
    acting = evolve(state, pending=calls, messages=(*state.messages, made))
    calls = mark_copied(state, context, calls)
    for call in calls:
        context.hooks.on_action(state, call)
    # the last turn may have had calls, with keys of their own
    apart = evolve(acting, id=f"{state.id}-answer")
    results = await run_calls(apart, context, calls)
    acting = with_calls_as_made(acting, results)
    observing = evolve(acting, status="observing", results=results, steps=record_actions(acting, now))
    absorbed, shown = absorb_results(observing, context, now)
    await context.hooks.on_observations(state, results, shown)
    return successor(state, _replaced(state, absorbed, results))


def _replaced(before: KernelState, after: KernelState, results: tuple[ToolResult, ...]) -> KernelState:
    """Return the finished state with the results of its calls as output."""
    names = ", ".join(result.tool_name for result in results)
    calls = f"The answer was a call of {names} written as text"
    failed = [result.error for result in results if not result.success]
    ended = evolve(after, status=before.status, terminated_by=before.terminated_by)
    if failed:
        early = f"{before.reason} " if before.outcome == "partial" else ""
        reason = f"{early}{calls}, and it failed: {' '.join(failed)} Missing: an answer."
        return evolve(ended, output=None, outcome="partial", reason=reason)
    given = before.reason.removesuffix(NOTHING_CALLED).rstrip()
    reason = f"{given} {calls}; it was run, and its result is the answer."
    output = "\n".join(result_text(result.result) for result in results)
    return evolve(ended, output=output, outcome=before.outcome, reason=reason)
