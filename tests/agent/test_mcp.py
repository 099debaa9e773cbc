"""Tools of MCP servers, through the whole agent and real server processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reactive_agents import AgentError, ReactiveAgents, read_config
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.core.errors import InvalidConfig, ServiceFailed, root_cause
from reactive_agents.testing import ScriptedLLM, call, calls, say
from tests.support.mcp_server import PROGRAM

pytestmark = pytest.mark.anyio

SERVER = McpServer("far", command=sys.executable, args=(str(PROGRAM),))


async def echo(text: str) -> str:
    """Say it again."""
    return f"near {text}"


async def test_an_agent_uses_the_tools_of_a_server_beside_its_own() -> None:
    llm = ScriptedLLM(calls(call("echo", text="a"), call("far-echo", text="b")), say("done"))
    builder = ReactiveAgents.create().with_llm(llm).with_tools(echo).with_mcp(SERVER).with_reasoning()
    async with builder.build() as agent:
        result = await agent.run("Say it.")
        again = await agent.run_effect("And again.")
    assert [step.content for step in result.steps if step.type == "observation"] == ["near a", "b"]
    assert result.status == "completed"
    assert again is not None


async def test_a_tool_that_needs_approval_asks_for_it() -> None:
    asked: list[str] = []

    def approve(request: object) -> bool:
        asked.append(getattr(request, "tool_name", ""))
        return True

    llm = ScriptedLLM(call("erase", path="a"), say("done"))
    builder = ReactiveAgents.create().with_llm(llm).with_mcp(SERVER).with_approval(approve)
    async with builder.build() as agent:
        result = await agent.run("Erase a.")
    assert asked == ["erase"]
    assert result.steps[1].content == "erased"


async def test_a_server_that_cannot_start_fails_the_run_with_a_typed_error() -> None:
    broken = McpServer("broken", command="/no/such/program")
    llm = ScriptedLLM(say("unused"))
    async with ReactiveAgents.create().with_llm(llm).with_mcp(broken).build() as agent:
        with pytest.raises(AgentError) as caught:
            await agent.run("Anything.")
    error = root_cause(caught.value.error)
    assert isinstance(error, ServiceFailed)
    assert "broken" in error.message
    assert llm.requests == []


def test_each_run_sync_has_a_server_of_its_own_and_ends_it() -> None:
    llm = ScriptedLLM(call("echo", text="a"), say("one"), call("echo", text="b"), say("two"))
    agent = ReactiveAgents.create().with_llm(llm).with_mcp(SERVER).build()
    assert agent.run_sync("First.").output == "one"
    assert agent.run_sync("Second.").output == "two"


def test_servers_are_data(tmp_path: Path) -> None:
    config = ReactiveAgents.create().with_model("offline").with_mcp(SERVER).to_config()
    for name in ("agent.toml", "agent.json"):
        config.save(tmp_path / name)
        assert read_config(tmp_path / name).unwrap() == config


def test_a_name_may_be_given_once() -> None:
    with pytest.raises(AgentError) as caught:
        ReactiveAgents.create().with_model("offline").with_mcp(SERVER).with_mcp(SERVER).build()
    assert isinstance(caught.value.error, InvalidConfig)
    assert caught.value.error.option == "mcp_servers"
