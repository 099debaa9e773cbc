"""Agents as MCP tools: answers, progress, cancellation, and people who are asked through the client."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
import uvicorn
from attrs import define, field, frozen
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import ElicitRequestParams, ElicitResult, TextContent
from starlette.requests import Request

from reactive_agents import ReactiveAgents, tool
from reactive_agents.agent import ReactiveAgent
from reactive_agents.server import KeyLimits, create_app
from reactive_agents.server.access import Principal
from reactive_agents.server.mcp import McpAgents, McpEndpoint, serve_stdio
from reactive_agents.server.process import bound_socket
from reactive_agents.server.runs import AgentService
from reactive_agents.server.web import MOST_VALUES
from reactive_agents.testing import ScriptedLLM, answer, call, forever, say, streamed
from tests.support.servers import NARROW, asking, bearer, keys_in, listening
from tests.support.sqlite_files import audited
from tests.support.waiting import until

pytestmark = pytest.mark.anyio
MODES = ["2026-07-28", "legacy"]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@frozen
class City:
    name: str
    people: int


@tool(requires_approval=True)
def pay(to: str) -> str:
    """Pay somebody."""
    PAID.append(to)
    return f"paid {to}"


PAID: list[str] = []


def serving(*agents: ReactiveAgent[Any, Any]) -> Any:
    return McpAgents(AgentService({each.name: each for each in agents})).server


def with_model(name: str, model: ScriptedLLM) -> Any:
    return ReactiveAgents.create().with_name(name).with_llm(model)


def named(name: str, *turns: Any) -> Any:
    return with_model(name, ScriptedLLM(*turns))


@asynccontextmanager
async def http_client(
    address: str, headers: dict[str, str], mode: str, ask: Callable[..., Any] | None = None
) -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(
            streamable_http_client(f"{address}/mcp", http_client=http), mode=mode, elicitation_callback=ask
        ) as client,
    ):
        yield client


def texts(result: Any) -> str:
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


@pytest.mark.parametrize("mode", MODES)
async def test_an_agent_is_a_tool_whose_call_has_progress_and_a_structured_answer(mode: str) -> None:
    writer = named("the writer", say("Blue.")).build()
    mapper = named("mapper", call("final-answer", name="Rome", people=3)).with_reasoning()
    mapper = mapper.with_tools("calculator").with_output_type(City).build()
    told: list[str | None] = []

    async def on_progress(_: float, __: float | None, message: str | None) -> None:
        told.append(message)

    async with Client(serving(writer, mapper), mode=mode) as client:
        listed = (await client.list_tools()).tools
        plain = await client.call_tool("the-writer", {"task": "Sky?"}, progress_callback=on_progress)
        typed = await client.call_tool("mapper", {"task": "Rome?"})
    assert [each.name for each in listed] == ["the-writer", "mapper"]
    assert texts(plain) == "Blue."
    assert plain.structured_content["status"] == "completed"
    assert typed.structured_content["output"] == {"name": "Rome", "people": 3}
    assert any("turn 1" in (message or "") for message in told)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("given", "paid", "said"),
    [
        (ElicitResult(action="accept", content={"approve": True}), ["Ann"], ""),
        (ElicitResult(action="accept", content={"approve": False}), [], "did not approve"),
        (ElicitResult(action="decline"), [], "did not approve"),
        (None, [], "cannot ask a person"),
    ],
    ids=["approved", "denied", "declined", "no-forms"],
)
async def test_a_call_that_needs_approval_is_asked_about_at_the_client(
    mode: str, given: ElicitResult | None, paid: list[str], said: str
) -> None:
    PAID.clear()
    shown: list[str] = []
    model = ScriptedLLM(call("pay", to="Ann"), forever(answer("That is what became of paying Ann.")))
    agent = (
        ReactiveAgents.create()
        .with_name("payer")
        .with_llm(model)
        .with_reasoning()
        .with_tools(pay)
        .with_approval()
        .build()
    )

    async def ask(_: Any, params: ElicitRequestParams) -> ElicitResult:
        shown.append(params.message)
        assert given is not None
        return given

    asking: Callable[..., Any] | None = None if given is None else ask
    async with Client(serving(agent), mode=mode, elicitation_callback=asking) as client:
        result = await client.call_tool("payer", {"task": "Pay Ann."})
    assert paid == PAID
    assert texts(result).endswith("That is what became of paying Ann.")
    assert said in str(model.requests[-1].messages)
    assert all('pay {"to": "Ann"}' in message for message in shown)
    assert len(shown) == (0 if given is None else 1)


@pytest.mark.parametrize("mode", MODES)
async def test_a_question_of_the_model_is_answered_at_the_client(mode: str) -> None:
    model = ScriptedLLM(call("ask-user", question="Which colour?", options=["red"]), answer("Painted."))
    agent = (
        ReactiveAgents.create().with_name("painter").with_llm(model).with_reasoning().with_ask_user().build()
    )

    async def ask(_: Any, params: Any) -> ElicitResult:
        assert "Which colour?" in params.message
        assert params.requested_schema["properties"]["answer"]["description"] == "such as red"
        return ElicitResult(action="accept", content={"answer": "blue"})

    async with Client(serving(agent), mode=mode, elicitation_callback=ask) as client:
        assert texts(await client.call_tool("painter", {"task": "Paint."})) == "Painted."
    assert "blue" in str(model.requests[-1].messages)


@pytest.mark.parametrize("mode", MODES)
async def test_cancelling_a_call_cancels_its_run(mode: str) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def wait() -> str:
        """Wait."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    model = ScriptedLLM(forever(call("wait")))
    agent = (
        ReactiveAgents.create().with_name("waiter").with_llm(model).with_reasoning().with_tools(wait).build()
    )
    async with Client(serving(agent), mode=mode) as client, anyio.create_task_group() as group:
        group.start_soon(client.call_tool, "waiter", {"task": "Wait."})
        await begun.wait()
        group.cancel_scope.cancel()
    await ended.wait()


@pytest.mark.parametrize(
    ("tool_name", "arguments", "problem"),
    [
        ("nobody", {"task": "x"}, "There is no tool 'nobody'."),
        ("writer", {}, "task: expected a text"),
        ("writer", {"task": " "}, "task: expected a text"),
        ("writer", {"task": 5}, "task: expected a text"),
        ("writer", {"task": "x", "shell": "y"}, "shell: unknown argument"),
    ],
)
async def test_wrong_calls_are_refused_before_a_model_is_asked(
    tool_name: str, arguments: dict[str, Any], problem: str
) -> None:
    model = ScriptedLLM(say("Blue."))
    async with Client(serving(with_model("writer", model).build())) as client:
        with pytest.raises(MCPError, match=problem):
            await client.call_tool(tool_name, arguments)
    assert model.requests == []


@define(eq=False)
class Streams:
    """Standard input of some lines, and output up to the answer to the request 9, which ends both."""

    lines: tuple[str, ...]
    written: list[dict[str, Any]] = field(factory=list)
    ended: anyio.Event = field(factory=anyio.Event)

    async def __aiter__(self) -> AsyncIterator[str]:
        for line in self.lines:
            yield f"{line}\n"
        await self.ended.wait()

    async def write(self, text: str) -> None:
        self.written.append(json.loads(text.encode()))
        if self.written[-1].get("id") == 9:
            self.ended.set()

    async def flush(self) -> None:
        pass


CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
OPENING = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": CLIENT}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


async def over_streams(agent: ReactiveAgent[Any, Any], *lines: str) -> list[dict[str, Any]]:
    """What a client reads that opens a connection and sends these lines."""
    streams: Any = Streams((json.dumps(OPENING), *lines))
    await serve_stdio(AgentService({agent.name: agent}), stdin=streams, stdout=streams)
    return list(streams.written[1:])


UNREADABLE = [
    (
        r'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"one","arguments":{"task":"\ud8"}}}',
        None,
    ),
    (r'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"\ud800","arguments":{}}}', 7),
    (r'{"jsonrpc":"2.0","id":"a\udc00","method":"ping"}', None),
    (r'{"jsonrpc":"2.0","id":7,"result":{"action":"accept","content":{"answer":"\ud800"}}}', None),
    ('{"jsonrpc":"2.0","id":true,"method":7}', None),
    ('{"jsonrpc":"2.0","id":7,"method":7}', 7),
    ('{"jsonrpc":"2.0","id":7}', None),
    ("[1]", None),
    ("no json", None),
    ("[" * 100_000, None),
]


async def test_a_message_that_cannot_be_read_is_answered_with_an_error() -> None:
    lines = ["", *(line for line, _ in UNREADABLE), '{"jsonrpc":"2.0","id":9,"method":"ping"}']
    *answers, last = await over_streams(named("one").build(), *lines)
    assert [each["id"] for each in answers] == [known for _, known in UNREADABLE]
    assert {each["error"]["code"] for each in answers} == {-32700, -32600}
    assert (last["id"], last["result"]) == (9, {})


async def test_a_client_that_has_gone_is_answered_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(self: Streams) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(Streams, "flush", broken)
    assert await over_streams(named("one").build(), '{"jsonrpc":"2.0","id":9,"method":"ping"}') == []


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_a_long_answer_comes_whole_once_and_a_shorter_one_twice(mode: str) -> None:
    long, short = "😀" * 140_000, "😀" * 90_000
    agent = named("writer", streamed(say(long), long), streamed(say(short), short)).build()
    async with (
        listening(create_app(agent, protocols=["mcp"])) as address,
        http_client(address, {}, mode) as client,
    ):
        cut = await client.call_tool("writer", {"task": "Write."})
        whole = await client.call_tool("writer", {"task": "Write."})
    for each, answered in ((cut, long), (whole, short)):
        assert each.structured_content is not None
        assert each.structured_content["output"] == answered.strip()
    told = "[90000 more characters: see output in the structured content]"
    assert texts(cut) == f"{long[:50_000]}\n\n{told}"
    assert texts(whole) == short.strip()


async def test_a_client_from_before_structured_content_gets_the_whole_answer_as_text() -> None:
    long = "word " * 200_000
    agent = named("writer", streamed(say(long), long)).build()
    about = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    called = {"name": "writer", "arguments": {"task": "Write."}}
    async with asking(create_app(agent, protocols=["mcp"])) as client:
        accepted = {"accept": "application/json, text/event-stream"}

        async def send(number: int | None, method: str, params: Any) -> httpx.Response:
            message = {"jsonrpc": "2.0", "method": method, "params": params}
            body = message if number is None else {**message, "id": number}
            return await client.post("/mcp", json=body, headers=accepted)

        begun = await send(1, "initialize", about)
        accepted |= {"mcp-session-id": begun.headers["mcp-session-id"]}
        await send(None, "notifications/initialized", {})
        answered = await send(2, "tools/call", called)
    lines = [line.removeprefix("data: ") for line in answered.text.splitlines() if line.startswith("data: {")]
    result = json.loads(lines[-1])["result"]
    assert result == {"content": [{"type": "text", "text": long.strip()}], "isError": False}


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_a_key_is_needed_and_reaches_its_agents_alone(mode: str, tmp_path: Path) -> None:
    agents = [named(name, forever(say(f"I am {name}."))).build() for name in ("one", "two")]
    keys = keys_in(tmp_path)
    app = create_app(agents, keys=keys, protocols=["mcp"])
    async with listening(app) as address:
        async with http_client(address, bearer(keys, "a", agents=["two"]), mode) as client:
            listed = (await client.list_tools()).tools
            result = await client.call_tool("two", {"task": "Who?"})
            with pytest.raises(MCPError, match="no tool 'one'"):
                await client.call_tool("one", {"task": "Who?"})
        async with httpx.AsyncClient() as stranger:
            refused = await stranger.post(
                f"{address}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}
            )
    assert [each.name for each in listed] == ["two"]
    assert texts(result) == "I am two."
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_a_person_is_asked_and_a_call_that_is_left_is_cancelled(mode: str) -> None:
    ended = anyio.Event()

    @tool(requires_approval=True)
    async def wait() -> str:
        """Wait."""
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    async def ask(_: Any, params: ElicitRequestParams) -> ElicitResult:
        group.start_soon(leave)
        return ElicitResult(action="accept", content={"approve": True})

    async def leave() -> None:
        await until(lambda: any(run.state == "running" and run.last > 10 for run in service._live.values()))
        calling.cancel()

    agent = named("waiter", forever(call("wait"))).with_reasoning().with_tools(wait).with_approval().build()
    app = create_app(agent, protocols=["mcp"])
    service = app.state.service
    async with listening(app) as address, http_client(address, {}, mode, ask) as client:
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as calling:
                await client.call_tool("waiter", {"task": "Wait."})
        await ended.wait()


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_a_client_that_vanishes_in_a_call_leaves_no_run(mode: str) -> None:
    ended = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        connection.cancel()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return ""

    agent = named("waiter", forever(call("wait"))).with_reasoning().with_tools(wait).build()
    async with listening(create_app(agent, protocols=["mcp"])) as address:
        with anyio.CancelScope() as connection:
            async with http_client(address, {}, mode) as client:
                await client.call_tool("waiter", {"task": "Wait."})
        await ended.wait()


@pytest.mark.parametrize("mode", MODES)
async def test_a_durable_run_stays_open_when_its_server_ends_before_the_client_leaves(
    mode: str, tmp_path: Path
) -> None:
    begun = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await anyio.sleep_forever()
        return ""

    described = named("waiter", forever(call("wait"))).with_reasoning().with_tools(wait)
    agent = described.with_durability(tmp_path / "runs.db", recover=False).build()
    app = create_app(agent, protocols=["mcp"], drain_s=0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=0))

    async def ask() -> None:
        async with http_client(address, {}, mode) as client:
            await client.call_tool("waiter", {"task": "Wait."})

    with bound_socket("127.0.0.1", 0) as bound:
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        serving = asyncio.create_task(server.serve([bound]))
        await until(lambda: server.started)
        asking = asyncio.create_task(ask())
        await begun.wait()
        server.should_exit = True
        await serving
        asking.cancel()
        await asyncio.wait([asking])
    with closing(sqlite3.connect(tmp_path / "runs.db")) as record:
        assert record.execute("SELECT status FROM runs").fetchall() == [("open",)]


async def test_the_audit_has_a_call_once_whose_server_ended_before_it_was_approved(tmp_path: Path) -> None:
    PAID.clear()
    asked = anyio.Event()

    def payer(*turns: Any) -> ReactiveAgent[Any, Any]:
        one = named("payer", *turns).with_reasoning().with_tools(pay).with_approval()
        return one.with_audit(tmp_path / "a.db").with_durability(tmp_path / "r.db", recover=False).build()

    async def ask(_: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async def pay_over_mcp(address: str) -> None:
        async with http_client(address, {}, MODES[0], ask) as client:
            await client.call_tool("payer", {"task": "Pay Ann."})

    async with anyio.create_task_group() as group:
        app = create_app(payer(call("pay", to="Ann")), protocols=["mcp"], drain_s=0)
        async with listening(app) as address:
            group.start_soon(pay_over_mcp, address)
            await asked.wait()
        group.cancel_scope.cancel()
    later = payer(answer("Paid Ann."))
    (run,) = await later.runs.list()
    assert (run.state, PAID) == ("waiting", [])
    await later.runs.approve(run.run_id)
    async with asking(create_app(later)) as client:
        await client.post(f"/v1/runs/{run.run_id}/resume")
        found = (await client.get(f"/v1/runs/{run.run_id}", params={"wait_s": 60})).json()
    assert (found["output"], PAID) == ("Paid Ann.", ["Ann"])
    assert audited(tmp_path / "a.db") == ["start", "request", "approval", "run"]


async def test_a_session_of_the_transport_belongs_to_the_key_that_opened_it(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    agent = named("one", forever(say("I am one."))).build()
    accept = {"accept": "application/json, text/event-stream"}
    async with (
        listening(create_app(agent, keys=keys, protocols=["mcp"])) as address,
        httpx.AsyncClient(base_url=address, headers=accept) as http,
    ):
        mine, other = bearer(keys, "mine"), bearer(keys, "other")
        opened = await http.post("/mcp", json=OPENING, headers=mine)
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        stolen = await http.post("/mcp", json=PING, headers={**other, **session})
        own = await http.post("/mcp", json=PING, headers={**mine, **session})
    assert (opened.status_code, stolen.status_code, own.status_code) == (200, 404, 200)


@pytest.mark.parametrize("mode", MODES)
async def test_a_key_without_streams_makes_calls(mode: str) -> None:
    app = create_app(named("clerk", say("Done.")).build(), limits=KeyLimits(streams=0))
    async with listening(app) as address, http_client(address, {}, mode) as client:
        assert texts(await client.call_tool("clerk", {"task": "Go."})) == "Done."


async def test_the_sessions_of_the_key_that_was_idle_for_longest_end_when_there_are_too_many_keys() -> None:
    def sender(request: Request) -> Principal:
        return Principal(request.headers["x-key"])

    service = AgentService({"one": named("one", forever(say("x"))).build()}, authenticate=sender)
    endpoint = McpEndpoint(service, most_keys=2)
    accept = {"accept": "application/json, text/event-stream"}
    transport = httpx.ASGITransport(endpoint)
    async with endpoint.run(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:

        async def post(key: str, message: Any, session: str = "") -> httpx.Response:
            headers = {**accept, "x-key": key, **({"mcp-session-id": session} if session else {})}
            return await http.post("/mcp", json=message, headers=headers)

        ids = {key: (await post(key, OPENING)).headers["mcp-session-id"] for key in ("a", "b")}
        assert (await post("a", PING, ids["a"])).status_code == 200  # now b is idle for longest
        assert (await post("c", OPENING)).status_code == 200
        assert (await post("a", PING, ids["a"])).status_code == 200
        assert (await post("b", PING, ids["b"])).status_code == 404  # which tells a client to begin anew
        assert (await post("b", OPENING)).status_code == 200


async def test_a_run_of_another_client_is_not_taken_over() -> None:
    model = ScriptedLLM(call("pay", to="Ann"), answer("Done."))
    agent = (
        ReactiveAgents.create()
        .with_name("payer")
        .with_llm(model)
        .with_reasoning()
        .with_tools(pay)
        .with_approval()
        .build()
    )
    async with Client(serving(agent)) as client:
        for state in ("", "x" * 32, "../../etc"):
            result = await client.session.call_tool("payer", {"task": "x"}, request_state=state)
            assert result.is_error
    assert model.requests == []


async def test_the_limits_of_a_key_hold_for_it_alone(tmp_path: Path) -> None:
    keys = keys_in(tmp_path)
    app = create_app(named("one", forever(say("x"))).build(), keys=keys, protocols=["mcp"])
    accept = {"accept": "application/json, text/event-stream"}

    async with listening(app) as address, httpx.AsyncClient(base_url=address, headers=accept) as http:
        narrow, other = bearer(keys, "narrow", limits=NARROW), bearer(keys, "other")
        opened = [await http.post("/mcp", json=OPENING, headers=narrow) for _ in range(NARROW.streams + 1)]
        large = await http.post("/mcp", json={**PING, "params": {"x": "x" * 3_000}}, headers=narrow)
        ids = [each.headers["mcp-session-id"] for each in opened[: NARROW.streams]]
        async with http.stream("GET", "/mcp", headers={**narrow, "mcp-session-id": ids[0]}):
            service = app.state.service
            for _ in range(NARROW.streams - 1):
                service.uses.begin(keys.find(narrow["authorization"].partition(" ")[2]), "streams")
            more = await http.get("/mcp", headers={**narrow, "mcp-session-id": ids[1]})
        not_its = await http.post("/mcp", json=OPENING, headers=other)
        many = await http.post("/mcp", json={**PING, "params": {"x": [1] * MOST_VALUES}}, headers=other)
    assert [each.status_code for each in opened] == [200] * NARROW.streams + [503]
    assert (large.status_code, more.status_code) == (413, 429)
    assert (not_its.status_code, many.json()["code"]) == (200, "too-many-values")


async def test_the_listening_stream_of_a_key_that_is_revoked_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sse_starlette.sse.EventSourceResponse.DEFAULT_PING_INTERVAL", 0.05)
    keys = keys_in(tmp_path)
    app = create_app(named("one", forever(say("x"))).build(), keys=keys, protocols=["mcp"])
    headers = {**bearer(keys, "ada"), "accept": "application/json, text/event-stream"}
    async with listening(app) as address, httpx.AsyncClient(base_url=address, headers=headers) as http:
        session = (await http.post("/mcp", json=OPENING)).headers["mcp-session-id"]
        async with http.stream("GET", "/mcp", headers={"mcp-session-id": session}) as stream:
            keys.revoke(keys.list()[0].id)
            assert [line async for line in stream.aiter_lines() if line.startswith("data")] == []
        await until(lambda: not app.state.service.uses.open_streams)


@pytest.mark.parametrize("mode", MODES)
async def test_who_may_not_approve_calls_does_not_at_the_client(mode: str) -> None:
    PAID.clear()
    agent = named("payer", call("pay", to="Ann"), forever(answer("It was not paid."))).with_reasoning()
    agent = agent.with_tools(pay).with_approval(timeout_s=0.3)
    app = create_app(
        agent.build(), protocols=["mcp"], authenticate=lambda _: Principal(user="ada", approves=False)
    )

    async def approve(_: Any, params: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"approve": True})

    async with (
        listening(app) as address,
        Client(f"{address}/mcp", mode=mode, elicitation_callback=approve) as client,
    ):
        result = await client.call_tool("payer", {"task": "Pay Ann."})
    assert PAID == []
    assert result.structured_content["status"] == "partial"


NEW_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
NEW_HEADERS = {
    "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "payer",
}


async def call_it(http: httpx.AsyncClient, **more: Any) -> dict[str, Any]:
    """Call the payer in the protocol that asks for input by a result."""
    params = {"name": "payer", "arguments": {"task": "Pay Ann."}, "_meta": NEW_META, **more}
    sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    text = (await http.post("/mcp", json=sent)).text
    result: dict[str, Any] = json.loads(text[text.index("{") :])["result"]
    return result


@pytest.mark.parametrize("recovers", [True, False], ids=["recovered by the agent", "continued by the call"])
async def test_a_call_of_a_durable_run_brings_its_input_after_a_restart(
    tmp_path: Path, recovers: bool
) -> None:
    PAID.clear()

    def app_of(*turns: Any) -> Any:
        agent = named("payer", *turns).with_reasoning().with_tools(pay).with_approval(timeout_s=3_600.0)
        return create_app(
            agent.with_ask_user().with_durability(tmp_path / "runs.db", recover=recovers).build(),
            protocols=["mcp"],
            drain_s=0.0,
        )

    def accepted(asked: dict[str, Any], **content: Any) -> dict[str, Any]:
        given = {key: {"action": "accept", "content": content} for key in asked["inputRequests"]}
        return {"requestState": asked["requestState"], "inputResponses": given}

    async with (
        listening(app_of(call("pay", to="Ann"))) as address,
        httpx.AsyncClient(base_url=address, headers=NEW_HEADERS) as http,
    ):
        asked = await call_it(http)
    turns = call("ask-user", question="Which colour?"), forever(answer("Paid in blue."))
    async with (
        listening(app_of(*turns)) as address,
        httpx.AsyncClient(base_url=address, headers=NEW_HEADERS, timeout=60.0) as http,
    ):
        again = await call_it(http, requestState=asked["requestState"], inputResponses={})
        assert again["inputRequests"].keys() == asked["inputRequests"].keys()
        (form,) = again["inputRequests"].values()
        assert 'pay {"to": "Ann"}' in form["params"]["message"]
        second = await call_it(http, **accepted(again, approve=True))
        (form,) = second["inputRequests"].values()
        assert ("Which colour?" in form["params"]["message"], PAID) == (True, ["Ann"])
        ended = await call_it(http, **accepted(second, answer="blue"))
    assert ended["structuredContent"]["output"] == "Paid in blue."
    assert PAID == ["Ann"]


async def test_what_a_client_gives_no_response_to_is_asked_again() -> None:
    PAID.clear()
    agent = named("payer", call("pay", to="Ann"), answer("Paid.")).with_reasoning().with_tools(pay)
    app = create_app(agent.with_approval().build(), protocols=["mcp"])
    async with listening(app) as address, httpx.AsyncClient(base_url=address, headers=NEW_HEADERS) as http:
        asked = await call_it(http)
        again = await call_it(http, requestState=asked["requestState"], inputResponses={})
        assert again["inputRequests"] == asked["inputRequests"]
        given = {key: {"action": "accept", "content": {"approve": True}} for key in asked["inputRequests"]}
        ended = await call_it(http, requestState=asked["requestState"], inputResponses=given)
    assert ended["structuredContent"]["status"] == "completed"
    assert PAID == ["Ann"]
