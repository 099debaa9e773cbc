"""Where the process of ``reactive-agents`` begins and ends.

The commands are imported late, since that takes long enough to be interrupted.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn, TextIO, cast

_PATIENCE_S = 0.5
"""Seconds that threads have to end when the command has."""


class _Output:
    """A text stream that remembers why it could not be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.problem: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write to the stream."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self.problem = error
            raise

    def flush(self) -> None:
        """Flush the stream."""
        try:
            self._stream.flush()
        except OSError as error:
            self.problem = error
            raise


def main() -> None:
    """Run the command line of this process.

    It ends with an exit code and at most a sentence also when it is interrupted before a command heeds that,
    and when standard output cannot be written. It does not wait for tools that were abandoned.
    """
    try:
        try:
            _run()
        except KeyboardInterrupt:
            _stop("Interrupted.", 130)
    except SystemExit as end:
        _leave_threads_behind(end)
        raise


def _run() -> None:
    _complete_streams()
    if sys.stdout is None:  # said before a run costs something, rather than once its answer is lost
        _stop("error: Standard output is closed.", 1)
    heeds_interrupts = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if heeds_interrupts:
        signal.signal(signal.SIGINT, _leave)
    from reactive_agents.cli.app import app

    if heeds_interrupts:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    output = _Output(sys.stdout)
    sys.stdout = cast(TextIO, output)
    try:
        try:
            app(prog_name="reactive-agents")
        finally:
            sys.stdout.flush()
    except (OSError, ExceptionGroup):
        if output.problem is None:
            raise
        # what is still in the stream would fail again at the end of the process
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        _stop(f"error: Standard output cannot be written: {output.problem.strerror}.", 1)


def _complete_streams() -> None:
    """Stand-ins for standard input and error where they are closed.

    A terminal that cannot show a character shows a mark in its place, and the run goes on.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _leave_threads_behind(end: SystemExit) -> None:
    """End the process here when a tool that was abandoned still runs: by itself Python would wait for it."""
    others = [each for each in threading.enumerate() if not each.daemon]
    others.remove(threading.main_thread())
    until = time.monotonic() + _PATIENCE_S
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def _leave(signal_number: int, frame: object) -> NoReturn:
    """End the process at once, since an exception may be lost on its way through what is being imported."""
    os.write(2, b"Interrupted.\n")
    os._exit(130)


def _stop(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(code)
