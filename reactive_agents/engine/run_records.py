"""Records of failed and cancelled runs: cost record and audit entry.

Every run that began is recorded once, however it ends, or an event reports that it was not. A successful run
passes the two phases in the pipeline; any other passes them here, shielded from its cancellation.

When thousands of runs are cancelled at once, they all wait for the same two files. A fixed number of seconds
for each would drop most of them, so patience is counted from the last run of the engine that was recorded: as
long as the services make progress, all runs wait; a service that hangs delays a run by ``grace_s``, or by
twelve times that while other runs are being recorded. An audit entry that was interrupted is not written
again, as it may exist.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from operator import attrgetter

import anyio
from returns.result import Success

from reactive_agents.core.errors import ExecutionError
from reactive_agents.engine.audit import audit
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.cost import cost_track
from reactive_agents.engine.lifecycle import Phase, publish_failure, run_phase
from reactive_agents.engine.services import EngineServices

MOST_WAITS = 12
"""How often ``grace_s`` may pass, while other runs are recorded, before a run gives up."""

CLOSING: tuple[Phase, ...] = (
    Phase("cost-track", cost_track, attrgetter("cost_tracker"), degrades=True, repeatable=True),
    Phase("audit", audit, attrgetter("audit"), degrades=True),
)
"""The phases that also a failed run passes."""


async def close_failed_run(context: ExecutionContext, services: EngineServices) -> None:
    """Record a run that ended with an error, even while it is being cancelled.

    A phase whose hook failed or took too long is run again without hooks. Whatever is not recorded in the end
    is an event.
    """
    reached = services.handle.reached
    begun_before = {phase.name for phase in CLOSING if reached.get(phase.name) == "begun"}
    try:
        await _with_patience(_run_phases(context, services), services)
    finally:  # a task that is cancelled twice is not held up by a shield
        try:
            again = [
                phase
                for phase in CLOSING
                if reached.get(phase.name, "entered") == "entered"
                or (phase.repeatable and phase.name in begun_before)
            ]
            if again:
                await _with_patience(_record(again, context, services), services)
        finally:
            _publish_gaps(context, services)


async def _run_phases(context: ExecutionContext, services: EngineServices) -> None:
    for phase in CLOSING:  # a failure is published, and the next phase runs nevertheless
        if phase.name not in services.handle.reached:
            outcome = await run_phase(phase, context, services)
            if not isinstance(outcome, Success):
                publish_failure(phase.name, outcome.failure(), services, fatal=False)


async def _record(phases: Iterable[Phase], context: ExecutionContext, services: EngineServices) -> None:
    for phase in phases:
        services.handle.reached[phase.name] = "begun"
        recorded = await phase.body(context, services)
        services.handle.reached[phase.name] = "done"
        if not isinstance(recorded, Success):
            publish_failure(phase.name, recorded.failure(), services, fatal=False)


async def _with_patience(work: Awaitable[None], services: EngineServices) -> None:
    """Await the work, shielded from cancellation, while runs are being recorded."""
    progress, grace_s = services.progress, services.settings.timeouts.grace_s
    raised: list[BaseException] = []

    async def lose_patience(scope: anyio.CancelScope) -> None:
        for _ in range(MOST_WAITS):
            seen = progress.recorded
            await anyio.sleep(grace_s)
            if progress.recorded == seen:
                break
        scope.cancel()

    with anyio.CancelScope(shield=True):
        async with anyio.create_task_group() as group:
            group.start_soon(lose_patience, group.cancel_scope)
            try:
                await work
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # noqa: BLE001 - raised below, outside of the group
                raised.append(error)
            group.cancel_scope.cancel()
    if raised:
        raise raised[0]


def _publish_gaps(context: ExecutionContext, services: EngineServices) -> None:
    for phase in CLOSING:
        stage = services.handle.reached.get(phase.name)
        if stage != "done" and phase.service is not None and phase.service(services.ports):
            known = "whether it was recorded is not known" if stage == "begun" else "it was not recorded"
            message = f"The phase {phase.name} of the run was cut off: {known}."
            error = ExecutionError(message, context.task_id, phase.name)
            publish_failure(phase.name, error, services, fatal=False)
