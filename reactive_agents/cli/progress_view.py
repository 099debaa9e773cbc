"""Views of a run's progress: plain lines, or none.

The live view of a terminal is in ``live_view``.
"""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Protocol, TextIO

import typer

from reactive_agents.cli.event_lines import KINDS, describe
from reactive_agents.cli.output import one_line, printable
from reactive_agents.core.events import AgentEvent
from reactive_agents.core.governance import ApprovalRequest

KIND_WIDTH = max(map(len, KINDS))


class View(Protocol):
    """Shows the events of a run while it is entered as a context manager."""

    def __enter__(self) -> View: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, event: AgentEvent) -> None:
        """Show an event, or ignore it."""
        ...

    def ask(self, request: ApprovalRequest) -> bool:
        """Ask on the terminal whether a tool call may run.

        Every answer but a clear yes is a no.
        """
        ...


class SilentView:
    """A view that shows nothing, but asks for approval."""

    def __enter__(self) -> SilentView:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, event: AgentEvent) -> None:
        """Ignore the event."""

    def ask(self, request: ApprovalRequest) -> bool:
        """Ask on standard error, and read the answer from standard input."""
        arguments = json.dumps(request.arguments, ensure_ascii=False)
        question = printable(f"Run {request.tool_name} {arguments} ({request.risk} risk)? [y/N] ")
        typer.echo(question, nl=False, err=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")


class PlainView(SilentView):
    """A view that writes one line for each event worth showing."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def show(self, event: AgentEvent) -> None:
        """Write the event's line."""
        line = describe(event)
        if line is not None:
            typer.echo(f"{line.kind:<{KIND_WIDTH}}  {one_line(line.text)}", file=self._output)


def progress_view(output: TextIO) -> View:
    """Return the live view when the output is a terminal, else the plain one."""
    if not output.isatty():
        return PlainView(output)
    from reactive_agents.cli.live_view import LiveView  # imports rich

    return LiveView(output)
