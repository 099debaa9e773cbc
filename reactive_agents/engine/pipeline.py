"""The ten phases as one pipeline, and the one rule for what a phase's failure does.

A phase that carries the run (guardrail, strategy selection, the loop, completion) ends it with its error. A
phase whose service only helps degrades: the failure is an event, and the run goes on without it; a strict
hook ends the run in any phase, and so does an answer that is not verified where it is to fail then. How the
account of a run is closed that does not come to its end here is in ``closing.py``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from operator import attrgetter
from typing import TypeAlias

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import (
    ExecutionError,
    HookError,
    IllegalAgentState,
    RuntimeErrors,
    VerificationFailed,
)
from reactive_agents.core.events import ExecutionStopped
from reactive_agents.core.values import replaced
from reactive_agents.effects import BrokenContract, attempt, attempt_foreign
from reactive_agents.engine.agent_loop import agent_loop, strategy_select
from reactive_agents.engine.closing import CLOSING
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.engine.cost import cost_route
from reactive_agents.engine.execution_control import StopRequest
from reactive_agents.engine.guardrail import guard_output, guardrail
from reactive_agents.engine.lifecycle import Phase, phase_error, publish_failure, run_phase
from reactive_agents.engine.memory import bootstrap, memory_flush
from reactive_agents.engine.run_result import as_partial, complete, partial_result, task_result, with_reason
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


async def looped(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Run the agent loop, whose steps have their hooks around them one by one."""
    outcome: Result[ExecutionContext, RuntimeErrors]
    try:
        outcome = await attempt(agent_loop(context, services))
    except Exception as error:  # noqa: BLE001 - a defect of a service that the loop reads
        outcome = Failure(phase_error(services.handle.phase, error, context))
    if not isinstance(outcome, Success):
        publish_failure(services.handle.phase, outcome.failure(), services, fatal=True)
    else:
        services.handle.context = outcome.unwrap()
    return outcome


async def opened(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Open the services that have to be open before a run."""
    open_services = services.ports.open_services
    if open_services is None:
        return Success(context)
    outcome = await attempt_foreign(open_services, object)
    if isinstance(outcome, BrokenContract):
        message = f"Opening the services {outcome.problem}"
        return Failure(ExecutionError(message, context.task_id, "bootstrap"))
    if not isinstance(outcome, Success):
        return Failure(context.failure_of("bootstrap")(outcome.failure()))
    return Success(context)


COMPLETE = Phase("complete", complete)


async def completed(
    context: ExecutionContext, services: EngineServices
) -> Result[ExecutionContext, RuntimeErrors]:
    """Run the last phase. Whatever goes wrong in it but a strict hook, the answer is handed over."""
    outcome = await run_phase(COMPLETE, context, services)
    if isinstance(outcome, Success):
        return outcome
    error, reasoning = outcome.failure(), context.reasoning
    fatal = isinstance(error, HookError) or reasoning is None
    publish_failure("complete", error, services, fatal=fatal)
    if fatal or reasoning is None:
        return outcome
    reason = f"{reasoning.metadata.reason} The phase complete failed: {error.message}"
    return Success(replaced(context, result=task_result(with_reason(reasoning, reason), context, services)))


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
    completed,
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
