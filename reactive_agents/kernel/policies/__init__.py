"""Policies about tools and spending: pure functions from a state to a verdict."""

from __future__ import annotations

from reactive_agents.kernel.policies.circles import going_in_circles
from reactive_agents.kernel.policies.novelty import diminishing_returns
from reactive_agents.kernel.policies.required import out_of_reach, progress, required_tools, synthesis
from reactive_agents.kernel.policies.spending import budget

__all__ = [
    "budget",
    "diminishing_returns",
    "going_in_circles",
    "out_of_reach",
    "progress",
    "required_tools",
    "synthesis",
]
