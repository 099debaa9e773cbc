"""Answers that come by a call of the ``final-answer`` tool."""

from __future__ import annotations

from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.state import Proposal
from reactive_agents.kernel.toolset import FINAL_ANSWER


def without_repeats(calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
    """The calls of a turn; of one that says the same answer several times and nothing else, the first."""
    if len(calls) > 1 and calls[0].name == FINAL_ANSWER and len({call.fingerprint for call in calls}) == 1:
        return calls[:1]
    return calls


def proposed_answer(calls: tuple[ToolCall, ...]) -> Proposal | None:
    """The answer that a lone, well-formed call of the ``final-answer`` tool delivers."""
    if len(calls) != 1 or calls[0].name != FINAL_ANSWER:
        return None
    answer = calls[0].arguments.get("answer")
    if not isinstance(answer, str) or not answer.strip():
        return None
    return Proposal(answer, "tool_calls", calls[0].id)


def refused_answer(call: ToolCall, calls: tuple[ToolCall, ...]) -> ToolResult:
    """Why a call of the ``final-answer`` tool does not count."""
    answers = [each for each in calls if each.name == FINAL_ANSWER]
    if len(answers) == len(calls) > 1:
        error = (
            f"Not accepted: there were {len(calls)} answers in one turn, and one is expected. Give that one."
        )
    elif len(calls) > 1:
        error = "Not accepted: other tools were called in the same turn. See their results, then answer."
    else:
        error = "Not accepted: the argument 'answer' must be a text that is not blank."
    return ToolResult(call.id, call.name, error=error, origin="refused")
