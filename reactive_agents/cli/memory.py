"""``reactive-agents memory``: search, show, export and delete memory entries."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

import typer

from reactive_agents.adapters.memory.database import MEMORY, open_memory_store
from reactive_agents.adapters.memory.service import MemoryArchive
from reactive_agents.adapters.system import SystemClock
from reactive_agents.cli import output
from reactive_agents.cli.output import argument, option
from reactive_agents.core.codec import encode
from reactive_agents.core.config import is_postgres, shown_place
from reactive_agents.core.conversation import user_owner
from reactive_agents.core.errors import MemoryErrors, MemoryUnavailable, RecordNotFound
from reactive_agents.core.ids import AgentId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.memory import (
    ForgetAgent,
    ForgetEntry,
    ForgetOlder,
    Forgetting,
    ForgetUser,
    MemoryEntry,
    MemoryId,
    SessionSnapshot,
)
from reactive_agents.effects import Effect

_T = TypeVar("_T")

memory = output.command_group(
    "Search, show, export and delete the entries of a memory file.", no_args_is_help=True
)


PathOption = Annotated[
    str, option("--path -p FILE_OR_URL", "The memory: a file, or a Postgres URL.", show_default=True)
]
AgentOption = Annotated[str | None, option("--agent -a NAME", "Only the entries of this agent.")]
KindOption = Annotated[
    Literal["episodic", "semantic", "procedural", "critique"] | None,
    option("--kind -k", "Only entries of this kind."),
]
LimitOption = Annotated[
    int, option("--limit -n N", "The maximum number of entries.", min=1, max=10_000, show_default=True)
]


def _chosen(agent: AgentOption = None, kind: KindOption = None) -> dict[str, Any]:
    return {"agent_id": agent, "kinds": () if kind is None else (kind,)}


Chosen = Annotated[dict[str, Any], output.Options(_chosen)]


@memory.command()
def search(
    text: Annotated[str, argument("", "Words of an entry: all of them, or else some.")],
    path: PathOption,
    chosen: Chosen,
    limit: LimitOption = 20,
) -> None:
    """Search the entries that have not expired, best match first."""
    _print_entries(_ask(path, lambda archive: archive.search(text, limit=limit, **chosen)))


@memory.command()
def show(
    path: PathOption,
    entry_id: Annotated[str | None, argument("ID", "Show this entry in full.")] = None,
    *,
    chosen: Chosen,
    limit: LimitOption = 50,
) -> None:
    """Show the most recently seen entries, or one entry in full."""
    if entry_id is None:
        _print_entries(_ask(path, lambda archive: archive.entries(limit=limit, **chosen)))
        return
    entry = _ask(path, lambda archive: archive.get(MemoryId(entry_id))).value_or(None)
    if entry is None:
        raise output.fail(RecordNotFound("memory entry", entry_id))
    document = cast(JsonObject, encode(entry))
    output.report(document, "\n".join(f"{name}: {value}" for name, value in document.items()))


@memory.command()
def forget(
    path: PathOption,
    entry_ids: Annotated[list[str] | None, argument("ID", "Entries to forget.")] = None,
    agent: AgentOption = None,
    user: Annotated[str | None, option("--user -u USER", "All entries of this user.")] = None,
    older_than: Annotated[
        float | None,
        option(
            "--older-than DAYS",
            "Delete entries that were last seen more than this many days ago.",
            parser=output.number_up_to(36_500, "a number of days"),
        ),
    ] = None,
    yes: Annotated[bool, option("--yes -y", "Do not ask for confirmation.")] = False,
) -> None:
    """Delete entries permanently, by id, agent, user or age. Plans are not deleted."""
    selections, description = _selections(entry_ids or [], agent, older_than, user)
    if not yes and not _confirmed(f"Forget {description} in {shown_place(path)!r}?"):
        typer.echo("Nothing was forgotten.", err=True)
        raise typer.Exit(output.ExitCode.FAILED)
    deleted = _ask(path, lambda archive: archive.forget(*selections), read_only=False)
    output.report({"forgotten": deleted}, f"{deleted} forgotten.")
    missing = len(set(entry_ids or ())) - deleted
    if entry_ids and missing > 0:
        output.tell(f"{missing} of the ids are not in {shown_place(path)!r}.")
        raise typer.Exit(output.ExitCode.FAILED)


@memory.command()
@output.without_json
def export(
    path: PathOption,
    chosen: Chosen,
    user: Annotated[str | None, option("--user -u USER", "Only what is stored of this user.")] = None,
) -> None:
    """Print all entries and sessions, one tagged JSON document per line.

    Expired entries are included. With --kind, only entries of that kind.
    """
    output.check_names(user=user)
    entries = _ask(path, lambda archive: archive.entries(**chosen))
    sessions: tuple[SessionSnapshot, ...] = ()
    if not chosen["kinds"]:
        sessions = _ask(path, lambda archive: archive.sessions(agent_id=chosen["agent_id"]))
    found: tuple[MemoryEntry | SessionSnapshot, ...] = (*entries, *sessions)
    for each in found:
        if user is not None and each.owner != user_owner(user):
            continue
        typer.echo(json.dumps(encode(each, MemoryEntry | SessionSnapshot), ensure_ascii=True))


def _ask(
    path: str, question: Callable[[MemoryArchive], Effect[_T, MemoryErrors]], *, read_only: bool = True
) -> _T:
    output.check_there("--path", path, "a memory file")
    # opening an empty file for writing would make it a memory file
    if not is_postgres(path) and Path(path).stat().st_size == 0:
        empty = MemoryUnavailable(f"The memory file {path!r} cannot be used: it is empty.", "open")
        raise output.fail(empty)
    if not read_only:
        output.check_there("--path", path, "a memory file", MEMORY)
    return output.ask_store(
        lambda: open_memory_store(path, read_only=read_only),
        lambda database: question(MemoryArchive(database, SystemClock())),
    )


def _agent(name: str | None) -> AgentId | None:
    return None if name is None else AgentId(name)


def _selections(
    entry_ids: Sequence[str], agent: str | None, older_than: float | None, user: str | None
) -> tuple[Sequence[Forgetting], str]:
    if entry_ids and (agent is not None or older_than is not None or user is not None):
        raise typer.BadParameter("got ids as well, expected either ids or --agent, --user and --older-than.")
    if entry_ids:
        count = f"{len(entry_ids)} {'entry' if len(entry_ids) == 1 else 'entries'}"
        return [ForgetEntry(MemoryId(each)) for each in entry_ids], count
    owner = "of every agent" if agent is None else f"of {agent!r}"
    if user is not None:
        if older_than is not None:
            raise typer.BadParameter("got --older-than as well, expected --user alone or with --agent.")
        return [ForgetUser(user, _agent(agent))], f"everything of user {user!r} {owner}"
    if older_than is not None:
        before = SystemClock().now() - timedelta(days=older_than)
        return [ForgetOlder(before, _agent(agent))], f"everything {owner} older than {older_than:g} days"
    if agent is not None:
        return [ForgetAgent(AgentId(agent))], f"everything {owner}"
    raise typer.BadParameter("got nothing to forget, expected ids, --agent, --user or --older-than.")


def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise typer.BadParameter("nothing was forgotten: standard input is not a terminal, pass --yes.")
    typer.echo(output.printable(f"{question} [y/N] "), nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_entries(entries: Sequence[MemoryEntry]) -> None:
    rows = (
        (each.id, each.agent_id, each.kind, each.origin, f"{each.seen_at:%Y-%m-%d}", each.content)
        for each in entries
    )
    headings = ("id", "agent", "kind", "from", "seen", "content")
    output.print_found(entries, headings, rows)
