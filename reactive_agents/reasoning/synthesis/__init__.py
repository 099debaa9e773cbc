"""Intelligent context synthesis: earlier turns of a transcript put in short, so that a run can go on."""

from __future__ import annotations

from reactive_agents.reasoning.synthesis.choose import choose
from reactive_agents.reasoning.synthesis.material import SynthesisMaterial
from reactive_agents.reasoning.synthesis.rewriting import with_synthesis
from reactive_agents.reasoning.synthesis.settings import (
    GIVEN,
    SynthesisFunction,
    SynthesisSettings,
    synthesis_settings,
)
from reactive_agents.reasoning.synthesis.signals import SynthesisSignals

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
