"""HTTP fetches: each hop is checked, and connected to at the checked address.

This module loads the HTTP library, so it is imported when something is to be fetched.
"""

from __future__ import annotations

import re
import ssl
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, Literal, TypeAlias

import httpx
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.system import trace_headers
from reactive_agents.adapters.tools.addresses import AddressPolicy, find_addresses
from reactive_agents.core.errors import AddressRefused, ToolErrors, ToolFailed

MAX_BYTES = 2_000_000
MAX_REDIRECTS = 5

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_SHOWN_CHARS = 200
_HEADERS: Mapping[str, str] = {
    "User-Agent": "reactive-agents",
    "Accept": "text/html, application/json, text/*;q=0.9, application/xml;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip",
}
_TEXT_TYPES = re.compile(
    r"|text/.*|.*\+(json|xml)|application/(x-)?(json|xml|javascript|yaml|toml|ndjson|jsonl|sql|graphql|sh|tex)"
)


@frozen
class Page:
    """The response of a server.

    Attributes:
        url: of the last hop.
        content_type: as the server named it; empty when it did not.
        body: decompressed.
        cut: the body was longer than the limit, or ended early.
    """

    url: str
    status: int
    content_type: str
    body: bytes
    cut: bool


@frozen
class _Target:
    """A URL, and the addresses of its host that may be connected to."""

    url: httpx.URL
    addresses: tuple[str, ...]


async def fetch(
    tool_name: str,
    url: str,
    *,
    policy: AddressPolicy,
    tls: ssl.SSLContext | None,
    max_bytes: int = MAX_BYTES,
    text_only: bool = True,
) -> Result[Page, ToolErrors]:
    """Get a text with at most 5 redirects; at most 2 MB of it are read.

    Nothing is kept from hop to hop: no connection, no cookie. Proxies of the environment are not used.

    Args:
        tool_name: for the errors.
        tls: which certificates are trusted; ``None`` for those of the public authorities.
        max_bytes: that are read, 1 or more.
        text_only: whether an answer that is no text is a failure.

    Fails with ``AddressRefused`` when the URL or a redirect leads where the policy does not allow it, and
    with ``ToolFailed`` when the host is not known, does not answer, or answers with what is no text.
    """
    trusted = tls or httpx.create_ssl_context(trust_env=False)
    for hop in range(MAX_REDIRECTS + 1):
        try:
            found = await _find_target(url, policy, redirected=hop > 0)
            if isinstance(found, Failure):
                return Failure(found.failure())
            answered = await _ask(tool_name, found.unwrap(), trusted, max_bytes, text_only=text_only)
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            return Failure(ToolFailed(tool_name, _explain(url, error), type(error).__name__))
        if isinstance(answered, Failure):
            return Failure(answered.failure())
        page = answered.unwrap()
        if isinstance(page, Page):
            return Success(page)
        url = page
    return Failure(ToolFailed(tool_name, f"{shown(url)} is reached by more than {MAX_REDIRECTS} redirects"))


async def _find_target(
    text: str, policy: AddressPolicy, *, redirected: bool
) -> Result[_Target, AddressRefused]:
    def refuse(reason: str) -> Failure[AddressRefused]:
        return Failure(AddressRefused(shown(text), reason + (" A redirect led there." if redirected else "")))

    try:
        url = httpx.URL(text.strip())
        host = url.raw_host.decode("ascii")
    except (httpx.InvalidURL, ValueError) as error:
        return refuse(f"it is not a valid URL ({error}).")
    if url.scheme not in ("http", "https"):
        return refuse("it must begin with http:// or https://.")
    if url.userinfo or "@" in url.netloc.decode("ascii"):
        return refuse("it holds a user name or a password.")
    if "\\" in text:
        return refuse("it holds a backslash.")
    port = url.port or (443 if url.scheme == "https" else 80)
    if not 0 < port < 65_536:
        return refuse("the port must be 1 to 65535.")
    found = await find_addresses(host, port, policy)
    if isinstance(found, Failure):
        return refuse(found.failure())
    return Success(_Target(url, found.unwrap()))


async def _ask(
    tool_name: str, target: _Target, tls: ssl.SSLContext, max_bytes: int, *, text_only: bool
) -> Result[Page | str, ToolErrors]:
    """The page, or the URL that the server redirects to."""
    url = shown(str(target.url))
    async with httpx.AsyncClient(
        verify=tls, trust_env=False, follow_redirects=False, timeout=_TIMEOUT
    ) as client:
        response = await _connect(client, target)
        try:
            location = response.headers.get("location", "")
            if response.status_code in _REDIRECTS and location:
                return Success(str(target.url.join(location)))
            content_type = response.headers.get("content-type", "").strip()
            if text_only and not is_text(content_type):
                return Failure(ToolFailed(tool_name, f"{url} is no text: {content_type[:_SHOWN_CHARS]}"))
            coding = coding_of(response.headers.get("content-encoding", ""))
            if coding is None:
                return Failure(ToolFailed(tool_name, f"{url} is compressed in an unknown way"))
            reader = BodyReader(coding, max_bytes=max_bytes)
            await _read(response, reader)
        finally:
            await response.aclose()
    if text_only and not content_type and b"\0" in reader.body:
        return Failure(ToolFailed(tool_name, f"{url} is no text"))
    return Success(Page(str(target.url), response.status_code, content_type, reader.body, reader.cut))


async def _connect(client: httpx.AsyncClient, target: _Target) -> httpx.Response:
    """Return the head of the response of the first address that can be connected to."""
    url, host = target.url, target.url.raw_host.decode("ascii")
    traced = trace_headers()
    *others, last = (
        client.build_request(
            "GET",
            url.copy_with(host=address, fragment=None),
            headers={**_HEADERS, "Host": url.netloc.decode("ascii"), **traced},
            extensions={"sni_hostname": host},  # the name that the certificate is checked against, too
        )
        for address in target.addresses
    )
    for request in others:
        try:
            return await client.send(request, stream=True)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            continue
    return await client.send(last, stream=True)


async def _read(response: httpx.Response, reader: BodyReader) -> None:
    """Read the body until the reader is full."""
    chunks = response.aiter_raw()
    try:
        async for chunk in chunks:
            reader.feed(chunk)
            if reader.full:
                return
    finally:
        await response.aclose()
        with suppress(
            httpx.HTTPError, OSError
        ):  # trio warns of the generators in it when they are not run out
            async for _ in chunks:
                pass


def is_text(content_type: str) -> bool:
    """Whether a content type is one of text; an empty one may be."""
    kind = content_type.partition(";")[0].strip().lower()
    return _TEXT_TYPES.fullmatch(kind) is not None


def shown(url: str) -> str:
    """Return the URL for messages: without credentials, at most 200 characters."""
    head, found, rest = url.strip().partition("//")
    authority, separator, path = rest.partition("/")
    if found and "@" in authority:
        url = f"{head}//{authority.rpartition('@')[2]}{separator}{path}"
    return url if len(url) <= _SHOWN_CHARS else url[: _SHOWN_CHARS - 1] + "…"


def _explain(url: str, error: Exception) -> str:
    match error:
        case httpx.TimeoutException():
            what = "did not answer in time"
        case httpx.ConnectError():
            what = f"cannot be connected to: {_reason(error)}"
        case httpx.HTTPError():
            what = f"broke off or sent no valid HTTP: {error}"
        case OSError():
            what = f"has no known host: {error.strerror or error}"
        case _:
            what = f"cannot be fetched: {error}"
    return f"{shown(url)} {what}"


def _reason(error: BaseException) -> str:
    """Return the text of the first exception that has one.

    On trio the outer ones of a TLS failure have none.
    """
    cause: BaseException | None = error
    while cause is not None:
        if str(cause):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


# --- the body of a response -----------------------------------------------------------------------------


Coding: TypeAlias = Literal["identity", "zlib"]

_CODINGS: Final[dict[str, Coding]] = {
    "": "identity",
    "identity": "identity",
    "gzip": "zlib",
    "x-gzip": "zlib",
    "deflate": "zlib",
}
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def coding_of(header: str) -> Coding | None:
    """How a body with this ``Content-Encoding`` is read; ``None`` when it cannot be."""
    return _CODINGS.get(header.strip().lower())


class BodyReader:
    """Collects a body; what a decompression bomb would blow up to is never in memory.

    Args:
        max_bytes: of the decompressed body, 1 or more; no more bytes than this are taken in either.
    """

    def __init__(self, coding: Coding, *, max_bytes: int) -> None:
        self._inflating = zlib.decompressobj(_GZIP_OR_ZLIB) if coding == "zlib" else None
        self._max_bytes = max_bytes
        self._received = 0
        self._body = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take in the next bytes as they came over the wire.

        Raises:
            ValueError: they are not compressed as the server said.
        """
        self._received += len(chunk)
        room = self._max_bytes + 1 - len(self._body)
        if self._inflating is None:
            self._body += chunk[:room]
        elif room > 0:
            try:
                self._body += self._inflating.decompress(chunk, room)
            except zlib.error as error:
                raise ValueError(f"it is not compressed as it says ({error})") from error

    @property
    def full(self) -> bool:
        """Whether no more of the body is wanted."""
        return max(self._received, len(self._body)) > self._max_bytes

    @property
    def cut(self) -> bool:
        """Whether there is more to the body than what was kept."""
        unfinished = self._inflating is not None and self._received > 0 and not self._inflating.eof
        return self.full or unfinished or bool(self._inflating and self._inflating.unused_data)

    @property
    def body(self) -> bytes:
        """The kept bytes."""
        return bytes(self._body[: self._max_bytes])
