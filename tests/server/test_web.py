"""Bodies, problem details, event streams, and the border of an application."""

from __future__ import annotations

import json
import logging
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reactive_agents.server.web import (
    MOST_VALUES,
    Border,
    EventStream,
    HeldStream,
    JsonText,
    Problem,
    StrictBody,
    parse_json,
    read_body,
    report,
    sse,
)
from tests.support.servers import events_of, listening

pytestmark = pytest.mark.anyio


class Order(StrictBody):
    """A body of these tests."""

    item: str
    count: int = 1


async def take(request: Request) -> Response:
    order = await read_body(request, Order, most=1_000, seconds=5)
    return JsonText(order.model_dump(), 201)


async def fail(request: Request) -> Response:
    raise RuntimeError("the shelf of ada is full")


def app(**border: Any) -> Starlette:
    return Starlette(
        routes=[Route("/orders", take, methods=["POST"]), Route("/fail", fail)],
        middleware=[Middleware(Border, **border)],
        exception_handlers={Problem: report},
    )


def client(**border: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app(**border)), base_url="http://localhost:8000")


# --- bodies ---------------------------------------------------------------------------------------------


async def test_a_body_of_the_right_form_is_taken() -> None:
    async with client() as http:
        answer = await http.post("/orders", json={"item": "tea", "count": 2})
    assert (answer.status_code, answer.json()) == (201, {"item": "tea", "count": 2})


BOMB = b"[" * 100_000
WRONG_BODIES = {
    "no JSON": (b"item=tea", 400),
    "cut off": (b'{"item": "te', 400),
    "no UTF-8": b'{"item": "\xff"}',
    "nested too deeply": b'{"item": ' + b"[" * 400 + b"]" * 400 + b"}",
    "a bomb": BOMB[:900],
    "NaN": b'{"item": "tea", "count": NaN}',
    "a member twice": b'{"item": "tea", "item": "ale"}',
    "a member twice, spelled in another way": b'{"item": [{"a": 1, "\\u0061": 2}]}',
    "an infinite number": b'{"item": "tea", "count": 1e999}',
    "a number of 900 digits and a fraction": b'{"item": ' + b"9" * 900 + b".5}",
    "half of a surrogate pair": b'{"item": "\\ud800"}',
    "half of a pair as a name": b'{"\\udc00": 1}',
    "another type": (b'{"item": "tea", "count": "2"}', 422),
    "an unknown field": (b'{"item": "tea", "admin": true}', 422),
    "a list": (b"[]", 422),
    "nothing": b"",
    "too long": (b'{"item": "' + b"x" * 1_000 + b'"}', 413),
}


@pytest.mark.parametrize("name", WRONG_BODIES)
async def test_a_wrong_body_is_a_problem_that_says_why(name: str) -> None:
    given = WRONG_BODIES[name]
    body, status = given if isinstance(given, tuple) else (given, 400)
    async with client() as http:
        answer = await http.post("/orders", content=body, headers={"content-type": "application/json"})
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (status, status)
    assert problem["detail"].strip()
    assert len(answer.content) < 2_000


@pytest.mark.parametrize(
    "body",
    [
        b'{"item": [' + b"[]," * MOST_VALUES + b"[]]}",
        b'{"item": "tea", ' + b'"a": 1,' * MOST_VALUES + b'"b": 2}',
        b"[" + b'"\\"",' * MOST_VALUES,
    ],
)
def test_a_body_of_many_values_is_refused_before_it_is_parsed(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(Problem, match="more than 100000 values") as refused:
        parse_json(body)
    assert refused.value.status == 413


def test_signs_in_a_text_are_no_values() -> None:
    text = '[{,"\\' * MOST_VALUES
    assert parse_json(json.dumps({"item": text}).encode()) == {"item": text}


def test_a_text_without_an_end_is_counted_once() -> None:
    with pytest.raises(Problem) as refused:
        parse_json(b'["' + b'\\"[' * MOST_VALUES * 10)
    assert refused.value.status == 400


async def test_a_problem_names_the_place_of_each_wrong_field() -> None:
    async with client() as http:
        problem = (await http.post("/orders", json={"item": 1, "count": "2"})).json()
    assert [each["pointer"] for each in problem["errors"]] == ["/item", "/count"]


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {},
    ],
    ids=["plain text", "a form", "compressed", "none"],
)
async def test_a_body_of_another_type_is_refused(headers: dict[str, str]) -> None:
    async with client() as http:
        answer = await http.post("/orders", content=b'{"item": "tea"}', headers=headers)
    assert answer.status_code == 415


async def test_a_body_without_a_length_is_read_no_further_than_allowed() -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while True:
            sent += 1
            yield b'{"item": "' + b"x" * 500

    messages: list[Any] = []
    body = endless()

    async def receive() -> Any:
        return {"type": "http.request", "body": await anext(body), "more_body": True}

    async def send(message: Any) -> None:
        messages.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/orders", "raw_path": b"/orders", "headers": headers}
    await app()({**scope, "query_string": b"", "root_path": "", "http_version": "1.1"}, receive, send)
    assert messages[0]["status"] == 413
    assert sent < 200_000  # the rest is not kept, but read so far that its sender reads the answer


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_json_or_a_problem(data: bytes) -> None:
    with suppress(Problem):
        json.dumps(parse_json(data), ensure_ascii=False, allow_nan=False).encode()


# --- event streams --------------------------------------------------------------------------------------


@given(st.text(), st.integers(0, 10**6))
def test_a_hostile_text_stays_within_its_event(text: str, number: int) -> None:
    data = json.dumps({"text": text}).encode()
    (event,) = events_of(sse(data, event="Said", number=str(number)).decode())
    assert event == {"id": str(number), "event": "Said", "data": data.decode()}


@pytest.mark.parametrize("field", [{"data": b"a\nid: 9"}, {"event": "a\nb"}, {"number": "7\r8"}], ids=str)
def test_a_line_break_in_a_field_is_refused(field: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="line break"):
        sse(**{"data": b"{}", **field})


# --- the border -----------------------------------------------------------------------------------------


async def test_a_reader_that_leaves_amid_buffered_events_floods_no_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = anyio.Event()

    async def buffered() -> AsyncGenerator[bytes, None]:
        try:
            for number in range(1_000):
                yield sse(b"{}", number=str(number))
        finally:
            ended.set()

    async def follow(request: Request) -> Response:
        return EventStream(buffered())

    caplog.set_level(logging.WARNING, "asyncio")
    async with listening(Starlette(routes=[Route("/events", follow)])) as address:
        place = urlsplit(address)
        reader = socket.create_connection((place.hostname, place.port))
        # closing it resets it
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        reader.close()
        await ended.wait()
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


async def test_nothing_is_sent_after_the_last_part_of_a_stream_that_is_ended() -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def source(_: Any, __: Any, send: Any) -> None:
        with suppress(BaseException):
            await send({"type": "http.response.body", "body": b"secret", "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    stream = HeldStream(
        source,
        refused=lambda: Problem(401, "unauthorized", "No more."),
        last=lambda problem: problem.detail.encode(),
        on_end=lambda: sent.append("ended"),
    )
    await stream({}, send, send)
    assert sent == [{"type": "http.response.body", "body": b"No more."}, "ended"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([("host", "localhost:8000")], 404),
        ([("host", "127.0.0.1")], 404),
        ([("host", "[::1]:8000")], 404),
        ([("host", "LOCALHOST")], 404),
        ([("host", "evil.example")], 421),
        ([("host", "localhost.evil.example")], 421),
        ([("host", "evil.example@localhost")], 421),
        ([("host", "localhost:8000/evil")], 421),
        ([("host", "")], 421),
        ([("host", "localhost"), ("host", "evil.example")], 400),
        ([("host", "localhost"), ("authorization", "Bearer a"), ("authorization", "Bearer b")], 400),
        ([("host", "localhost"), ("content-length", "6"), ("transfer-encoding", "chunked")], 400),
        ([("host", "localhost"), ("transfer-encoding", "x"), ("transfer-encoding", "chunked")], 400),
        ([("host", "localhost:8000"), ("origin", "http://localhost:8000")], 404),
        ([("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")], 403),
        ([("host", "localhost"), ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], 404),
        ([("host", "localhost"), ("sec-fetch-site", "same-origin"), ("sec-fetch-mode", "no-cors")], 404),
        ([("host", "localhost:8000"), ("origin", "http://localhost:9000")], 403),
        ([("host", "localhost:8000"), ("origin", "null")], 403),
        ([("host", "localhost:8000"), ("origin", "https://evil.example")], 403),
        ([("host", "localhost:8000"), ("origin", "https://app.example")], 404),
    ],
    ids=lambda given: str(given),
)
async def test_a_request_comes_to_a_known_host_from_no_foreign_page(
    headers: list[tuple[str, str]], status: int
) -> None:
    async with client(origins=("https://app.example",)) as http:
        answer = await http.get("/nothing", headers=headers)
    assert answer.status_code == status


async def test_every_answer_has_the_headers_of_safety() -> None:
    async with client() as http:
        for answer in (await http.get("/nothing"), await http.get("/fail"), await http.get("/orders")):
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["cache-control"] == "no-store"
            assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_a_defect_is_a_problem_that_tells_nothing_of_the_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with client() as http:
        answer = await http.get("/fail")
    assert answer.status_code == 500
    assert "shelf of ada" not in answer.text
    assert "shelf of ada" in caplog.text
