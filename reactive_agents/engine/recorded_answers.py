"""The record of a run, as it is read: forms of answers and outcomes, and entries.

Functions between values and the JSON data of entries, and the entries of a run by their keys; nothing here
writes. What is stored must stay readable: a form may get further fields, but none may change its meaning.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from attrs import evolve
from returns.maybe import Maybe, Nothing
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.codec import data_to_json, decode, encode, to_json
from reactive_agents.core.conversation import History, SessionKey, SessionTurn
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.governance import (
    AuditEntry,
    ExternalCallRequest,
    GuardrailReport,
    JudgedAnswer,
    ModelRoute,
    QuestionRequest,
    SpendingRecord,
    VerificationReport,
)
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.memory import FlushReport, MemoryContext, SessionSnapshot
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.plans import Plan
from reactive_agents.core.results import ReasoningResult, ReasoningStep, StrategyEffectiveness, doubt_in
from reactive_agents.core.run_record import AUDITED, OwedStore, RecordedRun, RunEntry, RunStatus
from reactive_agents.core.tasks import SubRun, Task, TaskResult, TaskResultMetadata
from reactive_agents.core.tools import ASK_USER, TurnChanges
from reactive_agents.core.usage import RunUsage, unknown_usage
from reactive_agents.engine.context import RunStopped, sub_run_of
from reactive_agents.kernel.run_budget import attempts_of

if TYPE_CHECKING:
    from reactive_agents.reasoning.structured_output.schema import Shape

ServiceErrors: TypeAlias = (
    errors.MemoryUnavailable
    | errors.ServiceFailed
    | errors.SessionUnavailable
    | errors.SessionRefused
    | errors.OutputValidatorFailed
)

APPROVAL_RULE = "approval.rule"
"""Records the digest of the arguments with which a call may run unasked; empty if it may not."""
SERVICES: Mapping[str, Any] = {
    "memory.bootstrap": MemoryContext,
    "memory.flush": FlushReport,
    "memory.snapshot": None,
    "guardrail.check": GuardrailReport,
    "cost router.select_model": ModelRoute,
    "cost tracking.record": None,
    "verification.verify": VerificationReport,
    "effectiveness.history": tuple[StrategyEffectiveness, ...],
    "effectiveness.record": None,
    "plan store.get": Maybe,
    "plan store.save": None,
    "plan store.update_step": None,
    "plan store.list_plans": tuple[Plan, ...],
    "plan store.rewrite_steps": None,
    "audit.append": None,
    "audit.end": None,
    "sessions.begin": History,
    "output validators.accept": JudgedAnswer,
    "instructions.text": str,
    APPROVAL_RULE: str,
    "tools.withheld": TurnChanges,
}
"""Calls of services that are recorded, with the types of their values; ``None`` for calls that write."""

OWED = "owed:"
"""Begins the key of the entry of what could not be written to a store, and is written later."""
OWED_VALUES: Mapping[OwedStore, Mapping[str, Any]] = {
    "sessions": {"key": SessionKey, "turn": SessionTurn},
    "cost": {"spending": SpendingRecord},
    "memory": {"task": Task, "result": ReasoningResult | None, "snapshot": SessionSnapshot},
    "audit": {"entry": AuditEntry},
}
"""The types of what is written to each store."""
PUBLISHED = "+"
"""Ends the key of the entry that a question was published to the run log."""


def data_of(entry: RunEntry) -> JsonObject:
    """Return the data of an entry."""
    body = json.loads(entry.body)
    return body if isinstance(body, dict) else {}


def decoded(data: Json, kind: Any) -> Any:
    """Return recorded data as a value; stop the run if that is impossible."""
    read = decode(data, kind)
    if isinstance(read, Failure):
        raise RunStopped(errors.RunInterrupted("", f"its record cannot be read: {read.failure().message}"))
    return read.unwrap()


def fingerprint(request: ModelRequest) -> list[Json]:
    """Return a cheap fingerprint of a request."""
    last = request.messages[-1].content if request.messages else ""
    text = last if isinstance(last, str) else to_json(last)
    return [request.purpose, len(request.messages), zlib.crc32(text.encode(errors="backslashreplace"))]


def outcome_data(outcome: Result[Any, Any], name: str, kind: Any, failures: Any) -> JsonObject:
    """Return an outcome as data.

    Args:
        kind: the type of the value, stored under ``name``; ``None`` for a value that is never read.
        failures: the type of the error.
    """
    if not isinstance(outcome, Success):
        return {"error": encode(outcome.failure(), failures)}
    value = outcome.unwrap()
    if kind is None:
        return {name: None}
    return {name: encode(value.value_or(None)) if kind is Maybe else encode(value, kind)}


def outcome_in(body: JsonObject, name: str, kind: Any, failures: Any) -> Result[Any, Any]:
    """Return the outcome in data of :func:`outcome_data`."""
    if name not in body:
        return Failure(decoded(body.get("error"), failures))
    if kind is Maybe:
        return Success(Maybe.from_optional(decoded(body[name], Plan | None)))
    return Success(None if kind is None else decoded(body[name], kind))


def answer_in(body: JsonObject) -> Result[ModelResponse, errors.LLMErrors]:
    """Return the answer of a model in the data of its entry."""
    return outcome_in(body, "answer", ModelResponse, errors.LLMErrors)


def question_data(request: Any, kind: str | None = None) -> JsonObject:
    """Return a request to a person as data; ``kind``: that of an open question."""
    kinds = {QuestionRequest: "question", ExternalCallRequest: "call"}
    return {"kind": kind or kinds.get(type(request), "approval"), "request": encode(request)}


def intent_data(call: ToolCall, edited: JsonObject | None) -> JsonObject:
    """Return the intent of a call as data; ``edited``: arguments of its approver."""
    intent: JsonObject = {"tool": call.name, "arguments": call.arguments}
    return intent if edited is None else {**intent, "edited": edited}


def store_of(entry: RunEntry) -> OwedStore:
    """Return the store that an entry of something owed is for."""
    return cast(OwedStore, entry.key.split(":")[1])


def call_of(entry: RunEntry) -> str:
    """Return the key of the tool call of an entry but a result; empty for none."""
    call, _, name = entry.key.rpartition("/")
    if name.startswith(("audit.append", APPROVAL_RULE)):
        return call if call.rpartition("/")[2].startswith("t") else ""
    if entry.kind not in ("intent", "question", "answer") and not name.endswith(PUBLISHED):
        return ""
    return call if name.startswith("q") else entry.key.rstrip(f"?!={PUBLISHED}")


# --- the entries of a run ---------------------------------------------------------------------------------


ACCEPTED = "accepted"
"""Begins the key of the entry that another version of the agent continues the run."""
_FUNCTION_CALL = re.compile(r"(g\d+\.\d+/)*[tmr]\d+")
"""The keys of the calls that a function makes itself, not within other calls."""
_OF_FUNCTION = frozenset({"intent", "result", "model"})
"""The kinds of the entries of its calls."""
PLACE = "place"
"""The name in the definition of a sub-run for its name among the calls of its caller."""
_SENT = "<"
"""Ends the key of the entry that a request was sent, once for each time."""
_UNPAID: Mapping[str, JsonObject] = {
    "answer": {"refused": [], "cached": True},
    "error": {"refused": []},
    "result": {"usage": []},
}
"""What the parts of a shared entry say of their cost."""


def named_sub_runs(entry: RunEntry) -> list[RunId]:
    """Return the sub-runs that the entry of a call names."""
    body = cast(dict[str, Any], data_of(entry))
    return [*body.get("runs", ()), *(each["run_id"] for each in body.get("sub_runs", ()))]


class ReplayEnded(RunStopped):
    """A replay reached a call that is not recorded; ``difference``: how it differs."""

    def __init__(self, run_id: RunId, key: str, difference: str = "") -> None:
        super().__init__(errors.RunInterrupted(run_id, difference or f"its record ends at {key}"))
        self.key = key
        self.difference = difference


class RecordedEntries(dict[str, RunEntry]):
    """The entries of a run by their keys, with those that it shares with its origin.

    What a fork shares with its origin was paid for there. What this attempt writes is added.

    Args:
        entries: the entries of earlier attempts, and of the run that this one was forked from.
        lenient: whether recorded answers are used even if their request differs.

    Attributes:
        used: the keys of the entries that this attempt has reached.
        calls_left: the recorded calls that a function has still to make again, by their keys.
        asked: the number of questions in each call.
        sent: how often each request was sent.
        within: the answers of models, and the requests that were cut off, by the branches around them.
        owes: the stores that something could not be written to, each once.
    """

    def __init__(self, run: RecordedRun, entries: Sequence[RunEntry], *, lenient: bool = False) -> None:
        super().__init__((each.key, each) for each in entries)
        self.lenient = lenient
        self.used: set[str] = set()
        self._run_id = run.run_id
        self._shared = run.origin_entries
        accepted = (each.number for each in entries if each.key.startswith(ACCEPTED))
        self._accepted = max(accepted, default=0)
        again = [each for each in entries if self.is_shared(each) and call_of(each)]
        for each in again:  # a fork repeats these calls; approvals were for the first time only
            if f"{call_of(each)}=" not in self and self.get(each.key) is each:
                del self[each.key]
        start = self.get(AUDITED)
        if start is not None and self.is_shared(start):
            del self[AUDITED]
        own = [each for each in entries if not self.is_shared(each)]
        self.asked = Counter(call_of(each) for each in own if each.kind == "question")
        self.sent = Counter(each.key.rstrip(_SENT) for each in own if each.kind == "request")
        self.owes: dict[OwedStore, None] = {store_of(each): None for each in own if each.key.startswith(OWED)}
        self.calls_left: dict[str, RunEntry | RecordedRun] = {}
        self.within: dict[str, list[RunEntry]] = {}
        for each in entries:
            if each.kind == "model" or (each.kind == "request" and not self._is_answered(each)):
                for index, character in enumerate(each.key):
                    if character == "/":
                        self.within.setdefault(each.key[: index + 1], []).append(each)

    @cached_property
    def runs_of_services(self) -> frozenset[RunId]:
        """The sub-runs that calls of services began, such as an approval rule."""
        services = (each for each in self.values() if each.kind == "service")
        return frozenset(run_id for each in services for run_id in named_sub_runs(each))

    def is_shared(self, entry: RunEntry) -> bool:
        """Return whether an entry belongs to the run that this one was forked from.

        Entries of this attempt have no number yet.
        """
        return 0 < entry.number <= self._shared

    def may_differ(self, entry: RunEntry) -> bool:
        """Return whether an answer is used even if its request differs."""
        return self.lenient or entry.number < self._accepted

    @property
    def may_be_left_out(self) -> bool:
        """Whether the run may go on without making recorded calls again."""
        return self.lenient or self._accepted > 0

    def _is_answered(self, request: RunEntry) -> bool:
        """Return whether a request is the one that was answered, or one of another run."""
        key = request.key.rstrip(_SENT)
        return self.is_shared(request) or (request.key == self.sent_key(key) and key in self)

    def sent_key(self, key: str) -> str:
        """Return the key of the entry that a request was sent, the latest time."""
        return f"{key}{_SENT * self.sent[key]}"

    def body_of(self, entry: RunEntry) -> JsonObject:
        """Return the data of an entry; what is shared was paid for by another run."""
        body = data_of(entry)
        if self.is_shared(entry):
            for name, unpaid in _UNPAID.items():
                known = body.get(name)
                if isinstance(known, dict) and (name != "error" or "refused" in known):
                    body[name] = {**known, **unpaid}
            body |= {"spent": {}, "usage": []}
        return body

    def results(self) -> list[RunEntry]:
        """Return the entries of the results of calls, in their order."""
        return sorted((each for each in self.values() if each.kind == "result"), key=lambda each: each.number)

    # --- usage ------------------------------------------------------------------------------------------

    def spent_by(self, entry: RunEntry) -> Sequence[RunUsage]:
        """Return the usage of an answer, or of a request that was cut off."""
        body = self.body_of(entry)
        if entry.kind == "request":
            return (unknown_usage(str(body.get("model"))),)
        return attempts_of(answer_in(body))

    def left(self) -> list[RunEntry]:
        """Return the entries of earlier attempts that this one has not reached again.

        Without those within another call, whose usage is that of the call, and without requests that were
        answered or sent again.
        """
        ended = (each.key.rstrip("=") for each in self.values() if each.kind in ("service", "result"))
        within = tuple(f"{key}/" for key in ended)
        return [
            each
            for each in self.values()
            if each.number > self._shared and each.key.rstrip(_SENT) not in self.used
            if not each.key.startswith(within)
            if each.kind != "request" or not self._is_answered(each)
        ]

    def left_within(self, key: str) -> list[RunEntry]:
        """Return requests to models within a call that this attempt has not made again."""
        return [each for each in self.within.get(f"{key}/", ()) if each.key.rstrip(_SENT) not in self.used]

    # --- recorded calls of tools ------------------------------------------------------------------------

    def in_doubt(self) -> list[RunEntry]:
        """Return the intents of calls without a result that this attempt has not reached.

        A question to the user is none of them.
        """
        settled = {
            each.key.rstrip("?!=")
            for each in self.values()
            if each.kind == "answer" and "value" in data_of(each)
        }
        return [
            each
            for each in self.left()
            if each.kind == "intent" and not each.key.endswith("!")
            if f"{each.key}=" not in self and each.key not in settled
            if data_of(each)["tool"] != ASK_USER
        ]

    def call_at(self, key: str) -> RunEntry | None:
        """Return the intent of a recorded call, or the result of one that was not made."""
        return self.get(key) or self.get(f"{key}=")

    def check_call(self, key: str, call: ToolCall) -> None:
        """Raise ``ReplayEnded`` if the recorded call has another tool or other arguments."""
        intent, known = self.get(key), self.call_at(key)
        tool = None if known is None else data_of(known).get("tool")
        if tool != call.name:
            difference = f"it calls {call.name} at {key}, and the record has {tool}."
            raise ReplayEnded(self._run_id, key, difference)
        given = json.loads(data_to_json(call.arguments))
        if intent is not None and data_of(intent).get("arguments") != given:
            difference = f"it calls {call.name} at {key} with other arguments than the recorded ones."
            raise ReplayEnded(self._run_id, key, difference)

    def begin_function(self, sub_runs: Sequence[RecordedRun]) -> None:
        """Note the recorded calls that the function of a workflow has to make again.

        Args:
            sub_runs: those of the run.
        """
        for entry in self.values():
            call = entry.key.removesuffix("=")
            if entry.kind in _OF_FUNCTION and _FUNCTION_CALL.fullmatch(call) and not self.may_differ(entry):
                self.calls_left[call] = entry
        places = {each.definition.get(PLACE, ""): each for each in sub_runs}
        for place in () if self.may_be_left_out else sorted(places, key=_as_numbers):
            if _FUNCTION_CALL.fullmatch(place):
                self.calls_left[place] = places[place]

    def hold_to_record(self, path: str, following: str) -> None:
        """Raise ``ReplayEnded`` if a recorded call of a branch was left out.

        Args:
            path: the path of the branch.
            following: the key of its next call, which may be recorded; empty at its end.
        """
        if not self.calls_left or (following and self.call_at(following) is not None):
            return
        call = next((each for each in self.calls_left if each.startswith(path)), "")
        if not call:
            return
        left, instead = self.calls_left[call], f"makes a new call at {following}" if following else "ends"
        if isinstance(left, RecordedRun):
            made = f"a run of {left.agent_id!r}"
        else:
            tool = data_of(left).get("tool")
            made = "an answer of the model" if left.kind == "model" else f"a call of {tool}"
        raise ReplayEnded(self._run_id, call, f"it {instead}, and the record has {made} at {call}.")


def _as_numbers(place: str) -> list[int]:
    """Return what orders the names of calls as the function made them."""
    return [*map(int, re.findall(r"\d+", place))]


# --- the outcome of a run -------------------------------------------------------------------------------


BEGUN = "sessions.begin1"
"""The key of the entry of what a run was shown of its session."""
_SHOWN = '{"shown":'
"""Begins an outcome whose history is the end of that of its entry, with the number of its messages."""


def stored_outcome(
    outcome: Result[TaskResult, TaskFailed], begun: RunEntry | None = None
) -> tuple[RunStatus, str]:
    """Return the status of an ended run, and its outcome as JSON text.

    Args:
        begun: the entry that has the history of the run, which is then not stored again.
    """
    ended = end_of(outcome)
    if isinstance(ended, TaskResult):
        result = cast(dict[str, Any], encode(ended))
        shown = len(ended.history)
        if shown and begun is not None:
            value: Any = data_of(begun).get("value") or {}
            if value.get("messages", [])[-shown:] == result["history"]:
                return ended.status, data_to_json({"shown": shown, "result": {**result, "history": []}})
        return ended.status, data_to_json({"result": result})
    status: RunStatus = "cancelled" if ended.status == "cancelled" else "failed"
    return status, data_to_json({"failed": encode(ended)})


def end_of(outcome: Result[TaskResult, TaskFailed]) -> TaskResult | TaskFailed:
    """Return the value of an outcome, whichever it is."""
    return outcome.unwrap() if isinstance(outcome, Success) else outcome.failure()


def recorded_outcome(
    run: RecordedRun, shape: Maybe[Shape[Any]] = Nothing
) -> Result[TaskResult, TaskFailed] | errors.RunRefused:
    """Return the outcome of an ended run, without the history that :data:`BEGUN` has.

    Args:
        shape: the current output type, which an earlier version of the agent may not have had.
    """
    if run.status == "cancelled" and not run.result:
        at = run.updated_at or run.task.created_at
        return Failure(cancelled_run(run, at, TaskResultMetadata(0.0, 0.0, 0, 0, "", "", "cancelled")))
    try:
        body = json.loads(run.result or "{}")
    except (ValueError, RecursionError) as error:
        return errors.RunRefused(run.run_id, f"has a result that cannot be read: {error}")
    read: Result[Any, errors.DecodeError]
    if isinstance(body, dict) and "result" in body:
        read = decode(body["result"], TaskResult)
        if isinstance(read, Success):
            wrong = _wrong_output(read.unwrap(), shape.value_or(None))
            return read if wrong is None else errors.RunRefused(run.run_id, wrong)
    else:
        read = decode(body.get("failed") if isinstance(body, dict) else body, TaskFailed)
        if isinstance(read, Success):
            return Failure(read.unwrap())
    return errors.RunRefused(run.run_id, f"has a result that cannot be read: {read.failure().message}")


def lacks_history(run: RecordedRun) -> bool:
    """Return whether the history of an ended run is in its entry alone."""
    return run.result.startswith(_SHOWN)


def with_history(result: TaskResult, run: RecordedRun, entries: Iterable[RunEntry]) -> TaskResult:
    """Return the result of a run with its history, out of its entries."""
    shown: int = json.loads(run.result)["shown"]
    for entry in entries:
        if entry.key == BEGUN:
            read: Any = outcome_in(data_of(entry), "value", History, ServiceErrors)
            return evolve(result, history=read.unwrap().messages[-shown:])
    return result


def cancelled_run(
    run: RecordedRun, at: datetime, metadata: TaskResultMetadata, steps: tuple[ReasoningStep, ...] = ()
) -> TaskFailed:
    """Return the outcome of a run that was cancelled while no process had it.

    Args:
        steps: those of its calls in doubt.
    """
    error = errors.RunCancelled(run.task.id, "bootstrap", doubt_in(steps))
    return TaskFailed(run.run_id, run.task.id, 1, at, error, steps, metadata)


def _wrong_output(result: TaskResult, shape: Shape[Any] | None) -> str | None:
    """Return why the output of a completed run does not fit a shape."""
    if shape is None or result.status != "completed" or result.output is None:
        return None
    from reactive_agents.reasoning.structured_output.answer_parser import read_answer  # seldom needed

    problem = read_answer(result.output, shape).swap().value_or(None)
    return None if problem is None else f"has an output that is no {shape.name}: {problem.message}"


def ended_runs(run: RecordedRun, parent: RunId, agent: str) -> tuple[SubRun, ...]:
    """Return an ended run after its own sub-runs; none if it is unreadable."""
    outcome = recorded_outcome(run)
    if isinstance(outcome, errors.RunRefused):
        return ()
    ended = end_of(outcome)
    below = ended.sub_runs if isinstance(ended, TaskResult) else ()
    return *below, sub_run_of(ended, parent, agent, run.task.input)
