"""Required tools: turned-down answers, hints, and the end of what cannot be met."""

from __future__ import annotations

import pytest
from attrs import evolve

from reactive_agents.core.ids import CallId, StepId
from reactive_agents.core.messages import AssistantMessage
from reactive_agents.core.results import ReasoningStep, StepMetadata
from reactive_agents.kernel import Proposal, Redirect, Stop
from reactive_agents.kernel.open_requirements import requirements_of
from reactive_agents.kernel.policies.requirements import (
    PATIENCE,
    abstention,
    explained_by_failure,
    out_of_reach,
    progress,
    required_tools,
    synthesis,
)
from reactive_agents.testing.core import START
from tests.support.moments import around, moment

LOOK = around({"look": 1})
HEAR = around({"hear": 1})
BOTH = around({"look": 1, "report": 1})


def test_without_requirements_none_of_them_has_a_word() -> None:
    for policy in (required_tools, out_of_reach, synthesis, progress):
        assert policy(moment("So."), around()) is None
        assert policy(moment(), around()) is None


def test_an_answer_is_turned_down_while_calls_are_open() -> None:
    verdict = required_tools(moment("So."), LOOK)
    assert verdict == Redirect(
        "required_tools", "Not finished: look (0 of 1 calls done). Call these tools first."
    )
    assert required_tools(moment("So.", succeeded={"look": 1}), LOOK) is None
    assert required_tools(moment(" "), LOOK) is None


@pytest.mark.parametrize("last", [{"iteration": 5}, {"tokens": 100}, {"cost": 1.0}])
def test_without_a_turn_left_the_answer_is_partial(last: dict[str, int]) -> None:
    context = around({"look": 1}, tokens=100, cost_usd=1.0)
    verdict = required_tools(moment("So.", **last), context)
    assert isinstance(verdict, Stop)
    assert (verdict.policy, verdict.outcome, verdict.output) == ("required_tools", "partial", "So.")
    assert verdict.reason == "Missing: required calls: look (0 of 1 calls done)."


def test_an_answer_without_what_cannot_be_had_is_partial_at_once() -> None:
    verdict = required_tools(moment("So."), HEAR)
    assert isinstance(verdict, Stop)
    assert (verdict.outcome, verdict.output) == ("partial", "So.")
    assert verdict.reason == "Missing: the required tool hear (there is no such tool here)."


@pytest.mark.parametrize("iteration", [0, 2])
def test_the_model_is_told_what_cannot_be_had(iteration: int) -> None:
    verdict = out_of_reach(moment(iteration=iteration), HEAR)
    assert verdict == Redirect(
        "out_of_reach",
        "Not to be had: the required tool hear (there is no such tool here). "
        "Do without, and say so in the answer.",
    )
    assert out_of_reach(moment(said="out_of_reach"), HEAR) is None
    assert out_of_reach(moment("So."), HEAR) is None
    assert out_of_reach(moment(status="acting"), HEAR) is None
    assert out_of_reach(moment(), LOOK) is None


@pytest.mark.parametrize(
    ("account", "ended"),
    [
        ({"told": {"out_of_reach": PATIENCE}}, True),
        ({"told": {"out_of_reach": PATIENCE - 1}}, False),
        ({"told": {"progress": 9}}, False),
        ({"idle_turns": 3}, True),
        ({"idle_turns": 2}, False),
        ({"told": {"out_of_reach": PATIENCE}, "said": "out_of_reach"}, False),
    ],
)
def test_a_run_without_what_it_needs_goes_on_only_for_a_while(
    account: dict[str, object], ended: bool
) -> None:
    messages = (AssistantMessage("So far, so good."),)
    verdict = required_tools(moment(messages=messages, **account), HEAR)  # type: ignore[arg-type]
    assert isinstance(verdict, Stop) is ended
    if isinstance(verdict, Stop):
        assert (verdict.policy, verdict.output) == ("required_tools", "So far, so good.")
        assert verdict.reason.endswith("hear (there is no such tool here); a final answer.")
    assert required_tools(moment(**account), LOOK) is None  # type: ignore[arg-type]


def test_a_loss_does_not_free_the_model_from_what_is_open_until_patience_is_over() -> None:
    mixed = around({"hear": 1, "look": 1})
    assert isinstance(required_tools(moment("So."), mixed), Redirect)
    verdict = required_tools(moment("So.", told={"out_of_reach": PATIENCE}), mixed)
    assert isinstance(verdict, Stop)
    assert "hear" in verdict.reason
    assert "look" in verdict.reason


def test_progress_names_what_is_open_and_what_may_help() -> None:
    context = around({"look": 2}, relevant=frozenset({"see", "hear"}))
    verdict = progress(moment(succeeded={"look": 1}, attempts={"look": 1}), context)
    assert verdict == Redirect("progress", "Still required: look (1 of 2 calls done). These may help: see.")


def test_once_only_delivery_is_left_synthesis_takes_the_place_of_progress() -> None:
    assert isinstance(progress(moment(), BOTH), Redirect)
    assert synthesis(moment(), BOTH) is None
    gathered = moment(succeeded={"look": 1})
    assert progress(gathered, BOTH) is None
    assert synthesis(gathered, BOTH) == Redirect(
        "synthesis", "What was required is gathered. Call report to produce the output."
    )
    lost = around({"hear": 1, "report": 1})
    verdict = synthesis(moment(), lost)
    assert isinstance(verdict, Redirect)
    assert verdict.guidance.startswith("What can be had is gathered.")


@pytest.mark.parametrize("policy", [progress, synthesis])
def test_hints_are_given_once_and_not_about_an_answer(policy: object) -> None:
    context = BOTH if policy is progress else around({"report": 1})
    assert callable(policy)
    assert isinstance(policy(moment(), context), Redirect)
    for quiet in (moment("So."), moment(status="acting"), moment(said="synthesis")):
        assert policy(quiet, context) is None


def test_a_call_that_was_refused_is_a_try() -> None:
    gives_up = evolve(moment(), proposal=Proposal("I cannot.", could_not="There is nothing to look at."))
    untried = abstention(gives_up, LOOK)
    assert untried == Redirect(
        "abstention", "Not tried: look (0 of 1 calls done). Call these tools first; then say what is missing."
    )
    refused = StepMetadata("look", CallId("c1"), success=False, origin="refused")
    steps = (ReasoningStep(StepId("k-1"), "observation", "Not run.", START, refused),)
    tried = abstention(evolve(gives_up, steps=steps), LOOK)
    assert isinstance(tried, Stop)
    assert tried.outcome == "abstained"


def test_the_first_turn_states_what_is_required_in_one_line() -> None:
    context = around({"look": 3, "report": 1})
    assert progress(moment(iteration=0), context) == Redirect(
        "progress", "Required before the answer: look (3 calls), report."
    )
    begun = moment(iteration=0, succeeded={"look": 2})
    assert progress(begun, context) == Redirect("progress", "Required before the answer: look, report.")
    assert progress(moment(iteration=0), around()) is None
    assert synthesis(moment(iteration=0), around({"report": 1})) is None


def test_progress_is_not_said_twice_after_an_answer_was_turned_down() -> None:
    assert progress(moment(said="required_tools"), LOOK) is None


def test_the_reason_of_a_failure_is_what_the_tools_said_last() -> None:
    failures = [("look", "The lamp is broken."), ("see", "The fog is too thick.")]
    steps = tuple(
        ReasoningStep(
            StepId(f"k-{at}"),
            "observation",
            said,
            START,
            StepMetadata(tool, CallId(f"c{at}"), success=False, origin="executed"),
        )
        for at, (tool, said) in enumerate(failures)
    )
    both = around({"look": 1, "see": 1})
    state = evolve(
        moment(
            "The lamp is broken, and the fog is too thick.",
            failed_in_a_row={"look": 1, "see": 1},
        ),
        steps=steps,
    )
    why = explained_by_failure(state, both, requirements_of(state, both))
    assert why == "It could not be done: The fog is too thick. Needed: a call of look and of see that works."
