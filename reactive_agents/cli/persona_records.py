"""Where the commands about a persona's records find them, and how they print what they find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import anyio
import typer
from attrs import frozen
from returns.result import Failure, Result, Success
from rich.console import Console
from rich.table import Table

from reactive_agents.adapters.memory.database import Database
from reactive_agents.adapters.memory.personas import SqlitePersonaStore
from reactive_agents.agent.persona_config import read_persona
from reactive_agents.cli.event_lines import printable
from reactive_agents.cli.output import ExitCode, print_json
from reactive_agents.core.errors import ConfigErrors, InvalidConfig, PersonaErrors
from reactive_agents.core.ids import PersonaId
from reactive_agents.core.json import Json
from reactive_agents.core.personas import PersonaSettings

_T = TypeVar("_T")

PersonaOption = Annotated[
    str | None,
    typer.Option(
        "--persona",
        "-p",
        metavar="P",
        help="A persona's file, .toml or .json; or its id.",
        show_default=False,
    ),
]
MemoryOption = Annotated[
    Path | None,
    typer.Option(
        "--memory",
        metavar="FILE",
        help="The persona's memory file, where --persona is an id.",
        show_default=False,
    ),
]


@frozen
class Records:
    """A memory file, and the persona that is asked about; ``None`` for whichever."""

    path: Path
    settings: PersonaSettings | None


def find_records(persona: str | None, memory: Path | None) -> Result[Records, ConfigErrors]:
    """The records that two options name.

    Fails with ``InvalidConfig`` when there is no such file, and as reading the persona's file does.
    """
    settings: PersonaSettings | None = None
    if persona is not None and memory is None:
        read = read_persona(Path(persona))
        if isinstance(read, Failure):
            return Failure(read.failure())
        settings, memory = read.unwrap().settings(), Path(read.unwrap().memory)
    elif persona is not None:
        settings = PersonaSettings(PersonaId(persona), persona)
    if memory is None:
        return Failure(InvalidConfig("--persona", "nothing", "a persona's file, or --memory besides"))
    if not memory.is_file():
        return Failure(InvalidConfig("memory", repr(str(memory)), "a memory file that exists"))
    return Success(Records(memory, settings))


def settings_of(records: Records) -> Result[PersonaSettings, ConfigErrors]:
    """The persona, where one must be named."""
    if records.settings is None:
        return Failure(InvalidConfig("--persona", "nothing", "a persona's file or id"))
    return Success(records.settings)


def with_store(
    path: Path,
    work: Callable[[SqlitePersonaStore], Awaitable[Result[_T, PersonaErrors]]],
    *,
    read_only: bool = True,
) -> Result[_T, PersonaErrors]:
    """What the work comes to on the records of a file, which is closed again."""

    async def run() -> Result[_T, PersonaErrors]:
        store = SqlitePersonaStore(Database(path, read_only=read_only))
        try:
            return await work(store)
        finally:
            await store.aclose()

    return anyio.run(run)


def fail(error: ConfigErrors | PersonaErrors, *, as_json: bool, code: ExitCode) -> typer.Exit:
    """Print what is wrong, and exit with the code: ``raise fail(…)``."""
    if as_json:
        print_json(error_record(type(error).__name__, error.message))
    else:
        typer.echo(printable(f"error: {error.message}"), err=True)
    return typer.Exit(code)


def error_record(tag: str, message: str) -> Json:
    """What JSON says instead of what was asked for."""
    return {"error": {"tag": tag, "message": message}}


def print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on a terminal; elsewhere one line a row, with tabs between the cells."""
    console = Console()
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(" ".join(printable(cell).split()) for cell in row))
        return
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(printable(cell) for cell in row))
    console.print(table, markup=False)
