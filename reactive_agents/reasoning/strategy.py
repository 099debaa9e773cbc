"""The contract of strategies: their input, services and results.

A strategy decides about kernel runs. Everything that it needs is in two frozen values, so that strategies can
be composed, tested with scripted models, and replaced by custom ones. The time, tokens and cost of a result
come from the clock and the meter of the run; a strategy never sums them up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from attrs import field, frozen
from returns.maybe import Maybe, Nothing
from returns.result import Failure, Result

from reactive_agents.core import errors
from reactive_agents.core.config import ContextProfile, ReasoningConfig
from reactive_agents.core.content import Content
from reactive_agents.core.conversation import NO_HISTORY, History, without_rejected_answers
from reactive_agents.core.ids import AgentId, PlanId, RunId, SessionId, TaskId
from reactive_agents.core.messages import Message
from reactive_agents.core.persistent import NO_ENTRIES
from reactive_agents.core.results import (
    ReasoningMetadata,
    ReasoningResult,
    ReasoningStatus,
    ReasoningStep,
    ReasoningStrategy,
    ThoughtTree,
    failures_in,
)
from reactive_agents.core.run_context import RunContext
from reactive_agents.core.settings import NO_NEEDS, RunSettings, ToolNeeds
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import Value
from reactive_agents.effects import Effect
from reactive_agents.kernel import (
    BUILT_IN_KERNELS,
    CompactionFunction,
    CompactionSettings,
    EarlierAttempt,
    KernelInput,
    KernelServices,
    KernelState,
    MeteredLLM,
    ThoughtKernel,
)
from reactive_agents.kernel.answer_form import AnswerForm, claims_in
from reactive_agents.kernel.context_window.tool_results import tool_results
from reactive_agents.kernel.context_window.window import profile_under
from reactive_agents.kernel.evidence import Seen
from reactive_agents.ports import EffectivenessTracker, PlanStore
from reactive_agents.reasoning.confidence import RunCourse, confidence_in, rejections_in, unsupported_share

if TYPE_CHECKING:
    from reactive_agents.core.errors import ControllerError, ReasoningErrors
    from reactive_agents.core.memory import MemoryContext


_DEFAULT_REASONING = ReasoningConfig()


@frozen(eq=False, repr=False)
class StrategyInput(Value):
    """The task of a strategy, with everything that the run's context says about it.

    Attributes:
        settings: the settings of the agent's runs, as the engine passed them on.
        available_tools: names of the tools that the run has.
        max_iterations: turns that a kernel run may take, 1 or more. It replaces the limit of a strategy of
            one kernel run, and is an upper limit for one of several; ``None`` leaves it to the strategy.
        model: the model, in place of the service's default.
        deadline: when the run must end, in seconds of the monotonic clock; ``None`` for never.
        earlier: the earlier attempt of the run, when this is another one.
        plan_id: a stored plan to resume; ``None`` for a new one.
        key_prefix: the prefix of the keys of tool results; empty for that of the session's turn.
        answer_form: the form of the run's answer; ``None`` for any text.
        parts: images, audio and documents of the task, which every model call about it has.
        owner: the owner of what the run stores, like the owner of a memory.
    """

    task_description: str
    task_type: str
    run_id: RunId
    task_id: TaskId
    agent_id: AgentId
    session_id: SessionId
    settings: RunSettings
    max_iterations: int | None = None
    available_tools: tuple[str, ...] = ()
    memory: MemoryContext | None = None
    model: str | None = None
    deadline: float | None = None
    needs: ToolNeeds = NO_NEEDS
    earlier: EarlierAttempt | None = None
    history: History = NO_HISTORY
    plan_id: PlanId | None = None
    key_prefix: str = ""
    answer_form: AnswerForm | None = None
    parts: tuple[Content, ...] = ()
    owner: str = ""

    @property
    def config(self) -> ReasoningConfig:
        """The reasoning options; the defaults for a run without reasoning."""
        return self.settings.reasoning or _DEFAULT_REASONING


@frozen(eq=False, repr=False)
class ControllerDecision(Value):
    """The order of a controller to ``abort`` the run, or to ``escalate`` the task."""

    kind: Literal["abort", "escalate"]
    reason: str


class StrategyControl(Protocol):
    """The controller of one run, as strategies see it.

    Attributes:
        ending: the order to end the strategy that runs now; ``None`` while it may continue.
        failure: the failure of the controller itself, which ends the run.
        escalated: whether the task has been handed to another strategy.
    """

    ending: ControllerDecision | None
    failure: ControllerError | None
    escalated: bool

    async def before(self, strategy_input: StrategyInput, /) -> Result[StrategyInput, ControllerError]:
        """Return the input as the controller wants it."""
        ...

    async def adapt(
        self, strategy_input: StrategyInput, /
    ) -> Result[ReasoningStrategy | None, ControllerError]:
        """Return the controller's strategy; ``None`` leaves it to the selector."""
        ...

    def begin(self, strategy: ReasoningStrategy, /) -> None:
        """Begin a strategy; decisions about an earlier one do not apply to it."""

    def note(self, step: ReasoningStep, /) -> None:
        """Note a step of the strategy itself, for the controller to see before the next."""

    async def conclude(self, steps: Iterable[ReasoningStep], /) -> None:
        """Show the controller the steps of the strategy that it has not seen."""

    def recorded(self, steps: Iterable[ReasoningStep], /) -> tuple[ReasoningStep, ...]:
        """Return the steps as the controller wants them recorded."""
        ...


def _no_context() -> RunContext[Any]:
    return RunContext(None)


@frozen(eq=False, repr=False)
class StrategyServices(Value):
    """The services of a strategy and of its kernel runs, and the meter of all calls.

    Attributes:
        compaction_functions: functions that summarize earlier turns, by the names in the configuration.
        kernels: the kernels that strategies may run, by name.
        plans: stores plans; ``Nothing`` to store none.
        strategies: all registered strategies, for strategies that hand the task on.
        effectiveness: the records of strategies on earlier tasks.
        control: the controller of the run; ``None`` without one.
        run_context: returns the context of the run for functions of the program.
    """

    kernel: KernelServices
    meter: MeteredLLM
    compaction_functions: Mapping[str, CompactionFunction] = field(factory=dict)
    kernels: Mapping[str, ThoughtKernel] = BUILT_IN_KERNELS
    plans: Maybe[PlanStore] = Nothing
    strategies: Mapping[ReasoningStrategy, Strategy] = field(factory=dict)
    effectiveness: Maybe[EffectivenessTracker] = Nothing
    control: StrategyControl | None = None
    run_context: Callable[[], RunContext[Any]] = _no_context


def not_registered(
    name: str, known: Iterable[str], kind: Literal["strategy", "kernel"] = "strategy"
) -> Failure[errors.StrategyNotFoundError]:
    """Return the failure of a name under which nothing is registered."""
    return Failure(errors.StrategyNotFoundError(name, tuple(known), kind))


GIVEN_FUNCTION = ""
"""The name of a compaction function that was given as such, and not by its name."""

Strategy: TypeAlias = Callable[[StrategyInput, StrategyServices], Effect[ReasoningResult, "ReasoningErrors"]]


@frozen(eq=False, repr=False)
class StrategyMeasure(Value):
    """Readings of clock and meter at the beginning of a strategy."""

    started: float
    spent: RunUsage


def begin_measure(services: StrategyServices) -> StrategyMeasure:
    """Return the readings that :func:`conclude` compares with."""
    return StrategyMeasure(services.kernel.clock.monotonic(), services.meter.usage)


def kernel_input(
    strategy_input: StrategyInput,
    *,
    instructions: str = "",
    temperature: float | None = None,
    compaction: CompactionSettings | None = None,
) -> KernelInput:
    """Return the input of a kernel run on the strategy's own task."""
    turn = strategy_input.history.turn
    return KernelInput(
        task=strategy_input.task_description,
        run_id=strategy_input.run_id,
        task_id=strategy_input.task_id,
        agent_id=strategy_input.agent_id,
        session_id=strategy_input.session_id,
        instructions=instructions,
        settings=strategy_input.settings,
        memory=strategy_input.memory,
        model=strategy_input.model,
        temperature=temperature,
        compaction=compaction or CompactionSettings(),
        deadline=strategy_input.deadline,
        needs=strategy_input.needs,
        earlier=strategy_input.earlier,
        history=strategy_input.history,
        answer_form=strategy_input.answer_form,
        key_prefix=strategy_input.key_prefix or ("" if turn is None else f"turn{turn + 1}."),
        parts=strategy_input.parts,
    )


def compaction_of(
    config: ReasoningConfig, strategy: ReasoningStrategy, services: StrategyServices
) -> CompactionSettings:
    """Return the compaction of a strategy: its own, or else that of all strategies.

    Args:
        strategy: its registered name; ``adaptive`` and custom strategies have no such options.
    """
    own = config.strategies.of(strategy)
    chosen = config.compaction if own is None or own.compaction is None else own.compaction
    functions = services.compaction_functions
    function = functions.get(chosen.function or GIVEN_FUNCTION)
    return CompactionSettings(chosen.method, chosen.model_name, chosen.temperature, function)


def seconds_left(strategy_input: StrategyInput, services: StrategyServices) -> float:
    """Return the seconds until the deadline of the run, infinite without one."""
    deadline = strategy_input.deadline
    return inf if deadline is None else deadline - services.kernel.clock.monotonic()


def profile_of(strategy_input: StrategyInput, services: StrategyServices) -> ContextProfile:
    """Return the context profile of the run's model, with the configured overrides."""
    return profile_under(strategy_input.model or services.kernel.llm.model, strategy_input.settings)


def conclude(
    state: KernelState,
    measure: StrategyMeasure,
    services: StrategyServices,
    task: str,
    form: AnswerForm | None = None,
) -> ReasoningResult:
    """Return the result of one kernel run on a task, whose answer may have a form."""
    return reasoning_result(
        state.strategy,
        measure,
        services,
        steps=tuple(state.steps),
        output=state.output,
        status=state.outcome or "failed",
        iterations=state.iteration,
        terminated_by=state.terminated_by,
        reason=state.reason,
        results=tool_results(state.scratchpad),
        messages=without_rejected_answers(state.messages),
        rejections=rejections_in(state.ledger.told),
        task=task,
        form=form,
    )


def reasoning_result(
    strategy: ReasoningStrategy,
    measure: StrategyMeasure,
    services: StrategyServices,
    *,
    status: ReasoningStatus,
    terminated_by: str,
    reason: str,
    steps: tuple[ReasoningStep, ...] = (),
    output: str | None = None,
    iterations: int = 0,
    results: Mapping[str, str] = NO_ENTRIES,
    confidence: float | None = None,
    tree: ThoughtTree | None = None,
    messages: tuple[Message, ...] = (),
    rejections: int = 0,
    task: str = "",
    form: AnswerForm | None = None,
) -> ReasoningResult:
    """Return a strategy's result, with time, tokens and cost from clock and meter.

    Args:
        confidence: the judgement of a critic or of a reflection, 0 to 1, which the course of the run lowers.
        rejections: how often guidance was given because of a turn of the model.
        task: the task in the user's words; its figures need no other source.
        form: the form of the answer; the model's own ratings in it need none.
    """
    shown = tuple(results.values()) if results else ()
    unsupported = unsupported_share(claims_in(output or "", form), Seen(task, shown)) if shown else 0.0
    course = RunCourse(rejections, len(failures_in(steps)), unsupported)
    now, before = services.meter.usage, measure.spent
    return ReasoningResult(
        strategy=strategy,
        steps=steps,
        output=output,
        metadata=ReasoningMetadata(
            duration=(services.kernel.clock.monotonic() - measure.started) * 1000,
            cost=max(0.0, now.cost_usd - before.cost_usd),
            tokens_used=now.tokens - before.tokens,
            steps_count=len(steps),
            confidence=confidence_in(status, course, confidence),
            iterations=iterations,
            terminated_by=terminated_by,
            reason=reason,
        ),
        status=status,
        tool_results=results,
        tree=tree,
        messages=messages,
    )
