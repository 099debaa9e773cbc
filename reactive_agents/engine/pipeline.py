"""The ten phases as one pipeline, and the one rule for what a phase's failure does.

A phase that carries the run (guardrail, strategy selection, the loop, completion) ends it with its error. A
phase whose service only helps degrades: the failure is an event, and the run goes on without it; a strict
hook ends the run in any phase, and so does an answer that is not verified where it is to fail then. The
account of a run is closed, by cost tracking and audit, once, however the run ended and whatever their hooks
do; an entry into the audit log that was broken off is not begun again, as it may be there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from typing import TypeAlias

import anyio
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import HookError, IllegalAgentState, RuntimeErrors, VerificationFailed
from reactive_agents.core.events import ExecutionPhaseFailed, ExecutionStopped
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt
from reactive_agents.engine.agent_loop import agent_loop, strategy_select
from reactive_agents.engine.audit import audit
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.cost import cost_route, cost_track
from reactive_agents.engine.execution_control import StopRequest
from reactive_agents.engine.guardrail import guard_output, guardrail
from reactive_agents.engine.lifecycle import Phase, run_phase
from reactive_agents.engine.memory import bootstrap, memory_flush
from reactive_agents.engine.run_result import as_partial, complete, partial_result
from reactive_agents.engine.services import EngineServices
from reactive_agents.engine.verification import verify

Stage: TypeAlias = Callable[
    [ExecutionContext, EngineServices], Awaitable[Result[ExecutionContext, RuntimeErrors]]
]


def staged(phase: Phase) -> Stage:
    """The phase with its hooks around it, and with its failure either fatal or published and passed over."""

    async def stage(
        context: ExecutionContext, services: EngineServices
    ) -> Result[ExecutionContext, RuntimeErrors]:
        outcome = await run_phase(phase, context, services)
        if isinstance(outcome, Success):
            return outcome
        error = outcome.failure()
        fatal = not phase.degrades or isinstance(error, HookError | IllegalAgentState | VerificationFailed)
        publish_failure(phase.name, error, services, fatal=fatal)
        return Failure(error) if fatal else Success(services.handle.context)

    return stage


def publish_failure(phase: str, error: RuntimeErrors, services: EngineServices, *, fatal: bool) -> None:
    """Publish that a phase failed."""
    events = services.events
    events.publish(ExecutionPhaseFailed, phase=phase, error=error, fatal=fatal)


async def looped(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The agent loop, whose steps have their hooks around them one by one."""
    outcome = await attempt(agent_loop(context, services))
    if not isinstance(outcome, Success):
        publish_failure(services.handle.phase, outcome.failure(), services, fatal=True)
    else:
        services.handle.context = outcome.unwrap()
    return outcome


CLOSING: tuple[Phase, ...] = (
    Phase("cost-track", cost_track, attrgetter("cost_tracker"), degrades=True, repeatable=True),
    Phase("audit", audit, attrgetter("audit"), degrades=True),
)
"""The phases that also a failed run goes through."""


async def opened(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Open the services that have to be open before a run."""
    open_services = services.ports.open_services
    if open_services is None:
        return Success(context)
    outcome = await attempt(open_services())
    if not isinstance(outcome, Success):
        return Failure(context.failure_of("bootstrap")(outcome.failure()))
    return Success(context)


ANSWERING: tuple[Stage, ...] = (
    opened,
    staged(Phase("bootstrap", bootstrap, degrades=True)),
    staged(Phase("guardrail", guardrail, attrgetter("guardrail"))),
    staged(Phase("cost-route", cost_route, attrgetter("cost_router"), degrades=True)),
    staged(Phase("strategy-select", strategy_select)),
    looped,
    staged(Phase("verify", verify, attrgetter("verifier"), degrades=True)),
)
"""The first six phases, up to the verified answer. They are cut off when the run is stopped."""

ENDING: tuple[Stage, ...] = (
    staged(Phase("memory-flush", memory_flush, attrgetter("memory"), degrades=True)),
    *map(staged, CLOSING),
    staged(Phase("complete", complete)),
)
"""The last four phases, which take in the answer."""


async def run_pipeline(services: EngineServices) -> Result[ExecutionContext, RuntimeErrors]:
    """Run the ten phases; return the context after them, or the first fatal error."""
    handle = services.handle
    outcome: Result[ExecutionContext, RuntimeErrors] = Success(handle.context)
    with handle.control.work:
        outcome = await _run_stages(ANSWERING, handle.context, services)
    stopped = handle.control.answer()
    if stopped is not None and isinstance(outcome, Success):
        outcome = await _stopped(stopped, services)
    if not isinstance(outcome, Success):
        return outcome
    return await _run_stages(ENDING, outcome.unwrap(), services)


async def _run_stages(
    stages: Iterable[Stage], context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    for stage in stages:
        outcome = await stage(context, services)
        if not isinstance(outcome, Success):
            return outcome
        context = outcome.unwrap()
    return Success(context)


async def _stopped(request: StopRequest, services: EngineServices) -> Result[ExecutionContext, RuntimeErrors]:
    """Return the context of a stopped run with a partial outcome, as far as the guardrail lets it out."""
    handle = services.handle
    services.events.publish(ExecutionStopped, handle.phase, request.reason)
    # wherever the run was, the last phases are next
    handle.context = context = replaced(handle.context, agent_state="verifying")
    if context.reasoning is None:
        partial = partial_result("stopped", request.sentence("a final answer"), context, services)
        outcome = await guard_output(partial, services)
        if not isinstance(outcome, Success):
            publish_failure(handle.phase, outcome.failure(), services, fatal=True)
            return outcome
        handle.context = outcome.unwrap()
    else:
        unverified = bool(services.ports.verifier) and context.verification is None
        reason = request.sentence("the verification of the answer" if unverified else "")
        reasoning = as_partial(context.reasoning, "stopped", reason)
        handle.context = replaced(context, reasoning=reasoning)
    return Success(handle.context)


async def close_failed_run(context: ExecutionContext, services: EngineServices) -> None:
    """Close the account of a run that ended with an error, even while it is being cancelled.

    What was recorded stays as it is. What a hook kept from being recorded, by its failure or by how long it
    took, is recorded without hooks.
    """
    reached = services.handle.reached
    broken_off = [phase for phase in CLOSING if phase.repeatable and reached.get(phase.name) == "begun"]
    try:
        with anyio.move_on_after(services.settings.timeouts.grace_s, shield=True):
            for phase in CLOSING:  # one that fails has said so, and does not keep the next from its work
                if phase.name not in reached:
                    await staged(phase)(context, services)
    finally:  # a task that is cancelled twice is not held up by a shield
        kept_from = [phase for phase in CLOSING if reached.get(phase.name, "entered") == "entered"]
        if broken_off or kept_from:
            await _record((*broken_off, *kept_from), context, services)


async def _record(phases: Iterable[Phase], context: ExecutionContext, services: EngineServices) -> None:
    with anyio.move_on_after(services.settings.timeouts.grace_s, shield=True):
        for phase in phases:
            recorded = await attempt(phase.body(context, services))
            if not isinstance(recorded, Success):
                publish_failure(phase.name, recorded.failure(), services, fatal=False)
