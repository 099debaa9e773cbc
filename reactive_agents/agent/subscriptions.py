"""Event handlers of agents and personas, plain and async, and streams of events."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Any

import anyio
from attrs import define, evolve, field
from returns.result import Failure, Result, Success

from reactive_agents.adapters.telemetry.event_bus import (
    AsyncEventHandler,
    EventBuffer,
    PlainHandler,
    QueuedHandler,
    is_async,
)
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.ids import RunId
from reactive_agents.core.run_context import can_take
from reactive_agents.core.tasks import Task, TaskResult
from reactive_agents.engine import ExecutionEngine
from reactive_agents.engine.services import NO_OVERRIDES, RunOverrides
from reactive_agents.event_loop import spawn_on_this_loop
from reactive_agents.kernel.service_calls import CheckedIds, ServiceFaults
from reactive_agents.ports import EventBus, EventHandler

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent, TaskFailed

_log = logging.getLogger("reactive_agents")
_PATIENCE_S = 5.0


class Subscriptions:
    """Subscribes handlers to a bus, and waits for them at the end."""

    def __init__(self) -> None:
        self._queued: set[QueuedHandler | PlainHandler] = set()

    def add(
        self, bus: EventBus, handler: EventHandler | AsyncEventHandler, *, run_id: RunId | None = None
    ) -> Result[Callable[[], None], InvalidConfig]:
        """Subscribe a handler; return a function that unsubscribes it.

        Fails with ``InvalidConfig`` when the handler is no function of an event, or is async and subscribed
        outside of an event loop.
        """
        if not callable(handler) or not can_take(handler, 1, follow_wrapped=True):
            return Failure(InvalidConfig("handler", abbreviated(handler), "a function of an event"))
        given: Any = handler  # plain or async, which the types do not tell apart
        try:
            queued = QueuedHandler(given) if is_async(given) else PlainHandler(given)
        except RuntimeError:
            expected = "a plain function, or an async one that is subscribed within its event loop"
            return Failure(InvalidConfig("handler", abbreviated(handler), expected))
        end = bus.subscribe(queued, run_id=run_id)
        self._queued.add(queued)

        def unsubscribe() -> None:
            end()
            queued.discard()
            self._queued.discard(queued)

        return Success(unsubscribe)

    async def drain(self) -> None:
        """Wait, 5 seconds at most, until handlers have handled their events."""
        with anyio.move_on_after(_PATIENCE_S) as waiting:
            for queued in tuple(self._queued):
                await queued.drain()
        if waiting.cancelled_caught:
            _log.warning("Event handlers had not handled all events within %g seconds.", _PATIENCE_S)


@define(eq=False)
class _Run:
    """A run in a separate task."""

    done: anyio.Event = field(factory=anyio.Event)
    crash: BaseException | None = None
    scope: anyio.CancelScope = field(factory=anyio.CancelScope)


async def stream_events(
    engine: ExecutionEngine,
    task: Task,
    overrides: RunOverrides = NO_OVERRIDES,
    *,
    run_id: RunId | None = None,
    on_end: Callable[[Result[TaskResult, TaskFailed]], None] | None = None,
) -> AsyncGenerator[AgentEvent, None]:
    """Yield every event of a run, and of the runs that its tools begin.

    The run waits while the consumer is slow; it is cancelled and awaited when the consumer leaves.

    Args:
        on_end: called with the outcome, in which nothing is redacted, before the stream ends.
    """
    ids = CheckedIds(engine.ports.ids, ServiceFaults(), str(task.id))
    run_id = run_id or RunId(ids.new())
    run, buffer = _Run(), EventBuffer(run_id, engine.ports.redactor)
    unsubscribe = engine.ports.events.subscribe(buffer.show, run_id=run_id)
    overrides = evolve(overrides, readers=(*overrides.readers, buffer))

    async def conduct() -> None:
        try:
            with run.scope:
                outcome = await engine.conduct(task, run_id=run_id, overrides=overrides)
                if on_end is not None:
                    on_end(outcome)
        except BaseException as error:  # noqa: BLE001 - raised again where the events are consumed
            run.crash = error
        finally:
            buffer.close()
            run.done.set()

    spawn_on_this_loop(conduct)  # a generator must not hold a task group across a yield
    try:
        while (event := await buffer.get()) is not None:
            yield event
    finally:
        unsubscribe()
        if not run.done.is_set():
            if engine.ports.record or isinstance(
                engine.cancel(task.id, by="the reader of its stream, who left"), Failure
            ):  # can be continued
                run.scope.cancel()
            buffer.close()  # a run that waits for the reader is cancelled before it goes on
            with anyio.CancelScope(shield=True):
                await run.done.wait()
    if run.crash is not None:
        raise run.crash
