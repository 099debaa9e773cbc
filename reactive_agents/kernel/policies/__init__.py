"""Policies about tools and spending: pure functions from a state to a verdict."""

from __future__ import annotations

from reactive_agents.kernel.policies.budgets import budget
from reactive_agents.kernel.policies.loop_detection import diminishing_returns, going_in_circles
from reactive_agents.kernel.policies.requirements import out_of_reach, progress, required_tools, synthesis

__all__ = [
    "budget",
    "diminishing_returns",
    "going_in_circles",
    "out_of_reach",
    "progress",
    "required_tools",
    "synthesis",
]
