"""Loop detection."""

from __future__ import annotations

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.kernel import Redirect, Stop
from reactive_agents.kernel.policies.limits import NOTHING_NEW, REPEATED_CALLS, loop_detection
from reactive_agents.testing import ScriptedLLM, call, forever
from tests.support.moments import around, moment


@pytest.mark.parametrize(
    ("account", "guidance"),
    [
        ({}, None),
        ({"idle_turns": 1}, None),
        ({"repeated": True}, REPEATED_CALLS),
        ({"idle_turns": 1, "repeated": True}, REPEATED_CALLS),
        ({"idle_turns": 2}, NOTHING_NEW),
        ({"idle_turns": 2, "repeated": True}, NOTHING_NEW),
    ],
)
def test_guidance_comes_first(account: dict[str, int], guidance: str | None) -> None:
    verdict = loop_detection(moment(**account), around())
    assert verdict == (None if guidance is None else Redirect("loop_detection", guidance))
    assert loop_detection(moment("So.", **account), around()) is None
    assert loop_detection(moment(status="acting", **account), around()) is None


@pytest.mark.parametrize(
    ("required", "missing"),
    [({}, "Missing: a final answer."), ({"look": 1}, "Missing: required calls: look (0 of 1 calls done).")],
)
def test_then_the_run_ends_with_what_was_said(required: dict[str, int], missing: str) -> None:
    for answer in (None, "So."):
        verdict = loop_detection(moment(answer, idle_turns=3), around(required))
        assert isinstance(verdict, Stop)
        assert (verdict.policy, verdict.outcome, verdict.output) == ("loop_detection", "partial", answer)
        assert verdict.reason == f"3 turns in a row repeated calls or answers without anything new. {missing}"


def test_an_answer_by_the_tool_ends_it_too() -> None:
    assert isinstance(loop_detection(moment("So.", status="observing", idle_turns=3), around()), Stop)


def test_with_a_requirement_out_of_reach_the_end_is_left_to_its_policy() -> None:
    assert loop_detection(moment(idle_turns=3), around({"hear": 1})) is None


def test_the_reason_names_the_call_that_failed_each_time() -> None:
    def price(product: str) -> float:
        """Return the price of a product."""
        raise ConnectionError("service unavailable")

    model = ScriptedLLM(forever(call("price", product="lamp")))
    agent = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(price).build()
    result = agent.run_sync("How much is a lamp?")
    assert result.metadata.terminated_by == "loop_detection"
    assert "The call of price failed each time:" in result.reason
    assert "service unavailable. Missing: a" in result.reason
