"""Events of runs that are streamed, steered, held up or interrupted."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

from reactive_agents.core import errors
from reactive_agents.core.bases import CompactionReason, Event
from reactive_agents.core.config import CompactionMethod
from reactive_agents.core.ids import CallId
from reactive_agents.core.usage import RunUsage


@frozen(eq=False, repr=False)
class RunContinued(Event):
    """A run goes on that was interrupted; what it has done already is not done again.

    Attributes:
        attempt: how often a process has begun or continued the run, 2 or more.
        entries: recorded answers that it has.
    """

    attempt: int
    entries: int


@frozen(eq=False, repr=False)
class ToolCallInDoubt(Event):
    """A call was under way when its process ended, so it may have taken effect.

    Attributes:
        key: the idempotency key of the call.
        handling: ``told`` the model; ``repeated``, since the tool is idempotent, or a person said so;
            ``settled`` by the tool's own probe or by a person; ``stopped`` the run until a person settles it.
    """

    tool_name: str
    call_id: CallId
    key: str
    handling: Literal["told", "repeated", "settled", "stopped"]


@frozen(eq=False, repr=False)
class ExecutionHookFailed(Event):
    """A lifecycle hook raised, or returned no context."""

    phase: str
    timing: str
    error: str


@frozen(eq=False, repr=False)
class ExecutionPaused(Event):
    """The run is paused until it is resumed.

    ``next_step``: the step that it waits before.
    """

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
    """A tool reports how far its call is.

    Attributes:
        progress: the part that is done, 0 to 1; ``None`` where that is not known.
        message: the message of the tool; may be empty.
    """

    tool_name: str
    call_id: CallId
    progress: float | None = None
    message: str = ""


@frozen(eq=False, repr=False)
class GuidanceGiven(Event):
    """The model is steered with ``text`` before its next turn.

    ``policy`` is the policy, or the purpose of a structured question that is asked again.
    """

    policy: str
    text: str


@frozen(eq=False, repr=False)
class ContextCompacted(Event):
    """The transcript was made smaller before the model's next turn.

    ``recall`` reads what is gone.

    Attributes:
        reason: ``growth`` when earlier turns were summarized in good time, ``window`` when the request would
            not have fitted, ``refused`` when the provider said so.
        method: how it was done: ``template``, ``model``, ``custom`` or ``drop``.
        configured: the method that the configuration names.
        iteration: turns that the model had taken.
        turns: turns that are gone from the transcript, without those that were before.
        size_before: bytes of the transcript, without what every request begins with.
        tokens_before: of the next request at most: as the provider counted the last turn, and with a token
            for each byte that it has not counted.
        tokens_after: those, less what was taken out at the same bytes for a token.
        window_tokens: tokens that the model's window is taken to hold.
        problem: why the chosen method failed, so that templates were used; empty when it did not.
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
        """The tokens before as a part of the model's window; may exceed 1."""
        return self.tokens_before / self.window_tokens


@frozen(eq=False, repr=False)
class ContextLost(Event):
    """The model's server silently read only a part of a prompt.

    The answer was dropped and the model asked again with less, where anything could be left out.

    Attributes:
        iteration: turns that the model had taken.
        sent_bytes: size of the prompt.
        read_tokens: tokens that the server counted, or half of the bytes where it counts none; the window is
            taken to be as large from now on.
        reason: a sentence, which the run's result has as well.
    """

    iteration: int
    sent_bytes: int
    read_tokens: int
    reason: str


@frozen(eq=False, repr=False)
class ModelCallAbandoned(Event):
    """A model did not answer, or the end of the run cancelled the call.

    ``model_call``: that of its ``ModelCallStarted``; 0 where there was none, as for want of budget.
    """

    purpose: str
    error: errors.LLMErrors
    duration_ms: float
    model_call: int = 0

    @property
    def spent(self) -> tuple[RunUsage, ...]:
        """Return the usage of the failed call, attempt by attempt."""
        return errors.refused_attempts(self.error)


@frozen(eq=False, repr=False)
class ModelCallDelayed(Event):
    """A request waits because of a limit of requests or tokens a minute.

    Attributes:
        limit: ``requests`` or ``tokens``, or ``queue`` where others wait before it.
        wait_s: seconds that it waits at least.
    """

    purpose: str
    model: str
    limit: Literal["requests", "tokens", "queue"]
    wait_s: float


@frozen(eq=False, repr=False)
class ModelParameterRefused(Event):
    """A provider refused a parameter; the model is asked again without it.

    Attributes:
        parameter: the name of the parameter in ``ModelSettings``.
        instead: the provider's own name under which it is sent in its place; empty for none.
    """

    model: str
    parameter: str
    instead: str = ""


@frozen(eq=False, repr=False)
class ModelTextStreamed(Event):
    """The next delta of a text that may be the answer, while a run is streamed.

    That is the model's text, or the argument of ``final-answer`` that holds the answer. What has come since
    the last ``ModelTextRetracted`` or ``ModelStreamRestarted`` is one text; at the end it is the answer.

    Attributes:
        model_call: the number of the model call in the run, from 1.
    """

    purpose: str
    text: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelThinkingStreamed(Event):
    """The next delta of what is not for the answer, while a run is streamed.

    That is reasoning that the model exposes, and what it replies to other questions of the run than the task,
    as of plans and critiques: those have their purpose.

    Attributes:
        model_call: as of ``ModelTextStreamed``.
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
        text: a part of the arguments' JSON text; empty where the call begins without one.
        model_call: as of ``ModelTextStreamed``.
    """

    purpose: str
    index: int
    tool_name: str
    text: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelStreamRestarted(Event):
    """The stream broke and restarts: discard what was streamed of this model call.

    Attributes:
        model_call: as of ``ModelTextStreamed``.
    """

    purpose: str
    reason: str
    model_call: int = 0


@frozen(eq=False, repr=False)
class ModelTextRetracted(Event):
    """A text of the model is not the answer: discard what was streamed of it.

    Attributes:
        policy: the policy that turned it down, so that the model is asked again. Of a streamed run also
            ``calls`` for a text beside tool calls, ``superseded`` by a later text, ``result`` where the
            result of the run is another text, and ``failed`` where there is none.
    """

    policy: str


ControlEvent: TypeAlias = (
    RunContinued
    | ToolCallInDoubt
    | ExecutionHookFailed
    | ExecutionPaused
    | ExecutionResumed
    | ExecutionStopped
    | ToolProgressed
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
"""What happens in a run that does not go straight to its end."""
