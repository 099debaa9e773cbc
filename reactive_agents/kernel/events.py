"""The events of one run: numbered, timed, and handed to the bus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Never

from attrs import frozen
from returns.result import Result, Success

from reactive_agents.core.errors import KernelErrors
from reactive_agents.core.events import (
    AgentEvent,
    CompactionReason,
    ContextCompacted,
    FinalAnswerProduced,
    ReasoningStepCompleted,
    Stamp,
    ToolCallCompleted,
)
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.messages import Message, ToolCall
from reactive_agents.core.tools import ToolResult
from reactive_agents.effects import Effect, effect
from reactive_agents.kernel.context_window.token_estimate import characters_of
from reactive_agents.kernel.state import KernelState
from reactive_agents.ports import Clock, EventBus


class RunEvents:
    """Stamps the events of one run and publishes them: ``events.publish(Kind(*events.stamp(), field=…))``."""

    __slots__ = ("_now", "_sequence", "publish", "run_id", "task_id")

    def __init__(self, bus: EventBus, clock: Clock, run_id: RunId, task_id: TaskId) -> None:
        self._now = clock.now
        self._sequence = 0
        self.publish: Callable[[AgentEvent], None] = bus.publish
        """Hand the event to the bus."""
        self.run_id = run_id
        self.task_id = task_id

    def stamp(self) -> Stamp:
        """The four fields that the next event begins with; each call takes the next number."""
        self._sequence = sequence = self._sequence + 1
        now = self._now
        return self.run_id, self.task_id, sequence, now()


# --- What is told of a kernel run while it goes on. The only publisher of kernel events ---


@frozen
class Compaction:
    """A transcript that was made smaller, and the tokens of the window that it has to fit."""

    reason: CompactionReason
    before: tuple[Message, ...]
    after: tuple[Message, ...]
    window_tokens: int


_DONE: Result[None, Never] = Success(None)


@effect
async def _silence(*_: object) -> Result[None, Never]:
    return _DONE


@frozen
class KernelHooks:
    """Called by kernels and their runner; none of them can fail.

    Attributes:
        on_thought: the model said something.
        on_action: a tool is about to be called.
        on_observation: the tool's result is here.
        on_done: the run has its output.
        on_error: the run failed.
        on_compacted: the transcript was made smaller, so that the request fits.
    """

    on_thought: Callable[[KernelState, str], Effect[None, Never]]
    on_action: Callable[[KernelState, ToolCall], Effect[None, Never]]
    on_observation: Callable[[KernelState, ToolResult, str], Effect[None, Never]]
    on_done: Callable[[KernelState], Effect[None, Never]]
    on_error: Callable[[KernelState, KernelErrors | None], Effect[None, Never]]
    on_compacted: Callable[[KernelState, Compaction], Effect[None, Never]] = _silence


noop_hooks = KernelHooks(_silence, _silence, _silence, _silence, _silence)
"""Hooks that do nothing."""


class _Publisher:
    """The hooks of a kernel run whose events somebody may hear."""

    __slots__ = ("_events", "_kernel_pass")

    def __init__(self, events: RunEvents, kernel_pass: str) -> None:
        self._events = events
        self._kernel_pass = kernel_pass

    def _step(
        self, state: KernelState, thought: str | None, action: str | None, observation: str | None
    ) -> None:
        events = self._events
        events.publish(
            ReasoningStepCompleted(
                *events.stamp(),
                state.strategy,
                state.iteration,
                self._kernel_pass,
                thought,
                action,
                observation,
            )
        )

    @effect
    async def on_thought(self, state: KernelState, thought: str) -> Result[None, Never]:
        self._step(state, thought, None, None)
        return _DONE

    @effect
    async def on_action(self, state: KernelState, call: ToolCall) -> Result[None, Never]:
        self._step(state, None, call.described, None)
        return _DONE

    @effect
    async def on_observation(self, state: KernelState, result: ToolResult, shown: str) -> Result[None, Never]:
        self._step(state, None, None, shown)
        events = self._events
        events.publish(
            ToolCallCompleted(
                *events.stamp(),
                result.tool_name,
                result.call_id,
                not result.error,
                result.duration_ms,
                result.error,
                result.origin,
            )
        )
        return _DONE

    @effect
    async def on_done(self, state: KernelState) -> Result[None, Never]:
        events = self._events
        events.publish(
            FinalAnswerProduced(
                *events.stamp(),
                strategy=state.strategy,
                answer=state.output or "",
                status=state.outcome or "completed",
                terminated_by=state.terminated_by,
                iteration=state.iteration,
                total_tokens=state.tokens,
            )
        )
        return _DONE

    @effect
    async def on_compacted(self, state: KernelState, compaction: Compaction) -> Result[None, Never]:
        events = self._events
        events.publish(
            ContextCompacted(
                *events.stamp(),
                reason=compaction.reason,
                before_chars=characters_of(compaction.before),
                after_chars=characters_of(compaction.after),
                window_tokens=compaction.window_tokens,
            )
        )
        return _DONE


def build_kernel_hooks(events: RunEvents | None, *, kernel_pass: str = "") -> KernelHooks:
    """Hooks that publish each kernel event exactly once; silent hooks when there is no bus.

    Args:
        events: where the run's events go; ``None`` for nowhere.
        kernel_pass: label of this kernel run, carried by its events.
    """
    if events is None:
        return noop_hooks
    told = _Publisher(events, kernel_pass)
    return KernelHooks(
        told.on_thought, told.on_action, told.on_observation, told.on_done, _silence, told.on_compacted
    )
