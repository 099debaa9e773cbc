"""Policies about tools and spending: pure functions from a state to a verdict."""

from __future__ import annotations

from reactive_agents.kernel.policies.budgets import budget
from reactive_agents.kernel.policies.repetition import diminishing_returns, loop_detection
from reactive_agents.kernel.policies.requirements import out_of_reach, progress, required_tools, synthesis

__all__ = [
    "budget",
    "diminishing_returns",
    "loop_detection",
    "out_of_reach",
    "progress",
    "required_tools",
    "synthesis",
]
