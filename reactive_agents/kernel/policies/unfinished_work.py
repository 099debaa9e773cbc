"""Whether an answer comes before the work is done: items, acts, failed calls.

Small models stop at the first error of a tool, answer for things that they did not look up, and say that
something is done without the call for it. Each policy asks in plain words, a bounded number of times; what
is left out then makes the answer partial. What a task orders is read in the words of the task, in several
languages, and a case that cannot be judged counts in the model's favour.

The policies are about runs that are offered ``final-answer`` and have a second turn. Strategies of several
passes ask the same of their whole run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from reactive_agents.core.figures import numbers_and_names, occurs
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall
from reactive_agents.core.results import ReasoningStep
from reactive_agents.core.texts import one_line
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.core.values import lazy_pattern
from reactive_agents.kernel import answer_check, clauses, contradictions, evidence
from reactive_agents.kernel.announcements import act_of, denies, is_reading, subjects_in
from reactive_agents.kernel.call_parsing.tool_names import words
from reactive_agents.kernel.context import (
    KernelContext,
    Redirect,
    Stop,
    Verdict,
    applies_where,
    optional_check,
)
from reactive_agents.kernel.context_window.previews import json_value
from reactive_agents.kernel.context_window.tool_results import tool_results
from reactive_agents.kernel.ledger import has_side_effects
from reactive_agents.kernel.open_requirements import failures_allowed, requirements_of
from reactive_agents.kernel.policies.limits import IDLE_TURNS, turns_left
from reactive_agents.kernel.state import KernelState, Proposal
from reactive_agents.kernel.toolset import FINAL_ANSWER, RECALL

if TYPE_CHECKING:
    from reactive_agents.core.memory import MemoryContext
    from reactive_agents.kernel.ledger import CallCounts
    from reactive_agents.kernel.ordered_acts import CompletedCall

TEXT_ANSWER: Final = "text_answer"
"""The policy for texts without a call, whose question is one about the work as well."""
FAILED_CALL: Final = "failed_call"
LEFT_OUT: Final = "left_out"
NOT_DONE: Final = "not_done"
_MOST_NAMED = 8
_RANGE = lazy_pattern(r"(\d{1,9})(?: ?- ?| ?– ?| ?\.{2,3} ?| to )(\d{1,9})\b")
_END = lazy_pattern(r"(?:^|_)(?:first|last|start|end|begin|until|min|max)(?:_|$)", re.IGNORECASE)
"""In the name of an argument that is an end of a range."""
_MOST_IN_RANGE = 1_000
_LEAST_IDENTIFIER = 100
"""Whole numbers below this are seldom what something is named by."""
where_asked_again = applies_where(
    lambda context: context.max_iterations > 1 and context.toolset.permits(FINAL_ANSWER)
)
"""Applies a policy in runs that have a second turn and are offered ``final-answer``."""


@where_asked_again
@optional_check(FAILED_CALL)
def failed_call(state: KernelState, context: KernelContext) -> Verdict | None:
    """Question an answer right after a failed call, without anything found, once.

    What the tool said of its failure counts as found. A call that needs approval is not asked for again, and
    nothing is asked after one that was declined or is in doubt. An answer that is delivered without anything
    found after that is partial where no call of the run has worked. An answer that names what only failed
    calls were about, and denies nothing, is treated alike, whenever the call was made.
    """
    proposal = state.proposal
    if proposal is None or not proposal.text.strip():
        return None
    about = None if proposal.could_not else _failure_about(proposal.text, state, context)
    last = about or last_failure(state, context)
    if last is None or last.is_declined_or_in_doubt or not turns_left(state, context):
        return None  # what was declined makes the run partial, whatever the answer says
    failures = state.ledger.counted.failed_in_a_row.get(last.tool, 0)
    if answer_check.tells_failure(proposal.text, last.content, is_repeated=failures > 1):
        return None
    if is_foreseen(last, proposal.text, context.input.to_do, context.input.asked):
        return None
    is_found = evidence.ends_with_evidence(proposal.text, evidence.seen_by(state, context))
    if about is None and is_found:
        return None
    if not state.ledger.told.get(FAILED_CALL):
        return Redirect(FAILED_CALL, _advice_after(last.tool, failures, context))
    if proposal.could_not or answer_check.explains(proposal.text, context.input.asked, [last.content]):
        return None
    if about and not (is_found and looks_up(last.tool, context)):
        reason = f"{last.tool} failed, and the answer does not say so. Missing: what it was called for."
    elif _may_stand_without(proposal, state, context):
        return None
    else:
        reason = (
            f"No call worked, and the answer has nothing of what {last.tool} said. Missing: what it looks up."
        )
    return Stop(FAILED_CALL, "partial", proposal.text, reason)


def _advice_after(tool: str, failures: int, context: KernelContext) -> str:
    """Return what to do after so many failures of a tool in a row."""
    definition = context.toolset.definition(tool)
    is_last = failures >= failures_allowed(tool, context.toolset)
    if is_last or (definition is not None and definition.requires_approval):
        return f"The call of {tool} did not work. Say so in the answer."
    told = (
        f"The last call of {tool} failed. Call it again, with other arguments if they were wrong, or use "
        "another tool. If it cannot be done, say in the answer what failed and what is missing."
    )
    brief = f"{tool} failed. Call it again, or another tool. If nothing works, say what failed."
    return context.worded(told, brief)


def _may_stand_without(proposal: Proposal, state: KernelState, context: KernelContext) -> bool:
    """Return whether an answer may be right though the last call has failed.

    The policy for texts asks about a text.
    """
    if proposal.call_id is None and (denies(proposal.text) or not state.ledger.idle_turns):
        return True
    if state.ledger.counted.succeeded or not has_work_left(state, context):
        return True
    return evidence.works_out(proposal.text, evidence.seen_by(state, context))


def undone_act(
    task: str,
    offered: Iterable[ToolDefinition],
    steps: Sequence[ReasoningStep],
    results: Mapping[str, str],
    counted: CallCounts,
) -> ReasoningStep | None:
    """Return the failure of the last call by which something was to be done.

    None if the model later made a call of a tool that may do something, and it worked, unless that is
    another act of the task; one beside it in its turn is no later one, except for one of several that the
    task leaves to choose from: "on a1 or a2". Any call that worked counts after a failure of a tool whose
    verb is not in the task; and in a task that is not English, a tool that worked before is not known to be
    the one that the task orders. Of several to be deleted, one that does not exist is no failure.
    """
    tools = {each.name: each for each in offered if each.name != FINAL_ANSWER}
    reported = [
        step.tool for step in steps if not step.is_failed_call and _did_fail(step, tools.get(step.tool), task)
    ]
    worked = {name for name, times in counted.succeeded.items() if times > reported.count(name)}
    acted = [each for name, each in tools.items() if name in worked and clauses.may_act(each)]
    wanted = {
        name
        for name, each in tools.items()
        if clauses.is_wanted(each, task, [other for other in acted if other is not each])
    }
    failed: ReasoningStep | None = None
    by = ""
    made: dict[CallId | None, ReasoningStep | None] = {}
    chosen, is_choice = list[ToolDefinition](), clauses.leaves_choice(task)
    from reactive_agents.kernel.ordered_acts import is_for_another_act, is_needless  # takes a while to read

    for step in steps:
        known = step.metadata
        tool = tools.get(known.tool_used or "") if known is not None else None
        if known is None or tool is None:
            continue
        if step.type == "action":
            made[known.call_id] = failed
            continue
        has_failed = _did_fail(step, tool, task)
        has_worked = known.success and not has_failed
        if has_worked and is_choice and clauses.may_act(tool):
            chosen.append(tool)
        if has_failed and tool.name in worked and is_needless(tool, step.content):
            continue
        if has_failed and not step.is_declined_or_in_doubt and tool.name in wanted:
            if all(is_for_another_act(each, tool, task, "") for each in chosen):
                failed, by = step, tool.name
        elif failed is not None and has_worked and (is_choice or made.get(known.call_id) is failed):
            only_looks = tool.description and is_reading(act_of(tool.description))
            is_beside = is_for_another_act(tool, tools[by], task, results.get(known.result_key or "", ""))
            if not (is_beside or (only_looks and clauses.is_named_in(tools[by], task))):
                failed = None
    return failed if by not in worked or clauses.is_english(task) else None


def undone_act_of(state: KernelState, context: KernelContext) -> ReasoningStep | None:
    """Return the failure of an act in a kernel run, of :func:`undone_act`."""
    task = context.input.to_do
    if not any(says_failure(step, task) for step in state.steps):
        return None
    results, counted = tool_results(state.scratchpad), state.ledger.counted
    return undone_act(task, context.toolset.offered, state.steps, results, counted)


def describe_undone(failure: ReasoningStep) -> str:
    """Return the reason of a run that ends after a failure of :func:`undone_act`."""
    tool = (failure.metadata and failure.metadata.tool_used) or "a tool"
    return f"A call of {tool} failed, and no later one stands for it. Missing: what it was called for."


def is_foreseen(failure: ReasoningStep, text: str, task: str, asked: str) -> bool:
    """Return whether a task says what to do on failure, and the answer reports it.

    Args:
        asked: the whole task, where ``task`` is shortened or a part of it.
    """
    if not clauses.foresees_failure(task):
        return False
    if not clauses.is_english(task) and answer_check.denies_in_part(text):
        return True  # the words of the error are English
    told = answer_check.tells_failure(text, failure.content, is_repeated=True)
    return told or answer_check.explains(text, asked, [failure.content])


def last_failure(state: KernelState, context: KernelContext) -> ReasoningStep | None:
    """Return what the last call said of its failure, if it was run and failed."""
    last = next((step for step in reversed(state.steps) if evidence.is_of_tool(step)), None)
    if last is None:
        return None
    return last if _did_fail(last, context.toolset.definition(last.tool), context.input.to_do) else None


def _did_fail(step: ReasoningStep, tool: ToolDefinition | None, task: str) -> bool:
    """Return whether a call failed, or an act whose result says that it did."""
    if step.is_failed_call or not says_failure(step, task):
        return step.is_failed_call
    if tool is None:
        return False
    from reactive_agents.kernel.ordered_acts import begins_done, only_looks  # its tables are large

    return not (only_looks(tool) or begins_done(step.content, tool))


def says_failure(step: ReasoningStep, task: str) -> bool:
    """Return whether a step is a failed call, or a result that reports a failure."""
    return step.is_failed_call or (
        step.type == "observation" and answer_check.reports_failure(step.content, task)
    )


def _failure_about(text: str, state: KernelState, context: KernelContext) -> ReasoningStep | None:
    """Return the failure of a call, if a text names what only failed ones were about.

    Beside other results it need not: what the task names and a look-up failed for is missing in the answer.
    A text that denies something may tell of it, and a later call of the tool that worked may stand for it.
    """
    still, found = state.ledger.counted.failed_in_a_row, evidence.results_of(state)
    if not still:
        return None
    failed = {
        step.metadata.call_id: step
        for step in state.steps
        if step.metadata and step.is_failed_call and step.metadata.tool_used in still
    }
    if not failed or denies(text):
        return None
    known = "\n".join((evidence.seen_by(state, context).given, *found)).casefold()
    for call in state.steps:
        about = call.metadata if call.type == "action" else None
        if about is None or about.call_id not in failed:
            continue
        is_missing = bool(found) and looks_up(about.tool_used or "", context)
        named_in = f"{text}\n{context.input.to_do}" if is_missing else text
        lost = [each for each in texts_given(call.content) if each.casefold() not in known]
        if any(clauses.names(named_in, each, plural=True) for each in lost):
            return failed[about.call_id]
    return None


def looks_up(tool: str, context: KernelContext) -> bool:
    """Return whether a tool is for its result alone, by its description."""
    definition = context.toolset.definition(tool)
    return definition is None or not clauses.may_act(definition)


@where_asked_again
@optional_check(LEFT_OUT)
def left_out(state: KernelState, context: KernelContext) -> Verdict | None:
    """Question an answer that comes before all items of a list were looked up.

    Once, again for another answer, and after each call that has found something since then. In the last turn
    it is partial.

    Of the tools that change something nothing is asked: what they were not called for may be meant so.
    """
    proposal = state.proposal
    if proposal is None or not proposal.text.strip() or proposal.could_not:
        return None
    told = state.ledger.told.get(LEFT_OUT, 0)
    is_last = not turns_left(state, context)
    claimed = _claimed(proposal.text, state, context)
    if told and claimed and state.ledger.idle_turns:
        reason = f"No call was made with {listed(claimed)}, which the answer is about."
        return Stop(LEFT_OUT, "partial", proposal.text, f"{reason} Missing: what the task names it for.")
    if told and not is_last and (state.ledger.idle_turns or (len(state.ledger.said) > 1 and told > 1)):
        # the answer again, or another one twice, and no call has found anything new since then
        kept = _done_without_call(proposal.text, state, context) or _told_without_look(
            proposal.text, state, context
        )
        return (
            Stop(LEFT_OUT, "partial", proposal.text, f"{kept} Missing: the calls for it.") if kept else None
        )
    has_calls = any(step.type == "action" for step in state.steps)
    items = _items_left(state, context) if has_calls else ()
    if not items and not told and not is_last and _comes_before_calls(proposal, state, context):
        advice = "Call what the task needs; if it needs no more tools, give the answer again."
        return Redirect(LEFT_OUT, f"No tool was called for that. {advice}")
    items = items or claimed
    if has_calls and not items and not is_last:
        items = _looked_up_for_other(proposal.text, state, context)
    if not items:
        return None
    named = listed(items)
    if is_last:
        reason = f"The last turn came before everything was looked up. Missing: {named}."
        return Stop(LEFT_OUT, "partial", proposal.text, reason)
    advice = "Make the calls for it first; if none are needed, answer again."
    advice = context.worded(advice, "Look it up, or answer again.")
    return Redirect(LEFT_OUT, f"The task also names: {named}. {advice}")


def _claimed(text: str, state: KernelState, context: KernelContext) -> tuple[str, ...]:
    """Return the addresses and files that an answer names, and that no call had.

    Before any call, also what a question names which the answer is about figures that it cannot know.
    """
    task, offered = context.input.to_do, offered_tools(state, context)
    if context.input.calls.attempts:
        return ()  # what the calls of earlier passes were about is not known here
    named = clauses.claimed_in(text, task, offered)
    if not named and not state.ledger.counted.attempts:
        named = _told_unseen(text, clauses.looked_up_by(task, offered), state, context)
    if not named:
        return ()
    made = (step for step in state.steps if step.type in ("action", "observation"))
    calls = [step.content for step in made if not evidence.delivers(step)]
    before = _arguments_told(_calls_in(context.input.history.messages), {each.name for each in offered})
    known = "\n".join((*calls, *evidence.results_of(state), before)).casefold()
    return tuple(each for each in named if each.casefold() not in known)


def looked_up_for_other(
    text: str,
    task: str,
    tools: Sequence[ToolDefinition],
    steps: Sequence[ReasoningStep],
    results: Mapping[str, str],
    told: str,
) -> tuple[str, ...]:
    """Return what a text tells of, where only something else was looked up instead.

    Args:
        results: the full texts of the results of the steps, by their keys.
        told: what was said before the task.
    """
    from reactive_agents.kernel.ordered_acts import (  # takes a while to read
        may_be_replaced,
        only_looks,
        replaced_left,
    )

    known = {each.name: each for each in tools}
    used = {step.metadata.tool_used for step in steps if step.metadata} - {None}
    kinds = {only_looks(known[name]) if name in known else None for name in used}
    # of several kinds, what some of the calls told is known too
    if len(kinds) < 2 and not may_be_replaced(task, text, f"{task}\n{told}"):
        return ()
    calls = calls_made(steps, results)
    if not calls or not _acting_in(tools).isdisjoint(each.tool for each in calls):
        return ()
    return replaced_left(task, text, tools, calls, told)


def _looked_up_for_other(text: str, state: KernelState, context: KernelContext) -> tuple[str, ...]:
    if not _is_first(context):
        return ()
    results, offered, told = tool_results(state.scratchpad), context.toolset.offered, _said_before(context)
    return looked_up_for_other(text, context.input.to_do, offered, state.steps, results, told)


def _is_first(context: KernelContext) -> bool:
    """Return whether no pass or step of the run came before."""
    given = context.input
    return not (given.calls.attempts or given.results or given.user_task)


def _said_before(context: KernelContext) -> str:
    """Return what was said before the task."""
    given = context.input
    return said_before(given.settings.system_prompt, given.memory, given.history.messages)


def without_call(text: str, state: KernelState, context: KernelContext) -> str:
    """Return what no call was made for; empty for nothing.

    That is an item of a list that the model was asked about, an act that the answer says is done, or what an
    act depends on; and a call that has failed for what the task names.
    """
    if state.ledger.told.get(LEFT_OUT) and (items := _items_left(state, context)):
        return describe_left(items)
    if not state.ledger.counted.attempts or denies(text):
        return ""
    if state.ledger.told.get(FAILED_CALL) and (lost := _failure_about(text, state, context)):
        return f"A call of {lost.metadata and lost.metadata.tool_used} failed."
    uncalled = _asked_and_uncalled(text, state, context)
    if not uncalled and _acting_in(context.toolset.offered):
        uncalled = _claimed_and_uncalled(text, state, context) or _unread_condition(state, context)
    return f"Not called: {', '.join(uncalled)}." if uncalled else ""


def _claimed_and_uncalled(text: str, state: KernelState, context: KernelContext) -> tuple[str, ...]:
    """Return the tools for what an answer says is done, and that were not called."""
    from reactive_agents.kernel.ordered_acts import (  # its tables are large
        claimed_act_left,
        only_asks_to_tell,
    )

    task = context.input.to_do
    if clauses.REQUEST_MARK.search(task) or only_asks_to_tell(task):
        return ()  # it tells how something is
    before = (each.name for each in _calls_in(context.input.history.messages))
    attempts = {*state.ledger.counted.attempts, *before}
    return claimed_act_left(text, context.toolset.offered, attempts, evidence.results_of(state))


def _asked_and_uncalled(text: str, state: KernelState, context: KernelContext) -> tuple[str, ...]:
    """Return the tools that a task and an answer are about, once the model was asked.

    One that only looks something up is for what no result tells of.
    """
    is_asked = any(map(state.ledger.told.get, (TEXT_ANSWER, LEFT_OUT)))
    if not is_asked or not state.ledger.counted.succeeded:
        return ()
    task, (unused, used) = context.input.to_do, unused_and_used(state, context)
    found = subjects_in("\n".join(evidence.results_of(state)))
    return tuple(
        each.name
        for each in context.toolset.offered
        if each.name in unused
        if clauses.may_act(each) or clauses.read_tool(each.name, each.description).subjects.isdisjoint(found)
        if all(clauses.is_open_for(said, {each.name: unused[each.name]}, used) for said in (task, text))
    )


def _unread_condition(state: KernelState, context: KernelContext) -> tuple[str, ...]:
    """Return the tools for what an act depends on, if nothing was looked up.

    A tool may look itself: "Close the window if it is open".
    """
    conditions = [each for each in clauses.clauses_of(context.input.to_do) if clauses.CONDITION.search(each)]
    if not conditions or context.input.history.messages:
        return ()
    from reactive_agents.kernel.ordered_acts import only_looks

    called, offered = state.ledger.counted.attempts, context.toolset.offered
    used = [each for each in offered if each.name in called]
    if not called or any(only_looks(each) or clauses.CONDITION.search(each.description) for each in used):
        return ()
    about = subjects_in(" ".join(conditions))
    looking = (each for each in offered if only_looks(each) and each.name != FINAL_ANSWER)
    return tuple(
        each.name for each in looking if clauses.read_tool(each.name, each.description).subjects & about
    )


def describe_left(items: Sequence[str]) -> str:
    """Return the sentence about items that no call was made for."""
    return f"No call was made for: {listed(items)}."


def listed(names: Sequence[str]) -> str:
    """Return the first names for a message."""
    return ", ".join(map(one_line, names[:_MOST_NAMED]))


def _is_named(clause: str, item: str) -> bool:
    return occurs(item, clause) if item.isdecimal() or len(item) < 3 else clauses.names(clause, item)


def _done_without_call(text: str, state: KernelState, context: KernelContext) -> str:
    """Return the sentence of :func:`without_call` where something was to be done.

    What an order is for or with may be one thing: "Book a table for Ann and Bo".
    """
    tools = (context.toolset.definition(name) for name in state.ledger.counted.succeeded)
    if clauses.REQUEST_MARK.search(context.input.to_do) or not all(
        each is not None and clauses.may_act(each) for each in tools
    ):
        return ""
    said = [each for each in clauses.clauses_of(text) if not (denies(each) or clauses.QUESTION.search(each))]
    named = [item for item in _items_left(state, context) if any(_is_named(each, item) for each in said)]
    together = [found[0] for found in clauses.TOGETHER.finditer(context.input.to_do)]
    is_one = any(each in said for each in named for said in together)
    return without_call(text, state, context) if named and not is_one else ""


def _told_without_look(text: str, state: KernelState, context: KernelContext) -> str:
    """Return the sentence about items that are told and were not looked up.

    Where something acts, what was not called for may be meant so.
    """
    from reactive_agents.kernel.ordered_acts import only_looks  # its tables are large

    task, called = context.input.to_do, state.ledger.counted.attempts
    if denies(text) or not all(only_looks(each) for each in context.toolset.offered if each.name in called):
        return ""
    items = _items_left(state, context)
    told = [each for each in items if contradictions.compares(task) or _is_named(text, each)]
    return describe_left(told) if told else ""


def _told_unseen(
    text: str, named: tuple[str, ...], state: KernelState, context: KernelContext
) -> tuple[str, ...]:
    """Return identifiers that an answer has figures of, and nothing seen is about."""
    if not named or clauses.QUESTION.search(text) or answer_check.denies_in_part(text):
        return ()
    task, seen = context.input.to_do, evidence.seen_by(state, context)
    told = "\n".join((seen.task, seen.told)).replace(task, " ")
    given = [each for each in numbers_and_names(task) if each not in named]
    if given or all(occurs(each, f"{task}\n{told}") for each in numbers_and_names(text)):
        return ()  # it may be worked out, or known from elsewhere
    return tuple(each for each in named if not occurs(each, told))


def only_thanks(task: str) -> bool:
    """Return whether a task thanks, and orders nothing that is known."""
    if not clauses.has_thanks(task):
        return False
    from reactive_agents.kernel.ordered_acts import orders_act  # its tables are large

    return not orders_act(task)


def _comes_before_calls(proposal: Proposal, state: KernelState, context: KernelContext) -> bool:
    """Return whether a short answer about particulars comes without a call for it.

    It is about particular things. There was no call at all, or none of a tool that a task which asks how much
    calls for. What can be worked out from the task needs none.
    """
    asked = context.input.to_do
    if proposal.call_id is None or clauses.size_of(proposal.text) >= clauses.MANY_WORDS:
        return False
    if state.ledger.counted.attempts:
        return clauses.asks_figure(asked) and calls_for_another(state, context)
    if context.input.calls.attempts or context.input.results or only_thanks(asked):
        return False
    if not (clauses.names_particulars(asked) or clauses.may_be_order(asked, described_tools(state, context))):
        return False
    return not evidence.works_out(proposal.text, evidence.Seen(asked))


def has_work_left(state: KernelState, context: KernelContext) -> bool:
    """Return whether something plainly is left to do for the task.

    That is a required call, an item of a list, a call that failed, or, before the first call, a tool that has
    to do with the task.
    """
    counted = state.ledger.counted
    if requirements_of(state, context).open or counted.failed_in_a_row or _items_left(state, context):
        return True
    if not counted.attempts:
        tools = {name: text for name, text in described_tools(state, context).items() if text}
        return not clauses.is_beside_tools(context.input.to_do, tools)
    return calls_for_another(state, context)


def calls_for_another(state: KernelState, context: KernelContext) -> bool:
    """Return whether the task calls for a tool that was not used so far."""
    return clauses.is_open_for(context.input.to_do, *unused_and_used(state, context))


def unused_and_used(
    state: KernelState, context: KernelContext
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the descriptions of the tools that were not called, and of the others."""
    tools = {name: text for name, text in described_tools(state, context).items() if text}
    used = {name: text for name, text in tools.items() if state.ledger.counted.attempts.get(name)}
    return {name: text for name, text in tools.items() if name not in used}, used


def _items_left(state: KernelState, context: KernelContext) -> tuple[str, ...]:
    return items_left(
        context.input.to_do,
        context.toolset.offered,
        state.steps,
        evidence.results_of(state),
        context.input.history.messages,
    )


def items_left(
    task: str,
    tools: Iterable[ToolDefinition],
    steps: Sequence[ReasoningStep],
    results: Iterable[str],
    history: Iterable[Message] = (),
) -> tuple[str, ...]:
    """Return items in one list with something that was looked up, which were not.

    A call that was not run looked nothing up: of an unknown tool, or with arguments that do not fit.

    Args:
        history: earlier messages of the conversation; who was written to there is written to no more.
    """
    calls = [step for step in steps if step.type == "action" and not evidence.delivers(step)]
    if not calls:
        return ()
    # their expressions take a while to compile
    from reactive_agents.kernel.open_items import names_items, open_items

    if not names_items(task):
        return ()
    known = {each.name: each for each in tools}
    asked = [text for call in calls for text in _texts_asked(call.content, known)]
    not_run = {
        step.metadata.call_id
        for step in steps
        if step.type == "observation" and step.metadata is not None and not evidence.was_run(step)
    }
    made = [call.content for call in calls if call.metadata is None or call.metadata.call_id not in not_run]
    items = open_items(task, asked, "\n".join((*made, *results)))
    spared = clauses.spared_in(task)
    items = tuple(each for each in items if each.casefold() not in spared)
    if any(map(str.isdecimal, items)):
        from reactive_agents.kernel.ordered_acts import has_moved

        items = tuple(each for each in items if not has_moved(each, asked, task))
    if not any("@" in each for each in items):
        return items
    before = _arguments_told(_calls_in(history), known).casefold()
    return tuple(each for each in items if "@" not in each or each.casefold() not in before)


def _texts_asked(call: str, tools: Mapping[str, ToolDefinition]) -> tuple[str, ...]:
    """Return the texts and identifiers of a call that only looks something up."""
    described = _read_call(call)
    definition = tools.get(str(described.get("tool")))
    if definition is None or has_side_effects(definition):
        return ()
    numbers = (str(each) for each in _arguments_of(call) if type(each) is int and each >= _LEAST_IDENTIFIER)
    return (*texts_given(call), *numbers)


def texts_given(call: str) -> tuple[str, ...]:
    """Return the texts among the arguments of a call."""
    return tuple(each for each in _arguments_of(call) if isinstance(each, str))


def _arguments_of(call: str) -> list[object]:
    """Return the arguments of a call, with those in lists."""
    return [each for values in _named_arguments_of(call).values() for each in values]


@lru_cache(maxsize=8)  # they may be of megabytes
def _read_call(call: str) -> Mapping[str, object]:
    described = json_value(call)
    return described if isinstance(described, dict) else {}


def _named_arguments_of(call: str) -> dict[str, list[object]]:
    arguments = _read_call(call).get("arguments")
    if not isinstance(arguments, dict):
        return {}
    return {name: [*value] if isinstance(value, list) else [value] for name, value in arguments.items()}


@where_asked_again
@optional_check(NOT_DONE)
def not_done(state: KernelState, context: KernelContext) -> Verdict | None:
    """Question an answer to an order that no call has carried out, once.

    One that comes again is partial, and so is one in the last turn.
    """
    proposal, counted = state.proposal, state.ledger.counted
    if proposal is None or not proposal.text.strip() or proposal.could_not:
        return None
    if not _acting_in(context.toolset.offered):
        return None
    given, task = context.input, context.input.to_do
    missing = call_missing(
        proposal.text,
        task,
        context.toolset.offered,
        state.steps,
        tool_results(state.scratchpad),
        counted.attempts,
        earlier=state.ledger.earlier.attempts,
        history=given.history.messages,
        told=_said_before(context) if counted.attempts and _is_first(context) else None,
    )
    if not missing:
        return None
    is_asked = state.ledger.told.get(NOT_DONE) or state.ledger.idle_turns >= IDLE_TURNS - 1
    if is_asked or not turns_left(state, context):
        return Stop(NOT_DONE, "partial", proposal.text, describe_not_done(missing))
    return Redirect(NOT_DONE, f"Not done: {missing}. Call it, or say that it is not done.")


def said_before(system_prompt: str, memory: MemoryContext | None, history: Iterable[Message]) -> str:
    """Return the instructions, the memories, and the conversation with its calls."""
    told = [system_prompt]
    if memory is not None:
        told.append(memory.text)
    for message in history:
        told.append(message.content)
        if isinstance(message, AssistantMessage):
            told += [str(made.arguments) for made in message.tool_calls]
    return "\n".join(told)


def describe_not_done(missing: str) -> str:
    """Return the reason of a run that ends without a call, of :func:`call_missing`."""
    return f"The task orders something, and {missing}. Missing: what it orders."


def call_missing(
    text: str,
    task: str,
    tools: Iterable[ToolDefinition],
    steps: Iterable[ReasoningStep],
    results: Mapping[str, str],
    attempts: Collection[str],
    *,
    earlier: Collection[str] = (),
    history: Iterable[Message] = (),
    told: str | None = None,
) -> str:
    """Return which call is missing for what a text says is done; empty for none.

    It is a clause, such as "no call of refund was made".

    Args:
        results: the full texts of the results of the steps, and of earlier ones, by their keys.
        attempts: tools that were called in the run.
        earlier: those that were called before the steps, with arguments that are not known.
        history: earlier messages of the conversation.
        told: what was said before the task, in which numbers and addresses other than those of the task may
            stand; ``None`` to compare none.
    """
    offered = [each for each in tools if each.name != FINAL_ANSWER]
    made = tuple(steps)
    seen = [each for step in made if step.type == "observation" and (each := step.metadata)]
    refused = {each.tool_used or "" for each in seen if each.origin == "refused"}
    unknown = _unknown_tools(refused - {each.name for each in offered}) if refused else []
    offered += unknown
    acting = _acting_in(offered)
    if not acting:
        return ""
    before = _calls_in(history)
    called = {*attempts, *(each.name for each in before)}
    called |= {each.tool_used or "" for each in seen if each.origin != "refused"}
    is_called = acting <= called
    # these modules take a while to read
    from reactive_agents.kernel.open_items import names_items

    if is_called and told is None and not names_items(task):
        return ""
    from reactive_agents.kernel.ordered_acts import (
        act_left,
        echoed_order_left,
        has_moved,
        parts_left,
        replaced_left,
        tool_verb_left,
        values_left,
    )

    calls, found = calls_made(made, results), results.values()
    if not is_called:
        there, tried = [each for each in offered if each not in unknown], {each.name for each in unknown}
        left = (
            act_left(task, text, offered, called, found)
            or tool_verb_left(task, text, there, called, found)
            or echoed_order_left(task, text, offered, called, calls, found, tried)
        )
        if left:
            return f"no call of {' or '.join(left)} was made"
    if called.isdisjoint(acting) or not acting.isdisjoint(earlier):
        return ""
    given = _arguments_told(before, acting)
    parts = parts_left(task, text, offered, calls) or values_left(task, text, offered, calls)
    parts = tuple(each for each in parts if not (clauses.names(given, each) or occurs(each, given)))
    if not parts and told is not None:
        parts = replaced_left(task, text, offered, calls, told)
    asked = [value for each in calls for values in each.arguments.values() for value in values]
    parts = tuple(each for each in parts if not has_moved(each, asked, task))
    return f"no call for {', '.join(parts)} has worked" if parts else ""


def _unknown_tools(names: Iterable[str]) -> list[ToolDefinition]:
    """Return tools that there are not, as the names in calls describe them."""
    called = (name for name in names if name not in (FINAL_ANSWER, RECALL))
    takes: JsonObject = {"properties": {"text": {"type": "string"}}}
    return [ToolDefinition(name, f"{' '.join(words(name)).capitalize()}.", takes) for name in called]


def _acting_in(tools: Iterable[ToolDefinition]) -> set[str]:
    """Return the tools that may be for more than their results."""
    return {each.name for each in tools if each.name != FINAL_ANSWER and clauses.may_act(each)}


def _calls_in(history: Iterable[Message]) -> list[ToolCall]:
    """Return the calls of earlier messages."""
    said = (each for each in history if isinstance(each, AssistantMessage))
    return [call for each in said for call in each.tool_calls]


def _arguments_told(calls: Iterable[ToolCall], tools: Collection[str]) -> str:
    """Return the arguments of the calls of some tools."""
    return "\n".join([str(each.arguments) for each in calls if each.name in tools])


def calls_made(steps: Sequence[ReasoningStep], results: Mapping[str, str]) -> list[CompletedCall]:
    """Return the calls that worked."""
    from reactive_agents.kernel.ordered_acts import CompletedCall

    asked, made = dict[str | None, str](), list[CompletedCall]()
    for step in steps:
        about = step.metadata
        if about is None or evidence.delivers(step):
            continue
        if step.type == "action":  # a later pass may have calls of the same ids
            asked[about.call_id] = step.content
        elif step.type == "observation" and about.success and about.call_id in asked:
            call = asked[about.call_id]
            given = _named_arguments_of(call)
            told = f"{call}\n{results.get(about.result_key or '', '')}\n{_between_ends(given)}"
            arguments = {name: tuple(map(str, values)) for name, values in given.items()}
            made.append(CompletedCall(about.tool_used or "", arguments, told))
    return made


def _between_ends(arguments: Mapping[str, Sequence[object]]) -> str:
    """Return the whole numbers of a range: "1001-1003", or two ends by name."""
    one_each = {name: str(given[0]) for name, given in arguments.items() if len(given) == 1}
    by_name = " to ".join(text for name, text in one_each.items() if _END.search(name))
    ends = next(filter(None, map(_RANGE.search, (*one_each.values(), by_name))), None)
    first, last = (int(ends[1]), int(ends[2])) if ends else (0, 0)
    return " ".join(map(str, range(first, min(last, first + _MOST_IN_RANGE))))


def offered_tools(state: KernelState, context: KernelContext) -> tuple[ToolDefinition, ...]:
    """Return the tools that the next turn may call."""
    return context.toolset.available(recall=state.transcript.shown_in_part)


def described_tools(state: KernelState, context: KernelContext) -> Mapping[str, str]:
    """Return descriptions of the tools by their names; the kernel's own have none."""
    described = context.toolset.descriptions
    return {**described, RECALL: ""} if state.transcript.shown_in_part else described
