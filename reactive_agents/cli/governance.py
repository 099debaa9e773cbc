"""The commands ``audit`` (an audit log) and ``cost`` (usage of past runs)."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from os.path import isfile
from typing import Annotated, cast

import typer
from returns.result import Failure

from reactive_agents.adapters.governance import audit_log, cost_tracker
from reactive_agents.adapters.governance.audit_log import verify as verify_log
from reactive_agents.adapters.governance.budget import sum_usd
from reactive_agents.adapters.system import SystemClock
from reactive_agents.cli import output
from reactive_agents.cli.output import argument, option
from reactive_agents.core.codec import encode
from reactive_agents.core.config import is_postgres
from reactive_agents.core.errors import AuditErrors
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.texts import counted, dollars

_HEAD = re.compile(r"([1-9]\d{0,17}):([0-9a-f]{64})")
_KEY = re.compile(r"[0-9a-fA-F]{64}")

audit = output.command_group("Verify or read an audit log.", no_args_is_help=True)


def _log_place(text: str) -> str:
    if is_postgres(text) or isfile(text):
        return text
    raise typer.BadParameter(f"File {text!r} does not exist.")


LogFile = Annotated[
    str, argument("FILE_OR_URL", "The log: an SQLite file, or a Postgres URL.", parser=_log_place)
]


def _head(text: str) -> audit_log.AuditHead:
    match = _HEAD.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"got {text!r}, expected NUMBER:HASH as this command prints it.")
    return audit_log.AuditHead(int(match[1]), match[2])


def _key(text: str) -> bytes:
    if _KEY.fullmatch(text) is None:
        raise typer.BadParameter(f"got {text!r}, expected 64 hexadecimal digits.")
    return bytes.fromhex(text)


@audit.command()
def verify(
    file: LogFile,
    public_key: Annotated[
        bytes | None,
        option(
            "--public-key HEX",
            "Ed25519 public key, 64 hexadecimal digits: the log must be signed with its private key.",
            parser=_key,
        ),
    ] = None,
    head: Annotated[
        audit_log.AuditHead | None,
        option(
            "--head HEAD",
            "A chain head that was stored elsewhere, as NUMBER:HASH: the log must contain it.",
            parser=_head,
        ),
    ] = None,
) -> None:
    """Check that no entry was changed, removed or inserted.

    Exit code 0 when the log is valid, 1 when it was tampered with or cannot be read.
    """
    verified = verify_log(file, head=head, public_key=public_key)
    if isinstance(verified, Failure):
        raise _fail_verification(verified.failure())
    summary = verified.unwrap()
    output.report({"valid": True, **_summary(summary), "error": None}, _in_words(summary))


@audit.command()
def show(
    file: LogFile,
    run: Annotated[str | None, option("--run ID", "Only the entries of this run.")] = None,
    unfinished: Annotated[
        bool, option("--unfinished", "Only starts of runs without an end: still running, or killed.")
    ] = False,
) -> None:
    """Print the entries, oldest first, one per line, without verifying them."""
    read = audit_log.read_entries(file, run_id=None if run is None else RunId(run))
    entries = output.value_or_exit(read)
    if unfinished:
        entries = audit_log.unfinished_runs(entries)
    if output.is_json():
        output.print_json(encode(entries))
        return
    for entry in entries:
        typer.echo(output.printable(_line(entry)))


@audit.command()
def prune(file: LogFile, before: output.OlderThan) -> None:
    """Delete the oldest entries of a valid log; the others still verify.

    A signed log can only be pruned by a program that has the key.
    """
    output.value_or_exit(verify_log(file))
    deleted = output.ask_store(
        lambda: audit_log.SqliteAuditLog(file, clock=SystemClock()), lambda log: log.prune(before)
    )
    output.report({"deleted": deleted}, f"Deleted {_entries(deleted)}.")


def _entries(count: int) -> str:
    return "1 entry" if count == 1 else f"{count} entries"


def _fail_verification(error: AuditErrors) -> typer.Exit:
    if not output.is_json():
        return output.fail(error)
    unknown: JsonObject = {"entries": None, "pruned": None, "head": None, "signed": None}
    told: JsonObject = {**cast(JsonObject, encode(error, AuditErrors)), "message": error.message}
    output.print_json({"valid": False, **unknown, "error": told})
    return typer.Exit(output.ExitCode.FAILED)


def _summary(summary: audit_log.AuditSummary) -> JsonObject:
    head = summary.head
    return {
        "entries": summary.entries,
        "pruned": summary.pruned,
        "head": None if head is None else f"{head.sequence}:{head.hash}",
        "signed": summary.signed,
    }


def _in_words(summary: audit_log.AuditSummary) -> str:
    if summary.head is None:
        return "The log is valid: it has no entries."
    pruned = f", after {_entries(summary.pruned)} that were pruned" if summary.pruned else ""
    signed = ", the signature is valid" if summary.signed else ""
    head = f"{summary.head.sequence}:{summary.head.hash}"
    return f"The log is valid: {_entries(summary.entries)}{pruned}{signed}. Its head: {head}"


def _line(recorded: audit_log.RecordedEntry) -> str:
    entry = recorded.entry
    parts = (
        entry.status or entry.stage or "",
        entry.subject,
        "" if entry.call_id is None else f"call {entry.call_id}",
        " ".join(entry.detail.split()),
    )
    content = ", ".join(part for part in parts if part)
    at = entry.at.isoformat(timespec="seconds")
    return f"{recorded.sequence}  {at}  {entry.agent_id}  {entry.run_id}  {entry.action}: {content}"


# --- ``reactive-agents cost``: the cost of past runs, from a cost database ---


UNNAMED = "(unnamed)"
NUMBERS = ("runs", "tokens in", "tokens out", "US dollars", "unpriced calls")


cost = output.command_group(
    "Show the cost of past runs by model, agent, user, day or run.", invoke_without_command=True
)
PathOption = Annotated[
    str, option("--path -p FILE_OR_URL", "The file or URL that was given to with_cost.", show_default=True)
]


@cost.command("prune")
def prune_cost(before: output.OlderThan, path: PathOption = "cost.db") -> None:
    """Delete the usage of runs that ended long ago."""
    _check_database(path)
    deleted = output.ask_store(
        lambda: cost_tracker.SqliteCostTracker(path, clock=SystemClock()),
        lambda tracker: tracker.prune(before),
    )
    output.report({"deleted": deleted}, f"Deleted {counted(deleted, 'run')}.")


@cost.callback()
def totals(
    context: typer.Context,
    by: Annotated[
        cost_tracker.Grouping, option("--by -b", "The field to group by.", show_default=True)
    ] = "model",
    path: PathOption = "cost.db",
    since: Annotated[
        datetime | None,
        option(
            "--since -s DATE",
            "Only runs that ended at or after this date, or date and time; UTC by default.",
            parser=output.moment,
        ),
    ] = None,
) -> None:
    """Show the cost of past runs by model, agent, user, day or run."""
    if context.invoked_subcommand is not None:
        if (by, path, since) != ("model", "cost.db", None):
            raise typer.BadParameter(f"give the options after {context.invoked_subcommand}.")
        return
    _check_database(path)
    totals = output.ask_store(
        lambda: cost_tracker.SqliteCostTracker(path, clock=SystemClock(), read_only=True),
        lambda tracker: tracker.totals(by, since=since),
    )
    if output.is_json():
        document: JsonObject = {
            "by": by,
            "since": since.isoformat() if since is not None else None,
            "groups": encode(totals),
            "cost_usd": sum_usd(total.cost_usd for total in totals),
        }
        output.print_json(document)
    elif sys.stdout.isatty():
        output.print_table((by, *NUMBERS), [_row(total) for total in totals], right=NUMBERS)
    else:
        for total in totals:
            typer.echo(output.printable(_cost_line(total)))


def _check_database(path: str) -> None:
    """Exit if the file is missing or not a cost database, without changing it."""
    expected = "the path of a cost database, as with_cost writes it"
    if is_postgres(path):
        return  # it is opened to be read, and is not changed by that
    if not isfile(path):
        raise output.bad_usage("--path", repr(path), f"{expected}; there is no such file")
    held = cost_tracker.is_cost_database(path)
    if not output.value_or_exit(held, output.ExitCode.BAD_USAGE):
        raise output.bad_usage("--path", repr(path), expected)


def _row(total: cost_tracker.SpendingTotal) -> tuple[str, ...]:
    return (
        total.name or UNNAMED,
        str(total.runs),
        str(total.usage.input_tokens),
        str(total.usage.output_tokens),
        dollars(total.cost_usd, total.unpriced_calls).removeprefix("$"),
        str(total.unpriced_calls or ""),
    )


def _cost_line(total: cost_tracker.SpendingTotal) -> str:
    tokens = f"{total.usage.total_tokens} tokens{'' if total.usage.reported else ' or more'}"
    cost = dollars(total.cost_usd, total.unpriced_calls)
    name = " ".join(total.name.splitlines()) or UNNAMED
    return f"{name}: {counted(total.runs, 'run')}, {tokens}, {cost}"
