"""The tool service over Python functions of this process."""

from __future__ import annotations

import inspect
import logging
import math
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

import attrs
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.call_checks import convert_arguments, malformed_arguments, seek_approval
from reactive_agents.adapters.tools.decorator import DEFAULT_TIMEOUT_S, Tool, WasDone
from reactive_agents.adapters.tools.execution import run_function, take_thread
from reactive_agents.adapters.tools.json_value import to_json_value
from reactive_agents.adapters.tools.schema import ArgumentSchema
from reactive_agents.core.errors import ToolErrors, ToolFailed, ToolNotFound, ToolTimedOut
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.run_context import RunContext, is_of_type, type_name
from reactive_agents.core.tools import (
    ANSWER_TIMEOUT_S,
    ToolContext,
    ToolDefinition,
    ToolResult,
    ToolScope,
)
from reactive_agents.effects import effect
from reactive_agents.ports import Approver, Clock

_log = logging.getLogger("reactive_agents")


@frozen(eq=False)
class _Entry:
    function: Callable[..., Any]
    schema: ArgumentSchema
    context_parameter: str | None
    run_parameter: str | None
    deps_type: Any
    definition: ToolDefinition
    on_loop: bool
    was_done: WasDone | None = None


class LocalToolService:
    """Implements ``ToolService``: validates, approves and bounds each call.

    Args:
        tools: in the order in which the model sees them, each name once.
        workspace: the directory that file tools are held inside.
        clock: measures durations and deadlines.
        default_timeout_s: seconds for a call of a tool without a timeout, above 0.
        answer_timeout_s: seconds that a call of an external tool without a timeout waits, above 0.
        protected: resolved paths of files that file tools do not write.

    Raises:
        ValueError: two tools share a name, or the timeout is not above 0.
        ToolDefinitionError: a tool's annotations cannot be described to a model.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        workspace: Path,
        clock: Clock,
        default_timeout_s: float = DEFAULT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        protected: Collection[Path] = (),
    ) -> None:
        if not (default_timeout_s > 0 and math.isfinite(default_timeout_s)):
            raise ValueError(f"default_timeout_s: got {default_timeout_s!r}, expected seconds above 0.")
        self._given_workspace = workspace
        self._protected = tuple(protected)
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        for tool in tools:
            if tool.name in self._entries:
                raise ValueError(f'Two tools are named {tool.name!r}: rename one with tool(name="…").')
            definition = tool.definition
            default_s = answer_timeout_s if tool.external else default_timeout_s
            if tool.timeout_s is None and definition.timeout_s != default_s:
                definition = attrs.evolve(definition, timeout_s=default_s)
            on_loop = inspect.iscoroutinefunction(tool.function)
            self._entries[tool.name] = _Entry(
                tool.function,
                tool.schema,
                tool.context_parameter,
                tool.run_parameter,
                tool.deps_type,
                definition,
                on_loop,
                tool.was_done,
            )
        self._definitions = tuple(entry.definition for entry in self._entries.values())

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """All tools, in the order given."""
        return self._definitions

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, ToolErrors]:
        """Run one call and return its full result; fails as the port says.

        Checked in this order: the name, the form of the arguments, their types, approval, time. A tool that
        was refused at any of these did not run. Neither waiting for approval nor for a thread that is free
        counts towards the timeout; both end at the deadline. A call of an external tool is not run either:
        its result has the checked arguments and the origin ``external``.
        """
        entry = self._entries.get(call.name)
        if entry is None:
            return Failure(ToolNotFound(call.name, tuple(self._entries)))
        if call.malformed:
            return Failure(malformed_arguments(call.name, call.malformed))
        if entry.run_parameter is not None and scope.run_context is None:
            return Failure(ToolFailed(call.name, "it takes a RunContext, which only an agent's runs have."))
        needs_approval = entry.definition.requires_approval or scope.needs_approval
        if needs_approval:  # no one else holds the arguments that are approved, and then run
            call = attrs.evolve(call, arguments=deepcopy(call.arguments))
        converted = convert_arguments(call.name, entry.schema, call.arguments)
        if not isinstance(converted, Success):
            return Failure(converted.failure())
        if needs_approval:
            approval = await seek_approval(
                approver, call, entry.definition, scope, patience_s=self._remaining_s(scope)
            )
            if not isinstance(approval, Success):
                return Failure(approval.failure())
        if entry.definition.external:
            return Success(ToolResult(call.id, call.name, call.arguments, origin="external"))
        return await self._run(entry, call, scope, converted.unwrap())

    async def was_done(self, name: str, key: str) -> tuple[Json] | None:
        """Ask a tool's probe whether a call was done; ``None`` where that is not known.

        Args:
            key: the idempotency key of the call.
        """
        entry = self._entries.get(name)
        if entry is None or entry.was_done is None:
            return None
        try:
            found = entry.was_done(key)
            if inspect.isawaitable(found):
                found = await found
        except Exception:  # noqa: BLE001 - a probe is arbitrary user code, and the call stays in doubt
            _log.warning("The probe of the tool %r raised.", name, exc_info=True)
            return None
        return (to_json_value(found),)

    async def _run(
        self, entry: _Entry, call: ToolCall, scope: ToolScope, arguments: dict[str, Any]
    ) -> Result[ToolResult, ToolErrors]:
        known: RunContext[Any] | None = None
        if entry.run_parameter is not None and scope.run_context is not None:
            known = attrs.evolve(scope.run_context(), idempotency_key=scope.call_key, report=scope.report)
            if not is_of_type(known.deps, entry.deps_type):
                has, wants = type(known.deps).__name__, type_name(entry.deps_type)
                detail = f"it takes RunContext[{wants}], and the dependencies of the run are a {has}."
                return Failure(ToolFailed(call.name, detail))
        thread = None
        if not entry.on_loop:
            thread = await take_thread(self._remaining_s(scope))
            if thread is None:
                return Failure(ToolTimedOut(call.name, 0.0))
        started = self._clock.monotonic()
        timeout_s = entry.definition.timeout_s
        if scope.deadline is not None:
            timeout_s = min(timeout_s, scope.deadline - started)
        parameter = entry.context_parameter
        if parameter is not None:
            arguments[parameter] = self._context(scope, started + timeout_s)
        if entry.run_parameter is not None:
            arguments[entry.run_parameter] = known
        try:
            outcome, usage = await run_function(
                call.name, entry.function, arguments, thread=thread, timeout_s=timeout_s
            )
        finally:
            if thread is not None:
                thread.leave()
        duration_ms = (self._clock.monotonic() - started) * 1000
        if isinstance(outcome, Success):
            value, parts = outcome.unwrap()
            return Success(
                ToolResult(call.id, call.name, value, "", duration_ms, "executed", usage, bool(usage), parts)
            )
        if not usage:
            return Failure(outcome.failure())
        error = outcome.failure().message  # a failure value could not say what was spent
        return Success(
            ToolResult(call.id, call.name, error=error, duration_ms=duration_ms, usage=usage, counted=True)
        )

    def _remaining_s(self, scope: ToolScope) -> float | None:
        return None if scope.deadline is None else scope.deadline - self._clock.monotonic()

    @cached_property
    def _workspace(self) -> Path:
        return self._given_workspace.resolve()

    def _context(self, scope: ToolScope, deadline: float) -> ToolContext:
        return ToolContext(
            run_id=scope.run_id,
            task_id=scope.task_id,
            agent_id=scope.agent_id,
            call_id=scope.call_key,
            workspace=self._workspace,
            deadline=deadline,
            protected=self._protected,
        )
