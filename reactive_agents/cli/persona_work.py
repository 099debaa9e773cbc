"""The work of a persona: ``persona inbox``, ``outbox``, ``plans``, ``forget``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import typer
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.system import SystemClock
from reactive_agents.cli import output
from reactive_agents.cli.persona_records import (
    MemoryOption,
    PersonaOption,
    PersonaRecords,
    find_plan,
    find_records,
    print_plan,
    settings_of,
    with_store,
)
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import InvalidConfig, PersonaErrors, RecordNotFound
from reactive_agents.core.ids import ContextId
from reactive_agents.core.persona_queue import WorkFilter, WorkItem, WorkKind, WorkOrder
from reactive_agents.core.personas import PersonaPlan
from reactive_agents.effects import attempt
from reactive_agents.persona.plan_changes import end_plan

ContextOption = Annotated[str | None, output.option("--context", metavar="C", help="Only this room.")]
TenantOption = Annotated[str | None, output.option("--tenant", metavar="T", help="Only this tenant.")]
MomentOption = Any
SinceOption = Annotated[
    MomentOption, output.option("--since", metavar="TIME", parser=output.moment, help="Not before this time.")
]
UntilOption = Annotated[
    MomentOption, output.option("--until", metavar="TIME", parser=output.moment, help="Before this time.")
]
LimitOption = Annotated[
    int, output.option("--limit", metavar="N", min=1, help="At most so many, the newest.")
]
NumberArgument = Annotated[int, typer.Argument(metavar="NUMBER", help="The number of the item.")]
PlanArgument = Annotated[str, typer.Argument(metavar="ID", help="The plan's id.")]


def _records(persona: str | None, memory: Any, *, as_json: bool) -> PersonaRecords:
    """Return the records of one persona; exit when the options name none."""
    found = find_records(persona, memory)
    output.value_or_exit(found.bind(settings_of), output.ExitCode.BAD_USAGE, as_json=as_json)
    return found.unwrap()


def _group(kinds: tuple[WorkKind, ...], title: str, noun: str) -> typer.Typer:
    """Return the commands for the items of some kinds."""
    a_noun = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
    group = output.command_group(title, no_args_is_help=True)

    @group.command("list", help=f"List the {noun}s, the newest first; by default those that are not done.")
    def list_items(
        persona: PersonaOption = None,
        memory: MemoryOption = None,
        every: Annotated[bool, output.option("--all", help="Also those that are done.")] = False,
        dead: Annotated[bool, output.option("--dead", help="Only dead letters.")] = False,
        context: ContextOption = None,
        tenant: TenantOption = None,
        since: SinceOption = None,
        until: UntilOption = None,
        limit: LimitOption = 50,
        as_json: output.JsonOption = False,
    ) -> None:
        records = _records(persona, memory, as_json=as_json)
        assert records.settings is not None, "checked above"
        chosen = WorkFilter(
            records.settings.id,
            kinds,
            ("dead",) if dead else () if every else ("open", "answered", "dead"),
            tenant,
            context_id=None if context is None else ContextId(context),
            since=since,
            until=until,
            limit=limit,
        )
        found = with_store(records.place, lambda store: attempt(store.find_work(chosen)))
        items = output.value_or_exit(found, output.ExitCode.FAILED, as_json=as_json)
        if as_json:
            output.print_json(encode(items))
            return
        rows = [
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
        ]
        output.print_table(("number", "state", "room", "key", "since", "reason", "text"), rows)

    def order(number: int, persona: str | None, memory: Any, given: WorkOrder, *, as_json: bool) -> None:
        records = _records(persona, memory, as_json=as_json)

        async def work(store: SqlitePersonaStore) -> Result[None, PersonaErrors]:
            assert records.settings is not None, "checked above"
            listed = await attempt(store.find_work(WorkFilter(records.settings.id, kinds, limit=10**9)))
            if isinstance(listed, Failure):
                return Failure(listed.failure())
            item = next((each for each in listed.unwrap() if each.number == number), None)
            if item is None or (given == "retry" and item.status == "done"):
                return Failure(RecordNotFound(f"{noun} to {given}", str(number)))
            ordered = await attempt(store.order_work(number, given))
            if isinstance(ordered, Success) and not ordered.unwrap():
                return Failure(RecordNotFound(f"{noun} to {given}", str(number)))
            return ordered.map(lambda _: None)

        done = with_store(records.place, work, read_only=False)
        output.value_or_exit(done, output.ExitCode.FAILED, as_json=as_json)
        if as_json:
            output.print_json({given: number})
        else:
            typer.echo(f"{'tried again' if given == 'retry' else 'dropped'}: {number}")

    @group.command(help=f"Try {a_noun} again from the first try; the persona's next process does it.")
    def retry(
        number: NumberArgument,
        persona: PersonaOption = None,
        memory: MemoryOption = None,
        as_json: output.JsonOption = False,
    ) -> None:
        order(number, persona, memory, "retry", as_json=as_json)

    @group.command(help=f"Drop {a_noun}, so that nothing is done about it any more.")
    def drop(
        number: NumberArgument,
        persona: PersonaOption = None,
        memory: MemoryOption = None,
        as_json: output.JsonOption = False,
    ) -> None:
        order(number, persona, memory, "drop", as_json=as_json)

    return group


def _state(item: WorkItem) -> str:
    if item.status == "open":
        return "under way" if item.holder else "waiting" if item.due is None else f"due {item.due:%H:%M:%S}"
    return item.status


inbox = _group(("event",), "List, retry and drop the events of a persona.", "event")
schedules = _group(("schedule",), "List, fire and drop the schedules and reminders of a persona.", "schedule")
outbox = _group(("delivery",), "List, retry and drop the messages of a persona.", "message")
evaluations = _group(("evaluation",), "List, retry and drop the evaluations of a persona.", "evaluation")


# --- plans --------------------------------------------------------------------------------------------------

plans = output.command_group("List, show, cancel and retry the plans of a persona.", no_args_is_help=True)


@plans.command("list")
def list_plans(
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    context: ContextOption = None,
    tenant: TenantOption = None,
    since: SinceOption = None,
    until: UntilOption = None,
    limit: LimitOption = 50,
    as_json: output.JsonOption = False,
) -> None:
    """List the plans by room and time, the newest first."""
    records = _records(persona, memory, as_json=as_json)
    assert records.settings is not None, "checked above"
    owner, room = records.settings.id, None if context is None else ContextId(context)
    found = with_store(
        records.place,
        lambda store: attempt(
            store.list_plans(owner, context_id=room, tenant=tenant, since=since, until=until, limit=limit)
        ),
    )
    listed = output.value_or_exit(found, output.ExitCode.FAILED, as_json=as_json)
    if as_json:
        output.print_json(encode(listed))
        return
    rows = [
        (
            each.id,
            each.plan.status,
            each.context_id,
            f"{each.plan.created_at:%Y-%m-%d %H:%M:%S}",
            each.plan.goal,
        )
        for each in listed
    ]
    output.print_table(("id", "status", "room", "since", "goal"), rows)


@plans.command()
def show(
    plan_id: PlanArgument,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show a plan and the state of its steps."""
    records = output.value_or_exit(find_records(persona, memory), output.ExitCode.BAD_USAGE, as_json=as_json)
    found = with_store(records.place, lambda store: find_plan(store, records, plan_id))
    plan = output.value_or_exit(found, output.ExitCode.FAILED, as_json=as_json)
    if as_json:
        output.print_json(encode(plan))
    else:
        print_plan(plan)


@plans.command()
def cancel(
    plan_id: PlanArgument,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Cancel an active plan: its next step is not begun, in whatever process."""
    _order_plan(plan_id, persona, memory, "drop", as_json=as_json)


@plans.command()
def retry(
    plan_id: PlanArgument,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Plan the event of a plan again that failed or was cancelled."""
    _order_plan(plan_id, persona, memory, "retry", as_json=as_json)


def _order_plan(plan_id: str, persona: str | None, memory: Any, order: WorkOrder, *, as_json: bool) -> None:
    records = output.value_or_exit(find_records(persona, memory), output.ExitCode.BAD_USAGE, as_json=as_json)

    async def work(store: SqlitePersonaStore) -> Result[PersonaPlan, PersonaErrors]:
        found = await find_plan(store, records, plan_id)
        if isinstance(found, Failure):
            return found
        plan = found.unwrap()
        room = plan.room
        chosen = WorkFilter(
            room.persona_id,
            ("event",),
            tenant=room.tenant,
            domain=room.domain,
            context_id=room.context_id,
            event_id=plan.event.id,
        )
        listed = await attempt(store.find_work(chosen))
        if isinstance(listed, Failure):
            return Failure(listed.failure())
        item = next(iter(listed.unwrap()), None)
        fits = (
            plan.plan.status == "active" if order == "drop" else plan.plan.status in ("failed", "abandoned")
        )
        ordered = (
            Success(False)
            if item is None or not fits or item.plan_id not in (None, plan.id)  # a later plan took its place
            else await attempt(store.order_work(item.number, order))
        )
        if isinstance(ordered, Failure):
            return Failure(ordered.failure())
        if not ordered.unwrap():
            wanted = "active plan" if order == "drop" else "failed plan"
            return Failure(RecordNotFound(wanted, plan_id))
        if order == "drop":
            plan = end_plan(plan, "abandoned", SystemClock().now())
            saved = await attempt(store.save_plan(plan))
            return saved.map(lambda _: plan)
        return Success(plan)

    done = with_store(records.place, work, read_only=False)
    plan = output.value_or_exit(done, output.ExitCode.FAILED, as_json=as_json)
    if as_json:
        output.print_json(encode(plan))
    else:
        typer.echo(f"{'cancelled' if order == 'drop' else 'tried again'}: {plan_id}")


# --- retention ----------------------------------------------------------------------------------------------


def forget(
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    user: Annotated[
        str | None,
        output.option("--user", metavar="U", help="The user's id, else the author's name."),
    ] = None,
    tenant: TenantOption = None,
    before: Annotated[
        MomentOption,
        output.option(
            "--before", metavar="TIME", parser=output.moment, help="Work that ended before this time."
        ),
    ] = None,
    as_json: output.JsonOption = False,
) -> None:
    """Delete what a persona keeps of a user, a tenant or a time.

    Events, messages, plans and journals; of a user and a tenant also notes, and lessons from nothing else.
    """
    records = _records(persona, memory, as_json=as_json)
    assert records.settings is not None, "checked above"
    owner, since = records.settings.id, before
    if user is None and tenant is None and since is None:
        wrong = InvalidConfig("forget", "nothing", "--user, --tenant or --before")
        raise output.fail(wrong, output.ExitCode.BAD_USAGE, as_json=as_json)
    moment: datetime | None = since
    done = with_store(
        records.place,
        lambda store: attempt(store.forget(owner, user=user, tenant=tenant, before=moment)),
        read_only=False,
    )
    count = output.value_or_exit(done, output.ExitCode.FAILED, as_json=as_json)
    if as_json:
        output.print_json({"deleted": count})
    else:
        typer.echo(f"deleted {count} event(s)")
