"""The type of JSON values, and the search for an object in a text.

Arrays are lists, objects are dictionaries with string keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType, TypeAlias, Union

if TYPE_CHECKING:
    Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007
else:  # a recursive alias cannot be resolved from another module at run time; the codec looks for this name
    Json = NewType("Json", object)

JsonObject: TypeAlias = dict[str, Json]


def object_within(text: str) -> str:
    """Return the text from its first to its last brace; all of it without braces.

    Models put prose and code fences around the JSON object that they are asked for.
    """
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text
