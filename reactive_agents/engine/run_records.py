"""Phases 3 and 8, routing and cost; records of failed and cancelled runs.

Every run that began is recorded once, however it ends, or an event reports that it was not. A successful run
passes the two phases in the pipeline; any other run passes them here, shielded from its cancellation.

When thousands of runs are cancelled at once, they all wait for the same two files. With a fixed number of
seconds for each, most records would be dropped. So the time is counted from the last run of the engine that
was recorded: as long as the services make progress, all runs wait. A service that hangs delays a run by
``grace_s``, or by twelve times that while other runs are being recorded. An audit entry that was interrupted
is not written again, since it may exist.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

import anyio
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse
from reactive_agents.core.settings import BudgetConfig
from reactive_agents.core.values import replaced
from reactive_agents.effects import attempt, effect
from reactive_agents.engine.audit import audit
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.lifecycle import DONE, Phase, publish_failure, run_phase
from reactive_agents.engine.run_result import place_of_records, spending_record
from reactive_agents.engine.services import EngineServices
from reactive_agents.event_loop import call_later_on_this_loop
from reactive_agents.kernel import KernelInput, MeteredLLM
from reactive_agents.kernel.context_window.token_estimate import fixed_size
from reactive_agents.kernel.policies.limits import budget_reached_by_run
from reactive_agents.kernel.prompt import stable_prefix
from reactive_agents.kernel.service_calls import call_service, definitions_of
from reactive_agents.ports import CostRouter, CostTracker

if TYPE_CHECKING:
    from reactive_agents.core.governance import RouteNeeds

_A = TypeVar("_A")


class SpendingLimit:
    """A model service that fails once the run's budget is used up.

    Within the loop a policy enforces the budget and ends the run.
    """

    def __init__(self, llm: MeteredLLM, limits: BudgetConfig) -> None:
        self._llm = llm
        self._limits = limits

    @property
    def model(self) -> str:
        """Return the model of a request that names none."""
        return self._llm.model

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, errors.LLMErrors]:
        """Ask the model, unless the budget is used up."""
        refusal = self._refusal(request)
        return await attempt(self._llm.complete(request)) if refusal is None else Failure(refusal)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, errors.LLMErrors]]:
        """Ask the model, unless the budget is used up."""
        refusal = self._refusal(request)
        if refusal is not None:
            yield Failure(refusal)
            return
        async with aclosing(self._llm.stream(request)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    def _refusal(self, request: ModelRequest) -> errors.BudgetUnavailable | None:
        used_up = budget_reached_by_run(self._limits, self._llm.account)
        return None if used_up is None else errors.BudgetUnavailable(used_up, request.model or self.model)


# --- Phase 3: model routing ---


async def cost_route(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Select the model that the router chooses. Fails with ``ExecutionError``."""
    router = services.ports.cost_router.unwrap()
    from reactive_agents.core.governance import ModelRoute  # of agents that route

    needs = route_needs(context, services)
    routed = await call_service(
        "cost router", router, CostRouter.select_model, ModelRoute, context.task, needs
    )
    if not isinstance(routed, Success):
        return Failure(context.failure_of("cost-route")(routed.failure()))
    route = routed.unwrap()
    services.events.publish(events.ModelRouted, route.model, route.reason)
    return Success(replaced(context, selected_model=route.model))


def route_needs(context: ExecutionContext, services: EngineServices) -> RouteNeeds:
    """Return the size of the run's request prefix, and whether it has tools."""
    from reactive_agents.core.governance import RouteNeeds

    tools = services.ports.tools.map(definitions_of).value_or(())
    prefix = stable_prefix(
        KernelInput(
            context.task.input,
            context.run_id,
            context.task_id,
            context.agent_id,
            context.session_id,
            services.settings,
            memory=context.memory_context,
        )
    )
    return RouteNeeds(fixed_size(prefix, tools), frozenset({"tools"} if tools else ()))


# --- Phase 8: cost tracking ---


async def cost_track(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, errors.RuntimeErrors]:
    """Record the usage of the run. Fails with ``ExecutionError``."""
    tracker, record = services.ports.cost_tracker.unwrap(), spending_record(context, services)
    recorded = await call_service("cost tracking", tracker, CostTracker.record, None, record)
    if not isinstance(recorded, Success):
        if services.journal is not None:
            await services.journal.owe("cost", spending=record)
        return Failure(context.failure_of("cost-track")(recorded.failure()))
    services.progress.recorded += 1
    return Success(context)


# --- Records of failed and cancelled runs ---


MOST_WAITS = 12
"""How often ``grace_s`` may pass, while other runs are recorded, before a run gives up."""


async def count_left_out(services: EngineServices) -> Result[None, errors.RuntimeErrors]:
    """Count the recorded calls that an ending run leaves out, if it may.

    It may where its changes were accepted, where a call was in doubt, and after its cancellation, which
    leaves calls in doubt.
    """
    journal, handle = services.journal, services.handle
    if journal is None:
        return DONE
    is_cancelled = isinstance(handle.context.error, errors.RunCancelled)
    if journal.leaves_calls_out or is_cancelled:
        await journal.count_rest(place_of_records(services.ports))
        handle.left_in_doubt = journal.steps_in_doubt(services.events) if is_cancelled else ()
    return DONE


CLOSING: tuple[Phase, ...] = (
    Phase("cost-track", cost_track, attrgetter("cost_tracker"), degrades=True, repeatable=True),
    Phase("audit", audit, attrgetter("audit"), degrades=True),
)
"""The phases that a failed run passes as well."""


async def close_failed_run(context: ExecutionContext, services: EngineServices) -> None:
    """Record a run that ended with an error, even while it is being cancelled.

    A phase whose hook failed or took too long is run again without hooks. An event reports a record that
    could not be written.
    """
    reached = services.handle.reached
    begun_before = {phase.name for phase in CLOSING if reached.get(phase.name) == "begun"}
    try:
        await with_patience(_run_phases(services), services)
    finally:  # also when a hook exits
        try:
            again = [
                phase
                for phase in _provided(services)
                if reached.get(phase.name, "entered") == "entered"
                or (phase.repeatable and phase.name in begun_before)
            ]
            if again:
                await with_patience(_record(again, context, services), services)
        finally:
            publish_gaps(context, services)


async def _run_phases(services: EngineServices) -> None:
    for phase in CLOSING:  # a failure is published, and the next phase runs nevertheless
        if phase.name not in services.handle.reached:
            outcome = await run_phase(phase, services)
            if not isinstance(outcome, Success):
                publish_failure(phase.name, outcome.failure(), services, fatal=False)


async def _record(phases: Iterable[Phase], context: ExecutionContext, services: EngineServices) -> None:
    for phase in phases:
        services.handle.reached[phase.name] = "begun"
        recorded = await phase.body(context, services)
        services.handle.reached[phase.name] = "done"
        if not isinstance(recorded, Success):
            publish_failure(phase.name, recorded.failure(), services, fatal=False)


def _provided(services: EngineServices) -> tuple[Phase, ...]:
    """Return the phases whose service there is."""
    return tuple(each for each in CLOSING if each.service is not None and each.service(services.ports))


async def with_patience(work: Awaitable[_A], services: EngineServices) -> _A | None:
    """Await shielded work while runs are being recorded; ``None`` if it is cut off."""
    progress, grace_s = services.progress, services.settings.timeouts.grace_s
    value: _A | None = None
    forget: Callable[[], object]

    def wait(waits: int) -> Callable[[], object]:
        return call_later_on_this_loop(grace_s, partial(look, waits, progress.recorded))

    def look(waits: int, seen: int) -> None:
        nonlocal forget
        if waits == 1 or progress.recorded == seen:
            scope.cancel()
        else:
            forget = wait(waits - 1)

    with anyio.CancelScope(shield=True) as scope:
        forget = wait(MOST_WAITS)  # no task, which the end of the event loop would cancel
        try:
            value = await work
        finally:
            forget()
    return value


def publish_gaps(context: ExecutionContext, services: EngineServices) -> None:
    """Publish an event for each record of the run that may be missing."""
    for phase in _provided(services):
        stage = services.handle.reached.get(phase.name)
        if stage != "done":
            known = "whether it was recorded is not known" if stage == "begun" else "it was not recorded"
            message = f"The phase {phase.name} of the run was cut off: {known}."
            error = errors.ExecutionError(message, context.task_id, phase.name)
            publish_failure(phase.name, error, services, fatal=False)
