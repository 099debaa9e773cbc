"""The usable tools of server listings, with checks of their arguments.

A listing is untrusted. A tool that is unreadable or has an invalid schema is left out with a warning; the
other tools of its server remain. Arguments are validated by jsonschema-rs, which never fetches a reference;
the cost of a validation is bounded in advance.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from attrs import define, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.json_value import as_text, first_problems, shorten, to_json_value
from reactive_agents.adapters.tools.mcp.server import McpServer, read_as, shown
from reactive_agents.adapters.tools.signature import prefixed_name, valid_name
from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import ASK_USER, RESERVED_NAMES, Risk, ToolDefinition

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError
    from mcp.types import Tool

_LENIENT_VERSION = "2025-11-25"
"""The protocol version until the server has sent its version."""

_LONGEST_TEXTS = 100_000
"""Characters of a definition; longer ones would take too long to check and send."""
_SHOWN_BLOCK = 2_000

_log = logging.getLogger("reactive_agents")

Listing: TypeAlias = tuple[McpServer, "Sequence[Tool]"]


@frozen
class ListedTool:
    """A tool of a server; ``name`` is the server's, the definition may have another.

    Attributes:
        hints: the server's hints about the tool, as JSON.
    """

    server: McpServer
    name: str
    definition: ToolDefinition
    check: ArgumentCheck
    hints: str


InspectText: TypeAlias = Callable[[str], str]
"""Return what is suspicious about a text, in a sentence; empty for nothing."""


def _nothing(_: str) -> str:
    return ""


@frozen
class WithheldTool:
    """A tool that is not offered, or with ``needs_approval`` only with approval."""

    server: str
    tool: str
    reason: str
    needs_approval: bool = False


_MOST_TOOLS = 500
"""The maximum of tools of one server, since each is part of every request."""


def define_tools(
    listings: Sequence[Listing],
    taken: Collection[str],
    inspect: InspectText = _nothing,
    withheld: list[WithheldTool] | None = None,
) -> tuple[ListedTool, ...]:
    """Return the tools of all servers, in order, each under a unique name.

    A tool gets its valid name, or that from the server's configuration. If another server's tool, another
    tool of the agent or a tool of the kernel has it, the name is ``<server>-<name>``. Names that differ only
    in case, ``_`` and ``-`` count as equal. Of tools of one server with the same name, only the first is
    used, and at most 500 tools. A tool with an invalid schema, or with texts that look like orders to the
    model, is left out with a warning.

    Args:
        taken: names of other tools of the agent.
        inspect: checks all texts of a tool's definition.
        withheld: receives the tools that are left out.
    """
    offered = []
    for server, tools in listings:
        for tool in _taken(server, tools):
            parameters = _parameters(tool)
            try:
                if not server.trust_descriptions:
                    _inspect(tool, parameters, inspect)
                offered.append((server, tool, parameters, ArgumentCheck(parameters)))
            except ValueError as error:
                left_out = _leave_out(server, tool.name, error)
                if withheld is not None:
                    withheld.append(left_out)
    counts = Counter(read_as(valid_name(server.named(tool.name))) for server, tool, _, _ in offered)
    others = {*map(read_as, (*taken, *RESERVED_NAMES, ASK_USER))}
    names = {valid_name(server.named(tool.name)) for server, tool, _, _ in offered}
    plain = {name for name in names if counts[read_as(name)] == 1 and read_as(name) not in others}
    used = {*map(read_as, plain), *others}
    listed = []
    for server, tool, parameters, check in offered:
        wanted = server.named(tool.name)
        name = valid_name(wanted)
        if name not in plain:
            name = prefixed_name(server.name, wanted, used, read_as)
            used.add(read_as(name))
        definition = _definition(server, tool, name, parameters)
        listed.append(ListedTool(server, tool.name, definition, check, _hints(tool)))
    return tuple(listed)


def _inspect(tool: Tool, parameters: JsonObject, inspect: InspectText) -> None:
    title = tool.annotations.title if tool.annotations is not None else None
    texts = (tool.name, tool.title, title, tool.description, *_texts_of(parameters))
    text = "\n\n".join(as_text(each) for each in texts if each)
    if len(text) > _LONGEST_TEXTS:
        raise ValueError(f"its texts have {len(text)} characters, more than {_LONGEST_TEXTS}")
    found = inspect(text)
    if found:
        raise ValueError(
            f"its description looks like orders to the model: {found} "
            "Where that is harmless, use McpServer(trust_descriptions=True)."
        )


def _texts_of(schema: Json) -> Iterator[str]:
    """Return all texts of a schema, including names of fields, at any depth."""
    waiting: list[Json] = [schema]
    while waiting:
        match waiting.pop():
            case str(text):
                yield text
            case list(items):
                waiting += reversed(items)
            case dict(fields):
                for name, value in reversed(fields.items()):
                    waiting += (value, name)


class ListingFilter:
    """Takes out of a server's messages what would fail a whole listing or result.

    The MCP library rejects a whole page for one malformed tool, and a whole result for one block of unknown
    or malformed content: such a block becomes a text. A schema without type gets ``object``, the only
    possible one. The schema of results is dropped: the library would check each result by it, without bound
    and by patterns that backtrack, and fail a call that was carried out.
    """

    def __init__(self, server: McpServer) -> None:
        self._server = server
        self._version = _LENIENT_VERSION

    def __call__(self, result: object) -> None:
        """Change the result of a request in place, if it is a listing or that of a call."""
        if not isinstance(result, dict):
            return
        version = result.get("protocolVersion")
        if isinstance(version, str):
            self._version = version
        tools = result.get("tools")
        if isinstance(tools, list):
            result["tools"] = [entry for entry in tools if self._is_readable(entry)]
        blocks = result.get("content")
        if isinstance(blocks, list) and not _are_blocks(blocks):
            result["content"] = [each if _are_blocks([each]) else _as_text_block(each) for each in blocks]

    def _is_readable(self, entry: Any) -> bool:
        from mcp_types.methods import validate_server_result

        schema = entry.get("inputSchema") if isinstance(entry, dict) else None
        if isinstance(schema, dict):
            schema.setdefault("type", "object")
            entry.pop("outputSchema", None)
        page = {"tools": [entry], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        try:
            validate_server_result("tools/list", self._version, page)
        except KeyError:  # the library does not check listings of this version
            return True
        except ValueError as error:
            _leave_out(self._server, entry.get("name") if isinstance(entry, dict) else entry, error)
            return False
        return True


def _are_blocks(blocks: list[object]) -> bool:
    from mcp.types import CallToolResult

    try:
        CallToolResult.model_validate({"content": blocks}, by_name=False)
    except ValueError:
        return False
    return True


def _as_text_block(block: object) -> dict[str, object]:
    kind = block.get("type") if isinstance(block, dict) else type(block).__name__
    text = shortened(json.dumps(block, ensure_ascii=False), _SHOWN_BLOCK)
    return {"type": "text", "text": f"[{kind}: content of an unknown form]\n{text}"}


def _leave_out(server: McpServer, name: object, error: Exception) -> WithheldTool:
    reason = shown(server, " ".join(str(error).split()))
    _log.warning("The tool %s of the MCP server %r is left out: %s", shorten(name), server.name, reason)
    return WithheldTool(server.name, str(name), reason)


def _taken(server: McpServer, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that the server's configuration selects, each name once."""
    first = {tool.name: tool for tool in reversed(tools)}
    if missing := {*(server.only or ()), *server.rename} - first.keys():
        _log.warning("The MCP server %r has no tool %s.", server.name, ", ".join(sorted(missing)))
    found = [each for each in reversed(first.values()) if server.only is None or each.name in server.only]
    if len(found) > _MOST_TOOLS:
        _log.warning(
            "The MCP server %r has %d tools; the first %d are taken.", server.name, len(found), _MOST_TOOLS
        )
    return found[:_MOST_TOOLS]


def _definition(server: McpServer, tool: Tool, name: str, parameters: JsonObject) -> ToolDefinition:
    hints = tool.annotations if server.trust_hints else None
    reads_only = hints is not None and hints.read_only_hint is True
    destructive = not reads_only and (hints is None or hints.destructive_hint is not False)
    risk: Risk = "low" if reads_only else "high" if destructive else "medium"
    title = tool.title or (tool.annotations.title if tool.annotations is not None else None)
    return ToolDefinition(
        name=name,
        description=as_text(tool.description or title or tool.name.replace("_", " ")),
        parameters=parameters,
        timeout_s=server.timeout_s,
        requires_approval=server.approve != "never" and (server.approve != "destructive" or destructive),
        risk=risk,
        idempotent=reads_only or (hints is not None and hints.idempotent_hint is True),
    )


def _hints(tool: Tool) -> str:
    given = tool.annotations.model_dump(exclude={"title"}, exclude_none=True) if tool.annotations else {}
    return json.dumps(to_json_value(given), sort_keys=True)


def _parameters(tool: Tool) -> JsonObject:
    schema = to_json_value(tool.input_schema)
    made: JsonObject = schema if isinstance(schema, dict) else {}
    return {"type": "object", **({} if "properties" in made else {"properties": {}}), **made}


# --- the check of arguments -----------------------------------------------------------------------------

_MOST_PROBLEMS = 20


class ArgumentCheck:
    """Checks arguments against the JSON Schema of one tool, without network access.

    Schemas may be of any draft since 4.

    Raises:
        ValueError: the schema is invalid, too large, circular, or refers to something outside of it.
    """

    def __init__(self, schema: JsonObject) -> None:
        import jsonschema_rs

        kind = jsonschema_rs.validator_cls_for(schema)
        by_id = kind is jsonschema_rs.Draft4Validator
        of_whole = ("$schema", "$id", "id") if by_id else ("$schema", "$id")
        self._schema = {key: value for key, value in schema.items() if key not in of_whole}
        self._cost = SchemaCost(self._schema, named_by_id=by_id)
        try:
            linear = jsonschema_rs.RegexOptions()
            self._validator = kind(self._schema, offline=True, pattern_options=linear)
        except ValueError:  # perhaps only because of look-around patterns
            self._validator = kind(self._schema, offline=True)
            self._cost.looks_around = True

    def __call__(self, tool_name: str, arguments: JsonObject) -> Result[None, InvalidToolArguments]:
        """Fail with ``InvalidToolArguments``, which names each invalid argument.

        Never raises. Arguments that would take too long to check are invalid. For those that take long, only
        one error is named, since the library searches for all errors first.
        """
        checks = self.checks(arguments)
        if checks > MOST_CHECKS:
            problem = ArgumentProblem(
                "arguments", shorten(arguments), "fewer or flatter values for its schema"
            )
            return Failure(InvalidToolArguments(tool_name, (problem,)))
        try:
            if self._validator.is_valid(arguments):
                return Success(None)
            errors = self._errors(arguments, of_all=checks <= CHECKS_ON_LOOP)
        except Exception as error:  # noqa: BLE001 - what cannot be checked does not run
            problem = ArgumentProblem("arguments", shorten(arguments), f"valid values ({as_text(error)})")
            return Failure(InvalidToolArguments(tool_name, (problem,)))
        problems = tuple(
            dict.fromkeys(problem for error in errors for problem in self._read(error, arguments))
        )
        if not problems:
            return Success(None)
        return Failure(InvalidToolArguments(tool_name, first_problems(problems)))

    def _errors(self, arguments: JsonObject, *, of_all: bool) -> list[ValidationError]:
        import jsonschema_rs

        if of_all:
            return list(islice(self._validator.iter_errors(arguments), _MOST_PROBLEMS))
        try:
            self._validator.validate(arguments)
        except jsonschema_rs.ValidationError as error:
            return [error]
        return []

    def checks(self, arguments: JsonObject) -> int:
        """Return the maximum of subschema checks for the arguments."""
        return self._cost.of_value(arguments)

    def _read(self, error: ValidationError, arguments: JsonObject) -> Iterator[ArgumentProblem]:
        path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.instance_path)
        path = path.removeprefix(".")
        limit = _at(self._schema, error.schema_path)
        match error.schema_path[-1]:
            case "required":
                name = str(error.kind.value)
                yield ArgumentProblem(_join(path, name), "nothing", "a value, since it is required")
            case "additionalProperties" if limit is False:
                known = _at(self._schema, (*error.schema_path[:-1], "properties")) or {}
                expected = f"no argument of that name; known arguments: {', '.join(known) or 'none'}"
                given = _at(arguments, error.instance_path)
                for name in given if isinstance(given, dict) else ():
                    if name not in known:
                        yield ArgumentProblem(_join(path, name), shorten(given[name]), expected)
            case keyword:
                expected = _expected(str(keyword), limit)
                yield ArgumentProblem(path or "arguments", shorten(error.instance), expected)


def _at(here: Any, path: Sequence[str | int]) -> Any:
    """Return the part of a JSON value at a path; ``None`` if there is none."""
    for step in path:
        try:
            here = here[step]
        except (KeyError, IndexError, TypeError):
            return None
    return here


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _expected(keyword: str, limit: Any) -> str:
    match keyword:
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
        case _:
            return f"a value that fits {keyword} {shorten(limit)} of the schema"


# --- Upper bounds of what checking a value against a JSON Schema costs ---
# A small untrusted schema can take exponential time: if each definition refers twice to the previous one, or
# a definition refers twice to itself and the value is deep. So the number of checks is bounded in advance,
# from the schema and from the depth and size of the value.


MOST_CHECKS = 100_000
"""Subschema checks allowed for one validation; each takes some ten microseconds."""
CHECKS_ON_LOOP = 5_000
"""Checks allowed on the event loop; more run in a worker thread."""
MOST_NODES = 20_000
"""Values allowed in a schema, including nested ones."""
MOST_LEVELS = 64
_VALUES_A_CHECK = 16
"""Enumeration values that are compared, or copied into an error, in the time of one check."""
_NAMES_A_CHECK = 4
"""Required names that are checked in the time of one check."""
_CHARS_OF_A_VALUE = 32
_MATCHED_A_CHECK = 200
"""Characters that a pattern matches in the time of one check."""
_SQUARES_A_CHECK = 5_000
"""The same for a look-around pattern, which may restart at each character."""

_IN_PLACE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_NAMES = ("$id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$dynamicRef", "$recursiveRef")
"""Keywords that change the target of references."""
_OF_ITEMS = ("items", "additionalItems", "contains", "unevaluatedItems", "prefixItems")
_OF_PRESENCE = ("required", "dependentRequired", "dependencies")
_OF_NAMES = ("additionalProperties", "propertyNames", "unevaluatedProperties")


@define
class SchemaCost:
    """The cost of one schema, by the depth of the value.

    A reference must be a path from the root, ``#/…``, and nothing in the schema may change its target;
    otherwise the validator's work could exceed the count.

    Args:
        schema: the schema without its id and draft.
        named_by_id: whether ``id`` names a part, as in draft 4.

    Attributes:
        looks_around: whether it may have a look-around pattern.

    Raises:
        ValueError: the schema is too large or too deep, or a reference is circular or ambiguous.
    """

    schema: JsonObject
    named_by_id: bool = field(default=False, kw_only=True)
    looks_around: bool = field(default=False, init=False)
    _has_patterns: bool = field(default=False, init=False)
    _own: dict[int, int] = field(factory=dict, init=False)
    _known: dict[tuple[int, int], int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        nodes = 0
        names = (*_NAMES, "id") if self.named_by_id else _NAMES
        refers, renamed = False, set[str]()
        waiting: list[tuple[Json, int]] = [(self.schema, 0)]
        while waiting:
            value, level = waiting.pop()
            nodes += 1
            if nodes > MOST_NODES or level > MOST_LEVELS:
                raise ValueError(f"its schema has more than {MOST_NODES} values or {MOST_LEVELS} levels")
            if isinstance(value, dict):
                self._has_patterns = self._has_patterns or "pattern" in value or "patternProperties" in value
                refers = refers or isinstance(value.get("$ref"), str)
                renamed.update(key for key in names if isinstance(value.get(key), str | bool))
                waiting += [(item, level + 1) for item in value.values()]
            elif isinstance(value, list):
                waiting += [(item, level + 1) for item in value]
        if renamed and (refers or renamed & {"$dynamicRef", "$recursiveRef"}):
            found = ", ".join(sorted(renamed))
            raise ValueError(f"its schema has {found}, by which references may lead elsewhere")
        try:
            self._checks(self.schema, MOST_LEVELS, frozenset())
        except RecursionError:
            raise ValueError("its schema has too many references to one another") from None

    def of_value(self, value: Json) -> int:
        """Return the maximum of checks for a value."""
        depth, nodes, texts = _extent(value)
        if self.looks_around:
            nodes += sum(chars * chars for chars in texts) // _SQUARES_A_CHECK
        elif self._has_patterns:
            nodes += sum(texts) // _MATCHED_A_CHECK
        return self.of(depth, nodes)

    def of(self, depth: int, nodes: int) -> int:
        """Return the maximum of checks for a value with this depth and number of parts."""
        try:
            return self._checks(self.schema, depth, frozenset()) * nodes
        except (RecursionError, ValueError):
            return MOST_CHECKS * nodes + 1

    def _checks(self, schema: Json, depth: int, within: frozenset[int]) -> int:
        if not isinstance(schema, dict):
            return 1
        key = (id(schema), depth)
        if key in self._known:
            return self._known[key]
        if id(schema) in within:
            raise ValueError("a reference in its schema leads back to itself")
        inside = within | {id(schema)}
        if id(schema) not in self._own:
            self._own[id(schema)] = _own_cost(schema)
        total = self._own[id(schema)] + sum(
            self._checks(each, depth, inside) for each in self._in_place(schema)
        )
        if depth:
            below = partial(self._checks, depth=depth - 1, within=frozenset())
            items = sum(map(below, _parts_of(schema, *_OF_ITEMS)))
            own = max(map(below, _parts_of(schema, by_name=("properties",))), default=0)
            others = sum(map(below, _parts_of(schema, *_OF_NAMES, by_name=("patternProperties",))))
            total += max(items, own + others)
        self._known[key] = min(total, MOST_CHECKS + 1)
        return self._known[key]

    def _in_place(self, schema: JsonObject) -> Iterator[Json]:
        yield from _parts_of(schema, *_IN_PLACE, by_name=("dependentSchemas", "dependencies"))
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield self._resolved(reference)

    def _resolved(self, reference: str) -> Json:
        root, *steps = unquote(reference, errors="strict").split("/")
        if root != "#":
            raise ValueError(f"a reference in its schema is not a path from its root: {shorten(reference)}")
        here: Any = self.schema
        for step in steps:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(here, dict) and step in here:
                here = here[step]
            elif isinstance(here, list) and step.isdecimal() and int(step) < len(here):
                here = here[int(step)]
            else:
                raise ValueError(f"a reference in its schema leads nowhere: {shorten(reference)}")
        return here  # type: ignore[no-any-return]


def _own_cost(schema: JsonObject) -> int:
    """Return the cost of a schema without its parts."""
    compared = sum(_size(schema[keyword]) for keyword in ("enum", "const") if keyword in schema)
    demanded = sum(_size(schema[keyword]) for keyword in _OF_PRESENCE if keyword in schema)
    return 1 + compared // _VALUES_A_CHECK + demanded // _NAMES_A_CHECK


def _size(value: Json) -> int:
    _, nodes, texts = _extent(value)
    return nodes + sum(texts) // _CHARS_OF_A_VALUE


def _parts_of(schema: JsonObject, *keywords: str, by_name: Sequence[str] = ()) -> Iterator[Json]:
    """Yield the schemas of keywords, one or a list each, or one for each name."""
    for keyword in keywords:
        if keyword in schema:
            value = schema[keyword]
            yield from value if isinstance(value, list) else (value,)
    for keyword in by_name:
        named = schema.get(keyword)
        yield from named.values() if isinstance(named, dict) else ()


def _extent(value: Json) -> tuple[int, int, list[int]]:
    """Return the depth of a value, the number of its values and the lengths of texts."""
    depth = nodes = 0
    texts: list[int] = []
    level: list[Json] = [value]
    while level:
        nodes += len(level)
        following: list[Json] = []
        for item in level:
            if isinstance(item, dict):
                texts += map(len, item)
                following += item.values()
            elif isinstance(item, list):
                following += item
            elif isinstance(item, str):
                texts.append(len(item))
        depth += bool(following)
        level = following
    return depth, nodes, texts
