"""What a call of ``recall`` asks for: its arguments, read with the leniency that models need."""

from __future__ import annotations

import json

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.kernel.toolset import RECALL, RECALL_TOOL

_SHOWN = 80
_TEXTS = ("key", "search", "path", "query")


@frozen
class Wanted:
    """The arguments of a call; ``None`` for those that it does not give."""

    key: str
    search: str | None = None
    path: str | None = None
    query: str | None = None
    items: tuple[int, int] | None = None
    start: int | None = None
    length: int | None = None


def read_arguments(call: ToolCall) -> Result[Wanted, InvalidToolArguments]:
    """What the call asks for; fails with ``InvalidToolArguments``.

    Whole numbers may be written as text, and ``null`` or an empty text counts as not given.
    """
    if call.malformed:
        return _refused(_problem("arguments", call.malformed, "a JSON object"))
    given = {name: value for name, value in call.arguments.items() if value not in (None, "", [])}
    properties = RECALL_TOOL.parameters["properties"]
    known = list(properties) if isinstance(properties, dict) else []
    problems = [_problem(name, given[name], f"one of {', '.join(known)}") for name in given.keys() - {*known}]
    problems += [
        _problem(name, given[name], "a text") for name in _TEXTS if not isinstance(given.get(name, ""), str)
    ]
    start, length = _number(given.get("start", 0)), _number(given.get("length", 1))
    if start is None or start < 0:
        problems.append(_problem("start", given["start"], "a whole number of 0 or more"))
    if length is None or length < 1:
        problems.append(_problem("length", given["length"], "a whole number of 1 or more"))
    items = _items(given["items"]) if "items" in given else None
    if "items" in given and items is None:
        problems.append(_problem("items", given["items"], "two whole numbers, such as [20, 40]"))
    if "path" in given and "query" in given:
        problems.append(_problem("query", given["query"], "either path or query"))
    if "items" in given and "search" in given:
        problems.append(_problem("search", given["search"], "either items or search"))
    if "key" not in given:
        problems.append(_problem("key", None, "the key of a stored result"))
    if problems:
        return _refused(*problems)
    search, path, query = (str(given[name]) if name in given else None for name in _TEXTS[1:])
    return Success(
        Wanted(
            str(given["key"]),
            search,
            path,
            query,
            items,
            start if "start" in given else None,
            length if "length" in given else None,
        )
    )


def _refused(*problems: ArgumentProblem) -> Result[Wanted, InvalidToolArguments]:
    return Failure(InvalidToolArguments(RECALL, problems))


def _problem(name: str, got: Json, expected: str) -> ArgumentProblem:
    told = json.dumps(got, ensure_ascii=False)
    return ArgumentProblem(name[:_SHOWN], told if len(told) <= _SHOWN else told[:_SHOWN] + "…", expected)


def _number(value: Json) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and len(value) <= 15 and value.strip().isdecimal():
        return int(value)
    return value if isinstance(value, int) else None


def _items(value: Json) -> tuple[int, int] | None:
    if not isinstance(value, list) or len(value) != 2:
        return None
    first, end = map(_number, value)
    return None if first is None or end is None or not 0 <= first < end else (first, end)
