"""Errors as values: one class for each cause, one union for each layer.

Each error has a ``message``: one sentence for a person, without secrets and without a stack trace. Those that
every layer makes are imported with this module. The others, of runs and their services, are imported when one
of them is first used under its name here: most programs have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactive_agents.core.bases import BudgetPeriod as BudgetPeriod
from reactive_agents.core.bases import ConfigErrors as ConfigErrors
from reactive_agents.core.bases import DecodeError as DecodeError
from reactive_agents.core.bases import FieldProblem as FieldProblem
from reactive_agents.core.bases import InvalidConfig as InvalidConfig
from reactive_agents.core.bases import ServiceFailed as ServiceFailed
from reactive_agents.core.bases import ServiceMissing as ServiceMissing
from reactive_agents.core.bases import sentence as sentence

if TYPE_CHECKING:
    from reactive_agents.core.run_errors import *  # noqa: F403


if not TYPE_CHECKING:  # else type checkers accept any name

    def __getattr__(name: str) -> Any:
        """Import the errors of runs on first use."""
        if not name.startswith("_"):
            from reactive_agents.core import run_errors

            if name in vars(run_errors):
                globals()[name] = found = getattr(run_errors, name)
                return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
