"""Calls written as code: ``name({…})``, ``name(key="value")``, and lists of them."""

from __future__ import annotations

import ast
import re
import warnings
from itertools import islice

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.call_parsing.json_calls import CallForm, CallReader, ParsedCall
from reactive_agents.kernel.call_parsing.json_extraction import Decoded

_HEAD = re.compile(r"\s*(?P<name>[\w-][\w.-]{0,127})[ \t]*\(\s*")
_CLOSE = re.compile(r"\s*\)")
_COMMA = re.compile(r"\s*,?\s*")
_PRINT = re.compile(r"\s*print\(")
_LARGEST = 10**400  # hexadecimal literals may have more digits than can be printed; infinity is larger too
_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None}


def read_code_call(
    reader: CallReader, text: str, start: int, *, suffix: str = "", source: CallForm | None = None
) -> tuple[ParsedCall, int] | None:
    """Return the call that begins at ``start``, and the position after its bracket.

    Arguments are one JSON object, keywords with literal values, a single quoted text (which becomes the
    argument ``input``), or nothing. Anything else, such as a variable or a sum, is code and not a call.

    Args:
        suffix: the suffix to remove from the written name, such as ``.call``.
        source: the form to report; by default ``plain`` or ``keywords``.
    """
    head = _HEAD.match(text, start)
    if head is None or not head["name"].endswith(suffix):
        return None
    written = head["name"].removesuffix(suffix)
    if reader.names.resolve(written) is None:
        return None
    found, form = _arguments(reader, text, head.end())
    calls = reader.named(written, found, source or form)
    return (calls[0], found.end) if calls and found is not None else None


def read_code_list(reader: CallReader, text: str, start: int) -> tuple[tuple[ParsedCall, ...], int]:
    """Return the calls in ``[name(…), name(…)]``; none if one of them is not a call."""
    calls: list[ParsedCall] = []
    position = start + 1
    while (found := read_code_call(reader, text, position)) is not None:
        call, position = found
        calls.append(call)
        comma = _COMMA.match(text, position)
        position = comma.end() if comma else position
        if text[position : position + 1] == "]":
            return tuple(calls), position + 1
    return (), start


def _arguments(reader: CallReader, text: str, start: int) -> tuple[Decoded | None, CallForm]:
    if text[start : start + 1] == "{":
        found = reader.json.read(text, start)
        closing = _CLOSE.match(text, found.end) if found else None
        if found is None or closing is None:
            return None, "plain"
        return Decoded(found.value, closing.end(), found.repaired), "plain"
    opening = text.rindex("(", 0, start)
    reach = reader.json.reach(text, opening)
    if reach is None:
        return None, "keywords"
    literal = _keywords(text[start : reach - 1])
    return (None if literal is None else Decoded(literal, reach)), "keywords"


def _keywords(arguments: str) -> JsonObject | None:
    """Return the arguments between two brackets; ``None`` if they are not literals."""
    if not arguments.strip():
        return {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the escapes in the model's strings
            tree = ast.parse(f"call({arguments}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name):
        return None
    try:
        named = {_keyword(keyword): _literal(keyword.value) for keyword in tree.keywords}
        positional = [_literal(argument) for argument in tree.args]
    except (ValueError, RecursionError):
        return None
    match positional:
        case []:
            return named
        case [dict() as whole] if not named:
            return whole
        case [str() as text] if not named:
            return {"input": text}
        case _:
            return None


def _keyword(keyword: ast.keyword) -> str:
    if keyword.arg is None:
        raise ValueError("a spread argument is no literal")
    return keyword.arg


def _literal(node: ast.expr) -> Json:
    match node:
        case ast.Constant(value=bool() | str() | None as value):
            return value
        case ast.Constant(value=int() | float() as number) if abs(number) < _LARGEST:
            return number
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_literal(item) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(key): _literal(value) for key, value in zip(keys, values, strict=True)}
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)) if (
            abs(number) < _LARGEST
        ):
            return -number
        case _:
            raise ValueError("not a literal")


def _key(node: ast.expr | None) -> str:
    match node:
        case ast.Constant(value=str() as key):
            return key
        case _:
            raise ValueError("not a key of a JSON object")


# --- Calls without any tag: bare JSON, ``name({…})``, ``Action:`` lines ---


Remainder = tuple[tuple[ParsedCall, ...], str, str]
"""Calls, the text before them, and the text after them."""

_MOST_ATTEMPTS = 32
_TAIL = re.compile(r"[\s.;]*\Z")
_NAME_LINE = re.compile(r"\s*(?:>{3}[ \t]*)?(?P<name>[\w-][\w.-]{0,127})[ \t]*\r?\n\s*(?=\{)")
"""The name before the arguments, as GLM-4 and Functionary write a call."""
_JSON_LINE = re.compile(r"^[ \t]*(?P<ticks>`{0,3})(?=[{\[])", re.M)
_CODE_LINE = re.compile(
    r"(?:^|(?P<label>\bfinal answer:|\baction:|\btool call:))[ \t]*(?P<ticks>`{0,3})(?P<list>\[\s*)?"
    r"(?P<name>[\w-][\w.-]{0,127})[ \t]*\(",
    re.I | re.M,
)
_NEXT_CODE = re.compile(r"[ \t,;]*\n\s*(?=[\w-])|[ \t]*;\s*")
_ACTION = re.compile(
    r"^[ \t*]{0,8}Action[ \t*]{0,4}:[ \t*]*(?P<name>[\w.-]{1,128})[ \t`*]*\r?\n"
    r"[ \t*]{0,8}Action Input[ \t*]{0,4}:[ \t*]*",
    re.I | re.M,
)
_INPUT_END = re.compile(r"\s*(?:```\s*)?(?:\Z|\n[ \t*]{0,8}Observation\b)", re.I)
_EXAMPLE = re.compile(
    r"\b(?:for example|for instance|e\.g\.|such as|example(?: of| call| output)?\s*:|looks? like|"
    r"would (?:be|call|look|write))[^\n]{0,60}\s*\Z",
    re.I,
)


def is_example(before: str) -> bool:
    """Return whether the words right before a block introduce an example."""
    return _EXAMPLE.search(before[-160:].rstrip()) is not None


def read_untagged(reader: CallReader, text: str) -> Remainder:
    """Return the calls of a text without tags, and the remaining text.

    A call counts only if the whole text is calls, if it opens the text and ends its line, or if it begins a
    line and nothing follows it. A call in a sentence, with more text on the same line, or introduced as an
    example is prose.
    """
    for read in (_opening_json, _closing_json, _closing_code, _named_lines, _action):
        found = read(reader, text)
        if found[0]:
            return found
    return (), text, ""


def _opening_json(reader: CallReader, text: str) -> Remainder:
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] not in ("{", "["):
        return (), text, ""
    calls, end = reader.read_calls(text, start, "json")
    line, _, following = text[end:].partition("\n")
    return (calls, "", following) if calls and not line.strip(" \t\r.;") else ((), text, "")


def _named_lines(reader: CallReader, text: str) -> Remainder:
    """Return the calls that a text consists of, their names on separate lines."""
    calls: tuple[ParsedCall, ...] = ()
    start = 0
    while line := _NAME_LINE.match(text, start):
        read = reader.json.read(text, line.end())
        if read is None or not read.value:
            break
        call: Json = {"name": line["name"], "arguments": read.value}
        more = reader.calls_of(call, "name-line", repaired=read.repaired)
        if not more:
            break
        calls, start = calls + more, read.end
    return (calls, "", "") if calls and _TAIL.match(text, start) else ((), text, "")


def _closing_json(reader: CallReader, text: str) -> Remainder:
    for line in islice(_JSON_LINE.finditer(text), _MOST_ATTEMPTS):
        if is_example(text[max(0, line.start() - 160) : line.start()]):
            continue
        calls, end = reader.read_calls(text, line.end(), "json")
        if calls and _ends(text, end, line["ticks"]):
            return calls, text[: line.start()], ""
    return (), text, ""


def _closing_code(reader: CallReader, text: str) -> Remainder:
    known = (line for line in _CODE_LINE.finditer(text) if reader.names.resolve(line["name"]))
    for line in islice(known, _MOST_ATTEMPTS):
        if is_example(text[max(0, line.start() - 160) : line.start()]):
            continue
        if line["list"]:
            calls, end = read_code_list(reader, text, line.start("list"))
        else:
            calls, end = read_code_lines(reader, text, line.start("name"))
        if calls and _ends(text, end, line["ticks"]):
            return calls, text[: line.start()], ""
    return (), text, ""


def read_printed(reader: CallReader, text: str, start: int) -> tuple[tuple[ParsedCall, ...], int]:
    """Return the call of ``print(name(…))``, as Gemma writes one, and its end."""
    printed = _PRINT.match(text, start)
    found = read_code_call(reader, text, printed.end()) if printed else None
    closing = _CLOSE.match(text, found[1]) if found else None
    return ((found[0],), closing.end()) if found and closing else ((), start)


def read_code_lines(reader: CallReader, text: str, start: int) -> tuple[tuple[ParsedCall, ...], int]:
    """Return successive calls ``name(…)``, one per line, and the end of the last."""
    calls: tuple[ParsedCall, ...] = ()
    end, position = start, start
    while found := read_code_call(reader, text, position):
        calls, end = (*calls, found[0]), found[1]
        gap = _NEXT_CODE.match(text, end)
        if gap is None:
            break
        position = gap.end()
    return calls, end


def _action(reader: CallReader, text: str) -> Remainder:
    """Return a call in ReAct's form, without an invented observation after it."""
    for line in islice(_ACTION.finditer(text), _MOST_ATTEMPTS):
        calls: tuple[ParsedCall, ...] = ()
        name = reader.names.resolve(line["name"])
        if name is None:
            continue
        start = line.end()
        if opening := re.compile(r"\s*(?:```(?:json)?\s*)?(?=\{)").match(text, start):
            read = reader.json.read(text, opening.end())
            if read is not None:
                calls, start = reader.named(name, read, "react"), read.end
        elif words := re.compile(r"[^\n]*").match(text, start):
            said, start = words[0].strip(), words.end()
            calls = (ParsedCall(name, {"input": said} if said else {}, "react"),)
        closing = _INPUT_END.match(text, start)
        if calls and closing is not None:
            return calls, text[: line.start()], ""
    return (), text, ""


def _ends(text: str, end: int, ticks: str) -> bool:
    """Return whether only the closing marks of opened code follow."""
    closing = re.compile(r"\s*" + ticks).match(text, end)
    return closing is not None and _TAIL.match(text, closing.end()) is not None
