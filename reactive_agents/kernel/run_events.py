"""The events of one run: numbered, timed, and handed to the bus."""

from __future__ import annotations

from collections.abc import Callable

from reactive_agents.core.events import AgentEvent, Stamp
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.ports import Clock, EventBus


class RunEvents:
    """Stamps the events of one run and publishes them: ``events.publish(Kind(*events.stamp(), field=…))``."""

    __slots__ = ("_now", "_sequence", "publish", "run_id", "task_id")

    def __init__(self, bus: EventBus, clock: Clock, run_id: RunId, task_id: TaskId) -> None:
        self._now = clock.now
        self._sequence = 0
        self.publish: Callable[[AgentEvent], None] = bus.publish
        """Hand the event to the bus."""
        self.run_id = run_id
        self.task_id = task_id

    def stamp(self) -> Stamp:
        """The four fields that the next event begins with; each call takes the next number."""
        self._sequence = sequence = self._sequence + 1
        now = self._now
        return self.run_id, self.task_id, sequence, now()
