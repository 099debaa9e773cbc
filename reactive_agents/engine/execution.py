"""The execution engine: runs tasks through ten phases, and controls running tasks.

One engine serves all runs of an agent, on any number of event loops and threads. Everything that belongs to
one run is in its ``EngineServices``, which are made when the run begins. The engines of one agent, of which a
change of settings makes a new one, share the handles of the running tasks, so that each of them can control
all. A run always ends with ``TaskCompleted`` or ``TaskFailed``, after its account was closed and its session
released; when ``sys.exit()`` or an interrupt leaves it, that propagates afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, cast

import anyio
from attrs import evolve
from returns.maybe import Maybe, Nothing, Some
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.bases import PUBLISH
from reactive_agents.core.errors import ServiceMissing
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.events import ExecutionCancelled, TaskCompleted, TaskFailed
from reactive_agents.core.ids import RunId, SessionId, TaskId
from reactive_agents.core.results import ReasoningStep, doubt_in
from reactive_agents.core.run_context import SessionState
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.tasks import AgentResult, Task, TaskResult, TaskResultMetadata
from reactive_agents.core.usage import USAGE_RECORDER
from reactive_agents.core.values import replaced
from reactive_agents.effects import BRANCH, effect
from reactive_agents.engine.context import (
    CALLER,
    MOST_NESTED_RUNS,
    NOBODY,
    Caller,
    ExecutionContext,
    RunStopped,
    agents_under_way,
    owner_within,
    too_deep,
)
from reactive_agents.engine.conversations import conversation_problem, end_turn, release_content
from reactive_agents.engine.execution_control import ExecutionControl
from reactive_agents.engine.hooks import LifecycleHook
from reactive_agents.engine.lifecycle import phase_error
from reactive_agents.engine.memory import learn_from, learns_from
from reactive_agents.engine.pipeline import close_deps, run_pipeline
from reactive_agents.engine.run_records import audit_requests, close_failed_run, count_left_out, publish_gaps
from reactive_agents.engine.run_result import (
    figures_of,
    record_sub_run,
    run_metadata,
    steps_taken,
)
from reactive_agents.engine.services import (
    NO_OVERRIDES,
    ClosingProgress,
    EnginePorts,
    EngineServices,
    RunHandle,
    RunningTasks,
    RunOverrides,
    approver_of,
    events_of,
    output_type_of,
    publish_start,
)
from reactive_agents.event_loop import to_the_end
from reactive_agents.kernel import MeteredLLM, RunBudget, RunEvents
from reactive_agents.kernel.context import UsageAccount
from reactive_agents.kernel.service_calls import ServiceFaults, checked_sources
from reactive_agents.ports import EventBus

if TYPE_CHECKING:
    from reactive_agents.core.errors import RuntimeErrors
    from reactive_agents.engine.run_journal import RunJournal

_log = logging.getLogger("reactive_agents")


class ExecutionEngine:
    """Runs tasks, any number at once, isolated from each other.

    Args:
        running: the runs under way, shared with other engines of the agent; by default none.
    """

    def __init__(
        self, settings: RunSettings, ports: EnginePorts, running: RunningTasks | None = None
    ) -> None:
        self.settings = settings
        self.ports = ports
        self._missing = missing_service(settings, ports)
        self._progress = ClosingProgress()
        self._running = running or RunningTasks()

    def replaying(self, bus: EventBus) -> ExecutionEngine:
        """Return an engine whose runs are replays, without subscribers and budget."""
        ports = evolve(self.ports, events=bus, budget=Nothing, opens=tuple)
        return ExecutionEngine(self.settings, ports)

    @effect
    async def execute(
        self, task: Task, *, run_id: RunId | None = None, streaming: bool = False
    ) -> Result[TaskResult, RuntimeErrors]:
        """Run a task through the ten phases.

        Fails with ``TaskError`` when the task is blank or already running; ``GuardrailViolationError``;
        ``MaxIterationsError`` (without reasoning; with it the result is partial); ``RunCancelled`` after
        :meth:`cancel`; ``HookError`` with strict hooks; ``ExecutionError`` for everything else, with the
        cause in it.

        Args:
            run_id: the id that the run's events carry; a new one by default.
            streaming: ask the model for streams, and publish each chunk of text.
        """
        outcome = await self.conduct(task, run_id=run_id, streaming=streaming)
        return outcome.alt(lambda failed: failed.error)

    async def conduct(
        self,
        task: Task,
        *,
        run_id: RunId | None = None,
        streaming: bool = False,
        overrides: RunOverrides = NO_OVERRIDES,
    ) -> Result[TaskResult, TaskFailed]:
        """Run a task as :meth:`execute` does, with options that are no data of the task.

        A failure has the run's steps and usage as well. The last event of every run is ``TaskCompleted`` or
        ``TaskFailed``.

        Args:
            run_id: the id under which a durable run is begun, continued or waited for; a run that is not
                durable may use it once. A new one by default.
            overrides: services, settings and dependencies of this run alone.
        """
        if self.ports.record is not Nothing or BRANCH.get() is not None:
            from reactive_agents.engine import durability  # imported by durable runs

            return await durability.conduct_durably(self, task, run_id, overrides, streaming=streaming)
        if run_id is not None and overrides.named:
            with self._running.beginning:
                used = run_id in self._running.named
                self._running.named.add(run_id)
            if used:
                from reactive_agents.engine import durability

                problem = "was begun before, and only runs of an agent with_durability(path) can be continued"
                refusal = errors.RunRefused(run_id, problem)
                return durability.refused_run(self, task, run_id, refusal, overrides.readers)
        return await self.conduct_phases(task, run_id, overrides, streaming=streaming)

    async def conduct_phases(
        self,
        task: Task,
        run_id: RunId | None,
        overrides: RunOverrides,
        *,
        streaming: bool,
        journal: RunJournal | None = None,
    ) -> Result[TaskResult, TaskFailed]:
        """Run the phases and close the run, unless it is durable and cut off."""
        services = self._services(task, run_id, overrides, journal, streaming=streaming)
        handle = services.handle
        refused = self._begin(task, handle)
        try:
            with _as_run_under_way(services):
                return await self._run_and_close(refused, services)
        finally:
            if handle.start_scope is not None:  # else one that hangs would hold up the end of the event loop
                handle.start_scope.cancel()
            services.events.release()
            handle.control.close()
            if self._running.handles.get(task.id) is handle:
                del self._running.handles[task.id]

    def register_hook(self, hook: LifecycleHook) -> Callable[[], None]:
        """Register a hook, or raise ``InvalidHook``; return how to unregister it."""
        return self.ports.hooks.register(hook)

    def get_context(self, task_id: TaskId) -> Maybe[ExecutionContext]:
        """Return the context of a running task, or ``Nothing``."""
        handle = self._running.handles.get(task_id)
        return Nothing if handle is None else Some(handle.current_context())

    def running(self) -> tuple[TaskId, ...]:
        """Return the ids of the running tasks."""
        handles = tuple(self._running.handles.items())  # other threads may begin a run meanwhile
        return tuple(task_id for task_id, handle in handles if not handle.control.is_lost())

    def cancel(self, task_id: TaskId, *, by: str = "") -> Result[None, errors.TaskError]:
        """Cancel a run, from any thread; it then ends with ``RunCancelled``.

        Fails with ``TaskError`` when no such task is running, or its phases are over and it is being closed.

        Args:
            by: who asks, for the audit log, also in the methods below.
        """
        return self._control(task_id, lambda control: control.cancel(by), "is not running")

    def stop(self, task_id: TaskId, reason: str = "", *, by: str = "") -> Result[None, errors.TaskError]:
        """End a run now as ``partial`` with what there is, from any thread.

        The model call or tool under way is cut off; ``terminated_by`` is ``stopped``.

        Fails with ``TaskError`` when no such task is running, it is being ended, or the reason is no text.
        """
        if not isinstance(reason, str):
            message = f"reason: got {type(reason).__name__}, expected a sentence as a text."
            return Failure(errors.TaskError(message, task_id))
        return self._control(task_id, lambda control: control.stop(reason, by))

    def pause(self, task_id: TaskId, *, by: str = "") -> Result[None, errors.TaskError]:
        """Hold a run before its next model call or tool call, from any thread.

        A second time changes nothing. Fails with ``TaskError`` when it is not running, or is being ended.
        """
        return self._control(task_id, lambda control: control.pause(by))

    def resume(self, task_id: TaskId, *, by: str = "") -> Result[None, errors.TaskError]:
        """Resume a paused run, from any thread; fails with ``TaskError`` otherwise."""
        return self._control(task_id, lambda control: control.resume(by), "is not paused")

    def _control(
        self, task_id: TaskId, request: Callable[[ExecutionControl], bool], refused: str = "is being ended"
    ) -> Result[None, errors.TaskError]:
        handle = self._running.handles.get(task_id)
        if handle is None or handle.control.is_closing:
            message = f"Task {task_id} is not running."
            for task, each in tuple(self._running.handles.items()):
                if str(task_id) == each.context.run_id:
                    message = f"{task_id} is the id of a run; expected that of its task, {task}."
            return Failure(errors.TaskError(message, task_id))
        if not request(handle.control):
            return Failure(errors.TaskError(f"Task {task_id} {refused}.", task_id))
        return Success(None)

    # --- the parts of a run -----------------------------------------------------------------------------

    def _begin(self, task: Task, handle: RunHandle) -> RuntimeErrors | None:
        """Register the run as running, or return the reason to refuse it."""
        if not task.input.strip():
            return errors.TaskError("The task's input is blank; expected a description of the task.", task.id)
        agents = agents_under_way()
        if len(agents) >= MOST_NESTED_RUNS:
            return errors.TaskError(too_deep((*agents, self.settings.name)), task.id)
        problem = conversation_problem(task)
        if problem is not None:
            return problem
        broken = handle.ending_error()
        if broken is not None:
            return broken
        if self._missing is not None:
            return errors.ExecutionError(self._missing.message, task.id, "bootstrap", self._missing)
        with self._running.beginning:
            known = self._running.handles.get(task.id)
            if known is not None and not known.control.is_lost():
                return errors.TaskError(f"Task {task.id} is already running.", task.id)
            self._running.handles[task.id] = handle
        return None

    async def _run_and_close(
        self, refused: RuntimeErrors | None, services: EngineServices
    ) -> Result[TaskResult, TaskFailed]:
        """Run the phases of a run, unless it is refused, and close it however it ends."""
        handle = services.handle
        outcome: Result[TaskResult, RuntimeErrors]
        try:
            self._publish_start(services)
            outcome = Failure(refused) if refused is not None else await self._run_phases(services)
            if isinstance(outcome, Success):
                result = outcome.unwrap()
                await services.events.prepare(_texts_of(result))
        except anyio.get_cancelled_exc_class():  # from outside: it propagates after the run was closed
            if services.journal is not None:  # it takes its turn of the session again when it is continued
                await to_the_end(partial(self._end_interrupted, services))
            else:
                cancelled = errors.RunCancelled(handle.context.task_id, handle.phase)
                await to_the_end(partial(self._end, Failure(cancelled), services))
            raise
        except Exception as error:  # noqa: BLE001 - a defect is an error of the run
            outcome = Failure(phase_error(handle.phase, error, services))
        except GeneratorExit:  # its coroutine was closed: nothing may be awaited any more
            if services.journal is None:
                closed = errors.RunCancelled(handle.context.task_id, handle.phase)
                publish_gaps(handle.fail(closed), services)
                self._fail(closed, handle.context, services)
            else:
                self._interrupt(services)
            raise
        except BaseException as error:  # such as sys.exit() in an approval handler: it ends the process
            if services.journal is None:
                interrupted = phase_error(handle.phase, error, services)
                await to_the_end(partial(self._end, Failure(interrupted), services))
            else:
                is_lost = isinstance(error, RunStopped) and error.is_lost
                await to_the_end(partial(self._end_stopped, services, services.journal, is_lost=is_lost))
            raise
        try:
            if isinstance(outcome, Success) and not _has_to_wait(services):
                self._publish_result(outcome.unwrap(), services)
                return outcome
            return await to_the_end(partial(self._end, outcome, services))
        except Exception as error:  # noqa: BLE001 - no defect withholds the last event and the figures of a run
            return Failure(self._fail_now(phase_error(handle.phase, error, services), services))

    async def _end_stopped(self, services: EngineServices, journal: RunJournal, *, is_lost: bool) -> None:
        """End the session's turn of a recorded run, unless another process has both now.

        A run that was deleted from its record has no next process, so its cost and its end are recorded now.
        """
        is_deleted = is_lost and await journal.is_deleted()
        if is_deleted or not is_lost:
            await end_turn(None, services)
        if is_deleted and services.handle.caller is None:  # the others count for their callers
            handle, outside = services.handle, BRANCH.set(None)
            try:
                context = handle.fail(journal.deleted_error)
                # its user may have wanted to be forgotten
                handle.context, handle.owner = replaced(context, task=evolve(context.task, user=None)), NOBODY
                await close_failed_run(handle.context, evolve(services, journal=None))
            finally:
                BRANCH.reset(outside)

    async def _end_interrupted(self, services: EngineServices) -> None:
        """End the session's turn of a recorded run, and publish that it stops."""
        try:
            await end_turn(None, services)
        finally:
            self._interrupt(services)

    def _interrupt(self, services: EngineServices) -> None:
        """Publish that a recorded run stops before its end."""
        error = errors.RunInterrupted(services.events.run_id, "it was cancelled from outside.")
        self._fail_now(error, services)

    def _fail_now(self, error: RuntimeErrors, services: EngineServices) -> TaskFailed:
        """Publish and return the failure of a run, with what it has done until now."""
        return self._fail(error, services.handle.fail(error), services)

    def _publish_start(self, services: EngineServices) -> None:
        events, journal, handle = services.events, services.journal, services.handle
        publish_start(events, handle.context.task, handle.user)
        if journal is not None and journal.run.attempt > 1:
            from reactive_agents.core.control_events import RunContinued  # of durable runs

            events.publish(RunContinued, journal.run.attempt, len(journal.entries))

    async def _run_phases(self, services: EngineServices) -> Result[TaskResult, RuntimeErrors]:
        handle = services.handle
        task_id = handle.context.task_id
        try:
            outcome = await run_pipeline(services)
            is_cancelled = handle.control.close()
        except GeneratorExit:  # nothing may be awaited any more
            raise
        except BaseException:
            await close_deps(services)
            raise
        await close_deps(services)
        if is_cancelled or outcome is None:  # also when no await came any more
            return Failure(errors.RunCancelled(task_id, handle.phase))
        if not isinstance(outcome, Success):
            return Failure(handle.ending_error() or outcome.failure())
        result = handle.context.result
        if not isinstance(result, TaskResult):
            message = "The run has no result: a hook removed it."
            return Failure(errors.ExecutionError(message, task_id, handle.phase))
        return Success(result)

    def _services(
        self,
        task: Task,
        run_id: RunId | None,
        overrides: RunOverrides,
        journal: RunJournal | None,
        *,
        streaming: bool,
    ) -> EngineServices:
        settings, ports = self._settings_of(task, overrides), self._ports_of(overrides)
        faults = ServiceFaults()
        clock, ids = checked_sources(ports.clock, ports.ids, faults, str(task.id))
        if ids is not ports.ids:
            ports = evolve(ports, clock=clock, ids=ids)
        run_id = run_id or RunId(ports.ids.new())
        caller, handed, redactor = CALLER.get(), overrides.handed, ports.redactor
        events = events_of(task, run_id, settings, ports, overrides)
        if caller is not None and caller.events.readers and caller.redactor is not None:
            redactor = caller.redactor if redactor is None else redactor.joined(caller.redactor)
        if journal is not None:
            clock, ids = journal.sources(ports.clock)
            ports = evolve(ports, clock=clock, ids=ids)
        control = ExecutionControl(events, None if handed is None else handed.control)
        owner = owner_within(task, caller)
        account = UsageAccount(None if caller is None else caller.account, settings.budget.tool_calls)
        meter = MeteredLLM(
            ports.llm,
            events,
            ports.clock,
            streaming=streaming or bool(events.readers),
            budget=_budget_of(task.user or owner[0], settings, ports, events, account, caller),
            redactor=redactor,
            hold=control.hold,
            account=account,
            faults=faults,
            record=journal,
            settings=settings.model_settings,
        )
        if journal is not None:
            journal.account, journal.events, journal.control = account, events, control
            journal.follow(journal.run.order)  # a pause outlives its process
        started, limit = ports.clock.monotonic(), settings.timeouts.run_s
        limit = min(inf if limit is None else limit, inf if handed is None else handed.seconds)
        context = ExecutionContext(
            run_id=run_id,
            task=task,
            session_id=SessionId(task.session or ports.ids.new()),
            started_at=ports.clock.now(),
            max_iterations=settings.iteration_limit,
            deadline=None if limit == inf else started + limit,
            selected_model=overrides.model,
        )
        state = SessionState(settings.session_state)
        handle = RunHandle(context, meter, started, control, faults, owner, caller=caller, state=state)
        services = EngineServices(
            settings, ports, meter, events, handle, self._progress, overrides, journal, redactor
        )
        if ports.audit:
            control.enter_requests = partial(audit_requests, services)
        if journal is not None:
            journal.fail = lambda error: self._fail_now(error, services)
        return services

    def _settings_of(self, task: Task, overrides: RunOverrides) -> RunSettings:
        settings = self.settings
        if overrides.settings:
            settings = evolve(settings, **overrides.settings)
        if task.budget is not None:
            settings = evolve(settings, budget=task.budget.over(settings.budget))
        if task.model_settings is not None:
            merged = task.model_settings.over(settings.model_settings)
            settings = evolve(settings, model_settings=merged)
        return settings

    def _ports_of(self, overrides: RunOverrides) -> EnginePorts:
        if not overrides.services:
            return self.ports
        ports = evolve(self.ports, **overrides.services)
        if output_type_of(ports) != output_type_of(self.ports):
            given = overrides.services.get("output_validators", ())
            ports = evolve(ports, output_validators=given)  # its own take values of the agent's own type
        return ports

    async def _end(
        self, outcome: Result[TaskResult, RuntimeErrors], services: EngineServices
    ) -> Result[TaskResult, TaskFailed]:
        """Record a failed run, learn from the outcome, and publish the last event."""
        events, handle = services.events, services.handle
        handle.control.close()
        if isinstance(outcome, Success):
            result = outcome.unwrap()
            try:
                await end_turn(result, services)
                await release_content(services)
                await learn_from(handle.context, services)
            finally:
                self._publish_result(result, services)
            return outcome
        error = outcome.failure()
        context = handle.fail(error)
        await count_left_out(services)
        if isinstance(error, errors.RunCancelled):
            error = evolve(error, doubt=doubt_in(steps_taken(context, services)))
            context = handle.fail(error)
        try:
            await end_turn(None, services)
            await release_content(services)
            try:
                if isinstance(error, errors.RunCancelled):
                    events.publish(ExecutionCancelled, phase=error.phase)
            finally:  # also when a handler of that event exits
                await close_failed_run(context, services)
            await learn_from(context, services)
        finally:
            failed = self._fail(error, context, services)
            record_sub_run(failed, services)
        return Failure(failed)

    def _publish_result(self, result: TaskResult, services: EngineServices) -> None:
        """Publish the last event of a run with a result."""
        events = services.events
        if events.answer is not None:
            events.answer.settle(result.output or "", "result")
        record_sub_run(result, services)
        events.publish(TaskCompleted, cast(AgentResult, result))

    def _fail(self, error: RuntimeErrors, context: ExecutionContext, services: EngineServices) -> TaskFailed:
        if services.events.answer is not None:
            services.events.answer.retract("failed")
        try:
            failed = self._failed(
                error, steps_taken(context, services), run_metadata(context, services), services
            )
        except Exception:  # noqa: BLE001 - a defect of what the run holds: its account tells what it took
            _log.warning("The figures of run %s raised.", services.events.run_id, exc_info=True)
            failed = self._failed(error, (), figures_of(services), services)
        services.events.deliver(failed)
        handle = services.handle
        if handle.caller is not None:
            below = (step for each in handle.sub_runs for step in each.steps)
            handle.caller.unfinished.extend((*handle.unfinished, *below, *failed.steps))
        return failed

    def _failed(
        self,
        error: RuntimeErrors,
        steps: tuple[ReasoningStep, ...],
        metadata: TaskResultMetadata,
        services: EngineServices,
    ) -> TaskFailed:
        events, redactor = services.events, self.ports.redactor
        failed = TaskFailed(*events.stamp(), **events.origin, error=error, steps=steps, metadata=metadata)
        # the caller gets it as well, not only the bus
        return failed if redactor is None else ValueRedactor(redactor).redacted(failed)


def _texts_of(result: TaskResult) -> Iterator[str | None]:
    """Return the texts of a result that may be long."""
    yield result.output
    yield from (step.content for step in result.steps)
    yield from result.tool_results.values()


def _has_to_wait(services: EngineServices) -> bool:
    """Return whether the end of a run with a result waits, and so could be cut off."""
    handle = services.handle
    if handle.session is not None or handle.content is not None:
        return True
    return learns_from(handle.context, services)


@contextmanager
def _as_run_under_way(services: EngineServices) -> Iterator[None]:
    """Let the runs, usage and events of its tools belong to this run."""
    handle, events = services.handle, services.events
    above = handle.caller
    readers = () if above is None else above.events.readers
    unsubscribe = [services.ports.events.subscribe(each.show, run_id=events.run_id) for each in readers]
    account = USAGE_RECORDER.set(services.llm.add)
    publish = PUBLISH.set(events.publish)
    caller = CALLER.set(
        Caller(
            approver_of(services.ports),
            services.desk,
            services.llm.account,
            services.llm.budget,
            (*(() if above is None else above.agents), services.settings.name),
            handle.owner,
            handle.sub_runs,
            handle.recorded,
            handle.unfinished,
            events,
            services.redactor,
            lambda: handle.content,
            services.shown,
        )
    )
    try:
        yield
    finally:
        CALLER.reset(caller)
        PUBLISH.reset(publish)
        USAGE_RECORDER.reset(account)
        for end in unsubscribe:
            end()


def _budget_of(
    user: str | None,
    settings: RunSettings,
    ports: EnginePorts,
    events: RunEvents,
    account: UsageAccount,
    caller: Caller | None,
) -> RunBudget | None:
    """Return what the run reserves from; ``None`` where nothing limits its spending."""
    guard = ports.budget.value_or(None)
    callers_budget = None if caller is None else caller.budget
    if guard is None and callers_budget is None and not settings.budget.limits_spending:
        return None
    return RunBudget(
        guard,
        events,
        prices=ports.prices,
        counter=ports.counter,
        limits=settings.budget,
        account=account,
        caller=callers_budget,
        user=user,
    )


def missing_service(settings: RunSettings, ports: EnginePorts) -> ServiceMissing | None:
    """Return the first service that the settings require and the ports lack."""
    if settings.enable_guardrails and not ports.guardrail:
        return ServiceMissing("guardrails", "governance.guardrail")
    if settings.enable_verification and not ports.verifier:
        return ServiceMissing("verification", "governance.verifier")
    if settings.enable_cost_tracking and not ports.cost_tracker:
        return ServiceMissing("cost tracking", "governance.cost_tracker")
    if settings.enable_audit and not ports.audit:
        return ServiceMissing("audit", "governance.audit")
    return None
