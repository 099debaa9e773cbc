"""``reactive-agents learnings``: what a persona has learned, and the means to correct it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.memory.personas import SqlitePersonaStore
from reactive_agents.adapters.system import SystemClock, UlidSource
from reactive_agents.adapters.telemetry.event_bus import LocalEventBus
from reactive_agents.cli.event_lines import printable
from reactive_agents.cli.output import ExitCode, JsonOption, print_json
from reactive_agents.cli.persona_records import (
    MemoryOption,
    PersonaOption,
    fail,
    find_records,
    print_rows,
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
_Asked = Callable[[PersonaReasoningSystem], Awaitable[Result[_T, PersonaErrors]]]

learnings = typer.Typer(help="What a persona has learned.", rich_markup_mode=None)


@frozen
class _Options:
    """The options that the command and its subcommands share: they may stand with either."""

    persona: str | None
    memory: Path | None
    as_json: bool

    def or_else(self, others: _Options) -> _Options:
        """These, and where one is not given, that of the others."""
        return _Options(
            others.persona if self.persona is None else self.persona,
            others.memory if self.memory is None else self.memory,
            self.as_json or others.as_json,
        )


@frozen
class _Asking:
    path: Path
    settings: PersonaSettings
    as_json: bool

    def answer(self, asked: _Asked[_T], *, read_only: bool = True) -> _T:
        """What the persona's records say; exits when they cannot be read or hold no such thing."""

        async def work(store: SqlitePersonaStore) -> Result[_T, PersonaErrors]:
            services = PersonaServices(store, LocalEventBus(), SystemClock(), UlidSource())
            return await asked(PersonaReasoningSystem(self.settings, services))

        found = with_store(self.path, work, read_only=read_only)
        if isinstance(found, Failure):
            raise fail(found.failure(), as_json=self.as_json, code=ExitCode.FAILED)
        return found.unwrap()


def _asking(options: _Options) -> _Asking:
    """Whose learnings the options name; exits when they name nobody's."""
    records = find_records(options.persona, options.memory)
    settings = records.bind(settings_of)
    if isinstance(settings, Failure):
        raise fail(settings.failure(), as_json=options.as_json, code=ExitCode.BAD_USAGE)
    return _Asking(records.unwrap().path, settings.unwrap(), options.as_json)


def _fraction(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number <= 1.0:
        raise typer.BadParameter(f"got {text!r}, expected a number from 0 to 1.")
    return number


LearningArgument = Annotated[str, typer.Argument(metavar="ID", help="The learning.", show_default=False)]


@learnings.callback(invoke_without_command=True)
def list_learnings(
    context: typer.Context,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    domain: Annotated[
        str | None, typer.Option("--domain", "-d", metavar="D", help="Of one domain.", show_default=False)
    ] = None,
    min_confidence: Annotated[
        Any,
        typer.Option(
            "--min-confidence",
            metavar="C",
            parser=_fraction,
            help="0 to 1: only those that are trusted as much now.",
            show_default=False,
        ),
    ] = 0.0,
    as_json: JsonOption = False,
) -> None:
    """List what a persona has learned, the most trusted first."""
    options = context.obj = _Options(persona, memory, as_json)
    if context.invoked_subcommand is not None:
        return
    asking = _asking(options)

    async def listed(known: PersonaReasoningSystem) -> Result[tuple[LearningEntry, ...], PersonaErrors]:
        found: Result[tuple[LearningEntry, ...], PersonaErrors] = await attempt(
            known.learnings(domain, min_confidence=float(min_confidence))
        )
        return found

    found = asking.answer(listed)
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
    print_rows(("id", "domain", "confidence", "worked/failed", "pattern"), rows)


@learnings.command()
def show(
    context: typer.Context,
    learning: LearningArgument,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one learning, and the tasks that it rests on."""
    asking = _asking(_Options(persona, memory, as_json).or_else(context.obj))

    async def found(known: PersonaReasoningSystem) -> Result[LearningEntry, PersonaErrors]:
        listed = await attempt(known.learnings())
        if isinstance(listed, Failure):
            return Failure(listed.failure())
        named = next((each for each in listed.unwrap() if each.id == learning), None)
        return Failure(RecordNotFound("learning", learning)) if named is None else Success(named)

    _print(asking.answer(found), as_json=asking.as_json)


@learnings.command()
def delete(
    context: typer.Context,
    learning: LearningArgument,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Delete one learning."""
    asking = _asking(_Options(persona, memory, as_json).or_else(context.obj))

    async def deleted(known: PersonaReasoningSystem) -> Result[None, PersonaErrors]:
        done: Result[None, PersonaErrors] = await attempt(known.delete_learning(LearningId(learning)))
        return done

    asking.answer(deleted, read_only=False)
    if asking.as_json:
        print_json({"deleted": learning})
    else:
        typer.echo(f"deleted {learning}")


@learnings.command()
def override(
    context: typer.Context,
    learning: LearningArgument,
    confidence: Annotated[
        Any,
        typer.Option("--confidence", metavar="C", parser=_fraction, help="0 to 1.", show_default=False),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="TEXT", help="In other words.", show_default=False)
    ] = None,
    persona: PersonaOption = None,
    memory: MemoryOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set a learning by hand, which pins it; without confidence and pattern, give it back to its counts."""
    asking = _asking(_Options(persona, memory, as_json).or_else(context.obj))

    async def changed(known: PersonaReasoningSystem) -> Result[LearningEntry, PersonaErrors]:
        done: Result[LearningEntry, PersonaErrors] = await attempt(
            known.override_learning(LearningId(learning), confidence=confidence, pattern=pattern)
        )
        return done

    _print(asking.answer(changed, read_only=False), as_json=asking.as_json)


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
