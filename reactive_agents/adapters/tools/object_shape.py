"""JSON objects with named entries, as pydantic is told of them."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

NO_DEFAULT = object()
"""Stands for a default that there is not; ``None`` would be one."""


def entry(annotation: Any, *, description: str, default: object) -> Any:
    """One entry of a ``TypedDict``: described, and not required when it has a default.

    The default is told to the model only; the function or class fills it in by itself.
    """
    from pydantic import Field
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    extra: dict[str, Any] = {}
    if default is not NO_DEFAULT:
        try:
            extra["default"] = to_jsonable_python(default)
        except (PydanticSerializationError, ValueError, RecursionError):
            extra = {}  # a default without a JSON form is not shown
    described: Any = Annotated[
        annotation,
        Field(description=_own_description(annotation) or description or None, json_schema_extra=extra),
    ]
    return described if default is NO_DEFAULT else NotRequired[described]


def _own_description(annotation: Any) -> str | None:
    """What ``Annotated[int, "how many"]`` or a pydantic ``Field`` says; it wins over the docstring."""
    if typing.get_origin(annotation) is not Annotated:
        return None
    for extra in typing.get_args(annotation)[1:]:
        description = extra if isinstance(extra, str) else getattr(extra, "description", None)
        if isinstance(description, str):
            return description
    return None


def object_shape(
    name: str,
    entries: Mapping[str, Any],
    *,
    description: str = "",
    defer_build: bool = False,
) -> Any:
    """A ``TypedDict`` with those entries and no others; unlike a pydantic model it takes any name for them.

    Args:
        defer_build: leave it to the caller to compile the validator.
    """
    from pydantic import ConfigDict
    from typing_extensions import TypedDict

    make: Any = TypedDict  # a checker wants the entries written out
    shape = make(name, dict(entries))
    shape.__doc__ = description or None
    shape.__pydantic_config__ = ConfigDict(extra="forbid", defer_build=defer_build, allow_inf_nan=False)
    return shape
