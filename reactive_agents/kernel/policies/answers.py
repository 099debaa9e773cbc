"""Whether a proposed answer is one: no announcement, no call, figures seen.

Small models announce a call and do not make it, write it in a form that cannot be run, stop at the first
error of a tool, or answer with figures that they made up. Each of these policies asks in plain words, a
bounded number of times, and then takes the model at its word: a model that answers properly pays at most one
call more, and a run never waits for an answer that does not come.

They are about runs that are offered ``final-answer`` and have a second turn: elsewhere a text is the answer.
Only :func:`cut_off` is for all runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from attrs import evolve
from returns.result import Success

from reactive_agents.core import errors
from reactive_agents.core.figures import (
    gives_figures,
    has_precise_figures,
    is_common,
    numbers_and_names,
    occurs,
)
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.languages import alternatives, word_set
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall
from reactive_agents.core.results import DEADLINE, ReasoningStep
from reactive_agents.core.texts import as_sentence, one_line
from reactive_agents.core.tools import TRIED, ToolDefinition
from reactive_agents.core.values import lazy_pattern
from reactive_agents.kernel import answer_check, answer_form, clauses, evidence
from reactive_agents.kernel.announcements import (
    act_of,
    asks_openly,
    asks_what,
    composes,
    denies,
    is_reading,
    subjects_in,
)
from reactive_agents.kernel.call_parsing.argument_schema import CALL_AGAIN
from reactive_agents.kernel.call_parsing.json_extraction import breaks_off
from reactive_agents.kernel.call_parsing.response_calls import may_hold_calls
from reactive_agents.kernel.call_parsing.spelled_calls import spelled_calls
from reactive_agents.kernel.call_parsing.tool_names import squash, words
from reactive_agents.kernel.context import (
    KernelContext,
    Redirect,
    Stop,
    Verdict,
    about_answers,
    applies_where,
    between_turns,
    optional_check,
)
from reactive_agents.kernel.context_window.previews import json_value
from reactive_agents.kernel.context_window.tool_results import tool_results
from reactive_agents.kernel.embedded_calls import calls_of_answer
from reactive_agents.kernel.ledger import has_side_effects
from reactive_agents.kernel.open_requirements import (
    REQUIRED_TOOLS,
    describe_missing,
    failures_allowed,
    requirements_of,
)
from reactive_agents.kernel.policies.limits import IDLE_TURNS, results_of, turns_left
from reactive_agents.kernel.state import KernelState, Proposal
from reactive_agents.kernel.termination import RETURN_DIRECT, in_time, last_words, seconds_left
from reactive_agents.kernel.toolset import FINAL_ANSWER, RECALL

if TYPE_CHECKING:
    from reactive_agents.core.memory import MemoryContext
    from reactive_agents.kernel.ledger import CallCounts
    from reactive_agents.kernel.ordered_acts import CompletedCall

CUT_OFF = "cut_off"
WRITTEN_CALL: Final = "written_call"
TEXT_ANSWER: Final = "text_answer"
FAILED_CALL: Final = "failed_call"
LEFT_OUT: Final = "left_out"
NOT_DONE: Final = "not_done"
UNSUPPORTED: Final = "unsupported"
MOST_CUT_OFF = 2
"""Turns of a run that are asked again because they were cut off at the output limit."""
MOST_UNSUPPORTED = 3
"""Answers of a run whose figures are questioned."""
MOST_TEXTS = 4
"""Texts without a call in a row after which a run that is still only announcing ends."""

_NO_CALL = (
    f"You called no tool. If this is your answer, deliver it with {FINAL_ANSWER}. Otherwise make the call."
)
_MOST_NAMED = 8
_RANGE = lazy_pattern(r"(\d{1,9})(?: ?- ?| ?– ?| ?\.{2,3} ?| to )(\d{1,9})\b")
_END = lazy_pattern(r"(?:^|_)(?:first|last|start|end|begin|until|min|max)(?:_|$)", re.IGNORECASE)
"""In the name of an argument that is an end of a range."""
_MOST_IN_RANGE = 1_000
_LEAST_IDENTIFIER = 100
"""Whole numbers below this are seldom what something is named by."""
_WORD = lazy_pattern(r"\w+")
_OBJECT = lazy_pattern(r"\{.*\}", re.DOTALL)
_DIGIT = lazy_pattern(r"\d")
_TOGETHER = lazy_pattern(rf"\b{alternatives('together_with')}\b[^.!?;]*", re.IGNORECASE)
"""Words before several that one thing may be done for, and the rest of their sentence."""
_EMPTY = lazy_pattern(r"[\[{][\W_]*")
"""A result that is an empty list or object."""
_NOTHING_THERE = word_set("nothing_there")
_ABOVE_ZERO = lazy_pattern(r"[1-9]")
_ONLY_LEADS = lazy_pattern(r"\W*\w[^\n]*[:：][\s*_]*")
"""A line that is to be followed by the answer."""
_ONLY_DONE = lazy_pattern(alternatives("only_done"), re.IGNORECASE)
"""An answer that only says that something is done."""


_where_tools_answer = applies_where(lambda context: context.toolset.permits(FINAL_ANSWER))
_where_asked_again = applies_where(
    lambda context: context.max_iterations > 1 and context.toolset.permits(FINAL_ANSWER)
)


def says_nothing(text: str, state: KernelState, context: KernelContext) -> bool:
    """Return whether a text has no words, or only those of the question.

    All that tell something: "The gate of flight OS 112." The words with which the policy ``text_answer`` asks
    for a call say nothing either, nor do few words over and over that the task does not have, nor a line that
    is delivered and ends with a colon. "Done." says nothing where something is asked, and no call was made.
    """
    if context.max_iterations < 2 or not context.toolset.permits(FINAL_ANSWER):
        return False
    asked, said = context.input.to_do, text.strip(" .!")
    is_question = clauses.REQUEST_MARK.search(asked) is not None
    if (
        (is_question and _repeats_question(text, asked))
        or text.strip() == _NO_CALL
        or not text.strip(" .…")
        or clauses.is_stuck(text, asked)
        or (state.proposal and state.proposal.call_id and _ONLY_LEADS.fullmatch(text) and not composes(asked))
    ):
        return True
    is_done = is_question and not state.ledger.counted.attempts and _ONLY_DONE.fullmatch(said) is not None
    return is_done and asks_what(asked) and len(clauses.clauses_of(asked)) == 1


def _repeats_question(text: str, asked: str) -> bool:
    """Return whether a text is a question again, without a telling word besides."""
    if text.strip().casefold() == asked.strip().casefold():
        return True
    known = {*_WORD.findall(asked.casefold())}
    if any(word[0] not in known for word in _WORD.finditer(text.casefold())):
        return False
    return asks_what(asked) and clauses.telling_words(text) == clauses.telling_words(asked)


def is_broken_json(proposal: Proposal, context: KernelContext) -> bool:
    """Return whether an answer without a form is JSON that breaks off."""
    is_ended = proposal.finish_reason not in ("length", "content_filter")
    return is_ended and context.input.answer_form is None and breaks_off(proposal.text)


@about_answers
def cut_off(state: KernelState, context: KernelContext) -> Verdict | None:
    """Ask a turn that was cut off, or breaks off within JSON, again, twice at most.

    After that a text is partial, by the policy ``final_answer``, and an empty turn ends the run. What a
    content filter has cut off is not asked again, whatever is still required.
    """
    proposal = state.proposal
    if proposal is None:
        return None
    is_broken, by_length = is_broken_json(proposal, context), proposal.finish_reason == "length"
    if not (is_broken or by_length or proposal.finish_reason == "content_filter"):
        return None
    asks_again = state.ledger.told.get(CUT_OFF, 0) < MOST_CUT_OFF and turns_left(state, context)
    if by_length and asks_again:
        advice = "Make the next call, or give the whole answer in fewer words."
        return Redirect(CUT_OFF, f"Your last reply was cut off at the output limit. {advice}")
    if is_broken and asks_again:
        return Redirect(CUT_OFF, "Your last reply broke off within JSON. Give the whole answer.")
    if proposal.text.strip():
        if by_length or is_broken:
            return None
        reason = "The provider's content filter cut the answer off. Missing: the rest of the answer."
        return Stop("final_answer", "partial", proposal.text, reason)
    where = "at its output limit" if by_length else "by the provider's content filter"
    reason = f"The model's reply was cut off {where} before it said anything. Missing: a final answer."
    return Stop(CUT_OFF, "partial", last_words(state), reason)


@_where_tools_answer
@optional_check(WRITTEN_CALL)
def written_call(state: KernelState, context: KernelContext) -> Verdict | None:
    """Reject a text that is what looks like a call, and name the tools.

    The fourth in a row ends the run as partial. A call that is delivered as the answer, and is not run, is
    treated alike; arguments without a tool's name are questioned once there. A text that comes again is taken
    where the task asks to show a call and make none.
    """
    proposal = state.proposal
    if proposal is None or not proposal.text.strip():
        return None
    if _fits_form(proposal.text, context):
        return None
    text, delivered, offered = proposal.text, proposal.call_id is not None, _offered(state, context)
    spelled = spelled_calls(text, offered)
    name = proposal.unmade or answer_check.unmade_call(
        text,
        spelled,
        _seen(state, context) if spelled else answer_check.NOTHING_SEEN,
        told=f"{context.input.settings.system_prompt}\n{context.input.instructions}",
        delivered=delivered,
        quotes=bool(results_of(state)),
    )
    if name is None or (state.ledger.idle_turns and _asks_for_call(text, name, context.input.to_do)):
        return None
    if delivered and may_hold_calls(text) and calls_of_answer(text, state, context):
        return None
    texts = state.ledger.told.get(WRITTEN_CALL, 0) + 1 if delivered else _texts_in_a_row(state)
    is_nameless = squash(name) not in squash(text)
    if delivered and is_nameless and texts > 1:
        return None
    if texts >= MOST_TEXTS:
        reason = f"The model wrote in {texts} turns calls that cannot be run, and did not answer."
        return Stop(
            WRITTEN_CALL, "partial", text if is_nameless else None, f"{reason} Missing: a final answer."
        )
    tools = ", ".join(definition.name for definition in offered)
    unknown = f"There is no tool {name!r}. " if name and not context.toolset.permits(name) else ""
    advice = f"{unknown}The tools are: {tools}."
    advice += context.worded(" Make the call with the tool call, if you mean it.", " Make the call.")
    if is_nameless:
        advice += f" If this is your answer, deliver it with {FINAL_ANSWER}."
    problem = "No tool was called: your reply holds a call as text."
    return Redirect(WRITTEN_CALL, f"{context.worded(problem, 'That was text, no call.')} {advice}")


def _asks_for_call(text: str, tool: str, task: str) -> bool:
    """Return whether a task has a call itself, or says that it is not to be made."""
    given = _OBJECT.search(text)
    if given is not None and given[0] in task:
        return True
    return not clauses.only_limits(clauses.forbidden_in(task), act_of(tool))


@_where_tools_answer
@optional_check(TEXT_ANSWER)
def text_answer(state: KernelState, context: KernelContext) -> Verdict | None:
    """Accept a text without a call at once where it plainly is the answer.

    A text that announces is asked for the call or the answer, up to three times in a row; a run that is still
    announcing in the fourth ends as partial. A text that may be either is asked once, and twice where it
    tells nothing of the results that there are; then it is taken at its word, as is a text that comes again
    where nothing seems left to do. A call in between starts over. A text without the figure that the task
    asks for counts as an announcement, or as unclear where it has evidence.
    """
    if state.proposal is None or state.proposal.call_id is not None:
        return None  # it came by ``final-answer``
    text = state.proposal.text
    if not text.strip() or _fits_form(text, context):
        return None
    seen, tools = _seen(state, context), _described(state, context)
    failed = _last_failure(state)
    is_told = failed and (failed.is_declined_or_in_doubt or answer_check.tells_failure(text, failed.content))
    if is_told and not answer_check.announces(text, seen):
        return None
    if not state.ledger.counted.attempts and (
        answer_check.is_composed(text, context.input.to_do, tools) or _only_thanks(context.input.to_do)
    ):
        return None
    if context.max_iterations == 1 and (_asks_back(text, context) or not answer_check.announces(text, seen)):
        return None  # what it means cannot be asked
    judgement = answer_check.judge_text(text, tools, seen)
    lacks_figure = _lacks_figure(text, state, context)
    if lacks_figure and not evidence.ends_with_evidence(text, seen):
        judgement = "announcement"
    elif lacks_figure and judgement == "answer":
        judgement = "unclear"
    if state.ledger.told.get(REQUIRED_TOOLS) and _asks_back(text, context):
        return None  # it was told to make the call, and needs to know something
    if judgement == "answer":
        if not _leaves_open(text, seen, state, context):
            return None
        judgement = "unclear"
    if judgement == "announcement" and _asks_back(text, context):
        judgement = "unclear"
    is_left = _is_left(state, context)
    if not (is_left or lacks_figure) and (
        answer_check.ends_with_result(text, seen) or answer_check.concludes(text, tools, seen)
    ):
        return None
    texts = min(_texts_in_a_row(state), 1 + state.ledger.told.get(TEXT_ANSWER, 0))
    if judgement == "announcement":
        goes_on = is_left or lacks_figure or (seen.results and answer_check.announces(text, seen))
        if state.ledger.idle_turns and not goes_on:
            return None  # the same text again
        if texts < MOST_TEXTS:
            return Redirect(TEXT_ANSWER, _NO_CALL)
        reason = f"The model announced in {texts} turns what it would do, and did not do it."
        return Stop(TEXT_ANSWER, "partial", text, f"{reason} Missing: a final answer.")
    if not lacks_figure and answer_check.is_told_at_length(text, seen) and not _tells_of_now(text, state):
        return None
    has_results = turns_left(state, context) and is_left and bool(results_of(state))
    tells_nothing = has_results and not evidence.ends_with_evidence(text, seen)
    return Redirect(TEXT_ANSWER, _NO_CALL) if texts <= 1 + tells_nothing else None


@_where_asked_again
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
    last = about or _last_failure(state)
    if last is None or last.metadata is None or not turns_left(state, context):
        return None
    if last.is_declined_or_in_doubt:
        return None  # the run is partial whatever the answer says
    tool = last.metadata.tool_used or "the tool"
    failures = state.ledger.counted.failed_in_a_row.get(tool, 0)
    if answer_check.tells_failure(proposal.text, last.content, is_repeated=failures > 1):
        return None
    if is_foreseen(last, proposal.text, context.input.to_do, context.input.asked):
        return None
    is_found = evidence.ends_with_evidence(proposal.text, _seen(state, context))
    if about is None and is_found:
        return None
    if state.ledger.told.get(FAILED_CALL):
        if proposal.could_not or answer_check.explains(proposal.text, context.input.asked, [last.content]):
            return None
        if about and not (is_found and _looks_up(tool, context)):
            reason = f"{tool} failed, and the answer does not say so. Missing: what it was called for."
        elif (
            (proposal.call_id is None and (denies(proposal.text) or not state.ledger.idle_turns))
            or state.ledger.counted.succeeded
            or not _is_left(state, context)
            or evidence.works_out(proposal.text, _seen(state, context))
        ):
            return None  # the policy for texts asks about a text
        else:
            said = f"the answer has nothing of what {tool} said"
            reason = f"No call worked, and {said}. Missing: what it looks up."
        return Stop(FAILED_CALL, "partial", proposal.text, reason)
    definition = context.toolset.definition(tool)
    is_last = failures >= failures_allowed(tool, context.toolset)
    if is_last or (definition is not None and definition.requires_approval):
        return Redirect(FAILED_CALL, f"The call of {tool} did not work. Say so in the answer.")
    told = (
        f"The last call of {tool} failed. Call it again, with other arguments if they were wrong, or use "
        "another tool. If it cannot be done, say in the answer what failed and what is missing."
    )
    brief = f"{tool} failed. Call it again, or another tool. If nothing works, say what failed."
    return Redirect(FAILED_CALL, context.worded(told, brief))


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
    acted = [each for name, each in tools.items() if name in counted.succeeded and clauses.may_act(each)]
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
        if known.success and is_choice and clauses.may_act(tool):
            chosen.append(tool)
        if step.is_failed_call and tool.name in counted.succeeded and is_needless(tool, step.content):
            continue
        if step.is_failed_call and not step.is_declined_or_in_doubt and tool.name in wanted:
            if all(is_for_another_act(each, tool, task, "") for each in chosen):
                failed, by = step, tool.name
        elif failed is not None and known.success and (is_choice or made.get(known.call_id) is failed):
            only_looks = tool.description and is_reading(act_of(tool.description))
            is_beside = is_for_another_act(tool, tools[by], task, results.get(known.result_key or "", ""))
            if not (is_beside or (only_looks and clauses.is_named_in(tools[by], task))):
                failed = None
    return failed if by not in counted.succeeded or clauses.is_english(task) else None


def undone_act_of(state: KernelState, context: KernelContext) -> ReasoningStep | None:
    """Return the failure of an act in a kernel run, of :func:`undone_act`."""
    if not any(step.is_failed_call for step in state.steps):
        return None
    results, counted = tool_results(state.scratchpad), state.ledger.counted
    return undone_act(context.input.to_do, context.toolset.offered, state.steps, results, counted)


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


def _last_failure(state: KernelState) -> ReasoningStep | None:
    """Return what the last call said of its failure, if it was run and failed."""
    last = next((step for step in reversed(state.steps) if _is_of_a_tool(step)), None)
    return last if last is not None and last.is_failed_call else None


def _failure_about(text: str, state: KernelState, context: KernelContext) -> ReasoningStep | None:
    """Return the failure of a call, if a text names what only failed ones were about.

    Beside other results it need not: what the task names and a look-up failed for is missing in the answer.
    A text that denies something may tell of it, and a later call of the tool that worked may stand for it.
    """
    still, found = state.ledger.counted.failed_in_a_row, results_of(state)
    if not still:
        return None
    failed = {
        step.metadata.call_id: step
        for step in state.steps
        if step.metadata and step.is_failed_call and step.metadata.tool_used in still
    }
    if not failed or denies(text):
        return None
    known = "\n".join((_seen(state, context).given, *found)).casefold()
    for call in state.steps:
        about = call.metadata if call.type == "action" else None
        if about is None or about.call_id not in failed:
            continue
        is_missing = bool(found) and _looks_up(about.tool_used or "", context)
        named_in = f"{text}\n{context.input.to_do}" if is_missing else text
        lost = [each for each in texts_given(call.content) if each.casefold() not in known]
        if any(clauses.names(named_in, each, plural=True) for each in lost):
            return failed[about.call_id]
    return None


def _looks_up(tool: str, context: KernelContext) -> bool:
    """Return whether a tool is for its result alone, by its description."""
    definition = context.toolset.definition(tool)
    return definition is None or not clauses.may_act(definition)


@_where_asked_again
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
        reason = f"No call was made with {_listed(claimed)}, which the answer is about."
        return Stop(LEFT_OUT, "partial", proposal.text, f"{reason} Missing: what the task names it for.")
    if told and not is_last and (state.ledger.idle_turns or (len(state.ledger.said) > 1 and told > 1)):
        # the answer again, or another one twice, and no call has found anything new since then
        kept = _done_without_call(proposal.text, state, context)
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
    named = _listed(items)
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
    task, offered = context.input.to_do, _offered(state, context)
    if context.input.calls.attempts:
        return ()  # what the calls of earlier passes were about is not known here
    named = clauses.claimed_in(text, task, offered)
    if not named and not state.ledger.counted.attempts:
        named = _told_unseen(text, clauses.looked_up_by(task, offered), state, context)
    if not named:
        return ()
    calls = [
        step.content for step in state.steps if step.type in ("action", "observation") and not _delivers(step)
    ]
    before = _arguments_told(_calls_in(context.input.history.messages), {each.name for each in offered})
    known = "\n".join((*calls, *results_of(state), before)).casefold()
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
    calls = _calls_made(steps, results)
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
    from reactive_agents.kernel.ordered_acts import claims_left, only_asks_to_tell  # its tables are large

    task = context.input.to_do
    if clauses.REQUEST_MARK.search(task) or only_asks_to_tell(task):
        return ()  # it tells how something is
    before = (each.name for each in _calls_in(context.input.history.messages))
    attempts = {*state.ledger.counted.attempts, *before}
    return claims_left(text, context.toolset.offered, attempts, results_of(state))


def _asked_and_uncalled(text: str, state: KernelState, context: KernelContext) -> tuple[str, ...]:
    """Return the tools that a task and an answer are about, once the model was asked.

    One that only looks something up is for what no result tells of.
    """
    is_asked = any(map(state.ledger.told.get, (TEXT_ANSWER, LEFT_OUT)))
    if not is_asked or not state.ledger.counted.succeeded:
        return ()
    task, (unused, used) = context.input.to_do, _unused_and_used(state, context)
    found = subjects_in("\n".join(results_of(state)))
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
    return f"No call was made for: {_listed(items)}."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(one_line, names[:_MOST_NAMED]))


def _is_named(clause: str, item: str) -> bool:
    return occurs(item, clause) if item.isdecimal() else clauses.names(clause, item)


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
    together = [found[0] for found in _TOGETHER.finditer(context.input.to_do)]
    is_one = any(each in said for each in named for said in together)
    return without_call(text, state, context) if named and not is_one else ""


def _told_unseen(
    text: str, named: tuple[str, ...], state: KernelState, context: KernelContext
) -> tuple[str, ...]:
    """Return identifiers that an answer has figures of, and nothing seen is about."""
    if not named or clauses.QUESTION.search(text) or answer_check.denies_in_part(text):
        return ()
    task, seen = context.input.to_do, _seen(state, context)
    told = "\n".join((seen.task, seen.told)).replace(task, " ")
    given = [each for each in numbers_and_names(task) if each not in named]
    if given or all(occurs(each, f"{task}\n{told}") for each in numbers_and_names(text)):
        return ()  # it may be worked out, or known from elsewhere
    return tuple(each for each in named if not occurs(each, told))


def _only_thanks(task: str) -> bool:
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
        return clauses.asks_figure(asked) and _calls_for_another(state, context)
    if context.input.calls.attempts or context.input.results or _only_thanks(asked):
        return False
    if not (clauses.names_particulars(asked) or clauses.may_be_order(asked, _described(state, context))):
        return False
    return not evidence.works_out(proposal.text, evidence.Seen(asked))


def _is_left(state: KernelState, context: KernelContext) -> bool:
    """Return whether something plainly is left to do for the task.

    That is a required call, an item of a list, a call that failed, or, before the first call, a tool that has
    to do with the task.
    """
    counted = state.ledger.counted
    if requirements_of(state, context).open or counted.failed_in_a_row or _items_left(state, context):
        return True
    if not counted.attempts:
        tools = {name: text for name, text in _described(state, context).items() if text}
        return not clauses.is_beside_tools(context.input.to_do, tools)
    return _calls_for_another(state, context)


def _calls_for_another(state: KernelState, context: KernelContext) -> bool:
    """Return whether the task calls for a tool that was not used so far."""
    return clauses.is_open_for(context.input.to_do, *_unused_and_used(state, context))


def _unused_and_used(
    state: KernelState, context: KernelContext
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the descriptions of the tools that were not called, and of the others."""
    tools = {name: text for name, text in _described(state, context).items() if text}
    used = {name: text for name, text in tools.items() if state.ledger.counted.attempts.get(name)}
    return {name: text for name, text in tools.items() if name not in used}, used


def _leaves_open(text: str, seen: evidence.Seen, state: KernelState, context: KernelContext) -> bool:
    """Return whether a text that may be the answer comes before its end.

    No call has worked and it has nothing of what the tools said, or a tool that the task calls for is unused.
    """
    counted = state.ledger.counted
    if not counted.attempts or denies(text):
        return False
    if not counted.succeeded:
        return not evidence.ends_with_evidence(text, seen)
    if clauses.asks_figure(context.input.to_do):
        return _calls_for_another(state, context)
    return clauses.is_ordered(context.input.to_do, *_unused_and_used(state, context))


def _items_left(state: KernelState, context: KernelContext) -> tuple[str, ...]:
    return items_left(
        context.input.to_do,
        context.toolset.offered,
        state.steps,
        results_of(state),
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
    calls = [step for step in steps if step.type == "action" and not _delivers(step)]
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
        if step.type == "observation" and step.metadata is not None and not _was_run(step)
    }
    made = [call.content for call in calls if call.metadata is None or call.metadata.call_id not in not_run]
    items = open_items(task, asked, "\n".join((*made, *results)))
    spared = clauses.spared_in(task)
    items = tuple(each for each in items if each.casefold() not in spared)
    if not any("@" in each for each in items):
        return items
    before = _arguments_told(_calls_in(history), known).casefold()
    return tuple(each for each in items if "@" not in each or each.casefold() not in before)


def _was_run(step: ReasoningStep) -> bool:
    """Return whether a tool was run, or its stored result was shown."""
    if step.metadata is None or step.metadata.success:
        return True
    return step.metadata.origin in TRIED and f"\n{CALL_AGAIN} " not in step.content


def _is_of_a_tool(step: ReasoningStep) -> bool:
    """Return whether a step is what a call returned, other than a rejected answer."""
    return step.type == "observation" and not _delivers(step)


def _delivers(step: ReasoningStep) -> bool:
    """Return whether a step is of a call that delivers an answer."""
    return step.metadata is not None and step.metadata.tool_used == FINAL_ANSWER


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


@_where_asked_again
@optional_check(UNSUPPORTED)
def unsupported(state: KernelState, context: KernelContext) -> Verdict | None:
    """Question figures that nothing seen supports, and a total that is missing.

    Once, and once more where the answer is a text: delivered with ``final-answer``, it is taken at its word.
    An answer with other figures in place of those is questioned again.
    """
    proposal = state.proposal
    if proposal is None or not proposal.text.strip():
        return None
    told = state.ledger.told.get(UNSUPPORTED, 0)
    if told >= MOST_UNSUPPORTED:
        return None
    fits = _fits_form(proposal.text, context)
    if not fits and may_hold_calls(proposal.text) and calls_of_answer(proposal.text, state, context):
        return None  # the call is run, and its result is the answer
    seen = _seen(state, context)
    figures = evidence.unsupported_figures(proposal.text, seen) + evidence.unknown_people(proposal.text, seen)
    if told and not _says_other(figures, state) and (proposal.call_id is not None or told > 1):
        return None  # the model is sure of it
    objection = ""
    if figures:
        named = _listed(figures)
        objection = context.worded(
            f"Nothing that you have seen supports: {named}. Look it up, correct it, or leave it out and say "
            f"so; what you are sure of, deliver with {FINAL_ANSWER}.",
            f"Not found: {named}. Look it up, or leave it out. Then call {FINAL_ANSWER}.",
        )
    elif not told and not proposal.could_not:
        if _found_nothing(proposal.text, seen, state, context):
            objection = "No call has found anything. Look elsewhere, or say that nothing was found."
        elif answer_check.lacks_total(proposal.text, seen):
            objection = "The task asks for a total, and your answer has none. Work it out."
        elif _may_have_figures(seen.results) and _lacks_figure(proposal.text, state, context):
            objection = "The task asks for a figure, and your answer has none. Find it out."
    if not objection:
        return None
    asked = context.input.to_do
    is_given = gives_figures(asked)
    if not state.ledger.counted.attempts and (is_given or not has_precise_figures(figures, proposal.text)):
        described = _described(state, context)
        is_of_now = _tells_of_now(proposal.text, state)
        if answer_check.is_told_at_length(proposal.text, evidence.Seen(asked)) and not is_of_now:
            return None
        if composes(asked) and all(map(is_common, figures)):
            return None  # "Up to 50 % off" in a headline
        if clauses.is_beside_tools(asked, described):
            return None  # the model answers from what it knows, as it has to
        if not (clauses.is_english(asked) or clauses.asks_figure(asked) or is_of_now):
            return None  # nor can it be seen there what the tools are for
    return Redirect(UNSUPPORTED, objection)


def _found_nothing(text: str, seen: evidence.Seen, state: KernelState, context: KernelContext) -> bool:
    """Return whether a text tells several things although all look-ups found nothing.

    That there is nothing may be the answer: "Her calendar is free", or "She is fully booked" to a question of
    yes or no. A task for a text, such as a poem, needs no result.
    """
    if not seen.results or not all(map(_EMPTY.fullmatch, seen.results)) or composes(seen.task):
        return False
    if denies(text) or not _NOTHING_THERE.isdisjoint(_WORD.findall(text.casefold())):
        return False
    if clauses.REQUEST_MARK.search(seen.task) and not (asks_openly(seen.task) or asks_what(seen.task)):
        return False
    if not all(_looks_up(tool, context) for tool in state.ledger.counted.succeeded):
        return False
    added = clauses.telling_words(text) - clauses.telling_words(seen.everything)
    return (len(added) > 1 or any(map(_ABOVE_ZERO.search, added))) and not clauses.QUESTION.search(text)


def _tells_of_now(text: str, state: KernelState) -> bool:
    """Return whether a text tells how something is now, before any call."""
    return not state.ledger.counted.attempts and clauses.AS_OF_NOW.search(text) is not None


def without_source(text: str, state: KernelState, context: KernelContext) -> str:
    """Return which figures the model was asked about and kept; empty for none."""
    if not state.ledger.told.get(UNSUPPORTED):
        return ""
    seen = _seen(state, context)
    if people := evidence.unknown_people(text, seen):
        return f"These names have no source: {_listed(people)}."
    figures = evidence.unsupported_figures(text, seen)
    if figures:
        return f"These figures have no source: {_listed(figures)}."
    if _found_nothing(text, seen, state, context):
        return "No call has found anything."
    if answer_check.lacks_total(text, seen):
        return "The total or mean that is asked for is not in it."
    return "The figure that is asked for is not in it." if _lacks_figure(text, state, context) else ""


@_where_asked_again
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
        told=_said_before(context) if _is_first(context) else None,
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
    return f"The task orders something, and {missing}. Missing: what it is for."


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
    from reactive_agents.kernel.ordered_acts import act_left, claim_left, parts_left, replaced_left

    if not is_called and (left := act_left(task, text, offered, called, results.values())):
        return f"no call of {' or '.join(left)} was made"
    calls = _calls_made(made, results)
    tried = {each.name for each in unknown}
    if not is_called and (left := claim_left(task, text, offered, called, calls, results.values(), tried)):
        return f"no call of {' or '.join(left)} was made"
    if called.isdisjoint(acting) or not acting.isdisjoint(earlier):
        return ""
    given = _arguments_told(before, acting)
    parts = tuple(each for each in parts_left(task, text, offered, calls) if not clauses.names(given, each))
    if not parts and told is not None:
        parts = replaced_left(task, text, offered, calls, told)
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


def _calls_made(steps: Sequence[ReasoningStep], results: Mapping[str, str]) -> list[CompletedCall]:
    """Return the calls that worked."""
    from reactive_agents.kernel.ordered_acts import CompletedCall

    asked, made = dict[str | None, str](), list[CompletedCall]()
    for step in steps:
        about = step.metadata
        if about is None:
            continue
        if step.type == "action":  # a later pass may have calls of the same ids
            asked[about.call_id] = step.content
        elif step.type == "observation" and about.success and about.call_id in asked and not _delivers(step):
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


def _may_have_figures(results: Sequence[str]) -> bool:
    """Return whether there are no results yet, or one has a digit."""
    return not results or any(map(_DIGIT.search, results))


def _lacks_figure(text: str, state: KernelState, context: KernelContext) -> bool:
    """Return whether a figure is missing; a text on why a call failed needs none."""
    task = context.input.to_do
    if not clauses.lacks_figure(text, task) or _asks_back(text, context):
        return False
    observed = (step for step in state.steps if step.type == "observation" and step.metadata is not None)
    failures = [step.content for step in observed if step.metadata and step.metadata.success is False]
    return not failures or not answer_check.explains(text, context.input.to_do, failures)


def _says_other(figures: tuple[str, ...], state: KernelState) -> bool:
    """Return whether an answer has figures that the model's turn before had not."""
    turns = [message for message in state.messages if isinstance(message, AssistantMessage)][-2:-1]
    before = [text for turn in turns for text in (turn.content, *(str(c.arguments) for c in turn.tool_calls))]
    return bool(before) and not all(any(each in text for text in before) for each in figures)


def _fits_form(text: str, context: KernelContext) -> bool:
    """Return whether a text is an answer in the form that the run's answers have."""
    form = context.input.answer_form
    return form is not None and form.fits(text)


def _asks_back(text: str, context: KernelContext) -> bool:
    """Return whether a text asks for what the task does not say."""
    return clauses.asks_back(text, context.input.to_do, context.toolset.offered)


def _offered(state: KernelState, context: KernelContext) -> tuple[ToolDefinition, ...]:
    return context.toolset.available(recall=state.transcript.shown_in_part)


def _described(state: KernelState, context: KernelContext) -> Mapping[str, str]:
    """Return descriptions of the tools by their names; the kernel's own have none."""
    described = context.toolset.descriptions
    return {**described, RECALL: ""} if state.transcript.shown_in_part else described


def _texts_in_a_row(state: KernelState) -> int:
    """Return how many of the model's last turns had a text and no call."""
    count = 0
    for message in reversed(state.messages):
        if isinstance(message, AssistantMessage):
            if message.tool_calls:
                break
            count += 1
    return count


def _seen(state: KernelState, context: KernelContext) -> evidence.Seen:
    """Return the prompt's texts, the results, and the errors of tools that ran."""
    told, found = [*context.told], [*results_of(state)]
    worked, calls = list[str](), dict[str | None, str]()
    for step in state.steps:
        about = step.metadata
        if about is None:
            continue
        if step.type == "action":
            calls[about.call_id] = step.content
        elif not _is_of_a_tool(step):
            continue
        elif about.success is not False:
            worked.append(calls.get(about.call_id, ""))
        else:
            (found if _was_run(step) else told).append(step.content)
    return evidence.Seen(context.input.asked, tuple(found), "\n".join(told), "\n".join(worked))


# --- Results of tools that are the answer, without another turn of the model ---


@applies_where(lambda context: context.toolset.returns_directly)
@between_turns
def return_direct(state: KernelState, context: KernelContext) -> Verdict | None:
    """End the run with the result of a tool that is its answer.

    While a required call can still be made, or an act has failed, the model goes on first.
    """
    turned_down = (answer_form.OUTPUT_TYPE, answer_form.OUTPUT_VALIDATOR)
    direct = {each.name for each in context.toolset.offered if each.return_direct}
    if state.proposal is not None or direct.isdisjoint(state.ledger.counted.succeeded):
        return None
    if any(piece.policy in turned_down for piece in state.guidance):
        return None
    step = _direct_result(state, context, of_last_turn=any(map(state.ledger.told.get, turned_down)))
    if step is None:
        return None
    now, undone = requirements_of(state, context), undone_act_of(state, context)
    if (now.open or undone is not None) and turns_left(state, context):
        return None
    text, tool = _full_text(step, state), step.metadata and step.metadata.tool_used
    if now.open or now.lost:
        return Stop(RETURN_DIRECT, "partial", text, describe_missing(now))
    if undone is not None:
        return Stop(RETURN_DIRECT, "partial", text, describe_undone(undone))
    return Stop(RETURN_DIRECT, "completed", text, f"The result of {tool} is the answer.")


def _direct_result(state: KernelState, context: KernelContext, *, of_last_turn: bool) -> ReasoningStep | None:
    """Return the last result that is the answer; an empty one is none."""
    for step in reversed(state.steps):
        about = step.metadata
        if of_last_turn and step.type != "observation":
            return None
        if step.type != "observation" or about is None or not about.success or about.tool_used is None:
            continue
        definition = context.toolset.definition(about.tool_used)
        is_direct = definition is not None and definition.return_direct
        if is_direct and _full_text(step, state).strip() not in ("", "null"):
            return step
    return None


def _full_text(step: ReasoningStep, state: KernelState) -> str:
    return state.scratchpad.get((step.metadata and step.metadata.result_key) or "", "")


# --- Answers that have a form: wrong fields go back to the model ---


@applies_where(lambda context: context.input.answer_form is not None)
@about_answers
def output_type(state: KernelState, context: KernelContext) -> Verdict | None:
    """Ask for missing fields of ``final-answer``; partial after the last retry."""
    form, proposal = context.input.answer_form, state.proposal
    if form is None or proposal is None or proposal.call_id is None or proposal.could_not:
        return None
    problem = form.problem_in(proposal.text)
    return _objection(problem, form, proposal, state, context) if problem else None


async def held_to_form(
    stop: Stop, state: KernelState, context: KernelContext
) -> Stop | Redirect | errors.OutputValidatorFailed:
    """Return the verdict on an answer that no policy objects to.

    It is accepted as a value of the form, and by the functions of the program; these are why this is no
    policy. A text is asked for with ``final-answer`` once; what is left of it is converted after the run.
    """
    form = context.input.answer_form
    if form is None or stop.outcome != "completed" or not stop.output:
        return stop
    accepted = await in_time(answer_form.accepted_text(stop.output, form), seconds_left(context))
    if accepted is None:
        reason = "The time limit of the run was reached. Missing: the validation of the answer."
        return Stop(DEADLINE, "partial", stop.output, reason)
    if isinstance(accepted, Success):
        return evolve(stop, output=accepted.unwrap())
    problem = accepted.failure()
    if isinstance(problem, errors.OutputValidatorFailed):
        return problem
    proposal = state.proposal or (Proposal(stop.output) if stop.policy == RETURN_DIRECT else None)
    if proposal is None:
        return stop
    if form.has_fields and not form.fits(stop.output):
        offered = context.toolset.permits(FINAL_ANSWER)
        return (_objection(problem, form, proposal, state, context) if offered else None) or stop
    return _rejection(problem, stop, form, state, context)


def _objection(
    problem: str, form: answer_form.AnswerForm, proposal: Proposal, state: KernelState, context: KernelContext
) -> Redirect | Stop | None:
    """Return the verdict on an answer without the fields; ``None`` to leave it."""
    if not turns_left(state, context):
        return None
    by_tool, asked = proposal.call_id is not None, state.ledger.told.get(answer_form.OUTPUT_TYPE, 0)
    if asked < (answer_form.RETRIES if by_tool else 1):
        again = "again " if by_tool else ""
        return Redirect(
            answer_form.OUTPUT_TYPE, f"{problem} Call {FINAL_ANSWER} {again}with the fields of the answer."
        )
    if not by_tool:
        return None
    return Stop(
        answer_form.OUTPUT_TYPE, "partial", proposal.text, answer_form.reason_without_form(form.name, problem)
    )


def _rejection(
    problem: str, stop: Stop, form: answer_form.AnswerForm, state: KernelState, context: KernelContext
) -> Redirect | Stop:
    """Return the verdict on an answer that a validator does not accept."""
    if not turns_left(state, context):
        return stop  # it is corrected after the run
    if state.ledger.told.get(answer_form.OUTPUT_VALIDATOR, 0) >= answer_form.RETRIES:
        reason = answer_form.reason_without_form(form.name, problem, rejected=True)
        return Stop(answer_form.OUTPUT_VALIDATOR, "partial", stop.output, reason)
    deliver = (
        f"Call {FINAL_ANSWER} again" if context.toolset.permits(FINAL_ANSWER) else "Give the answer again"
    )
    return Redirect(answer_form.OUTPUT_VALIDATOR, f"{as_sentence(problem)} {deliver}, corrected and whole.")
