"""Long-lived agents that plan, adapt, evaluate the outcome and learn from it.

An agent does one task; a persona receives events for as long as it lives, and learns from them. Decisions are
pure functions over frozen plans: whether to engage (``domain``), how a plan continues after a failed step
(``planning``), how an outcome changes learnings (``learnings``), how steps are replaced (``plan_changes``).
Each model call returns one structured draft (``plan_changes``, ``prompts``). Only ``persona`` sequences them,
and it stores every change of a plan before the next step begins, so that a restart resumes the plan.

What must stay true: each step is a full run of the domain's engine, with its guardrails and budgets; a
failing store never stops an event: the failure is reported and a default used; texts of events, results and
learnings are data in every prompt, never instructions; clocks and ids are read through their ports only.
"""

from __future__ import annotations

from reactive_agents.persona.cycle import Cycle, PersonaServices, begin_cycle
from reactive_agents.persona.domain import Check, Deliver, Describe, Engage, PersonaDomain, should_engage
from reactive_agents.persona.inbox import PersonaInbox
from reactive_agents.persona.persona import Persona, VariantReport, compare_personas
from reactive_agents.persona.planning import decide_adjustment
from reactive_agents.persona.reasoning_system import PersonaReasoningSystem

__all__ = [
    "Check",
    "Cycle",
    "Deliver",
    "Describe",
    "Engage",
    "Persona",
    "PersonaDomain",
    "PersonaInbox",
    "PersonaReasoningSystem",
    "PersonaServices",
    "VariantReport",
    "begin_cycle",
    "compare_personas",
    "decide_adjustment",
    "should_engage",
]
