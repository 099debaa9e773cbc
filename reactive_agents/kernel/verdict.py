"""What a policy can decide about a kernel run."""

from __future__ import annotations

from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.reasoning import ReasoningStatus


@frozen
class Proceed:
    """Take the next step: no policy has an objection."""


@frozen
class Redirect:
    """Go on, with guidance for the model's next turn. A proposed answer is turned down with it."""

    policy: str
    guidance: str


@frozen
class Stop:
    """End the run.

    Attributes:
        policy: the policy that decided.
        outcome: how good the output is; ``failed`` ends the run as failed.
        output: the answer, or what there is of it.
        reason: why, in a sentence; says what is missing unless the outcome is ``completed``.
    """

    policy: str
    outcome: ReasoningStatus
    output: str | None
    reason: str


Verdict: TypeAlias = Proceed | Redirect | Stop
