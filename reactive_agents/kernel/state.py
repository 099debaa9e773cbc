"""The state of one kernel run, and the only rules by which it may change.

The table below says which status may follow which. Beside it, four things never go back: iteration, tokens
and cost never decrease, and steps are only added. Every next state goes through :func:`successor`, as
:func:`transition_state` does; a change against the rules is an ``IllegalTransition`` value and leaves
everything as it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.codec import decode, decode_document, encode_document, wrong_value
from reactive_agents.core.ids import CallId, TaskId
from reactive_agents.core.json import Json, JsonObject, read_only
from reactive_agents.core.messages import Message, ToolCall
from reactive_agents.core.models import FinishReason
from reactive_agents.core.persistent import (
    NO_ENTRIES,
    NO_ITEMS,
    PersistentList,
    PersistentMap,
    as_list,
    as_map,
)
from reactive_agents.core.results import ReasoningStatus, ReasoningStep, ReasoningStrategy
from reactive_agents.core.tools import ToolResult
from reactive_agents.core.usage import NO_USAGE, RunUsage
from reactive_agents.core.values import OMITTED, Value, replaced
from reactive_agents.kernel.context_window.token_estimate import Transcript, without_counts
from reactive_agents.kernel.ledger import CallLedger

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
_COUNTS = {"usage.cost_usd": "cost", "usage.usage.total_tokens": "tokens"}
"""Names that :func:`transition_state` takes for members of ``usage``."""
TERMINAL: frozenset[KernelStatus] = frozenset({"done", "failed"})


@frozen(eq=False, repr=False)
class Proposal(Value):
    """An answer that a kernel proposes; the policies decide whether it is accepted.

    Attributes:
        text: the answer; blank when the model said nothing.
        finish_reason: why the model stopped.
        call_id: the id of the ``final-answer`` call that delivered it; ``None`` for a text.
        could_not: why the task cannot be done, if the model said so with that call.
        unmade: name of the tool whose call stands in the text, but is not run; empty for none.
        thought: whether the model exposed thinking beside the text.
    """

    text: str
    finish_reason: FinishReason = "stop"
    call_id: CallId | None = None
    could_not: str = ""
    unmade: str = ""
    thought: bool = False


@frozen(eq=False, repr=False)
class Guidance(Value):
    """Guidance of a policy for the model's next turn."""

    policy: str
    text: str


def _kept(meta: Mapping[str, Json]) -> PersistentMap[str, Json]:
    """Return the data of a custom kernel, read-only in its depth too."""
    if isinstance(meta, PersistentMap):
        return meta
    return as_map({key: read_only(each) for key, each in meta.items()})


_NO_TRANSCRIPT = replaced(Transcript())


@frozen(slots=False, eq=False, repr=False)
class KernelState(Value):
    """The state of a kernel run: frozen, comparable, convertible to and from JSON.

    Attributes:
        id: unique for this run of a kernel; prefix of its step ids and of its tool calls' keys.
        messages: the transcript after the stable prefix: the model's turns and the tool results.
        scratchpad: the full text of each tool result, under the key in its observation; and, under keys with
            a colon, other texts that were removed from the transcript.
        transcript: figures of ``messages``: their size, and how much was removed.
        iteration: number of the model's turns.
        usage: tokens and cost of the model's turns, and of models that tools called; answers that could not
            be used belong to their turn.
        run_usage: the usage of the whole run at this step, including that before and beside this kernel;
            ``None`` without a budget.
        run_calls: the tool calls of the whole run likewise; ``None`` where they have no limit.
        passed_limit: the limit of tool calls that a call of the run would have passed, in a sentence.
        ledger: the ledger of the tool calls, by which policies decide.
        pending: calls that the next ``acting`` step runs.
        results: their results, for the next ``observing`` step.
        proposal: a proposed answer that no policy has judged yet.
        guidance: shown to the model with its next turn, once.
        outcome: the quality of the output; set with the terminal status.
        terminated_by: the policy that ended the run, or ``kernel`` when the kernel did.
        reason: why it ended, in a sentence.
        meta: data of custom kernels; nothing in this package reads it.
    """

    id: str
    task_id: TaskId
    strategy: ReasoningStrategy
    kernel_type: str
    steps: PersistentList[ReasoningStep] = field(default=NO_ITEMS, converter=as_list)
    messages: tuple[Message, ...] = ()
    transcript: Transcript = _NO_TRANSCRIPT
    tools_used: frozenset[str] = frozenset()
    scratchpad: PersistentMap[str, str] = field(default=NO_ENTRIES, converter=as_map)
    iteration: int = 0
    usage: RunUsage = NO_USAGE
    run_usage: RunUsage | None = None
    run_calls: int | None = field(default=None, metadata=OMITTED)
    passed_limit: str = field(default="", metadata=OMITTED)
    status: KernelStatus = "thinking"
    ledger: CallLedger = CallLedger()
    pending: tuple[ToolCall, ...] = ()
    results: tuple[ToolResult, ...] = ()
    proposal: Proposal | None = None
    guidance: tuple[Guidance, ...] = ()
    output: str | None = None
    error: errors.KernelErrors | None = None
    outcome: ReasoningStatus | None = None
    terminated_by: str = ""
    reason: str = ""
    meta: PersistentMap[str, Json] = field(default=NO_ENTRIES, converter=_kept)

    @property
    def tokens(self) -> int:
        """Total tokens of ``usage``."""
        return self.usage.tokens

    @property
    def cost(self) -> float:
        """US dollars of ``usage``."""
        return self.usage.cost_usd


_BEGUN: Final = replaced(KernelState("", TaskId(""), "", ""))


def initial_kernel_state(
    *,
    id: str,
    task_id: TaskId,
    strategy: ReasoningStrategy,
    kernel_type: str,
    meta: Mapping[str, Json] | None = None,
    results: Mapping[str, str] | None = None,
    shown_in_part: bool = False,
    ledger: CallLedger | None = None,
) -> KernelState:
    """Return the initial state of a kernel run: thinking, with nothing done.

    Args:
        id: an id from the id source.
        results: the results that were stored before in the same run, by their keys.
        shown_in_part: whether the prompt names one of these keys, so that the model is offered ``recall``.
        ledger: the calls that were made before and count.
    """
    return replaced(
        _BEGUN,
        id=id,
        task_id=task_id,
        strategy=strategy,
        kernel_type=kernel_type,
        meta=_kept(meta) if meta else NO_ENTRIES,
        scratchpad=as_map(results) if results else NO_ENTRIES,
        transcript=Transcript(shown_in_part=True) if shown_in_part else _NO_TRANSCRIPT,
        ledger=ledger or CallLedger(),
    )


def transition_state(state: KernelState, /, **changes: Any) -> Result[KernelState, errors.IllegalTransition]:
    """Return the next state, with the given fields replaced.

    ``tokens`` and ``cost`` may be given in place of ``usage``. Where messages are not only added, the counts
    of their tokens are forgotten, unless ``transcript`` is given too. Fails with ``IllegalTransition`` when
    the status may not follow, when iteration, tokens or cost would decrease, when steps would be lost, and
    when a changed value is of a wrong type or has no JSON form; the message names the value and what is
    expected.

    Raises:
        TypeError: there is no field of that name.
    """
    if "tokens" in changes or "cost" in changes:
        tokens, cost = changes.pop("tokens", state.tokens), changes.pop("cost", state.cost)
        counted = evolve(state.usage.usage, total_tokens=tokens)
        changes["usage"] = evolve(state.usage, usage=counted, cost_usd=cost)
    return custom_successor(state, replaced(state, **changes))


def custom_successor(old: KernelState, new: KernelState) -> Result[KernelState, errors.IllegalTransition]:
    """Return the next state that custom code made, with its values checked."""
    wrong = wrong_value(old, new)
    if wrong is None:
        return successor(old, new)
    field_name = _COUNTS.get(wrong.path) or re.split(r"[.\[]", wrong.path)[0]
    message = f"{field_name}: {wrong.problem}" if wrong.path in _COUNTS else f"{wrong.path}: {wrong.problem}"
    return Failure(errors.IllegalTransition(message, field_name, old.status, str(new.status)))


def successor(old: KernelState, new: KernelState) -> Result[KernelState, errors.IllegalTransition]:
    """Return ``new`` if it may come after ``old``, else ``IllegalTransition``.

    Maps that custom code has put into the state become read-only. An estimate that is still that of ``old``,
    while the messages are not, loses its counts.
    """
    try:
        return _checked(old, new)
    except (TypeError, AttributeError) as error:
        return _illegal(old, new, "state", f"a value is of a wrong type ({error})")


def _checked(old: KernelState, new: KernelState) -> Result[KernelState, errors.IllegalTransition]:
    # members that are the same objects are not compared any further
    backwards = _backwards(old, new)
    if backwards is not None:
        return _illegal(old, new, *backwards)
    changes: dict[str, Any] = {}
    if new.steps is not old.steps:
        if not isinstance(new.steps, PersistentList):
            changes["steps"] = as_list(new.steps)
        if not as_list(new.steps).starts_with(old.steps):
            return _illegal(old, new, "steps", "steps that were taken would be lost")
    if new.scratchpad is not old.scratchpad:
        stored = as_map(new.scratchpad) if isinstance(new.scratchpad, PersistentMap | Mapping) else None
        if stored is None or not _are_texts(stored.added_to(old.scratchpad)):
            return _illegal(old, new, "scratchpad", "expected texts by their keys")
        if stored is not new.scratchpad:
            changes["scratchpad"] = stored
    if new.meta is not old.meta:  # only custom code writes there
        meta = decode(dict(new.meta) if isinstance(new.meta, Mapping) else new.meta, JsonObject)
        if not isinstance(meta, Success):
            return _illegal(old, new, "meta", meta.failure().message)
        changes["meta"] = _kept(meta.unwrap())
    if new.output is not old.output and not isinstance(new.output, str | None):
        return _illegal(old, new, "output", f"expected a text or None, got {type(new.output).__name__}")
    if (
        new.messages is not old.messages
        and new.transcript.estimate is old.transcript.estimate
        and new.messages[: len(old.messages)] != old.messages
    ):
        # it was the estimate of other messages
        changes["transcript"] = evolve(new.transcript, estimate=without_counts(new.transcript.estimate))
    return Success(replaced(new, **changes) if changes else new)


def _backwards(old: KernelState, new: KernelState) -> tuple[str, str] | None:
    """Return the field that may not follow so, or that would decrease, and how."""
    if new.status not in LEGAL_TRANSITIONS[old.status]:
        return "status", f"{old.status} may not become {new.status}"
    if new.iteration < old.iteration:
        return "iteration", f"{old.iteration} would become {new.iteration}"
    before, after = old.usage, new.usage
    if after is before:
        return None
    if after.tokens < before.tokens:
        return "tokens", f"{before.tokens} would become {after.tokens}"
    if not before.cost_usd <= after.cost_usd < inf:  # also refuses NaN
        return "cost", f"{before.cost_usd} would become {after.cost_usd}"
    return None


def _are_texts(stored: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, str) and isinstance(text, str) for key, text in stored.items())


def _illegal(
    old: KernelState, new: KernelState, field_name: str, message: str
) -> Failure[errors.IllegalTransition]:
    return Failure(
        errors.IllegalTransition(f"{field_name}: {message}", field_name, old.status, str(new.status))
    )


def serialize_kernel_state(state: KernelState) -> SerializedKernelState:
    """Return the state as JSON data with the version of its form."""
    return encode_document(state, FORM_VERSION)


def deserialize_kernel_state(data: object) -> Result[KernelState, errors.DecodeError]:
    """Return the state of JSON data of any version, or ``DecodeError``."""
    decoded = decode_document(data, KernelState, newest=FORM_VERSION)
    return decoded.map(lambda state: evolve(state, meta=dict(state.meta)) if state.meta else state)
