"""Events as lines of text for a person who watches a run, and their views.

The match below covers the union of all events and ends with ``None`` for events that need no line. Add the
line of a new event here. rich, which draws the view for terminals, is imported by that view.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from threading import Lock, RLock
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias, get_args

import anyio.from_thread
from attrs import frozen

from reactive_agents.core import events, governance
from reactive_agents.core.bases import named_period
from reactive_agents.core.codec import from_json
from reactive_agents.core.errors import root_cause
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import Json
from reactive_agents.core.tasks import TaskResultMetadata
from reactive_agents.core.texts import counted, dollars, escaped, one_line, printable
from reactive_agents.core.usage import RunUsage, Usage

if TYPE_CHECKING:
    from rich.text import Text

LOOP_PHASES = ("think", "act", "observe")

LineKind: TypeAlias = Literal[
    "phase",
    "strategy",
    "model",
    "plan",
    "step",
    "thought",
    "critique",
    "review",
    "action",
    "tool",
    "result",
    "guidance",
    "guard",
    "approval",
    "handoff",
    "question",
    "external",
    "verify",
    "budget",
    "failure",
    "failed",
    "partial",
    "abstain",
    "done",
]
KINDS: tuple[LineKind, ...] = get_args(LineKind)

_KIND_OF_PASS: dict[str, LineKind] = {
    "plan": "plan",
    "search": "plan",
    "critique": "critique",
    "reflect": "review",
    "select": "strategy",
}
"""The kind of line for a strategy's own model call, by the end of its label."""
_KIND_OF_END: dict[str, LineKind] = {
    "completed": "done",
    "partial": "partial",
    "abstained": "abstain",
    "failed": "failed",
}


@frozen
class Line:
    """The text of an event. ``kind``: its subject in one word."""

    kind: LineKind
    text: str


def describe(event: events.AgentEvent) -> Line | None:
    """Return the event as a line; ``None`` for an event that is not shown."""
    match event:
        case events.ExecutionPhaseEntered(phase=phase) if phase not in LOOP_PHASES:
            return Line("phase", phase)
        case events.ExecutionPhaseSkipped(phase=phase, reason=reason):
            return Line("phase", f"{phase}, skipped: {reason}")
        case events.RunContinued(attempt=attempt):
            return Line("phase", f"the run is continued, attempt {attempt}")
        case events.SessionAwaited(session=session):
            return Line("phase", f"waits until earlier runs of the session {session} have ended")
        case events.ExecutionLoopIteration(iteration=iteration):
            return Line("phase", f"think, act, observe: turn {iteration + 1}")
        case events.ExecutionPhaseFailed(phase=phase, error=error, fatal=False):
            return Line("failure", f"{phase}: {error.message} The run continues.")
        case events.MemoryBootstrapped(problem=problem) | events.MemoryFlushed(problem=problem) if problem:
            return Line("failure", f"memory: {problem} The run continues.")
        case events.ExecutionHookFailed(phase=phase, timing=timing, error=error_text):
            return Line("failure", f"a hook for {phase}/{timing}: {error_text}")
        case events.DependenciesNotClosed(function=function, error=error_text):
            return Line("failure", f"the dependencies of {function} could not be closed: {error_text}")
        case events.StrategySelected(strategy=strategy, reason=reason):
            return Line("strategy", f"{strategy}, {reason}")
        case events.PlanCreated(plan_id=plan_id, steps=steps, mode=mode, resumed=resumed):
            begins = "resumed" if resumed else "begins"
            return Line("plan", f"{plan_id} {begins}: {counted(len(steps), 'step')}, {mode}")
        case events.PlanStepChanged(step_id=step_id, status="in_progress", title=title, retries=0):
            return Line("step", f"{step_id} begins: {title}")
        case events.PlanStepChanged(step_id=step_id, status="in_progress", retries=retries, error=error):
            return Line("step", f"{step_id}, attempt {retries + 1}: {error}")
        case events.PlanStepChanged(step_id=step_id, status=status, title=title, error=error):
            return Line("step", f"{step_id} {status}: {error or title}")
        case events.PlanRevised(version=version, change=change, steps=steps):
            ahead = "; ".join(f"{step.id} {step.title}" for step in steps)
            return Line("plan", f"{change}, version {version}, remaining: {ahead or 'nothing'}")
        case events.PlanEnded(status=status):
            return Line("plan", "stays active and can be resumed" if status == "active" else status)
        case events.PlanStoreFailed(error=error):
            return Line("failure", f"plan: {error.message} The run continues, and the plan is not stored.")
        case events.ReasoningStepCompleted():
            return _step(event)
        case events.ToolCallCompleted(tool_name=name, success=success, duration_ms=duration_ms):
            again = ", from the record" if event.replayed else ""
            told = f"{name} {'succeeded' if success else 'failed'} in {_duration(duration_ms)}{again}"
            return Line("tool", told)
        case events.ToolProgressed(tool_name=name, progress=part, message=message):
            done = "" if part is None else f" {part:.0%}"
            return Line("tool", f"{name}{done}{f': {message}' if message else ''}")
        case events.CustomEvent(tool_name=tool, name=name, data=data):
            return Line("tool", f"{tool} {name}: {json.dumps(data, ensure_ascii=False)}".lstrip())
        case events.ApprovalRequested():
            call = (event.tool_name, event.arguments, event.risk, event.copied, event.notice)
            return Line("approval", governance.described_request(*call, also=" waits for approval."))
        case events.ApprovalDecided(tool_name=name, approved=approved, arguments=changed):
            told = governance.signed(event.reason, event.by)
            verdict = "approved" if approved else "denied"
            verdict += "" if changed is None else f", with {json.dumps(changed, ensure_ascii=False)}"
            verdict += f": {told or 'no reason given'}" if told or not approved else ""
            return Line("approval", escaped(f"{name} {verdict}"))
        case events.HandedOff(to_agent=to_agent, reason=reason):
            return Line("handoff", f"to {to_agent}{f': {reason}' if reason else ''}")
        case events.QuestionAsked(text=question):
            return Line("question", f"{question} (waits for an answer)")
        case events.QuestionAnswered(answered=answered, answer=given, reason=reason):
            return Line("question", f"answered: {given}" if answered else f"not answered: {reason}")
        case events.ExternalCallRequested(tool_name=name, arguments=arguments):
            return Line("external", f"{name} {_json(arguments)} waits for its result")
        case events.ExternalCallDelivered(tool_name=name, delivered=delivered, reason=reason):
            return Line("external", f"{name} {'delivered' if delivered else f'not delivered: {reason}'}")
        case events.GuidanceGiven(policy=policy, text=text):
            return Line("guidance", f"{policy}: {text}")
        case events.ContextLost(reason=reason):
            return Line("failure", reason)
        case events.ModelCallCompleted(model=model, usage=usage, cost_usd=cost_usd, duration_ms=duration_ms):
            tokens = f"{usage.total_tokens} tokens" if usage.reported else "tokens unknown"
            took = "from the record" if event.replayed else _duration(duration_ms)
            figures = f"{tokens}, {_price(cost_usd)}, {took}"
            return Line("model", f"{model}: {figures}{_failed_attempts(event.refused)}")
        case events.ModelCallAbandoned(error=error):
            return Line("failure", f"model: {error.message}{_failed_attempts(event.spent)}")
        case events.ModelCallDelayed(model=model, limit=limit, wait_s=wait_s):
            return Line("model", f"{model} waits {wait_s:.0f} s or longer, because of the limit of {limit}")
        case events.ModelParameterRefused(model=model, parameter=parameter, by_provider=False):
            return Line("model", f"{model} does not take {parameter}, which is not sent")
        case events.ModelParameterRefused(model=model, parameter=parameter):
            return Line("model", f"{model} refused {parameter}, and is asked without it")
        case events.ModelTextRetracted(policy=policy):
            return Line("model", f"text turned down by {policy}")
        case events.ModelStreamRestarted(reason=reason):
            return Line("model", f"restarted: {reason}")
        case events.GuardrailTriggered(stage=stage, category=category, action=action, detail=detail):
            return Line("guard", f"{stage}: {category}, {action}: {detail or 'found'}")
        case events.ModelRouted(model=model, reason=reason):
            return Line("model", f"{model}, {reason}")
        case events.ResultVerified(confidence=confidence, verified=verified):
            support = "supported" if verified else "not supported"
            return Line("verify", f"{support}, confidence {confidence:.2f}")
        case events.VerificationActed(action=action, detail=detail):
            return Line("verify", f"{action}: {detail}")
        case events.ToolWithheld(server=server, tool=tool, reason=reason, needs_approval=needs_approval):
            outcome = "needs approval" if needs_approval else "is left out"
            return Line("failure", f"the tool {tool} of the MCP server {server} {outcome}: {reason}")
        case events.BudgetWarning(period=period, limit_usd=limit, spent_usd=spent, share=share):
            whose = f"the {named_period(period)}'s ${limit:.2f}"
            return Line("budget", f"{share:.0%} of {whose} is used: {dollars(spent)}")
        case events.BudgetNotSettled(error=error):
            return Line("failure", f"budget: {error.message} The reserved amount stays counted.")
        case events.ExecutionPaused(next_step=next_step):
            return Line("phase", f"paused before the {next_step}")
        case events.ExecutionResumed():
            return Line("phase", "continued")
        case events.ExecutionStopped(phase=phase, reason=reason):
            return Line("failure", f"stopped in {phase}{f': {reason}' if reason else ''}")
        case events.ExecutionCancelled(phase=phase):
            return Line("failure", f"cancelled in {phase}")
        case events.TaskCompleted(result=result):
            return Line(_KIND_OF_END[result.status], summary(result.metadata))
        case _:
            return None


def _failed_attempts(refused: Sequence[RunUsage]) -> str:
    """Return the cost of failed attempts before the answer, in brackets, or nothing."""
    if not refused:
        return ""
    total = sum((each.usage for each in refused), Usage())
    tokens = f"{total.total_tokens} tokens{'' if total.reported else ' or more'}"
    cost = _price(sum(each.cost_usd for each in refused))
    cost += " or more" if any(each.unpriced_calls for each in refused) else ""
    return f" (and {tokens}, {cost}, for {counted(len(refused), 'failed attempt')})"


def summary(figures: TaskResultMetadata) -> str:
    """Return the figures of a run in one line."""
    model_calls = counted(figures.model_calls, "model call")
    tokens = f"{figures.tokens_used} tokens{'' if figures.usage.reported else ' or more'}"
    cost = _price(figures.cost_usd) + (" or more" if figures.unpriced_calls else "")
    chosen = figures.selected_strategy
    ended = f"ended by {figures.terminated_by}" + (f" (adaptive→{chosen})" if chosen else "")
    return ", ".join((_duration(figures.duration_ms), model_calls, tokens, cost, ended))


def _step(event: events.ReasoningStepCompleted) -> Line | None:
    if event.thought is not None:
        return Line(_KIND_OF_PASS.get(event.kernel_pass.rpartition(":")[2], "thought"), event.thought)
    if event.action is not None:
        repaired = f" (repaired: {' '.join(event.repairs)})" if event.repairs else ""
        return Line("action", f"{_call(event.action)}{repaired}")
    return Line("result", event.observation or "")


def _call(action: str) -> str:
    """Return a call, stored as JSON in the step, as tool and arguments."""
    try:
        call = json.loads(action)
        return f"{call['tool']} {_json(call['arguments'])}"
    except (ValueError, KeyError, TypeError):
        return action


def _json(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _price(cost_usd: float | None) -> str:
    return "cost unknown" if cost_usd is None else dollars(cost_usd)


# --- views ----------------------------------------------------------------------------------------------

KIND_WIDTH = max(map(len, KINDS))


TERMINAL = RLock()
"""Held from a question on the terminal to its answer, so that answers are not mixed up."""
HOLDING = RLock()
"""Held while a line is written or kept for after a question."""


_LOOK_S = 0.1


def read_line() -> str:
    """Return the next line of standard input.

    On a terminal, reading ends if the question is cancelled, for example with its run: it must neither take
    the answer to the next question nor keep the process alive.

    Raises:
        BaseException: the cancellation of the waiting task.
    """
    while _is_terminal(sys.stdin):
        try:
            ready, _, _ = select.select([sys.stdin], [], [], _LOOK_S)
        except (OSError, TypeError, ValueError):  # cannot be polled, as on Windows
            break
        _end_if_cancelled()
        if ready:
            break
    return sys.stdin.readline()


def _end_if_cancelled() -> None:
    with suppress(RuntimeError):  # in a foreign thread
        anyio.from_thread.check_cancelled()


def _discard_typed() -> None:
    """Discard what was typed before there was a question that it could answer."""
    with suppress(Exception):  # no terminal, or one without this, as on Windows
        import termios  # by those who ask, since Windows has none

        termios.tcflush(sys.stdin, termios.TCIFLUSH)


class SilentView:
    """The base of views, entered for a run: it asks, but shows nothing.

    Attributes:
        left_out: the kinds of lines that are not written.
    """

    left_out: Collection[LineKind] = ()
    _held: list[tuple[Line, str]] | None = None  # while a question waits

    def __enter__(self) -> SilentView:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    def show(self, event: events.AgentEvent) -> None:
        """Show an event, or ignore it."""

    def write(self, line: Line, agent: str = "") -> None:
        """Write a line, with the name of a sub-agent."""

    def ask(self, request: governance.ApprovalRequest) -> bool:
        """Ask on standard error, read standard input; all but a clear yes is a no."""
        return self._ask(f"Run {request.described}? [y/N] ").lower() in ("y", "yes")

    def answer(self, question: governance.QuestionRequest) -> str | None:
        """Ask on standard error, and read a line from standard input.

        A number selects the option with that number; an empty line is no answer.
        """
        options = (f"  {number}. {option}" for number, option in enumerate(question.options, 1))
        text = self._ask("? ", *map(printable, (question.text, *options)))
        chosen = text.isdecimal() and 1 <= int(text) <= len(question.options)
        return question.options[int(text) - 1] if chosen else text or None

    def execute(self, request: governance.ExternalCallRequest) -> Json:
        """Ask on standard error, and read the result from standard input: JSON, or a text."""
        called = escaped(f"{request.tool_name} {json.dumps(request.arguments, ensure_ascii=False)}")
        text = self._ask(f"Result of {called} (an empty line for none): ")
        result: Json = from_json(text, Json).value_or(text or None)
        return result

    def _ask(self, question: str, *above: str) -> str:
        """Ask on standard error, and return the line that is typed from then on.

        On standard output if that alone is a terminal: a question in a file would not be seen.
        """
        with TERMINAL:
            _end_if_cancelled()  # while another question waited for its answer
            _discard_typed()
            hidden = _is_terminal(sys.stdout) and not _is_terminal(sys.stderr)
            shown = sys.stdout if hidden else sys.stderr
            with HOLDING:
                _write(shown, "\n".join((*above, question)), end="")
                self._held = []
            try:
                return read_line().strip()
            finally:
                self._release()

    def _holds(self, line: Line, agent: str) -> bool:
        """Keep a line for later if a question waits, which thus stays the last line."""
        if self._held is not None:
            self._held.append((line, agent))
        return self._held is not None

    def _release(self) -> None:
        with HOLDING:
            held, self._held = self._held or (), None
            for line, agent in held:
                self.write(line, agent)


class PlainView(SilentView):
    """A view that writes one line for each event worth showing."""

    def __init__(self, output: TextIO) -> None:
        self._output = output

    def show(self, event: events.AgentEvent) -> None:
        """Write the event's line."""
        line = describe(event)
        if line is not None and line.kind not in self.left_out:
            self.write(line, agent_of(event))

    def write(self, line: Line, agent: str = "") -> None:
        """Write a line, with the name of a sub-agent."""
        with HOLDING:
            if self._holds(line, agent):
                return
            _write(self._output, f"{line.kind:<{KIND_WIDTH}}  {text_of(line, agent)}")


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


class LiveView(SilentView):
    """Scrolling lines above a status line: phase, tokens, dollars, streamed text.

    Args:
        width: columns; ``None`` for those of the terminal.
    """

    def __init__(self, output: TextIO, *, width: int | None = None) -> None:
        from rich.console import Console  # seldom needed, and slow to import
        from rich.live import Live
        from rich.spinner import Spinner

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

    def __exit__(self, *_: object) -> None:
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
        line = describe(event)
        if isinstance(event, events.ToolProgressed) and line is not None:
            self._progress = text_of(line, agent_of(event))
        elif line is not None and line.kind not in self.left_out:
            self.write(line, agent_of(event))
        self._spinner.update(text=_on_one_line(self._status()))

    def write(self, line: Line, agent: str = "") -> None:
        """Print a line above the status line."""
        text = _on_one_line(f"{line.kind:<{KIND_WIDTH}}  ", "dim")
        text.append(text_of(line, agent), style=STYLES[line.kind] or "default")
        with HOLDING:
            if not self._holds(line, agent):
                self._console.print(text)

    def _ask(self, question: str, *above: str) -> str:
        """Ask with the status line hidden."""
        with TERMINAL, self._hidden():
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
        phase = f"agent loop, {self._phase}" if self._phase in LOOP_PHASES else self._phase
        parts = (
            phase,
            f"{self._tokens} tokens",
            dollars(self._cost_usd),
            self._progress,
            one_line(self._text),
        )
        return " · ".join(part for part in parts if part)


def _on_one_line(text: str, style: str = "") -> Text:
    from rich.text import Text

    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def text_of(line: Line, agent: str) -> str:
    """Return the printable text of a line, with the name of a sub-agent."""
    text = f"[{agent}] {line.text}" if agent else line.text
    return text if line.kind == "approval" else one_line(text)


def agent_of(event: events.AgentEvent) -> str:
    """Return the name of the sub-agent of an event; empty for the agent itself."""
    return event.agent if event.parent_run_id is not None else ""


def progress_view(output: TextIO) -> SilentView:
    """Return the live view if the output is a terminal, else the plain one."""
    if not _is_terminal(output) or os.environ.get("TERM") == "dumb":
        return PlainView(output)
    return LiveView(output)


def _is_terminal(stream: object) -> bool:
    """Return whether a stream is a terminal; a closed one is not."""
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]
    except (AttributeError, ValueError):
        return False


def _write(output: TextIO, text: str, end: str = "\n") -> None:
    try:
        output.write(text + end)
    except UnicodeEncodeError:  # such as a terminal with ASCII only
        encoding = output.encoding or "ascii"
        output.write(text.encode(encoding, "replace").decode(encoding) + end)
    output.flush()


class RunConsole:
    """Shows the concurrent runs of an agent in one view.

    Runs do not wait for it to read their events.

    Args:
        output: the output stream; by default standard error at the time of the first run.
    """

    is_behind = False

    def __init__(self, output: TextIO | None = None) -> None:
        self._output = output
        self._showing = Lock()
        self._running: set[RunId] = set()

    @cached_property
    def _view(self) -> SilentView:
        return progress_view(self._output or sys.stderr)

    @property
    def can_ask(self) -> bool:
        """Whether a person can be asked: input and output are terminals."""
        return _is_terminal(sys.stdin) and _is_terminal(self._output or sys.stderr)

    def show(self, event: events.AgentEvent) -> None:
        """Show an event, from any thread."""
        with self._showing:
            first, ended = event.run_id not in self._running and event.parent_run_id is None, False
            match event:
                case events.TaskStarted() if first:
                    if not self._running:
                        self._view.__enter__()
                    self._running.add(event.run_id)
                case events.TaskCompleted() | events.TaskFailed():
                    ended = event.run_id in self._running
            self._view.show(event)
            if isinstance(event, events.TaskFailed):
                self._view.write(Line("failed", root_cause(event.error).message), agent_of(event))
            if ended:
                self._running.discard(event.run_id)
                if not self._running:
                    self._view.__exit__(None, None, None)

    async def ready(self) -> None:
        """Return at once."""

    def ask(self, request: governance.ApprovalRequest) -> bool:
        """Ask whether a tool call may run."""
        return self._view.ask(request)

    def answer(self, question: governance.QuestionRequest) -> str | None:
        """Ask the question of the model."""
        return self._view.answer(question)
