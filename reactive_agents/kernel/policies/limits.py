"""Policies that end runs: a spent budget, turns in a circle, little that is new."""

from __future__ import annotations

import re

from reactive_agents.core import errors
from reactive_agents.core.languages import alternatives, expression
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.texts import counted, dollars, one_line
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import lazy_pattern
from reactive_agents.kernel.clauses import names
from reactive_agents.kernel.context import (
    KernelContext,
    Redirect,
    Stop,
    UsageAccount,
    Verdict,
    between_turns,
)
from reactive_agents.kernel.evidence import results_of
from reactive_agents.kernel.open_requirements import (
    describe_missing,
    describe_open,
    how_to_deliver,
    requirements_of,
    still_to_gather,
)
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import last_words, stop_early
from reactive_agents.kernel.tool_execution import no_calls_left, screen_calls

LOOP_DETECTION = "loop_detection"
IDLE_TURNS = 3
"""Turns in a row without anything new that end a run."""

_GO_ON = "Use other arguments or another tool, or answer with what there is and say what is missing."
REPEATED_CALLS = f"The last calls were made before, with these results. {_GO_ON}"
NOTHING_NEW = f"The last turns brought nothing new. {_GO_ON}"
BRIEF_REPEATED_CALLS = "You made these calls before. Try others, or answer with what there is."
BRIEF_NOTHING_NEW = "Nothing new came. Try other calls, or answer with what there is."


@between_turns
def loop_detection(state: KernelState, context: KernelContext) -> Verdict | None:
    """Give guidance after repeated calls or answers, then end the run.

    A run that loops because a required tool is missing is ended by the policy for requirements.
    """
    ledger, proposal = state.ledger, state.proposal
    if state.status != "thinking" and proposal is None:
        return None
    if ledger.idle_turns >= IDLE_TURNS:
        now = requirements_of(state, context)
        if now.lost:
            return None
        reason = f"{ledger.idle_turns} turns in a row repeated calls or answers without anything new."
        reason += _failing_call(state)
        missing = describe_missing(now, "" if now.open else "a final answer")
        return Stop(LOOP_DETECTION, "partial", last_words(state), f"{reason} {missing}")
    if proposal is not None:
        return None
    if ledger.idle_turns > 1:
        return Redirect(LOOP_DETECTION, context.worded(NOTHING_NEW, BRIEF_NOTHING_NEW))
    if not ledger.repeated:
        return None
    return Redirect(LOOP_DETECTION, context.worded(REPEATED_CALLS, BRIEF_REPEATED_CALLS))


def _failing_call(state: KernelState) -> str:
    """Return a sentence on the last call, if it failed again; else nothing."""
    last = next((step for step in reversed(state.steps) if step.type == "observation"), None)
    tool = last.metadata.tool_used if last is not None and last.metadata is not None else None
    if last is None or not last.is_failed_call or state.ledger.counted.failed_in_a_row.get(tool or "", 0) < 2:
        return ""
    return f" The call of {tool} failed each time: {one_line(last.content).rstrip('.')}."


DIMINISHING_RETURNS = "diminishing_returns"
LEAST_NOVELTY = 0.2
"""Share of a turn's words that must be new for gathering to be worth going on with."""

LEAST_GATHERED = 30
"""Distinct words that must have been gathered before; in less, repetition says nothing."""


@between_turns
def diminishing_returns(state: KernelState, context: KernelContext) -> Verdict | None:
    """Give guidance when the last results had little new: answer, or search elsewhere.

    Of things of one kind that are looked up one by one the last may be the one that is asked for, however
    much it is like the others: while a task asks for all or some of them by name or number, nothing is said.
    """
    ledger = state.ledger
    if state.status != "thinking" or state.proposal is not None or ledger.novelty is None:
        return None
    if ledger.novelty >= LEAST_NOVELTY or ledger.gathered < LEAST_GATHERED:
        return None
    now = requirements_of(state, context)
    if not now.open and _goes_through(state, context.input.to_do):
        return None
    figure = f"the last results: {ledger.novelty:.0%} new information"
    deliver = how_to_deliver(state, context, now)
    if still_to_gather(now, context):
        advice = f"Ask for something else in the calls still required: {describe_open(now)}. After that:"
        return Redirect(
            DIMINISHING_RETURNS, f"Little of what came last was new ({figure}). {advice} {deliver}"
        )
    enough = f"What has been gathered is sufficient ({figure}). Do not gather more. {deliver}"
    return Redirect(DIMINISHING_RETURNS, context.worded(enough, f"You have enough. {deliver}"))


_EACH = lazy_pattern(rf"{expression('each')}|\b\d+\s*(?:{alternatives('range_to')}|-|–)\s*\d", re.IGNORECASE)
"""Words for each of several things, and a range of their numbers."""


def _goes_through(state: KernelState, task: str) -> bool:
    """Return whether the last calls go through several things of a task.

    Each of them has a number, or is named in the task or in an earlier result; a search has other words.
    """
    from reactive_agents.kernel.open_items import names_items  # its expressions take a while to compile

    if state.ledger.repeated or not (_EACH.search(task) or names_items(task)):
        return False
    turns = [each.tool_calls for each in state.messages if isinstance(each, AssistantMessage)]
    *before, last = turns or [()]
    known = "\n".join((task, *[*results_of(state)][: -len(last)]))
    made = {call.fingerprint for turn in before for call in turn}
    return bool(last) and all(
        call.fingerprint not in made
        and any(_is_particular(value, known) for value in call.arguments.values())
        for call in last
    )


def _is_particular(value: object, known: str) -> bool:
    """Return whether an argument names one thing, by a number or as it was shown."""
    text = str(value)
    return (len(text.split()) == 1 and any(map(str.isdigit, text))) or names(known, text)


# --- Budgets: limits of tokens, dollars, model calls and tool calls of a run -----------------------------

BUDGET = "budget"


def budget(state: KernelState, context: KernelContext) -> Verdict | None:
    """A spent budget ends the run before the next call, with what it has."""
    if state.status == "acting":
        refusal = no_calls_left(context)
        if not refusal:
            return None
        screened = screen_calls(state, context, state.pending)
        is_over = any(each is not None and each.error == refusal for each in screened)
        return stop_early(BUDGET, refusal, state, context) if is_over else None
    answered = state.proposal is not None and bool(state.proposal.text.strip())
    spent = None if answered or state.status != "thinking" else budget_reached_by_kernel(state, context)
    return None if spent is None else stop_early(BUDGET, spent, state, context)


def turns_left(state: KernelState, context: KernelContext) -> bool:
    """Whether the model may be asked once more."""
    return state.iteration < context.max_iterations and budget_reached_by_kernel(state, context) is None


def budget_reached_by_kernel(state: KernelState, context: KernelContext) -> str | None:
    """Return which budget is used up, in a sentence; ``None`` while none is.

    The run's usage includes that of this kernel; without it the kernel's own is used.
    """
    used = state.usage if state.run_usage is None else state.run_usage
    return state.passed_limit or budget_reached(context.input.settings.budget, used)


def budget_reached(limits: BudgetConfig, used: RunUsage) -> str | None:
    """Which of the limits has been reached, in a sentence; ``None`` while none has."""
    if limits.tokens is not None and used.tokens >= limits.tokens:
        return f"{used.tokens} tokens were used, the budget was {limits.tokens}."
    if limits.cost_usd is not None and used.cost_usd >= limits.cost_usd:
        return f"{dollars(used.cost_usd)} was spent, the budget was {dollars(limits.cost_usd)}."
    if limits.requests is not None and used.calls >= limits.requests:
        return f"The limit of {counted(limits.requests, 'model call')} was reached."
    return None


def budget_reached_by_run(limits: BudgetConfig, account: UsageAccount) -> str | None:
    """The same of all that a run has spent by now."""
    return account.ended_by or budget_reached(limits, account.total)


def budget_refusal(
    error: errors.RuntimeErrors | errors.PhaseCause,
) -> errors.BudgetExceeded | errors.BudgetUnavailable | None:
    """Return the budget error below an error, if there is one."""
    cause = errors.root_cause(error)
    return cause if isinstance(cause, errors.BudgetExceeded | errors.BudgetUnavailable) else None
