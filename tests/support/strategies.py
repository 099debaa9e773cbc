"""Strategy runs made of scripted and in-memory services."""

from __future__ import annotations

from typing import Any

from reactive_agents.core.config import ReasoningConfig
from reactive_agents.reasoning import StrategyInput, StrategyServices
from tests.support.kernels import AGENT, RUN, SESSION, TASK, KernelBench


def strategy_input(task: str = "What is 1 + 2?", **fields: Any) -> StrategyInput:
    """The input of a strategy."""
    return StrategyInput(task, "query", RUN, TASK, AGENT, SESSION, **{"config": ReasoningConfig(), **fields})


def strategy_services(bench: KernelBench) -> StrategyServices:
    """The services of a strategy."""
    return StrategyServices(bench.services, bench.meter)
