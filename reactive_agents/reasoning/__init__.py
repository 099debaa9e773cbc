"""Strategies, planning, structured output and the selection of strategies.

A kernel takes one step; a strategy decides which kernel is run, how often, with which task and which tools. A
strategy is a plain function from a ``StrategyInput`` and ``StrategyServices`` to an effect of a
``ReasoningResult``, so that a custom one needs no base class and gets exactly what the built-in ones get.

What must stay true: strategies hold no state between runs; time, budget and requirements are those of the
whole run, however many kernel runs a strategy makes; every model call goes through the run's meter; and a
result says how good it is and why it ended, with status ``partial`` for whatever is not finished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.lazy_imports import lazy_names
from reactive_agents.reasoning.selection.rules import Selection
from reactive_agents.reasoning.service import ReasoningService, StrategyRegistry
from reactive_agents.reasoning.strategy import (
    Strategy,
    StrategyInput,
    StrategyServices,
    begin_measure,
    conclude,
    kernel_input,
)

if TYPE_CHECKING:
    from reactive_agents.reasoning.controller import Reaction, ReasoningController, UncertaintySignal
    from reactive_agents.reasoning.selection.selector import StrategySelector

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

_CONTROLLER = "reactive_agents.reasoning.controller"
if not TYPE_CHECKING:  # else type checkers accept any name
    __getattr__ = lazy_names(
        __name__,
        {
            "StrategySelector": "reactive_agents.reasoning.selection.selector",
            **dict.fromkeys(("Reaction", "ReasoningController", "UncertaintySignal"), _CONTROLLER),
        },
    )
