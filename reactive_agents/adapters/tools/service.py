"""The tool service over Python functions of this process.

A function runs in a thread or on the event loop, within its time.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from math import inf
from pathlib import Path
from traceback import format_exception
from types import NoneType
from typing import Any, TypeAlias, get_args

import anyio
import anyio.from_thread
import anyio.to_thread
import attrs
from anyio.lowlevel import RunVar
from attrs import frozen
from returns.future import FutureResult
from returns.io import IOResult
from returns.primitives.container import BaseContainer
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools import call_checks
from reactive_agents.adapters.tools.call_checks import is_its_own, within_the_tool
from reactive_agents.adapters.tools.decorator import DEFAULT_TIMEOUT_S, Tool
from reactive_agents.adapters.tools.json_value import as_text, to_json_value
from reactive_agents.core.content import CONTENT_TYPES, Content, text_and_parts
from reactive_agents.core.errors import (
    InvalidToolArguments,
    ToolErrors,
    ToolFailed,
    ToolNotApproved,
    ToolNotFound,
    ToolTimedOut,
)
from reactive_agents.core.governance import made_with
from reactive_agents.core.json import Json, JsonObject, abbreviated, copied_json, json_object_of
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.results import ModelRetry
from reactive_agents.core.run_context import RunContext, is_of_type, type_name
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import (
    ANSWER_TIMEOUT_S,
    CallOrigin,
    KnownText,
    ToolContext,
    ToolDefinition,
    ToolResult,
    ToolScope,
    ToolWrapper,
)
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import Value
from reactive_agents.effects import attempt, call_function, effect
from reactive_agents.event_loop import TIMEOUTS, Timeout, within
from reactive_agents.ports import Approver, Clock

_log = logging.getLogger("reactive_agents")
_ERRORS = get_args(ToolErrors)
_DETAIL_CHARS = 2_000
_LEAST_CHARS = 50  # of one error among many
_LOGGED_CHARS = 10_000
_DATA = frozenset({str, int, float, bool, NoneType, dict, list})
_SCALARS = frozenset({str, int, float, bool, NoneType})
_PLAIN = _SCALARS | {dict}
_PARTS = frozenset(CONTENT_TYPES)
_NOTHING = object()

Returned: TypeAlias = tuple[Json, tuple[Content, ...]]
"""The value of a function as JSON with labels of its parts, and the parts."""


async def run_function(
    tool_name: str,
    function: Callable[..., Any],
    arguments: Mapping[str, Any],
    *,
    thread: Thread | None,
    timeout_s: float,
) -> tuple[Result[Returned, ToolErrors], ToolReport]:
    """Return the function's value or failure, and its report.

    A thread that does not end in time is abandoned: it continues, and its result is dropped. A run that it
    began is cancelled.

    Args:
        thread: the thread for a sync function; ``None`` for an ``async`` one, on the event loop.
        timeout_s: seconds for the call; with 0 or less it is not run.
    """
    if timeout_s <= 0:
        return Failure(ToolTimedOut(tool_name, 0.0)), _NO_REPORT
    timeout = Timeout()
    token = TIMEOUTS.set((*TIMEOUTS.get(), timeout))
    try:
        running = function(**arguments) if thread is None else _in_thread(thread, function, arguments)
        value: Any = await within(timeout_s, running, _NOTHING, timeout=timeout)
    except BaseException as error:  # a tool function is arbitrary user code
        if not is_its_own(error):
            timeout.cut_off()
            raise
        return Failure(_raised(tool_name, error)), _NO_REPORT
    finally:
        TIMEOUTS.reset(token)
    if value is _NOTHING:
        timeout.cut_off()
        return Failure(ToolTimedOut(tool_name, timeout_s)), _NO_REPORT
    report = _NO_REPORT
    if isinstance(value, ToolReport):
        value, report = value.value, value
    if type(value) not in _DATA and isinstance(value, BaseContainer):  # slow for other types
        return await _settle(tool_name, value), report
    return _as_json(tool_name, value), report


async def _in_thread(thread: Thread, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    (value,) = await thread.run(partial(_call, function, arguments))
    return await value if inspect.isawaitable(value) else value


def _call(function: Callable[..., Any], arguments: Mapping[str, Any]) -> tuple[Any]:
    try:
        return (function(**arguments),)  # in a tuple, since trio refuses awaitables
    except StopIteration as error:  # a future does not accept it
        raise ExceptionGroup("a tool raised", [error]) from None
    except GeneratorExit as error:  # to the task that waits for the thread it would look like its own end
        raise RuntimeError("it raised GeneratorExit") from error


async def _settle(tool_name: str, value: BaseContainer) -> Result[Returned, ToolErrors]:
    """Return the value or failure in a container that a function returned."""
    if isinstance(value, IOResult):
        value = await attempt(FutureResult.from_ioresult(value))
    if isinstance(value, Success):
        value = value.unwrap()
    elif isinstance(value, Failure):
        error = value.failure()
        if isinstance(error, _ERRORS):
            return Failure(error)
        if isinstance(error, Exception):
            return Failure(_raised(tool_name, error))
        message = getattr(error, "message", None)
        kind = "" if isinstance(error, str) else type(error).__name__
        return Failure(ToolFailed(tool_name, _detail(error if message is None else message), kind))
    return _as_json(tool_name, value)


def _as_json(tool_name: str, value: Any) -> Result[Returned, ToolFailed]:
    if type(value) not in _PLAIN and (content := _content_of(value)) is not None:
        return Success(content)
    if type(value) not in _DATA and isinstance(value, Iterator | AsyncIterator) and not _is_record(value):
        kind = type(value).__name__
        detail = f"it returned an iterator ({kind}), which was not read: let it return a list instead."
        return Failure(ToolFailed(tool_name, detail))
    return Success((to_json_value(value), ()))


def _content_of(value: Any) -> Returned | None:
    """Return the labels and parts of a part, or of a list with a part."""
    if type(value) in _PARTS:
        return text_and_parts(value)
    if not isinstance(value, list | tuple) or _PARTS.isdisjoint(map(type, value)):
        return None
    return text_and_parts([each if type(each) in _PARTS else _as_line(to_json_value(each)) for each in value])


def _as_line(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_record(value: Any) -> bool:
    return attrs.has(type(value)) or dataclasses.is_dataclass(value)


def _raised(tool_name: str, error: BaseException, where: str = "") -> ToolFailed:
    """Return the failure; ``where``: words before the text, such as what raised."""
    raised = error
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group's message is only "1 sub-exception"
    if isinstance(error, ModelRetry) and (words := _detail(error)):  # the tool's own words, not a fault
        return ToolFailed(tool_name, words)
    # the model sees one sentence; the traceback is for the author of the tool
    told = type(raised), raised, within_the_tool(raised.__traceback__)
    lines = format_exception(*told)
    if sum(map(len, lines)) <= _LOGGED_CHARS:
        _log.warning("The tool %r raised.", tool_name, exc_info=told)
    else:  # a page, or who wrote it, may have chosen the text
        text = "\n".join(shortened(each.rstrip("\n"), _DETAIL_CHARS) for each in lines)
        _log.warning("The tool %r raised.\n%s", tool_name, shortened(text, _LOGGED_CHARS))
    kind = type(error).__name__
    if isinstance(error, BaseExceptionGroup):
        several = list(_single(error))
        share = max(_DETAIL_CHARS // len(several), _LEAST_CHARS)
        what = "; ".join(_detail(f"{type(each).__name__}: {as_text(each)}", share) for each in several)
        return ToolFailed(tool_name, where + _detail(f"{as_text(error)}: {what}"), kind)
    return ToolFailed(tool_name, where + (_detail(error) or kind), kind)


def _single(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the exceptions of a group, and of the groups in it."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _single(error)
        else:
            yield error


def _detail(error: object, limit: int = _DETAIL_CHARS) -> str:
    return shortened(as_text(error), limit)


_Limiters = tuple[anyio.CapacityLimiter, anyio.CapacityLimiter]
_LIMITERS: RunVar[_Limiters] = RunVar("reactive_agents_tool_threads")


class Thread:
    """A place among the concurrent threads, from :func:`take_thread` to its end."""

    def __init__(self, places: anyio.CapacityLimiter, uncounted: anyio.CapacityLimiter) -> None:
        self._places: anyio.CapacityLimiter | None = places
        self._uncounted = uncounted  # the thread is counted already, by its place

    async def run(self, function: Callable[[], Any]) -> Any:
        """Return its value; if cancelled, it goes on in its thread, and frees its place."""
        try:
            return await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=self._uncounted)
        finally:
            self.leave()

    def leave(self) -> None:
        """Free the place, if that was not done."""
        places, self._places = self._places, None
        if places is not None:
            places.release_on_behalf_of(self)


async def take_thread(patience_s: float | None) -> Thread | None:
    """Wait for a free thread, at most ``patience_s`` seconds; ``None`` without one."""
    limiters = _LIMITERS.get(None)
    if limiters is None:
        limiters = anyio.to_thread.current_default_thread_limiter(), anyio.CapacityLimiter(inf)
        _LIMITERS.set(limiters)
    places, _ = limiters
    thread = Thread(*limiters)
    try:
        places.acquire_on_behalf_of_nowait(thread)
    except anyio.WouldBlock:
        with anyio.move_on_after(patience_s):
            await places.acquire_on_behalf_of(thread)
            return thread
        return None
    return thread


@frozen(eq=False, repr=False)
class ToolReport(Value):
    """A value of a tool function with its model usage.

    Attributes:
        value: anything that a tool may return, including a failure.
        usage: the usage of runs that the function began, already counted for the run.
        is_in_doubt: whether a call of these runs is in doubt; the value is a failure then.
    """

    value: Any
    usage: tuple[RunUsage, ...]
    is_in_doubt: bool = False


_NO_REPORT = ToolReport(None, ())


class WrappedCall:
    """A checked and approved call, with the wrappers around the tool.

    Args:
        wrappers: the outermost first.
        check: checks changed arguments.
        run: runs the tool for a call with checked arguments.
        approved: whether a person approved the call, whose arguments then must not be changed.
    """

    def __init__(
        self,
        wrappers: Sequence[ToolWrapper],
        call: ToolCall,
        scope: ToolScope,
        check: Callable[[ToolCall], Awaitable[Result[Any, InvalidToolArguments]]],
        run: Callable[[ToolCall], Awaitable[Result[ToolResult, ToolErrors]]],
        clock: Clock,
        *,
        approved: bool,
    ) -> None:
        self._wrappers = wrappers
        self._call = call
        self._scope = scope
        self._check = check
        self._run = run
        self._clock = clock
        self._approved = approved
        self._ran: list[ToolCall] = []
        self._usage: tuple[RunUsage, ...] = ()
        self._origin: CallOrigin = "executed"

    async def outcome(self) -> Result[ToolResult, ToolErrors]:
        """Run the wrappers; the result has the arguments and the usage of what ran."""
        call, begun, asked = self._call, self._clock.monotonic(), self._call.fingerprint
        outcome = await self._within(0, call)
        is_plain = [each.fingerprint for each in self._ran] == [asked]
        ran = None if is_plain else tuple(each.arguments for each in self._ran)
        if isinstance(outcome, Success):
            result = attrs.evolve(outcome.unwrap(), call_id=call.id, tool_name=call.name, arguments=None)
            made = {"ran": ran, "usage": self._usage, "counted": bool(self._usage), "origin": self._origin}
            return Success(attrs.evolve(result, **made))
        error = outcome.failure()
        is_refused = isinstance(error, ToolNotApproved)
        is_bare = not self._usage and self._origin == "executed"
        if not self._ran or (is_plain and is_bare and not is_refused):
            return outcome
        told = f"{error.message} It was run before, as it was approved." if is_refused else error.message
        took_ms = (self._clock.monotonic() - begun) * 1000  # a failure value cannot say what ran
        failed = ToolResult(call.id, call.name, None, told, took_ms, self._origin, ran=ran)
        return Success(attrs.evolve(failed, usage=self._usage, counted=bool(self._usage)))

    async def _within(self, index: int, call: ToolCall) -> Result[ToolResult, ToolErrors]:
        """Return the outcome of a call within the wrappers from an index on."""
        if index == len(self._wrappers):
            self._ran.append(attrs.evolve(call, arguments=copied_json(call.arguments)))
            outcome = await self._run(attrs.evolve(call, arguments=copied_json(call.arguments)))
            if isinstance(outcome, Success):
                self._usage += outcome.unwrap().usage
            self._origin = outcome.unwrap().origin if isinstance(outcome, Success) else "executed"
            return outcome
        wrapper, making, has_ended = self._wrappers[index], self._scope.run_context, False
        name = getattr(wrapper, "__qualname__", type(wrapper).__qualname__).rpartition("<locals>.")[2]
        if making is None:
            detail = f"its wrapper {name!r} takes a RunContext, which only an agent's runs have."
            return Failure(ToolFailed(call.name, detail))
        context = attrs.evolve(making(), idempotency_key=self._scope.call_key, report=self._scope.report)
        seen: list[tuple[ToolResult, Result[ToolResult, ToolErrors]]] = []

        async def run(arguments: Mapping[str, Json]) -> ToolResult:
            if has_ended:
                raise RuntimeError(f"the call of {call.name!r} has ended, and its tool is not run any more")
            outcome = await self._with_arguments(index, name, call, arguments)
            result: ToolResult = outcome.lash(
                lambda error: Success(ToolResult(call.id, call.name, error=error.message))
            ).unwrap()
            seen.append((result, outcome))
            return result

        begun = self._clock.monotonic()
        given = attrs.evolve(call, arguments=copied_json(call.arguments))  # it may change its own copy
        try:
            if any(map(inspect.iscoroutinefunction, (wrapper, type(wrapper).__call__))):
                returned = await wrapper(context, given, run)
            else:  # a thread of another kind, since it waits for that of the tool
                limiter = anyio.CapacityLimiter(1)
                returned = await call_function(
                    wrapper, context, given, lambda each: anyio.from_thread.run(run, each), limiter=limiter
                )
        except BaseException as error:  # a wrapper is arbitrary user code
            if not is_its_own(error):
                raise
            return Failure(_raised(call.name, error, f"its wrapper {name!r} raised: "))
        finally:
            has_ended = True
        if not isinstance(returned, ToolResult):
            detail = f"its wrapper {name!r} returned {abbreviated(returned)}, expected a ToolResult"
            return Failure(ToolFailed(call.name, detail))
        known = next((outcome for result, outcome in seen if result is returned), None)
        if isinstance(known, Failure):
            return known
        if known is None:
            took_ms = (self._clock.monotonic() - begun) * 1000
            is_shown = any(result.result is returned.result for result, _ in seen)
            texts = returned.known_texts if is_shown else ()  # else the model sees another text
            returned = attrs.evolve(returned, duration_ms=took_ms, known_texts=texts)
        if returned.error:
            return Success(returned)
        return _as_json(call.name, returned.result).map(
            lambda value: attrs.evolve(returned, result=value[0], parts=value[1] or returned.parts)
        )

    async def _with_arguments(
        self, index: int, name: str, call: ToolCall, arguments: Mapping[str, Json]
    ) -> Result[ToolResult, ToolErrors]:
        """Run the rest with arguments, which are checked if a wrapper changed them."""
        is_same = False
        with suppress(TypeError, ValueError, RecursionError):  # of arguments that are not JSON
            is_same = attrs.evolve(call, arguments=dict(arguments)).fingerprint == call.fingerprint
        if is_same:
            return await self._within(index + 1, call)
        if self._approved:
            reason = f"its wrapper {name!r} changed the arguments after they were approved."
            return Failure(ToolNotApproved(call.name, reason))
        given = json_object_of(arguments)
        if given is None:
            detail = f"its wrapper {name!r} gave {abbreviated(arguments)}, expected a JSON object"
            return Failure(ToolFailed(call.name, detail))
        changed = attrs.evolve(call, arguments=given)
        wrong = await self._check(changed)
        if isinstance(wrong, Failure):
            problems = wrong.failure().message
            detail = f"its wrapper {name!r} changed the arguments. {problems}"
            return Failure(ToolFailed(call.name, detail))
        return await self._within(index + 1, changed)


@frozen(eq=False)
class _Entry:
    tool: Tool
    definition: ToolDefinition
    on_loop: bool


class LocalToolService:
    """Implements ``ToolService``: validates, approves and limits each call.

    Args:
        tools: the tools, with unique names, in the order for the model.
        workspace: the directory to which file tools are confined.
        default_timeout_s: seconds for a call of a tool without a timeout, above 0.
        answer_timeout_s: seconds that a call of an external tool without a timeout waits, above 0.
        protected: resolved paths of files that file tools must not write.
        wrappers: code around each call, the outermost first.

    Raises:
        ValueError: two tools share a name, or the timeout is not above 0.
        ToolDefinitionError: a tool's annotations cannot be described to a model.
    """

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        workspace: Path,
        clock: Clock,
        default_timeout_s: float = DEFAULT_TIMEOUT_S,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        protected: frozenset[Path] = frozenset(),
        wrappers: Sequence[ToolWrapper] = (),
    ) -> None:
        if not (default_timeout_s > 0 and math.isfinite(default_timeout_s)):
            raise ValueError(f"default_timeout_s: got {default_timeout_s!r}, expected seconds above 0.")
        self._given_workspace = workspace
        self._protected = protected
        self._wrappers = tuple(wrappers)
        self._clock = clock
        self._entries: dict[str, _Entry] = {}
        for tool in tools:
            if tool.name in self._entries:
                raise ValueError(f'Two tools are named {tool.name!r}: rename one with tool(name="…").')
            definition = tool.definition
            default_s = answer_timeout_s if tool.external else default_timeout_s
            if tool.timeout_s is None and definition.timeout_s != default_s:
                definition = attrs.evolve(definition, timeout_s=default_s)
            on_loop = inspect.iscoroutinefunction(tool.function)
            self._entries[tool.name] = _Entry(tool, definition, on_loop)
        self._definitions = tuple(entry.definition for entry in self._entries.values())

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return all tools, in the given order."""
        return self._definitions

    @effect
    async def execute(
        self, call: ToolCall, scope: ToolScope, approver: Approver | None = None
    ) -> Result[ToolResult, ToolErrors]:
        """Run a call and return its full result; fails as the port says.

        Checks in this order: the name, the form of the arguments, their types, approval, time. A refused tool
        did not run. Waiting for approval or a free thread does not count towards the timeout; both end at the
        deadline. A call of an external tool is not run: its result has the checked arguments and the origin
        ``external``.
        """
        entry = self._entries.get(call.name)
        if entry is None:
            return Failure(ToolNotFound(call.name, tuple(self._entries)))
        if call.malformed:
            return Failure(call_checks.malformed_arguments(call.name, call.malformed))
        if entry.tool.run_parameter is not None and scope.run_context is None:
            return Failure(ToolFailed(call.name, "it takes a RunContext, which only an agent's runs have."))
        needs_approval = entry.definition.requires_approval or scope.needs_approval
        is_nested = not _SCALARS.issuperset(map(type, call.arguments.values()))
        if needs_approval or is_nested:  # nothing changes approved arguments, and a tool no call of the model
            call = attrs.evolve(call, arguments=copied_json(call.arguments))
        schema, shown = entry.tool.schema, scope.parameters
        convert = partial(call_checks.convert_arguments, call.name, schema, shown=shown)
        converted = convert(call.arguments)
        if not isinstance(converted, Success):
            return Failure(converted.failure())
        edited: JsonObject | None = None
        if needs_approval:
            asked, as_it_runs = call, partial(call_checks.arguments_of_run, schema)
            if not entry.definition.external:  # the approved arguments are those that run
                asked = attrs.evolve(call, arguments=as_it_runs(converted.unwrap()))

            def check(given: JsonObject) -> Result[JsonObject, InvalidToolArguments]:
                return convert(given).map(as_it_runs)

            rule, patience_s = entry.tool.requires_approval, self._remaining_s(scope)
            approval = await call_checks.seek_approval(
                approver,
                asked,
                entry.definition,
                scope,
                rule=None if isinstance(rule, bool) else rule,
                check=check,
                patience_s=patience_s,
            )
            if not isinstance(approval, Success):
                return Failure(approval.failure())
            edited = approval.unwrap()
            if edited is not None:
                call = attrs.evolve(call, arguments=edited)
                converted = convert(copied_json(edited))
                if isinstance(converted, Failure):  # a validator of the tool that has changed its mind
                    return made_with(edited, call, converted)
        if entry.definition.external:
            made = ToolResult(call.id, call.name, call.arguments, origin="external", arguments=edited)
            return Success(made)
        if self._wrappers:
            return made_with(edited, call, await self._run_wrapped(entry, call, scope, needs_approval))
        return made_with(edited, call, await self._run(entry, call, scope, converted.unwrap()))

    async def _run_wrapped(
        self, entry: _Entry, call: ToolCall, scope: ToolScope, approved: bool
    ) -> Result[ToolResult, ToolErrors]:
        async def check(call: ToolCall) -> Result[dict[str, Any], InvalidToolArguments]:
            return call_checks.convert_arguments(call.name, entry.tool.schema, call.arguments)

        async def run(call: ToolCall) -> Result[ToolResult, ToolErrors]:
            again = await check(call)  # a tool may change its arguments, and be run twice
            if isinstance(again, Failure):
                return Failure(again.failure())
            return await self._run(entry, call, scope, again.unwrap())

        return await WrappedCall(
            self._wrappers, call, scope, check, run, self._clock, approved=approved
        ).outcome()

    async def was_done(self, name: str, key: str) -> tuple[Json] | None:
        """Ask a tool's probe whether a call was done; ``None`` if unknown.

        It has the time of a call, in a thread, so that one that hangs holds up nothing else.

        Args:
            key: the idempotency key of the call.
        """
        entry = self._entries.get(name)
        if entry is None or entry.tool.was_done is None:
            return None
        probe, timeout_s = partial(entry.tool.was_done, key), entry.definition.timeout_s
        thread = await take_thread(None)
        assert thread is not None, "it is waited for"
        try:
            outcome, _ = await run_function(name, probe, {}, thread=thread, timeout_s=timeout_s)
        finally:
            thread.leave()
        if isinstance(outcome, Failure):
            _log.warning("The probe of the tool %r does not know: %s", name, outcome.failure().message)
            return None
        return (outcome.unwrap()[0],)

    async def _run(
        self, entry: _Entry, call: ToolCall, scope: ToolScope, arguments: dict[str, Any]
    ) -> Result[ToolResult, ToolErrors]:
        known: RunContext[Any] | None = None
        if entry.tool.run_parameter is not None and scope.run_context is not None:
            known = attrs.evolve(scope.run_context(), idempotency_key=scope.call_key, report=scope.report)
            if not is_of_type(known.deps, entry.tool.deps_type):
                has, wants = type(known.deps).__name__, type_name(entry.tool.deps_type)
                detail = f"it takes RunContext[{wants}], and the dependencies of the run are a {has}."
                return Failure(ToolFailed(call.name, detail))
        thread = None
        if not entry.on_loop:
            thread = await take_thread(self._remaining_s(scope))
            if thread is None:
                return Failure(ToolTimedOut(call.name, 0.0))
        started = self._clock.monotonic()
        timeout_s = entry.definition.timeout_s
        if scope.deadline is not None:
            timeout_s = min(timeout_s, scope.deadline - started)
        parameter, texts = entry.tool.context_parameter, list(scope.known_texts)
        if parameter is not None:
            arguments[parameter] = self._context(scope, started + timeout_s, texts)
        if entry.tool.run_parameter is not None:
            arguments[entry.tool.run_parameter] = known
        try:
            outcome, report = await run_function(
                call.name, entry.tool.function, arguments, thread=thread, timeout_s=timeout_s
            )
        finally:
            if thread is not None:
                thread.leave()
        duration_ms, usage = (self._clock.monotonic() - started) * 1000, report.usage
        if isinstance(outcome, Success):
            value, parts = outcome.unwrap()
            return Success(
                ToolResult(
                    call.id,
                    call.name,
                    value,
                    duration_ms=duration_ms,
                    usage=usage,
                    counted=bool(usage),
                    parts=parts,
                    known_texts=tuple(texts[len(scope.known_texts) :]),
                )
            )
        if not usage and not report.is_in_doubt:
            return Failure(outcome.failure())
        error = outcome.failure()
        origin: CallOrigin = "declined" if isinstance(error, ToolNotApproved) else "executed"
        return Success(  # a failure value can report neither usage nor a doubt
            ToolResult(
                call.id,
                call.name,
                error=error.message,
                duration_ms=duration_ms,
                origin="in_doubt" if report.is_in_doubt else origin,
                usage=usage,
                counted=True,
            )
        )

    def _remaining_s(self, scope: ToolScope) -> float | None:
        return None if scope.deadline is None else scope.deadline - self._clock.monotonic()

    @cached_property
    def _workspace(self) -> Path:
        return self._given_workspace.resolve()

    def _context(self, scope: ToolScope, deadline: float, texts: list[KnownText]) -> ToolContext:
        return ToolContext(
            run_id=scope.run_id,
            task_id=scope.task_id,
            agent_id=scope.agent_id,
            call_id=scope.call_key,
            workspace=self._workspace,
            deadline=deadline,
            protected=self._protected,
            known_texts=texts,
        )
