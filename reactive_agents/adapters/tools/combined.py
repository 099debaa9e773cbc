"""Several tool services as one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Mapping, Sequence
from typing import TypeAlias

import attrs
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import AddressRefused, ToolErrors, ToolNotFound, WorkspaceViolation
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import attempt, effect
from reactive_agents.ports import Approver, ToolService

_Listings: TypeAlias = tuple[tuple[ToolDefinition, ...], ...]


@frozen(eq=False)
class _Route:
    service: ToolService
    name: str


@frozen(eq=False)
class _Catalog:
    """The tools of all services at one moment.

    Replaced as a whole, since threads read it meanwhile.
    """

    listings: _Listings = ()
    definitions: tuple[ToolDefinition, ...] = ()
    routes: Mapping[str, _Route] = attrs.field(factory=dict)


class CombinedTools:
    """Implements ``ToolService`` over several services.

    Each service validates, approves and bounds its own calls.

    A tool keeps its name unless an earlier service has a tool of that name; then it is ``<label>-<name>``.
    The service itself and its approver still see the name without the label. A service that chooses names for
    its tools therefore gets the taken ones beforehand.

    Args:
        services: their tools are in this order. What they list may change between calls, as it does when a
            service is opened.
        labels: one for each service, unique; ``tools1``, ``tools2`` and so on when they are not given.

    Raises:
        ValueError: there are not as many different labels as services.
    """

    def __init__(self, services: Sequence[ToolService], *, labels: Sequence[str] = ()) -> None:
        self._services = tuple(services)
        self._labels = tuple(labels) or tuple(f"tools{number}" for number in range(1, len(services) + 1))
        if len(set(self._labels)) != len(self._services) or len(self._labels) != len(self._services):
            raise ValueError(
                f"labels: got {self._labels!r}, expected one for each of {len(services)} services."
            )
        self._catalog = _Catalog()

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return all tools, in the order of the services, each name once."""
        return self._current().definitions

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, ToolErrors]:
        """Run one call in the service that has the tool; fails as the port says."""
        routes = self._current().routes
        route = routes.get(call.name)
        if route is None:
            return Failure(ToolNotFound(call.name, tuple(routes)))
        if route.name == call.name:
            return await attempt(route.service.execute(call, scope, approver))
        done = await attempt(route.service.execute(attrs.evolve(call, name=route.name), scope, approver))
        if isinstance(done, Success):
            return Success(attrs.evolve(done.unwrap(), tool_name=call.name))
        return Failure(_renamed(done.failure(), call.name))

    async def was_done(self, name: str, key: str) -> tuple[Json] | None:
        """Ask the tool's own service whether a call was done, if it can tell."""
        route = self._current().routes.get(name)
        probe = None if route is None else getattr(route.service, "was_done", None)
        if route is None or probe is None:
            return None
        found: tuple[Json] | None = await probe(route.name, key)
        return found

    def _current(self) -> _Catalog:
        catalog = self._catalog
        listings = tuple(service.definitions() for service in self._services)
        if listings == catalog.listings:
            return catalog
        routes: dict[str, _Route] = {}
        definitions = []
        for service, label, listing in zip(self._services, self._labels, listings, strict=True):
            for definition in listing:
                name = definition.name
                if name in routes:
                    name = prefixed_name(label, name, routes)
                routes[name] = _Route(service, definition.name)
                definitions.append(attrs.evolve(definition, name=name))
        catalog = self._catalog = _Catalog(listings, tuple(definitions), routes)
        return catalog


def _renamed(error: ToolErrors, name: str) -> ToolErrors:
    return (
        error
        if isinstance(error, WorkspaceViolation | AddressRefused)
        else attrs.evolve(error, tool_name=name)
    )


# --- valid names ----------------------------------------------------------------------------------------


_MOST_CHARS = 64
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")


def valid_name(name: str) -> str:
    """Return the name with letters, digits, ``_`` and ``-``, at most 64 characters.

    A longer one ends in a digest of the whole, so that two that begin alike stay apart.

    >>> valid_name("files.read")
    'files_read'
    """
    made = _FORBIDDEN.sub("_", name) or "_"
    if len(made) <= _MOST_CHARS:
        return made
    digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
    return f"{made[: _MOST_CHARS - 9]}-{digest}"


def prefixed_name(prefix: str, name: str, taken: Container[str]) -> str:
    """The valid name ``<prefix>-<name>``, with a number at its end when it is taken.

    >>> prefixed_name("files", "read", {"files-read"})
    'files-read-2'
    """
    candidate, number = valid_name(f"{prefix}-{name}"), 1
    while candidate in taken:
        number += 1
        candidate = valid_name(f"{prefix}-{name}-{number}")
    return candidate
