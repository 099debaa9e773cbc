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

    def failed(reason: str) -> Failure[InvalidConfig]:
        return Failure(InvalidConfig(option, repr(reference), f"module:function that exists ({reason})"))

    module, _, path = reference.partition(":")
    if module.startswith("."):
        return failed("the module needs an absolute name")
    try:
        found: Any = importlib.import_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a module runs whatever it holds
        missing = isinstance(error, ModuleNotFoundError)
        return failed(f"{error}" if missing else f"importing it raised {type(error).__name__}: {error}")
    try:
        for attribute in path.split("."):
            found = getattr(found, attribute)
    except AttributeError as error:
        return failed(str(error))
    return Success(found)
