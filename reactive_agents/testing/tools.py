"""Fake tools: functions and fixed results behind the port, and recorded runs."""

from __future__ import annotations

import inspect
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast, get_args

from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.codec import decode
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import attempt, effect
from reactive_agents.ports import Approver, ToolService

Answer: TypeAlias = Json | errors.ToolErrors | Callable[..., Any]
"""The answer of a fake tool: a fixed result, an error, or a (plain or async) function."""

_ERRORS = get_args(errors.ToolErrors)
_TYPES: Mapping[str, str] = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class FakeTools:
    """Implements ``ToolService`` from a mapping of names to answers.

    A fixed result is returned for any arguments; an error value is the call's failure; a function is called
    with the arguments by name, and what it raises becomes ``ToolFailed``. Arguments that the function cannot
    take, and malformed ones, fail with ``InvalidToolArguments``; unknown names with ``ToolNotFound``. Types,
    approval and timeouts are not enforced: that is up to the live service.

    Args:
        answers: the answer of each tool.
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
        inspect.signature(function).bind(**call.arguments)
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
    for parameter in inspect.signature(answer).parameters.values():
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
    """Implements ``LLM``: the answers of an exported run in their order.

    Each purpose of requests has its order.

    Args:
        path: a file of ``agent.runs.export``.

    Attributes:
        task: the task of the run.
        requests: every request so far.
    """

    model = "recorded/run"

    def __init__(self, path: str | Path) -> None:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        self.task: str = document["task"]
        self.requests: list[ModelRequest] = []
        self._answers: dict[str, list[Any]] = {}
        self._results: dict[str, list[Any]] = {}
        for entry in document["entries"]:
            if entry["kind"] == "model":
                self._answers.setdefault(entry["asked"][0], []).append(entry)
            elif entry["kind"] == "result":
                self._results.setdefault(entry["tool"], []).append(entry)

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, errors.LLMErrors]:
        """Return the next recorded answer to a request of this purpose.

        Fails with ``ScriptExhausted`` when the run did not ask so often.
        """
        self.requests.append(request)
        waiting = self._answers.get(request.purpose)
        if not waiting:
            message = f"The recorded run has no further answer for the purpose {request.purpose!r}."
            return Failure(errors.ScriptExhausted(message, request.purpose))
        entry = waiting.pop(0)
        if "answer" in entry:
            answer: Result[ModelResponse, Any] = decode(entry["answer"], ModelResponse)
            return answer
        return Failure(decode(entry["error"], errors.LLMErrors).unwrap())

    async def stream(self, request: ModelRequest) -> AsyncIterator[Result[ModelChunk, errors.LLMErrors]]:
        """Yield the next recorded answer as a whole."""
        yield (await attempt(self.complete(request))).map(StreamCompleted)

    def tools(self, service: ToolService) -> ToolService:
        """Return tools of the definitions of a service, with the recorded results."""
        return _RecordedTools(service.definitions(), self._results)


class _RecordedTools:
    def __init__(self, definitions: tuple[ToolDefinition, ...], results: dict[str, list[Any]]) -> None:
        self._definitions = definitions
        self._results = results

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the other service."""
        return self._definitions

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Return the next recorded outcome of the tool; no tool is run."""
        waiting = self._results.get(call.name)
        if not waiting:
            return Failure(errors.ToolFailed(call.name, "The recorded run has no further call of it."))
        entry = waiting.pop(0)
        if "result" not in entry:
            return Failure(decode(entry["error"], errors.ToolErrors).unwrap())
        known = decode(entry["result"], ToolResult).unwrap()
        return Success(ToolResult(call.id, call.name, known.result, known.error))
