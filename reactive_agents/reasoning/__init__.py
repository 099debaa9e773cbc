"""Strategies: when to run which kernel, how often, and with which configuration."""

from __future__ import annotations

from reactive_agents.reasoning.registry import StrategyRegistry
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
    "ReasoningService",
    "Strategy",
    "StrategyInput",
    "StrategyRegistry",
    "StrategyServices",
    "begin_measure",
    "conclude",
    "kernel_input",
]
