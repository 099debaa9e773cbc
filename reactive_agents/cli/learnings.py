"""``reactive-agents learnings``: list, show, change and delete learnings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.records import SqlitePersonaStore
from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.cli.output import ExitCode, JsonOption, fail, print_json, print_table, printable
from reactive_agents.cli.persona_records import (
    MemoryOption,
    PersonaOption,
    find_records,
    settings_of,
    with_store,
)
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import PersonaErrors, RecordNotFound
from reactive_agents.core.ids import LearningId
from reactive_agents.core.personas import LearningEntry, PersonaSettings
from reactive_agents.effects import attempt
from reactive_agents.persona import PersonaReasoningSystem, PersonaServices

_T = TypeVar("_T")
_Work = Callable[[PersonaReasoningSystem], Awaitable[Result[_T, PersonaErrors]]]

learnings = typer.Typer(
    help="List, show, change and delete the learnings of a persona.",
    add_completion=False,
    rich_markup_mode=None,
)


@frozen
class _Options:
    """Options that may be given before or after the name of a subcommand."""

    persona: str | None
    memory: Path | None
    as_json: bool

    def or_else(self, others: _Options) -> _Options:
        """Return these options, completed by the others where one is not given."""
        return _Options(
            others.persona if self.persona is None else self.persona,
            others.memory if self.memory is None else self.memory,
            self.as_json or others.as_json,
        )


@frozen
class _Query:
    """The records of one persona."""

    path: Path
    settings: PersonaSettings
    as_json: bool

    def run(self, work: _Work[_T], *, read_only: bool = True) -> _T:
        """Run the work on the persona's records and return its result; exit when it fails."""

        async def run(store: SqlitePersonaStore) -> Result[_T, PersonaErrors]:
            services = PersonaServices(store, LocalEventBus(), SystemClock(), UlidSource())
            return await work(PersonaReasoningSystem(self.settings, services))

        found = with_store(self.path, run, read_only=read_only)
        if isinstance(found, Failure):
            raise fail(found.failure(), as_json=self.as_json, code=ExitCode.FAILED)
        return found.unwrap()


def _query(options: _Options) -> _Query:
    """Return the records that the options name; exit when they name none."""
    records = find_records(options.persona, options.memory)
    settings = records.bind(settings_of)
    if isinstance(settings, Failure):
        raise fail(settings.failure(), as_json=options.as_json, code=ExitCode.BAD_USAGE)
    return _Query(records.unwrap().path, settings.unwrap(), options.as_json)


def _fraction(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise typer.BadParameter(f"got {text!r}, expected a number from 0 to 1.")
    return number


LearningArgument = Annotated[str, typer.Argument(metavar="ID", help="The learning's id.", show_default=False)]


@learnings.callback(invoke_without_command=True)
def list_learnings(
    context: typer.Context,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    domain: Annotated[
        str | None,
        typer.Option(
            "--domain", "-d", metavar="D", help="Only the learnings of this domain.", show_default=False
        ),
    ] = None,
    min_confidence: Annotated[
        Any,
        typer.Option(
            "--min-confidence",
            metavar="C",
            parser=_fraction,
            help="Only learnings with at least this confidence now, 0 to 1.",
            show_default=False,
        ),
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """List, show, change and delete the learnings of a persona.

    Without a subcommand it lists them, the most confident first.
    """
    options = context.obj = _Options(persona, memory, as_json)
    if context.invoked_subcommand is not None:
        return
    query = _query(options)

    async def listed(known: PersonaReasoningSystem) -> Result[tuple[LearningEntry, ...], PersonaErrors]:
        found: Result[tuple[LearningEntry, ...], PersonaErrors] = await attempt(
            known.learnings(domain, min_confidence=float(min_confidence))
        )
        return found

    found = query.run(listed)
    if as_json:
        print_json(encode(found))
        return
    rows = [
        (
            each.id,
            each.domain,
            f"{each.confidence:.2f}",
            f"{each.success_count}/{each.failure_count}",
            each.pattern,
        )
        for each in found
    ]
    print_table(("id", "domain", "confidence", "worked/failed", "pattern"), rows)


@learnings.command()
def show(
    context: typer.Context,
    learning: LearningArgument,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one learning, and the tasks that it was learned from."""
    query = _query(_Options(persona, memory, as_json).or_else(context.obj))

    async def found(known: PersonaReasoningSystem) -> Result[LearningEntry, PersonaErrors]:
        listed = await attempt(known.learnings())
        if isinstance(listed, Failure):
            return Failure(listed.failure())
        named = next((each for each in listed.unwrap() if each.id == learning), None)
        return Failure(RecordNotFound("learning", learning)) if named is None else Success(named)

    _print(query.run(found), as_json=query.as_json)


@learnings.command()
def delete(
    context: typer.Context,
    learning: LearningArgument,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete one learning."""
    query = _query(_Options(persona, memory, as_json).or_else(context.obj))

    async def deleted(known: PersonaReasoningSystem) -> Result[None, PersonaErrors]:
        done: Result[None, PersonaErrors] = await attempt(known.delete_learning(LearningId(learning)))
        return done

    query.run(deleted, read_only=False)
    if query.as_json:
        print_json({"deleted": learning})
    else:
        typer.echo(f"deleted {learning}")


@learnings.command()
def override(
    context: typer.Context,
    learning: LearningArgument,
    confidence: Annotated[
        Any,
        typer.Option(
            "--confidence",
            metavar="C",
            parser=_fraction,
            help="The new confidence, 0 to 1.",
            show_default=False,
        ),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="TEXT", help="The new wording.", show_default=False)
    ] = None,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a learning by hand, which pins it.

    Without --confidence and --pattern it is unpinned: its confidence follows from its counts again.
    """
    query = _query(_Options(persona, memory, as_json).or_else(context.obj))

    async def changed(known: PersonaReasoningSystem) -> Result[LearningEntry, PersonaErrors]:
        done: Result[LearningEntry, PersonaErrors] = await attempt(
            known.override_learning(LearningId(learning), confidence=confidence, pattern=pattern)
        )
        return done

    _print(query.run(changed, read_only=False), as_json=query.as_json)


def _print(learning: LearningEntry, *, as_json: bool) -> None:
    if as_json:
        print_json(encode(learning))
        return
    for name, text in (
        ("id", learning.id),
        ("domain", learning.domain),
        ("pattern", learning.pattern),
        ("context", learning.context),
        ("confidence", f"{learning.confidence:.2f}{' (set by hand)' if learning.pinned else ''}"),
        ("worked", str(learning.success_count)),
        ("failed", str(learning.failure_count)),
        ("learned from", ", ".join(learning.learned_from)),
        ("first seen", f"{learning.first_seen_at:%Y-%m-%d %H:%M:%S}"),
        ("last used", f"{learning.last_used_at:%Y-%m-%d %H:%M:%S}"),
    ):
        typer.echo(printable(f"{name}: {text}"))
