"""Workflows: strategies that are written in Python, in place of a model's turns.

A workflow is an ``async`` function that calls the agent's tools and model, with ``if``, ``for`` and ``await``
between the calls. Each call is a kernel run like those of the other strategies: it has the same approvals,
limits, events and steps, and is in the record of a durable run. A run that was interrupted runs the function
from its beginning, and recorded calls return at once. That is why the calls may depend only on the task, on
results of earlier calls, and on :meth:`WorkflowRun.now` and :meth:`WorkflowRun.new_id`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, get_args, overload

import anyio
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents import effects
from reactive_agents.core.codec import abbreviated, encode, to_json
from reactive_agents.core.errors import StrategyExecutionError
from reactive_agents.core.events import CustomEvent, FinalAnswerProduced
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import Json, in_one_order
from reactive_agents.core.messages import Message, ToolCall
from reactive_agents.core.results import (
    DEADLINE,
    IN_DOUBT,
    NOT_APPROVED,
    WORKFLOW,
    ReasoningResult,
    ReasoningStatus,
    ReasoningStrategy,
)
from reactive_agents.core.run_context import NO_REPORT, Deps, RunContext
from reactive_agents.core.settings import NO_NEEDS
from reactive_agents.core.tools import CallOrigin, ToolResult
from reactive_agents.effects import BRANCH, Effect, attempt, effect
from reactive_agents.event_loop import CallSoon, calls_on_this_loop
from reactive_agents.kernel import KernelContext, KernelState, Stop, ThoughtKernel
from reactive_agents.kernel.context_window.tool_results import tool_results
from reactive_agents.kernel.events import RunEvents
from reactive_agents.kernel.kernels import given_call_kernel
from reactive_agents.kernel.ledger import CallCounts
from reactive_agents.kernel.open_requirements import describe_missing
from reactive_agents.kernel.service_calls import definitions_in
from reactive_agents.kernel.termination import FINISHING_S, in_time
from reactive_agents.reasoning.passes import (
    MOST_TURNS,
    Limit,
    Pass,
    begin_progress,
    limit_reached,
    open_requirements_of_run,
    run_pass,
)
from reactive_agents.reasoning.strategy import (
    Strategy,
    StrategyInput,
    StrategyMeasure,
    StrategyServices,
    begin_measure,
    reasoning_result,
    seconds_left,
)

if TYPE_CHECKING:
    from reactive_agents.core.errors import KernelErrors, ReasoningErrors

_T = TypeVar("_T")
_log = logging.getLogger("reactive_agents")

_ENDED_BY = {"declined": NOT_APPROVED, "in_doubt": IN_DOUBT}
"""Failures of calls that make a run partial, by what it is then ended by."""
MOST_ASKED_TURNS = 10
"""The most turns of a model that :meth:`WorkflowRun.ask` gives tools."""

Workflow: TypeAlias = Callable[["WorkflowRun[Any]", str], Awaitable[Any]]
"""The function of a workflow: takes the run and its task, and returns the answer."""


class CallFailed(Exception):
    """Raised where a call of a workflow gave no result.

    Attributes:
        tool: the name of the tool; empty for a call of the model.
        reason: the error of the tool, who declined the call, or the limit of the run, in a sentence.
        origin: ``executed`` if the tool was run and failed, ``declined``, ``in_doubt`` or ``refused``.
    """

    def __init__(self, tool: str, reason: str, origin: CallOrigin = "executed") -> None:
        super().__init__(f"{tool or 'the model'}: {reason}")
        self.tool, self.reason, self.origin = tool, reason, origin


class _Place:
    """A place in the order of calls, whichever of them ends first.

    Attributes:
        is_busy: whether a call of this place is under way.
    """

    def __init__(self, path: tuple[int, ...] = ()) -> None:
        self._path, self._calls = path, 0
        self.is_busy = False

    def next(self) -> tuple[int, ...]:
        """Return the place of the next call."""
        self._calls += 1
        return (*self._path, self._calls)


_PLACE: ContextVar[_Place] = ContextVar("place")


class WorkflowRun(Generic[Deps]):
    """One run of a workflow, by which its function makes calls."""

    def __init__(self, strategy: str, strategy_input: StrategyInput, services: StrategyServices) -> None:
        self._strategy, self._services = strategy, services
        self._input = evolve(strategy_input, answer_form=None)  # the form of what is returned, not of `ask`
        self._progress = begin_progress(strategy_input, services)
        self._states: dict[tuple[int, ...], KernelState] = {}
        self._stopped: BaseException | None = None
        self._under_way: list[str] = []
        self._has_ended = False
        self._none_under_way = anyio.Event()
        self._call_soon = calls_on_this_loop()

    @property
    def context(self) -> RunContext[Deps]:
        """The dependencies, user, session and usage of the run; its state is read-only."""
        context: RunContext[Deps] = self._services.run_context()
        events = self._services.kernel.events.value_or(None)
        if events is None:
            return context
        return evolve(context, report=_Emitter(events, self._call_soon, lambda: self._has_ended))

    @property
    def task(self) -> str:
        """The task of the run."""
        return self._input.task_description

    @property
    def history(self) -> tuple[Message, ...]:
        """The earlier messages of the session, or those that the run was given."""
        return self._input.history.messages

    def limit_reached(self) -> Limit | None:
        """Return the limit that the run is at: of its time, its budget or its turns."""
        limit = limit_reached(self._input, self._services)
        if limit is None and self._progress.iterations >= MOST_TURNS:
            return Limit("iteration_limit", f"The model has taken {MOST_TURNS} turns, which is the most.")
        return limit

    def now(self) -> datetime:
        """Return the time in UTC; in a durable run that of the latest recorded call."""
        return self._services.kernel.clock.now()

    def new_id(self) -> str:
        """Return a new id, which is the same when a durable run is continued."""
        return self._services.kernel.ids.new()

    def emit(self, name: str, data: Json) -> Awaitable[None]:
        """Publish data for the readers of the events, as the event ``CustomEvent``.

        It may be awaited, to wait for slow readers. A durable run that is continued publishes it again, with
        ``replayed`` if a call that follows is recorded. After the end of the function it does nothing.

        Args:
            name: says which data it is.
            data: JSON data, of at most 100,000 characters.

        Raises:
            TypeError: the name is no text, or the data is not JSON.
            ValueError: it is too long.
        """
        return self.context.emit(name, data)

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool of the agent, and return its result as JSON data.

        Each call is made, also one that equals an earlier one.

        Args:
            tool: its name.
            arguments: its arguments: JSON data, or values that have a JSON form.

        Raises:
            CallFailed: the tool failed, the call was declined or is in doubt, or the run is at a limit.
            TypeError: an argument has no JSON form.
        """
        data, made = {name: _json_of(value) for name, value in arguments.items()}, list[ToolResult]()
        for name, text in data.items():
            if text is None:
                got = abbreviated(arguments[name])
                raise TypeError(f"{tool}: {name}: got {got}, expected a value with a JSON form")
        given = {name: json.loads(text) for name, text in data.items() if text is not None}
        call = ToolCall(CallId(self.new_id()), tool, given)
        kernel = _noting(given_call_kernel(call), made)
        state = await self._run(Pass("", "", "", 1, kernel=kernel, answers_by_tool=False), tool)
        if not made:
            raise CallFailed(tool, state.reason, "refused")
        (result,) = made
        if not result.success:
            raise CallFailed(tool, result.error, result.origin)
        return result.result

    async def ask(self, task: str, *, tools: Iterable[str] = (), instructions: str = "") -> str:
        """Give a task to the model of the agent, and return its answer.

        The model knows the agent's instructions, memories and the conversation, and what the task says; not
        the results of earlier calls.

        Args:
            tools: the names of the tools that it may call, in at most 10 turns; by default none.
            instructions: further instructions.

        Raises:
            CallFailed: the model did not answer, or not completely.
            ValueError: the agent has no tool of a name.
        """
        if not isinstance(task, str):
            raise TypeError(f"task: got {abbreviated(task)}, expected a text")
        allowed = frozenset((tools,) if isinstance(tools, str) else tools)
        known = [each.name for each in definitions_in(self._services.kernel.tools)]
        if unknown := sorted(allowed.difference(known)):
            raise ValueError(f"tools: got {', '.join(unknown)}, expected names of tools: {', '.join(known)}")
        turns, kernel = (MOST_ASKED_TURNS, "") if allowed else (1, "one-shot")
        asked = Pass("", "", task, turns, kernel=kernel, instructions=instructions, allowed_tools=allowed)
        state = await self._run(evolve(asked, answers_by_tool=bool(allowed)), "")
        if state.outcome != "completed" or state.output is None:
            raise CallFailed("", state.reason)
        return state.output

    @overload
    async def gather(self, *calls: Awaitable[_T], limit: int | None = None) -> list[_T]: ...

    @overload
    async def gather(
        self, *calls: Awaitable[_T], return_exceptions: bool, limit: int | None = None
    ) -> list[_T | Exception]: ...

    async def gather(
        self, *calls: Awaitable[_T], return_exceptions: bool = False, limit: int | None = None
    ) -> list[_T] | list[_T | Exception]:
        """Await calls side by side, and return their results in order.

        Functions that make calls can be awaited as well. All of them end, even if one fails; then the first
        exception is raised. Use it in place of ``asyncio.gather``, which does not tell a durable run which
        call is which.

        Args:
            return_exceptions: whether to return exceptions in the place of results, and raise none.
            limit: how many are under way at once at most, 1 or more; ``None`` for all.

        Raises:
            TypeError, ValueError: the limit is no whole number, or below 1; nothing was begun.
        """
        try:
            if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
                raise TypeError(f"limit: got {abbreviated(limit)}, expected a whole number, 1 or more")
            with self._begun("gather") as place:
                beside = [_beside(call, (*place, number)) for number, call in enumerate(calls)]
                outcomes = await effects.gather(beside, limit=limit)
        finally:
            for call in calls:
                if iscoroutine(call):
                    call.close()  # one that was not begun
        failures = [each.failure() for each in outcomes if isinstance(each, Failure)]
        if failures and not return_exceptions:
            raise failures[0]
        return [each.unwrap() if isinstance(each, Success) else each.failure() for each in outcomes]

    @contextmanager
    def _begun(self, call: str) -> Iterator[tuple[int, ...]]:
        """Count a call as under way, and return its place."""
        place = _PLACE.get()
        if self._has_ended:
            raise RuntimeError(f"{call}: the function of the workflow has ended")
        if place.is_busy and BRANCH.get() is not None:
            beside = "another call is under way, expected run.gather for calls side by side"
            raise RuntimeError(f"{call}: {beside}, by which a durable run knows them again")
        place.is_busy = True
        self._under_way.append(call)
        try:
            yield place.next()
        finally:
            place.is_busy = False
            self._under_way.remove(call)
            if not self._under_way:
                self._none_under_way.set()

    async def _run(self, kernel_pass: Pass, tool: str) -> KernelState:
        """Run a pass, and return its final state."""
        if self._stopped is not None:
            raise self._stopped
        with self._begun(tool or "ask") as place:
            return await self._run_at(place, kernel_pass, tool)

    async def _run_at(self, place: tuple[int, ...], kernel_pass: Pass, tool: str) -> KernelState:
        number = "-".join(map(str, place))
        named = evolve(
            kernel_pass,
            label=f"{self._strategy}:{tool or 'ask'}",
            key=f"w{number}.",
            needs=NO_NEEDS,
            kernel_type="given-call" if tool else "",
            delivers=False,
        )
        limit = self.limit_reached()
        if limit is not None:
            await anyio.lowlevel.checkpoint()  # the function may try again in a loop
            raise CallFailed(tool, limit.reason, "refused")
        self._hold_to_record("t" if tool else "m")
        try:
            ran = await attempt(run_pass(named, self._progress, self._strategy, self._input, self._services))
        except BaseException as error:
            if not isinstance(error, Exception | anyio.get_cancelled_exc_class()):
                self._stopped = error  # the run cannot go on, also if the function handles this
            raise
        if isinstance(ran, Failure):
            raise CallFailed(tool, ran.failure().message, "refused")
        state = self._states[place] = ran.unwrap()
        calls = self._progress.calls.then(state.ledger.calls)
        counted = CallCounts(calls.attempts, calls.succeeded, declined=calls.declined)
        self._progress = evolve(
            self._progress, calls=counted, iterations=self._progress.iterations + state.iteration
        )
        return state

    async def close(self) -> str:
        """Wait for calls that are still under way; return their names.

        No call is begun from now on.
        """
        self._has_ended, names = True, " and ".join(dict.fromkeys(self._under_way))
        if names:
            self._none_under_way = anyio.Event()
            await self._none_under_way.wait()
        return names

    def end(self) -> None:
        """Raise if the run cannot go on, or the function has left out a recorded call."""
        if self._stopped is not None:
            raise self._stopped
        self._hold_to_record("")

    def _hold_to_record(self, kind: str) -> None:
        branch = BRANCH.get()
        if branch is not None:
            branch.hold_to_record(kind)

    def result(self, measure: StrategyMeasure, ended: Stop) -> ReasoningResult:
        """Return the result of the run, with the steps of its calls in their order."""
        states = [self._states[place] for place in sorted(self._states)]
        missing = open_requirements_of_run(self._progress, self._input, self._services)
        if ended.outcome == "completed" and missing.open:
            reason = f"{ended.reason} {describe_missing(missing)}"
            ended = evolve(ended, policy="required_tools", outcome="partial", reason=reason)
        return reasoning_result(
            self._strategy,
            measure,
            self._services,
            steps=tuple(step for state in states for step in state.steps),
            output=ended.output,
            status=ended.outcome,
            iterations=self._progress.iterations,
            terminated_by=ended.policy,
            reason=ended.reason,
            results={key: text for state in states for key, text in tool_results(state.scratchpad).items()},
            task=self._input.task_description,
        )


class _Emitter:
    """Publishes what the function of a workflow emits, until it ends."""

    def __init__(self, events: RunEvents, call_soon: CallSoon, has_ended: Callable[[], bool]) -> None:
        self._events, self._call_soon, self._has_ended = events, call_soon, has_ended

    def __call__(self, progress: float | None, message: str) -> Awaitable[None]:
        """Report nothing: it is no call whose progress could be shown."""
        return NO_REPORT

    def emit(self, name: str, data: Json) -> Awaitable[None]:
        """Publish data, from any thread."""
        branch = BRANCH.get()
        repeated = branch is not None and branch.is_repeated

        def publish() -> None:
            if not self._has_ended():
                self._events.publish(CustomEvent, "", CallId(""), name, data, repeated)

        self._call_soon(publish)
        return self

    def __await__(self) -> Generator[Any, Any, None]:
        return self._events.keep_up().__await__()


def _json_of(value: object) -> str | None:
    """Return the value as JSON text; ``None`` for one without a JSON form."""
    try:
        return to_json(value)
    except Exception:  # noqa: BLE001 - the converters of a type are the user's code
        from pydantic_core import to_jsonable_python  # for pydantic models, dates and other values it knows

    try:
        return to_json(_with_ordered_sets(value, to_jsonable_python(value, fallback=encode)))
    except Exception:  # noqa: BLE001 - as above
        return None


def _with_ordered_sets(value: Any, data: Any) -> Any:
    """Return the JSON data of a value whose sets have one order in every process.

    What a serializer of the user's made of another length or kind stays as it is.
    """
    kind: Any = type(value)
    if getattr(kind, "__pydantic_root_model__", False):
        return _with_ordered_sets(value.root, data)
    if isinstance(value, Set | list | tuple) and isinstance(data, list) and len(value) == len(data):
        items = list(map(_with_ordered_sets, value, data))
        return in_one_order(items) if isinstance(value, Set) else items
    if not isinstance(data, dict):
        return data
    if isinstance(value, Mapping) and len(value) == len(data):
        return dict(zip(data, map(_with_ordered_sets, value.values(), data.values()), strict=True))
    shown: dict[str, str] = {
        each.serialization_alias or name: name for name, each in getattr(kind, "model_fields", {}).items()
    }
    computed = getattr(kind, "model_computed_fields", {})
    shown |= {each.alias or name: name for name, each in computed.items()}
    return {
        name: _with_ordered_sets(getattr(value, str(shown.get(name, name)), part), part)
        for name, part in data.items()
    }


def _noting(kernel: ThoughtKernel, made: list[ToolResult]) -> ThoughtKernel:
    """Return the kernel of a call that also notes its whole result."""

    def step(state: KernelState, context: KernelContext) -> Effect[KernelState, KernelErrors]:
        made.extend(state.results)
        return kernel(state, context)

    return step


@effect
async def _beside(call: Awaitable[_T], path: tuple[int, ...]) -> Result[_T, Exception]:
    """Await a call in a separate place."""
    token = _PLACE.set(_Place(path))
    try:
        return Success(await call)
    except Exception as error:  # noqa: BLE001 - raised, or returned, by gather
        return Failure(error)
    finally:
        _PLACE.reset(token)


def strategy_of(name: ReasoningStrategy, workflow: Workflow) -> Strategy:
    """Return the strategy that runs a workflow.

    The run is completed with what the function returns, or ends as a ``Stop`` that it returns says. It is
    partial when the function ends by a call that was declined or is in doubt, or by a limit of the run; also
    when a verification wants another attempt, since the calls are not made a second time. Anything else that
    the function raises fails it with ``StrategyExecutionError``.
    """

    @effect
    async def strategy(
        strategy_input: StrategyInput, services: StrategyServices
    ) -> Result[ReasoningResult, ReasoningErrors]:
        measure, run = begin_measure(services), WorkflowRun[Any](name, strategy_input, services)
        earlier = strategy_input.earlier
        if earlier is not None:
            reason = f"A workflow is not run again. Its answer has problems: {' '.join(earlier.findings)}"
            return Success(run.result(measure, Stop(WORKFLOW, "partial", earlier.answer or None, reason)))
        seconds = max(0.0, seconds_left(strategy_input, services)) + FINISHING_S
        ended = await in_time(_end_of(name, workflow, run), seconds)
        if ended is None:
            ended = _at_limit(Limit(DEADLINE, "The time limit of the run was reached."))
        if ended.outcome == "failed":
            return Failure(StrategyExecutionError(name, ended.reason))
        result = run.result(measure, ended)
        services.kernel.publish(
            FinalAnswerProduced,
            strategy=name,
            answer=result.output or "",
            status=result.status,
            terminated_by=result.metadata.terminated_by,
            iteration=result.metadata.iterations,
            total_tokens=result.metadata.tokens_used,
        )
        return Success(result)

    return strategy


async def _end_of(name: str, workflow: Workflow, run: WorkflowRun[Any]) -> Stop:
    """Run the function of a workflow, and return how the run ends."""
    token, branch = _PLACE.set(_Place()), BRANCH.get()
    try:
        if branch is not None:
            await branch.begin_function()
        returned = await workflow(run, run.task)
        left = await run.close()
        if left:
            raise RuntimeError(f"it returned while calls were under way, which it has to await: {left}")
        run.end()
    except (Exception, BaseExceptionGroup) as raised:  # noqa: BLE001 - the function is the user's code
        return await _end_by_exception(name, raised, run)
    finally:
        _PLACE.reset(token)
    stop = Stop(WORKFLOW, "completed", None, f"The workflow {name} has returned.")
    answer = returned
    if isinstance(returned, Stop):
        stop, answer = returned, returned.output
    text = answer if isinstance(answer, str) else _json_of(answer)
    if stop.outcome not in get_args(ReasoningStatus) or text is None or returned is None:
        wrong = f"returned {abbreviated(returned)}, expected the answer: a text, or a value with a JSON form."
        return Stop("error", "failed", None, f"The workflow {name} {wrong}")
    return evolve(stop, output=None if answer is None else text)


async def _end_by_exception(name: str, raised: BaseException, run: WorkflowRun[Any]) -> Stop:
    """Return how a run ends whose function has raised."""
    causes = [*_causes(raised)]
    outside = next((each for each in causes if not isinstance(each, Exception)), None)
    if outside is not None:
        raise outside from None
    await run.close()
    limit = run.limit_reached()
    if limit is not None:
        return _at_limit(limit)
    told = "; ".join(dict.fromkeys(map(_told, causes)))
    ended_by = [_ENDED_BY.get(each.origin) if isinstance(each, CallFailed) else None for each in causes]
    if ended_by[0] is not None and None not in ended_by:
        return Stop(ended_by[0], "partial", None, told)
    run.end()
    if not all(isinstance(each, CallFailed) for each in causes):
        _log.warning("The workflow %s raised.", name, exc_info=raised)
    return Stop("error", "failed", None, f"The workflow {name} failed: {told}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions of a group and of the groups in it."""
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    else:
        yield error


def _told(error: BaseException) -> str:
    told = str(error)
    return told if isinstance(error, CallFailed) else f"{type(error).__name__}: {told}".removesuffix(": ")


def _at_limit(limit: Limit) -> Stop:
    reason = limit.reason.partition(" Missing: ")[0]  # which is told for the turns of a model
    return Stop(limit.name, "partial", None, f"{reason} Missing: the rest of the workflow.")
