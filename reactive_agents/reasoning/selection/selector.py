"""The selector: asks the controller, then the model or the rules, then experience."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.complexity import analyze_complexity
from reactive_agents.core.errors import ReasoningErrors, SelectionError, StrategyNotFoundError
from reactive_agents.core.results import ReasoningStrategy, SelectionContext, StrategyEffectiveness
from reactive_agents.effects import effect
from reactive_agents.kernel.service_calls import call_service
from reactive_agents.reasoning.selection import rules
from reactive_agents.reasoning.selection.history import choose_by_history
from reactive_agents.reasoning.selection.measured import Measurement, hold_to_gain, packaged_measurements
from reactive_agents.reasoning.selection.model_choice import choose_by_model
from reactive_agents.reasoning.strategy import Strategy, StrategyInput, StrategyServices, profile_of

_HALF_URGENT_S = 30.0
NO_HURRY = 0.5
"""The urgency of a run without a time limit."""


@frozen(eq=False)
class StrategySelector:
    """Chooses among strategies.

    Attributes:
        strategies: all registered ones, by name.
        measurements: figures of the laboratory that a heavier strategy is held to; ``None`` for no such test,
            as where the lighter one has failed.
    """

    strategies: Mapping[ReasoningStrategy, Strategy]
    measurements: tuple[Measurement, ...] | None = field(factory=packaged_measurements)

    @effect
    async def select(
        self,
        context: SelectionContext,
        strategy_input: StrategyInput,
        services: StrategyServices,
        *,
        without: frozenset[ReasoningStrategy] = frozenset(),
    ) -> Result[rules.Selection, ReasoningErrors]:
        """Return the strategy for the task; always one that is registered.

        Where a model is to choose and fails, the rules choose, and the reason names its failure. Fails with
        ``SelectionError`` when there is no strategy to choose, with ``ControllerError`` when the controller
        does, and with ``StrategyNotFoundError`` when it names none that there is.

        Args:
            without: strategies that are excluded.
        """
        if services.control is not None:
            adapted = await services.control.adapt(strategy_input)
            if isinstance(adapted, Failure):
                return Failure(adapted.failure())
            name = adapted.unwrap()
            if name is not None and name not in without:
                return self._chosen_by_controller(name)
        known = tuple(name for name in rules.candidates(self.strategies) if name not in without)
        if not known:
            return Failure(SelectionError("There is no strategy to choose from.", [*sorted(self.strategies)]))
        if strategy_input.plan_id is not None and rules.PLAN in known:
            return Success(rules.Selection(rules.PLAN, "the task goes on with a stored plan", 1.0, "rules"))
        history, problem = await _history(context, strategy_input, services)
        chosen = await self._choose(context, history, known, strategy_input, services)
        return Success(evolve(chosen, reason=f"{chosen.reason}{problem}"))

    async def _choose(
        self,
        context: SelectionContext,
        history: tuple[StrategyEffectiveness, ...],
        known: tuple[ReasoningStrategy, ...],
        strategy_input: StrategyInput,
        services: StrategyServices,
    ) -> rules.Selection:
        problem = ""
        if strategy_input.config.adaptive.selection == "model":
            listed = {name: self.strategies[name] for name in known}
            chosen = await choose_by_model(context, history, listed, strategy_input, services)
            if not isinstance(chosen, Failure):
                return chosen.unwrap()
            problem = f" ({chosen.failure().message} The rules chose.)"
        favourite = rules.choose_by_rules(context, known)
        held = self.measurements is not None and strategy_input.config.adaptive.measured
        if held and favourite.strategy != context.preferred_strategy:
            tier = profile_of(strategy_input, services).tier
            favourite = hold_to_gain(favourite, known, tier, self.measurements or ())
        selection = choose_by_history(favourite, history, known, context, seed=strategy_input.run_id)
        return evolve(selection, reason=f"{selection.reason}{problem}")

    def _chosen_by_controller(self, name: ReasoningStrategy) -> Result[rules.Selection, ReasoningErrors]:
        if name in rules.candidates(self.strategies):
            return Success(rules.Selection(name, "chosen by the controller", 1.0, "controller"))
        return Failure(StrategyNotFoundError(name, rules.candidates(self.strategies)))


def selection_context(strategy_input: StrategyInput, services: StrategyServices) -> SelectionContext:
    """Return the facts for the choice: the task, and the remaining time and budget."""
    deadline, spent = strategy_input.deadline, services.meter.usage.cost_usd
    seconds = None if deadline is None else max(0.0, deadline - services.kernel.clock.monotonic())
    budget = strategy_input.settings.budget.cost_usd
    task, task_type = strategy_input.task_description, strategy_input.task_type
    return SelectionContext(
        task_description=task,
        task_type=task_type,
        complexity=analyze_complexity(task, task_type),
        urgency=NO_HURRY if seconds is None else _HALF_URGENT_S / (_HALF_URGENT_S + seconds),
        cost_budget=None if budget is None else max(0.0, budget - spent),
        time_constraint=None if seconds is None else seconds * 1000,
    )


async def _history(
    context: SelectionContext, strategy_input: StrategyInput, services: StrategyServices
) -> tuple[tuple[StrategyEffectiveness, ...], str]:
    """Return the records of such tasks, and the problem of reading them."""
    tracker = services.effectiveness.value_or(None)
    if tracker is None or not strategy_input.config.adaptive.learning:
        return (), ""
    kind = rules.learned_type(context.task_description, context.task_type)
    read = await call_service("effectiveness.history", tracker.history, tuple, kind)
    if isinstance(read, Failure):
        return (), f" (earlier outcomes could not be read: {read.failure().message})"
    return read.unwrap(), ""
