"""Plans: made by a model, checked, run step by step, mended, and judged by what they came to."""

from __future__ import annotations

from reactive_agents.reasoning.planning.checking import find_cycle, find_problems
from reactive_agents.reasoning.planning.hydrating import hydrate_plan, hydrate_steps
from reactive_agents.reasoning.planning.output import LLMPlanOutput, LLMPlanStep, Reflection
from reactive_agents.reasoning.planning.patching import apply_augment, apply_patch, replace_remaining
from reactive_agents.reasoning.planning.quantities import with_required_calls
from reactive_agents.reasoning.planning.references import interpolate, references_in
from reactive_agents.reasoning.planning.resuming import resumed_plan
from reactive_agents.reasoning.planning.waves import blocked_by, compute_waves

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
