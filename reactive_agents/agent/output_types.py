"""Structured output: the types of answers, and the results with their values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar, get_origin

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import DecodeError, FieldProblem, InvalidConfig
from reactive_agents.core.governance import VerificationReport
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import Message
from reactive_agents.core.results import Deliverable, ReasoningStatus, ReasoningStep, ThoughtTree
from reactive_agents.core.tasks import TaskResult, TaskResultMetadata
from reactive_agents.reasoning import structured_output
from reactive_agents.reasoning.structured_output.schema import Shape

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


@frozen
class TypedResult(Generic[T]):
    """The result of a run with structured output.

    Attributes:
        output: the value; with status ``partial`` it may be ``None``, with ``abstained`` it is.
        result: the same outcome with the answer as text, as events carry it.
    """

    output: T | None
    result: TaskResult

    @property
    def text(self) -> str | None:
        """The answer as text, also when no value could be read from it."""
        return self.result.output

    @property
    def success(self) -> bool:
        """True only with status ``completed``; there is a value then."""
        return self.result.success

    @property
    def status(self) -> ReasoningStatus:
        """Whether the answer is completed or partial, or the run abstained."""
        return self.result.status

    @property
    def reason(self) -> str:
        """Why the run ended, in a sentence; with ``partial`` also what is missing."""
        return self.result.reason

    @property
    def steps(self) -> tuple[ReasoningStep, ...]:
        """The steps of the run."""
        return self.result.steps

    @property
    def metadata(self) -> TaskResultMetadata:
        """Usage, cost, duration and other figures of the run."""
        return self.result.metadata

    @property
    def tool_results(self) -> Mapping[str, str]:
        """The full text of every tool result, by the key that its observation step names."""
        return self.result.tool_results

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation with this run, for the ``history`` of the next."""
        return self.result.messages

    @property
    def history(self) -> tuple[Message, ...]:
        """The messages of the conversation that the run continued."""
        return self.result.history

    @property
    def new_messages(self) -> tuple[Message, ...]:
        """The messages that the run added to its conversation."""
        return self.result.new_messages

    @property
    def task_id(self) -> TaskId:
        """The id of the task."""
        return self.result.task_id

    @property
    def run_id(self) -> RunId:
        """The id of the run."""
        return self.result.run_id

    @property
    def agent_id(self) -> AgentId:
        """The id of the agent."""
        return self.result.agent_id

    @property
    def completed_at(self) -> datetime:
        """The end of the run."""
        return self.result.completed_at

    @property
    def verification(self) -> VerificationReport | None:
        """The report of the verifier, if there was one."""
        return self.result.verification

    @property
    def deliverables(self) -> tuple[Deliverable, ...]:
        """The products of the run, with the calls that show them."""
        return self.result.deliverables

    @property
    def tree(self) -> ThoughtTree | None:
        """The thoughts of a tree search, if there was one."""
        return self.result.tree


def typed_results(shape: Shape[T]) -> Callable[[TaskResult], TypedResult[T]]:
    """Return the function that converts a plain result into a typed one."""

    def typed(result: TaskResult) -> TypedResult[T]:
        if result.output is None or result.status == "abstained":
            return TypedResult(None, result)
        read = structured_output.read_answer(result.output, shape).map(lambda answer: answer.value)
        return TypedResult(read.value_or(None), result)

    return typed


def output_shape(output_type: Any) -> Result[Shape[Any], InvalidConfig]:
    """Return the output shape of a type, such as an attrs class or ``list[int]``.

    Fails for a type that has no JSON form.
    """
    from pydantic import TypeAdapter

    from reactive_agents.adapters.tools.schema import bridge_classes

    plain = isinstance(output_type, type) and get_origin(output_type) is None
    name = output_type.__name__ if plain else str(output_type).replace("typing.", "")
    if isinstance(output_type, str):  # pydantic would evaluate it
        return Failure(InvalidConfig("output_type", repr(output_type), "a type, not the name of one"))
    if inspect.isroutine(output_type) or isinstance(output_type, partial):  # pydantic would call it
        named = getattr(output_type, "__name__", name)
        return Failure(InvalidConfig("output_type", named, "a type, not a function"))
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(bridge_classes(output_type, {}))
        schema = adapter.json_schema()
    except Exception as error:  # noqa: BLE001 - a type may run any code for its schema
        reason = str(error).partition("\n")[0]
        return Failure(InvalidConfig("output_type", name, f"a type with a JSON form ({reason})"))
    return Success(Shape(name, schema, _reader(adapter, name)))


def _reader(adapter: TypeAdapter[Any], name: str) -> Callable[[Json], Result[Any, DecodeError]]:
    from pydantic import ValidationError

    def read(data: Json) -> Result[Any, DecodeError]:
        try:
            return Success(adapter.validate_json(json.dumps(data)))
        except ValidationError as error:
            return Failure(DecodeError(name, _problems(error)))
        except Exception as error:  # noqa: BLE001 - the validators of the type are the user's code
            problem = FieldProblem("$", f"{type(error).__name__}: {error}")
            return Failure(DecodeError(name, (problem,)))

    return read


def _problems(error: ValidationError) -> tuple[FieldProblem, ...]:
    return tuple(
        FieldProblem("$" + "".join(_step(place) for place in each["loc"]), each["msg"])
        for each in error.errors(include_url=False, include_context=False)
    )


def _step(place: int | str) -> str:
    return f"[{place}]" if isinstance(place, int) else f".{place}"
