"""Where a tool says what it spent on models of its own when it is cut off, and so can return nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import TypeAlias

from reactive_agents.core.tools import ToolSpending

SpendingAccount: TypeAlias = Callable[[ToolSpending], Awaitable[None]]
"""Enters what was spent into the account of a run, also while that is being cancelled."""

ACCOUNT_OF_RUN: ContextVar[SpendingAccount | None] = ContextVar("account_of_run", default=None)
"""That of the run that goes on; ``None`` outside of any."""
