"""``reactive-agents cost``: what runs have spent, by the account in a file."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import anyio
import typer
from returns.result import Failure, Result, Success
from rich.console import Console
from rich.table import Table

from reactive_agents.adapters.governance.budget import sum_usd
from reactive_agents.adapters.governance.cost_tracker import (
    Grouping,
    SpendingTotal,
    SqliteCostTracker,
    holds_account,
)
from reactive_agents.adapters.system import SystemClock
from reactive_agents.cli.event_lines import printable
from reactive_agents.cli.output import ExitCode, JsonOption, print_json
from reactive_agents.core.codec import encode
from reactive_agents.core.json import JsonObject
from reactive_agents.effects import attempt

UNNAMED = "(not told)"


class By(StrEnum):
    """What makes a group."""

    model = "model"
    agent = "agent"
    day = "day"
    run = "run"


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"got {text!r}, expected a date such as 2026-01-31, or a date and time in ISO 8601."
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def cost(
    by: Annotated[By, typer.Option("--by", "-b", help="What makes a group.")] = By.model,
    path: Annotated[
        Path, typer.Option("--path", "-p", metavar="FILE", help="The file that with_cost was given.")
    ] = Path("cost.db"),
    since: Annotated[
        datetime | None,
        typer.Option(
            "--since",
            "-s",
            metavar="DATE",
            parser=_moment,
            help="Count runs that ended then or later: a date, or a date and time; UTC unless it says so.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what runs have spent: tokens and dollars, by model, agent, day or run."""
    grouping: Grouping = by.value
    held = _account(path)
    read = held.bind(lambda _: anyio.run(_totals, path, grouping, since))
    if isinstance(read, Failure):
        typer.echo(printable(f"error: {read.failure()}"), err=True)
        raise typer.Exit(ExitCode.BAD_USAGE)
    totals = read.unwrap()
    if as_json:
        document: JsonObject = {
            "by": grouping,
            "since": since.isoformat() if since is not None else None,
            "groups": encode(totals),
            "cost_usd": sum_usd(total.cost_usd for total in totals),
        }
        print_json(document)
        return
    console = Console()
    if console.is_terminal:
        console.print(_table(totals, grouping))
        return
    for total in totals:
        typer.echo(printable(_line(total)))


def _account(path: Path) -> Result[None, str]:
    """Fails with what is wrong with a file that is not an account; it is not changed."""
    if not path.is_file():
        return Failure(f"--path: got {str(path)!r}, expected the file of an account, as with_cost makes it.")
    held = holds_account(path)
    if isinstance(held, Failure):
        return Failure(held.failure().message)
    return Success(None) if held.unwrap() else Failure(f"--path: {str(path)!r} is no account of spending.")


async def _totals(path: Path, by: Grouping, since: datetime | None) -> Result[tuple[SpendingTotal, ...], str]:
    tracker = SqliteCostTracker(path, clock=SystemClock())
    try:
        read = await attempt(tracker.totals(by, since=since))
    finally:
        await tracker.aclose()
    return read.alt(lambda error: error.message)


def _table(totals: tuple[SpendingTotal, ...], by: Grouping) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column(by, overflow="fold")
    for heading in ("runs", "tokens in", "tokens out", "US dollars", "unpriced calls"):
        table.add_column(heading, justify="right")
    for total in totals:
        usage = total.usage
        table.add_row(
            printable(total.name or UNNAMED),
            str(total.runs),
            str(usage.input_tokens),
            str(usage.output_tokens),
            _dollars(total),
            str(total.unpriced_calls or ""),
        )
    return table


def _line(total: SpendingTotal) -> str:
    tokens = f"{total.usage.total_tokens} tokens{'' if total.usage.reported else ' or more'}"
    runs = f"{total.runs} run{'' if total.runs == 1 else 's'}"
    return f"{total.name or UNNAMED}: {runs}, {tokens}, ${_dollars(total)}"


def _dollars(total: SpendingTotal) -> str:
    return f"{total.cost_usd:.4f}" + (" or more" if total.unpriced_calls else "")
