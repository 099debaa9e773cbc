"""The choice of a strategy by one model call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import decode
from reactive_agents.core.errors import DecodeError, FieldProblem, SelectionError
from reactive_agents.core.json import Json
from reactive_agents.core.results import ReasoningStrategy, SelectionContext, StrategyEffectiveness
from reactive_agents.effects import attempt
from reactive_agents.kernel.call_parsing.argument_schema import properties_of
from reactive_agents.reasoning.selection.rules import PLAN, REACTIVE, REFLEXION, TREE, Selection
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices
from reactive_agents.reasoning.structured_output import Question, Shape, ask_structured, shape_read_by

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
    """Ask the model for one of the known strategies.

    Fails with ``SelectionError`` when it gives no choice of a known name.
    """
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
