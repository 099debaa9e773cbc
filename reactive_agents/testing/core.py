"""Fakes of the clock, of ids, of the event bus and of tools; an event recorder."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast, get_args

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.codec import decode
from reactive_agents.core.events import AgentEvent, Event, ExecutionPhaseEntered
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted
from reactive_agents.core.run_context import signature_of
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import attempt, effect
from reactive_agents.ports import Approver, EventHandler, ToolService

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Implements ``Clock``.

    Time passes by :meth:`advance`, and by ``step_s`` with each reading.

    Args:
        start: the time of day at the first reading, with its time zone.
        step_s: seconds that pass after each reading, 0 or more; the monotonic time starts at 0.

    Raises:
        ValueError: ``start`` has no time zone, or ``step_s`` is negative.
    """

    def __init__(self, start: datetime = START, step_s: float = 0.0) -> None:
        if start.tzinfo is None:
            raise ValueError(f"FakeClock: start: got {start}, expected a time with a time zone.")
        if step_s < 0:
            raise ValueError(f"FakeClock: step_s: got {step_s}, expected 0 or more.")
        self._start = start.astimezone(UTC)
        self._step = step_s
        self._passed = 0.0

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        return self._start + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        passed = self._passed
        self._passed += self._step
        return passed

    def advance(self, seconds: float) -> None:
        """Move the clock forward.

        Raises:
            ValueError: ``seconds`` is negative; a clock never goes back.
        """
        if seconds < 0:
            raise ValueError(f"FakeClock: advance: got {seconds}, expected 0 or more seconds.")
        self._passed += seconds


class SequentialIds:
    """Implements ``IdSource``: ``id-0001``, ``id-0002``, …, which sort by time."""

    def __init__(self, prefix: str = "id-") -> None:
        self._prefix = prefix
        self._count = 0

    def new(self) -> str:
        """Return the next id."""
        self._count += 1
        return f"{self._prefix}{self._count:04}"


_Kind = TypeVar("_Kind", bound=Event)


class EventRecorder:
    """An event handler that records every event: ``bus.subscribe(recorder)``."""

    def __init__(self) -> None:
        self.events: list[AgentEvent] = []

    def __call__(self, event: AgentEvent) -> None:
        self.events.append(event)

    def of(self, kind: type[_Kind]) -> list[_Kind]:
        """Return the events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def tags(self) -> list[str]:
        """Return the class name of each event."""
        return [type(event).__name__ for event in self.events]

    def phases(self) -> list[str]:
        """Return the lifecycle phases that were entered."""
        return [event.phase for event in self.of(ExecutionPhaseEntered)]


class InMemoryEventBus:
    """Implements ``EventBus`` by plain calls, without logging.

    Attributes:
        raised: the exceptions of handlers, so that a test can assert that there are none.
    """

    def __init__(self) -> None:
        self.raised: list[Exception] = []
        self._handlers: list[tuple[EventHandler, RunId | None]] = []

    def has_subscribers(self, run_id: RunId) -> bool:
        """Return whether any handler receives the events of the run."""
        return any(wanted is None or wanted == run_id for _, wanted in self._handlers)

    def publish(self, event: AgentEvent) -> None:
        """Call every handler that wants the event; one that raises stops no other."""
        for handler, run_id in tuple(self._handlers):
            if run_id is None or run_id == event.run_id:
                try:
                    handler(event)
                except Exception as error:  # noqa: BLE001 - a handler is arbitrary user code
                    self.raised.append(error)

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Call a handler with later events, or those of one run; return its unsubscriber."""
        entry = (handler, run_id)
        self._handlers.append(entry)

        def unsubscribe() -> None:
            self._handlers = [other for other in self._handlers if other is not entry]

        return unsubscribe


# --- Fake tools: functions and fixed results behind the port, and recorded runs ---


Answer: TypeAlias = Json | errors.ToolErrors | Callable[..., Any]
"""The answer of a fake tool: a fixed result, an error, or a (plain or async) function."""

_ERRORS = get_args(errors.ToolErrors)
_TYPES: Mapping[str, str] = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class FakeTools:
    """Implements ``ToolService`` from a mapping of names to answers.

    A fixed result is returned for any arguments. An error value is the failure of the call. A function is
    called with the arguments by name, and an exception becomes ``ToolFailed``. Arguments that the function
    cannot take, and malformed ones, fail with ``InvalidToolArguments``; unknown names with ``ToolNotFound``.
    Types, approval and timeouts are not enforced: only the live service does that.

    Args:
        definitions: definitions for tools whose name, docstring and parameters are not enough.
        fails_with: every call fails with it, after it was recorded.

    Attributes:
        calls: every call so far, in order, also those that failed.
        scopes: the scope of each call.
    """

    def __init__(
        self,
        answers: Mapping[str, Answer],
        *,
        definitions: tuple[ToolDefinition, ...] = (),
        fails_with: errors.ToolErrors | None = None,
    ) -> None:
        self.fails_with = fails_with
        self.calls: list[ToolCall] = []
        self.scopes: list[ToolScope] = []
        self._answers = dict(answers)
        given = {definition.name: definition for definition in definitions}
        self._definitions = tuple(
            given.get(name) or _define(name, answer) for name, answer in answers.items()
        )

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions, in the order of the mapping."""
        return self._definitions

    def arguments_of(self, name: str) -> list[JsonObject]:
        """Return the arguments of each call of one tool."""
        return [call.arguments for call in self.calls if call.name == name]

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Record the call and return the tool's answer."""
        self.calls.append(call)
        self.scopes.append(scope)
        if self.fails_with is not None:
            return Failure(self.fails_with)
        if call.name not in self._answers:
            return Failure(errors.ToolNotFound(call.name, tuple(self._answers)))
        if call.malformed:
            problem = errors.ArgumentProblem("arguments", call.malformed, "a JSON object")
            return Failure(errors.InvalidToolArguments(call.name, (problem,)))
        answer = self._answers[call.name]
        if callable(answer):
            ran = await _run(answer, call)
            if isinstance(ran, Failure):
                return Failure(ran.failure())
            answer = ran.unwrap()
        if isinstance(answer, _ERRORS):
            return Failure(cast(errors.ToolErrors, answer))
        return Success(ToolResult(call.id, call.name, cast(Json, answer)))


async def _run(function: Callable[..., Any], call: ToolCall) -> Result[Any, errors.ToolErrors]:
    try:
        signature_of(function).bind(**call.arguments)
    except TypeError as error:
        problem = errors.ArgumentProblem("arguments", str(call.arguments), str(error))
        return Failure(errors.InvalidToolArguments(call.name, (problem,)))
    try:
        outcome = function(**call.arguments)
        return Success(await outcome if inspect.isawaitable(outcome) else outcome)
    except Exception as error:  # noqa: BLE001 - a tool function is arbitrary user code
        return Failure(errors.ToolFailed(call.name, str(error), type(error).__name__))


def _define(name: str, answer: Answer) -> ToolDefinition:
    description = (inspect.getdoc(answer) if inspect.isroutine(answer) else None) or f"The tool {name}."
    if not callable(answer):
        return ToolDefinition(name, description, {"type": "object"})
    properties: JsonObject = {}
    required: list[Json] = []
    for parameter in signature_of(answer).parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        annotation = parameter.annotation
        kind = _TYPES.get(annotation if isinstance(annotation, str) else getattr(annotation, "__name__", ""))
        properties[parameter.name] = {"type": kind} if kind else {}
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return ToolDefinition(
        name, description, {"type": "object", "properties": properties, "required": required}
    )


# --- a recorded run as a model and tools --------------------------------------------------------------------


class RecordedRunPlayer:
    """Implements ``LLM``: plays the answers of an exported run.

    The answers to requests of one purpose are played in their order.

    Args:
        path: a file of ``agent.runs.export``, or the output of ``reactive-agents runs recording``.

    Attributes:
        task: the task of the run.
        requests: every request so far.

    Raises:
        ValueError: the file is not such a recording, for example because it was edited.
    """

    model = "recorded/run"

    def __init__(self, path: str | Path) -> None:
        self.requests: list[ModelRequest] = []
        self._answers: dict[str, list[Result[ModelResponse, errors.LLMErrors]]] = {}
        self._results: dict[str, list[tuple[Json, Result[ToolResult, errors.ToolErrors]]]] = {}
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
            self.task: str = document["task"]
            if not isinstance(self.task, str):
                raise TypeError(f"'task': got {self.task!r:.100}, expected a text")
            intents = {each["key"]: each for each in document["entries"] if each["kind"] == "intent"}
            for entry in document["entries"]:
                if entry["kind"] == "model":
                    answer = _outcome(entry, "answer", ModelResponse, errors.LLMErrors)
                    self._answers.setdefault(entry["asked"][0], []).append(answer)
                elif entry["kind"] == "result":
                    made = intents.get(entry["key"].removesuffix("="), {})
                    result = _outcome(entry, "result", ToolResult, errors.ToolErrors)
                    self._results.setdefault(entry["tool"], []).append((made.get("arguments"), result))
                elif entry["kind"] != "intent":
                    raise ValueError(f"'kind': got {entry['kind']!r:.100}, expected model, intent or result")
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is not a recording of a run: {type(error).__name__}: {error}") from None

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, errors.LLMErrors]:
        """Return the next recorded answer of this purpose, or ``ScriptExhausted``."""
        self.requests.append(request)
        waiting = self._answers.get(request.purpose)
        if not waiting:
            message = f"The recorded run has no further answer for the purpose {request.purpose!r}."
            return Failure(errors.ScriptExhausted(message, request.purpose))
        return waiting.pop(0)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, errors.LLMErrors]]:
        """Yield the next recorded answer as a whole."""
        yield (await attempt(self.complete(request))).map(StreamCompleted)

    def tools(self, service: ToolService) -> ToolService:
        """Return tools of the definitions of a service, with the recorded results."""
        return _RecordedTools(service.definitions(), self._results)


def _outcome(entry: Any, name: str, kind: Any, problems: Any) -> Result[Any, Any]:
    """Return what an entry has under a name, or else its error.

    Raises:
        ValueError: it cannot be read.
    """
    read = decode(entry[name], kind) if name in entry else decode(entry["error"], problems)
    if isinstance(read, Failure):
        raise ValueError(f"{entry['key']}: {read.failure().message}")
    return read if name in entry else Failure(read.unwrap())


@frozen(eq=False)
class _RecordedTools:
    _definitions: tuple[ToolDefinition, ...]
    _results: dict[str, list[tuple[Json, Result[ToolResult, errors.ToolErrors]]]]

    def definitions(self) -> tuple[ToolDefinition, ...]:
        return self._definitions

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, errors.ToolErrors]:
        waiting = self._results.get(call.name)
        if not waiting:
            return Failure(errors.ToolFailed(call.name, "The recorded run has no further call of this tool."))
        alike = (place for place, (arguments, _) in enumerate(waiting) if arguments == call.arguments)
        _, known = waiting.pop(next(alike, 0))  # calls of one turn were recorded as they ended
        return known.map(
            lambda made: ToolResult(call.id, call.name, made.result, made.error, arguments=made.arguments)
        )
