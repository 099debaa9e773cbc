"""Diminishing returns."""

from __future__ import annotations

from typing import Any

import pytest

from reactive_agents.kernel import Redirect
from reactive_agents.kernel.policies.limits import diminishing_returns
from tests.support.moments import around, moment


@pytest.mark.parametrize(
    ("account", "says"),
    [
        ({"novelty": 0.19, "gathered": 30}, True),
        ({"novelty": 0.0, "gathered": 300}, True),
        ({"novelty": 0.2, "gathered": 300}, False),
        ({"novelty": 0.0, "gathered": 29}, False),
        ({"novelty": None, "gathered": 300}, False),
        ({"novelty": 0.0, "gathered": 300, "status": "acting"}, False),
        ({"novelty": 0.0, "gathered": 300, "answer": "So."}, False),
    ],
)
def test_little_that_is_new_is_said_of_results_alone(account: dict[str, Any], says: bool) -> None:
    assert isinstance(diminishing_returns(moment(**account), around()), Redirect) is says


def test_the_figure_and_the_tool_that_delivers_are_named() -> None:
    verdict = diminishing_returns(moment(novelty=0.126, gathered=99), around({"report": 1}))
    assert verdict == Redirect(
        "diminishing_returns",
        "What has been gathered is sufficient (the last results: 13% new information). Do not gather more. "
        "Call report to produce the output.",
    )


def test_while_calls_are_required_others_are_asked_for() -> None:
    verdict = diminishing_returns(moment(novelty=0.05, gathered=99), around({"look": 2, "report": 1}))
    assert verdict == Redirect(
        "diminishing_returns",
        "Little of what came last was new (the last results: 5% new information). Ask for something "
        "else in the calls still required: look (0 of 2 calls done); report (0 of 1 calls done). "
        "After that: Call report to produce the output.",
    )
