"""References of a configuration: tools and functions by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from os.path import isdir, isfile
from traceback import extract_tb
from types import CodeType, ModuleType
from typing import Any, Protocol, cast

import attrs
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools import mcp
from reactive_agents.adapters.tools.combined import ToolGroup
from reactive_agents.adapters.tools.decorator import Tool, as_tool, ask_user, external_tool
from reactive_agents.adapters.tools.signature import ToolDefinitionError
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.config import ExternalToolConfig
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.run_context import (
    ContextFunction,
    can_take,
    context_function,
    is_subtype,
    type_name,
)
from reactive_agents.core.tools import RESERVED_NAMES


def imported(
    reference: str, option: str, *, what: str = "module:function", anywhere: bool = False
) -> Result[Any, InvalidConfig]:
    """Return the object of that name.

    Args:
        reference: ``module:function``; the function may be an attribute of an object in the module. It has to
            be defined in the package of the module, since to allow a module is not to allow its imports.
        option: the name of the option in the failure.
        what: what is expected, in the failure.
        anywhere: whether the module may import it, since the name was not read from a file.
    """

    def failed(reason: str) -> Failure[InvalidConfig]:
        return Failure(InvalidConfig(option, repr(reference), f"{what} that exists ({reason})"))

    module, _, path = reference.partition(":")
    if module.startswith("."):
        return failed("the module needs an absolute name")
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module runs whatever it holds
        place = _place_of(error)
        if place or not isinstance(error, ModuleNotFoundError):
            return failed(f"importing it raised {type(error).__name__}: {error}{place}")
        return failed(f"{error}{_place_hint(error.name or module)}")
    try:
        for attribute in path.split("."):
            if attribute.startswith("__"):
                return failed(f"{attribute} is not one of its functions")
            found = getattr(found, attribute)
            if isinstance(found, ModuleType):
                return failed(f"{attribute} is a module: name it before the colon")
    except AttributeError as error:
        return failed(str(error))
    home = None if anywhere else _home_of(found)
    if home is not None and _package(home) != _package(module):
        return failed(f"{module} only imports it: name {home}, where it is defined")
    return Success(found)


def _place_of(error: BaseException) -> str:
    """Return the line of a module at which importing it failed; empty for none."""
    frames = [each for each in extract_tb(error.__traceback__) if not each.filename.startswith("<frozen")]
    frames = [each for each in frames if each.filename not in (__file__, importlib.__file__)]
    return f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""


def _place_hint(missing: str) -> str:
    """Return a hint for a module that is in the working directory."""
    top = missing.partition(".")[0]
    if not (isdir(top) or isfile(f"{top}.py")):
        return ""
    return "; it is in the working directory: set PYTHONPATH=. or run python -m reactive_agents"


def _home_of(found: object) -> str | None:
    """Return the module in which a function or class is; ``None`` for other objects."""
    function = found.function if isinstance(found, Tool) else found
    is_code = inspect.isroutine(function) or inspect.isclass(function)
    home = getattr(function, "__module__", None) if is_code else None
    return home if isinstance(home, str) else None


def _package(module: str) -> str:
    return module.partition(".")[0].lstrip("_")


# --- Tools by name: from a configuration to tools, and back ---


ToolLike = Tool | Callable[..., Any] | str


class PlainFunction(Protocol):
    """A function, as opposed to a tool, to type checkers."""

    @property
    def __code__(self) -> CodeType: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...


def find_tool(source: ToolLike) -> Result[Tool, InvalidConfig]:
    """Return the tool of a tool, function, built-in name, or ``module:function``."""
    if not isinstance(source, str):
        return _checked_tool(source)
    builtin = _builtin_tools()
    if source in builtin:
        return Success(builtin[source])
    if ":" not in source:
        known = ", ".join(builtin)
        return Failure(InvalidConfig("tools", repr(source), f"one of {known}, or module:function"))
    return _imported(source)


def described_tool(config: ExternalToolConfig) -> Result[Tool, InvalidConfig]:
    """Return the external tool of a configuration."""
    options = attrs.asdict(config, recurse=False)
    try:
        return Success(external_tool(options.pop("name"), options.pop("parameters"), **options))
    except ToolDefinitionError as error:
        return Failure(InvalidConfig("external_tools", repr(config.name), f"a valid tool ({error})"))


def tool_description(tool: Tool) -> ExternalToolConfig | None:
    """Return the configuration of an external tool without a rule, or ``None``."""
    schema = tool.given_schema
    if schema is None or not isinstance(tool.requires_approval, bool):
        return None
    _, _, _, *options = (each.name for each in attrs.fields(ExternalToolConfig))
    given = {each: getattr(tool, each) for each in options}
    return ExternalToolConfig(tool.name, tool.definition.description, schema.json_schema, **given)


def _builtin_tools() -> dict[str, Tool]:
    from reactive_agents.adapters.tools.builtin import builtin_tools  # files, processes and the web

    return {**builtin_tools(), ask_user.name: ask_user}


def tool_reference(tool: Tool) -> Result[str, InvalidConfig]:
    """Return a tool's name for :func:`find_tool`, or ``InvalidConfig`` without one."""
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


def read_toolset(
    tools: object,
    *,
    prefix: object = "",
    rename: object = None,
    only: object = None,
    keeps: object = None,
    each_turn: object = False,
    prepare: object = None,
) -> Result[ToolGroup, InvalidConfig]:
    """Return the toolset of a builder's arguments, or the first ``InvalidConfig``."""
    names = {} if rename is None else rename
    problem = _problem_of_options(prefix, names, only, keeps, each_turn, prepare)
    if problem is not None:
        return Failure(problem)
    source = _source(tools)
    if isinstance(source, Failure):
        return source
    found = source.unwrap()
    toolset = ToolGroup(
        found,
        cast(str, prefix),
        dict(cast(Mapping[str, str], names)),
        None if only is None else frozenset(cast(Collection[str], only)),
        each_turn=cast(bool, each_turn),
        filter=cast(Any, keeps),
        prepare=cast(Any, prepare),
    )
    return Success(toolset) if isinstance(found, ContextFunction) else _with_known_names(toolset, found)


def _problem_of_options(
    prefix: object, rename: object, only: object, keeps: object, each_turn: object, prepare: object
) -> InvalidConfig | None:
    """Return the first option of a toolset that is none, whatever its tools are."""

    def is_name(value: object) -> bool:
        return isinstance(value, str) and bool(value)

    if not isinstance(prefix, str):
        return InvalidConfig("toolset.prefix", abbreviated(prefix), "a text")
    if not isinstance(rename, Mapping) or not all(is_name(each) for pair in rename.items() for each in pair):
        return InvalidConfig("toolset.rename", abbreviated(rename), "new names by names of tools")
    if only is not None and (
        isinstance(only, str)
        or not isinstance(only, Collection)
        or not all(isinstance(each, str) for each in only)
    ):
        return InvalidConfig("toolset.only", abbreviated(only), "names of tools")
    for option, asked in (("filter", keeps), ("prepare", prepare)):
        if asked is not None and not (callable(asked) and can_take(asked, 2)):
            expected = "a function of the RunContext and the ToolDefinition"
            return InvalidConfig(f"toolset.{option}", abbreviated(asked), expected)
    if not isinstance(each_turn, bool) or (each_turn and keeps is None):
        return InvalidConfig("toolset.each_turn", abbreviated(each_turn), "False, or True with a filter")
    return None


def _with_known_names(toolset: ToolGroup, tools: tuple[Tool, ...]) -> Result[ToolGroup, InvalidConfig]:
    """Return a toolset whose options name its tools, and whose new names differ."""
    known = {tool.name for tool in tools}
    for option, given in (("rename", toolset.rename), ("only", sorted(toolset.only or ()))):
        unknown = [name for name in given if name not in known]
        if unknown:
            expected = f"names of the toolset's tools: {', '.join(sorted(known)) or 'it has none'}"
            return Failure(InvalidConfig(f"toolset.{option}", repr(unknown[0]), expected))
    named = toolset.renamed(tools)
    if isinstance(named, Failure):
        return named
    new = [tool.name for tool in named.unwrap()]
    twice = [name for name in new if new.count(name) > 1]
    if twice:
        return Failure(InvalidConfig("toolset", repr(twice[0]), "each tool name once"))
    return Success(toolset)


def static_tools(toolset: ToolGroup) -> tuple[Tool, ...]:
    """Return the tools of a toolset that are the same in every run."""
    return () if isinstance(toolset.source, ContextFunction) else toolset.renamed(toolset.source).unwrap()


def find_tools(given: object) -> Result[tuple[Tool, ...], InvalidConfig]:
    """Return the tools of a list of functions, tools and names."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        return Failure(InvalidConfig("tools", abbreviated(given), "a list of tools"))
    found: list[Tool] = []
    for each in given:
        tool = find_tool(each)
        if isinstance(tool, Failure):
            return Failure(tool.failure())
        found.append(tool.unwrap())
    return Success(tuple(found))


def _source(tools: object) -> Result[tuple[Tool, ...] | ContextFunction, InvalidConfig]:
    if not callable(tools):
        return find_tools(tools)
    function = None if isinstance(tools, Tool) else context_function(tools)
    if function is None:
        expected = "a list of tools, or a function that takes a RunContext or nothing and returns one"
        return Failure(InvalidConfig("toolset", abbreviated(tools), expected))
    return Success(function)


def wrong_deps_of(tools: Iterable[Tool], deps: Any) -> InvalidConfig | None:
    """Return the error of the first tool that takes dependencies of another type."""
    try:
        return next(filter(None, (wrong_tool_deps(tool, deps) for tool in tools)), None)
    except ToolDefinitionError:  # the error of the service that is made of them
        return None


def wrong_tool_deps(tool: Tool, deps: Any) -> InvalidConfig | None:
    """Return the error of a tool that takes dependencies of another type."""
    if is_subtype(deps, tool.deps_type):
        return None
    wanted = type_name(tool.deps_type)
    has = f"an agent with deps={type_name(deps)}, as here" if deps is not None else "an agent without deps"
    expected = f"a tool for {has}, or create(deps={wanted})"
    return InvalidConfig("tools", f"{tool.name!r}, which takes RunContext[{wanted}]", expected)


def _is_option(attribute: attrs.Attribute[Any], _: object) -> bool:
    return attribute.name != "signature"


def _checked_tool(source: Tool | Callable[..., Any]) -> Result[Tool, InvalidConfig]:
    if not callable(source):
        expected = "a function, a tool, or the name of one"
        if isinstance(source, list | tuple):
            expected += "; those of a list as with_tools(*tools)"
        elif hasattr(source, "run_effect"):
            expected += "; agent_tool(agent) makes a tool of an agent"
        elif hasattr(source, "build_effect"):
            expected += "; agent_tool(builder.build()) makes a tool of an agent"
        elif isinstance(source, mcp.McpServer):
            expected += "; with_mcp(server) adds those of a server"
        elif callable(getattr(source, "tool", None)):
            expected += "; its tool() makes one"
        return Failure(InvalidConfig("tools", abbreviated(source), expected))
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
    return imported(reference, "tools").bind(_checked_tool)
