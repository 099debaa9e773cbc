"""Images, audio and documents in tasks, messages and tool results.

A program or a tool *gives* a part: its bytes, a path in the workspace, or a URL. The run reads it once,
checks its size and its kind, and stores the bytes under their digest. From then on everything holds a
*reference*: the same part with its digest and without its bytes, so that the bytes are never copied. Texts
show a part by its ``label``, which is all that most of the package has to know of content: in a request to
the model, the part itself stands beside the label.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Literal, NewType, Self, TypeAlias
from urllib.parse import unquote, urlsplit

from attrs import evolve, field, frozen

from reactive_agents.core.ids import RunId
from reactive_agents.core.texts import shortened
from reactive_agents.core.values import OMITTED, Value, lazy_pattern

ContentKind: TypeAlias = Literal["image", "audio", "document"]
Digest = NewType("Digest", str)
"""SHA-256 of the bytes of a part, in hexadecimal digits."""

_LONGEST_NAME = 80
_SHOWN_DIGITS = 12
_NOT_IN_NAMES = lazy_pattern(r'[\x00-\x1f\x7f"\\\[\]<>\u2028\u2029\ud800-\udfff]+')


def shown_name(name: str) -> str:
    """Return a name as labels show it."""
    shown = _NOT_IN_NAMES.sub("_", str(name)).strip()
    return shortened(shown, _LONGEST_NAME)


@frozen(kw_only=True, eq=False, repr=False)
class _Part(Value):
    """A part of a task, message or tool result that is not a text.

    Attributes:
        name: the name in texts; at most 80 characters, without brackets, quotes and control characters.
        media_type: such as ``image/png``, found in the bytes; empty until they were read.
        size: bytes; 0 until they were read.
        digest: the digest under which the bytes are stored; empty for a part that is not stored yet.
        tokens: estimate of what a model counts for it.
        data: the bytes themselves: of a part that is given, or about to be sent.
        path: the path of the file in the workspace that it is read from.
        url: the URL that it is read from, or that the model's provider reads if ``passed_on``.
        passed_on: whether the provider fetches the URL, and not this process.
    """

    kind: ClassVar[ContentKind]

    name: str = field(default="", converter=shown_name, metadata=OMITTED)
    media_type: str = field(default="", metadata=OMITTED)
    size: int = field(default=0, metadata=OMITTED)
    digest: Digest = field(default=Digest(""), metadata=OMITTED)
    tokens: int = field(default=0, metadata=OMITTED)
    data: bytes = field(default=b"", metadata=OMITTED)
    path: str = field(default="", metadata=OMITTED)
    url: str = field(default="", metadata=OMITTED)
    passed_on: bool = field(default=False, metadata=OMITTED)

    @classmethod
    def from_bytes(cls, data: bytes, *, name: str = "") -> Self:
        """Return a part of these bytes.

        Raises:
            TypeError: the data is not bytes.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise TypeError(f"data: got {type(data).__name__}, expected bytes")
        return cls(data=bytes(data), name=name)

    @classmethod
    def from_path(cls, path: str | Path, *, name: str = "") -> Self:
        """Return the part in a file of the agent's workspace, read when the run begins.

        Args:
            path: relative to the workspace, or inside it.
            name: by default the name of the file.
        """
        return cls(path=str(path), name=name or Path(path).name)

    @classmethod
    def from_url(cls, url: str, *, name: str = "") -> Self:
        """Return the part at a URL, fetched from a public address when the run begins.

        Args:
            url: beginning with ``https://`` or ``http://``.
            name: by default the end of the path.

        Raises:
            TypeError: the URL is not a text.
        """
        if not isinstance(url, str):
            raise TypeError(f"url: got {type(url).__name__}, expected a text")
        return cls(url=url, name=name or _name_in(url))

    @property
    def is_stored(self) -> bool:
        """Return whether the part refers to stored bytes."""
        return bool(self.digest) and not self.data

    @property
    def label(self) -> str:
        """Return the part as in texts: ``[image cat.png, 34 kB, sha256:ab12…]``."""
        named = f"{self.kind} {self.name}" if self.name else self.kind
        if self.digest or self.data:
            digest = self.digest or sha256(self.data).hexdigest()
            size = shown_size(self.size or len(self.data))
            return f"[{named}, {size}, sha256:{digest[:_SHOWN_DIGITS]}…]"
        return f"[{named}]"

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.label.strip('[]').partition(' ')[2]}>"


class Image(_Part):
    """An image: PNG, JPEG, GIF or WebP."""

    __slots__ = ()  # its fields, and its constructor, are those of every part

    kind: ClassVar[ContentKind] = "image"

    @classmethod
    def from_url(cls, url: str, *, name: str = "", fetch: bool = True) -> Self:
        """Return the image at a URL.

        Args:
            url: beginning with ``https://`` or ``http://``.
            name: by default the end of the path.
            fetch: whether this process fetches it, from public addresses alone, when the run begins;
                ``False`` passes the URL on to the model's provider, which may fetch it again for each
                request.
        """
        return evolve(super().from_url(url, name=name), passed_on=not fetch)


class Audio(_Part):
    """A sound recording: WAV, MP3, FLAC or Ogg."""

    __slots__ = ()

    kind: ClassVar[ContentKind] = "audio"


class Document(_Part):
    """A document: PDF, or a text in UTF-8, which every model can read."""

    __slots__ = ()

    kind: ClassVar[ContentKind] = "document"


Content: TypeAlias = Image | Audio | Document
CONTENT_TYPES = (Image, Audio, Document)


@frozen(eq=False, repr=False)
class ContentOwner(Value):
    """The run that content is stored for, and its user, who may refer to it.

    ``durable``: whether the run is recorded, so that it may go on after days.
    """

    run_id: RunId
    user: str | None = None
    durable: bool = False


def _name_in(url: str) -> str:
    try:
        path = urlsplit(url).path
    except ValueError:
        return ""
    return unquote(path.rpartition("/")[2])


def shown_size(size: int) -> str:
    """Return a number of bytes for a person, such as ``34 kB``.

    >>> shown_size(999), shown_size(34_200), shown_size(52_000_000)
    ('999 bytes', '34 kB', '52 MB')
    """
    if size < 1_000:
        return f"{size} bytes"
    unit, name = (1_000_000, "MB") if size >= 1_000_000 else (1_000, "kB")
    amount = size / unit
    return f"{amount:.1f} {name}".replace(".0 ", " ") if amount < 10 else f"{amount:.0f} {name}"


# --- parts and the texts that show them -----------------------------------------------------------------


def text_and_parts(items: str | Content | Iterable[object]) -> tuple[str, tuple[Content, ...]] | None:
    """Return the text of a task or tool result, and its parts.

    The text has a label for each part. ``None`` when an item is neither a text nor a part.
    """
    if isinstance(items, str):
        return items, ()
    given = (items,) if isinstance(items, CONTENT_TYPES) else tuple(items)
    parts = tuple(each for each in given if isinstance(each, CONTENT_TYPES))
    if not all(isinstance(each, str | Image | Audio | Document) for each in given):
        return None
    return "\n".join(str(each) for each in given), parts


_SHOWN_LABEL = lazy_pattern(r"\[(image|audio|document)\b[^\[\]]{0,120}, sha256:[0-9a-f]{12}…\]")


def shows_content(text: str) -> bool:
    """Return whether a text has the label of a stored part."""
    return "sha256:" in text and _SHOWN_LABEL.search(text) is not None


def _marks(names: str) -> re.Pattern[str]:
    """Return a pattern of the marks that ``fence`` of the prompts sets around a text."""
    name = rf"(?:{names})(?:-[0-9a-f]{{6}})?"
    return lazy_pattern(rf"<(?P<begun>{name})>\n|\n</(?P<ended>{name})>")


_QUOTED = _marks("file|client-context|message|result|error|calls|notes|learnings")
_EVENT = _marks("event")
_FIRST_WORDS = {"file": "name: ", "message": "from: ", "event": "from: "}
"""With which what is quoted begins; users write such marks themselves."""


def own_words(task: str) -> str:
    """Return the words of a task that are its author's own; dots stand for quotes.

    Quoted are files, the context of an interface, and in a persona messages, results, errors and notes. Of
    the label of a part only the kind is left, since others chose its name.

    >>> own_words("Sum it up. [document a.txt, 5 bytes, sha256:2cf24dba5fb0…]")
    'Sum it up. [document]'
    """
    own = _split(task, _QUOTED)[0] if "</" in task else task
    return _SHOWN_LABEL.sub(r"[\1]", own) if "sha256:" in own else own


def said_and_quoted(task: str) -> tuple[str, str]:
    """Return the user's words in a task, and what it quotes of others.

    In the task of a persona's step, which a model wrote, the user's words are the event.
    """
    own = own_words(task)
    if own is task:  # most tasks quote nothing
        return (_split(own, _EVENT)[1] if "</event" in own else "") or own, ""
    _, events = _split(own, _EVENT)
    _, quoted = _split(task, _QUOTED)
    labels = [found[0] for found in _SHOWN_LABEL.finditer(task)]
    return events or own, "\n".join([quoted, *labels]).strip()


def without_marks(text: str) -> str:
    """Return a text of a model in which nothing counts as quoted, or as an event."""
    for marks in (_QUOTED, _EVENT) if "<" in text else ():
        text = marks.sub(lambda mark: mark[0].replace("\n", " \n "), text)
    return text


def _split(text: str, marks: re.Pattern[str]) -> tuple[str, str]:
    """Return what is outside of marks, and what is between them; linear in the length.

    What is between two marks of a name has no marks of its own, and a mark without an end is text.
    """
    found = [*marks.finditer(text)]
    ends_of: dict[str, deque[re.Match[str]]] = {}
    for mark in found:
        if mark["ended"]:
            ends_of.setdefault(mark["ended"], deque()).append(mark)
    outside, inside, position = list[str](), list[str](), 0
    for mark in found:
        begun = mark["begun"] or ""
        is_begun = begun and text.startswith(_FIRST_WORDS.get(begun.partition("-")[0], ""), mark.end())
        if not is_begun or mark.start() < position:
            continue
        ends = ends_of.get(begun, deque())
        while ends and ends[0].end() < mark.end():
            ends.popleft()
        if ends:
            outside.append(f"{text[position : mark.start()]}…")  # or "A file:" would have what follows
            inside.append(text[mark.end() : ends[0].start()])
            position = ends[0].end()
    return "".join([*outside, text[position:]]), "\n".join(inside)


def interleaved(text: str, parts: Sequence[Content]) -> Iterator[str | Content]:
    """Yield the text with each part after its label; parts without a label follow."""
    position = 0
    rest: list[Content] = []
    for part in parts:
        label = part.label
        found = text.find(label, position)
        if found < 0:
            rest.append(part)
            continue
        end = found + len(label)
        yield text[position:end]
        yield part
        position = end + 1 if text[end : end + 1] == "\n" else end
    if text[position:]:
        yield text[position:]
    for part in rest:
        yield part.label
        yield part


def parts_in(messages: Iterable[Any]) -> Iterator[Content]:
    """Yield the parts of messages."""
    for message in messages:
        yield from getattr(message, "parts", ())


def map_parts(message: Any, change: Callable[[Content], Content]) -> Any:
    """Return a message with each of its parts changed; the same one without any."""
    parts = getattr(message, "parts", ())
    return evolve(message, parts=tuple(map(change, parts))) if parts else message


def stored(part: Content, data: bytes, *, media_type: str, tokens: int) -> Content:
    """Return the reference to the bytes of a part."""
    return evolve(
        part,
        media_type=media_type,
        size=len(data),
        digest=Digest(sha256(data).hexdigest()),
        tokens=tokens,
        data=b"",
        path="",
        url="",
    )


def document_text(part: Content, data: bytes) -> str:
    """Return a document of text as the text after its label, with a mark at its end.

    Nothing in a text can hold the digest of the whole, so no text ends early.
    """
    end = part.label.rpartition(", ")[2]
    return f"{data.decode('utf-8-sig', 'replace')}\n[end of document, {end}"


# --- the kind of bytes ----------------------------------------------------------------------------------


TEXT = "text/plain"
PDF = "application/pdf"
MEDIA_TYPES: dict[ContentKind, tuple[str, ...]] = {
    "image": ("image/png", "image/jpeg", "image/gif", "image/webp"),
    "audio": ("audio/wav", "audio/mpeg", "audio/flac", "audio/ogg"),
    "document": (PDF, TEXT),
}
"""The types that there are of each kind."""
_BEGINNINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\0", "image/tiff"),
    (b"MM\0*", "image/tiff"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
    (b"OggS", "audio/ogg"),
    (b"%PDF-", PDF),
    (b"PK\x03\x04", "application/zip"),
    (b"\xd0\xcf\x11\xe0", "application/x-ole-storage"),
)
_INNER = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
_PAGE = lazy_pattern(rb"/Type\s*/Page\b")
IMAGE_TOKENS = 1_600
"""Tokens of an image, whatever its size: more than most models count."""
_PAGE_TOKENS = 3_000
_PAGE_BYTES = 50_000
_BYTES_PER_TOKEN = {"audio/wav": 1_000, "audio/flac": 500}
_COMPRESSED_AUDIO = 100


def media_type_of(data: bytes) -> str:
    """Return the type of bytes by their beginning; no name or header is believed.

    ``text/html`` and ``text/plain`` for UTF-8, ``application/octet-stream`` for what is not known.

    >>> media_type_of(b"%PDF-1.7 ..."), media_type_of(b"<!doctype html><p>no picture")
    ('application/pdf', 'text/html')
    """
    for beginning, media_type in _BEGINNINGS:
        if data.startswith(beginning):
            return media_type
    if data.startswith(b"RIFF"):
        return _INNER.get(data[8:12], "application/octet-stream")
    if data[4:8] == b"ftyp":
        return "audio/mp4" if data[8:11] == b"M4A" else "video/mp4"
    if _is_mp3_frame(data):
        return "audio/mpeg"
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return "application/octet-stream"
    if "\0" in text:
        return "application/octet-stream"
    return "text/html" if re.match(r"\s*<(!doctype html|html)\b", text[:1_000], re.IGNORECASE) else TEXT


def kind_of(media_type: str) -> ContentKind | None:
    """Return the kind of a media type, ``None`` for others; any text is a document."""
    if media_type.startswith("text/"):
        return "document"
    return next((kind for kind, types in MEDIA_TYPES.items() if media_type in types), None)


def estimated_tokens(data: bytes, media_type: str) -> int:
    """Return about how many tokens a model counts for the bytes.

    An image counts 1,600; a page of a PDF 3,000; audio a token for each 100 bytes, of FLAC for 500 and of WAV
    for 1,000; a text a token for each byte, which no tokenizer exceeds.
    """
    if media_type.startswith("image/"):
        return IMAGE_TOKENS
    if media_type == PDF:
        return _PAGE_TOKENS * (len(_PAGE.findall(data)) or 1 + len(data) // _PAGE_BYTES)
    if media_type.startswith("audio/"):
        return 1 + len(data) // _BYTES_PER_TOKEN.get(media_type, _COMPRESSED_AUDIO)
    return len(data)


def _is_mp3_frame(data: bytes) -> bool:
    """Return whether the bytes begin with the header of an MPEG audio frame, layer 3."""
    if len(data) < 4 or data[0] != 0xFF or data[1] & 0xE0 != 0xE0:
        return False
    version, layer = data[1] >> 3 & 3, data[1] >> 1 & 3
    bitrate, rate = data[2] >> 4, data[2] >> 2 & 3
    return version != 1 and layer == 1 and bitrate not in (0, 15) and rate != 3


def part_of_file(name: str, data: bytes) -> Content | None:
    """Return a part of the kind that the bytes of a file are.

    ``None`` for a kind that no model takes; a text is a document.

    >>> part_of_file("a.bin", b"%PDF-1.7")
    <Document a.bin, 8 bytes, sha256:86edbaa24831…>
    """
    kind = kind_of(media_type_of(data))
    made = next((each for each in CONTENT_TYPES if each.kind == kind), None)
    return None if made is None else made.from_bytes(data, name=Path(name).name)
