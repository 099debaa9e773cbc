"""Plans made by a model, checked, executed step by step, repaired and judged.

A plan is data: steps with types, arguments and dependencies that a model writes and the code checks before
any of them runs. All changes are pure functions from plan to plan, and completed steps are never touched; the
journal is the one place where the current plan changes, is published and is stored. So a plan survives its
process, and a resumed one repeats no step that may have taken effect.
"""

from __future__ import annotations

from reactive_agents.reasoning.planning.executor import blocked_by, compute_waves
from reactive_agents.reasoning.planning.plan_journal import (
    apply_augment,
    apply_patch,
    replace_remaining,
    resumed_plan,
)
from reactive_agents.reasoning.planning.planner import find_cycle, find_problems, with_required_calls
from reactive_agents.reasoning.planning.schemas import (
    LLMPlanOutput,
    LLMPlanStep,
    Reflection,
    hydrate_plan,
    hydrate_steps,
    interpolate,
    references_in,
)

__all__ = [
    "LLMPlanOutput",
    "LLMPlanStep",
    "Reflection",
    "apply_augment",
    "apply_patch",
    "blocked_by",
    "compute_waves",
    "find_cycle",
    "find_problems",
    "hydrate_plan",
    "hydrate_steps",
    "interpolate",
    "references_in",
    "replace_remaining",
    "resumed_plan",
    "with_required_calls",
]
