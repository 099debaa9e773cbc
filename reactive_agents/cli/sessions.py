"""``reactive-agents sessions``: list, show and delete conversations."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from reactive_agents.adapters.memory.sessions import SESSIONS, SqliteSessions
from reactive_agents.adapters.system import SystemClock, state_directory
from reactive_agents.cli import output
from reactive_agents.cli.output import argument, option
from reactive_agents.core.conversation import conversation_lines
from reactive_agents.core.errors import SessionErrors
from reactive_agents.core.ids import AgentId, SessionId
from reactive_agents.core.message_formats import messages_to_json
from reactive_agents.core.texts import counted
from reactive_agents.effects import Effect

_T = TypeVar("_T")

sessions = output.command_group("List, show and delete conversations.", no_args_is_help=True)

SessionOption = Annotated[
    str | None, option("--session NAME", "The conversation to continue, or a new name to begin one.")
]
SessionsOption = Annotated[
    str | None,
    option(
        "--sessions FILE_OR_URL",
        "The conversations: a file, by default one in the user's state directory, or a Postgres URL.",
    ),
]
UserOption = Annotated[str | None, option("--user -u USER", "The user of the conversation or run.")]
AgentOption = Annotated[str, option("--agent -a NAME", "The agent's name.", show_default=True)]
SessionArgument = Annotated[str, argument("SESSION", "The name of the conversation.")]


def default_sessions_file() -> Path:
    """Return the default file of conversations."""
    return state_directory(os.environ) / "sessions.db"


@sessions.command("list")
def list_sessions(file: SessionsOption = None, agent: AgentOption = "agent", user: UserOption = None) -> None:
    """List the conversations, latest first."""
    found = _ask(file, lambda store: store.sessions(AgentId(agent), user))
    rows = (
        (each.session, each.user or "", f"{each.updated_at:%Y-%m-%d %H:%M}", str(each.turns), each.title)
        for each in found
    )
    headings = ("session", "user", "last used", "runs", "title")
    output.print_found(found, headings, rows, right=("runs",))


StateFlag = Annotated[bool, option("--state", "Show what its tools keep, as JSON, and not its messages.")]


@sessions.command()
def show(
    session: SessionArgument,
    file: SessionsOption = None,
    agent: AgentOption = "agent",
    state: StateFlag = False,
) -> None:
    """Show the messages of a conversation, or its state."""
    if state:
        output.print_json(_ask(file, lambda store: store.state(AgentId(agent), SessionId(session))))
        return
    found = _ask(file, lambda store: store.messages(AgentId(agent), SessionId(session)))
    if output.is_json():
        output.print_json(messages_to_json(found))
        return
    for line in conversation_lines(found):
        typer.echo(output.printable(line))


@sessions.command()
def delete(session: SessionArgument, file: SessionsOption = None, agent: AgentOption = "agent") -> None:
    """Delete a conversation with everything in it."""
    _ask(file, lambda store: store.delete(AgentId(agent), SessionId(session)), read_only=False)
    output.report({"deleted": session}, f"Deleted {session}.")


@sessions.command()
def prune(before: output.OlderThan, file: SessionsOption = None) -> None:
    """Delete the conversations of all agents that were last used long ago."""
    deleted = _ask(file, lambda store: store.prune(before), read_only=False)
    output.report({"deleted": deleted}, f"Deleted {counted(deleted, 'conversation')}.")


def _ask(
    file: str | None,
    question: Callable[[SqliteSessions], Effect[_T, SessionErrors]],
    *,
    read_only: bool = True,
) -> _T:
    path = str(default_sessions_file()) if file is None else file
    output.check_there("--sessions", path, "a file of conversations", None if read_only else SESSIONS)
    return output.ask_store(lambda: SqliteSessions(path, clock=SystemClock(), read_only=read_only), question)
