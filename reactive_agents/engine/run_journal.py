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
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

import anyio
import anyio.lowlevel
from attrs import define, evolve, field, frozen
from returns.result import Failure, Result, Success
from ulid_transform import bytes_to_ulid

from reactive_agents.core import errors
from reactive_agents.core.codec import data_to_json, encode
from reactive_agents.core.events import TaskFailed, ToolCallInDoubt
from reactive_agents.core.governance import ApprovalDecision, ApprovalRequest, QuestionRequest, Reply
from reactive_agents.core.ids import ApprovalId, CallId, RunId, StepId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import AssistantMessage, Message, ToolCall, UserMessage
from reactive_agents.core.models import ModelRequest, ModelResponse
from reactive_agents.core.results import ReasoningStep, StepMetadata
from reactive_agents.core.run_context import SessionState
from reactive_agents.core.run_record import (
    EntryKind,
    OwedStore,
    RecordedRun,
    RunEntry,
    RunFilter,
    RunOrder,
)
from reactive_agents.core.tasks import SubRun
from reactive_agents.core.tools import TRIED, ToolResult, ToolScope
from reactive_agents.core.usage import USAGE_RECORDER, RunUsage, UsageRecorder
from reactive_agents.core.values import replaced
from reactive_agents.effects import BRANCH, Branch, Effect, attempt, beside, effect
from reactive_agents.engine.context import CALLER, RunStopped
from reactive_agents.engine.execution_control import ControlRequest, ExecutionControl
from reactive_agents.engine.recorded_answers import (
    APPROVAL_RULE,
    OWED,
    PUBLISHED,
    SERVICES,
    RecordedEntries,
    ReplayEnded,
    ServiceErrors,
    answer_in,
    data_of,
    decoded,
    ended_runs,
    fingerprint,
    intent_data,
    named_sub_runs,
    outcome_data,
    outcome_in,
    question_data,
)
from reactive_agents.kernel import RunEvents
from reactive_agents.kernel.context import UsageAccount
from reactive_agents.kernel.service_calls import call_outside_record
from reactive_agents.kernel.tool_execution import CUT_OFF_WITH_RUN
from reactive_agents.ports import Approver, Clock, IdSource, RunRecord

if TYPE_CHECKING:
    from reactive_agents.core.config import InDoubt

_A = TypeVar("_A")
_P = ParamSpec("_P")

IN_DOUBT = (
    "In doubt: the process ended while this call was under way, or its result could not be recorded, so it "
    "may have taken effect. It was not run again. Find out whether it took effect before making it again; "
    "where that is not possible, report it."
)
"""The result of a call in doubt, for the model."""

_UNRECORDED_WRITES = frozenset({"sessions.end"})
"""Idempotent writes, which are not recorded and are skipped in a replay."""
ORDER = "order "
"""Begins the key of the entry that says who gave an order to the run, and why."""
_COUNTED = "cost tracking.record1"
"""The key of the entry that the cost of a run was recorded."""
_ALL_RUNS = 1_000_000
FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 0.5


def pauses() -> Iterator[float]:
    """Yield the seconds to wait between looks at a record, longer ones each time."""
    pause_s = FIRST_WAIT_S
    while True:
        yield pause_s
        pause_s = min(pause_s * 1.5, _LONGEST_WAIT_S)


def order_note(order: RunOrder, by: str, reason: str, now: datetime) -> RunEntry:
    """Return the entry that says who gives an order to a run, and why."""
    body = data_to_json({"by": by, "reason": reason})
    return RunEntry(f"{ORDER}{order or 'resume'} {now.isoformat()}", "answer", now, body)


@define(eq=False, repr=False)
class RunJournal:
    """Writes the record of a run, and returns recorded answers.

    Args:
        record: the store of entries; ``None`` for a replay, which stores nothing.
        in_doubt: the policy for a call that may have taken effect.

    Attributes:
        account: counts the cost of recorded answers.
        events: publishes how calls in doubt were settled.
        control: receives the orders of other processes.
        fail: publishes and returns the failure of the run, with what it has done.
        state: the state of the session, which is recorded with the results of calls.
        reader: the record in which a replay finds sub-runs.
        elsewhere: unfinished sub-runs in other records.
        reached: the sub-runs that this attempt has reached; ``None`` for those that are counted.
        requests: the number of requests to people in calls that are not made again.
        accepts: how the agent that continues the run differs from the one that began it.
        is_counted: whether the calls that this attempt has not reached again are counted.
    """

    run: RecordedRun
    entries: RecordedEntries
    _clock: Clock
    record: RunRecord | None = field(default=None, kw_only=True)
    holder: str = field(default="", kw_only=True)
    in_doubt: InDoubt = field(default="tell", kw_only=True)
    account: UsageAccount | None = field(default=None, init=False)
    events: RunEvents | None = field(default=None, init=False)
    control: ExecutionControl | None = field(default=None, init=False)
    fail: Callable[[errors.RuntimeErrors], TaskFailed] | None = field(default=None, init=False)
    state: SessionState | None = field(default=None, init=False)
    reader: RunRecord | None = field(default=None, kw_only=True)
    elsewhere: dict[RunId, RunRecord] = field(factory=dict, init=False)
    reached: dict[RunId, RunJournal | None] = field(factory=dict, init=False)
    requests: int = field(default=0, init=False)
    accepts: tuple[str, ...] = field(default=(), init=False)
    is_counted: bool = field(default=False, init=False)
    run_id: RunId = field(init=False)
    begun_at: datetime = field(init=False)
    changes: JsonObject = field(init=False)
    seed: str = field(init=False)
    _messages: list[tuple[Any, int]] = field(init=False)
    _message_places: list[tuple[int, int]] = field(factory=list, init=False)
    _turns: int = field(default=0, init=False)
    _order: RunOrder = field(default="", init=False)
    _doubts: dict[ApprovalId, str] = field(factory=dict, init=False)
    _handled: dict[str, str] = field(factory=dict, init=False)
    _begun: dict[str, JsonObject] = field(factory=dict, init=False)
    _begun_writes: int = field(default=0, init=False)
    _settled_writes: int = field(default=0, init=False)
    _sub_runs: frozenset[RunId] = field(default=frozenset(), init=False)

    def __attrs_post_init__(self) -> None:
        run = self.run
        self.run_id = run.run_id
        self.begun_at = run.created_at or self._clock.now()
        self.changes = json.loads(run.changes) if run.changes else {}
        self.seed = str(self.changes.get("seed", run.run_id))
        said = [(self.changes["message"], run.origin_entries)] if "message" in self.changes else []
        earlier: Any = self.changes.get("earlier", ())
        self._messages = [*earlier, *said]

    @property
    def settings(self) -> Mapping[str, Any]:
        """The changed instructions of a fork, as fields of its run's settings."""
        instructions = self.changes.get("instructions")
        return {"system_prompt": instructions} if isinstance(instructions, str) else {}

    def sources(self, clock: Clock) -> tuple[Clock, IdSource]:
        """Return the clock and ids of this run, with the durations of another clock."""
        return RunClock(clock, self), RunIds(self)

    # --- entries ------------------------------------------------------------------------------------------

    def find(self, key: str) -> RunEntry | None:
        """Return the recorded entry of a key, and advance the run's time to it."""
        entry = self.entries.get(key)
        if entry is not None:
            self.entries.used.add(key)
            self._arrive(entry.at)
        elif self.record is None:
            raise ReplayEnded(self.run_id, key)
        return entry

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
        branch, now = _branch_within(self), self._clock.now()
        if branch is not None:
            now = max(now, branch.at)  # the run's time never goes back
        entry, begun = RunEntry(key, kind, now, text), self._begun_writes
        written = await ask_record(
            self.record, RunRecord.append, None, self.run_id, self.holder, entry, durable=durable, later=later
        )
        order = recorded(self.run_id, written)
        self.entries[key] = entry
        if branch is not None:
            branch.at = max(branch.at, now)
        if order is None:
            self._begun_writes += 1
        else:  # earlier pending entries were written with it
            self._settled_writes = max(begun, self._settled_writes)
            if order != self._order:
                self.follow(order)

    async def owe(self, store: OwedStore, name: str = "", **written: object) -> None:
        """Record what could not be written to a store, so that it is written later.

        Args:
            name: of something that comes at any time; otherwise named by its place in the run.
            written: what is written, each of another type.
        """
        # a custom record need not know of it
        if self.record is not None and getattr(self.record, "owe", None) is None:
            return
        key = f"{OWED}{store}:{name or _branch_of(self).name('o')}"
        known = self.entries.get(key)
        if known is not None and not self.entries.is_shared(known):
            self._arrive(known.at)
            return
        body: JsonObject = {name: encode(value) for name, value in written.items()}
        await self.keep(key, "service", body)
        self.entries.owes[store] = None

    async def settle(self) -> None:
        """Wait until all entries are stored, or raise ``RunStopped``."""
        if self.record is not None and self._begun_writes != self._settled_writes:
            await self._settle_all(self.record)

    async def _settle_all(self, record: RunRecord) -> None:
        begun = self._begun_writes
        settled = await ask_record(record, RunRecord.settle, None, self.run_id, self.holder)
        order = recorded(self.run_id, settled)
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
            control.pause(by=None)
        elif order == "stop" and self.run.order != "stop":
            control.stop(by=None)
        elif order == "cancel":
            control.cancel(by=None)
        elif not order and earlier == "pause":
            control.resume(by=None)

    async def _stop_at_end(self) -> None:
        """Stop a run that was ordered to before this attempt, as its record has ended."""
        if self.control is not None:
            self.control.stop(by=None)
            await self.control.hold("")

    async def with_note(self, request: ControlRequest) -> ControlRequest:
        """Return a request of another process with who made it and why.

        As far as the record says it.
        """
        if request.by is not None or self.record is None:
            return request
        read = await ask_record(self.record, RunRecord.entries, tuple, self.run_id)
        notes = [each for each in read.value_or(()) if each.key.startswith(f"{ORDER}{request.kind} ")]
        own = [each for each in notes if not self.entries.is_shared(each)]
        if not own:
            return evolve(request, by="another process")
        note = own[0 if request.kind in ("stop", "cancel") else -1]
        told = data_of(note)
        return evolve(request, by=str(told.get("by", "")), reason=str(told.get("reason", "")), at=note.at)

    def _arrive(self, at: datetime) -> None:
        branch = _branch_within(self)
        if branch is not None:
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
        self.entries.used.add(key)
        self.entries.calls_left.pop(key, None)
        if request.purpose == "think":
            for _, shared in self._messages[len(self._message_places) :]:
                if entry is None or entry.number > shared:
                    self._message_places.append((len(request.messages), self._turns))
            self._turns += 1
        sent = self.entries.sent[key]
        if entry is None:
            return key, None, sent
        body = self.entries.body_of(entry)
        asked = body.get("asked")
        if asked != fingerprint(request) and not self.entries.may_differ(entry):
            raise ReplayEnded(self.run_id, key, f"its request at {key} differs from the recorded one.")
        return key, answer_in(body), max(0, sent - 1)

    async def prepared(self, key: str, request: ModelRequest, model: str) -> ModelRequest:
        """Return the request with the changes of a fork: another model, further messages.

        That it is being sent is recorded: one whose answer is not recorded was cut off.
        """
        changed = self.changes.get("model")
        if isinstance(changed, str):
            request, model = evolve(request, model=changed), changed
        if self.run.order == "stop":
            await self._stop_at_end()
        await self.settle()
        self.entries.sent[key] += 1
        await self.keep(self.entries.sent_key(key), "request", {"model": model}, later=True)
        if self._message_places and request.purpose == "think":
            messages = list(request.messages)
            for message, at, _ in self._placed_messages():
                messages.insert(at, message)
            request = evolve(request, messages=tuple(messages))
        return request

    def with_messages(self, transcript: Sequence[Message]) -> Sequence[Message]:
        """Return a transcript with the messages of a fork before the turns that follow."""
        if not self._message_places:
            return transcript
        turns = [place for place, each in enumerate(transcript) if isinstance(each, AssistantMessage)]
        messages, end = list(transcript), len(transcript)
        for message, _, turn in self._placed_messages():
            messages.insert(turns[turn] if turn < len(turns) else end, message)
        return messages

    def later_messages(self) -> tuple[str, ...]:
        """Return the messages of a fork that the model was shown so far."""
        return tuple([text for (text, _), _ in zip(self._messages, self._message_places, strict=False)])

    def _placed_messages(self) -> Iterator[tuple[UserMessage, int, int]]:
        """Yield messages of forks, the last first, and the messages and turns before."""
        placed = [*zip(self._messages, self._message_places, strict=False)]
        for (text, _), (messages, turns) in reversed(placed):
            yield UserMessage(text), messages, turns

    async def keep_answer(
        self, key: str, request: ModelRequest, answer: Result[ModelResponse, errors.LLMErrors]
    ) -> None:
        """Record the answer to a request, before it is used."""
        body = outcome_data(answer, "answer", ModelResponse, errors.LLMErrors)
        await self.keep(key, "model", {"asked": fingerprint(request), **body}, later=True)

    @property
    def leaves_calls_out(self) -> bool:
        """Whether recorded calls may be left out, such as those within a call in doubt."""
        return self.entries.may_be_left_out or bool(self._handled)

    def count_service(self, key: str, body: JsonObject) -> None:
        """Count the usage of a call of a service that is not made again."""
        if self.account is not None:
            self.account.add(decoded(body.get("usage", []), tuple[RunUsage, ...]))
            self.count_within(key)

    def count_within(self, key: str) -> None:
        """Count requests to models in a service's call that were not made again."""
        if self.account is not None:
            for entry in self.entries.left_within(key):
                self.account.add(self.entries.spent_by(entry))

    async def count_rest(self, place: object = "") -> None:
        """Count the calls in the record that a run which ends has not reached again.

        Args:
            place: of the records of the run's cost, which have what a sub-run has recorded itself.
        """
        if self.account is None or self.record is None or self.is_counted:
            return
        self.is_counted = True
        await self._count_sub_runs(self.account, self.record, place)
        for entry in self.entries.left():
            body = self.entries.body_of(entry)
            if entry.kind == "service":
                self.count_service(entry.key, body)
                await self.take_in(body, is_shared=False)
            elif entry.kind == "result":
                outcome = outcome_in(body, "result", ToolResult, errors.ToolErrors)
                result = outcome.value_or(None)
                if result is not None:
                    self.account.add(result.usage)
                if result is None or result.origin in TRIED:
                    self.account.count_calls(1)
                await self.take_in(body, is_shared=False)
            elif entry.kind in ("model", "request"):
                self.account.add(self.entries.spent_by(entry))

    def steps_in_doubt(self, events: RunEvents | None = None) -> list[ReasoningStep]:
        """Return the steps of the calls that a cancelled run leaves in doubt.

        With those of the runs below it.

        Args:
            events: publishes that they are.
        """
        steps: list[ReasoningStep] = []
        for entry in self.entries.in_doubt():
            body, call_id = cast(dict[str, Any], data_of(entry)), CallId(self.call_key(entry.key))
            call = ToolCall(call_id, body["tool"], body.get("edited", body["arguments"]))
            known = StepMetadata(call.name, call_id)
            steps += [
                ReasoningStep(StepId(call_id), "action", call.described, entry.at, known),
                ReasoningStep(
                    StepId(f"{call_id}="),
                    "observation",
                    CUT_OFF_WITH_RUN,
                    entry.at,
                    evolve(known, success=False, origin="in_doubt"),
                ),
            ]
            if events is not None:
                events.publish(ToolCallInDoubt, call.name, call_id, call_id, "cancelled")
        for below in self.reached.values():
            steps += [] if below is None else below.steps_in_doubt(events)
        return steps

    async def _count_sub_runs(self, account: UsageAccount, record: RunRecord, place: object) -> None:
        """Count the sub-runs in the record that no result of a call has."""
        known, caller = {*self.reached}, CALLER.get()
        for entry in (*self.entries.results(), *self.entries.left()):
            known.update(named_sub_runs(entry))
        for run in (await self._recorded_sub_runs(record)).value_or(()):
            if run.parent == self.run_id and run.run_id not in known and not run.is_held:
                entries = await ask_record(record, RunRecord.entries, tuple, run.run_id)
                left = RunJournal(run, RecordedEntries(run, entries.value_or(())), self._clock, record=record)
                left.account = UsageAccount(account)
                self.reached[run.run_id] = left
                if caller is not None and run.result:
                    there = {each.run_id for each in caller.sub_runs}
                    ended = ended_runs(run, self.run_id, run.agent_id)
                    caller.take_in([each for each in ended if each.run_id not in there], {})
        for below in self.reached.values():
            if below is not None and below.account is not None:
                await below.count_rest(place)
                if caller is not None and _COUNTED in below.entries:
                    caller.take_in((), {place: below.account.models})

    async def _recorded_sub_runs(
        self, record: RunRecord
    ) -> Result[tuple[RecordedRun, ...], errors.RecordErrors]:
        every = RunFilter(parent=self.run_id, children=True, limit=_ALL_RUNS)
        return await ask_record(record, RunRecord.runs, tuple, every)

    # --- tool calls ---------------------------------------------------------------------------------------

    def restore(self, state: SessionState) -> None:
        """Set the state of the session to that after the recorded calls, once."""
        if self.state is None:
            self.state = state
            for entry in self.entries.results():
                body = self.entries.body_of(entry)
                if isinstance(known := body.get("state"), dict):  # the whole state, of earlier versions
                    state.become(known)
                elif isinstance(changes := body.get("changes"), dict):
                    state.take_in(changes)

    async def call_tool(self, made: RecordedCall) -> tuple[Result[ToolResult, errors.ToolErrors], bool]:
        """Return the outcome of a tool call, and whether it was recorded before."""
        branch = _branch_of(self)
        key = self._key_of_call(branch, made.call)
        self.entries.calls_left.pop(key, None)
        known = self.entries.get(f"{key}=")
        if known is not None:
            return await self._recorded_outcome(key, known, made), True
        if self.record is None:
            raise ReplayEnded(self.run_id, key)
        intent, outcome = self.entries.get(key), None
        if intent is not None:
            self.entries.used.add(key)
            made.note_begun()
        if self.run.order == "stop":
            await self._stop_at_end()
        if intent is not None:
            edited: Any = data_of(intent).get("edited")
            outcome = await self._outcome_in_doubt(key, evolve(made, edited=edited))
            if outcome is not None:
                await self._drop_questions(self.record, key)
        if outcome is None:
            outcome = await self._make(key, made, branch)
        await self._keep_outcome(key, made, outcome)
        return outcome, False

    def _key_of_call(self, branch: RunBranch, call: ToolCall) -> str:
        """Return the key of the next call of a branch, which may be recorded.

        Raises:
            ReplayEnded: the record has another call there.
        """
        key = branch.name("t")
        while (known := self.entries.call_at(key)) is not None:
            if not self.entries.may_differ(known):
                self.entries.check_call(key, call)
                break
            if data_of(known).get("tool") == call.name:
                break
            key = branch.name("t")  # an earlier version of the agent made another call here
        return key

    async def _recorded_outcome(
        self, key: str, known: RunEntry, made: RecordedCall
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Return the outcome of a call that is not made again, and count it."""
        self.entries.used.add(known.key)
        self._arrive(known.at)
        self.requests += self.entries.asked[key]
        body = self.entries.body_of(known)
        if "doubt" in body:  # its process may have died before publishing this
            self._publish_doubt(key, made, body["doubt"])
        await self.take_in(body, is_shared=self.entries.is_shared(known))
        outcome = outcome_in(body, "result", ToolResult, errors.ToolErrors)
        return outcome.map(lambda result: evolve(result, call_id=made.call.id))

    async def _keep_outcome(
        self, key: str, made: RecordedCall, outcome: Result[ToolResult, errors.ToolErrors]
    ) -> None:
        """Record the outcome of a call, with the sub-runs and the state that it left."""
        kept = {"tool": made.call.name, **outcome_data(outcome, "result", ToolResult, errors.ToolErrors)}
        if key in self._handled:
            kept["doubt"] = self._handled[key]
        kept.update(self.noted_sub_runs(key))
        if f"{key}/q1?" in self.entries:  # questions to people are not published again
            await self.flush()
        changes = None if self.state is None else self.state.take_changes()
        if changes:
            kept["changes"] = changes
        await self.keep(f"{key}=", "result", kept, later=True)

    async def begin_function(self) -> None:
        """Note the recorded calls that the function of a workflow has to make again."""
        runs: Sequence[RecordedRun] = ()
        if self.record is not None and self.run.attempt > 1:
            runs = recorded(self.run_id, await self._recorded_sub_runs(self.record))
            self._sub_runs = frozenset(each.run_id for each in runs)
        self.entries.begin_function(runs)

    async def begin_sub_run(self) -> tuple[RunId, str]:
        """Return the id of the next sub-run of the branch, and its name among the calls.

        Raises:
            ReplayEnded: it is a new one, and a recorded call was left out before it.
        """
        branch = _branch_of(self)
        place = branch.next("r")
        run_id = RunId(self.derived_id("r", self.run_id))
        if self.record is not None and run_id not in self._sub_runs:
            self.entries.hold_to_record(branch.path, place)
        self.entries.calls_left.pop(place, None)
        await self.settle()  # so that what is recorded of its caller includes all that preceded it
        return run_id, place

    def has_call(self, tool: str) -> bool:
        """Return whether the next call is one that another version made of this tool."""
        known = self.entries.call_at(_branch_of(self).next("t"))
        return known is not None and self.entries.may_differ(known) and data_of(known).get("tool") == tool

    async def _make(
        self, key: str, made: RecordedCall, branch: RunBranch
    ) -> Result[ToolResult, errors.ToolErrors]:
        """Record the intent of a call, then make it."""

        async def intend(edited: JsonObject | None = None) -> None:
            if key not in self.entries:
                await self.keep(key, "intent", intent_data(made.call, edited), durable=not made.repeatable)
            else:
                await self.settle()
                self._arrive(self.entries[key].at)

        async def recorded_rule(arguments: JsonObject, ask: Callable[[], Awaitable[bool]]) -> bool:
            """Return whether a rule let a call with these arguments run at first."""
            rule = _branch_of(self).next(APPROVAL_RULE)
            if key not in self.entries and rule not in self.entries and f"{key}/q1?" in self.entries:
                return False  # someone was asked, when the tool had no rule
            asked = sha256(data_to_json(arguments).encode(errors="backslashreplace")).hexdigest()

            async def said() -> Result[str, errors.ServiceFailed]:
                return Success(asked if await ask() else "")

            if await _branch_of(self).once(APPROVAL_RULE, said) != Success(asked):
                return False
            await intend()
            return True

        approver = made.approver
        if made.needs_approval and approver is not None:
            approver = _IntendingApprover(approver, intend)
        elif not made.needs_approval:
            await intend()
        token = BRANCH.set(branch.fork(key))
        try:
            scope = replaced(made.scope, call_key=self.call_key(key), recorded_rule=recorded_rule)
            async with self.noting_sub_runs(key):
                return await made.execute(scope, approver)
        finally:
            BRANCH.reset(token)

    @asynccontextmanager
    async def noting_sub_runs(self, key: str) -> AsyncIterator[None]:
        """Note the sub-runs that a call begins, which are recorded with its result."""
        caller = CALLER.get()
        own = None if caller is None else replaced(caller, sub_runs=[], recorded={})
        above = CALLER.set(own)
        try:
            yield
        finally:
            CALLER.reset(above)
            if caller is not None and own is not None and own.sub_runs:
                caller.take_in(own.sub_runs, own.recorded)
                self._begun[key] = {
                    **await self._sub_run_data(own.sub_runs),
                    "spent": {
                        place: encode(parts, tuple[RunUsage, ...])
                        for place, parts in own.recorded.items()
                        if isinstance(place, str)
                    },
                }

    def noted_sub_runs(self, key: str) -> JsonObject:
        """Return what is recorded of the sub-runs of a call that has ended."""
        return self._begun.pop(key, {})

    async def _sub_run_data(self, sub_runs: Sequence[SubRun]) -> JsonObject:
        """Return the sub-runs of a call: their ids, or whole if another record has one."""
        begun = [each.run_id for each in sub_runs if each.parent_run_id == self.run_id]
        assert self.record is not None, "a replay makes no call"
        for run_id in begun:
            found = await ask_record(self.record, RunRecord.find, None, run_id)
            if found.value_or(None) is None:
                return {"sub_runs": encode(tuple(sub_runs), tuple[SubRun, ...])}
        return {"runs": [*begun]}

    async def take_in(self, body: Mapping[str, Any], *, is_shared: bool) -> None:
        """Add the sub-runs of a recorded call to the run.

        What they used is added too, unless the result of the call has it.

        Args:
            is_shared: whether the call was paid for by the run that this one was forked from.
        """
        record = self.record or self.reader
        if record is None:
            return
        sub_runs = await self._sub_runs_in(body, record)
        own = {each.run_id: each.metadata for each in sub_runs if each.parent_run_id == self.run_id}
        self.reached |= dict.fromkeys(own)
        if self.account is not None and not is_shared:
            unpaid: Collection[RunId] = own
            if own and body.get("result", {}).get("usage"):  # which is without what its approval rule asked
                unpaid = self.entries.runs_of_services
            for run_id, figures in own.items():
                self.account.add(figures.models if run_id in unpaid else ())
        caller = CALLER.get()
        if caller is None:
            return
        caller.account.count_calls(sum(figures.tool_calls for figures in own.values()))
        recorded = body.get("spent", {}).items()
        spent = {place: decoded(parts, tuple[RunUsage, ...]) for place, parts in recorded}
        caller.take_in(sub_runs, spent)

    async def _sub_runs_in(self, body: Mapping[str, Any], record: RunRecord) -> list[SubRun]:
        """Return the sub-runs that the data of a call names or has, as they ended."""
        sub_runs: list[SubRun] = []
        for run_id in body.get("runs", ()):
            found = await attempt(record.find(RunId(run_id)))
            run = found.value_or(None)
            if run is not None and run.result:
                sub_runs += ended_runs(run, self.run_id, run.agent_id)
        if "sub_runs" in body:
            sub_runs += decoded(body["sub_runs"], tuple[SubRun, ...])
        return sub_runs

    def derived_id(self, kind: str, seed: str) -> str:
        """Return the next id of a kind in the branch, with the time of the run's start."""
        name = _branch_of(self).name(kind)
        digest = sha256(f"{seed}\0{name}".encode(errors="backslashreplace")).digest()
        return bytes_to_ulid(int(self.begun_at.timestamp() * 1000).to_bytes(6, "big") + digest[:10])

    def call_key(self, key: str) -> str:
        """Return the idempotency key of a call."""
        return f"{self.run_id}:{key}"

    async def _outcome_in_doubt(
        self, key: str, made: RecordedCall
    ) -> Result[ToolResult, errors.ToolErrors] | None:
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
        return await self._ask_about_doubt(key, made)

    async def _ask_about_doubt(
        self, key: str, made: RecordedCall
    ) -> Result[ToolResult, errors.ToolErrors] | None:
        tried = key
        while f"{tried}!" in self.entries:  # it was repeated, and that call is in doubt too
            tried += "!"
        question = f"{tried}?"
        answer = self.entries.get(f"{question}=")
        request = _doubt_request(f"{self.call_key(tried)}/doubt", made)  # "?" would end the path of a URL
        if self.in_doubt == "ask" and made.approver is not None:
            self._doubts[request.approval_id] = question
            await attempt(made.approver.decide(request))  # through ``ask``, which records the answer
            answer = await self._fetched(f"{question}=")
        elif answer is None and self.in_doubt == "fail":
            if question not in self.entries:
                await self.keep(question, "question", question_data(request, "doubt"), durable=True)
            answer = await self._fetched(f"{question}=")
            if answer is None:
                self._publish_doubt(key, made, "stopped")
                reason = f"the call {key} of {made.call.name} may have taken effect; settle it, then resume."
                raise RunStopped(errors.RunInterrupted(self.run_id, reason))
        given = {} if answer is None else data_of(answer)
        if "value" in given:
            self._publish_doubt(key, made, "settled")
            return made.with_result(given["value"])
        if given.get("approved") is True:
            await self.keep(f"{tried}!", "intent", intent_data(made.call, made.edited), durable=True)
            self._publish_doubt(key, made, "repeated")
            return None
        self._publish_doubt(key, made, "told")
        return made.with_result(None, IN_DOUBT).map(lambda result: evolve(result, origin="in_doubt"))

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
        key = doubt or await self._question_key(request)
        known = self.entries.get(f"{key}=")
        if known is None:
            if self.record is None:
                raise ReplayEnded(self.run_id, key)
            if key not in self.entries:
                kind = None if doubt is None else "doubt"
                await self.keep(key, "question", question_data(request, kind), durable=True)
            outcome: Result[_A, errors.ServiceFailed] | None = None
            async with self._answered(key):
                outcome = await live()
            await self._settle_all(self.record)  # fails if the run was taken over during the wait
            if isinstance(outcome, Failure):
                return outcome
            if outcome is not None:
                await self._answer(self.record, key, outcome.unwrap())
            known = await self._fetched(f"{key}=")
        elif self.record is not None and f"{key}{PUBLISHED}" not in self.entries:
            publish()  # the asking process died before it was logged
        if known is None:
            raise self._lost()
        self._arrive(known.at)
        body = data_of(known)
        if doubt is not None and "value" in body:
            body = {"approved": False, "reason": "Its result was given."}
        return Success(decoded(body, expected))

    @asynccontextmanager
    async def _answered(self, question: str) -> AsyncIterator[None]:
        """Leave the block when another process has answered a question."""
        stopped: list[RunStopped] = []

        async def look(scope: anyio.CancelScope) -> None:
            await anyio.lowlevel.checkpoint()
            await self.flush()
            try:
                if f"{question}{PUBLISHED}" not in self.entries:
                    await self.keep(f"{question}{PUBLISHED}", "service", {})
                for pause_s in pauses():
                    if await self._fetched(f"{question}=") is not None:
                        break
                    if self._order == "lost":
                        raise self._lost()
                    await anyio.sleep(pause_s)
            except RunStopped as error:
                stopped.append(error)
            scope.cancel()

        async with beside(look):
            yield
        if stopped:
            raise stopped[0]

    async def _question_key(self, request: object) -> str:
        """Return the key of a request; an answer holds for no other call or question."""
        branch = _branch_of(self)
        while True:
            key = f"{branch.name('q')}?"
            known = self.entries.get(key)
            if known is None:
                return key
            compared: Sequence[str] = ()
            if isinstance(request, QuestionRequest):
                compared = ("text", "options")
            elif isinstance(request, ApprovalRequest) and self.entries.may_differ(known):
                compared = ("tool_name", "arguments")
            if not compared:
                return key
            asked, now = (
                cast(dict[str, Any], each["request"])
                for each in (data_of(known), json.loads(data_to_json(question_data(request))))
            )
            if all(asked.get(name) == now[name] for name in compared):
                return key
            if self.record is not None:  # nobody else needs to decide on it
                await self._answer(self.record, key, _dropped(data_of(known), "The call has changed."))

    async def _drop_questions(self, record: RunRecord | None, key: str) -> None:
        """Answer what the function of a call asked, since that is not run again."""
        for each in [*self.entries.values()]:
            is_open = each.kind == "question" and f"{each.key}=" not in self.entries
            if record is not None and is_open and each.key.startswith(f"{key}/"):
                await self._answer(record, each.key, _dropped(data_of(each), "The call is not run again."))

    async def _answer(self, record: RunRecord, question: str, value: object) -> None:
        """Record the answer to a question, unless it has one."""
        text = data_to_json(cast(JsonObject, encode(value)))
        entry = RunEntry(f"{question}=", "answer", self._clock.now(), text)
        recorded(self.run_id, await ask_record(record, RunRecord.answer, None, self.run_id, entry))

    async def is_deleted(self) -> bool:
        """Return whether the run was deleted from its record."""
        if self.record is None:
            return False
        return await ask_record(self.record, RunRecord.find, None, self.run_id) == Success(None)

    @property
    def deleted_error(self) -> errors.ExecutionError:
        """The error of a run that was deleted from its record."""
        told = f"Run {self.run_id!r} was deleted from its record while it was under way."
        return errors.ExecutionError(told, self.run.task.id, "agent-loop", errors.LeaseLost(self.run_id))

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
        found = await ask_record(self.record, RunRecord.entry, None, self.run_id, key)
        entry = recorded(self.run_id, found)
        if entry is not None:
            self.entries[key] = entry
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

    async def begin_function(self) -> None:
        """Note the recorded calls that a function has to make again."""
        await self.journal.begin_function()

    def hold_to_record(self, kind: str) -> None:
        """Raise ``ReplayEnded`` if a recorded call of the branch was left out."""
        self.journal.entries.hold_to_record(self.path, self.next(kind) if kind else "")

    @property
    def is_repeated(self) -> bool:
        """Whether the next call of the branch, or one within it, is recorded."""
        entries = self.journal.entries
        left = any(key.startswith(self.path) for key in entries.calls_left)
        return left or any(entries.call_at(self.next(kind)) is not None for kind in "tm")

    async def once(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """Return the recorded result of a service call, or make the call and record it."""
        journal, is_live = self.journal, self.journal.record is not None
        if name not in SERVICES:
            return await call() if is_live or name not in _UNRECORDED_WRITES else Success(None)
        if name == "sessions.begin" and is_live:
            call = partial(_turn_or_stop, journal.run_id, call)
        key, kind = self.name(name), SERVICES[name]
        if kind is None and not is_live and key not in journal.entries:  # it was cut off while being closed
            return Success(None)
        entry = journal.find(key)
        if entry is not None:
            if name == "sessions.begin" and is_live:  # its turn is taken again
                begun = await call()
                if not isinstance(begun, Success):
                    return begun
            body = journal.entries.body_of(entry)
            journal.count_service(key, body)
            await journal.take_in(body, is_shared=journal.entries.is_shared(entry))
            return outcome_in(body, "value", kind, ServiceErrors)
        return await self._recording(key, kind, call)

    async def _recording(self, key: str, kind: Any, call: Callable[[], Awaitable[Any]]) -> Any:
        """Make the call of a service, and record its outcome with what it used."""
        journal = self.journal
        await journal.settle()
        used: list[RunUsage] = []
        branch = self.fork(key)
        above = BRANCH.set(branch)
        recorder = USAGE_RECORDER.set(_also_noting(used, USAGE_RECORDER.get()))
        try:
            async with journal.noting_sub_runs(key):
                outcome = await call()
        finally:
            USAGE_RECORDER.reset(recorder)
            BRANCH.reset(above)
        journal.count_within(key)
        body = outcome_data(outcome, "value", kind, ServiceErrors) | journal.noted_sub_runs(key)
        if used:
            body["usage"] = encode(tuple(used), tuple[RunUsage, ...])
        if used or branch.has_calls:  # what it has published is not published again
            await journal.flush()
        await journal.keep(key, "service", body, later=True)
        return outcome


def submitted_id() -> tuple[str, bool]:
    """Return the id of the next run that a durable run submits, empty outside of one.

    And whether it is a replay, which submits nothing.
    """
    branch = BRANCH.get()
    if not isinstance(branch, RunBranch):
        return "", False
    return branch.journal.derived_id("s", branch.journal.run_id), branch.journal.record is None


def _branch_within(journal: RunJournal) -> RunBranch | None:
    """Return the branch of a run in which this is called; ``None`` outside of the run."""
    branch = BRANCH.get()
    return branch if isinstance(branch, RunBranch) and branch.journal is journal else None


def _branch_of(journal: RunJournal) -> RunBranch:
    branch = _branch_within(journal)
    if branch is None:
        raise RuntimeError("A call of a durable run was made outside of its context.")
    return branch


def _dropped(question: JsonObject, reason: str) -> ApprovalDecision | Reply:
    """Return the answer to a recorded question that nobody needs to answer any more."""
    is_approval = question.get("kind") == "approval"
    return ApprovalDecision(False, reason) if is_approval else Reply(missing=reason)


async def _turn_or_stop(run_id: RunId, begin: Callable[[], Awaitable[Any]]) -> Any:
    """Return the turn of a session; interrupt the run if the store cannot be used now."""
    begun = await begin()
    error = begun.failure() if isinstance(begun, Failure) else None
    if isinstance(error, errors.SessionUnavailable):
        raise RunStopped(errors.RunInterrupted(run_id, error.message, error))
    return begun


def _also_noting(spent: list[RunUsage], recorder: UsageRecorder | None) -> UsageRecorder:
    async def note(parts: Sequence[RunUsage], *, purpose: str = "", duration_ms: float = 0.0) -> None:
        spent.extend(parts)
        if recorder is not None:
            await recorder(parts, purpose=purpose, duration_ms=duration_ms)

    return note


class RunClock:
    """The clock of a durable run: the time of its latest answer; durations are real."""

    def __init__(self, clock: Clock, journal: RunJournal) -> None:
        self.monotonic = clock.monotonic
        self._journal = journal

    def now(self) -> datetime:
        """Return the time of day in UTC."""
        branch = _branch_within(self._journal)
        return self._journal.begun_at if branch is None else branch.at


class RunIds:
    """Derives the ids of a durable run from its run id."""

    def __init__(self, journal: RunJournal) -> None:
        self._journal = journal

    def new(self) -> str:
        """Return the next id of the branch."""
        return self._journal.derived_id("id", self._journal.seed)


@frozen(eq=False)
class RecordedCall:
    """A tool call and the means to execute it.

    Attributes:
        execute: makes the call, in a scope and with an approver.
        note_begun: notes that a process which has ended had begun it.
        repeatable: whether it may be repeated with the same idempotency key.
        resumable: whether it only begins durable runs, which resume.
        probe: returns whether the call with an idempotency key was done, and its result; ``None`` if unknown.
        edited: the arguments that an approver gave before the call was made; ``None`` for those of the call.
    """

    call: ToolCall
    scope: ToolScope
    approver: Approver | None
    execute: Callable[[ToolScope, Approver | None], Awaitable[Result[ToolResult, errors.ToolErrors]]]
    note_begun: Callable[[], None]
    needs_approval: bool
    repeatable: bool
    resumable: bool
    probe: Callable[[str], Awaitable[tuple[Json] | None]] | None = None
    edited: JsonObject | None = None

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
        notice="The process ended while this call was under way, or its result could not be recorded: "
        "it may have taken effect. Run it again?",
        check=partial(arguments_in_doubt, call.name),
    )


def arguments_in_doubt(tool_name: str, arguments: JsonObject) -> Result[None, errors.InvalidToolArguments]:
    """Refuse other arguments for a call in doubt, which keeps its idempotency key."""
    expected = "those of the call in doubt, which is made again as it was"
    problem = errors.ArgumentProblem("arguments", "others", expected)
    return Failure(errors.InvalidToolArguments(tool_name, (problem,)))


async def ask_record(
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


def recorded(run_id: RunId, answer: Result[_A, errors.RecordErrors]) -> _A:
    """Return the record's answer; stop the run if the record failed."""
    if isinstance(answer, Success):  # its class is quicker to see than that it is no failure
        value: _A = answer.unwrap()
        return value
    error = answer.failure()
    interrupted = errors.RunInterrupted(run_id, error.message, error)
    raise RunStopped(interrupted, is_lost=isinstance(error, errors.LeaseLost))
