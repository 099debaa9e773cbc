"""Which events a persona takes up: a pure policy."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reactive_agents.core.personas import DomainEvent, EngagementDecision, EngagementPolicy
from reactive_agents.persona import should_engage
from reactive_agents.testing.core import START
from tests.support.personas import an_event

NOW = START + timedelta(seconds=100)


def decide(event: DomainEvent | None = None, **given: Any) -> EngagementDecision:
    defaults: dict[str, Any] = {"policy": EngagementPolicy(), "recent": (), "now": NOW}
    return should_engage(event or an_event(), name="Ada", **{**defaults, **given})


def test_it_takes_up_what_nothing_speaks_against() -> None:
    assert decide().engage


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (decide(an_event(author="Ada")), "The persona is its author."),
        (
            decide(an_event(author="bot"), policy=EngagementPolicy(ignored_authors=("bot",))),
            "by bot are ignored",
        ),
        (
            decide(an_event(priority=0.2), policy=EngagementPolicy(min_priority=0.3)),
            "priority 0.2 is below 0.3",
        ),
    ],
)
def test_it_declines_with_a_reason(decision: EngagementDecision, reason: str) -> None:
    assert not decision.engage
    assert reason in decision.reason


def test_it_limits_itself_within_the_window_alone() -> None:
    policy = EngagementPolicy(max_events=2, window_s=60.0)
    inside, outside = NOW - timedelta(seconds=59), NOW - timedelta(seconds=60)
    assert decide(policy=policy, recent=[inside, outside, outside]).engage
    declined = decide(policy=policy, recent=[inside, inside])
    assert (declined.engage, declined.refused) == (False, True)
    assert declined.reason == "The limit of 2 events of this context in 60 seconds is reached."
