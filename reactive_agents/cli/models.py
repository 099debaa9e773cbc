"""``reactive-agents models``: the model providers and their default models."""

from __future__ import annotations

import os
import sys
from textwrap import wrap

import typer

from reactive_agents.adapters.llm.providers import ProviderStatus, provider_status
from reactive_agents.cli.output import JsonOption, print_json
from reactive_agents.core.codec import encode

_NAME_WIDTH = 14
_NOTE_WIDTH = 64


def models(
    as_json: JsonOption = False,
) -> None:
    """List the model providers and their default models.

    Configured providers come first; for the others it names the environment variable that is missing.
    """
    providers = provider_status(os.environ)
    if as_json:
        print_json(encode(providers))
        return
    for provider in sorted(providers, key=lambda each: not each.ready):
        state = "ready" if provider.ready else f"set {' and '.join(provider.missing)}"
        if sys.stdout.isatty():
            _print_block(provider, state)
        else:
            typer.echo("\t".join((provider.provider, state, provider.default_model or "", provider.note)))


def _print_block(provider: ProviderStatus, state: str) -> None:
    """Print a provider on several lines; a table would break long model names."""
    lines = [state, *([provider.default_model] if provider.default_model else [])]
    lines += wrap(provider.note, _NOTE_WIDTH)
    for number, line in enumerate(lines):
        name = "" if number else provider.provider
        typer.secho(
            f"{name:<{_NAME_WIDTH}}{line}",
            fg="green" if provider.ready else None,
            dim=number > 0 or not provider.ready,
        )
