"""Strategies, kernels and compaction functions by name."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import ReasoningErrors, StrategyNotFoundError
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy
from reactive_agents.effects import Effect
from reactive_agents.kernel import BUILT_IN_KERNELS, CompactionFunction, ThoughtKernel
from reactive_agents.reasoning.strategies import reactive
from reactive_agents.reasoning.strategy import Strategy, StrategyInput, StrategyServices

ADAPTIVE = "adaptive"


def _imported_on_use(module: str, function: str) -> Strategy:
    """Return a built-in strategy that is imported for its first run.

    Importing planning alone takes 20 ms.
    """

    def strategy(
        strategy_input: StrategyInput, services: StrategyServices
    ) -> Effect[ReasoningResult, ReasoningErrors]:
        run: Strategy = getattr(import_module(f"reactive_agents.reasoning.strategies.{module}"), function)
        return run(strategy_input, services)

    return strategy


class StrategyRegistry:
    """Strategies and kernels by name; begins with the built-in ones."""

    def __init__(self) -> None:
        self._strategies: dict[str, Strategy] = {
            reactive.REACTIVE: reactive.reactive,
            reactive.DIRECT: reactive.direct,
            "plan-execute-reflect": _imported_on_use("plan_execute", "plan_execute"),
            "reflexion": _imported_on_use("reflexion", "reflexion"),
            "tree-of-thought": _imported_on_use("tree_of_thought", "tree_of_thought"),
            ADAPTIVE: _imported_on_use("adaptive", "adaptive"),
        }
        self._kernels: dict[str, ThoughtKernel] = dict(BUILT_IN_KERNELS)
        self._compaction_functions: dict[str, CompactionFunction] = {}

    def get(self, name: ReasoningStrategy) -> Result[Strategy, StrategyNotFoundError]:
        """Return the strategy, or ``StrategyNotFoundError`` with the known names."""
        strategy = self._strategies.get(name)
        return Success(strategy) if strategy else Failure(StrategyNotFoundError(name, self.names()))

    def register(self, name: ReasoningStrategy, strategy: Strategy) -> None:
        """Register a strategy, in place of one of the same name."""
        self._strategies[name] = strategy

    @property
    def strategies(self) -> Mapping[ReasoningStrategy, Strategy]:
        """The registered strategies by name."""
        return self._strategies

    def names(self) -> tuple[ReasoningStrategy, ...]:
        """Return the names of the strategies, in the order of their registration."""
        return tuple(self._strategies)

    def get_kernel(self, name: str) -> Result[ThoughtKernel, StrategyNotFoundError]:
        """Return the kernel, or ``StrategyNotFoundError`` with the known names."""
        kernel = self._kernels.get(name)
        return (
            Success(kernel) if kernel else Failure(StrategyNotFoundError(name, self.kernel_names(), "kernel"))
        )

    def register_kernel(self, name: str, kernel: ThoughtKernel) -> None:
        """Register a kernel, in place of one of the same name."""
        self._kernels[name] = kernel

    @property
    def kernels(self) -> Mapping[str, ThoughtKernel]:
        """The known kernels by their names."""
        return self._kernels

    def kernel_names(self) -> tuple[str, ...]:
        """Return the names of the kernels, in the order of their registration."""
        return tuple(self._kernels)

    @property
    def compaction_functions(self) -> Mapping[str, CompactionFunction]:
        """Functions that summarize earlier turns, by their configured names."""
        return self._compaction_functions

    def register_compaction_function(self, name: str, function: CompactionFunction) -> None:
        """Register such a function, in place of one of the same name."""
        self._compaction_functions[name] = function
