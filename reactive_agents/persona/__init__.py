"""Long-lived agents that formulate plans, adapt them, assess what they did, and learn."""

from __future__ import annotations

from reactive_agents.persona.adaptation import decide_adjustment, should_engage
from reactive_agents.persona.comparison import VariantReport, compare_personas
from reactive_agents.persona.cycle import Cycle, PersonaServices, begin_cycle
from reactive_agents.persona.domain import Deliver, Describe, PersonaDomain
from reactive_agents.persona.inbox import PersonaInbox
from reactive_agents.persona.persona import Persona
from reactive_agents.persona.planning import Formulated
from reactive_agents.persona.reasoning_system import PersonaReasoningSystem

__all__ = [
    "Cycle",
    "Deliver",
    "Describe",
    "Formulated",
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
