"""Tools of MCP servers. Importing this loads no MCP library; opening a server does."""

from __future__ import annotations

from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.adapters.tools.mcp.service import McpTools

__all__ = ["McpServer", "McpTools"]
