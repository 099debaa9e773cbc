"""A model for tests that plays along with every strategy: it plans, criticises, judges and answers."""

from __future__ import annotations

import json

from reactive_agents.core.messages import ToolMessage
from reactive_agents.core.models import ModelRequest
from tests.support.models import Said

SURE, UNSURE = 0.9, 0.2


def sensible(request: ModelRequest, *, confidence: float = SURE) -> Said:
    """The answer of a sensible model: it calls the tool ``add`` once where there is one, and answers ``3``.

    Args:
        confidence: what its critiques, scores and judgements have.
    """
    can_add = "- add(" in request.messages[0].content
    match request.purpose:
        case "plan":
            call = {"type": "tool_call", "tool_name": "add", "tool_args": {"a": 1, "b": 2}}
            first = {"title": "Add", "instruction": "Add.", **(call if can_add else {"type": "analysis"})}
            last = {"title": "Answer", "instruction": "Answer: {{from_step:s1}}", "type": "analysis"}
            return json.dumps({"steps": [first, last]})
        case "reflect":
            return json.dumps({"verdict": "SATISFIED", "confidence": confidence, "answer_step": "s2"})
        case "critique":
            return json.dumps({"issues": [], "score": confidence, "satisfied": True})
        case "expand":
            return json.dumps({"thoughts": ["Add the numbers.", "Count on the fingers."]})
        case "score":
            scores = [{"candidate": n, "reason": "", "score": confidence} for n in (1, 2)]
            return json.dumps({"scores": scores})
    offered = any(tool.name == "add" for tool in request.tools)
    if offered and not any(isinstance(message, ToolMessage) for message in request.messages):
        return "add", {"a": 1, "b": 2}
    return "3"
