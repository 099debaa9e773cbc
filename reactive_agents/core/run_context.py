"""The context of a run, for a program's own functions: its tools and instructions.

``EngineServices.run_context`` makes it when such a function is called, and only if the function takes it. Its
content never enters an event, a record, a memory or JSON, since dependencies are live objects of the program.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any, Generic, TypeAlias

from attrs import field, frozen
from typing_extensions import TypeVar

from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import Value

ProgressReport: TypeAlias = Callable[[float | None, str], Awaitable[None]]
"""Take the progress of a call, from any thread, at once; awaited, wait for slow readers."""


class _NoReport:
    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


NO_REPORT: Awaitable[None] = _NoReport()
"""Of progress that goes nowhere."""

_NO_RUN, _NO_TASK = RunId(""), TaskId("")

Deps = TypeVar("Deps", covariant=True, default=Any)
"""The type of the dependencies of a run."""


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
        idempotency_key: a key that is the same whenever this call is run, even after a crash, and unique to
            the call; empty outside of calls.
        metadata: the metadata of the run, as given by ``run(task, metadata=…)``.
        tags: the tags of the run, as given by ``run(task, tags=…)``.
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
    idempotency_key: str = ""
    metadata: Mapping[str, Json] = field(factory=dict)
    tags: tuple[str, ...] = ()
    _report: ProgressReport | None = field(default=None, repr=False)

    def progress(self, progress: float | None = None, message: str = "") -> Awaitable[None]:
        """Report the progress of the call, as the event ``ToolProgressed``.

        A plain function calls it from its thread. An ``async`` function may await the returned value, to wait
        for slow readers of the events. Outside of calls, and after their end, it does nothing.

        Args:
            progress: the part that is done, 0 to 1; ``None`` if it is unknown.
            message: the current activity, such as "page 12".
        """
        return NO_REPORT if self._report is None else self._report(progress, message)


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
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    needed = [each for each in parameters if each.default is each.empty and each.kind not in _VARIABLE]
    if len(needed) > 1 or any(each.kind is each.KEYWORD_ONLY for each in needed):
        return None
    return ContextFunction(function, bool(needed))


def can_take(function: Callable[..., Any], count: int, *, follow_wrapped: bool = False) -> bool:
    """Whether a function can take so many arguments, as far as is known.

    Args:
        follow_wrapped: whether those of the function count that it wraps, which may differ.
    """
    try:
        signature = inspect.signature(function, follow_wrapped=follow_wrapped)
    except (TypeError, ValueError):  # of a built-in one
        return True
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


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
    got = "nothing" if given is None else f"a {type(given).__name__}"
    if declared in (None, types.NoneType):
        return InvalidConfig("deps", got, "none: the agent was created without deps")
    return InvalidConfig("deps", got, f"a {type_name(declared)}, with which the agent was created")


def wrong_deps_type(declared: Any) -> InvalidConfig | None:
    """Return the problem of dependencies declared by an object, or ``None``."""
    kind = _plain(declared)
    is_type = isinstance(kind, type) or typing.get_origin(kind) or type(kind).__module__.startswith("typing")
    expected = "a type: each run is given an object of it"
    return None if is_type else InvalidConfig("deps", f"a {type(declared).__name__}", expected)


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
