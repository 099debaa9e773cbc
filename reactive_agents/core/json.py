"""The type of JSON values, and the search for an object in a text.

Arrays are lists, objects are dictionaries with string keys.
"""

from __future__ import annotations

import json
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Never, NewType, TypeAlias, TypeVar, Union

from reactive_agents.core.texts import with_article
from reactive_agents.core.values import lazy_pattern

if TYPE_CHECKING:
    Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007
else:  # a recursive alias cannot be resolved from another module at run time; the codec looks for this name
    Json = NewType("Json", object)

JsonObject: TypeAlias = dict[str, Json]

if TYPE_CHECKING:  # of data that programs read: they know its form, which a type checker does not
    JsonData: TypeAlias = Any
    JsonFields: TypeAlias = dict[str, Any]
else:
    JsonData, JsonFields = Json, JsonObject

_T = TypeVar("_T")
_SHOWN_CHARACTERS = 80

MOST_LEVELS = 64
"""Levels of arrays and objects that data of a program may have."""
JSON_DATA = f"JSON data: lists, objects, texts, finite numbers, at most {MOST_LEVELS} levels deep"


def object_within(text: str) -> str:
    """Return a text from its first to its last brace, without prose around, or all."""
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text


def copied_json(value: _T) -> _T:
    """Return a copy of JSON data, which may be nested to any depth."""
    made: list[Any] = [value]
    waiting: list[Any] = [made]
    while waiting:
        container = waiting.pop()
        for key, each in container.items() if isinstance(container, dict) else enumerate(container):
            if isinstance(each, dict | list):
                container[key] = each.copy()
                waiting.append(container[key])
    copied: _T = made[0]
    return copied


def _refuse(*_: object, **__: object) -> Never:
    raise TypeError(
        "This data is read-only: assign a changed copy, such as [*items, new] or {**data, key: new}."
    )


class _FrozenList(list[Any]):
    append = extend = insert = pop = remove = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse

    def __reduce__(self) -> tuple[type, tuple[list[Any]]]:
        return list, (list(self),)


class _FrozenDict(dict[str, Any]):
    pop = popitem = clear = update = setdefault = _refuse
    __setitem__ = __delitem__ = __ior__ = _refuse

    def __reduce__(self) -> tuple[type, tuple[dict[str, Any]]]:
        return dict, (dict(self),)


def read_only(value: Json) -> Json:
    """Return a read-only copy of JSON data; copies of that may be changed."""
    if isinstance(value, dict):
        return _FrozenDict({key: read_only(each) for key, each in value.items()})
    return _FrozenList(map(read_only, value)) if isinstance(value, list) else value


def changed_keys(before: JsonObject, after: JsonObject) -> tuple[str, ...]:
    """Return the keys whose values differ between two objects."""
    # by their text, since True == 1
    return tuple(
        key for key in {**before, **after} if repr(before.get(key, ...)) != repr(after.get(key, ...))
    )


def changes_of(given: JsonObject, keys: Iterable[str]) -> JsonObject:
    """Return the changes of keys: a list of the value, empty if it was deleted."""
    return {key: [given[key]] if key in given else [] for key in keys}


def with_changes(given: JsonObject, changes: JsonObject) -> JsonObject:
    """Return an object with changes of :func:`changes_of`."""
    kept = {key: value for key, value in given.items() if key not in changes}
    return kept | {key: value[0] for key, value in changes.items() if isinstance(value, list) and value}


def json_object_of(given: object) -> JsonObject | None:
    """Return a copy of a JSON object; ``None`` if the value is not one."""
    if not isinstance(given, Mapping):
        return None
    try:
        text = json.dumps(dict(given), allow_nan=False, ensure_ascii=False)
        copy: JsonObject = json.loads(text)
        is_same = _levels(copy) <= MOST_LEVELS and copy == given
    except (TypeError, ValueError, RecursionError):
        return None
    return copy if is_same and text == without_surrogates(text) else None


def _levels(value: Json) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(_levels, items), default=0)


def json_bytes(content: Any) -> bytes:
    """Return JSON data as ASCII text on one line."""
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def map_texts(value: Json, change: Callable[[str], str]) -> Json:
    """Return JSON data with each of its texts changed; the keys of objects stay."""
    match value:
        case str():
            return change(value)
        case list():
            return [map_texts(each, change) for each in value]
        case dict():
            return {key: map_texts(each, change) for key, each in value.items()}
        case _:
            return value


def texts_in(value: Json) -> Iterator[str]:
    """Yield the texts within JSON data, without the names of fields."""
    if isinstance(value, str):
        yield value
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    for item in items:
        yield from texts_in(item)


# --- repair of lone surrogates, which UTF-8 cannot express ----------------------------------------------
# Models, files and JSON escapes contain them.

_ESCAPE: Final = lazy_pattern(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\."  # also an escaped backslash, so that what follows it is not taken for an escape
)


def without_surrogates(text: str) -> str:
    """Return the text without lone surrogates: pairs are joined, others become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def json_without_surrogates(text: str) -> str:
    """Return JSON text without lone surrogates, literal or escaped."""
    text = without_surrogates(text)
    if "\\u" not in text:
        return text
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape["half"] else escape[0], text)


class SurrogateFilter:
    """Repairs a text that arrives in chunks, which may split a surrogate pair."""

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-16-le")("replace").decode

    def take(self, piece: str) -> str:
        """Return the repaired text so far; a high surrogate at the end is held back."""
        return self._decode(piece.encode("utf-16-le", "surrogatepass"))

    def end(self) -> str:
        """Return the replacement of a held-back surrogate, if there is one."""
        return self._decode(b"", final=True)


def abbreviated(value: object) -> str:
    """Return a short form of a JSON value: a container's size, a text's beginning."""
    match value:
        case dict():
            return f"an object of {len(value)} fields" if len(value) != 1 else "an object of 1 field"
        case list() | tuple():
            return f"an array of {len(value)} items" if len(value) != 1 else "an array of 1 item"
        case int() if value.bit_length() > 200:
            return f"an integer of {value.bit_length()} bits"
        case str() if len(value) > _SHOWN_CHARACTERS:
            return repr(value[: _SHOWN_CHARACTERS - 3]) + "..."
        case None | bool() | int() | float() | str():
            return repr(value)
        case _:
            return with_article(type(value).__name__)


def in_one_order(written: Iterable[Any]) -> list[Any]:
    """Return the JSON data of the items of a set in an order that every process has.

    >>> in_one_order(["b", 1, "a"])
    ['a', 'b', 1]
    """
    items = list(written)
    try:
        return sorted(items)
    except TypeError:  # of several types, or of objects
        return sorted(items, key=json.dumps)
