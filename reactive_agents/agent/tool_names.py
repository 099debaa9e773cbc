"""Tools by name: from a configuration to tools, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.adapters.tools.decorator import Tool, as_tool
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.agent.references import imported
from reactive_agents.core.decode_problems import shown
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.tools import RESERVED_NAMES

ToolLike = Tool | Callable[..., Any] | str


def find_tool(source: ToolLike) -> Result[Tool, InvalidConfig]:
    """The tool that a function is, or that a name stands for.

    Args:
        source: a tool, a typed function, the name of a built-in tool, or ``module:function``.
    """
    if not isinstance(source, str):
        return _made(source)
    builtin = builtin_tools()
    if source in builtin:
        return Success(builtin[source])
    if ":" not in source:
        known = ", ".join(builtin)
        return Failure(InvalidConfig("tools", repr(source), f"one of {known}, or module:function"))
    return _imported(source)


def tool_reference(tool: Tool) -> Result[str, InvalidConfig]:
    """The name that :func:`find_tool` finds the same tool by; fails for what cannot be imported by name."""
    name = tool.definition.name
    if builtin_tools().get(name) is tool:
        return Success(name)
    function = tool.function
    reference = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    if not reference.startswith("__main__:"):
        found = _imported(reference)
        if not isinstance(found, Failure) and alike(found.unwrap(), tool):
            return Success(reference)
    expected = "a built-in tool or a function at the top of an importable module, to be written as data"
    return Failure(InvalidConfig("tools", repr(name), expected))


def alike(one: Tool, other: Tool) -> bool:
    """Whether the two are the same function with the same options."""
    return attrs.asdict(one, recurse=False, filter=_is_option) == attrs.asdict(
        other, recurse=False, filter=_is_option
    )


def _is_option(attribute: attrs.Attribute[Any], _: object) -> bool:
    return attribute.name != "signature"


def _made(source: Tool | Callable[..., Any]) -> Result[Tool, InvalidConfig]:
    if not callable(source) and not isinstance(source, Tool):
        return Failure(InvalidConfig("tools", shown(source), "a function, a tool, or the name of one"))
    try:
        tool = as_tool(source)
        name = tool.definition.name
    except ToolDefinitionError as error:
        name = getattr(source, "__name__", repr(source))
        return Failure(InvalidConfig("tools", name, f"a function that can be a tool: {error}"))
    if name in RESERVED_NAMES:
        return Failure(InvalidConfig("tools", repr(name), "another name: the kernel has a tool of that name"))
    return Success(tool)


def _imported(reference: str) -> Result[Tool, InvalidConfig]:
    return imported(reference, "tools").bind(_made)
