"""Several tool services as one, and tools renamed or selected for each run."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
from attrs import evolve, field, frozen
from returns.maybe import Maybe, Some
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.decorator import Tool, as_tool, valid_tool_name
from reactive_agents.adapters.tools.signature import ToolDefinitionError, prefixed_name
from reactive_agents.core import errors
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.run_context import ContextFunction, RunContext, is_of_type, type_name
from reactive_agents.core.tools import RESERVED_NAMES, ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import attempt, call_function, effect
from reactive_agents.ports import Approver, ToolService

if TYPE_CHECKING:
    from reactive_agents.adapters.tools.service import LocalToolService

_log = logging.getLogger("reactive_agents")

_Listings: TypeAlias = tuple[tuple[ToolDefinition, ...], ...]


@frozen(eq=False)
class _Route:
    service: ToolService
    name: str


@frozen(eq=False)
class _Catalog:
    """All tools at one moment; replaced, never changed, as other threads read it."""

    listings: _Listings = ()
    definitions: tuple[ToolDefinition, ...] = ()
    routes: Mapping[str, _Route] = attrs.field(factory=dict)


class CombinedTools:
    """Implements ``ToolService`` over several services.

    Each service validates, approves and limits its own calls.

    A tool keeps its name unless an earlier service has a tool with that name; then the second service's is
    ``tools2-<name>``. The service itself and its approver see the name without the number. A service that
    chooses names for its tools is therefore given the taken names first.

    Args:
        services: the services, in the order of their tools. Their tools may change between calls, for example
            when a service is opened.
        hidden: names of tools that are left out.
        filters: those that are asked before each turn of the model, with the names that each is asked about.

    Attributes:
        asked_each_turn: whether there are such filters.
    """

    def __init__(
        self,
        services: Sequence[ToolService],
        hidden: frozenset[str] = frozenset(),
        filters: Sequence[tuple[ToolFilter, frozenset[str]]] = (),
    ) -> None:
        self._services = tuple(services)
        self._hidden = hidden
        self._filters = tuple(filters)
        self.asked_each_turn = bool(filters)
        self._catalog = _Catalog()

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return all tools, in the order of the services, each name once."""
        return self._current().definitions

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Run a call in the service that has the tool; fails as the port says."""
        routes = self._current().routes
        route = routes.get(call.name)
        if route is None:
            return Failure(errors.ToolNotFound(call.name, tuple(routes)))
        if route.name == call.name:
            return await attempt(route.service.execute(call, scope, approver))
        done = await attempt(route.service.execute(attrs.evolve(call, name=route.name), scope, approver))
        if isinstance(done, Success):
            return Success(attrs.evolve(done.unwrap(), tool_name=call.name))
        return Failure(_renamed(done.failure(), call.name))

    async def withheld(self, context: RunContext[Any]) -> Result[frozenset[str], errors.ServiceFailed]:
        """Return the names of the tools that the model does not have in its next turn.

        Fails with ``ServiceFailed``, which names the filter, if one raises or returns no ``bool``.
        """
        found: frozenset[str] = frozenset()
        for keeps, names in self._filters:
            asked = [each for each in self.definitions() if each.name in names]
            kept = await _filtered(asked, keeps, context)
            if isinstance(kept, Failure):
                return Failure(kept.failure())
            found |= names - kept.unwrap()
        return Success(found)

    async def was_done(self, name: str, key: str) -> tuple[Json] | None:
        """Ask the tool's service whether a call was done, if it can tell."""
        route = self._current().routes.get(name)
        probe = None if route is None else getattr(route.service, "was_done", None)
        if route is None or probe is None:
            return None
        found: tuple[Json] | None = await probe(route.name, key)
        return found

    def of_servers(self, servers: Container[str]) -> frozenset[str]:
        """Return the names of the tools of MCP servers."""
        theirs = {id(each): _of_servers(each, servers) for each in self._services}
        routes = self._current().routes
        return frozenset(name for name, route in routes.items() if route.name in theirs[id(route.service)])

    def _current(self) -> _Catalog:
        catalog = self._catalog
        listings = tuple(service.definitions() for service in self._services)
        if listings == catalog.listings:
            return catalog
        routes: dict[str, _Route] = {}
        definitions = []
        for number, (service, listing) in enumerate(zip(self._services, listings, strict=True), 1):
            for definition in listing:
                name = definition.name
                if name in routes:
                    name = prefixed_name(f"tools{number}", name, routes)
                if name in self._hidden:
                    continue
                routes[name] = _Route(service, definition.name)
                definitions.append(attrs.evolve(definition, name=name))
        catalog = self._catalog = _Catalog(listings, tuple(definitions), routes)
        return catalog


def _of_servers(service: ToolService, servers: Container[str]) -> frozenset[str]:
    named = getattr(service, "of_servers", None)  # of services with MCP servers
    return frozenset() if named is None else named(servers)


def _renamed(error: errors.ToolErrors, name: str) -> errors.ToolErrors:
    return (
        error
        if isinstance(error, errors.WorkspaceViolation | errors.AddressRefused | errors.BudgetUnavailable)
        else attrs.evolve(error, tool_name=name)
    )


ToolFilter: TypeAlias = Callable[[RunContext[Any], ToolDefinition], Any]
"""Return whether a run has a tool; sync or async."""


@frozen(eq=False)
class ToolGroup:
    """Tools that are renamed, or selected for each run.

    Attributes:
        source: the tools, or a function of the context that returns them for each run.
        prefix: the prefix of names that are not in ``rename``.
        rename: new names, by original names.
        only: the original names of the tools to use; ``None`` for all.
        filter: selects among them for each run; ``None`` for all.
        servers: names of MCP servers whose tools the filter selects from, instead of a source.
        each_turn: whether the filter is asked before each turn of the model, not once for a run.
    """

    source: tuple[Tool, ...] | ContextFunction
    prefix: str = ""
    rename: Mapping[str, str] = field(factory=dict)
    only: frozenset[str] | None = None
    filter: ToolFilter | None = None
    servers: frozenset[str] = frozenset()
    each_turn: bool = False

    @property
    def is_dynamic(self) -> bool:
        """Whether the tools are selected for each run."""
        return self.filter is not None or isinstance(self.source, ContextFunction)

    def renamed(self, tools: Sequence[Tool]) -> Result[tuple[Tool, ...], errors.InvalidConfig]:
        """Return the tools to use, under their new names."""
        made: list[Tool] = []
        for tool in tools:
            if self.only is not None and tool.name not in self.only:
                continue
            name = self.rename.get(tool.name) or self.prefix + tool.name
            if not valid_tool_name(name) or name in RESERVED_NAMES:
                expected = "1 to 64 letters, digits, '_' and '-', and no name of the kernel's own tools"
                return Failure(errors.InvalidConfig("toolset", repr(name), expected))
            made.append(tool if name == tool.name else evolve(tool, name=name))
        return Success(tuple(made))


class Toolsets:
    """Implements ``RunToolsets`` over functions of this process.

    Args:
        toolsets: the toolsets that are selected for each run.
        service: creates the service for the tools of a run.
    """

    def __init__(
        self, toolsets: Sequence[ToolGroup], service: Callable[[Sequence[Tool]], LocalToolService]
    ) -> None:
        self._toolsets = tuple(toolsets)
        self._service = service

    @property
    def is_dynamic(self) -> bool:
        """Whether some tools of the agent are selected for each run."""
        return bool(self._toolsets)

    @effect
    async def tools_of(
        self, context: RunContext[Any], added: Sequence[Any], tools: ToolService | None
    ) -> Result[Maybe[ToolService], errors.InvalidConfig | errors.ServiceFailed]:
        """Return the tools of a run; fails as the port says."""
        chosen: list[Tool] = []
        hidden: frozenset[str] = frozenset()
        filters: list[tuple[ToolFilter, frozenset[str]]] = []
        for toolset in self._toolsets:
            if toolset.servers and tools is not None:
                if toolset.filter is not None and toolset.each_turn:
                    filters.append((toolset.filter, _of_servers(tools, toolset.servers)))
                    continue
                refused = await _refused(toolset, context, tools)
                if isinstance(refused, Failure):
                    return Failure(refused.failure())
                hidden |= refused.unwrap()
                continue
            found = await _chosen(toolset, context)
            if isinstance(found, Failure):
                return Failure(found.failure())
            chosen += found.unwrap()
            if toolset.filter is not None and toolset.each_turn:
                filters.append((toolset.filter, frozenset(tool.name for tool in found.unwrap())))
        if tools is not None and hidden:
            tools = CombinedTools((tools,), hidden)
        taken = {} if tools is None else {each.name: each for each in tools.definitions()}
        names = set(taken)
        for tool in (*chosen, *added):
            if tool.name in names:
                return Failure(errors.InvalidConfig("tools", repr(tool.name), "each tool name once"))
            if not is_of_type(context.deps, tool.deps_type):
                has, wants = type(context.deps).__name__, type_name(tool.deps_type)
                got = f"{tool.name!r}, which takes RunContext[{wants}]"
                return Failure(
                    errors.InvalidConfig("tools", got, f"tools for the dependencies of the run, a {has}")
                )
            names.add(tool.name)
        every = (*chosen, *added)
        services = [] if tools is None else [tools]
        services += [self._service(every)] if every else []
        if len(services) + len(filters) > 1:
            return Success(Some(CombinedTools(services, filters=filters)))
        return Success(Maybe.from_optional(next(iter(services), None)))


async def _chosen(
    toolset: ToolGroup, context: RunContext[Any]
) -> Result[tuple[Tool, ...], errors.InvalidConfig | errors.ServiceFailed]:
    source = toolset.source
    if isinstance(source, ContextFunction):
        found = await _made(source, context)
        if isinstance(found, Failure):
            return found
        source = found.unwrap()
    renamed = toolset.renamed(source)
    if toolset.filter is None or toolset.each_turn or isinstance(renamed, Failure):
        return renamed
    found_tools = renamed.unwrap()
    kept = await _filtered([tool.definition for tool in found_tools], toolset.filter, context)
    return kept.map(lambda names: tuple([tool for tool in found_tools if tool.name in names]))


async def _refused(
    toolset: ToolGroup, context: RunContext[Any], tools: ToolService
) -> Result[frozenset[str], errors.ServiceFailed]:
    """Return the names of the tools of MCP servers that the run does not have."""
    theirs = _of_servers(tools, toolset.servers)
    if toolset.filter is None or not theirs:
        return Success(frozenset())
    listed = [each for each in tools.definitions() if each.name in theirs]
    kept = await _filtered(listed, toolset.filter, context)
    return kept.map(lambda names: theirs - names)


async def _made(
    function: ContextFunction, context: RunContext[Any]
) -> Result[tuple[Tool, ...], errors.InvalidConfig | errors.ServiceFailed]:
    try:
        found = await function.call(context)
        if isinstance(found, str) or not isinstance(found, Sequence):
            return Failure(_failed(function.name, f"returned {abbreviated(found)}, expected a list of tools"))
        for each in found:
            if not isinstance(each, Tool) and not callable(each):
                return Failure(_failed(function.name, f"returned {abbreviated(each)}, expected tools"))
        return Success(tuple([_checked(as_tool(each)) for each in found]))
    except ToolDefinitionError as error:
        return Failure(_failed(function.name, f"returned what cannot be a tool: {error}"))
    except Exception as error:  # noqa: BLE001 - a function of the program
        _log.warning("The toolset function %r raised.", function.name, exc_info=error)
        return Failure(_failed(function.name, f"raised {type(error).__name__}: {error}"))


def _checked(tool: Tool) -> Tool:
    tool.definition  # noqa: B018 - raises where the annotations have no JSON form
    return tool


async def _filtered(
    definitions: Sequence[ToolDefinition], keeps: ToolFilter, context: RunContext[Any]
) -> Result[frozenset[str], errors.ServiceFailed]:
    name = getattr(keeps, "__qualname__", type(keeps).__qualname__).rpartition("<locals>.")[2]
    try:
        if inspect.iscoroutinefunction(keeps):
            kept = [await call_function(keeps, context, each) for each in definitions]
        else:
            kept = await call_function(lambda: [keeps(context, each) for each in definitions])
    except Exception as error:  # noqa: BLE001 - a function of the program
        _log.warning("The toolset function %r raised.", name, exc_info=error)
        return Failure(_failed(name, f"raised {type(error).__name__}: {error}"))
    wrong = [each for each in kept if not isinstance(each, bool)]
    if wrong:
        return Failure(_failed(name, f"returned {abbreviated(wrong[0])}, expected True or False"))
    named = zip(definitions, kept, strict=True)
    return Success(frozenset([each.name for each, keep in named if keep]))


def _failed(name: str, problem: str) -> errors.ServiceFailed:
    return errors.ServiceFailed(f"The toolset function {name!r} {problem}.", "toolset", name)
