"""Runs in the program's log: a line for each, its decisions, its failures.

The lines go to the logger ``reactive_agents.runs``; what is done with them is up to the program, as with any
library. Apart from the messages of errors, which are redacted, they have nothing that was said.
"""

from __future__ import annotations

import logging
from typing import Any

from reactive_agents.core import events
from reactive_agents.core.errors import root_cause

LOGGER = "reactive_agents.runs"
_log = logging.getLogger(LOGGER)


def log_run(event: Any) -> None:
    """Log what an event says of its run; a handler of the bus."""
    match event:
        case events.TaskCompleted(result=result):
            told = result.metadata
            _log.info(
                "run %s of %s: %s by %s, %d model calls, %d tokens, %.4f $, %.0f ms",
                event.run_id,
                event.agent,
                result.status,
                told.terminated_by,
                told.model_calls,
                told.tokens_used,
                told.cost_usd,
                told.duration_ms,
            )
        case events.TaskFailed(error=error, metadata=told):
            cause = root_cause(error)
            _log.error(
                "run %s of %s: failed with %s, caused by %s: %s; %d model calls, %d tokens, %.4f $, %.0f ms",
                event.run_id,
                event.agent,
                type(error).__name__,
                type(cause).__name__,
                cause.message,
                told.model_calls,
                told.tokens_used,
                told.cost_usd,
                told.duration_ms,
            )
        case events.ToolCallCompleted(success=False):
            _log.warning("run %s: a call of %s failed: %s", event.run_id, event.tool_name, event.error)
        case _ if _log.isEnabledFor(logging.DEBUG):
            _log_decision(event)


def _log_decision(event: Any) -> None:
    match event:
        case events.StrategySelected():
            _log.debug("run %s: strategy %s, %s", event.run_id, event.strategy, event.reason)
        case events.GuidanceGiven():
            _log.debug("run %s: guidance by %s", event.run_id, event.policy)
        case events.ToolCallCompleted():
            _log.debug("run %s: %s took %.0f ms", event.run_id, event.tool_name, event.duration_ms)
        case events.ModelCallCompleted():
            _log.debug(
                "run %s: %s answered (%s) after %.0f ms, %d tokens",
                event.run_id,
                event.model,
                event.purpose,
                event.duration_ms,
                event.usage.total_tokens,
            )
        case events.ModelCallAbandoned():
            _log.debug(
                "run %s: a model call (%s) failed: %s", event.run_id, event.purpose, event.error.message
            )
        case events.ApprovalDecided() | events.GuardrailTriggered() | events.ContextCompacted():
            _log.debug("run %s: %s", event.run_id, type(event).__name__)
