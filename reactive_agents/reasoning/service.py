"""The reasoning service: runs a strategy by name."""

from __future__ import annotations

from attrs import evolve
from returns.result import Failure, Result

from reactive_agents.core.config import ReasoningConfig
from reactive_agents.core.errors import ReasoningErrors, StrategyNotFoundError
from reactive_agents.core.reasoning import ReasoningResult, ReasoningStrategy
from reactive_agents.effects import attempt, effect
from reactive_agents.reasoning.registry import StrategyRegistry
from reactive_agents.reasoning.strategy import Strategy, StrategyInput, StrategyServices
from reactive_agents.reasoning.tool_needs import find_needs


class ReasoningService:
    """Strategies behind one door."""

    def __init__(self, registry: StrategyRegistry, config: ReasoningConfig) -> None:
        self.registry = registry
        self.config = config

    def select_strategy(self) -> Result[ReasoningStrategy, StrategyNotFoundError]:
        """The configured default, or ``StrategyNotFoundError`` when nothing is registered under its name."""
        return self.registry.get(self.config.default_strategy).map(lambda _: self.config.default_strategy)

    @effect
    async def execute(
        self, strategy: ReasoningStrategy, strategy_input: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        """Run the strategy, with the tools that the task needs if they are to be found.

        Fails with ``StrategyNotFoundError``, or as the strategy does.
        """
        found = self.registry.get(strategy)
        if isinstance(found, Failure):
            return Failure(found.failure())
        if strategy_input.config.tool_classifier != "off":
            needs = (await attempt(find_needs(strategy_input, services))).unwrap()
            strategy_input = evolve(strategy_input, needs=needs)
        ready = evolve(services, synthesizers=self.registry.synthesizers)
        return await attempt(found.unwrap()(strategy_input, ready))

    def register_strategy(self, name: ReasoningStrategy, strategy: Strategy) -> None:
        """Make a custom strategy known under a name."""
        self.registry.register(name, strategy)
