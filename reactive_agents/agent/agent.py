"""The facade of an agent: run tasks, and control them.

The facade holds no state of a run: runs belong to the engine, services to the container, and each method
passes on to one of these. It is the one place where typed errors become an exception.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, cast, overload

import anyio
from attrs import evolve, field, frozen
from returns.maybe import Maybe
from returns.result import Failure, Result, Success
from typing_extensions import TypeForm, TypeVar, Unpack

from reactive_agents.adapters import system
from reactive_agents.adapters.telemetry.event_bus import AsyncEventHandler
from reactive_agents.agent.errors import AgentError, result_or_raise, time_before, value_of, value_or_raise
from reactive_agents.agent.run_options import (
    BudgetOptions,
    RunChanges,
    RunOptions,
    TaskInput,
    TaskOptions,
    live_options,
    run_changes,
    task_fields,
    task_text,
    wrong_run,
)
from reactive_agents.agent.subscriptions import Subscriptions, stream_events
from reactive_agents.agent.tool_references import wrong_deps_of
from reactive_agents.core import errors
from reactive_agents.core.content import Digest, map_parts, parts_in
from reactive_agents.core.conversation import (
    SessionKey,
    SessionTurn,
    conversation_lines,
    turns_of,
    without_instructions,
    wrong_history,
    wrong_name,
)
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.ids import AgentId, ApprovalId, RequestId, RunId, SessionId, TaskId
from reactive_agents.core.json import JsonFields, JsonObject, abbreviated
from reactive_agents.core.messages import Message
from reactive_agents.core.model_settings import ModelSettings
from reactive_agents.core.run_context import DepsFunction, checked_deps_function, wrong_deps_type
from reactive_agents.core.settings import RunSettings
from reactive_agents.core.tasks import (
    AbstainedResult,
    CompletedResult,
    PartialResult,
    Task,
    TaskResult,
    TypedResult,
)
from reactive_agents.core.tasks import AgentResult as AgentResult
from reactive_agents.effects import BrokenContract, Effect, Settled, attempt_foreign, effect
from reactive_agents.engine import ExecutionEngine
from reactive_agents.event_loop import blocked_seconds, cut_off_with_caller, to_the_end
from reactive_agents.kernel.events import EventReader
from reactive_agents.kernel.service_calls import ServiceFaults, checked_sources
from reactive_agents.ports import (
    LLM,
    Approver,
    Clock,
    ContentStore,
    EventBus,
    EventHandler,
    IdSource,
    RequestDesk,
    SessionStore,
)

if TYPE_CHECKING:
    from reactive_agents.adapters.governance.requests import ApprovalHandler, LocalRequestDesk
    from reactive_agents.agent.config import AgentConfig
    from reactive_agents.agent.output_stream import OutputStream
    from reactive_agents.agent.runs import Runs
    from reactive_agents.containers import RuntimeContainer  # imported with the first build
    from reactive_agents.core.conversation import SessionInfo
    from reactive_agents.core.events import AgentEvent, TaskFailed
    from reactive_agents.core.governance import (
        ApprovalRequest,
        DecisionErrors,
        ExternalCallRequest,
        QuestionRequest,
    )
    from reactive_agents.core.memory import MemoryEntry
    from reactive_agents.core.model_profiles import ModelProfile
    from reactive_agents.core.redaction import Redactor


# --- The agent: runs tasks, and gives the result, the typed error, or the events ---


R = TypeVar("R", default=AgentResult)
"""The result of a run: an ``AgentResult``, or a ``TypedResult`` of the agent's output type."""

D = TypeVar("D", contravariant=True, default=None)
"""The type of the dependencies that each run is given; ``None`` for an agent without."""

_Output = TypeVar("_Output")


def _as_it_is(result: TaskResult) -> Any:
    return result


class ReactiveAgent(Generic[R, D]):
    """An agent, ready to run tasks, any number of them at once.

    Use it as ``async with agent:``, or call :meth:`aclose` at the end, to close what it opened.

    Attributes:
        container: the services; override a provider there before the first run to swap a service.
        name: the agent's name.
        present: converts a plain result, as events carry it, into the result that :meth:`run` returns.
        deps_type: the type of the dependencies that each run is given; ``None`` for none.
        config: the configuration that a builder had; ``None`` for an agent of a container.
        deps_function: makes the dependencies of runs that are given none; ``None`` if nothing does.
    """

    if not TYPE_CHECKING:

        def __new__(cls, *given: object, **options: object) -> Self:
            """Refuse options that only a builder has, with advice.

            Raises:
                AgentError: there is such an option.
            """
            known = {"container", *ReactiveAgent.__init__.__kwdefaults__}
            for name in options.keys() - known if cls is ReactiveAgent else ():
                expected = "a container alone: ReactiveAgents.create().with_model(…).build() makes an agent"
                raise AgentError(errors.InvalidConfig(name, abbreviated(options[name]), expected))
            return super().__new__(cls)

    def __init__(
        self,
        container: RuntimeContainer,
        *,
        name: str = "agent",
        present: Callable[[TaskResult], R] = _as_it_is,
        deps: TypeForm[D] | None = None,
        deps_function: Callable[..., Any] | None = None,
        reader: EventReader | None = None,
    ) -> None:
        if not hasattr(container, "tooling"):
            expected = "a RuntimeContainer (with the name of a model: ReactiveAgents.create().with_model(…))"
            raise AgentError(errors.InvalidConfig("container", abbreviated(container), expected))
        self.container = container
        self.name = name
        self.config: AgentConfig | None = None
        self.present = present
        self.deps_type: Any = deps
        wrong = wrong_deps_type(deps)
        if wrong is None and not container.tooling.tools.overridden:
            wrong = wrong_deps_of(container.tool_settings().tools, deps)
        self.deps_function: DepsFunction | None = None
        if wrong is None and deps_function is not None:
            found = checked_deps_function(deps_function, deps)
            wrong = found if isinstance(found, errors.InvalidConfig) else None
            self.deps_function = found if isinstance(found, DepsFunction) else None
        if wrong is not None:
            raise AgentError(wrong)
        self._reader = reader
        self._subscriptions = Subscriptions()
        self._runs: list[Runs[R]] = []
        self._overrides: dict[object, dict[str, Any]] = {}

    def __repr__(self) -> str:
        """Return the agent in a line: its name, model and tools."""
        settings = self.container.tool_settings()
        tools = [tool.name for tool in settings.tools]
        servers = [f"{server.name}-*" for server in settings.servers]
        model = self.container.model_config().model or "a model object"
        return f"ReactiveAgent({self.name!r}, model={model!r}, tools={tools + servers})"

    @overload
    async def run(
        self: ReactiveAgent[R, None], task: TaskInput | Task, **options: Unpack[RunOptions]
    ) -> R: ...

    @overload
    async def run(
        self: ReactiveAgent[Any, None],
        task: TaskInput | Task,
        *,
        output: TypeForm[_Output],
        **options: Unpack[RunOptions],
    ) -> TypedResult[_Output]: ...

    @overload
    async def run(self, task: TaskInput | Task, *, deps: D, **options: Unpack[RunOptions]) -> R: ...

    @overload
    async def run(
        self, task: TaskInput | Task, *, deps: D, output: TypeForm[_Output], **options: Unpack[RunOptions]
    ) -> TypedResult[_Output]: ...

    async def run(self, task: TaskInput | Task, **options: Any) -> Any:
        """Run a task and return its result, which may be partial: see ``status``.

        Args:
            task: a text, or a list of texts, images, audio and documents.
            deps: the dependencies of tools and other functions that take a ``RunContext``: an object of the
                type that was given to ``create(deps=…)``.
            output: the type of this run's answer, in place of that of ``with_output_type``.
            options: the options in ``RunOptions``, such as ``session="support-7"``.

        Raises:
            AgentError: the run failed or was cancelled; ``.error`` is the typed error.
        """
        ready, changes = self._run_of(task, options)
        outcome = await self._engine.conduct(ready, run_id=changes.run_id, overrides=changes.overrides)
        return (changes.present or self.present)(result_or_raise(outcome))

    @overload
    def run_sync(
        self: ReactiveAgent[R, None], task: TaskInput | Task, **options: Unpack[RunOptions]
    ) -> R: ...

    @overload
    def run_sync(
        self: ReactiveAgent[Any, None],
        task: TaskInput | Task,
        *,
        output: TypeForm[_Output],
        **options: Unpack[RunOptions],
    ) -> TypedResult[_Output]: ...

    @overload
    def run_sync(self, task: TaskInput | Task, *, deps: D, **options: Unpack[RunOptions]) -> R: ...

    @overload
    def run_sync(
        self, task: TaskInput | Task, *, deps: D, output: TypeForm[_Output], **options: Unpack[RunOptions]
    ) -> TypedResult[_Output]: ...

    def run_sync(self, task: TaskInput | Task, **options: Any) -> Any:
        """Run a task from code that is not async, also inside a running event loop.

        The run has its own event loop. The call blocks until the run ends, and then closes what the run
        opened. On the main thread SIGTERM cancels the run and ends the process after it, unless the program
        handles SIGTERM itself. The end of the process cuts off a run on another thread. Within a tool the run
        is cancelled when the time of the tool's call, or of the run that made the call, is up.

        Arguments and errors are those of :meth:`run`.
        """
        ready, changes = self._run_of(task, options)

        outcomes: list[Result[TaskResult, TaskFailed]] = []  # empty after a run that was cancelled

        async def run_and_close(seconds: float) -> None:
            try:
                with cut_off_with_caller(seconds):
                    run_id, overrides = changes.run_id, changes.overrides
                    outcomes.append(await self._engine.conduct(ready, run_id=run_id, overrides=overrides))
            finally:
                with anyio.CancelScope(shield=True):
                    await self._close(leaving=True)

        async def run_on_this_thread() -> None:
            with system.cancel_on_sigterm():
                await run_and_close(inf)

        async def run_within(scope: anyio.CancelScope, seconds: float) -> None:
            with scope:
                await run_and_close(seconds)

        if _inside_event_loop():
            from anyio.from_thread import start_blocking_portal  # also imports the threads of the library

            with start_blocking_portal() as portal:
                scope = portal.call(anyio.CancelScope)
                with system.end_on_sigterm_after(lambda: portal.start_task_soon(scope.cancel)):
                    system.interruptible_result(portal.start_task_soon(run_within, scope, blocked_seconds()))
        else:
            anyio.run(run_on_this_thread)
        if not outcomes:
            raise AgentError(errors.RunCancelled(ready.id, "agent-loop"))
        return (changes.present or self.present)(result_or_raise(outcomes[0]))

    @overload
    def run_effect(
        self: ReactiveAgent[R, None], task: TaskInput | Task, **options: Unpack[RunOptions]
    ) -> Effect[R, errors.RuntimeErrors]: ...

    @overload
    def run_effect(
        self: ReactiveAgent[Any, None],
        task: TaskInput | Task,
        *,
        output: TypeForm[_Output],
        **options: Unpack[RunOptions],
    ) -> Effect[TypedResult[_Output], errors.RuntimeErrors]: ...

    @overload
    def run_effect(
        self, task: TaskInput | Task, *, deps: D, **options: Unpack[RunOptions]
    ) -> Effect[R, errors.RuntimeErrors]: ...

    @overload
    def run_effect(
        self, task: TaskInput | Task, *, deps: D, output: TypeForm[_Output], **options: Unpack[RunOptions]
    ) -> Effect[TypedResult[_Output], errors.RuntimeErrors]: ...

    @effect
    async def run_effect(self, task: TaskInput | Task, **options: Any) -> Result[Any, errors.RuntimeErrors]:
        """Run a task and return its result as an effect."""
        try:
            ready, changes = self._run_of(task, options)
        except AgentError as refused:
            return Failure(cast("errors.RuntimeErrors", refused.error))
        outcome = await self._engine.conduct(ready, run_id=changes.run_id, overrides=changes.overrides)
        return outcome.map(changes.present or self.present).alt(lambda failed: failed.error)

    @overload
    def stream(
        self: ReactiveAgent[Any, None],
        task: TaskInput | Task,
        *,
        output: TypeForm[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[AgentEvent, None]: ...

    @overload
    def stream(
        self,
        task: TaskInput | Task,
        *,
        deps: D,
        output: TypeForm[Any] | None = None,
        **options: Unpack[RunOptions],
    ) -> AsyncGenerator[AgentEvent, None]: ...

    async def stream(self, task: TaskInput | Task, **options: Any) -> AsyncGenerator[AgentEvent, None]:
        """Run a task and yield its events as they happen, with the answer in deltas.

        The last event is ``TaskCompleted`` or ``TaskFailed``. Leaving the loop early cancels the run. Trio
        does not close generators by itself, so put :func:`contextlib.aclosing` around the stream there.

        Raises:
            AgentError: the task is not a text or a list of parts, or an option is wrong.
        """
        ready, changes = self._run_of(task, options)
        events = stream_events(self._engine, ready, changes.overrides, run_id=changes.run_id)
        async with aclosing(events):
            async for event in events:
                yield event

    @overload
    def stream_output(
        self: ReactiveAgent[
            CompletedResult[_Output] | PartialResult[_Output] | AbstainedResult[_Output], None
        ],
        task: TaskInput | Task,
        **options: Unpack[RunOptions],
    ) -> OutputStream[_Output]: ...

    @overload
    def stream_output(
        self: ReactiveAgent[Any, None],
        task: TaskInput | Task,
        *,
        output: TypeForm[_Output],
        **options: Unpack[RunOptions],
    ) -> OutputStream[_Output]: ...

    @overload
    def stream_output(
        self: ReactiveAgent[CompletedResult[_Output] | PartialResult[_Output] | AbstainedResult[_Output], D],
        task: TaskInput | Task,
        *,
        deps: D,
        **options: Unpack[RunOptions],
    ) -> OutputStream[_Output]: ...

    @overload
    def stream_output(
        self, task: TaskInput | Task, *, deps: D, output: TypeForm[_Output], **options: Unpack[RunOptions]
    ) -> OutputStream[_Output]: ...

    def stream_output(self, task: TaskInput | Task, **options: Any) -> OutputStream[Any]:
        """Run a task and iterate over its answer as it arrives.

        Each value replaces the one before it: a text that grows, or a value of the output type made of the
        parts that have arrived and are valid. The last one is the answer, as :meth:`run` returns it.

        Options are those of :meth:`run`.

        Raises:
            AgentError: the task is not a text or a list of parts, or an option is wrong; within the loop also
                when the run failed, or ended without an answer.
        """
        from reactive_agents.agent.output_stream import OutputStream  # imported by programs that use it

        ready, changes = self._run_of(task, options)
        engine, overrides = self._engine, changes.overrides
        shape = overrides.services.get("output_shape", engine.ports.output_shape).value_or(None)
        return OutputStream(
            lambda on_end: stream_events(engine, ready, overrides, run_id=changes.run_id, on_end=on_end),
            changes.present or self.present,
            shape,
        )

    @contextmanager
    def override(
        self,
        *,
        model: str | LLM | None = None,
        deps: D | None = None,
        approver: Approver | ApprovalHandler | None = None,
        settings: ModelSettings | None = None,
        budget: BudgetOptions | None = None,
    ) -> Iterator[None]:
        """Set options of the runs that begin meanwhile, over those of their calls.

        It is for tests of an application. It applies to all threads, but neither to runs that are submitted
        to a queue nor to those that continue from a record. Of blocks open at once, the last to begin wins.

        Args:
            model, deps, approver, settings, budget: as for :meth:`run`; ``None`` leaves one as it is.
        """
        given = {"model": model, "deps": deps, "approver": approver, "settings": settings, "budget": budget}
        block = object()  # blocks of other threads may end in any order
        self._overrides[block] = {name: value for name, value in given.items() if value is not None}
        try:
            yield
        finally:
            del self._overrides[block]

    def new_task(self, task: TaskInput | Task, **options: Unpack[TaskOptions]) -> Task:
        """Return a task for this agent, with the options of its run.

        Raises:
            AgentError: the task or an option is wrong, and ``.error`` is a ``TaskError``; or a custom clock
                or source of ids failed, and it is an ``ExecutionError``.
        """
        return self._task(task, options)

    @property
    def has_deps(self) -> bool:
        """Whether runs have all dependencies without their caller, in any process."""
        return self.deps_type is None or self.deps_function is not None

    @property
    def agent_id(self) -> AgentId:
        """The id that the agent's tasks, accounts and memories carry.

        Raises:
            TypeError: the settings are overridden with something else.
        """
        settings = self.container.settings()
        if not isinstance(settings, RunSettings):
            raise TypeError(f"settings: got {settings!r:.80}, expected RunSettings")
        return settings.agent_id

    @property
    def sessions(self) -> Sessions:
        """The conversations of ``run(session=…)``: list, read, add to, fork, delete them.

        Raises:
            AgentError: the container provides no store of sessions; ``.error`` is a ``ServiceMissing``.
        """
        core = self.container.core
        redactor = system.checked_redactor(core.redactor())
        return Sessions(
            self._session_store(),
            self.agent_id,
            redactor,
            core.clock(),
            ids=core.ids(),
            first_state=self.container.settings().session_state,
        )

    @property
    def runs(self) -> Runs[R]:
        """The recorded runs: list, continue, await, control and delete them.

        Raises:
            AgentError: the agent has no record of runs; ``.error`` is a ``ServiceMissing``.
        """
        engine = self._running_engine
        if not self._runs or self._runs[-1].engine is not engine:  # as after a reset of the singletons
            from reactive_agents.agent.runs import Runs  # by agents with durability

            record = self.container.memory.record().value_or(None)
            if record is None:
                raise AgentError(
                    errors.ServiceMissing("runs", "memory.record", "build the agent with_durability(path)")
                )
            queues = self.container.memory.queues().value_or(None)
            self._runs.append(
                Runs(
                    engine,
                    record,
                    self.present,
                    lambda: self._engine,
                    queues,
                    self.deps_type,
                    self.deps_function,
                )
            )
        return self._runs[-1]

    async def submit(
        self,
        task: TaskInput | Task,
        *,
        queue: str = "default",
        priority: int = 0,
        delay_s: float = 0.0,
        **options: Unpack[RunOptions],
    ) -> RunId:
        """Put a run into a queue, where it outlives this process, and return its id.

        The agent runs what is in the queue until the agent is closed. Workers in other processes do too, with
        ``agent.runs.work(queue)``. A durable run that submits it, and is continued, does not do so again.

        Args:
            priority: runs with a higher priority come first.
            delay_s: seconds until the run may begin, 0 to 1,000,000,000.

        Raises:
            AgentError: the task or an option is wrong, or the agent has no record of runs.
        """
        from reactive_agents.agent.queue_worker import queued_run
        from reactive_agents.agent.runs import check_queued
        from reactive_agents.engine.run_journal import submitted_id

        ready, changes = self._run_of(task, dict(options), queued=True)
        check_queued(queue, priority, delay_s, live=live_options(options))
        runs, clock = self.runs, self.container.core.clock()
        own_id, is_replay = submitted_id()
        run_id = changes.run_id or RunId(own_id or self.container.core.ids().new())
        if is_replay:
            return run_id
        due = clock.now() + timedelta(seconds=delay_s) if delay_s else None  # not by a clock that is set back
        submitted = await runs.submit(queued_run(ready, run_id, queue=queue, priority=priority, due=due))
        runs.ensure_worker(queue)
        return submitted

    async def schedule(
        self,
        name: str,
        cron: str,
        task: TaskInput | Task,
        *,
        timezone: str = "UTC",
        queue: str = "default",
        priority: int = 0,
        **options: Unpack[RunOptions],
    ) -> None:
        """Begin a run at each time of a schedule in the notation of cron.

        The schedule outlives this process. The workers of the queue begin its runs, each once, under the ids
        ``NAME@TIME``. Of the times that were missed, only the latest is made up for. The agent runs the queue
        until the agent is closed.

        Args:
            name: the name of the schedule; it replaces one of the same name.
            cron: the times, such as ``0 2 * * *``; of six fields the first has seconds. Needs the extra
                ``durable``.
            timezone: the time zone of the times.

        Raises:
            AgentError: the task or an option is wrong, or the agent has no record of runs.
        """
        from reactive_agents.agent.runs import check_queued
        from reactive_agents.core.run_record import RunSchedule, next_time

        ready, _ = self._run_of(task, dict(options), queued=True)
        check_queued(queue, priority, name=name, live=live_options(options))
        try:
            next_at = next_time(cron, timezone, self.container.core.clock().now())
        except (ValueError, TypeError, AttributeError) as error:  # the last two if it is not a text
            raise AgentError(
                errors.InvalidConfig("schedule", f"{cron!r} in {timezone}", f"{error}")
            ) from None
        runs = self.runs
        await runs.schedule(
            RunSchedule(name, ready.agent_id, cron, ready, next_at, timezone, queue, priority)
        )
        runs.ensure_worker(queue)

    def _session_store(self) -> SessionStore:
        store: SessionStore | None = self.container.memory.sessions().value_or(None)
        if store is None:
            raise AgentError(errors.ServiceMissing("sessions", "memory.sessions"))
        return store

    async def remember(self, fact: str, *, user: str | None = None, importance: float = 0.9) -> MemoryEntry:
        """Store a fact in the memory, of a user or of the agent itself; return it.

        It counts as said by a user, and runs of this user, or all runs, are shown it where it bears on their
        task. A known one is renewed. Secrets are redacted.

        Args:
            fact: a few sentences at most.
            importance: 0 to 1; the higher, the longer it is kept.

        Raises:
            AgentError: the agent has no memory, the memory failed, or a value is wrong.
        """
        from reactive_agents.agent.validation import wrong_text, wrong_value  # loaded with the first build
        from reactive_agents.core.memory import MemoryCandidate, MemoryEntry

        wrong = wrong_text("fact", fact, "a text") or wrong_value(
            "importance", importance, float, "a number from 0 to 1", lambda given: 0 <= given <= 1
        )
        if wrong is not None:
            raise AgentError(wrong)
        candidate = MemoryCandidate("semantic", fact, "user", importance=importance)
        remembered: MemoryEntry = await self._ask_memory(
            "remember", MemoryEntry, self.agent_id, candidate, user=user
        )
        return remembered

    async def search_memory(
        self, text: str, *, user: str | None = None, limit: int = 20
    ) -> tuple[MemoryEntry, ...]:
        """Return the memories with every word of a text, or else with some; best first.

        They are those of the agent itself and of this user. With an embedder, they are also those of similar
        meaning.

        Raises:
            AgentError: the agent has no memory, the memory failed, or a value is wrong.
        """
        from reactive_agents.agent.validation import is_count, wrong_text, wrong_value

        wrong = wrong_text("text", text, "a text") or wrong_value(
            "limit", limit, int, "a number of memories, 1 or more", is_count
        )
        if wrong is not None:
            raise AgentError(wrong)
        found: tuple[MemoryEntry, ...] = await self._ask_memory(
            "search", tuple, self.agent_id, text, user=user, limit=limit
        )
        return found

    async def _ask_memory(
        self, method: str, expected: type, *args: object, user: str | None = None, **options: object
    ) -> Any:
        """Return what a method of the memory returns, for a valid user.

        Raises:
            AgentError: there is no memory, it failed, or it does not keep to its contract.
        """
        if user is not None:
            if wrong_name("user", user) is not None:
                raise AgentError(errors.InvalidConfig("user", abbreviated(user), "the user of runs"))
            options["user"] = user
        memory = self.container.memory.memory().value_or(None)
        if memory is None:
            missing = errors.ServiceMissing("memory", "memory.memory", "build the agent with_memory()")
            raise AgentError(missing)
        if not hasattr(memory, method):
            message = f"The memory service {type(memory).__name__} has no method {method}."
            raise AgentError(errors.ServiceFailed(message, "memory", method))
        outcome = await attempt_foreign(getattr(memory, method), expected, *args, **options)
        if isinstance(outcome, BrokenContract):
            message = f"The memory service {type(memory).__name__} {outcome.problem}"
            raise AgentError(errors.ServiceFailed(message, "memory", method))
        return value_or_raise(outcome)

    async def forget(self, *, user: str) -> int:
        """Delete the sessions, memories and runs of a user; return how many they were.

        The user's data of other agents in the same files is deleted as well. The usage and cost of the runs
        stay, without the user's name, and so does the audit log. If a store fails, the others forget the user
        all the same.

        Raises:
            AgentError: a store failed, is missing, or cannot forget: ``ServiceFailed`` names each, and those
                that have forgotten the user; or no run can have this user.
        """
        if user is None or wrong_name("user", user) is not None:
            raise AgentError(errors.InvalidConfig("user", abbreviated(user), "the user of runs"))
        from reactive_agents.adapters import sqlite  # by agents with stores

        deleted, failed = dict[str, int](), list[str]()
        async with sqlite.each_file_rewritten_once():
            for store, delete in self._deletions(user).items():
                try:
                    deleted[store] = await delete()
                except Exception as error:  # noqa: BLE001 - whatever a custom store raises: the others are tried
                    failed.append(f"{store} ({error})")
        if failed:
            told = f"The user is not forgotten in: {', '.join(failed)}."
            told += f" Forgotten in: {', '.join(deleted) or 'no store'}. Call forget again for the rest."
            raise AgentError(errors.ServiceFailed(told, "forget", "forget"))
        return sum(count for store, count in deleted.items() if store != "cost")  # whose usage stays

    def _deletions(self, user: str) -> Mapping[str, Callable[[], Awaitable[int]]]:
        """Return what deletes the data of a user, by the stores that the agent has."""
        from reactive_agents.core.memory import ForgetUser

        record = self.container.memory.record().value_or(None)
        run_log = self.container.core.run_log().value_or(None)
        costs = self.container.governance.cost_tracker().value_or(None)
        deletions: dict[str, Callable[[], Awaitable[int]]] = {
            "sessions": lambda: value_of(self._session_store().forget(user))
        }
        if record is not None:
            deletions["record of runs"] = lambda: value_of(record.delete(user=user))
        if run_log is not None:
            deletions["run log"] = lambda: value_of(run_log.forget(user))
        if hasattr(costs, "forget"):
            deletions["cost"] = lambda: value_of(costs.forget(user))
        if self.container.memory.memory().value_or(None) is not None:
            deletions["memory"] = lambda: self._ask_memory("forget", int, ForgetUser(user))
        return deletions

    async def prune_cost(self, older_than: timedelta) -> int:
        """Delete the usage of runs that ended longer ago; return how many there were."""
        costs = self.container.governance.cost_tracker().value_or(None)
        return await _prune(costs, "cost_tracker", self.container.core.clock().now(), older_than)

    async def prune_audit(self, older_than: timedelta) -> int:
        """Delete older entries of the audit log, which still verifies; return how many.

        Entries are deleted up to the first that is not older. An entry of the action ``prune`` records it.
        """
        audit = self.container.governance.audit().value_or(None)
        return await _prune(audit, "audit", self.container.core.clock().now(), older_than)

    async def load_content(
        self, messages: Sequence[Message], *, user: str | None = None
    ) -> tuple[Message, ...]:
        """Return messages with the bytes of their images, audio and documents.

        Other programs and agents can then continue the conversation, and ``messages_to_json`` writes the
        bytes.

        Args:
            user: the user of the run that the messages come from.

        Raises:
            AgentError: content is not stored, or not for this user.
        """
        store: ContentStore | None = self.container.memory.content().value_or(None)
        if store is None:
            raise AgentError(errors.ServiceMissing("content", "memory.content"))
        loaded: dict[Digest, bytes] = {}
        for part in parts_in(messages):
            if part.is_stored and part.digest not in loaded:
                data = await value_of(store.read(part.digest, user))
                if data is None:
                    message = f"{part.label} is not stored for this user."
                    raise AgentError(errors.ContentUnavailable(message, "read"))
                loaded[part.digest] = data
        return tuple(
            map_parts(each, lambda part: evolve(part, data=loaded.get(part.digest, part.data)))
            for each in messages
        )

    def cancel(self, task_id: TaskId, *, by: str = "") -> Result[None, errors.TaskError]:
        """Cancel a running task, from any thread; its run ends with ``RunCancelled``.

        Fails with ``TaskError`` when the task is not running, or only its account is still being closed.

        Args:
            by: who asks for it, for the audit log; also in the methods below.
        """
        return self._running_engine.cancel(task_id, by=by)

    def stop(self, task_id: TaskId, reason: str = "", *, by: str = "") -> Result[None, errors.TaskError]:
        """End a running task now as ``partial``, with the results so far, from any thread.

        The model call or tool call under way is cut off. The result's ``terminated_by`` is ``stopped``.

        Fails with ``TaskError`` when the task is not running, was cancelled or has its answer, and when the
        reason is not a text.

        Args:
            reason: a sentence that becomes part of the result's ``reason``.
        """
        return self._running_engine.stop(task_id, reason, by=by)

    def pause(self, task_id: TaskId, *, by: str = "") -> Result[None, errors.TaskError]:
        """Pause a running task before its next model call or tool call, from any thread.

        Fails with ``TaskError`` when the task is not running, was stopped or cancelled, or has its answer.
        """
        return self._running_engine.pause(task_id, by=by)

    def resume(self, task_id: TaskId, *, by: str = "") -> Result[None, errors.TaskError]:
        """Resume a paused task, from any thread; fails with ``TaskError`` otherwise."""
        return self._running_engine.resume(task_id, by=by)

    def running(self) -> tuple[TaskId, ...]:
        """Return the ids of the running tasks."""
        return self._running_engine.running()

    def pending_approvals(self) -> tuple[ApprovalRequest, ...]:
        """Return the tool calls that wait for approval, oldest first."""
        return self._approval_desk.pending()

    def approve(
        self,
        run_id: RunId,
        approval_id: ApprovalId,
        reason: str = "",
        *,
        arguments: Mapping[str, Any] | None = None,
        by: str = "",
    ) -> Result[None, errors.ApprovalNotPending | DecisionErrors]:
        """Approve the waiting call of the ``ApprovalRequested`` with this id.

        Call it from any thread, as soon as the ``ApprovalRequested`` is published; it takes effect at once.
        Reason and name are in the audit log and in ``ApprovalDecided``.

        Fails with ``ApprovalNotPending`` when no such call waits, for example because approval is not
        switched on; with ``InvalidToolArguments`` when the arguments do not fit the tool, and with
        ``InvalidConfig`` when a text is too long. The call then waits on.

        Args:
            arguments: all arguments with which the call is made, in place of those of the model.
            by: who approves it; not shown to the model.
        """
        return self._approval_desk.approve(run_id, approval_id, reason, arguments=arguments, by=by)

    def deny(
        self, run_id: RunId, approval_id: ApprovalId, reason: str = "", *, by: str = ""
    ) -> Result[None, errors.ApprovalNotPending | DecisionErrors]:
        """Deny a waiting call, with a reason for the model; else like :meth:`approve`."""
        return self._approval_desk.deny(run_id, approval_id, reason, by=by)

    def pending_questions(self) -> tuple[QuestionRequest, ...]:
        """Return the questions of the model that wait for an answer, oldest first."""
        return self._desk.questions()

    def answer(self, run_id: RunId, question_id: RequestId, text: str) -> Settled[errors.RequestNotPending]:
        """Answer the question of the ``QuestionAsked`` with this id.

        Call it from any thread, as soon as the ``QuestionAsked`` is published; it takes effect at once. The
        returned value is the result, and may also be awaited.

        Fails with ``RequestNotPending`` when no such question waits, for example because it was answered
        already.

        Raises:
            TypeError: the answer is not a text.
            ValueError: the text is blank.
        """
        if not isinstance(text, str):
            raise TypeError(f"text: got {type(text).__name__}, expected the answer as a text")
        if not text.strip():
            raise ValueError(f"text: got {text!r}, expected an answer that is not blank")
        return Settled(self._desk.answer(run_id, question_id, text))

    def pending_calls(self) -> tuple[ExternalCallRequest, ...]:
        """Return the calls that wait for a result from elsewhere, oldest first."""
        return self._desk.calls()

    def deliver(
        self, run_id: RunId, tool_call_id: RequestId, result: object = None, *, error: str = ""
    ) -> Settled[errors.RequestNotPending]:
        """Deliver the result of the ``ExternalCallRequested`` with this id.

        Use it like :meth:`answer`.

        Args:
            result: whatever a tool may return.
            error: the reason for the model why the call failed; there is then no result.
        """
        from reactive_agents.adapters.tools.json_value import to_json_value

        delivered = to_json_value(result)
        return Settled(self._desk.deliver(run_id, tool_call_id, delivered, error=error))

    async def probe(self, *, longest_prompt: int | None = None) -> ModelProfile:
        """Probe the agent's model with a dozen short requests, and store its profile.

        Agents that are built later with this model at this address use the profile. Earlier findings stay
        where this probe finds nothing. When the file cannot be written, that is logged and the profile is
        returned all the same.

        Args:
            longest_prompt: tokens of the longest prompt to send, 2048 or more; 32768 by default.
        """
        from reactive_agents.agent.model_probe import LONGEST_PROMPT, probe_agent

        profile, _ = await probe_agent(self.container, longest_prompt=longest_prompt or LONGEST_PROMPT)
        return profile

    def subscribe(
        self, handler: EventHandler | AsyncEventHandler, *, run_id: RunId | None = None
    ) -> Callable[[], None]:
        """Call a handler with every later event of the agent's runs.

        Return a function that unsubscribes it.

        Args:
            handler: a plain function is called where the event happens, and the run waits for it; once a call
                took a second, later calls are made in a separate thread. An ``async`` function is awaited
                on the event loop on which it was subscribed, one event after the other, beside the runs. An
                exception that it raises is logged.
            run_id: only events of this run; by default those of all runs.

        Raises:
            AgentError: the handler is not a function, or it is ``async`` and subscribed outside of an event
                loop.
        """
        return value_or_raise(self._subscriptions.add(self._events, handler, run_id=run_id))

    async def aclose(self) -> None:
        """Close everything that the agent opened; the agent can be used again afterwards.

        Objects that were given to it are not closed. Async event handlers of this event loop first handle the
        events that have been published until now, within five seconds.
        """
        await self._close()

    async def _close(self, *, leaving: bool = False) -> None:
        """Close everything; when leaving, only what no other event loop uses."""
        for runs in self._runs:
            await runs.stop_workers(leaving=leaving)
        if not leaving:
            del self._runs[:-1]
        await self._subscriptions.drain()
        from reactive_agents.containers.composition import Lifetimes, checked  # loaded with the first build

        lifetimes = checked("core.lifetimes", self.container.core.lifetimes(), Lifetimes)
        await lifetimes.aclose(leaving=leaving)

    async def __aenter__(self) -> Self:
        durability = self.container.settings().durability
        if durability is not None and durability.recover and self.has_deps:
            self.runs.start_worker(None)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # --- inside -----------------------------------------------------------------------------------------

    @property
    def _engine(self) -> ExecutionEngine:
        engine: ExecutionEngine = self.container.engine.container.engine()
        return engine

    @property
    def _running_engine(self) -> ExecutionEngine:
        """Return the engine of the runs under way, also after a late override."""
        provider = self.container.engine.engine
        engine: ExecutionEngine = getattr(provider, "unchecked", provider)()
        return engine

    @property
    def _events(self) -> EventBus:
        """Return the bus of the runs, also where the engine's ports are overridden."""
        ports = self.container.engine.ports
        bus: EventBus = ports().events if ports.overridden else self.container.core.events()
        return bus

    @property
    def _approval_desk(self) -> LocalRequestDesk:
        return _local_desk(self.container.governance.approver())

    @property
    def _desk(self) -> LocalRequestDesk:
        return _local_desk(self.container.governance.desk())

    def _run_of(
        self, task: TaskInput | Task, options: dict[str, Any], *, queued: bool = False
    ) -> tuple[Task, RunChanges]:
        """Return the task of a run, and the changes that its options make.

        ``queued``: whether it is for workers, which have the dependencies.

        Raises:
            AgentError: the task or an option is wrong, or a custom clock or source of ids failed.
        """
        if not queued:
            for given in tuple(self._overrides.values()):
                options = options | given
        ready = self._task(task, options)
        if queued and not ready.input.strip():  # it would fail when a worker begins it
            blank = "The task's input is blank; expected a description of the task."
            raise AgentError(errors.TaskError(blank, ready.id))
        if options.get("deps") is None and self.deps_function is not None and not queued:
            options = {**options, "deps": self.deps_function}
        deps_type = None if queued and options.get("deps") is None else self.deps_type
        checked = run_changes(options, deps_type)
        if not isinstance(checked, Success):
            raise AgentError(errors.TaskError(checked.failure().message, ready.id))
        changes = checked.unwrap()
        if self._reader is not None:
            changes = evolve(changes, overrides=evolve(changes.overrides, readers=(self._reader,)))
        return ready, changes

    def _new_task(self, text: str) -> Task:
        """Return a new task, or raise the error of a custom clock or source of ids."""
        faults, core = ServiceFaults(), self.container.core.container  # itself: its provider is slow to read
        clock, ids = checked_sources(core.clock(), core.ids(), faults, "task")
        task = Task(TaskId(ids.new()), self.agent_id, text, clock.now())
        broken = faults.first
        if broken is not None:
            raise AgentError(errors.ExecutionError(broken.message, task.id, "bootstrap", broken))
        return task

    def _task(self, task: TaskInput | Task, options: Mapping[str, Any]) -> Task:
        """Return the task of a run, with the options that are data of it, as for a run."""
        text, parts = (task, ()) if isinstance(task, str | Task) else task_text(task)
        ready = text if isinstance(text, Task) else self._new_task(text)
        if parts:
            ready = evolve(ready, parts=parts)
        problem = wrong_run(ready.input, options)
        if problem is not None:
            raise AgentError(errors.TaskError(problem, ready.id))
        if not options:
            return ready
        fields = task_fields(options)
        if isinstance(fields, Failure):
            raise AgentError(errors.TaskError(fields.failure(), ready.id))
        return evolve(ready, **fields.unwrap())


@frozen(eq=False, repr=False)
class Sessions:
    """The named conversations of an agent; every method may raise ``AgentError``."""

    _store: SessionStore
    _agent: AgentId
    _redactor: Redactor
    _clock: Clock
    _ids: IdSource = field(kw_only=True, alias="ids")
    _first_state: JsonObject = field(kw_only=True, alias="first_state")

    async def list(
        self,
        user: str | None = None,
        *,
        session: str | None = None,
        before: datetime | None = None,
        limit: int | None = None,
    ) -> tuple[SessionInfo, ...]:
        """Return the sessions of one user, or of all users, the latest first.

        Args:
            session: only the one of this name.
            before: only those that were last used before this time, as after the last one of a page.
            limit: the most to return, 1 or more; by default all.
        """
        from reactive_agents.agent.validation import is_count, wrong_value  # loaded with the first build

        wrong = wrong_value("limit", limit, int | None, "a whole number, 1 or more", is_count)
        if wrong is not None:
            raise AgentError(wrong)
        return await value_of(
            self._store.sessions(self._agent, user, session=session, before=before, limit=limit)
        )

    async def read(self, session: str) -> tuple[Message, ...]:
        """Return all messages of a session, oldest first."""
        return await value_of(self._store.messages(self._agent, SessionId(session)))

    async def add_messages(
        self, session: str, messages: Sequence[Message], *, user: str | None = None
    ) -> None:
        """Add messages to a session, such as a conversation of another program.

        The session is begun if there is none. Each message of a user begins a turn, for which this waits as a
        run does. System messages are left out, and secrets redacted.

        Args:
            messages: texts, calls of tools and their results, as in ``history=``.
            user: whose session it is; that of another user is refused.
        """
        problem = wrong_name("session", session) or wrong_name("user", user)
        if problem is None and (isinstance(messages, str) or not isinstance(messages, Sequence)):
            problem = f"messages: got {abbreviated(messages)}, expected messages"
        problem = problem or wrong_history(messages)
        part = None if problem else next(parts_in(messages), None)
        if part is not None:
            problem = f"messages: got {part.label}, expected texts: run(history=…) stores content"
        if problem is not None:
            raise AgentError(errors.SessionRefused(str(session), problem))
        key = SessionKey(self._agent, SessionId(session), user)
        for said in turns_of(without_instructions(messages)):
            run_id = RunId(self._ids.new())
            turn = SessionTurn(run_id, said, "\n".join(conversation_lines(said)), initial=self._first_state)
            turn = ValueRedactor(self._redactor).redacted(turn)
            before = await value_of(self._store.begin(key, run_id, size=0, earlier=0))
            turn = evolve(turn, holder=before.holder, initial=turn.initial if before.is_new else {})
            ending = partial(value_of, self._store.end(key, run_id, turn))
            await to_the_end(ending)  # otherwise the session would keep its turn

    async def state(self, session: str) -> JsonFields:
        """Return the state of a session, which its tools change by ``ctx.state``."""
        return await value_of(self._store.state(self._agent, SessionId(session)))

    async def update_state(
        self,
        session: str,
        values: Mapping[str, Any] | None = None,
        *,
        delete: Sequence[str] = (),
        user: str | None = None,
    ) -> JsonFields:
        """Change keys of the state of a session, also between its runs; return the state.

        A run under way keeps the state that it has. Secrets are redacted.

        Args:
            values: JSON data by the keys that are set; others stay as they are.
            delete: the keys that are deleted.
            user: whose session it is, for a session that is begun by this call; any other user is refused.
        """
        from reactive_agents.agent.validation import json_data, wrong_value  # loaded with the first build

        problem = wrong_name("session", session) or wrong_name("user", user)
        if problem is not None:
            raise AgentError(errors.SessionRefused(str(session), problem))
        wrong = wrong_value("delete", delete, tuple[str, ...], "a list of keys")
        if wrong is not None:
            raise AgentError(wrong)
        data = value_or_raise(json_data("values", values or {}))
        key = SessionKey(self._agent, SessionId(session), user)
        shown = cast(JsonObject, self._redactor.redact_json(data))
        deleted = tuple(map(self._redactor.redact, delete))  # as they are stored
        return await value_of(self._store.update_state(key, shown, deleted))

    async def rename(self, session: str, title: str) -> None:
        """Give a session another title, in which secrets are redacted."""
        if not isinstance(title, str):
            problem = f"title: got {abbreviated(title)}, expected a text"
            raise AgentError(errors.SessionRefused(session, problem))
        shown = self._redactor.redact(title)
        await value_of(self._store.rename(self._agent, SessionId(session), shown))

    async def fork(self, session: str, into: str, *, turns: int | None = None) -> None:
        """Copy a session into a new one of the same user.

        Args:
            into: the name of the new session.
            turns: how many of its first runs are copied, 1 or more; by default all.
        """
        wrong = wrong_name("into", into)
        if turns is not None and (type(turns) is not int or turns < 1):
            wrong = f"turns: got {abbreviated(turns)}, expected 1 or more"
        if wrong is not None:
            raise AgentError(errors.SessionRefused(session, wrong))
        await value_of(self._store.fork(self._agent, SessionId(session), SessionId(into), turns))

    async def delete(self, session: str) -> None:
        """Delete a session with everything in it."""
        await value_of(self._store.delete(self._agent, SessionId(session)))

    async def prune(self, older_than: timedelta) -> int:
        """Delete sessions, of all agents, that were last used longer ago; return how many.

        A session stays while a run of it is under way or waits.
        """
        return await _prune(self._store, "sessions", self._clock.now(), older_than)


async def _prune(store: Any, name: str, now: datetime, older_than: timedelta) -> int:
    """Delete what a store has from longer ago; return how many there were.

    Raises:
        AgentError: the store is missing, failed or cannot do that; or the time span is wrong.
    """
    before = time_before(now, older_than)
    if store is None:
        adds = "with_audit" if name == "audit" else "with_cost"
        raise AgentError(errors.ServiceMissing("prune", f"governance.{name}", f"{adds} adds one"))
    if not hasattr(store, "prune"):
        raise AgentError(errors.ServiceFailed(f"{type(store).__name__} has no method prune.", name, "prune"))
    deleted: int = await value_of(store.prune(before))
    return deleted


def _local_desk(given: Maybe[Approver | RequestDesk]) -> LocalRequestDesk:
    """Return a desk of the agent; in the place of another one, or none, an empty desk."""
    from reactive_agents.adapters.governance.requests import LocalRequestDesk  # of agents that ask people

    desk = given.value_or(None)
    return desk if isinstance(desk, LocalRequestDesk) else LocalRequestDesk()


def _inside_event_loop() -> bool:
    for current in (asyncio.get_running_loop, anyio.get_current_task):  # asyncio's callbacks have no task
        with suppress(RuntimeError, LookupError):
            current()
            return True
    return False
