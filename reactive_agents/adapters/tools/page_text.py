"""Web pages as readable text: headings, lists, tables and links as in Markdown."""

from __future__ import annotations

import codecs
import re
from html.parser import HTMLParser
from urllib.parse import urljoin

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
        url: of the document, for its relative links.
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
    """Return a charset that Python reads.

    Codecs that are no charsets, or slow on long texts, are not used.
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
        url: of the document, for its relative links.
        enough_chars: reading stops once there are so many, blanks not counted.
    """
    reader = _Reader(url, enough_chars)
    html = html.replace("<![", "<! [")  # the parser raises on some marked sections; browsers skip them all
    # The parser holds back a text that might go on; a comment ends it. Its close() is not called, and it is
    # fed once: what it does with a malformed rest takes time by the square of the length.
    try:
        reader.feed(html + "<!-- -->")
    except _Enough:
        return reader.text(), True
    return reader.text(), False


class _Enough(Exception):
    """The reader has as much text as is wanted."""


class _Reader(HTMLParser):
    """Collects blocks of text, which are separated by tags that begin a new line."""

    def __init__(self, url: str, enough_chars: int) -> None:
        super().__init__(convert_charrefs=True)
        self._size = 0
        self._enough_chars = enough_chars
        self._url = url
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
            self._begin_link(dict(attrs).get("href") or "")
        elif tag == "base":
            self._url = self._absolute(dict(attrs).get("href") or "") or self._url
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
        """All that was read so far."""
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

    def _begin_link(self, href: str) -> None:
        url = self._absolute(href)
        if url.startswith(("http://", "https://")) and not href.startswith("#"):
            self._link = (url, len(self._parts))

    def _end_link(self) -> None:
        if self._link is None:
            return
        (url, start), self._link = self._link, None
        text = " ".join("".join(self._parts[start:]).split())
        if text:
            self._parts[start:] = [f"[{text}]({url})"]
            self._size += len(url)

    def _absolute(self, href: str) -> str:
        try:
            return urljoin(self._url, href.strip())
        except ValueError:
            return ""
