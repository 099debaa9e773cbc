"""``reactive-agents learnings``: list, show, change and delete learnings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from attrs import frozen
from returns.result import Result

from reactive_agents.adapters.memory.records import SqlitePersonaStore
from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.cli import output, persona_records
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import PersonaErrors, RecordNotFound
from reactive_agents.core.ids import LearningId
from reactive_agents.core.personas import LearningEntry, PersonaSettings
from reactive_agents.effects import Effect, attempt
from reactive_agents.persona import PersonaReasoningSystem, PersonaServices

_T = TypeVar("_T")
_Work = Callable[[PersonaReasoningSystem], Effect[_T, PersonaErrors]]

learnings = output.command_group("List, show, change and delete the learnings of a persona.")


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
            return await attempt(work(PersonaReasoningSystem(self.settings, services)))

        found = persona_records.with_store(self.path, run, read_only=read_only)
        return output.value_or_exit(found, output.ExitCode.FAILED, as_json=self.as_json)


def _query(options: _Options) -> _Query:
    """Return the records that the options name; exit when they name none."""
    records = persona_records.find_records(options.persona, options.memory)
    settings = output.value_or_exit(
        records.bind(persona_records.settings_of), output.ExitCode.BAD_USAGE, as_json=options.as_json
    )
    return _Query(records.unwrap().path, settings, options.as_json)


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
    persona: persona_records.PersonaOption = None,
    memory: persona_records.MemoryOption = None,
    domain: Annotated[
        str | None, output.option("--domain", "-d", metavar="D", help="Only the learnings of this domain.")
    ] = None,
    min_confidence: Annotated[
        Any,
        output.option(
            "--min-confidence",
            metavar="C",
            parser=_fraction,
            help="Only learnings with at least this confidence now, 0 to 1.",
        ),
    ] = 0.0,
    as_json: output.JsonOption = False,
) -> None:
    """List, show, change and delete the learnings of a persona.

    Without a subcommand it lists them, the most confident first.
    """
    options = context.obj = _Options(persona, memory, as_json)
    if context.invoked_subcommand is not None:
        return
    query = _query(options)

    found = query.run(lambda known: known.learnings(domain, min_confidence=float(min_confidence)))
    if as_json:
        output.print_json(encode(found))
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
    output.print_table(("id", "domain", "confidence", "worked/failed", "pattern"), rows)


@learnings.command()
def show(
    context: typer.Context,
    learning: LearningArgument,
    persona: persona_records.PersonaOption = None,
    memory: persona_records.MemoryOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show one learning, and the tasks that it was learned from."""
    query = _query(_Options(persona, memory, as_json).or_else(context.obj))

    listed = query.run(lambda known: known.learnings())
    found = next((each for each in listed if each.id == learning), None)
    if found is None:
        raise output.fail(RecordNotFound("learning", learning), output.ExitCode.FAILED, as_json=query.as_json)
    _print(found, as_json=query.as_json)


@learnings.command()
def delete(
    context: typer.Context,
    learning: LearningArgument,
    persona: persona_records.PersonaOption = None,
    memory: persona_records.MemoryOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Delete one learning."""
    query = _query(_Options(persona, memory, as_json).or_else(context.obj))

    query.run(lambda known: known.delete_learning(LearningId(learning)), read_only=False)
    if query.as_json:
        output.print_json({"deleted": learning})
    else:
        typer.echo(f"deleted {learning}")


@learnings.command()
def override(
    context: typer.Context,
    learning: LearningArgument,
    confidence: Annotated[
        Any, output.option("--confidence", metavar="C", parser=_fraction, help="The new confidence, 0 to 1.")
    ] = None,
    pattern: Annotated[
        str | None, output.option("--pattern", metavar="TEXT", help="The new wording.")
    ] = None,
    persona: persona_records.PersonaOption = None,
    memory: persona_records.MemoryOption = None,
    as_json: output.JsonOption = False,
) -> None:
    """Set a learning by hand, which pins it.

    Without --confidence and --pattern it is unpinned: its confidence follows from its counts again.
    """
    query = _query(_Options(persona, memory, as_json).or_else(context.obj))

    changed = query.run(
        lambda known: known.override_learning(LearningId(learning), confidence=confidence, pattern=pattern),
        read_only=False,
    )
    _print(changed, as_json=query.as_json)


def _print(learning: LearningEntry, *, as_json: bool) -> None:
    if as_json:
        output.print_json(encode(learning))
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
        typer.echo(output.printable(f"{name}: {text}"))
