"""``reactive-agents mcp``: agents as tools of the client that starts the process, or over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from reactive_agents import McpServer, ReactiveAgents
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support import served_model
from tests.support.openai_server import Answer, OpenAIServer
from tests.support.waiting import until
from tests.system.test_serving import OPENED, ROOT

pytestmark = pytest.mark.anyio
AGENT = """name = "clerk"
tools = ["calculator"]
[model]
model = "offline"
[reasoning]
default_strategy = "reactive"
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "clerk.toml"
    path.write_text(AGENT)
    return path


async def test_a_client_starts_it_and_gives_a_task(agent: Path) -> None:
    command = ["-m", "reactive_agents", "mcp", str(agent)]
    server = StdioServerParameters(command=sys.executable, args=command)
    told: list[str | None] = []

    async def on_progress(_: float, __: float | None, message: str | None) -> None:
        told.append(message)

    async with Client(stdio_client(server)) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("clerk", {"task": "What is 17 * 23?"}, progress_callback=on_progress)
    assert tool.name == "clerk"
    assert "391" in result.structured_content["output"]
    assert "calculator" in " ".join(map(str, told))


async def test_another_agent_is_offered_it_as_a_tool(agent: Path) -> None:
    """Its description does not look like orders, for which its tools would be left out."""
    llm = ScriptedLLM(call("clerk", task="What is 17 * 23?"), answer("It is 391."))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning()
    started = ("-m", "reactive_agents", "mcp", str(agent))
    known = str(agent.parent / "known.db")
    server = McpServer("office", command=sys.executable, args=started, approve="never", known_tools=known)
    async with builder.with_mcp(server).build() as caller:
        result = await caller.run("What is 17 * 23?")
    (observed,) = (step.content for step in result.steps if step.type == "observation")
    assert "391" in observed


def test_it_ends_on_sigterm_while_its_client_waits(tmp_path: Path) -> None:
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": OPENED}
    given = {"name": "clerk", "arguments": {"task": "Greet me."}}
    calling = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": given}
    with OpenAIServer(Answer("never", delay_s=3_600)) as model:
        command = [sys.executable, "-m", "reactive_agents", "mcp", served_model.AGENT]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        environment = {**os.environ, "MODEL_URL": model.base_url}
        with subprocess.Popen(command, **pipes, cwd=ROOT, env=environment) as process:
            try:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write("".join(f"{json.dumps(each)}\n" for each in (opening, calling)))
                process.stdin.flush()
                assert model.asked.wait()
                process.send_signal(signal.SIGTERM)
                assert process.wait() == -signal.SIGTERM
                answered = [json.loads(each) for each in process.stdout]
            finally:
                process.kill()
    assert answered[0]["id"] == 1  # whether the call is answered, too, is a race with the end of the process


async def test_it_listens_and_ends_on_sigterm(agent: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-m", "reactive_agents", "mcp", str(agent), "--http", "--port", "0"]
    with log.open("wb") as written, subprocess.Popen(command, stderr=written) as process:  # noqa: ASYNC220
        try:
            await until(lambda: b"Serving clerk on http" in log.read_bytes())
            address = log.read_text().split(" on ")[1].split()[0]
            async with Client(f"{address}/mcp") as client:
                result = await client.call_tool("clerk", {"task": "What is 17 * 23?"})
            process.send_signal(signal.SIGTERM)
            ended = process.wait()
        finally:
            process.kill()
    assert "391" in result.structured_content["output"]
    assert ended == -signal.SIGTERM  # uvicorn ends by the signal, after its work
