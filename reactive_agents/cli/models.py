"""``reactive-agents models``: which providers are set up, and what the others lack."""

from __future__ import annotations

import os

from rich.console import Console
from rich.table import Table

from reactive_agents.adapters.llm.providers import provider_status
from reactive_agents.cli.output import JsonOption, print_json
from reactive_agents.core.codec import encode


def models(
    as_json: JsonOption = False,
) -> None:
    """List the model providers: those that are set up, and the variable that is missing for the others."""
    providers = provider_status(os.environ)
    if as_json:
        print_json(encode(providers))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("provider", "state", "default model", "note"):
        table.add_column(heading, overflow="fold")
    for provider in sorted(providers, key=lambda each: not each.ready):
        state = "ready" if provider.ready else f"set {' and '.join(provider.missing)}"
        style = "green" if provider.ready else "dim"
        table.add_row(provider.provider, state, provider.default_model, provider.note, style=style)
    console = Console()
    console.print(table, width=console.width if console.is_terminal else 200)
