"""The ``reactive-agents`` command and the table of its subcommands.

A subcommand is imported when it is called: ``--version`` and ``--help`` import none. The summaries that
``--help`` prints are therefore in the table below; a test compares them with the subcommands' help.

Until a subcommand is imported, an interrupt ends the process at once: a module may swallow an exception that
is raised during its import.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from reactive_agents import __version__
from reactive_agents.cli import as_json, collect_garbage, raise_on_interrupt

SUBCOMMANDS: dict[str, tuple[str, str]] = {
    "run": ("run", "Run an agent on one task."),
    "evaluate": ("evaluate", "Run an agent on cases, and count the runs that pass."),
    "chat": ("chat", "Chat with an agent; the conversation is stored."),
    "sessions": ("sessions", "List, show and delete conversations."),
    "runs": ("recorded_runs", "List, show, follow and continue runs."),
    "worker": ("recorded_runs", "Run queued and interrupted runs."),
    "studio": ("studio", "Open a page that shows and controls runs."),
    "serve": ("serve", "Serve agents over HTTP."),
    "mcp": ("serve", "Serve agents as the tools of an MCP server."),
    "keys": ("serve", "Create, list and revoke the API keys of a server."),
    "models": ("models", "List the model providers, or probe a model."),
    "persona": ("persona", "Send events to a persona, and manage its work."),
    "plan": ("persona_records", "Show a persona's plan and the state of its steps."),
    "learnings": ("persona_records", "List, show, change and delete the learnings of a persona."),
    "explain": ("persona_records", "Explain what a persona did about an event, and why."),
    "audit": ("governance", "Verify or read an audit log."),
    "cost": ("governance", "Show the cost of past runs by model, agent, user, day or run."),
    "memory": ("memory", "Search, show, export and delete the entries of a memory file."),
}
"""The module and the one-line summary of each subcommand, in the order of ``--help``."""


_UsageError: Any = typer.BadParameter.__base__


@contextmanager
def _usage_errors() -> Iterator[None]:
    """Print errors of the option parser with the value, as JSON for ``--json``."""
    try:
        yield
    except _UsageError as error:
        refused: Any = error.__cause__  # of pydantic, which names only what it expected
        given = repr(refused.errors()[0]["input"]) if hasattr(refused, "errors") else ""
        if given not in error.message:
            error.message = f"got {given}: {error.message}"
        if not as_json.get():
            raise
        from reactive_agents.cli import output

        output.print_json(output.error_record("BadUsage", error.format_message()))
        raise typer.Exit(output.ExitCode.BAD_USAGE) from None


@cache
def _parser_of(name: str, command: Any) -> Any:
    """Return the parser of a subcommand, which takes much longer to make than to use."""
    if not isinstance(command, typer.Typer):
        from reactive_agents.cli import output  # which every subcommand imports

        single = output.command_group()
        single.command(name)(command)
        command = single
    return typer.main.get_command(command)


class LazyGroup(TyperGroup):
    """A command group that imports a subcommand when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all subcommands."""
        return list(SUBCOMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import a subcommand; ``None`` for an unknown name."""
        if cmd_name not in SUBCOMMANDS:
            return None
        try:
            module = import_module(f"reactive_agents.cli.{SUBCOMMANDS[cmd_name][0]}")
        except ModuleNotFoundError as error:
            missing = (error.name or "").partition(".")[0]
            if missing in ("", "reactive_agents"):
                raise
            needed = f"{cmd_name} needs {missing}: install reactive-agents[server]."
            if not as_json.get():
                typer.echo(f"error: {needed}", err=True)
                raise SystemExit(2) from None
            raise _UsageError(needed) from None
        return _parser_of(cmd_name, getattr(module, cmd_name))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the subcommand, with interrupts and garbage collection on again."""
        try:
            return super().resolve_command(ctx, args)
        finally:
            collect_garbage()
            raise_on_interrupt()

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **more: Any) -> Any:
        """Read the options before the subcommand."""
        as_json.set("--json" in takewhile(lambda each: each != "--", args))
        with _usage_errors():
            return super().make_context(info_name, args, parent, **more)

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; report an interrupt that it did not report."""
        try:
            with _usage_errors():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("Interrupted.", err=True)
            raise typer.Exit(130) from None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the table of subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in SUBCOMMANDS.items()])


app = typer.Typer(
    name="reactive-agents",
    cls=LazyGroup,
    help="Run and inspect agents.",
    epilog="Exit codes: 0 completed, 1 failed, 2 bad usage, 3 partial result, 4 abstained, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and exit.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the command itself."""
