"""A real server over streamable HTTP."""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import anyio
import attrs
import httpx2
import pytest
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import OAuthClientMetadata

from reactive_agents.adapters.tools.mcp import McpServer, McpTools
from reactive_agents.adapters.tools.mcp.http_client import BoundedStream
from reactive_agents.adapters.tools.mcp.server import redact
from reactive_agents.core.errors import ToolFailed, ToolTimedOut
from reactive_agents.core.redaction import Redactor
from tests.adapters.tools.mcp.servers import CLOCK, SCOPE, Log, failure, opened, program, run, value
from tests.support.mcp_server import CLIENT, http_server
from tests.support.waiting import until

pytestmark = [pytest.mark.anyio, pytest.mark.system]

HEADERS = {"Authorization": "Bearer t0ken"}


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return Log(tmp_path_factory.mktemp("mcp-http"))


@pytest.fixture(scope="module")
def url(log: Log) -> Iterator[str]:
    with http_server("--key", "t0ken", env=log.env) as (url, _):
        yield url


def web(url: str) -> McpServer:
    return McpServer("web", url=url, headers=HEADERS, trust_hints=True)


async def test_calls(url: str) -> None:
    async with opened(web(url)) as tools:
        assert "forecast" in {definition.name for definition in tools.definitions()}
        assert await value(tools, "forecast", city="Oslo") == {"city": "Oslo", "degrees": 21.5}
        assert await value(tools, "echo", text="grüße") == "grüße"
        error = await failure(tools, "fail", reason="no")
        assert error == ToolFailed("fail", "Error executing tool fail: no")


async def test_a_slow_call_times_out_and_is_cancelled_at_the_server(url: str, log: Log) -> None:
    async with opened(web(url)) as tools:
        scope = attrs.evolve(SCOPE, deadline=CLOCK.monotonic() + 0.5)
        assert isinstance((await run(tools, "slow", scope=scope, seconds=30)).failure(), ToolTimedOut)
        await log.has("slow cancelled")
        assert await value(tools, "echo", text="still there") == "still there"
    log.clear()


async def test_cancelling_a_call_cancels_it_at_the_server(url: str, log: Log) -> None:
    async with opened(web(url)) as tools:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: value(tools, "slow", seconds=30))
            await log.has("slow begun")
            group.cancel_scope.cancel()
        await log.has("slow cancelled")
    log.clear()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_both_kinds_together(url: str) -> None:
    async with opened(web(url), program("local")) as tools:
        assert await value(tools, "web-echo", text="a") == "a"
        assert await value(tools, "local-echo", text="b") == "b"


async def test_an_address_where_nothing_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    message = (await McpTools([web(f"http://127.0.0.1:{port}/mcp?key=s3cret")], clock=CLOCK).open()).failure()
    assert f"'web' (http://127.0.0.1:{port}/mcp) did not start: ConnectError" in message.message
    assert "s3cret" not in message.message


async def test_a_wrong_key_is_not_shown(url: str) -> None:
    server = McpServer("web", url=url, headers={"Authorization": "Bearer wr0ng"})
    message = (await McpTools([server], clock=CLOCK).open()).failure().message
    assert message.endswith("did not start: MCPError: the server answered 401 Unauthorized: no.")
    assert "wr0ng" not in message


async def test_a_key_that_is_refused_after_the_start_is_named_as_the_cause() -> None:
    with http_server("--key", "t0ken") as (url, _):
        async with opened(web(url)) as tools:
            assert await value(tools, "lock") == "locked"
            error = await failure(tools, "echo", text="x")
            assert error == ToolFailed("echo", "the server answered 401 Unauthorized: no", "MCPError")


@pytest.mark.parametrize("reports", [0, 2])  # as one body, and as events
async def test_a_result_that_is_too_large_fails_its_own_call_alone(url: str, log: Log, reports: int) -> None:
    scope = attrs.evolve(SCOPE, report=lambda *_: None)
    async with opened(web(url)) as tools, anyio.create_task_group() as group:
        group.start_soon(lambda: value(tools, "slow", seconds=30))
        await log.has("slow begun")
        whole = (await run(tools, "recite", scope=scope, chars=3_000_000, reports=reports)).unwrap()
        assert whole.result == "x" * 3_000_000
        error = (await run(tools, "recite", scope=scope, chars=9_000_000, reports=reports)).failure()
        assert isinstance(error, ToolFailed)
        assert error.detail.endswith("the server sent more than 8 MB in one response")
        group.cancel_scope.cancel()  # a call that was over would have failed the group
    await log.has("slow cancelled")
    log.clear()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_any_number_of_calls_run_at_the_same_time(url: str) -> None:
    async with opened(web(url)) as tools, anyio.create_task_group() as group:
        for _ in range(110):
            group.start_soon(lambda: value(tools, "meet", people=110))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_dies_in_a_call_is_reached_again_by_the_next(tmp_path: Path) -> None:
    log, errors = Log(tmp_path), []
    with http_server(env=log.env) as (url, pid):
        async with opened(McpServer("web", url=url, trust_hints=True)) as tools:

            async def call() -> None:
                errors.append(await failure(tools, "slow", seconds=30))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await log.has("slow begun")
                os.kill(pid, signal.SIGKILL)
            errors.append(await failure(tools, "echo", text="x"))
            for each in errors:  # by which error is up to the moment of the kill
                assert isinstance(each, ToolFailed)
                assert each.detail.startswith("the connection failed (")
            with http_server("--port", str(urlsplit(url).port)):
                assert await value(tools, "echo", text="x") == "x"


class _Fleeting(BaseHTTPRequestHandler):
    """A server by hand that drops a response, or forgets its sessions."""

    protocol_version = "HTTP/1.1"
    drops = ""
    refusal: ClassVar[tuple[Any, int] | None] = None
    sessions = 0
    calls: ClassVar[list[str]] = []
    dropped = threading.Event()

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        match asked:
            case {"method": "initialize"}:
                type(self).sessions += 1
                about = {"serverInfo": {"name": "fleeting", "version": "1"}, "capabilities": {"tools": {}}}
                self.reply(asked, {"protocolVersion": "2025-06-18", **about})
            case {"method": "tools/list"}:
                hints = {"readOnlyHint": True}
                names = ("drop", "wait")
                listed = [
                    {"name": each, "inputSchema": {"type": "object"}, "annotations": hints} for each in names
                ]
                self.reply(asked, {"tools": listed})
            case {"method": "tools/call", "params": {"name": name}}:
                self.calls.append(name)
                if self.refusal is not None and self.headers["Mcp-Session-Id"] == "1":
                    self.reply(asked, *self.refusal)
                elif name == "drop":
                    self.drop()
                else:
                    self.dropped.wait(20)
                    self.reply(asked, {"content": [{"type": "text", "text": "waited"}]})
            case {"id": _}:
                self.reply(asked, None, status=400)
            case _:
                self.reply(asked, None, status=202)

    def reply(self, asked: Any, result: object, status: int = 200) -> None:
        kind = "error" if status >= 400 else "result"
        answer = {"jsonrpc": "2.0", "id": asked.get("id"), kind: result}
        body = b"" if result is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Mcp-Session-Id", str(self.sessions))
        self.end_headers()
        self.wfile.write(body)

    def drop(self) -> None:
        if self.drops != "response":
            self.send_response(200)
            self.send_header("Content-Type", self.drops)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b": begun\n\n" if "event" in self.drops else b"{")
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def fleeting(drops: str = "", refusal: Any = None) -> Iterator[tuple[McpServer, type[_Fleeting]]]:
    """A server that drops responses of a kind, or refuses the calls of its first session."""
    own = {"drops": drops, "refusal": refusal, "calls": [], "dropped": threading.Event()}
    handler = type("Fleeting", (_Fleeting,), own)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield (
                McpServer("web", url=f"http://127.0.0.1:{server.server_port}/mcp", trust_hints=True),
                handler,
            )
        finally:
            handler.dropped.set()
            server.shutdown()
            thread.join()


@pytest.mark.parametrize("drops", ["response", "application/json", "text/event-stream"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_response_that_breaks_off_fails_its_own_call_alone(drops: str) -> None:
    with fleeting(drops) as (server, handler):
        async with opened(server) as tools:
            waited, error = list[Any](), None

            async def wait() -> None:
                waited.append(await value(tools, "wait"))

            async with anyio.create_task_group() as group:
                group.start_soon(wait)
                await until(lambda: handler.calls == ["wait"])
                error = await failure(tools, "drop")
                handler.dropped.set()
            assert isinstance(error, ToolFailed)
            assert "the connection failed" in error.detail or "SSE stream ended" in error.detail
            assert (waited, handler.sessions) == (["waited"], 1)


@pytest.mark.parametrize(
    "refusal",
    [
        (None, 404),
        ({"code": -32001, "message": "Session not found"}, 404),
        ({"code": -32000, "message": "Bad Request: No valid session ID provided"}, 400),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_call_whose_session_the_server_has_forgotten_is_made_in_a_new_one(refusal: Any) -> None:
    """As after a restart of the server, which has not run the call."""
    with fleeting(refusal=refusal) as (server, handler):
        handler.dropped.set()
        async with opened(server) as tools:
            assert await value(tools, "wait") == "waited"
    assert (handler.calls, handler.sessions) == (["wait", "wait"], 2)


async def test_headers_may_come_from_a_function_for_each_request_and_are_not_shown(url: str) -> None:
    key = ["t0ken"]
    server = McpServer(
        "web", url=url, headers=lambda: {"Authorization": f"Bearer {key[-1]}"}, trust_hints=True
    )
    async with opened(server) as tools:
        assert await value(tools, "echo", text="a") == "a"
        key.append("expired-2")
        refused = await failure(tools, "echo", text="b")
        assert refused == ToolFailed("echo", "the server answered 401 Unauthorized: no", "MCPError")
        assert "expired-2" not in redact(server, "The key expired-2 is not known.")
        key.pop()
        assert await value(tools, "echo", text="c") == "c"


async def test_a_function_for_headers_that_raises_fails_its_own_call_alone(url: str) -> None:
    asked: list[int] = []

    async def headers() -> dict[str, str]:
        asked.append(1)
        if broken.is_set():
            raise ValueError("the vault says s3cret")
        return HEADERS

    broken = threading.Event()
    async with opened(McpServer("web", url=url, headers=headers, trust_hints=True)) as tools:
        broken.set()
        error = await failure(tools, "echo", text="a")
        assert error == ToolFailed("echo", "the function for its headers raised ValueError", "MCPError")
        broken.clear()
        assert await value(tools, "echo", text="a") == "a"


# --- OAuth ------------------------------------------------------------------------------------------------


class Tokens:
    """Implements ``TokenStorage`` of the MCP library, whose lock is that of the event loop it is made on."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


def signing_in(url: str, tokens: Tokens) -> OAuthClientProvider:
    """The authorization code flow; what a browser would be shown is called."""
    answers: list[str] = []

    async def open_page(address: str) -> None:
        async with httpx2.AsyncClient() as browser:
            answers.append((await browser.get(address)).headers["Location"])

    async def answered() -> AuthorizationCodeResult:
        given = parse_qs(urlsplit(answers[-1]).query)
        return AuthorizationCodeResult(code=given["code"][0], state=given["state"][0])

    client = OAuthClientMetadata(redirect_uris=["http://127.0.0.1:1/callback"], client_name="a test")  # type: ignore[list-item]
    return OAuthClientProvider(url, client, tokens, open_page, answered)


def of_machine(url: str, tokens: Tokens, secret: str = CLIENT[1]) -> OAuthClientProvider:
    issuer = url.removesuffix("/mcp")
    return ClientCredentialsOAuthProvider(url, tokens, CLIENT[0], secret, issuer=issuer)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("flow", [signing_in, of_machine])
async def test_oauth_gets_a_token_and_another_when_it_is_refused(flow: Any) -> None:
    with http_server("--oauth") as (url, _):
        tokens, redactor = Tokens(), Redactor()
        server = McpServer("web", url=url, auth=flow(url, tokens), trust_hints=True)
        async with opened(server, redactor=redactor) as tools:
            assert await value(tools, "echo", text="a") == "a"
            assert tokens.tokens.access_token == "harbour-evening-1"
            async with httpx2.AsyncClient() as http:
                await http.get(url.replace("/mcp", "/revoke"))
            assert await value(tools, "echo", text="b") == "b"
            assert tokens.tokens.access_token == "harbour-evening-2"
        secrets = ["harbour-evening-1", "harbour-morning-2", tokens.client and tokens.client.client_secret]
        secrets = [*filter(None, secrets), *([CLIENT[1]] if flow is of_machine else ["code-of-evening-0"])]
        for secret in secrets:
            for redacted in (redact(server, f"got {secret}"), redactor.redact(f"got {secret}")):
                assert redacted == "got [redacted:known]"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_oauth_flow_that_fails_is_named_without_its_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with http_server("--oauth") as (url, _):
        auth = of_machine(url, Tokens(), "wrong-of-harbour")
        error = (await McpTools([McpServer("web", url=url, auth=auth)], clock=CLOCK).open()).failure().message
    assert (
        "did not start: MCPError: the authentication failed: OAuthTokenError: Token exchange failed" in error
    )
    assert "is not the secret of the-client" in error
    assert "wrong-of-harbour" not in error
    assert "OAuth flow error" in caplog.text
    assert "wrong-of-harbour" not in caplog.text


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_flow_that_fails_in_a_call_ends_no_other_call() -> None:
    with http_server("--oauth") as (url, _):
        tokens = Tokens()
        auth = signing_in(url, tokens)
        async with opened(McpServer("web", url=url, auth=auth, trust_hints=True)) as tools:
            auth.context.client_info = with_changes(
                auth.context.client_info, client_secret="forgotten-secret"
            )
            async with httpx2.AsyncClient() as http:
                await http.get(url.replace("/mcp", "/revoke"))
            error = await failure(tools, "echo", text="a")
            assert error.message.startswith(
                "The tool 'echo' failed (MCPError): the authentication failed: OAuthTokenError"
            )
            auth.context.client_info = tokens.client
            assert await value(tools, "echo", text="b") == "b"


def with_changes(model: Any, **changes: Any) -> Any:
    return model.model_copy(update=changes)


async def test_headers_of_a_function_are_sent_to_no_other_server_and_known_to_the_redactor(url: str) -> None:
    asked: list[tuple[str, str | None]] = []

    class Elsewhere(httpx2.Auth):
        async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[Any, httpx2.Response]:
            answer = yield httpx2.Request("POST", other, data={"refresh_token": "harbour-morning-0"})
            request.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
            yield request

    class Other(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            asked.append((text, self.headers["X-Api-Key"]))
            body = b'{"access_token": "t0ken"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Write nothing."""

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Other)
    threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True).start()
    other, redactor = f"http://127.0.0.1:{listener.server_port}/token", Redactor()
    with listener:
        headers = {"X-Api-Key": "harbour-noon-1", "X-Kind": "plain-words"}
        server = McpServer("web", url=url, headers=lambda: headers, auth=Elsewhere(), trust_hints=True)
        async with opened(server, redactor=redactor) as tools:
            assert await value(tools, "echo", text="a") == "a"
        listener.shutdown()
    assert set(asked) == {("refresh_token=harbour-morning-0", None)}
    shown = redactor.redact("harbour-morning-0, harbour-noon-1, plain-words")
    assert shown == "[redacted:known], [redacted:known], plain-words"


class _Endless(BaseHTTPRequestHandler):
    """Answers each request with a body that does not end."""

    kind = "application/json"
    piece = b" "
    sent = 0

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", self.kind)
        self.end_headers()
        with suppress(OSError):
            while type(self).sent < 400_000_000:
                self.wfile.write(self.piece * 100_000)
                type(self).sent += 100_000 * len(self.piece)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
@pytest.mark.parametrize(
    ("piece", "problem"), [(b" " * 10, "more than 8 MB"), (b"data: {}, {},", "too many values")]
)
async def test_a_body_without_end_is_cut_off(kind: str, piece: bytes, problem: str) -> None:
    handler = type("Endless", (_Endless,), {"kind": kind, "piece": piece, "sent": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            tools = McpTools(
                [McpServer("web", url=f"http://127.0.0.1:{server.server_port}/mcp")], clock=CLOCK
            )
            message = (await tools.open()).failure().message
        finally:
            server.shutdown()
            thread.join()
    assert problem in message or "ended before" in message
    assert handler.sent < 30_000_000


class _Pieces(httpx2.AsyncByteStream):
    taken = 0

    def __init__(self, piece: bytes) -> None:
        self._piece = piece

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self.taken == 500:
            raise StopAsyncIteration
        self.taken += 1
        return self._piece


@pytest.mark.parametrize("of_events", [True, False])
@pytest.mark.parametrize(
    ("piece", "taken"), [(b"{}," * 20_000, 8), (b'"a,{[",' * 10_000, 16), (b"1" * 1_000_000, 9)]
)
async def test_a_response_is_cut_off_at_its_limits(piece: bytes, taken: int, *, of_events: bool) -> None:
    pieces = _Pieces(piece)
    with pytest.raises((httpx2.SSEError, httpx2.StreamError), match="the server sent"):
        _ = [each async for each in BoundedStream(pieces, of_events=of_events)]
    assert pieces.taken == taken


async def test_each_event_of_a_stream_has_the_limits_for_itself() -> None:
    event = b"data: [" + b"{}," * 20_000 + b"{}]\n\n"
    passed = [each async for each in BoundedStream(_Pieces(event), of_events=True)]
    assert len(passed) == 500


class _Compressed(BaseHTTPRequestHandler):
    """Answers with a small body that unpacks to a large one, which nobody asked for."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(self.headers["Accept-Encoding"])
        body = gzip.compress(b" " * 10_000_000, compresslevel=1)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


async def test_a_compressed_body_is_refused() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Compressed) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/mcp"
            message = (await McpTools([McpServer("web", url=url)], clock=CLOCK).open()).failure().message
        finally:
            server.shutdown()
            thread.join()
    assert "compressed body" in message
    assert set(_Compressed.asked) == {"identity"}
