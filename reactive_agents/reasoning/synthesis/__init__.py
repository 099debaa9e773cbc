"""Intelligent context synthesis: earlier turns of a transcript put in short, so that a run can go on."""

from __future__ import annotations

from reactive_agents.reasoning.synthesis.notes import SynthesisMaterial
from reactive_agents.reasoning.synthesis.rewrite import with_synthesis
from reactive_agents.reasoning.synthesis.settings import (
    GIVEN,
    SynthesisFunction,
    SynthesisSettings,
    SynthesisSignals,
    choose,
    synthesis_settings,
)

__all__ = [
    "GIVEN",
    "SynthesisFunction",
    "SynthesisMaterial",
    "SynthesisSettings",
    "SynthesisSignals",
    "choose",
    "synthesis_settings",
    "with_synthesis",
]
