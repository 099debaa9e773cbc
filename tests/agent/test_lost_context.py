"""A server that cuts long prompts silently, as one with a small context setting does."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.agent.agent import AgentResult
from reactive_agents.core.events import AgentEvent, ContextLost
from reactive_agents.testing import EventRecorder
from tests.support.openai_server import Answer, Call, OpenAIServer, Received, Reply

HELLO = "Hello! What can I do for you?"
TASK = "Read the pages 1 to 24 one after the other, and say how many there are."


def page(number: int) -> str:
    """Read a page."""
    return f"Page {number}. " + " ".join(f"Line {n} of it says nothing of note." for n in range(30))


class CuttingServer(OpenAIServer):
    """Reads the last ``window`` tokens of a prompt, four characters each, and never says that it cut.

    Its model works as long as it sees its task, and asks what it is to do otherwise.
    """

    def __init__(self, window: int | None) -> None:
        super().__init__()
        self._window = window
        self.forgot = 0

    def _next(self, received: Received) -> Reply:
        with self._lock:
            self.requests.append(received)
        messages = received.body["messages"]
        prompt = "\n".join(_shown(each) for each in messages)
        tokens = (len(prompt) + len(json.dumps(received.body.get("tools", [])))) // 4
        if self._window is not None and tokens > self._window:
            prompt, tokens = prompt[-self._window * 4 :], self._window
        answer = self._answer(prompt, messages)
        return Answer(answer.content, answer.calls, usage=(tokens, 5))

    def _answer(self, prompt: str, messages: list[Mapping[str, Any]]) -> Answer:
        if TASK not in prompt:
            self.forgot += 1
            return Answer(HELLO)
        read = max(map(int, re.findall(r"Page (\d+)\.", prompt)), default=0)
        if read < 24:
            return Answer(None, (Call("page", {"number": read + 1}, f"call-{len(self.requests)}"),))
        return Answer(None, (Call("final-answer", {"answer": "There are 24 pages."}, "call-end"),))


def _shown(message: Mapping[str, Any]) -> str:
    calls = json.dumps(message["tool_calls"]) if message.get("tool_calls") else ""
    return f"{message.get('content') or ''}{calls}"


def run(server: CuttingServer) -> tuple[AgentResult, list[AgentEvent]]:
    recorder = EventRecorder()
    agent = (
        ReactiveAgents.create()
        .with_model("openai/served", base_url=server.base_url, api_key="none")
        .with_reasoning()
        .with_tools(page)
        .with_max_iterations(40)
        .build()
    )
    agent.subscribe(recorder)
    with server:
        return agent.run_sync(TASK), recorder.events


def test_lost_context_is_reported_and_the_model_asked_again_with_less(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = CuttingServer(window=6_000)
    with caplog.at_level(logging.WARNING, "reactive_agents"):
        result, events = run(server)
    lost = [event for event in events if isinstance(event, ContextLost)]
    assert server.forgot >= 1
    assert lost
    assert lost[0].read_tokens == 6_000 < lost[0].sent_bytes / 4
    assert "read only 6000 tokens" in lost[0].reason
    assert lost[0].reason in result.reason
    assert lost[0].reason in caplog.text
    assert (result.status, result.output) == ("completed", "There are 24 pages.")
    assert result.metadata.model_calls == len(server.requests)  # what was dropped is counted too


def test_a_server_that_reads_everything_loses_nothing() -> None:
    result, events = run(CuttingServer(window=None))
    assert (result.status, result.output) == ("completed", "There are 24 pages.")
    assert not [event for event in events if isinstance(event, ContextLost)]
    assert "read only" not in result.reason
