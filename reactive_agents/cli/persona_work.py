"""The work of a persona: ``persona inbox``, ``outbox``, ``plans``, ``forget``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from reactive_agents.adapters.memory.persona_store import SqlitePersonaStore
from reactive_agents.adapters.system import SystemClock
from reactive_agents.cli import output, persona_records
from reactive_agents.core.codec import encode
from reactive_agents.core.persona_queue import WorkFilter, WorkItem, WorkKind, WorkOrder, WorkStatus
from reactive_agents.core.personas import PersonaPlan
from reactive_agents.persona.plan_changes import end_plan

TenantOption = Annotated[str | None, output.option("--tenant", metavar="T", help="Only this tenant.")]
NumberArgument = Annotated[
    int, typer.Argument(metavar="NUMBER", min=1, max=2**63 - 1, help="The number of the item.")
]


def _filters(
    context: Annotated[str | None, output.option("--context", metavar="C", help="Only this room.")] = None,
    tenant: TenantOption = None,
    since: Annotated[
        Any, output.option("--since", metavar="TIME", parser=output.moment, help="Not before this time.")
    ] = None,
    until: Annotated[
        Any, output.option("--until", metavar="TIME", parser=output.moment, help="Before this time.")
    ] = None,
    limit: Annotated[
        int,
        output.option("--limit", metavar="N", min=1, help="The maximum number of items, the newest first."),
    ] = 50,
) -> dict[str, Any]:
    return {"context_id": context, "tenant": tenant, "since": since, "until": until, "limit": limit}


Filters = Annotated[dict[str, Any], output.Options(_filters)]
PlanArgument = Annotated[str, typer.Argument(metavar="ID", help="The plan's id.")]


def _group(kinds: tuple[WorkKind, ...], title: str, noun: str) -> typer.Typer:
    a_noun = f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
    group = output.command_group(title, no_args_is_help=True)

    @group.command("list", help=f"List the {noun}s, the newest first; by default those that are not done.")
    def list_items(
        records: persona_records.Records,
        every: Annotated[bool, output.option("--all", help="Include those that are done.")] = False,
        dead: Annotated[bool, output.option("--dead", help="Only dead letters.")] = False,
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
    if item.status == "open":
        return "under way" if item.holder else "waiting" if item.due is None else f"due {item.due:%H:%M:%S}"
    return item.status


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
    user: Annotated[
        str | None, output.option("--user", metavar="U", help="The user's id, else the author's name.")
    ] = None,
    tenant: TenantOption = None,
    before: Annotated[
        Any,
        output.option(
            "--before", metavar="TIME", parser=output.moment, help="Work that ended before this time."
        ),
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
