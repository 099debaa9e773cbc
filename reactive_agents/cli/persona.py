"""``reactive-agents persona``: send events to a persona, and manage its work."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager
from typing import Annotated, Any, TextIO, cast, get_args

import anyio
import typer
from anyio.from_thread import BlockingPortal
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from attrs import define, evolve, field, frozen
from attrs.validators import and_, ge, le
from returns.result import Failure, Result

from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.system import SystemClock, end_on_sigterm_after
from reactive_agents.adapters.telemetry.console import PlainView
from reactive_agents.agent.persona import PersonaAgent, Personas
from reactive_agents.cli import output, persona_records
from reactive_agents.cli.output import argument, option
from reactive_agents.core import errors
from reactive_agents.core.codec import encode, from_json
from reactive_agents.core.events import AgentEvent
from reactive_agents.core.ids import EventId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.persona_queue import (
    Submission,
    WorkFilter,
    WorkItem,
    WorkKind,
    WorkOrder,
    WorkStatus,
)
from reactive_agents.core.personas import DomainEvent, OutcomeStatus, PersonaOutcome, PersonaPlan
from reactive_agents.core.texts import with_article
from reactive_agents.effects import attempt
from reactive_agents.event_loop import schedule_on_this_loop
from reactive_agents.persona import PersonaInbox
from reactive_agents.persona.explanation import explain_event
from reactive_agents.persona.plan_changes import end_plan

# --- its work: inbox, outbox, evaluations, schedules, plans ---------------------------------------------

TenantOption = Annotated[str | None, option("--tenant T", "Only this tenant.")]
NumberArgument = Annotated[int, argument("NUMBER", "The number of the item.", min=1, max=2**63 - 1)]


def _filters(
    context: Annotated[str | None, option("--context C", "Only this room.")] = None,
    tenant: TenantOption = None,
    since: Annotated[Any, option("--since TIME", "Not before this time.", parser=output.moment)] = None,
    until: Annotated[Any, option("--until TIME", "Before this time.", parser=output.moment)] = None,
    limit: Annotated[int, option("--limit N", "The maximum number of items, the newest first.", min=1)] = 50,
) -> dict[str, Any]:
    return {"context_id": context, "tenant": tenant, "since": since, "until": until, "limit": limit}


Filters = Annotated[dict[str, Any], output.Options(_filters)]
PlanArgument = Annotated[str, argument("ID", "The plan's id.")]


def _group(kinds: tuple[WorkKind, ...], title: str, noun: str) -> typer.Typer:
    a_noun = with_article(noun)
    group = output.command_group(title, no_args_is_help=True)

    @group.command("list", help=f"List the {noun}s, the newest first; by default those that are not done.")
    def list_items(
        records: persona_records.Records,
        every: Annotated[bool, option("--all", "Include those that are done.")] = False,
        dead: Annotated[bool, option("--dead", "Only dead letters.")] = False,
        *,
        filters: Filters,
    ) -> None:
        statuses: tuple[WorkStatus, ...] = () if every else ("open", "answered", "dead")
        chosen = WorkFilter(records.persona.id, kinds, ("dead",) if dead else statuses, **filters)
        items = records.ask(lambda store: records.value(store.find_work(chosen)))
        rows = (
            (
                str(each.number),
                _state(each),
                each.event.context_id,
                each.key,
                f"{each.created_at:%Y-%m-%d %H:%M:%S}",
                each.reason,
                each.message if each.kind == "delivery" else each.event.content,
            )
            for each in items
        )
        headings = ("number", "state", "room", "key", "since", "reason", "text")
        output.print_found(items, headings, rows)

    def add_order(given: WorkOrder, done: str, about: str) -> None:
        @group.command(given, help=about)
        def order(number: NumberArgument, records: persona_records.Records) -> None:
            owner = records.persona.id

            async def work(store: SqlitePersonaStore) -> None:
                chosen = WorkFilter(owner, kinds, number=number)
                found = await records.value(store.find_work(chosen))
                is_meant = found and not (given == "retry" and found[0].status == "done")
                if not (is_meant and await records.value(store.order_work(number, given))):
                    raise records.missing(f"{noun} to {given}", str(number))

            records.ask(work, read_only=False)
            output.report({given: number}, f"{done}: {number}")

    again = f"Try {a_noun} again from the first try, by the persona's next process."
    add_order("retry", "tried again", again)
    add_order("drop", "dropped", f"Drop {a_noun} permanently.")
    return group


def _state(item: WorkItem) -> str:
    if item.status != "open":
        return item.status
    if item.holder:
        return "under way"
    return "waiting" if item.due is None else f"due {item.due:%Y-%m-%d %H:%M:%S}"


inbox = _group(("event",), "List, retry and drop the events of a persona.", "event")
schedules = _group(("schedule",), "List, fire and drop the schedules and reminders of a persona.", "schedule")
outbox = _group(("delivery",), "List, retry and drop the messages of a persona.", "message")
evaluations = _group(("evaluation",), "List, retry and drop the evaluations of a persona.", "evaluation")


plans = output.command_group("List, show, cancel and retry the plans of a persona.", no_args_is_help=True)


@plans.command("list")
def list_plans(records: persona_records.Records, filters: Filters) -> None:
    """List the plans by room and time, newest first."""
    owner = records.persona.id
    listed = records.ask(lambda store: records.value(store.list_plans(owner, **filters)))
    rows = (
        (
            each.id,
            each.plan.status,
            each.context_id,
            f"{each.plan.created_at:%Y-%m-%d %H:%M:%S}",
            each.plan.goal,
        )
        for each in listed
    )
    output.print_found(listed, ("id", "status", "room", "since", "goal"), rows)


@plans.command()
def show(plan_id: PlanArgument, records: persona_records.Records) -> None:
    """Show a plan and the state of its steps."""
    plan = records.ask(lambda store: records.plan(store, plan_id))
    if output.is_json():
        output.print_json(encode(plan))
    else:
        persona_records.print_plan(plan)


def _add_plan_order(name: str, order: WorkOrder, done: str, about: str) -> None:
    @plans.command(name, help=about)
    def order_plan(plan_id: PlanArgument, records: persona_records.Records) -> None:
        statuses = ("active",) if order == "drop" else ("failed", "abandoned")

        async def work(store: SqlitePersonaStore) -> PersonaPlan:
            plan = await records.plan(store, plan_id)
            chosen = WorkFilter.of_event(plan.room, plan.event.id, "event")
            item = next(iter(await records.value(store.find_work(chosen))), None)
            is_ordered = False
            if item is not None and plan.plan.status in statuses and item.plan_id in (None, plan.id):
                # no later plan took its place
                is_ordered = await records.value(store.order_work(item.number, order))
            if not is_ordered:
                raise records.missing("active plan" if order == "drop" else "failed plan", plan_id)
            if order == "drop":
                plan = end_plan(plan, "abandoned", SystemClock().now())
                await records.value(store.save_plan(plan))
            return plan

        plan = records.ask(work, read_only=False)
        output.report(encode(plan), f"{done}: {plan_id}")


_add_plan_order(
    "cancel", "drop", "cancelled", "Cancel an active plan in any process: its next step does not start."
)
_add_plan_order(
    "retry", "retry", "tried again", "Plan again the event of a plan that failed or was cancelled."
)


def forget(
    records: persona_records.Records,
    user: Annotated[str | None, option("--user U", "The user's id, else the author's name.")] = None,
    tenant: TenantOption = None,
    before: Annotated[
        Any, option("--before TIME", "Work that ended before this time.", parser=output.moment)
    ] = None,
) -> None:
    """Delete the data that a persona has of a user, a tenant or a time.

    Deletes events, messages, plans and journals; for a user or tenant also notes, and lessons learned only
    from them.
    """
    if user is None and tenant is None and before is None:
        raise output.bad_usage("forget", "nothing", "--user, --tenant or --before")
    count = records.ask(
        lambda store: records.value(
            store.forget(records.persona.id, user=user, tenant=tenant, before=before)
        ),
        read_only=False,
    )
    output.report({"deleted": count}, f"deleted {count} event(s)")


# --- its events: send, run, serve ----------------------------------------------------------------------

persona = output.command_group("Send events to a persona, and manage its work.", no_args_is_help=True)
for _name, _commands in {
    "inbox": inbox,
    "outbox": outbox,
    "evaluations": evaluations,
    "schedules": schedules,
    "plans": plans,
}.items():
    persona.add_typer(_commands, name=_name)
persona.command()(forget)

_EXIT_CODES: dict[OutcomeStatus, output.ExitCode] = {
    "failed": output.ExitCode.FAILED,
    "abstained": output.ExitCode.ABSTAINED,
}
_INTERRUPTED = "Interrupted; active plans are resumed at the next start."

FileArgument = Annotated[
    str, argument("FILE", "The persona's configuration, .toml or .json, or module:name of one in Python.")
]
QuietOption = Annotated[bool, option("--quiet -q", "Print answers only.")]


@frozen
class EventLine:
    """An event as a JSON line. Defaults: the first domain, a new id, the current time."""

    content: str
    domain: str = ""
    context: str = "default"
    author: str = "user"
    id: str = ""
    priority: float = field(default=0.5, validator=and_(ge(0.0), le(1.0)))
    details: JsonObject = field(factory=dict)
    user: str = ""
    tenant: str = ""


class PersonaView(PlainView):
    """A view with lines for the stages of a persona and for the runs of its steps."""

    def show(self, event: AgentEvent) -> None:
        """Write the event's lines."""
        if isinstance(event, get_args(PersonaEvent)):
            for stage, text in explain_event(cast(PersonaEvent, event)):
                typer.echo(f"{stage:<10}  {output.one_line(text)}", file=self._output)
        else:
            super().show(event)


@persona.command()
def send(
    file: FileArgument,
    content: Annotated[str, argument("", "The content of the event.")],
    domain: Annotated[str, option("--domain -d D", "The first domain by default.")] = "",
    context: Annotated[
        str, option("--context C", "The room, file or session.", show_default=True)
    ] = "default",
    author: Annotated[str, option("--author A", "The author of the event.", show_default=True)] = "user",
    user: Annotated[str, option("--user -u U", "The author's id, if it differs from the name.")] = "",
    tenant: Annotated[str, option("--tenant T", "The tenant of the room.")] = "",
    quiet: QuietOption = False,
    allow_tools_from: output.AllowedModules = None,
) -> None:
    """Send one event to a persona and wait for the outcome."""
    line = EventLine(content, domain, context, author, user=user, tenant=tenant)
    outcomes: list[PersonaOutcome] = []

    async def work(agent: PersonaAgent) -> output.ExitCode:
        known = agent.persona.domains
        place, event = domain or next(iter(known)), event_of(line, agent)
        problem: errors.PersonaErrors | errors.InvalidConfig | None = agent.persona.problem_of(place, event)
        if isinstance(problem, errors.UnknownDomain):
            problem = errors.InvalidConfig("--domain", repr(domain), f"one of {', '.join(known)}")
        if problem is not None:
            raise output.fail(problem, output.ExitCode.BAD_USAGE)
        outcome = await agent.process(place, event)
        outcomes.append(outcome)
        return _EXIT_CODES.get(outcome.status, output.ExitCode.COMPLETED)

    code = _run(file, allow_tools_from, work, quiet=quiet)
    if code == output.ExitCode.INTERRUPTED and output.is_json() and not outcomes:
        output.print_json(output.error_record(errors.RunCancelled.__name__, _INTERRUPTED))
    elif code == output.ExitCode.INTERRUPTED:
        typer.echo(_INTERRUPTED, err=True)
    for outcome in outcomes:
        if output.is_json():
            output.print_json(encode(outcome))
        else:
            _print_outcome(outcome)
    raise typer.Exit(code)


@persona.command()
def run(
    file: FileArgument,
    quiet: QuietOption = False,
    allow_tools_from: output.AllowedModules = None,
) -> None:
    """Process waiting events, then those from standard input.

    Each line is one JSON object. With --json each outcome is printed as one line. A repeated
    event is not processed again: its outcome is printed once more, without the plan.
    """
    failed = rejected = done = 0
    shown = Outcomes()

    async def report(outcome: PersonaOutcome) -> None:
        nonlocal failed, rejected, done
        await shown.show(outcome)
        done += not outcome.refused
        rejected += outcome.refused
        failed += outcome.status == "failed"

    async def take(text: str, agent: PersonaAgent, inbox: PersonaInbox) -> str:
        """Submit the event of a line; return the problem, if any."""
        read = read_line(text)
        if isinstance(read, Failure):
            return str(read.failure().message)
        line = read.unwrap()
        place = line.domain or next(iter(agent.persona.domains))
        submitted = await attempt(inbox.submit(place, event_of(line, agent), wait=True))
        known = submitted.map(lambda found: found.item).value_or(None)
        if known is not None and known.status == "done" and known.outcome is not None:
            await report(known.outcome)  # the source has not seen it
        return _problem_of(submitted)

    async def work(agent: PersonaAgent) -> output.ExitCode:
        nonlocal rejected
        number, inbox, reading = 0, agent.inbox(report), anyio.CancelScope()
        schedule, ending = schedule_on_this_loop(), anyio.CancelScope()
        shown.end = ending.cancel

        def stop() -> None:
            inbox.drain()
            reading.cancel()
            typer.echo(f"Ended by SIGTERM; lines after line {number} are to be sent again.", err=True)

        with end_on_sigterm_after(lambda: schedule(stop)), ending:
            async with inbox:
                with reading:
                    async with lines_of(sys.stdin) as lines:
                        async for text in lines:
                            problem = await take(text, agent, inbox) if text.strip() else ""
                            number += 1
                            if problem:
                                rejected += 1
                                output.tell(f"error: line {number}: {problem}")
        shown.check()
        if not failed + rejected:
            return output.ExitCode.COMPLETED
        return output.ExitCode.PARTIAL if done > failed else output.ExitCode.FAILED

    code = _run(file, allow_tools_from, work, quiet=quiet)
    if code == output.ExitCode.INTERRUPTED:
        typer.echo(_INTERRUPTED, err=True)
    raise typer.Exit(code)


@persona.command()
def serve(
    file: FileArgument,
    host: output.HostOption = "127.0.0.1",
    port: output.PortOption = 8_000,
    drain: Annotated[
        float, option("--drain SECONDS", "For events in progress, on SIGTERM.", parser=output.SECONDS)
    ] = 30.0,
    quiet: QuietOption = False,
    allow_tools_from: output.AllowedModules = None,
) -> None:
    """Receive events of the persona's channels over HTTP, and answer them.

    With --json the first line has the URL, and each further line an outcome.
    """
    try:
        from reactive_agents.server.channels import create_persona_app
        from reactive_agents.server.process import DrainingServer, address_of
    except ModuleNotFoundError as error:
        missing = f"no {(error.name or '').partition('.')[0]}"
        raise output.bad_usage("persona serve", missing, "the extra reactive-agents[server]") from None

    agent = _built(file, allow_tools_from)
    if not (quiet or output.is_json()):
        agent.subscribe(PersonaView(sys.stderr).show)
    try:
        shown = Outcomes(lambda: setattr(server, "should_exit", True))
        app = create_persona_app(agent, on_outcome=shown.show, drain_s=drain)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error)) from None
    listening = output.listening_on(host, port)
    address = address_of(listening, host)
    channels = [f"{address}/channels/{name}" for name, each in agent.persona.domains.items() if each.channel]
    if output.is_json():
        typer.echo(json.dumps({"address": address, "channels": channels}))
    else:
        typer.echo(f"{agent.name} takes events at {', '.join(channels)}", err=True)
    sys.stdout.flush()
    server = DrainingServer(app)
    with listening:
        anyio.run(server.serve, [listening])
    shown.check()


def _problem_of(
    submitted: Result[
        Submission, errors.InboxFull | errors.InvalidEvent | errors.UnknownDomain | errors.MemoryErrors
    ],
) -> str:
    if isinstance(submitted, Failure):
        refused: str = submitted.failure().message
        return refused
    dropped = submitted.unwrap().dropped
    return "" if dropped is None else f"The inbox is full; event {dropped.key!r} was dropped for this one."


def read_line(text: str) -> Result[EventLine, errors.DecodeError]:
    """Decode a JSON line. Fails with ``DecodeError``."""
    return from_json(text, EventLine)


def event_of(line: EventLine, agent: PersonaAgent) -> DomainEvent:
    """Return the event that a line describes."""
    event = agent.new_event(line.content, line.context, line.author)
    return evolve(
        event,
        id=EventId(line.id) if line.id else event.id,
        priority=line.priority,
        details=line.details,
        user=line.user,
        tenant=line.tenant,
    )


def _built(file: str, modules: str | None) -> PersonaAgent:
    if output.is_python_name(file):
        return output.from_python(file, PersonaAgent, Personas, allow_tools_from=modules)
    built = Personas.from_config(file, allow_tools_from=output.names(modules)).build_result()
    return output.value_or_exit(built)


def _run(
    file: str, modules: str | None, work: Callable[[PersonaAgent], Awaitable[output.ExitCode]], *, quiet: bool
) -> output.ExitCode:
    agent = _built(file, modules)
    view = PersonaView(sys.stderr)

    async def live() -> output.ExitCode:
        async with agent:
            if not (quiet or output.is_json()):
                agent.subscribe(view.show)
            return await work(agent)

    try:
        return anyio.run(live)
    except KeyboardInterrupt:
        return output.ExitCode.INTERRUPTED


@define
class Outcomes:
    """Prints outcomes, and ends the command if they cannot be printed.

    An event whose outcome could not be printed has not failed: it stays in the queue for the next start.

    Args:
        end: begins the end of the command.
    """

    end: Callable[[], object] = bool
    problem: OSError | None = None

    async def show(self, outcome: PersonaOutcome) -> None:
        """Print an outcome; never returns if that fails."""
        try:
            if output.is_json():
                typer.echo(output.printable_json(json.dumps(encode(outcome), ensure_ascii=False)))
            else:
                _print_outcome(outcome)
        except OSError as error:
            self.problem = error
            self.end()
            await anyio.sleep_forever()

    def check(self) -> None:
        """Raise the error of an outcome that could not be printed."""
        if self.problem is not None:
            raise self.problem


def _print_outcome(outcome: PersonaOutcome) -> None:
    if outcome.status == "completed":
        output.print_answer(outcome.answer)
    else:
        output.tell(f"{outcome.status}: {outcome.reason}")


@asynccontextmanager
async def lines_of(source: TextIO) -> AsyncGenerator[MemoryObjectReceiveStream[str], None]:
    """Yield the lines of a text stream as they arrive, from a daemon thread.

    A worker thread of the event loop would keep an interrupted process alive until its read returns.
    """
    send, receive = anyio.create_memory_object_stream[str]()
    async with BlockingPortal() as portal, send, receive:
        threading.Thread(target=_read, args=(source, portal, send.clone()), daemon=True).start()
        send.close()
        yield receive


def _read(source: TextIO, portal: BlockingPortal, send: MemoryObjectSendStream[str]) -> None:
    if isinstance(source, io.TextIOWrapper):
        source.reconfigure(errors="surrogateescape")  # a line in another encoding does not affect the others
    try:
        for line in source:
            portal.call(send.send, line)
        portal.call(send.aclose)
    except (RuntimeError, CancelledError, anyio.BrokenResourceError):  # the receiver is closed
        send.close()
