"""Start and end of the ``reactive-agents`` process.

The command must end with one of its exit codes and at most one sentence, even if it is interrupted during
imports, standard input or error is closed, standard output is full, or an abandoned tool still runs in a
thread. All of this is handled here, not in the subcommands. The top imports hardly more than the standard
library, so that the first signal handlers are set early.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import threading
import time
from typing import Any, NoReturn, TextIO, cast

from reactive_agents.cli import exit_on_interrupt, raise_on_interrupt

_THREAD_GRACE_S = 0.5
"""Seconds that threads have to end after the command."""


class _Output:
    """A text stream that remembers why it could not be written."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.problem: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError as error:
            self.problem = error
            raise

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self.problem = error
            raise


def main() -> None:
    """Run the command line of this process and exit with its exit code.

    Prints one sentence instead of a traceback if the process is interrupted early or standard output cannot
    be written. Does not wait for threads of abandoned tools.
    """
    try:
        try:
            _run()
        except KeyboardInterrupt:
            _exit_with("Interrupted.", 130)
    except SystemExit as end:
        _abandon_threads(end)
        raise


def _run() -> None:
    _complete_streams()
    if sys.stdout is None:  # reported before a run costs money
        _exit_with("error: Standard output is closed.", 1)
    exit_on_interrupt()
    gc.disable()  # until the subcommand is imported
    from reactive_agents.cli.app import app

    output = _Output(sys.stdout)
    sys.stdout = cast(TextIO, output)
    try:
        try:
            app(prog_name="reactive-agents")
        finally:
            raise_on_interrupt()
            sys.stdout.flush()
    except (OSError, ExceptionGroup):
        if output.problem is None:
            raise
        # text still in the buffer would fail again at the end of the process
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        _exit_with(f"error: Standard output cannot be written: {output.problem.strerror}.", 1)


def _complete_streams() -> None:
    """Replace closed standard input and error by the null device.

    Characters that the terminal cannot show are printed as question marks, and bytes of another encoding in
    the input are no error. A byte order mark is skipped.
    """
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115 - as long as the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - as long as the process
    if isinstance(sys.stdin, io.TextIOWrapper):
        is_marked = sys.stdin.encoding.lower() in ("utf-8", "utf8") and not sys.stdin.isatty()
        sys.stdin.reconfigure(encoding="utf-8-sig" if is_marked else None, errors="surrogateescape")
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _abandon_threads(end: SystemExit) -> None:
    """End the process when an abandoned tool still runs; Python would wait for it."""
    others = [each for each in threading.enumerate() if not each.daemon]
    others.remove(threading.main_thread())
    until = time.monotonic() + _THREAD_GRACE_S
    for thread in others:
        thread.join(max(0.0, until - time.monotonic()))
    if any(thread.is_alive() for thread in others):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def _exit_with(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(code)
