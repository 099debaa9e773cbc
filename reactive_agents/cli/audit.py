"""``reactive-agents audit``: whether an audit log is whole, and what is in it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from returns.result import Failure

from reactive_agents.adapters.governance.audit_chain import AuditHead, AuditSummary
from reactive_agents.adapters.governance.audit_log import RecordedEntry, read_entries
from reactive_agents.adapters.governance.audit_log import verify as verify_log
from reactive_agents.cli.event_lines import printable
from reactive_agents.cli.output import ExitCode, JsonOption, print_json
from reactive_agents.core.codec import encode
from reactive_agents.core.errors import AuditErrors
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import JsonObject

_HEAD = re.compile(r"([1-9]\d{0,17}):([0-9a-f]{64})")
_KEY = re.compile(r"[0-9a-fA-F]{64}")

audit = typer.Typer(name="audit", help="Check an audit log, or read it.", no_args_is_help=True)

LogFile = Annotated[
    Path,
    typer.Argument(help="The log's SQLite file.", exists=True, dir_okay=False, show_default=False),
]


def _head(text: str) -> AuditHead:
    match = _HEAD.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"got {text!r}, expected NUMBER:HASH as this command prints it.")
    return AuditHead(int(match[1]), match[2])


def _key(text: str) -> bytes:
    if _KEY.fullmatch(text) is None:
        raise typer.BadParameter(f"got {text!r}, expected 64 hexadecimal digits.")
    return bytes.fromhex(text)


@audit.command()
def verify(
    file: LogFile,
    public_key: Annotated[
        bytes | None,
        typer.Option(
            "--public-key",
            metavar="HEX",
            parser=_key,
            help="Ed25519 key, 64 hexadecimal digits: the log must be signed with its counterpart.",
            show_default=False,
        ),
    ] = None,
    sealed: Annotated[
        AuditHead | None,
        typer.Option(
            "--sealed",
            metavar="HEAD",
            parser=_head,
            help="A head that was kept elsewhere, as NUMBER:HASH: the log must hold it.",
            show_default=False,
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether each entry is what it was, none is missing and none was put in.

    Exit code 0 when the log is whole, 1 when it is broken or cannot be read.
    """
    verified = verify_log(file, sealed=sealed, public_key=public_key)
    if isinstance(verified, Failure):
        raise typer.Exit(_tell_failure(verified.failure(), as_json=as_json))
    summary = verified.unwrap()
    if as_json:
        print_json({"whole": True, **_summary(summary), "error": None})
    else:
        typer.echo(_in_words(summary))


@audit.command()
def show(
    file: LogFile,
    run: Annotated[
        str | None,
        typer.Option("--run", metavar="ID", help="Only the entries of this run.", show_default=False),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print the entries, oldest first, one a line. It does not say whether they are genuine: see verify."""
    read = read_entries(file, run_id=None if run is None else RunId(run))
    if isinstance(read, Failure):
        raise typer.Exit(_tell_failure(read.failure(), as_json=False))
    if as_json:
        print_json(encode(read.unwrap()))
        return
    for entry in read.unwrap():
        typer.echo(printable(_line(entry)))


def _tell_failure(error: AuditErrors, *, as_json: bool) -> ExitCode:
    if as_json:
        print_json(
            {
                "whole": False,
                "entries": None,
                "head": None,
                "signed": None,
                "error": encode(error, AuditErrors),
            }
        )
    else:
        typer.echo(printable(f"error: {error.message}"), err=True)
    return ExitCode.FAILED


def _summary(summary: AuditSummary) -> JsonObject:
    head = summary.head
    return {
        "entries": summary.entries,
        "head": None if head is None else f"{head.sequence}:{head.hash}",
        "signed": summary.signed,
    }


def _in_words(summary: AuditSummary) -> str:
    if summary.head is None:
        return "The log is whole: it has no entries."
    count = "1 entry" if summary.entries == 1 else f"{summary.entries} entries"
    signed = ", the signature fits" if summary.signed else ""
    return f"The log is whole: {count}{signed}. Its head: {summary.head.sequence}:{summary.head.hash}"


def _line(recorded: RecordedEntry) -> str:
    entry = recorded.entry
    said = (
        entry.status or entry.stage or "",
        entry.subject,
        "" if entry.call_id is None else f"call {entry.call_id}",
        " ".join(entry.detail.split()),
    )
    what = ", ".join(part for part in said if part)
    at = entry.at.isoformat(timespec="seconds")
    return f"{recorded.sequence}  {at}  {entry.agent_id}  {entry.run_id}  {entry.action}: {what}"
