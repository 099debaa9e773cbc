"""What a configuration names as ``module:function``."""

from __future__ import annotations

import importlib
from typing import Any

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import InvalidConfig


def imported(reference: str, option: str) -> Result[Any, InvalidConfig]:
    """The object of that name.

    Args:
        reference: ``module:function``; the function may be an attribute of something in the module.
        option: what the failure says is wrong.
    """
    module, _, path = reference.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except (ImportError, AttributeError, ValueError) as error:
        return Failure(InvalidConfig(option, repr(reference), f"module:function that exists ({error})"))
    return Success(found)
