"""What the exit code of the command says."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Annotated, cast

import attrs
import typer

from reactive_agents.core.codec import encode
from reactive_agents.core.errors import ConfigErrors, RuntimeErrors
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.reasoning import ReasoningStatus
from reactive_agents.core.tasks import TaskResult


class ExitCode(IntEnum):
    """What became of a run. ``BAD_USAGE`` is also what the option parser exits with."""

    COMPLETED = 0
    FAILED = 1
    BAD_USAGE = 2
    PARTIAL = 3
    INTERRUPTED = 130


OF_STATUS: dict[ReasoningStatus, ExitCode] = {
    "completed": ExitCode.COMPLETED,
    "failed": ExitCode.FAILED,
    "partial": ExitCode.PARTIAL,
}


# --- What the commands share for people who want JSON ---


JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.", show_default=False)
]


def print_json(document: Json) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(document, ensure_ascii=False, indent=2))


# --- What ``--json`` prints: the same fields however a run ended ---


def result_document(result: TaskResult) -> JsonObject:
    """A run that came to an end by itself."""
    return {**cast(JsonObject, encode(result)), "error": None}


def failure_document(failed: TaskFailed, agent_id: str) -> JsonObject:
    """A run that ended with an error."""
    return {
        **error_document(failed.error, kind=RuntimeErrors),
        "task_id": failed.task_id,
        "run_id": failed.run_id,
        "agent_id": agent_id,
        "completed_at": encode(failed.at),
        "steps": encode(failed.steps),
        "metadata": encode(failed.metadata),
    }


def error_document(error: RuntimeErrors | ConfigErrors, *, kind: object = ConfigErrors) -> JsonObject:
    """An error before there was a run; what only a run has is null."""
    nothing: JsonObject = dict.fromkeys(field.name for field in attrs.fields(TaskResult))
    return {
        **nothing,
        "success": False,
        "status": "failed",
        "reason": error.message,
        "steps": [],
        "tool_results": {},
        "error": encode(error, kind),
    }
