"""Controllers: user functions that watch reasoning, and may change or end it.

A controller sees every step, of kernels and of strategies, before the next kernel step is taken. It changes
what is recorded, never what the model is shown, so that a run stays a function of the model's answers. Its
functions are the user's code: one that raises or returns a wrong value ends the run with ``ControllerError``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypeAlias, get_args

from attrs import field, frozen
from attrs.validators import and_, ge, le
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import (
    ControllerError,
    InvalidConfig,
    KernelErrors,
    KernelFailed,
    ServiceFailed,
)
from reactive_agents.core.ids import StepId, TaskId
from reactive_agents.core.json import abbreviated
from reactive_agents.core.results import ReasoningStep, ReasoningStrategy
from reactive_agents.core.values import Value, lazy_pattern, replaced
from reactive_agents.kernel import TERMINAL, KernelContext, KernelState, KernelStep, Stop
from reactive_agents.kernel.service_calls import BrokenServiceError
from reactive_agents.kernel.termination import last_words, stop_run
from reactive_agents.reasoning.strategy import ControllerDecision, StrategyInput

FAILED_TOOL = 0.3
"""Confidence in a step whose tool failed."""
HEDGED = 0.4
"""Confidence in a thought that says it is not sure."""

_HEDGES = lazy_pattern(
    r"\b(?:i(?:'m| am) (?:not (?:entirely |quite |completely )?(?:sure|certain)|unsure|uncertain|guessing)|"
    r"i (?:do not|don't|cannot|can't|could not|couldn't) (?:really )?(?:know|tell|determine|find|verify|"
    r"be sure)|"
    r"(?:it is|it's) (?:unclear|uncertain)|not enough information|this is a guess|hard to say)\b",
    re.IGNORECASE,
)


@frozen(eq=False, repr=False)
class UncertaintySignal(Value):
    """A step whose ``confidence`` is below the controller's ``threshold``, 0 to 1."""

    step: ReasoningStep
    confidence: float
    threshold: float
    reason: str
    strategy: ReasoningStrategy
    task_id: TaskId


def confidence_of(step: ReasoningStep) -> tuple[float, str] | None:
    """Return the confidence in a step with its reason, or ``None``. Pure and total.

    A thought that says in English that it is not sure has at most ``HEDGED``. Otherwise the figure in the
    metadata counts, or else whether the tool failed.
    """
    metadata = step.metadata
    hedged = step.type == "thought" and _HEDGES.search(step.content) is not None
    if (
        metadata is not None
        and metadata.confidence is not None
        and not (hedged and metadata.confidence > HEDGED)
    ):
        return metadata.confidence, f"the {step.type} has a confidence of {metadata.confidence:.2f}"
    if metadata is not None and step.type == "observation" and metadata.success is False:
        return FAILED_TOOL, f"the tool {metadata.tool_used} failed"
    if hedged:
        return HEDGED, "the model says that it is not sure"
    return None


Reaction: TypeAlias = Literal["continue", "abort", "escalate"]
StepHook: TypeAlias = Callable[[ReasoningStep], ReasoningStep | Awaitable[ReasoningStep | None] | None]


@frozen(eq=False, kw_only=True)
class ReasoningController:
    """Functions called while a run reasons, each sync or async, and each optional.

    A function that raises, or returns a wrong value, ends the run with ``ControllerError``.

    Attributes:
        before_reasoning: takes the input of the strategy before it begins; may return another input.
        during_step: takes each step when it is made; may return another step to record instead, with the same
            id and type. What the model is shown does not change.
        after_step: takes each step as it is recorded; may return a changed step as well.
        on_uncertainty: called for a step whose confidence is below the threshold. It returns ``continue``;
            ``abort`` to end the run as ``partial``; or ``escalate`` to hand the task to another strategy,
            once a run, which ends the run as ``partial`` if there is none.
        on_adapt: called when a strategy is chosen; the name that it returns is used instead.
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


# --- A controller at work in one run: around each kernel step, and at the ends of the strategy ---


NAME = "controller"


@frozen(eq=False, repr=False)
class _Recorded(Value):
    """A step as it was made, and as the controller wants it recorded."""

    made: ReasoningStep
    now: ReasoningStep


class RunControl:
    """The controller of one run with its decisions; implements ``StrategyControl``."""

    def __init__(self, controller: ReasoningController, strategy_input: StrategyInput) -> None:
        if not isinstance(controller, ReasoningController):
            wrong = InvalidConfig("reasoning.controller", abbreviated(controller), "a ReasoningController")
            raise BrokenServiceError(ServiceFailed(wrong.message, "controller", "before_reasoning"))
        self.ending: ControllerDecision | None = None
        self.failure: ControllerError | None = None
        self.escalated = False
        self._controller = controller
        self._strategy: ReasoningStrategy = ""
        self._task_id = strategy_input.task_id
        self._waiting: list[ReasoningStep] = []
        self._recorded: dict[StepId, _Recorded] = {}

    async def before(self, strategy_input: StrategyInput) -> Result[StrategyInput, ControllerError]:
        """Return the input as the controller wants it."""
        called = await self._call("before_reasoning", strategy_input, _is(StrategyInput))
        return called.map(lambda given: strategy_input if given is None else given)

    async def adapt(self, strategy_input: StrategyInput) -> Result[ReasoningStrategy | None, ControllerError]:
        """Return the controller's choice of strategy; ``None`` leaves it to the selector."""
        return await self._call("on_adapt", strategy_input, _is(str))

    def note(self, step: ReasoningStep) -> None:
        """Note a step of the strategy itself, for the controller to see before the next."""
        self._waiting.append(step)

    def begin(self, strategy: ReasoningStrategy) -> None:
        """Begin a strategy; decisions about an earlier one do not apply to it."""
        self._strategy = strategy
        self.ending = None

    def wrap(self, inner: KernelStep) -> KernelStep:
        """Return a kernel's step that shows results to the controller until the run ends."""

        async def step(state: KernelState, context: KernelContext) -> Result[KernelState, KernelErrors]:
            await self._see_waiting()
            if self._is_over:
                return self._stopped(state)
            outcome = await inner(state, context)
            if isinstance(outcome, Failure):
                return outcome
            following = outcome.unwrap()
            await self._see(following.steps[len(state.steps) :])
            steps = state.steps + self.recorded(following.steps[len(state.steps) :])
            following = replaced(following, steps=steps)
            ended = following.status in TERMINAL
            return self._stopped(following) if self._is_over and not ended else Success(following)

        return step

    async def conclude(self, steps: Iterable[ReasoningStep]) -> None:
        """Show the controller the steps of the strategy that it has not seen."""
        await self._see_waiting()
        await self._see(steps)

    def recorded(self, steps: Iterable[ReasoningStep]) -> tuple[ReasoningStep, ...]:
        """Return the steps as the controller wants them, unless changed afterwards."""
        return tuple(
            known.now if (known := self._recorded.get(step.id)) and known.made == step else step
            for step in steps
        )

    @property
    def _is_over(self) -> bool:
        return self.ending is not None or self.failure is not None

    def _stopped(self, state: KernelState) -> Result[KernelState, KernelErrors]:
        if self.failure is not None:
            return Failure(KernelFailed(self.failure.message, state.kernel_type))
        reason = "" if self.ending is None else self.ending.reason
        return stop_run(state, Stop(NAME, "partial", last_words(state), reason))

    async def _see_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        await self._see(waiting)

    async def _see(self, steps: Iterable[ReasoningStep]) -> None:
        for step in steps:
            if self.failure is None and step.id not in self._recorded:
                await self._see_one(step)

    async def _see_one(self, step: ReasoningStep) -> None:
        now = step
        self._recorded[step.id] = _Recorded(step, now)

        def takes_its_place(value: Any) -> str:
            fits = isinstance(value, ReasoningStep) and (value.id, value.type) == (step.id, step.type)
            return "" if fits else f"a ReasoningStep with the id {step.id} and the type {step.type}"

        for hook in ("during_step", "after_step"):
            called = await self._call(hook, now, takes_its_place)
            if isinstance(called, Failure):
                return
            now = called.unwrap() or now
            self._recorded[step.id] = _Recorded(step, now)
        await self._doubt(now)

    async def _doubt(self, step: ReasoningStep) -> None:
        known, threshold = confidence_of(step), self._controller.uncertainty_threshold
        if known is None or known[0] >= threshold or self.ending is not None:
            return
        confidence, reason = known
        signal = UncertaintySignal(step, confidence, threshold, reason, self._strategy, self._task_id)
        called = await self._call("on_uncertainty", signal, _is_reaction)
        match called.value_or("continue"):
            case "abort":
                self.ending = ControllerDecision(
                    "abort", f"The controller ended the run: {reason}. Missing: the rest of the answer."
                )
            case "escalate":
                self.ending = ControllerDecision("escalate", f"The controller escalated: {reason}.")

    async def _call(
        self, hook: str, argument: object, problem_of: Callable[[Any], str]
    ) -> Result[Any, ControllerError]:
        """Return the result of a hook; ``None`` without one."""
        function = getattr(self._controller, hook)
        if function is None:
            return Success(None)
        try:
            returned = function(argument)
            if inspect.isawaitable(returned):
                returned = await returned
        except Exception as error:  # noqa: BLE001 - a controller is the user's code: any exception is reported
            problem = f"{type(error).__name__}: {error}"
        else:
            expected = "" if returned is None and hook != "on_uncertainty" else problem_of(returned)
            if not expected:
                return Success(returned)
            problem = f"it returned {returned!r:.100}, expected {expected}"
        self.failure = ControllerError(hook, problem)
        return Failure(self.failure)


def _is(kind: type) -> Callable[[Any], str]:
    return lambda value: "" if isinstance(value, kind) else f"{kind.__name__} or None"


def _is_reaction(value: Any) -> str:
    return "" if value in get_args(Reaction) else "one of " + ", ".join(get_args(Reaction))
