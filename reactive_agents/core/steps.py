"""The trace of a reasoning run: what was thought, done and seen."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.ids import CallId, StepId
from reactive_agents.core.tools import CallOrigin

StepType: TypeAlias = Literal["thought", "action", "observation", "plan", "reflection", "critique"]


@frozen
class StepMetadata:
    """What else is known of a step.

    Attributes:
        tool_used: name of the tool of an action or observation.
        call_id: pairs an action with its observation.
        healings: how the call of an action differs from what the model sent, one sentence each.
        success: whether the tool of an observation did what it was asked, or a critique accepts the answer.
        origin: whether the tool of an observation was run for this call, or its result comes from elsewhere.
        result_key: where the full text of an observation is kept; its content may be a shortened view.
        duration: milliseconds.
        cost: US dollars.
        confidence: 0 to 1.
    """

    tool_used: str | None = None
    call_id: CallId | None = None
    healings: tuple[str, ...] = ()
    success: bool | None = None
    origin: CallOrigin | None = None
    result_key: str | None = None
    duration: float | None = None
    cost: float | None = None
    confidence: float | None = None


@frozen
class ReasoningStep:
    """One entry of the trace. An action's content is JSON: the tool's name and its arguments."""

    id: StepId
    type: StepType
    content: str
    timestamp: datetime
    metadata: StepMetadata | None = None
