"""How sure a step is, as far as the step itself tells."""

from __future__ import annotations

import re

from attrs import frozen

from reactive_agents.core.ids import TaskId
from reactive_agents.core.reasoning import ReasoningStrategy
from reactive_agents.core.steps import ReasoningStep

FAILED_TOOL = 0.3
"""Confidence in a step whose tool failed."""
HEDGED = 0.4
"""Confidence in a thought that says it is not sure."""

_HEDGES = re.compile(
    r"\b(?:i(?:'m| am) (?:not (?:entirely |quite |completely )?(?:sure|certain)|unsure|uncertain|guessing)|"
    r"i (?:do not|don't|cannot|can't|could not|couldn't) (?:really )?(?:know|tell|determine|find|verify|"
    r"be sure)|"
    r"(?:it is|it's) (?:unclear|uncertain)|not enough information|this is a guess|hard to say)\b",
    re.IGNORECASE,
)


@frozen
class UncertaintySignal:
    """A step whose confidence is below the controller's threshold.

    Attributes:
        confidence: 0 to 1.
        threshold: 0 to 1.
        reason: what makes it uncertain, in a clause.
    """

    step: ReasoningStep
    confidence: float
    threshold: float
    reason: str
    strategy: ReasoningStrategy
    task_id: TaskId


def confidence_of(step: ReasoningStep) -> tuple[float, str] | None:
    """The confidence in a step with its reason; ``None`` when the step tells nothing of it. Pure and total.

    A figure in its metadata counts first; then whether its tool failed, and whether a thought says that it
    is not sure, in English.
    """
    metadata = step.metadata
    if metadata is not None and metadata.confidence is not None:
        return metadata.confidence, f"the {step.type} has a confidence of {metadata.confidence:.2f}"
    if metadata is not None and step.type == "observation" and metadata.success is False:
        return FAILED_TOOL, f"the tool {metadata.tool_used} failed"
    if step.type == "thought" and _HEDGES.search(step.content):
        return HEDGED, "the model says that it is not sure"
    return None
