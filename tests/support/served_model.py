"""An agent of a process, whose model is asked over HTTP without litellm, which takes seconds to load.

``tests.support.served_model:agent``, for commands that take an agent built in Python; the environment has the
address of the model, and the places of its records.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from typing import Any

import httpx
from returns.result import Result

from reactive_agents import ReactiveAgents
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted
from reactive_agents.effects import attempt, effect
from reactive_agents.testing import ScriptedLLM, say

AGENT = "tests.support.served_model:agent"


class ServedModel(ScriptedLLM):
    """A model whose answers are texts of a server that speaks the protocol of OpenAI."""

    def __init__(self, base_url: str) -> None:
        super().__init__()
        self._url = f"{base_url}/chat/completions"

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """Return the answer of the server, however long it takes."""
        body = {"model": "served", "messages": [{"role": "user", "content": str(request.messages)}]}
        async with httpx.AsyncClient(timeout=None) as client:
            answered: Any = (await client.post(self._url, json=body)).json()
        text = answered["choices"][0]["message"]["content"]
        return await attempt(ScriptedLLM(say(text)).complete(request))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """Yield the answer in one piece."""
        answered = await attempt(self.complete(request))
        yield answered.map(StreamCompleted)


def described(base_url: str, runs: str = "", run_log: str = "") -> ReactiveAgents:
    """Return the agent of such a model, with a record and a log of its runs, or a log alone."""
    builder = ReactiveAgents.create().with_name("clerk").with_llm(ServedModel(base_url))
    if runs:
        builder = builder.with_durability(runs)
    return builder.with_run_log(runs or run_log) if runs or run_log else builder


agent = described(*(os.environ.get(name, "") for name in ("MODEL_URL", "RUNS", "RUN_LOG")))
