"""Streaming: the events of one run as an async iterator."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import anyio
from attrs import define, field

from reactive_agents.core.ids import RunId
from reactive_agents.core.tasks import Task
from reactive_agents.effects import attempt, spawn_on_this_loop
from reactive_agents.engine import ExecutionEngine

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent


@define(eq=False)
class _Run:
    """A run in a separate task."""

    done: anyio.Event = field(factory=anyio.Event)
    crash: BaseException | None = None


async def stream_events(engine: ExecutionEngine, task: Task) -> AsyncGenerator[AgentEvent, None]:
    """Yield every event of a run; cancel and await the run when the consumer leaves."""
    run_id = RunId(engine.ports.ids.new())
    run = _Run()
    send, receive = anyio.create_memory_object_stream["AgentEvent"](math.inf)
    unsubscribe = engine.ports.events.subscribe(send.send_nowait, run_id=run_id)

    async def conduct() -> None:
        try:
            await attempt(engine.conduct(task, run_id=run_id, streaming=True))
        except BaseException as error:  # noqa: BLE001 - raised again where the events are consumed
            run.crash = error
        finally:
            send.close()
            run.done.set()

    with receive:
        spawn_on_this_loop(conduct)  # a generator must not hold a task group across a yield
        try:
            async for event in receive:
                yield event
        finally:
            unsubscribe()
            if not run.done.is_set():
                engine.cancel(task.id)
                with anyio.CancelScope(shield=True):
                    await run.done.wait()
    if run.crash is not None:
        raise run.crash
