"""Replays and forks of recorded runs.

A replay is the run once more, from its record alone: no model is asked, no tool is run, nothing is stored. It
must end in the same steps and the same result; where it does not, the code or the agent has changed, and the
first step that differs is named. A fork is a new run that has the recorded answers up to a step, and asks for
all that comes after it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import evolve, frozen
from returns.result import Failure, Result, Success

from reactive_agents.core import errors
from reactive_agents.core.codec import decode, to_json
from reactive_agents.core.events import TaskFailed
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.results import DEADLINE, ReasoningStep
from reactive_agents.core.run_record import RecordedRun, RunEntry
from reactive_agents.core.tasks import TaskResult
from reactive_agents.core.texts import counted
from reactive_agents.effects import BRANCH, attempt
from reactive_agents.engine.context import CALLER, RunStopped
from reactive_agents.engine.durability import EventSink
from reactive_agents.engine.recorded_answers import RecordedEntries, ReplayEnded, end_of, recorded_outcome
from reactive_agents.engine.run_journal import RunBranch, RunJournal
from reactive_agents.engine.services import RunOverrides
from reactive_agents.ports import RunRecord

if TYPE_CHECKING:
    from reactive_agents.core.events import AgentEvent
    from reactive_agents.engine.services import AgentEngine

StepKind: TypeAlias = Literal["model", "tool"]


@frozen
class RecordedStep:
    """One step of a recorded run: an answer of the model, or a tool's outcome.

    Attributes:
        number: the number of the step, from 1, in the order of recording.
        key: the name of the call in the record.
        name: the purpose of the request, or the tool.
        text: the answer, the calls that it makes, or the result, as text.
    """

    number: int
    kind: StepKind
    key: str
    entry: int
    name: str
    text: str


@frozen
class Replay:
    """The outcome of a replay.

    Attributes:
        outcome: the result or the failure; ``None`` where the replay ended before.
        events: what happened, as events with the time of the replay.
        difference: how the replay differs from the record, as a sentence; empty where it is equal.
        step: number of the first step that differs, or of the last one that was replayed, as in ``steps()``.
    """

    outcome: Result[TaskResult, TaskFailed] | None
    events: tuple[AgentEvent, ...]
    difference: str
    step: int


def recorded_steps(entries: Sequence[RunEntry]) -> tuple[RecordedStep, ...]:
    """Return the steps that entries record."""
    steps: list[RecordedStep] = []
    for entry in entries:
        if entry.kind not in ("model", "result"):
            continue
        body = json.loads(entry.body)
        kind: StepKind = "model" if entry.kind == "model" else "tool"
        asked = body.get("asked")
        model = asked[0] if isinstance(asked, list) and asked else ""  # it may be damaged
        name = str(model if kind == "model" else body.get("tool", ""))
        steps.append(RecordedStep(len(steps) + 1, kind, entry.key, entry.number, name, _text_of(body)))
    return tuple(steps)


async def replay_run(
    engine: AgentEngine,
    run: RecordedRun,
    entries: Sequence[RunEntry],
    *,
    until: int | None = None,
    reader: RunRecord | None = None,
    deps: Any = None,
) -> Replay:
    """Run a recorded run once more, from its record alone.

    Args:
        until: number of the last step to replay; all by default.
        reader: the record, for the runs of other agents that are part of the run.
        deps: the dependencies of the run, which no record holds.
    """
    steps = recorded_steps(entries)
    if until is not None and until < len(steps):
        entries = [each for each in entries if each.number <= steps[until - 1].entry]
    known = RecordedEntries(run, entries, lenient=run.origin is not None)
    journal = RunJournal(run, known, engine.ports.clock, reader=reader)
    events: list[AgentEvent] = []
    replaying = engine.replaying(EventSink(events.append))
    overrides = RunOverrides(deps=deps, settings=journal.settings)
    branch, caller = BRANCH.set(RunBranch(journal)), CALLER.set(None)
    outcome: Result[TaskResult, TaskFailed] | None = None
    try:
        outcome = await replaying.conduct_phases(
            run.task, run.run_id, overrides, streaming=False, journal=journal
        )
        difference, differing = _compared(outcome, run, entries) if until is None else ("", 0)
        step = differing or sum(each.key in known.used for each in steps)
    except RunStopped as stopped:
        key = getattr(stopped, "key", "")
        difference = stopped.difference if isinstance(stopped, ReplayEnded) else stopped.error.message
        has_ended = run.has_ended and not _was_cut_off(run)
        if not difference and has_ended and until is None:
            difference = f"it goes on with {key or 'a call'}, where the recorded run ended"
        used = sum(each.key in known.used for each in steps)
        numbers = (each.number for each in steps if each.key in (key, f"{key}="))
        step = next(numbers, used + 1) if difference else len(recorded_steps(entries))
    finally:
        CALLER.reset(caller)
        BRANCH.reset(branch)
    return Replay(outcome, tuple(events), difference, step)


def _was_cut_off(run: RecordedRun) -> bool:
    """Return whether a run was ended from outside, which its record does not have."""
    known = recorded_outcome(run)
    if isinstance(known, errors.RunRefused):
        return False
    return end_of(known).metadata.terminated_by in ("cancelled", "stopped", DEADLINE)


def _compared(
    outcome: Result[TaskResult, TaskFailed], run: RecordedRun, entries: Sequence[RunEntry]
) -> tuple[str, int]:
    """Return how an outcome differs from the recorded one, and at which step, or 0."""
    if not run.has_ended:
        return "", 0
    known = recorded_outcome(run)
    if isinstance(known, errors.RunRefused):
        return known.message, 0
    before, now = end_of(known).steps, end_of(outcome).steps
    for one, other in zip(before, now, strict=False):
        if _without_duration(one) != _without_duration(other):
            number = _number_of(other, entries)
            return f"Step {number} has another {other.type}: {other.content!r:.200}", number
    if isinstance(known, Success) and isinstance(outcome, Failure):
        return f"It fails, unlike the recorded run: {outcome.failure().error.message}", 0
    if len(before) != len(now):
        return f"The result has {len(now)} steps, and the recorded one {len(before)}.", 0
    return _difference_of_ends(known, outcome), 0


def _difference_of_ends(
    known: Result[TaskResult, TaskFailed], outcome: Result[TaskResult, TaskFailed]
) -> str:
    """Return how a result or failure differs from the recorded one; empty where equal."""
    if isinstance(known, Success) and isinstance(outcome, Success):
        one, other = known.unwrap(), outcome.unwrap()
        for name in ("output", "status", "reason", "tool_results", "completed_at"):
            if getattr(one, name) != getattr(other, name):
                return f"The {name} of the result differs: {getattr(other, name)!r:.200}"
        return ""
    if isinstance(known, Failure) and isinstance(outcome, Failure):
        same = known.failure().error == outcome.failure().error
        return "" if same else f"It fails otherwise: {outcome.failure().error.message}"
    return "It ends otherwise than the recorded run."


def _number_of(step: ReasoningStep, entries: Sequence[RunEntry]) -> int:
    """Return the number of the recorded step of a step of a result; 0 for none."""
    call_id = None if step.metadata is None else step.metadata.call_id
    known = {each.number: each for each in entries if each.at <= step.timestamp}
    before = [each for each in recorded_steps(entries) if each.entry in known]
    if step.type == "observation":  # parallel calls have one time, that of the last
        results = ((each, json.loads(known[each.entry].body).get("result")) for each in before)
        before = [each for each, result in results if result and result.get("call_id") == call_id] or before
    return before[-1].number if before else 0


def _without_duration(step: ReasoningStep) -> ReasoningStep:
    """Return a step without how long it took, which no record holds."""
    return step if step.metadata is None else evolve(step, metadata=evolve(step.metadata, duration=None))


async def fork_run(
    record: RunRecord,
    run: RecordedRun,
    entries: Sequence[RunEntry],
    into: RunId,
    *,
    at: int,
    definition: dict[str, str],
    changes: JsonObject,
    tool_result: Json | EllipsisType = ...,
) -> Result[RecordedRun, errors.RunRefused | errors.RecordErrors]:
    """Add a run that shares the record of another one before a step.

    Args:
        at: number of the step that is made again, from 1.
        changes: ``model``, ``instructions`` and ``message`` of the new run.
        tool_result: the result of the step, which is then that of a tool call and is not made; by default it
            is made.
    """
    steps = recorded_steps(entries)
    if not 1 <= at <= len(steps):
        return Failure(errors.RunRefused(run.run_id, f"has {counted(len(steps), 'step')}, and no step {at}"))
    step = steps[at - 1]
    if tool_result is not ... and step.kind != "tool":
        return Failure(errors.RunRefused(run.run_id, f"has no tool call at step {at}"))
    before, shared = json.loads(run.changes) if run.changes else {}, step.entry - 1
    made = {**before, **changes, "seed": before.get("seed", run.run_id)}
    if "message" in before:
        earlier = (*before.get("earlier", ()), (before["message"], run.origin_entries))
        made["earlier"] = [(text, min(at, shared)) for text, at in earlier]
        if "message" not in changes:
            del made["message"]
    forked = RecordedRun(
        into,
        run.agent_id,
        run.task,
        definition,
        origin=run.run_id,
        origin_entries=shared,
        changes=json.dumps(made),
        created_at=run.created_at,
    )
    replaced: list[RunEntry] = []
    if tool_result is not ...:
        known = next(each for each in entries if each.number == step.entry)
        body = json.loads(known.body)
        result = body.get("result") or {"call_id": "", "tool_name": step.name}
        text = to_json({"tool": step.name, "result": {**result, "result": tool_result, "error": ""}})
        replaced = [RunEntry(step.key, "result", known.at, text)]
    added = await attempt(record.add(forked, *replaced))
    if not isinstance(added, Success):
        return Failure(added.failure())
    if not added.unwrap():
        return Failure(errors.RunRefused(into, "exists already"))
    return Success(forked)


def _text_of(body: Any) -> str:
    answer = body.get("answer")
    if isinstance(answer, dict):
        calls = [f"{each['name']}({json.dumps(each['arguments'])})" for each in answer.get("tool_calls", ())]
        return " ".join(filter(None, (str(answer.get("content", "")), *calls)))
    result = body.get("result")
    if isinstance(result, dict):
        value = result.get("error") or result.get("result")
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    error = body.get("error")
    if not isinstance(error, dict):
        return ""
    failed = decode(error, errors.LLMErrors | errors.ToolErrors)
    return failed.map(lambda known: known.message).value_or(str(error))
