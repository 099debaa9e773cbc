"""Content from files of the workspace, and from URLs behind the address guard."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.addresses import AddressPolicy, Resolver, resolve_by_system
from reactive_agents.adapters.tools.workspace import open_to_read
from reactive_agents.core.config import ContentConfig
from reactive_agents.core.content import Content, shown_size
from reactive_agents.core.errors import AddressRefused, ContentErrors, ContentRefused
from reactive_agents.effects import effect


class WorkspaceContent:
    """Implements ``ContentLoader``.

    Args:
        workspace: the directory to which paths are confined.
        resolve: finds the addresses of a name.
    """

    def __init__(self, workspace: Path, *, resolve: Resolver = resolve_by_system) -> None:
        self._workspace = workspace
        self._resolve = resolve

    @effect
    async def load(self, part: Content, limits: ContentConfig) -> Result[bytes, ContentErrors]:
        """As the port says."""
        if part.path:
            reading = partial(_read, self._workspace, part, limits.max_bytes)
            return await anyio.to_thread.run_sync(reading, abandon_on_cancel=True)
        return await self._fetch(part, limits)

    async def _fetch(self, part: Content, limits: ContentConfig) -> Result[bytes, ContentErrors]:
        from reactive_agents.adapters.tools.http_fetch import fetch, shown  # loads the HTTP library

        policy = AddressPolicy(frozenset(limits.allow_hosts), self._resolve)
        max_bytes = limits.max_bytes
        fetched = None
        with anyio.move_on_after(limits.fetch_s):
            fetched = await fetch(
                "content", part.url, policy=policy, tls=None, max_bytes=max_bytes, text_only=False
            )
        address = shown(part.url)
        if fetched is None:
            return _refuse(part, "url", address, f"an answer within {limits.fetch_s:g} seconds")
        if isinstance(fetched, Failure):
            error = fetched.failure()
            if isinstance(error, AddressRefused):
                return _refuse(part, "url", error.url, f"an allowed address: {error.reason}")
            return _refuse(part, "url", address, f"an answer: {getattr(error, 'detail', error.message)}")
        page = fetched.unwrap()
        if page.status != 200:
            return _refuse(part, "url", f"status {page.status} of {address}", "status 200")
        if page.cut:
            return _too_large(part, f"more than {shown_size(max_bytes)}", max_bytes)
        return Success(page.body)


def _read(workspace: Path, part: Content, max_bytes: int) -> Result[bytes, ContentErrors]:
    opened = open_to_read(workspace, part.path)
    if isinstance(opened, Failure):
        error = opened.failure()
        return _refuse(part, "path", repr(error.path), f"a file of the workspace: {error.reason}")
    try:
        with opened.unwrap() as file:
            data = file.read(max_bytes + 1)
            if len(data) > max_bytes:
                return _too_large(part, shown_size(file.seek(0, 2)), max_bytes)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return _refuse(part, "path", repr(part.path), f"a file that can be read: {reason}")
    return Success(data)


def _too_large(part: Content, size: str, max_bytes: int) -> Failure[ContentRefused]:
    return _refuse(part, "size", size, f"at most {shown_size(max_bytes)}")


def _refuse(part: Content, name: str, value: str, expected: str) -> Failure[ContentRefused]:
    return Failure(ContentRefused(part.label, name, value, expected.rstrip(".")))
