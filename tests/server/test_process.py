"""The process of a server: slow clients, and its end while runs are under way."""

from __future__ import annotations

import asyncio
import http.client
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import httpx
import pytest
from attrs import define, field
from sse_starlette.sse import AppStatus
from starlette.types import ASGIApp, Receive, Scope, Send

from reactive_agents import ReactiveAgents, tool
from reactive_agents.server import create_app
from reactive_agents.server import process as process_module
from reactive_agents.server.process import DrainingServer, TimedProtocol, bound_socket
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support.servers import events_of
from tests.support.waiting import until

pytestmark = pytest.mark.anyio


def test_a_socket_names_its_protocol() -> None:
    with bound_socket("127.0.0.1", 0) as bound:  # asyncio sends small answers at once by it (TCP_NODELAY)
        assert (bound.proto, bound.family) == (socket.IPPROTO_TCP, socket.AF_INET)


@define(eq=False)
class Process:
    """A server in this process, with a run whose tool waits."""

    client: httpx.AsyncClient
    server: DrainingServer
    ended: asyncio.Task[None]
    app: Any
    go: anyio.Event = field(factory=anyio.Event)

    def signal(self) -> None:
        """Send it a signal to end."""
        self.server.handle_exit(signal.SIGTERM, None)
        self.server._captured_signals.clear()  # which it would raise again in this process


@asynccontextmanager
async def process(
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app, **options: Any
) -> AsyncIterator[Process]:
    go = anyio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await go.wait()
        return "waited"

    model = ScriptedLLM(call("wait"), answer("Done."))
    app = create_app(
        ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(wait).build(), drain_s=0
    )
    with bound_socket("127.0.0.1", 0) as listening:
        server = DrainingServer(around(app), service=app.state.service, **options)
        ended = asyncio.create_task(server.serve([listening]))
        await until(lambda: server.started)
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=address) as client:
            yield Process(client, server, ended, app, go)
            server.should_exit = True
            server.hurry()
            await ended


async def test_runs_under_way_end_before_the_server_does() -> None:
    async with process() as found:
        client = found.client
        run = (await client.post("/v1/runs", json={"task": "Wait."})).json()["run_id"]
        async with client.stream("GET", f"/v1/runs/{run}/events") as stream:
            found.signal()
            await until(lambda: found.app.state.service.is_draining)
            assert (await client.get("/readyz")).status_code == 503
            assert (await client.post("/v1/runs", json={"task": "More."})).status_code == 503
            assert (await client.get(f"/v1/runs/{run}")).json()["status"] == "running"
            found.go.set()
            text = "".join([each async for each in stream.aiter_text()])
        await found.ended
    assert events_of(text)[-1]["event"] == "run"
    assert '"output":"Done."' in events_of(text)[-1]["data"]


async def test_what_a_run_returned_is_sent_before_endless_streams_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process_module, "_LAST_TEXTS_S", 60.0)
    were_ended: list[bool] = []

    def slow(app: ASGIApp) -> ASGIApp:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            await app(scope, receive, send)
            if scope.get("path", "").endswith("/events"):
                await anyio.sleep(0.05)  # what is left of it is sent
                were_ended.append(AppStatus.should_exit)

        return answer

    async with process(slow) as found:
        run = (await found.client.post("/v1/runs", json={"task": "Wait."})).json()["run_id"]
        async with found.client.stream("GET", f"/v1/runs/{run}/events") as stream:
            found.signal()
            await until(lambda: found.app.state.service.is_draining)
            found.go.set()
            await stream.aread()
        await found.ended
    assert were_ended == [False]


@pytest.mark.parametrize("how", ["the time is over", "a second signal"])
async def test_runs_that_do_not_end_are_cancelled(how: str) -> None:
    async with process(drain_s=3_600 if how == "a second signal" else 0) as found:
        run = (await found.client.post("/v1/runs", json={"task": "Wait."})).json()["run_id"]
        async with found.client.stream("GET", f"/v1/runs/{run}/events") as stream:
            found.signal()
            if how == "a second signal":
                await until(lambda: found.app.state.service.is_draining)
                found.signal()
            text = "".join([each async for each in stream.aiter_text()])
        await found.ended
    assert '"status":"cancelled"' in events_of(text)[-1]["data"]


class Impatient(TimedProtocol):
    """A protocol that does not wait long for the head of a request."""

    request_s = 0.1


async def test_a_connection_without_a_request_is_closed() -> None:
    whole = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    cases = ([], [b"GET /healthz HTTP/1.1\r\nHost: local"], [whole, b"GET /readyz HT"], [whole, whole, b"G"])
    async with process(http=Impatient) as found:
        port = found.client.base_url.port or 0
        for pieces in cases:
            async with await anyio.connect_tcp("127.0.0.1", port) as connection:
                for piece in pieces:
                    await connection.send(piece)
                    answered = b""
                    while piece is whole and b"}" not in answered:
                        answered += await connection.receive()
                with pytest.raises(anyio.EndOfStream):
                    await connection.receive()


async def test_a_stream_that_nobody_reads_is_ended() -> None:
    class Unread(TimedProtocol):
        """Waits for the client that reads, and soon no longer for the one that does not."""

    async with process(http=Unread) as found:
        run = (await found.client.post("/v1/runs", json={"task": "x" * 5_000_000})).json()["run_id"]
        uses = found.app.state.service.uses
        Unread.read_s = 0.1
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            reader.connect(("127.0.0.1", found.client.base_url.port or 0))
            reader.send(f"GET /v1/runs/{run}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            await until(lambda: uses.open_streams == 1)
            await until(lambda: uses.open_streams == 0)
        Unread.read_s = TimedProtocol.read_s
        assert (await found.client.get(f"/v1/runs/{run}")).json()["status"] == "running"


async def test_a_body_over_the_limit_is_answered_though_its_sender_reads_last() -> None:
    async with process() as found:
        address = http.client.HTTPConnection("127.0.0.1", found.client.base_url.port)

        def post() -> int:
            address.request("POST", "/v1/runs", b"x" * 30_000_000, {"content-type": "application/json"})
            return address.getresponse().status

        assert await asyncio.to_thread(post) == 413


async def test_a_body_that_was_asked_for_is_read_though_it_is_over_the_limit() -> None:
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    async with process() as found:
        connection = await anyio.connect_tcp("127.0.0.1", found.client.base_url.port or 0)
        await connection.send(head + b"Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
        assert (await connection.receive()).startswith(b"HTTP/1.1 100 ")
        for _ in range(300):
            await connection.send(b"%x\r\n%b\r\n" % (100_000, b"x" * 100_000))
        await connection.send(b"0\r\n\r\n")
        assert (await connection.receive()).startswith(b"HTTP/1.1 413 ")
        await connection.aclose()


async def test_a_request_with_two_lengths_hides_no_other() -> None:
    head = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\n"
    head += b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n"
    hidden = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with process() as found:
        connection = await anyio.connect_tcp("127.0.0.1", found.client.base_url.port or 0)
        await connection.send(head + b"0\r\n\r\n" + hidden)
        answered = b""
        with suppress(anyio.EndOfStream):
            while True:
                answered += await connection.receive()
        await connection.aclose()
    assert answered.startswith(b"HTTP/1.1 400 ")
    assert answered.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("path", ["/healthz", "/v1/runs"])
@pytest.mark.parametrize("parts", [(b"zz\r\n",), (b"1\r\nx\r\n", b"zz\r\n")], ids=["at once", "later"])
async def test_a_malformed_body_puts_no_traceback_into_the_log(
    path: str, parts: tuple[bytes, ...], caplog: pytest.LogCaptureFixture
) -> None:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    async with process() as found:
        connection = await anyio.connect_tcp("127.0.0.1", found.client.base_url.port or 0)
        await connection.send(head + parts[0])
        answered = await connection.receive()
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            for part in parts[1:]:
                await connection.send(part)
            while True:
                answered += await connection.receive()
        await connection.aclose()
    assert answered.startswith(b"HTTP/1.1 4")
    assert answered.count(b"HTTP/1.1") == 1
    assert [each.message for each in caplog.records if each.exc_info] == []


async def test_a_request_that_takes_longer_than_its_head_is_answered() -> None:
    async with process(http=Impatient) as found:
        run = (await found.client.post("/v1/runs", json={"task": "Wait."})).json()["run_id"]
        short = await found.client.get(f"/v1/runs/{run}", params={"wait_s": 0.3})
        assert short.json()["status"] == "running"
        found.go.set()
        assert (await found.client.get(f"/v1/runs/{run}?wait_s=60")).json()["output"] == "Done."


def test_a_program_that_lacks_the_extra_is_told_its_name() -> None:
    script = (
        "import sys\n"
        "sys.modules['prometheus_client'] = None\n"
        "try:\n"
        "    from reactive_agents.server import create_app\n"
        "except ModuleNotFoundError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    needed = "reactive_agents.server needs prometheus_client: pip install 'reactive-agents[server]'"
    assert done.stdout.strip() == needed
