"""Output types: the final answer is asked for in a form, or converted to it."""

from __future__ import annotations

import json
from typing import Any, Never

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import DecodeError, FieldProblem
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.results import ReasoningResult
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.prompt import DEFAULT_SYSTEM_PROMPT, fence
from reactive_agents.reasoning import structured_output
from reactive_agents.reasoning.confidence import BY_STATUS
from reactive_agents.reasoning.passes import Limit, limit_reached
from reactive_agents.reasoning.strategy import StrategyInput, StrategyServices, begin_measure
from reactive_agents.reasoning.structured_output.schema import Shape

PURPOSE = "output-type"
_INSTRUCTIONS = (
    "An answer to the task has been found, but not in the form that is needed. Put what it says into that "
    "form. Take every value from the answer, and add nothing that it does not say."
)
_WRAPPED = "value"


def with_answer_format(system_prompt: str, shape: Shape[Any]) -> str:
    """Return the instructions with the format of the final answer."""
    schema = json.dumps(shape.schema, ensure_ascii=False)
    form = (
        "The final answer to the user's task has to be one JSON value that fits the JSON Schema below, "
        "without words around it. This is about the final answer alone: think and call tools as you like "
        f"before it.\n{schema}"
    )
    return f"{system_prompt or DEFAULT_SYSTEM_PROMPT}\n\n{form}"


@effect
async def convert_output(
    result: ReasoningResult, shape: Shape[Any], strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, Never]:
    """Return the result with an output of the shape, if its status is ``completed``.

    A whole answer that does not fit is turned into the shape by the model, as far as time and budget allow;
    one that cannot be turned makes the result ``partial``, with the text kept. Nothing is made of a partial
    answer: what it lacks would have to be invented.

    Args:
        strategy_input: with the role as it is without :func:`with_answer_format`, since the form that the
            turning asks for may be another.
    """
    if result.status != "completed" or result.output is None:
        return Success(result)
    read = structured_output.read_answer(result.output, shape)
    if isinstance(read, Success):
        return Success(result)
    limit = limit_reached(strategy_input, services)
    if limit is not None:
        return Success(_unfit(result, shape, f"{read.failure().message}. {limit.reason}", limit))
    measure = begin_measure(services)
    content = f"Task:\n{strategy_input.task_description}\n\n{fence('answer', result.output)}"
    asked = structured_output.ask_structured(
        structured_output.Question(_as_text(shape), _INSTRUCTIONS, content, PURPOSE), strategy_input, services
    )
    answered = await attempt(asked)
    spent = services.meter.usage.since(measure.spent)
    metadata = evolve(
        result.metadata,
        duration=result.metadata.duration + (services.kernel.clock.monotonic() - measure.started) * 1000,
        cost=result.metadata.cost + spent.cost_usd,
        tokens_used=result.metadata.tokens_used + spent.usage.total_tokens,
    )
    result = evolve(result, metadata=metadata)
    if isinstance(answered, Failure):
        problem, limit = answered.failure().message, limit_reached(strategy_input, services)
        return Success(_unfit(result, shape, problem, limit))
    return Success(evolve(result, output=answered.unwrap().value))


def retyped_result(shape: Shape[Any], result: ReasoningResult) -> ReasoningResult:
    """Return a redacted result: ``partial`` where its output has lost the shape."""
    if result.status != "completed" or result.output is None:
        return result
    read = structured_output.read_answer(result.output, shape)
    if isinstance(read, Success):
        return result
    return _unfit(result, shape, f"{read.failure().message}, since a guardrail redacted it.", None)


def _as_text(shape: Shape[Any]) -> Shape[str]:
    """Return the shape with the text of the value in place of the value.

    A value that is no object is asked for inside of one, as providers want it, and counts without it too.
    """
    is_object = shape.schema.get("type") == "object"

    def read(data: Json) -> Result[str, DecodeError]:
        if not is_object and isinstance(data, dict):
            if _WRAPPED not in data:
                missing = FieldProblem(f"$.{_WRAPPED}", "required field missing")
                return Failure(DecodeError(shape.name, (missing,)))
            data = data[_WRAPPED]
        return shape.read(data).map(lambda _: _text_of(data, shape))

    return Shape(shape.name, shape.schema if is_object else _in_object(shape.schema), read)


def _text_of(data: Json, shape: Shape[Any]) -> str:
    """Return the JSON text; a string without quotes where it is read as the same."""
    if isinstance(data, str):
        bare = structured_output.read_answer(data, shape).map(lambda answer: answer.value)
        if bare == shape.read(data):
            return data
    return json.dumps(data, ensure_ascii=False)


def _in_object(schema: JsonObject) -> JsonObject:
    inner = {name: part for name, part in schema.items() if name != "$defs"}
    head: JsonObject = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        **head,
        "type": "object",
        "properties": {_WRAPPED: inner},
        "required": [_WRAPPED],
        "additionalProperties": False,
    }


def _unfit(result: ReasoningResult, shape: Shape[Any], problem: str, limit: Limit | None) -> ReasoningResult:
    reason = f"The answer could not be made a {shape.name}: {problem} Missing: a {shape.name}."
    by = "output_type" if limit is None else limit.name
    metadata = evolve(
        result.metadata,
        terminated_by=by,
        reason=reason,
        confidence=min(result.metadata.confidence, BY_STATUS["partial"]),
    )
    return evolve(result, status="partial", metadata=metadata)
