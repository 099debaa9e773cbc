"""``reactive-agents cost``: the cost of past runs, from a cost database."""

from __future__ import annotations

import sys
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.budget import sum_usd
from reactive_agents.adapters.governance.cost_tracker import (
    Grouping,
    SpendingTotal,
    SqliteCostTracker,
    is_cost_database,
)
from reactive_agents.adapters.system import SystemClock
from reactive_agents.cli import output
from reactive_agents.core.codec import encode
from reactive_agents.core.config import is_postgres
from reactive_agents.core.errors import InvalidConfig, ServiceFailed
from reactive_agents.core.json import JsonObject

UNNAMED = "(unnamed)"
NUMBERS = ("runs", "tokens in", "tokens out", "US dollars", "unpriced calls")


class CostGrouping(StrEnum):
    """The field by which totals are grouped."""

    model = "model"
    agent = "agent"
    day = "day"
    run = "run"


def cost(
    by: Annotated[
        CostGrouping, typer.Option("--by", "-b", help="The field to group by.")
    ] = CostGrouping.model,
    path: Annotated[
        str,
        typer.Option(
            "--path", "-p", metavar="FILE_OR_URL", help="The file or address, as given to with_cost."
        ),
    ] = "cost.db",
    since: Annotated[
        datetime | None,
        output.option(
            "--since",
            "-s",
            metavar="DATE",
            parser=output.moment,
            help="Only runs that ended at or after this date, or date and time; UTC by default.",
        ),
    ] = None,
    as_json: output.JsonOption = False,
) -> None:
    """Show the cost of past runs by model, agent, day or run."""
    grouping: Grouping = by.value
    output.value_or_exit(_check_database(path), output.ExitCode.BAD_USAGE, as_json=as_json)
    asked = output.ask_store(
        lambda: SqliteCostTracker(path, clock=SystemClock(), read_only=is_postgres(path)),
        lambda tracker: tracker.totals(grouping, since=since),
    )
    totals = output.value_or_exit(asked, output.ExitCode.FAILED, as_json=as_json)
    if as_json:
        document: JsonObject = {
            "by": grouping,
            "since": since.isoformat() if since is not None else None,
            "groups": encode(totals),
            "cost_usd": sum_usd(total.cost_usd for total in totals),
        }
        output.print_json(document)
    elif sys.stdout.isatty():
        output.print_table((grouping, *NUMBERS), [_row(total) for total in totals], right=NUMBERS)
    else:
        for total in totals:
            typer.echo(output.printable(_line(total)))


def _check_database(path: str) -> Result[None, InvalidConfig | ServiceFailed]:
    """Fail when the file is missing or is no cost database; it is not changed."""
    expected = "the path of a cost database, as with_cost writes it"
    if is_postgres(path):
        return Success(None)  # it is opened to be read, and is not changed by that
    if not Path(path).is_file():
        return Failure(InvalidConfig("--path", repr(path), f"{expected}; there is no such file"))
    held = is_cost_database(path)
    if isinstance(held, Failure):
        return Failure(held.failure())
    return Success(None) if held.unwrap() else Failure(InvalidConfig("--path", repr(path), expected))


def _row(total: SpendingTotal) -> tuple[str, ...]:
    return (
        total.name or UNNAMED,
        str(total.runs),
        str(total.usage.input_tokens),
        str(total.usage.output_tokens),
        _dollars(total),
        str(total.unpriced_calls or ""),
    )


def _line(total: SpendingTotal) -> str:
    tokens = f"{total.usage.total_tokens} tokens{'' if total.usage.reported else ' or more'}"
    runs = f"{total.runs} run{'' if total.runs == 1 else 's'}"
    return f"{total.name or UNNAMED}: {runs}, {tokens}, ${_dollars(total)}"


def _dollars(total: SpendingTotal) -> str:
    return f"{total.cost_usd:.4f}" + (" or more" if total.unpriced_calls else "")
