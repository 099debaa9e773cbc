"""Limits on arguments that their types do not express."""

from __future__ import annotations

from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments


def at_least_one(tool_name: str, argument: str, value: int) -> InvalidToolArguments | None:
    """The error of an argument below 1, or ``None``."""
    if value >= 1:
        return None
    return InvalidToolArguments(tool_name, (ArgumentProblem(argument, str(value), "1 or more"),))
