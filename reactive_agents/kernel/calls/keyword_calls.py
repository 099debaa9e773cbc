"""Calls written as code: ``name({…})``, ``name(key="value")``, and lists of them."""

from __future__ import annotations

import ast
import re
import warnings

from reactive_agents.core.json import Json, JsonObject
from reactive_agents.kernel.calls.json_blocks import CallReader
from reactive_agents.kernel.calls.json_text import Decoded
from reactive_agents.kernel.calls.parsed import CallForm, ParsedCall

_HEAD = re.compile(r"\s*(?P<name>[\w-][\w.-]{0,127})[ \t]*\(\s*")
_CLOSE = re.compile(r"\s*\)")
_COMMA = re.compile(r"\s*,?\s*")
_LARGEST = 10**400  # hexadecimal literals may have more digits than can be printed; infinity is larger too
_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None}


def read_code_call(
    reader: CallReader, text: str, start: int, *, suffix: str = "", source: CallForm | None = None
) -> tuple[ParsedCall, int] | None:
    """The call that begins at ``start``, and the position behind its closing bracket.

    Arguments are one JSON object, keywords with literal values, a single quoted text (which becomes the
    argument ``input``), or nothing. Anything else, such as a variable or a sum, is code and not a call.

    Args:
        suffix: what is taken off the written name, such as ``.call``.
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
    """The calls in ``[name(…), name(…)]``; none when one of them is no call."""
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
    """The arguments between two brackets; ``None`` when they are not literals."""
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
