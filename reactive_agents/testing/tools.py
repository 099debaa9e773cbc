"""Fake tools: functions and fixed results behind the port."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast, get_args

from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolDefinition, ToolResult, ToolScope
from reactive_agents.effects import effect
from reactive_agents.ports import Approver

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
