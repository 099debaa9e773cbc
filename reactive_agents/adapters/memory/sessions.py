"""Sessions in an SQLite file, a Postgres database, or in the process.

Runs of one session take turns, across threads and processes. Each run takes a ticket when it arrives, and
gets its turn number when no earlier ticket is left. A ticket is renewed while its process is alive. A ticket
that was not renewed for ``LEASE_S`` seconds, because its process is gone or stalled, delays no other run. It
is kept, so that a stalled process can still add its run in its place; a run whose ticket was deleted, with
its session or user, adds nothing.

A run reads the newest messages of its session as messages, and some before them as text. Both are bounded, so
that a turn costs the same however long the session is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import anyio
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql, sqlite
from reactive_agents.adapters.leases import LeaseClock, LeaseRenewal
from reactive_agents.adapters.memory import contents
from reactive_agents.adapters.memory.store import microseconds, moment_of
from reactive_agents.core.bases import PUBLISH
from reactive_agents.core.codec import to_json
from reactive_agents.core.control_events import SessionAwaited
from reactive_agents.core.conversation import History, SessionInfo, SessionKey, SessionTurn
from reactive_agents.core.errors import SessionErrors, SessionRefused, SessionUnavailable
from reactive_agents.core.ids import AgentId, RunId, SessionId
from reactive_agents.core.json import JsonObject, abbreviated, changes_of, with_changes, without_surrogates
from reactive_agents.core.messages import Message
from reactive_agents.core.run_context import MOST_EXPECTED, MOST_STATE, state_size
from reactive_agents.effects import effect
from reactive_agents.event_loop import end_of_this_loop, to_the_end
from reactive_agents.ports import Clock

LEASE_S = 30.0
"""Seconds after which a ticket expires if it is not renewed."""
_KEPT_US = 30 * 24 * 3600 * 1_000_000
"""Microseconds without renewal after which a ticket is deleted.

Until then a run whose turn could not be added, as on a full disk, has its place.
"""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.01, 0.25
_LONGEST_TITLE = 80
_DELETED_AT_ONCE = 100
_FOR_EVER = 2**62

_CHANGES_OF_STATE = (
    "ALTER TABLE conversations ADD COLUMN first_state TEXT NOT NULL DEFAULT '{}'",
    "ALTER TABLE conversations ADD COLUMN state TEXT NOT NULL DEFAULT '{}'",
    "ALTER TABLE conversation_turns ADD COLUMN changes TEXT NOT NULL DEFAULT '{}'",
    "UPDATE conversations SET state = coalesce((SELECT turn.state FROM conversation_turns AS turn"
    " WHERE turn.conversation = conversations.id ORDER BY turn.number DESC LIMIT 1), '{}')",
)

SESSIONS = sqlite.Store(
    "sessions",
    (
        (
            "CREATE TABLE conversations (id INTEGER PRIMARY KEY, agent TEXT NOT NULL, session TEXT NOT NULL,"
            " user TEXT, title TEXT NOT NULL, created_us INTEGER NOT NULL, updated_us INTEGER NOT NULL,"
            " UNIQUE (agent, session))",
            "CREATE TABLE conversation_turns (conversation INTEGER NOT NULL, number INTEGER NOT NULL,"
            " run_id TEXT NOT NULL, messages_before INTEGER NOT NULL, message_count INTEGER NOT NULL,"
            " messages TEXT NOT NULL, results TEXT NOT NULL, text TEXT NOT NULL,"
            " PRIMARY KEY (conversation, number), UNIQUE (conversation, run_id))",
            "CREATE TRIGGER conversation_deleted AFTER DELETE ON conversations BEGIN"
            " DELETE FROM conversation_turns WHERE conversation = OLD.id; END",
            "CREATE TABLE conversation_tickets (id INTEGER PRIMARY KEY AUTOINCREMENT, agent TEXT NOT NULL,"
            " session TEXT NOT NULL, run_id TEXT NOT NULL UNIQUE, valid_until_us INTEGER NOT NULL)",
        ),
        (
            "ALTER TABLE conversation_tickets ADD COLUMN user TEXT",
            "ALTER TABLE conversation_tickets ADD COLUMN number INTEGER",
        ),
        contents.CONTENT_TABLES,
        ("ALTER TABLE conversation_turns ADD COLUMN holder TEXT NOT NULL DEFAULT '[]'",),
        contents.HOLDERS_OF_RUNS,
        ("ALTER TABLE conversation_turns ADD COLUMN state TEXT NOT NULL DEFAULT '{}'",),
        _CHANGES_OF_STATE,
    ),
    postgres=(
        (
            "CREATE TABLE conversations (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            ' agent text NOT NULL, session text NOT NULL, "user" text, title text NOT NULL,'
            " created_us bigint NOT NULL, updated_us bigint NOT NULL, UNIQUE (agent, session))",
            'CREATE INDEX conversations_by_user ON conversations ("user")',
            "CREATE TABLE conversation_turns (conversation bigint NOT NULL REFERENCES conversations"
            " ON DELETE CASCADE, number bigint NOT NULL, run_id text NOT NULL,"
            " messages_before bigint NOT NULL, message_count bigint NOT NULL, messages text NOT NULL,"
            " results text NOT NULL, text text NOT NULL, holder text NOT NULL DEFAULT '[]',"
            " PRIMARY KEY (conversation, number), UNIQUE (conversation, run_id))",
            "CREATE TABLE conversation_tickets (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
            " agent text NOT NULL, session text NOT NULL, run_id text NOT NULL UNIQUE,"
            ' valid_until_us bigint NOT NULL, "user" text, number bigint)',
            "CREATE INDEX conversation_tickets_by_session ON conversation_tickets (agent, session)",
            *contents.CONTENT_TABLES_IN_POSTGRES,
        ),
        contents.HOLDERS_OF_RUNS,
        ("ALTER TABLE conversation_turns ADD COLUMN state text NOT NULL DEFAULT '{}'",),
        _CHANGES_OF_STATE,
    ),
)
"""Conversations, their turns by number, the tickets of runs, and their content.

Tickets of waiting runs have no number yet. The state of a session is stored once, and with each turn what
changed in it; turns of earlier versions have the whole state after them.
"""

_T = TypeVar("_T")
_log = logging.getLogger("reactive_agents")


class SqliteSessions:
    """Implements ``SessionStore``.

    Args:
        path: an SQLite file, created if missing, or a Postgres URL; by default sessions end with this object.
        clock: the clock for the use of sessions and for tickets; a database uses the clock of its server.
        read_only: never write or create the file.

    Attributes:
        content: the images, audio and documents of runs, in the same file.
    """

    def __init__(
        self, path: sqlite.DatabasePath = sqlite.IN_PROCESS, *, clock: Clock, read_only: bool = False
    ) -> None:
        self._file = sql.open_database(path, SESSIONS, SessionUnavailable, read_only=read_only)
        self._clock = clock
        self._lease_clock = LeaseClock(clock)
        self._in_process = str(path) == sqlite.IN_PROCESS
        self.content = contents.SqliteContent(self._file, clock, lasting=not self._in_process)
        self._tickets: LeaseRenewal[None] = LeaseRenewal(
            "session-tickets", self._renew_tickets, beat_s=LEASE_S / 3
        )
        self._loop_has_ended: dict[RunId, Callable[[], bool]] = {}

    async def aclose(self) -> None:
        """Close the file; the next use opens it again."""
        await self._file.aclose()

    # --- the turns of runs --------------------------------------------------------------------------------

    @effect
    async def begin(
        self, key: SessionKey, run_id: RunId, *, size: int, earlier: int
    ) -> Result[History, SessionErrors]:
        """Wait until earlier runs of the session have ended, and return its history.

        Fails with ``SessionRefused`` if the session belongs to another user.
        """
        if self._in_process:
            self._loop_has_ended[run_id] = end_of_this_loop()
        else:  # visible to other processes
            self._tickets.hold(run_id, None)
        has_turn = False
        try:
            begun = await self._history_in_turn(key, run_id, size, earlier)
            has_turn = isinstance(begun, Success)
        finally:
            if not has_turn:
                await to_the_end(partial(self.end, key, run_id, None))
        return begun

    @effect
    async def reserve(self, key: SessionKey, run_id: RunId, turns: int) -> Result[bool, SessionErrors]:
        """Give a run the next turn of a session with so many; ``False`` if taken.

        The run has to begin within ``LEASE_S`` seconds, after which others may have the turn.
        """

        def work(file: sql.Transaction) -> bool | SessionRefused:
            taken = _take_turn(file, key, run_id, self._lease_end(), self._now(), self._present())
            (present,) = file.execute(
                "SELECT count(*) FROM conversation_turns WHERE conversation ="
                " (SELECT id FROM conversations WHERE agent = ? AND session = ?)",
                (key.agent, key.session),
            ).fetchone()
            if isinstance(taken, int) and present == turns:
                return True
            file.execute("DELETE FROM conversation_tickets WHERE run_id = ?", (run_id,))
            return taken if isinstance(taken, SessionRefused) else False

        return _unless_refused(await self._write("reserve", work, key))

    async def _history_in_turn(
        self, key: SessionKey, run_id: RunId, size: int, earlier: int
    ) -> Result[History, SessionErrors]:
        pause_s, waited_s = _FIRST_WAIT_S, 0.0

        def take(file: sql.Transaction) -> int | SessionRefused | None:
            present = self._present(waited_s)
            return _take_turn(file, key, run_id, self._valid_until(), self._now(), present)

        def look(file: sql.Transaction) -> bool:
            return _must_wait(file, key, run_id, self._present(waited_s))

        while True:
            written = await self._write("begin", take, key)
            taken: Result[int | None, SessionErrors] = _unless_refused(written)
            if isinstance(taken, Failure):
                return taken
            number = taken.unwrap()
            if number is not None:
                read = partial(_history, key=key, turn=number - 1, size=size, earlier=earlier)
                return await self._file.read("begin", read)
            waiting, publish = True, PUBLISH.get()
            if publish is not None and pause_s == _FIRST_WAIT_S:
                publish(SessionAwaited, key.session)
            while waiting:  # reads only, so that many waiting runs do not block the writer
                await anyio.sleep(pause_s)
                waited_s += pause_s
                pause_s = min(pause_s * 1.5, _LONGEST_WAIT_S)
                await self._end_lost_runs(key)
                looked = await self._file.read("begin", look)
                if isinstance(looked, Failure):
                    return looked
                waiting = looked.unwrap()

    async def _end_lost_runs(self, key: SessionKey) -> None:
        """End the runs of event loops that were closed, as by ``loop.close()`` amid tasks."""
        for run_id, has_ended in tuple(self._loop_has_ended.items()):
            if has_ended():
                await self.end(key, run_id, None)

    @effect
    async def end(
        self, key: SessionKey, run_id: RunId, turn: SessionTurn | None
    ) -> Result[None, SessionErrors]:
        """Add the run to the session, once, and let the next one begin.

        Fails with ``SessionRefused`` if the session was deleted meanwhile.
        """
        added = False
        try:
            ended = await self._write(
                "end", lambda file: _end_turn(file, key, run_id, turn, self._now()), key
            )
            added = isinstance(ended, Success)
        finally:
            self._tickets.let_go(run_id)
            self._loop_has_ended.pop(run_id, None)
            if turn is not None and not added:  # a failure to add it must not delay other runs
                expire = "UPDATE conversation_tickets SET valid_until_us = ? WHERE run_id = ?"
                past = self._shared_now() - int(LEASE_S * 1e6)  # as measured by every process
                with anyio.CancelScope(shield=True):
                    await self._write("end", lambda file: file.execute(expire, (past, run_id)), key)
        return ended.bind(partial(_added, key, run_id))

    async def _renew_tickets(self, held: Mapping[str, None]) -> None:
        statement = "UPDATE conversation_tickets SET valid_until_us = ? WHERE run_id = ?"
        await self._write(
            "renew", lambda file: file.executemany(statement, [(self._valid_until(), each) for each in held])
        )

    def _now(self) -> int:
        return microseconds(self._clock.now())

    def _shared_now(self) -> int:
        """Return the time by which all processes judge leases, within a transaction."""
        return self._lease_clock.at(sql.shared_us(self._clock.now(), self._file))

    def _lease_end(self) -> int:
        """Return the end of a lease, by a clock that some may believe already."""
        return sql.shared_us(self._clock.now(), self._file) + int(LEASE_S * 1e6)

    def _present(self, waited_s: float = 0.0) -> tuple[int, int]:
        """Return the range of times until which a present ticket is valid.

        One that has not been renewed while a run waited, and is valid for longer, is from before the clock
        was set back.
        """
        is_known = self._in_process or waited_s < LEASE_S
        latest = _FOR_EVER if is_known else self._lease_end() + int(LEASE_S * 1e6)
        return self._shared_now(), latest

    def _valid_until(self) -> int:
        return _FOR_EVER if self._in_process else self._lease_end()

    # --- what there is ------------------------------------------------------------------------------------

    @effect
    async def sessions(
        self,
        agent: AgentId,
        user: str | None = None,
        *,
        session: str | None = None,
        before: datetime | None = None,
        limit: int | None = None,
    ) -> Result[tuple[SessionInfo, ...], SessionErrors]:
        """Return the agent's sessions, of one user or of all, latest first."""
        before_us = None if before is None else microseconds(before)
        chosen, values = sql.where(
            {"agent = ?": agent, "session = ?": session, '"user" = ?': user, "updated_us < ?": before_us}
        )
        of_turns = "FROM conversation_turns WHERE conversation = conversations.id"
        statement = (
            f'SELECT session, "user", title, (SELECT count(*) {of_turns}),'
            f" (SELECT coalesce(sum(message_count), 0) {of_turns}), created_us, updated_us,"
            " EXISTS (SELECT 1 FROM conversation_tickets AS held WHERE held.agent = conversations.agent"
            " AND held.session = conversations.session AND valid_until_us >= ?)"
            f" FROM conversations WHERE {chosen} ORDER BY updated_us DESC, id DESC LIMIT ?"
        )

        def work(file: sql.Transaction) -> tuple[SessionInfo, ...]:
            rows = file.execute(statement, (self._shared_now(), *values, sql.row_limit(limit)))
            return tuple(
                SessionInfo(
                    named, owner, title, turns, messages, moment_of(created), moment_of(updated), bool(held)
                )
                for named, owner, title, turns, messages, created, updated, held in rows
            )

        return await self._file.read("list", work)

    @effect
    async def messages(
        self, agent: AgentId, session: SessionId
    ) -> Result[tuple[Message, ...], SessionErrors]:
        """Return all messages of a session."""

        def work(file: sql.Transaction) -> tuple[Message, ...] | SessionRefused:
            found = _row(file, agent, session)
            if found is None:
                return _missing(session)
            rows = file.execute(
                "SELECT messages FROM conversation_turns WHERE conversation = ? ORDER BY number", found
            )
            return tuple(
                message for (stored,) in rows for message in sql.decoded(stored, tuple[Message, ...])
            )

        return _unless_refused(await self._file.read("read", work))

    @effect
    async def state(self, agent: AgentId, session: SessionId) -> Result[JsonObject, SessionErrors]:
        """Return the state of a session."""

        def work(file: sql.Transaction) -> JsonObject | SessionRefused:
            row = _row(file, agent, session, "state")
            state: JsonObject | SessionRefused = _missing(session) if row is None else json.loads(*row)
            return state

        return _unless_refused(await self._file.read("state", work))

    @effect
    async def update_state(
        self, key: SessionKey, values: JsonObject, deleted: Sequence[str] = ()
    ) -> Result[JsonObject, SessionErrors]:
        """Change keys of the state of a session, which is begun if there is none."""
        changes = {**changes_of(values, values), **changes_of({}, deleted)}
        updated = await self._write(
            "update",
            lambda file: _update_state(file, key, changes, now=self._now(), shared_now=self._shared_now()),
            key,
        )
        return _unless_refused(updated)

    @effect
    async def rename(self, agent: AgentId, session: SessionId, title: str) -> Result[None, SessionErrors]:
        """Give a session another title."""

        def work(file: sql.Transaction) -> SessionRefused | None:
            statement = "UPDATE conversations SET title = ? WHERE agent = ? AND session = ?"
            renamed = file.execute(statement, (without_surrogates(title), agent, session))
            return None if renamed.rowcount else _missing(session)

        return _unless_refused(await self._write("rename", work, SessionKey(agent, session)))

    @effect
    async def fork(
        self, agent: AgentId, session: SessionId, into: SessionId, turns: int | None = None
    ) -> Result[None, SessionErrors]:
        """Copy a session, or its first turns, into a new one of the same user."""
        now = self._now()

        def work(file: sql.Transaction) -> SessionRefused | None:
            origin = _row(file, agent, session)
            if origin is None:
                return _missing(session)
            state = _state_after(file, origin[0], turns)
            copied = file.execute(
                "INSERT INTO conversations"
                ' (agent, session, "user", title, created_us, updated_us, first_state, state)'
                ' SELECT agent, ?, "user", title, ?, ?, first_state, ? FROM conversations WHERE id = ?'
                " AND NOT EXISTS (SELECT 1 FROM conversation_tickets WHERE agent = ? AND session = ?"
                " AND valid_until_us >= ?)"
                " ON CONFLICT (agent, session) DO NOTHING RETURNING id",
                (into, now, now, state, *origin, agent, into, self._shared_now()),
            ).fetchone()
            if copied is None:
                return SessionRefused(into, "there is one of this name already")
            file.execute(
                "INSERT INTO conversation_turns (conversation, number, run_id, messages_before,"
                " message_count, messages, results, text, holder, state, changes) SELECT ?, number, run_id,"
                " messages_before, message_count, messages, results, text, holder, state, changes"
                " FROM conversation_turns WHERE conversation = ? ORDER BY number LIMIT ?",
                (*copied, *origin, sql.row_limit(turns)),
            )
            contents.copy_held(file, *origin, *copied)
            return None

        return _unless_refused(await self._write("fork", work, SessionKey(agent, into), again=False))

    @effect
    async def delete(self, agent: AgentId, session: SessionId) -> Result[None, SessionErrors]:
        """Delete a session with its content; a run in progress adds nothing to it."""

        def work(file: sql.Transaction) -> SessionRefused | None:
            deleted = sum(
                file.execute(
                    f"DELETE FROM {table} WHERE agent = ? AND session = ?", (agent, session)
                ).rowcount
                for table in ("conversation_tickets", "conversations")
            )
            return None if deleted else _missing(session)

        return _unless_refused(await sql.erase(self._file, "delete", work, of=f"{agent}\n{session}"))

    @effect
    async def forget(self, user: str) -> Result[int, SessionErrors]:
        """Delete all sessions of a user, of every agent; return their number.

        Runs in progress add nothing.
        """

        def work(file: sql.Transaction) -> int:
            file.execute('DELETE FROM conversation_tickets WHERE "user" = ?', (user,))
            contents.forget_holders(file, user)
            return file.execute('DELETE FROM conversations WHERE "user" = ?', (user,)).rowcount

        return await sql.erase(self._file, "forget", work, of="forget", rewrites=True)

    @effect
    async def prune(self, before: datetime) -> Result[int, SessionErrors]:
        """Delete the sessions of all agents that were last used before a time.

        Returns their number. One that a run holds or waits for stays, and so does one in which a run began
        since. Content of that age that runs without a session left is deleted as well.
        """
        until = microseconds(before)
        chosen = (
            "SELECT id FROM conversations WHERE id > ? AND updated_us < ? AND NOT EXISTS (SELECT 1"
            " FROM conversation_tickets AS held WHERE held.agent = conversations.agent"
            " AND held.session = conversations.session AND valid_until_us >= ?) ORDER BY id LIMIT ?"
        )

        def work(file: sql.Transaction) -> tuple[int, list[int]]:
            contents.prune_runs(file, until)
            values = (last, until, self._shared_now(), _DELETED_AT_ONCE)
            found = [each for (each,) in file.execute(chosen, values)]
            some = f"DELETE FROM conversations WHERE id IN ({sql.marks(found)}) AND updated_us < ?"
            return file.execute(some, (*found, until)).rowcount if found else 0, found

        deleted, last, found = 0, 0, [0]
        while found:
            done = await self._file.write("prune", work, of="prune")
            if isinstance(done, Failure):
                return Failure(done.failure())
            count, found = done.unwrap()
            deleted, last = deleted + count, max(found, default=last)
        await self._file.empty_log()
        return Success(deleted)

    async def _write(
        self, operation: str, work: sql.Work[_T], key: SessionKey | None = None, *, again: bool = True
    ) -> Result[_T, SessionErrors]:
        """Do work; ``again``: once more if the connection broke in its commit."""
        of = operation if key is None else f"{key.agent}\n{key.session}"
        return await self._file.write(operation, work, of=of, again=again)


def _added(
    key: SessionKey, run_id: RunId, ended: SessionRefused | tuple[str, ...]
) -> Result[None, SessionErrors]:
    if isinstance(ended, SessionRefused):
        return Failure(ended)
    if ended:
        _log.warning(
            "Run %s and others since it began changed the same keys of the state of session %r: %s. They have"
            " the values of the latest run.",
            run_id,
            key.session,
            ", ".join(map(abbreviated, ended)),
        )
    return Success(None)


def _unless_refused(done: Result[_T | SessionRefused, SessionErrors]) -> Result[_T, SessionErrors]:
    """Return the result of work, which may be that the session is refused."""
    if isinstance(done, Failure):
        return done
    value = done.unwrap()
    return Failure(value) if isinstance(value, SessionRefused) else Success(value)


def _missing(session: SessionId) -> SessionRefused:
    return SessionRefused(session, "there is none of this name")


# --- one transaction each ---------------------------------------------------------------------------------


def _take_turn(
    file: sql.Transaction, key: SessionKey, run_id: RunId, until: int, now: int, present: tuple[int, int]
) -> int | SessionRefused | None:
    """Take or renew the ticket of a run; return its number, ``None`` to wait.

    The session is used from now on, so that it is not pruned, also while no process has the run.
    """
    if not _belongs_to(file, key):
        return SessionRefused(key.session, "it belongs to another user")
    used = "UPDATE conversations SET updated_us = ? WHERE agent = ? AND session = ? AND updated_us < ?"
    file.execute(used, (now, key.agent, key.session, now))
    file.execute("DELETE FROM conversation_tickets WHERE valid_until_us < ?", (present[0] - _KEPT_US,))
    file.execute(
        'INSERT INTO conversation_tickets (agent, session, "user", run_id, valid_until_us)'
        " VALUES (?, ?, ?, ?, ?)"
        " ON CONFLICT (run_id) DO UPDATE SET valid_until_us = excluded.valid_until_us",
        (key.agent, key.session, key.user, run_id, until),
    )
    if _must_wait(file, key, run_id, present):
        return None
    (number,) = file.execute(
        # the largest of each, since of their union each turn would be read
        "SELECT 1 + coalesce(max(latest), 0) FROM (SELECT max(number) AS latest FROM conversation_turns"
        " WHERE conversation = (SELECT id FROM conversations WHERE agent = ? AND session = ?) UNION ALL"
        " SELECT max(number) FROM conversation_tickets WHERE agent = ? AND session = ? AND run_id <> ?)"
        " AS numbers",  # a run that was killed has its number again, unless another came after it
        (*(key.agent, key.session) * 2, run_id),
    ).fetchone()
    file.execute("UPDATE conversation_tickets SET number = ? WHERE run_id = ?", (number, run_id))
    return int(number)


def _row(file: sql.Transaction, agent: str, session: str, columns: str = "id") -> Any:
    """Return these columns of a session, or ``None``."""
    statement = f"SELECT {columns} FROM conversations WHERE agent = ? AND session = ?"
    return file.execute(statement, (agent, session)).fetchone()


def _belongs_to(file: sql.Transaction, key: SessionKey) -> bool:
    row = _row(file, key.agent, key.session, '"user"')
    return row is None or row[0] == key.user


def _must_wait(file: sql.Transaction, key: SessionKey, run_id: RunId, present: tuple[int, int]) -> bool:
    """Return whether another run has its turn, or came before this one.

    A run whose ticket was deleted does not wait: it takes a new one.
    """
    (waits,) = file.execute(
        "SELECT EXISTS (SELECT 1 FROM conversation_tickets AS other, conversation_tickets AS own"
        " WHERE own.run_id = ? AND other.agent = ? AND other.session = ? AND other.id != own.id"
        " AND other.valid_until_us BETWEEN ? AND ? AND (other.id < own.id OR other.number IS NOT NULL))",
        (run_id, key.agent, key.session, *present),
    ).fetchone()
    return bool(waits)


def _history(file: sql.Transaction, *, key: SessionKey, turn: int, size: int, earlier: int) -> History:
    messages: list[Message] = []
    results: dict[str, str] = {}
    texts: list[str] = []
    left_out = 0
    found = _row(file, key.agent, key.session, "id, state")
    if found is None:
        return History(turn=turn)
    conversation, state = found
    rows = file.execute(
        "SELECT messages_before, message_count, length(messages), messages, results, text, holder"
        " FROM conversation_turns WHERE conversation = ? ORDER BY number DESC",
        (conversation,),
    )
    holder: tuple[str, ...] | None = None
    for before, count, length, stored, stored_results, text, held in rows:
        if holder is None:
            holder = sql.decoded(held, tuple[str, ...])
        if size >= 0:
            size -= length
        if size >= 0:
            messages[:0] = sql.decoded(stored, tuple[Message, ...])
            results = {**sql.decoded(stored_results, dict[str, str]), **results}
            continue
        left_out = left_out or before + count
        if earlier <= 0:
            break
        texts.insert(0, text)
        earlier -= len(text)
    parts = contents.parts_of(file, conversation)
    return History(
        tuple(messages), results, "\n".join(texts), left_out, turn, parts, holder or (), json.loads(state)
    )


def _end_turn(
    file: sql.Transaction, key: SessionKey, run_id: RunId, turn: SessionTurn | None, now: int
) -> SessionRefused | tuple[str, ...]:
    """Return the keys of the state that others changed too."""
    ticket = file.execute(
        "DELETE FROM conversation_tickets WHERE run_id = ? RETURNING number", (run_id,)
    ).fetchone()
    if turn is None:
        return ()
    added = file.execute(
        "SELECT 1 FROM conversation_turns WHERE run_id = ? AND conversation ="
        " (SELECT id FROM conversations WHERE agent = ? AND session = ?)",
        (run_id, key.agent, key.session),
    ).fetchone()
    if added is not None:  # before its process was killed, or its connection lost
        return ()
    if ticket is None or not _belongs_to(file, key):
        return SessionRefused(key.session, "it was deleted while the run was under way")
    return _add_turn(file, key, run_id, turn, number=ticket[0], now=now)


def _add_turn(
    file: sql.Transaction, key: SessionKey, run_id: RunId, turn: SessionTurn, *, number: int, now: int
) -> tuple[str, ...]:
    """Add a turn to a session in its place; return the keys that others changed too."""
    title = without_surrogates(" ".join(turn.messages[0].content.split()))[:_LONGEST_TITLE]
    conversation, state = file.execute(
        'INSERT INTO conversations (agent, session, "user", title, created_us, updated_us)'
        " VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (agent, session) DO UPDATE SET updated_us = excluded.updated_us, title ="
        " CASE WHEN conversations.title = '' THEN excluded.title ELSE conversations.title END"
        " RETURNING id, state",
        (key.agent, key.session, key.user, title, now, now),
    ).fetchone()
    (before,) = file.execute(
        "SELECT messages_before + message_count FROM conversation_turns WHERE conversation = ?"
        " AND number < ? ORDER BY number DESC LIMIT 1",
        (conversation, number),
    ).fetchone() or (0,)
    count = len(turn.messages)
    changes, conflicts = _change_state(
        file, (conversation, number), turn, json.loads(state), is_first=not before
    )
    file.execute(
        "UPDATE conversation_turns SET messages_before = messages_before + ?"
        " WHERE conversation = ? AND number > ?",  # turns that overtook a stalled process
        (count, conversation, number),
    )
    file.execute(
        "INSERT INTO conversation_turns (conversation, number, run_id, messages_before, message_count,"
        " messages, results, text, holder, state, changes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, '', ?)",
        (
            conversation,
            number,
            run_id,
            before,
            count,
            to_json(turn.messages, tuple[Message, ...]),
            to_json(dict(turn.results), dict[str, str]),
            without_surrogates(turn.text),
            to_json(turn.holder, tuple[str, ...]),
            to_json(changes),
        ),
    )
    contents.take_over(file, conversation, run_id)
    return conflicts


# --- the state of a session -------------------------------------------------------------------------------


def _change_state(
    file: sql.Transaction, place: tuple[int, int], turn: SessionTurn, state: JsonObject, *, is_first: bool
) -> tuple[JsonObject, tuple[str, ...]]:
    """Change the state of a session by a turn; return the changes, and keys of others.

    Keys that later turns changed, which overtook the run, stay as they are.
    """
    statement = "SELECT changes FROM conversation_turns WHERE conversation = ? AND number > ?"
    later = [json.loads(each) for (each,) in file.execute(statement, place).fetchall()]
    if later or not is_first:
        turn = evolve(turn, initial={})
    changes = turn.changes(state)
    present = {key: change for key, change in changes.items() if not any(key in each for each in later)}
    if present:
        _put_state(file, place[0], with_changes(state, present))
    return changes, turn.conflicts(state)


def _put_state(file: sql.Transaction, conversation: int, state: JsonObject) -> None:
    file.execute("UPDATE conversations SET state = ? WHERE id = ?", (to_json(state), conversation))


def _update_state(
    file: sql.Transaction, key: SessionKey, changes: JsonObject, *, now: int, shared_now: int
) -> JsonObject | SessionRefused:
    """Change the state after the latest turn, or before the first one.

    A session whose first run is under way is that of its user.
    """
    place = (key.agent, key.session)
    found = _row(file, *place, 'id, "user", state')
    if found is None:
        found = file.execute(
            "SELECT NULL, \"user\", '{}' FROM conversation_tickets WHERE agent = ? AND session = ?"
            " AND valid_until_us >= ? ORDER BY id LIMIT 1",
            (*place, shared_now),
        ).fetchone()
    conversation, user, stored = found or (None, key.user, "{}")
    if key.user not in (None, user):
        return SessionRefused(key.session, "it belongs to another user")
    before: JsonObject = json.loads(stored)
    state = with_changes(before, changes)
    size = state_size(state)
    if size > MOST_STATE and size >= state_size(before):
        got = f"{size:,} characters of JSON in all"
        return SessionRefused(key.session, f"state: got {got}, expected {MOST_EXPECTED}")
    if conversation is None:
        (conversation,) = file.execute(
            'INSERT INTO conversations (agent, session, "user", title, created_us, updated_us)'
            " VALUES (?, ?, ?, '', ?, ?) RETURNING id",
            (*place, user, now, now),
        ).fetchone()
    _put_state(file, conversation, state)
    latest = file.execute(
        "SELECT number, changes FROM conversation_turns WHERE conversation = ? ORDER BY number DESC LIMIT 1",
        (conversation,),
    ).fetchone()
    if latest is None:
        file.execute("UPDATE conversations SET first_state = state WHERE id = ?", (conversation,))
    else:
        file.execute(
            "UPDATE conversation_turns SET changes = ? WHERE conversation = ? AND number = ?",
            (to_json({**json.loads(latest[1]), **changes}), conversation, latest[0]),
        )
    return state


def _state_after(file: sql.Transaction, conversation: int, turns: int | None) -> str:
    """Return the state after the first turns of a session, as JSON text."""
    (first,) = file.execute("SELECT first_state FROM conversations WHERE id = ?", (conversation,)).fetchone()
    rows = file.execute(
        "SELECT state, changes FROM conversation_turns WHERE conversation = ? ORDER BY number LIMIT ?",
        (conversation, sql.row_limit(turns)),
    )
    state: JsonObject = json.loads(first)
    for whole, changes in rows:  # of an earlier version, or nothing
        state = with_changes(json.loads(whole) if whole else state, json.loads(changes))
    return to_json(state)
