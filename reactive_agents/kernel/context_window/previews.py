"""Previews of texts and JSON values within a budget, and queries of results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from math import prod
from typing import Any

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.json import Json
from reactive_agents.core.texts import counted
from reactive_agents.core.values import Value, lazy_pattern

_SHARE = 5
_SHORT = 40
_PASSAGE = 400
"""Characters of a line that are looked at together."""
_WORD = lazy_pattern(r"[^\W_]{4,}")


def cut_before(text: str, length: int) -> int:
    """Return how many of the first characters to keep, up to a line or word end.

    The end of the line is kept too. A greater length never gives an earlier end.
    """
    if length >= len(text):
        return len(text)
    least = length - _slack(length)
    line_end = text.rfind("\n", least, length) + 1
    word_end = max(text.rfind(blank, least, length + 1) for blank in " \t")
    if line_end:
        return line_end
    return length if word_end < 0 else word_end


def cut_after(text: str, length: int) -> int:
    """Return how many of the last characters to keep, from a line or word start.

    A greater length never gives a later beginning.
    """
    if length == 0 or length >= len(text):
        return min(length, len(text))
    first = len(text) - length
    for blanks in ("\n", "\n \t"):
        found = [at for blank in blanks if (at := text.find(blank, first - 1, first + _slack(length))) >= 0]
        if found:
            return len(text) - min(found) - 1
    return length


def _slack(length: int) -> int:
    """Return the characters that a clean cut may cost: a fifth, up to half."""
    return max(length // _SHARE, min(length // 2, _SHORT))


# --- JSON in a given space ---


LINE = 100
"""Characters of a line that holds several things."""
LONGEST_LINE = 300
"""Characters of a line that holds an object of plain values alone."""
_PROBED = 50
_PLAIN_ITEMS = 10


@frozen(eq=False, repr=False)
class _Detail(Value):
    """How much of each value is shown."""

    characters: int
    items: int
    plain_items: int
    keys: int
    depth: int


def outline(value: Json, room: int, list_items: int) -> str:
    """Return an outline of a value within the room; omissions are counted in place.

    Values are shown in more and more detail, all of them alike, until the next degree no longer fits. So
    whatever is shown in some room is shown in a larger one too.

    Args:
        room: characters; where not even the least detail fits, its beginning is shown.
        list_items: items of a list of objects or lists at most; of plain values ten times as many.
    """
    best, degree = "", 0
    while True:
        detail = _detail(degree, list_items)
        shown = _render(value, detail, 0)
        if len(shown) > room:
            return best or _whole_lines(shown, max(0, room))
        if detail.characters > room:
            return shown
        best, degree = shown, degree + 1


def _detail(degree: int, list_items: int) -> _Detail:
    items = 1 + degree + degree * degree // 8
    return _Detail(
        characters=int(24 * 1.2**degree),
        items=min(items, list_items),
        plain_items=min(items * (1 + degree // 2), list_items * _PLAIN_ITEMS),
        keys=4 * (1 + degree),
        depth=1 if degree == 0 else 3 + degree // 3,
    )


def _render(value: Json, detail: _Detail, depth: int) -> str:
    match value:
        case str():
            return _text(value, detail.characters)
        case {} | [] if not value:
            return "{}" if isinstance(value, dict) else "[]"
        case list() if depth >= detail.depth:
            return f"[… {counted(len(value), 'item')}]"
        case dict() if depth >= detail.depth:
            return f"{{… {counted(len(value), 'key')}}}"
        case list():
            plain = _is_plain(islice(value, _PROBED))
            parts = [
                _render(item, detail, depth + 1)
                for item in value[: detail.plain_items if plain else detail.items]
            ]
            return _joined("[", parts, len(value), "item", "]", plain=plain)
        case dict():
            parts = [
                f"{_text(key, detail.characters)}: {_render(item, detail, depth + 1)}"
                for key, item in islice(value.items(), detail.keys)
            ]
            plain = depth > 0 and _is_plain(islice(value.values(), _PROBED))
            return _joined("{", parts, len(value), "key", "}", plain=plain)
    return json.dumps(value)


def _is_plain(values: Iterable[Json]) -> bool:
    return not any(isinstance(value, list | dict) for value in values)


def _text(text: str, limit: int) -> str:
    if len(text) <= limit:
        return json.dumps(text, ensure_ascii=False)
    end = cut_before(text, limit)
    return f"{json.dumps(text[:end], ensure_ascii=False)} …{len(text) - end} more characters"


def _joined(opening: str, parts: list[str], total: int, kind: str, closing: str, *, plain: bool) -> str:
    if len(parts) < total:
        parts = [*parts, f"… {total - len(parts)} more of {counted(total, kind)}"]
    line = ", ".join(parts)
    if len(line) <= (LONGEST_LINE if plain else LINE) and "\n" not in line:
        return f"{opening}{line}{closing}"
    lines = _filled(parts) if plain else parts
    body = ",\n".join(lines).replace("\n", "\n ")
    return f"{opening}\n {body}\n{closing}"


def _filled(parts: list[str]) -> list[str]:
    """The parts, as many on a line as it holds."""
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) + 2 <= LINE:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return lines


def _whole_lines(text: str, room: int) -> str:
    cut = text[:room]
    whole = cut.rpartition("\n")[0]
    return whole or cut


# --- Views of long texts that fit a budget: the head and the tail of prose, the outline of JSON ---


LARGEST_OUTLINED = 2_000_000
"""Characters up to which a text is looked at as JSON."""


def preview(text: str, key: str | None, budget: int, *, head_share: float = 0.7, list_items: int = 50) -> str:
    """Return a text that fits, else a preview with its length and how to read it.

    The same text and budget always give the same view, which is never longer than the budget, and a larger
    budget never shows less.

    Args:
        key: where the full text is stored; ``None`` for one that is stored nowhere, such as an error.
        budget: characters, 200 or more; below it, what is shown gets scarce, but the budget holds.
        head_share: 0 to 1, the part of prose that its start gets; its end gets the rest.
        list_items: items of a list of objects that are shown at most.
    """
    if len(text) <= budget:
        return text
    value = json_value(text) if text[:1] in ("{", "[") else None
    if value is None:
        return _prose(text, key, budget, head_share)
    note = f"\n[… shortened view of {len(text)} characters{_way_on(key, 'path, items, search or start')} …]"
    return outline(value, budget - len(note), list_items)[: max(0, budget - len(note))] + note[:budget]


def json_value(text: str) -> Json:
    """Return the JSON value of a text; ``None`` if it is invalid or too long."""
    if len(text) > LARGEST_OUTLINED:
        return None
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def _prose(text: str, key: str | None, budget: int, head_share: float) -> str:
    total = len(text)

    def note(left_out: int, start: int) -> str:
        way_on = _way_on(key, f"start={start}")
        return f"\n[… {left_out} of {total} characters left out{way_on} …]\n"

    room = max(0, budget - len(note(total, total)))
    head_room = room * round(head_share * 1000) // 1000  # whole numbers: one more of room never takes away
    head = cut_before(text, head_room)
    tail = cut_after(text, room - head_room)
    told = note(total - head - tail, head)
    told = told[1:] if text[:head].endswith("\n") else told
    return (text[:head] + told + text[total - tail :])[:budget]


def passages(text: str, query: str, budget: int) -> str:
    """Return the lines of a long text that are about a query, in their order.

    Those are lines with the words of the query that are rarest in the text; empty when there are none.

    Args:
        budget: characters, 0 or more.
    """
    wanted = set(_words(query))
    lines = [line[at : at + _PASSAGE] for line in text.splitlines() for at in range(0, len(line), _PASSAGE)]
    shared = [wanted.intersection(_words(line)) for line in lines]
    count = Counter(word for words in shared for word in words)
    worth = [sum(1 / count[word] for word in words) for words in shared]
    least, room = max(worth, default=0.0) / 2, budget
    chosen: list[int] = []
    for at in sorted(range(len(lines)), key=lambda at: -worth[at]):
        if not worth[at] or worth[at] < least or len(lines[at]) >= room:
            break
        chosen.append(at)
        room -= len(lines[at]) + 1
    return "\n".join(lines[at] for at in sorted(chosen))


def _words(text: str) -> Iterable[str]:
    return (word.lower() for word in _WORD.findall(text))


def _way_on(key: str | None, how: str) -> str:
    return "" if key is None else f'; more: recall(key="{key}", {how})'


# --- JMESPath queries of results, written by a configuration or a model ---------------------------------
# Such an expression cannot call anything but JMESPath's own functions. What it could do is grow: each
# ``[@, @]`` doubles its input, and a few dozen in a row fill any memory. So how much an expression can
# multiply is worked out from its syntax before it is run, and one that could multiply too much is refused.

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
_FUNCTION = lazy_pattern(
    "abs|avg|ceil|contains|ends_with|floor|join|keys|length|map|max|max_by|merge|min|min_by|not_null|reverse|"
    "sort|sort_by|starts_with|sum|to_array|to_number|to_string|type|values"
)


@frozen(eq=False, repr=False)
class Query(Value):
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
