"""Programs that use a model through litellm, from their first import to their end."""

from __future__ import annotations

import subprocess
import sys

from tests.support.openai_server import Answer, OpenAIServer

MODEL = "openai/gpt-4o-mini"


def test_a_program_that_closes_nothing_ends_without_a_word_and_litellm_loads_beside_its_loop() -> None:
    program = f"""
import anyio, sys, threading
from reactive_agents.adapters.llm.litellm_adapter import LiteLLM
from reactive_agents.core.config import ModelConfig
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.effects import attempt

loaded_in = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "litellm":
            loaded_in.append(threading.current_thread())

sys.meta_path.insert(0, Watch())

async def main():
    llm = LiteLLM(ModelConfig(model="{MODEL}", api_key="k", base_url=sys.argv[1]))
    request = ModelRequest((UserMessage("?"),))
    print((await attempt(llm.complete(request))).unwrap().content)
    async for chunk in llm.stream(request):
        pass
    assert len(loaded_in) == 1
    assert loaded_in[0] is not threading.main_thread()

anyio.run(main)
"""
    with OpenAIServer(Answer("Yes."), Answer("Yes.")) as server:
        arguments = [sys.executable, "-W", "always::ResourceWarning", "-c", program, server.base_url]
        ended = subprocess.run(arguments, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Yes.\n", "")


def test_a_closed_model_that_was_asked_in_two_event_loops_at_once_leaves_no_word_either() -> None:
    program = f"""
import asyncio, gc, sys
from reactive_agents import ReactiveAgents

agent = ReactiveAgents.create().with_model("{MODEL}", api_key="k", base_url=sys.argv[1]).build()

async def main():
    async with agent:
        for _ in range(3):
            await agent.run("?")
            print((await asyncio.to_thread(agent.run_sync, "?")).output)
            gc.collect()

asyncio.run(main())
"""
    with OpenAIServer(*[Answer("Yes.")] * 6) as server:
        ended = subprocess.run(
            [sys.executable, "-c", program, server.base_url], capture_output=True, text=True, timeout=300
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Yes.\n" * 3, "")
