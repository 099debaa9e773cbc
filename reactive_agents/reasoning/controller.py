"""A controller: the user's own code that watches the reasoning of a run, and may change or end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias

from attrs import field, frozen
from attrs.validators import and_, ge, le

from reactive_agents.core.reasoning import ReasoningStrategy
from reactive_agents.core.steps import ReasoningStep
from reactive_agents.reasoning.strategy import StrategyInput
from reactive_agents.reasoning.uncertainty import UncertaintySignal

Reaction: TypeAlias = Literal["continue", "abort", "escalate"]
StepHook: TypeAlias = Callable[[ReasoningStep], ReasoningStep | Awaitable[ReasoningStep | None] | None]


@frozen(eq=False, kw_only=True)
class ReasoningController:
    """Functions that are called while a run reasons, each sync or async, and each optional.

    One that raises, or returns what it may not, ends the run with ``ControllerError``.

    Attributes:
        before_reasoning: takes the input of the strategy before it begins; may return another.
        during_step: takes each step when it is made; may return the step that is recorded in its place, with
            the same id and type. What the model is shown does not change.
        after_step: takes each step as it is recorded; may return a changed one likewise.
        on_uncertainty: called for a step whose confidence is below the threshold. ``continue`` goes on;
            ``abort`` ends the run as ``partial``; ``escalate`` hands the task to another strategy, once a
            run, and ends it as ``partial`` where there is none.
        on_adapt: called when a strategy is to be chosen; the name that it returns is taken instead.
        uncertainty_threshold: 0 to 1.
    """

    before_reasoning: (
        Callable[[StrategyInput], StrategyInput | Awaitable[StrategyInput | None] | None] | None
    ) = None
    during_step: StepHook | None = None
    after_step: StepHook | None = None
    on_uncertainty: Callable[[UncertaintySignal], Reaction | Awaitable[Reaction]] | None = None
    on_adapt: (
        Callable[[StrategyInput], ReasoningStrategy | Awaitable[ReasoningStrategy | None] | None] | None
    ) = None
    uncertainty_threshold: float = field(default=0.5, validator=and_(ge(0.0), le(1.0)))
