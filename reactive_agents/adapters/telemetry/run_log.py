"""The run log: the events of all runs, in an SQLite file or a Postgres database.

The handler only puts an event into a queue; a thread writes the queue every few hundredths of a second, so
that neither the event loop nor the run waits for a disk. A killed run is in the log up to then. Each message
of a run is stored once, even if many requests contain it, so that the file grows only with new content.

With a key, tasks, reasons, events and texts are encrypted as in the record of runs; other columns are plain.
The bus has redacted the events. Deltas of streamed texts are omitted, since the whole texts follow.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from operator import methodcaller
from typing import Any

import anyio
import anyio.to_thread
from attrs import define, evolve, field
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql, sqlite
from reactive_agents.adapters.encryption import KEY_VARIABLE, RecordKey, Seal
from reactive_agents.adapters.postgres import table_of
from reactive_agents.adapters.system import call_before_end, not_before_end
from reactive_agents.core import VERSION, events
from reactive_agents.core.codec import decode, encode
from reactive_agents.core.errors import RunLogFailed
from reactive_agents.core.ids import RunId
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.messages import Message
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.run_record import LoggedEvent, LoggedRun, LoggedRunFilter
from reactive_agents.effects import effect

BEAT_S = 0.05
"""Seconds between two batches."""
MOST_WAITING = 50_000
"""The maximum of queued events; beyond it the oldest are lost, with a warning."""
DEFAULT_KEEP_DAYS = 30.0
_ATTEMPTS = 3
"""Attempts to write a batch, after which it is lost."""
_PRUNE_EVERY = 200
"""Ended runs between deletions of old runs."""
_MOST_PRUNED, _DELETED_AT_ONCE = 1_000, 100
"""Runs that are deleted then, and in one transaction: others wait for it, and events for all of them."""

_LEFT_OUT = frozenset({events.ModelTextStreamed, events.ModelThinkingStreamed, events.ToolArgumentsStreamed})
_SUBJECTS: Mapping[type, str] = {
    events.ToolCallStarted: "tool_name",
    events.ToolCallCompleted: "tool_name",
    events.ApprovalRequested: "tool_name",
    events.ModelCallStarted: "purpose",
    events.ModelCallCompleted: "purpose",
    events.ModelCallAbandoned: "purpose",
    events.GuidanceGiven: "policy",
    events.ExecutionPhaseEntered: "phase",
    events.ExecutionPhaseFailed: "phase",
    events.PlanStepChanged: "step_id",
}

_EVENTS = (
    "CREATE TABLE run_events (run_id TEXT NOT NULL, sequence INTEGER NOT NULL,"
    " at_us INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL,"
    " PRIMARY KEY (run_id, sequence)) WITHOUT ROWID",
    "CREATE TABLE run_texts (run_id TEXT NOT NULL, digest TEXT NOT NULL, body TEXT NOT NULL,"
    " PRIMARY KEY (run_id, digest)) WITHOUT ROWID",
)
_INDEXES = (
    "DROP INDEX logged_runs_by_user",
    *(
        f'CREATE INDEX logged_runs_by_{column} ON logged_runs ("{column}", started_us)'
        for column in ("user", "agent", "status", "session")
    ),
)
_BY_TOOL = "CREATE INDEX run_events_by_tool ON run_events (subject, run_id) WHERE kind = 'ToolCallCompleted'"
RUN_LOG = sqlite.Store(
    "run log",
    (
        (
            "CREATE TABLE logged_runs (run_id TEXT PRIMARY KEY, agent TEXT NOT NULL, parent TEXT,"
            " session TEXT, user TEXT, tags TEXT NOT NULL, task TEXT NOT NULL, started_us INTEGER NOT NULL,"
            " ended_us INTEGER, status TEXT NOT NULL, terminated_by TEXT NOT NULL, detail TEXT NOT NULL,"
            " model_calls INTEGER NOT NULL, tokens INTEGER NOT NULL, cost_usd REAL NOT NULL,"
            " version TEXT NOT NULL)",
            "CREATE INDEX logged_runs_by_start ON logged_runs (started_us)",
            "CREATE INDEX logged_runs_by_user ON logged_runs (user)",
            *_EVENTS,
            "CREATE TRIGGER logged_run_deleted AFTER DELETE ON logged_runs BEGIN"
            " DELETE FROM run_events WHERE run_id = OLD.run_id;"
            " DELETE FROM run_texts WHERE run_id = OLD.run_id; END",
        ),
        ("CREATE INDEX logged_runs_by_parent ON logged_runs (parent) WHERE parent IS NOT NULL", *_INDEXES),
        (_BY_TOOL,),
    ),
    postgres=(
        (
            'CREATE TABLE logged_runs (run_id text COLLATE "C" PRIMARY KEY, agent text NOT NULL, parent text,'
            ' session text, "user" text, tags text NOT NULL, task text NOT NULL, started_us bigint NOT NULL,'
            " ended_us bigint, status text NOT NULL, terminated_by text NOT NULL, detail text NOT NULL,"
            " model_calls bigint NOT NULL, tokens bigint NOT NULL, cost_usd double precision NOT NULL,"
            " version text NOT NULL)",
            "CREATE INDEX logged_runs_by_start ON logged_runs (started_us)",
            'CREATE INDEX logged_runs_by_user ON logged_runs ("user")',
            "CREATE INDEX logged_runs_by_parent ON logged_runs (parent)",
            *map(table_of, _EVENTS),
            "CREATE FUNCTION logged_run_deleted() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " DELETE FROM reactive_agents.run_events WHERE run_id = OLD.run_id;"
            " DELETE FROM reactive_agents.run_texts WHERE run_id = OLD.run_id; RETURN NULL; END $$",
            "CREATE TRIGGER logged_run_deleted AFTER DELETE ON logged_runs"
            " FOR EACH ROW EXECUTE FUNCTION logged_run_deleted()",
        ),
        _INDEXES,
        (_BY_TOOL,),
    ),
)
"""Logged runs, their events, and the messages and tools of their requests, each once for a run."""

_log = logging.getLogger("reactive_agents")


@define(eq=False)
class _Texts:
    """The digests stored for a run, and the parts of its latest request.

    The next request mostly repeats them. Earlier ones are not kept: each event has its own copies.
    """

    messages: Sequence[tuple[object, str]] = ()
    tools: Sequence[tuple[object, str]] = ()
    stored: set[str] = field(factory=set)


class SqliteRunLog:
    """A run log in a file or a database; a handler of the bus.

    Args:
        path: an SQLite file, created if missing, or a Postgres URL. Either may contain other stores of the
            package.
        keep_days, keep_runs: as in ``RunLogConfig``.
        patience_s: seconds to wait for a lock of the file, 0 or more.
        read_only: never write or create the file.
        key: encrypts what runs say; by default that of the environment, as for the record of runs.

    Attributes:
        wants_requests: whether the bus passes it requests to models.
    """

    wants_requests = True

    def __init__(
        self,
        path: sqlite.DatabasePath,
        *,
        keep_days: float | None = DEFAULT_KEEP_DAYS,
        keep_runs: int | None = None,
        patience_s: float = sqlite.DEFAULT_PATIENCE_S,
        read_only: bool = False,
        key: RecordKey | None = None,
    ) -> None:
        self._seal = Seal(os.environ.get(KEY_VARIABLE) if key is None else key)
        # a digest of an encrypted text would tell whether a guess of it is right
        self._salt = os.urandom(16) if self._seal.has_key else b""
        self._file = sql.open_database(
            path, RUN_LOG, RunLogFailed, patience_s=patience_s, read_only=read_only
        )
        # a file has one writer; on a server, one that deletes the run waits, and deletes what is written here
        self._is_there = f"{_IS_THERE} FOR KEY SHARE" if sql.is_postgres(path) else _IS_THERE
        self._keep_days, self._keep_runs = keep_days, keep_runs
        self._ended = _PRUNE_EVERY  # the first ended run triggers a deletion
        self._texts: dict[RunId, _Texts] = {}
        self._before: dict[RunId, int] = {}
        """The number of events of earlier attempts, for continued runs."""
        self._begin()

    def _begin(self) -> None:
        self._waiting: deque[Any] = deque()
        self._lost = 0
        self._changing = threading.Lock()
        self._writing = threading.Lock()
        self._writer: threading.Thread | None = None
        self._failures = 0
        self._process = os.getpid()

    def __call__(self, event: Any) -> None:
        """Put an event into the queue of the writer."""
        if type(event) in _LEFT_OUT:
            return
        self._leave_to_parent()
        with self._changing:
            if len(self._waiting) >= MOST_WAITING:
                self._waiting.popleft()
                self._lost += 1
            self._waiting.append(event)
            if self._writer is None:
                writer = threading.Thread(target=self._write_batches, name="run-log", daemon=True)
                writer.start()  # if that fails, the next event tries again
                self._writer = writer
                call_before_end(self._write_waiting)

    async def flush(self) -> None:
        """Write the queued events."""
        await anyio.to_thread.run_sync(self._write_waiting)

    async def aclose(self) -> None:
        """Write the queued events, and close the file; the next event opens it again."""
        await self.flush()
        await self._file.aclose()

    def _leave_to_parent(self) -> None:
        """Leave what waits, and the thread that writes it, to the parent of this process."""
        if self._process != os.getpid():
            self._begin()

    def _write_batches(self) -> None:
        idle = 0
        while True:
            time.sleep(BEAT_S * 20**self._failures)
            if self._write_waiting():
                idle = 0
                continue
            idle += 1
            if idle * BEAT_S > 1:
                with self._changing:
                    if not self._waiting:
                        self._writer = None
                        not_before_end(self._write_waiting)
                        return

    def _write_waiting(self) -> int:
        """Write the queued events in one transaction; return their number."""
        self._leave_to_parent()
        with self._writing:
            with self._changing:
                batch, self._waiting, lost, self._lost = tuple(self._waiting), deque(), self._lost, 0
            if lost:
                _log.warning("The run log could not keep up: %d events are lost.", lost)
            if not batch:
                return 0
            try:
                written = anyio.run(self._write, batch)
            except Exception:  # noqa: BLE001 - no run fails for its log
                lost = len(batch)
                self._texts.clear()
                _log.warning("The run log could not be written: %d events are lost.", lost, exc_info=True)
                return len(batch)
            self._failures = self._failures + 1 if isinstance(written, Failure) else 0
            if isinstance(written, Failure) and self._failures >= _ATTEMPTS:
                self._failures = 0
                why = written.failure().message
                _log.warning("The run log could not be written: %d events are lost. %s", len(batch), why)
            elif self._failures:
                with self._changing:  # the next round tries again
                    self._waiting.extendleft(reversed(batch))
                    surplus = len(self._waiting) - MOST_WAITING
                    for _ in range(max(0, surplus)):
                        self._waiting.popleft()
                    self._lost += max(0, surplus)
            return len(batch)

    async def _write(self, batch: tuple[Any, ...]) -> Result[None, RunLogFailed]:
        rows = [self._rows_of(event) for event in batch]

        def work(file: sql.Transaction) -> None:
            there: set[RunId] = set()
            for each in rows:
                event = each.event
                if isinstance(event, events.TaskStarted):
                    _insert_run(file, event, self._seal)
                if event.run_id not in there:
                    if not file.execute(self._is_there, (event.run_id,)).fetchone():
                        self._texts.pop(event.run_id, None)
                        continue  # it was deleted while it was under way, and nothing of it comes back
                    there.add(event.run_id)
                if isinstance(event, events.RunContinued):  # its events are numbered from 1 again
                    (self._before[event.run_id],) = file.execute(
                        "SELECT coalesce(max(sequence), 0) FROM run_events WHERE run_id = ?", (event.run_id,)
                    ).fetchone()
                if isinstance(event, events.TaskCompleted | events.TaskFailed):
                    _end_run(file, event, self._seal)
                kind = type(event)
                subject = str(getattr(event, _SUBJECTS.get(kind, ""), ""))
                body = self._seal.close(json.dumps(each.body, ensure_ascii=False))
                number = event.sequence + self._before.get(event.run_id, 0)
                file.executemany(
                    "INSERT INTO run_texts VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    (_storable((*names, self._seal.close(text))) for *names, text in each.texts),
                )
                file.execute(
                    "INSERT INTO run_events VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                    _storable(
                        (event.run_id, number, sqlite.microseconds(event.at), kind.__name__, subject, body)
                    ),
                )

        written = await self._file.write("log", work, of=f"{os.getpid()} {id(self)}")
        if isinstance(written, Failure):
            self._texts.clear()  # those of this batch are not stored, so the next requests write theirs again
            return written
        ended = [event for event in batch if isinstance(event, events.TaskCompleted | events.TaskFailed)]
        for event in ended:
            self._texts.pop(event.run_id, None)
            self._before.pop(event.run_id, None)
        self._ended += len(ended)
        if ended and self._ended >= _PRUNE_EVERY:
            self._ended = 0
            await self._prune(batch[-1].at)
        return written

    async def _prune(self, now: datetime) -> None:
        present = sql.shared_us(now, self._file)  # a wrong clock deletes nothing of others
        kept_us = int((self._keep_days or 0) * sql.DAY_US)
        before = "SELECT max(started_us) FROM logged_runs WHERE started_us < ?"
        old = "SELECT run_id FROM logged_runs WHERE started_us < ? ORDER BY started_us LIMIT ?"
        surplus = "SELECT run_id FROM logged_runs ORDER BY started_us DESC LIMIT ? OFFSET ?"

        def doomed(file: sql.Transaction) -> list[str]:
            (before_us,) = file.execute(before, (sql.day_of(present),)).fetchone()
            until = sql.believed_us(present, before_us) - kept_us if kept_us else -1
            rows = file.execute(old, (until, _MOST_PRUNED)).fetchall()
            if self._keep_runs is not None:
                rows += file.execute(surplus, (_MOST_PRUNED, self._keep_runs)).fetchall()
            return [name for (name,) in rows]

        names = (await self._file.read("prune", doomed)).value_or([])
        for start in range(0, len(names), _DELETED_AT_ONCE):
            some = names[start : start + _DELETED_AT_ONCE]
            statement = f"DELETE FROM logged_runs WHERE run_id IN ({sql.marks(some)})"
            await self._file.write("prune", methodcaller("execute", statement, some), of="prune")

    def _rows_of(self, event: Any) -> _Rows:
        rows = _Rows(event)
        if isinstance(event, events.ModelCallStarted) and event.request is not None:
            rows.body = _fields(evolve(event, request=None))
            rows.body["request"] = self._request(event.run_id, event.request, rows)
        else:
            rows.body = _fields(event)
        return rows

    def _request(self, run_id: RunId, request: ModelRequest, rows: _Rows) -> JsonObject:
        texts = self._texts.setdefault(run_id, _Texts())
        short = encode(evolve(request, messages=(), tools=()))
        assert isinstance(short, dict)
        texts.messages = _digests(request.messages, texts.messages, texts, rows, self._salt, Message)
        texts.tools = _digests(request.tools, texts.tools, texts, rows, self._salt)
        short["messages"] = [digest for _, digest in texts.messages]
        short["tools"] = [digest for _, digest in texts.tools]
        return short

    @effect
    async def check(self) -> Result[None, RunLogFailed]:
        """Check that events can be logged."""
        return await self._file.check()

    # --- reading ----------------------------------------------------------------------------------------

    @effect
    async def runs(self, chosen: LoggedRunFilter) -> Result[tuple[LoggedRun, ...], RunLogFailed]:
        """Return the matching runs, latest first."""

        text = chosen.text or ""
        in_file = not text or not self._seal.has_key

        def work(file: sql.Transaction) -> tuple[LoggedRun, ...]:
            called = _CALLED_OFTEN if _is_called_often(file, chosen.tool) else _CALLED_SELDOM
            wanted: dict[str, object] = {
                "agent = ?": chosen.agent,
                '"user" = ?': chosen.user,
                "session = ?": chosen.session,
                "status = ?": chosen.status,
                "replace(tags, ?, '') <> tags": None if chosen.tagged is None else json.dumps(chosen.tagged),
                called: chosen.tool,
                "started_us >= ?": None if chosen.since is None else sqlite.microseconds(chosen.since),
                "started_us < ?": None if chosen.before is None else sqlite.microseconds(chosen.before),
                "cost_usd >= ?": chosen.least_cost_usd,
                "parent = ?": chosen.parent,
                f"replace(lower({_SEARCHED}), lower(?), '') <> lower({_SEARCHED})": text or None
                if in_file
                else None,
            }
            where, values = sql.where(wanted)
            root = "" if chosen.children or chosen.parent is not None else "AND parent IS NULL"
            is_cut = chosen.brief and not self._seal.has_key
            columns = _COLUMNS.replace(" task,", f" substr(task, 1, {BRIEF}),") if is_cut else _COLUMNS
            rows = file.execute(
                f"SELECT {columns} FROM logged_runs WHERE {where} {root}"
                " ORDER BY started_us DESC, run_id DESC LIMIT ?",
                (*values, sql.row_limit(chosen.limit if in_file else None)),
            )
            found: Iterator[LoggedRun] = (_run_of(row, self._seal) for row in rows)
            if not in_file:
                found = islice((each for each in found if each.contains(text)), chosen.limit)
            return tuple(evolve(each, task=each.task[:BRIEF]) if chosen.brief else each for each in found)

        return await self._file.read("runs", work)

    @effect
    async def run(self, run_id: RunId) -> Result[LoggedRun | None, RunLogFailed]:
        """Return a run by its id or a unique beginning of it."""

        def work(file: sql.Transaction) -> LoggedRun | None:
            rows = file.execute(
                f"SELECT {_COLUMNS} FROM logged_runs WHERE run_id >= ? AND run_id < ?"
                " ORDER BY run_id LIMIT 2",
                (run_id, f"{run_id}\U0010ffff"),
            ).fetchall()
            if not rows or (len(rows) > 1 and rows[0][0] != run_id):
                return None
            return _run_of(rows[0], self._seal)

        return await self._file.read("run", work)

    @effect
    async def events(
        self, run_id: RunId, after: int = 0, *, with_requests: bool = True, limit: int | None = None
    ) -> Result[tuple[LoggedEvent, ...], RunLogFailed]:
        """Return the events of a run in order, those after a sequence number.

        Args:
            with_requests: whether to include the requests of model calls, which are most of a run's text.
            limit: the maximum of events, 1 or more; all by default.
        """

        def work(file: sql.Transaction) -> tuple[LoggedEvent, ...]:
            found: list[LoggedEvent] = []
            texts: dict[str, Json] = {}
            rows = file.execute(
                "SELECT sequence, at_us, kind, subject, body FROM run_events"
                " WHERE run_id = ? AND sequence > ? ORDER BY sequence LIMIT ?",
                (run_id, after, sql.row_limit(limit or None)),
            )
            for sequence, at_us, kind, subject, text in rows:
                body = json.loads(self._seal.open(text))
                if kind == "ModelCallStarted" and not with_requests:
                    body.pop("request", None)
                if isinstance(body.get("request"), dict):
                    for name in ("messages", "tools"):
                        body["request"][name] = [
                            _text(file, run_id, each, texts, self._seal) for each in body["request"][name]
                        ]
                found.append(LoggedEvent(run_id, sequence, sqlite.moment_of(at_us), kind, subject, body))
            return tuple(found)

        return await self._file.read("events", work)

    @effect
    async def forget(self, user: str) -> Result[int, RunLogFailed]:
        """Delete the runs of a user and their sub-runs; return their number."""
        await self.flush()

        def work(file: sql.Transaction) -> tuple[int, int]:
            some = 'SELECT run_id FROM logged_runs WHERE "user" = ? LIMIT ?'
            found = [name for (name,) in file.execute(some, (user, _DELETED_AT_ONCE))]
            doomed, above, own = set(found), [*found], len(found)
            while above:
                below = 'SELECT run_id, "user" FROM logged_runs WHERE parent = ?'
                for name, whose in file.execute(below, (above.pop(),)).fetchall():
                    if name not in doomed:
                        doomed.add(name)
                        above.append(name)
                        own += whose == user
            file.executemany("DELETE FROM logged_runs WHERE run_id = ?", [(name,) for name in doomed])
            return len(found), own

        deleted, found = 0, _DELETED_AT_ONCE
        while found == _DELETED_AT_ONCE:
            done = await self._file.write("forget", work, of="forget")
            if isinstance(done, Failure):
                return Failure(done.failure())
            found, own = done.unwrap()
            deleted += own
        await self._file.empty_log(rewrites=True)
        return Success(deleted)


def event_of(logged: LoggedEvent, run: LoggedRun) -> events.AgentEvent | None:
    """Return the event as published, without its task's id; ``None`` if unknown."""
    origin = {"run_id": run.run_id, "task_id": "", "agent": run.agent, "parent_run_id": run.parent}
    place = {"sequence": logged.sequence, "at": logged.at.isoformat()}
    read = decode({"tag": logged.kind, **origin, **place, **logged.body}, events.AgentEvent)
    return None if isinstance(read, Failure) else read.unwrap()


@define(eq=False)
class _Rows:
    event: Any
    body: dict[str, Any] = field(factory=dict)
    texts: list[tuple[str, str, str]] = field(factory=list)


def _fields(event: Any) -> dict[str, Any]:
    """Return the fields of an event that are not columns."""
    fields = encode(event)
    assert isinstance(fields, dict)
    for name in ("run_id", "task_id", "sequence", "at", "tag", "agent", "parent_run_id"):
        fields.pop(name, None)
    return fields


def _digests(
    parts: Sequence[object],
    before: Sequence[tuple[object, str]],
    texts: _Texts,
    rows: _Rows,
    salt: bytes,
    kind: Any = None,
) -> Sequence[tuple[object, str]]:
    """Return the parts of a request with their digests; write the new ones."""
    found: list[tuple[object, str]] = []
    for place, part in enumerate(parts):
        earlier, digest = before[place] if place < len(before) else (None, "")
        if part != earlier:
            body = json.dumps(encode(part, kind), ensure_ascii=False, sort_keys=True)
            digest = hashlib.sha256(salt + body.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            if digest not in texts.stored:
                texts.stored.add(digest)
                rows.texts.append((rows.event.run_id, digest, body))
        found.append((part, digest))
    return found


# --- one transaction each ---------------------------------------------------------------------------------


_IS_THERE = "SELECT 1 FROM logged_runs WHERE run_id = ?"
_GOES_ON = "logged_runs.status NOT IN ('completed', 'partial', 'abstained')"
"""The condition on runs that can continue: a failed durable run can, one with a result cannot."""


def _insert_run(file: sql.Transaction, event: events.TaskStarted, seal: Seal) -> None:
    file.execute(  # an attempt that did nothing, as while a service was away; its task may have been another
        "DELETE FROM logged_runs WHERE run_id = ? AND EXISTS (SELECT 1 FROM run_events"
        " WHERE run_id = logged_runs.run_id AND sequence = 2 AND kind = 'TaskFailed')",
        (event.run_id,),
    )
    file.execute(
        "INSERT INTO logged_runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, 'running', '', '', 0, 0, 0.0, ?)"
        f" ON CONFLICT (run_id) DO UPDATE SET status = 'running', ended_us = NULL WHERE {_GOES_ON}",
        _storable(
            (
                event.run_id,
                event.agent,
                event.parent_run_id,
                event.session,
                event.user,
                json.dumps(list(event.tags)),
                seal.close(event.input),
                sqlite.microseconds(event.at),
                VERSION,
            )
        ),
    )


def _end_run(file: sql.Transaction, event: events.TaskCompleted | events.TaskFailed, seal: Seal) -> None:
    """Set the outcome and the figures of a run; an interrupted one has no outcome yet."""
    status: str
    if isinstance(event, events.TaskCompleted):
        status, detail, told = event.result.status, event.result.reason, event.result.metadata
    else:
        status, detail, told = event.status, event.error.message, event.metadata
    file.execute(
        "UPDATE logged_runs SET ended_us = ?, status = ?, terminated_by = ?, detail = ?, model_calls = ?,"
        f" tokens = ?, cost_usd = ? WHERE run_id = ? AND {_GOES_ON}",
        _storable(
            (
                None if status == "interrupted" else sqlite.microseconds(event.at),
                status,
                told.terminated_by,
                seal.close(detail or ""),
                told.model_calls,
                told.tokens_used,
                told.cost_usd,
                event.run_id,
            )
        ),
    )


def _storable(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values with lone surrogates, which SQLite cannot hold, replaced."""
    return tuple(
        each.encode("utf-8", "replace").decode("utf-8") if isinstance(each, str) else each for each in values
    )


BRIEF = 1_000
"""Characters of a task in a brief list."""
_COLUMNS = (
    'run_id, agent, started_us, task, status, parent, session, "user", tags, ended_us, terminated_by, detail,'
    " model_calls, tokens, cost_usd, version,"
    " (SELECT count(*) FROM run_events WHERE run_events.run_id = logged_runs.run_id)"
)


_SEARCHED = " || '\n' || ".join(
    ("task", "detail", "run_id", "agent", """coalesce("user", '')""", "coalesce(session, '')", "tags")
)


def _run_of(row: tuple[Any, ...], seal: Seal) -> LoggedRun:
    run_id, agent, started, task, status, parent, session, user, tags, ended, by, detail, *rest = row
    return LoggedRun(
        RunId(run_id),
        agent,
        sqlite.moment_of(started),
        _readable(task, seal),
        status,
        None if parent is None else RunId(parent),
        session,
        user,
        tuple(json.loads(tags)),
        None if ended is None else sqlite.moment_of(ended),
        by,
        _readable(detail, seal),
        *rest,
    )


_CALLED_OFTEN = (
    "EXISTS (SELECT 1 FROM run_events AS used WHERE used.run_id = logged_runs.run_id"
    " AND kind = 'ToolCallCompleted' AND subject = ?)"
)
"""Looks at the latest runs until enough of them have called the tool."""
_CALLED_SELDOM = "run_id IN (SELECT run_id FROM run_events WHERE kind = 'ToolCallCompleted' AND subject = ?)"
"""Looks at the calls of the tool alone, of all runs."""
_OFTEN = 1_000


def _is_called_often(file: sql.Transaction, tool: str | None) -> bool:
    some = "SELECT 1 FROM run_events WHERE kind = 'ToolCallCompleted' AND subject = ? LIMIT 1 OFFSET ?"
    return tool is not None and file.execute(some, (tool, _OFTEN)).fetchone() is not None


def _readable(text: str, seal: Seal) -> str:
    """Return a text, or why it cannot be read: such a run is listed too."""
    try:
        return seal.open(text)
    except ValueError as problem:
        return f"({problem})"


def _text(file: sql.Transaction, run_id: RunId, digest: str, texts: dict[str, Json], seal: Seal) -> Json:
    if digest not in texts:
        row = file.execute(
            "SELECT body FROM run_texts WHERE run_id = ? AND digest = ?", (run_id, digest)
        ).fetchone()
        texts[digest] = None if row is None else json.loads(seal.open(row[0]))
    return texts[digest]
