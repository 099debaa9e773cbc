"""The live view of a run on a terminal, drawn by rich."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from reactive_agents.adapters.telemetry import console
from reactive_agents.core import events
from reactive_agents.core.texts import dollars, one_line

_KINDS_OF_STYLE = {
    "dim": "phase strategy model tool",
    "blue": "plan step",
    "": "thought",
    "yellow": "critique review guidance approval handoff question external budget",
    "cyan": "action",
    "green": "result",
    "bold yellow": "guard partial abstain",
    "magenta": "verify",
    "bold red": "failure failed",
    "bold green": "done",
}
STYLES = {kind: style for style, kinds in _KINDS_OF_STYLE.items() for kind in kinds.split()}
_TAIL_CHARACTERS = 60


class LiveView(console.SilentView):
    """Scrolling lines above a status line: phase, tokens, dollars, streamed text.

    Args:
        width: columns; ``None`` for those of the terminal.
    """

    def __init__(self, output: TextIO, *, width: int | None = None) -> None:
        self._console = Console(file=output, force_terminal=True, width=width)
        self._spinner = Spinner("dots")
        self._live = Live(self._spinner, console=self._console, transient=True, refresh_per_second=12)
        self._phase = ""
        self._tokens = 0
        self._cost_usd = 0.0
        self._text = self._progress = ""
        self._shown = False
        self._changing = Lock()

    def __enter__(self) -> LiveView:
        with self._changing:
            self._shown = True
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()
        with self._changing:
            self._shown = False
            self._live.stop()

    def show(self, event: events.AgentEvent) -> None:
        """Print the event's line and update the status line."""
        match event:
            case events.ModelTextStreamed(text=text) | events.ModelThinkingStreamed(text=text):
                self._text = (self._text + text)[-_TAIL_CHARACTERS:]
            case events.ModelStreamRestarted() | events.ModelTextRetracted():
                self._text = ""
            case events.ModelCallCompleted() | events.ModelCallAbandoned():
                self._text = ""
                self._tokens += sum(each.usage.total_tokens for each in event.spent)
                self._cost_usd += sum(each.cost_usd for each in event.spent)
            case events.ExecutionPhaseEntered(phase=phase, parent_run_id=None):
                self._phase = phase
            case events.ToolCallCompleted():
                self._progress = ""
        line = console.describe(event)
        if isinstance(event, events.ToolProgressed) and line is not None:
            self._progress = console.text_of(line, console.agent_of(event))
        elif line is not None and line.kind not in self.left_out:
            self.write(line, console.agent_of(event))
        self._spinner.update(text=Text(self._status(), no_wrap=True, overflow="ellipsis"))

    def write(self, line: console.Line, agent: str = "") -> None:
        """Print a line above the status line."""
        text = Text(f"{line.kind:<{console.KIND_WIDTH}}  ", style="dim", no_wrap=True, overflow="ellipsis")
        text.append(console.text_of(line, agent), style=STYLES[line.kind] or "default")
        with console.HOLDING:
            if not self._holds(line, agent):
                self._console.print(text)

    def _ask(self, question: str, *above: str) -> str:
        """Ask with the status line hidden."""
        with console.TERMINAL, self._hidden():
            return super()._ask(question, *above)

    @contextmanager
    def _hidden(self) -> Iterator[None]:
        self._live.stop()
        try:
            yield
        finally:
            with self._changing:
                if self._shown:  # the view may have ended during the question
                    self._live.start()

    def _status(self) -> str:
        phase = f"agent loop, {self._phase}" if self._phase in console.LOOP_PHASES else self._phase
        parts = (
            phase,
            f"{self._tokens} tokens",
            dollars(self._cost_usd),
            self._progress,
            one_line(self._text),
        )
        return " · ".join(part for part in parts if part)
