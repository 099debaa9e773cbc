"""The selector: asks the controller, then a model or the rules, then the history.

A heavier strategy costs 1.4 times the tokens of ``reactive`` or more, so it is selected only if it was
measured to give more right answers. ``make lab`` writes the measurements, ``measurements.json``: runs of
simulated models that slip in a stated share of their turns, on tasks whose answers can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from inspect import getdoc
from math import sqrt
from types import MappingProxyType

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import decode, from_json
from reactive_agents.core.config import ContextTier
from reactive_agents.core.errors import (
    DecodeError,
    FieldProblem,
    ReasoningErrors,
    SelectionError,
    StrategyNotFoundError,
)
from reactive_agents.core.json import Json
from reactive_agents.core.results import ReasoningStrategy, SelectionContext, StrategyEffectiveness
from reactive_agents.core.tasks import analyze_complexity
from reactive_agents.core.texts import dollars
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.call_parsing.argument_schema import properties_of
from reactive_agents.reasoning.selection.history import choose_by_history, read_history
from reactive_agents.reasoning.selection.rules import (
    PLAN,
    REACTIVE,
    REFLEXION,
    TREE,
    Selection,
    candidates,
    choose_by_rules,
    learned_type,
)
from reactive_agents.reasoning.strategy import Strategy, StrategyInput, StrategyServices, profile_of
from reactive_agents.reasoning.structured_output.question import Question, ask_structured
from reactive_agents.reasoning.structured_output.schema import Shape, shape_read_by

_HALF_URGENT_S = 30.0
NO_HURRY = 0.5
"""The urgency of a run without a time limit."""


# --- Measurements of the laboratory, which limit the choice of heavier strategies ---


MEASUREMENTS_FILE = "measurements.json"
LEAST_RUNS = 12
"""The fewest runs of a strategy whose figures say anything."""
LEAST_GAIN = 0.05
"""The share of right answers that a heavier strategy has to add."""
_CERTAINTY = 1.64
"""Standard errors that a gain has to exceed, so that chance gives one in twenty."""
SLIPS_OF_TIER: Mapping[ContextTier, float] = MappingProxyType(
    {"local": 0.5, "mid": 0.25, "large": 0.0, "frontier": 0.0}
)
"""The share of turns in which a model of the tier is taken to slip."""
_HEAVY = frozenset({PLAN, REFLEXION, TREE})


@frozen
class Measurement:
    """The outcomes of a strategy's runs in the laboratory.

    Attributes:
        slips: share of the turns in which the simulated model slipped, 0 to 1.
        right: number of runs that were completed with the right answer.
        false_success: number of runs that were completed with a wrong answer.
        prompt_tokens: prompt tokens of all runs together.
    """

    strategy: ReasoningStrategy
    slips: float = field(validator=and_(ge(0.0), le(1.0)))
    runs: int = field(validator=ge(1))
    right: int = field(validator=ge(0))
    false_success: int = field(validator=ge(0))
    prompt_tokens: int = field(validator=ge(0))

    @property
    def share_right(self) -> float:
        """Share of right answers, 0 to 1."""
        return self.right / self.runs


@cache
def packaged_measurements() -> tuple[Measurement, ...]:
    """Return the figures that come with the package."""
    text = files("reactive_agents.reasoning.selection").joinpath(MEASUREMENTS_FILE).read_text("utf-8")
    read: tuple[Measurement, ...] = from_json(text, tuple[Measurement, ...]).unwrap()
    return read


def hold_to_gain(
    favourite: Selection,
    known: Sequence[ReasoningStrategy],
    tier: ContextTier,
    measurements: Sequence[Measurement],
) -> Selection:
    """Return the favourite if it is custom or gains by measurement, else ``reactive``."""
    if favourite.strategy not in _HEAVY or REACTIVE not in known:
        return favourite
    slips = SLIPS_OF_TIER[tier]
    found = {each.strategy: each for each in measurements if each.slips == slips and each.runs >= LEAST_RUNS}
    heavy, light = found.get(favourite.strategy), found.get(REACTIVE)
    if heavy is None or light is None:
        unmeasured = (
            f"{favourite.strategy} was not measured with a model that slips in {slips:.0%} of its turns"
        )
        return evolve(favourite, strategy=REACTIVE, reason=f"{favourite.reason}, but {unmeasured}")
    gains = heavy.share_right - light.share_right >= max(LEAST_GAIN, _CERTAINTY * _error(heavy, light))
    honest = heavy.false_success / heavy.runs <= light.false_success / light.runs
    figures = _figures(heavy, light)
    if gains and honest:
        return evolve(favourite, reason=f"{favourite.reason}; {figures}")
    return evolve(favourite, strategy=REACTIVE, reason=f"{favourite.reason}, but {figures}")


def _error(one: Measurement, other: Measurement) -> float:
    """Return the standard error of the difference of two shares."""
    return sqrt(sum(each.share_right * (1 - each.share_right) / each.runs for each in (one, other)))


def _figures(heavy: Measurement, light: Measurement) -> str:
    cost = (heavy.prompt_tokens / heavy.runs) / max(1.0, light.prompt_tokens / light.runs)
    return (
        f"in the laboratory, with {heavy.slips:.0%} of turns slipped, {heavy.strategy} was right in "
        f"{heavy.right} of {heavy.runs} runs and {REACTIVE} in {light.right} of {light.runs}, at {cost:.1f} "
        "times the tokens"
    )


# --- The choice ---


@frozen(eq=False)
class StrategySelector:
    """Chooses among strategies.

    Attributes:
        measurements: the measurements that a heavier strategy has to pass; ``None`` for no such test, as when
            the lighter one has failed.
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
    ) -> Result[Selection, ReasoningErrors]:
        """Return the strategy for the task; always one that is registered.

        When a model has to choose and fails, the rules choose, and the reason names the failure. Fails with
        ``SelectionError`` when there is no strategy to choose, with ``ControllerError`` when the controller
        fails, and with ``StrategyNotFoundError`` when it names an unknown strategy.
        """
        if services.control is not None:
            adapted = await services.control.adapt(strategy_input)
            if isinstance(adapted, Failure):
                return Failure(adapted.failure())
            name = adapted.unwrap()
            if name is not None and name not in without:
                return self._chosen_by_controller(name)
        known = tuple(name for name in candidates(self.strategies) if name not in without)
        if not known:
            return Failure(SelectionError("There is no strategy to choose from.", [*sorted(self.strategies)]))
        if strategy_input.plan_id is not None and PLAN in known:
            return Success(Selection(PLAN, "the task goes on with a stored plan", 1.0, "rules"))
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
    ) -> Selection:
        problem = ""
        if strategy_input.config.adaptive.selection == "model":
            listed = {name: self.strategies[name] for name in known}
            chosen = await choose_by_model(context, history, listed, strategy_input, services)
            if not isinstance(chosen, Failure):
                return chosen.unwrap()
            problem = f" ({chosen.failure().message} The rules chose.)"
        favourite = choose_by_rules(context, known)
        held = self.measurements is not None and strategy_input.config.adaptive.measured
        if held and favourite.strategy != context.preferred_strategy:
            tier = profile_of(strategy_input, services).tier
            favourite = hold_to_gain(favourite, known, tier, self.measurements or ())
        selection = choose_by_history(favourite, history, known, context, seed=strategy_input.run_id)
        return evolve(selection, reason=f"{selection.reason}{problem}")

    def _chosen_by_controller(self, name: ReasoningStrategy) -> Result[Selection, ReasoningErrors]:
        if name in candidates(self.strategies):
            return Success(Selection(name, "chosen by the controller", 1.0, "controller"))
        return Failure(StrategyNotFoundError(name, candidates(self.strategies)))


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
    kind = learned_type(context.task_description, context.task_type)
    read = await read_history(tracker, kind)
    if isinstance(read, Failure):
        return (), f" (earlier outcomes could not be read: {read.failure().message})"
    return read.unwrap(), ""


# --- The choice of a strategy by one model call ---


PURPOSE = "select-strategy"
_INSTRUCTIONS = (
    "Another agent will do the task below. Choose the way of working that suits it best. Take the cheapest "
    "one that is likely to succeed. Keep to the limits, and look at the record of earlier tasks, where these "
    "are given; a record of few tasks says little. Do not do the task yourself."
)
_SUITS: Mapping[ReasoningStrategy, str] = {
    REACTIVE: "one loop of thinking and tool calls: questions, look-ups, single actions; the cheapest",
    PLAN: "makes a plan, does its steps and checks them: work of several steps that build on each other",
    REFLEXION: "writes, criticizes and improves: texts or code whose quality matters",
    TREE: "explores several directions and follows the best: open or creative tasks; the most expensive",
}


@frozen(kw_only=True)
class StrategyChoice:
    """The way of working that suits a task.

    Attributes:
        reason: why, in one clause.
        strategy: its name, as it is listed.
        confidence: 0 to 1, how sure the choice is.
    """

    reason: str = ""
    strategy: str
    confidence: float = field(default=0.5, validator=and_(ge(0.0), le(1.0)))


async def choose_by_model(
    context: SelectionContext,
    history: Sequence[StrategyEffectiveness],
    known: Mapping[ReasoningStrategy, Callable[..., object]],
    strategy_input: StrategyInput,
    services: StrategyServices,
) -> Result[Selection, SelectionError]:
    """Ask the model for one of the known strategies; fail if it names none."""
    content = _content(context, history, known)
    question = Question(_choice_among(tuple(known)), _INSTRUCTIONS, content, PURPOSE, max_retries=1)
    answered = await attempt(ask_structured(question, strategy_input, services))
    if isinstance(answered, Failure):
        return Failure(SelectionError(f"The model made no choice: {answered.failure().message}"))
    choice = answered.unwrap().value
    reason = choice.reason or "the model gave no reason"
    return Success(Selection(choice.strategy, reason, choice.confidence, "model"))


def _choice_among(names: tuple[ReasoningStrategy, ...]) -> Shape[StrategyChoice]:
    """Return the shape of a choice whose strategy is one of these names."""

    def read(data: Json) -> Result[StrategyChoice, DecodeError]:
        return decode(data, StrategyChoice).bind(known)

    def known(choice: StrategyChoice) -> Result[StrategyChoice, DecodeError]:
        if choice.strategy in names:
            return Success(choice)
        problem = f"expected one of: {', '.join(names)}"
        return Failure(DecodeError("StrategyChoice", (FieldProblem("$.strategy", problem),)))

    example = StrategyChoice(reason="one look-up answers it", strategy=names[0], confidence=0.9)
    shape = shape_read_by(StrategyChoice, read, example=example)
    fields = properties_of(shape.schema)
    listed: Json = {**fields, "strategy": {"enum": list(names)}}
    return evolve(shape, schema={**shape.schema, "properties": listed})


def _content(
    context: SelectionContext,
    history: Sequence[StrategyEffectiveness],
    known: Mapping[ReasoningStrategy, Callable[..., object]],
) -> str:
    ways = "\n".join(f"- {name}: {_SUITS.get(name) or _first_line(each)}" for name, each in known.items())
    record = "\n".join(
        f"- {each.strategy}: {round(each.success_rate * each.executions)} of {each.executions} succeeded, "
        f"{dollars(each.avg_cost)} and {each.avg_duration / 1000:.1f} s on average"
        for each in history
        if each.strategy in known
    )
    limits = (
        ("Type", context.task_type),
        ("Complexity, 0 to 1", f"{context.complexity:.2f}"),
        ("Urgency, 0 to 1", f"{context.urgency:.2f}"),
        ("Budget", None if context.cost_budget is None else dollars(context.cost_budget)),
        ("Time", None if context.time_constraint is None else f"{context.time_constraint / 1000:.0f} s"),
        ("Preferred by the user", context.preferred_strategy),
    )
    figures = "\n".join(f"{label}: {value}" for label, value in limits if value is not None)
    parts = (f"Task:\n{context.task_description}", figures, f"Ways of working:\n{ways}")
    return "\n\n".join((*parts, f"Record of such tasks:\n{record}") if record else parts)


def _first_line(strategy: Callable[..., object]) -> str:
    return (getdoc(strategy) or "a strategy of the user's own").partition("\n")[0]
