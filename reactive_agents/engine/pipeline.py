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
from reactive_agents.core.events import ExecutionPhaseFailed
from reactive_agents.effects import attempt
from reactive_agents.engine.agent_loop import agent_loop, strategy_select
from reactive_agents.engine.audit import audit
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.cost import cost_route, cost_track
from reactive_agents.engine.guardrail import guardrail
from reactive_agents.engine.lifecycle import Phase, run_phase
from reactive_agents.engine.memory import bootstrap, memory_flush
from reactive_agents.engine.run_result import complete
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
        tell_failure(phase.name, error, services, fatal=fatal)
        return Failure(error) if fatal else Success(services.handle.context)

    return stage


def tell_failure(phase: str, error: RuntimeErrors, services: EngineServices, *, fatal: bool) -> None:
    """Publish that a phase failed."""
    events = services.events
    events.publish(ExecutionPhaseFailed, phase=phase, error=error, fatal=fatal)


async def looped(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The agent loop, whose steps have their hooks around them one by one."""
    outcome = await attempt(agent_loop(context, services))
    if not isinstance(outcome, Success):
        tell_failure(services.handle.phase, outcome.failure(), services, fatal=True)
    else:
        services.handle.context = outcome.unwrap()
    return outcome


CLOSING: tuple[Phase, ...] = (
    Phase("cost-track", cost_track, attrgetter("cost_tracker"), degrades=True, repeatable=True),
    Phase("audit", audit, attrgetter("audit"), degrades=True),
)
"""The phases that also a failed run goes through."""

PIPELINE: tuple[Stage, ...] = (
    staged(Phase("bootstrap", bootstrap, degrades=True)),
    staged(Phase("guardrail", guardrail, attrgetter("guardrail"))),
    staged(Phase("cost-route", cost_route, attrgetter("cost_router"), degrades=True)),
    staged(Phase("strategy-select", strategy_select)),
    looped,
    staged(Phase("verify", verify, attrgetter("verifier"), degrades=True)),
    staged(Phase("memory-flush", memory_flush, attrgetter("memory"), degrades=True)),
    *map(staged, CLOSING),
    staged(Phase("complete", complete)),
)
"""The ten phases, in order."""


async def run_phases(
    stages: Iterable[Stage], context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """The context after all the phases, or the first fatal error."""
    for stage in stages:
        outcome = await stage(context, services)
        if not isinstance(outcome, Success):
            return outcome
        context = outcome.unwrap()
    return Success(context)


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
                tell_failure(phase.name, recorded.failure(), services, fatal=False)
