"""Attempts and their criticism: what the reflexion strategy decides by, as pure functions."""

from __future__ import annotations

from reactive_agents.reasoning.reflexion.attempts import Attempt, Critique, best_of, is_stagnant
from reactive_agents.reasoning.reflexion.ending import Verdict, verdict_on

__all__ = ["Attempt", "Critique", "Verdict", "best_of", "is_stagnant", "verdict_on"]
