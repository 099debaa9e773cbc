"""``reactive-agents persona``: events for a persona, from the command line or as JSON lines."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, TextIO, cast, get_args

import anyio
import typer
from anyio.from_thread import BlockingPortal
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from attrs import evolve, field, frozen
from attrs.validators import and_, ge, le
from returns.result import Failure, Result, Success

from reactive_agents.agent.persona import PersonaAgent, Personas
from reactive_agents.cli.event_lines import one_line, printable
from reactive_agents.cli.output import ExitCode, JsonOption, print_json
from reactive_agents.cli.persona_records import error_record, fail
from reactive_agents.cli.progress_view import PlainLines
from reactive_agents.core.codec import encode, from_json
from reactive_agents.core.errors import ConfigErrors, DecodeError, InboxFull, RunCancelled, UnknownDomain
from reactive_agents.core.events import AgentEvent
from reactive_agents.core.ids import EventId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.personas import DomainEvent, PersonaOutcome
from reactive_agents.effects import attempt
from reactive_agents.persona.explanation import explain_event

persona = typer.Typer(help="Let a persona deal with events.", no_args_is_help=True, rich_markup_mode=None)

_INTERRUPTED = "Interrupted; plans that are under way go on with the next start."

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="The persona, .toml or .json.", show_default=False)
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print answers and nothing else.", show_default=False)
]


@frozen
class EventLine:
    """One event as a JSON line has it; what is left out is the first domain, a new id, and now."""

    content: str
    domain: str = ""
    context: str = "default"
    author: str = "user"
    id: str = ""
    priority: float = field(default=0.5, validator=and_(ge(0.0), le(1.0)))
    details: JsonObject = field(factory=dict)


class PersonaLines(PlainLines):
    """What a persona does, line by line, with the lines of the runs of its steps."""

    def __init__(self, output: TextIO) -> None:
        super().__init__(output)
        self._file = output

    def show(self, event: AgentEvent) -> None:
        """Write the event's lines."""
        if isinstance(event, get_args(PersonaEvent)):
            for stage, text in explain_event(cast(PersonaEvent, event)):
                typer.echo(f"{stage:<10}  {one_line(text)}", file=self._file)
        else:
            super().show(event)


@persona.command()
def send(
    file: FileArgument,
    content: Annotated[str, typer.Argument(help="What happened.", show_default=False)],
    domain: Annotated[
        str,
        typer.Option("--domain", "-d", metavar="D", help="The first domain by default.", show_default=False),
    ] = "",
    context: Annotated[
        str, typer.Option("--context", metavar="C", help="The room, file or session.")
    ] = "default",
    author: Annotated[str, typer.Option("--author", metavar="A", help="Who caused it.")] = "user",
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Send a persona one event, and wait for what becomes of it."""
    line = EventLine(content, domain, context, author)
    outcomes: list[PersonaOutcome] = []

    async def work(agent: PersonaAgent) -> ExitCode:
        known = agent.persona.domains
        if domain and domain not in known:
            typer.echo(f"error: --domain: got {domain!r}, expected one of {', '.join(known)}.", err=True)
            return ExitCode.BAD_USAGE
        outcome = await agent.process(domain or next(iter(known)), event_of(line, agent))
        outcomes.append(outcome)
        return ExitCode.FAILED if outcome.status == "failed" else ExitCode.COMPLETED

    code = _run(file, work, as_json=as_json, quiet=quiet)
    if code == ExitCode.INTERRUPTED and as_json and not outcomes:
        print_json(error_record(RunCancelled.__name__, _INTERRUPTED))
    elif code == ExitCode.INTERRUPTED:
        typer.echo(_INTERRUPTED, err=True)
    for outcome in outcomes:
        if as_json:
            print_json(encode(outcome))
        else:
            _print_outcome(outcome)
    raise typer.Exit(code)


@persona.command()
def run(file: FileArgument, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Read events from standard input, a JSON object a line, and go on with plans that were interrupted.

    With --json each outcome is a line of its own.
    """
    failed = wrong = done = 0

    def tell(outcome: PersonaOutcome) -> None:
        nonlocal failed, done
        done += 1
        failed += outcome.status == "failed"
        if as_json:
            typer.echo(json.dumps(encode(outcome), ensure_ascii=False))
        else:
            _print_outcome(outcome)

    async def work(agent: PersonaAgent) -> ExitCode:
        nonlocal wrong
        resumed = await attempt(agent.persona.resume())
        if isinstance(resumed, Failure):
            typer.echo(printable(f"error: {resumed.failure().message}"), err=True)
            return ExitCode.FAILED
        for outcome in resumed.unwrap():
            tell(outcome)
        number = 0
        async with agent.inbox(tell) as inbox, lines_of(sys.stdin) as lines:
            async for text in lines:
                number += 1
                if not text.strip():
                    continue
                read = read_line(text)
                if isinstance(read, Success):
                    line = read.unwrap()
                    place = line.domain or next(iter(agent.persona.domains))
                    problem = _problem_of(inbox.submit(place, event_of(line, agent)))
                else:
                    problem = read.failure().message
                if problem:
                    wrong += 1
                    typer.echo(printable(f"error: line {number}: {problem}"), err=True)
        if not failed + wrong:
            return ExitCode.COMPLETED
        return ExitCode.PARTIAL if done > failed else ExitCode.FAILED

    code = _run(file, work, as_json=as_json, quiet=quiet)
    if code == ExitCode.INTERRUPTED:
        typer.echo(_INTERRUPTED, err=True)
    raise typer.Exit(code)


def _problem_of(submitted: Result[DomainEvent | None, InboxFull | UnknownDomain]) -> str:
    if isinstance(submitted, Failure):
        refused: str = submitted.failure().message
        return refused
    dropped = submitted.unwrap()
    return "" if dropped is None else f"The inbox is full; event {dropped.id!r} was dropped for this one."


def read_line(text: str) -> Result[EventLine, DecodeError]:
    """The event of a JSON line."""
    return from_json(text, EventLine)


def event_of(line: EventLine, agent: PersonaAgent) -> DomainEvent:
    """The event that a line describes."""
    event = agent.new_event(line.content, line.context, line.author)
    return evolve(
        event, id=EventId(line.id) if line.id else event.id, priority=line.priority, details=line.details
    )


def _run(
    file: str, work: Callable[[PersonaAgent], Awaitable[ExitCode]], *, as_json: bool, quiet: bool
) -> ExitCode:
    built: Result[PersonaAgent, ConfigErrors] = Personas.from_config(file).build_result()
    if isinstance(built, Failure):
        raise fail(built.failure(), as_json=as_json, code=ExitCode.BAD_USAGE)
    agent = built.unwrap()
    view = PersonaLines(sys.stderr)

    async def live() -> ExitCode:
        async with agent:
            if not (quiet or as_json):
                agent.subscribe(view.show)
            return await work(agent)

    try:
        return anyio.run(live)
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _print_outcome(outcome: PersonaOutcome) -> None:
    if outcome.status == "completed":
        typer.echo(printable(outcome.answer) if sys.stdout.isatty() else outcome.answer)
    else:
        typer.echo(printable(f"{outcome.status}: {outcome.reason}"), err=True)


# --- Standard input, line by line, without standing in the way of an interruption ---


@asynccontextmanager
async def lines_of(source: TextIO) -> AsyncGenerator[MemoryObjectReceiveStream[str], None]:
    """The lines of a text stream as they come; reading it does not keep the process alive.

    A worker thread of the event loop would: it ends only when its read does, which may be never.
    """
    send, receive = anyio.create_memory_object_stream[str]()
    async with BlockingPortal() as portal, send, receive:
        threading.Thread(target=_read, args=(source, portal, send.clone()), daemon=True).start()
        send.close()
        yield receive


def _read(source: TextIO, portal: BlockingPortal, send: MemoryObjectSendStream[str]) -> None:
    try:
        for line in source:
            portal.call(send.send, line)
        portal.call(send.aclose)
    except (RuntimeError, anyio.BrokenResourceError):  # nobody reads any more
        send.close()
