"""The tools that come with the package."""

from __future__ import annotations

from reactive_agents.adapters.tools.builtin.calculator import calculator
from reactive_agents.adapters.tools.builtin.files import file_list, file_read, file_search, file_write
from reactive_agents.adapters.tools.builtin.shell import shell, shell_tool
from reactive_agents.adapters.tools.builtin.web import http_get, http_get_tool, web_search, web_search_tool
from reactive_agents.adapters.tools.decorator import Tool

__all__ = [
    "builtin_tools",
    "calculator",
    "file_list",
    "file_read",
    "file_search",
    "file_write",
    "http_get",
    "http_get_tool",
    "shell",
    "shell_tool",
    "web_search",
    "web_search_tool",
]


def builtin_tools() -> dict[str, Tool]:
    """Return the built-in tools by name; ``shell`` is refused without an approver."""
    files: tuple[Tool, ...] = (file_list, file_search, file_read, file_write)
    return {tool.name: tool for tool in (calculator, *files, http_get, web_search, shell)}
