"""``reactive-agents memory``: what agents remember, shown, searched, exported and forgotten."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar, cast

import anyio
import typer
from returns.result import Failure
from rich.console import Console
from rich.table import Table
from rich.text import Text

from reactive_agents.adapters.memory.database import Database
from reactive_agents.adapters.memory.service import MemoryArchive
from reactive_agents.adapters.memory.store import ALL_KINDS
from reactive_agents.adapters.system import SystemClock
from reactive_agents.cli.event_lines import printable
from reactive_agents.cli.output import ExitCode, JsonOption, print_json
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import MemoryErrors
from reactive_agents.core.ids import AgentId
from reactive_agents.core.memory import (
    ForgetAgent,
    ForgetEntry,
    ForgetOlder,
    Forgetting,
    MemoryEntry,
    MemoryId,
    MemoryKind,
    SessionSnapshot,
)
from reactive_agents.effects import Effect, attempt

_T = TypeVar("_T")

memory = typer.Typer(
    help="Look into a memory file, and forget what is in it.", no_args_is_help=True, rich_markup_mode=None
)


def _kind(text: str) -> str:
    if text in ALL_KINDS:
        return text
    raise typer.BadParameter(f"got {text!r}, expected one of {', '.join(ALL_KINDS)}.")


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = -1.0
    if 0.0 <= days <= 36_500.0:
        return days
    raise typer.BadParameter(f"got {text!r}, expected a number of days from 0 to 36500.")


PathOption = Annotated[Path, typer.Option("--path", "-p", metavar="FILE", help="The memory file.")]
AgentOption = Annotated[
    str | None,
    typer.Option("--agent", "-a", metavar="NAME", help="Only what this agent remembers.", show_default=False),
]
KindOption = Annotated[
    str | None,
    typer.Option(
        "--kind",
        "-k",
        metavar="KIND",
        parser=_kind,
        help=f"Only entries of this kind: {', '.join(ALL_KINDS)}.",
        show_default=False,
    ),
]
LimitOption = Annotated[
    int, typer.Option("--limit", "-n", metavar="N", min=1, max=10_000, help="How many entries at most.")
]


@memory.command()
def search(
    text: Annotated[str, typer.Argument(help="Words that an entry must contain, all of them.")],
    path: PathOption,
    agent: AgentOption = None,
    kind: KindOption = None,
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """Search the entries that have not faded, best match first."""
    found = _ask(
        path,
        lambda archive: archive.search(text, agent_id=_agent(agent), kinds=_kinds(kind), limit=limit),
    )
    _print_entries(found, as_json=as_json)


@memory.command()
def show(
    path: PathOption,
    entry_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="One entry, in full.", show_default=False)
    ] = None,
    agent: AgentOption = None,
    kind: KindOption = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
) -> None:
    """Show the entries that were seen last, or one of them in full."""
    if entry_id is None:
        listed = _ask(
            path, lambda archive: archive.entries(agent_id=_agent(agent), kinds=_kinds(kind), limit=limit)
        )
        _print_entries(listed, as_json=as_json)
        return
    entry = _ask(path, lambda archive: archive.get(MemoryId(entry_id))).value_or(None)
    if entry is None:
        _stop(f"There is no entry {entry_id!r} in {str(path)!r}.", ExitCode.FAILED)
    if as_json:
        print_json(encode(entry))
        return
    for name, value in cast("dict[str, object]", encode(entry)).items():
        typer.echo(printable(f"{name}: {value}"))


@memory.command()
def forget(
    path: PathOption,
    entry_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID", help="Entries to forget.", show_default=False)
    ] = None,
    agent: AgentOption = None,
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than",
            metavar="DAYS",
            parser=_days,
            help="Forget what was last seen before so many days.",
            show_default=False,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.", show_default=False)] = False,
    as_json: JsonOption = False,
) -> None:
    """Delete entries for good: by id, all of an agent with its sessions, or by age. Plans stay."""
    what, told = _forgettings(entry_ids or [], agent, older_than)
    if not yes and not _agreed(f"Forget {told} in {str(path)!r}?"):
        _stop("Nothing was forgotten.", ExitCode.FAILED)
    forgotten = sum(_forget(path, each) for each in what)
    if as_json:
        print_json({"forgotten": forgotten})
    else:
        typer.echo(f"{forgotten} forgotten.")
    if entry_ids and forgotten < len(set(entry_ids)):
        _stop(f"{len(set(entry_ids)) - forgotten} of the ids are not in {str(path)!r}.", ExitCode.FAILED)


@memory.command()
def export(path: PathOption, agent: AgentOption = None, kind: KindOption = None) -> None:
    """Print entries, faded ones too, and sessions: one JSON document a line, each with a tag.

    With --kind, only entries of that kind.
    """
    entries = _ask(path, lambda archive: archive.entries(agent_id=_agent(agent), kinds=_kinds(kind)))
    sessions: tuple[SessionSnapshot, ...] = ()
    if kind is None:
        sessions = _ask(path, lambda archive: archive.sessions(agent_id=_agent(agent)))
    for each in (*entries, *sessions):
        typer.echo(json.dumps(encode(each, MemoryEntry | SessionSnapshot), ensure_ascii=True))


def _forget(path: Path, what: Forgetting) -> int:
    return _ask(path, lambda archive: archive.forget(what), read_only=False)


def _ask(
    path: Path, question: Callable[[MemoryArchive], Effect[_T, MemoryErrors]], *, read_only: bool = True
) -> _T:
    """What the archive answers; a file that is missing or cannot be used ends the command."""
    if not path.is_file():
        _stop(f"There is no memory file {str(path)!r}.", ExitCode.BAD_USAGE)
    if path.stat().st_size == 0:  # which whoever may write would make a memory file of
        _stop(f"The memory file {str(path)!r} cannot be used: it is empty.", ExitCode.FAILED)

    async def ask() -> _T:
        database = Database(path, read_only=read_only)
        try:
            answer = await attempt(question(MemoryArchive(database, SystemClock())))
        finally:
            await database.aclose()
        if isinstance(answer, Failure):
            _stop(answer.failure().message, ExitCode.FAILED)
        return answer.unwrap()

    return anyio.run(ask)


def _stop(message: str, code: ExitCode) -> NoReturn:
    typer.echo(printable(message), err=True)
    raise typer.Exit(code)


def _agent(name: str | None) -> AgentId | None:
    return None if name is None else AgentId(name)


def _kinds(kind: str | None) -> tuple[MemoryKind, ...]:
    return () if kind is None else (cast(MemoryKind, kind),)


def _forgettings(
    entry_ids: Sequence[str], agent: str | None, older_than: float | None
) -> tuple[Sequence[Forgetting], str]:
    """What is to be forgotten, and how a person is told."""
    if entry_ids and (agent is not None or older_than is not None):
        raise typer.BadParameter("got ids as well, expected either ids or --agent and --older-than.")
    if entry_ids:
        return [
            ForgetEntry(MemoryId(each)) for each in entry_ids
        ], f"{len(entry_ids)} {'entry' if len(entry_ids) == 1 else 'entries'}"
    whose = "of every agent" if agent is None else f"of {agent!r}"
    if older_than is not None:
        before = SystemClock().now() - timedelta(days=older_than)
        return [ForgetOlder(before, _agent(agent))], f"what is {whose} and older than {older_than:g} days"
    if agent is not None:
        return [ForgetAgent(AgentId(agent))], f"everything {whose}"
    raise typer.BadParameter("got nothing to forget, expected ids, --agent or --older-than.")


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        _stop("Nothing was forgotten: say --yes where nobody can be asked.", ExitCode.BAD_USAGE)
    typer.echo(printable(f"{question} [y/N] "), nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_entries(entries: Sequence[MemoryEntry], *, as_json: bool) -> None:
    if as_json:
        print_json([encode(each) for each in entries])
        return
    rows = [
        [
            printable(text)
            for text in (
                each.id,
                each.agent_id,
                each.kind,
                each.origin,
                f"{each.seen_at:%Y-%m-%d}",
                each.content,
            )
        ]
        for each in entries
    ]
    console = Console()
    if not console.is_terminal:
        for row in rows:
            typer.echo("\t".join(row))
        return
    table = Table("id", "agent", "kind", "from", "seen", "content", box=None, pad_edge=False)
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
