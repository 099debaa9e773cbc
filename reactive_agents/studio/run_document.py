"""One run as a document: a pure function of its logged events.

A document has the rows of a timeline in the order in which they began, the current plan, tree of thoughts and
attempts of reflexion, the open requests to people, and the totals. Events are added one by one, so that an
update costs only its new events. Each change has the number of its event, so that a page gets only the
changes after the event that it knows.

The events may come from another person's file, so their bodies are untrusted: values that are missing or of
another type are ignored, and no event causes a failure.
"""

from __future__ import annotations

import json
import re
import zlib
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher
from itertools import takewhile, zip_longest
from typing import Any, Literal, TypeAlias

from attrs import define, field
from returns.result import Success

from reactive_agents.core import errors
from reactive_agents.core.bases import named_period
from reactive_agents.core.codec import decode
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.run_record import LoggedEvent, LoggedRun
from reactive_agents.core.texts import counted, dollars, one_line

RowState: TypeAlias = Literal["running", "done", "failed", "waiting", "denied", "recorded", "note", "skipped"]

_Errors: TypeAlias = errors.RuntimeErrors | errors.LLMErrors | errors.MemoryErrors
"""The union of errors in events."""

_LONGEST_READ = 1_000
"""Characters of a text that the line beside a row's title shows; the row's details have all of it."""

_LOOP_PHASES = frozenset({"think", "act", "observe"})
_QUESTIONS: Mapping[str, str] = {
    "plan": "Plan",
    "replan": "Plan again",
    "patch": "Patch a step",
    "reflect": "Reflect on the outcome",
    "critique": "Critique",
    "expand": "Think of next thoughts",
    "score": "Score thoughts",
    "vote": "Vote on thoughts",
    "summarize": "Summarize earlier turns",
    "compaction": "Summarize earlier turns",
    "select": "Choose a strategy",
    "output-type": "Answer in the output type",
}
"""Titles of model calls other than turns, by their purpose."""

_SHOWN_OF_ROW = (
    *("id", "kind", "title", "note", "depth", "at_ms", "took_ms", "state"),
    *("tokens_in", "tokens_out", "cost_usd", "label", "number"),
)
_SCORE = re.compile(r"score (\d(?:\.\d+)?)")
_WORD_START = re.compile(r"(?<=[a-z])(?=[A-Z])")


@define(eq=False)
class Row:
    """One row of the timeline.

    Attributes:
        id: the number of the event that began it.
        note: a text beside the title, on one line.
        depth: levels below the phases of the run.
        at_ms: milliseconds from the start of the run.
        took_ms: duration in milliseconds; ``None`` while it is running, and for a row without duration.
        is_minor: whether it is hidden unless all rows are shown.
        label: its pass of the strategy.
        changed: the number of the last event that changed it.
        content: the value by which rows of two runs are compared.
        end: the number of the event that ended it; 0 for none.
        purpose: the purpose of a model call.
        is_reused: whether an earlier result was used instead of running the tool.
    """

    id: int
    kind: str
    title: str
    note: str = ""
    depth: int = 0
    at_ms: float = 0.0
    took_ms: float | None = None
    state: RowState = "note"
    is_minor: bool = False
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    label: str = ""
    number: int | None = None
    changed: int = 0
    content: Json = None
    end: int = 0
    purpose: str = ""
    is_reused: bool = False

    def document(self) -> JsonObject:
        """Return the row as JSON data."""
        return {**{name: getattr(self, name) for name in _SHOWN_OF_ROW}, "minor": self.is_minor}

    @property
    def digest(self) -> int:
        """A number that is equal for rows with the same content."""
        text = json.dumps([self.kind, self.title, self.content], sort_keys=True)
        return zlib.crc32(text.encode("utf-8", "surrogatepass"))


@define(eq=False)
class RunTimeline:
    """The document of a run, event by event.

    Each method named like an event takes the fields of one, whose number is ``last``.
    """

    started_at: datetime
    rows: list[Row] = field(factory=list)
    attempts: list[dict[str, Any]] = field(factory=list)
    waiting: dict[str, JsonObject] = field(factory=dict)
    totals: dict[str, Any] = field(factory=lambda: dict(_NO_TOTALS))
    models: dict[str, dict[str, Any]] = field(factory=dict)
    strategy: str = ""
    status: str = "running"
    ended: JsonObject | None = None
    answer: str | None = None
    last: int = 0
    _at_ms: float = 0.0
    parts_changed: dict[str, int] = field(factory=dict)
    _by_id: dict[int, Row] = field(factory=dict)
    _calls: dict[int, Row] = field(factory=dict)
    _tools: dict[str, Row] = field(factory=dict)
    _steps: dict[str, Row] = field(factory=dict)
    _open: defaultdict[str, dict[int, Row]] = field(factory=lambda: defaultdict(dict))
    """The rows that have not ended, by their kinds and ids."""
    _plan: dict[str, Any] | None = None
    _planned: dict[str, dict[str, Any]] = field(factory=dict)
    """The steps of the plan by their ids."""
    _pending: dict[str, None] = field(factory=dict)
    _thoughts: dict[str, dict[str, Any]] = field(factory=dict)
    _chosen: list[str] = field(factory=list)
    _phase: Row | None = None
    _turns: int = 0
    _is_continued: bool = False
    _repaired: set[str] = field(factory=set)
    """The ids of calls that were repaired."""
    _unseen: dict[str, Row] = field(factory=dict)
    """Calls that have ended, until the model is shown the result."""
    _thought: Row | None = None
    """The last turn, to which the next steps belong."""

    def add(self, event: LoggedEvent) -> None:
        """Add the next event of the run."""
        self.last = event.sequence
        self._at_ms = round((event.at - self.started_at).total_seconds() * 1000, 3)
        take = getattr(self, f"_{event.kind}", None)
        if take is None or not event.kind[:1].isupper():
            self._other(event.kind, event.body)
        else:
            take(event.body)

    def row(self, row_id: int) -> Row | None:
        """Return the row of that id."""
        return self._by_id.get(row_id)

    @property
    def plan(self) -> dict[str, Any] | None:
        """The plan with its steps, if there is one."""
        return None if self._plan is None else {**self._plan, "steps": list(self._planned.values())}

    @property
    def tree(self) -> dict[str, Any] | None:
        """The tree of thoughts, if there is one."""
        return {"nodes": list(self._thoughts.values()), "chosen": self._chosen} if self._thoughts else None

    def document(self, after: int = 0) -> JsonObject:
        """Return the document; after an event's number, the changed rows and parts."""
        parts: dict[str, Any] = {
            "plan": self.plan,
            "tree": self.tree,
            "attempts": self.attempts,
            "waiting": list(self.waiting.values()),
        }
        new = {name: value for name, value in parts.items() if self.parts_changed.get(name, 0) > after}
        return {
            "rows": [each.document() for each in self.rows if each.changed > after],
            **(parts if after == 0 else new),
            "totals": {**self.totals, "models": list(self.models.values())},
            "strategy": self.strategy,
            "status": self.status,
            "ended": self.ended,
            "answer": self.answer,
            "last": self.last,
        }

    def _TaskStarted(self, body: JsonObject) -> None:
        self.status = "running"
        if not self.rows:
            self._row("start", "Task", _text(body, "input"))

    def _RunContinued(self, body: JsonObject) -> None:
        self._close_all("The process ended here.")
        self._phase, self._turns, self._is_continued = None, 0, True
        note = f"{counted(_integer(body, 'entries'), 'recorded answer')} are used again"
        self._row("attempt", f"Continued, attempt {_integer(body, 'attempt')}", note)

    def _SessionAwaited(self, body: JsonObject) -> None:
        note = f"until earlier runs of the session {_text(body, 'session')} have ended"
        self._row("other", "Waits", note)

    def _TaskCompleted(self, body: JsonObject) -> None:
        result = _object(body, "result")
        figures = _object(result, "metadata")
        tree = _object(result, "tree")
        if self._thoughts and tree:
            self._chosen = [each for each in _list(tree, "chosen") if isinstance(each, str)]
            self._part("tree")
        self.answer = _text(result, "output") or _text(result, "output_text") or None
        self._ended(_text(result, "status") or "completed", figures, _text(result, "reason"))

    def _TaskFailed(self, body: JsonObject) -> None:
        message = _message(body) or "It failed."
        error, figures = _object(body, "error"), _object(body, "metadata")
        if error.get("tag") == "RunInterrupted":
            self._row("failure", "Interrupted", message, state="failed")
            return
        status = "cancelled" if error.get("tag") == "RunCancelled" else "failed"
        self._ended(status, figures, message, error=error)

    def _ended(self, status: str, figures: JsonObject, reason: str, **more: Json) -> None:
        self._close_all("")
        by = _text(figures, "terminated_by")
        self.status = status
        self.ended = {"status": status, "terminated_by": by, "reason": reason, **more}
        if self.waiting:
            self.waiting.clear()
            self._part("waiting")
        state: RowState = "failed" if status in ("cancelled", "failed") else "done"
        self._row("end", f"Ended: {status}", reason, state=state, content=[status, by], label=by)

    def _ExecutionPhaseEntered(self, body: JsonObject) -> None:
        name = _text(body, "phase")
        if name not in _LOOP_PHASES:
            self._enter(name)
        elif not self._is_reasoning:
            self._enter("reasoning")

    def _ExecutionPhaseSkipped(self, body: JsonObject) -> None:
        self._leave()
        self._row("phase", _text(body, "phase"), _text(body, "reason"), state="skipped", is_minor=True)

    def _ExecutionPhaseFailed(self, body: JsonObject) -> None:
        title = f"{_text(body, 'phase')} failed"
        self._row("failure", title, _message(body), state="failed", depth=1)

    def _ExecutionLoopIteration(self, body: JsonObject) -> None:
        if not self._is_reasoning:
            self._enter("reasoning")

    def _ExecutionPaused(self, body: JsonObject) -> None:
        self.status = "paused"
        before = _text(body, "next_step")
        self._row("pause", "Paused", f"before the {before}" if before else "", state="waiting")

    def _ExecutionResumed(self, body: JsonObject) -> None:
        self.status = "running"
        for row in list(self._open["pause"].values()):
            self._end(row, "done")

    def _ExecutionStopped(self, body: JsonObject) -> None:
        self._row("policy", "Stopped by a person", _text(body, "reason"))

    def _ExecutionCancelled(self, body: JsonObject) -> None:
        self._row("failure", "Cancelled", f"in {_text(body, 'phase')}", state="failed")

    def _StrategySelected(self, body: JsonObject) -> None:
        self.strategy, reason = _text(body, "strategy"), _text(body, "reason")
        if not self._is_reasoning:
            phase = self._enter("reasoning")
            phase.note = _line(f"{self.strategy}, {reason}")
        else:  # the earlier strategy gave up, or chose another one
            self._row("strategy", self.strategy, reason, depth=1, content=self.strategy)

    def _ReasoningStepCompleted(self, body: JsonObject) -> None:
        label, thought, action = _text(body, "kernel_pass"), _text(body, "thought"), _text(body, "action")
        turn, kind = self._thought, label.rpartition(":")[2]
        if kind in ("critique", "reflect", "search", "plan", "select"):
            if thought:
                is_minor = kind == "plan"  # PlanCreated has a row
                self._row(kind, _titled(kind), thought, depth=1, content=thought, is_minor=is_minor)
            if kind == "critique":
                self._critique(thought)
            return
        if turn is not None and not turn.label:
            turn.label = label
            turn.changed = self.last
        if thought and turn is not None and not turn.note:
            turn.note, turn.changed = _line(thought), self.last
        call_id = _text(body, "call_id")
        if action and _list(body, "repairs"):
            self._repaired.add(call_id)
        elif not action and call_id in self._unseen:
            self._unseen.pop(call_id).changed = self.last

    def _FinalAnswerProduced(self, body: JsonObject) -> None:
        text, status = _text(body, "answer"), _text(body, "status")
        if self._depth > 1:
            row = self._row("result", "Result of the step", text, depth=2, content=[status, text])
        else:
            self.answer = text or self.answer
            row = self._row("answer", "Answer", text, depth=1, content=[status, text])
        row.label = _text(body, "terminated_by")
        if self.strategy == "reflexion" or _text(body, "strategy") == "reflexion":
            self._attempt(text, status, ended_by=row.label)
            self._part("attempts")

    def _critique(self, text: str) -> None:
        last = self.attempts[-1] if self.attempts else None
        if last is None or "critique" in last:
            last = self._attempt("", "none")
        found = _SCORE.search(text)
        last["critique"] = text
        last["score"] = float(found[1]) if found else None
        last["accepted"] = text.startswith("Accepted")
        self._part("attempts")

    def _attempt(self, answer: str, status: str, **more: Json) -> dict[str, Any]:
        number = len(self.attempts) + 1
        made = {"number": number, "answer": answer, "status": status, "row": self.last, **more}
        self.attempts.append(made)
        return made

    def _GuidanceGiven(self, body: JsonObject) -> None:
        text = _text(body, "text")
        self._row("policy", _text(body, "policy"), text, depth=1, content=text)

    def _ModelTextRetracted(self, body: JsonObject) -> None:
        self._row("policy", _text(body, "policy"), "turned down a text as the answer", depth=1, is_minor=True)

    def _ModelCallStarted(self, body: JsonObject) -> None:
        self._calls[_integer(body, "model_call")] = self._call(body, state="running")

    def _ModelCallCompleted(self, body: JsonObject) -> None:
        row = self._calls.pop(_integer(body, "model_call"), None) or self._call(body, state="recorded")
        self._open[row.kind].pop(row.id, None)
        response, usage = _object(body, "response"), _object(body, "usage")
        calls = [each for each in _list(response, "tool_calls") if isinstance(each, dict)]
        made = ", ".join(f"{_text(each, 'name')}({_shown(each.get('arguments'))})" for each in calls)
        said = _text(response, "content") or (f"→ {made}" if made else _text(response, "thinking"))
        row.note = _line(said) or row.note
        row.content = [
            _text(response, "content"),
            [[each.get("name"), each.get("arguments")] for each in calls],
        ]
        row.state = "recorded" if row.state == "recorded" else "done"
        row.took_ms, row.end = _number(body, "duration_ms"), self.last
        row.tokens_in, row.tokens_out = _whole(usage, "input_tokens"), _whole(usage, "output_tokens")
        row.cost_usd = _number(body, "cost_usd")
        row.changed = self.last
        if not self._is_counted(body):
            self._spent(body, row)
        self._thought = row

    def _ModelCallAbandoned(self, body: JsonObject) -> None:
        row = self._calls.pop(_integer(body, "model_call"), None) or self._call(body)
        row.note = _line(_message(body))
        row.took_ms = _number(body, "duration_ms")
        row.content = ["failed"]
        self._end(row, "failed")

    def _is_counted(self, body: JsonObject) -> bool:
        """Return whether a call was made, and counted, by an earlier attempt of the run."""
        return self._is_continued and body.get("replayed") is True

    def _call(self, body: JsonObject, state: RowState = "note") -> Row:
        purpose = _text(body, "purpose")
        if purpose == "think":
            self._turns += 1
            kind, title, number = "turn", f"Turn {self._turns}", self._turns
        else:
            kind, number = "question", None
            title = _QUESTIONS.get(purpose) or purpose.replace("-", " ").capitalize() or "Question"
        return self._row(kind, title, depth=self._depth, state=state, number=number, purpose=purpose)

    def _spent(self, body: JsonObject, row: Row) -> None:
        self.totals["model_calls"] += 1
        name = _text(body, "model")
        known = self.models.setdefault(
            name,
            {"model": name, "calls": 0, "tokens_in": 0, "tokens_out": 0, "cost_usd": 0.0, "took_ms": 0.0},
        )
        known["calls"] += 1
        for figures in (self.totals, known):
            figures["tokens_in"] += row.tokens_in or 0
            figures["tokens_out"] += row.tokens_out or 0
            figures["cost_usd"] += row.cost_usd or 0.0
        known["took_ms"] += row.took_ms or 0.0

    def _ToolCallStarted(self, body: JsonObject) -> Row:
        name, arguments = _text(body, "tool_name"), body.get("arguments")
        turn = self._thought
        depth = self._depth + (turn is not None)
        row = self._row("tool", name, _shown(arguments), depth=depth, state="running", content=[arguments])
        row.label = "" if turn is None else turn.label
        call_id = _text(body, "call_id")
        self._tools[call_id] = row
        if call_id in self._repaired:  # a later loop of the run may have the same id
            self._repaired.remove(call_id)
            row.label = "repaired"
        return row

    def _ToolCallCompleted(self, body: JsonObject) -> None:
        call_id = _text(body, "call_id")
        row = self._unseen[call_id] = self._tools.get(call_id) or self._ToolCallStarted(body)
        del self._tools[call_id]
        is_done = body.get("success") is True
        error = _text(body, "error")
        row.took_ms = _number(body, "duration_ms")
        row.content = [row.content, error, _shown(body.get("result"))]
        made = 0 if self._is_counted(body) else 1
        self.totals["tool_calls"] += made
        if not is_done:
            self.totals["failed_tool_calls"] += made
            row.note = _line(error) or row.note
        origin = _text(body, "origin")
        if origin and origin != "executed":
            row.label, row.is_reused = origin, True
        self._end(row, "done" if is_done else "denied" if row.state == "denied" else "failed")

    def _ToolProgressed(self, body: JsonObject) -> None:
        row = self._tools.get(_text(body, "call_id"))
        if row is None:
            return
        part, message = _number(body, "progress"), _text(body, "message")
        done = "" if part is None else f"{part:.0%} "
        row.note, row.changed = _line(f"{done}{message}"), self.last

    def _CustomEvent(self, body: JsonObject) -> None:
        call, label = self._tools.get(_text(body, "call_id")), _text(body, "tool_name")
        depth = self._depth if call is None else call.depth + 1
        self._row("other", _text(body, "name"), _shown(body.get("data")), depth=depth, label=label)

    def _ApprovalRequested(self, body: JsonObject) -> None:
        self._wait_for_call("approval", _text(body, "approval_id"), body)

    def _ApprovalDecided(self, body: JsonObject) -> None:
        self._settled(_text(body, "approval_id"))
        row = self._tools.get(_text(body, "call_id"))
        if row is not None:
            row.state = "running" if body.get("approved") is True else "denied"
            if isinstance(changed := body.get("arguments"), dict):
                row.note, row.content = _line(_shown(changed)), [changed]
            row.changed = self.last

    def _QuestionAsked(self, body: JsonObject) -> None:
        row = self._row("person", "Question", _text(body, "text"), depth=2, state="waiting")
        self._wait("question", _text(body, "question_id"), row, body)

    def _QuestionAnswered(self, body: JsonObject) -> None:
        row = self._settled(_text(body, "question_id"))
        given = _text(body, "answer") or _text(body, "reason")
        if row is not None:
            row.note = _line(f"{row.note} — {given}")
            row.content = given
            self._end(row, "done" if body.get("answered") is True else "failed")

    def _ExternalCallRequested(self, body: JsonObject) -> None:
        self._wait_for_call("call", _text(body, "tool_call_id"), body)

    def _ExternalCallDelivered(self, body: JsonObject) -> None:
        row = self._settled(_text(body, "tool_call_id"))
        if row is not None:
            row.state, row.changed = "running", self.last

    def _wait_for_call(self, kind: str, key: str, body: JsonObject) -> None:
        row = self._tools.get(_text(body, "call_id")) or self._ToolCallStarted(body)
        row.state, row.changed = "waiting", self.last
        self._wait(kind, key, row, body)

    def _wait(self, kind: str, key: str, row: Row, body: JsonObject) -> None:
        self.waiting[key] = {"kind": kind, "id": key, "row": row.id, "request": dict(body)}
        self._part("waiting")

    def _settled(self, key: str) -> Row | None:
        known = self.waiting.pop(key, {})
        self._part("waiting")
        return self._by_id.get(_integer(known, "row"))

    def _PlanCreated(self, body: JsonObject) -> None:
        title = "Plan resumed" if body.get("resumed") is True else "Plan"
        goal = _text(body, "goal")
        self._row("plan", title, goal, depth=1, content=goal)
        self._plan = {"goal": goal, "mode": _text(body, "mode"), "status": "active"}
        self._planned.clear()
        self._pending.clear()
        self._plan_steps(body)

    def _PlanRevised(self, body: JsonObject) -> None:
        change, version = _text(body, "change"), _integer(body, "version")
        steps = [each for each in _list(body, "steps") if isinstance(each, dict)]
        ahead = "; ".join(f"{_text(each, 'id')} {_text(each, 'title')}" for each in steps)
        self._row("plan", f"Plan {change}, version {version}", ahead, depth=1, content=ahead)
        if self._plan is not None:
            self._plan["version"] = version
            for name in self._pending.keys() - {_text(each, "id") for each in steps}:
                del self._planned[name], self._pending[name]
            self._plan_steps(body)

    def _plan_steps(self, body: JsonObject) -> None:
        for given in _list(body, "steps"):
            if isinstance(given, dict):
                name = _text(given, "id")
                needed = [each for each in _list(given, "depends_on") if isinstance(each, str)]
                made = {
                    "id": name,
                    "title": _text(given, "title") or _text(given, "instruction"),
                    "instruction": _text(given, "instruction"),
                    "kind": _text(given, "type"),
                    "tool": _text(given, "tool_name"),
                    "needs": needed,
                    "status": _text(given, "status") or "pending",
                    "error": _text(given, "error"),
                    "row": None,
                }
                self._set_step(name, made)
        self._part("plan")

    def _set_step(self, name: str, step: dict[str, Any]) -> None:
        self._planned[name] = step
        if step["status"] == "pending":
            self._pending[name] = None
        else:
            self._pending.pop(name, None)

    def _PlanStepChanged(self, body: JsonObject) -> None:
        name, status, title = _text(body, "step_id"), _text(body, "status"), _text(body, "title")
        error, row = _text(body, "error"), self._steps.get(name)
        if status == "in_progress":
            again = f", attempt {_integer(body, 'retries') + 1}" if _integer(body, "retries") else ""
            row = self._steps[name] = self._row(
                "step", f"Step {name}{again}", title, depth=1, state="running", content=title
            )
            self._thought = None
        elif row is not None and row.id in self._open["step"]:
            self._end(row, "done" if status == "completed" else "failed")
            row.note = _line(error) or row.note
        else:
            state: RowState = "skipped" if status == "skipped" else "note"
            row = self._row("step", f"Step {name}: {status}", error or title, depth=1, state=state)
        if self._plan is not None:
            if name in self._planned:
                changed = {"status": status, "error": error, "row": row.id}
                self._set_step(name, {**self._planned[name], **changed})
            self._part("plan")

    def _PlanEnded(self, body: JsonObject) -> None:
        if self._plan is not None:
            self._plan["status"] = _text(body, "status")
            self._part("plan")
        self._row("plan", f"Plan {_text(body, 'status')}", depth=1)

    def _ThoughtsJudged(self, body: JsonObject) -> None:
        nodes = [_thought_of(each) for each in _list(body, "thoughts") if isinstance(each, dict)]
        self._thoughts.update((each["id"], each) for each in nodes)
        self._chosen = []
        self._part("tree")
        kept = sum(not each["pruned_because"] for each in nodes)
        level = max((each["depth"] for each in nodes), default=0)
        note = f"{counted(len(nodes), 'thought')}, {kept} kept"
        self._row("tree", f"Level {level} judged", note, depth=1, content=[each["thought"] for each in nodes])

    def _ContextCompacted(self, body: JsonObject) -> None:
        turns = counted(_integer(body, "turns"), "turn")
        size = f"{_integer(body, 'tokens_before')} → {_integer(body, 'tokens_after')} tokens"
        note = f"{turns} by {_text(body, 'method')}, {size}"
        self._row("context", "Context compacted", note, depth=1)

    def _HandedOff(self, body: JsonObject) -> None:
        self._row("agent", f"Handed over to {_text(body, 'to_agent')}", _text(body, "reason"), depth=1)

    def _ModelRouted(self, body: JsonObject) -> None:
        self._row("strategy", _text(body, "model"), _text(body, "reason"), depth=1)

    def _GuardrailTriggered(self, body: JsonObject) -> None:
        blocked = _text(body, "action") == "block"
        title = f"Guardrail: {_text(body, 'category')}, {_text(body, 'action')}"
        state: RowState = "failed" if blocked else "note"
        self._row("policy", title, _text(body, "detail"), depth=1, state=state)

    def _ResultVerified(self, body: JsonObject) -> None:
        is_verified, sure = body.get("verified") is True, _number(body, "confidence")
        title = "Answer supported" if is_verified else "Answer not supported"
        note = "" if sure is None else f"confidence {sure:.2f}"
        self._row("verify", title, note, depth=1, state="done" if is_verified else "failed")

    def _BudgetWarning(self, body: JsonObject) -> None:
        limit, spent = _number(body, "limit_usd") or 0.0, _number(body, "spent_usd") or 0.0
        title = f"Budget of the {named_period(_text(body, 'period'))}"
        self._row("policy", title, f"{dollars(spent)} of ${limit:.2f} are used", depth=1)

    def _ContextLost(self, body: JsonObject) -> None:
        self._row("failure", "A part of the prompt was lost", _text(body, "reason"), depth=1, state="failed")

    def _ExecutionHookFired(self, body: JsonObject) -> None:
        self._row("other", "Hook", f"{_text(body, 'phase')}, {_text(body, 'timing')}", depth=1, is_minor=True)

    def _other(self, kind: str, body: JsonObject) -> None:
        """Add a row for any other event, with its name and texts."""
        name = _WORD_START.sub(" ", kind).capitalize()
        texts = [value for key, value in body.items() if isinstance(value, str) and key != "agent_id"]
        problem = _text(body, "problem") or _message(body)
        is_minor = not problem and kind.startswith(("Memory", "ToolNeeds", "Execution", "Model"))
        state: RowState = "failed" if problem else "note"
        note = problem or ", ".join(filter(None, texts))
        self._row("other", name[:80], note, depth=1, state=state, is_minor=is_minor)

    # --- rows -----------------------------------------------------------------------------------------------

    @property
    def _is_reasoning(self) -> bool:
        return self._phase is not None and self._phase.title == "reasoning"

    @property
    def _depth(self) -> int:
        """The depth of turns: below a running step of a plan."""
        return 2 if self._open["step"] else 1

    def _row(self, kind: str, title: str, note: str = "", *, depth: int = 0, **more: Any) -> Row:
        """Add a row with these fields; a running or waiting one is open until it ends."""
        row = Row(self.last, kind, _line(title), _line(note), depth, self._at_ms, changed=self.last, **more)
        phase = self._phase
        if depth and not row.is_minor and phase is not None and phase.is_minor:
            phase.is_minor, phase.changed = False, self.last
        self.rows.append(row)
        self._by_id[row.id] = row
        if row.state in ("running", "waiting"):
            self._open[kind][row.id] = row
        return row

    def _end(self, row: Row, state: RowState) -> None:
        row.state, row.changed, row.end = state, self.last, self.last
        if row.took_ms is None:
            row.took_ms = round(max(0.0, self._at_ms - row.at_ms), 3)
        self._open[row.kind].pop(row.id, None)

    def _enter(self, name: str) -> Row:
        self._leave()
        # minor until it has content
        phase = self._phase = self._row("phase", name, state="running", is_minor=True)
        return phase

    def _leave(self) -> None:
        if self._phase is not None and self._phase.id in self._open["phase"]:
            self._end(self._phase, "done")

    def _close_all(self, note: str) -> None:
        for row in [row for rows in self._open.values() for row in rows.values()]:
            is_phase = row.kind == "phase" and not note
            if note:
                row.note = note
            self._end(row, "done" if is_phase else "failed")
        self._calls.clear()
        self._tools.clear()

    def _part(self, name: str) -> None:
        self.parts_changed[name] = self.last


_NO_TOTALS: Mapping[str, Any] = {
    "model_calls": 0,
    "tool_calls": 0,
    "failed_tool_calls": 0,
    "tokens_in": 0,
    "tokens_out": 0,
    "cost_usd": 0.0,
}


def timeline_of(run: LoggedRun, events: Iterable[LoggedEvent]) -> RunTimeline:
    """Return the timeline of a run with these events, in order."""
    made = RunTimeline(run.started_at)
    for event in events:
        made.add(event)
    return made


def place_children(timeline: RunTimeline, children: Sequence[LoggedRun]) -> list[JsonObject]:
    """Return the sub-runs of a run, each with the row of its tool call.

    This is the call that was running when the sub-run began; of several, a call of a tool named like the
    agent.
    """
    placed: list[JsonObject] = []
    tools = sorted((each for each in timeline.rows if each.kind == "tool"), key=lambda each: each.at_ms)
    around: list[Row] = []
    for child in sorted(children, key=lambda each: each.started_at):
        at_ms = (child.started_at - timeline.started_at).total_seconds() * 1000
        begun = bisect_right(tools, at_ms, key=lambda each: each.at_ms)
        around += tools[:begun]
        del tools[:begun]
        around = [each for each in around if not each.end or at_ms <= each.at_ms + (each.took_ms or 0) + 1]
        named = [each for each in around if each.title == child.agent]
        row = next(reversed(named or around), None)
        took = child.duration_s
        placed.append(
            {
                "run_id": child.run_id,
                "agent": child.agent,
                "status": child.status,
                "task": _line(child.task),
                "row": None if row is None else row.id,
                "at_ms": round(at_ms, 3),
                "took_ms": None if took is None else round(took * 1000, 3),
                "tokens": child.tokens,
                "cost_usd": child.cost_usd,
            }
        )
    return placed


_NOT_COMPARED = frozenset({"phase", "other", "pause", "attempt", "start", "context", "person", "failure"})
"""Kinds of rows that a comparison ignores."""
_MOST_ALIGNED = 1_000_000
"""Pairs of rows after the first difference that are compared; of more, only those of the same position."""


def compare(one: RunTimeline, other: RunTimeline) -> JsonObject:
    """Return the steps of two runs in pairs.

    They are paired by position up to the first difference, then aligned by content, or by position again if
    many are left. Texts, calls and results are compared; times, ids and usage are not.
    """
    left = [each for each in one.rows if each.kind not in _NOT_COMPARED and not each.is_minor]
    right = [each for each in other.rows if each.kind not in _NOT_COMPARED and not each.is_minor]
    before, after = [each.digest for each in left], [each.digest for each in right]
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
    pairs: list[Json] = [[a.id, b.id, True] for a, b in zip(left[:same], right, strict=False)]
    rest, other_rest = [each.id for each in left[same:]], [each.id for each in right[same:]]
    if len(rest) * len(other_rest) > _MOST_ALIGNED:
        ends = zip_longest(zip(rest, before[same:], strict=True), zip(other_rest, after[same:], strict=True))
        pairs += ([a and a[0], b and b[0], bool(a and b and a[1] == b[1])] for a, b in ends)
    else:
        matcher = SequenceMatcher(None, before[same:], after[same:], autojunk=False)
        for tag, a0, a1, b0, b1 in matcher.get_opcodes():
            pairs += ([a, b, tag == "equal"] for a, b in zip_longest(rest[a0:a1], other_rest[b0:b1]))
    differs = len(before) != len(after) or same < len(before)
    return {"pairs": pairs, "first": same if differs else None}


# --- the details of a row -----------------------------------------------------------------------------------


@define(eq=False)
class KnownEvents:
    """The events of a run by their numbers, without the requests to models."""

    by_number: dict[int, LoggedEvent] = field(factory=dict)

    def body(self, number: int) -> JsonObject:
        """Return the fields of an event; empty for a missing one."""
        found = self.by_number.get(number)
        return {} if found is None else found.body


def model_call_details(row: Row, known: KnownEvents, request: JsonObject, before: JsonObject) -> JsonObject:
    """Return the request and response of a model call, with new messages marked.

    Args:
        request: the request of the call; empty if it was not logged.
        before: the request of the previous turn; empty for none.
    """
    begun, ended = known.body(row.id), known.body(row.end)
    details: dict[str, Json] = {
        "model": _text(ended, "model") or _text(begun, "model"),
        "purpose": _text(begun, "purpose"),
        "response": _object(ended, "response") or None,
        "error": _message(ended),
        "usage": _object(ended, "usage"),
        "refused": ended.get("refused"),
    }
    if request:
        rest = {name: value for name, value in request.items() if name not in ("messages", "tools")}
        details["request"] = rest
        details["tools"] = [each for each in _list(request, "tools") if isinstance(each, dict)]
        details |= message_changes(_list(request, "messages"), _list(before, "messages"))
    return details


def tool_call_details(row: Row, known: KnownEvents) -> JsonObject:
    """Return the arguments, the result and the approval of a tool call."""
    begun, ended = known.body(row.id), known.body(row.end)
    call_id = _text(begun, "call_id") or _text(ended, "call_id")
    last = row.end or max(known.by_number, default=row.id)
    details: dict[str, Json] = {
        "call_id": call_id,
        "arguments": begun.get("arguments"),
        "has_result": bool(row.end),
        "result": ended.get("result"),
        "error": _text(ended, "error"),
        "origin": _text(ended, "origin"),
        "ran": ended.get("ran"),
    }
    for event in [each for number, each in known.by_number.items() if row.id <= number <= last]:
        body = event.body
        if body.get("call_id") != call_id:
            continue
        if event.kind == "ApprovalRequested":
            asked = {name: body.get(name) for name in ("risk", "copied", "notice")}
            details["approval"] = {**asked, "approved": None, "reason": ""}
            details["arguments"] = body.get("arguments", details["arguments"])
        elif event.kind == "ApprovalDecided":
            asked = _object(details, "approval")
            decided: JsonObject = {name: _text(body, name) for name in ("reason", "by")}
            if isinstance(body.get("arguments"), dict):
                decided["asked"], details["arguments"] = details["arguments"], body["arguments"]
            details["approval"] = {**asked, **decided, "approved": body.get("approved") is True}
    begins = f'{{"tool": {json.dumps(row.title, ensure_ascii=False)}'
    before = range(row.id - 1, max(0, row.id - 40), -1)
    action = _step_of(call_id, "action", before, known) or _step_of(None, "action", before, known, begins)
    if action:
        details |= {"repairs": action.get("repairs"), "copied": action.get("copied")}
    after = [number for number in known.by_number if 0 < row.end < number]
    answered = _step_of(call_id, "observation", after, known)
    answered = answered or _step_of(None, "observation", range(row.end - 1, row.end), known)
    shown = answered.get("observation")
    result = ended.get("result")
    details["shown"] = shown
    written = json.dumps(result, ensure_ascii=False)
    details["is_shortened"] = isinstance(shown, str) and shown not in (result, written)
    return details


def _step_of(
    call_id: str | None, kind: str, numbers: Iterable[int], known: KnownEvents, begins: str = ""
) -> JsonObject:
    """Return the first action or observation of a call; empty for none.

    Args:
        call_id: ``None`` for steps of earlier versions, which name no call.
        begins: how it begins.
    """
    for number in numbers:
        body = known.body(number)
        text = _text(body, kind)
        if text and text.startswith(begins) and body.get("call_id") == call_id:
            return body
    return {}


def message_changes(messages: Sequence[Json], before: Sequence[Json]) -> dict[str, Json]:
    """Return the messages of a request, each with whether it is new, and removed ones."""
    left = Counter(map(_key, before))
    shown: list[Json] = []
    for each in messages:
        key = _key(each)
        is_known = left[key] > 0
        left[key] -= is_known
        shown.append({"message": each, "is_new": not is_known})
    gone: list[Json] = []
    for each in reversed(before):
        key = _key(each)
        if left[key] > 0:
            left[key] -= 1
            gone.insert(0, each)
    return {"messages": shown, "gone": gone}


def _key(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def turn_before(timeline: RunTimeline, row: Row) -> Row | None:
    """Return the previous turn, preferably of the same pass."""
    earlier = [each for each in timeline.rows if each.kind == row.kind and each.id < row.id]
    of_pass = [each for each in earlier if each.label == row.label]
    return next(reversed(of_pass or earlier), None)


def recorded_step(timeline: RunTimeline, row: Row, steps: Iterable[tuple[str, str, int]]) -> int | None:
    """Return the number of the recorded step of a row; ``None`` for none.

    The record and the rows of the last attempt have steps in the order in which they ended, so that the third
    call of a tool is the third in both.

    Args:
        steps: the kind of each step, the purpose of its request or its tool, and its number.
    """
    if not row.end or row.kind not in ("turn", "question", "tool") or row.state == "running":
        return None
    since = max((each.id for each in timeline.rows if each.kind == "attempt"), default=0)
    if row.id < since:
        return None
    kind, name = ("tool", row.title) if row.kind == "tool" else ("model", row.purpose)

    def is_alike(each: Row) -> bool:
        of_kind = (each.kind == "tool") == (kind == "tool") and each.kind in ("turn", "question", "tool")
        fits = (each.title if each.kind == "tool" else each.purpose) == name
        return of_kind and fits and since < each.id and 0 < each.end <= row.end and not each.is_reused

    place = sum(map(is_alike, timeline.rows))
    numbers = [number for step_kind, step_name, number in steps if (step_kind, step_name) == (kind, name)]
    return numbers[place - 1] if 0 < place <= len(numbers) and not row.is_reused else None


# --- untrusted bodies -------------------------------------------------------------------------------------


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value if isinstance(value, str) else ""


def _object(body: Mapping[str, Any], name: str) -> JsonObject:
    value = body.get(name)
    return value if isinstance(value, dict) else {}


def _message(body: Mapping[str, Any]) -> str:
    """Return the message of an event's error, also of one in fields."""
    error = _object(body, "error")
    read = decode(error, _Errors) if error else None
    if isinstance(read, Success):
        return str(read.unwrap().message)
    return _text(error, "message") or _WORD_START.sub(" ", _text(error, "tag")).capitalize()


def _list(body: Mapping[str, Any], name: str) -> list[Json]:
    value = body.get(name)
    return value if isinstance(value, list) else []


def _number(body: Mapping[str, Any], name: str) -> float | None:
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e15:
        return None
    return float(value)


def _whole(body: Mapping[str, Any], name: str) -> int | None:
    value = _number(body, name)
    return None if value is None else int(value)


def _integer(body: Mapping[str, Any], name: str) -> int:
    return _whole(body, name) or 0


def _shown(value: Json) -> str:
    """Return arguments or a result as one readable line."""
    if isinstance(value, str):
        return _line(value)
    if isinstance(value, dict):
        parts = (f"{name}={_short(each)}" for name, each in list(value.items())[:12])
        return _line(", ".join(parts))
    return _short(value) if value is not None else ""


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _line(text[:120])


def _line(text: str) -> str:
    """Return the beginning of a text on one line, without invisible characters."""
    return one_line(text[:_LONGEST_READ])


def _titled(kind: str) -> str:
    names = {"search": "Path", "reflect": "Reflection", "select": "Strategy"}
    return names.get(kind) or kind.capitalize()


def _thought_of(given: JsonObject) -> dict[str, Any]:
    return {
        "id": _text(given, "id"),
        "parent": _text(given, "parent") or None,
        "depth": _integer(given, "depth"),
        "thought": _text(given, "thought"),
        "score": _number(given, "score"),
        "pruned_because": _text(given, "pruned_because"),
        "finished": given.get("finished") is True,
    }
