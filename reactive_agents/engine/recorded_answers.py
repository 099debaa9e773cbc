"""The forms in which answers from outside, and the outcome of a run, are recorded.

Functions between values and the JSON data of entries. What is stored must stay readable: a form may get
further fields, but none may change its meaning.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from datetime import datetime
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
from reactive_agents.core.run_record import OwedStore, RecordedRun, RunEntry, RunStatus
from reactive_agents.core.tasks import SubRun, Task, TaskResult, TaskResultMetadata
from reactive_agents.core.tools import TurnChanges
from reactive_agents.engine.context import RunStopped, sub_run_of

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
