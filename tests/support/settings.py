"""Settings of runs, from the fields that a test names."""

from __future__ import annotations

from typing import Any

import attrs

from reactive_agents.core.config import ReasoningConfig
from reactive_agents.core.settings import RunSettings
from reactive_agents.kernel import KernelContext

_NAMES = {field.name for field in attrs.fields(RunSettings)} - {"max_iterations"}


def take_settings(fields: dict[str, Any]) -> RunSettings:
    """The settings that ``fields`` describe; what describes them is taken out of it."""
    chosen = {name: fields.pop(name) for name in _NAMES & fields.keys()}
    if "parallel_tool_calls" in fields:
        parallel = fields.pop("parallel_tool_calls")
        chosen["reasoning"] = attrs.evolve(
            chosen.get("reasoning", ReasoningConfig()), parallel_tool_calls=parallel
        )
    return attrs.evolve(fields.pop("settings", RunSettings()), **chosen)


def change_settings(context: KernelContext, **fields: Any) -> KernelContext:
    """The context of a run with other settings."""
    settings = take_settings({"settings": context.input.settings, **fields})
    return attrs.evolve(context, input=attrs.evolve(context.input, settings=settings))
