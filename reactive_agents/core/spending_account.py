"""Where tools and adapters say what they spent on models when they are cut off, and so can return nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar

from reactive_agents.core.tools import ToolSpending

ACCOUNT_OF_RUN: ContextVar[Callable[[ToolSpending], Awaitable[None]] | None] = ContextVar(
    "account_of_run", default=None
)
"""Enters what was spent into the account of the run that goes on, also while that is being cancelled."""
