"""Events of runs that are streamed, steered, paused or interrupted."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core import errors
from reactive_agents.core.bases import CompactionReason, Event
from reactive_agents.core.config import CompactionMethod
from reactive_agents.core.ids import CallId
from reactive_agents.core.json import JsonData
from reactive_agents.core.usage import RunUsage
from reactive_agents.core.values import OMITTED


@frozen(eq=False, repr=False)
class RunContinued(Event):
    """An interrupted run continues; recorded calls are not made again.

    ``attempt``: the number of this one, 2 or more; ``entries``: how many the run has recorded.
    """

    attempt: int
    entries: int


@frozen(eq=False, repr=False)
class SessionAwaited(Event):
    """The run waits until earlier runs of its session have ended."""

    session: str


@frozen(eq=False, repr=False)
class ToolCallInDoubt(Event):
    """A call was under way when its process ended, so it may have taken effect.

    Attributes:
        key: the idempotency key of the call.
        handling: ``told`` the model; ``repeated``, since the tool is idempotent, or a person said so;
            ``settled`` by the tool's own probe or by a person; ``stopped`` the run until a person settles it;
            ``cancelled`` with the run, so that only its outcome tells of the call.
    """

    tool_name: str
    call_id: CallId
    key: str
    handling: Literal["told", "repeated", "settled", "stopped", "cancelled"]


@frozen(eq=False, repr=False)
class ExecutionHookFailed(Event):
    """A lifecycle hook raised, or returned no context."""

    phase: str
    timing: str
    error: str


@frozen(eq=False, repr=False)
class DependenciesNotClosed(Event):
    """Dependencies of the run could not be closed; its answer stays as it is.

    ``function``: the function that made them; ``error``: the class of the exception.
    """

    function: str
    error: str


@frozen(eq=False, repr=False)
class ExecutionPaused(Event):
    """The run is paused before ``next_step`` until it is resumed."""

    next_step: str


@frozen(eq=False, repr=False)
class ExecutionResumed(Event):
    """The pause ended: the run was resumed, cancelled or stopped."""


@frozen(eq=False, repr=False)
class ExecutionStopped(Event):
    """The run was stopped in ``phase``, and ends as partial. ``reason``: may be empty."""

    phase: str
    reason: str


@frozen(eq=False, repr=False)
class ToolProgressed(Event):
    """A tool reports its ``progress``, 0 to 1, or ``None`` if it is unknown."""

    tool_name: str
    call_id: CallId
    progress: float | None = None
    message: str = ""


@frozen(eq=False, repr=False)
class CustomEvent(Event):
    """JSON data of the program, which it has emitted for readers of the events.

    Attributes:
        tool_name: the tool that emitted it; empty for the function of a workflow, as is ``call_id``.
        replayed: whether a function that is run again by a durable run has emitted it before.
    """

    tool_name: str
    call_id: CallId
    name: str
    data: JsonData
    replayed: bool = field(default=False, metadata=OMITTED)


@frozen(eq=False, repr=False)
class GuidanceGiven(Event):
    """The model is steered with ``text`` before its next turn.

    ``policy`` is the policy, or the purpose of a structured question that is asked again.
    """

    policy: str
    text: str


@frozen(eq=False, repr=False)
class ContextCompacted(Event):
    """The transcript was shortened before the model's next turn.

    ``recall`` reads the texts that were removed.

    Attributes:
        reason: ``growth`` when earlier turns were summarized in good time, ``window`` when the request would
            not have fitted, ``refused`` when the provider refused it as too long.
        method: the method that was used: ``template``, ``model``, ``custom`` or ``drop``.
        configured: the method in the configuration.
        iteration: number of turns that the model had taken.
        turns: number of turns that were removed this time.
        size_before: bytes of the transcript, without the beginning that every request has.
        tokens_before: the most tokens of the next request: the provider's count of the last turn, and a token
            for each byte that it has not counted.
        tokens_after: those tokens, less the tokens that were removed, at the same bytes for a token.
        window_tokens: tokens that the model's window is assumed to hold.
        problem: why the chosen method failed, so that templates were used; empty if it did not fail.
    """

    reason: CompactionReason
    method: CompactionMethod
    configured: CompactionMethod
    iteration: int
    turns: int
    size_before: int
    size_after: int
    tokens_before: int
    tokens_after: int
    window_tokens: int
    problem: str = ""

    @property
    def window_share(self) -> float:
        """``tokens_before`` as a share of the model's window; may exceed 1."""
        return self.tokens_before / self.window_tokens


@frozen(eq=False, repr=False)
class ContextLost(Event):
    """The model's server silently read only a part of a prompt.

    The answer was dropped and the model was asked again with less, if anything could be left out.

    Attributes:
        iteration: number of turns that the model had taken.
        sent_bytes: size of the prompt.
        read_tokens: tokens that the server counted, or half of the bytes if it counts none; from now on the
            window is assumed to be that large.
        reason: a sentence, which the run's result has as well.
    """

    iteration: int
    sent_bytes: int
    read_tokens: int
    reason: str


@frozen(eq=False, repr=False)
class ModelCallAbandoned(Event):
    """A model did not answer, or the end of the run cancelled the call.

    ``model_call``: the number in its ``ModelCallStarted``; 0 if there was none, for example without budget.
    ``replayed``: whether the failure comes from the record of a durable run: the call was made before.
    """

    purpose: str
    error: errors.LLMErrors
    duration_ms: float
    model_call: int = 0
    replayed: bool = field(default=False, metadata=OMITTED)

    @property
    def spent(self) -> tuple[RunUsage, ...]:
        """Return the usage of the failed call, attempt by attempt."""
        return errors.refused_attempts(self.error)


@frozen(eq=False, repr=False)
class ModelCallDelayed(Event):
    """A request waits because of a limit of requests or tokens a minute.

    ``limit``: ``queue`` if other requests wait before it; ``wait_s``: the fewest seconds that it waits.
    """

    purpose: str
    model: str
    limit: Literal["requests", "tokens", "queue"]
    wait_s: float


@frozen(eq=False, repr=False)
class ModelParameterRefused(Event):
    """A provider refused a parameter; the model is asked again without it.

    Attributes:
        instead: the provider's own name under which it is sent instead; empty for none.
        by_provider: false if it was never sent, since litellm knows that the model does not take it.
    """

    model: str
    parameter: str
    instead: str = ""
    by_provider: bool = field(default=True, metadata=OMITTED)


@frozen(eq=False, repr=False)
class ModelTextStreamed(Event):
    """The next delta of a text that may be the answer, while a run is streamed.

    It is part of the model's text, or of the argument of ``final-answer`` that holds the answer. The deltas
    since the last ``ModelTextRetracted`` or ``ModelStreamRestarted`` form one text; at the end of the run it
    is the answer. ``model_call``: the number of the call in the run, from 1, as in the other events.
    """

    purpose: str
    text: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelThinkingStreamed(Event):
    """The next delta of a text that is not for the answer, while a run is streamed.

    It is part of the reasoning that the model exposes, or of its reply to another question of the run, such
    as a plan or a critique, which the purpose names.
    """

    purpose: str
    text: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ToolArgumentsStreamed(Event):
    """The next delta of the arguments of a tool call, while a run is streamed.

    Attributes:
        index: the position of the call among those of the model's turn, from 0.
        tool_name: the name as the model writes it.
        text: a part of the arguments' JSON text; empty when the call begins without one.
        model_call: the number of the model call in the run, from 1.
    """

    purpose: str
    index: int
    tool_name: str
    text: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelStreamRestarted(Event):
    """The stream broke and restarts: discard what was streamed of this model call."""

    purpose: str
    reason: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelTextRetracted(Event):
    """A text of the model is not the answer: discard what was streamed of it.

    Attributes:
        policy: the policy that turned the text down, so that the model is asked again. In a streamed run also
            ``calls`` for a text beside tool calls, ``superseded`` for one that a later text replaces,
            ``result`` if the result of the run is another text, and ``failed`` if the run has no result.
    """

    policy: str


ControlEvent: TypeAlias = (
    RunContinued
    | SessionAwaited
    | ToolCallInDoubt
    | ExecutionHookFailed
    | DependenciesNotClosed
    | ExecutionPaused
    | ExecutionResumed
    | ExecutionStopped
    | ToolProgressed
    | CustomEvent
    | GuidanceGiven
    | ContextCompacted
    | ContextLost
    | ModelCallAbandoned
    | ModelCallDelayed
    | ModelParameterRefused
    | ModelTextStreamed
    | ModelThinkingStreamed
    | ToolArgumentsStreamed
    | ModelStreamRestarted
    | ModelTextRetracted
)
"""The events of runs that are streamed, steered, paused or interrupted."""
