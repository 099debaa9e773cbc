"""The definitions of MCP tools as they were approved, across processes."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from typing import Final

from attrs import frozen
from returns.result import Result

from reactive_agents.adapters.sqlite import DatabasePath, SqliteFile, Store
from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import effect

_SERVICE: Final = "mcp-tools"
KNOWN_TOOLS = Store(
    _SERVICE,
    (
        (
            "CREATE TABLE IF NOT EXISTS mcp_tools (server TEXT NOT NULL, tool TEXT NOT NULL,"
            " description TEXT NOT NULL, parameters TEXT NOT NULL, PRIMARY KEY (server, tool)) WITHOUT ROWID",
        ),
    ),
)
"""Descriptions and schemas by server, which is a hash of its name and place, and tool."""

FILE_NAME = "mcp-tools.db"
_SHOWN_CHARS = 600
_SELECT = "SELECT description, parameters FROM mcp_tools WHERE server = ? AND tool = ?"
_KEEP = "INSERT OR REPLACE INTO mcp_tools VALUES (?, ?, ?, ?)"


@frozen
class SeenTool:
    """The definition of a tool that a server lists; ``name`` is the server's."""

    server: McpServer
    name: str
    definition: ToolDefinition

    @property
    def key(self) -> tuple[str, str]:
        """The server and the tool, as they are stored."""
        server = self.server
        place = json.dumps([server.name, server.command, server.args, server.url])
        return hashlib.sha256(place.encode(errors="replace")).hexdigest(), _storable(self.name)

    @property
    def texts(self) -> tuple[str, str]:
        """The description and the schema, as they are stored."""
        definition = self.definition
        return _storable(definition.description), json.dumps(definition.parameters, sort_keys=True)


class KnownTools:
    """Definitions in a SQLite file, for any number of processes.

    Args:
        path: the file; it is made for its owner alone.
    """

    def __init__(self, path: DatabasePath) -> None:
        self._file = SqliteFile(path, KNOWN_TOOLS, _failed)

    @effect
    async def changes(self, tools: Sequence[SeenTool]) -> Result[tuple[str, ...], ServiceFailed]:
        """Return the change of each tool as text; empty for none.

        It is compared with the definition that was seen first, or approved last. A tool that was
        never seen is stored.
        """

        def work(connection: sqlite3.Connection) -> tuple[str, ...]:
            found = []
            for tool in tools:
                known = connection.execute(_SELECT, tool.key).fetchone()
                if known is None:
                    connection.execute(_KEEP, (*tool.key, *tool.texts))
                found.append("" if known is None else _change(known, tool.texts))
            return tuple(found)

        return await self._file.write("compare", work)

    @effect
    async def approve(self, tool: SeenTool) -> Result[None, ServiceFailed]:
        """Store the definition of a tool in place of the earlier one."""

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP, (*tool.key, *tool.texts))

        return await self._file.write("approve", work)

    async def aclose(self) -> None:
        """Close the file."""
        await self._file.aclose()


def _change(before: tuple[str, str], now: tuple[str, str]) -> str:
    parts = [
        f"The {name} changed since the tool was approved, from {_shown(old, new)} to {_shown(new, old)}."
        for name, old, new in zip(("description", "schema"), before, now, strict=True)
        if old != new
    ]
    return " ".join(parts)


def _shown(text: str, other: str) -> str:
    """Return a text from shortly before it differs from the other."""
    same = next((i for i, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), len(other))
    start = max(0, same - _SHOWN_CHARS // 4)
    part = text[start : start + _SHOWN_CHARS]
    return f"{'…' if start else ''}{part!r}{'…' if start + _SHOWN_CHARS < len(text) else ''}"


def _storable(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _failed(message: str, operation: str) -> ServiceFailed:
    return ServiceFailed(message, _SERVICE, operation)
