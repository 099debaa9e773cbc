"""Continue, redirect or stop: the one place where a kernel run is judged.

Policies are pure functions, asked in order before each step; the first verdict wins and names its policy. New
behaviour is a new policy in the tuple, not a change of the loop.

A redirect counts only while the model has a turn left to follow it, and once for each policy and turn: so no
policy can hold up a run, or say something that is never shown. Where another policy would end the run before
that turn, it ends at once. An answer that is turned down when no turn is left ends the run as partial.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Iterator
from functools import partial
from typing import get_args

from attrs import evolve
from returns.maybe import Nothing

from reactive_agents.core import errors
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.results import ReasoningStatus, ReasoningStep
from reactive_agents.core.texts import counted, shortened
from reactive_agents.core.values import replaced
from reactive_agents.kernel import answer_check
from reactive_agents.kernel.context import (
    KernelContext,
    Policy,
    Proceed,
    Redirect,
    Stop,
    Verdict,
    about_answers,
    applies_where,
    between_turns,
)
from reactive_agents.kernel.embedded_calls import NOTHING_CALLED, results_of_written_calls
from reactive_agents.kernel.ledger import EMPTY_REPLY
from reactive_agents.kernel.policies import answers, limits, requirements, unfinished_work
from reactive_agents.kernel.state import KernelState
from reactive_agents.kernel.termination import ANSWERED, last_words, stop_early

MOST_EMPTY = 4
"""Empty replies without a call in between that are asked again."""
_TASK_CHARS = 500
"""Characters of the task that a model is shown again."""
STEPS_PER_ITERATION = 4
"""Kernel steps that one iteration may take; a kernel that needs more makes no progress."""

_PROCEED = Proceed()
_VERDICTS = (Proceed, Redirect, Stop)
_OUTCOMES: tuple[ReasoningStatus, ...] = get_args(ReasoningStatus)


def decide(
    state: KernelState, context: KernelContext, kernel_steps: int = 0
) -> Verdict | errors.PolicyFailed:
    """Return the first verdict of the policies, or ``Proceed``.

    A kernel that has made too many steps for its turns, by the runner's count, has to stop in any case. A
    policy that raises, or returns anything but a verdict or ``None``, is ``PolicyFailed``.
    """
    out_of_steps = kernel_steps >= context.max_iterations * STEPS_PER_ITERATION
    if state.proposal is not None:
        policies = context.asked
    else:
        policies = context.before_turns if state.status == "thinking" else context.within_turns
    for policy, given in _verdicts(policies, state, context):
        verdict = _admitted(given, state, context) if isinstance(given, Redirect) else given
        if isinstance(verdict, Redirect):
            ending = _end_before_next_turn(state, context, policy)
            if ending is None and out_of_steps:
                ending = _ended_by_steps(state, context, kernel_steps)
            return ending or verdict
        if verdict is not None:
            return verdict
    return _ended_by_steps(state, context, kernel_steps) if out_of_steps else _PROCEED


def _end_before_next_turn(
    state: KernelState, context: KernelContext, asked: Policy
) -> Stop | errors.PolicyFailed | None:
    """Return what would end the run between a redirect and the turn that it is for.

    ``asked``: after it come the policies that have not been asked yet about a state without an answer.
    """
    rest = context.asked[context.asked.index(asked) + 1 :]
    if state.proposal is not None:
        state, rest = replaced(state, proposal=None, status="thinking"), context.asked
    elif state.status != "thinking":
        return None
    for _, verdict in _verdicts(rest, state, context):
        if isinstance(verdict, Stop | errors.PolicyFailed):
            return verdict
    return None


def _verdicts(
    policies: Iterable[Policy], state: KernelState, context: KernelContext
) -> Iterator[tuple[Policy, Verdict | errors.PolicyFailed]]:
    """Yield the policies that do not return ``None``, each with its verdict."""
    for policy in policies:
        try:
            returned: object = policy(state, context)
        except Exception as error:  # noqa: BLE001 - a policy is the user's code
            yield policy, errors.PolicyFailed(_name_of(policy), f"raised {type(error).__name__}: {error}")
            continue
        if returned is not None:
            yield policy, _checked(returned, policy)


def _checked(returned: object, policy: Policy) -> Verdict | errors.PolicyFailed:
    """Return what a policy has returned, or that it is no verdict."""
    if isinstance(returned, _VERDICTS):
        problem = _problem_of(returned)
        return errors.PolicyFailed(_name_of(policy), problem) if problem else returned
    expected = "expected a Proceed, Redirect or Stop, or None."
    if isinstance(returned, Coroutine):
        returned.close()
        expected = f"{expected} A policy is a plain function: it is not async."
    return errors.PolicyFailed(_name_of(policy), f"returned {type(returned).__name__}, {expected}")


def _problem_of(verdict: Verdict) -> str:
    """Return which value of a verdict is wrong; empty when none is."""
    texts: tuple[str, ...] = ()
    if isinstance(verdict, Redirect):
        texts = ("policy", "guidance")
    elif isinstance(verdict, Stop):
        if verdict.outcome not in _OUTCOMES:
            return f"returned a Stop whose outcome is {verdict.outcome!r:.80}, expected {_OUTCOMES}."
        texts = ("policy", "reason") if verdict.output is None else ("policy", "reason", "output")
    for name in texts:
        value = getattr(verdict, name)
        if not isinstance(value, str):
            kind = type(value).__name__
            return f"returned a {type(verdict).__name__} whose {name} is of type {kind}, expected a text."
        if name == "policy" and not value.strip():
            return f"returned a {type(verdict).__name__} whose policy is {value!r}, expected its name."
    return ""


def _name_of(policy: Policy) -> str:
    inner = policy.func if isinstance(policy, partial) else policy
    return str(getattr(inner, "__name__", type(inner).__name__))


def _ended_by_steps(state: KernelState, context: KernelContext, kernel_steps: int) -> Stop:
    reason = f"The kernel made {kernel_steps} steps without finishing."
    return stop_early("iteration_limit", reason, state, context)


def _admitted(redirect: Redirect, state: KernelState, context: KernelContext) -> Verdict | None:
    proposal = state.proposal
    if limits.turns_left(state, context):
        given = any(piece.policy == redirect.policy for piece in state.guidance)
        return None if given and proposal is None else redirect
    if proposal is None or not proposal.text.strip():
        return None
    spent = limits.budget_reached_by_kernel(state, context)
    reason = spent or _limit_reached(context)
    missing = f"Missing: an answer that {redirect.policy} accepts: {redirect.guidance}"
    return Stop("budget" if spent else "iteration_limit", "partial", proposal.text, f"{reason} {missing}")


def _limit_reached(context: KernelContext) -> str:
    return f"The limit of {counted(context.max_iterations, 'turn')} was reached."


@applies_where(lambda context: context.tools is Nothing)
@between_turns
def no_tool_service(state: KernelState, context: KernelContext) -> Verdict | None:
    """Report once that there is no tool service, and end the run at the next call."""
    if state.status != "thinking" or context.tools is not Nothing or not state.messages:
        return None
    refused = [step for step in state.steps if step.type == "action"]
    if not refused or state.guidance or state.proposal is not None:
        return None
    turns = sum(1 for m in state.messages if isinstance(m, AssistantMessage) and m.tool_calls)
    if turns >= 2:
        return Stop(
            "no_tool_service",
            "partial",
            last_words(state),
            "The model keeps asking for tools, and this run has no tool service. Missing: the tool results.",
        )
    return Redirect(
        "no_tool_service", "No tools can be run here. Answer from what you know, and say what is missing."
    )


@about_answers
def empty_reply(state: KernelState, context: KernelContext) -> Verdict | None:
    """Ask again after a turn with neither text nor calls, four times at most.

    Where answers are questioned, one of dots alone and one that repeats the question count as empty too. A
    model that greets and offers its help after it made calls has lost the task, and is shown it again, once.
    """
    if state.proposal is None:
        return None
    task = context.input.to_do
    if state.ledger.counted.attempts and answer_check.only_greets(state.proposal.text, task):
        if not state.ledger.told.get(EMPTY_REPLY):
            return Redirect(
                EMPTY_REPLY, f"Your last reply was no answer. The task is: {shortened(task, _TASK_CHARS)}"
            )
        reason = "The model offered its help in place of an answer. Missing: a final answer."
        return Stop(EMPTY_REPLY, "partial", state.proposal.text, reason)
    if state.proposal.text.strip() and not answers.says_nothing(state.proposal.text, state, context):
        return None
    if state.ledger.told.get(EMPTY_REPLY, 0) >= MOST_EMPTY:
        thought = ", the last time but for its thinking" if state.proposal.thought else ""
        reason = f"The model's reply was empty in {MOST_EMPTY + 1} turns{thought}. Missing: a final answer."
        return Stop(EMPTY_REPLY, "partial", last_words(state), reason)
    thought = " but for your thinking, which nobody sees" if state.proposal.thought else ""
    advice = "Give the answer, or call a tool that helps to find it."
    said = "no answer" if state.proposal.text.strip() else f"empty{thought}"
    return Redirect(EMPTY_REPLY, f"Your last reply was {said}. {advice}")


@about_answers
def final_answer(state: KernelState, context: KernelContext) -> Verdict | None:
    """Accept a proposed answer, unless it was cut off, or breaks off."""
    proposal = state.proposal
    if proposal is None or not proposal.text.strip():
        return None
    match proposal.finish_reason:
        case "length":
            reason = "The model's answer was cut off at its output limit. Missing: the rest of the answer."
            return Stop("final_answer", "partial", proposal.text, reason)
        case "content_filter":
            reason = "The provider's content filter cut the answer off. Missing: the rest of the answer."
            return Stop("final_answer", "partial", proposal.text, reason)
        case "stop" | "tool_calls" | "other":
            if broken := answers.breaks_off_within(proposal, context):
                reason = f"The model's answer breaks off within {broken}. Missing: the rest of the answer."
                return Stop("final_answer", "partial", proposal.text, reason)
            reason = ANSWERED
            if _called_nothing(state, context):
                reason += f" {NOTHING_CALLED}"
            for doubted in (answers.without_source, unfinished_work.without_call):
                if doubt := doubted(proposal.text, state, context):
                    reason += f" {doubt}"
            checked = unfinished_work.FAILED_CALL in context.input.settings.answer_checks
            undone, given = unfinished_work.undone_act_of(state, context) if checked else None, context.input
            if undone is not None and not unfinished_work.is_foreseen(
                undone, proposal.text, given.to_do, given.asked
            ):
                return _without_act(undone, proposal.text, state)
            return Stop("final_answer", "completed", proposal.text, reason)


def _without_act(failure: ReasoningStep, text: str, state: KernelState) -> Stop:
    """Return the verdict on an answer after the failure of what was to be done."""
    if not state.ledger.counted.succeeded and answer_check.tells_failure(text, failure.content):
        return Stop(requirements.ABSTENTION, "abstained", text, requirements.describe_abstention(text))
    return Stop(unfinished_work.FAILED_CALL, "partial", text, unfinished_work.describe_undone(failure))


def _called_nothing(state: KernelState, context: KernelContext) -> bool:
    """Return whether there were tools, and none was called in the whole run."""
    if state.ledger.counted.attempts or context.input.calls.attempts or context.input.results:
        return False
    return not context.toolset.is_empty


@between_turns
def iteration_limit(state: KernelState, context: KernelContext) -> Verdict | None:
    """End the run when the model has had its turns, with its last words.

    Where its last turn was a call written as text, the result of the call is the output.
    """
    if state.status != "thinking" or state.iteration < context.max_iterations:
        return None
    reason, delivered = _limit_reached(context), results_of_written_calls(state)
    if delivered is None:
        return stop_early("iteration_limit", reason, state, context)
    reason += " The last one was a call written as text; its result is the output."
    return evolve(stop_early("iteration_limit", reason, state, context), output=delivered)


STANDARD_POLICIES: tuple[Policy, ...] = (
    no_tool_service,
    answers.return_direct,
    limits.budget,
    limits.loop_detection,
    answers.cut_off,
    requirements.tool_choice,
    requirements.required_tools,
    empty_reply,
    answers.output_type,
    answers.written_call,
    unfinished_work.failed_call,
    unfinished_work.left_out,
    requirements.refusal,
    answers.text_answer,
    requirements.abstention,
    answers.unsupported,
    unfinished_work.not_done,
    requirements.out_of_reach,
    limits.diminishing_returns,
    requirements.synthesis,
    requirements.progress,
    final_answer,
    iteration_limit,
)
"""The default policies of a run, in their order."""

BACKSTOPS: tuple[Policy, ...] = (final_answer, iteration_limit)
"""The policies by which every run ends at the latest: an unopposed answer, and the limit of turns."""


def with_backstops(policies: tuple[Policy, ...]) -> tuple[Policy, ...]:
    """Return the policies, followed by the backstops that they lack."""
    return policies + tuple(backstop for backstop in BACKSTOPS if backstop not in policies)
