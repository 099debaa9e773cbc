"""Bodies, problem details, event streams and checks of any HTTP application.

This module does not depend on agents; ``studio`` uses it too.
"""

from __future__ import annotations

import json
import logging
import math
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import anyio
import anyio.lowlevel
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reactive_agents.core.json import MOST_LEVELS, json_bytes, without_surrogates
from reactive_agents.core.texts import shortened
from reactive_agents.effects import beside

_log = logging.getLogger("reactive_agents")
_Body = TypeVar("_Body", bound=BaseModel)

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
MOST_VALUES = 100_000
"""Values in a body; more would block the event loop for seconds."""
_MOST_PROBLEMS = 20
_LONGEST_SHOWN = 200


# --- problem details ------------------------------------------------------------------------------------


class Problem(Exception):
    """An error of a request, sent as problem details (RFC 9457).

    Args:
        status: the HTTP status.
        code: the kind of problem, such as ``run-not-found``, with which ``type`` ends.
        detail: a sentence about this occurrence.
        headers: headers of the response.
        fields: further members of the document.
    """

    def __init__(
        self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.fields = fields

    @property
    def document(self) -> dict[str, Any]:
        """The members of the problem, as JSON data."""
        return {
            "type": f"urn:reactive-agents:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.fields,
        }

    def response(self) -> Response:
        """Return the response that reports the problem."""
        return JsonText(self.document, self.status, self.headers, media_type="application/problem+json")


class JsonText(JSONResponse):
    """A response of JSON in ASCII, safe against injection by its texts."""

    def render(self, content: Any) -> bytes:
        """Return the body of the response."""
        return json_bytes(content)


def as_problem(error: Exception) -> Problem:
    """Return the problem for an exception of a handler; unknown ones are logged."""
    match error:
        case Problem():
            return error
        case HTTPException(status_code=status, detail=detail, headers=headers):
            code = HTTPStatus(status).phrase.lower().replace(" ", "-")
            return Problem(status, code, detail, headers=headers)
        case ClientDisconnect():
            return Problem(400, "disconnected", "The client left before its request was complete.")
        case _:
            _log.error("A request failed.", exc_info=error)
            return Problem(500, "internal-error", "The server failed to answer the request.")


async def report(request: Request, error: Exception) -> Response:
    """Handle an exception: answer a failed request with its problem."""
    problem = as_problem(error)
    if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:  # the error names only one route of the path
        fitting = [
            each
            for each in request.app.routes
            if isinstance(each, Route) and each.matches(request.scope)[0] is not Match.NONE
        ]
        methods = sorted({name for each in fitting for name in each.methods or ()})
        problem.headers = {"allow": ", ".join(methods)}
    return problem.response()


# --- bodies ---------------------------------------------------------------------------------------------


class StrictBody(BaseModel):
    """The base of bodies: unknown fields and values of other types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


async def read_body(request: Request, kind: type[_Body], *, most: int, seconds: float) -> _Body:
    """Return the JSON body of a request, which may be empty if no field is required.

    Args:
        kind: the class of the body.
        most: the maximum of bytes; a larger body is refused before it is read.
        seconds: the time in which the whole body must arrive.

    Raises:
        Problem: it is too long or too slow, not JSON, or does not fit the class.
    """
    needed = needs_body(kind)
    if not needed and not _is_announced(request):
        return kind()
    data = await read_json(request, most=most, seconds=seconds, empty=None if needed else {})
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise problem_of(error, "invalid-body", data) from None


def needs_body(kind: type[BaseModel]) -> bool:
    """Return whether a body of this class has a required field."""
    return any(each.is_required() for each in kind.model_fields.values())


def _is_announced(request: Request) -> bool:
    length = request.headers.get("content-length")
    return length not in (None, "0") or any(
        name in request.headers for name in ("content-type", "transfer-encoding")
    )


def problem_of(error: ValidationError, code: str, data: Any) -> Problem:
    """Return the problem of data that does not fit its class."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[:_MOST_PROBLEMS]
    problems = [
        {
            "pointer": _pointer(each["loc"], data, is_missing=each["type"] == "missing"),
            "detail": "An object is expected" if each["type"] == "model_type" else each["msg"],
        }
        for each in found
    ]
    first = problems[0]
    return Problem(422, code, f"{first['pointer'] or 'The request'}: {first['detail']}", errors=problems)


async def read_json(request: Request, *, most: int, seconds: float, empty: Any = None) -> Any:
    """Return the JSON data of a request, as :func:`read_body` does without a class.

    Args:
        empty: the result for an empty body, unless it is ``None``.
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Problem(415, "unsupported-media-type", "The body has to be sent as application/json.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "unsupported-encoding", "A compressed body is not accepted.")
    data = await read_bytes(request, most=most, seconds=seconds)
    return empty if empty is not None and not data else parse_json(data)


async def read_bytes(request: Request, *, most: int, seconds: float) -> bytes:
    """Return the body of a request, as :func:`read_body` does without parsing it."""
    too_long = Problem(413, "body-too-large", f"The body has more than {most} bytes.", most_bytes=most)
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and (len(announced) > 18 or int(announced) > most):
        raise too_long
    received = bytearray()
    with anyio.move_on_after(seconds) as waiting:
        async for chunk in request.stream():
            received += chunk
            if len(received) > most:
                raise too_long
    if waiting.cancelled_caught:
        raise Problem(408, "body-too-slow", f"The body did not arrive within {seconds:g} s.")
    return bytes(received)


def with_body(request: Request, body: bytes) -> Request:
    """Return a request whose body, already read, can be read again."""
    bodies = [body]

    async def receive() -> Message:
        return {"type": "http.request", "body": bodies.pop()} if bodies else await request.receive()

    return Request(request.scope, receive)


def parse_json(data: bytes) -> Any:
    """Return JSON data without ``NaN``, lone surrogates or repeated members.

    Raises:
        Problem: it is not such data, or nested too deeply.
    """
    check_values(data)
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_once_each,
        )
    except (ValueError, RecursionError) as error:
        detail = (
            "it is nested too deeply"
            if isinstance(error, RecursionError)
            else shortened(str(error), _LONGEST_SHOWN)
        )
        raise Problem(400, "invalid-json", f"The body is not JSON: {detail}.") from None
    _check_json(value)
    return value


def check_values(data: bytes) -> None:
    """Refuse JSON text with too many values before it is parsed.

    Raises:
        Problem: it has more than ``MOST_VALUES``.
    """
    if _signs(data) > MOST_VALUES and _signs(_STRING.sub(b"", data)) > MOST_VALUES:
        raise Problem(413, "too-many-values", f"The body has more than {MOST_VALUES} values.")


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)


def _signs(data: bytes) -> int:
    return sum(map(data.count, (b",", b"[", b"{")))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _once_each(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; refuse repeated members, of which a proxy may read another."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError("an object has a member twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _check_json(value: Any) -> None:
    """Refuse texts that cannot be encoded as UTF-8, and nesting that stores refuse."""
    level = [value]
    for _ in range(MOST_LEVELS + 1):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each
                inner += each.values()
            elif isinstance(each, list):
                inner += each
            elif isinstance(each, str) and each != without_surrogates(each):
                raise Problem(400, "invalid-json", "The body has half of a surrogate pair in a text.")
        if not inner:
            return
        level = inner
    raise Problem(400, "invalid-json", "The body is not JSON: it is nested too deeply.")


def _pointer(location: tuple[int | str, ...], data: Any, *, is_missing: bool) -> str:
    """Return the place of a field as a JSON pointer, without names of classes."""
    steps: list[str] = []
    for at, step in enumerate(location, 1):
        inner: Any = dict(enumerate(data)) if isinstance(data, list) else data
        if isinstance(inner, dict) and step in inner:
            data = inner[step]
        elif not is_missing or at < len(location):
            continue
        steps.append(str(step).replace("~", "~0").replace("/", "~1"))
    return shortened("".join(f"/{each}" for each in steps), _LONGEST_SHOWN)


async def healthy(request: Request) -> Response:
    """Answer that the process serves requests."""
    return JsonText({"status": "ok"})


class PartsRoute(Route):
    """A route whose parts may contain any character, a ``/`` as ``%2F``."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Return whether the route matches a request, and the parts of its path."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%2f" not in raw.lower():
            return super().matches(scope)
        match, found = super().matches({**scope, "path": raw.decode("latin-1")})
        for name in self.param_convertors if match is not Match.NONE else ():
            part = found["path_params"][name]
            found["path_params"][name] = unquote(part) if isinstance(part, str) else part
        return match, found


# --- event streams --------------------------------------------------------------------------------------


def sse(data: bytes, *, event: str = "", number: str = "") -> bytes:
    r"""Return one server-sent event.

    Args:
        data: data on one line, as :func:`~reactive_agents.core.json.json_bytes` returns it.
        event: the type of the event.
        number: the id of the event, after which a reader resumes.

    >>> sse(b"{}", event="done", number="7")
    b'id: 7\nevent: done\ndata: {}\n\n'
    """
    if b"\n" in data or b"\r" in data or not (event + number).isprintable():
        raise ValueError("a line break would end the field")
    head = (f"id: {number}\n" if number else "") + (f"event: {event}\n" if event else "")
    return b"%bdata: %b\n\n" % (head.encode("utf-8"), data)


HEARTBEAT = b": still here\n\n"
"""A comment that keeps the stream alive for proxies and readers."""


_SENT_AT_ONCE = 4
"""Events in a row; asyncio logs from the sixth write to a lost connection on."""


class EventStream(StreamingResponse):
    """A response of server-sent events.

    Args:
        source: yields results of :func:`sse`, and ``HEARTBEAT`` after a pause; closed when the reader leaves.
    """

    media_type = "text/event-stream"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response; only its headers for a ``HEAD`` request."""
        if scope.get("method") != "HEAD":
            await super().__call__(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": b""})
        await self._source.aclose()

    def __init__(self, source: AsyncGenerator[bytes, None], headers: Mapping[str, str] | None = None) -> None:
        self._source = source
        given = {"cache-control": "no-store", "x-accel-buffering": "no", **(headers or {})}
        super().__init__(source, headers=given)

    async def stream_response(self, send: Send) -> None:
        """Send the events, and always close their source.

        Buffered ones come without a wait. Others get their turn between them, and a reader that has left is
        noticed: asyncio logs each further write to its connection.
        """
        sent = 0

        async def send_in_turns(message: Message) -> None:
            nonlocal sent
            await send(message)
            sent += 1
            if not sent % _SENT_AT_ONCE:
                await anyio.lowlevel.checkpoint()

        async with aclosing(self._source):
            await super().stream_response(send_in_turns)


class HeldStream(Response):
    """A stream, whose reader may lose the right to read it.

    Args:
        refused: returns why its reader may read no more, or ``None``; asked before each part.
        last: returns the part that says so, with which the stream then ends.
        on_end: called when the stream has ended, even if it never began.
    """

    def __init__(
        self,
        stream: ASGIApp,
        *,
        refused: Callable[[], Problem | None],
        last: Callable[[Problem], bytes],
        on_end: Callable[[], object],
    ) -> None:
        super().__init__()
        self._stream = stream
        self._refused = refused
        self._last = last
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_allowed(message: Message) -> None:
            if not sending.cancel_called:  # else it ends, but sends even so
                problem = self._refused() if message.get("more_body") else None
                if problem is None:
                    await send(message)
                    return
                await send({"type": "http.response.body", "body": self._last(problem)})
                sending.cancel()
            await anyio.lowlevel.checkpoint()

        try:
            with anyio.CancelScope() as sending:
                await self._stream(scope, receive, send_allowed)
        finally:
            self._on_end()


# --- the border of an application -----------------------------------------------------------------------

SECURITY_HEADERS: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
}


class Border:
    """Middleware that checks hosts and origins, and adds headers to responses.

    A page of another site can make a browser send requests to a server on this machine, even under a name
    that resolves to it. So the host name must be a known one, and the page must be from this server.

    Args:
        hosts: accepted host names, without ports; ``*`` for any.
        origins: further origins whose pages may send requests, such as ``https://app.example``.
        headers: default headers of responses.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        hosts: Collection[str] = LOOPBACK_HOSTS,
        origins: Collection[str] = (),
        headers: Mapping[str, str] = SECURITY_HEADERS,
    ) -> None:
        self._app = app
        self._hosts = frozenset(each.lower() for each in hosts)
        self._origins = frozenset(origins)
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        has_begun, is_read = False, not _has_body(scope)
        is_held_back = _awaits_continue(scope)  # it is sent when it is first read

        async def receive_counted() -> Message:
            nonlocal is_held_back, is_read
            is_held_back = False
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                known = {name for name, _ in message["headers"]}
                own = [each for each in self._headers if each[0] not in known]
                if not is_read:  # the rest would block the connection, or be taken for the next request
                    own.append((b"connection", b"close"))
                message = {**message, "headers": [*message["headers"], *own]}
            elif not (is_read or message.get("more_body")):
                await send({**message, "more_body": True})
                await discard()
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        async def discard() -> None:
            """Read on, since a client may read the answer only after it has sent all."""
            left = 0 if is_held_back else _MOST_DISCARDED
            with anyio.move_on_after(_DISCARDS_S):
                while left > 0 and not is_read:
                    left -= len((await receive_counted()).get("body", b"")) + 1

        problem = self._problem(scope)
        if problem is not None:
            await problem.response()(scope, receive, send_with_headers)
            return
        try:
            await self._app(scope, receive_counted, send_with_headers)
        except Exception as error:
            answer = as_problem(error).response()  # logged there
            if has_begun:
                raise
            await answer(scope, receive, send_with_headers)

    def _problem(self, scope: Scope) -> Problem | None:
        given: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            if name in _SINGLE:
                given.setdefault(name, []).append(value.decode("latin-1"))
        for name, values in given.items():
            if len(values) > 1:
                return Problem(400, "repeated-header", f"The header {name.decode()} is given twice.")
        if given.keys() >= _FRAMING:  # a proxy may go by the one, this server by the other
            return Problem(400, "two-lengths", "The body has a length, and comes in chunks as well.")
        host = given.get(b"host", [""])[0]
        if "*" not in self._hosts and host_name(host) not in self._hosts:
            return Problem(421, "unknown-host", "The server does not accept this host name.")
        origin = given.get(b"origin", [""])[0]
        site, mode = (given.get(name, [""])[0] for name in (b"sec-fetch-site", b"sec-fetch-mode"))
        is_embedded = site == "cross-site" and mode != "navigate"  # such as an image, which has no origin
        is_foreign = origin not in self._origins and urlsplit_host(origin) != host.lower()
        if is_foreign if origin else is_embedded:
            return Problem(403, "foreign-origin", "Pages of other sites may not send requests.")
        return None


def _has_body(scope: Scope) -> bool:
    given = {name: value for name, value in scope["headers"] if name in _FRAMING}
    announced = given.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in given
    return announced and scope.get("http_version", "").startswith("1")


def _awaits_continue(scope: Scope) -> bool:
    return any(name == b"expect" and value.lower() == b"100-continue" for name, value in scope["headers"])


_MOST_DISCARDED = 64_000_000
_DISCARDS_S = 5.0
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})
_SINGLE = frozenset(
    b"host origin authorization content-length content-type idempotency-key last-event-id sec-fetch-mode "
    b"sec-fetch-site transfer-encoding".split()
)


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header without its port; empty if it is invalid.

    >>> host_name("Localhost:8000"), host_name("[::1]:8000"), host_name("evil.example:80@localhost")
    ('localhost', '::1', '')
    """
    try:
        parts = urlsplit(f"//{host}")
        parts.port  # noqa: B018 - raises if the port is not a number
    except ValueError:
        return ""
    if parts.netloc != host or "@" in host or parts.path or parts.query or parts.fragment:
        return ""
    return parts.hostname or ""


def urlsplit_host(origin: str) -> str:
    """Return the host and port of an origin; empty for none, such as ``null``."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


async def until_disconnected(receive: Receive, work: Awaitable[object]) -> bool:
    """Return whether the work has ended; it is cancelled if the client leaves before.

    The body must have been read before.
    """

    async def watch(working: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        working.cancel()

    async with beside(watch):
        await work
        return True
    return False
