"""Control of one run from any thread: cancel, stop, pause and resume.

A run belongs to the event loop that began it, and the scopes and events of anyio may only be touched there.
So a request is accepted or refused under a lock, on the thread that makes it, and the loop is then woken to
carry it out. The lock also decides the race with the end of the run: an accepted request determines how the
run continues or ends, and a request that comes too late is refused. So the caller can rely on the answer.

A cancelled run fails. A stopped run ends as partial with its steps and the last text of the model: the model
call or tool call under way is cancelled. A paused run finishes the step under way and waits before the next
model call or tool call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from threading import Lock
from typing import Literal

import anyio
import anyio.lowlevel
from attrs import frozen

from reactive_agents.core import events
from reactive_agents.core.values import Value
from reactive_agents.event_loop import calls_on_this_loop, end_of_this_loop
from reactive_agents.kernel import RunEvents


@frozen(eq=False, repr=False)
class ControlRequest(Value):
    """An accepted request to control the run.

    Attributes:
        by: who made it; ``None`` if the record of the run says it, with the reason.
        reason: a sentence, or empty.
        at: when it was made, if the record of the run says it, or else when it was first to be entered.
    """

    kind: Literal["cancel", "stop", "pause", "resume"]
    by: str | None = ""
    reason: str = ""
    at: datetime | None = None

    def sentence(self, missing: str) -> str:
        """Return the reason of the partial result, and what is ``missing``, if anything."""
        given = self.reason.strip().rstrip(".")
        stopped = f"The run was stopped: {given}." if given else "The run was stopped."
        return f"{stopped} Missing: {missing}." if missing else stopped


class ExecutionControl:
    """Cancels, stops, pauses and resumes one run.

    It is created on the event loop of the run. ``cancel``, ``stop``, ``pause`` and ``resume`` may be called
    from any thread, and return whether the request was accepted.

    Args:
        above: the control of a run on the same event loop, which pauses and stops this run as well.

    Attributes:
        scope: the phases of the run, cancelled by ``cancel`` and, until there is an answer, by ``stop``.
        stopped: the accepted request to stop.
        requests: the accepted requests that are not in the audit log yet.
        enter_requests: enters them there; ``None`` without an audit log.
        call_soon: calls a function on the event loop of the run, from any thread.
        is_lost: returns whether the event loop was closed, so that the run never goes on.
    """

    def __init__(self, events: RunEvents, above: ExecutionControl | None = None) -> None:
        self.scope = anyio.CancelScope()
        self.stopped: ControlRequest | None = None
        self.requests: list[ControlRequest] = []
        self.enter_requests: Callable[[], Awaitable[None]] | None = None
        self._events = events
        self._above = above
        self._below: ExecutionControl | None = None
        if above is not None:
            above._below = self
        self.call_soon = calls_on_this_loop()
        self.is_lost = end_of_this_loop()
        self._lock = Lock()
        self._cancelled = False
        self._answered = False
        self._closing = False
        self._paused = False
        self._held = 0
        self._resumed: anyio.Event | None = None

    @property
    def is_closing(self) -> bool:
        """Return whether the phases of the run are over."""
        return self._closing or self.is_lost()

    @property
    def is_held(self) -> bool:
        """Return whether a step waits for the run to be resumed."""
        return self._held > 0

    def cancel(self, by: str | None = "") -> bool:
        """Cancel the run; ``False`` when its phases are over."""
        with self._lock:
            if self._closing:
                return False
            if not self._cancelled:
                self.requests.append(ControlRequest("cancel", by))
            self._cancelled, self._paused = True, False
        self.call_soon(self._cancel_until_closing)
        return True

    def stop(self, reason: str = "", by: str | None = "") -> bool:
        """End the run as partial, by the first reason; ``False`` when that is too late."""
        with self._lock:
            if self._answered or self._cancelled:
                return False
            if self.stopped is None:
                self.stopped = ControlRequest("stop", by, reason)
                self.requests.append(self.stopped)
            self._paused = False
            below = self._below
        if below is not None and below.stop(reason, by):  # its partial answer is that of this run too
            return True
        self.call_soon(self._cancel_until_answered)
        return True

    def pause(self, by: str | None = "") -> bool:
        """Hold the run before its next step; ``False`` when it is being ended."""
        with self._lock:
            if self._answered or self._cancelled or self.stopped is not None:
                return False
            if not self._paused:
                self.requests.append(ControlRequest("pause", by))
            self._paused = True
            return True

    def resume(self, by: str | None = "") -> bool:
        """Let a paused run continue; ``False`` when it is not paused."""
        with self._lock:
            if not self._paused:
                return False
            self.requests.append(ControlRequest("resume", by))
            self._paused = False
            resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self.call_soon(resumed.set)
        return True

    # --- for the run itself, on its event loop ------------------------------------------------------------

    async def hold(self, next_step: str) -> None:
        """Wait while the run is paused, and begin no step of a run that is being ended.

        Also wait for readers of the run's events that are behind. Await it before each model call and each
        tool call.
        """
        if self._above is not None:
            await self._above._while_paused(next_step)
        if self._cancelled or (self.stopped is not None and not self._answered):
            self.scope.cancel()  # the thread that accepted it may not have woken this loop yet
            await anyio.lowlevel.checkpoint_if_cancelled()
        if self._events.readers:
            await self._events.keep_up()
        if self._paused:
            await self._while_paused(next_step)

    async def _while_paused(self, next_step: str) -> None:
        while self._paused:
            with self._lock:
                if not self._paused:
                    return
                resumed = self._resumed = self._resumed or anyio.Event()
            self._held += 1
            if self._held == 1:  # several calls of one turn may be held
                self._events.publish(events.ExecutionPaused, next_step)
            try:
                if self.enter_requests is not None:
                    await self.enter_requests()
                await resumed.wait()
            finally:
                self._held -= 1
                if not self._held:
                    self._events.publish(events.ExecutionResumed)

    def mark_answered(self) -> ControlRequest | None:
        """Refuse to stop or pause from now on; return an earlier request to stop."""
        with self._lock:
            self._answered = True
            return self.stopped

    def close(self) -> bool:
        """Refuse every request from now on; return whether a cancellation was accepted."""
        if self._above is not None:
            self._above._below = None
        with self._lock:
            self._answered = self._closing = True
            return self._cancelled

    def end_stopped_run(self) -> anyio.CancelScope:
        """Return the scope of the last phases of a run whose first ones were stopped."""
        self.scope = anyio.CancelScope()
        if self._cancelled:
            self.scope.cancel()
        return self.scope

    def _cancel_until_closing(self) -> None:
        if not self._closing:
            self.scope.cancel()

    def _cancel_until_answered(self) -> None:
        if not self._answered:
            self.scope.cancel()
