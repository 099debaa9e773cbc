"""Execution of a turn's tool calls, and the refusal of those that are not run.

A call is screened before it is run. A call that was made before gets the stored result. One that would take
effect a second time, or that the task does not ask for, is questioned. One over its limit is refused, with
what to do instead. The others run concurrently, each within the time of the run. A failed call is a result
too: nothing that a tool does ends the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Never

from attrs import evolve
from returns.result import Result, Success

from reactive_agents.core import errors
from reactive_agents.core.content import said_and_quoted
from reactive_agents.core.conversation import History
from reactive_agents.core.messages import ToolCall, ToolMessage, UserMessage
from reactive_agents.core.texts import counted, words_of
from reactive_agents.core.tools import ASK_USER, CallOrigin, ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import BrokenContract, attempt_foreign, effect, gather
from reactive_agents.kernel.announcements import act_of, is_reading, read_clause, sign_of
from reactive_agents.kernel.call_parsing.argument_schema import explain_schema
from reactive_agents.kernel.call_parsing.response_calls import MOST_CALLS, needs_care
from reactive_agents.kernel.clauses import WORD, begins_with, forbidden_in, may_act, only_asks, only_limits
from reactive_agents.kernel.context import KernelContext, Provenance
from reactive_agents.kernel.context_window.previews import preview
from reactive_agents.kernel.context_window.tool_results import tool_of, tool_results
from reactive_agents.kernel.evidence import Seen, unsupported_figures
from reactive_agents.kernel.ledger import has_side_effects, takes_effect_again
from reactive_agents.kernel.open_requirements import (
    OpenRequirements,
    allowance,
    describe_open,
    failures_allowed,
    first_calls,
    how_to_deliver,
    requirements_of,
)
from reactive_agents.kernel.prompt import shown_texts
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import FINISHING_S, in_time, refused_answer, seconds_left
from reactive_agents.kernel.toolset import FINAL_ANSWER, RECALL
from reactive_agents.ports import ToolService

TWICE_IN_ONE_TURN = "Not run: the same call stands in this turn already, and is run once."
_SHOWN_OF_FIRST = 600
"""Characters of the first result that are shown in place of a second call."""
ONE_AT_A_TIME = "Not run: only one call a turn is run here. Make this call in the next turn if it is needed."
TOO_MANY = (
    f"Not run: only the first {MOST_CALLS} calls of a turn are run. Make this call, and those after it, in "
    "the next turn if they are needed."
)


def screen_calls(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...]
) -> tuple[ToolResult | None, ...]:
    """Return a result for each call that is not run, and ``None`` for the others.

    A call that was made before gets the stored result, as long as nothing has happened that could have
    changed it. A call over the limit of its tool is refused, unless the tool delivers the output.
    """
    before, made = state.ledger.counted.attempts, dict[str, int]()
    running: list[ToolCall] = []
    screened: list[ToolResult | None] = []
    for index, call in enumerate(calls):
        answer = refused(call, TOO_MANY) if index >= MOST_CALLS else None
        if answer is None and call.name != FINAL_ANSWER:
            again = made.get(call.name, 0)
            times = before.get(call.name, 0) + again
            answer = _answer(state, context, call, times, running)
            if answer is None:
                made[call.name] = again + 1
                running.append(call)
        screened.append(answer)
    return tuple(screened)


def _answer(
    state: KernelState, context: KernelContext, call: ToolCall, made: int, running: Sequence[ToolCall]
) -> ToolResult | None:
    """Return why a call is not run, or ``None``.

    Args:
        made: number of earlier calls of its tool.
        running: the calls before it that are run."""
    stored = _stored_text(state, context, call, running)
    if stored is not None:
        return ToolResult(call.id, call.name, stored, origin="stored")
    definition = context.toolset.definition(call.name)
    questioned = (
        _not_the_first(state, context, call, definition, running)
        or _repeated_effect(state, context, call, definition, running)
        or _too_early(state, context, call, definition)
        or _not_asked_for(state, context, call, definition)
    )
    if questioned is not None:
        return questioned
    limit = allowance(call.name, context.call_limits, context.toolset)
    total = context.input.settings.budget.tool_calls
    if total is not None and call.name != RECALL:
        beside = sum(each.name != RECALL for each in running)
        if _calls_of_run(state) + beside >= total:
            return refused(call, no_calls_left(context))
    if made >= limit:
        calls = "1 call" if limit == 1 else f"{limit} calls"
        deliver = how_to_deliver(state, context, requirements_of(state, context))
        return refused(call, f"Not run: the budget of {calls} for {call.name} is used up. {deliver}")
    failures = state.ledger.counted.failed_in_a_row.get(call.name, 0)
    if failures >= failures_allowed(call.name, context.toolset):
        deliver = how_to_deliver(state, context, requirements_of(state, context))
        failed = f"{call.name} failed {counted(failures, 'time')} in a row and is not called again"
        return refused(call, f"Not run: {failed}. Do without it, and say what is missing. {deliver}")
    if running and not context.input.settings.parallel_tool_calls:
        return refused(call, ONE_AT_A_TIME)
    return None


def _calls_of_run(state: KernelState) -> int:
    """Return the calls of the run; without an account, those of this kernel."""
    if state.run_calls is not None:
        return state.run_calls
    attempts = state.ledger.counted.attempts
    return sum(attempts.values()) - attempts.get(RECALL, 0)


def no_calls_left(context: KernelContext) -> str:
    """Return why no tool may be called any more; empty without a limit of all calls."""
    total = context.input.settings.budget.tool_calls
    return "" if total is None else f"The limit of {counted(total, 'tool call')} was reached."


def _stored_text(
    state: KernelState, context: KernelContext, call: ToolCall, running: Sequence[ToolCall]
) -> str | None:
    """The result of the same call, if it still holds."""
    key = state.ledger.answers.get(call.fingerprint)
    if key is None or any(has_side_effects(context.toolset.definition(each.name)) for each in running):
        return None
    return None if _is_wanted_again(state, context, call) else state.scratchpad.get(key)


def _not_the_first(
    state: KernelState,
    context: KernelContext,
    call: ToolCall,
    definition: ToolDefinition | None,
    running: Sequence[ToolCall],
) -> ToolResult | None:
    """Return the result of a call that the model makes before that of ``tool_choice``."""
    first = first_calls(state, context)
    if not first or definition is None or not state.iteration:
        return None
    if any(each.name in first for each in (call, *running)):
        return None
    return refused(call, f"Not run: a call of {' or '.join(sorted(first))} has to come first.")


def _repeated_effect(
    state: KernelState,
    context: KernelContext,
    call: ToolCall,
    definition: ToolDefinition | None,
    running: Sequence[ToolCall],
) -> ToolResult | None:
    """Return the result of a call that would have its effect a second time.

    The model is shown the first result, and may make the call again on purpose, without an answer beside it.
    A call that no model made gets the first result.
    """
    if definition is None or not takes_effect_again(definition):
        return None
    if any(each.fingerprint == call.fingerprint for each in running):
        return refused(call, TWICE_IN_ONE_TURN)
    key = state.ledger.counted.effects.get(call.fingerprint)
    beside_answer = any(each.name == FINAL_ANSWER for each in state.pending)
    is_meant = call.fingerprint in state.ledger.questioned and not beside_answer
    if key is None or is_meant or _is_wanted_again(state, context, call):
        return None
    first = state.scratchpad.get(key, "")
    if not state.iteration:
        return ToolResult(call.id, call.name, first, origin="stored")
    result = preview(first, key or None, _SHOWN_OF_FIRST)
    return refused(
        call,
        f"Not run again: the same call was made before, and its result was: {result}\n"
        "It is done. Only if it is to be done a second time, make the same call once more"
        f"{f', without {FINAL_ANSWER} beside it' if beside_answer else ''}.",
    )


def _too_early(
    state: KernelState, context: KernelContext, call: ToolCall, definition: ToolDefinition | None
) -> ToolResult | None:
    """Return the result of a required call whose effect comes too early.

    While required look-ups are open, that is a delivery, or a call that changes something with arguments that
    the model was not shown. The model may make the call again if it needs none of the look-ups.
    """
    if not has_side_effects(definition) or call.fingerprint in state.ledger.questioned:
        return None
    now = requirements_of(state, context)
    if not any(each.name == call.name for each, _ in now.open):
        return None
    toolset = context.toolset
    delivers = toolset.delivers(call.name)
    later = toolset.delivers if delivers else lambda name: has_side_effects(toolset.definition(name))
    first = OpenRequirements(tuple(each for each in now.open if not later(each[0].name)))
    if not first.open or (not delivers and _was_shown(call, state, context)):
        return None
    does = "delivers the result" if delivers else "has an effect"
    return refused(call, f"Not run: it {does}, and this is still required first: {describe_open(first)}.")


def _not_asked_for(
    state: KernelState, context: KernelContext, call: ToolCall, definition: ToolDefinition | None
) -> ToolResult | None:
    """Return the result of a call with an effect that the task does not want.

    That is the case if the task only asks a question and forbids something. The model may make the call once
    more. A call in a text may be an example where the task forbids something, until a call has acted; with
    words beside it that announce nothing, it is not run at all. It is run at once where the task begins with
    the tool's verb, and forbids no call.
    """
    if definition is None or not state.iteration:
        return None
    task, is_again = context.input.to_do, call.fingerprint in state.ledger.questioned
    act, forbidden = act_of(definition.description), forbidden_in(task) if call.written else ""
    if forbidden and not is_reading(act) and not _has_acted(state, context):
        said = state.messages[-1].content if state.messages else ""
        is_meant = begins_with(task, act) or (is_again and sign_of(read_clause(said), set(), task) == "plain")
        if (is_again and not WORD.search(said)) or (is_meant and only_limits(forbidden, act)):
            return None
        how = "If it needs this call, make it once more, without other words."
        return refused(call, f"Not run: the task says what not to do. {how}")
    only = not is_again and has_side_effects(definition)
    if not (only and only_asks(task, call.name, definition.description)):
        return None
    return refused(
        call,
        "Not run: it has an effect, and the task only asks something and says what not to do. Only if the "
        "task needs it, make the same call once more.",
    )


def _has_acted(state: KernelState, context: KernelContext) -> bool:
    """Return whether a tool was run that does more than look something up."""
    made = map(context.toolset.definition, state.ledger.counted.attempts)
    return any(each is not None and may_act(each) for each in made)


def _was_shown(call: ToolCall, state: KernelState, context: KernelContext) -> bool:
    """Return whether the arguments rest on the task and on results."""
    given = " ".join(str(value) for value in call.arguments.values())
    seen = Seen(context.input.asked, shown_texts(state, context))
    words, known = words_of(given), set(words_of("\n".join((seen.task, *seen.results))))
    return 2 * sum(word in known for word in words) >= len(words) and not unsupported_figures(given, seen)


def _is_wanted_again(state: KernelState, context: KernelContext, call: ToolCall) -> bool:
    """Return whether the same call has to be made again for a requirement."""
    return not call.arguments and any(
        requirement.name == call.name for requirement, _ in requirements_of(state, context).open
    )


def refused(call: ToolCall, error: str) -> ToolResult:
    """Return the result of a refused call, with its message for the model."""
    return ToolResult(call.id, call.name, error=error, origin="refused")


# --- Running the tool calls of a turn ---


NO_TOOL_SERVICE = (
    "Not run: this agent has no tools. Answer from what is known, and say what could not be found out."
)
NO_TIME = "Not run: the time limit of the run was reached."
CUT_OFF = "Cut off at the time limit of the run; it may have taken effect."
CUT_OFF_WITH_RUN = "Cut off with the run; it may have taken effect."
IN_DOUBT = (
    "It may have taken effect. Find out whether it did before making it again; where that is not possible, "
    "report it."
)
"""The advice on a call that did not end in time."""


async def run_calls(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...]
) -> tuple[ToolResult, ...]:
    """Run the screened calls concurrently; return a result each, in their order.

    The end of each call is published when it ends, whatever the calls beside it do.
    """
    screened = screen_calls(state, context, calls)
    waiting = []
    for index, answer in enumerate(screened):
        if answer is None:
            waiting.append(index)
        else:
            await context.hooks.on_result(answer)
    if len(waiting) == 1:
        result = await _run_call(state, context, calls, waiting[0])
        await context.hooks.on_result(result)
        results = iter([result])
    else:
        ran = await gather([_run_beside(state, context, calls, index) for index in waiting])
        results = iter([each.unwrap() for each in ran])
    return tuple([next(results) if answer is None else answer for answer in screened])


@effect
async def _run_beside(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...], index: int
) -> Result[ToolResult, Never]:
    result = await _run_call(state, context, calls, index)
    await context.hooks.on_result(result)
    return Success(result)


async def _run_call(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...], index: int
) -> ToolResult:
    """Run one call of a turn within the deadline of the run.

    The tool service ends it at the deadline, since it knows whether the tool ran; it is cancelled when the
    service does not. Without a tool service it is refused.
    """
    call = calls[index]
    if call.name == FINAL_ANSWER and context.toolset.permits(FINAL_ANSWER):
        return refused_answer(call, calls)
    if call.name == RECALL and state.transcript.shown_in_part:
        from reactive_agents.kernel.context_window.recall import recall  # imported by runs with long results

        return recall(call, state.scratchpad, context.profile, context.input.settings.compression)
    service, seconds = context.tools.value_or(None), seconds_left(context)
    if service is None:
        return refused(call, NO_TOOL_SERVICE)
    started = context.clock.monotonic()
    reason = _why_not_run(call, state, context, service, seconds)
    if reason is not None:
        return refused(call, reason)
    scope, approver = _scope(state, context, call, index), context.approver.value_or(None)
    running = attempt_foreign(service.execute, ToolResult, call, scope, approver)
    result = await in_time(running, seconds + FINISHING_S / 2)
    elapsed_ms = (context.clock.monotonic() - started) * 1000
    if not isinstance(result, Success):
        return _without_result(call, context, service, result, elapsed_ms)
    made: ToolResult = result.unwrap()
    is_untimed = made.error and made.origin in ("executed", "in_doubt") and not made.duration_ms
    return evolve(made, duration_ms=elapsed_ms) if is_untimed else made


def _why_not_run(
    call: ToolCall, state: KernelState, context: KernelContext, service: ToolService, seconds: float
) -> str | None:
    """Return why a call is not passed on to the tool service, or ``None``."""
    has_recorded = getattr(service, "has_recorded", None)  # a call that an earlier version could make
    if not context.toolset.permits(call.name) and not (has_recorded and has_recorded(call.name)):
        offered = context.toolset.available(recall=state.transcript.shown_in_part)
        known = tuple(definition.name for definition in offered)
        return errors.ToolNotFound(call.name, known).message
    return NO_TIME if seconds <= 0 else why_blocked(call, context)


def _without_result(
    call: ToolCall,
    context: KernelContext,
    service: ToolService,
    ended: Result[ToolResult, errors.ToolErrors] | BrokenContract | None,
    elapsed_ms: float,
) -> ToolResult:
    """Return the result of a call that failed, or was cut off where it is ``None``."""
    origin: CallOrigin = "executed"
    if ended is None:
        error, is_late = CUT_OFF, True
    elif isinstance(ended, BrokenContract):
        error, is_late = f"The tool service {type(service).__name__} {ended.problem}", False
    else:
        failure = ended.failure()
        if isinstance(failure, errors.BudgetUnavailable):
            return refused(call, f"Not run: {failure.message}")
        error = _explained(call, context, failure)
        is_late = isinstance(failure, errors.ToolTimedOut) and failure.timeout_s > 0
        origin = "declined" if isinstance(failure, errors.ToolNotApproved) else origin
    if is_late and may_have_acted(context.toolset.definition(call.name)):
        error, origin = error if error == CUT_OFF else f"{error} {IN_DOUBT}", "in_doubt"
    return ToolResult(call.id, call.name, error=error, duration_ms=elapsed_ms, origin=origin)


def may_have_acted(tool: ToolDefinition | None) -> bool:
    """Return whether a call that did not end in time may have taken effect.

    Not that of a tool described as a look-up: those of an MCP server have a risk also where they only read.
    """
    if tool is None or not takes_effect_again(tool):
        return False
    from reactive_agents.kernel.ordered_acts import only_looks  # its tables are large

    return not only_looks(tool)


def _explained(call: ToolCall, context: KernelContext, error: errors.ToolErrors) -> str:
    """Return the message for the model; for invalid arguments with the signature."""
    if isinstance(error, errors.ToolTimedOut) and seconds_left(context) <= 0:
        return CUT_OFF if error.timeout_s > 0 else NO_TIME
    definition = context.toolset.definition(call.name)
    if definition is None or not isinstance(error, errors.InvalidToolArguments):
        return error.message
    return explain_schema(definition, error.message)


def call_key(state: KernelState, index: int) -> str:
    """Return the key of a pending call, unique within its run."""
    return f"{state.id}-{state.iteration}.{index}"


def _scope(state: KernelState, context: KernelContext, call: ToolCall, index: int) -> ToolScope:
    run = context.input
    shown = context.toolset.prepared.get(call.name)
    return ToolScope(
        run.run_id,
        run.task_id,
        run.agent_id,
        run.session_id,
        call_key(state, index),
        run.deadline,
        call_needs_approval(call, state, context),
        parameters=None if shown is None else shown.parameters,
    )


# --- Arguments of high-risk calls that were copied from texts of strangers ---
# A page cannot call a tool, but it can hold the address or the command that the model then passes to one.
# Such an argument is marked with its source; the setting ``untrusted_arguments`` says what is done about
# the call.


def mark_copied(
    state: KernelState, context: KernelContext, calls: tuple[ToolCall, ...]
) -> tuple[ToolCall, ...]:
    """Return the calls; those of high risk say which arguments were copied."""
    risky = {index for index, call in enumerate(calls[:MOST_CALLS]) if _is_risky(call, context)}
    if not risky:
        return calls
    from reactive_agents.kernel.call_parsing.shown_calls import copied_arguments

    shown = (_shown(state, context), *context.callers())
    return tuple(
        evolve(call, copied=copied_arguments(call.arguments, shown)) if index in risky else call
        for index, call in enumerate(calls)
    )


def texts_from_outside(state: KernelState, context: KernelContext) -> tuple[str, ...]:
    """Return the tool results and notes that are not the user's own words."""
    return tuple(_shown(state, context, with_answers=False).sources.values())


def call_needs_approval(call: ToolCall, state: KernelState, context: KernelContext) -> bool:
    """Return whether a call of any tool needs approval because of its origin."""
    if call.written:
        definition = context.toolset.definition(call.name)
        if definition is None or needs_care(definition) or guards_written_calls(state, context):
            return True
    return bool(call.copied) and context.input.settings.asks_about_copied(approves=context.approves)


def guards_written_calls(state: KernelState, context: KernelContext) -> bool:
    """Return whether a written call of any tool runs only with approval."""
    policy = context.input.settings.written_calls
    return policy == "block" or (policy == "ask" and bool(texts_from_outside(state, context)))


def why_blocked(call: ToolCall, context: KernelContext) -> str | None:
    """Return why a call with copied arguments is not run, or ``None``."""
    if not call.copied or context.input.settings.untrusted_arguments != "block":
        return None
    return f"Not run: {' '.join(call.copied)} Arguments from outside are not passed to this tool."


def _is_risky(call: ToolCall, context: KernelContext) -> bool:
    definition = context.toolset.definition(call.name)
    return definition is not None and (definition.risk == "high" or definition.requires_approval)


def _shown(state: KernelState, context: KernelContext, *, with_answers: bool = True) -> Provenance:
    given, asking = context.input, context.toolset.definition(ASK_USER)
    own = {given.asked, *(message.content for message in given.history.messages)}
    notes = [
        message.content
        for message in context.prefix
        if isinstance(message, UserMessage) and message.content not in own
    ]
    return provenance(
        given.asked,
        given.settings.system_prompt,
        given.history,
        state.scratchpad,
        "\n".join(notes),
        context.documents(),
        asks_user=asking is not None and asking.external,
        with_answers=with_answers,
    )


def provenance(
    task: str,
    instructions: str | None,
    history: History,
    results: Mapping[str, str],
    notes: str,
    documents: Sequence[str],
    *,
    asks_user: bool,
    with_answers: bool = True,
) -> Provenance:
    """Return what a run was shown, by its authors.

    Args:
        results: the results of tools, by their keys.
        notes: recalled, or about an earlier attempt.
        documents: of the task, the conversation and results, which others may have written.
        asks_user: whether results of ``ask-user`` are the user's own words.
        with_answers: whether earlier answers of the model count as sources, since they may quote one.
    """
    asked, in_task = said_and_quoted(task)
    own, told = [asked, instructions or ""], [history.earlier]
    for message in history.messages:
        is_reply = isinstance(message, ToolMessage) and asks_user and message.tool_name == ASK_USER
        if isinstance(message, UserMessage) or is_reply:
            said, quoted = said_and_quoted(message.content)
            own.append(said)
            told.append(quoted)
        elif isinstance(message, ToolMessage) or with_answers:
            told.append(message.content)
    sources = {**tool_results(results)}
    if asks_user:
        own += [sources.pop(key) for key in results if key in sources and tool_of(key) == ASK_USER]
    sources |= {"the conversation": "\n".join(filter(None, told)), "recalled notes": notes}
    sources["the documents"] = "\n".join(filter(None, (in_task, *documents)))
    return Provenance(tuple(own), {name: text for name, text in sources.items() if text})
