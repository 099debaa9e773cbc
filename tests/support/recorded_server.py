"""A server that plays recorded answers, each for the next request of its shape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.openai_server import Answer, Call, OpenAIServer, Received, Reply, refusal

RECORDINGS = Path(__file__).parent.parent / "recordings"
_FIELDS = {
    "goal": "persona plan",
    "criteria": "assessment",
    "verdict": "reflection",
    "issues": "critique",
    "thoughts": "thoughts",
    "scores": "scores",
    "steps": "plan",
    "title": "patch",
}
"""A field of the wanted JSON, and the shape of such a request; the first that is there counts."""


class RecordedServer(OpenAIServer):
    """Plays recordings, one after the other.

    Attributes:
        shapes: of the requests, in order.
    """

    def __init__(self, *names: str) -> None:
        super().__init__()
        self._left: list[Mapping[str, Any]] = []
        for name in names:
            self._left += json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))["answers"]
        self.shapes: list[str] = []

    @property
    def left(self) -> list[str]:
        """Shapes of the answers that were not asked for."""
        return [each["shape"] for each in self._left]

    def _next(self, received: Received) -> Reply:
        shape = shape_of_request(received.body)
        with self._lock:
            self.requests.append(received)
            self.shapes.append(shape)
            fitting = next((each for each in self._left if each["shape"] == shape), None)
            if fitting is None:
                return refusal(404, f"no recorded answer of the shape {shape} is left")
            self._left.remove(fitting)
        number = len(self.requests)
        calls = tuple(
            Call(call["name"], call["arguments"], f"call-{number}-{position}")
            for position, call in enumerate(fitting.get("tool_calls", ()))
        )
        return Answer(fitting.get("content"), calls)


def shape_of_request(body: Mapping[str, Any]) -> str:
    """Return the kind of answer that a chat request asks for."""
    if body.get("tools"):
        return "turn"
    if "response_format" not in body:
        return "text"
    instructions = "\n".join(str(each["content"]) for each in body["messages"] if each["role"] == "system")
    forms = "\n".join(re.findall(r'^\{".*$', instructions, re.MULTILINE))
    names = set(re.findall(r'"(\w+)"\??:', forms))
    return next((shape for name, shape in _FIELDS.items() if name in names), "value")
