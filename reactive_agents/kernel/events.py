"""The events of one run: numbered, timed, and handed to the bus."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, cast

from anyio import to_thread

from reactive_agents.core import events
from reactive_agents.core.events import FinalAnswerProduced, ReasoningStepCompleted, Stamp, ToolCallCompleted
from reactive_agents.core.ids import AgentId, CallId, RunId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.redaction import Prepared, Redactor
from reactive_agents.core.results import declined_end
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.values import computed
from reactive_agents.kernel.service_calls import is_built_in
from reactive_agents.kernel.state import Guidance, KernelState
from reactive_agents.ports import Clock, EventBus

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent
    from reactive_agents.kernel.streamed_answer import AnswerStream

_P = ParamSpec("_P")
_log = logging.getLogger("reactive_agents")
NO_AGENT = AgentId("")


class EventReader(Protocol):
    """Reads the events of a run, and of the runs that its tools begin."""

    @property
    def is_behind(self) -> bool:
        """Whether the run has to wait before it publishes more events."""
        ...

    def show(self, event: AgentEvent) -> None:
        """Take an event, from any thread, at once."""

    async def ready(self) -> None:
        """Wait, on the event loop of the run, until the reader is not behind."""


class RunEvents:
    """Publishes the events of one run: ``events.publish(Kind, field, …)``.

    Each event takes the next number, from 1 and without gaps. An event object is made only if there are
    subscribers: a bus with ``has_subscribers`` is asked first.

    Attributes:
        readers: the readers for whom the run waits when they are slow.
        parent_run_id: the run whose tool began this one; ``None`` for none.
        answer: the stream of the run's answer; ``None`` if nothing is streamed.
        above: the answer of the run that has handed its conversation over to this one.
        replayed_calls: calls of tools whose outcome is from a record, until that is published.
    """

    def __init__(
        self,
        bus: EventBus,
        clock: Clock,
        run_id: RunId,
        task_id: TaskId,
        *,
        agent: AgentId = NO_AGENT,
        parent_run_id: RunId | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._clock = clock
        has_subscribers: Callable[[RunId], bool] = getattr(bus, "has_subscribers", lambda _: True)
        self._has_subscribers = has_subscribers if is_built_in(bus) else _asking(has_subscribers, bus)
        self._sequence = 0
        self._bus = bus
        self.answer: AnswerStream | None = None
        self.above: AnswerStream | None = None
        self.readers: tuple[EventReader, ...] = ()
        self._agent = agent
        self._redactor = redactor
        self._prepared = Prepared()
        self.parent_run_id = parent_run_id
        self.run_id = run_id
        self.task_id = task_id
        self.replayed_calls: set[CallId] = set()

    def publish(
        self,
        kind: Callable[Concatenate[RunId, TaskId, int, datetime, _P], AgentEvent],
        /,
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> None:
        """Publish an event of the kind with these fields."""
        if self._has_subscribers(self.run_id):
            make: Any = kind  # the type of its parameters leaves no room for those of the origin
            self.deliver(make(*self.stamp(), *args, **self.origin, **kwargs))
        else:
            self._sequence += 1

    def deliver(self, event: AgentEvent) -> None:
        """Hand an event that is made in any case to the bus. A bus that raises is logged."""
        try:
            self._bus.publish(event)
        except Exception:  # noqa: BLE001 - a bus is arbitrary user code, and no run fails for its events
            kind, bus = type(event).__name__, type(self._bus).__name__
            _log.warning("The event bus %s failed on %s.", bus, kind, exc_info=True)

    def stamp(self) -> Stamp:
        """Return the first four fields of the next event, with the next number."""
        self._sequence += 1
        return self.run_id, self.task_id, self._sequence, self._clock.now()

    @computed
    def origin(self) -> Mapping[str, Any]:
        """The fields of every event beside its stamp."""
        agent = self._agent if self._redactor is None else AgentId(self._redactor.redact(self._agent))
        return {"agent": agent, "parent_run_id": self.parent_run_id}

    @property
    def text_so_far(self) -> str:
        """The part of an answer that was streamed and still stands; empty for none."""
        return "" if self.answer is None else self.answer.standing

    async def keep_up(self) -> None:
        """Wait for readers that are behind."""
        for reader in self.readers:
            if reader.is_behind:
                await reader.ready()

    async def prepare(self, values: Iterable[Json]) -> None:
        """Redact what is long of the next events in a thread.

        The event loop goes on meanwhile. What was prepared before is released.
        """
        redactor = self._redactor
        if redactor is not None and self.are_read():
            self.release()
            long = redactor.long_in(values)
            if long:
                prepared = await to_thread.run_sync(redactor.prepared, long)
                self.release()  # what a call or strategy beside this one has prepared meanwhile
                redactor.keep(prepared)
                self._prepared = prepared

    def release(self) -> None:
        """Forget what was prepared, after the last event that may contain it."""
        if self._prepared and self._redactor is not None:
            self._redactor.release(self._prepared)
            self._prepared = Prepared()

    async def flush(self) -> None:
        """Wait until the events so far are stored, by handlers that store any."""
        flush = getattr(self._bus, "flush", None)
        if is_built_in(self._bus) and flush is not None:
            await flush()

    @property
    def have_requests(self) -> bool:
        """Whether a reader wants the requests to models in the events."""
        return bool(getattr(self._bus, "wants_requests", False))

    def are_read(self) -> bool:
        """Whether anybody gets the events; ask before computing an expensive field."""
        return self._has_subscribers(self.run_id)


def _asking(has_subscribers: Callable[[RunId], bool], bus: EventBus) -> Callable[[RunId], bool]:
    """Return the question to a custom bus; one that raises gets the event."""

    def ask(run_id: RunId) -> bool:
        try:
            return bool(has_subscribers(run_id))
        except Exception:  # noqa: BLE001 - see deliver
            _log.warning("has_subscribers of the event bus %s raised.", type(bus).__name__, exc_info=True)
            return True

    return ask


class _SilentEvents:
    """The events of a run that has no reader."""

    answer: AnswerStream | None = None
    replayed_calls: frozenset[CallId] = frozenset()

    def publish(self, *_: object, **__: object) -> None:
        """Publish nothing."""

    def are_read(self) -> bool:
        """They have no readers."""
        return False

    async def prepare(self, values: object) -> None:
        """Prepare nothing."""


class KernelHooks:
    """Hooks of kernels and their runner: each publishes its event once, none fails."""

    def __init__(self, events: RunEvents, kernel_pass: str = "") -> None:
        self._events = events
        self._kernel_pass = kernel_pass

    def on_thought(self, state: KernelState, thought: str) -> None:
        """Publish that the model said something."""
        self._publish_step(state, thought=thought)

    def on_action(self, state: KernelState, call: ToolCall) -> None:
        """Publish that a tool is about to be called."""
        self._publish_step(
            state, action=call.described, copied=call.copied, repairs=call.repairs, call_id=call.id
        )

    async def on_result(self, result: ToolResult) -> None:
        """Publish that a call ended; a long result is redacted in a thread before."""
        await self._events.prepare((result.result,))
        replayed = result.call_id in self._events.replayed_calls
        if replayed:  # another kernel of the run may have the same id
            self._events.replayed_calls.discard(result.call_id)
        self._events.publish(
            ToolCallCompleted,
            result.tool_name,
            result.call_id,
            not result.error,
            result.duration_ms,
            result.error,
            result.origin,
            result.result,
            replayed,
            result.arguments,
            result.ran,
        )

    async def on_observations(
        self, state: KernelState, results: Sequence[ToolResult], shown: Sequence[str]
    ) -> None:
        """Publish the results of a turn, each as the model is shown it."""
        await self._events.prepare(shown)
        for result, text in zip(results, shown, strict=True):
            self._publish_step(state, observation=text, call_id=result.call_id)

    def on_done(self, state: KernelState) -> None:
        """Publish the output of the run; partial where a call was declined or is in doubt."""
        status, ended_by = state.outcome or "completed", state.terminated_by
        declined = declined_end(status, state.steps) if self._events.are_read() else None
        if declined is not None:
            status, ended_by = "partial", declined[0]
        self._events.publish(
            FinalAnswerProduced,
            strategy=state.strategy,
            answer=state.output or "",
            status=status,
            terminated_by=ended_by,
            iteration=state.iteration,
            total_tokens=state.tokens,
        )

    def on_compacted(self, state: KernelState, **how: Any) -> None:
        """Publish a ``ContextCompacted`` with these fields and the iteration."""
        self._events.publish(events.ContextCompacted, iteration=state.iteration, **how)

    def on_context_lost(self, state: KernelState, sent_bytes: int, read_tokens: int) -> None:
        """Publish that the model read only so many tokens of a request of so many bytes."""
        reason = state.transcript.lost
        _log.warning("%s The rest of the prompt was lost.", reason)
        self._events.publish(events.ContextLost, state.iteration, sent_bytes, read_tokens, reason)

    def on_guidance(self, guidance: Guidance) -> None:
        """Publish that the model is steered before its next turn."""
        self._events.publish(events.GuidanceGiven, guidance.policy, guidance.text)

    def on_retracted(self, state: KernelState, policy: str) -> None:
        """Publish that a policy turned down an answer that the model proposed."""
        proposal, answer = state.proposal, self._events.answer
        if answer is not None:
            answer.retract(policy)
        elif proposal is not None and proposal.call_id is None and proposal.text.strip():
            self._events.publish(events.ModelTextRetracted, policy)

    @property
    def on_turn(self) -> Callable[[str], None] | None:
        """Publish the answer that a turn proposes; ``None`` where nothing is streamed."""
        answer = self._events.answer
        return None if answer is None else answer.settle

    def _publish_step(
        self, state: KernelState, *, copied: tuple[str, ...] = (), repairs: tuple[str, ...] = (), **told: Any
    ) -> None:
        step = state.strategy, state.iteration, self._kernel_pass
        self._events.publish(ReasoningStepCompleted, *step, copied=copied, repairs=repairs, **told)


noop_hooks = KernelHooks(cast("RunEvents", _SilentEvents()))
"""Hooks that do nothing."""


def build_kernel_hooks(events: RunEvents | None, *, kernel_pass: str = "") -> KernelHooks:
    """Return hooks that publish each kernel event once; silent ones without a bus."""
    return noop_hooks if events is None else KernelHooks(events, kernel_pass)
