"""States after verdicts and errors."""

from __future__ import annotations

import pytest
from attrs import evolve
from returns.result import Failure

from reactive_agents.core.errors import KernelFailed
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.usage import RunUsage, Usage
from reactive_agents.kernel import Guidance, KernelStatus, Proposal, Redirect, Stop
from reactive_agents.kernel.ledger import CallLedger
from reactive_agents.kernel.termination import fail_run, redirect_run, refused_answer, stop_run
from tests.support.kernels import new_state

REDIRECT = Redirect("a-policy", "Look again.")
GIVEN = Guidance("a-policy", "Look again.")


def test_a_stop_ends_the_run_with_its_outcome_output_and_reason() -> None:
    before = evolve(
        new_state(), proposal=Proposal("3"), guidance=(GIVEN,), usage=RunUsage("", Usage(0, 0, 15))
    )
    after = stop_run(before, Stop("a-policy", "partial", "3", "Because.")).unwrap()
    assert (after.status, after.outcome, after.output) == ("done", "partial", "3")
    assert (after.terminated_by, after.reason) == ("a-policy", "Because.")
    assert (after.proposal, after.guidance, after.tokens) == (None, (), 15)


def test_a_stop_may_fail_the_run() -> None:
    assert stop_run(new_state(), Stop("a-policy", "failed", None, "Because.")).unwrap().status == "failed"


def test_an_error_ends_the_run_and_keeps_what_was_done() -> None:
    before = evolve(new_state(), usage=RunUsage("", Usage(0, 0, 15)), iteration=1)
    after = fail_run(before, KernelFailed("It gave up.", "react")).unwrap()
    assert (after.status, after.outcome, after.terminated_by) == ("failed", "failed", "kernel_error")
    assert (after.reason, after.tokens) == ("It gave up.", 15)
    assert after.error == KernelFailed("It gave up.", "react")


def test_a_run_that_has_ended_does_not_end_again() -> None:
    done = evolve(new_state(), status="done")
    assert isinstance(fail_run(done, KernelFailed("It gave up.", "react")), Failure)


def test_a_redirect_turns_a_proposed_text_down() -> None:
    after = redirect_run(evolve(new_state(), proposal=Proposal("3")), REDIRECT).unwrap()
    assert (after.status, after.proposal, after.guidance, after.results) == ("thinking", None, (GIVEN,), ())


def test_an_answer_that_came_by_a_call_is_refused_as_the_result_of_that_call() -> None:
    proposal = Proposal("3", "tool_calls", CallId("c1"))
    after = redirect_run(evolve(new_state(), status="observing", proposal=proposal), REDIRECT).unwrap()
    assert after.status == "observing"
    assert after.results == (
        ToolResult(CallId("c1"), "final-answer", error="Not accepted: Look again.", origin="refused"),
    )


@pytest.mark.parametrize("status", ["acting", "observing"])
def test_a_redirect_loses_neither_calls_nor_results(status: KernelStatus) -> None:
    call, result = ToolCall(CallId("c1"), "add"), ToolResult(CallId("c1"), "add", 3)
    before = evolve(new_state(), status=status, pending=(call,), results=(result,))
    after = redirect_run(before, REDIRECT).unwrap()
    assert after == evolve(before, guidance=(GIVEN,), ledger=CallLedger(told={GIVEN.policy: 1}))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["final-answer", "final-answer"], "there were 2 answers in one turn"),
        (["final-answer", "search"], "other tools were called in the same turn"),
        (["final-answer"], "must be a text that is not blank"),
    ],
)
def test_an_answer_that_does_not_count_is_told_why(names: list[str], said: str) -> None:
    made = tuple(ToolCall(CallId(str(number)), name) for number, name in enumerate(names))
    assert said in refused_answer(made[0], made).error
