"""The answer of a run while it comes: partial values of its output type."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from returns.result import Result, Success

from reactive_agents.agent.errors import AgentError
from reactive_agents.agent.partial_values import MISSING, partial_json, partial_value
from reactive_agents.core.errors import ExecutionError, StructuredOutputError
from reactive_agents.core.events import (
    ModelStreamRestarted,
    ModelTextRetracted,
    ModelTextStreamed,
    TaskFailed,
    TaskStarted,
)
from reactive_agents.core.json import Json
from reactive_agents.core.tasks import TaskResult
from reactive_agents.kernel.answer_form import COULD_NOT
from reactive_agents.reasoning.structured_output.schema import WRAPPED, Shape, has_fields

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent

T = TypeVar("T")

_GROWTH: Final = 64
"""A text is read again when it has grown by this part of it, so that the time is linear in the text."""


class OutputStream(Generic[T]):
    """An async iterator over the partial values of an answer, and the answer.

    Each takes the place of the one before. Leaving the loop early cancels the run; on trio close it with
    :meth:`aclose`.

    Attributes:
        result: of the run, once the last value was given.
    """

    def __init__(
        self,
        stream: Callable[[Callable[[Result[TaskResult, TaskFailed]], None]], AsyncGenerator[AgentEvent]],
        present: Callable[[TaskResult], Any],
        shape: Shape[Any] | None,
    ) -> None:
        self.result: Any = None
        self._outcome: Result[TaskResult, TaskFailed] | None = None
        self._events = stream(self._end)
        self._present = present
        self._shape = shape
        self._values: AsyncGenerator[T] = self._yielded()

    def __aiter__(self) -> AsyncGenerator[T]:
        return self._values

    async def aclose(self) -> None:
        """Cancel the run, if it has not ended."""
        await self._values.aclose()

    def _end(self, outcome: Result[TaskResult, TaskFailed]) -> None:
        self._outcome = outcome

    async def _yielded(self) -> AsyncGenerator[T]:
        answer, latest = _GrowingText(), MISSING
        async with aclosing(self._events) as events:
            async for event in events:
                if answer.take(event):
                    value = self._read(answer.text())
                    if value is not MISSING and value != latest:
                        latest = value
                        yield value
        if self._outcome is None:  # the run was continued elsewhere
            return
        if not isinstance(self._outcome, Success):
            failed = self._outcome.failure()
            raise AgentError(failed.error, failed.steps, failed.metadata, failed.run_id)
        result = self._outcome.unwrap()
        self.result = self._present(result)
        if self.result.output is None:
            calls = max(1, result.metadata.model_calls)
            missing = StructuredOutputError("output", result.reason, calls)
            error = ExecutionError(missing.message, result.task_id, "complete", missing)
            raise AgentError(error, result.steps, result.metadata, result.run_id)
        yield self.result.output

    def _read(self, text: str) -> Any:
        if self._shape is None:
            return text or MISSING
        data = partial_json(text)
        return MISSING if data is MISSING else partial_value(self._shape.kind, _answer_in(data, self._shape))


def _answer_in(data: Json, shape: Shape[Any]) -> Json:
    """Return the answer in the arguments of ``final-answer``."""
    if not isinstance(data, dict):
        return data
    known = shape.schema.get("properties")
    names = known if isinstance(known, dict) else {}
    if not has_fields(shape.schema) and WRAPPED in data:
        return data[WRAPPED]
    return {name: each for name, each in data.items() if name != COULD_NOT or name in names}


class _GrowingText:
    """The text that stands in the stream of a run."""

    def __init__(self) -> None:
        self._run_id: str | None = None
        self._parts: list[str] = []
        self._size = self._read_at = self._model_call = 0

    def take(self, event: AgentEvent) -> bool:
        """Take an event; return whether the text has grown by enough to be read."""
        if self._run_id is None and isinstance(event, TaskStarted):
            self._run_id = event.run_id
        if event.run_id != self._run_id:  # of a sub-agent
            return False
        match event:
            case ModelTextStreamed(text=text):
                self._parts.append(text)
                self._size += len(text)
                self._model_call = event.model_call
            case ModelTextRetracted():
                self._clear()
            case ModelStreamRestarted() if event.model_call == self._model_call:
                self._clear()
        return self._size > self._read_at + self._read_at // _GROWTH

    def text(self) -> str:
        """Return the text so far."""
        self._parts, self._read_at = ["".join(self._parts)], self._size
        return self._parts[0]

    def _clear(self) -> None:
        self._parts.clear()
        self._size = self._read_at = 0
