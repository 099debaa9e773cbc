"""Images, audio and documents of runs, in the file or database of the sessions.

Bytes are stored once, under their digest. A holder (a run or a session) refers to them, for its user; they
are deleted with their last holder, in the same transaction. A session takes over the content of its runs, and
holds it until it is deleted. Content of ended runs without a session stays, for runs that continue their
messages, up to a number of bytes, the newest first.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from returns.result import Result

from reactive_agents.adapters import sql
from reactive_agents.adapters.postgres import table_of
from reactive_agents.core.codec import from_json, to_json
from reactive_agents.core.content import Content, ContentOwner, Digest
from reactive_agents.core.errors import ContentUnavailable
from reactive_agents.core.ids import RunId
from reactive_agents.effects import effect
from reactive_agents.ports import Clock

CONTENT_TABLES: tuple[str, ...] = (
    "CREATE TABLE contents (digest TEXT PRIMARY KEY, size INTEGER NOT NULL, data BLOB NOT NULL)",
    "CREATE TABLE content_holders (digest TEXT NOT NULL, holder TEXT NOT NULL, user TEXT,"
    " part TEXT NOT NULL, held_us INTEGER NOT NULL, running INTEGER NOT NULL, PRIMARY KEY (digest, holder))",
    "CREATE INDEX content_holders_by_holder ON content_holders (holder)",
    "CREATE TRIGGER content_released AFTER DELETE ON content_holders"
    " WHEN NOT EXISTS (SELECT 1 FROM content_holders WHERE digest = OLD.digest)"
    " BEGIN DELETE FROM contents WHERE digest = OLD.digest; END",
    "CREATE TRIGGER conversation_content_released AFTER DELETE ON conversations"
    " BEGIN DELETE FROM content_holders WHERE holder = 'session:' || OLD.id; END",
)
"""``holder`` is ``run:`` or ``session:`` with an id; ``part`` the reference as JSON."""

CONTENT_TABLES_IN_POSTGRES: tuple[str, ...] = (
    *map(table_of, CONTENT_TABLES[:3]),
    'CREATE INDEX content_holders_by_user ON content_holders ("user")',
    # holding and releasing a digest is serialised, so that the last holder deletes the bytes
    "CREATE FUNCTION content_held() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM pg_advisory_xact_lock(hashtextextended('reactive_agents content ' || NEW.digest, 0));"
    " RETURN NEW; END $$",
    "CREATE FUNCTION content_released() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " PERFORM pg_advisory_xact_lock(hashtextextended('reactive_agents content ' || OLD.digest, 0));"
    " DELETE FROM reactive_agents.contents WHERE digest = OLD.digest AND NOT EXISTS"
    " (SELECT 1 FROM reactive_agents.content_holders WHERE digest = OLD.digest); RETURN NULL; END $$",
    "CREATE FUNCTION conversation_content_released() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " DELETE FROM reactive_agents.content_holders WHERE holder = 'session:' || OLD.id; RETURN NULL; END $$",
    "CREATE TRIGGER content_held BEFORE INSERT ON content_holders"
    " FOR EACH ROW EXECUTE FUNCTION content_held()",
    "CREATE TRIGGER content_released AFTER DELETE ON content_holders"
    " FOR EACH ROW EXECUTE FUNCTION content_released()",
    "CREATE TRIGGER conversation_content_released AFTER DELETE ON conversations"
    " FOR EACH ROW EXECUTE FUNCTION conversation_content_released()",
)

_IS_OF_RUN = "substr(holder, 1, 4) = 'run:'"
HOLDERS_OF_RUNS: tuple[str, ...] = (
    f"CREATE INDEX content_holders_of_runs ON content_holders (digest) WHERE {_IS_OF_RUN}",
)
"""The runs among the holders, which are few: what a session holds is not read at the end of a run."""

_LONGEST_RUN_DAYS, _LONGEST_DURABLE_RUN_DAYS = 1, 366
"""Days after which a run that has not released its content counts as dead; a durable one may wait for people.

They are ``running`` of what a run holds, which is 0 when the run has ended.
"""

_T = TypeVar("_T")


class SqliteContent:
    """Implements ``ContentStore`` beside the sessions.

    Args:
        file: the file or database of the sessions.
        clock: the clock for the age of content.
        lasting: whether the file outlives the process.

    Attributes:
        lasting: whether stored content outlives the process.
    """

    def __init__(self, file: sql.Database[_T], clock: Clock, *, lasting: bool) -> None:
        self.lasting = lasting
        self._file = file
        self._clock = clock

    @effect
    async def put(self, part: Content, data: bytes, owner: ContentOwner) -> Result[None, ContentUnavailable]:
        """Store bytes under the digest of their part, held by the run of the owner."""
        days = _LONGEST_DURABLE_RUN_DAYS if owner.durable else _LONGEST_RUN_DAYS
        held = (part.digest, f"run:{owner.run_id}", owner.user, to_json(part, Content))

        def work(file: sql.Transaction) -> None:
            # first, since a concurrent release would delete the bytes
            file.execute(_HELD_BY_RUN, (*held, self._shared_now(), days))
            file.execute(
                "INSERT INTO contents VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (part.digest, len(data), data)
            )

        return await self._write("put", work)

    @effect
    async def read(self, digest: Digest, user: str | None) -> Result[bytes | None, ContentUnavailable]:
        """Return the bytes of a digest that the user may refer to; ``None`` for others."""
        read = await self._file.read("read", partial(_data, digest=digest, user=user))
        return read.alt(partial(_unavailable, "read"))

    @effect
    async def release(self, run_id: RunId, *, keep: int) -> Result[None, ContentUnavailable]:
        """End the hold of a run; delete content without a session beyond a limit."""

        def work(file: sql.Transaction) -> None:
            file.execute("UPDATE content_holders SET running = 0 WHERE holder = ?", (f"run:{run_id}",))
            unheld = file.execute(
                "SELECT contents.digest, size FROM (SELECT digest, max(held_us) AS latest"
                f" FROM content_holders WHERE {_IS_OF_RUN} GROUP BY digest) AS held"
                " JOIN contents ON contents.digest = held.digest"
                " WHERE NOT EXISTS (SELECT 1 FROM content_holders WHERE digest = held.digest"
                f" AND (NOT {_IS_OF_RUN} OR (running > 0 AND held_us >= ? - running * {sql.DAY_US})))"
                " ORDER BY latest DESC",
                (self._shared_now(),),
            ).fetchall()
            kept = 0
            for digest, size in unheld:
                kept += size
                if kept > keep:
                    file.execute("DELETE FROM content_holders WHERE digest = ?", (digest,))

        return await self._write("release", work)

    @effect
    async def delete(self, run_id: RunId) -> Result[None, ContentUnavailable]:
        """Delete the content of a run that no session and no other run holds."""

        def work(file: sql.Transaction) -> None:
            file.execute("DELETE FROM content_holders WHERE holder = ?", (f"run:{run_id}",))

        deleted = await sql.erase(self._file, "delete", work, of="contents")
        return deleted.alt(partial(_unavailable, "delete"))

    def _shared_now(self) -> int:
        """Return the time of the clock that all processes share, within a transaction."""
        return sql.shared_us(self._clock.now(), self._file)

    async def _write(self, operation: str, work: sql.Work[_T]) -> Result[_T, ContentUnavailable]:
        # of two concurrent releases, each would leave the bytes to the other
        written = await self._file.write(operation, work, of="contents")
        return written.alt(partial(_unavailable, operation))


def _unavailable(operation: str, error: object) -> ContentUnavailable:
    return ContentUnavailable(str(getattr(error, "message", error)), operation)


_HELD_BY_RUN = (
    "INSERT INTO content_holders VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (digest, holder) DO UPDATE SET"
    ' "user" = excluded."user", part = excluded.part, held_us = excluded.held_us, running = excluded.running'
)


def _data(file: sql.Transaction, *, digest: str, user: str | None) -> bytes | None:
    found = file.execute(
        "SELECT data FROM contents WHERE digest = ? AND EXISTS"
        " (SELECT 1 FROM content_holders AS held WHERE held.digest = contents.digest"
        ' AND ("user" = ? OR ("user" IS NULL AND CAST(? AS TEXT) IS NULL)))',
        (digest, user, user),
    ).fetchone()
    return None if found is None else bytes(found[0])


# --- in the transactions of the sessions -------------------------------------------------------------------


def take_over(file: sql.Transaction, conversation: int, run_id: RunId) -> None:
    """Transfer the content of a run to its session."""
    held = (f"session:{conversation}", f"run:{run_id}")
    file.execute(
        "DELETE FROM content_holders WHERE holder = ? AND digest IN"
        " (SELECT digest FROM content_holders WHERE holder = ?)",
        held,
    )
    file.execute("UPDATE content_holders SET holder = ?, running = 0 WHERE holder = ?", held)


def copy_held(file: sql.Transaction, origin: int, conversation: int) -> None:
    """Let a session hold the content of another one."""
    file.execute(
        'INSERT INTO content_holders SELECT digest, ?, "user", part, held_us, 0 FROM content_holders'
        " WHERE holder = ?",
        (f"session:{conversation}", f"session:{origin}"),
    )


def parts_of(file: sql.Transaction, conversation: int) -> tuple[Content, ...]:
    """Return the parts that a session holds."""
    rows = file.execute(
        "SELECT part FROM content_holders WHERE holder = ? ORDER BY held_us", (f"session:{conversation}",)
    )
    return tuple(part for (text,) in rows for part in [from_json(text, Content).value_or(None)] if part)


def prune_runs(file: sql.Transaction, until: int) -> None:
    """Delete the content that ended runs without a session stored before a time."""
    ended = f"{_IS_OF_RUN} AND held_us < ? - running * {sql.DAY_US}"
    file.execute(f"DELETE FROM content_holders WHERE {ended}", (until,))


def forget_holders(file: sql.Transaction, user: str) -> None:
    """Delete the content of a user; bytes with other holders stay."""
    file.execute('DELETE FROM content_holders WHERE "user" = ?', (user,))
