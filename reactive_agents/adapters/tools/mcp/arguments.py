"""Arguments that a model sent, held against the JSON Schema that a server published."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.arguments import shorten
from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments
from reactive_agents.core.json import JsonObject

if TYPE_CHECKING:
    from collections.abc import Callable

_SHOWN_PROBLEMS = 10


class ArgumentCheck:
    """Checks arguments against one schema; made once for a tool, since compiling a schema is slow.

    A schema that is not valid, or that cannot be followed without the network, is left to the server.
    """

    def __init__(self, schema: JsonObject) -> None:
        self._schema = schema
        self._find_errors: Callable[[JsonObject], Iterator[Any]] | None = None

    def __call__(self, tool_name: str, arguments: JsonObject) -> Result[None, InvalidToolArguments]:
        """``InvalidToolArguments``, which names each argument that does not fit; total for any arguments."""
        try:
            if self._find_errors is None:
                self._find_errors = _compile(self._schema)
            problems = tuple(_problems(self._find_errors(arguments)))
        except Exception:  # noqa: BLE001 - a schema is a program that a stranger wrote; the server checks as well
            return Success(None)
        if not problems:
            return Success(None)
        if len(problems) > _SHOWN_PROBLEMS:
            more = f"{len(problems) - _SHOWN_PROBLEMS} more problems"
            last = ArgumentProblem("further arguments", more, "valid values")
            problems = (*problems[:_SHOWN_PROBLEMS], last)
        return Failure(InvalidToolArguments(tool_name, problems))


def _compile(schema: JsonObject) -> Callable[[JsonObject], Iterator[Any]]:
    from jsonschema.validators import Draft202012Validator, validator_for  # type: ignore[import-untyped]
    from referencing import Registry

    kind = validator_for(schema, default=Draft202012Validator)
    kind.check_schema(schema)
    validator = kind(schema, registry=Registry())  # an empty registry: a reference is never fetched
    find: Callable[[JsonObject], Iterator[Any]] = validator.iter_errors
    return find


def _problems(errors: Iterator[Any]) -> Iterator[ArgumentProblem]:
    seen = set()
    for error in errors:
        for problem in _read(error):
            if problem not in seen:
                seen.add(problem)
                yield problem


def _read(error: Any) -> Iterator[ArgumentProblem]:
    path = error.json_path.removeprefix("$").removeprefix(".")
    match error.validator:
        case "required":
            for name in error.validator_value:
                if name not in error.instance:
                    yield ArgumentProblem(_join(path, name), "nothing", "a value, since it is required")
        case "additionalProperties" if (
            error.validator_value is False and "patternProperties" not in error.schema
        ):
            known = error.schema.get("properties", {})
            for name in error.instance:
                if name not in known:
                    expected = f"no argument of that name; known arguments: {', '.join(known) or 'none'}"
                    yield ArgumentProblem(_join(path, name), shorten(error.instance[name]), expected)
        case _:
            yield ArgumentProblem(path or "arguments", shorten(error.instance), _expected(error))


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _expected(error: Any) -> str:
    limit = error.validator_value
    match error.validator:
        case "type":
            return "a value of type " + (" or ".join(limit) if isinstance(limit, list) else str(limit))
        case "enum":
            return f"one of {shorten(limit)}"
        case "const":
            return shorten(limit)
        case "minimum":
            return f"a number of at least {limit}"
        case "maximum":
            return f"a number of at most {limit}"
        case keyword:
            return f"a value that fits {keyword} {shorten(limit)} of the schema"
