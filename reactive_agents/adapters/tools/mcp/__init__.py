"""Tools of MCP servers; the MCP library is loaded when a server is opened."""

from __future__ import annotations

from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.adapters.tools.mcp.service import McpTools

__all__ = ["McpServer", "McpTools"]
