"""Queues of DBOS, which distribute recorded runs to workers on many machines.

A workflow is only the call ``run(run_id)``: DBOS begins it at least once, and the record makes its effects
happen once. So the tables of DBOS contain ids, and no data of runs. What must stay true: each process is a
separate executor, since DBOS repeats the workflows of a known executor; the workflow of a run has the id of
the run; and if the record's lease shows that the worker of a workflow is gone, any other worker puts it back
into its queue.

A process has one instance of DBOS. Adding runs needs only its client.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sqlite3
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from secrets import token_hex
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from returns.result import Failure, Result, Success

from reactive_agents.adapters.sql import is_postgres
from reactive_agents.adapters.sqlite import place_of
from reactive_agents.core.errors import InvalidConfig, RecordErrors, RecordFailed
from reactive_agents.core.ids import AgentId, RunId
from reactive_agents.core.run_record import QueueLimits, RecordedRun
from reactive_agents.effects import effect
from reactive_agents.event_loop import schedule_on_this_loop, spawn_on_this_loop
from reactive_agents.ports import Clock

APPLICATION, WORKFLOW, VERSION = "reactive-agents", "reactive_agents.run", "1"
POLL_S, _PAUSE_S = 0.25, 0.05
SETTLED_S = 5.0
"""Seconds for a worker between dequeuing a run and claiming it in the record."""

_NEEDS_NEW_SQLITE = sys.version_info >= (3, 12)  # it asks for milliseconds there
_HIGHEST = 2**30
_ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
_A = TypeVar("_A")
_log = logging.getLogger("reactive_agents")

Begin = Callable[[RunId], Awaitable[bool]]


class _Listener:
    """Runs workflows of the DBOS event loop on the event loop of a worker."""

    def __init__(self, begin: Begin) -> None:
        self._begin = begin
        self._schedule = schedule_on_this_loop()
        self.handed_over: list[str] = []

    async def run(self, run_id: str) -> None:
        """Return when the run is done; never if another worker takes it over."""
        done: Future[bool] = Future()

        async def begin() -> None:
            try:
                done.set_result(await self._begin(RunId(run_id)))
            finally:
                if not done.done():
                    done.set_result(False)

        try:
            self._schedule(lambda: spawn_on_this_loop(begin))
        except RuntimeError:  # the worker has ended with its event loop
            done.set_result(False)
        if not await asyncio.wrap_future(done):
            self.handed_over.append(run_id)
            await asyncio.get_running_loop().create_future()  # cut off with DBOS, so that it gets no outcome


def _require_new_sqlite() -> None:
    if _NEEDS_NEW_SQLITE and sqlite3.sqlite_version_info < (3, 42):
        raise ValueError(
            "in a file it needs SQLite 3.42 on Python 3.12 and newer, and there is "
            f"{sqlite3.sqlite_version}; take Postgres, or engine='record'"
        )


_listener: _Listener | None = None
_launching = threading.Lock()


async def _run(run_id: str) -> None:
    if _listener is not None:
        await _listener.run(run_id)


class DbosQueue:
    """Implements ``QueueEngine``; needs the extra ``durable``.

    Args:
        place: the file or URL of the record. The tables of DBOS are in the schema ``dbos`` of the Postgres
            database, or in a file beside that of the record.
    """

    def __init__(self, place: str, *, clock: Clock) -> None:
        self._url = place if is_postgres(place) else f"sqlite:///{place_of(place).absolute()}-dbos"
        self._clock = clock
        self._executor = f"{socket.gethostname()}-{os.getpid()}-{token_hex(4)}"
        self._client: Any = None
        self._dbos: Any = None
        self._listener: _Listener | None = None
        self._using = threading.Lock()

    async def aclose(self) -> None:
        """Close the connections; the next use opens them again."""
        await self._call("close", self._close)

    @effect
    async def submit(self, run: RecordedRun) -> Result[None, RecordErrors]:
        """Add a run of the record to its queue; a second time does nothing."""
        return await self._call("submit", partial(self._enqueue, run))

    @effect
    async def submit_again(self, run: RecordedRun) -> Result[None, RecordErrors]:
        """Add a run to its queue again if its worker is gone or could not continue it."""
        return await self._call("submit", partial(self._enqueue_again, run))

    @effect
    async def begun(self, agent_id: AgentId, queue: str) -> Result[tuple[RunId, ...], RecordErrors]:
        """Return the runs that workers took out of a queue a while ago."""
        return await self._call("begun", partial(self._pending, queue_name(agent_id, queue)))

    @effect
    async def listen(
        self, agent_id: AgentId, queue: str, limits: QueueLimits, begin: Begin
    ) -> Result[None, RecordErrors | InvalidConfig]:
        """Begin the runs of a queue on this event loop, within the limits."""
        global _listener
        if find_spec("dbos") is None:
            return Failure(InvalidConfig("engine", "dbos", "the extra 'durable' for it"))
        listener = _Listener(begin)
        with _launching:
            if _listener is not None:
                expected = "one queue of DBOS in a process; start another worker for this one"
                return Failure(InvalidConfig("queue", queue, expected))
            _listener = listener
        has_launched = False
        launch = partial(self._launch, queue_name(agent_id, queue), limits, listener)
        try:
            launched = await self._call("listen", launch)
            has_launched = isinstance(launched, Success)
        finally:
            if not has_launched:
                _listener = None
        return launched

    @effect
    async def stop(self) -> Result[None, RecordErrors]:
        """Take no more runs out of the queue."""
        return await self._call("stop", self._stop)

    @effect
    async def leave(self) -> Result[None, RecordErrors]:
        """Give unfinished runs to other workers, and end DBOS in this process."""
        return await self._call("leave", self._leave)

    # --- in worker threads --------------------------------------------------------------------------------

    async def _call(self, operation: str, work: Callable[[], _A]) -> Result[_A, RecordFailed]:
        try:
            from dbos import error as dbos_errors
            from sqlalchemy.exc import SQLAlchemyError
        except ImportError as error:
            return Failure(RecordFailed(f"Queues of DBOS need the extra 'durable' ({error}).", operation))

        failures = (SQLAlchemyError, dbos_errors.DBOSException, OSError, ValueError)
        try:
            done: list[_A] = []
            with anyio.CancelScope(shield=True):
                done.append(await anyio.to_thread.run_sync(work))
            return Success(done[0])
        except failures as error:
            sentence = f"The queue in DBOS cannot be used: {str(error).strip()}."
            _log.warning("%s (%s: %s)", sentence, operation, type(error).__name__)
            return Failure(RecordFailed(sentence, operation))

    def _connected(self) -> Any:
        with self._using:
            if self._client is None:
                from dbos import DBOS, DBOSClient

                if self._url.startswith("sqlite:"):
                    _require_new_sqlite()
                DBOS.migrate(self._url)
                self._client = DBOSClient(
                    system_database_url=self._url, application_name=APPLICATION, retry_connection_errors=False
                )
            return self._client

    def _listed(self, **chosen: Any) -> list[Any]:
        """Return workflows without their inputs and outputs."""
        found: list[Any] = self._connected().list_workflows(**chosen, load_input=False, load_output=False)
        return found

    def _close(self) -> None:
        with self._using:
            client, self._client = self._client, None
        if client is not None:
            client.destroy()

    def _enqueue(self, run: RecordedRun) -> None:
        options: dict[str, Any] = {
            "workflow_name": WORKFLOW,
            "queue_name": queue_name(run.agent_id, run.queue),
            "workflow_id": run.run_id,
            "app_version": VERSION,
            "priority": max(1, min(_HIGHEST - run.priority, 2 * _HIGHEST - 1)),
        }
        delay_s = 0.0 if run.due is None else (run.due - self._clock.now()).total_seconds()
        if delay_s > 0:
            options["delay_seconds"] = delay_s
        self._connected().enqueue(options, run.run_id)

    def _enqueue_again(self, run: RecordedRun) -> None:
        client = self._connected()
        found = self._listed(workflow_ids=[run.run_id])
        known = found[0] if found else None
        if known is not None and known.status == "PENDING":
            client.resume_workflow(run.run_id, queue_name=queue_name(run.agent_id, run.queue))
            return
        if known is not None and known.status in _ENDED:
            client.delete_workflow(run.run_id)
        self._enqueue(run)

    def _pending(self, queue: str) -> tuple[RunId, ...]:
        before = self._clock.now() - timedelta(seconds=SETTLED_S)
        found = self._listed(status="PENDING", queue_name=queue, dequeued_before=before.isoformat())
        return tuple(RunId(each.workflow_id) for each in found)

    def _launch(self, queue: str, limits: QueueLimits, listener: _Listener) -> None:
        from dbos import DBOS

        self._connected()  # creates the tables
        try:
            self._dbos = DBOS(
                config={
                    "name": APPLICATION,
                    "system_database_url": self._url,
                    "application_version": VERSION,
                    "executor_id": self._executor,
                    "log_level": "CRITICAL",
                }
            )
            DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)(_run)
            DBOS.listen_queues([queue])
            DBOS.launch()
            rate = None if limits.rate is None else {"limit": limits.rate, "period": limits.period_s}
            DBOS.register_queue(
                queue,
                worker_concurrency=min(limits.concurrency, limits.total or limits.concurrency),
                global_concurrency=limits.total,
                limiter=rate,  # type: ignore[arg-type]
                polling_interval_sec=POLL_S,
                on_conflict="always_update",
            )
            self._listener = listener
        except BaseException:
            if self._dbos is not None:
                DBOS.destroy()
            self._dbos = None
            raise

    def _stop(self) -> None:
        if self._dbos is None:
            return
        for event in self._dbos.background_thread_stop_events:
            event.set()
        until = time.monotonic() + SETTLED_S
        while _looks_for_runs() and time.monotonic() < until:
            time.sleep(_PAUSE_S)

    def _leave(self) -> None:
        global _listener
        from dbos import DBOS

        listener, self._listener, self._dbos = self._listener, None, None
        if listener is None:
            return
        until = time.monotonic() + SETTLED_S
        try:
            while self._own().keys() - set(listener.handed_over) and time.monotonic() < until:
                time.sleep(_PAUSE_S)  # until DBOS has stored their outcome
        finally:
            DBOS.destroy()
            with _launching:
                _listener = None
        for run_id, queue in self._own().items():
            self._connected().resume_workflow(run_id, queue_name=queue)

    def _own(self) -> dict[str, str]:
        """Return the running workflows of this process, with their queues."""
        found = self._listed(status="PENDING", executor_id=self._executor)
        return {each.workflow_id: each.queue_name or "" for each in found}


def queue_name(agent_id: AgentId, queue: str) -> str:
    """Return the name of an agent's queue among those of DBOS."""
    return f"{agent_id}/{queue}"


def _looks_for_runs() -> bool:
    """Return whether a thread of DBOS takes runs from a queue, or has yet to begin."""
    return any(thread.name.startswith("queue-worker-") for thread in threading.enumerate())
