"""Reducers: the state after a model's response, and after the results of calls."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime

from attrs import evolve

from reactive_agents.core.ids import CallId, StepId
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from reactive_agents.core.models import ModelResponse
from reactive_agents.core.persistent import PersistentList
from reactive_agents.core.results import ReasoningStep, StepMetadata, StepType
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import ToolDefinition, ToolResult
from reactive_agents.core.usage import RunUsage, total_usage
from reactive_agents.core.values import replaced
from reactive_agents.kernel.context import KernelContext
from reactive_agents.kernel.context_window.token_estimate import TokenEstimate
from reactive_agents.kernel.context_window.tool_results import ResultView, view_of
from reactive_agents.kernel.ledger import LedgerEntry, enter_answer, enter_calls, enter_turn, has_side_effects
from reactive_agents.kernel.open_requirements import requirements_of
from reactive_agents.kernel.state import KernelState, Proposal
from reactive_agents.kernel.termination import proposed_answer, without_repeated_answers
from reactive_agents.kernel.toolset import FINAL_ANSWER, RECALL

_TURN = 0.8
"""Confidence in a turn of which nothing else is known."""
_AFTER_REPAIR = 0.9
"""The factor of that confidence for each repaired call."""
_SHOWN_ARGUMENTS = 2_000
"""Characters of the arguments of an approver that are shown beside a result."""


def new_step(
    state: KernelState,
    offset: int,
    kind: StepType,
    content: str,
    at: datetime,
    metadata: StepMetadata | None = None,
) -> ReasoningStep:
    """Return a new step, ``offset`` places after the last; its id is its position."""
    step_id = StepId(f"{state.id}-{len(state.steps) + offset + 1}")
    return ReasoningStep(step_id, kind, content, at, metadata)


def thought_of(response: ModelResponse) -> str:
    """Return the thought of a turn: its text, else its exposed reasoning."""
    return response.content.strip() or response.thinking.strip()


def with_usage(state: KernelState, parts: Iterable[RunUsage]) -> KernelState:
    """Return the state with the usage of further model calls added."""
    added = tuple(parts)
    return replaced(state, usage=total_usage((state.usage, *added))) if added else state


def absorb_response(
    state: KernelState,
    response: ModelResponse,
    at: datetime,
    estimate: TokenEstimate | None = None,
    *,
    unmade: str = "",
    took_ms: float | None = None,
) -> KernelState:
    """Return the state after a response: its calls are pending, or its text proposed.

    Args:
        estimate: the estimate of the request and of the answer.
        unmade: name of the tool whose call stands in the text, but is not run.
        took_ms: milliseconds of the model call.
    """
    thought, spent, steps = thought_of(response), response.spent, state.steps
    if thought:
        metadata = StepMetadata(
            duration=took_ms,
            cost=sum([part.cost_usd for part in spent]),
            confidence=_confidence_in_turn(response),
        )
        steps = steps.extended([new_step(state, 0, "thought", thought, at, metadata)])
    wanted = _without_known_results(state, without_repeated_answers(response.tool_calls))
    calls = _with_unique_ids(state, wanted) if wanted else ()
    messages = state.messages
    if calls or response.content.strip():
        messages += (AssistantMessage(response.content, calls, response.thinking),)
    return replaced(
        state,
        steps=steps,
        messages=messages,
        iteration=state.iteration + 1,
        usage=total_usage((state.usage, *spent)),
        status="acting" if calls else "thinking",
        ledger=enter_calls(state.ledger, calls) if calls else enter_answer(state.ledger, response.content),
        pending=calls,
        proposal=None
        if calls
        else Proposal(
            response.content, response.finish_reason, unmade=unmade, thought=bool(response.thinking.strip())
        ),
        guidance=(),
        transcript=replaced(state.transcript, estimate=estimate) if estimate else state.transcript,
    )


def _without_known_results(state: KernelState, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the answer alone, if it stands again beside calls that have worked.

    The turn before had the same calls beside an answer, so that the model was shown their results since. The
    policies judge the answer by them. One that only tells what was looked up has to be a new one: the first
    was written before there was anything to tell.
    """
    if len(calls) < 2:
        return calls
    answers = tuple([call for call in calls if call.name == FINAL_ANSWER])
    if len(answers) != 1:
        return calls
    before = {call.fingerprint: call.name for call in calls_of_turn(state).values()}
    others = {call.fingerprint for call in calls if call.name != FINAL_ANSWER}
    same = {fingerprint for fingerprint, name in before.items() if name != FINAL_ANSWER}
    if others != same or len(same) == len(before):
        return calls
    effects, known = state.ledger.counted.effects, state.ledger.answers
    may_count = answers[0].fingerprint not in before or not others.isdisjoint(effects)
    return answers if may_count and all(each in known or each in effects for each in others) else calls


def _confidence_in_turn(response: ModelResponse) -> float:
    repairs = sum([len(call.repairs) for call in response.tool_calls])
    cut_off = response.finish_reason in ("length", "content_filter")
    return _TURN * _AFTER_REPAIR**repairs * (0.5 if cut_off else 1.0)


def _with_unique_ids(state: KernelState, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls with unique ids, by which results are paired."""
    given = {call.id for call in calls}
    known = state.ledger.call_ids
    if len(given) == len(calls) and all(each and each not in known for each in given):
        return calls
    seen = set[CallId]()
    unique = []
    for index, call in enumerate(calls):
        if not call.id or call.id in seen or call.id in known:
            call = evolve(call, id=CallId(f"{call.id or 'call'}-{state.iteration + 1}.{index + 1}"))
        seen.add(call.id)
        unique.append(call)
    return tuple(unique)


def calls_of_turn(state: KernelState) -> Mapping[CallId, ToolCall]:
    """Return the calls of the model's last turn, by their ids."""
    for message in reversed(state.messages):
        if isinstance(message, AssistantMessage):
            return {call.id: call for call in message.tool_calls}
    return {}


def with_calls_as_made(state: KernelState, results: Iterable[ToolResult]) -> KernelState:
    """Return the state in which the last calls have the arguments that approvers gave."""
    given = {each.call_id: each.arguments for each in results if each.arguments is not None}
    if not given:
        return state

    def made(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
        return tuple(call.edited(given[call.id]) if call.id in given else call for call in calls)

    *before, turn = state.messages
    if isinstance(turn, AssistantMessage):
        turn = evolve(turn, tool_calls=made(turn.tool_calls))
    return replaced(state, pending=made(state.pending), messages=(*before, turn))


def record_actions(state: KernelState, at: datetime) -> PersistentList[ReasoningStep]:
    """Return the steps, with an action added for each pending call."""
    steps = []
    for offset, call in enumerate(state.pending):
        metadata = StepMetadata(call.name, call.id, call.repairs)
        steps.append(new_step(state, offset, "action", call.described, at, metadata))
    return state.steps.extended(steps)


def absorb_results(
    state: KernelState, context: KernelContext, at: datetime
) -> tuple[KernelState, tuple[str, ...]]:
    """Return the state after the results, and the shown text of each result."""
    steps: list[ReasoningStep] = []
    messages: list[Message] = []
    entries: list[LedgerEntry] = []
    calls = calls_of_turn(state)
    scratchpad, tools_used, transcript = state.scratchpad, state.tools_used, state.transcript
    required = {requirement.name for requirement, _ in requirements_of(state, context).open}
    usage = state.usage
    for result in state.results:
        if result.usage:
            usage = total_usage((usage, *result.usage))
        call = calls.get(result.call_id) or ToolCall(result.call_id, result.tool_name)
        view = view_of(
            result,
            scratchpad,
            context.profile,
            context.input.settings.compression,
            known_key=state.ledger.answers.get(call.fingerprint) if result.origin == "stored" else None,
            key_prefix=context.input.key_prefix,
        )
        if view.key is not None and view.full is not None:
            scratchpad = scratchpad | {view.key: view.full}
            tools_used = tools_used | {result.tool_name}
        if view.in_part and not transcript.shown_in_part:
            transcript = replaced(transcript, shown_in_part=True)
        definition = context.toolset.definition(call.name)
        metadata = _observation_metadata(result, view, definition)
        shown = f"{_told_of(result)}{view.shown}"
        steps.append(new_step(state, len(steps), "observation", shown, at, metadata))
        is_error = bool(result.error)
        messages.append(ToolMessage(result.call_id, result.tool_name, shown, is_error, result.parts))
        new_text = "" if result.tool_name == RECALL else view.shown  # reading on gathers nothing new
        entries.append(LedgerEntry(call, definition, result, new_text, view.key, call.name in required))
    proposal = proposed_answer(tuple(calls.values()), context.input.answer_form)
    is_turned_down = context.toolset.permits(FINAL_ANSWER) and proposal is not None
    following = replaced(
        state,
        status="thinking",
        steps=state.steps.extended(steps),
        messages=state.messages + tuple(messages),
        scratchpad=scratchpad,
        transcript=transcript,
        tools_used=tools_used,
        usage=usage,
        ledger=state.ledger if is_turned_down else enter_turn(state.ledger, entries),
        pending=(),
        results=(),
    )
    return following, tuple([step.content for step in steps])


def _told_of(result: ToolResult) -> str:
    """Return what the model reads of arguments that an approver changed."""
    if result.arguments is None:
        return ""
    made = shortened(json.dumps(result.arguments, ensure_ascii=False), _SHOWN_ARGUMENTS)
    return f"The person who approved this call changed its arguments to: {made}\n"


def _observation_metadata(
    result: ToolResult, view: ResultView, definition: ToolDefinition | None
) -> StepMetadata:
    worked = not result.error
    return StepMetadata(
        result.tool_name,
        result.call_id,
        (),
        worked,
        result.origin,
        view.key,
        result.duration_ms,
        cost=total_usage(result.usage).cost_usd if result.usage else None,
        has_effect=worked
        and result.origin == "executed"
        and result.ran != ()
        and has_side_effects(definition),
    )
