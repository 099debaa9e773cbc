"""Durable runs: outside answers are recorded, and reused after a crash.

A durable run is an ordinary run that records every answer from outside under the name of its call: a model's
answer before it is used, a tool call's intent before it and its result after it, answers of services and
people, each with its time. An interrupted run starts again from the beginning; recorded answers return at
once, so that it reaches the point of the interruption without calling anything. Nothing else is stored.

What must stay true: names depend only on the structure of the run (``effects.Branch``); ids and the run's
time come from the record; recorded calls are not repeated; a call without a recorded result is repeated only
if that is harmless; only the process that holds the run writes.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar, cast

import anyio
import anyio.lowlevel
from attrs import evolve, fields_dict, frozen
from returns.maybe import Maybe, Nothing
from returns.result import Failure, Result, Success
from ulid_transform import bytes_to_ulid

from reactive_agents.core import VERSION, errors
from reactive_agents.core.codec import data_to_json, decode, encode, to_json
from reactive_agents.core.conversation import History
from reactive_agents.core.event_redaction import ValueRedactor
from reactive_agents.core.events import TaskCompleted, TaskFailed, ToolCallInDoubt
from reactive_agents.core.governance import (
    ApprovalDecision,
    ApprovalRequest,
    ExternalCallRequest,
    GuardrailReport,
    JudgedAnswer,
    ModelRoute,
    QuestionRequest,
    VerificationReport,
)
from reactive_agents.core.ids import ApprovalId, RunId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.memory import FlushReport, MemoryContext
from reactive_agents.core.messages import ToolCall, UserMessage
from reactive_agents.core.model_settings import NO_SETTINGS
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.plans import Plan
from reactive_agents.core.results import StrategyEffectiveness
from reactive_agents.core.run_context import SessionState
from reactive_agents.core.run_record import (
    EntryKind,
    RecordedRun,
    RunClaim,
    RunEntry,
    RunFilter,
    RunOrder,
    RunStatus,
)
from reactive_agents.core.tasks import AgentResult, SubRun, Task, TaskResult, TaskResultMetadata
from reactive_agents.core.tools import TRIED, ToolResult, ToolScope
from reactive_agents.core.usage import USAGE_RECORDER, RunUsage, UsageRecorder, unknown_usage
from reactive_agents.core.values import replaced
from reactive_agents.effects import BRANCH, Branch, Effect, attempt, beside, effect, to_the_end
from reactive_agents.engine.execution_control import ExecutionControl
from reactive_agents.engine.pipeline import open_services
from reactive_agents.engine.run_content import with_lasting_content
from reactive_agents.engine.run_result import figures_in, place_of_records, sub_run_of
from reactive_agents.engine.services import (
    CALLER,
    NO_OVERRIDES,
    Caller,
    RunStopped,
    events_of,
    publish_start,
)
from reactive_agents.kernel import RunEvents
from reactive_agents.kernel.context import UsageAccount
from reactive_agents.kernel.service_calls import (
    BrokenServiceError,
    ServiceFaults,
    call_outside_record,
    definitions_of,
    model_of,
)
from reactive_agents.ports import Approver, Clock, EventHandler, RunRecord

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent
    from reactive_agents.core.settings import RunSettings
    from reactive_agents.engine.execution import ExecutionEngine
    from reactive_agents.engine.services import EnginePorts, RunOverrides
    from reactive_agents.kernel.events import EventReader
    from reactive_agents.reasoning.structured_output.schema import Shape

_A = TypeVar("_A")
_P = ParamSpec("_P")

IN_DOUBT = (
    "In doubt: the process ended while this call was under way, so it may have taken effect. It was not run "
    "again. Find out whether it took effect before making it again; where that is not possible, report it."
)
"""The result of a call in doubt, for the model."""

_ServiceErrors: TypeAlias = (
    errors.MemoryUnavailable
    | errors.ServiceFailed
    | errors.SessionUnavailable
    | errors.SessionRefused
    | errors.OutputValidatorFailed
)

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
}
"""Calls of services that are recorded, with the types of their values; ``None`` for calls that write."""

UNRECORDED_WRITES = frozenset({"sessions.end"})
"""Idempotent writes, which are not recorded and are skipped in a replay."""

_SENT = "<"
"""Ends the key of the entry that a request was sent, once for each time."""
_PUBLISHED = "+"
"""Ends the key of the entry that a question was published to the run log."""
_ACCEPTED = "accepted"
"""Begins the key of the entry that another version of the agent continues the run."""
_COUNTED = "cost tracking.record1"
"""The key of the entry that the cost of a run was recorded."""
_ALL_RUNS = 1_000_000
_START = "audit.append1"
"""The key of the audit entry of the run's start, which a fork has for itself."""
_UNPAID: Mapping[str, JsonObject] = {
    "answer": {"refused": [], "cached": True},
    "error": {"refused": []},
    "result": {"usage": []},
}
"""What the parts of a shared entry say of their cost."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.5


def _recorded(run_id: RunId, answer: Result[_A, errors.RecordErrors]) -> _A:
    """Return the record's answer; stop the run if the record failed."""
    if isinstance(answer, Failure):
        error = answer.failure()
        interrupted = errors.RunInterrupted(run_id, error.message, error)
        raise RunStopped(interrupted, is_lost=isinstance(error, errors.LeaseLost))
    return answer.unwrap()


class ReplayEnded(RunStopped):
    """A replay reached a call that is not recorded; ``difference``: how it differs."""

    def __init__(self, run_id: RunId, key: str, difference: str = "") -> None:
        super().__init__(errors.RunInterrupted(run_id, difference or f"its record ends at {key}"))
        self.key = key
        self.difference = difference


class RunJournal:
    """Writes the record of a run, and returns recorded answers.

    Args:
        record: the store of entries; ``None`` for a replay, which stores nothing.
        entries: the entries of earlier attempts, and of the run that this one was forked from.
        in_doubt: the policy for a call that may have taken effect.
        lenient: whether recorded answers are used even if their request differs.

    Attributes:
        account: counts the cost of recorded answers.
        events: publishes how calls in doubt were settled.
        control: receives the orders of other processes.
        fail: publishes and returns the failure of the run, with what it has done.
        state: the state of the session, which is recorded with the results of calls.
        reader: the record in which a replay finds sub-runs.
        elsewhere: unfinished sub-runs in records of their own.
        reached: the sub-runs that this attempt has reached; ``None`` for those that are counted.
        requests: the number of requests to people in calls that are not made again.
        accepts: how the agent that continues the run differs from the one that began it.
    """

    def __init__(
        self,
        run: RecordedRun,
        entries: Sequence[RunEntry],
        clock: Clock,
        *,
        record: RunRecord | None = None,
        holder: str = "",
        in_doubt: str = "tell",
        lenient: bool = False,
    ) -> None:
        self.run = run
        self.run_id = run.run_id
        self.holder = holder
        self.record = record
        self.account: UsageAccount | None = None
        self.events: RunEvents | None = None
        self.control: ExecutionControl | None = None
        self.fail: Callable[[errors.RuntimeErrors], TaskFailed] | None = None
        self.state: SessionState | None = None
        self.in_doubt = in_doubt
        self.begun_at = run.created_at or clock.now()
        self.changes: JsonObject = json.loads(run.changes) if run.changes else {}
        self.seed = str(self.changes.get("seed", run.run_id))
        said = [(self.changes["message"], run.origin_entries)] if "message" in self.changes else []
        earlier: Any = self.changes.get("earlier", ())
        self._messages: list[tuple[Any, int]] = [*earlier, *said]
        self._message_places: list[int] = []
        self._clock = clock
        self.lenient = lenient
        self.reader: RunRecord | None = None
        self.elsewhere: dict[RunId, RunRecord] = {}
        self.reached: dict[RunId, RunJournal | None] = {}
        self.requests = 0
        self.accepts: tuple[str, ...] = ()
        self._order: RunOrder = ""
        self._doubts: dict[ApprovalId, str] = {}
        self._handled: dict[str, str] = {}
        self._begun: dict[str, JsonObject] = {}
        self._shared = run.origin_entries
        accepted = (each.number for each in entries if each.key.startswith(_ACCEPTED))
        self._accepted = max(accepted, default=0)
        self._entries = {each.key: each for each in entries}
        again = [each for each in entries if self.is_shared(each) and _call_of(each)]
        for each in again:  # a fork repeats these calls; approvals were for the first time only
            if f"{_call_of(each)}=" not in self._entries and self._entries.get(each.key) is each:
                del self._entries[each.key]
        start = self._entries.get(_START)
        if start is not None and self.is_shared(start):
            del self._entries[_START]
        own = (each for each in entries if each.kind == "question" and not self.is_shared(each))
        self._asked = Counter(map(_call_of, own))
        sent = (each for each in entries if each.kind == "request" and not self.is_shared(each))
        self._sent = Counter(each.key.rstrip(_SENT) for each in sent)
        self._used: set[str] = set()
        self._begun_writes = self._settled_writes = 0
        self._spent: dict[str, list[RunEntry]] = {}
        for each in entries:
            if each.kind == "model" or (each.kind == "request" and not self._is_answered(each)):
                for index, character in enumerate(each.key):
                    if character == "/":
                        self._spent.setdefault(each.key[: index + 1], []).append(each)

    @property
    def size(self) -> int:
        """The number of entries so far."""
        return len(self._entries)

    def is_shared(self, entry: RunEntry) -> bool:
        """Return whether an entry belongs to the run that this one was forked from."""
        return entry.number <= self._shared

    def _may_differ(self, entry: RunEntry) -> bool:
        """Return whether an answer is used even if its request differs."""
        return self.lenient or entry.number < self._accepted

    def _is_answered(self, request: RunEntry) -> bool:
        """Return whether a request is the one that was answered, or one of another run."""
        key = request.key.rstrip(_SENT)
        is_latest = request.key == f"{key}{_SENT * self._sent[key]}"
        return self.is_shared(request) or (is_latest and key in self._entries)

    def _is_lost(self, request: RunEntry) -> bool:
        """Return whether a request was cut off and not reached again."""
        return not self._is_answered(request) and request.key.rstrip(_SENT) not in self._used

    def body_of(self, entry: RunEntry) -> JsonObject:
        """Return the data of an entry; what is shared was paid for by another run."""
        body = _loaded(entry)
        if self.is_shared(entry):
            for name, unpaid in _UNPAID.items():
                known = body.get(name)
                if isinstance(known, dict) and (name != "error" or "refused" in known):
                    body[name] = {**known, **unpaid}
            body |= {"spent": {}, "usage": []}
        return body

    def used(self, keys: Iterable[str]) -> int:
        """Return how many of these entries were used."""
        return sum(key in self._used for key in keys)

    def recorded_ports(self, ports: EnginePorts) -> EnginePorts:
        """Return the services of an engine with the clock and ids of this run."""
        return evolve(ports, clock=RunClock(ports.clock, self), ids=RunIds(self))

    # --- entries ------------------------------------------------------------------------------------------

    def find(self, key: str) -> RunEntry | None:
        """Return the recorded entry of a key, and advance the run's time to it."""
        entry = self._entries.get(key)
        if entry is not None:
            self._used.add(key)
            self._arrive(entry.at)
        elif self.record is None and not key.endswith(("?", "=")):
            raise ReplayEnded(self.run_id, key)
        return entry

    def lacks(self, key: str) -> bool:
        """Return whether this is a replay whose record lacks a key."""
        return self.record is None and key not in self._entries

    async def keep(
        self, key: str, kind: EntryKind, body: JsonObject, *, durable: bool = False, later: bool = False
    ) -> None:
        """Write an entry, and wait until it is stored.

        Args:
            later: whether to wait only in :meth:`settle`, before the next call outside of the run.

        Raises:
            RunStopped: it cannot be written, or the run belongs to another process.
        """
        if self.record is None:
            return
        text = data_to_json(body)
        branch, now = BRANCH.get(), self._clock.now()
        if isinstance(branch, RunBranch) and branch.journal is self:
            now = max(now, branch.at)  # the run's time never goes back
        entry, begun = RunEntry(key, kind, now, text), self._begun_writes
        written = await _of_record(
            self.record, RunRecord.append, None, self.run_id, self.holder, entry, durable=durable, later=later
        )
        order = _recorded(self.run_id, written)
        self._entries[key] = entry
        self._arrive(now)
        if order is None:
            self._begun_writes += 1
        else:  # earlier pending entries were written with it
            self._settled_writes = max(begun, self._settled_writes)
            self.follow(order)

    async def settle(self) -> None:
        """Wait until all entries are stored, or raise ``RunStopped``."""
        begun = self._begun_writes
        if self.record is None or begun == self._settled_writes:
            return
        settled = await _of_record(self.record, RunRecord.settle, None, self.run_id, self.holder)
        order = _recorded(self.run_id, settled)
        self._settled_writes = max(begun, self._settled_writes)
        if order is not None:
            self.follow(order)

    def follow(self, order: RunOrder) -> None:
        """Carry out an order of another process, once; callable from any thread."""
        control = self.control
        if order == self._order or control is None or self.record is None:
            return
        earlier, self._order = self._order, order
        if order == "pause":
            control.pause()
        elif order == "cancel":
            control.cancel()
        elif not order and earlier == "pause":
            control.resume()

    def _arrive(self, at: datetime) -> None:
        branch = BRANCH.get()
        if isinstance(branch, RunBranch) and branch.journal is self:
            branch.at = max(branch.at, at)

    # --- answers of models --------------------------------------------------------------------------------

    def find_answer(
        self, request: ModelRequest
    ) -> tuple[str, Result[ModelResponse, errors.LLMErrors] | None, int]:
        """Return a request's key and recorded answer, and how often it was cut off before.

        Raises:
            ReplayEnded: it differs from the recorded request, or a replay has no answer to it.
        """
        key = _branch_of(self).name("m")
        entry = self.find(key)
        self._used.add(key)
        if request.purpose == "think":
            for _, shared in self._messages[len(self._message_places) :]:
                if entry is None or entry.number > shared:
                    self._message_places.append(len(request.messages))
        sent = self._sent[key]
        if entry is None:
            return key, None, sent
        body = self.body_of(entry)
        asked = body.get("asked")
        if asked != _asked(request) and not self._may_differ(entry):
            raise ReplayEnded(self.run_id, key, f"its request at {key} differs from the recorded one.")
        return key, _answer_of(body), max(0, sent - 1)

    async def prepared(self, key: str, request: ModelRequest, model: str) -> ModelRequest:
        """Return the request with the changes of a fork: another model, further messages.

        That it is being sent is recorded: one whose answer is not recorded was cut off.
        """
        changed = self.changes.get("model")
        if isinstance(changed, str):
            request, model = evolve(request, model=changed), changed
        await self.settle()
        self._sent[key] += 1
        await self.keep(f"{key}{_SENT * self._sent[key]}", "request", {"model": model}, later=True)
        if self._message_places and request.purpose == "think":
            messages = list(request.messages)
            for (text, _), at in reversed([*zip(self._messages, self._message_places, strict=False)]):
                messages.insert(at, UserMessage(text))
            request = evolve(request, messages=tuple(messages))
        return request

    async def keep_answer(
        self, key: str, request: ModelRequest, answer: Result[ModelResponse, errors.LLMErrors]
    ) -> None:
        """Record the answer to a request, before it is used."""
        body = _body_of(answer, "answer", ModelResponse, errors.LLMErrors)
        await self.keep(key, "model", {"asked": _asked(request), **body}, later=True)

    def count_spent(self, path: str, also: Sequence[RunUsage] = ()) -> None:
        """Count the usage of a branch that is not run again."""
        if self.account is None:
            return
        self.account.add(also)
        for entry in self._spent.get(path, ()):
            self.account.add(self._spent_by(entry))

    def _spent_by(self, entry: RunEntry) -> Sequence[RunUsage]:
        """Return the usage of an answer, or of a request that was cut off."""
        body = self.body_of(entry)
        if entry.kind == "request":
            return (unknown_usage(str(body.get("model"))),)
        answer = _answer_of(body)
        return (
            answer.unwrap().spent
            if isinstance(answer, Success)
            else errors.refused_attempts(answer.failure())
        )

    async def count_rest(self, place: object = "") -> None:
        """Count the calls in the record that a run which ends has not reached again.

        Args:
            place: of the records of the run's cost, which have what a sub-run has recorded itself.
        """
        if self.account is None or self.record is None:
            return
        await self._count_sub_runs(self.account, self.record, place)
        rest = [
            each for each in self._entries.values() if not self.is_shared(each) and each.key not in self._used
        ]
        ended = tuple(
            f"{each.key.rstrip('=')}/"
            for each in self._entries.values()
            if each.kind in ("service", "result")
        )
        for entry in rest:
            if entry.key.startswith(ended):  # its usage is that of the call around it
                continue
            body = self.body_of(entry)
            if entry.kind == "service":
                usage = _decoded(body["usage"], tuple[RunUsage, ...]) if "usage" in body else ()
                self.count_spent(f"{entry.key}/", usage)
            elif entry.kind == "result":
                outcome = _outcome_in(body, "result", ToolResult, errors.ToolErrors)
                result = outcome.value_or(None)
                if result is not None:
                    self.account.add(result.usage)
                if result is None or result.origin in TRIED:
                    self.account.count_calls(1)
                await self._take_in(body)
            elif entry.kind == "model" or (entry.kind == "request" and self._is_lost(entry)):
                self.account.add(self._spent_by(entry))

    async def _count_sub_runs(self, account: UsageAccount, record: RunRecord, place: object) -> None:
        """Count the sub-runs in the record that no result of a call has."""
        known = {*self.reached}
        for entry in self._entries.values():
            if entry.kind == "result":
                body = cast(dict[str, Any], _loaded(entry))
                known.update(body.get("runs", ()), (each["run_id"] for each in body.get("sub_runs", ())))
        every = RunFilter(parent=self.run_id, children=True, limit=_ALL_RUNS)
        runs = await _of_record(record, RunRecord.runs, tuple, every)
        for run in runs.value_or(()):
            if run.parent == self.run_id and run.run_id not in known and not run.is_held:
                entries = await _of_record(record, RunRecord.entries, tuple, run.run_id)
                left = RunJournal(run, entries.value_or(()), self._clock, record=record)
                left.account = UsageAccount(account)
                self.reached[run.run_id] = left
        for below in self.reached.values():
            if below is not None and below.account is not None:
                await below.count_rest(place)
                caller = CALLER.get()
                if caller is not None and _COUNTED in below._entries:
                    caller.take_in((), {place: below.account.models})

    # --- tool calls ---------------------------------------------------------------------------------------

    def restore(self, state: SessionState) -> None:
        """Set the state of the session to that after the recorded calls, once."""
        if self.state is None:
            self.state = state
            results = [each for each in self._entries.values() if each.kind == "result"]
            for entry in sorted(results, key=lambda each: each.number):
                body = self.body_of(entry)
                if isinstance(known := body.get("state"), dict):  # the whole state, of earlier versions
                    state.become(known)
                elif isinstance(changes := body.get("changes"), dict):
                    state.take_in(changes)

    async def call_tool(self, made: RecordedCall) -> tuple[Result[ToolResult, errors.ToolErrors], bool]:
        """Return the outcome of a tool call, and whether it was recorded before."""
        branch = _branch_of(self)
        key = branch.name("t")
        known = self._entries.get(f"{key}=")
        if known is not None:
            self._used.add(known.key)
            self._arrive(known.at)
            self.requests += self._asked[key]
            body = self.body_of(known)
            if body.get("tool") != made.call.name and not self._may_differ(known):
                difference = f"it calls {made.call.name} at {key}, and the record has {body.get('tool')}."
                raise ReplayEnded(self.run_id, key, difference)
            if "doubt" in body:  # its process may have died before publishing this
                self._publish_doubt(key, made, body["doubt"])
            await self._take_in(body)
            recorded = _outcome_in(body, "result", ToolResult, errors.ToolErrors)
            return recorded.map(lambda result: evolve(result, call_id=made.call.id)), True
        if self.record is None:
            raise ReplayEnded(self.run_id, key)
        outcome = (
            await self._settled(key, made.as_intended(self._entries[key])) if key in self._entries else None
        )
        if outcome is None:
            outcome = await self._made(key, made, branch)
        kept = {"tool": made.call.name, **_body_of(outcome, "result", ToolResult, errors.ToolErrors)}
        if key in self._handled:
            kept["doubt"] = self._handled[key]
        kept.update(self._begun.pop(key, {}))
        if f"{key}/q1?" in self._entries:  # questions to people are not published again
            await self.flush()
        changes = None if self.state is None else self.state.take_changes()
        if changes:
            kept["changes"] = changes
        await self.keep(f"{key}=", "result", kept, later=True)
        return outcome, False

    async def _made(
        self, key: str, made: RecordedCall, branch: RunBranch
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Record the intent of a call, then make it."""

        async def intend(edited: JsonObject | None = None) -> None:
            if key not in self._entries:
                await self.keep(key, "intent", _intent_of(made.call, edited), durable=not made.repeatable)
            else:
                await self.settle()
                self._arrive(self._entries[key].at)

        approver = made.approver
        if made.needs_approval and approver is not None:
            approver = _IntendingApprover(approver, intend)
        elif not made.needs_approval:
            await intend()
        caller = CALLER.get()
        own = None if caller is None else replaced(caller, sub_runs=[], recorded={})
        token, above = BRANCH.set(branch.fork(key)), CALLER.set(own)
        try:
            return await made.execute(replaced(made.scope, call_key=self.call_key(key)), approver)
        finally:
            CALLER.reset(above)
            BRANCH.reset(token)
            if caller is not None and own is not None and own.sub_runs:
                caller.take_in(own.sub_runs, own.recorded)
                self._begun[key] = {
                    **await self._noted(own.sub_runs),
                    "spent": {
                        place: encode(parts, tuple[RunUsage, ...])
                        for place, parts in own.recorded.items()
                        if isinstance(place, str)
                    },
                }

    async def _noted(self, sub_runs: Sequence[SubRun]) -> JsonObject:
        """Return the sub-runs of a call: their ids, or whole if another record has one."""
        begun = [each.run_id for each in sub_runs if each.parent_run_id == self.run_id]
        assert self.record is not None, "a replay makes no call"
        for run_id in begun:
            found = await _of_record(self.record, RunRecord.find, None, run_id)
            if found.value_or(None) is None:
                return {"sub_runs": encode(tuple(sub_runs), tuple[SubRun, ...])}
        return {"runs": [*begun]}

    async def _take_in(self, body: Mapping[str, Any]) -> None:
        """Add the sub-runs of a recorded call to the run."""
        caller, record = CALLER.get(), self.record or self.reader
        if caller is None or record is None:
            return
        for run_id in body.get("runs", ()):
            found = await attempt(record.find(RunId(run_id)))
            run = found.value_or(None)
            if run is not None and run.result:
                self._know(caller, _ended_runs(run, self.run_id, run.agent_id))
        if "sub_runs" in body:
            self._know(caller, _decoded(body["sub_runs"], tuple[SubRun, ...]))
        recorded = body.get("spent", {}).items()
        caller.take_in((), {place: _decoded(parts, tuple[RunUsage, ...]) for place, parts in recorded})

    def _know(self, caller: Caller, sub_runs: Sequence[SubRun]) -> None:
        """Add sub-runs that ended before, and their tool calls."""
        caller.take_in(sub_runs, {})
        own = (each.metadata.tool_calls for each in sub_runs if each.parent_run_id == self.run_id)
        caller.account.count_calls(sum(own))

    def call_key(self, key: str) -> str:
        """Return the idempotency key of a call."""
        return f"{self.run_id}:{key}"

    async def _settled(self, key: str, made: RecordedCall) -> Result[ToolResult, errors.ToolErrors] | None:
        """Return the outcome of a call in doubt; ``None`` to repeat it."""
        if made.resumable:
            return None
        if made.repeatable:
            self._publish_doubt(key, made, "repeated")
            return None
        if made.probe is not None:
            found = await made.probe(self.call_key(key))
            if found is not None and found != (None,):
                (done,) = found
                if done is False:
                    self._publish_doubt(key, made, "repeated")
                    return None
                self._publish_doubt(key, made, "settled")
                value: Json = "It was done; its result was lost." if done is True else done
                return made.with_result(value)
        return await self._asked_about(key, made)

    async def _asked_about(
        self, key: str, made: RecordedCall
    ) -> Result[ToolResult, errors.ToolErrors] | None:
        tried = key
        while f"{tried}!" in self._entries:  # it was repeated, and that call is in doubt too
            tried += "!"
        question = f"{tried}?"
        told = made.with_result(None, IN_DOUBT).map(lambda result: evolve(result, origin="in_doubt"))
        answer = self._entries.get(f"{question}=")
        request = _doubt_request(f"{self.call_key(tried)}/doubt", made)  # "?" would end the path of a URL
        if self.in_doubt == "ask" and made.approver is not None:
            self._doubts[request.approval_id] = question
            await attempt(made.approver.decide(request))  # through ``ask``, which records the answer
            answer = await self._fetched(f"{question}=")
        elif answer is None and self.in_doubt == "fail":
            if question not in self._entries:
                await self.keep(question, "question", _question_of(request, "doubt"), durable=True)
            answer = await self._fetched(f"{question}=")
            if answer is None:
                self._publish_doubt(key, made, "stopped")
                reason = f"the call {key} of {made.call.name} may have taken effect; settle it, then resume."
                raise RunStopped(errors.RunInterrupted(self.run_id, reason))
        given = {} if answer is None else _loaded(answer)
        if "value" in given:
            self._publish_doubt(key, made, "settled")
            return made.with_result(given["value"])
        if given.get("approved") is True:
            await self.keep(f"{tried}!", "intent", _intent_of(made.call, made.edited), durable=True)
            self._publish_doubt(key, made, "repeated")
            return None
        self._publish_doubt(key, made, "told")
        return told

    def _publish_doubt(self, key: str, made: RecordedCall, handling: Any) -> None:
        self._handled[key] = handling
        if self.events is not None:
            call = made.call
            self.events.publish(ToolCallInDoubt, call.name, call.id, self.call_key(key), handling)

    # --- answers of people --------------------------------------------------------------------------------

    async def ask(
        self,
        request: Any,
        expected: type[_A],
        live: Callable[[], Awaitable[Result[_A, errors.ServiceFailed]]],
        publish: Callable[[], None],
    ) -> Result[_A, errors.ServiceFailed]:
        """Return the answer of a person, and record it with its question.

        It may come from another process, and after any number of restarts.

        Args:
            request: a request for approval, a question, or an external call.
            live: asks in this process.
            publish: publishes the request, as ``live`` does.
        """
        doubt = self._doubts.get(request.approval_id) if isinstance(request, ApprovalRequest) else None
        key = doubt or f"{_branch_of(self).name('q')}?"
        known = self._entries.get(f"{key}=")
        if known is None:
            if self.record is None:
                raise ReplayEnded(self.run_id, key)
            if key not in self._entries:
                kind = None if doubt is None else "doubt"
                await self.keep(key, "question", _question_of(request, kind), durable=True)
            outcome: list[Result[_A, errors.ServiceFailed]] = []
            async with self._answered(key):
                outcome.append(await live())
            if outcome and not isinstance(outcome[0], Success):
                return outcome[0]
            if outcome:
                await self._answer(f"{key}=", cast(JsonObject, encode(outcome[0].unwrap())))
            known = await self._fetched(f"{key}=")
        elif self.record is not None and f"{key}{_PUBLISHED}" not in self._entries:
            publish()  # the asking process died before it was logged
        if known is None:
            raise self._lost()
        self._arrive(known.at)
        body = _loaded(known)
        if doubt is not None and "value" in body:
            body = {"approved": False, "reason": "Its result was given."}
        return Success(_decoded(body, expected))

    @asynccontextmanager
    async def _answered(self, question: str) -> AsyncIterator[None]:
        """Leave the block when another process has answered a question."""
        stopped: list[RunStopped] = []

        async def look(scope: anyio.CancelScope) -> None:
            pause_s = _FIRST_WAIT_S
            await anyio.lowlevel.checkpoint()
            await self.flush()
            try:
                if f"{question}{_PUBLISHED}" not in self._entries:
                    await self.keep(f"{question}{_PUBLISHED}", "service", {})
                while await self._fetched(f"{question}=") is None:
                    if self._order == "lost":
                        raise self._lost()
                    await anyio.sleep(pause_s)
                    pause_s = min(pause_s * 1.5, _LONGEST_WAIT_S)
            except RunStopped as error:
                stopped.append(error)
            scope.cancel()

        async with beside(look):
            yield
        if stopped:
            raise stopped[0]

    async def _answer(self, key: str, body: JsonObject) -> None:
        assert self.record is not None
        entry = RunEntry(key, "answer", self._clock.now(), data_to_json(body))
        _recorded(self.run_id, await _of_record(self.record, RunRecord.answer, None, self.run_id, entry))

    async def is_deleted(self) -> bool:
        """Return whether the run was deleted from its record."""
        if self.record is None:
            return False
        return await _of_record(self.record, RunRecord.find, None, self.run_id) == Success(None)

    async def flush(self) -> None:
        """Wait until the events so far are stored."""
        if self.events is not None:
            await self.events.flush()

    def _lost(self) -> RunStopped:
        lost = errors.LeaseLost(self.run_id)
        return RunStopped(errors.RunInterrupted(self.run_id, lost.message, lost), is_lost=True)

    async def _fetched(self, key: str) -> RunEntry | None:
        """Return an entry that another process may have written."""
        if self.record is None:
            return None
        found = await _of_record(self.record, RunRecord.entry, None, self.run_id, key)
        entry = _recorded(self.run_id, found)
        if entry is not None:
            self._entries[key] = entry
        return entry


class RunBranch(Branch):
    """A branch of a durable run; ``at``: the time of its latest answer, its clock."""

    __slots__ = ("at", "journal")

    def __init__(self, journal: RunJournal, path: str = "", at: datetime | None = None) -> None:
        super().__init__(path)
        self.journal = journal
        self.at = at or journal.begun_at

    def fork(self, name: str) -> Branch:
        """Return the branch with a name."""
        return RunBranch(self.journal, f"{name}/", self.at)

    def join(self, branches: Sequence[Branch]) -> None:
        """Advance to the latest time of the branches."""
        self.at = max(self.at, *(each.at for each in branches if isinstance(each, RunBranch)))

    async def once(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the recorded result of a service call, or make the call and record it."""
        journal = self.journal
        if name not in SERVICES:
            skipped = journal.record is None and name in UNRECORDED_WRITES
            return Success(None) if skipped else await call()
        if name == "sessions.begin" and journal.record is not None:
            call = partial(_turn_or_stop, journal.run_id, call)
        key, kind = self.name(name), SERVICES[name]
        if kind is None and journal.lacks(key):  # its record ended while the run was being closed
            return Success(None)
        entry = journal.find(key)
        if entry is not None:
            if name == "sessions.begin" and journal.record is not None:  # its turn is taken again
                begun = await call()
                if not isinstance(begun, Success):
                    return begun
            body = journal.body_of(entry)
            spent = _decoded(body["usage"], tuple[RunUsage, ...]) if "usage" in body else ()
            journal.count_spent(f"{key}/", spent)
            return _outcome_in(body, "value", kind, _ServiceErrors)
        await journal.settle()
        used: list[RunUsage] = []
        branch = BRANCH.set(self.fork(key))
        recorder = USAGE_RECORDER.set(_also_noting(used, USAGE_RECORDER.get()))
        try:
            outcome = await call()
        finally:
            USAGE_RECORDER.reset(recorder)
            BRANCH.reset(branch)
        body = _body_of(outcome, "value", kind, _ServiceErrors)
        if used:
            body["usage"] = encode(tuple(used), tuple[RunUsage, ...])
        await journal.keep(key, "service", body, later=True)
        return outcome


async def _turn_or_stop(run_id: RunId, begin: Callable[[], Awaitable[Any]]) -> Any:
    """Return the turn of a session; interrupt the run if the store cannot be used now."""
    begun = await begin()
    error = begun.failure() if isinstance(begun, Failure) else None
    if isinstance(error, errors.SessionUnavailable):
        raise RunStopped(errors.RunInterrupted(run_id, error.message, error))
    return begun


class RunClock:
    """The clock of a durable run: the time of its latest answer; durations are real."""

    def __init__(self, clock: Clock, journal: RunJournal) -> None:
        self.monotonic = clock.monotonic
        self._journal = journal

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        branch = BRANCH.get()
        if isinstance(branch, RunBranch) and branch.journal is self._journal:
            return branch.at
        return self._journal.begun_at


class RunIds:
    """Derives the ids of a durable run from its run id."""

    def __init__(self, journal: RunJournal) -> None:
        self._journal = journal

    def new(self) -> str:
        """Return the next id of the branch: a ULID with the time of the run's start."""
        return derived_id(self._journal.seed, _branch_of(self._journal).name("id"), self._journal.begun_at)


def derived_id(seed: str, name: str, at: datetime) -> str:
    """Return the ULID of a name in a run."""
    digest = sha256(f"{seed}\0{name}".encode(errors="backslashreplace")).digest()
    return bytes_to_ulid(int(at.timestamp() * 1000).to_bytes(6, "big") + digest[:10])


@frozen(eq=False)
class RecordedCall:
    """A tool call and the means to execute it.

    Attributes:
        execute: makes the call, in a scope and with an approver.
        repeatable: whether it may be repeated with the same idempotency key.
        resumable: whether it only begins durable runs, which resume.
        probe: returns whether the call with an idempotency key was done, and its result; ``None`` if unknown.
        edited: the arguments that an approver gave before the call was made; ``None`` for those of the call.
    """

    call: ToolCall
    scope: ToolScope
    approver: Approver | None
    execute: Callable[[ToolScope, Approver | None], Awaitable[Result[ToolResult, errors.ToolErrors]]]
    needs_approval: bool
    repeatable: bool
    resumable: bool
    probe: Callable[[str], Awaitable[tuple[Json] | None]] | None = None
    edited: JsonObject | None = None

    def as_intended(self, intent: RunEntry) -> RecordedCall:
        """Return the call with the arguments that an approver gave before it was made."""
        edited: Any = _loaded(intent).get("edited")
        return evolve(self, edited=edited)

    def with_result(self, value: Json, error: str = "") -> Result[ToolResult, errors.ToolErrors]:
        """Return what is known of a call that was made before."""
        return Success(ToolResult(self.call.id, self.call.name, value, error, arguments=self.edited))


class _IntendingApprover:
    """An approver that records the intent of an approved call."""

    def __init__(self, approver: Approver, intend: Callable[[JsonObject | None], Awaitable[None]]) -> None:
        self._approver = approver
        self._intend = intend

    @effect
    async def decide(self, request: ApprovalRequest) -> Result[ApprovalDecision, errors.ServiceFailed]:
        """Return the decision, after recording the intent of an approved call."""
        decided = await attempt(self._approver.decide(request))
        if isinstance(decided, Success) and decided.unwrap().approved is True:
            await self._intend(decided.unwrap().arguments)
        return decided


# --- a durable run from its claim to its end ------------------------------------------------------------


async def conduct_durably(
    engine: ExecutionEngine, task: Task, run_id: RunId | None, overrides: RunOverrides, *, streaming: bool
) -> Result[TaskResult, TaskFailed]:
    """Run a task once under its run id, even if processes fail.

    Returns the recorded result of a run that has ended, waits for one in another process, and continues one
    that was interrupted.
    """
    caller = BRANCH.get()
    parent = caller.journal if isinstance(caller, RunBranch) else None
    if parent is not None:
        run_id = run_id or RunId(
            derived_id(f"{parent.run_id}", _branch_of(parent).name("r"), parent.begun_at)
        )
        if parent.record is None:
            return await _replayed(engine, run_id, overrides, parent)
    record = engine.ports.record.value_or(None if parent is None else parent.record)
    if record is None:
        raise RuntimeError("A durable run has no record.")
    accept_changes = overrides.accept_changes or (parent is not None and parent.lenient)
    is_known = run_id is not None and not overrides.reserved
    run_id = run_id or RunId(engine.ports.ids.new())
    if task.parts:
        task = await with_lasting_content(task, run_id, engine.ports, engine.settings.content)
    journal: RunJournal | None = None

    def follow(order: RunOrder) -> None:
        if journal is not None:  # of another process, which may come before it exists
            journal.follow(order)

    describe = partial(_described_run, engine, task, run_id, overrides, parent)
    claimed = await _claimed(
        record, run_id, task, describe, follow, overrides, is_known=is_known, accept_changes=accept_changes
    )
    if not isinstance(claimed, Success):
        return _not_begun(engine, task, run_id, claimed.failure(), parent)
    claim, run = claimed.unwrap()
    if overrides.cancels:
        claim = evolve(claim, run=evolve(claim.run, order="cancel"))
    if claim.state == "ended":
        if parent is not None:
            parent.reached[run_id] = None
            _count_ended_run(engine, claim.run)
        return _ended_run(engine, task, claim.run, overrides)
    try:
        read = await _earlier_entries(record, claim, run, accept_changes=accept_changes)
    except GeneratorExit:  # no await is allowed from here on
        record.abandon(claim.holder)
        raise
    except BaseException:
        await to_the_end(partial(_release, record, run_id, claim.holder))
        raise
    if isinstance(read, Failure):
        refusal = read.failure()
        if claim.holder:
            await _of_record(record, RunRecord.release, None, run_id, claim.holder)
        if parent is not None:  # its caller would see a failed call, and try another way
            problem = f"has a run of {engine.settings.name!r} that {refusal.problem}"
            raise RunStopped(evolve(refusal, run_id=parent.run_id, problem=problem))
        return refused_run(engine, task, run_id, refusal, overrides.readers)
    durability, callers = engine.settings.durability, "tell" if parent is None else parent.in_doubt
    journal = RunJournal(
        _with_settings(claim.run, task),
        read.unwrap(),
        engine.ports.clock,
        record=record,
        holder=claim.holder,
        in_doubt=callers if durability is None else durability.in_doubt,
        lenient=accept_changes or claim.run.origin is not None,
    )
    if claim.state != "new":
        journal.accepts = definition_changes(claim.run.definition, run.definition)
    engine, is_nested = engine_of(engine, journal), parent is not None
    below: dict[RunId, RunRecord] = {} if parent is None else parent.elsewhere
    if parent is not None:
        parent.reached[run_id] = journal
        if record is not parent.record:
            below[run_id] = record
    try:
        outcome = await _conducted(engine, journal, record, overrides, streaming=streaming, nested=is_nested)
    except BaseException:
        below.update(journal.elsewhere)
        raise
    below.pop(run_id, None)
    if parent is not None:
        parent.reached[run_id] = None
    return outcome


async def _described_run(
    engine: ExecutionEngine, task: Task, run_id: RunId, overrides: RunOverrides, parent: RunJournal | None
) -> RecordedRun:
    """Return the run as it is added to the record.

    Raises:
        BrokenServiceError: a service cannot be opened, or the tool service breaks its port.
    """
    definition, of, now = await engine_definition(engine), task.agent_id, engine.ports.clock.now()
    if parent is not None:
        return RecordedRun(run_id, of, task, definition, parent=parent.run_id, created_at=now)
    return RecordedRun(run_id, of, task, {**definition, **_given_options(overrides)}, created_at=now)


async def _earlier_entries(
    record: RunRecord, claim: RunClaim, run: RecordedRun, *, accept_changes: bool
) -> Result[tuple[RunEntry, ...], errors.RunRefused]:
    """Return the entries of a claimed run, or why it is not continued."""
    refusal = _refusal(claim, run, accept_changes=accept_changes)
    if refusal is not None:
        return Failure(refusal)
    if claim.state == "new" and not claim.run.origin_entries:
        return Success(())
    read = await _of_record(record, RunRecord.entries, tuple, run.run_id)
    return read.alt(lambda failed: errors.RunRefused(run.run_id, f"cannot be read: {failed.message}"))


def _with_settings(run: RecordedRun, task: Task) -> RecordedRun:
    """Return the run with the given settings, whose secrets the record lacks.

    A budget that is given holds in place of the recorded one.
    """
    given = task.model_settings
    if task.budget is not None:
        run = evolve(run, task=evolve(run.task, budget=task.budget))
    if given is None:
        return run
    merged = given.over(run.task.model_settings or NO_SETTINGS)
    return evolve(run, task=evolve(run.task, model_settings=merged))


async def _replayed(
    engine: ExecutionEngine, run_id: RunId | None, overrides: RunOverrides, parent: RunJournal
) -> Result[TaskResult, TaskFailed]:
    """Replay a sub-run, such as a run of another agent."""
    from reactive_agents.engine.replay import replaying_engine

    reader = parent.reader
    found = None if reader is None or run_id is None else await attempt(reader.find(run_id))
    run = found.unwrap() if isinstance(found, Success) else None
    if reader is None or run is None:
        raise ReplayEnded(parent.run_id, f"the run {run_id} of another agent")
    read = await attempt(reader.entries(run.run_id))
    if not isinstance(read, Success):
        raise ReplayEnded(parent.run_id, f"the run {run_id}", read.failure().message)
    journal = RunJournal(run, read.unwrap(), engine.ports.clock, lenient=parent.lenient)
    journal.reader = reader
    token = BRANCH.set(RunBranch(journal))
    try:
        return await replaying_engine(engine, EventSink(bool)).conduct_phases(
            run.task, run.run_id, overrides, streaming=False, journal=journal
        )
    finally:
        BRANCH.reset(token)


async def _conducted(
    engine: ExecutionEngine,
    journal: RunJournal,
    record: RunRecord,
    overrides: RunOverrides,
    *,
    streaming: bool,
    nested: bool,
) -> Result[TaskResult, TaskFailed]:
    run_id, holder, task = journal.run_id, journal.holder, journal.run.task
    token = BRANCH.set(RunBranch(journal))
    ended = False

    async def end(status: RunStatus, text: str) -> None:
        nonlocal ended
        await journal.flush()  # a run that has ended is not run again, so its log must be complete
        _recorded(run_id, await _of_record(record, RunRecord.end, None, run_id, holder, status, text))
        ended = True
        for sub_run, other in journal.elsewhere.items():  # the record has ended its own
            found = await _of_record(other, RunRecord.find, None, sub_run)
            known = found.value_or(None)
            if known is not None and not known.is_held:
                await _of_record(other, RunRecord.order, bool, sub_run, "cancel")

    try:
        if journal.accepts:
            differences: JsonObject = {"differences": [*journal.accepts]}
            await journal.keep(f"{_ACCEPTED}{journal.run.attempt}", "service", differences, later=True)
            BRANCH.set(RunBranch(journal))  # whose time is that of the recorded answers
        outcome = await engine.conduct_phases(task, run_id, overrides, streaming=streaming, journal=journal)
        await to_the_end(partial(end, *stored_outcome(outcome)))
        return outcome
    except RunStopped as stopped:
        if not stopped.error.run_id:  # what reads the entries does not know it
            stopped.error = evolve(stopped.error, run_id=run_id)
        if nested:
            raise
        error: errors.RuntimeErrors = stopped.error
        if stopped.is_lost and await journal.is_deleted():
            told = f"Run {run_id!r} was deleted from its record while it was under way."
            error = errors.ExecutionError(told, task.id, "agent-loop", errors.LeaseLost(run_id))
        elif isinstance(error, errors.RunInterrupted) and error.run_id != run_id:  # its caller continues it
            error = evolve(
                error, run_id=run_id, reason=f"its sub-run {error.run_id!r} cannot go on: {error.reason}"
            )
        if journal.fail is None:
            return refused_run(engine, task, run_id, error)
        return Failure(journal.fail(error))
    except GeneratorExit:  # no await is allowed from here on
        record.abandon(holder)
        ended = True
        raise
    finally:
        BRANCH.reset(token)
        if not ended:
            await to_the_end(partial(_release, record, run_id, holder))


async def _release(record: RunRecord, run_id: RunId, holder: str) -> None:
    await _of_record(record, RunRecord.release, None, run_id, holder)


async def _of_record(
    record: RunRecord,
    method: Callable[Concatenate[RunRecord, _P], Effect[_A, errors.RecordErrors]],
    expected: type[_A] | None,
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> Result[_A, errors.RecordErrors]:
    """Return the answer of a record; a custom one that breaks its port is an error."""
    answer = await call_outside_record("record", record, method, expected, *args, **kwargs)
    if isinstance(answer, Success):
        return answer
    problem = answer.failure()
    if isinstance(problem, errors.ServiceFailed):
        return Failure(errors.RecordFailed(problem.message, problem.operation))
    return Failure(problem)


def engine_of(engine: ExecutionEngine, journal: RunJournal) -> ExecutionEngine:
    """Return the engine of a run, with the changed instructions of a fork."""
    instructions = journal.changes.get("instructions")
    if not isinstance(instructions, str):
        return engine
    return engine.with_settings(evolve(engine.settings, system_prompt=instructions))


async def _claimed(
    record: RunRecord,
    run_id: RunId,
    task: Task,
    describe: Callable[[], Awaitable[RecordedRun]],
    follow: Callable[[RunOrder], None],
    overrides: RunOverrides,
    *,
    is_known: bool,
    accept_changes: bool,
) -> Result[tuple[RunClaim, RecordedRun], errors.RecordErrors | errors.ServiceFailed]:
    """Claim a run when it has ended or no other process holds it.

    Returns the claim, and the run as this agent describes it.

    A run that would be refused is not claimed, since that is no attempt: its claim names no holder.

    Args:
        describe: opens services, so it is not called for a run that has ended.
        is_known: there may be a run of its id; one that has ended, or has another task, stays as it is, also
            in its queue.
    """
    pause_s, known = _FIRST_WAIT_S, overrides.reserved_run
    if is_known:
        found = await _of_record(record, RunRecord.find, None, run_id)
        if not isinstance(found, Success):
            return Failure(found.failure())
        known = found.unwrap()
        has_ended = known is not None and known.status not in ("open", "queued")
        if known is not None and (has_ended or task_difference(known.task, task)):
            return Success((RunClaim(known, "ended"), known))
    try:
        run = await describe()
    except BrokenServiceError as broken:
        return Failure(broken.failure)
    if known is not None and known.status == "open" and known.order != "cancel" and known.definition:
        refused = RunClaim(known, "taken")
        is_free = bool(overrides.reserved) or not known.is_held
        if is_free and _refusal(refused, run, accept_changes=accept_changes):
            return Success((refused, run))
    claimed: Result[RunClaim, errors.RecordErrors] | None = None

    async def claim() -> None:
        nonlocal claimed
        claimed = await _of_record(record, RunRecord.claim, RunClaim, run, follow, overrides.reserved)

    while True:
        try:
            await to_the_end(claim)
        except BaseException:
            if isinstance(claimed, Success) and claimed.unwrap().holder:
                holder = claimed.unwrap().holder
                await to_the_end(partial(_release, record, run_id, holder))
            raise
        assert claimed is not None
        if not isinstance(claimed, Success):
            return Failure(claimed.failure())
        if claimed.unwrap().state != "held":
            return Success((claimed.unwrap(), run))
        if overrides.cancels:
            await _of_record(record, RunRecord.order, bool, run_id, "cancel")
        while True:
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_WAIT_S)
            found = await _of_record(record, RunRecord.find, None, run_id)
            if not isinstance(found, Success):
                return Failure(found.failure())
            known = found.unwrap()
            if known is None or known.state != "running":
                break  # the claim checks whether its process is alive


def _refusal(claim: RunClaim, run: RecordedRun, *, accept_changes: bool) -> errors.RunRefused | None:
    if claim.state == "new":
        return None
    difference = task_difference(claim.run.task, run.task)
    if difference:
        return errors.RunRefused(run.run_id, difference)
    if accept_changes or claim.run.order == "cancel":
        return None
    differences = definition_changes(claim.run.definition, run.definition)
    if not differences:
        return None
    problem = "was begun by another version of the agent; accept_changes=True continues it with this one"
    return errors.RunRefused(run.run_id, problem, differences)


def task_difference(known: Task, given: Task) -> str:
    """Return how a task differs, apart from id, time and budget; empty if it does not."""
    if known.agent_id != given.agent_id:
        return f"belongs to the agent {known.agent_id!r}"
    compared = evolve(known, id=given.id, created_at=given.created_at, budget=given.budget)
    others = [name for name in fields_dict(Task) if getattr(compared, name) != getattr(given, name)]
    if not others:
        return ""
    return f"has another task: {' and '.join(others)} {'differs' if others[1:] == [] else 'differ'}"


def refused_run(
    engine: ExecutionEngine,
    task: Task,
    run_id: RunId,
    error: errors.RuntimeErrors,
    readers: Sequence[EventReader] = (),
) -> Failure[TaskFailed]:
    """Publish and return the failure of a run that is refused or could not begin.

    A refusal is no event of the run of that id, which may be under way: it is published to the readers alone.

    Args:
        readers: those of the stream of the call that is refused.
    """
    ports = engine.ports
    if isinstance(error, errors.RunRefused):
        redactor = ports.redactor

        def show(event: AgentEvent) -> None:
            shown = event if redactor is None else ValueRedactor(redactor).redacted(event)
            for each in readers:
                each.show(shown)

        ports = evolve(ports, events=EventSink(show))
    events = _started(engine.settings, ports, task, run_id)
    metadata = TaskResultMetadata(0.0, 0.0, 0, 0, "", engine.ports.llm.model, "error")
    failed = TaskFailed(*events.stamp(), error=error, steps=(), metadata=metadata, **events.origin)
    events.deliver(failed)
    return Failure(failed)


@frozen(eq=False)
class EventSink:
    """An event bus without subscribers: one function takes every event."""

    take: Callable[[AgentEvent], object]

    def publish(self, event: AgentEvent) -> None:
        """Pass the event on."""
        self.take(event)

    def subscribe(self, handler: EventHandler, *, run_id: RunId | None = None) -> Callable[[], None]:
        """Subscribe no one: what is published is not news to others."""
        return lambda: None


def _started(settings: RunSettings, ports: EnginePorts, task: Task, run_id: RunId) -> RunEvents:
    """Publish the start of a run of which nothing is done here; return its events."""
    events = events_of(task, run_id, settings, ports, NO_OVERRIDES)
    publish_start(events, task, task.user)
    return events


def _not_begun(
    engine: ExecutionEngine,
    task: Task,
    run_id: RunId,
    error: errors.RecordErrors | errors.ServiceFailed,
    parent: RunJournal | None,
) -> Failure[TaskFailed]:
    """Publish and return the failure of a run that may be run again under its id.

    Raises:
        RunStopped: it is a sub-run without a record; its caller would see a failed call, and try another way.
    """
    if parent is not None and isinstance(error, errors.ServiceFailed):
        failed = errors.ExecutionError(error.message, task.id, "bootstrap", error)
        return refused_run(engine, task, run_id, failed)
    of = run_id if parent is None else parent.run_id
    interrupted = errors.RunInterrupted(of, f"nothing was begun. {error.message}", error)
    if parent is not None:
        raise RunStopped(interrupted)
    return refused_run(engine, task, run_id, interrupted)


def _ended_run(
    engine: ExecutionEngine, task: Task, run: RecordedRun, overrides: RunOverrides
) -> Result[TaskResult, TaskFailed]:
    difference, readers = task_difference(run.task, task), overrides.readers
    if difference:
        return refused_run(engine, task, run.run_id, errors.RunRefused(run.run_id, difference), readers)
    outcome = recorded_outcome(run, overrides.services.get("output_shape", engine.ports.output_shape))
    if isinstance(outcome, errors.RunRefused):
        return refused_run(engine, task, run.run_id, outcome, readers)
    events = _started(engine.settings, engine.ports, run.task, run.run_id)
    if isinstance(outcome, Success):
        events.publish(TaskCompleted, cast(AgentResult, outcome.unwrap()))
    else:
        _, _, sequence, at = events.stamp()
        events.deliver(evolve(outcome.failure(), sequence=sequence, at=at))
    return outcome


def _count_ended_run(engine: ExecutionEngine, run: RecordedRun) -> None:
    """Count a sub-run that ended before its caller was interrupted."""
    caller, outcome = CALLER.get(), recorded_outcome(run)
    if caller is None or isinstance(outcome, errors.RunRefused):
        return
    figures = (outcome.unwrap() if isinstance(outcome, Success) else outcome.failure()).metadata
    spent = figures.models
    caller.account.add(spent)
    caller.account.count_calls(figures.tool_calls)
    recorded = {place_of_records(engine.ports): spent} if engine.ports.cost_tracker else {}
    caller.take_in(_ended_runs(run, caller.run_id, engine.settings.name), recorded)


def _ended_runs(run: RecordedRun, parent: RunId, agent: str) -> tuple[SubRun, ...]:
    """Return an ended run, after its sub-runs."""
    outcome = recorded_outcome(run)
    if isinstance(outcome, errors.RunRefused):
        return ()
    ended = outcome.unwrap() if isinstance(outcome, Success) else outcome.failure()
    below = ended.sub_runs if isinstance(ended, TaskResult) else ()
    return *below, sub_run_of(ended, parent, agent, run.task.input)


def stored_outcome(outcome: Result[TaskResult, TaskFailed]) -> tuple[RunStatus, str]:
    """Return the status of an ended run, and its outcome as JSON text."""
    if isinstance(outcome, Success):
        result = outcome.unwrap()
        return result.status, data_to_json({"result": encode(result)})
    failed = outcome.failure()
    status: RunStatus = "cancelled" if failed.status == "cancelled" else "failed"
    return status, data_to_json({"failed": encode(failed)})


async def cancel_left(record: RunRecord, run_id: RunId, clock: Clock) -> bool:
    """Cancel a run that no process holds, without its agent.

    Its outcome has what the record holds of calls, tokens and cost.

    Returns ``False`` if it is no such run, or its record cannot be read: it is as it was then.
    """
    found: Result[RecordedRun | None, Any] = await _of_record(record, RunRecord.find, None, run_id)
    run = found.value_or(None)
    if run is None or run.status != "open" or run.is_held or not run.attempt:
        return False
    claimed = await _of_record(record, RunRecord.claim, RunClaim, run, bool)
    claim = claimed.value_or(None)
    if claim is None or not claim.holder:
        return False
    is_ended, holder = False, claim.holder
    try:
        read = await _of_record(record, RunRecord.entries, tuple, run_id)
        if isinstance(read, Success):
            journal = RunJournal(run, read.unwrap(), clock, record=record)
            journal.account = UsageAccount()
            await journal.count_rest()
            metadata = evolve(
                figures_in(journal.account),
                terminated_by="cancelled",
                tags=run.task.tags,
                given=run.task.metadata,
            )
            error = errors.RunCancelled(run.task.id, "bootstrap")
            failed = TaskFailed(run_id, run.task.id, 1, clock.now(), error, (), metadata)
            ended = await _of_record(
                record, RunRecord.end, None, run_id, holder, *stored_outcome(Failure(failed))
            )
            is_ended = isinstance(ended, Success)
    except RunStopped:  # an entry cannot be read
        return False
    finally:
        if not is_ended:
            await to_the_end(partial(_release, record, run_id, holder))
    return is_ended


def recorded_outcome(
    run: RecordedRun, shape: Maybe[Shape[Any]] = Nothing
) -> Result[TaskResult, TaskFailed] | errors.RunRefused:
    """Return the outcome of an ended run.

    Args:
        shape: the current output type, which an earlier version of the agent may not have had.
    """
    if run.status == "cancelled" and not run.result:
        at = run.updated_at or run.task.created_at
        metadata = TaskResultMetadata(0.0, 0.0, 0, 0, "", "", "cancelled")
        error = errors.RunCancelled(run.task.id, "bootstrap")
        return Failure(TaskFailed(run.run_id, run.task.id, 1, at, error, (), metadata))
    try:
        body = json.loads(run.result or "{}")
    except (ValueError, RecursionError) as error:
        return errors.RunRefused(run.run_id, f"has a result that cannot be read: {error}")
    read: Result[Any, errors.DecodeError]
    if not isinstance(body, dict):
        read = decode(body, TaskFailed)
    elif "result" in body:
        read = decode(body["result"], TaskResult)
        if isinstance(read, Success):
            wrong = _wrong_output(read.unwrap(), shape.value_or(None))
            return Success(read.unwrap()) if wrong is None else errors.RunRefused(run.run_id, wrong)
    else:
        read = decode(body.get("failed"), TaskFailed)
        if isinstance(read, Success):
            return Failure(read.unwrap())
    return errors.RunRefused(run.run_id, f"has a result that cannot be read: {read.failure().message}")


def _wrong_output(result: TaskResult, shape: Shape[Any] | None) -> str | None:
    """Return why the output of a completed run does not fit a shape."""
    if shape is None or result.status != "completed" or result.output is None:
        return None
    from reactive_agents.reasoning.structured_output.answer_parser import read_answer  # seldom needed

    problem = read_answer(result.output, shape).swap().value_or(None)
    return None if problem is None else f"has an output that is no {shape.name}: {problem.message}"


# --- the definition of an agent -------------------------------------------------------------------------


async def engine_definition(engine: ExecutionEngine) -> dict[str, str]:
    """Return digests of the parts of an agent's definition, by their names.

    Raises:
        BrokenServiceError: a service cannot be opened, or the tool service breaks its port.
    """
    limit = engine.settings.timeouts.run_s
    opened = await open_services(engine.ports, inf if limit is None else limit)  # which lists their tools
    if isinstance(opened, Failure):
        raise BrokenServiceError(opened.failure())
    settings, reasoning = engine.settings, engine.settings.reasoning
    public = settings.model_settings.without_secrets
    options = evolve(settings, durability=None, system_prompt="", model_settings=public)
    tools = engine.ports.tools.value_or(None)
    definitions = () if tools is None else definitions_of(tools)
    described: dict[str, str] = {
        "version": VERSION,
        "model": model_of(engine.ports.llm, ServiceFaults()),
        "instructions": _digest(settings.system_prompt),
        "strategy": "none" if reasoning is None else reasoning.default_strategy,
        "options": _digest(to_json(options)),
    }
    for definition in definitions:
        described[f"tool {definition.name}"] = _digest(to_json(definition))
    return described


_OPTION = "option "


def _given_options(overrides: RunOverrides) -> dict[str, str]:
    """Return a run's options that are not recorded, and must be given again."""
    services = overrides.services
    shape = services.get("output_shape", Nothing).value_or(None)
    given = {
        "approver": "one" if "approver" in services else "",
        "model": overrides.model or ("an object" if "llm" in services else ""),
        "output": "" if shape is None else shape.name,
        "tools": ", ".join(sorted(each.name for each in overrides.tools)),
    }
    return {f"{_OPTION}{name}": value for name, value in given.items() if value}


def names_of_given_tools(definition: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the tools that were given to a run, not to its agent."""
    return frozenset(filter(None, definition.get(f"{_OPTION}tools", "").split(", ")))


def definition_changes(known: Mapping[str, str], present: Mapping[str, str]) -> tuple[str, ...]:
    """Return the differences between two definitions, a sentence each."""
    changes: list[str] = []
    for name in sorted(known.keys() | present.keys()):
        before, now = known.get(name), present.get(name)
        if before == now:
            continue
        if before is None:
            changes += [] if name.startswith(_OPTION) else [f"New: {name}."]
        elif now is None:
            changes.append(f"Gone: {name}.")
        elif name in ("version", "model", "strategy"):
            changes.append(f"Changed: {name}, from {before} to {now}.")
        else:
            changes.append(f"Changed: {name}.")
    return tuple(changes)


def _digest(text: str) -> str:
    return sha256(text.encode(errors="backslashreplace")).hexdigest()[:16]


# --- forms of bodies ------------------------------------------------------------------------------------


def _branch_of(journal: RunJournal) -> RunBranch:
    branch = BRANCH.get()
    if isinstance(branch, RunBranch) and branch.journal is journal:
        return branch
    raise RuntimeError("A call of a durable run was made outside of its context.")


def _loaded(entry: RunEntry) -> JsonObject:
    body = json.loads(entry.body)
    return body if isinstance(body, dict) else {}


def _asked(request: ModelRequest) -> list[Json]:
    """Return a cheap fingerprint of a request."""
    last = request.messages[-1].content if request.messages else ""
    text = last if isinstance(last, str) else to_json(last)
    return [request.purpose, len(request.messages), zlib.crc32(text.encode(errors="backslashreplace"))]


def _body_of(outcome: Result[Any, Any], name: str, kind: Any, failures: Any) -> JsonObject:
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


def _outcome_in(body: JsonObject, name: str, kind: Any, failures: Any) -> Result[Any, Any]:
    """Return the outcome in data of :func:`_body_of`."""
    if name not in body:
        return Failure(_decoded(body.get("error"), failures))
    if kind is Maybe:
        return Success(Maybe.from_optional(_decoded(body[name], Plan | None)))
    return Success(None if kind is None else _decoded(body[name], kind))


def _answer_of(body: JsonObject) -> Result[ModelResponse, errors.LLMErrors]:
    return _outcome_in(body, "answer", ModelResponse, errors.LLMErrors)


def _decoded(data: Json, kind: Any) -> Any:
    read = decode(data, kind)
    if isinstance(read, Failure):
        raise RunStopped(errors.RunInterrupted("", f"its record cannot be read: {read.failure().message}"))
    return read.unwrap()


def _question_of(request: Any, kind: str | None = None) -> JsonObject:
    kinds = {ApprovalRequest: "approval", QuestionRequest: "question", ExternalCallRequest: "call"}
    return {"kind": kind or kinds.get(type(request), "approval"), "request": encode(request)}


def _intent_of(call: ToolCall, edited: JsonObject | None) -> JsonObject:
    intent: JsonObject = {"tool": call.name, "arguments": call.arguments}
    return intent if edited is None else {**intent, "edited": edited}


def _call_of(entry: RunEntry) -> str:
    """Return the key of the tool call of an entry but a result; empty for none."""
    call, _, name = entry.key.rpartition("/")
    if name.startswith("audit.append"):
        return call if call.rpartition("/")[2].startswith("t") else ""
    if entry.kind not in ("intent", "question", "answer") and not name.endswith(_PUBLISHED):
        return ""
    return call if name.startswith("q") else entry.key.rstrip(f"?!={_PUBLISHED}")


def _doubt_request(key: str, made: RecordedCall) -> ApprovalRequest:
    scope, call = made.scope, made.call
    return ApprovalRequest(
        run_id=scope.run_id,
        task_id=scope.task_id,
        agent_id=scope.agent_id,
        approval_id=ApprovalId(key),
        call_id=call.id,
        tool_name=call.name,
        arguments=call.arguments if made.edited is None else made.edited,
        risk="high",
        notice="The process ended while this call was under way: it may have taken effect. Run it again?",
        check=partial(arguments_in_doubt, call.name),
    )


def arguments_in_doubt(tool_name: str, arguments: JsonObject) -> Result[None, errors.InvalidToolArguments]:
    """Refuse other arguments for a call in doubt, which keeps its idempotency key."""
    expected = "those of the call in doubt, which is made again as it was"
    problem = errors.ArgumentProblem("arguments", "others", expected)
    return Failure(errors.InvalidToolArguments(tool_name, (problem,)))


def _also_noting(spent: list[RunUsage], recorder: UsageRecorder | None) -> UsageRecorder:
    async def note(parts: Sequence[RunUsage], *, purpose: str = "", duration_ms: float = 0.0) -> None:
        spent.extend(parts)
        if recorder is not None:
            await recorder(parts, purpose=purpose, duration_ms=duration_ms)

    return note
