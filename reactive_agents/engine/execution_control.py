"""Control of one run from any thread: cancel, stop, pause and resume take effect, and their answers are true.

A run belongs to the event loop that began it, and the scopes and events of anyio may only be touched there.
So a wish is decided here under a lock, on whatever thread it comes from, and the loop is only woken to carry
it out. The lock also settles the race with the end of the run: a wish that was accepted is how the run goes
on or ends, and one that comes too late is refused.

A cancelled run fails. A stopped run ends as partial with what there is, wherever it was: the model call or
tool under way is cut off. A paused run finishes the step that is under way and is held before the next one,
which is a model call or a tool call; pausing takes nothing away, so it needs no scope.
"""

from __future__ import annotations

from threading import Lock

import anyio
from attrs import frozen

from reactive_agents.core.events import ExecutionPaused, ExecutionResumed
from reactive_agents.effects import calls_on_this_loop
from reactive_agents.kernel import RunEvents


@frozen
class StopRequest:
    """A wish that the run ends now as partial. ``reason``: a sentence, or empty."""

    reason: str = ""

    def sentence(self, missing: str) -> str:
        """Return the reason of the partial result. ``missing``: what it lacks, or empty."""
        given = self.reason.strip().rstrip(".")
        stopped = f"The run was stopped: {given}." if given else "The run was stopped."
        return f"{stopped} Missing: {missing}." if missing else stopped


class ExecutionControl:
    """Cancels, stops, pauses and resumes one run. Made on the event loop of the run.

    ``cancel``, ``stop``, ``pause`` and ``resume`` are for any thread, and return whether they were accepted.

    Attributes:
        scope: everything that the run does until it is closed, which ``cancel`` cuts off.
        work: the part of it up to the verified answer, which ``stop`` cuts off.
        stopped: the accepted wish to stop.
    """

    def __init__(self, events: RunEvents) -> None:
        self.scope = anyio.CancelScope()
        self.work = anyio.CancelScope()
        self.stopped: StopRequest | None = None
        self._events = events
        self._call_soon = calls_on_this_loop()
        self._lock = Lock()
        self._cancelled = False
        self._answered = False
        self._closing = False
        self._paused = False
        self._held = 0
        self._resumed: anyio.Event | None = None

    @property
    def is_closing(self) -> bool:
        """Whether the phases of the run are over."""
        return self._closing

    @property
    def is_held(self) -> bool:
        """Whether a step waits for the run to be resumed."""
        return self._held > 0

    def cancel(self) -> bool:
        """Cancel the run; ``False`` when its phases are over."""
        with self._lock:
            if self._closing:
                return False
            self._cancelled = True
        self._call_soon(self._cancel_scope)
        return True

    def stop(self, reason: str = "") -> bool:
        """End the run as partial; ``False`` when it has its answer. The first reason counts."""
        with self._lock:
            if self._answered or self._closing:
                return False
            self.stopped = self.stopped or StopRequest(reason)
        self._call_soon(self._cancel_work)
        return True

    def pause(self) -> bool:
        """Hold the run before its next step; ``False`` when it has its answer."""
        with self._lock:
            if self._answered or self._closing:
                return False
            self._paused = True
            return True

    def resume(self) -> bool:
        """Let a paused run continue; ``False`` when it is not paused."""
        with self._lock:
            if not self._paused:
                return False
            self._paused = False
            resumed, self._resumed = self._resumed, None
        if resumed is not None:
            self._call_soon(resumed.set)
        return True

    # --- for the run itself, on its event loop ------------------------------------------------------------

    async def hold(self, next_step: str) -> None:
        """Wait while the run is paused. To be awaited before each model call and each tool call."""
        while self._paused:
            with self._lock:
                if not self._paused:
                    return
                resumed = self._resumed = self._resumed or anyio.Event()
            self._held += 1
            if self._held == 1:  # several calls of one turn may be held
                self._events.publish(ExecutionPaused, next_step)
            try:
                await resumed.wait()
            finally:
                self._held -= 1
                if not self._held:
                    self._events.publish(ExecutionResumed)

    def answer(self) -> StopRequest | None:
        """Refuse to stop or pause from now on; return the wish to stop that was accepted before."""
        with self._lock:
            self._answered = True
            return self.stopped

    def close(self) -> bool:
        """Refuse everything from now on; whether a cancellation was accepted before."""
        with self._lock:
            self._answered = self._closing = True
            return self._cancelled

    def _cancel_scope(self) -> None:
        if not self._closing:
            self.scope.cancel()

    def _cancel_work(self) -> None:
        if not self._answered:
            self.work.cancel()
