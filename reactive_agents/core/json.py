"""The type of a JSON value. Arrays are lists, objects are dictionaries with string keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType, TypeAlias, Union

if TYPE_CHECKING:
    Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007
else:  # a recursive alias cannot be resolved from another module at run time; the codec looks for this name
    Json = NewType("Json", object)

JsonObject: TypeAlias = dict[str, Json]
