"""Answers that have a form: wrong fields go back to the model."""

from __future__ import annotations

from attrs import evolve
from returns.result import Success

from reactive_agents.core.errors import OutputValidatorFailed
from reactive_agents.kernel.answer_form import OUTPUT_TYPE, AnswerForm, accepted_text, reason_without_form
from reactive_agents.kernel.context import (
    KernelContext,
    Redirect,
    Stop,
    Verdict,
    about_answers,
    applies_where,
)
from reactive_agents.kernel.policies.budgets import turns_left
from reactive_agents.kernel.state import KernelState, Proposal
from reactive_agents.kernel.toolset import FINAL_ANSWER


@applies_where(lambda context: context.input.answer_form is not None)
@about_answers
def fields_of_answer(state: KernelState, context: KernelContext) -> Verdict | None:
    """Ask again for the fields of ``final-answer`` that are missing or wrong.

    After the last retry the run is partial.
    """
    form, proposal = context.input.answer_form, state.proposal
    if form is None or proposal is None or proposal.call_id is None or proposal.could_not:
        return None
    problem = form.problem_in(proposal.text)
    return _objection(problem, form, proposal, state, context) if problem else None


async def held_to_form(
    stop: Stop, state: KernelState, context: KernelContext
) -> Stop | Redirect | OutputValidatorFailed:
    """Return the verdict on an answer that no policy objects to.

    It is accepted as a value of the form, also by the functions of the program; these are why this is no
    policy. A text is asked for with ``final-answer`` once; what is left of it is converted after the run.
    """
    form = context.input.answer_form
    if form is None or stop.outcome != "completed" or not stop.output:
        return stop
    accepted = await accepted_text(stop.output, form)
    if isinstance(accepted, Success):
        return evolve(stop, output=accepted.unwrap())
    problem = accepted.failure()
    if isinstance(problem, OutputValidatorFailed):
        return problem
    if state.proposal is None or not context.toolset.permits(FINAL_ANSWER):
        return stop
    return _objection(problem, form, state.proposal, state, context) or stop


def _objection(
    problem: str, form: AnswerForm, proposal: Proposal, state: KernelState, context: KernelContext
) -> Redirect | Stop | None:
    """Return what an answer that does not fit leads to; ``None`` to leave it as it is."""
    if not turns_left(state, context):
        return None
    by_tool, asked = proposal.call_id is not None, state.ledger.told.get(OUTPUT_TYPE, 0)
    if asked < (form.retries if by_tool else min(form.retries, 1)):
        again = "again " if by_tool else ""
        return Redirect(OUTPUT_TYPE, f"{problem} Call {FINAL_ANSWER} {again}with the fields of the answer.")
    if not by_tool:
        return None
    return Stop(OUTPUT_TYPE, "partial", proposal.text, reason_without_form(form.name, problem))
