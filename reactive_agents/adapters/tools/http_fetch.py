"""HTTP fetches: each hop is checked, and connects to the checked address.

This module loads the HTTP library, so it is imported at the first fetch.
"""

from __future__ import annotations

import codecs
import re
import ssl
import zlib
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import cache
from html.parser import HTMLParser
from typing import Final
from urllib.parse import urljoin

import httpx
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.system import trace_headers
from reactive_agents.adapters.tools.addresses import AddressPolicy, find_addresses
from reactive_agents.core.errors import AddressRefused, ToolErrors, ToolFailed
from reactive_agents.core.texts import shortened

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
        url: the URL of the last hop.
        content_type: the content type from the server; empty if missing.
        body: decompressed.
        cut: whether the body exceeded the limit or ended early.
    """

    url: str
    status: int
    content_type: str
    body: bytes
    cut: bool


@frozen
class _Target:
    """A URL, and the allowed addresses of its host."""

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
    """Fetch a URL with at most 5 redirects; reads at most 2 MB by default.

    Hops share no connection and no cookie. Proxies of the environment are not used.

    Args:
        tls: the trusted certificates; ``None`` for those of the public authorities.
        max_bytes: the maximum of bytes to read, 1 or more.
        text_only: whether a response other than text is a failure.

    Fails with ``AddressRefused`` if the policy forbids the URL or a redirect, and with ``ToolFailed`` if the
    host is unknown, does not answer, or does not answer with text.
    """
    trusted = tls or _public_authorities()
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


@cache
def _public_authorities() -> ssl.SSLContext:
    """Return their certificates, which take long to read, once for all fetches."""
    return httpx.create_ssl_context(trust_env=False)


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
    """Return the page, or the URL of a redirect."""
    url = shown(str(target.url))
    async with (
        httpx.AsyncClient(verify=tls, trust_env=False, follow_redirects=False, timeout=_TIMEOUT) as client,
        aclosing(await _connect(client, target)) as response,
    ):
        location = response.headers.get("location", "")
        if response.status_code in _REDIRECTS and location:
            return Success(str(target.url.join(location)))
        content_type = response.headers.get("content-type", "").strip()[:_SHOWN_CHARS]
        if text_only and not is_text(content_type):
            return Failure(ToolFailed(tool_name, f"{url} is not text: {content_type}"))
        compressed = _COMPRESSED.get(response.headers.get("content-encoding", "").strip().lower())
        if compressed is None:
            return Failure(ToolFailed(tool_name, f"{url} is compressed in an unknown way"))
        reader = BodyReader(compressed=compressed, max_bytes=max_bytes)
        await _read(response, reader)
    if text_only and not content_type and b"\0" in reader.body:
        return Failure(ToolFailed(tool_name, f"{url} is not text"))
    return Success(Page(str(target.url), response.status_code, content_type, reader.body, reader.cut))


async def _connect(client: httpx.AsyncClient, target: _Target) -> httpx.Response:
    """Return the head of the response of the first address that accepts a connection."""
    url, host = target.url, target.url.raw_host.decode("ascii")
    traced = trace_headers()
    *others, last = (
        client.build_request(
            "GET",
            url.copy_with(host=address, fragment=None),
            headers={**_HEADERS, "Host": url.netloc.decode("ascii"), **traced},
            extensions={"sni_hostname": host},  # also the name for the certificate check
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
    chunks = response.aiter_raw()
    try:
        async for chunk in chunks:
            reader.feed(chunk)
            if reader.full:
                return
    finally:
        await response.aclose()
        with suppress(httpx.HTTPError, OSError):  # trio warns about its unfinished generators
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
    return shortened(url, _SHOWN_CHARS)


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

    On trio the outer exceptions of a TLS failure have none.
    """
    cause: BaseException | None = error
    while cause is not None:
        if str(cause):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__


_COMPRESSED: Final = {"": False, "identity": False, "gzip": True, "x-gzip": True, "deflate": True}
"""The supported values of ``Content-Encoding``."""
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class BodyReader:
    """Collects a body; a decompression bomb is never expanded in memory.

    Args:
        max_bytes: the maximum of decompressed bytes, 1 or more, and also of compressed bytes.
    """

    def __init__(self, *, compressed: bool, max_bytes: int) -> None:
        self._inflating = zlib.decompressobj(_GZIP_OR_ZLIB) if compressed else None
        self._max_bytes = max_bytes
        self._received = 0
        self._body = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Add the next raw bytes.

        Raises:
            ValueError: they are not compressed as declared.
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
        """Whether the limit is reached."""
        return max(self._received, len(self._body)) > self._max_bytes

    @property
    def cut(self) -> bool:
        """Whether the body is longer than the kept part."""
        unfinished = self._inflating is not None and self._received > 0 and not self._inflating.eof
        return self.full or unfinished or bool(self._inflating and self._inflating.unused_data)

    @property
    def body(self) -> bytes:
        """The kept bytes."""
        return bytes(self._body[: self._max_bytes])


# --- Web pages as readable text: headings, lists, tables and links as in Markdown ---


_HTML = ("text/html", "application/xhtml+xml")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_AS_BROWSERS_READ = {"ascii": "cp1252", "iso8859-1": "cp1252"}
_NO_CHARSETS = frozenset(
    {"idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape", "mbcs", "oem"}
)
_HEAD_BYTES = 2_048
_MAX_INDENTED = 8
_LONGEST_BASE = 2_000
"""Characters of an address against which links are resolved; each link takes time in proportion to it."""

_SKIPPED = frozenset(["script", "style", "template", "noscript", "svg", "iframe", "object", "canvas", "math"])
_LINES = frozenset(["br", "li", "tr"])
_INLINE_TAGS = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img input ins kbd label link mark meta "
    "meter output progress q rp rt ruby s samp small span strike strong sub sup time tt u var wbr"
)
_INLINE = frozenset(_INLINE_TAGS.split())
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}


def readable_text(body: bytes, content_type: str, *, url: str, max_chars: int) -> tuple[str, bool]:
    """Return the readable text of a document, and whether it exceeds ``max_chars``.

    Total: any bytes give some text.

    Args:
        url: the URL of the document, for its relative links.
        max_chars: 1 or more.
    """
    kind = content_type.partition(";")[0].strip().lower()
    text, cut = decode_text(body, content_type), False
    if kind in _HTML:
        text, cut = html_to_text(text, url=url, enough_chars=max_chars + 1)
    return text[:max_chars], cut or len(text) > max_chars


def decode_text(body: bytes, content_type: str) -> str:
    """Decode a body by its byte order mark, content type or HTML head, else as UTF-8."""
    for mark, charset in _BYTE_ORDER_MARKS:
        if body.startswith(mark):
            return body.decode(charset, "replace")
    named = _CHARSET.search(content_type)
    declared = _META.search(body[:_HEAD_BYTES])
    if named is not None:
        return body.decode(_charset(named[1]), "replace")
    if declared is not None and content_type.lower().startswith(_HTML):
        return body.decode(_charset(declared[1].decode("ascii", "replace")), "replace")
    return body.decode("utf-8", "replace")


def _charset(name: str) -> str:
    """Return a charset that Python supports.

    Excludes codecs that are not charsets, or slow on long texts.
    """
    try:
        known = codecs.lookup(name).name.replace("_", "-")
        b" ".decode(known, "replace")
    except (LookupError, ValueError):
        return "utf-8"
    return "utf-8" if known in _NO_CHARSETS else _AS_BROWSERS_READ.get(known, known)


def html_to_text(html: str, *, url: str, enough_chars: int) -> tuple[str, bool]:
    """Return the readable text of HTML, title first, and whether it was cut.

    Args:
        url: the URL of the document, for its relative links.
        enough_chars: reading stops after so many characters, without blanks.
    """
    reader = _Reader(url, enough_chars)
    html = html.replace("<![", "<! [")  # the parser raises on some marked sections; browsers skip them all
    # The parser holds back a text that might continue; a comment ends it. It is fed once, and close() is not
    # called, since its handling of a malformed rest takes quadratic time.
    try:
        reader.feed(html + "<!-- -->")
    except _Enough:
        return reader.text(), True
    return reader.text(), False


class _Enough(Exception):
    """The reader has enough text."""


class _Reader(HTMLParser):
    """Collects blocks of text, separated by tags that begin a new line."""

    def __init__(self, url: str, enough_chars: int) -> None:
        super().__init__(convert_charrefs=True)
        self._size = 0
        self._enough_chars = enough_chars
        self._url = url
        self._base = ""
        self._title = ""
        self._blocks: list[str] = []
        self._parts: list[str] = []
        self._prefix = ""
        self._skipping: list[str] = []
        self._preformatted = 0
        self._lists = 0
        self._link: tuple[str, int] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipping or tag in _SKIPPED:
            if not self._skipping or tag == self._skipping[0]:
                self._skipping.append(tag)
        elif tag == "a":
            self._end_link()
            self._link = (dict(attrs).get("href") or "", len(self._parts))
        elif tag == "base":  # the first one counts; with each of many the address would grow
            self._base = self._base or self._absolute(dict(attrs).get("href") or "")
        elif tag in ("td", "th"):
            self._parts.append(" | " if self._parts else "")
        else:
            self._begin_block(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._skipping:
            if tag == self._skipping[0]:
                self._skipping.pop()
        elif tag == "a":
            self._end_link()
        elif tag == "title":
            self._title = self._title or " ".join("".join(self._parts).split())
            self._parts.clear()
        else:
            self._end_block(tag)

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._parts.append(data)
            self._size += len("".join(data.split()))
            if self._size >= self._enough_chars:
                raise _Enough

    def text(self) -> str:
        self._flush("\n\n")
        heading = f"# {self._title}\n\n" if self._title else ""
        return (heading + "".join(self._blocks).strip("\n")).strip()

    def _begin_block(self, tag: str) -> None:
        if tag not in _INLINE:
            self._flush("\n" if tag in _LINES else "\n\n")
        if tag == "li":
            self._prefix = "  " * min(_MAX_INDENTED, max(0, self._lists - 1)) + "- "
        elif tag in ("ul", "ol"):
            self._lists += 1
        elif tag == "pre":
            self._preformatted += 1
        else:
            self._prefix = _HEADINGS.get(tag, self._prefix)

    def _end_block(self, tag: str) -> None:
        if tag not in _INLINE:
            self._flush("\n" if tag in _LINES else "\n\n")
        if tag in ("ul", "ol"):
            self._lists = max(0, self._lists - 1)
        elif tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)

    def _flush(self, gap: str) -> None:
        self._end_link()
        raw = "".join(self._parts)
        self._parts.clear()
        if self._preformatted:
            block = f"```\n{raw.strip(chr(10))}\n```" if raw.strip() else ""
        else:
            block = " ".join(raw.split())
        if block:
            self._blocks += [self._prefix, block, gap]
            self._prefix = ""
        elif self._blocks and len(gap) > len(self._blocks[-1]):
            self._blocks[-1] = gap

    def _end_link(self) -> None:
        if self._link is None:
            return
        (href, start), self._link = self._link, None
        text = " ".join("".join(self._parts[start:]).split())
        url = self._absolute(href) if text and not href.startswith("#") else ""
        if url.startswith(("http://", "https://")):
            self._parts[start:] = [f"[{text}]({url})"]
            self._size += len(url)

    def _absolute(self, href: str) -> str:
        base = self._base or self._url
        try:
            return urljoin(base if len(base) <= _LONGEST_BASE else "", href.strip())
        except ValueError:
            return ""
