"""Control of one run from any thread: a cancellation takes effect at once, and its answer is true.

A run belongs to the event loop that began it, and anyio's scopes and events may only be touched there. So
what somebody asks for is decided here under a lock, on whatever thread they are, and the loop is only told to
look. The lock also settles the race with the end of the run: a cancellation that was accepted is how the run
ends, and one that came too late is refused.
"""

from __future__ import annotations

from threading import Lock

import anyio

from reactive_agents.effects import calls_on_this_loop


class ExecutionControl:
    """Cancels one run. Made on the event loop of the run; :meth:`cancel` is for any thread.

    Attributes:
        scope: everything that the run does until it is closed.
    """

    def __init__(self) -> None:
        self.scope = anyio.CancelScope()
        self._call_soon = calls_on_this_loop()
        self._lock = Lock()
        self._cancelled = False
        self._closing = False

    def cancel(self) -> bool:
        """Cancel the run; ``False`` when its phases are over, and it is only being closed."""
        with self._lock:
            if self._closing:
                return False
            self._cancelled = True
        self._call_soon(self._cancel_scope)
        return True

    def close(self) -> bool:
        """Accept no cancellation any more; whether one was accepted before."""
        with self._lock:
            self._closing = True
            return self._cancelled

    def _cancel_scope(self) -> None:
        if not self._closing:
            self.scope.cancel()
