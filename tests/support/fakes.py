"""Small stand-ins for strategies: each answers at once, or fails."""

from __future__ import annotations

import threading

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors, StrategyExecutionError
from reactive_agents.core.results import ReasoningResult, ReasoningStatus
from reactive_agents.effects import effect
from reactive_agents.reasoning import (
    Strategy,
    StrategyInput,
    StrategyRegistry,
    StrategyServices,
)
from reactive_agents.reasoning.strategy import begin_measure, reasoning_result

FOUR = ("reactive", "plan-execute-reflect", "reflexion", "tree-of-thought")


def stand_in(name: str, *, status: ReasoningStatus = "completed", seen: list[str] | None = None) -> Strategy:
    """A strategy that answers with its own name; ``failed`` fails."""

    @effect
    async def strategy(
        strategy_input: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        if seen is not None:
            seen.append(name)
        if status == "failed":
            return Failure(StrategyExecutionError(name, f"{name} is broken.", step=2))
        result = reasoning_result(
            name,
            begin_measure(services),
            services,
            steps=(),
            output=f"by {name}",
            status=status,
            iterations=1,
            terminated_by="final_answer",
            reason=f"{name} is done.",
            results={},
        )
        return Success(evolve(result, metadata=evolve(result.metadata, cost=0.5)))

    return strategy


def registry_of(**statuses: ReasoningStatus) -> StrategyRegistry:
    """A registry in which the four strategies are stand-ins, by ``reflexion="failed"`` and the like."""
    registry = StrategyRegistry()
    given = {name.replace("_", "-"): status for name, status in statuses.items()}
    for name in FOUR:
        registry.register(name, stand_in(name, status=given.get(name, "completed")))
    return registry


def refuse_thread(thread: threading.Thread) -> None:
    """Start no thread, as a system that has no more; in place of ``threading.Thread.start``."""
    raise RuntimeError("can't start new thread")
