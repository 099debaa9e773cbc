"""Where the process of ``reactive-agents`` begins and ends.

The commands are imported late, since that takes long enough to be interrupted.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn, TextIO, cast


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
    and when standard output cannot be written.
    """
    try:
        _run()
    except KeyboardInterrupt:
        _stop("Interrupted.", 130)


def _run() -> None:
    _complete_streams()
    if sys.stdout is None:  # said before a run costs something, rather than once its answer is lost
        _stop("error: Standard output is closed.", 1)
    from reactive_agents.cli.app import app

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


def _stop(message: str, code: int) -> NoReturn:
    sys.stderr.write(f"{message}\n")
    sys.exit(code)
