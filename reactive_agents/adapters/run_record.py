"""The record of runs, in an SQLite file or a Postgres database.

Workers on several machines share a database.

Every write of a run names its holder, and is refused in the same transaction if another holder has the run: a
process that stalled for too long cannot overwrite the work of a second one. A run is held by a lease, which a
thread renews while the process is alive. The lease of an ended process of this machine is void at once, that
of another machine when it expires.

An entry before a side effect is on disk when its write returns; in a file, together with all concurrent
writes of other runs. All other entries outlive the process, and reach the disk with the next of these. A
model's answer is written with the next entry, usually the intent of its tool call, and at the latest when the
run waits; entries of parallel calls are also batched while another one is being written.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, cast

import anyio
from attrs import define, evolve, field
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql, sqlite
from reactive_agents.adapters.encryption import RecordKey, Seal
from reactive_agents.adapters.leases import (
    BEAT_S,
    LEASE_S,
    LeaseClock,
    LeaseRenewal,
    give_up,
    is_gone,
    new_holder,
    this_machine,
)
from reactive_agents.adapters.postgres import SERVER_TIME, PostgresDatabase, table_of
from reactive_agents.core.codec import to_json
from reactive_agents.core.errors import LeaseLost, RecordErrors, RecordFailed
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.run_record import (
    AUDITED,
    END_AUDITED,
    ClaimState,
    OpenQuestion,
    OwedStore,
    QueueLimits,
    RecordedRun,
    RunClaim,
    RunEntry,
    RunFilter,
    RunOrder,
    RunSchedule,
    RunState,
    RunStatus,
    may_end_process,
    pause_after,
)
from reactive_agents.core.tasks import Task
from reactive_agents.core.texts import shortened
from reactive_agents.effects import effect
from reactive_agents.event_loop import call_later_on_this_loop, call_soon_on_this_loop, spawn_on_this_loop
from reactive_agents.ports import Clock, OrderHandler

_LEASE_US = int(LEASE_S * 1e6)
_DELETED_AT_ONCE = 100
"""Runs that one transaction deletes, since running ones wait for it, and a server locks each."""
_OWING_AT_ONCE = 8
"""Runs that owe, of which one that begins is told."""
_READ_AT_ONCE = 100
"""Runs that one statement reads, since a server sends all rows, each with its task and result."""
_MOST_RECENT = 64
"""Entries of a run that a server may lose, before one waits for its disk."""
_GAP = "gap"
"""The answer of a server that has lost recent entries, and has added none."""
_QUICK_ANSWER_S = 0.05
"""Seconds after which a request is written by itself, not with its answer; twice that if another waits."""
_LATER: Result[RunOrder | None, RecordErrors] = Success(None)
"""The result of adding entries that are written later."""

_RUNS = (
    "CREATE TABLE runs (id INTEGER PRIMARY KEY, run_id TEXT NOT NULL UNIQUE, agent TEXT NOT NULL,"
    " user TEXT, session TEXT, parent TEXT, origin INTEGER, origin_entries INTEGER NOT NULL,"
    " changes TEXT NOT NULL, status TEXT NOT NULL, task TEXT NOT NULL, definition TEXT NOT NULL,"
    " result TEXT NOT NULL, attempt INTEGER NOT NULL, holder TEXT NOT NULL,"
    " lease_until_us INTEGER NOT NULL, wanted TEXT NOT NULL, queue TEXT NOT NULL,"
    " priority INTEGER NOT NULL, due_us INTEGER NOT NULL, created_us INTEGER NOT NULL,"
    " updated_us INTEGER NOT NULL)",
    "CREATE INDEX runs_by_holder ON runs (holder)",
    "CREATE INDEX runs_by_status ON runs (status, queue)",
    "CREATE INDEX runs_by_user ON runs (user)",
    "CREATE INDEX runs_by_origin ON runs (origin)",
)
_BEGUN = (
    "ALTER TABLE runs ADD COLUMN begun_us INTEGER NOT NULL DEFAULT 0",
    "CREATE INDEX runs_by_beginning ON runs (queue, begun_us)",
    "CREATE TABLE run_queues (agent TEXT NOT NULL, queue TEXT NOT NULL,"
    " dequeued_us INTEGER NOT NULL, PRIMARY KEY (agent, queue))",
    "CREATE TABLE run_schedules (agent TEXT NOT NULL, name TEXT NOT NULL, cron TEXT NOT NULL,"
    " timezone TEXT NOT NULL, task TEXT NOT NULL, queue TEXT NOT NULL, priority INTEGER NOT NULL,"
    " next_us INTEGER NOT NULL, PRIMARY KEY (agent, name))",
)
_ENTRIES = (
    " (run INTEGER NOT NULL, number INTEGER NOT NULL, key TEXT NOT NULL,"
    " kind TEXT NOT NULL, at_us INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (run, number)"
)
_RUN_DELETED = (
    "CREATE TRIGGER run_deleted AFTER DELETE ON runs BEGIN DELETE FROM run_entries WHERE run = OLD.id; END"
)
_INDEXES = (
    "DROP INDEX runs_by_status",
    "CREATE INDEX runs_by_status ON runs (status, agent, id)",
    "DROP INDEX runs_by_user",
    'CREATE INDEX runs_by_user ON runs ("user", agent, id)',
    "CREATE INDEX runs_by_agent ON runs (agent, id)",
    "CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL",
    "CREATE INDEX runs_in_queue ON runs (agent, queue, priority DESC, id)"
    " WHERE status = 'queued' AND holder = ''",
    "CREATE INDEX runs_reserved ON runs (agent, queue) WHERE status = 'queued' AND holder <> ''",
)
"""What is listed, dequeued and deleted is found without reading the runs beside it."""
RUNS = sqlite.Store(
    "runs",
    (
        (
            *_RUNS,
            f"CREATE TABLE run_entries{_ENTRIES}, UNIQUE (run, key)) WITHOUT ROWID",
            _RUN_DELETED,
        ),
        _BEGUN,
        _INDEXES,
        (
            # an index of all keys was a third of the pages that a step writes
            "DROP TRIGGER run_deleted",
            f"CREATE TABLE entries_by_number{_ENTRIES}) WITHOUT ROWID",
            "INSERT INTO entries_by_number SELECT * FROM run_entries ORDER BY run, number",
            "DROP TABLE run_entries",
            "ALTER TABLE entries_by_number RENAME TO run_entries",
            "CREATE UNIQUE INDEX run_answers ON run_entries (run, key) WHERE kind = 'answer'",
            _RUN_DELETED,
        ),
    ),
    postgres=(
        (
            *map(table_of, _RUNS),
            "CREATE TABLE run_entries (run bigint NOT NULL REFERENCES runs ON DELETE CASCADE,"
            " number bigint NOT NULL, key text NOT NULL, kind text NOT NULL, at_us bigint NOT NULL,"
            " body text NOT NULL, PRIMARY KEY (run, number), UNIQUE (run, key))",
            *map(table_of, _BEGUN),
        ),
        (),  # versions 2 and 3 had functions that version 7 deletes, 5 one that processes may still call
        (),
        (
            # a foreign key would lock the row of the run for each entry, a third of the write
            "ALTER TABLE run_entries DROP CONSTRAINT run_entries_run_fkey",
            "CREATE FUNCTION delete_entries () RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " PERFORM pg_advisory_xact_lock(CAST(CAST('x' || encode(substr(sha256(convert_to("
            "'reactive_agents' || chr(10) || 'runs' || chr(10) || OLD.run_id, 'UTF8')), 1, 8), 'hex')"
            " AS bit(64)) AS bigint));"  # the lock of its writers, as in the module for Postgres
            " DELETE FROM reactive_agents.run_entries WHERE run = OLD.id;"
            " RETURN OLD; END $$",
            "CREATE TRIGGER run_deleted BEFORE DELETE ON runs FOR EACH ROW EXECUTE FUNCTION delete_entries()",
        ),
        (),
        _INDEXES,
        (
            "DROP FUNCTION IF EXISTS reactive_agents.append_entry (text, text, bigint, text, text)",
            "DROP FUNCTION IF EXISTS"
            " reactive_agents.append_entry (bigint, text, text, text, bigint, text, text)",
            # takes the lock itself, so that one statement is a whole transaction; four texts per entry
            "CREATE FUNCTION append_entries"
            " (of_lock bigint, waits_for_disk text, by_holder text, after_key text, texts text[])"
            " RETURNS text LANGUAGE plpgsql AS $$"
            " DECLARE held_run bigint; latest bigint; orders text; BEGIN"
            " PERFORM set_config('lock_timeout', '500', true),"
            " set_config('synchronous_commit', waits_for_disk, true);"
            " PERFORM pg_advisory_xact_lock(of_lock);"
            " SELECT id, origin_entries, wanted INTO held_run, latest, orders FROM reactive_agents.runs"
            " WHERE holder = by_holder AND holder <> '';"
            " IF NOT FOUND THEN RETURN NULL; END IF;"
            " IF after_key <> '' AND NOT EXISTS (SELECT 1 FROM reactive_agents.run_entries"
            f" WHERE run = held_run AND key = after_key) THEN RETURN '{_GAP}'; END IF;"
            " SELECT coalesce(max(number), latest) INTO latest FROM reactive_agents.run_entries"
            " WHERE run = held_run;"
            " FOR place IN 1 .. cardinality(texts) BY 4 LOOP latest := latest + 1;"
            " INSERT INTO reactive_agents.run_entries (run, number, key, kind, at_us, body) VALUES (held_run,"
            " latest, texts[place], texts[place + 1], CAST(texts[place + 2] AS bigint), texts[place + 3]);"
            " END LOOP; RETURN orders; END $$",
        ),
    ),
)
"""Runs, their entries by number, and schedules. ``begun_us`` is the time when a worker began a queued run.

Workers write the row of a queue when they take runs from it, one worker at a time, so that its limits hold.
The tables of a run log belong to a separate store in the same file.
"""

_log = logging.getLogger("reactive_agents")


@define(eq=False)
class _HeldRun:
    """A run that this process holds, and the one writer of its entries.

    A server that crashes may lose the entries that no write has waited for, always the latest of all. So each
    write names the latest that the run has: if the server does not find it, all recent ones are added again.

    Attributes:
        recent: entries that a server may lose in a crash.
        waiting: entries to write with the next one.
        is_durable: whether one of these must be on disk when written.
        is_watched: whether they are written as soon as the run waits.
        timed: the request for whose answer a timer waits.
        is_unsure: whether some of them, or of the recent ones, may have been written already.
        begun: the write in progress of entries to the server.
        writing: the lock for writing entries.
    """

    run_id: RunId
    holder: str
    on_order: OrderHandler
    _file: sql.Database[RecordFailed]
    _server: PostgresDatabase[RecordFailed] | None
    waiting: list[RunEntry] = field(factory=list)
    is_durable: bool = False
    is_watched: bool = False
    timed: RunEntry | None = None
    is_unsure: bool = False
    begun: Any = None
    writing: anyio.Lock = field(factory=partial(anyio.Lock, fast_acquire=True))
    recent: list[RunEntry] = field(factory=list)

    async def add(
        self, entries: Sequence[RunEntry], *, durable: bool, later: bool
    ) -> Result[RunOrder | None, RecordErrors]:
        """Write entries, now or with a later write; return an order to the run, if any."""
        kind = entries[-1].kind if later and entries else ""
        is_answer = kind == "model"
        self.waiting += entries
        if kind == "request":
            self._wait_for_answer()
            return _LATER
        if later and (is_answer or self._server is not None):
            # an answer waits for the intent of its call; a server writes meanwhile
            if (is_answer or not self._begin()) and not self.is_watched:
                self.is_watched = True
                call_soon_on_this_loop(self._write_waiting)
            return _LATER
        self.is_durable |= durable
        try:
            return await self.write()
        finally:
            if self.waiting:
                self.waiting = [each for each in self.waiting if not any(each is own for own in entries)]

    async def write(self, *, checks: bool = False) -> Result[RunOrder | None, RecordErrors]:
        """Write all waiting entries, also of concurrent calls, in one transaction.

        Args:
            checks: whether to look whose the run is, even if nothing is written.
        """
        if self.writing.locked():
            await self.writing.acquire()
        else:
            self.writing.acquire_nowait()
        batch: list[RunEntry] = []
        try:
            settled = _LATER
            if self.begun is not None:
                settled = await self.finish()
                if isinstance(settled, Failure):
                    return settled
            batch = self.waiting
            if not batch and not self.is_unsure and not (checks and settled == _LATER):
                return settled
            durable = self.is_durable or self.is_unsure or len(self.recent) >= _MOST_RECENT
            self.waiting, self.is_durable = [], False
            written = await self._written(batch, durable=durable)
            if isinstance(written, Success):
                batch, self.is_unsure = [], False
            return written
        finally:
            if batch:  # it may not have been written; the other calls find out for themselves
                self.waiting[:0] = batch
                self.is_unsure = True
            self.writing.release()

    async def _written(
        self, batch: Sequence[RunEntry], *, durable: bool
    ) -> Result[RunOrder | None, RecordErrors]:
        """Append entries, also while a server is restarted; return the order."""
        since, again = time.monotonic(), self.is_unsure
        while True:
            entries = (*self.recent, *batch) if again else batch
            appended = await self.append(entries, durable=durable, again=again)
            if self._server is None:
                break
            if isinstance(appended, Failure):
                if again and time.monotonic() > min(since, self._server.away_since) + LEASE_S / 2:
                    break
                await anyio.sleep(BEAT_S)  # the run stays that of this process
            elif again or appended.unwrap() != _GAP:
                break
            durable = again = True
        if isinstance(appended, Success) and self._server is not None:
            self.recent = [] if durable else [*self.recent, *batch]
        return _lease(self.run_id, appended)

    async def append(
        self, entries: Sequence[RunEntry], *, durable: bool, again: bool = False
    ) -> Result[RunOrder | None, RecordFailed]:
        """Add entries in a transaction; ``again``: some of them may be stored already."""
        if self._server is not None and not again:
            called = self._call(entries)
            row = await self._server.returning("append", *called, of=self.run_id, soon=not durable)
            return row.map(lambda found: None if found is None else found[0])
        work = partial(_append, holder=self.holder, entries=entries, again=again)
        return await self._file.write_soon("append", work, of=self.run_id, durable=durable)

    def _call(self, entries: Sequence[RunEntry]) -> tuple[str, ...]:
        """Return a statement that calls a function, whose plan is cached; its values."""
        texts = ", ".join("?" * 4 * len(entries))
        given = [str(value) for entry in entries for value in _values(entry)]
        latest = self.recent[-1].key if self.recent else ""
        statement = f"SELECT reactive_agents.append_entries(?, ?, ?, ?, ARRAY[{texts}]::text[])"
        return statement, self.holder, latest, *given

    async def finish(self) -> Result[RunOrder | None, RecordErrors]:
        """Wait for entries being sent; the next write adds missing ones."""
        assert self._server is not None, "only a server is sent entries"
        try:
            answered = await self._server.finish("append", self.begun)
        finally:
            self.begun = None
        if isinstance(answered, Failure):
            self.is_unsure = True
            return Success(None)
        order = (answered.unwrap() or (None,))[0]
        if order == _GAP:
            self.is_unsure, order = True, ""
        return _lease(self.run_id, Success(order))

    def forget(self) -> None:
        """Discard the answer to entries being sent."""
        if self.begun is not None and self._server is not None:
            self._server.forget(self.begun)
            self.begun = None

    def _begin(self) -> bool:
        """Send waiting entries to a server, without waiting; ``False`` if impossible."""
        if self.begun is not None or self.is_unsure or self.writing.locked():
            return False
        if self._server is not None and len(self.recent) < _MOST_RECENT:
            self.begun = self._server.begin(*self._call(self.waiting), of=self.run_id)
        if self.begun is None:
            return False
        self.recent += self.waiting  # written again if the server loses them
        self.waiting = []
        return True

    def _wait_for_answer(self) -> None:
        """Look later whether a waiting request is answered; a run has one timer for that."""
        if self.timed is None:
            self.timed = next((each for each in self.waiting if each.kind == "request"), None)
            if self.timed is not None:
                call_later_on_this_loop(_QUICK_ANSWER_S, self._write_slow)

    def _write_slow(self) -> None:
        """Write waiting entries if a request has waited long enough for its answer."""
        slow, self.timed = self.timed, None
        if any(each is slow for each in self.waiting):
            self._write_waiting()
        else:
            self._wait_for_answer()

    def _write_waiting(self) -> None:
        """Write waiting entries while the run waits."""
        self.is_watched = False
        if self.waiting and not self._begin():

            async def write() -> None:
                written = await self.write()  # the next write reports a failure
                order = written.value_or(None)
                if order is not None:
                    self.on_order(order)

            spawn_on_this_loop(write)


def _nothing(_: object) -> None:
    return None


class SqliteRunRecord:
    """Implements ``RunRecord``.

    Args:
        path: an SQLite file, created if missing, or a Postgres URL.
        clock: the clock for leases; with a database, the clock of its server is used.
        key: encrypts tasks, answers and results: 32 bytes, their URL-safe base64, several of these, of which
            the first encrypts, or a function that returns them; ``None`` stores plain texts.
        read_only: never write or create tables; a record of an older version is refused.
    """

    def __init__(
        self,
        path: sqlite.DatabasePath,
        *,
        clock: Clock,
        key: RecordKey | None = None,
        read_only: bool = False,
    ) -> None:
        self._file = sql.open_database(path, RUNS, RecordFailed, read_only=read_only)
        self._server = self._file if isinstance(self._file, PostgresDatabase) else None
        self._clock = clock
        self._lease_clock = LeaseClock(clock)
        self._seal = Seal(key)
        self._unread: set[str] = set()
        self._leases: LeaseRenewal[_HeldRun] = LeaseRenewal("run-leases", self._renew)

    @property
    def is_encrypted(self) -> bool:
        """Whether tasks, answers and results are encrypted."""
        return self._seal.has_key

    async def aclose(self) -> None:
        """Close the file; the next use opens it again."""
        await self._file.aclose()

    @effect
    async def check(self) -> Result[None, RecordErrors]:
        """Check that runs can be recorded."""
        return await self._file.check()

    # --- a run of this process ----------------------------------------------------------------------------

    @effect
    async def claim(
        self, run: RecordedRun, on_order: OrderHandler, reserved: str = ""
    ) -> Result[RunClaim, RecordErrors]:
        """Begin a run, or continue it if no other process holds it; return the claim."""
        holder = reserved or new_holder()

        def work(file: sql.Transaction) -> RunClaim:
            now, judged_at = self._now(), self._judged_at()
            _add(file, run, now, self._seal)
            row = _row_of(file, run.run_id)
            assert row is not None
            known = _run_of(file, row, judged_at, self._seal)
            if known.has_ended:
                if not known.owes or (row.holder != holder and _is_held(row, judged_at)):
                    return RunClaim(known, "ended")
                taken = "UPDATE runs SET holder = ?, lease_until_us = ? WHERE id = ?"
                file.execute(taken, (holder, now + _LEASE_US, row.id))
                return RunClaim(known, "ended", holder)
            if known.is_held and row.holder != holder:
                return RunClaim(known, "held")
            definition = known.definition or run.definition
            file.execute(
                "UPDATE runs SET holder = ?, lease_until_us = ?, attempt = attempt + 1, status = 'open',"
                " updated_us = ?, definition = ? WHERE id = ?",
                (holder, now + _LEASE_US, now, json.dumps(dict(definition)), row.id),
            )
            attempt = known.attempt + 1
            begun = evolve(known, definition=definition, attempt=attempt, status="open")
            state: ClaimState = "taken" if known.attempt else "new"
            return RunClaim(begun, state, holder, _owing_before(file, run, judged_at))

        claimed = await self._file.write_soon("claim", work, of=run.run_id, durable=True)
        if isinstance(claimed, Success) and claimed.unwrap().holder:
            self._leases.hold(holder, self._held(run.run_id, holder, on_order))
        return claimed

    @effect
    async def entries(self, run_id: RunId) -> Result[tuple[RunEntry, ...], RecordErrors]:
        """Return the entries of a run in order, including shared ones."""

        def work(file: sql.Transaction) -> tuple[RunEntry, ...]:
            found = "SELECT id, origin, origin_entries FROM runs WHERE "
            row = file.execute(f"{found} run_id = ?", (run_id,)).fetchone()
            entries, last = list[RunEntry](), sql.ALL_ROWS
            while row is not None:
                here, origin, last_shared = row
                rows = file.execute(
                    "SELECT key, kind, at_us, body, number FROM run_entries WHERE run = ? AND number <= ?"
                    " ORDER BY number",
                    (here, last),
                )
                entries[:0] = [_entry_of(self._seal, *each) for each in rows]
                last = min(last, last_shared)
                if origin is not None and origin >= here:
                    raise ValueError(f"the run {run_id} is a fork of a later one")
                row = file.execute(f"{found} id = ?", (origin,)).fetchone()
                if row is None and last_shared:
                    raise ValueError(f"the run that {run_id} was forked from has been deleted")
            return tuple(entries)

        return await self._file.read("entries", work)

    @effect
    async def entry(self, run_id: RunId, key: str) -> Result[RunEntry | None, RecordErrors]:
        """Return the answer to a question of a run, by its key."""

        def work(file: sql.Transaction) -> RunEntry | None:
            row = file.execute(
                "SELECT key, kind, at_us, body, number FROM run_entries WHERE key = ? AND kind = 'answer'"
                " AND run = (SELECT id FROM runs WHERE run_id = ?)",
                (key, run_id),
            ).fetchone()
            return None if row is None else _entry_of(self._seal, *row)

        return await self._file.read("entry", work)

    @effect
    async def append(
        self, run_id: RunId, holder: str, *entries: RunEntry, durable: bool = False, later: bool = False
    ) -> Result[RunOrder | None, RecordErrors]:
        """Add entries; return an order of another process to the run, if any."""
        sealed = self._seal.entries(entries)
        held = self._leases.get(holder)
        if held is None:  # this process gave the run up
            return _lease(run_id, await self._held(run_id, holder).append(sealed, durable=durable))
        return await held.add(sealed, durable=durable, later=later)

    @effect
    async def settle(self, run_id: RunId, holder: str) -> Result[RunOrder | None, RecordErrors]:
        """Write added entries; return the order to the run, if it is known."""
        held = self._leases.get(holder)
        return _LATER if held is None else await held.write(checks=True)

    def _held(self, run_id: RunId, holder: str, on_order: OrderHandler = _nothing) -> _HeldRun:
        return _HeldRun(run_id, holder, on_order, self._file, self._server)

    @effect
    async def end(
        self, run_id: RunId, holder: str, status: RunStatus, result: str, *, owes: Sequence[OwedStore] = ()
    ) -> Result[None, RecordErrors]:
        """Store the outcome of a run, and give up its lease."""
        now, sealed = self._now(), self._seal.close(result)
        changed = "status = ?, result = ?, wanted = ?, holder = ?, updated_us = ?"
        values = status, sealed, _wanted_of(owes), _FREE if owes else "", now
        return await self._given_up("end", run_id, holder, changed, *values)

    @effect
    async def owe(self, run_id: RunId, holder: str, owes: Sequence[OwedStore]) -> Result[None, RecordErrors]:
        """Note what an ended run still owes, and give up its lease."""
        values = _wanted_of(owes), _FREE if owes else ""
        return await self._given_up("owe", run_id, holder, "wanted = ?, holder = ?", *values)

    @effect
    async def release(self, run_id: RunId, holder: str) -> Result[None, RecordErrors]:
        """Give up the lease of a run that has not ended."""
        free = f"CASE WHEN {_OWES.format('runs')} THEN '{_FREE}' ELSE '' END"
        changed = f"holder = {free}, updated_us = ?"
        return await self._given_up("release", run_id, holder, changed, self._now())

    async def _given_up(
        self, operation: str, run_id: RunId, holder: str, changed: str, *values: object
    ) -> Result[None, RecordErrors]:
        """Write what waits, and give up the lease with these changes of the run."""
        held = self._leases.get(holder) or self._held(run_id, holder)
        async with held.writing:
            if held.begun is not None:
                await held.finish()  # if missing, it is added below
            self._leases.let_go(holder)
            entries, again = (*held.recent, *held.waiting), bool(held.recent) or held.is_unsure

            def work(file: sql.Transaction) -> RunOrder | None:
                if entries:
                    _append(file, holder, entries, again=again)
                released = file.execute(
                    f"UPDATE runs SET {changed}, lease_until_us = 0"
                    " WHERE run_id = ? AND holder = ? AND holder <> ''",
                    (*values, run_id, holder),
                )
                if not released.rowcount:
                    return None
                if operation == "end":
                    _end_sub_runs(file, run_id, self._now(), self._judged_at())
                return ""

            released = await self._file.write_soon(operation, work, of=run_id, durable=True)
            if isinstance(released, Success):
                held.waiting.clear()
            elif operation == "end":
                self._leases.hold(holder, held)  # until it is released
            else:  # such as on a full disk
                give_up(holder)
            return _lease(run_id, released).map(_nothing)

    def abandon(self, holder: str) -> None:
        """Stop renewing the lease, without awaiting anything."""
        held = self._leases.get(holder)
        if held is not None:
            held.forget()
        self._leases.let_go(holder)
        give_up(holder)

    # --- runs of any process ------------------------------------------------------------------------------

    @effect
    async def answer(self, run_id: RunId, entry: RunEntry) -> Result[bool, RecordErrors]:
        """Add the answer to a question, from any process; ``False`` for a second one."""
        (sealed,) = self._seal.entries((entry,))

        def work(file: sql.Transaction) -> bool:
            row = file.execute(
                f"SELECT id, {_LATEST} FROM runs WHERE run_id = ? AND status IN ('open', 'queued')", (run_id,)
            ).fetchone()
            if row is None:
                return False
            run, latest = row
            added = file.execute(
                f"{_INSERT_ENTRY} ON CONFLICT DO NOTHING", (run, latest + 1, *_values(sealed))
            )
            return added.rowcount > 0

        return await self._file.write("answer", work, of=run_id)

    @effect
    async def order(self, run_id: RunId, order: RunOrder) -> Result[bool, RecordErrors]:
        """Order a run to pause, stop, cancel or continue; ``False`` if it is too late."""

        def work(file: sql.Transaction) -> bool:
            now, judged_at = self._now(), self._judged_at()
            row = _row_of(file, run_id)
            if row is None or row.status not in ("open", "queued"):
                return False
            if row.wanted in ("stop", "cancel") and order not in (row.wanted, "cancel"):
                return False  # it is being ended
            ends = order == "cancel" and not _is_held(row, judged_at)  # no process would carry it out
            if ends:
                _cancel(file, row, now)
                _end_sub_runs(file, run_id, now, judged_at)
            else:
                statement = "UPDATE runs SET wanted = ?, updated_us = ? WHERE id = ?"
                file.execute(statement, (order, now, row.id))
            return True

        return await self._file.write("order", work, of=run_id)

    @effect
    async def find(self, run_id: RunId) -> Result[RecordedRun | None, RecordErrors]:
        """Return a run, or ``None``."""

        def work(file: sql.Transaction) -> RecordedRun | None:
            row = _row_of(file, run_id)
            return None if row is None else _run_of(file, row, self._judged_at(), self._seal)

        return await self._file.read("find", work)

    @effect
    async def runs(self, chosen: RunFilter) -> Result[tuple[RecordedRun, ...], RecordErrors]:
        """Return the matching runs, latest first."""

        def work(file: sql.Transaction) -> tuple[RecordedRun, ...]:
            self._seal.check()  # else every run would be listed as unreadable
            judged_at = self._judged_at()
            is_open = chosen.state in ("running", "waiting", "interrupted")
            has_any = chosen.state in ("paused", "unreadable")
            status = "open" if is_open else None if has_any else chosen.state
            where, values = sql.where(
                {
                    "agent = ?": chosen.agent_id,
                    '"user" = ?': chosen.user,
                    "queue = ?": chosen.queue,
                    "parent = ?": chosen.parent,
                    "status = ?": status,
                    "status IN ('open', 'queued') AND wanted = ?": (
                        "pause" if chosen.state == "paused" else None
                    ),
                }
            )
            root = "" if chosen.children or chosen.parent else "AND parent IS NULL"
            columns = _BRIEF_COLUMNS if chosen.brief and self._server is None else _COLUMNS
            statement = f"SELECT {columns} FROM runs WHERE {where} {root} AND id < ? ORDER BY id DESC LIMIT ?"
            found, last = list[RecordedRun](), sql.ALL_ROWS
            while rows := file.execute(statement, (*values, last, _READ_AT_ONCE)).fetchall():
                for row in map(_Row._make, rows):
                    last = row.id
                    run = _listed_run(file, row, judged_at, self._seal)
                    if chosen.state in (None, run.state):
                        found.append(evolve(run, result=_brief(run.result)) if chosen.brief else run)
                        if len(found) == chosen.limit:
                            return tuple(found)
            return tuple(found)

        return await self._file.read("runs", work)

    @effect
    async def count_queued(
        self, agent_id: AgentId, user: str | None, at_most: int
    ) -> Result[int, RecordErrors]:
        """Count the queued runs of an agent, of a user or of all, up to a number."""
        where, values = sql.where({"agent = ?": agent_id, "status = ?": "queued", '"user" = ?': user})
        statement = f"SELECT count(*) FROM (SELECT 1 FROM runs WHERE {where} LIMIT ?) AS counted"
        return await self._file.read(
            "count", lambda file: int(file.execute(statement, (*values, at_most)).fetchone()[0])
        )

    @effect
    async def add(self, run: RecordedRun, *entries: RunEntry) -> Result[bool, RecordErrors]:
        """Add a run with its first entries; ``False`` if its id exists."""
        now, sealed = self._now(), self._seal.entries(entries)

        def work(file: sql.Transaction) -> bool:
            added = _add(file, run, now, self._seal)
            if added is not None:
                _insert(file, added, run.origin_entries, sealed)
            return added is not None

        return await self._file.write("add", work, of=run.run_id)

    @effect
    async def interrupted(self, agent_id: AgentId) -> Result[tuple[RunId, ...], RecordErrors]:
        """Return the runs of an agent that have begun and that no process holds."""

        def work(file: sql.Transaction) -> tuple[list[_Candidate], list[_Candidate]]:
            now, judged_at = self._now(), self._judged_at()
            chosen = "agent = ? AND parent IS NULL AND status = 'open' AND attempt > 0 AND wanted <> 'pause'"
            rows = _candidates(file, f"{chosen} ORDER BY id", agent_id)
            free = [row for row in rows if not _is_held(row, judged_at)]
            left = [row for row in free if _has_to_wait(row, now)]
            going_on = [row for row in free if not _has_to_wait(row, now)]
            return [*_owing(file, agent_id, judged_at), *going_on], left

        found = await self._file.read("interrupted", work)
        _, left = found.value_or(((), ()))
        for row in left:
            _log.warning(
                "The run %s is left interrupted for now: its process has ended, after %d attempts. resume"
                " continues it at once.",
                row.run_id,
                row.attempt,
            )
        return found.map(lambda rows: tuple(row.run_id for row in rows[0]))

    @effect
    async def dequeue(
        self,
        agent_id: AgentId,
        queue: str,
        limits: QueueLimits,
        *,
        at_most: int,
        without: Collection[RunId] = (),
    ) -> Result[tuple[tuple[RunId, str], ...], RecordErrors]:
        """Reserve due runs of a queue, within its limits; return each with its holder."""
        of_queue = (agent_id, queue)
        due = partial(_due, of_queue=of_queue, limits=limits, at_most=at_most, without=frozenset(without))
        there = await self._file.read("dequeue", lambda file: due(file, self._now(), self._judged_at()))
        if isinstance(there, Failure) or not there.unwrap():
            return there.map(lambda _: ())

        def work(file: sql.Transaction) -> tuple[tuple[RunId, str], ...]:
            now = self._now()
            file.execute("INSERT INTO run_queues VALUES (?, ?, 0) ON CONFLICT DO NOTHING", of_queue)
            file.execute(
                "UPDATE run_queues SET dequeued_us = ? WHERE agent = ? AND queue = ?", (now, *of_queue)
            )
            reserved: list[tuple[RunId, str]] = []
            for row in due(file, now, self._judged_at()):
                holder = new_holder()
                taken = file.execute(
                    "UPDATE runs SET holder = ?, lease_until_us = ?,"
                    " begun_us = CASE WHEN status = 'queued' THEN ? ELSE begun_us END"
                    " WHERE id = ? AND holder = ? AND status = ?",
                    (holder, now + _LEASE_US, now, row.id, row.holder, row.status),
                )
                if taken.rowcount:
                    reserved.append((row.run_id, holder))
            return tuple(reserved)

        return await self._file.write_soon("dequeue", work, of=f"queue {agent_id}\n{queue}")

    @effect
    async def schedule(self, schedule: RunSchedule) -> Result[None, RecordErrors]:
        """Add a schedule, replacing one with the same name."""

        def work(file: sql.Transaction) -> None:
            named = (schedule.agent_id, schedule.name)
            file.execute("DELETE FROM run_schedules WHERE agent = ? AND name = ?", named)
            file.execute(
                "INSERT INTO run_schedules (agent, name, cron, timezone, task, queue, priority, next_us)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *named,
                    schedule.cron,
                    schedule.timezone,
                    self._seal.close(to_json(_without_secrets(schedule.task))),
                    schedule.queue,
                    schedule.priority,
                    sqlite.microseconds(schedule.next_at),
                ),
            )

        return await self._file.write("schedule", work)

    @effect
    async def unschedule(self, agent_id: AgentId, name: str) -> Result[bool, RecordErrors]:
        """Delete a schedule; ``False`` if there is none of this name."""
        statement = "DELETE FROM run_schedules WHERE agent = ? AND name = ?"
        return await self._file.write(
            "unschedule", lambda file: file.execute(statement, (agent_id, name)).rowcount > 0
        )

    @effect
    async def schedules(
        self, agent_id: AgentId | None = None, *, due: datetime | None = None
    ) -> Result[tuple[RunSchedule, ...], RecordErrors]:
        """Return the schedules of an agent or of all, by name."""
        until = 2**62 if due is None else sqlite.microseconds(due)
        work = partial(_schedules, agent_id=agent_id, until=until, seal=self._seal, unread=self._unread)
        return await self._file.read("schedules", work)

    @effect
    async def add_scheduled(
        self, schedule: RunSchedule, run: RecordedRun, following: datetime
    ) -> Result[bool, RecordErrors]:
        """Add the due run of a schedule, and advance the schedule."""
        moments = map(sqlite.microseconds, (following, schedule.next_at))
        values = (*moments, schedule.agent_id, schedule.name, schedule.cron)
        statement = (
            "UPDATE run_schedules SET next_us = ? WHERE next_us = ? AND agent = ? AND name = ? AND cron = ?"
        )

        def work(file: sql.Transaction) -> bool:
            is_moved = file.execute(statement, values).rowcount > 0
            return is_moved and _add(file, run, self._now(), self._seal) is not None

        return await self._file.write("schedule", work)

    @effect
    async def questions(
        self, run_id: RunId | None = None, *, below: bool = False
    ) -> Result[tuple[OpenQuestion, ...], RecordErrors]:
        """Return the questions without an answer, oldest first."""
        chosen = f"asked.run IN ({_BELOW.format('run_id')} SELECT id FROM below)" if below else "run_id = ?"

        def work(file: sql.Transaction) -> tuple[OpenQuestion, ...]:
            self._seal.check()
            where, values = sql.where({chosen: run_id})
            rows = file.execute(
                'SELECT run_id, key, at_us, body, "user", parent'
                " FROM run_entries AS asked JOIN runs ON runs.id = asked.run"
                f" WHERE {_IS_OPEN} AND status = 'open' AND {where} ORDER BY at_us, run, number",
                values,
            )
            found: list[OpenQuestion] = []
            for name, key, at_us, text, user, parent in rows:
                try:
                    body = json.loads(self._seal.open(text))
                    kind, request = body["kind"], body["request"]
                except (ValueError, TypeError, KeyError):
                    kind, request = "unreadable", {}
                asked_at, whose = sqlite.moment_of(at_us), _user_of(file, user, parent)
                found.append(OpenQuestion(RunId(name), key, kind, asked_at, request, whose, parent))
            return tuple(found)

        return await self._file.read("questions", work)

    @effect
    async def delete(
        self, *, run_id: RunId | None = None, user: str | None = None, before: datetime | None = None
    ) -> Result[int, RecordErrors]:
        """Delete a run, the runs and schedules of a user, or runs from before a time.

        Also deletes their sub-runs. A run whose entries a fork shares, one that owes, and the caller of a
        sub-run that does or that has not ended, stays, unless it is named or belongs to the user. A sub-run
        whose caller is in another record is a separate run here.
        """
        until = None if before is None else sqlite.microseconds(before)
        where, values = sql.where(
            {
                "run_id = ?": run_id,
                '"user" = ?': user,
                "status NOT IN ('open', 'queued') AND updated_us < ? AND NOT EXISTS"
                f" (SELECT 1 FROM runs AS caller WHERE caller.run_id = runs.parent) AND NOT EXISTS ({_KEPT})"
                "": until,
            }
        )
        if not values:
            return Success(0)
        chosen = f"SELECT id FROM runs WHERE {where} AND id > ? ORDER BY id LIMIT ?"

        def choose(file: sql.Transaction, last: int) -> list[int]:
            return [each for (each,) in file.execute(chosen, (*values, last, _DELETED_AT_ONCE))]

        done: Result[Any, RecordErrors] = Success(0)
        if user is not None:
            done = await self._file.write("delete", partial(_delete_schedules, user=user, seal=self._seal))
        deleted, last, frees_origins = done.value_or(0), 0, False
        while isinstance(done, Success):
            # all rows may be read to find them, which no writer waits for
            done = await self._file.read("delete", partial(choose, last=last))
            some: list[int] = done.value_or([])
            if some:
                delete = partial(_delete_runs, where=where, values=values, some=some)
                done = await self._file.write("delete", delete)
                count, frees = done.value_or((0, False))
                deleted, last, frees_origins = deleted + count, some[-1], frees_origins or frees
            elif frees_origins:  # forks of forks: the runs that a deleted one had kept
                last, frees_origins = 0, False
            else:
                break
        if deleted or isinstance(done, Success):
            await self._file.empty_log(rewrites=user is not None)
        return done.map(lambda _: deleted)

    # --- leases -------------------------------------------------------------------------------------------

    async def _renew(self, held: Mapping[str, _HeldRun]) -> None:
        statement = "UPDATE runs SET lease_until_us = ? WHERE holder = ? RETURNING holder, wanted"

        def work(file: sql.Transaction) -> dict[str, RunOrder]:
            until = self._now() + _LEASE_US
            return dict(row for each in held for row in file.execute(statement, (until, each)))

        renewed = await self._file.write_soon("renew", work, of=f"leases of {this_machine()} {os.getpid()}")
        if isinstance(renewed, Failure):
            return
        orders = renewed.unwrap()
        for holder, run in held.items():
            if self._leases.get(holder) is not None:
                run.on_order(orders.get(holder, "lost"))

    def _now(self) -> int:
        """Return the time of the writers' common clock, within a transaction."""
        return sql.shared_us(self._clock.now(), self._file)

    def _judged_at(self) -> int:
        """Return the time by which leases are judged, within a transaction."""
        return self._lease_clock.at(self._now())


# --- one transaction each ---------------------------------------------------------------------------------


class _Row(NamedTuple):
    """A row of ``runs``, by the names of its columns."""

    id: int
    run_id: str
    agent: AgentId
    parent: RunId | None
    origin: RunId | None
    origin_entries: int
    changes: str
    status: RunStatus
    task: str
    definition: str
    result: str
    attempt: int
    holder: str
    lease_until_us: int
    wanted: RunOrder
    queue: str
    priority: int
    due_us: int
    created_us: int
    updated_us: int
    latest: int


_OF_OTHERS = {
    "origin": "(SELECT run_id FROM runs AS origins WHERE origins.id = runs.origin)",
    "latest": "(SELECT coalesce(max(number), 0) FROM run_entries WHERE run = runs.id)",
}
"""The columns of a row that are read from other rows, in the same statement."""
_COLUMNS = ", ".join(_OF_OTHERS.get(each, each) for each in _Row._fields)
_COURSE = (
    *("steps", "tool_results", "verification", "tree", "deliverables", "new_messages", "history"),
    *("sub_runs", "state"),
)
"""The fields of an outcome of which a list shows nothing."""
_PATHS = ", ".join(f"'$.{end}.{name}'" for end in ("result", "failed") for name in _COURSE)
_BRIEF_COLUMNS = _COLUMNS.replace(
    " result,", f" CASE WHEN json_valid(result) THEN json_remove(result, {_PATHS}) ELSE result END,"
)
"""Those of SQLite without the fields: five times as fast as :func:`_brief`, and most of it never read."""


class _Candidate(NamedTuple):
    """The columns that say whether a run goes on, and where: not its texts."""

    id: int
    run_id: RunId
    status: RunStatus
    holder: str
    lease_until_us: int
    queue: str
    wanted: RunOrder
    attempt: int
    priority: int
    updated_us: int
    session: str | None


_OWES = "substr({}.wanted, 1, 5) = 'owes:'"
"""The condition that a run owes; its order, which no process would carry out, names the stores."""
_FREE = "owes"
"""The holder of a run that owes and that no process has, by which it is found."""


def _wanted_of(owes: Iterable[OwedStore]) -> str:
    """Return the order of an ended run: what it owes."""
    names = ",".join(owes)
    return f"owes:{names}" if names else ""


def _owes_of(wanted: str) -> tuple[OwedStore, ...]:
    """Return what a run owes by its order."""
    prefix, _, names = wanted.partition(":")
    return cast(tuple[OwedStore, ...], tuple(names.split(","))) if prefix == "owes" else ()


def _owing(
    file: sql.Transaction,
    agent_id: AgentId,
    now: int,
    session: str | None = None,
    *,
    held: str = "holder > ''",
) -> list[_Candidate]:
    """Return the ended runs of an agent that owe and that no process holds.

    They are found by the index of holders, since few runs have one; that of agents has all runs.

    Args:
        held: the condition of their holders; by default, processes may be gone that had them.
    """
    of_agent = f"{held} AND agent || '' = ? AND {_OWES.format('runs')}"
    chosen = {of_agent: agent_id, "session || '' = ?": session}
    where, values = sql.where(chosen)
    free = (row for row in _candidates(file, where, *values) if not _is_held(row, now))
    return sorted(free, key=lambda row: row.id)


def _owing_before(file: sql.Transaction, run: RecordedRun, now: int) -> tuple[RunId, ...]:
    """Return the oldest runs of the agent that owe, those of the run's session first."""
    free = f"holder = '{_FREE}'"  # the others are found by recovery
    every = _owing(file, run.agent_id, now, held=free)
    session = run.task.session if every else None
    of_session = [] if session is None else _owing(file, run.agent_id, now, session, held=free)
    found = (*of_session[:_OWING_AT_ONCE], *every[:_OWING_AT_ONCE])
    return tuple(dict.fromkeys(each.run_id for each in found))


def _candidates(file: sql.Transaction, condition: str, *values: object) -> list[_Candidate]:
    rows = file.execute(f"SELECT {', '.join(_Candidate._fields)} FROM runs WHERE {condition}", values)
    return [_Candidate._make(row) for row in rows]


_IS_OPEN = (
    "kind = 'question' AND NOT EXISTS"
    " (SELECT 1 FROM run_entries WHERE run = asked.run AND key = asked.key || '=' AND kind = 'answer')"
)
"""The condition that an entry ``asked`` is a question without an answer."""
_BELOW = (
    "WITH RECURSIVE below (id, run_id) AS (SELECT id, run_id FROM runs WHERE {} = ? UNION"
    " SELECT runs.id, runs.run_id FROM below JOIN runs ON runs.parent = below.run_id WHERE status = 'open')"
)
"""A run, and the open runs that its tools began, by the column that names it."""
_KEPT = (
    "WITH RECURSIVE below (id, run_id, status, wanted) AS (SELECT runs.id, runs.run_id, runs.status,"
    " runs.wanted UNION SELECT sub.id, sub.run_id, sub.status, sub.wanted FROM below"
    " JOIN runs AS sub ON sub.parent = below.run_id) SELECT 1 FROM below WHERE status = 'open'"
    f" OR {_OWES.format('below')} OR EXISTS (SELECT 1 FROM runs AS fork WHERE fork.origin = below.id)"
)
"""Finds what is still needed of an ended run and of the runs that its tools began."""
_WAITS = (
    f"{_BELOW.format('id')}"
    f" SELECT EXISTS (SELECT 1 FROM run_entries AS asked JOIN below ON asked.run = below.id WHERE {_IS_OPEN})"
)
"""Whether an open run, or a run below it, waits for an answer."""


def _user_of(file: sql.Transaction, user: str | None, parent: RunId | None) -> str | None:
    """Return the user of a run, or of the next run above it that has one."""
    while user is None and parent is not None:
        above = file.execute('SELECT "user", parent FROM runs WHERE run_id = ?', (parent,)).fetchone()
        user, parent = (None, None) if above is None else above
    return user


def _without_secrets(task: Task) -> Task:
    settings = task.model_settings
    return task if settings is None else evolve(task, model_settings=settings.without_secrets)


def _add(file: sql.Transaction, run: RecordedRun, now: int, seal: Seal) -> int | None:
    """Add a run and return its row; ``None`` if its id exists."""
    if file.execute("SELECT 1 FROM runs WHERE run_id = ?", (run.run_id,)).fetchone() is not None:
        return None
    origin = None
    if run.origin is not None:
        found = file.execute("SELECT id FROM runs WHERE run_id = ?", (run.origin,)).fetchone()
        if found is None:
            raise ValueError(f"the run {run.origin} that is forked has been deleted")
        (origin,) = found
    (added,) = file.execute(
        'INSERT INTO runs (run_id, agent, "user", session, parent, origin, origin_entries, changes, status,'
        " task, definition, result, attempt, holder, lease_until_us, wanted, queue, priority, due_us,"
        " created_us, updated_us) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0, '', 0, '', ?, ?, ?, ?, ?)"
        " RETURNING id",
        (
            run.run_id,
            run.agent_id,
            run.task.user,
            run.task.session,
            run.parent,
            origin,
            run.origin_entries,
            seal.close(run.changes),
            run.status,
            seal.close(to_json(_without_secrets(run.task))),
            json.dumps(dict(run.definition)),
            run.queue,
            run.priority,
            0 if run.due is None else sqlite.microseconds(run.due),
            now if run.created_at is None else sqlite.microseconds(run.created_at),
            now,
        ),
    ).fetchone()
    return int(added)


def _row_of(file: sql.Transaction, run_id: RunId) -> _Row | None:
    row = file.execute(f"SELECT {_COLUMNS} FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    return None if row is None else _Row._make(row)


def _is_held(row: _Row | _Candidate, now: int) -> bool:
    return bool(row.holder) and row.lease_until_us >= now and not is_gone(row.holder)


def _listed_run(file: sql.Transaction, row: _Row, now: int, seal: Seal) -> RecordedRun:
    """Return a run even if its texts are unreadable, so that it hides no other."""
    try:
        return _run_of(file, row, now, seal)
    except ValueError:
        times = (row.created_us, row.updated_us)
        created, updated = (each if isinstance(each, int) and 0 <= each <= now else now for each in times)
        task = to_json(Task(TaskId(""), row.agent, "", sqlite.moment_of(created)))
        readable = row._replace(origin_entries=0, changes="", task=task, definition="{}", result="", due_us=0)
        readable = readable._replace(created_us=created, updated_us=updated)
        return evolve(_run_of(file, readable, now, seal), state="unreadable")


def states_in(place: sqlite.DatabasePath, run_ids: Sequence[str]) -> Result[dict[str, RunState], str]:
    """Return the states of those runs that a record has; none if there is no record.

    Blocks while it reads. Fails with a sentence if the record cannot be read.
    """

    def work(file: sql.Transaction) -> dict[str, RunState]:
        now, found = time.time_ns() // 1000, dict[str, RunState]()
        if sql.is_postgres(place):
            (now,) = file.execute(SERVER_TIME).fetchone()  # that of the leases
        elif not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'runs'").fetchone():
            return {}
        for first in range(0, len(run_ids), _READ_AT_ONCE):
            some = run_ids[first : first + _READ_AT_ONCE]
            rows = _candidates(file, f"run_id IN ({sql.marks(some)})", *some)
            found.update((row.run_id, _state_of(file, row, now)) for row in rows)
        return found

    return sql.look_into(place, RUNS, work) if sql.is_made(place, RUNS) else Success({})


def _run_of(file: sql.Transaction, row: _Row, now: int, seal: Seal) -> RecordedRun:
    owes = _owes_of(row.wanted)
    try:
        return RecordedRun(
            RunId(row.run_id),
            row.agent,
            sql.decoded(seal.open(row.task), Task),
            dict(json.loads(row.definition)),
            row.status,
            parent=row.parent,
            origin=row.origin,
            origin_entries=row.origin_entries,
            changes=_object_or_empty(seal.open(row.changes)),
            attempt=row.attempt,
            result=seal.open(row.result),
            created_at=sqlite.moment_of(row.created_us),
            updated_at=sqlite.moment_of(row.updated_us),
            state=_state_of(file, row, now),
            is_held=row.status == "open" and _is_held(row, now),
            order="" if owes else row.wanted,
            entries=max(0, row.latest - row.origin_entries),
            queue=row.queue,
            priority=row.priority,
            due=None if not row.due_us else sqlite.moment_of(row.due_us),
            owes=owes,
        )
    except (TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"the run {row.run_id} has a damaged value: {error}") from None


def _brief(result: str) -> str:
    """Return an outcome without what led to it; as it is if it cannot be read."""
    try:
        body = json.loads(result)
    except (ValueError, RecursionError):
        return result
    for ended in body.values() if isinstance(body, dict) else ():
        if isinstance(ended, dict):
            for name in _COURSE:
                ended.pop(name, None)
            ended["steps"] = []
    return json.dumps(body)


def _state_of(file: sql.Transaction, row: _Row | _Candidate, now: int) -> RunState:
    if row.status == "open":
        (waiting,) = file.execute(_WAITS, (row.id,)).fetchone()
        if waiting:
            return "waiting"
    elif row.status != "queued":
        return row.status
    if row.wanted == "pause":
        return "paused"
    if row.status == "queued":
        return "queued"
    return "running" if _is_held(row, now) else "interrupted"


def _object_or_empty(text: str) -> str:
    if text and not isinstance(json.loads(text), dict):
        raise ValueError(f"got {shortened(text, 40)!r}, expected a JSON object")
    return text


def _entry_of(seal: Seal, key: str, kind: Any, at_us: int, body: str, number: int) -> RunEntry:
    """Return an entry of a run.

    Raises:
        ValueError: it is damaged; what reads it expects an object.
    """
    try:
        text = seal.open(body)
        if isinstance(json.loads(text), dict):
            return RunEntry(key, kind, sqlite.moment_of(at_us), text, number)
        problem = "it is no JSON object"
    except (AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        problem = str(error)
    raise ValueError(f"the entry {key!r} cannot be read: {problem}")


_INSERT_ENTRY = "INSERT INTO run_entries (run, number, key, kind, at_us, body) VALUES (?, ?, ?, ?, ?, ?)"
_LATEST = "coalesce((SELECT max(number) FROM run_entries WHERE run = runs.id), origin_entries)"
"""The number of the latest entry of a run; of a fork without its own, that of the last one it shares."""
_HELD = f"SELECT id, wanted, {_LATEST} FROM runs WHERE holder = ? AND holder <> ''"
"""Finds the held run, the order to it, and the number of its latest entry."""


def _values(entry: RunEntry) -> tuple[object, ...]:
    return entry.key, entry.kind, sqlite.microseconds(entry.at), entry.body


def _append(
    file: sql.Transaction, holder: str, entries: Iterable[RunEntry], *, again: bool
) -> RunOrder | None:
    """Add entries to the held run; return the order to it, or ``None``.

    Args:
        again: whether it may have some of them.
    """
    if again:
        entries = _missing(file, holder, entries)
    held = file.execute(_HELD, (holder,)).fetchone()
    if held is None:
        return None
    run, order, latest = held
    _insert(file, run, latest, entries)
    return order  # type: ignore[no-any-return]


def _insert(file: sql.Transaction, run: int, latest: int, entries: Iterable[RunEntry]) -> None:
    """Add entries to a run after its latest one."""
    rows = [(run, number, *_values(entry)) for number, entry in enumerate(entries, latest + 1)]
    file.executemany(_INSERT_ENTRY, rows)


def _missing(file: sql.Transaction, holder: str, entries: Iterable[RunEntry]) -> list[RunEntry]:
    """Return those of entries that the held run does not have."""
    given = {each.key: each for each in entries}
    if not given:
        return []
    held = f"run = (SELECT id FROM runs WHERE holder = ?) AND key IN ({sql.marks(given)})"
    known = {key for (key,) in file.execute(f"SELECT key FROM run_entries WHERE {held}", (holder, *given))}
    return [entry for key, entry in given.items() if key not in known]


def _cancel(file: sql.Transaction, row: _Row | _Candidate, now: int) -> int:
    """Cancel a run that no process has; return the number of runs, which may be 0.

    If its beginning is in an audit log, it owes its end to it.
    """
    (owes,) = file.execute(
        "SELECT count(CASE WHEN key = ? THEN 1 END) > count(CASE WHEN key = ? THEN 1 END) FROM run_entries"
        " WHERE run = ?",
        (AUDITED, END_AUDITED, row.id),
    ).fetchone()
    return file.execute(
        "UPDATE runs SET status = 'cancelled', wanted = ?, holder = ?, lease_until_us = 0, updated_us = ?"
        " WHERE id = ? AND holder = ? AND status = ?",
        (_wanted_of(["audit"] if owes else ()), _FREE if owes else "", now, row.id, row.holder, row.status),
    ).rowcount


def _end_sub_runs(file: sql.Transaction, run_id: RunId, now: int, judged_at: int) -> None:
    """Cancel what an ended run had begun and cut off, since no one continues it.

    A sub-run that a tool has begun in the background, and that still runs, ends by itself.
    """
    callers: list[str] = [run_id]
    while callers:
        for row in _candidates(file, "parent = ? AND status = 'open'", callers.pop()):
            if _is_held(row, judged_at):
                continue
            callers += [row.run_id] * _cancel(file, row, now)


def _delete_runs(
    file: sql.Transaction, where: str, values: Sequence[object], some: Sequence[int]
) -> tuple[int, bool]:
    """Delete some runs that a condition still chooses, with the runs below them.

    Returns their number, and whether one of them was a fork, whose origin may be deleted now.
    """
    chosen = f"SELECT run_id, origin FROM runs WHERE {where} AND id IN ({sql.marks(some)})"
    rows = file.execute(chosen, (*values, *some)).fetchall()
    doomed = [name for name, _ in rows]
    while doomed:
        group, doomed = doomed[:_DELETED_AT_ONCE], doomed[_DELETED_AT_ONCE:]
        marks = sql.marks(group)
        below = file.execute(f"SELECT run_id FROM runs WHERE parent IN ({marks})", group)
        doomed += [child for (child,) in below]
        file.execute(f"DELETE FROM runs WHERE run_id IN ({marks})", group)
    return len(rows), any(origin is not None for _, origin in rows)


def _delete_schedules(file: sql.Transaction, user: str, seal: Seal) -> int:
    every = _schedules(file, agent_id=None, until=sql.ALL_ROWS, seal=seal)
    named = [(each.agent_id, each.name) for each in every if each.task.user == user]
    file.executemany("DELETE FROM run_schedules WHERE agent = ? AND name = ?", named)
    return len(named)


def _lease(run_id: RunId, written: Result[RunOrder | None, RecordFailed]) -> Result[RunOrder, RecordErrors]:
    if isinstance(written, Success) and written.unwrap() is None:
        return Failure(LeaseLost(run_id))
    return written  # type: ignore[return-value]


def _may_end_process(row: _Candidate) -> bool:
    """Return whether a run goes on alone, since the processes that had it are gone."""
    return bool(row.holder) and may_end_process(row.attempt, row.wanted)


def _has_to_wait(row: _Candidate, now: int) -> bool:
    """Return whether a run whose processes are gone is not continued by itself yet."""
    pause_us = pause_after(row.attempt).total_seconds() * 1e6
    return _may_end_process(row) and abs(now - row.updated_us) < pause_us  # the clock may have been set back


_SESSIONS_IN_USE = (
    "SELECT session FROM runs WHERE holder > '' AND agent || '' = ? AND session IS NOT NULL"
    " AND status || '' IN ('open', 'queued') AND lease_until_us >= ?"
)
"""Finds the sessions in which a run goes on, by the index of holders.

The next one would wait for it there, in the place of a run that has something to do.
"""


def _due(
    file: sql.Transaction,
    now: int,
    judged_at: int,
    of_queue: tuple[AgentId, str],
    limits: QueueLimits,
    at_most: int,
    without: frozenset[RunId],
) -> list[_Candidate]:
    """Return the runs that may begin or continue, in their order."""
    begun = _candidates(
        file,
        "agent = ? AND queue IN (?, '') AND parent IS NULL AND status = 'open' AND attempt > 0"
        " ORDER BY priority DESC, id",
        *of_queue,
    )
    free = [row for row in begun if not _is_held(row, judged_at)]
    found = _going_on([row for row in free if row.run_id not in without], now)
    owing = [row for row in _owing(file, of_queue[0], judged_at) if row.run_id not in without]
    found += owing[: max(1, at_most // 2)]  # the others begin beside them
    reserved = _candidates(file, "agent = ? AND queue = ? AND status = 'queued' AND holder <> ''", *of_queue)
    given_up = [row for row in reserved if not _is_held(row, judged_at)]
    room = at_most
    if limits.total is not None:
        under_way = sum(row.queue != "" for row in begun) - sum(row.queue != "" for row in free)
        room = max(0, min(room, limits.total - under_way - len(reserved) + len(given_up)))
    found = found[:room]
    room -= len(found)
    if room and limits.rate is not None:
        period = int(limits.period_s * 1e6)
        (lately,) = file.execute(  # later ones were begun before the clock was set back
            "SELECT count(*) FROM runs WHERE agent = ? AND queue = ? AND begun_us > ? AND begun_us <= ?",
            (*of_queue, now - period, now + period),
        ).fetchone()
        room = max(0, min(room, limits.rate - lately))
    if room:
        waiting = _candidates(
            file,
            "agent = ? AND queue = ? AND status = 'queued' AND holder = '' AND due_us <= ?"
            f" AND wanted <> 'pause' AND coalesce(session, '') NOT IN ({_SESSIONS_IN_USE})"
            " ORDER BY priority DESC, id LIMIT ?",
            *of_queue,
            now,
            of_queue[0],
            judged_at,
            room + len(without),
        )
        new = [row for row in (*given_up, *waiting) if row.run_id not in without]
        in_use = {row.session for row in found if row.session is not None}
        found += _one_of_each_session(new, in_use)[:room]
    return found


def _going_on(free: Iterable[_Candidate], now: int) -> list[_Candidate]:
    """Return the runs that continue, of those begun that no process holds."""
    going_on = [row for row in free if row.wanted != "pause"]
    ended = [row for row in going_on if _may_end_process(row)]
    tried = sorted((row for row in ended if not _has_to_wait(row, now)), key=lambda row: row.attempt)
    # of these only one: it may end this process as well
    return [*(row for row in going_on if not _may_end_process(row)), *tried[:1]]


def _one_of_each_session(new: Iterable[_Candidate], in_use: set[str]) -> list[_Candidate]:
    """Return the runs that may begin, in their order: the first of each free session."""
    taken, free = set(in_use), list[_Candidate]()
    for row in sorted(new, key=lambda row: (-row.priority, row.id)):
        if row.session not in taken:
            free.append(row)
            if row.session is not None:
                taken.add(row.session)
    return free


def _schedules(
    file: sql.Transaction, *, agent_id: AgentId | None, until: int, seal: Seal, unread: set[str] | None = None
) -> tuple[RunSchedule, ...]:
    """Return the readable schedules."""
    seal.check()
    rows = file.execute(
        "SELECT name, agent, cron, task, next_us, timezone, queue, priority FROM run_schedules"
        " WHERE next_us <= ? AND agent = coalesce(?, agent)",
        (until, agent_id),
    )
    found: list[RunSchedule] = []
    for name, agent, cron, text, next_us, *rest in rows:
        try:
            task = sql.decoded(seal.open(text), Task)
        except ValueError as error:
            if unread is None:
                raise
            if name not in unread:
                unread.add(name)
                _log.warning("The schedule %s cannot be read: %s", name, error)
            continue
        found.append(RunSchedule(name, agent, cron, task, sqlite.moment_of(next_us), *rest))
    return tuple(sorted(found, key=lambda each: (each.name, each.agent_id)))  # a server has its own order
