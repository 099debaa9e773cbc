"""``reactive-agents explain``: why a persona did what it did, from its records."""

from __future__ import annotations

from typing import Annotated

import typer
from returns.result import Failure, Result

from reactive_agents.adapters.memory.personas import SqlitePersonaStore
from reactive_agents.cli.exit_codes import ExitCode
from reactive_agents.cli.json_output import JsonOption, print_json
from reactive_agents.cli.persona_records import (
    MemoryOption,
    PersonaOption,
    fail,
    find_records,
    print_rows,
    with_store,
)
from reactive_agents.cli.plan import find_plan
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import PersonaErrors
from reactive_agents.core.persona_events import PersonaEvent
from reactive_agents.effects import attempt
from reactive_agents.persona.explaining import explain as explain_journal


def explain(
    plan_id: Annotated[
        str, typer.Option("--plan-id", metavar="ID", help="The plan to explain.", show_default=False)
    ],
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell how a plan came about and what became of it: event, learnings, plan, adjustments, outcome."""
    records = find_records(persona, memory)
    if isinstance(records, Failure):
        raise fail(records.failure(), as_json=as_json, code=ExitCode.BAD_USAGE)
    known = records.unwrap()

    async def journal(store: SqlitePersonaStore) -> Result[tuple[PersonaEvent, ...], PersonaErrors]:
        found = await find_plan(store, known, plan_id)
        if isinstance(found, Failure):
            return Failure(found.failure())
        recorded: Result[tuple[PersonaEvent, ...], PersonaErrors] = await attempt(
            store.journal(found.unwrap().task.id)
        )
        return recorded

    read = with_store(known.path, journal)
    if isinstance(read, Failure):
        raise fail(read.failure(), as_json=as_json, code=ExitCode.FAILED)
    chain = explain_journal(read.unwrap())
    if as_json:
        print_json(encode(chain))
        return
    rows = [(f"{link.at:%Y-%m-%d %H:%M:%S}", link.stage, link.text) for link in chain]
    print_rows(("when", "stage", "what"), rows)
