"""The agent loop's own phases: every step of a kernel is a think, act or observe phase with its hooks."""

from __future__ import annotations

from functools import partial

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import (
    ExecutionError,
    HookError,
    IllegalTransition,
    KernelErrors,
    KernelFailed,
)
from reactive_agents.core.events import ExecutionLoopIteration, ExecutionPhaseEntered
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.context import ExecutionContext, LifecyclePhase
from reactive_agents.engine.lifecycle import fire_on_error
from reactive_agents.engine.services import EngineServices
from reactive_agents.kernel import KernelContext, KernelState, KernelStatus, ThoughtKernel, transition_state

PHASE_OF_STATUS: dict[KernelStatus, LifecyclePhase] = {
    "thinking": "think",
    "acting": "act",
    "observing": "observe",
}


def with_lifecycle(kernel: ThoughtKernel, services: EngineServices) -> ThoughtKernel:
    """The same kernel, with lifecycle events and hooks around each of its steps."""
    return partial(_step, kernel, services)


@effect
async def _step(
    kernel: ThoughtKernel, services: EngineServices, state: KernelState, context: KernelContext
) -> Result[KernelState, KernelErrors]:
    handle, events, hooks = services.handle, services.events, services.ports.hooks
    if handle.failure is not None:  # the run is over, also for a strategy that would try again
        return Failure(KernelFailed(handle.failure.message, state.kernel_type))
    phase = PHASE_OF_STATUS[state.status]
    handle.phase = phase
    handle.enter(state)
    if phase == "think":
        events.publish(ExecutionLoopIteration(*events.stamp(), state.iteration))
    events.publish(ExecutionPhaseEntered(*events.stamp(), phase))
    if hooks.has(phase, "before"):
        before = handle.current_context()
        shown = await hooks.run(phase, "before", before, events, strict=services.config.strict_hooks)
        if not (isinstance(shown, Success) and shown.unwrap() is before):
            changed = _changed(state, before, shown, services)
            if not isinstance(changed, Success):
                return changed
            state = changed.unwrap()
    outcome = await attempt(kernel(state, context))
    if not isinstance(outcome, Success):
        error = outcome.failure()
        failed = ExecutionError(error.message, handle.context.task_id, phase, error)
        await fire_on_error(phase, handle.current_context(), failed, services)
        return outcome
    following = outcome.unwrap()
    handle.enter(following)
    if phase == "act":
        handle.tool_results += following.results
    if hooks.has(phase, "after"):
        before = handle.current_context()
        shown = await hooks.run(phase, "after", before, events, strict=services.config.strict_hooks)
        if not (isinstance(shown, Success) and shown.unwrap() is before):
            return _changed(following, before, shown, services)
    return outcome


def _changed(
    state: KernelState,
    before: ExecutionContext,
    shown: Result[ExecutionContext, HookError],
    services: EngineServices,
) -> Result[KernelState, KernelErrors]:
    """The state after the hooks have seen the context; what they did to its messages is taken over."""
    handle = services.handle
    if not isinstance(shown, Success):
        handle.failure = shown.failure()
        return Failure(KernelFailed(shown.failure().message, state.kernel_type))
    after = shown.unwrap()
    handle.context = replaced(handle.context, metadata=after.metadata)
    if after.messages == before.messages:
        return Success(state)
    changed: Result[KernelState, IllegalTransition] = transition_state(state, messages=after.messages)
    handle.enter(changed.value_or(state))
    return changed
