"""The records of a persona: how its commands find and open the memory file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import anyio
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.database import MemoryDatabase
from reactive_agents.adapters.memory.records import SqlitePersonaStore
from reactive_agents.agent.persona_config import read_persona
from reactive_agents.cli.output import option
from reactive_agents.core.errors import ConfigErrors, InvalidConfig, PersonaErrors
from reactive_agents.core.ids import PersonaId
from reactive_agents.core.personas import PersonaSettings

_T = TypeVar("_T")

PersonaOption = Annotated[
    str | None, option("--persona", "-p", metavar="P", help="The persona's file, .toml or .json; or its id.")
]
MemoryOption = Annotated[
    Path | None,
    option("--memory", metavar="FILE", help="The persona's memory file, when --persona is an id."),
]


@frozen
class PersonaRecords:
    """A memory file, and the settings of one persona; ``None`` for any persona."""

    path: Path
    settings: PersonaSettings | None


def find_records(persona: str | None, memory: Path | None) -> Result[PersonaRecords, ConfigErrors]:
    """Return the records that the two options name.

    Fails with ``InvalidConfig`` when there is no such file, and with the errors of ``read_persona``.
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
        return Failure(
            InvalidConfig("--persona", "nothing", "a persona's file, or an id together with --memory")
        )
    if not memory.is_file():
        return Failure(InvalidConfig("memory", repr(str(memory)), "a memory file that exists"))
    return Success(PersonaRecords(memory, settings))


def settings_of(records: PersonaRecords) -> Result[PersonaSettings, ConfigErrors]:
    """Return the persona's settings.

    Fails with ``InvalidConfig`` when no persona is named.
    """
    if records.settings is None:
        return Failure(InvalidConfig("--persona", "nothing", "a persona's file or id"))
    return Success(records.settings)


def with_store(
    path: Path,
    work: Callable[[SqlitePersonaStore], Awaitable[Result[_T, PersonaErrors]]],
    *,
    read_only: bool = True,
) -> Result[_T, PersonaErrors]:
    """Run the work on the records of a file and return its result."""

    async def run() -> Result[_T, PersonaErrors]:
        store = SqlitePersonaStore(MemoryDatabase(path, read_only=read_only))
        try:
            return await work(store)
        finally:
            await store.aclose()

    return anyio.run(run)
