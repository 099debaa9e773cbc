"""What the engine and its phases work with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from attrs import define, field, fields, frozen
from returns.maybe import Maybe, Nothing

from reactive_agents.core.errors import RuntimeErrors, ServiceFailed, ToolErrors
from reactive_agents.core.persistent import PersistentList
from reactive_agents.core.redaction import Redactor
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.values import replaced
from reactive_agents.effects import Effect
from reactive_agents.engine.context import ExecutionContext, LifecyclePhase
from reactive_agents.engine.execution_control import ExecutionControl
from reactive_agents.engine.hooks import LifecycleHookRegistry
from reactive_agents.kernel import KernelState, MeteredLLM, Policy, RunEvents
from reactive_agents.ports import (
    LLM,
    Approver,
    AuditLog,
    Clock,
    CostRouter,
    CostTracker,
    EventBus,
    Guardrail,
    IdSource,
    MemoryService,
    PlanStore,
    PriceList,
    SpendingGuard,
    TokenCounter,
    ToolService,
    Verifier,
)
from reactive_agents.reasoning import ReasoningService
from reactive_agents.reasoning.structured_output.schema import Shape

OpenServices: TypeAlias = Callable[[], Effect[None, ServiceFailed]]

PhaseStage: TypeAlias = Literal["entered", "begun", "done"]
"""Of a phase: its hooks run, its body is under way, its body came to an end."""


@frozen
class EnginePorts:
    """The services of an engine, shared by its runs. ``Nothing`` for a service that there is not.

    ``open_services`` opens, before each run, those that have to be open and are not. ``policies`` are asked
    before the kernel's own. ``redactor`` takes secrets out of streamed text and of what a failed run
    comes back with; whole events are the bus's duty.
    ``output_shape`` is what answers have to look like.

    Raises:
        TypeError: a service that there may not be is neither ``Some`` nor ``Nothing``.
    """

    llm: LLM
    events: EventBus
    clock: Clock
    ids: IdSource
    hooks: LifecycleHookRegistry
    tools: Maybe[ToolService] = Nothing
    reasoning: Maybe[ReasoningService] = Nothing
    memory: Maybe[MemoryService] = Nothing
    approver: Maybe[Approver] = Nothing
    guardrail: Maybe[Guardrail] = Nothing
    cost_router: Maybe[CostRouter] = Nothing
    cost_tracker: Maybe[CostTracker] = Nothing
    verifier: Maybe[Verifier] = Nothing
    audit: Maybe[AuditLog] = Nothing
    open_services: OpenServices | None = None
    policies: tuple[Policy, ...] = ()
    counter: Maybe[TokenCounter] = Nothing
    prices: Maybe[PriceList] = Nothing
    budget: Maybe[SpendingGuard] = Nothing
    redactor: Redactor | None = None
    plans: Maybe[PlanStore] = Nothing
    output_shape: Maybe[Shape[Any]] = Nothing

    def __attrs_post_init__(self) -> None:
        for each in fields(EnginePorts):
            given = getattr(self, each.name)
            if each.default is Nothing and not isinstance(given, Maybe):
                message = f"{each.name}: got {type(given).__name__}, expected Some(service) or Nothing"
                raise TypeError(message)


@define(eq=False)
class RunHandle:
    """The live end of a run: where it stands, and how to cancel it.

    Attributes:
        context: as the last phase left it.
        meter: the account of the run's model calls.
        started: when the run began, in seconds of the monotonic clock.
        phase: the phase that runs now.
        reached: how far each phase has come up to now, but for those of the loop.
        control: cancels, stops and pauses the run.
        waiting: how many tool calls wait for approval; the agent is paused while there are any.
        kernel_states: the latest state of each kernel of the run, in their order, by its id.
        kernel_state: that of the kernel that runs now, or ran last.
        cut_off: the tool calls that were under way when the run was cancelled, by their keys.
        call_errors: how tool calls failed that their step has not recorded yet, by the keys of the calls.
        tool_results: of all tool calls so far.
        failure: an error of the lifecycle that a kernel has no way to express.
    """

    context: ExecutionContext
    meter: MeteredLLM
    started: float
    control: ExecutionControl
    phase: LifecyclePhase = "bootstrap"
    reached: dict[LifecyclePhase, PhaseStage] = field(factory=dict)
    waiting: int = 0
    kernel_states: dict[str, KernelState] = field(factory=dict)
    kernel_state: KernelState | None = None
    cut_off: set[str] = field(factory=set)
    call_errors: dict[str, ToolErrors] = field(factory=dict)
    tool_results: PersistentList[ToolResult] = field(factory=PersistentList)
    failure: RuntimeErrors | None = None

    def enter(self, state: KernelState) -> None:
        """Note where a kernel stands."""
        self.kernel_states[state.id] = self.kernel_state = state

    def rewrite(self, change: Callable[[KernelState], KernelState]) -> None:
        """Change what there is on record of every kernel."""
        self.kernel_states = {key: change(state) for key, state in self.kernel_states.items()}
        if self.kernel_state is not None:
            self.kernel_state = self.kernel_states[self.kernel_state.id]

    def current_context(self) -> ExecutionContext:
        """The context, with what kernel, tools and meter have come to since."""
        state, context = self.kernel_state, self.context
        if state is None:
            return context
        return replaced(
            context,
            phase=self.phase,
            agent_state="paused" if self.waiting or self.control.is_held else context.agent_state,
            iteration=state.iteration,
            messages=state.messages,
            tool_results=self.tool_results,
            cost=self.meter.account.total.cost_usd,
        )

    def fail(self, error: RuntimeErrors) -> ExecutionContext:
        """The context at the end of a run that ended with the error."""
        self.context = replaced(self.current_context(), agent_state="failed", error=error)
        return self.context


@define(eq=False)
class ClosingProgress:
    """How many cost records and audit entries of runs an engine has written."""

    recorded: int = 0


@frozen
class EngineServices:
    """The services of one run: the engine's own, and those bound to the run."""

    settings: RunSettings
    ports: EnginePorts
    llm: MeteredLLM
    events: RunEvents
    handle: RunHandle
    progress: ClosingProgress
