"""The records of a persona: ``plan``, ``explain`` and ``learnings``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import anyio
import typer
from attrs import evolve, field, frozen

from reactive_agents.adapters.memory.database import open_memory_store
from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.agent.config import read_data
from reactive_agents.agent.persona import PersonaAgent, Personas
from reactive_agents.agent.persona_config import PersonaConfig
from reactive_agents.cli import output
from reactive_agents.cli.output import argument, option
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import PersonaErrors, RecordNotFound
from reactive_agents.core.ids import ContextId, EventId, LearningId, PersonaId, PlanId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.persona_queue import WorkFilter, WorkItem
from reactive_agents.core.personas import LearningEntry, PersonaPlan, PersonaSettings, Room
from reactive_agents.effects import Effect, attempt
from reactive_agents.persona import PersonaReasoningSystem, PersonaServices
from reactive_agents.persona.explanation import ExplanationLine, explain_feedback, explain_work
from reactive_agents.persona.explanation import explain as explain_journal
from reactive_agents.persona.reasoning_system import is_waiting
from reactive_agents.studio.diagrams import mermaid, persona_diagram, svg

_T = TypeVar("_T")
_Work = Callable[[PersonaReasoningSystem], Effect[_T, PersonaErrors]]

PersonaOption = Annotated[
    str | None, option("--persona -p P", "The persona's file, its module:name, or its id.")
]
MemoryOption = Annotated[
    str | None,
    option(
        "--memory FILE_OR_URL",
        "The persona's memory: a file, or a Postgres URL; by default that of the persona's file.",
    ),
]


@frozen
class PersonaRecords:
    """A memory, and one persona's settings; ``None`` for any persona."""

    place: str
    settings: PersonaSettings | None

    @property
    def persona(self) -> PersonaSettings:
        """The persona's settings; exit when no persona is named."""
        if self.settings is None:
            raise output.bad_usage("--persona", "nothing", "a persona's file or id")
        return self.settings

    def ask(self, work: Callable[[SqlitePersonaStore], Awaitable[_T]], *, read_only: bool = True) -> _T:
        """Run work on the records and return its result."""

        async def ask() -> _T:
            async with aclosing(
                SqlitePersonaStore(open_memory_store(self.place, read_only=read_only))
            ) as store:
                return await work(store)

        return anyio.run(ask)

    async def value(self, asked: Effect[_T, PersonaErrors]) -> _T:
        """Return the value of an effect of the work; exit when it fails."""
        return output.value_or_exit(await attempt(asked), output.ExitCode.FAILED)

    def missing(self, kind: str, name: str) -> typer.Exit:
        """Report a missing record; return the exception that exits."""
        return output.fail(RecordNotFound(kind, name))

    async def plan(self, store: SqlitePersonaStore, plan_id: str | None) -> PersonaPlan:
        """Return the plan of an id, else the active or newest one; exit without one."""
        if plan_id is not None:
            plan = (await self.value(store.get_plan(PlanId(plan_id)))).value_or(None)
            if plan is None:
                raise self.missing("plan", plan_id)
            return plan
        persona_id = self.persona.id
        for status in ("active", None):
            for newest in await self.value(store.list_plans(persona_id, status=status, limit=1)):
                return newest
        raise self.missing("plan of", persona_id)

    def reason(self, work: _Work[_T], *, read_only: bool = True) -> _T:
        """Run the work on the persona's learnings, as :meth:`ask` does."""
        settings = self.persona

        def run(store: SqlitePersonaStore) -> Awaitable[_T]:
            services = PersonaServices(store, LocalEventBus(), SystemClock(), UlidSource())
            return self.value(work(PersonaReasoningSystem(settings, services)))

        return self.ask(run, read_only=read_only)

    def change(self, work: _Work[LearningEntry]) -> None:
        """Change a learning, and print it."""
        _print_learning(self.reason(work, read_only=False))


def records_of(persona: PersonaOption = None, memory: MemoryOption = None) -> PersonaRecords:
    """Return the records for the two options; exit if there are none."""
    settings: PersonaSettings | None = None
    if persona is not None and memory is None and output.is_python_name(persona):
        container = output.from_python(persona, PersonaAgent, Personas).container
        settings, memory = container.settings(), container.path()
    elif persona is not None and (memory is None or Path(persona).is_file()):
        found = read_data(Path(persona), PersonaConfig)  # no tool is run
        read = output.value_or_exit(found)
        settings, memory = read.settings(), read.memory if memory is None else memory
    elif persona is not None:
        settings = PersonaSettings(PersonaId(persona), persona)
    if memory is None:
        raise output.bad_usage("--persona", "nothing", "a persona's file, or an id together with --memory")
    output.check_there("memory", memory, "a memory file")
    return PersonaRecords(memory, settings)


Records = Annotated[PersonaRecords, output.Options(records_of)]


def plan(
    known: Records,
    plan_id: Annotated[
        str | None, option("--plan-id ID", "By default the active plan, or the newest one.")
    ] = None,
    graph: Annotated[
        Literal["mermaid", "svg"] | None, option("--graph", "Print the plan as a diagram.")
    ] = None,
) -> None:
    """Show a persona's plan and the state of its steps.

    Shows the active plan, else the newest one: goal, steps, contingencies and success criteria.
    """
    if graph is not None and output.is_json():
        raise output.bad_usage("--graph", f"{graph} with --json", "one of the two")
    shown = known.ask(lambda store: known.plan(store, plan_id))
    if graph is not None:
        drawn = persona_diagram(shown)
        typer.echo(mermaid(drawn) if graph == "mermaid" else svg(drawn))
    elif output.is_json():
        output.print_json(encode(shown))
    else:
        print_plan(shown)


def print_plan(shown: PersonaPlan) -> None:
    """Print a plan and the state of its steps."""
    verdict = {None: "not assessed", True: "criteria met", False: "criteria not met"}[shown.succeeded]
    typer.echo(output.printable(f"plan {shown.id} ({shown.plan.status}, {verdict}, {shown.source})"))
    typer.echo(_on_its_lines(f"event: {shown.event.author}: {shown.event.content}"))
    typer.echo(_on_its_lines(f"goal: {shown.plan.goal}"))
    if shown.attempts:
        typer.echo(f"replanned: {shown.attempts}")
    rows = [
        (step.id, step.status, step.instruction, step.expected_outcome, step.error or step.result or "")
        for step in shown.plan.steps
    ]
    output.print_table(("step", "state", "instruction", "expected", "result"), rows)
    for each in shown.contingencies:
        typer.echo(_on_its_lines(f"on {each.kind}: {' -> '.join(each.actions)}"))
    for criterion in shown.success_criteria:
        typer.echo(_on_its_lines(f"criterion: {criterion}"))


def _on_its_lines(text: str) -> str:
    """Return a text with further lines indented, so that none begins a part."""
    return output.printable("\n  ".join(text.splitlines()))


def explain(
    known: Records,
    plan_id: Annotated[str | None, option("--plan-id ID", "The plan to explain.")] = None,
    event: Annotated[str | None, option("--event ID", "The event, also a declined one.")] = None,
    message: Annotated[str | None, option("--message ID", "The platform's id of a sent message.")] = None,
    context: Annotated[str | None, option("--context C", "The room of the event.")] = None,
) -> None:
    """Explain what a persona did about an event, and why.

    Takes one of --plan-id, --event and --message. Prints the event, the learnings that were used, the plan,
    the tool calls, the adjustments, the outcome, the reactions, the deliveries and the evaluation, from the
    records, without a model call. Events with the same id in several rooms are explained one by one.
    """
    if sum(each is not None for each in (plan_id, event, message)) != 1:
        raise output.bad_usage("explain", "none or several", "one of --plan-id, --event and --message")

    async def told(store: SqlitePersonaStore) -> list[_Explained]:
        plan = None if plan_id is None else await known.plan(store, plan_id)
        name = event if plan is None else plan.event.id
        place = context if plan is None else plan.context_id
        chosen = WorkFilter(
            None if known.settings is None else known.settings.id,
            context_id=None if place is None else ContextId(place),
            event_id=None if name is None else EventId(name),
            message_id=message,
            limit=_MOST_ITEMS,
        )
        found = _by_room(await _work(known, store, chosen))
        if plan is not None:
            of_plan = [each for each in found if plan.task.id in each.tasks]
            found = [evolve(each, tasks=[plan.task.id]) for each in of_plan or [_Explained()]]
        elif message is not None:
            found = [each for each in found if any(item.message_id == message for item in each.items)]
        found = [each for each in found if each.tasks]
        if not found:
            raise known.missing("event", name or message or "")
        for each in found:
            plan_ids = [item.plan_id for item in each.items if item.plan_id] if plan is None else [plan.id]
            each.lines.extend(await _lines(known, store, each, plan_ids))
        return found

    explained = known.ask(told)
    if output.is_json():
        output.print_json([link for each in explained for link in each.document()])
        return
    for place, each in enumerate(explained):
        if len(explained) > 1:  # events with the same id in several rooms
            typer.echo("\n" * (place > 0) + output.printable(f"room: {each.place}"))
        rows = [(f"{link.at:%Y-%m-%d %H:%M:%S}", link.stage, link.text) for link in each.lines]
        output.print_table(("time", "stage", "text"), rows)


async def _work(known: PersonaRecords, store: SqlitePersonaStore, chosen: WorkFilter) -> list[WorkItem]:
    """Return the chosen items in their order; of a message, all items of its event."""
    work = await known.value(store.find_work(chosen))
    if chosen.message_id is not None and work:
        sent = work[0]
        of_event = evolve(chosen, context_id=sent.room.context_id, event_id=sent.event.id, message_id=None)
        work = await known.value(store.find_work(of_event))
    return sorted(work, key=lambda each: each.number)


def _by_room(work: Iterable[WorkItem]) -> list[_Explained]:
    """Return the items of each event and room, and the tasks that they name."""
    rooms: dict[tuple[Room, EventId], list[WorkItem]] = {}
    for item in work:
        rooms.setdefault((item.room, item.event.id), []).append(item)
    return [
        _Explained(room, [*dict.fromkeys(each.task_id for each in items if each.task_id is not None)], items)
        for (room, _), items in rooms.items()
    ]


async def _lines(
    known: PersonaRecords, store: SqlitePersonaStore, of: _Explained, plan_ids: Iterable[PlanId]
) -> list[ExplanationLine]:
    """Return what the journals, the plans and the queue tell, in this order."""
    lines: list[ExplanationLine] = []
    for task_id in of.tasks:
        lines.extend(explain_journal(await known.value(store.journal(task_id))))
    for plan_id in dict.fromkeys(plan_ids):
        plan = await known.value(store.get_plan(plan_id))
        lines.extend(plan.map(explain_feedback).value_or(()))
    lines.extend(explain_work(of.items))
    return lines


_MOST_ITEMS = 1_000
"""Items of the queue for events with the same id, in all rooms."""


@frozen
class _Explained:
    """The explanation of an event in its room; ``None`` for a plan without work."""

    room: Room | None = None
    tasks: list[TaskId] = field(factory=list)
    items: list[WorkItem] = field(factory=list)
    lines: list[ExplanationLine] = field(factory=list)

    @property
    def place(self) -> str:
        """The room as a text: the persona, its domain, the customer if any, and the room."""
        room = self.room
        if room is None:
            return ""
        return "/".join(filter(None, (room.persona_id, room.domain, room.tenant, room.context_id)))

    def document(self) -> list[JsonObject]:
        encoded: Any = encode(tuple(self.lines))
        return [{**line, "room": self.place or None} for line in encoded]


learnings = output.command_group("List, show, change and delete the learnings of a persona.")


def _of_learnings(
    context: typer.Context,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
) -> PersonaRecords:
    """Return the records for options after a subcommand, or else before it."""
    earlier_persona, earlier_memory = context.obj
    return records_of(
        earlier_persona if persona is None else persona, earlier_memory if memory is None else memory
    )


_Records = Annotated[PersonaRecords, output.Options(_of_learnings)]
LearningArgument = Annotated[str, argument("ID", "The learning's id.")]


@learnings.callback(invoke_without_command=True)
def list_learnings(
    context: typer.Context,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    domain: Annotated[str | None, option("--domain -d D", "Only the learnings of this domain.")] = None,
    min_confidence: Annotated[
        Any,
        option(
            "--min-confidence C",
            "Only learnings with at least this current confidence, 0 to 1.",
            parser=output.number_up_to(1, "a number"),
        ),
    ] = 0.0,
) -> None:
    """List, show, change and delete the learnings of a persona.

    Without a subcommand it lists them, the most confident first.
    """
    context.obj = (persona, memory)
    if context.invoked_subcommand is not None:
        return
    records = records_of(persona, memory)
    found = records.reason(lambda known: known.learnings(domain, min_confidence=float(min_confidence)))
    rows = (
        (
            each.id,
            each.domain,
            f"{each.confidence:.2f}",
            f"{each.success_count}/{each.failure_count}",
            each.pattern,
        )
        for each in found
    )
    headings = ("id", "domain", "confidence", "worked/failed", "pattern")
    output.print_found(found, headings, rows)


@learnings.command()
def show(records: _Records, learning: LearningArgument) -> None:
    """Show a learning and the tasks that it was learned from."""
    listed = records.reason(lambda known: known.learnings())
    found = next((each for each in listed if each.id == learning), None)
    if found is None:
        raise records.missing("learning", learning)
    _print_learning(found)


@learnings.command()
def delete(records: _Records, learning: LearningArgument) -> None:
    """Delete one learning."""
    records.reason(lambda known: known.delete_learning(LearningId(learning)), read_only=False)
    output.report({"deleted": learning}, f"deleted {learning}")


@learnings.command()
def override(
    records: _Records,
    learning: LearningArgument,
    confidence: Annotated[
        Any,
        option("--confidence C", "The new confidence, 0 to 1.", parser=output.number_up_to(1, "a number")),
    ] = None,
    pattern: Annotated[str | None, option("--pattern TEXT", "The new wording.")] = None,
) -> None:
    """Set a learning by hand, and pin it.

    Without --confidence and --pattern, unpin it: its confidence follows from its counts again.
    """
    records.change(
        lambda known: known.override_learning(LearningId(learning), confidence=confidence, pattern=pattern)
    )


@learnings.command()
def review(records: _Records) -> None:
    """List the learnings that wait for approval for every room.

    Each has words from one room, and is used only there until approved.
    """
    found = [each for each in records.reason(lambda known: known.learnings()) if is_waiting(each)]
    rows = ((each.id, each.tenant, each.domain, each.room or "", each.pattern) for each in found)
    output.print_found(found, ("id", "tenant", "domain", "room", "pattern"), rows)


@learnings.command()
def approve(
    records: _Records,
    learning: LearningArgument,
    pattern: Annotated[str | None, option("--pattern TEXT", "Its general wording.")] = None,
) -> None:
    """Use a learning in every room of its tenant.

    Without --pattern its names, numbers and quotations are removed.
    """
    records.change(lambda known: known.review_learning(LearningId(learning), pattern=pattern))


@learnings.command()
def keep(records: _Records, learning: LearningArgument) -> None:
    """Keep a learning in its room, and stop proposing it."""
    records.change(lambda known: known.review_learning(LearningId(learning), shared=False))


def _print_learning(learning: LearningEntry) -> None:
    lines = (
        f"id: {learning.id}",
        f"domain: {learning.domain}",
        f"pattern: {learning.pattern}",
        f"context: {learning.context}",
        f"used in: {'every room' if learning.room is None else f'room {learning.room}'}",
        f"confidence: {learning.confidence:.2f}{' (set by hand)' if learning.pinned else ''}",
        f"worked: {learning.success_count}",
        f"failed: {learning.failure_count}",
        f"learned from: {', '.join(learning.learned_from)}",
        f"first seen: {learning.first_seen_at:%Y-%m-%d %H:%M:%S}",
        f"last used: {learning.last_used_at:%Y-%m-%d %H:%M:%S}",
    )
    output.report(encode(learning), "\n".join(lines))
