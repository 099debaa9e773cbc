"""An audit log that only grows, in a SQLite file that several processes write."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import cast

from attrs import frozen
from returns.result import Failure, Result

from reactive_agents.adapters.governance.audit.chain import (
    GENESIS,
    AuditHead,
    canonical,
    entry_message,
    head_message,
    link_hash,
)
from reactive_agents.adapters.governance.audit.signing import Sign, signer
from reactive_agents.adapters.governance.database import DEFAULT_PATIENCE_S, Database, DatabasePath
from reactive_agents.core.codec import decode, encode, from_json
from reactive_agents.core.errors import DecodeError, ServiceFailed
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.json import Json, JsonObject
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import effect
from reactive_agents.ports.system import Clock

_FORBIDDEN = "SELECT RAISE(ABORT, 'an audit log only grows')"
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS entries (sequence INTEGER PRIMARY KEY, previous TEXT NOT NULL,"
    " body TEXT NOT NULL, hash TEXT NOT NULL, signature TEXT)",
    "CREATE TABLE IF NOT EXISTS heads (id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL,"
    " hash TEXT NOT NULL, signature TEXT)",
    f"CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE UPDATE ON entries BEGIN {_FORBIDDEN}; END",
    f"CREATE TRIGGER IF NOT EXISTS entries_remain BEFORE DELETE ON entries BEGIN {_FORBIDDEN}; END",
    # an INSERT OR REPLACE deletes without asking the trigger above
    "CREATE TRIGGER IF NOT EXISTS entries_follow BEFORE INSERT ON entries"
    " WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entries)"
    " OR NEW.previous IS NOT"
    f" coalesce((SELECT hash FROM entries ORDER BY sequence DESC LIMIT 1), '{GENESIS}')"
    f" BEGIN {_FORBIDDEN}; END",
    "CREATE TRIGGER IF NOT EXISTS heads_rise BEFORE UPDATE ON heads"
    f" WHEN NEW.sequence IS NOT OLD.sequence + 1 BEGIN {_FORBIDDEN}; END",
    f"CREATE TRIGGER IF NOT EXISTS heads_remain BEFORE DELETE ON heads BEGIN {_FORBIDDEN}; END",
    "CREATE TRIGGER IF NOT EXISTS heads_follow BEFORE INSERT ON heads"
    f" WHEN NEW.sequence IS NOT 1 OR EXISTS (SELECT 1 FROM heads) BEGIN {_FORBIDDEN}; END",
)
_MOST_READ = 1_000


@frozen
class RecordedEntry:
    """An entry with its place in the log.

    Attributes:
        sequence: its number; the first is 1.
        recorded_at: ISO 8601; when it was added, by the clock of the log.
        hash: 64 hexadecimal digits, which fix this entry and all before it.
    """

    sequence: int
    entry: AuditEntry
    recorded_at: str
    hash: str


class SqliteAuditLog:
    """Implements ``AuditLog``: each entry holds the hash of the one before it.

    Any number of processes may append to one file: they form one chain. A trigger forbids changes by
    ordinary statements; who can write the file can still tamper with it, and :func:`verify
    <reactive_agents.adapters.governance.audit.verifying.verify>` finds that, with a signing key or a head
    that was kept elsewhere also when the whole chain was made anew.

    Args:
        path: the SQLite file, made when it is not there; its directory must exist.
        clock: tells when an entry was added.
        redactor: takes the secrets out of the texts of an entry before it is stored.
        signing_key: private key of Ed25519, its 32 bytes; needs the extra ``sign``. Once a log is signed,
            whoever appends to it must sign.
        patience_s: seconds to wait for other writers before an entry fails, 0 or more.
    """

    def __init__(
        self,
        path: DatabasePath,
        *,
        clock: Clock,
        redactor: Redactor | None = None,
        signing_key: bytes | None = None,
        patience_s: float = DEFAULT_PATIENCE_S,
    ) -> None:
        self._clock = clock
        self._redactor = redactor
        self._signing_key = signing_key
        self._database = Database(path, service="audit", schema=_SCHEMA, patience_s=patience_s)

    @effect
    async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
        """Add an entry; it is on the disk when this succeeds."""
        return (await self._append(entry)).map(lambda _: None)

    @effect
    async def append_sealed(self, entry: AuditEntry) -> Result[AuditHead, ServiceFailed]:
        """Add an entry; the head that it makes, to be kept where who can write the log cannot reach it."""
        return await self._append(entry)

    @effect
    async def read(
        self, *, after: int = 0, limit: int = 100
    ) -> Result[tuple[RecordedEntry, ...], ServiceFailed]:
        """Entries, oldest first, as they are stored; that they are genuine is for ``verify`` to say.

        Args:
            after: the number of an entry; those behind it are read.
            limit: how many at most, 1 to 1000.
        """

        def work(connection: sqlite3.Connection) -> tuple[RecordedEntry, ...]:
            rows = connection.execute(
                "SELECT sequence, body, hash FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?",
                (after, min(max(limit, 1), _MOST_READ)),
            )
            return tuple(recorded(*row) for row in rows)

        return await self._database.transact("read", work)

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await self._database.aclose()

    async def _append(self, entry: AuditEntry) -> Result[AuditHead, ServiceFailed]:
        sign: Sign | None = None
        if self._signing_key is not None:
            signing = signer(self._signing_key)
            if isinstance(signing, Failure):
                return signing
            sign = signing.unwrap()
        return await self._database.transact("append", self._appending(entry, sign))

    def _appending(self, entry: AuditEntry, sign: Sign | None) -> Callable[[sqlite3.Connection], AuditHead]:
        def work(connection: sqlite3.Connection) -> AuditHead:
            sequence, previous, is_signed = _last(connection)
            if is_signed and sign is None:
                raise ValueError("the log is signed, and there is no signing key to go on with")
            body = canonical(self._body(entry))
            head = AuditHead(sequence + 1, link_hash(sequence + 1, previous, body, signed=sign is not None))
            row = (head.sequence, previous, body, head.hash, sign and sign(entry_message(head.hash)))
            connection.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", row)
            connection.execute(
                "INSERT INTO heads VALUES (1, ?, ?, ?)"
                if sequence == 0
                else "UPDATE heads SET sequence = ?, hash = ?, signature = ?",
                (head.sequence, head.hash, sign and sign(head_message(head))),
            )
            return head

        return work

    def _body(self, entry: AuditEntry) -> JsonObject:
        fields = cast(JsonObject, encode(entry))
        if self._redactor is not None:
            fields = {name: _redacted(self._redactor, name, value) for name, value in fields.items()}
        return {**fields, "recorded_at": self._clock.now().isoformat()}


def _redacted(redactor: Redactor, name: str, value: Json) -> Json:
    return value if name in ("at", "status") else redactor.redact_json(value)


def _last(connection: sqlite3.Connection) -> tuple[int, str, bool]:
    """Number and hash of the last entry, and whether the head is signed."""
    last = connection.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
    head = connection.execute("SELECT sequence, hash, signature FROM heads").fetchone()
    if last is None and head is None:
        return 0, GENESIS, False
    if last is None or head is None or tuple(last) != tuple(head[:2]):
        raise ValueError("its head is not its last entry, so nothing is added to it")
    return int(last[0]), str(last[1]), head[2] is not None


def recorded(sequence: int, body: object, hash_: object) -> RecordedEntry:
    """The entry of a row.

    Raises:
        ValueError: it is none.
    """
    split = from_json(str(body), JsonObject).bind(_split)
    if isinstance(split, Failure):
        raise ValueError(f"its entry {sequence} cannot be read: {split.failure().message}")
    recorded_at, entry = split.unwrap()
    return RecordedEntry(sequence, entry, recorded_at, str(hash_))


def _split(fields: JsonObject) -> Result[tuple[str, AuditEntry], DecodeError]:
    recorded_at = str(fields.pop("recorded_at", ""))
    return decode(fields, AuditEntry).map(lambda entry: (recorded_at, entry))
