"""A value together with what it cost to come by."""

from __future__ import annotations

from typing import Any

from attrs import frozen

from reactive_agents.core.tools import ToolSpending


@frozen
class ToolReport:
    """What a tool function may return instead of a value, to say what the call spent on models.

    Attributes:
        value: anything that a tool may return, a failure included.
    """

    value: Any
    spending: ToolSpending
