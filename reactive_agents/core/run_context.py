"""The context of a run, for a program's own functions: its tools and instructions.

``EngineServices.run_context`` makes it when such a function is called, and only if the function takes it. Its
content never enters an event, a record, a memory or JSON, since dependencies are live objects of the program.
"""

from __future__ import annotations

import inspect
import json
import sys
import types
import typing
from collections.abc import (
    Awaitable,
    Callable,
    Generator,
    ItemsView,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
    ValuesView,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncContextDecorator,
    ContextDecorator,
)
from contextvars import ContextVar
from threading import RLock
from typing import Any, Generic, Protocol, TypeAlias

from attrs import field, frozen
from typing_extensions import TypeVar

from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.json import (
    JSON_DATA,
    Json,
    JsonObject,
    abbreviated,
    changed_keys,
    changes_of,
    copied_json,
    json_object_of,
    with_changes,
)
from reactive_agents.core.json import read_only as read_only_copy
from reactive_agents.core.texts import with_article
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import Value


class ProgressReport(Protocol):
    """Takes what a call reports, from any thread, at once.

    What it returns may be awaited, to wait for slow readers.
    """

    def __call__(self, progress: float | None, message: str, /) -> Awaitable[None]:
        """Take the progress of the call."""
        ...

    def emit(self, name: str, data: Json) -> Awaitable[None]:
        """Take data for the readers of the events."""
        ...


AskPerson: TypeAlias = Callable[[str, str, tuple[str, ...]], Awaitable[str]]
"""Return the answer to a question of a call: given the key of the call, the question and its options."""


class _NoReport:
    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


NO_REPORT: Awaitable[None] = _NoReport()
"""Of progress that goes nowhere."""

_NO_RUN, _NO_TASK = RunId(""), TaskId("")

Deps = TypeVar("Deps", covariant=True, default=Any)
"""The type of the dependencies of a run."""


MOST_STATE = 100_000
"""Characters of JSON that the state of a session may have."""
MOST_EXPECTED = f"a state of at most {MOST_STATE:,} characters"


def state_size(values: Mapping[str, Any]) -> int:
    """Return the characters of JSON of a state."""
    return len(json.dumps(values, ensure_ascii=False))


class SessionState(MutableMapping[str, Any]):
    """The state of a session: JSON data by keys, which tools read and change.

    They may use it side by side, from any thread. Its lists and objects cannot be changed in place: assign a
    new one.

    Args:
        values: JSON data by keys.
        read_only: whether it cannot be changed, as outside of the calls of tools.
    """

    def __init__(self, values: Mapping[str, Any] | None = None, *, read_only: bool = False) -> None:
        self._values = {key: read_only_copy(value) for key, value in (values or {}).items()}
        self._read_only = read_only
        self._lock = RLock()
        self._changed: dict[str, None] = {}
        self._unrecorded: dict[str, None] = {}

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def items(self) -> ItemsView[str, Any]:
        """Return the present keys and values, which later changes leave alone."""
        return self._values.items()

    def values(self) -> ValuesView[Any]:
        """Return the present values, which later changes leave alone."""
        return self._values.values()

    def __setitem__(self, key: str, value: Any) -> None:
        copy = json_object_of({key: value}) if isinstance(key, str) else None
        if copy is None:
            raise TypeError(f"state[{abbreviated(key)}]: got {abbreviated(value)}, expected {JSON_DATA}")
        with self._lock:
            self._put({**self._values, key: read_only_copy(copy[key])}, key)

    def __delitem__(self, key: str) -> None:
        with self._lock:
            left = dict(self._values)
            del left[key]
            self._put(left, key)

    def change(self, key: str, function: Callable[[Any], Any], default: Any = None) -> Any:
        """Assign what a function makes of the present value, and return it.

        Without a value the function gets the default. No other tool changes the state meanwhile.
        """
        with self._lock:
            self[key] = function(self.get(key, default))
            return self[key]

    def snapshot(self) -> JsonObject:
        """Return the present data as a plain copy."""
        with self._lock:
            return copied_json(dict(self._values)) if self._values else {}

    @property
    def changed(self) -> tuple[str, ...]:
        """The keys that the run has changed."""
        return tuple(self._changed)

    def take_changes(self) -> JsonObject:
        """Return the changes since the last time."""
        if not self._unrecorded:
            return {}
        with self._lock:
            keys, self._unrecorded = self._unrecorded, {}
            return copied_json(changes_of(self._values, keys))

    def begin(self, values: Mapping[str, Any]) -> None:
        """Set the data with which a run begins."""
        with self._lock:
            self._values, self._changed = {key: read_only_copy(value) for key, value in values.items()}, {}

    def take_in(self, changes: JsonObject) -> None:
        """Make recorded changes of the run again."""
        with self._lock:
            changed = with_changes(self._values, changes)
            self._values = {key: read_only_copy(value) for key, value in changed.items()}
            self._changed |= dict.fromkeys(changes)

    def become(self, values: JsonObject) -> None:
        """Take in the changes that lead to these data."""
        self.take_in(changes_of(values, changed_keys(self._values, values)))

    def _put(self, values: dict[str, Any], key: str) -> None:
        if self._read_only:
            raise TypeError(f"state[{abbreviated(key)}]: only tools change it, while they are called")
        size = state_size(values)
        if size > MOST_STATE and size >= state_size(self._values):  # of two runs it may be larger
            raise ValueError(
                f"state[{abbreviated(key)}]: got {size:,} characters of JSON in all, expected {MOST_EXPECTED}"
            )
        self._values, self._changed[key], self._unrecorded[key] = values, None, None


def _as_state(given: Mapping[str, Any]) -> SessionState:
    return given if isinstance(given, SessionState) else SessionState(given)


@frozen(eq=False)
class RunContext(Generic[Deps]):
    """The run that a function is called for; hidden from the model.

    A test of such a function makes its own: ``RunContext(Shop(), user="ada")``.

    Attributes:
        deps: the dependencies that the run was given with ``run(task, deps=…)``; ``None`` without.
        user: the program's name of the user whose task it is; ``None`` for no user.
        session: the conversation that the run continues; ``None`` for none.
        usage: tokens and cost of the run until now, with those of the runs that its tools began.
        retry: how often in a row this tool has just failed in the run.
        model: the model that answered last, or the model that is asked before the first answer.
        tool_call_id: the id of the call that the function is run for, as in the events; ``None`` outside of
            calls.
        tool_name: the name of the tool as the model calls it; empty outside of calls. The rule of an MCP
            server (``approve``) gets the server's own name.
        idempotency_key: a key that is the same whenever this call is run, even after a crash, and unique to
            the call; empty outside of calls.
        metadata: the metadata of the run, as given by ``run(task, metadata=…)``.
        tags: the tags of the run, as given by ``run(task, tags=…)``.
        state: the state of the session, or of the run if it has none; only tools change it.
    """

    deps: Deps = field(repr=False)
    run_id: RunId = _NO_RUN
    task_id: TaskId = _NO_TASK
    user: str | None = None
    session: str | None = None
    usage: RunUsage = RunUsage()
    retry: int = 0
    model: str = ""
    tool_call_id: str | None = None
    tool_name: str = field(default="", kw_only=True)
    idempotency_key: str = ""
    metadata: Mapping[str, Json] = field(factory=dict)
    tags: tuple[str, ...] = ()
    state: SessionState = field(factory=SessionState, converter=_as_state, repr=False)
    _report: ProgressReport | None = field(default=None, repr=False)
    _ask_person: AskPerson | None = field(default=None, repr=False, alias="ask_person")

    def progress(self, progress: float | None = None, message: str = "") -> Awaitable[None]:
        """Report the progress of the call, as the event ``ToolProgressed``.

        A plain function calls it from its thread. An ``async`` function may await the returned value, to wait
        for slow readers of the events. Outside of calls, and after their end, it does nothing.

        Args:
            progress: the part that is done, 0 to 1; ``None`` if it is unknown.
            message: the current activity, such as "page 12".
        """
        return NO_REPORT if self._report is None else self._report(progress, message)

    def emit(self, name: str, data: Json) -> Awaitable[None]:
        """Publish data for the readers of the events, as the event ``CustomEvent``.

        The model is not shown it. A plain function calls it from its thread. An ``async`` function may await
        the returned value, to wait for slow readers. Outside of calls, and after their end, it does nothing.

        Args:
            name: says which data it is.
            data: JSON data, of at most 100,000 characters.

        Raises:
            TypeError: the name is no text, or the data is not JSON.
            ValueError: it is too long.
        """
        copy = json_object_of({"data": data}) if isinstance(name, str) else None
        if copy is None:
            got = f"{abbreviated(name)} and {abbreviated(data)}"
            raise TypeError(f"emit: got {got}, expected a name and {JSON_DATA}")
        if (size := state_size(copy)) > MOST_STATE:
            raise ValueError(f"emit: got {size:,} characters of JSON, expected at most {MOST_STATE:,}")
        return NO_REPORT if self._report is None else self._report.emit(name, copy["data"])

    async def ask_user(self, question: str, options: Sequence[str] = ()) -> str:
        """Ask a person in the middle of a call, and return the answer.

        The question waits where those of the tool ``ask-user`` do. The time limit of the tool stands still
        meanwhile. A durable run records the answer: a call that is run again after a crash gets it at once,
        if it asks the same question. A plain function calls it by ``anyio.from_thread.run``.

        Args:
            question: a text that is not blank.
            options: answers to choose from; any other is an answer too.

        Raises:
            ModelRetry: nobody answered. If the tool lets it pass, its call fails, and the model reads why.
            RuntimeError: there is no call of a tool, or it has ended.
            TypeError: the question or an option is no text.
            ValueError: the question is blank.
        """
        if not isinstance(question, str):
            raise TypeError(f"ask_user: question: got {abbreviated(question)}, expected a text")
        if not question.strip():
            raise ValueError(f"ask_user: question: got {abbreviated(question)}, expected a text")
        if not isinstance(options, list | tuple) or not all(isinstance(each, str) for each in options):
            raise TypeError(f"ask_user: options: got {abbreviated(options)}, expected a list of texts")
        if self._ask_person is None or not self.idempotency_key:
            raise RuntimeError("ask_user: only a call of a tool, or its wrapper, can wait for a person")
        return await self._ask_person(self.idempotency_key, question, tuple(options))


CHECKED_RUN: ContextVar[Callable[[], RunContext[Any]] | None] = ContextVar("CHECKED_RUN", default=None)
"""Returns the context of the run whose text a guardrail checks."""


# --- functions that may take the context -------------------------------------------------------------------


@frozen(eq=False, repr=False)
class ContextFunction(Value):
    """A program's function, plain or ``async``, that may take the run's context."""

    function: Callable[..., Any]
    takes_context: bool

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        named = getattr(self.function, "__qualname__", None) or type(self.function).__qualname__
        return str(named).rpartition("<locals>.")[2]

    async def call(self, context: RunContext[Any]) -> Any:
        """Call the function and return its value; a plain one runs in a worker thread."""
        from reactive_agents.effects import call_function  # most imports of this module call no function

        return await call_function(self.function, *((context,) if self.takes_context else ()))


def context_function(function: Callable[..., Any]) -> ContextFunction | None:
    """Return the function as it is called; ``None`` if it needs other arguments."""
    try:
        parameters = signature_of(function).parameters.values()
    except (TypeError, ValueError):
        return None
    needed = [each for each in parameters if each.default is each.empty and each.kind not in _VARIABLE]
    if len(needed) > 1 or any(each.kind is each.KEYWORD_ONLY for each in needed):
        return None
    return ContextFunction(function, bool(needed))


def signature_of(function: Callable[..., Any], *, follow_wrapped: bool = True) -> inspect.Signature:
    """Return a function's signature; its annotations may name what is not imported.

    Raises:
        TypeError, ValueError: it has none.
    """
    if sys.version_info >= (3, 14):  # where annotations are evaluated when they are read
        from annotationlib import Format

        return inspect.signature(function, follow_wrapped=follow_wrapped, annotation_format=Format.FORWARDREF)
    return inspect.signature(function, follow_wrapped=follow_wrapped)


def annotations_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return a function's annotations, which may name what is not imported."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(function, format=Format.FORWARDREF)
    return function.__annotations__


def can_take(function: Callable[..., Any], count: int, *names: str, follow_wrapped: bool = False) -> bool:
    """Whether a function can take so many arguments, as far as is known.

    Args:
        names: further arguments, given by name.
        follow_wrapped: whether those of the function count that it wraps, which may differ.
    """
    try:
        signature = signature_of(function, follow_wrapped=follow_wrapped)
    except (TypeError, ValueError):  # of a built-in one
        return True
    try:
        signature.bind(*[None] * count, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


@frozen(eq=False, repr=False)
class DepsFunction(Value):
    """The function that makes the dependencies of each run.

    Attributes:
        function: returns the dependencies, or a context manager that makes them.
        declared: the type of the dependencies.
        name: the name of the function, for messages.
    """

    function: ContextFunction
    declared: Any
    name: str

    def is_entered(self, made: object) -> bool:
        """Return whether a value is a context manager that makes the dependencies.

        Dependencies that are a context manager themselves are not entered.
        """
        is_manager = isinstance(made, AbstractContextManager | AbstractAsyncContextManager)
        is_of_function = isinstance(made, ContextDecorator | AsyncContextDecorator)
        # that of a decorated function is entered also where any type is declared
        return is_manager and (is_of_function or not is_of_type(made, self.declared))


def deps_function(given: Callable[..., Any], declared: Any) -> DepsFunction | InvalidConfig:
    """Return the function that makes dependencies, or what is wrong with it."""
    function = context_function(given)
    if function is None:
        expected = "a function that takes at most the RunContext"
        return InvalidConfig("deps", abbreviated(given), expected)
    return DepsFunction(function, declared, function.name)


def checked_deps_function(given: object, declared: Any) -> DepsFunction | InvalidConfig:
    """Return the function of ``with_deps``, or what is wrong with it."""
    if declared in (None, types.NoneType):
        return InvalidConfig("deps", "a function", _WITHOUT_DEPS)
    if not callable(given) or isinstance(given, type):
        return InvalidConfig("deps", abbreviated(given), "a function that makes the dependencies of a run")
    return deps_function(given, declared)


_WITHOUT_DEPS = "none: the agent was created without deps; create(deps=…) declares their type"
_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


# --- the type of dependencies, as far as it can be checked at run time -----------------------------------


def wrong_deps(declared: Any, given: object) -> InvalidConfig | None:
    """Return the problem of a run's dependencies, or ``None``.

    The message does not show their text.

    Args:
        declared: the type that the agent was created with; ``None`` for no dependencies.
    """
    if is_of_type(given, declared):
        return None
    got = "nothing" if given is None else with_article(type(given).__name__)
    if declared in (None, types.NoneType):
        return InvalidConfig("deps", got, _WITHOUT_DEPS)
    return InvalidConfig(
        "deps", got, f"{with_article(type_name(declared))}, with which the agent was created"
    )


def wrong_deps_type(declared: Any) -> InvalidConfig | None:
    """Return the problem of dependencies declared by an object, or ``None``."""
    kind = _plain(declared)
    is_type = isinstance(kind, type) or typing.get_origin(kind) or type(kind).__module__.startswith("typing")
    expected = "a type: each run is given an object of it"
    return None if is_type else InvalidConfig("deps", with_article(type(declared).__name__), expected)


def is_of_type(value: object, kind: Any) -> bool:
    """Return whether a value may be of a type; arguments of generic types are ignored."""
    kind = _plain(kind)
    members = _members(kind)
    if members is not None:
        return any(is_of_type(value, each) for each in members)
    if typing.get_origin(kind) is typing.Literal:
        return value in typing.get_args(kind)
    origin = typing.get_origin(kind) or kind
    if not isinstance(origin, type):
        return True
    if typing.is_typeddict(origin):
        return isinstance(value, dict)
    try:
        return isinstance(value, origin)
    except TypeError:  # a protocol that says nothing at run time
        return True


def is_subtype(offered: Any, wanted: Any) -> bool:
    """Return whether values of a type are, or may be, of another type."""
    if wanted is Any:
        return True
    offered, wanted = _plain(offered), _plain(wanted)
    several = _members(offered)
    if several is not None:
        return all(is_subtype(each, wanted) for each in several)
    several = _members(wanted)
    if several is not None:
        return any(is_subtype(offered, each) for each in several)
    kinds = [typing.get_origin(each) or each for each in (offered, wanted)]
    if Any in kinds or not all(isinstance(each, type) for each in kinds) or typing.is_typeddict(kinds[1]):
        return True
    try:
        return issubclass(*kinds)
    except TypeError:
        return True


def type_name(kind: Any) -> str:
    """Return the name of a type for messages."""
    return kind.__name__ if isinstance(kind, type) and not typing.get_args(kind) else str(kind)


def _plain(kind: Any) -> Any:
    """Return a type without annotations, and a new type as what it is made of."""
    if kind is None:
        return types.NoneType
    if type(kind).__name__ == "TypeAliasType":  # of typing, since Python 3.12, or of typing_extensions
        return _plain(kind.__value__)
    if typing.get_origin(kind) is typing.Annotated:
        return _plain(typing.get_args(kind)[0])
    return _plain(kind.__supertype__) if isinstance(kind, typing.NewType) else kind


def _members(kind: Any) -> tuple[Any, ...] | None:
    """Return the members of a union, or ``None``."""
    is_union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    return typing.get_args(kind) if is_union else None
