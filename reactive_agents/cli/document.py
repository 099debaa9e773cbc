"""What ``--json`` prints: the same fields however a run ended."""

from __future__ import annotations

from typing import cast

import attrs

from reactive_agents.core.codec import encode
from reactive_agents.core.errors import ConfigErrors, RuntimeErrors
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.json import JsonObject
from reactive_agents.core.tasks import TaskResult


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
