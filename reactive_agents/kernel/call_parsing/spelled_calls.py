"""Calls of available tools in a text in any spelling, and answers in such calls.

Nothing found here is ever run: the model is asked for the real call. So the rules use only the structure: an
object whose keys are parameters of one tool, or a tool's name directly beside arguments. Only an answer is
extracted, from a call of ``final-answer`` that is or ends the text, since delivering it runs nothing.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterable, Mapping
from functools import lru_cache

from attrs import frozen

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.tools import FINAL_ANSWER, RECALL, ToolDefinition
from reactive_agents.core.values import Value, lazy_pattern
from reactive_agents.kernel.call_parsing.argument_schema import properties_of, required_of
from reactive_agents.kernel.call_parsing.json_extraction import JsonReader, bracket_span
from reactive_agents.kernel.call_parsing.tool_names import squash, words
from reactive_agents.kernel.toolset import SameObjects

_FIRST_KEY = lazy_pattern(r"\{\s*[\"']?(?P<key>[\w-]{1,64})[\"']?\s*:")
_EMPTY_OBJECT = lazy_pattern(r"[\s:=>*_`\"']{0,8}(?:```\w*\s*)?\{\s*\}")
_LITERAL = lazy_pattern(r"[\"'\d={\[,]|\A\s*\w{3,}\s*\Z")
_CLOSED = lazy_pattern(r"[^<>]{0,40}>")
_VALUE = r"(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s,;&<>]+)"
_NEAR, _LISTED = 60, 2_000
_LONGEST_TAG = 20_000
_MOST_SIGNS = 500
_MOST_WORDS = 3


@frozen(eq=False, repr=False)
class SpelledCall(Value):
    """A part of a text that looks like a call.

    Attributes:
        tool: the registered name of its tool.
        named: whether the text has the name, not only an object of arguments.
        keys: the keys of an object without the name.
    """

    tool: str
    named: bool
    keys: frozenset[str]
    start: int
    end: int


@frozen(eq=False, repr=False)
class _Tool(Value):
    name: str
    parameters: frozenset[str]
    required: frozenset[str]
    pair: re.Pattern[str] | None


@frozen(eq=False, repr=False)
class _Tools(Value):
    """An index of available tools by their names without separators."""

    by_name: Mapping[str, _Tool]
    sign: re.Pattern[str]


def spelled_calls(text: str, definitions: Iterable[ToolDefinition]) -> tuple[SpelledCall, ...]:
    """Return the parts of a text that look like calls of the tools, in order.

    These are objects, alone or in a list by names, whose keys are parameters of one tool, and a tool's name
    as a tag, as a function, or beside pairs of parameters and values; but not signatures or objects within
    data. Needs only one scan if the text has no brace and no name of a tool.
    """
    tools = _prepared(SameObjects(definitions))
    sign = tools.sign.search(text)
    if sign is None:
        return ()
    found, reader = list[SpelledCall](), JsonReader()
    for _ in range(_MOST_SIGNS):
        position = sign.end()
        if sign["name"] is None:
            calls, position = _objects(reader, text, sign.start(), tools)
            found.extend(calls)
        else:
            tool = tools.by_name[squash(sign["name"])]
            end = _behind_name(text, sign, tool)
            if end is not None:
                found.append(SpelledCall(tool.name, True, frozenset(), sign.start(), end))
                position = end
        sign = tools.sign.search(text, position)
        if sign is None:
            break
    return tuple(found)


@lru_cache(maxsize=64)
def _prepared(same: SameObjects[ToolDefinition]) -> _Tools:
    by_name = {squash(each.name): _prepare(each) for each in same.objects if squash(each.name)}
    forms = ("[-_]?".join(map(re.escape, words(each.name))) for each in by_name.values())
    spelled = sorted(forms, key=len, reverse=True)
    names = f"(?<![\\w-])(?P<name>{'|'.join(spelled)})(?![\\w-])" if spelled else r"(?P<name>(?!))"
    return _Tools(by_name, re.compile(rf"{names}|[{{]|\[(?=\s*[{{])", re.IGNORECASE))


def _prepare(definition: ToolDefinition) -> _Tool:
    parameters = frozenset(properties_of(definition.parameters))
    names = "|".join(map(re.escape, sorted(parameters, key=len, reverse=True)))
    pair = re.compile(rf"(?<![\w-])(?P<key>{names})[\"'*`]*\s*[=:]\s*{_VALUE}") if names else None
    return _Tool(definition.name, parameters, required_of(definition.parameters), pair)


def _objects(reader: JsonReader, text: str, start: int, tools: _Tools) -> tuple[tuple[SpelledCall, ...], int]:
    """Return the calls in an object or a list of objects, and its end."""
    first = _FIRST_KEY.search(text, start, start + 200)
    known = first is not None and (
        squash(first["key"]) in tools.by_name or _tool_with((first["key"],), tools)
    )
    read = reader.read(text, start) if known else None
    if read is None:
        end = reader.reach(text, start)
        if end is None and known and first is not None and not text[start : first.start()].strip("[ \n"):
            name = _tool_with((first["key"],), tools) or tools.by_name[squash(first["key"])].name
            return (SpelledCall(name, False, frozenset((first["key"],)), start, len(text)),), len(text)
        return (), end or start + 1
    parts = read.value if isinstance(read.value, list) else [read.value]
    named = [name for part in parts for name in _by_key(part, tools)]
    if named and len(named) >= len(parts):
        return tuple(SpelledCall(name, True, frozenset(), start, read.end) for name in named), read.end
    if isinstance(read.value, dict) and (tool := _tool_with(read.value, tools)) is not None:
        return (SpelledCall(tool, False, frozenset(read.value), start, read.end),), read.end
    return (), read.end


def _by_key(value: Json, tools: _Tools) -> tuple[str, ...]:
    """Return the calls of an object with tools as keys and arguments as values."""
    if not isinstance(value, dict):
        return ()
    found = []
    for key, arguments in value.items():
        tool = tools.by_name.get(squash(key))
        if tool is None or not isinstance(arguments, dict) or not tool.parameters.issuperset(arguments):
            return ()
        found.append(tool.name)
    return tuple(found)


def _tool_with(keys: Iterable[str], tools: _Tools) -> str | None:
    """Return the first tool with all the keys; not one of the kernel's."""
    wanted = frozenset(keys)
    for tool in tools.by_name.values():
        if wanted and wanted <= tool.parameters and tool.name not in (FINAL_ANSWER, RECALL):
            return tool.name
    return None


def _behind_name(text: str, sign: re.Match[str], tool: _Tool) -> int | None:
    """Return the end of the arguments directly after a tool's name, if any."""
    start, end = sign.span()
    if text[start - 1 : start] == "<":
        return _tag(text, sign, tool)
    if text[end : end + 1] == "(":
        span = bracket_span(text, end, min(len(text), end + _LISTED))
        inner = text[end + 1 : span.end - 1 if span.end else end + _LISTED]
        return (span.end or len(text)) if _are_arguments(inner, tool) else None
    if empty := _EMPTY_OBJECT.match(text, end):
        return empty.end()
    return _pairs(text, end, tool)


def _tag(text: str, sign: re.Match[str], tool: _Tool) -> int | None:
    closing = text.find(f"</{sign['name']}", sign.end(), sign.end() + _LONGEST_TAG)
    stop = sign.end() + _LISTED
    inner = text[sign.end() : min(closing, stop) if closing >= 0 else stop]
    arguments = any(re.search(rf"[<\"'\s]{re.escape(name)}[\"'\s]*[>=:]", inner) for name in tool.parameters)
    whole = closing >= 0 and not text[: sign.start() - 1].strip()
    if not arguments and not whole:
        return None
    if closing < 0:
        return len(text)
    end = _CLOSED.match(text, closing + 1)
    return end.end() if end else len(text)


def _are_arguments(inner: str, tool: _Tool) -> bool:
    """Return whether a text in brackets is arguments, not a signature."""
    if not inner.strip():
        return not tool.required
    pieces = [piece.partition(":")[0].strip(" \t\n*?") for piece in inner.split(",")]
    if "=" not in inner and tool.parameters.issuperset(pieces):
        return False
    return _LITERAL.search(inner) is not None


def _pairs(text: str, start: int, tool: _Tool) -> int | None:
    """Return the end of pairs of parameter and value, if they are complete."""
    if tool.pair is None or not tool.required:
        return None
    keys, end, reach = set[str](), start, min(len(text), start + _LISTED)
    while (pair := tool.pair.search(text, end, min(reach, end + _NEAR + _LISTED * bool(keys)))) is not None:
        gap = text[end : pair.start()]
        if len(gap) > _NEAR or len(gap.split()) > _MOST_WORDS or "{" in gap or "(" in gap:
            break
        keys.add(pair["key"])
        end = pair.end()
    return end if tool.required <= keys else None


_ANSWER_SIGN = lazy_pattern(r"final[-_]answer", re.IGNORECASE)
_ANSWER_OBJECT = lazy_pattern(r"\s*(?:```\w*\s*)?\{\s*\"(?:answer|could_not)\"")
_ANSWER_HEAD = lazy_pattern(
    r"^[ \t#*_`>]*(?:\S{1,20}[ \t]+){0,3}[*_`]*(?P<tag><?)(?:functions?\.)?final[-_]answer"
    r"(?P<behind>[ \t]*[*_`]*[ \t]*(?:[:=>(\n]|(?:\w{1,9}[ \t]+){0,2}(?=\{))|[*_`]*[ \t]*\Z)",
    re.IGNORECASE | re.MULTILINE,
)
_LABEL = lazy_pattern(
    r"(?:[\s:=*]|`(?!``))*(?:(?:arguments|args|parameters|input|action input)[ \t*]*:[ \t]*)?", re.IGNORECASE
)
_FENCED = lazy_pattern(r"```\w*\s*(?P<inner>.*?)\s*(?:```\s*)?\Z", re.DOTALL)
_END_TAG = lazy_pattern(r"</final[-_]answer\s*>\s*\Z|\)[\s;.]*\Z", re.IGNORECASE)
_ANSWER_TAG = lazy_pattern(r"\A\s*<answer>(?P<inner>.*?)(?:</answer>)?\s*\Z", re.DOTALL | re.IGNORECASE)
_ANSWER_PAIR = lazy_pattern(r"\A[\s\"']*answer[\"']?\s*[=:]\s*", re.IGNORECASE)


def spelled_answer(text: str, *, whole: bool) -> JsonObject | None:
    """Return the arguments of a ``final-answer`` that a text ends with.

    In any spelling: name and object, name and text, tag, function, or key of an object.

    Args:
        whole: whether the whole text must be the call. Otherwise a call with arguments in brackets may end
            it.
    """
    if _ANSWER_SIGN.search(text) is None:
        return None
    head = _ANSWER_HEAD.search(text)
    if head is None:
        value = _object(text)
        if value is None or len(value) != 1 or squash(next(iter(value))) != squash(FINAL_ANSWER):
            return None
        return _answer(next(iter(value.values())))
    body, in_brackets = text[head.end() :], bool(head["tag"]) or head["behind"].endswith("(")
    if in_brackets:
        body = _END_TAG.sub("", body, count=1)
    label = _LABEL.match(body)
    body = _unfenced(body[label.end() :] if label else body)
    if text[: head.start()].strip() and (whole or not (in_brackets or body.startswith("{"))):
        return None
    return _arguments(body)


def lone_answer(text: str) -> JsonObject | None:
    """Return the arguments of ``final-answer`` that are the whole text, as an object."""
    value = _object(text) if _ANSWER_OBJECT.match(text) else None
    return _answer(value) if value else None


def _object(text: str) -> JsonObject | None:
    if not text.lstrip().startswith(("{", "```")):
        return None
    read = JsonReader().read_object(_unfenced(text))
    return read.value if read is not None and isinstance(read.value, dict) else None


def _answer(value: Json) -> JsonObject | None:
    if isinstance(value, str):
        return {"answer": value} if value.strip() else None
    if not isinstance(value, dict) or not {"answer", "could_not"}.issuperset(value):
        return None
    whole = all(isinstance(each, str) for each in value.values()) and any(value.values())
    return value if whole else None


def _arguments(body: str) -> JsonObject | None:
    body = body.strip()
    if body.startswith("{"):
        read = JsonReader().read_object(body.rstrip(" \n.;"))
        return _answer(read.value) if read is not None else None
    if tag := _ANSWER_TAG.match(body):
        body = tag["inner"].strip()
    pair = _ANSWER_PAIR.match(body)
    said = body[pair.end() :] if pair else body
    if said[:1] in ("'", '"'):
        try:
            said = literal_eval(said)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            return _answer(said)
    return _answer(said) if isinstance(said, str) else None


def _unfenced(text: str) -> str:
    fenced = _FENCED.fullmatch(text.strip())
    return fenced["inner"] if fenced else text.strip()
