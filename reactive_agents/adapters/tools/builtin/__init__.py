"""The tools that come with the package."""

from __future__ import annotations

from reactive_agents.adapters.tools.builtin.calculator import calculator
from reactive_agents.adapters.tools.builtin.file_read import file_read
from reactive_agents.adapters.tools.builtin.file_search import file_search
from reactive_agents.adapters.tools.builtin.file_write import file_write
from reactive_agents.adapters.tools.decorator import Tool

__all__ = ["builtin_tools", "calculator", "file_read", "file_search", "file_write"]


def builtin_tools() -> dict[str, Tool]:
    """All of them by name: ``calculator``, ``file-search``, ``file-read`` and ``file-write``."""
    tools: tuple[Tool, ...] = (calculator, file_search, file_read, file_write)
    return {tool.name: tool for tool in tools}
