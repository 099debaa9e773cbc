"""The state of one kernel run, and the only rules by which it may change.

The table below says which status may follow which. Beside it, four things never go back: iteration, tokens
and cost never decrease, and steps are only added. Every next state goes through :func:`check_successor`, as
:func:`transition_state` does; a change against the rules is an ``IllegalTransition`` value and leaves
everything as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack

from attrs import field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.codec import decode_document, encode_document
from reactive_agents.core.errors import DecodeError, IllegalTransition, KernelErrors
from reactive_agents.core.ids import CallId, TaskId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import Message, ToolCall
from reactive_agents.core.models import FinishReason
from reactive_agents.core.persistent import (
    PersistentList,
    PersistentMap,
    PersistentSet,
    as_list,
    as_map,
    as_set,
)
from reactive_agents.core.results import ReasoningStatus, ReasoningStep, ReasoningStrategy
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.values import replaced
from reactive_agents.kernel.context_window.token_estimate import Extent, TranscriptAccount, uncounted
from reactive_agents.kernel.ledger import CallLedger

_E = TypeVar("_E")

KernelStatus: TypeAlias = Literal["thinking", "acting", "observing", "done", "failed"]
SerializedKernelState: TypeAlias = Json

FORM_VERSION = 2
"""The version of the serialized form; earlier ones are read by ``UPGRADES`` in ``core/stored_forms.py``."""

LEGAL_TRANSITIONS: Mapping[KernelStatus, frozenset[KernelStatus]] = MappingProxyType(
    {
        "thinking": frozenset({"thinking", "acting", "done", "failed"}),
        "acting": frozenset({"acting", "observing", "done", "failed"}),
        "observing": frozenset({"observing", "thinking", "done", "failed"}),
        "done": frozenset({"done"}),
        "failed": frozenset({"failed"}),
    }
)
TERMINAL: frozenset[KernelStatus] = frozenset({"done", "failed"})


@frozen
class Proposal:
    """An answer that a kernel holds out; the policies decide whether it stands.

    Attributes:
        text: the answer; blank when the model said nothing.
        finish_reason: why the model stopped there.
        call_id: the call of the ``final-answer`` tool that it came with, if it did.
    """

    text: str
    finish_reason: FinishReason = "stop"
    call_id: CallId | None = None


@frozen
class Guidance:
    """What a policy has to say to the model before its next turn."""

    policy: str
    text: str


@frozen(slots=False)
class KernelState:
    """Everything that a kernel run has come to. Frozen, comparable, and JSON both ways.

    Attributes:
        id: unique for this run of a kernel; prefix of its step ids and of its tool calls' keys.
        messages: the transcript after the stable prefix: the model's turns and the tool results.
        scratchpad: the full text of each tool result, under the key that its observation names; and, under
            keys with a colon, what else was taken out of the transcript.
        transcript: what was taken out of ``messages``.
        shown_in_part: whether a result was shown in part, so that the model is offered ``recall``.
        iteration: turns that the model has taken.
        tokens: total tokens of the turns, as the provider counted them, and of what tools spent; answers that
            could not be used are of the turn that they were meant for.
        cost: US dollars of the same, as far as prices are known.
        run_tokens: what the whole run had spent when this step was judged, with all that went before this
            kernel or beside it; read by the runner where there is a budget to hold to, else 0.
        run_cost: likewise, in US dollars.
        unreported_turns: answers whose usage the provider did not report, so that ``tokens`` lacks them.
        unpriced_turns: answers whose price is unknown, so that ``cost`` lacks them.
        call_ids: of all calls that the model has made.
        ledger: the account of the tool calls, which policies decide by.
        pending: calls that the next ``acting`` step runs.
        results: what those calls came to, for the next ``observing`` step.
        proposal: an answer that no policy has judged yet.
        guidance: shown to the model with its next turn, once.
        outcome: how good the output is; set with the terminal status.
        terminated_by: the policy that ended the run, or ``kernel`` when the kernel did it itself.
        reason: why it ended, in a sentence.
        meta: room for custom kernels; nothing in this package reads it.
        extent: how much of the model's window the transcript takes.
    """

    id: str
    task_id: TaskId
    strategy: ReasoningStrategy
    kernel_type: str
    steps: PersistentList[ReasoningStep] = field(factory=PersistentList, converter=as_list)
    messages: tuple[Message, ...] = ()
    transcript: TranscriptAccount = TranscriptAccount()
    tools_used: frozenset[str] = frozenset()
    scratchpad: PersistentMap[str, str] = field(factory=PersistentMap, converter=as_map)
    shown_in_part: bool = False
    iteration: int = 0
    tokens: int = 0
    cost: float = 0.0
    run_tokens: int = 0
    run_cost: float = 0.0
    unreported_turns: int = 0
    unpriced_turns: int = 0
    status: KernelStatus = "thinking"
    call_ids: PersistentSet[CallId] = field(factory=PersistentSet, converter=as_set)
    ledger: CallLedger = CallLedger()
    pending: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    proposal: Proposal | None = None
    guidance: tuple[Guidance, ...] = ()
    output: str | None = None
    error: KernelErrors | None = None
    outcome: ReasoningStatus | None = None
    terminated_by: str = ""
    reason: str = ""
    meta: JsonObject = field(factory=dict)
    extent: Extent = Extent()


class StateChanges(TypedDict, total=False):
    """The fields that a transition may set, each with its new value."""

    steps: Iterable[ReasoningStep]
    messages: tuple[Message, ...]
    transcript: TranscriptAccount
    tools_used: frozenset[str]
    scratchpad: Mapping[str, str]
    shown_in_part: bool
    iteration: int
    tokens: int
    cost: float
    unreported_turns: int
    unpriced_turns: int
    status: KernelStatus
    call_ids: Iterable[CallId]
    ledger: CallLedger
    pending: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    proposal: Proposal | None
    guidance: tuple[Guidance, ...]
    output: str | None
    error: KernelErrors | None
    outcome: ReasoningStatus | None
    terminated_by: str
    reason: str
    meta: JsonObject
    extent: Extent


def initial_kernel_state(
    *,
    id: str,
    task_id: TaskId,
    strategy: ReasoningStrategy,
    kernel_type: str,
    meta: JsonObject | None = None,
    results: Mapping[str, str] | None = None,
    ledger: CallLedger | None = None,
) -> KernelState:
    """The state that a kernel run begins in: thinking, with nothing done.

    Args:
        id: from the id source.
        results: what was stored before in the same run, by its keys; the model can recall it.
        ledger: of the calls that were made before and count.
    """
    return KernelState(
        id=id,
        task_id=task_id,
        strategy=strategy,
        kernel_type=kernel_type,
        meta=meta or {},
        scratchpad=results or {},
        shown_in_part=bool(results),
        ledger=ledger or CallLedger(),
    )


def transition_state(
    state: KernelState, /, **changes: Unpack[StateChanges]
) -> Result[KernelState, IllegalTransition]:
    """The next state, with the given fields replaced; the old one stays as it is.

    Where messages are not only added, what was counted of them is forgotten, unless ``extent`` is given too.
    Fails with ``IllegalTransition`` when the status may not follow, when iteration, tokens or cost would
    decrease, or when steps would be lost.
    """
    given: dict[str, Any] = {**changes}
    for name, converter in _CONVERTERS.items():
        if name in given:
            given[name] = converter(given[name])
    return successor(state, replaced(state, **given))


_CONVERTERS: Mapping[str, Callable[[Any], object]] = MappingProxyType(
    {"steps": as_list, "scratchpad": as_map, "call_ids": as_set}
)


def successor(old: KernelState, new: KernelState) -> Result[KernelState, IllegalTransition]:
    """``new`` as the next state, as :func:`check_successor` says."""
    return check_successor(old, Success(new))


def check_successor(
    old: KernelState, following: Result[KernelState, _E]
) -> Result[KernelState, _E | IllegalTransition]:
    """``following`` itself if its state may come after ``old``, else ``IllegalTransition``.

    An extent that is still that of ``old``, while the messages are not, loses its counts.
    """
    if not isinstance(following, Success):
        return following
    new = following.unwrap()
    if new.status not in LEGAL_TRANSITIONS[old.status]:
        return Failure(_illegal(old, new, "status", f"{old.status} may not become {new.status}"))
    if new.iteration < old.iteration:
        return Failure(_illegal(old, new, "iteration", f"{old.iteration} would become {new.iteration}"))
    if new.tokens < old.tokens:
        return Failure(_illegal(old, new, "tokens", f"{old.tokens} would become {new.tokens}"))
    if not new.cost >= old.cost:  # also refuses NaN
        return Failure(_illegal(old, new, "cost", f"{old.cost} would become {new.cost}"))
    # members that are the same objects are not compared any further
    if not new.steps.starts_with(old.steps):
        return Failure(_illegal(old, new, "steps", "steps that were taken would be lost"))
    if (
        new.messages is not old.messages
        and new.extent is old.extent
        and new.messages[: len(old.messages)] != old.messages
    ):
        # it was the extent of other messages
        return Success(replaced(new, extent=uncounted(new.extent)))
    return following


def _illegal(old: KernelState, new: KernelState, field_name: str, message: str) -> IllegalTransition:
    return IllegalTransition(f"{field_name}: {message}", field_name, old.status, new.status)


def serialize_kernel_state(state: KernelState) -> SerializedKernelState:
    """Return the state as JSON data, with the version of its form; sets become sorted arrays."""
    return encode_document(state, FORM_VERSION)


def deserialize_kernel_state(data: object) -> Result[KernelState, DecodeError]:
    """Return the state that JSON data of any version describes, or ``DecodeError`` with each problem."""
    return decode_document(data, KernelState, newest=FORM_VERSION)
