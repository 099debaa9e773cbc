"""The choice of a strategy by one model call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc

from attrs import field, frozen
from attrs.validators import and_, ge, le
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import SelectionError
from reactive_agents.core.results import ReasoningStrategy, SelectionContext, StrategyEffectiveness
from reactive_agents.effects import attempt
from reactive_agents.reasoning.selection.rules import PLAN, REACTIVE, REFLEXION, TREE, Selection
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output import Question, ask_structured, shape_of

PURPOSE = "select-strategy"
_INSTRUCTIONS = (
    "Another agent will do the task below. Say which of the listed ways of working suits it best. Prefer the "
    "least costly one that is likely to succeed, and mind the limits and the record of earlier tasks, where "
    "they are given; a record of few tasks says little. You do not do the task yourself."
)
_SUITS: Mapping[ReasoningStrategy, str] = {
    REACTIVE: "one loop of thinking and tool calls: questions, look-ups, single actions; the least costly",
    PLAN: "makes a plan, does its steps and checks them: work of several steps that build on each other",
    REFLEXION: "writes, criticizes and improves: texts or code whose quality matters",
    TREE: "explores several directions and follows the best: open or creative tasks; the most costly",
}


@frozen
class StrategyChoice:
    """The way of working that suits a task.

    Attributes:
        strategy: its name, as it is listed.
        reason: why, in one clause.
        confidence: 0 to 1, how sure the choice is.
    """

    strategy: str
    reason: str
    confidence: float = field(default=0.5, validator=and_(ge(0.0), le(1.0)))


async def choose_by_model(
    context: SelectionContext,
    history: Sequence[StrategyEffectiveness],
    known: Mapping[ReasoningStrategy, Callable[..., object]],
    strategy_input: StrategyInput,
    services: StrategyServices,
) -> Result[Selection, SelectionError]:
    """Ask the model for one of the known strategies.

    Fails with ``SelectionError`` when it gives no choice, or no known name.
    """
    question = Question(
        shape_of(StrategyChoice), _INSTRUCTIONS, _content(context, history, known), PURPOSE, max_retries=1
    )
    answered = await attempt(ask_structured(question, strategy_input, services))
    if isinstance(answered, Failure):
        return Failure(SelectionError(f"The model made no choice: {answered.failure().message}"))
    choice = answered.unwrap().value
    name = choice.strategy.strip().lower()
    if name not in known:
        return Failure(SelectionError(f"The model chose {choice.strategy!r}, which is not registered."))
    return Success(Selection(name, choice.reason, choice.confidence, "model"))


def _content(
    context: SelectionContext,
    history: Sequence[StrategyEffectiveness],
    known: Mapping[ReasoningStrategy, Callable[..., object]],
) -> str:
    ways = "\n".join(f"- {name}: {_SUITS.get(name) or _first_line(each)}" for name, each in known.items())
    record = "\n".join(
        f"- {each.strategy}: {round(each.success_rate * each.executions)} of {each.executions} succeeded, "
        f"${each.avg_cost:.4f} and {each.avg_duration / 1000:.1f} s on average"
        for each in history
        if each.strategy in known
    )
    limits = (
        ("Type", context.task_type),
        ("Complexity, 0 to 1", f"{context.complexity:.2f}"),
        ("Urgency, 0 to 1", f"{context.urgency:.2f}"),
        ("Budget", None if context.cost_budget is None else f"${context.cost_budget:.4f}"),
        ("Time", None if context.time_constraint is None else f"{context.time_constraint / 1000:.0f} s"),
        ("Preferred by the user", context.preferred_strategy),
    )
    figures = "\n".join(f"{label}: {value}" for label, value in limits if value is not None)
    parts = (f"Task:\n{context.task_description}", figures, f"Ways of working:\n{ways}")
    return "\n\n".join((*parts, f"Record of such tasks:\n{record}") if record else parts)


def _first_line(strategy: Callable[..., object]) -> str:
    return (getdoc(strategy) or "a strategy of the user's own").partition("\n")[0]
