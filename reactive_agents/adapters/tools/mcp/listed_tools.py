"""The tools that servers list, as tool definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.call_checks import shorten
from reactive_agents.adapters.tools.combined import prefixed_name, valid_name
from reactive_agents.adapters.tools.json_value import as_text, to_json_value
from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments
from reactive_agents.core.json import JsonObject
from reactive_agents.core.tools import Risk, ToolDefinition

if TYPE_CHECKING:
    from collections.abc import Callable

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


# --- Arguments that a model sent, held against the JSON Schema that a server published ---


_SHOWN_PROBLEMS = 10


class ArgumentCheck:
    """Checks arguments against one schema; made once for a tool, since compiling a schema is slow.

    A schema that is not valid, or that cannot be followed without the network, is left to the server.
    """

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._find_errors: Callable[[JsonObject], Iterator[Any]] | None = None

    def __call__(self, tool_name: str, arguments: JsonObject) -> Result[None, InvalidToolArguments]:
        """``InvalidToolArguments``, which names each argument that does not fit; total for any arguments."""
        try:
            if self._find_errors is None:
                self._find_errors = _compile(self._schema)
            problems = tuple(_problems(self._find_errors(arguments)))
        except Exception:  # noqa: BLE001 - a schema is a program that a stranger wrote; the server checks as well
            return Success(None)
        if not problems:
            return Success(None)
        if len(problems) > _SHOWN_PROBLEMS:
            more = f"{len(problems) - _SHOWN_PROBLEMS} more problems"
            last = ArgumentProblem("further arguments", more, "valid values")
            problems = (*problems[:_SHOWN_PROBLEMS], last)
        return Failure(InvalidToolArguments(tool_name, problems))


def _compile(schema: JsonObject) -> Callable[[JsonObject], Iterator[Any]]:
    from jsonschema.validators import Draft202012Validator, validator_for  # type: ignore[import-untyped]
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    validator = kind(schema, registry=Registry())  # an empty registry: a reference is never fetched
    find: Callable[[JsonObject], Iterator[Any]] = validator.iter_errors
    return find


def _problems(errors: Iterator[Any]) -> Iterator[ArgumentProblem]:
    seen = set()
    for error in errors:
        for problem in _read(error):
            if problem not in seen:
                seen.add(problem)
                yield problem


def _read(error: Any) -> Iterator[ArgumentProblem]:
    path = error.json_path.removeprefix("$").removeprefix(".")
    match error.validator:
        case "required":
            for name in error.validator_value:
                if name not in error.instance:
                    yield ArgumentProblem(_join(path, name), "nothing", "a value, since it is required")
        case "additionalProperties" if (
            error.validator_value is False and "patternProperties" not in error.schema
        ):
            known = error.schema.get("properties", {})
            for name in error.instance:
                if name not in known:
                    expected = f"no argument of that name; known arguments: {', '.join(known) or 'none'}"
                    yield ArgumentProblem(_join(path, name), shorten(error.instance[name]), expected)
        case _:
            yield ArgumentProblem(path or "arguments", shorten(error.instance), _expected(error))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _expected(error: Any) -> str:
    limit = error.validator_value
    match error.validator:
        case "type":
            return "a value of type " + (" or ".join(limit) if isinstance(limit, list) else str(limit))
        case "enum":
            return f"one of {shorten(limit)}"
        case "const":
            return shorten(limit)
        case "minimum":
            return f"a number of at least {limit}"
        case "maximum":
            return f"a number of at most {limit}"
        case keyword:
            return f"a value that fits {keyword} {shorten(limit)} of the schema"
