"""JMESPath queries of results, written by a configuration or a model.

Such an expression cannot call anything but JMESPath's own functions. What it could do is grow: each
``[@, @]`` doubles its input, and a few dozen in a row fill any memory. So how much an expression can multiply
is worked out from its syntax before it is run, and one that could multiply too much is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.json import Json
from reactive_agents.kernel.context_window.previews import json_value

LONGEST_QUERY = 500
"""Characters of an expression."""
LARGEST_RESULT = 10_000_000
"""Characters that the result of an expression may have at most, as JSON text: input times growth."""
LARGEST_QUERIED = 1_000_000
"""Characters of JSON text that an expression is applied to at most."""
LARGEST_GROWTH = 1_000
_ESCAPED = 6  # characters that one character may become as JSON text
_TAKES_EXPRESSIONS = frozenset({"map", "max_by", "min_by", "sort_by"})
_GIVES_ARGUMENTS = frozenset({"map", "merge", "not_null", "to_array", "to_string"})
_FUNCTION = re.compile(
    "abs|avg|ceil|contains|ends_with|floor|join|keys|length|map|max|max_by|merge|min|min_by|not_null|reverse|"
    "sort|sort_by|starts_with|sum|to_array|to_number|to_string|type|values"
)


@frozen
class Query:
    """A checked expression.

    ``growth``: maximum size of the result by that of the input.
    """

    expression: str
    compiled: Any
    growth: int


def compile_query(expression: str) -> Result[Query, str]:
    """Compile and check an expression; fails with a sentence."""
    import jmespath
    from jmespath.exceptions import JMESPathError

    if len(expression) > LONGEST_QUERY:
        return Failure(f"the expression has {len(expression)} characters, {LONGEST_QUERY} are allowed")
    try:
        compiled = jmespath.compile(expression)
        growth = _growth(compiled.parsed)
    except (JMESPathError, ValueError, RecursionError, PendingDeprecationWarning) as error:
        return Failure(_one_line(error))
    except _Unbounded as refused:
        return Failure(str(refused))
    if growth > LARGEST_GROWTH:
        return Failure(f"the expression could make its result {growth} times as large as its input")
    return Success(Query(expression, compiled, growth))


def run_query(query: Query, text: str) -> Result[Json, str]:
    """Run an expression on a JSON text.

    Fails with a sentence: the text is no array or object, or too long, or the expression does not fit it or
    finds nothing.
    """
    from jmespath.exceptions import JMESPathError

    if len(text) > LARGEST_QUERIED or len(text) * query.growth > LARGEST_RESULT:
        return Failure(f"a result of {len(text)} characters is too long for it")
    data = json_value(text)
    if not isinstance(data, list | dict):
        return Failure("the result is no JSON array or object")
    try:
        found: Json = query.compiled.search(data)
    except (JMESPathError, ArithmeticError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return Failure(_one_line(error))
    return Failure("it finds nothing here") if found is None else Success(found)


class _Unbounded(Exception):
    """The expression has a part whose growth is not known."""


def _growth(node: Mapping[str, Any]) -> int:
    """Return the maximum growth of a node's result; each kind of node has a case."""
    kind: str = node["type"]
    children: list[Any] = node["children"]
    match kind:
        case "identity" | "field" | "current" | "index" | "slice":
            return 1
        case "literal":
            return 1 + len(str(node["value"])) // 2  # beside values of two characters, such as ``1,``
        case "multi_select_list":
            return sum(map(_growth, children))
        case "multi_select_dict":
            return sum(_growth(child["children"][0]) + len(child["value"]) // 2 for child in children)
        case "comparator" | "not_expression":
            return max(map(_compared, children))
        case "and_expression" | "or_expression":
            return max(map(_growth, children))
        case "function_expression":
            return _function_growth(node["value"], children)
        case (
            "subexpression"
            | "index_expression"
            | "pipe"
            | "projection"
            | "value_projection"
            | "filter_projection"
            | "flatten"
        ):
            return prod(map(_growth, children))
    raise _Unbounded(f"{kind} is not allowed here")


def _compared(node: Mapping[str, Any]) -> int:
    """The same of a value that does not become part of the result."""
    return 1 if node["type"] == "literal" else _growth(node)


def _function_growth(name: str, arguments: list[Any]) -> int:
    if not _FUNCTION.fullmatch(name):
        raise _Unbounded(f"there is no function {name}()")
    factor = _ESCAPED if name == "to_string" else 1
    if name == "join":
        if not arguments or arguments[0]["type"] != "literal":
            raise _Unbounded("join() needs a literal text as its first argument")
        factor = _growth(arguments[0])
    total = 0
    for argument in arguments:
        if argument["type"] == "expref" and name in _TAKES_EXPRESSIONS:
            factor *= _growth(argument["children"][0])
        else:
            total += _growth(argument) if name in _GIVES_ARGUMENTS else _compared(argument)
    return factor * max(1, total)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
