"""Termination: time limits, and the terminal states of a run."""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from returns.result import Result

from reactive_agents.core.codec import from_json
from reactive_agents.core.json import Json, texts_in
from reactive_agents.core.messages import AssistantMessage, ToolCall, ToolMessage
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.values import replaced
from reactive_agents.event_loop import within
from reactive_agents.kernel.announcements import denies
from reactive_agents.kernel.answer_form import AnswerForm
from reactive_agents.kernel.call_parsing.response_calls import without_marks
from reactive_agents.kernel.context import KernelContext, Redirect, Stop
from reactive_agents.kernel.ledger import enter_guidance
from reactive_agents.kernel.open_requirements import describe_missing, requirements_of
from reactive_agents.kernel.state import Guidance, KernelState, Proposal, successor
from reactive_agents.kernel.toolset import COULD_NOT, FINAL_ANSWER

if TYPE_CHECKING:
    from reactive_agents.core.errors import IllegalTransition, KernelErrors

_A = TypeVar("_A")
_LEAST_WORDS = 3
"""The fewest words of a reason; models that fill in every argument write "none" or "not applicable"."""

ANSWERED = "The model gave its final answer."
"""The reason of a run that ends with an accepted answer, before what was doubted of it."""

FINISHING_S = 0.5
"""Seconds past the deadline in which a step may record the results of tools.

The tools end their calls at the deadline by themselves, and have half of it to report the results.
"""


def seconds_left(context: KernelContext) -> float:
    """Return the seconds until the deadline, negative after it, infinite without it."""
    deadline = context.input.deadline
    return inf if deadline is None else deadline - context.clock.monotonic()


def in_time(running: Coroutine[Any, Any, _A], seconds: float) -> Awaitable[_A | None]:
    """Return the coroutine's result, or ``None`` when a timeout cancelled it."""
    return running if seconds == inf else within(seconds, running, None)


def doubts_in(state: KernelState) -> str:
    """Return what the reason of an accepted answer says against it; empty for nothing."""
    return state.reason.removeprefix(ANSWERED).strip() if state.reason.startswith(ANSWERED) else ""


# --- Answers that come by a call of the ``final-answer`` tool ---


def without_repeated_answers(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """Return the calls of a turn, without repetitions of the same answer."""
    if len(calls) > 1 and calls[0].name == FINAL_ANSWER and len({call.fingerprint for call in calls}) == 1:
        return calls[:1]
    return calls


def proposed_answer(calls: tuple[ToolCall, ...], form: AnswerForm | None = None) -> Proposal | None:
    """Return the answer that a lone, well-formed call of ``final-answer`` delivers.

    If answers have a form, every such call is an answer: problems of its arguments are found when the answer
    is to be accepted.
    """
    if len(calls) != 1 or calls[0].name != FINAL_ANSWER:
        return None
    given = calls[0].arguments
    if form is not None and form.has_fields:
        return _filled_in(calls[0], form)
    answer, could_not = given.get("answer", _bare_text(calls[0])), _reason_given(given.get(COULD_NOT))
    answer = without_marks(answer)[0] if isinstance(answer, str) else ""
    if not answer.strip():
        answer = could_not
    elif answer == could_not and not denies(answer):  # some models write it into both
        could_not = ""
    return Proposal(answer, "tool_calls", calls[0].id, could_not) if answer else None


def _bare_text(call: ToolCall) -> str:
    """Return a whole sentence in place of the arguments, which is no broken JSON."""
    text = call.malformed.strip()
    text = from_json(text, str).value_or(text) if text[:1] == '"' else text
    return text if text[-1:] in (".", "!", "?", "。") and text[:1] not in ("{", "[", "<", "`", '"') else ""


def _filled_in(call: ToolCall, form: AnswerForm) -> Proposal:
    """Return the answer with the fields in the arguments of a call."""
    text = call.malformed or form.text_of(call.arguments)
    could_not = _reason_given(call.arguments.get(COULD_NOT)) if form.abstains else ""
    if could_not and not form.fits(text):
        text = could_not
    return Proposal(text, "tool_calls", call.id, could_not)


def _reason_given(value: Json) -> str:
    """Return a reason that the model gave; empty for "none" and other placeholders."""
    text = "; ".join(filter(None, map(str.strip, texts_in(value))))  # weak models give a list or an object
    is_sentence = len(text.split()) >= _LEAST_WORDS or (len(text) >= _LEAST_WORDS and not text.isascii())
    return text if is_sentence else ""


def refused_answer(call: ToolCall, calls: tuple[ToolCall, ...]) -> ToolResult:
    """Return why a call of the ``final-answer`` tool does not count."""
    answers = [each for each in calls if each.name == FINAL_ANSWER]
    if len(answers) == len(calls) > 1:
        error = (
            f"Not accepted: there were {len(calls)} answers in one turn, and one is expected. Give that one."
        )
    elif len(calls) > 1:
        error = "Not accepted: other tools were called in the same turn. See their results, then answer."
    elif call.malformed:
        error = "Not accepted: the arguments must be a JSON object; this text could not be read as one."
    else:
        error = "Not accepted: the argument 'answer' must be a text that is not blank."
    return ToolResult(call.id, call.name, error=error, origin="refused")


# --- What a verdict or an error makes of a kernel state ---


ACCEPTED = "Accepted."
RETURN_DIRECT = "return_direct"
"""The policy that ends a run with the result of a tool."""


def last_words(state: KernelState) -> str | None:
    """Return the model's last text, also a rejected one, for a run that stops early."""
    if state.proposal is not None and state.proposal.text.strip():
        return state.proposal.text
    for message in reversed(state.messages):
        if not isinstance(message, AssistantMessage):
            continue
        delivered = proposed_answer(message.tool_calls)
        if delivered is not None:
            return delivered.text
        if len(message.tool_calls) == 1 and message.tool_calls[0].name == FINAL_ANSWER:
            return message.tool_calls[0].sent_arguments  # the fields of an answer
        if message.content.strip():
            return message.content
    return state.transcript.last_words


def stop_early(policy: str, reason: str, state: KernelState, context: KernelContext) -> Stop:
    """Return the end of a run without an answer; it says what is missing."""
    missing = describe_missing(requirements_of(state, context), "a final answer")
    return Stop(policy, "partial", last_words(state), f"{reason} {missing}")


def stop_run(state: KernelState, stop: Stop) -> Result[KernelState, IllegalTransition]:
    """Return the terminal state of a verdict; the delivering call gets its result."""
    messages = state.messages
    if state.proposal is not None and state.proposal.call_id is not None:
        messages = (*messages, ToolMessage(state.proposal.call_id, FINAL_ANSWER, ACCEPTED))
    return successor(
        state,
        replaced(
            state,
            messages=messages,
            status="failed" if stop.outcome == "failed" else "done",
            outcome=stop.outcome,
            output=stop.output,
            terminated_by=stop.policy,
            reason=stop.reason,
            proposal=None,
            guidance=(),
        ),
    )


def fail_run(state: KernelState, error: KernelErrors) -> Result[KernelState, IllegalTransition]:
    """Return the failed state after a kernel's error, with all results so far."""
    return successor(
        state,
        replaced(
            state,
            status="failed",
            outcome="failed",
            error=error,
            terminated_by="kernel_error",
            reason=error.message,
        ),
    )


def redirect_run(state: KernelState, redirect: Redirect) -> Result[KernelState, IllegalTransition]:
    """Return the state with guidance for the next request; an answer is rejected.

    Pending calls still run, and results are still observed. An answer in a call of the ``final-answer`` tool
    is such a call, and its rejection is the result.
    """
    results = state.results
    if state.proposal is not None and state.proposal.call_id is not None:
        refusal = f"Not accepted: {redirect.guidance}"
        results = (
            *results,
            ToolResult(state.proposal.call_id, FINAL_ANSWER, error=refusal, origin="refused"),
        )
    following = replaced(
        state,
        results=results,
        proposal=None,
        guidance=(*state.guidance, Guidance(redirect.policy, redirect.guidance)),
        ledger=enter_guidance(state.ledger, redirect.policy),
    )
    return successor(state, following)
