"""The ten phases as one pipeline, and the rule for a phase's failure.

A run needs the guardrail, the strategy selection and the loop: their failure ends it. The other phases
degrade: their failure is published as an event, and the run continues without them. In any phase the run is
ended by a strict hook that fails, by a required record that cannot be written, and by an unverified answer
under the action ``fail``. Once there is an answer, nothing else withholds it, not even a failure of the last
phase. A run that is stopped leaves the first six phases wherever it is and continues with the last four.
Runs that fail or are cancelled are closed in ``run_records.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from operator import attrgetter
from typing import Any, TypeAlias

import anyio
from attrs import evolve
from returns.maybe import Maybe
from returns.result import Failure, Result, Success

from reactive_agents.core import errors, events
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.model_settings import REQUIRED
from reactive_agents.core.run_context import ContextFunction, DepsFunction, wrong_deps
from reactive_agents.core.values import replaced
from reactive_agents.effects import BrokenContract, attempt_foreign, awaited
from reactive_agents.engine.agent_loop import agent_loop, cost_route, strategy_select
from reactive_agents.engine.context import ExecutionContext, RunStopped
from reactive_agents.engine.conversations import continue_conversation, take_content
from reactive_agents.engine.execution_control import ControlRequest
from reactive_agents.engine.guardrail import guard_output, guardrail
from reactive_agents.engine.lifecycle import DONE, Phase, phase_error, publish_failure, run_phase
from reactive_agents.engine.memory import bootstrap, memory_flush
from reactive_agents.engine.run_records import CLOSING, audit_start, count_left_out
from reactive_agents.engine.run_result import (
    complete,
    partial_result,
    task_result,
    with_reason,
)
from reactive_agents.engine.services import EnginePorts, EngineServices, OpenDeps, OpenService
from reactive_agents.engine.verification import verify
from reactive_agents.event_loop import spawn_on_this_loop, to_the_end
from reactive_agents.kernel.service_calls import call_service, definitions_of, once
from reactive_agents.kernel.termination import in_time
from reactive_agents.ports import RunToolsets

_log = logging.getLogger("reactive_agents")

_CLOSE_S = 10.0
"""Seconds in which the dependencies of a run are closed."""

Stage: TypeAlias = Phase | Callable[[EngineServices], Awaitable[Result[None, "errors.RuntimeErrors"]]]
"""A part of the pipeline. It reads the context from the run's handle, and puts the new context there."""


async def run_loop(services: EngineServices) -> Result[None, errors.RuntimeErrors]:
    """Run the agent loop, each step of which runs its own hooks."""
    handle = services.handle
    outcome: Result[ExecutionContext, errors.RuntimeErrors]
    try:
        outcome = await agent_loop(handle.context, services)
    except Exception as error:  # noqa: BLE001 - a defect of a service that the loop reads
        outcome = Failure(phase_error(handle.phase, error, services))
    return _taken_in(outcome, services)


def _taken_in(
    outcome: Result[ExecutionContext, errors.RuntimeErrors], services: EngineServices
) -> Result[None, errors.RuntimeErrors]:
    handle = services.handle
    if not isinstance(outcome, Success):
        publish_failure(handle.phase, outcome.failure(), services, fatal=True)
        return Failure(outcome.failure())
    handle.context = outcome.unwrap()
    return DONE


async def _open_and_prepare(services: EngineServices) -> Result[EngineServices, errors.RuntimeErrors]:
    """Open the services, and begin the session's turn; return them with the tools."""
    opened = await open_services(services.ports, services.seconds_left())
    if not isinstance(opened, Success):
        return Failure(services.handle.context.failure_of("bootstrap")(opened.failure()))
    begun = await continue_conversation(services)
    if not isinstance(begun, Success):
        return Failure(begun.failure())
    if isinstance(services.overrides.deps, DepsFunction):
        given = await open_deps(services.overrides.deps, services)
        if not isinstance(given, Success):
            return given
        services = given.unwrap()
    return await prepare_run(services)


async def open_services(ports: EnginePorts, seconds: float) -> Result[None, errors.ServiceFailed]:
    """Open the services that are not open, in time."""
    opens = ports.opens()
    if not opens:
        return Success(None)
    opened = await in_time(_open_in_order(opens), seconds)
    late = "The services were not open before the time limit of the run."
    return Failure(errors.ServiceFailed(late, "services", "open")) if opened is None else opened


async def _open_in_order(opens: Iterable[OpenService]) -> Result[None, errors.ServiceFailed]:
    """Open services; fail with the first that cannot be opened."""
    for open_service in opens:
        opened = await attempt_foreign(open_service, object)
        if isinstance(opened, BrokenContract):
            problem = f"Opening the services {opened.problem}"
            return Failure(errors.ServiceFailed(problem, "services", "open"))
        if not isinstance(opened, Success):
            return Failure(opened.failure())
    return Success(None)


COMPLETE = Phase("complete", complete)


async def run_complete(services: EngineServices) -> Result[None, errors.RuntimeErrors]:
    """Run the last phase; only a strict hook that fails in it withholds the answer."""
    context = services.handle.context
    outcome = await run_phase(COMPLETE, services)
    if isinstance(outcome, Success):
        return outcome
    error, reasoning = outcome.failure(), context.reasoning
    fatal = isinstance(error, errors.HookError) or reasoning is None
    publish_failure("complete", error, services, fatal=fatal)
    if fatal or reasoning is None:
        return outcome
    reason = f"{reasoning.metadata.reason} The phase complete failed: {error.message}"
    result = task_result(with_reason(reasoning, reason), context, services)
    services.handle.context = replaced(context, result=result)
    return DONE


ANSWERING: tuple[Stage, ...] = (
    take_content,
    audit_start,
    Phase("bootstrap", bootstrap, degrades=True),
    Phase("guardrail", guardrail, attrgetter("guardrail")),
    Phase("cost-route", cost_route, attrgetter("cost_router"), degrades=True),
    Phase("strategy-select", strategy_select),
    run_loop,
    Phase("verify", verify, attrgetter("verifier"), degrades=True),
)
"""The first six phases, which end with the verified answer. They are cancelled when the run is stopped."""


ENDING: tuple[Stage, ...] = (
    Phase("memory-flush", memory_flush, attrgetter("memory"), degrades=True),
    count_left_out,
    *CLOSING,
    run_complete,
)
"""The last four phases, which store and record the run."""


async def run_pipeline(services: EngineServices) -> Result[None, errors.RuntimeErrors] | None:
    """Run the ten phases up to a fatal error; ``None`` for a cancelled run."""
    control = services.handle.control
    answered: Result[None, errors.RuntimeErrors] | None = None
    ended: Result[None, errors.RuntimeErrors] | None = None
    with control.scope:
        prepared = await _open_and_prepare(services)
        if isinstance(prepared, Success):
            services = prepared.unwrap()
            answered = await _run_stages(ANSWERING, services)
        else:
            answered = Failure(prepared.failure())
        if control.mark_answered() is None:
            ended = await _end(answered, services)
    stopped = control.mark_answered()
    if stopped is None:
        return ended
    if isinstance(answered, Failure):
        return answered
    with control.end_stopped_run():
        ended = await _end(await _with_partial_outcome(stopped, services), services)
    return ended  # noqa: RET504 - not yet assigned when this scope was cancelled too


async def _end(
    answered: Result[None, errors.RuntimeErrors], services: EngineServices
) -> Result[None, errors.RuntimeErrors]:
    return await _run_stages(ENDING, services) if isinstance(answered, Success) else answered


async def _run_stages(
    stages: Iterable[Stage], services: EngineServices
) -> Result[None, errors.RuntimeErrors]:
    for stage in stages:
        outcome = await (run_phase(stage, services) if isinstance(stage, Phase) else stage(services))
        if not isinstance(outcome, Success) and _ends_run(stage, outcome.failure(), services):
            return outcome
    return DONE


def _ends_run(stage: Stage, error: errors.RuntimeErrors, services: EngineServices) -> bool:
    """Publish that a phase failed, and return whether its failure ends the run."""
    if not isinstance(stage, Phase):
        return True
    always = isinstance(error, errors.HookError | errors.VerificationFailed)
    fatal = always or not stage.degrades or services.settings.requires(stage.name)
    publish_failure(stage.name, error, services, fatal=fatal)
    return fatal


async def _with_partial_outcome(
    request: ControlRequest, services: EngineServices
) -> Result[None, errors.RuntimeErrors]:
    """Give the context of a stopped run a checked partial outcome."""
    handle = services.handle
    if services.journal is not None:
        request = await services.journal.with_note(request)
    services.events.publish(events.ExecutionStopped, handle.phase, request.reason)
    context = handle.context
    if context.reasoning is None:
        partial = partial_result("stopped", request.sentence("a final answer"), context, services)
        return _taken_in(await guard_output(partial, services), services)
    unverified = bool(services.ports.verifier) and context.verification is None
    reason = request.sentence("the verification of the answer" if unverified else "")
    metadata = evolve(context.reasoning.metadata, terminated_by="stopped", reason=reason)
    reasoning = evolve(context.reasoning, status="partial", metadata=metadata)
    handle.context = replaced(context, reasoning=reasoning)
    return DONE


# --- the dependencies of one run, where a function of the program makes them -----------------------------


async def open_deps(
    function: DepsFunction, services: EngineServices
) -> Result[EngineServices, errors.RuntimeErrors]:
    """Return the services of a run with its dependencies.

    Fails with ``RunRefused`` when they cannot be made before the deadline.

    Raises:
        RunStopped: in place of that failure for a recorded run, which can be continued later.
    """
    made, journal = None, services.journal
    if journal is not None and (journal.record is None or journal.run.order == "cancel"):  # it runs no tool
        return Success(evolve(services, overrides=evolve(services.overrides, deps=None)))
    problem = f": {function.name} did not end before the time limit of the run"
    with anyio.move_on_after(services.seconds_left()):
        made, problem = await _made_deps(function, services)
    if not problem:
        return Success(evolve(services, overrides=evolve(services.overrides, deps=made)))
    refused = errors.RunRefused(services.events.run_id, f"has no dependencies{problem}")
    if journal is not None:
        raise RunStopped(refused)
    return Failure(refused)


async def _made_deps(function: DepsFunction, services: EngineServices) -> tuple[Any, str]:
    """Return the dependencies, and what is wrong with them."""
    raised: BaseException | None = None
    try:
        made = await awaited(await function.function.call(services.run_context()))
    except Exception as error:  # noqa: BLE001 - a function of the program
        made, raised = None, error
    if function.is_entered(made):
        opened = OpenDeps(function.name, isinstance(made, AbstractAsyncContextManager))
        services.handle.deps = opened
        spawn_on_this_loop(partial(opened.hold, made))
        await opened.ready.wait()
        made, raised = opened.value, opened.problem
    if raised is not None:
        services.handle.deps = None
        _log.warning("The function %s of deps raised.", function.name, exc_info=raised)
        return None, f": {function.name} raised {type(raised).__name__}"
    wrong = wrong_deps(function.declared, made)
    problem = "" if wrong is None else f" from {function.name}: {wrong.message.removesuffix('.')}"
    return made, problem


async def close_deps(services: EngineServices) -> None:
    """Close the dependencies of a run that is over, if a function made them."""
    if services.handle.deps is not None:
        await to_the_end(partial(_close, services.handle.deps, services))


async def _close(opened: OpenDeps, services: EngineServices) -> None:
    opened.over.set()
    if opened.is_async and not opened.ready.is_set():
        opened.scope.cancel()  # the run was cancelled meanwhile
    with anyio.move_on_after(_CLOSE_S):
        await opened.closed.wait()
    problem = opened.problem
    if not opened.closed.is_set():
        opened.scope.cancel()
        problem = TimeoutError(f"it took longer than {_CLOSE_S:g} seconds")
    if problem is not None:
        told = "The dependencies of the run %s from %s could not be closed."
        _log.warning(told, services.events.run_id, opened.function, exc_info=problem)
        services.events.publish(events.DependenciesNotClosed, opened.function, type(problem).__name__)


# --- the instructions and tools of one run, where functions of the program choose them ---
# They are chosen once, so that every request of the run begins alike.


async def prepare_run(services: EngineServices) -> Result[EngineServices, errors.RuntimeErrors]:
    """Return the services of a run with its own instructions and tools.

    Fails with ``ExecutionError`` when a function raises, returns a value of a wrong type or does not end
    before the deadline, when two tools have the same name, and when the run's own budget, or ``tool_choice``,
    names a tool that the run does not have.
    """
    ports, overrides = services.ports, services.overrides
    dynamic = ports.toolsets is not None and ports.toolsets.is_dynamic
    context = services.handle.context
    first = services.settings.model_settings.first_call
    if not (ports.instructions or dynamic or overrides.tools or context.task.budget or first):
        return Success(services)
    message = "The functions for instructions and tools did not end before the time limit of the run."
    late = errors.ServiceFailed(message, "instructions", "call")
    prepared: Result[EngineServices, errors.ConfigErrors | errors.ServiceFailed] = Failure(late)
    with anyio.move_on_after(services.seconds_left()):
        prepared = await _with_instructions_and_tools(services)
    return prepared.alt(context.failure_of("bootstrap"))


async def _with_instructions_and_tools(
    services: EngineServices,
) -> Result[EngineServices, errors.ConfigErrors | errors.ServiceFailed]:
    ports, added = services.ports, services.overrides.tools
    if ports.instructions:
        text = await once("instructions.text", partial(_instructions, services))
        if not isinstance(text, Success):
            return Failure(text.failure())
        parts = filter(None, (services.settings.system_prompt, text.unwrap()))
        settings = evolve(services.settings, system_prompt="\n\n".join(parts))
        services = evolve(services, settings=settings)
    toolsets = ports.toolsets
    if toolsets is None and added:
        return Failure(errors.ServiceMissing("toolsets", "tooling.toolsets"))
    if toolsets is not None and (toolsets.is_dynamic or added):
        agents_tools = ports.tools.value_or(None)
        tools = await call_service(
            "toolsets", toolsets, RunToolsets.tools_of, Maybe, services.run_context(), added, agents_tools
        )
        if not isinstance(tools, Success):
            return Failure(tools.failure())
        services = evolve(services, ports=evolve(ports, tools=tools.unwrap()))
    wrong = _unknown_tool(services)
    return Success(services) if wrong is None else Failure(wrong)


def _unknown_tool(services: EngineServices) -> errors.InvalidConfig | None:
    """Return the error of a run's own limit or choice of a tool that it lacks."""
    settings = services.settings
    limits = () if services.handle.context.task.budget is None else settings.budget.calls
    named = [("budget.calls", limit.name) for limit in limits]
    named += [("model_settings.tool_choice", settings.model_settings.first_call)]
    known = [tool.name for tool in services.ports.tools.map(definitions_of).value_or(())]
    for option, name in named:
        if name and name not in known and not (name == REQUIRED and known):
            expected = f"one of the run's tools: {', '.join(known) or 'it has none'}"
            return errors.InvalidConfig(option, repr(name), expected)
    return None


async def _instructions(services: EngineServices) -> Result[str, errors.ServiceFailed]:
    texts: list[str] = []
    is_cancelled = services.journal is not None and services.journal.run.order == "cancel"
    for function in () if is_cancelled else services.ports.instructions:  # which may need the dependencies
        text = await _text_of(function, services)
        if isinstance(text, Failure):
            return text
        texts.append(text.unwrap())
    return Success("\n\n".join(filter(None, texts)))


async def _text_of(function: ContextFunction, services: EngineServices) -> Result[str, errors.ServiceFailed]:
    problem = ""
    try:
        text = await function.call(services.run_context())
        if text is None or isinstance(text, str):
            return Success((text or "").strip())
        problem = f"returned {abbreviated(text)}, expected a text"
    except Exception as error:  # noqa: BLE001 - a function of the program
        _log.warning("The instructions %r raised.", function.name, exc_info=error)
        problem = f"raised {type(error).__name__}: {error}"
    message = f"The instructions {function.name!r} {problem}."
    return Failure(errors.ServiceFailed(message, "instructions", function.name))
