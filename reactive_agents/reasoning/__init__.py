"""Strategies: when to run which kernel, how often, and with which configuration."""

from __future__ import annotations

from reactive_agents.reasoning.controller import Reaction, ReasoningController, UncertaintySignal
from reactive_agents.reasoning.registry import StrategyRegistry
from reactive_agents.reasoning.selection.rules import Selection
from reactive_agents.reasoning.selection.selector import StrategySelector
from reactive_agents.reasoning.service import ReasoningService
from reactive_agents.reasoning.strategy import (
    Strategy,
    StrategyInput,
    StrategyServices,
    begin_measure,
    conclude,
    kernel_input,
)

__all__ = [
    "Reaction",
    "ReasoningController",
    "ReasoningService",
    "Selection",
    "Strategy",
    "StrategyInput",
    "StrategyRegistry",
    "StrategySelector",
    "StrategyServices",
    "UncertaintySignal",
    "begin_measure",
    "conclude",
    "kernel_input",
]
