"""Whether a transcript is put in short before the next turn, and how."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core.config import SynthesisMode
from reactive_agents.reasoning.synthesis.signals import SynthesisSignals

LEAST_SHARE = 0.25
"""Of the window, the transcript below which nothing is put in short in any mode."""
FAST_SHARE = 0.5
"""Of the window, from where on ``auto`` puts in short."""
DEEP_SHARE = 0.75
"""Of the window, the history of the run from where on ``auto`` asks a model, where the model is large."""
GROWTH = 1.5
"""What the transcript must have grown to since the last time, as a multiple."""
LATE_SHARE = 0.75
"""Of the window, from where on it need not have grown that much: it would have to be compacted soon."""
LATE_GROWTH = 1.1
"""What the transcript must have grown to then."""

SynthesisMethod: TypeAlias = Literal["fast", "deep", "custom"]


@frozen
class Choice:
    """How the transcript is put in short, and why."""

    method: SynthesisMethod
    reason: str


def choose(mode: SynthesisMode, signals: SynthesisSignals) -> Choice | None:
    """The method, or ``None`` when the transcript stays as it is."""
    if mode == "off" or signals.transcript_share < LEAST_SHARE:
        return None
    late = signals.window_share >= LATE_SHARE
    if signals.characters < (LATE_GROWTH if late else GROWTH) * signals.shortened_to:
        return None
    if mode == "auto" and signals.window_share < FAST_SHARE:
        return None
    share = f"The transcript takes {signals.window_share:.0%} of the window"
    if mode != "auto":
        return Choice(mode, f"{share}, and {mode} is configured.")
    if signals.tier in ("large", "frontier") and signals.history_share >= DEEP_SHARE:
        return Choice("deep", f"{share}, and the whole run would take {signals.history_share:.0%}.")
    return Choice("fast", f"{share}.")
