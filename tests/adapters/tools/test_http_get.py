"""``http-get`` against a real server on a loopback address, through the service."""

from __future__ import annotations

import gzip
import json
import shutil
import ssl
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from returns.result import Result, Success

from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools import http_fetch
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.adapters.tools.builtin.web import http_get, http_get_tool
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.core.errors import (
    AddressRefused,
    InvalidToolArguments,
    ToolErrors,
    ToolFailed,
    ToolTimedOut,
)
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolResult, ToolScope
from reactive_agents.effects import attempt

pytestmark = pytest.mark.anyio

SCOPE = ToolScope(RunId("run"), TaskId("task"), AgentId("agent"), SessionId("session"), "run-1.0")

PAGE = b"""<!DOCTYPE html><html><head><title>Apples &amp;
 pears</title><meta charset="utf-8"><style>p { color: red }</style></head>
<body><nav><ul><li><a href="/one">One</a><li><a href="javascript:alert(1)">Two</a></ul></nav>
<h1>All <b>about</b> apples</h1><p>They are   <a href="red.html#top">red <i>and</i> round</a>.<br>Often.
<script>alert("not this")</script></p><pre>  a
    b</pre><table><tr><th>kind<th>price<tr><td>Boskoop<td>3 \xe2\x82\xac</table><p>AT&T"""

READABLE = """# Apples & pears

- [One](http://127.0.0.1:PORT/one)
- Two

# All about apples

They are [red and round](http://127.0.0.1:PORT/deep/red.html#top).
Often.

```
  a
    b
```

kind | price
Boskoop | 3 €

AT&T"""


class Server:
    """Answers by path, and notes what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.stopping = threading.Event()
        self.port = 0

    def answer(
        self,
        path: str,
        body: bytes = b"",
        content_type: str = "text/plain",
        status: int = 200,
        repeat: int = 1,
        **headers: str,
    ) -> str:
        """Answer so at the path; with ``repeat`` the body is sent so often, in pieces. Returns the URL."""

        def write(request: BaseHTTPRequestHandler) -> None:
            request.send_response(status)
            for name, value in headers.items():
                request.send_header(name.replace("_", "-"), value)
            if content_type:
                request.send_header("Content-Type", content_type)
            if repeat == 1 and "Content_Length" not in headers:
                request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            for _ in range(repeat):
                request.wfile.write(body)

        self.answers[path] = write
        return self.url(path)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def hits(self) -> list[str]:
        return [path for path, _ in self.requests]


@contextmanager
def running(server: Server, context: ssl.SSLContext | None = None) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.requests.append((self.path, {key.lower(): value for key, value in self.headers.items()}))
            try:
                server.answers[self.path](self)
            except ConnectionError:
                self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            """Tests look at the requests instead."""

    class Listener(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that does not like the certificate hangs up, which is what some tests are about."""

    with Listener(("127.0.0.1", 0), Handler) as listener:
        if context is not None:
            listener.socket = context.wrap_socket(listener.socket, server_side=True)
        server.port = listener.server_address[1]
        thread = threading.Thread(target=listener.serve_forever, args=(0.002,))
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            listener.shutdown()
            thread.join()


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def server() -> Iterator[Server]:
    with running(Server()) as started:
        yield started


LOCAL = http_get_tool(allow_hosts=("127.0.0.1",))


async def get(url: str, tool: Tool = LOCAL, **arguments: Json) -> Result[ToolResult, ToolErrors]:
    service = LocalToolService([tool], workspace=Path("/"), clock=SystemClock())
    return await attempt(service.execute(ToolCall(CallId("c1"), tool.name, {"url": url, **arguments}), SCOPE))


async def result_of(url: str, tool: Tool = LOCAL, **arguments: Json) -> Any:
    return (await get(url, tool, **arguments)).unwrap().result


async def failure_of(url: str, tool: Tool = LOCAL) -> str:
    error = (await get(url, tool)).failure()
    assert isinstance(error, ToolFailed)
    assert error.tool_name == "http-get"
    return error.detail


async def refusal_of(url: str, tool: Tool = LOCAL) -> AddressRefused:
    error = (await get(url, tool)).failure()
    assert isinstance(error, AddressRefused)
    return error


def resolving(**known: str | tuple[str, ...]) -> tuple[list[str], Any]:
    """A DNS that knows the given names with ``.example`` behind them, and what it was asked."""
    asked: list[str] = []

    async def resolve(host: str, port: int) -> tuple[str, ...]:
        asked.append(host)
        found = known.get(host.removesuffix(".example"), ())
        return (found,) if isinstance(found, str) else found

    return asked, resolve


def test_the_tool_as_a_model_sees_it() -> None:
    assert builtin_tools()["http-get"] is http_get
    definition = http_get.definition
    assert (definition.name, definition.timeout_s, definition.idempotent) == ("http-get", 20.0, True)
    assert list(definition.parameters["properties"]) == ["url", "max_chars"]  # type: ignore[call-overload]


# --- what comes back ------------------------------------------------------------------------------------


@ON_BOTH
async def test_html_becomes_readable(server: Server) -> None:
    url = server.answer("/deep/page", PAGE, "text/html")
    assert await result_of(url) == {
        "url": url,
        "status": 200,
        "content_type": "text/html",
        "text": READABLE.replace("PORT", str(server.port)),
        "truncated": False,
    }


async def test_the_certificates_of_the_authorities_are_read_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer than many a fetch, and holds up the event loop."""
    read = list[ssl.SSLContext]()

    def reading(**_: bool) -> ssl.SSLContext:
        read.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
        return read[-1]

    monkeypatch.setattr(httpx, "create_ssl_context", reading)
    http_fetch._public_authorities.cache_clear()
    for _ in range(2):
        await result_of(server.answer("/page", PAGE, "text/html"))
    assert len(read) == 1
    http_fetch._public_authorities.cache_clear()


async def test_json_stays_as_it_is(server: Server) -> None:
    body = json.dumps({"a": [1, 2], "text": "<b>x</b>"}, indent=2).encode()
    found = await result_of(server.answer("/data", body, "application/json"))
    assert found["text"] == body.decode()


async def test_an_error_page_is_a_result_with_its_status(server: Server) -> None:
    found = await result_of(server.answer("/gone", b"not here", status=404))
    assert (found["status"], found["text"]) == (404, "not here")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a text is judged alike on each event loop
@pytest.mark.parametrize(
    ("body", "content_type", "text"),
    [
        ("größe".encode("latin-1"), "text/plain; charset=ISO-8859-1", "größe"),
        (b"\x93quoted\x94", "text/plain; charset=latin1", "“quoted”"),
        ("größe".encode("utf-16"), "text/plain", "größe"),
        (b"\xef\xbb\xbfgr\xc3\xb6\xc3\x9fe", "text/plain; charset=latin-1", "größe"),
        ("<meta charset=koi8-r><p>яблоко".encode("koi8-r"), "text/html", "яблоко"),
        (b"gr\xf6\xdfe", "text/plain", "gr\ufffd\ufffde"),
        (b"\\u0041", "text/plain; charset=unicode_escape", "\\u0041"),
        (b"666f", "text/plain; charset=hex", "666f"),
        (b"abc", "text/plain; charset=no-such-thing", "abc"),
        (b"abc", "", "abc"),
        (b"", "text/html", ""),
        (b"<![if x]><![<p>a<!-- unclosed", "text/html", "a"),
    ],
)
async def test_texts_in_any_charset(server: Server, body: bytes, content_type: str, text: str) -> None:
    found = await result_of(server.answer("/text", body, content_type))
    assert (found["text"], found["truncated"]) == (text, False)


@pytest.mark.parametrize("content_type", ["text/plain", "text/html"])
async def test_a_long_text_is_cut(server: Server, content_type: str) -> None:
    url = server.answer("/long", b"abcdefghi " * 500, content_type)
    whole = await result_of(url)
    assert (len(whole["text"].rstrip()), whole["truncated"]) == (4_999, False)
    part = await result_of(url, max_chars=100)
    assert (part["text"], part["truncated"]) == ("abcdefghi " * 10, True)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<base href='a/'>" * 1_000 + "<a href=x>t</a>", "[t](http://h/a/x)"),
        ("<a href=x></a>" * 1_000 + "<a href=x>t</a>", "[t](http://h/x)"),
        (f"<base href='{'a/' * 1_500}'>" + "<a href=x>t</a>" * 500, "t" * 500),
    ],
)
def test_the_addresses_of_a_page_take_time_in_proportion_to_its_length(
    monkeypatch: pytest.MonkeyPatch, page: str, text: str
) -> None:
    joined = [0]

    def counted(base: str, href: str) -> str:
        joined.append(len(base) + len(href))
        return urljoin(base, href)

    monkeypatch.setattr(http_fetch, "urljoin", counted)
    found = http_fetch.readable_text(page.encode(), "text/html", url="http://h/", max_chars=1_000)
    assert found == (text, False)
    assert sum(joined) < len(page) / 2


def test_a_page_with_a_long_address_keeps_its_links_to_others() -> None:
    page = b"<a href=x>near</a> and <a href='http://o/x'>far</a>"
    found = http_fetch.readable_text(page, "text/html", url="http://h/?" + "q" * 3_000, max_chars=1_000)
    assert found == ("near and [far](http://o/x)", False)


async def test_a_long_content_type_is_cut(server: Server) -> None:
    found = await result_of(server.answer("/long", b"abc", "text/plain; " + "x" * 50_000))
    assert (found["text"], found["content_type"]) == ("abc", "text/plain; " + "x" * 188)


async def test_at_least_one_character(server: Server) -> None:
    error = (await get(server.url("/"), max_chars=0)).failure()
    assert isinstance(error, InvalidToolArguments)
    assert server.requests == []


async def test_a_request_says_who_asks_and_nothing_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    server.answer("/b", b"done")
    url = server.answer("/a", status=302, Location="/b", Set_Cookie="id=1; Path=/")
    assert (await result_of(url))["text"] == "done"
    for _, headers in server.requests:
        assert headers["user-agent"] == "reactive-agents"
        assert headers["host"] == f"127.0.0.1:{server.port}"
        assert set(headers) == {"host", "accept", "accept-encoding", "connection", "user-agent"}


# --- what is not text, too much or too slow --------------------------------------------------------------


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a text is judged alike on each event loop
@pytest.mark.parametrize("content_type", ["image/png", "application/octet-stream", "application/pdf", "x"])
async def test_what_is_no_text_is_not_read(server: Server, content_type: str) -> None:
    url = server.answer("/file", b"\x89PNG", content_type)
    assert await failure_of(url) == f"{url} is not text: {content_type}"


async def test_bytes_without_a_type_are_no_text(server: Server) -> None:
    assert (await failure_of(server.answer("/file", b"\x7fELF\0", ""))).endswith("is not text")


async def test_of_a_huge_body_two_megabytes_are_read(server: Server) -> None:
    url = server.answer("/huge", b"0123456789" * 10_000, repeat=1_000_000)
    found = await result_of(url, max_chars=3_000_000)
    assert (len(found["text"]), found["truncated"]) == (2_000_000, True)


async def test_a_compressed_body(server: Server) -> None:
    packed = gzip.compress(b"apples " * 1_000)
    for coding, body in (("gzip", packed), ("deflate", zlib.compress(b"apples " * 1_000))):
        found = await result_of(server.answer("/zip", body, Content_Encoding=coding))
        assert (found["text"], found["truncated"]) == ("apples " * 1_000, False)
    found = await result_of(server.answer("/part", packed[:-20], Content_Encoding="gzip"))
    assert found["truncated"]


@pytest.mark.system
async def test_a_bomb_does_not_go_off(server: Server) -> None:
    bomb = zlib.compress(bytes(200_000_000))
    url = server.answer("/bomb", bomb, "text/plain", Content_Encoding="gzip")
    found = await result_of(url, max_chars=5_000_000)
    assert (len(found["text"]), found["truncated"]) == (2_000_000, True)


async def test_compressed_in_a_way_that_is_not_known(server: Server) -> None:
    url = server.answer("/br", b"x", Content_Encoding="br")
    assert (await failure_of(url)).endswith("is compressed in an unknown way")
    url = server.answer("/twice", b"x", Content_Encoding="gzip, gzip")
    assert (await failure_of(url)).endswith("is compressed in an unknown way")
    url = server.answer("/not", b"not compressed", Content_Encoding="gzip")
    assert "is not compressed as it says" in await failure_of(url)


@ON_BOTH
async def test_a_slow_body_ends_at_the_timeout(server: Server) -> None:
    def trickle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/plain")
        request.end_headers()
        while not server.stopping.wait(0.02):
            request.wfile.write(b".")

    server.answers["/slow"] = trickle
    impatient = http_get_tool(allow_hosts=("127.0.0.1",), timeout_s=0.2)
    assert (await get(server.url("/slow"), impatient)).failure() == ToolTimedOut("http-get", 0.2)


async def test_a_server_that_breaks_off(server: Server) -> None:
    url = server.answer("/half", b"half", Content_Length="8")
    assert "broke off or sent no valid HTTP" in await failure_of(url)


async def test_nobody_answers(server: Server) -> None:
    with running(Server()) as gone:
        url = gone.url("/")
    assert "cannot be connected to" in await failure_of(url)


async def test_a_host_that_is_not_known() -> None:
    _, resolve = resolving()
    assert "has no known host" in await failure_of("http://no.example/", http_get_tool(resolve=resolve))


# --- redirects ------------------------------------------------------------------------------------------


async def test_redirects_are_followed_to_the_end(server: Server) -> None:
    last = server.answer("/5", b"there")
    for hop in range(5):
        server.answer(f"/{hop}", status=(301, 302, 303, 307, 308)[hop], Location=f"{hop + 1}")
    found = await result_of(server.url("/0"))
    assert (found["url"], found["text"]) == (last, "there")
    assert server.hits() == ["/0", "/1", "/2", "/3", "/4", "/5"]


async def test_a_loop_of_redirects_ends(server: Server) -> None:
    url = server.answer("/loop", status=302, Location="/loop")
    assert await failure_of(url) == f"{url} is reached by more than 5 redirects"
    assert len(server.requests) == 6


async def test_a_redirect_without_a_place_is_a_page(server: Server) -> None:
    found = await result_of(server.answer("/nowhere", b"moved", status=302))
    assert (found["status"], found["text"]) == (302, "moved")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a text is judged alike on each event loop
@pytest.mark.parametrize(
    "place",
    [
        "http://localhost:PORT/secret",
        "http://127.0.0.2:PORT/secret",
        "http://[::ffff:127.0.0.1]:PORT/secret",
        "http://2130706433:PORT/secret",
        "http://169.254.169.254/latest/meta-data",
        "//10.0.0.1/secret",
        "http://inside.example:PORT/secret",
        "http://me:password@127.0.0.1:PORT/secret",
        "file:///etc/passwd",
        "ftp://127.0.0.1/secret",
        "http://127.0.0.1:99999/",
        "http://x:y/",
    ],
)
async def test_every_hop_is_checked(server: Server, place: str) -> None:
    server.answer("/secret", b"secret")
    place = place.replace("PORT", str(server.port))
    _, resolve = resolving(inside="127.0.0.1")
    tool = http_get_tool(allow_hosts=("127.0.0.1",), resolve=resolve)
    error = (await get(server.answer("/go", status=302, Location=place), tool)).failure()
    if place == "http://x:y/":
        assert isinstance(error, ToolFailed)
        assert "Invalid port" in error.detail
    else:
        assert isinstance(error, AddressRefused)
        assert error.reason.endswith("A redirect led there.")
        assert "password" not in error.message.replace("a password", "")
    assert server.hits() == ["/go"]


# --- where it may go ------------------------------------------------------------------------------------


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a text is judged alike on each event loop
@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f.0.0.1", "0", "[::1]", "[::ffff:7f00:1]"),
        *("127.0.0.1.", "127。0。0。1", "LOCALHOST", "127%2e0.0.1", "inside.example", "0.0.0.0", "①27.0.0.1"),
        *("example.com@127.0.0.1", "127.0.0.1\\@example.com", "example.com\\@127.0.0.1"),
    ],
)
async def test_this_machine_is_refused_in_every_spelling(server: Server, host: str) -> None:
    server.answer("/", b"secret")
    _, resolve = resolving(inside="127.0.0.1")
    tool = http_get_tool(resolve=resolve)
    assert (await refusal_of(f"http://{host}:{server.port}/", tool)).reason
    assert server.requests == []


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a text is judged alike on each event loop
@pytest.mark.parametrize(
    "url", ["", "127.0.0.1", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "http:///x"]
)
async def test_what_is_no_url_of_the_web(url: str) -> None:
    assert (await refusal_of(url)).url == url


async def test_passwords_are_not_repeated() -> None:
    error = await refusal_of("http://me:hunter2@127.0.0.1/x@y")
    assert error == AddressRefused("http://127.0.0.1/x@y", "it holds a user name or a password.")
    assert len((await refusal_of("ftp://" + "x" * 1_000)).url) == 200


async def test_a_model_cannot_allow_a_host(server: Server) -> None:
    error = (await get(server.url("/"), http_get_tool(), allow_hosts=["127.0.0.1"])).failure()
    assert isinstance(error, InvalidToolArguments)


async def test_the_address_that_was_checked_is_the_one_that_is_dialled(server: Server) -> None:
    server.answer("/", b"hello")
    answers = iter([("127.0.0.1",), ("192.0.2.1",)])

    async def rebind(host: str, port: int) -> tuple[str, ...]:
        return next(answers)

    tool = http_get_tool(allow_hosts=("wiki.example",), resolve=rebind)
    url = f"http://wiki.example:{server.port}/"
    assert (await result_of(url, tool))["url"] == url
    assert server.requests[0][1]["host"] == f"wiki.example:{server.port}"
    assert next(answers) == ("192.0.2.1",)


async def test_the_next_address_is_tried(server: Server) -> None:
    server.answer("/", b"hello")
    asked, resolve = resolving(wiki=("::1", "127.0.0.1"))
    tool = http_get_tool(allow_hosts=("wiki.example",), resolve=resolve)
    assert (await result_of(f"http://wiki.example:{server.port}/", tool))["text"] == "hello"
    assert asked == ["wiki.example"]


# --- TLS ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A certificate for ``site.example``, signed by itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("making a certificate needs openssl")
    directory = tmp_path_factory.mktemp("tls")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout key.pem "
        "-out certificate.pem -subj /CN=site.example -addext subjectAltName=DNS:site.example"
    )
    subprocess.run(
        command.split(),
        cwd=directory,
        check=True,
        capture_output=True,
    )
    return str(directory / "certificate.pem"), str(directory / "key.pem")


async def test_names_hold_for_certificates(certificate: tuple[str, str]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    asked_for: list[str | None] = []
    context.sni_callback = lambda _, name, __: asked_for.append(name)
    trusting = ssl.create_default_context(cafile=certificate[0])
    _, resolve = resolving(site="127.0.0.1", other="127.0.0.1")
    allowed = ("site.example", "other.example")
    with running(Server(), context) as server:
        server.answer("/", b"hello")
        tool = http_get_tool(allow_hosts=allowed, resolve=resolve, tls=trusting)
        found = await get(f"https://site.example:{server.port}/", tool)
        assert isinstance(found, Success)
        assert asked_for == ["site.example"]
        detail = await failure_of(f"https://other.example:{server.port}/", tool)
        assert "certificate" in detail.lower()
        detail = await failure_of(
            f"https://site.example:{server.port}/", http_get_tool(allow_hosts=allowed, resolve=resolve)
        )
        assert "certificate" in detail.lower()
        assert len(server.requests) == 1
