"""The tools that servers list, as tool definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen

from reactive_agents.adapters.tools.json_value import as_text, to_json_value
from reactive_agents.adapters.tools.mcp.names import prefixed_name, valid_name
from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.core.json import JsonObject
from reactive_agents.core.tools import Risk, ToolDefinition

if TYPE_CHECKING:
    from mcp.types import Tool

Listing: TypeAlias = tuple[McpServer, "Sequence[Tool]"]


@frozen
class ListedTool:
    """A tool of a server. ``name``: what the server calls it, which may differ from the definition's."""

    server: McpServer
    name: str
    definition: ToolDefinition


def define_tools(listings: Sequence[Listing], taken: Collection[str]) -> tuple[ListedTool, ...]:
    """The tools of all servers, in order, each under a name of its own.

    A tool keeps its name, made valid, unless another server has a tool of that name or it is taken; then it
    is ``<server>-<name>``. Of two tools that one server gives the same name, the first is there.

    Args:
        taken: names that other tools of the agent have.
    """
    offered = [(server, tool) for server, tools in listings for tool in _once(tools)]
    counts = Counter(valid_name(tool.name) for _, tool in offered)
    plain = {name for name, count in counts.items() if count == 1}
    used = set(taken) | plain
    listed = []
    for server, tool in offered:
        name = valid_name(tool.name)
        if name not in plain or name in taken:
            name = prefixed_name(server.name, tool.name, used)
            used.add(name)
        listed.append(ListedTool(server, tool.name, _definition(server, tool, name)))
    return tuple(listed)


def _once(tools: Sequence[Tool]) -> list[Tool]:
    return list({tool.name: tool for tool in reversed(tools)}.values())[::-1]


def _definition(server: McpServer, tool: Tool, name: str) -> ToolDefinition:
    hints = tool.annotations
    reads_only = hints is not None and hints.read_only_hint is True
    destructive = not reads_only and (hints is None or hints.destructive_hint is not False)
    risk: Risk = "low" if reads_only else "high" if destructive else "medium"
    title = tool.title or (hints.title if hints is not None else None)
    return ToolDefinition(
        name=name,
        description=as_text(tool.description or title or tool.name.replace("_", " ")),
        parameters=_parameters(tool),
        timeout_s=server.timeout_s,
        requires_approval=server.approve == "always" or (server.approve == "destructive" and destructive),
        risk=risk,
        idempotent=reads_only or (hints is not None and hints.idempotent_hint is True),
    )


def _parameters(tool: Tool) -> JsonObject:
    schema = to_json_value(tool.input_schema)
    made: JsonObject = schema if isinstance(schema, dict) else {}
    return {"type": "object", **({} if "properties" in made else {"properties": {}}), **made}
