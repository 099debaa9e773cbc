"""Structured output: the types of answers, and the results with their values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_origin, overload

from attrs import evolve
from returns.result import Failure, Result, Success
from typing_extensions import TypeForm

from reactive_agents.agent.errors import value_or_raise
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.errors import DecodeError, FieldProblem, InvalidConfig
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.tasks import AgentResult, TaskResult, TypedResult
from reactive_agents.kernel.call_parsing.argument_schema import branches, properties_of, types_of
from reactive_agents.reasoning import structured_output

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

    from reactive_agents.reasoning.structured_output.schema import Shape

T = TypeVar("T")


def typed_results(shape: Shape[T]) -> Callable[[TaskResult], TypedResult[T]]:
    """Return the function that converts a plain result into a typed one."""

    def typed(result: TaskResult) -> TypedResult[T]:
        value: T | None = None
        if result.output is not None and result.status != "abstained":
            value = structured_output.read_answer(result.output, shape).value_or(None)
        converted: Any = evolve(cast(Any, result), output=value, output_text=result.output)
        return cast("TypedResult[T]", converted)

    return typed


def output_shape(output_type: Any) -> Result[Shape[Any], InvalidConfig]:
    """Return the output shape of a type; fails for a type without a JSON form."""
    from pydantic import TypeAdapter

    from reactive_agents.adapters.tools.schema import bridge_classes, schema_without_titles
    from reactive_agents.reasoning.structured_output.schema import Shape  # of runs with an output type

    plain = isinstance(output_type, type) and get_origin(output_type) is None
    name = output_type.__name__ if plain else str(output_type).replace("typing.", "")
    if isinstance(output_type, str):  # pydantic would evaluate it
        return Failure(InvalidConfig("output_type", repr(output_type), "a type, not the name of one"))
    if isinstance(output_type, list | tuple):
        return Failure(InvalidConfig("output_type", name, "a type, or a union such as City | Country"))
    if inspect.isroutine(output_type) or isinstance(output_type, partial):  # pydantic would call it
        named = getattr(output_type, "__name__", name)
        return Failure(InvalidConfig("output_type", named, "a type, not a function"))
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(bridge_classes(output_type, {}))
        schema = schema_without_titles(adapter)
    except Exception as error:  # noqa: BLE001 - a type may run any code for its schema
        reason = str(error).partition("\n")[0].partition(". Set `arbitrary")[0]
        return Failure(InvalidConfig("output_type", name, f"a type with a JSON form ({reason})"))
    written = partial(_written, adapter)
    return Success(Shape(name, schema, _reader(adapter, name, schema), write=written, kind=output_type))


def _reader(
    adapter: TypeAdapter[Any], name: str, schema: JsonObject
) -> Callable[[Json], Result[Any, DecodeError]]:
    from pydantic import ValidationError

    def read(data: Json) -> Result[Any, DecodeError]:
        booleans = tuple(_booleans_for_numbers(data, schema, schema, "$"))
        if booleans:
            return Failure(DecodeError(name, booleans))
        try:
            value = adapter.validate_json(json.dumps(data, allow_nan=False))
            problems = tuple(_infinite_in(_plain(adapter, value))) if _may_be_infinite(data) else ()
            return Failure(DecodeError(name, problems)) if problems else Success(value)
        except ValidationError as error:
            return Failure(DecodeError(name, _problems(error)))
        except Exception as error:  # noqa: BLE001 - the validators of the type are the user's code
            problem = FieldProblem("$", f"{type(error).__name__}: {error}")
            return Failure(DecodeError(name, (problem,)))

    return read


def _may_be_infinite(data: Json) -> bool:
    """Return whether data has a part that may be read as NaN or infinity."""
    if isinstance(data, dict):
        return any(map(_may_be_infinite, data.values()))
    if isinstance(data, list):
        return any(map(_may_be_infinite, data))
    if not isinstance(data, str | int):
        return False
    try:
        return not isfinite(float(data))
    except OverflowError:  # of a whole number that is too large
        return True
    except ValueError:
        return False


def _plain(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Return a value as JSON data; ``None`` where its serializers fail."""
    try:
        return adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
    except Exception:  # noqa: BLE001 - the serializers of the type are the user's code
        return None


def _infinite_in(plain: Any, path: str = "$") -> Iterator[FieldProblem]:
    """Yield a problem for each NaN and infinity: JSON has no such numbers."""
    if isinstance(plain, float) and not isfinite(plain):
        yield FieldProblem(path, f"got {plain}; a finite number is expected")
    elif isinstance(plain, dict):
        for name, part in plain.items():
            yield from _infinite_in(part, f"{path}.{name}")
    elif isinstance(plain, list):
        for index, part in enumerate(plain):
            yield from _infinite_in(part, f"{path}[{index}]")


def _booleans_for_numbers(value: Json, schema: Json, root: JsonObject, path: str) -> Iterator[FieldProblem]:
    """Yield a problem for each boolean in place of a number: pydantic takes it as one."""
    # each alternative once: classes that refer to each other would double them with every level
    alternatives = tuple({id(each): each for each in branches(schema, root)}.values())
    if isinstance(value, bool):
        kinds = [types_of(each) for each in alternatives]
        wanted = frozenset[str]().union(*kinds) if all(kinds) else frozenset[str]()
        if wanted & {"integer", "number"} and "boolean" not in wanted:
            yield FieldProblem(path, f"got {value}; a number is expected, not a boolean")
    elif isinstance(value, list):
        for place, item in enumerate(value):
            of_item: list[Json] = [_item_schema(each, place) for each in alternatives]
            yield from _booleans_for_numbers(item, {"anyOf": of_item}, root, path + _step(place))
    elif isinstance(value, dict):
        for key, inner in value.items():
            of_field: list[Json] = [
                properties_of(each).get(key, each.get("additionalProperties", {})) for each in alternatives
            ]
            yield from _booleans_for_numbers(inner, {"anyOf": of_field}, root, path + _step(key))


def _item_schema(schema: JsonObject, place: int) -> Json:
    first = schema.get("prefixItems")
    return first[place] if isinstance(first, list) and place < len(first) else schema.get("items", {})


@overload
def result_adapter() -> TypeAdapter[AgentResult]: ...


@overload
def result_adapter(output_type: TypeForm[T]) -> TypeAdapter[TypedResult[T]]: ...


def result_adapter(output_type: Any = str) -> Any:
    """Return the pydantic adapter of results, with their JSON Schema.

    ``result_adapter(City).dump_json(result)`` writes a result, and ``validate_json`` reads it.

    Args:
        output_type: the output type of the agent that gave the result; text by default.

    Raises:
        AgentError: the type has no JSON form.
    """
    from pydantic import TypeAdapter

    from reactive_agents.adapters.tools.schema import bridge_classes

    value_or_raise(output_shape(output_type))
    kind: Any = TaskResult
    return TypeAdapter(kind[bridge_classes(output_type, {})])


def _written(adapter: TypeAdapter[Any], value: Any) -> Json:
    """Return the JSON data of a value.

    Raises:
        ValueError: the value is not of the type, or has no JSON form.
    """
    data: Json = adapter.dump_python(value, mode="json", warnings="error")
    return data


def _problems(error: ValidationError) -> tuple[FieldProblem, ...]:
    return tuple(
        FieldProblem("$" + "".join(_step(place) for place in each["loc"]), _described(each))
        for each in error.errors(include_url=False, include_context=False)
    )


def _described(error: Mapping[str, Any]) -> str:
    """Return the problem of a value: the value, and what was expected."""
    said: str = error["msg"]
    if error["type"] in ("missing", "extra_forbidden"):
        return said
    if error["type"] == "value_error":  # of a class as a whole, or of a validator of the program
        own = said.removeprefix("Value error, ")
        is_of_field = isinstance(error["input"], str | int | float)
        return f"got {abbreviated(error['input'])}; {own}" if is_of_field else own
    return f"got {abbreviated(error['input'])}; {said[:1].lower()}{said[1:]}"


def _step(place: int | str) -> str:
    return f"[{place}]" if isinstance(place, int) else f".{place}"
