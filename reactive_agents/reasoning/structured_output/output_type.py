"""Output types: the final answer is given in a form, or converted to it.

If there are tools, the fields of a value are the parameters of ``final-answer``; otherwise the answer is a
text that the provider holds to the schema, if it can. Other forms that models give are read as far as nothing
is lost; an answer in prose is converted by a further question.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import Any, Never

from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import DecodeError, FieldProblem, OutputValidatorFailed
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.results import WORKFLOW, ReasoningResult
from reactive_agents.effects import attempt, effect
from reactive_agents.kernel.answer_form import (
    COULD_NOT,
    FINAL_ANSWER_TOOL,
    OUTPUT_TYPE,
    OUTPUT_VALIDATOR,
    RETRIES,
    AnswerForm,
    accepted_text,
    answer_tool,
    reason_without_form,
)
from reactive_agents.kernel.call_parsing.argument_schema import properties_of
from reactive_agents.kernel.prompt import fence
from reactive_agents.kernel.termination import in_time
from reactive_agents.reasoning.confidence import ended_partial
from reactive_agents.reasoning.passes import Limit, limit_reached
from reactive_agents.reasoning.strategy import (
    StrategyInput,
    StrategyMeasure,
    StrategyServices,
    begin_measure,
    seconds_left,
)
from reactive_agents.reasoning.structured_output.answer_parser import (
    NO_VALUE,
    fitted_to_schema,
    read_answer,
    unwrapped,
)
from reactive_agents.reasoning.structured_output.question import Question, ask_structured
from reactive_agents.reasoning.structured_output.schema import WRAPPED, Shape, has_fields

PURPOSE = "output-type"
_INSTRUCTIONS = (
    "An answer to the task has been found, but not in the form that is needed. Put what it says into that "
    "form. Take every value from the answer, and add nothing that it does not say."
)
_REJECTED = (
    "An answer to the task has been found, but it was not accepted. Correct what the objection names, keep "
    "the rest, and add nothing that neither the task nor the answer says."
)
_SHOWN_PROBLEMS = 8


TEXT: Shape[str] = Shape("text", {"type": "string"}, lambda data: Success(str(data)))
"""Any text, which validators may judge like a value."""


# --- the form of the answers of a type ------------------------------------------------------------------


@lru_cache(maxsize=64)
def answer_form(shape: Shape[Any]) -> AnswerForm:
    """Return the form of answers that are values of a shape."""
    if shape is TEXT:
        return AnswerForm(TEXT.name, FINAL_ANSWER_TOOL, str, lambda text: "", "", None)
    schema = shape.schema if has_fields(shape.schema) else _in_object(shape.schema)
    return AnswerForm(
        name=shape.name,
        tool=answer_tool(schema),
        text_of=partial(_text_of_fields, shape),
        problem_in=lru_cache(maxsize=4)(partial(_problem_in, shape)),
        instructions=_instructions(schema),
        response_schema=schema,
        abstains=COULD_NOT not in properties_of(schema),
        unwrapped=partial(_unwrapped_text, shape),
        ratings=frozenset(_ratings_in(schema)),
    )


def _ratings_in(schema: Json) -> Iterator[str]:
    """Yield the names of the properties, at any depth, that are limited to 0 to 1."""
    if isinstance(schema, list):
        for each in schema:
            yield from _ratings_in(each)
    elif isinstance(schema, dict):
        yield from (name for name, part in properties_of(schema).items() if _is_rating(part))
        for part in schema.values():
            yield from _ratings_in(part)


def _is_rating(schema: Json) -> bool:
    if not isinstance(schema, dict):
        return False
    options = schema.get("anyOf")
    is_one = isinstance(options, list) and any(map(_is_rating, options))
    return is_one or (schema.get("minimum"), schema.get("maximum")) == (0, 1)


def _instructions(schema: JsonObject) -> str:
    shown = json.dumps(schema, ensure_ascii=False)
    return (
        "The final answer to the user's task has to be one JSON value that fits the JSON Schema below, "
        "without words around it. This is about the final answer alone: think and call tools as you like "
        f"before it.\n{shown}"
    )


def _text_of_fields(shape: Shape[Any], arguments: JsonObject) -> str:
    fields = arguments
    if COULD_NOT in arguments and COULD_NOT not in properties_of(shape.schema):
        fields = {name: value for name, value in arguments.items() if name != COULD_NOT}
    if not has_fields(shape.schema):
        lone = fields.keys() == {WRAPPED}
        return _text_of(fields[WRAPPED], shape) if lone else json.dumps(fields, ensure_ascii=False)
    fitted = fitted_to_schema(fields, shape.schema)
    fits = isinstance(shape.read(fitted), Success) and bool(fitted or not fields)
    ((name, inner),) = fields.items() if len(fields) == 1 else (("", None),)
    as_given = fits and name in properties_of(shape.schema)
    if not as_given and isinstance(inner, str) and inner.lstrip()[:1] == "{":  # JSON under any name
        found = read_answer(inner, shape).map(lambda _: inner)
        return found.value_or(json.dumps(fields, ensure_ascii=False))
    return json.dumps(fitted if fits else fields, ensure_ascii=False)


def _unwrapped_text(shape: Shape[Any], text: str) -> str:
    """Return the text of the value that a text has inside of one field."""
    found = unwrapped(text, shape)
    return text if found is None else _text_of(found.value, shape)


def _problem_in(shape: Shape[Any], text: str) -> str:
    read = read_answer(text, shape)
    return "" if isinstance(read, Success) else described_problems(read.failure())


def described_problems(error: DecodeError) -> str:
    """Return the problems of the fields of an answer, as text for the model."""
    if [problem.problem for problem in error.problems] == [NO_VALUE]:
        return f"The answer is a text without a {error.type_name} in it."
    shown = [f"{problem.path.removeprefix('$.')}: {problem.problem}" for problem in error.problems]
    more = f"; and {len(shown) - _SHOWN_PROBLEMS} more" if len(shown) > _SHOWN_PROBLEMS else ""
    return f"The answer is no valid {error.type_name}: {'; '.join(shown[:_SHOWN_PROBLEMS])}{more}."


# --- answers that are not in the form at the end of a strategy ------------------------------------------


@effect
async def convert_output(
    result: ReasoningResult, shape: Shape[Any], strategy_input: StrategyInput, services: StrategyServices
) -> Result[ReasoningResult, Never]:
    """Return the result with an output of the shape, if its status is ``completed``.

    The model converts a complete answer that does not fit, as far as time and budget allow; when that fails,
    the result is ``partial`` and keeps the text. A partial answer is not converted, since the missing parts
    would have to be invented; what a workflow returns is not either, since it is no model's.
    """
    if result.status != "completed" or result.output is None:
        return Success(result)
    form = strategy_input.answer_form or answer_form(shape)
    accepted = await _accepted(result.output, form, strategy_input, services)
    if isinstance(accepted, Success):
        return Success(evolve(result, output=accepted.unwrap()))
    measure, text, problem, left = begin_measure(services), result.output, accepted.failure(), RETRIES
    is_converted = result.metadata.terminated_by != WORKFLOW
    while is_converted and isinstance(problem, str) and left >= 0:
        limit = limit_reached(strategy_input, services)
        if limit is not None:
            return Success(_unfit(result, text, form, f"{problem} {limit.reason}", limit))
        question = _conversion(text, problem, shape, form, strategy_input, left)
        answered = await attempt(ask_structured(question, strategy_input, services))
        result = _with_usage(result, measure, services)
        measure = begin_measure(services)
        if isinstance(answered, Failure):
            limit = limit_reached(strategy_input, services)
            return Success(_unfit(result, text, form, answered.failure().message, limit))
        text, left = answered.unwrap().value, left - answered.unwrap().attempts
        accepted = await _accepted(text, form, strategy_input, services)
        if isinstance(accepted, Success):
            return Success(evolve(result, output=accepted.unwrap()))
        problem = accepted.failure()
    said = problem if isinstance(problem, str) else problem.message
    return Success(_unfit(result, text, form, said, None))


async def _accepted(
    text: str, form: AnswerForm, strategy_input: StrategyInput, services: StrategyServices
) -> Result[str, str | OutputValidatorFailed]:
    """Return the accepted text; validators may take as long as the run."""
    left = seconds_left(strategy_input, services)
    accepted = await in_time(accepted_text(text, form), left) if left > 0 else None
    return Failure("The time limit of the run was reached.") if accepted is None else accepted


def _conversion(
    text: str, problem: str, shape: Shape[Any], form: AnswerForm, strategy_input: StrategyInput, left: int
) -> Question[str]:
    """Return the question for the answer in its form, or for one that is accepted."""
    content = f"Task:\n{strategy_input.task_description}\n\n{fence('answer', text)}"
    if form.has_fields and not form.fits(text):
        return Question(_as_text(shape), _INSTRUCTIONS, content, PURPOSE, max_retries=left)
    content = f"{content}\n\n{fence('objection', problem)}"
    return Question(_as_text(shape), _REJECTED, content, PURPOSE, max_retries=left)


def _with_usage(
    result: ReasoningResult, measure: StrategyMeasure, services: StrategyServices
) -> ReasoningResult:
    spent = services.meter.usage.since(measure.spent)
    metadata = evolve(
        result.metadata,
        duration=result.metadata.duration + (services.kernel.clock.monotonic() - measure.started) * 1000,
        cost=result.metadata.cost + spent.cost_usd,
        tokens_used=result.metadata.tokens_used + spent.usage.total_tokens,
    )
    return evolve(result, metadata=metadata)


def retyped_result(form: AnswerForm, result: ReasoningResult) -> ReasoningResult:
    """Return a redacted result, which is ``partial`` if its output has lost the form."""
    if result.status != "completed" or result.output is None:
        return result
    problem = form.problem_in(result.output)
    reason = f"{problem.rstrip('.')}, since a guardrail redacted it."
    return _unfit(result, result.output, form, reason, None) if problem else result


def _as_text(shape: Shape[Any]) -> Shape[str]:
    """Return the shape with the text of the value in place of the value.

    A value that is not an object is asked for inside one, as providers require, and is read without it too.
    """
    wrapped = not has_fields(shape.schema)

    def read(data: Json) -> Result[str, DecodeError]:
        if wrapped and isinstance(data, dict) and data.keys() == {WRAPPED}:
            data = data[WRAPPED]
        elif wrapped and isinstance(data, dict) and shape.schema.get("type") not in ("object", None):
            missing = FieldProblem(f"$.{WRAPPED}", "required field missing")
            return Failure(DecodeError(shape.name, (missing,)))
        if wrapped:  # fitted here: as the object around it, one without that field would lose all it has
            data = fitted_to_schema(data, shape.schema)
        return shape.read(data).map(lambda _: _text_of(data, shape))

    schema = _in_object(shape.schema) if wrapped else shape.schema
    return Shape(shape.name, schema, read, is_fitted=not wrapped)


def text_of_value(value: Any, shape: Shape[Any]) -> str:
    """Return the text of an answer that is a value of the shape.

    Raises:
        Exception: whatever the serializers of the type raise for it.
    """
    if shape is TEXT:
        if not isinstance(value, str):
            raise TypeError(f"got {type(value).__name__}, expected a text")
        return value
    if shape.write is None:
        raise TypeError(f"values of {shape.name} are not written")
    return _text_of(shape.write(value), shape)


def _text_of(data: Json, shape: Shape[Any]) -> str:
    """Return the JSON text; a string without quotes where it is read as the same."""
    if isinstance(data, str) and read_answer(data, shape) == shape.read(data):
        return data
    return json.dumps(data, ensure_ascii=False)


def _in_object(schema: JsonObject) -> JsonObject:
    inner = {name: part for name, part in schema.items() if name != "$defs"}
    head: JsonObject = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    return {
        **head,
        "type": "object",
        "properties": {WRAPPED: inner},
        "required": [WRAPPED],
        "additionalProperties": False,
    }


def _unfit(
    result: ReasoningResult, text: str, form: AnswerForm, problem: str, limit: Limit | None
) -> ReasoningResult:
    rejected = form.fits(text) or not form.has_fields
    by = OUTPUT_VALIDATOR if rejected else OUTPUT_TYPE
    reason = reason_without_form(form.name, problem, rejected=rejected)
    return ended_partial(result, by if limit is None else limit.name, reason)
