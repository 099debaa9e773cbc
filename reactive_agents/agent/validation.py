"""Options of the builders: their types, and their validation.

Data is validated by the codec, objects by their attributes. The types have the fields of the configuration
classes, so that a type checker finds a misspelt option; a test holds them together.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar, cast

from attrs import evolve, fields
from returns.result import Failure, Result, Success
from typing_extensions import TypedDict

from reactive_agents.core import config
from reactive_agents.core.codec import abbreviated, decode, decode_fields, encode
from reactive_agents.core.config import CompactionMethod, PlanMode, is_postgres
from reactive_agents.core.errors import DecodeError, FieldProblem, InvalidConfig
from reactive_agents.core.json import JSON_DATA, JsonObject, json_object_of
from reactive_agents.core.run_context import MOST_EXPECTED, MOST_STATE, can_take, state_size


class CompactionOptions(TypedDict, total=False):
    """Fields of ``CompactionConfig``."""

    method: CompactionMethod
    model: str | None
    provider: str | None
    function: str | None
    temperature: float


class ReactiveOptions(TypedDict, total=False):
    """Fields of ``ReactiveConfig``."""

    max_iterations: int
    temperature: float | None
    compaction: config.CompactionConfig | CompactionOptions | None


class PlanExecuteOptions(TypedDict, total=False):
    """Fields of ``PlanExecuteConfig``."""

    max_refinements: int
    reflection_depth: config.Depth
    step_retries: int
    step_kernel_max_iterations: int
    plan_mode: PlanMode
    patch_strategy: config.PatchStrategy
    compaction: config.CompactionConfig | CompactionOptions | None


class TreeOfThoughtOptions(TypedDict, total=False):
    """Fields of ``TreeOfThoughtConfig``."""

    breadth: int
    depth: int
    pruning_threshold: float
    evaluation: config.Evaluation
    kernel_max_iterations: int
    compaction: config.CompactionConfig | CompactionOptions | None


class ReflexionOptions(TypedDict, total=False):
    """Fields of ``ReflexionConfig``."""

    max_retries: int
    self_critique_depth: config.Depth
    kernel_max_iterations: int
    compaction: config.CompactionConfig | CompactionOptions | None


class StrategiesOptions(TypedDict, total=False):
    """Fields of ``StrategiesConfig``."""

    reactive: config.ReactiveConfig | ReactiveOptions
    plan_execute: config.PlanExecuteConfig | PlanExecuteOptions
    tree_of_thought: config.TreeOfThoughtConfig | TreeOfThoughtOptions
    reflexion: config.ReflexionConfig | ReflexionOptions


class AdaptiveOptions(TypedDict, total=False):
    """Fields of ``AdaptiveConfig``."""

    enabled: bool
    learning: bool
    selection: config.SelectionMode
    measured: bool


class ReasoningOptions(TypedDict, total=False):
    """Fields of ``ReasoningConfig`` besides the strategy."""

    adaptive: config.AdaptiveConfig | AdaptiveOptions
    strategies: config.StrategiesConfig | StrategiesOptions
    kernel: str
    parallel_tool_calls: bool
    tool_classifier: config.ToolClassifier
    compaction: config.CompactionConfig | CompactionOptions
    answer_checks: Sequence[config.AnswerCheck]


class ContextProfileOptions(TypedDict, total=False):
    """Fields of ``ContextProfileOverrides`` besides the tier."""

    tool_result_chars: int | None
    list_items: int | None
    search_hits: int | None
    schema_detail: config.SchemaDetail | None
    window_tokens: int | None
    max_answer_tokens: int | None


class CompressionOptions(TypedDict, total=False):
    """Fields of ``ResultCompressionConfig``."""

    budget: int | None
    head_share: float
    transform: Mapping[str, str]


class ContentOptions(TypedDict, total=False):
    """Fields of ``ContentConfig``."""

    max_bytes: int
    max_total_bytes: int
    max_parts: int
    media_types: Sequence[str]
    fetch_s: float
    allow_hosts: Sequence[str]
    unheld_bytes: int


_Options = TypeVar("_Options")


def read_options(kind: type[_Options], given: Mapping[str, object]) -> Result[_Options, DecodeError]:
    """Return options of a class from its fields; fails with every wrong field."""
    return _encoded(kind, given).bind(partial(decode, kind=kind))


_NO_DATA = (TypeError, ValueError, AttributeError, NameError, RecursionError)
"""Raised for a value that is no data; ``NameError`` for a class with annotations that only checkers see."""


def _encoded(kind: type, given: Mapping[str, object]) -> Result[dict[str, Any], DecodeError]:
    document: dict[str, Any] = {}
    for name, value in given.items():
        try:
            document[name] = encode(value)
        except _NO_DATA as error:
            problem = f"got {abbreviated(value)}, expected data with a JSON form ({error})"
            return Failure(DecodeError(kind.__name__, (FieldProblem(f"$.{name}", problem),)))
    return Success(document)


def changed_options(options: _Options, given: Mapping[str, object]) -> Result[_Options, DecodeError]:
    """Return the options with the given fields, of which only these are decoded.

    Earlier names of fields are read as well. Fails as :func:`read_options` does.
    """
    if not given:
        return Success(options)
    own = [each.name for each in fields(cast(Any, type(options)))]
    if given.keys() - set(own):  # earlier names, or unknown ones: they are read together with all others
        return read_options(type(options), {**{name: getattr(options, name) for name in own}, **given})
    document = _encoded(type(options), given)
    read = document.bind(partial(decode_fields, kind=type(options)))
    return read.map(lambda decoded: evolve(cast(Any, options), **decoded))


def checked_options(options: _Options) -> Result[_Options, DecodeError]:
    """Return the options with every field decoded and checked."""
    kind = type(options)
    return read_options(kind, {each.name: getattr(options, each.name) for each in fields(cast(Any, kind))})


def is_above_zero(number: float) -> bool:
    """Return whether a number is above 0."""
    return number > 0


def is_count(number: int) -> bool:
    """Return whether a number is 1 or more."""
    return number >= 1


def wrong_value(
    option: str, value: object, kind: Any, expected: str, fits: Callable[[Any], bool] = lambda _: True
) -> InvalidConfig | None:
    """Return a problem unless a value is of a type and fits.

    Args:
        kind: the type, by the rules of the codec.
        fits: the further condition for a value that is not ``None``.
    """
    try:
        if kind in (str, int) and type(value) is kind:  # which needs no codec
            fitting = True
        else:
            is_kind = kind is not str or isinstance(value, str)  # bytes and paths are encoded as texts
            fitting = is_kind and not isinstance(decode(encode(value), kind), Failure)
        fitting = fitting and (value is None or fits(value))
    except _NO_DATA:
        fitting = False
    return None if fitting else InvalidConfig(option, abbreviated(value), expected)


def json_data(option: str, given: object) -> Result[JsonObject, InvalidConfig]:
    """Return a copy of JSON data by keys, or the problem of the first wrong one."""
    expected = "an object of JSON data with texts as keys"
    copy = json_object_of(given)
    if copy is not None:
        return Success(copy)
    if not isinstance(given, Mapping):
        return Failure(InvalidConfig(option, abbreviated(given), expected))
    for key, value in given.items():
        if not isinstance(key, str):
            return Failure(InvalidConfig(option, f"the key {abbreviated(key)}", expected))
        if json_object_of({key: value}) is None:
            return Failure(InvalidConfig(f"{option}[{abbreviated(key)}]", abbreviated(value), JSON_DATA))
    return Failure(InvalidConfig(option, "data that changes or is too large or deep", expected))


def state_data(option: str, given: object) -> Result[JsonObject, InvalidConfig]:
    """Return a copy of the state of a session, or its problem."""
    copy = json_data(option, given)
    values = copy.value_or({})
    size = state_size(values) if values else 0
    if size > MOST_STATE:
        return Failure(InvalidConfig(option, f"{size:,} characters of JSON", MOST_EXPECTED))
    return copy


def wrong_text(option: str, value: object, expected: str) -> InvalidConfig | None:
    """Return a problem unless a value is a text that is not blank."""
    return wrong_value(option, value, str, expected, str.strip)  # type: ignore[arg-type]


def wrong_seconds(option: str, value: object) -> InvalidConfig | None:
    """Return a problem unless a value is a limit in seconds, or ``None``."""
    return wrong_value(option, value, float | None, "above 0 seconds", is_above_zero)


def wrong_counts(option: str, value: object) -> InvalidConfig | None:
    """Return a problem unless a value maps tool names to counts, or is ``None``."""
    expected = "names of tools, each with a whole number, 1 or more"
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return InvalidConfig(option, abbreviated(value), expected)
    for name, count in value.items():
        if wrong_text(option, name, "") or wrong_value(option, count, int, "", is_count):
            return InvalidConfig(option, f"{abbreviated(name)}: {abbreviated(count)}", expected)
    return None


def wrong_address(option: str, address: str | None) -> InvalidConfig | None:
    """Return a problem unless an address of a server is one of HTTP, or ``None``."""
    if address is None or address.lower().startswith(("http://", "https://")):
        return None
    begins = re.split("[:/@?]", address)[0]  # not the whole: it may hold a password
    expected = "an address that begins with http:// or https://"
    return InvalidConfig(option, f"{begins}…" if address else "''", expected)


def wrong_place(option: str, value: object) -> InvalidConfig | None:
    """Return a problem unless a value is a path or a usable address of Postgres."""
    if is_postgres(value):
        if find_spec("psycopg"):
            return None
        expected = "a path, or psycopg: pip install 'reactive-agents[durable]'"
        return InvalidConfig(option, "the address of a database", expected)
    scheme, mark, _ = value.partition("://") if isinstance(value, str) else ("", "", "")
    if mark and "/" not in scheme:  # a file of that name would be made, and nobody would notice
        return InvalidConfig(option, f"{scheme}://…", "a path, or an address that begins with postgresql://")
    return wrong_path(option, value)


def wrong_path(option: str, value: object) -> InvalidConfig | None:
    """Return a problem unless a value is a path that a file system can have."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if isinstance(path, str) and path.startswith(("postgres:/", "postgresql:/")):
        given = (
            "the address of a database" if is_postgres(value) else "an address as a Path, which changes it"
        )
        return InvalidConfig(option, given, "a path" if is_postgres(value) else "an address as a str")
    if isinstance(path, str) and path.strip() and "\0" not in path:
        if path.startswith("~") and os.path.expanduser(path) == path:
            return InvalidConfig(option, abbreviated(value), "a path in the home of a known user")
        return None
    return InvalidConfig(option, abbreviated(value), "a path")


def wrong_object(option: str, value: object, expected: str, *names: str) -> InvalidConfig | None:
    """Return a problem unless a value is an object with attributes of those names."""
    if not isinstance(value, type) and all(hasattr(value, name) for name in names):
        return None
    return InvalidConfig(option, repr(value), expected)


def wrong_embedder(option: str, value: object) -> InvalidConfig | None:
    """Return a problem unless a value is an embedder, or ``None``."""
    expected = "an object with embed and model (embedding_model takes the name of a model)"
    return None if value is None else wrong_object(option, value, expected, "embed", "model")


def wrong_functions(option: str, *values: object) -> InvalidConfig | None:
    """Return a problem for the first value that is not a function."""
    wrong = [value for value in values if not callable(value)]
    return InvalidConfig(option, abbreviated(wrong[0]), "a function") if wrong else None


def wrong_workflow(value: object) -> InvalidConfig | None:
    """Return a problem for a value that is no function of a workflow."""
    is_own = inspect.isroutine(value) or isinstance(value, partial)  # or a callable object
    called: Any = value if is_own else getattr(value, "__call__", None)  # noqa: B004
    if inspect.iscoroutinefunction(called) and can_take(called, 2, follow_wrapped=True):
        return None
    given = getattr(value, "__name__", None) or abbreviated(value)
    return InvalidConfig("workflow", given, "an async function of a WorkflowRun and the task")


def wrong_handler(option: str, value: object, request: str) -> InvalidConfig | None:
    """Return a problem for a value that is no function of a request; ``None`` is none."""
    if value is None or (callable(value) and can_take(value, 1, follow_wrapped=True)):
        return None
    return InvalidConfig(option, abbreviated(value), f"a function of {request}")
