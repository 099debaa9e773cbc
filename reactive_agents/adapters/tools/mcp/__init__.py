"""Tools of MCP servers; the MCP library is loaded when a server is opened."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.adapters.tools.mcp.server import McpServer
    from reactive_agents.adapters.tools.mcp.service import McpTools

__all__ = ["McpServer", "McpTools"]

if not TYPE_CHECKING:  # else type checkers accept any name
    __getattr__ = lazy_names(
        __name__,
        {
            "McpServer": "reactive_agents.adapters.tools.mcp.server",
            "McpTools": "reactive_agents.adapters.tools.mcp.service",
        },
    )
