"""The images, audio and documents of one run.

A run receives content in three ways: with its task, with the messages that it continues, and with the results
of its tools. Each part is read once, checked by its bytes and stored; afterwards the run holds a reference.
A request to the model has the bytes again. It also has each part whose label a text shows, so that a step of
a plan, another attempt or a recalled result has the content that it mentions. A run without content makes
none of this.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, TypeAlias
from unicodedata import normalize
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from attrs import define, evolve, field
from returns.result import Failure, Result, Success

from reactive_agents.core import content as contents
from reactive_agents.core import errors
from reactive_agents.core.config import ContentConfig
from reactive_agents.core.content import Content, ContentOwner, Digest
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import map_texts
from reactive_agents.core.messages import Message, ToolMessage, UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tasks import Task
from reactive_agents.core.tools import ToolResult
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.ports import ContentLoader, ContentStore

TakingErrors: TypeAlias = "errors.ContentErrors | errors.ServiceFailed"

_WITHOUT_CONTENT = frozenset({"guardrail", "extract-memories", "synthesize-context"})
"""Purposes of requests about texts alone, which show labels as texts."""
_INSIDE = frozenset({"localhost", "local", "internal"})
"""Last parts of names that no public host has."""
_GLOBAL_UNICAST = ip_network("2000::/3")
_EXAMINED_HERE = 1_000_000
"""Bytes up to which a part is examined on the event loop."""


async def with_lasting_content(
    task: Task, run_id: RunId, store: ContentStore | None, limits: ContentConfig
) -> Task:
    """Return a task that refers to its stored content, for a lasting record.

    It keeps the bytes if they are stored in the process alone, or cannot be stored.
    """
    if store is None or not getattr(store, "lasting", False):
        return task
    owner, parts = ContentOwner(run_id, task.user, durable=True), []
    for part in task.parts:
        if part.data and len(part.data) <= limits.max_bytes:
            reference = await anyio.to_thread.run_sync(_examined, part, part.data)
            kept = await call_service("content", store, ContentStore.put, None, reference, part.data, owner)
            part = part if isinstance(kept, Failure) else reference
        parts.append(part)
    return evolve(task, parts=tuple(parts))


@define(eq=False, repr=False)
class RunContent:
    """Stores the content of one run, and puts it into requests.

    Args:
        loader: reads the paths and URLs of parts.
        owner: the run, and the user who may refer to its content.
        caller: the content of the run that began this one, which it may pass on.
    """

    _store: ContentStore
    _loader: ContentLoader
    _limits: ContentConfig
    _owner: ContentOwner
    _caller: RunContent | None = None
    _known: dict[str, Content] = field(init=False, factory=dict)
    _texts: dict[str, str] = field(init=False, factory=dict)

    def know(self, parts: Iterable[Content]) -> None:
        """Register stored parts, which are put into requests that show their labels."""
        self._known.update((part.label, part) for part in parts)

    async def take(
        self, text: str, parts: tuple[Content, ...]
    ) -> Result[tuple[str, tuple[Content, ...]], TakingErrors]:
        """Return a text and its parts, with the labels of the stored parts."""
        stored: list[Content] = []
        for part in parts:
            taken = await self._take(part, stored)
            if isinstance(taken, Failure):
                return taken
            reference = taken.unwrap()
            text = text.replace(part.label, reference.label, 1)
            stored.append(reference)
        return Success((text, tuple(stored)))

    async def take_messages(self, messages: tuple[Message, ...]) -> Result[tuple[Message, ...], TakingErrors]:
        """Return messages with their parts stored, or held where they are stored already."""
        taken: list[Message] = []
        for message in messages:
            if isinstance(message, UserMessage | ToolMessage) and message.parts:
                read = await self.take(message.content, message.parts)
                if isinstance(read, Failure):
                    return read
                text, parts = read.unwrap()
                message = evolve(message, content=text, parts=parts)
            taken.append(message)
        return Success(tuple(taken))

    async def take_result(self, result: ToolResult) -> ToolResult:
        """Return a result with its parts stored.

        A part that is refused becomes a note in the result. A document of text becomes part of the result, so
        that it is checked, shortened and recalled like any other text of a tool.
        """
        value = result.result
        stored: list[Content] = []

        def show(part: Content, instead: str) -> None:
            nonlocal value
            value = map_texts(value, lambda text: text.replace(part.label, instead, 1))

        for part in result.parts:
            read = await self._read(part, stored)
            if isinstance(read, Failure):
                error = read.failure()
                reason = (
                    f"{error.field}: got {error.value}, expected {error.expected}"
                    if isinstance(error, errors.ContentRefused)
                    else error.message
                )
                show(part, f"[{part.label.strip('[]')} is left out: {reason}]")
                continue
            reference, data = read.unwrap()
            if reference.media_type.startswith("text/"):
                show(part, f"{reference.label}\n{contents.document_text(reference, data)}")
                continue
            kept = await self._keep(reference, data)
            if isinstance(kept, Failure):
                show(part, f"[{kept.failure().message}]")
                continue
            show(part, reference.label)
            stored.append(reference)
        return evolve(result, result=value, parts=tuple(stored))

    async def attach(self, request: ModelRequest) -> Result[ModelRequest, TakingErrors]:
        """Return the request with the bytes of its parts.

        Parts whose labels the request shows are added. Fails with ``ContentUnavailable`` when bytes are no
        longer stored.
        """
        there = {part.label for part in contents.parts_in(request.messages)}
        messages: list[Any] = []
        for message in request.messages:
            if not isinstance(message, UserMessage | ToolMessage):
                messages.append(message)
                continue
            shown = [] if request.purpose in _WITHOUT_CONTENT else self._shown_in(message, there)
            there.update(part.label for part in shown)
            parts: list[Content] = []
            for part in (*message.parts, *shown):
                filled = await self._filled(part)
                if isinstance(filled, Failure):
                    return filled
                whole = filled.unwrap()
                if whole.media_type.startswith("text/") and part.label not in self._texts:
                    self._texts[part.label] = contents.document_text(whole, whole.data)
                parts.append(whole)
            messages.append(evolve(message, parts=tuple(parts)) if parts else message)
        return Success(evolve(request, messages=tuple(messages)))

    def shown_documents(self) -> tuple[str, ...]:
        """Return the texts of documents that were put into requests."""
        return tuple(self._texts.values())

    async def text_of(self, part: Content) -> Result[str, TakingErrors]:
        """Return the text of a stored document."""
        filled = await self._filled(part)
        return filled.map(lambda whole: whole.data.decode("utf-8-sig", "replace"))

    async def with_text(self, part: Content, text: str) -> Result[Content, TakingErrors]:
        """Return a stored document with another text."""
        return await self._take(evolve(part, data=text.encode(), digest=Digest("")), [])

    async def release(self) -> Result[None, TakingErrors]:
        """End the hold of the run; what its session holds stays."""
        return await call_service(
            "content",
            self._store,
            ContentStore.release,
            None,
            self._owner.run_id,
            keep=self._limits.unheld_bytes,
        )

    def shown_in(self, text: str) -> tuple[Content, ...]:
        """Return the stored parts of the run whose labels a text shows."""
        if "sha256:" not in text:
            return ()
        return tuple([part for label, part in self._known.items() if part.digest and label in text])

    def _shown_in(self, message: UserMessage | ToolMessage, there: set[str]) -> list[Content]:
        from reactive_agents.kernel.context_window.summary import is_summary  # of runs with content

        if is_summary(message):  # which has to stay short
            return []
        return [part for part in self.shown_in(message.content) if part.label not in there]

    async def _stored(self, part: Content) -> Result[bytes | None, TakingErrors]:
        """Return the bytes that a part refers to, which may be passed on by the caller."""
        read = await call_service(
            "content", self._store, ContentStore.read, None, part.digest, self._owner.user
        )
        if isinstance(read, Failure) or read.unwrap() is not None:
            return read
        caller = self._caller
        if caller is None or part.label not in caller._known:
            return read
        return await caller._stored(part)

    async def _filled(self, part: Content) -> Result[Content, TakingErrors]:
        if not part.is_stored:
            return Success(part)
        gone = errors.ContentUnavailable(f"{part.label} is not stored any more.", "read")
        return (await self._held(part, gone)).map(lambda data: evolve(part, data=data))

    async def _held(self, part: Content, missing: errors.ContentErrors) -> Result[bytes, TakingErrors]:
        """Return the stored bytes of a part; fails with ``missing`` where there are none."""
        read = await self._stored(part)
        if isinstance(read, Failure):
            return read
        data = read.unwrap()
        return Failure(missing) if data is None else Success(data)

    # --- one part ---------------------------------------------------------------------------------------

    async def _take(self, part: Content, before: list[Content]) -> Result[Content, TakingErrors]:
        read = await self._read(part, before)
        if isinstance(read, Failure):
            return read
        reference, data = read.unwrap()
        kept = await self._keep(reference, data)
        return kept if isinstance(kept, Failure) else Success(reference)

    async def _keep(self, reference: Content, data: bytes) -> Result[None, TakingErrors]:
        if reference.digest:
            kept = await call_service(
                "content", self._store, ContentStore.put, None, reference, data, self._owner
            )
            if isinstance(kept, Failure):
                return kept
        self.know((reference,))
        return Success(None)

    async def _read(
        self, part: Content, before: list[Content]
    ) -> Result[tuple[Content, bytes], TakingErrors]:
        """Return the reference of a part and its bytes, after all checks."""
        limits = self._limits
        if len(before) >= limits.max_parts:
            return _refuse(part, "parts", f"more than {limits.max_parts}", f"at most {limits.max_parts}")
        if part.passed_on:
            if not part.url.lower().startswith("https://") or not _may_be_public(part.url):
                expected = "a URL of a public host that begins with https://"
                return _refuse(part, "url", repr(part.url[:200]), expected)
            return Success((evolve(part, data=b"", tokens=contents.IMAGE_TOKENS), b""))
        loaded = await self._bytes(part)
        if isinstance(loaded, Failure):
            return loaded
        data = loaded.unwrap()
        if not data or len(data) > limits.max_bytes:
            size, most = contents.shown_size(len(data)), contents.shown_size(limits.max_bytes)
            return _refuse(part, "size", size, f"1 byte to {most}")
        together = len(data) + sum(each.size for each in before)
        if together > limits.max_total_bytes:
            most = contents.shown_size(limits.max_total_bytes)
            return _refuse(part, "size", f"{contents.shown_size(together)} together", f"at most {most}")
        examine = partial(_examined, part, data)
        reference = examine() if len(data) <= _EXAMINED_HERE else await anyio.to_thread.run_sync(examine)
        taken = [each for each in limits.media_types if contents.kind_of(each) in (part.kind, None)]
        found = reference.media_type
        if contents.kind_of(found) != part.kind or not any(fnmatchcase(found, each) for each in taken):
            expected = ", ".join(taken).replace("text/*", "text/* in UTF-8") or "none"
            return _refuse(part, "kind", found, f"{part.kind}: {expected}")
        return Success((reference, data))

    async def _bytes(self, part: Content) -> Result[bytes, TakingErrors]:
        if part.data:
            return Success(part.data)
        if part.digest:
            unknown = _refuse(part, "digest", repr(part.digest), "the digest of content of this user's runs")
            return await self._held(part, unknown.failure())
        if not part.path and not part.url:
            return Success(b"")
        return await call_service(
            "content_loader", self._loader, ContentLoader.load, bytes, part, self._limits
        )


def _examined(part: Content, data: bytes) -> Content:
    media_type = contents.media_type_of(data)
    tokens = contents.estimated_tokens(data, media_type)
    return contents.stored(part, data, media_type=media_type, tokens=tokens)


def references_to(parts: Iterable[Content]) -> tuple[Content, ...]:
    """Return parts as they are stored, without bytes.

    A record may have them either way: a run that waits in a queue has the bytes of its task.
    """
    return tuple(_examined(part, part.data) if part.data else part for part in parts)


def _may_be_public(url: str) -> bool:
    """Return whether a URL that another server fetches may lead to a public host.

    Names are not resolved, since the server may resolve them differently: it may be in another network, such
    as a server with the OpenAI protocol that a user runs.
    """
    try:
        named = normalize("NFKC", urlsplit(url).hostname or "").lower()  # as names are read
        host = named.replace("。", ".").rstrip(".")
    except ValueError:
        return False
    try:
        address = ip_address(host)
    except ValueError:
        name, dot, last = host.rpartition(".")
        # some readers take a last part of digits for that of an address, and a backslash for the path
        is_number = last.isdecimal() or last.startswith("0x")
        return bool(name and dot) and not is_number and last not in _INSIDE and "\\" not in url
    if isinstance(address, IPv6Address):
        address = address.ipv4_mapped or address.sixtofour or address
    if isinstance(address, IPv6Address) and address not in _GLOBAL_UNICAST:  # such as NAT64
        return False
    return address.is_global and not address.is_multicast


def _refuse(part: Content, name: str, value: str, expected: str) -> Failure[errors.ContentRefused]:
    return Failure(errors.ContentRefused(part.label, name, value, expected))
