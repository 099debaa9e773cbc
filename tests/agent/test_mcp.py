"""Tools of MCP servers, through the whole agent and real server processes."""

from __future__ import annotations

import json
import stat
import sys
import threading
import tomllib
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest
from attrs import evolve
from returns.result import Result, Success

from reactive_agents import (
    AgentError,
    ReactiveAgent,
    ReactiveAgents,
    RunContext,
    ToolDefinition,
    load_mcp_servers,
    read_config,
)
from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.agent.persona_config import read_persona
from reactive_agents.core.errors import (
    DecodeError,
    InvalidConfig,
    LLMErrors,
    RunInterrupted,
    ServiceFailed,
    root_cause,
)
from reactive_agents.core.ids import CallId
from reactive_agents.core.messages import ToolCall, ToolMessage, UserMessage
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse
from reactive_agents.effects import effect
from reactive_agents.testing import ScriptedLLM, answer, call, calls, forever, say
from tests.adapters.tools.mcp.servers import old
from tests.support.mcp_server import PROGRAM, http_server

pytestmark = pytest.mark.anyio

SERVER = McpServer("far", command=sys.executable, args=(str(PROGRAM),), trust_hints=True)


async def echo(text: str) -> str:
    """Say it again."""
    return f"near {text}"


@pytest.mark.system
async def test_an_agent_uses_the_tools_of_a_server_beside_its_own() -> None:
    llm = ScriptedLLM(calls(call("echo", text="a"), call("far-echo", text="b")), answer("done"))
    builder = ReactiveAgents.create().with_llm(llm).with_tools(echo).with_mcp(SERVER).with_reasoning()
    async with builder.build() as agent:
        result = await agent.run("Say it.")
        again = await agent.run_effect("And again.")
    assert [step.content for step in result.steps if step.type == "observation"] == ["near a", "b"]
    assert result.status == "completed"
    assert again is not None


LISTED: dict[str, Any] = {
    "theme": "dark",
    "mcpServers": {
        "files": {
            "type": "stdio",
            "command": "npx",
            "args": ["-y", "${SERVER:-some-server}", "${FOLDER}/${EMPTY:-data}"],
            "env": {"KEY": "k-${FILES_KEY}", "LEVEL": "${LEVEL:-}"},
            "cwd": "${FOLDER}",
        },
        "far": {"type": "http", "url": "https://${HOST:-example.com}/mcp", "headers": {"X": "${FILES_KEY}"}},
        "old": {"type": "sse", "url": "${GONE}", "disabled": True},
        "own": {"url": "http://own/mcp", "approve": "never", "disabled": False},
    },
}


def test_servers_of_an_mcp_json_have_the_variables_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"FOLDER": "/srv", "FILES_KEY": "s3cret", "EMPTY": ""}.items():
        monkeypatch.setenv(name, value)
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps(LISTED))
    arguments = ("-y", "some-server", "/srv/data")
    env = {"KEY": "k-s3cret", "LEVEL": ""}
    listed = (
        McpServer("files", command="npx", args=arguments, env=env, cwd=Path("/srv")),
        McpServer("far", url="https://example.com/mcp", headers={"X": "s3cret"}),
        McpServer("own", url="http://own/mcp", approve="never"),
    )
    assert load_mcp_servers(file) == listed
    assert ReactiveAgents.create().with_mcp(*load_mcp_servers(str(file))).config.mcp_servers == listed


@pytest.mark.parametrize("kind", ["agent.toml", "agent.json", "persona.toml"])
def test_a_configuration_file_names_an_mcp_json(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    servers = {"far": {"url": "https://example.com/mcp", "headers": {"X": "s3cret"}}}
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
    listed = load_mcp_servers("mcp.json")
    text = 'mcp_servers = "mcp.json"\n[model]\nmodel = "offline"\n'
    if kind == "persona.toml":
        agent = text.replace("[model]", "[domains.agent.model]")
        head = 'name = "p"\nmemory = "p.db"\n[[domains]]\nname = "chat"\n[domains.agent]\n'
        Path(kind).write_text(head + agent)
        assert read_persona(kind).unwrap().domains[0].agent.mcp_servers == listed
        return
    Path(kind).write_text(json.dumps(tomllib.loads(text)) if kind == "agent.json" else text)
    assert read_config(kind).unwrap().mcp_servers == listed
    assert read_config({"mcp_servers": "mcp.json"}).unwrap().mcp_servers == listed
    Path("mcp.json").write_text(json.dumps({"mcpServers": {"far": {"url": 7}}}))
    with pytest.raises(AgentError, match=r"list of MCP servers in mcp\.json: \$\.mcpServers\.far\.url: "):
        ReactiveAgents.from_config(kind).build()
    Path("mcp.json").unlink()
    with pytest.raises(AgentError, match=r"mcp_servers: got 'mcp\.json', expected a readable text file"):
        ReactiveAgents.from_config(kind).build()


def test_tools_do_not_write_the_mcp_json_of_their_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = old()
    servers = {"far": {"command": server.command, "args": server.args}}
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
    writes = call("file-write", path="mcp.json", content="{}")
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(writes, forever(answer("It cannot be written."))))
    agent = (
        builder.with_reasoning()
        .with_tools("file-write")
        .with_approval(lambda _: True)
        .with_mcp(*load_mcp_servers("mcp.json"))
        .build()
    )
    result = agent.run_sync("Empty it.")
    observed = next(step.content for step in result.steps if step.type == "observation")
    assert observed.startswith("The path 'mcp.json' is refused: it configures the agent")
    assert json.loads(Path("mcp.json").read_text())["mcpServers"]


@pytest.mark.parametrize(
    ("servers", "problem"),
    [
        (
            {"a": {"command": "x", "args": ["${GONE_1}"]}},
            r"$.mcpServers.a.args[0]: got '${GONE_1}', expected the ",
        ),
        (
            {"a": {"command": "x", "env": {"K": "s3cret ${env:HOME}"}}},
            r"$.mcpServers.a.env.K: got '${env:HOME}', ",
        ),
        (
            {"a": {"command": "x", "env": {"K": "s3cret ${HOME"}}},
            r"$.mcpServers.a.env.K: got '${HOME', expected ",
        ),
        (
            {"a": {"type": "sse", "url": "http://x"}},
            r"$.mcpServers.a.type: got 'sse', expected one of stdio, http",
        ),
        (
            {"a": {"type": ["http"], "url": "http://x"}},
            r"$.mcpServers.a.type: got an array of 1 item",
        ),
        ({"a": {"type": "http", "command": "x"}}, r"$.mcpServers.a.type: got 'http', expected one of"),
        ({"a": {"command": "x", "autoApprove": []}}, r"$.mcpServers.a.autoApprove: "),
        ({"a": {"command": "x", "listed_in": "b"}}, r"$.mcpServers.a.listed_in: unknown field"),
        ({"a": {"command": "x", "sent": []}}, r"$.mcpServers.a.sent: unknown field; known fields: name, "),
        ({"a": {"command": "x", "args": "y"}}, r"$.mcpServers.a.args: "),
        ({"a b": {"command": "x"}}, r"$.mcpServers.a b.name: "),
        ({"a": {}}, r"$.mcpServers.a: "),
        ({"a": {"command": "x", "disabled": "no"}}, r"$.mcpServers.a.disabled: got 'no', expected a boolean"),
        ({"a": 3}, r"$.mcpServers.a: got 3, expected an object"),
        ([], r"$.mcpServers: got an array of 0 items, expected an object of servers by their names"),
    ],
)
def test_what_is_wrong_in_an_mcp_json_is_named_by_file_and_field(
    servers: Any, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GONE_1", raising=False)
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}))
    with pytest.raises(AgentError) as wrong:
        load_mcp_servers(file)
    assert isinstance(wrong.value.error, DecodeError)
    assert str(wrong.value).startswith(f"Not a valid list of MCP servers in mcp.json: {problem}")
    assert "s3cret" not in str(wrong.value)
    assert ", sent" not in str(wrong.value)  # which no document can set


def test_an_mcp_json_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text("{")
    for name in ("gone.json", "mcp.json"):
        with pytest.raises(AgentError, match=name):
            load_mcp_servers(tmp_path / name)


@pytest.mark.parametrize("path", [5, {"mcpServers": {}}])
def test_what_is_no_path_of_an_mcp_json_is_named(path: Any) -> None:
    with pytest.raises(AgentError, match=r"^mcp_servers: got .*, expected a path\.$"):
        load_mcp_servers(path)


@pytest.mark.parametrize("path", ["", " "])
def test_a_path_that_is_empty_is_named_with_its_field(path: str) -> None:
    with pytest.raises(AgentError, match=rf"^mcp_servers: got '{path}', expected a path\.$"):
        load_mcp_servers(path)
    persona = {"name": "p", "memory": "p.db", "domains": [{"name": "chat", "agent": {"mcp_servers": path}}]}
    wrong = InvalidConfig("mcp_servers", repr(path), "a path")
    assert read_config({"mcp_servers": path}).failure() == read_persona(persona).failure() == wrong
    assert read_config(path).failure() == InvalidConfig("config", repr(path), "a path")
    for option, given in {"workspace": path, "skills": [path]}.items():
        builder = ReactiveAgents.from_config({"model": {"model": "offline"}, "reasoning": {}, option: given})
        with pytest.raises(AgentError, match=rf"^{option}: got '{path}', expected "):
            builder.build()


class Renewed(httpx2.Auth):
    """A token that is known only when it is sent."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[Any, httpx2.Response]:
        """Authenticate a request."""
        request.headers["Authorization"] = "Bearer harbour-evening"
        yield request


@pytest.mark.system
@pytest.mark.parametrize("by", ["headers", "auth"])
async def test_a_token_that_was_made_for_a_server_is_in_no_event_and_no_result(by: str) -> None:
    headers = lambda: {"Authorization": "Bearer harbour-evening"}  # noqa: E731
    made = {"headers": headers} if by == "headers" else {"auth": Renewed()}
    llm = ScriptedLLM(call("echo", text="It is harbour-evening."), answer("It is harbour-evening."))
    with http_server("--key", "harbour-evening") as (url, _):
        server = McpServer("far", url=url, trust_hints=True, **made)  # type: ignore[arg-type]
        agent = ReactiveAgents.create().with_llm(llm).with_reasoning().with_mcp(server).build()
        events: list[object] = []
        agent.subscribe(events.append)
        async with agent:
            await agent.run("Say it.")
    assert "echo" in repr(events)
    assert "It is [redacted:known]." in repr(events)
    assert "harbour-evening" not in repr(events)
    with pytest.raises(AgentError, match=rf"mcp_servers\.{by}: got .* of 'far'"):
        ReactiveAgents.create().with_model("offline").with_mcp(server).to_config()


@pytest.mark.system
@pytest.mark.parametrize("beside", [True, False])
async def test_a_run_has_the_tools_of_a_server_that_its_filter_keeps(beside: bool) -> None:
    seen: list[str] = []

    async def of_caller(ctx: RunContext[str], definition: ToolDefinition) -> bool:
        seen.append(definition.name)
        return ctx.deps == "admin" or not definition.name.endswith("echo")

    name = "far-echo" if beside else "echo"
    llm = ScriptedLLM(call(name, text="a"), answer("none"), call(name, text="a"), answer("done"))
    builder = ReactiveAgents.create(deps=str).with_llm(llm).with_reasoning()
    builder = builder.with_tools(echo) if beside else builder
    async with builder.with_mcp(SERVER, filter=of_caller).build() as agent:
        guest = await agent.run("Say it.", deps="guest")
        admin = await agent.run("Say it.", deps="admin")
    assert admin.tool_results == {f"{name}-1": "a"}
    assert not guest.tool_results
    assert "echo" not in seen if beside else "far-echo" not in seen
    offered = [[tool.name for tool in request.tools] for request in llm.requests]
    assert [name in each for each in offered] == [False, False, True, True]
    assert all("forecast" in each and ("echo" in each) is beside for each in offered[:2])


@pytest.mark.system
async def test_a_filter_of_a_server_that_raises_fails_the_run() -> None:
    def broken(ctx: RunContext[object], definition: ToolDefinition) -> bool:
        raise ValueError("no customer")

    llm = ScriptedLLM()
    async with ReactiveAgents.create().with_llm(llm).with_mcp(SERVER, filter=broken).build() as agent:
        with pytest.raises(AgentError, match="broken' raised ValueError: no customer"):
            await agent.run("Say it.")
    assert not llm.requests
    with pytest.raises(AgentError, match=r"toolset\.filter: got 'x', expected a function"):
        ReactiveAgents.create().with_model("offline").with_mcp(SERVER, filter="x").build()  # type: ignore[arg-type]


@pytest.mark.system
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


HANGS = """
printf x >> "$3"
[ -e "$3.hangs" ] && exec sleep 3600
exec "$1" "$2"
"""


@pytest.mark.system
async def test_a_server_that_hangs_is_waited_for_once_and_interrupts_a_recorded_run(tmp_path: Path) -> None:
    started, hangs = tmp_path / "started", tmp_path / "started.hangs"
    server = McpServer(
        "far",
        command="/bin/sh",
        args=("-c", HANGS, "sh", sys.executable, str(PROGRAM), str(started)),
        trust_hints=True,
    )
    hasty = evolve(server, start_timeout_s=0.5)

    def agent(server: McpServer, *turns: ModelResponse) -> ReactiveAgent:
        described = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(*turns)).with_reasoning()
        return described.with_mcp(server).with_durability(tmp_path / "r.db", recover=False).build()

    turns = (call("echo", text="a"), answer("It said a."))
    hangs.touch()
    async with agent(hasty) as one:  # a new run
        with pytest.raises(AgentError, match=r"nothing was begun\. The MCP server 'far'.*within 0\.5") as new:
            await one.run("Say it.", run_id="r")
        assert await one.runs.list() == ()
    assert isinstance(new.value.error, RunInterrupted)
    assert isinstance(root_cause(new.value.error), ServiceFailed)
    assert started.read_text() == "x"
    hangs.unlink()
    async with agent(server, *turns[:1]) as one:  # it is cut off after the call
        with pytest.raises(AgentError, match="used up"):
            await one.run("Say it.", run_id="cut")
        fork = await one.runs.fork("cut", at=3)
        await one.runs.pause(fork)
        done = agent(server, *turns)
        assert (await done.run("Say it.", run_id="r")).status == "completed"
        await done.aclose()
    hangs.touch()
    async with agent(hasty) as one:
        with pytest.raises(AgentError, match=r"nothing was begun\. The MCP server") as known:
            await one.runs.resume(fork)
        with pytest.raises(AgentError, match="The MCP server 'far'") as forked:
            await one.runs.fork("cut", at=3)
        before = started.read_text()
        assert (await one.run("Say it.", run_id="r")).output == "It said a."  # it needs no server
        assert started.read_text() == before
    assert isinstance(known.value.error, RunInterrupted)
    assert isinstance(forked.value.error, ServiceFailed)


@pytest.mark.system
def test_each_run_sync_has_a_server_of_its_own_and_ends_it() -> None:
    llm = ScriptedLLM(call("echo", text="a"), say("one"), call("echo", text="b"), say("two"))
    agent = ReactiveAgents.create().with_llm(llm).with_mcp(SERVER).build()
    assert agent.run_sync("First.").output == "one"
    assert agent.run_sync("Second.").output == "two"


class Echoing:
    """Implements ``LLM`` without any state: it has the task said again by a tool, and answers with that."""

    model = "echoing/test"

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """Return a call, or after it the result of the call."""
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            return Success(ModelResponse(last.content, self.model))
        users = [each.content for each in request.messages if isinstance(each, UserMessage)]
        text = next(text for text in users if text.startswith("This is task"))
        wanted = ToolCall(CallId("a"), "echo", {"text": text})
        return Success(ModelResponse("", self.model, tool_calls=(wanted,)))

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, LLMErrors]]:
        """Return nothing: no run of this file streams."""
        raise NotImplementedError
        yield


@pytest.mark.system
def test_run_sync_from_several_threads_at_once_shares_a_server() -> None:
    agent = ReactiveAgents.create().with_llm(Echoing()).with_mcp(SERVER).with_reasoning().build()
    together = threading.Barrier(4, timeout=60)

    def work(thread: int) -> list[str | None]:
        together.wait()
        return [agent.run_sync(f"This is task {2 * thread + turn}.").output for turn in range(2)]

    with ThreadPoolExecutor(4) as pool:
        outputs = [output for outputs in pool.map(work, range(4)) for output in outputs]
    assert outputs == [f"This is task {number}." for number in range(8)]


@pytest.mark.system
def test_a_run_on_another_event_loop_that_opens_nothing_leaves_the_servers_to_others() -> None:
    refusals: list[str] = []

    def again() -> None:
        """Run the task a second time."""
        with pytest.raises(AgentError) as refused:
            agent.run_sync(task)
        refusals.append(str(refused.value))

    model = ScriptedLLM(call("again"), call("echo", text="still here"), answer("It is still here."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(again)
    agent = builder.with_mcp(SERVER).build()
    task = agent.new_task("Try it twice.")
    assert agent.run_sync(task).tool_results["echo-2"] == "still here"
    assert refusals == [f"Task {task.id} is already running."]


def test_servers_are_data(tmp_path: Path) -> None:
    config = ReactiveAgents.create().with_model("offline").with_mcp(SERVER).to_config()
    for name in ("agent.toml", "agent.json"):
        config.save(tmp_path / name)
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, "it has the keys of servers"
        assert read_config(tmp_path / name).unwrap() == config


def test_a_name_may_be_given_once() -> None:
    with pytest.raises(AgentError) as caught:
        ReactiveAgents.create().with_model("offline").with_mcp(SERVER).with_mcp(SERVER).build()
    assert isinstance(caught.value.error, InvalidConfig)
    assert caught.value.error.option == "mcp_servers"
