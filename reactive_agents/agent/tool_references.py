"""References of a configuration: tools and functions by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import CodeType
from typing import Any, Protocol

import attrs
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.decorator import Tool, as_tool
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.run_context import is_subtype, type_name
from reactive_agents.core.tools import RESERVED_NAMES


def imported(reference: str, option: str) -> Result[Any, InvalidConfig]:
    """Return the object of that name.

    Args:
        reference: ``module:function``; the function may be an attribute of something in the module.
        option: the name of the option in the failure.
    """

    def failed(reason: str) -> Failure[InvalidConfig]:
        return Failure(InvalidConfig(option, repr(reference), f"module:function that exists ({reason})"))

    module, _, path = reference.partition(":")
    if module.startswith("."):
        return failed("the module needs an absolute name")
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module runs whatever it holds
        missing = isinstance(error, ModuleNotFoundError)
        return failed(f"{error}" if missing else f"importing it raised {type(error).__name__}: {error}")
    try:
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except AttributeError as error:
        return failed(str(error))
    return Success(found)


# --- Tools by name: from a configuration to tools, and back ---


ToolLike = Tool | Callable[..., Any] | str


class PlainFunction(Protocol):
    """A function, as opposed to a tool, to type checkers."""

    @property
    def __code__(self) -> CodeType:
        """The compiled body."""
        ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        ...


class ToolsOfOtherDeps:
    """The type of a builder whose tools take other dependencies than its agent has."""


def find_tool(source: ToolLike) -> Result[Tool, InvalidConfig]:
    """Return the tool of a function or a name.

    Args:
        source: a tool, a typed function, the name of a built-in tool, or ``module:function``.
    """
    if not isinstance(source, str):
        return _made(source)
    builtin = _builtin_tools()
    if source in builtin:
        return Success(builtin[source])
    if ":" not in source:
        known = ", ".join(builtin)
        return Failure(InvalidConfig("tools", repr(source), f"one of {known}, or module:function"))
    return _imported(source)


def _builtin_tools() -> dict[str, Tool]:
    from reactive_agents.adapters.tools.builtin import builtin_tools  # files, processes and the web
    from reactive_agents.adapters.tools.external import ask_user

    return {**builtin_tools(), ask_user.name: ask_user}


def tool_reference(tool: Tool) -> Result[str, InvalidConfig]:
    """Return the name by which :func:`find_tool` finds a tool; fails without one."""
    name = tool.definition.name
    if _builtin_tools().get(name) is tool:
        return Success(name)
    function = tool.function
    reference = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    if not reference.startswith("__main__:"):
        found = _imported(reference)
        if not isinstance(found, Failure) and alike(found.unwrap(), tool):
            return Success(reference)
    expected = "a built-in tool or a function at the top of an importable module, to be serialised"
    return Failure(InvalidConfig("tools", repr(name), expected))


def alike(one: Tool, other: Tool) -> bool:
    """Return whether the two are the same function with the same options."""
    return attrs.asdict(one, recurse=False, filter=_is_option) == attrs.asdict(
        other, recurse=False, filter=_is_option
    )


def wrong_tool_deps(tool: Tool, deps: Any) -> InvalidConfig | None:
    """Return the problem of a tool that takes other dependencies than an agent has."""
    if is_subtype(deps, tool.deps_type):
        return None
    wanted = type_name(tool.deps_type)
    has = f"an agent with deps={type_name(deps)}, as here" if deps is not None else "an agent without deps"
    expected = f"a tool for {has}, or create(deps={wanted})"
    return InvalidConfig("tools", f"{tool.name!r}, which takes RunContext[{wanted}]", expected)


def _is_option(attribute: attrs.Attribute[Any], _: object) -> bool:
    return attribute.name != "signature"


def _made(source: Tool | Callable[..., Any]) -> Result[Tool, InvalidConfig]:
    if not callable(source) and not isinstance(source, Tool):
        return Failure(InvalidConfig("tools", abbreviated(source), "a function, a tool, or the name of one"))
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
