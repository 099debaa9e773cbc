"""Calls in JSON values, and the result of parsing a text."""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from attrs import define, field, frozen

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.call_parsing.json_extraction import Decoded, JsonReader
from reactive_agents.kernel.call_parsing.tool_names import NameIndex

CallForm: TypeAlias = Literal[
    "json",
    "fenced",
    "plain",
    "keywords",
    "hermes",
    "function-json",
    "function-xml",
    "invoke",
    "python-tag",
    "python-tag-call",
    "mistral",
    "mistral-name",
    "mistral-args",
    "deepseek",
    "kimi",
    "glm",
    "harmony",
    "react",
    "name-line",
]
"""The forms of calls in text.

``json``: bare JSON. ``fenced``: in a code block. ``plain``: ``name({…})``. ``keywords``: ``name(key=…)``.
``hermes``: ``<tool_call>`` of Hermes, Qwen, Granite and others. ``function-json``: ``<function=name>{…}`` of
Llama 3.1 and Functionary. ``function-xml``: the same with ``<parameter=…>``, of Qwen-Coder. ``invoke``:
``<invoke name=…>`` of Claude and MiniMax. ``python-tag``, ``python-tag-call``: ``<|python_tag|>`` of Llama
with JSON or ``name.call(…)``. ``mistral…``: the three things that follow ``[TOOL_CALLS]``. ``deepseek``,
``kimi``, ``glm``, ``harmony``: the special tokens of these models (harmony is gpt-oss). ``react``:
``Action:`` and ``Action Input:``. ``name-line``: the name, and JSON on the next line, of GLM-4 and
Functionary.
"""


@frozen
class ParsedCall:
    """A call found in text, in the form ``source``.

    ``name``: the registered name; ``repaired``: whether its JSON was broken.
    """

    name: str
    arguments: JsonObject
    source: CallForm
    repaired: bool = False


@frozen
class ParsedCalls:
    """The result of parsing a text.

    Attributes:
        calls: the calls, in the order of the text.
        prose: the text without calls and thinking.
        thinking: the content of ``<think>`` blocks, in which calls do not count.
        made: whether the text makes the calls, by its form, instead of quoting or discussing them.
    """

    calls: tuple[ParsedCall, ...] = field(default=())
    prose: str = ""
    thinking: str = ""
    made: bool = False


# --- JSON that is a call: the keys that models use for its name and its arguments ---


_NAMES = frozenset(["name", "tool", "tool_name", "function", "function_name", "action", "recipient_name"])
_ARGUMENTS = frozenset(
    [
        *("arguments", "parameters", "args", "params", "input"),
        *("action_input", "tool_input", "tool_args", "function_args"),
    ]
)
_ENVELOPE = frozenset({"id", "type", "index", "call_id", "tool_call_id"})
_THOUGHTS = frozenset({"thought", "thoughts", "reasoning"})
_WRAPPERS = frozenset({"tool_calls", "tool_call", "tool_uses", "function_call", "function_calls"})
_MESSAGE = frozenset({"role", "content"})
_BETWEEN = re.compile(r"[\s,;]*")


@define
class CallReader:
    """Reads calls out of one text."""

    names: NameIndex
    json: JsonReader = field(factory=JsonReader)

    def calls_of(self, value: Json, source: CallForm, *, repaired: bool) -> tuple[ParsedCall, ...]:
        """Return the calls in a JSON value; none if it has other keys than a call.

        A list counts if all its elements have the shape of a call; those with unknown names are left out. An
        object counts if it has one key for the name, at most one for the arguments, and otherwise at most an
        id, a type, and (with ``action``) a thought.
        """
        if isinstance(value, list):
            shaped = [_parts(item) for item in value]
            if not shaped or not all(shaped):
                return ()
        elif isinstance(value, dict) and (wrapped := _unwrapped(value)) is not None:
            return self.calls_of(wrapped, source, repaired=repaired)
        else:
            shaped = [_parts(value)]
        found = [self._call(*parts, source, repaired) for parts in shaped if parts is not None]
        return tuple(call for call in found if call is not None)

    def read_calls(
        self, text: str, start: int, source: CallForm, edge: re.Pattern[str] | None = None
    ) -> tuple[tuple[ParsedCall, ...], int]:
        """Return the calls in successive JSON values from ``start``, and their end.

        White space, commas and semicolons may separate them. The first value that is not a call ends them.
        """
        calls: tuple[ParsedCall, ...] = ()
        end = start
        while True:
            gap = _BETWEEN.match(text, end)
            position = gap.end() if gap else end
            found = self.json.read(text, position, edge)
            more = () if found is None else self.calls_of(found.value, source, repaired=found.repaired)
            if found is None or not more:
                return calls, end
            calls, end = calls + more, found.end

    def named(self, written: str, arguments: Decoded | None, source: CallForm) -> tuple[ParsedCall, ...]:
        """Return the call of a known tool with an object of arguments, else ``None``."""
        name = self.names.resolve(written)
        if name is None or arguments is None or not isinstance(arguments.value, dict):
            return ()
        return (ParsedCall(name, arguments.value, source, arguments.repaired),)

    def _call(self, written: str, arguments: Json, source: CallForm, repaired: bool) -> ParsedCall | None:
        name = self.names.resolve(written)
        if name is None:
            return None
        match arguments:
            case dict() if _is_schema(arguments):
                return None
            case dict():
                return ParsedCall(name, arguments, source, repaired)
            case None:
                return ParsedCall(name, {}, source, repaired)
            case str():
                return self._from_text(name, arguments, source, repaired)
            case _:
                return None

    def _from_text(self, name: str, text: str, source: CallForm, repaired: bool) -> ParsedCall | None:
        found = self.json.read_object(text)
        if found is not None and isinstance(found.value, dict):
            return ParsedCall(name, found.value, source, repaired or found.repaired)
        if text.lstrip()[:1] in ("{", "["):
            return None
        return ParsedCall(name, {"input": text}, source, repaired)


def _parts(value: Json) -> tuple[str, Json] | None:
    """Return the name and arguments of an object with the shape of a call."""
    if not isinstance(value, dict):
        return None
    keys = value.keys()
    function = value.get("function")
    if isinstance(function, dict) and not keys - _ENVELOPE - {"function"}:
        return _parts(function) if "function" not in function else None
    names, arguments = keys & _NAMES, keys & _ARGUMENTS
    beside = keys - names - arguments - _ENVELOPE - (_THOUGHTS if "action" in keys else set())
    if len(names) != 1 or len(arguments) > 1 or beside or not _is_call_type(value):
        return None
    name = value[next(iter(names))]
    return (name, value[next(iter(arguments))] if arguments else None) if isinstance(name, str) else None


def _is_call_type(value: JsonObject) -> bool:
    return value.get("type", "function") in ("function", "tool_use", "tool_call", "function_call", "tool")


def _is_schema(arguments: JsonObject) -> bool:
    """Return whether a value is a repeated tool description, not a call."""
    return arguments.get("type") == "object" and isinstance(arguments.get("properties"), dict)


def _unwrapped(value: JsonObject) -> Json:
    """Return the content of ``{"tool_calls": …}``, if it has that form."""
    wrappers = value.keys() & _WRAPPERS
    if len(wrappers) != 1 or value.keys() - wrappers - _MESSAGE:
        return None
    inner = value[next(iter(wrappers))]
    return inner if isinstance(inner, list) or _parts(inner) is not None else None
