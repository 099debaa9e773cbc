"""Whether a proposed answer is one: no announcement, no call, figures seen.

Small models announce a call and do not make it, write it in a form that cannot be run, or answer with
figures that they made up. Each of these policies asks in plain words, a bounded number of times, and then
takes the model at its word: a model that answers properly pays at most one call more, and a run never waits
for an answer that does not come.

They are about runs that are offered ``final-answer`` and have a second turn: elsewhere a text is the answer.
Only :func:`cut_off` is for all runs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final

from attrs import evolve
from returns.result import Success

from reactive_agents.core import errors
from reactive_agents.core.figures import (
    COUNTED,
    gives_figures,
    has_precise_figures,
    is_common,
    numbers_and_names,
)
from reactive_agents.core.languages import alternatives, word_set
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.results import DEADLINE, ReasoningStep
from reactive_agents.core.texts import as_sentence
from reactive_agents.core.values import lazy_pattern
from reactive_agents.kernel import answer_check, answer_form, clauses, contradictions, evidence
from reactive_agents.kernel.announcements import (
    act_of,
    asks_about_speaker,
    asks_openly,
    asks_what,
    composes,
    denies,
    says_whether,
)
from reactive_agents.kernel.call_parsing.json_extraction import breaks_off
from reactive_agents.kernel.call_parsing.response_calls import may_hold_calls
from reactive_agents.kernel.call_parsing.spelled_calls import spelled_calls
from reactive_agents.kernel.call_parsing.tool_names import squash
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
from reactive_agents.kernel.context_window.tool_results import tool_results
from reactive_agents.kernel.embedded_calls import calls_of_answer
from reactive_agents.kernel.open_requirements import REQUIRED_TOOLS, describe_missing, requirements_of
from reactive_agents.kernel.policies.limits import IDLE_TURNS, turns_left
from reactive_agents.kernel.policies.unfinished_work import (
    TEXT_ANSWER,
    calls_for_another,
    calls_made,
    describe_undone,
    described_tools,
    has_work_left,
    last_failure,
    listed,
    looks_up,
    offered_tools,
    only_thanks,
    undone_act_of,
    unused_and_used,
    where_asked_again,
)
from reactive_agents.kernel.state import KernelState, Proposal
from reactive_agents.kernel.termination import RETURN_DIRECT, in_time, last_words, seconds_left
from reactive_agents.kernel.toolset import FINAL_ANSWER

CUT_OFF = "cut_off"
WRITTEN_CALL: Final = "written_call"
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
_WORD = lazy_pattern(r"\w+")
_OBJECT = lazy_pattern(r"\{.*\}", re.DOTALL)
_DIGIT = lazy_pattern(r"\d")
_NOTHING_THERE = word_set("nothing_there")
_ABOVE_ZERO = lazy_pattern(r"[1-9]")
_ONLY_LEADS = lazy_pattern(r"\W*\w[^\n]*[:：][\s*_]*")
"""A line that is to be followed by the answer."""
_ONLY_DONE = lazy_pattern(alternatives("only_done"), re.IGNORECASE)
"""An answer that only says that something is done."""
_where_tools_answer = applies_where(lambda context: context.toolset.permits(FINAL_ANSWER))


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
    """Return whether a text is a question again, without a telling word besides.

    Not one that chooses: "Al is taller" of "Who is taller, Al or Bo?".
    """
    if text.strip().casefold() == asked.strip().casefold():
        return True
    known = {*_WORD.findall(asked.casefold())}
    if clauses.leaves_choice(asked) or any(word[0] not in known for word in _WORD.finditer(text.casefold())):
        return False
    return asks_what(asked) and clauses.telling_words(text) == clauses.telling_words(asked)


def breaks_off_within(proposal: Proposal, context: KernelContext) -> str:
    """Return what an answer breaks off within, JSON or a sentence; empty for neither."""
    is_ended = proposal.finish_reason not in ("length", "content_filter")
    if not is_ended or context.input.answer_form is not None:
        return ""
    return "JSON" if breaks_off(proposal.text) else "a sentence" if clauses.is_cut(proposal.text) else ""


@about_answers
def cut_off(state: KernelState, context: KernelContext) -> Verdict | None:
    """Ask a turn that was cut off, or breaks off, again, twice at most.

    After that a text is partial, by the policy ``final_answer``, and an empty turn ends the run. What a
    content filter has cut off is not asked again, whatever is still required.
    """
    proposal = state.proposal
    if proposal is None:
        return None
    broken, by_length = breaks_off_within(proposal, context), proposal.finish_reason == "length"
    if not (broken or by_length or proposal.finish_reason == "content_filter"):
        return None
    asks_again = state.ledger.told.get(CUT_OFF, 0) < MOST_CUT_OFF and turns_left(state, context)
    if by_length and asks_again:
        advice = "Make the next call, or give the whole answer in fewer words."
        return Redirect(CUT_OFF, f"Your last reply was cut off at the output limit. {advice}")
    if broken and asks_again:
        return Redirect(CUT_OFF, f"Your last reply broke off within {broken}. Give the whole answer.")
    if proposal.text.strip():
        if by_length or broken:
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
    text, delivered, offered = proposal.text, proposal.call_id is not None, offered_tools(state, context)
    spelled = spelled_calls(text, offered)
    name = proposal.unmade or answer_check.unmade_call(
        text,
        spelled,
        evidence.seen_by(state, context) if spelled else answer_check.NOTHING_SEEN,
        told=f"{context.input.settings.system_prompt}\n{context.input.instructions}",
        delivered=delivered,
        quotes=bool(evidence.results_of(state)),
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
    if state.proposal is None:
        return None
    if state.proposal.call_id is not None:
        return _delivered_announcement(state.proposal, state, context)
    text = state.proposal.text
    if not text.strip() or _fits_form(text, context):
        return None
    seen, tools = evidence.seen_by(state, context), described_tools(state, context)
    if _needs_no_call(text, seen, state, context):
        return None
    lacks_figure = _lacks_figure(text, state, context)
    judgement = _judgement_of(text, seen, state, context, lacks_figure=lacks_figure)
    if judgement == "answer":
        return None
    is_left = has_work_left(state, context)
    if not (is_left or lacks_figure) and (
        answer_check.ends_with_result(text, seen) or answer_check.concludes(text, tools, seen)
    ):
        return None
    texts = min(_texts_in_a_row(state), 1 + state.ledger.told.get(TEXT_ANSWER, 0))
    if judgement == "announcement":
        is_asked = clauses.REQUEST_MARK.search(seen.task) and not asks_about_speaker(seen.task)
        is_asked = is_asked and not says_whether(text)  # "Yes, I'll keep it to myself"
        is_open = bool(seen.results or is_asked) and answer_check.announces(text, seen)
        if state.ledger.idle_turns and not (is_left or lacks_figure or is_open):
            return None  # the same text again
        if texts < MOST_TEXTS:
            return Redirect(TEXT_ANSWER, _NO_CALL)
        reason = f"The model announced in {texts} turns what it would do, and did not do it."
        return Stop(TEXT_ANSWER, "partial", text, f"{reason} Missing: a final answer.")
    if not lacks_figure and answer_check.is_told_at_length(text, seen) and not _tells_of_now(text, state):
        return None
    has_results = turns_left(state, context) and is_left and bool(evidence.results_of(state))
    tells_nothing = has_results and not evidence.ends_with_evidence(text, seen)
    return Redirect(TEXT_ANSWER, _NO_CALL) if texts <= 1 + tells_nothing else None


def _needs_no_call(text: str, seen: evidence.Seen, state: KernelState, context: KernelContext) -> bool:
    """Return whether a text stands without its words being judged.

    It tells of a failed call, is the text that was to be written, only answers thanks, asks the user back for
    a required call, or cannot be asked about.
    """
    task, failed = context.input.to_do, last_failure(state, context)
    announces = partial(answer_check.announces, text, seen)
    is_told = failed and (failed.is_declined_or_in_doubt or answer_check.tells_failure(text, failed.content))
    if is_told and not announces():
        return True
    if not state.ledger.counted.attempts and (
        answer_check.is_composed(text, task, described_tools(state, context)) or only_thanks(task)
    ):
        return True
    if state.ledger.told.get(REQUIRED_TOOLS) and _asks_back(text, context):
        return True
    return context.max_iterations == 1 and (_asks_back(text, context) or not announces())


def _judgement_of(
    text: str, seen: evidence.Seen, state: KernelState, context: KernelContext, *, lacks_figure: bool
) -> answer_check.Judgement:
    """Return whether a text is an answer, by its words and what is left to do."""
    judgement = answer_check.judge_text(text, described_tools(state, context), seen)
    if lacks_figure and not evidence.ends_with_evidence(text, seen):
        judgement = "announcement"
    elif judgement == "answer" and (lacks_figure or _leaves_open(text, seen, state, context)):
        judgement = "unclear"
    return "unclear" if judgement == "announcement" and _asks_back(text, context) else judgement


def _delivered_announcement(proposal: Proposal, state: KernelState, context: KernelContext) -> Verdict | None:
    """Question a delivered announcement before any call, once; then it is partial."""
    given, task = context.input, context.input.to_do
    if state.ledger.counted.attempts or given.results or proposal.could_not or context.max_iterations < 2:
        return None
    if not clauses.asks_to_know(task) or asks_about_speaker(task) or given.history.messages:
        return None
    seen = evidence.seen_by(state, context)
    if not answer_check.announces(proposal.text, seen) or says_whether(proposal.text):
        return None
    if clauses.REQUEST_MARK.search(proposal.text) or _asks_back(proposal.text, context):
        return None  # what comes then depends on the reader
    if clauses.is_beside_tools(f"{task}\n{proposal.text}", described_tools(state, context)):
        return None
    if not state.ledger.told.get(TEXT_ANSWER):
        return Redirect(TEXT_ANSWER, "That is no answer. Make the call, and deliver what it finds.")
    reason = "The model announced what it would do, and did not do it. Missing: a final answer."
    return Stop(TEXT_ANSWER, "partial", proposal.text, reason)


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
        return calls_for_another(state, context)
    return clauses.is_ordered(context.input.to_do, *unused_and_used(state, context))


@where_asked_again
@optional_check(UNSUPPORTED)
def unsupported(state: KernelState, context: KernelContext) -> Verdict | None:
    """Question figures that nothing seen supports, and a total that is missing.

    Once, and once more where the answer is a text: delivered with ``final-answer``, it is taken at its word,
    unless the figures cannot have been worked out. An answer with other figures in place of those is
    questioned again. One that keeps what it tells although no look-up found anything is partial where the
    task is about how something is now, or where a number of the task is what was looked up.
    """
    proposal = state.proposal
    if proposal is None or not proposal.text.strip():
        return None
    told, seen = state.ledger.told.get(UNSUPPORTED, 0), evidence.seen_by(state, context)
    contradiction = None if context.later_messages() else _contradiction_in(proposal.text, seen, state)
    if contradiction:  # of what the task asks; a later message may ask for something else
        before = _turn_before(state)
        is_kept = state.ledger.idle_turns or any(_contradiction_in(each, seen, state) for each in before)
        if told < MOST_UNSUPPORTED and not (told and is_kept):
            return Redirect(UNSUPPORTED, contradiction[0])
        return Stop(UNSUPPORTED, "partial", proposal.text, f"{contradiction[1]} Missing: the right ones.")
    needs_source = told and (clauses.is_of_now(seen.task) or _is_by_number(state, seen.task))
    if needs_source and _found_nothing(proposal.text, seen, state, context):
        doubt = without_source(proposal.text, state, context)
        return Stop(UNSUPPORTED, "partial", proposal.text, f"{doubt} Missing: a source of the answer.")
    fits = _fits_form(proposal.text, context)
    if not fits and may_hold_calls(proposal.text) and calls_of_answer(proposal.text, state, context):
        return None  # the call is run, and its result is the answer
    figures = _unknown_figures(proposal.text, seen, context) + evidence.unknown_people(proposal.text, seen)
    is_insisted = proposal.call_id is not None or told > 1 or _is_said_again(state)
    if told >= MOST_UNSUPPORTED or (is_insisted and _was_doubted(state) and not _says_other(figures, state)):
        if not figures or not (doubt := _doubt_of_kept(figures, proposal.text, seen, state, context)):
            return None  # the model is sure of it
        return Stop(UNSUPPORTED, "partial", proposal.text, f"{doubt} Missing: a source of the answer.")
    objection = _objection_to(proposal, figures, seen, state, context)
    return Redirect(UNSUPPORTED, objection) if objection else None


def _objection_to(
    proposal: Proposal,
    figures: Sequence[str],
    seen: evidence.Seen,
    state: KernelState,
    context: KernelContext,
) -> str:
    """Return the objection to unsupported or missing figures; empty for none."""
    if figures:
        named = listed(figures)
        objection = context.worded(
            f"Nothing that you have seen supports: {named}. Look it up, correct it, or leave it out and say "
            f"so; what you are sure of, deliver with {FINAL_ANSWER}.",
            f"Not found: {named}. Look it up, or leave it out. Then call {FINAL_ANSWER}.",
        )
    elif state.ledger.told.get(UNSUPPORTED) or proposal.could_not:
        return ""
    else:
        objection, _ = _gap_in(proposal.text, seen, state, context)
    is_meant = objection and not _needs_no_source(proposal.text, figures, state, context)
    return objection if is_meant else ""


def _gap_in(text: str, seen: evidence.Seen, state: KernelState, context: KernelContext) -> tuple[str, str]:
    """Return what to ask about what an answer lacks, and what to say of it at the end."""
    if _found_nothing(text, seen, state, context):
        found = "No call has found anything."
        return f"{found} Look elsewhere, or say that nothing was found.", found
    missing = "total" if answer_check.lacks_total(text, seen) else ""
    may_be_found = not seen.results or any(map(_DIGIT.search, seen.results))
    if not missing and may_be_found and _lacks_figure(text, state, context):
        missing = "figure"
    if not missing:
        return "", ""
    return (
        f"The task asks for a {missing}, and your answer has none. Find it out.",
        f"The {missing} that is asked for is not in it.",
    )


def _needs_no_source(text: str, figures: Sequence[str], state: KernelState, context: KernelContext) -> bool:
    """Return whether a text before any call may be made of what a model knows."""
    asked = context.input.to_do
    if state.ledger.counted.attempts or (has_precise_figures(figures, text) and not gives_figures(asked)):
        return False
    is_of_now = _tells_of_now(text, state)
    if answer_check.is_told_at_length(text, evidence.Seen(asked)) and not is_of_now:
        return True
    if composes(asked) and all(map(is_common, figures)):
        return True  # "Up to 50 % off" in a headline
    if clauses.is_beside_tools(asked, described_tools(state, context)) and not clauses.AS_OF_NOW.search(
        asked
    ):
        return True  # the model answers from what it knows, as it has to
    # nor can it be seen in another language what the tools are for
    return not (clauses.is_english(asked) or clauses.asks_figure(asked) or is_of_now)


def _is_said_again(state: KernelState) -> bool:
    """Return whether the answer came so often that nothing is asked any more."""
    return state.ledger.idle_turns >= IDLE_TURNS - 1


def _was_doubted(state: KernelState) -> bool:
    """Return whether the answer was questioned before, whatever for."""
    return bool(state.ledger.told.get(UNSUPPORTED)) or _is_said_again(state)


def _doubt_of_kept(
    figures: Sequence[str], text: str, seen: evidence.Seen, state: KernelState, context: KernelContext
) -> str:
    """Return why figures that are kept are wrong; empty where they may be right.

    Most may follow from what was seen. They are invented before any call if there is no number to begin
    with, and a tool is for what is asked.
    """
    given, asked = context.input, context.input.to_do
    if wrong := contradictions.miscopied(figures, seen):
        pairs = [f"{said} for {found}" for said, found in wrong.items()]
        return f"The answer has other figures than the results: {listed(pairs)}."
    if seen.results and clauses.is_of_now(asked) and all(map(answer_check.is_empty, seen.results)):
        return f"These have no source: {listed(figures)}. No call has found anything."
    attempts = state.ledger.counted.attempts or given.calls.attempts or given.results
    if attempts or COUNTED.search(seen.everything):
        return ""
    if not clauses.is_of_now(asked):
        is_known = clauses.is_beside_tools(asked, described_tools(state, context))
        if is_known or not (clauses.is_english(asked) or has_precise_figures(figures, text)):
            return ""
    return f"These figures have no source: {listed(figures)}. No call was made."


def _is_by_number(state: KernelState, task: str) -> bool:
    """Return whether a number of a task, as of a customer, is an argument of a call.

    "What is 15 % of 80?" and "Who won in 1998?" can be answered although a search finds nothing.
    """
    numbers = {*numbers_and_names(task)} if _DIGIT.search(task) else ()
    made = calls_made(state.steps, {}) if numbers else ()
    return any(value in numbers for each in made for given in each.arguments.values() for value in given)


def _contradiction_in(text: str, seen: evidence.Seen, state: KernelState) -> tuple[str, str] | None:
    """Return what to ask, and the reason at the end, about contradicted results."""
    has_figures = bool(state.scratchpad) and _DIGIT.search(text) is not None
    if not (has_figures or contradictions.compares(seen.task)):
        return None
    looked_up = _looked_up(state)
    if has_figures and (numbers := contradictions.mistotalled(text, seen, looked_up)):
        named = listed(numbers)
        return (
            f"Work it out again, of {named}.",
            f"The answer has another total or mean than that of {named}.",
        )
    if has_figures and (exchanged := contradictions.swapped(text, seen.task, looked_up)):
        things = listed(exchanged)
        return (
            f"Check the figures of {things}: they are swapped.",
            f"The answer gives the figures of {things} the wrong way round.",
        )
    if wrong := contradictions.miscompared(text, seen.task, looked_up):
        values = listed([f"{thing} {value}" for thing, value in wrong.items()])
        return f"Compare again: {values}.", f"The answer compares the results wrongly: {values}."
    return None


def _looked_up(state: KernelState) -> Mapping[str, str]:
    """Return the results of look-ups of one thing each, by the thing.

    What all calls of a tool have in common is none: "from Rome to Bari" and "from Rome to Genoa".
    """
    made = calls_made(state.steps, tool_results(state.scratchpad))
    given = [frozenset(chain.from_iterable(each.arguments.values())) for each in made]
    common: dict[str, frozenset[str]] = {}
    for call, own in zip(made, given, strict=True):
        common[call.tool] = common.get(call.tool, own) & own
    found: dict[str, list[str]] = {}
    for call, own in zip(made, given, strict=True):
        things = own if len(own) == 1 else own - common[call.tool]
        if len(things) == 1:
            found.setdefault(next(iter(things)), []).append(call.told.partition("\n")[2])
    return {thing: "\n".join(results) for thing, results in found.items()}


def _found_nothing(text: str, seen: evidence.Seen, state: KernelState, context: KernelContext) -> bool:
    """Return whether a text tells several things although all look-ups found nothing.

    That there is nothing may be the answer: "Her calendar is free", or "She is fully booked" to a question of
    yes or no. A task for a text, such as a poem, needs no result. A tool without a result, other than an
    empty list, may have done something, if the task asks nothing.
    """
    if not seen.results or not all(map(answer_check.is_empty, seen.results)) or composes(seen.task):
        return False
    if denies(seen.task):
        return False  # "Which had no sales?"
    has_lists = all(each.lstrip().startswith(("[", "{")) for each in seen.results)
    if not (has_lists or clauses.REQUEST_MARK.search(seen.task)):
        return False
    if denies(text) or not _NOTHING_THERE.isdisjoint(_WORD.findall(text.casefold())):
        return False
    if clauses.REQUEST_MARK.search(seen.task) and not (asks_openly(seen.task) or asks_what(seen.task)):
        return False
    if not all(looks_up(tool, context) for tool in state.ledger.counted.succeeded):
        return False
    added = clauses.telling_words(text) - clauses.telling_words(seen.everything)
    return (len(added) > 1 or any(map(_ABOVE_ZERO.search, added))) and not clauses.QUESTION.search(text)


def _tells_of_now(text: str, state: KernelState) -> bool:
    """Return whether a text tells how something is now, before any call."""
    return not state.ledger.counted.attempts and clauses.AS_OF_NOW.search(text) is not None


def without_source(text: str, state: KernelState, context: KernelContext) -> str:
    """Return which figures the model was asked about and kept; empty for none."""
    if not _was_doubted(state):
        return ""
    seen = evidence.seen_by(state, context)
    if people := evidence.unknown_people(text, seen):
        return f"These names have no source: {listed(people)}."
    figures = _unknown_figures(text, seen, context)
    if figures:
        return f"These figures have no source: {listed(figures)}."
    return _gap_in(text, seen, state, context)[1]


def _unknown_figures(text: str, seen: evidence.Seen, context: KernelContext) -> tuple[str, ...]:
    """Return the figures that nothing seen supports, without the model's ratings."""
    return evidence.unsupported_figures(answer_form.claims_in(text, context.input.answer_form), seen)


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
    before = _turn_before(state)
    return bool(before) and not all(any(each in text for text in before) for each in figures)


def _turn_before(state: KernelState) -> list[str]:
    """Return the texts of the model's turn before, and of its calls."""
    turns = [message for message in state.messages if isinstance(message, AssistantMessage)][-2:-1]
    return [text for turn in turns for text in (turn.content, *(str(c.arguments) for c in turn.tool_calls))]


def _fits_form(text: str, context: KernelContext) -> bool:
    """Return whether a text is an answer in the form that the run's answers have."""
    form = context.input.answer_form
    return form is not None and form.fits(text)


def _asks_back(text: str, context: KernelContext) -> bool:
    """Return whether a text asks for what the task does not say."""
    return clauses.asks_back(text, context.input.to_do, context.toolset.offered)


def _texts_in_a_row(state: KernelState) -> int:
    """Return how many of the model's last turns had a text and no call."""
    count = 0
    for message in reversed(state.messages):
        if isinstance(message, AssistantMessage):
            if message.tool_calls:
                break
            count += 1
    return count


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
