"""Strategy runs made of scripted and in-memory services."""

from __future__ import annotations

from typing import Any

from reactive_agents.reasoning import StrategyInput, StrategyServices
from tests.support.kernels import AGENT, RUN, SESSION, TASK, KernelBench
from tests.support.settings import take_settings


def strategy_input(task: str = "What is 1 + 2?", **fields: Any) -> StrategyInput:
    """The input of a strategy."""
    settings = take_settings(fields)
    return StrategyInput(task, "query", RUN, TASK, AGENT, SESSION, settings, **fields)


def strategy_services(bench: KernelBench) -> StrategyServices:
    """The services of a strategy."""
    return StrategyServices(bench.services, bench.meter)
