"""Content from URLs and files, asked for by strangers."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents.adapters.tools.content_loader import WorkspaceContent
from reactive_agents.core.config import ContentConfig
from reactive_agents.core.content import Document, Image
from reactive_agents.core.errors import ContentRefused
from reactive_agents.effects import attempt
from tests.adapters.tools.test_http_get import Server, resolving, running
from tests.support import contents

pytestmark = pytest.mark.anyio

LIMITS = ContentConfig(max_bytes=1_000, allow_hosts=("127.0.0.1",))


ON_BOTH = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@pytest.fixture
def server() -> Iterator[Server]:
    with running(Server()) as started:
        yield started


async def loaded(url: str, limits: ContentConfig = LIMITS) -> bytes | ContentRefused:
    outcome = await attempt(WorkspaceContent(Path("/nowhere")).load(Image.from_url(url), limits))
    match outcome:
        case Success(data):
            return bytes(data)
        case Failure(error):
            assert isinstance(error, ContentRefused)
            return error
    raise AssertionError(outcome)


async def refused(url: str, limits: ContentConfig = LIMITS) -> ContentRefused:
    error = await loaded(url, limits)
    assert isinstance(error, ContentRefused)
    return error


@ON_BOTH
async def test_bytes_of_any_type_are_fetched(server: Server) -> None:
    assert await loaded(server.answer("/cat.png", contents.PNG, "image/png")) == contents.PNG
    assert await loaded(server.answer("/x", contents.PNG, "")) == contents.PNG
    packed = gzip.compress(contents.PNG)
    assert await loaded(server.answer("/gz", packed, "image/png", Content_Encoding="gzip")) == contents.PNG


async def test_a_redirect_to_an_address_that_is_not_public_is_refused(server: Server) -> None:
    inner = server.answer("/inner.png", contents.PNG)
    url = server.answer("/cat.png", status=302, Location=inner.replace("127.0.0.1", "localhost"))
    error = await refused(url)
    assert (error.field, "localhost" in error.value) == ("url", True)
    assert "A redirect led there" in error.expected
    assert server.hits() == ["/cat.png"]


async def test_a_name_that_resolves_to_a_private_address_is_refused(server: Server) -> None:
    _, resolve = resolving(cat="127.0.0.1")
    url = f"http://cat.example:{server.port}/cat.png"
    outcome = await attempt(
        WorkspaceContent(Path("/nowhere"), resolve=resolve).load(Image.from_url(url), ContentConfig())
    )
    assert isinstance(outcome, Failure)
    assert server.hits() == []


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://a.example/x", "http://u:p@a.example/", "//a", "", "http://[::1]/"]
)
async def test_other_addresses_are_refused(url: str) -> None:
    assert (await refused(url)).field == "url"


async def test_no_more_than_the_limit_is_read(server: Server) -> None:
    url = server.answer("/large.png", contents.PNG * 1_000, "image/png", repeat=1_000)
    error = await refused(url)
    assert (error.field, error.value, error.expected) == ("size", "more than 1 kB", "at most 1 kB")
    bomb = server.answer("/bomb", gzip.compress(bytes(50_000_000)), "image/png", Content_Encoding="gzip")
    assert (await refused(bomb)).field == "size"


@ON_BOTH
async def test_a_server_that_never_ends_is_left_in_time(server: Server) -> None:
    def drip(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while not server.stopping.wait(0.02):
            request.wfile.write(b"\x89")

    server.answers["/drip"] = drip
    error = await refused(server.url("/drip"), evolve(LIMITS, fetch_s=0.2))
    assert (error.field, error.expected) == ("url", "an answer within 0.2 seconds")


async def test_an_error_page_is_no_content(server: Server) -> None:
    error = await refused(server.answer("/gone.png", contents.PNG, status=404))
    assert (error.value.startswith("status 404 of http"), error.expected) == (True, "status 200")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
async def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.pdf")
    (tmp_path / "folder.pdf").mkdir()
    (tmp_path / "one.pdf").write_bytes(contents.PDF)
    os.link(tmp_path / "one.pdf", tmp_path / "linked.pdf")
    loader = WorkspaceContent(tmp_path)
    for name in ("pipe.pdf", "folder.pdf", "a\0b.pdf", "nul", "~/a.pdf", "linked.pdf"):
        outcome = await attempt(loader.load(Document.from_path(name), LIMITS))
        assert isinstance(outcome.failure(), ContentRefused), name
