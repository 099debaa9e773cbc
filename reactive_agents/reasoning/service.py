"""The reasoning service, which selects and runs a strategy, and its registry."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from attrs import evolve
from returns.maybe import Maybe, Nothing
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.config import ReasoningConfig
from reactive_agents.core.ids import TaskId
from reactive_agents.core.results import ReasoningResult, ReasoningStrategy
from reactive_agents.effects import Effect, attempt, effect
from reactive_agents.kernel import BUILT_IN_KERNELS, CompactionFunction, RunEvents, ThoughtKernel
from reactive_agents.kernel.termination import FINISHING_S, in_time
from reactive_agents.ports import EffectivenessTracker
from reactive_agents.reasoning.confidence import ended_partial
from reactive_agents.reasoning.fallback import (
    run_contained,
    run_strategy,
    run_with_fallback,
    with_kernels_wrapped,
)
from reactive_agents.reasoning.selection.history import learn, record_of, tracker_of
from reactive_agents.reasoning.selection.rules import Selection
from reactive_agents.reasoning.strategies import reactive
from reactive_agents.reasoning.strategy import (
    Strategy,
    StrategyControl,
    StrategyInput,
    StrategyServices,
    begin_measure,
    not_registered,
    reasoning_result,
    seconds_left,
)

if TYPE_CHECKING:
    from reactive_agents.core.errors import ReasoningErrors
    from reactive_agents.reasoning.controller import ReasoningController


class ReasoningService:
    """The one entry to all strategies, for the engine and for direct use.

    Args:
        registry: the strategies and kernels that can be run.
        controller: watches every run, and may change or end it.
        effectiveness: records the outcomes of strategies, by which later ones are selected.
    """

    def __init__(
        self,
        registry: StrategyRegistry,
        config: ReasoningConfig,
        *,
        controller: Maybe[ReasoningController] = Nothing,
        effectiveness: Maybe[EffectivenessTracker] = Nothing,
    ) -> None:
        self.registry = registry
        self.config = config
        self._controller = controller
        self._effectiveness = effectiveness
        default = Selection(config.default_strategy, "the configured default", 1.0, "configured")
        self._configured: Result[Selection, errors.StrategyNotFoundError] = Success(default)

    def configured(self) -> Result[Selection, errors.StrategyNotFoundError] | None:
        """Return the configured strategy, if it exists; ``None`` where one is selected."""
        if self.config.adaptive.enabled:
            return None
        if self.config.default_strategy in self.registry.strategies:
            return self._configured
        return Failure(self.registry.get(self.config.default_strategy).failure())

    @effect
    async def select_strategy(
        self, strategy_input: StrategyInput, services: StrategyServices
    ) -> Result[Selection, ReasoningErrors]:
        """Select the strategy for a task: the configured one, or the best suited.

        Fails with ``StrategyNotFoundError`` when nothing is registered under the configured name, and as
        :meth:`StrategySelector.select` does.
        """
        configured = self.configured()
        if configured is not None:
            return configured
        from reactive_agents.reasoning.selection.selector import StrategySelector, selection_context

        ready = self._ready(strategy_input, services)
        given = selection_context(strategy_input, services)
        return await attempt(StrategySelector(self.registry.strategies).select(given, strategy_input, ready))

    @effect
    async def execute(
        self, strategy: ReasoningStrategy | None, strategy_input: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        """Run a strategy, after finding the tools that the task requires, if configured.

        Fails with ``StrategyNotFoundError``, with ``ControllerError``, or as the strategy does.

        Args:
            strategy: the name of the strategy; ``None`` for the one that :meth:`select_strategy` selects.
        """
        if strategy is None:
            selected = await attempt(self.select_strategy(strategy_input, services))
            if not isinstance(selected, Success):
                return Failure(selected.failure())
            strategy = selected.unwrap().strategy
        if strategy not in self.registry.strategies:
            return Failure(self.registry.get(strategy).failure())
        ready = self._ready(strategy_input, services)
        if ready.control is not None:
            begun = await ready.control.before(strategy_input)
            if not isinstance(begun, Success):
                return Failure(begun.failure())
            strategy_input = begun.unwrap()
        if strategy_input.config.tool_classifier != "off" and strategy_input.available_tools:
            from reactive_agents.reasoning.requirement_rules import find_tool_needs  # few runs need it

            needs = await find_tool_needs(strategy_input, services)
            if needs is not strategy_input.needs:
                strategy_input = evolve(strategy_input, needs=needs)
        falls_back = self.config.adaptive.enabled
        if strategy == ADAPTIVE:
            run = run_contained(strategy, self.registry.strategies[strategy], strategy_input, ready)
        elif falls_back or ready.control is not None:
            run = run_with_fallback(strategy, strategy_input, ready, falls_back=falls_back)
        else:
            run = run_strategy(strategy, strategy_input, ready)
        outcome = await run
        if ready.control is not None:
            outcome = await _controlled(outcome, strategy, ready.control, ready)
        if not isinstance(outcome, Success):
            return outcome
        result = await self._with_selection(outcome.unwrap(), strategy_input, ready)
        return outcome if result is outcome.unwrap() else Success(result)

    def register_strategy(self, name: ReasoningStrategy, strategy: Strategy) -> None:
        """Register a custom strategy under a name."""
        self.registry.register(name, strategy)

    def learns_from(self, result: ReasoningResult) -> bool:
        """Return whether the outcomes of the result's strategy are recorded."""
        return tracker_of(result.strategy, self.config, self._effectiveness) is not None

    async def learn(
        self,
        task_description: str,
        task_type: str,
        result: ReasoningResult,
        *,
        success: bool,
        task_id: TaskId,
        events: Maybe[RunEvents],
    ) -> None:
        """Record the outcome of a strategy, if its outcomes are recorded."""
        tracker = tracker_of(result.strategy, self.config, self._effectiveness)
        if tracker is not None:
            await learn(
                tracker, task_description, task_type, result, success=success, task_id=task_id, events=events
            )

    def _ready(self, strategy_input: StrategyInput, services: StrategyServices) -> StrategyServices:
        controller = self._controller.value_or(None)
        control, kernel = None, services.kernel
        if controller is not None:
            from reactive_agents.reasoning.controller import RunControl  # by agents with a controller

            control = RunControl(controller, strategy_input)
            kernel = with_kernels_wrapped(kernel, control.wrap)
        return StrategyServices(
            kernel,
            services.meter,
            compaction_functions=self.registry.compaction_functions,
            kernels=self.registry.kernels,
            plans=services.plans,
            strategies=self.registry.strategies,
            effectiveness=self._effectiveness,
            control=control,
            run_context=services.run_context,
        )

    async def _with_selection(
        self, result: ReasoningResult, strategy_input: StrategyInput, services: StrategyServices
    ) -> ReasoningResult:
        """Return the result with the selected strategy and its recorded success rate."""
        metadata = result.metadata
        if self.config.adaptive.enabled:
            metadata = evolve(metadata, selected_strategy=result.strategy)
        tracker = tracker_of(result.strategy, self.config, self._effectiveness)
        if tracker is not None:
            task = strategy_input.task_description
            reading = record_of(tracker, result.strategy, task, strategy_input.task_type)
            seconds = max(seconds_left(strategy_input, services), FINISHING_S)
            known = await in_time(reading, seconds)  # a tracker that hangs withholds no answer
            rate, runs = (None, 0) if known is None else (known.success_rate, known.executions)
            metadata = evolve(metadata, effectiveness=rate, earlier_runs=runs)
        return result if metadata is result.metadata else evolve(result, metadata=metadata)


async def _controlled(
    outcome: Result[ReasoningResult, ReasoningErrors],
    strategy: ReasoningStrategy,
    control: StrategyControl,
    services: StrategyServices,
) -> Result[ReasoningResult, ReasoningErrors]:
    """Return the outcome after the controller saw it; a run that it ended is partial."""
    await control.conclude(outcome.unwrap().steps if isinstance(outcome, Success) else ())
    if control.failure is not None:
        return Failure(control.failure)
    if not isinstance(outcome, Success):
        if control.ending is None:
            return outcome
        nothing = reasoning_result(
            strategy,
            begin_measure(services),
            services,
            status="partial",
            terminated_by="controller",
            reason=control.ending.reason,
        )
        return Success(nothing)
    result = outcome.unwrap()
    result = evolve(result, steps=control.recorded(result.steps))
    ended = control.ending
    if ended is None or result.metadata.terminated_by == "controller":
        return Success(result)
    return Success(ended_partial(result, "controller", ended.reason))


ADAPTIVE = "adaptive"


def _imported_on_use(module: str, function: str) -> Strategy:
    """Return a built-in strategy, imported for its first run: planning takes 20 ms."""

    def strategy(
        strategy_input: StrategyInput, services: StrategyServices
    ) -> Effect[ReasoningResult, ReasoningErrors]:
        run: Strategy = getattr(import_module(f"reactive_agents.reasoning.strategies.{module}"), function)
        return run(strategy_input, services)

    return strategy


BUILT_IN_STRATEGIES: Mapping[ReasoningStrategy, Strategy] = MappingProxyType(
    {
        reactive.REACTIVE: reactive.reactive,
        reactive.DIRECT: reactive.direct,
        "plan-execute-reflect": _imported_on_use("plan_execute", "plan_execute"),
        "reflexion": _imported_on_use("reflexion", "reflexion"),
        "tree-of-thought": _imported_on_use("tree_of_thought", "tree_of_thought"),
        ADAPTIVE: _imported_on_use("adaptive", "adaptive"),
    }
)
"""The strategies that every registry begins with."""


class StrategyRegistry:
    """Strategies and kernels by name, at first the built-in ones.

    Attributes:
        compaction_functions: functions that summarize earlier turns, by their configured names.
    """

    def __init__(self) -> None:
        self.strategies: dict[ReasoningStrategy, Strategy] = dict(BUILT_IN_STRATEGIES)
        self.kernels: dict[str, ThoughtKernel] = dict(BUILT_IN_KERNELS)
        self.compaction_functions: dict[str, CompactionFunction] = {}

    def get(self, name: ReasoningStrategy) -> Result[Strategy, errors.StrategyNotFoundError]:
        """Return a strategy, or an error with the known names."""
        found = self.strategies.get(name)
        return not_registered(name, self.strategies) if found is None else Success(found)

    def register(self, name: ReasoningStrategy, strategy: Strategy) -> None:
        """Register a strategy; it replaces one of the same name."""
        self.strategies[name] = strategy

    def names(self) -> tuple[ReasoningStrategy, ...]:
        """Return the names of the strategies, in the order of their registration."""
        return tuple(self.strategies)

    def get_kernel(self, name: str) -> Result[ThoughtKernel, errors.StrategyNotFoundError]:
        """Return a kernel, or an error with the known names."""
        found = self.kernels.get(name)
        return not_registered(name, self.kernels, "kernel") if found is None else Success(found)

    def register_kernel(self, name: str, kernel: ThoughtKernel) -> None:
        """Register a kernel; it replaces one of the same name."""
        self.kernels[name] = kernel

    def kernel_names(self) -> tuple[str, ...]:
        """Return the names of the kernels, in the order of their registration."""
        return tuple(self.kernels)
