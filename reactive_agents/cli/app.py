"""The ``reactive-agents`` command: what is imported for it, and its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from reactive_agents import __version__
from reactive_agents.cli.audit import audit
from reactive_agents.cli.cost import cost
from reactive_agents.cli.learnings import learnings
from reactive_agents.cli.memory import memory
from reactive_agents.cli.models import models
from reactive_agents.cli.persona import persona
from reactive_agents.cli.plans import explain, plan
from reactive_agents.cli.run import run

app = typer.Typer(
    name="reactive-agents",
    help="Agents that finish their task.",
    epilog="Exit codes: 0 completed, 1 failed, 2 bad usage, 3 partial result, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
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
    """What may stand before a command."""


app.command()(run)
app.command()(models)
app.add_typer(persona, name="persona")
app.command()(plan)
app.add_typer(learnings, name="learnings")
app.command()(explain)
app.add_typer(audit)
app.command()(cost)
app.add_typer(memory, name="memory")
