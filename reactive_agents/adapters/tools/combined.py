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

from reactive_agents.adapters.tools.decorator import Tool, as_tool, given_schema, valid_tool_name
from reactive_agents.adapters.tools.signature import ToolDefinitionError, prefixed_name
from reactive_agents.core import errors
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.json import Json, copied_json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.run_context import ContextFunction, RunContext, is_of_type, type_name
from reactive_agents.core.texts import with_article
from reactive_agents.core.tools import RESERVED_NAMES, ToolDefinition, ToolResult, ToolScope, TurnChanges
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
        asked: toolsets with functions that are asked before each turn of the model, with their tools' names.

    Attributes:
        asked_each_turn: whether there are such toolsets.
    """

    def __init__(
        self,
        services: Sequence[ToolService],
        hidden: frozenset[str] = frozenset(),
        asked: Sequence[tuple[ToolGroup, frozenset[str]]] = (),
    ) -> None:
        self._services = tuple(services)
        self._hidden = hidden
        self._asked = tuple(asked)
        self.asked_each_turn = bool(asked)
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

    async def turn_changes(self, context: RunContext[Any]) -> Result[TurnChanges, errors.ServiceFailed]:
        """Return how the tools of the model's next turn differ from those of the run.

        Fails with ``ServiceFailed``, which names the function, if one raises or returns anything else than it
        may.
        """
        withheld: set[str] = set()
        changed: list[ToolDefinition] = []
        for toolset, names in self._asked:
            given = [each for each in self.definitions() if each.name in names]
            if toolset.filter is not None and toolset.each_turn:
                kept = await _filtered(given, toolset.filter, context)
                if isinstance(kept, Failure):
                    return Failure(kept.failure())
                given = [each for each in given if each.name in kept.unwrap()]
            if toolset.prepare is not None:
                prepared = await _prepared(given, toolset.prepare, context)
                if isinstance(prepared, Failure):
                    return Failure(prepared.failure())
                pairs = list(zip(given, prepared.unwrap(), strict=True))
                changed += [new for own, new in pairs if new is not None and new is not own]
                given = [own for own, new in pairs if new is not None]
            withheld |= names - {each.name for each in given}
        return Success((*sorted(withheld), *changed))

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

ToolPreparation: TypeAlias = Callable[[RunContext[Any], ToolDefinition], Any]
"""Return the definition of a tool for a turn, or ``None`` to leave the tool out; sync or async."""


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
        prepare: returns the definitions of each turn of the model; ``None`` for those of the tools.
    """

    source: tuple[Tool, ...] | ContextFunction
    prefix: str = ""
    rename: Mapping[str, str] = field(factory=dict)
    only: frozenset[str] | None = None
    filter: ToolFilter | None = None
    servers: frozenset[str] = frozenset()
    each_turn: bool = False
    prepare: ToolPreparation | None = None

    @property
    def is_dynamic(self) -> bool:
        """Whether the tools are selected for each run."""
        return self.asks_each_turn or self.filter is not None or isinstance(self.source, ContextFunction)

    @property
    def asks_each_turn(self) -> bool:
        """Whether a function is asked before each turn of the model."""
        return self.prepare is not None or self.each_turn

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
        asked: list[tuple[ToolGroup, frozenset[str]]] = []
        for toolset in self._toolsets:
            if toolset.servers and tools is not None:
                if toolset.asks_each_turn:
                    asked.append((toolset, _of_servers(tools, toolset.servers)))
                if toolset.each_turn:
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
            if toolset.asks_each_turn:
                asked.append((toolset, frozenset(tool.name for tool in found.unwrap())))
        if tools is not None and hidden:
            tools = CombinedTools((tools,), hidden)
        taken = {} if tools is None else {each.name: each for each in tools.definitions()}
        names = set(taken)
        for tool in (*chosen, *added):
            if tool.name in names:
                return Failure(errors.InvalidConfig("tools", repr(tool.name), "each tool name once"))
            if not is_of_type(context.deps, tool.deps_type):
                has, wants = with_article(type(context.deps).__name__), type_name(tool.deps_type)
                got = f"{tool.name!r}, which takes RunContext[{wants}]"
                return Failure(
                    errors.InvalidConfig("tools", got, f"tools for the dependencies of the run, {has}")
                )
            names.add(tool.name)
        every = (*chosen, *added)
        services = [] if tools is None else [tools]
        services += [self._service(every)] if every else []
        if len(services) + len(asked) > 1:
            return Success(Some(CombinedTools(services, asked=asked)))
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
    asked = await _asked(definitions, keeps, context)
    if isinstance(asked, Failure):
        return Failure(asked.failure())
    kept = asked.unwrap()
    wrong = [each for each in kept if not isinstance(each, bool)]
    if wrong:
        return Failure(_failed(_name_of(keeps), f"returned {abbreviated(wrong[0])}, expected True or False"))
    named = zip(definitions, kept, strict=True)
    return Success(frozenset([each.name for each, keep in named if keep]))


async def _prepared(
    definitions: Sequence[ToolDefinition], prepare: ToolPreparation, context: RunContext[Any]
) -> Result[list[ToolDefinition | None], errors.ServiceFailed]:
    """Return the definitions of a turn; the same object for one that is not changed."""
    copies = [evolve(each, parameters=copied_json(each.parameters)) for each in definitions]
    asked = await _asked(copies, prepare, context)
    if isinstance(asked, Failure):
        return Failure(asked.failure())
    prepared: list[ToolDefinition | None] = []
    for own, new in zip(definitions, asked.unwrap(), strict=True):
        if isinstance(new, ToolDefinition):
            new = evolve(new)  # without what was computed of it before it was changed
            problem = "" if new == own else _problem_of(new, own)
        else:
            expected = "expected the ToolDefinition, changed or not, or None"
            problem = "" if new is None else f"returned {abbreviated(new)}, {expected}"
        if problem:
            return Failure(_failed(_name_of(prepare), problem))
        prepared.append(own if new == own else new)
    return Success(prepared)


def _problem_of(new: ToolDefinition, own: ToolDefinition) -> str:
    """Return why a definition cannot stand in for a tool's own; empty if it can."""
    if evolve(new, description=own.description, parameters=own.parameters) != own:
        return f"changed more of the tool {own.name!r} than its description and parameters"
    if not isinstance(new.description, str):
        return f"gave the tool {own.name!r} the description {abbreviated(new.description)}, expected a text"
    try:
        given_schema(own.name, new.parameters)
    except ToolDefinitionError as error:
        return f"returned parameters that cannot be used. {error}"
    if own.parameters.get("additionalProperties") is False and "patternProperties" not in own.parameters:
        added = [each for each in _properties(new) if each not in _properties(own)]
        if added:  # no call with it would fit the tool
            return f"gave the tool {own.name!r} the parameter {added[0]!r}, which it does not take"
    return ""


def _properties(definition: ToolDefinition) -> Sequence[str]:
    properties = definition.parameters.get("properties")
    return tuple(properties) if isinstance(properties, dict) else ()


async def _asked(
    definitions: Sequence[ToolDefinition], function: Callable[..., Any], context: RunContext[Any]
) -> Result[list[Any], errors.ServiceFailed]:
    """Return what a function of the program returns for each definition."""
    try:
        if inspect.iscoroutinefunction(function):
            return Success([await call_function(function, context, each) for each in definitions])
        return Success(await call_function(lambda: [function(context, each) for each in definitions]))
    except Exception as error:  # noqa: BLE001 - a function of the program
        name = _name_of(function)
        _log.warning("The toolset function %r raised.", name, exc_info=error)
        return Failure(_failed(name, f"raised {type(error).__name__}: {error}"))


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__).rpartition("<locals>.")[2]


def _failed(name: str, problem: str) -> errors.ServiceFailed:
    return errors.ServiceFailed(f"The toolset function {name!r} {problem}.", "toolset", name)
