"""What the commands share for people who want JSON."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from reactive_agents.core.json import Json

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.", show_default=False)
]


def print_json(document: Json) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2))
