"""``reactive-agents plan`` and ``explain``: a persona's plans, from its records."""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.records import SqlitePersonaStore
from reactive_agents.cli import output
from reactive_agents.cli.persona_records import (
    MemoryOption,
    PersonaOption,
    PersonaRecords,
    find_records,
    settings_of,
    with_store,
)
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import ConfigErrors, InvalidConfig, PersonaErrors, RecordNotFound
from reactive_agents.core.ids import PlanId
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.core.personas import PersonaPlan
from reactive_agents.effects import attempt
from reactive_agents.persona.explanation import explain as explain_journal
from reactive_agents.persona.explanation import mermaid, svg


def plan(
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    plan_id: Annotated[
        str | None,
        output.option("--plan-id", metavar="ID", help="The active plan, or the newest one, by default."),
    ] = None,
    graph: Annotated[
        Literal["mermaid", "svg"] | None, output.option("--graph", help="Print the plan as a diagram.")
    ] = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show a persona's plan and the state of its steps.

    Shows the active plan, else the newest one: goal, steps, contingencies and success criteria.
    """
    if graph is not None and as_json:
        both = InvalidConfig("--graph", f"{graph} with --json", "one of the two")
        raise output.fail(both, as_json=True, code=output.ExitCode.BAD_USAGE)
    records = find_records(persona, memory)
    if plan_id is None:
        records = records.bind(_require_persona)
    known = output.value_or_exit(records, output.ExitCode.BAD_USAGE, as_json=as_json)
    found = with_store(known.path, lambda store: find_plan(store, known, plan_id))
    shown = output.value_or_exit(found, output.ExitCode.FAILED, as_json=as_json)
    if graph is not None:
        typer.echo(mermaid(shown) if graph == "mermaid" else svg(shown), nl=False)
    elif as_json:
        output.print_json(encode(shown))
    else:
        _print(shown)


async def find_plan(
    store: SqlitePersonaStore, records: PersonaRecords, plan_id: str | None
) -> Result[PersonaPlan, PersonaErrors]:
    """Return the plan with the id.

    Without an id the persona's active plan, or its newest.

    Fails with ``RecordNotFound``, or with ``MemoryUnavailable``.
    """
    if plan_id is not None:
        found = await attempt(store.get_plan(PlanId(plan_id)))
        if isinstance(found, Failure):
            return Failure(found.failure())
        plan = found.unwrap().value_or(None)
        return Failure(RecordNotFound("plan", plan_id)) if plan is None else Success(plan)
    assert records.settings is not None, "the caller requires a persona when there is no plan id"
    persona_id = records.settings.id
    for status in ("active", None):
        listed = await attempt(store.list_plans(persona_id, status=status, limit=1))
        if isinstance(listed, Failure):
            return Failure(listed.failure())
        if listed.unwrap():
            return Success(listed.unwrap()[0])
    return Failure(RecordNotFound("plan of", persona_id))


def _require_persona(records: PersonaRecords) -> Result[PersonaRecords, ConfigErrors]:
    return settings_of(records).map(lambda _: records)


def _print(shown: PersonaPlan) -> None:
    verdict = {None: "not assessed", True: "criteria met", False: "criteria not met"}[shown.succeeded]
    typer.echo(output.printable(f"plan {shown.id} ({shown.plan.status}, {verdict}, {shown.source})"))
    typer.echo(output.printable(f"event: {shown.event.author}: {shown.event.content}"))
    typer.echo(output.printable(f"goal: {shown.plan.goal}"))
    if shown.attempts:
        typer.echo(f"replanned: {shown.attempts}")
    rows = [
        (step.id, step.status, step.instruction, step.expected_outcome, step.error or step.result or "")
        for step in shown.plan.steps
    ]
    output.print_table(("step", "state", "instruction", "expected", "result"), rows)
    for each in shown.contingencies:
        typer.echo(output.printable(f"on {each.kind}: {' -> '.join(each.actions)}"))
    for criterion in shown.success_criteria:
        typer.echo(output.printable(f"criterion: {criterion}"))


def explain(
    plan_id: Annotated[str, output.option("--plan-id", metavar="ID", help="The plan to explain.")],
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Explain how a persona's plan was made and how it ended.

    Prints the event, the learnings that were used, the plan, its adjustments, the outcome and the evaluation,
    from the records alone: no model is asked.
    """
    known = output.value_or_exit(find_records(persona, memory), output.ExitCode.BAD_USAGE, as_json=as_json)

    async def journal(store: SqlitePersonaStore) -> Result[tuple[PersonaEvent, ...], PersonaErrors]:
        found = await find_plan(store, known, plan_id)
        if isinstance(found, Failure):
            return Failure(found.failure())
        return await attempt(store.journal(found.unwrap().task.id))

    chain = explain_journal(
        output.value_or_exit(with_store(known.path, journal), output.ExitCode.FAILED, as_json=as_json)
    )
    if as_json:
        output.print_json(encode(chain))
        return
    rows = [(f"{link.at:%Y-%m-%d %H:%M:%S}", link.stage, link.text) for link in chain]
    output.print_table(("time", "stage", "text"), rows)
