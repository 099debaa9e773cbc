"""Scripts of models that plan."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from reactive_agents.testing import Turn, say
from reactive_agents.testing import answer as delivered

PLANNING = "Make a plan for the task"
PATCHING = "Rewrite it so that"
REPLANNING = "A plan cannot continue"
AUGMENTING = "Write supplementary steps"
REFLECTING = "Judge whether the results of a plan"
ANSWERING = "The steps of a plan were carried out."
ANALYSING = "Do one step of a larger plan"


def tool_step(tool: str, after: Sequence[str] = (), **arguments: Any) -> dict[str, Any]:
    """A step that is one call."""
    step = {"title": f"Call {tool}", "instruction": f"Call {tool}.", "type": "tool_call", "tool_name": tool}
    return {**step, "tool_args": arguments, "depends_on": list(after)}


def analysis_step(instruction: str, after: Sequence[str] = ()) -> dict[str, Any]:
    """A step that is one model call."""
    return {
        "title": "Think",
        "instruction": instruction,
        "type": "analysis",
        "depends_on": list(after),
    }


def composite_step(instruction: str, *hints: str) -> dict[str, Any]:
    """A step that is a kernel run."""
    return {"title": "Find out", "instruction": instruction, "type": "composite", "tool_hints": list(hints)}


def steps(*made: dict[str, Any], when: str = PLANNING, **how: Any) -> Turn:
    """The model writes steps."""
    return say(json.dumps({"steps": made}), when=when, **how)


def plan(*made: dict[str, Any], **how: Any) -> Turn:
    """The model makes a plan."""
    return steps(*made, **how)


def patch(step: dict[str, Any], **how: Any) -> Turn:
    """The model writes one step anew."""
    return say(json.dumps(step), when=PATCHING, **how)


def satisfied(answer_step: str | None = None, confidence: float = 0.9) -> Turn:
    """The model finds the goal reached."""
    judged = {"verdict": "SATISFIED", "confidence": confidence, "answer_step": answer_step}
    return say(json.dumps(judged), when=REFLECTING)


def unsatisfied(*missing: str, confidence: float = 0.6) -> Turn:
    """The model finds something missing."""
    judged = {"verdict": "UNSATISFIED", "confidence": confidence, "missing": missing}
    return say(json.dumps(judged), when=REFLECTING)


def answer(text: str = "The answer.") -> Turn:
    """The model writes the answer from the results."""
    return delivered(text, when=ANSWERING)
