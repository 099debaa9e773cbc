"""How a run is watched: live on a terminal, line by line elsewhere, or not at all."""

from __future__ import annotations

import json
import sys
from types import TracebackType
from typing import Protocol, TextIO

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from reactive_agents.cli.event_lines import LOOP_PHASES, Line, describe, one_line, printable
from reactive_agents.core.events import (
    AgentEvent,
    ExecutionPhaseEntered,
    ModelCallAbandoned,
    ModelCallCompleted,
    ModelStreamRestarted,
    ModelTextStreamed,
)
from reactive_agents.core.governance import ApprovalRequest

STYLES = {
    "phase": "dim",
    "strategy": "dim",
    "model": "dim",
    "plan": "blue",
    "step": "blue",
    "thought": "",
    "critique": "yellow",
    "review": "yellow",
    "action": "cyan",
    "tool": "dim",
    "result": "green",
    "guidance": "yellow",
    "guard": "bold yellow",
    "approval": "yellow",
    "verify": "magenta",
    "budget": "yellow",
    "failure": "bold red",
    "failed": "bold red",
    "partial": "bold yellow",
    "done": "bold green",
}
_WIDTH = max(map(len, STYLES))
_TAIL_CHARACTERS = 60


class View(Protocol):
    """Shows the events of a run while it is entered as a context manager."""

    def __enter__(self) -> View: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def show(self, event: AgentEvent) -> None:
        """Show an event, or pass it over."""
        ...

    def ask(self, request: ApprovalRequest) -> bool:
        """Ask on the terminal whether a tool call may run; anything but a clear yes is a no."""
        ...


class Silent:
    """Shows nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def show(self, event: AgentEvent) -> None:
        """Nothing."""

    def ask(self, request: ApprovalRequest) -> bool:
        """Ask on standard error, and read the answer from standard input."""
        arguments = json.dumps(request.arguments, ensure_ascii=False)
        question = printable(f"Run {request.tool_name} {arguments} ({request.risk} risk)? [y/N] ")
        typer.echo(question, nl=False, err=True)
        return sys.stdin.readline().strip().lower() in ("y", "yes")


class PlainLines(Silent):
    """One plain line for each event that a person may want to see."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def show(self, event: AgentEvent) -> None:
        """Write the event's line."""
        line = describe(event)
        if line is not None:
            typer.echo(f"{line.kind:<{_WIDTH}}  {one_line(line.text)}", file=self._output)


class LiveView(Silent):
    """Lines that scroll by, and below them where the run stands and what it has spent."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._spinner = Spinner("dots")
        self._live = Live(self._spinner, console=console, transient=True, refresh_per_second=12)
        self._phase = ""
        self._tokens = 0
        self._cost_usd = 0.0
        self._text = ""

    def __enter__(self) -> LiveView:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, event: AgentEvent) -> None:
        """Print the event's line, and bring the line below up to date."""
        match event:
            case ModelTextStreamed(text=text):
                self._text = (self._text + text)[-_TAIL_CHARACTERS:]
            case ModelStreamRestarted():
                self._text = ""
            case ModelCallCompleted() | ModelCallAbandoned():
                self._text = ""
                self._tokens += sum(each.usage.total_tokens for each in event.spent)
                self._cost_usd += sum(each.cost_usd for each in event.spent)
            case ExecutionPhaseEntered(phase=phase):
                self._phase = phase
        line = describe(event)
        if line is not None:
            self._console.print(_styled(line))
        self._spinner.update(text=Text(self._status(), no_wrap=True, overflow="ellipsis"))

    def ask(self, request: ApprovalRequest) -> bool:
        """Ask with the line below out of the way."""
        self._live.stop()
        try:
            return super().ask(request)
        finally:
            self._live.start()

    def _status(self) -> str:
        phase = f"agent loop, {self._phase}" if self._phase in LOOP_PHASES else self._phase
        return f"{phase} · {self._tokens} tokens · ${self._cost_usd:.4f} · {one_line(self._text)}".rstrip(
            " ·"
        )


def progress_view(output: TextIO) -> View:
    """The live view when the output is a terminal, else plain lines."""
    console = Console(file=output)
    return LiveView(console) if console.is_terminal else PlainLines(output)


def _styled(line: Line) -> Text:
    text = Text(f"{line.kind:<{_WIDTH}}  ", style="dim", no_wrap=True, overflow="ellipsis")
    return text.append(one_line(line.text), style=STYLES[line.kind] or "default")
