"""Run one phase, or one kernel step, with its events and hooks.

The ten phases and the steps of the agent loop look alike to a user: each is entered, published, and has hooks
before it, after it and on an error. Only this module does that, so that no phase can skip it; the bodies of
phases know nothing of hooks.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import anyio
import anyio.lowlevel
from attrs import fields, frozen
from returns.maybe import Maybe, Nothing
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import (
    ExecutionLoopIteration,
    ExecutionPhaseEntered,
    ExecutionPhaseFailed,
    ExecutionPhaseSkipped,
)
from reactive_agents.core.messages import ToolCall, ToolMessage
from reactive_agents.core.values import Value, replaced
from reactive_agents.engine.context import AGENT_STATES, ExecutionContext, LifecyclePhase
from reactive_agents.engine.hooks import HookTiming
from reactive_agents.engine.services import EnginePorts, EngineServices, RunHandle
from reactive_agents.kernel import KernelContext, KernelState, KernelStatus, KernelStep, transition_state
from reactive_agents.kernel.service_calls import BrokenServiceError, broken_service
from reactive_agents.kernel.termination import FINISHING_S
from reactive_agents.kernel.tool_execution import call_key

if TYPE_CHECKING:
    from reactive_agents.core.errors import HookError, IllegalTransition, KernelErrors

PhaseBody: TypeAlias = Callable[
    [ExecutionContext, EngineServices], Awaitable[Result[ExecutionContext, "errors.RuntimeErrors"]]
]

_log = logging.getLogger("reactive_agents")
_BEFORE_THE_END = ("bootstrapping", "running")


@frozen(eq=False, repr=False)
class Phase(Value):
    """One phase of the pipeline.

    Attributes:
        service: finds the service that the phase calls; without that service the phase is skipped. ``None``
            for a phase that always runs.
        degrades: whether the run continues when the phase fails.
        repeatable: whether the body may run again after an interruption, since a second time it changes
            nothing.
    """

    name: LifecyclePhase
    body: PhaseBody
    service: Callable[[EnginePorts], Maybe[object]] | None = None
    degrades: bool = False
    repeatable: bool = False


DONE: Final[Result[None, errors.RuntimeErrors]] = Success(None)
"""The outcome of a stage that has ended; the context after it is in the run's handle."""


async def run_phase(phase: Phase, services: EngineServices) -> Result[None, errors.RuntimeErrors]:
    """Run a phase on the context in the run's handle, and put the new context there.

    A phase without its service is skipped. Fails with the error of the phase.
    """
    handle, events, hooks = services.handle, services.events, services.ports.hooks
    context, handle.phase = handle.context, phase.name
    name = phase.name
    if phase.service is not None and phase.service(services.ports) is Nothing:
        handle.reached[name] = "done"
        events.publish(ExecutionPhaseSkipped, name, "no service is provided")
        return DONE
    handle.reached[name] = "entered"
    events.publish(ExecutionPhaseEntered, name)
    if hooks.has(name, "before"):
        changed = await _run_hooks(name, "before", context, services)
        if not isinstance(changed, Success):
            await run_error_hooks(name, context, changed.failure(), services)
            return Failure(changed.failure())
        handle.context = context = changed.unwrap()
    handle.reached[name] = "begun"
    outcome: Result[ExecutionContext, errors.RuntimeErrors]
    try:
        body = phase.body if context.deadline is None else partial(_until_deadline, phase)
        outcome = await body(context, services)
    except Exception as error:  # noqa: BLE001 - a defect of the phase, or of a service that it reads
        outcome = Failure(phase_error(name, error, services))
    handle.reached[name] = "done"
    if hooks.has(name, "after") and isinstance(outcome, Success):
        outcome = await _run_hooks(name, "after", outcome.unwrap(), services)
    if not isinstance(outcome, Success):
        await run_error_hooks(name, context, outcome.failure(), services)
        return Failure(outcome.failure())
    handle.context = outcome.unwrap()
    return DONE


def publish_failure(
    phase: str, error: errors.RuntimeErrors, services: EngineServices, *, fatal: bool
) -> None:
    """Publish that a phase failed, and log a warning if the run goes on."""
    if not fatal:
        _log.warning("The phase %s failed, and the run goes on: %s", phase, error.message)
    services.events.publish(ExecutionPhaseFailed, phase=phase, error=error, fatal=fatal)


def phase_error(phase: str, error: BaseException, services: EngineServices) -> errors.ExecutionError:
    """Return the typed error of a phase that raised, and log the traceback.

    When the cause is a service without a method of its port, the error names that service.
    """
    _log.warning("The phase %s of run %s raised.", phase, services.events.run_id, exc_info=error)
    broken = (
        error.failure if isinstance(error, BrokenServiceError) else _lacking_service(error, services.ports)
    )
    if broken is not None:
        return errors.ExecutionError(broken.message, services.events.task_id, phase, broken)
    return errors.ExecutionError(
        f"The phase {phase} raised {type(error).__name__}: {error}", services.events.task_id, phase
    )


def _lacking_service(error: BaseException, ports: EnginePorts) -> ServiceFailed | None:
    if not isinstance(error, AttributeError) or error.obj is None:
        return None
    for each in fields(EnginePorts):
        given = getattr(ports, each.name)
        if error.obj is (given.value_or(None) if isinstance(given, Maybe) else given):
            return broken_service(each.name, error.obj, error.name or "", f"has no {error.name!r}.")
    return None


async def _until_deadline(
    phase: Phase, context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Run the phase's body until the deadline, but for at least ``grace_s`` seconds."""
    with anyio.move_on_after(services.seconds_to_finish()):
        return await phase.body(context, services)
    message = f"The phase {phase.name} was cancelled at the time limit of the run."
    return Failure(errors.ExecutionError(message, context.task_id, phase.name))


def _run_hooks(
    name: LifecyclePhase, timing: HookTiming, context: ExecutionContext, services: EngineServices
) -> Awaitable[Result[ExecutionContext, HookError]]:
    """Run hooks, and return the context as they changed it; strict ones may fail."""
    strict, hooks = services.settings.strict_hooks, services.ports.hooks
    time_left = None if context.deadline is None else partial(_time_left, name, services)
    state = "completed" if context.result is not None else services.handle.agent_state
    shown = replaced(context, phase=name, agent_state=state)
    return hooks.run(name, timing, shown, services.events, strict=strict, time_left=time_left)


def _time_left(phase: LifecyclePhase, services: EngineServices) -> float:
    """Return the seconds until the deadline, but no fewer than a hook may always take."""
    if AGENT_STATES[phase] in _BEFORE_THE_END:
        return max(services.seconds_left(), FINISHING_S)
    return services.seconds_to_finish()


async def run_error_hooks(
    name: LifecyclePhase, context: ExecutionContext, error: errors.RuntimeErrors, services: EngineServices
) -> None:
    """Run the on-error hooks of a phase. They cannot change the error."""
    if services.ports.hooks.has(name, "on-error"):
        await _run_hooks(name, "on-error", replaced(context, error=error), services)


PHASE_OF_STATUS: dict[KernelStatus, LifecyclePhase] = {
    "thinking": "think",
    "acting": "act",
    "observing": "observe",
}


async def step_with_lifecycle(
    services: EngineServices, step: KernelStep, state: KernelState, context: KernelContext
) -> Result[KernelState, KernelErrors]:
    """Take a step of a kernel, with its lifecycle events and hooks."""
    handle, events, hooks = services.handle, services.events, services.ports.hooks
    ended = handle.ending_error()
    if ended is not None:  # also for a strategy that tries again
        return Failure(errors.KernelFailed(ended.message, state.kernel_type))
    phase = PHASE_OF_STATUS[state.status]
    if handle.handoff is not None and phase != "observe":  # the results of its turn are observed first
        await _end_loop(handle)
    handle.phase = phase
    handle.record_state(state)
    if phase == "think":
        events.publish(ExecutionLoopIteration, state.iteration)
    events.publish(ExecutionPhaseEntered, phase)
    if hooks.has(phase, "before"):
        changed = await _run_step_hooks(phase, "before", state, services)
        if not isinstance(changed, Success):
            return changed
        state = changed.unwrap()
    outcome = await step(state, context)
    if not isinstance(outcome, Success):
        error = outcome.failure()
        failed = errors.ExecutionError(error.message, handle.context.task_id, phase, error)
        await run_error_hooks(phase, handle.current_context(), failed, services)
        return outcome
    following = outcome.unwrap()
    handle.record_state(following)
    if phase == "act":
        handle.tool_results = handle.tool_results.extended(following.results)
        if handle.call_errors:
            notified = await _run_call_error_hooks(state, services)
            if isinstance(notified, Failure):
                return notified
    if hooks.has(phase, "after"):
        outcome = await _run_step_hooks(phase, "after", following, services)
        if not isinstance(outcome, Success):
            return outcome
    if handle.handoff is not None and _has_result_of(handle.handoff.call, following):
        await _end_loop(handle)
    return outcome


def _has_result_of(call: ToolCall | None, state: KernelState) -> bool:
    messages = state.messages if call is not None else ()
    return any(isinstance(each, ToolMessage) and call and each.call_id == call.id for each in messages)


async def _end_loop(handle: RunHandle) -> None:
    """End the agent loop, also for a strategy of several kernel runs."""
    if handle.loop is not None:
        handle.loop.cancel()
        await anyio.lowlevel.checkpoint()


async def _run_call_error_hooks(state: KernelState, services: EngineServices) -> Result[None, KernelErrors]:
    """Run the on-error hooks of ``act`` for each failed tool call of the step."""
    handle, hooks = services.handle, services.ports.hooks
    for index in range(len(state.pending)):
        error = handle.call_errors.pop(call_key(state, index), None)
        if error is None or not hooks.has("act", "on-error"):
            continue
        failed = errors.ExecutionError(error.message, handle.context.task_id, "act", error)
        context = replaced(handle.current_context(), error=failed)
        outcome = await _run_hooks("act", "on-error", context, services)
        if not isinstance(outcome, Success):
            return _failed_in_loop(outcome.failure(), state, handle)
    return Success(None)


def _failed_in_loop(error: HookError, state: KernelState, handle: RunHandle) -> Failure[KernelErrors]:
    """Keep the error of a strict hook for the end of the run, and fail the kernel."""
    handle.failure = error
    return Failure(errors.KernelFailed(error.message, state.kernel_type))


async def _run_step_hooks(
    phase: LifecyclePhase, timing: HookTiming, state: KernelState, services: EngineServices
) -> Result[KernelState, KernelErrors]:
    """Run the hooks before or after a step, and return the state with their changes."""
    handle, before = services.handle, services.handle.current_context()
    outcome = await services.ports.hooks.run(
        phase, timing, before, services.events, strict=services.settings.strict_hooks
    )
    if not isinstance(outcome, Success):
        return _failed_in_loop(outcome.failure(), state, handle)
    after = outcome.unwrap()
    if after is before:
        return Success(state)
    handle.context = replaced(handle.context, metadata=after.metadata)
    if after.messages == before.messages:
        return Success(state)
    changed: Result[KernelState, IllegalTransition] = transition_state(state, messages=after.messages)
    handle.record_state(changed.value_or(state))
    return changed
