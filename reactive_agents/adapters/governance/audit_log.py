"""An append-only audit log in an SQLite file or a Postgres database.

Several processes can write it. Each entry contains the hash of the previous one: a hash chain, with
signatures if there is a key.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import anyio.to_thread
from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sql, sqlite
from reactive_agents.core.codec import decode, encode, from_json
from reactive_agents.core.errors import AuditBroken, AuditErrors, DecodeError, ServiceFailed
from reactive_agents.core.governance import START, AuditEntry
from reactive_agents.core.ids import AgentId, RunId, TaskId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.redaction import Redactor
from reactive_agents.effects import attempt, effect
from reactive_agents.ports import Clock

_log = logging.getLogger("reactive_agents")

GENESIS = "0" * 64
"""The previous hash of the first entry."""
PRUNE: Final = "prune"
"""The action of an entry that replaces older ones; its subject is the number and hash of the last of them."""

SignatureCheck: TypeAlias = Callable[[bytes, str], bool]
"""Return whether a hexadecimal signature belongs to the bytes."""


@frozen
class AuditHead:
    """The chain head of a log. Stored elsewhere, it protects all entries up to it.

    Attributes:
        sequence: number of the last entry, 1 or more.
        hash: hash of the last entry, 64 hexadecimal digits.
    """

    sequence: int
    hash: str


@frozen
class AuditSummary:
    """The summary of a valid log.

    Attributes:
        entries: number of the entries that there are.
        head: the chain head; ``None`` without entries.
        signed: whether a signature of the head was checked, which covers all entries.
        pruned: number of the entries before them, which were pruned.
    """

    entries: int
    head: AuditHead | None
    signed: bool
    pruned: int = 0


@frozen
class Link:
    """A stored row of the log; after tampering any field may have a wrong type."""

    sequence: object
    previous: object
    body: object
    hash: object
    signature: object


def canonical(value: JsonObject) -> str:
    """Return canonical JSON of a value: sorted keys, no spaces, ASCII only.

    Raises:
        ValueError: the value holds NaN or an infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def link_hash(sequence: int, previous: str, body: str, *, signed: bool) -> str:
    """Return the SHA-256 of the canonical JSON of an entry with its position.

    Args:
        body: canonical JSON of the entry.
        signed: whether the entry has a signature, so that its removal is detected.
    """
    place = f'"previous":"{previous}","sequence":{sequence},"signed":{"true" if signed else "false"}'
    text = f'{{"entry":{body},{place}}}'
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def entry_message(hash_: str) -> bytes:
    """Return the message that the signature of an entry signs."""
    return f"reactive-agents audit entry {hash_}".encode()


def head_message(head: AuditHead) -> bytes:
    """Return the message that the signature of the head signs.

    It differs from that of an entry, so that neither signature can replace the other."""
    return f"reactive-agents audit head {head.sequence} {head.hash}".encode()


def verify_chain(
    links: Iterable[Link],
    stored: Link | None,
    *,
    known_head: AuditHead | None = None,
    check: SignatureCheck | None = None,
    pruned: AuditHead | None = None,
) -> Result[AuditSummary, AuditBroken]:
    """Verify that no entry was changed, removed or inserted.

    Args:
        links: the entries in the order of their numbers.
        stored: the head as stored in the log: number, hash and signature.
        known_head: a head that was stored elsewhere; the log must contain it.
        check: verifies signatures; the head must then be signed, which also covers entries from before the
            log was signed. A log without entries has no head, and is then invalid.
        pruned: the head of the entries that one of the links says to be deleted.
    """
    head: AuditHead | None = None
    missing = 0
    for link in links:
        if head is None and pruned is not None and link.sequence == pruned.sequence + 1:
            head, missing = pruned, pruned.sequence
            if known_head is not None and known_head.sequence < missing:
                return Failure(AuditBroken(known_head.sequence, "it was pruned, and cannot be compared"))
            if _is_another(known_head, head):
                return Failure(AuditBroken(missing, "it is not the entry of the known head"))
        expected = 1 if head is None else head.sequence + 1
        if link.sequence != expected:
            return Failure(AuditBroken(expected, "it is missing"))
        hash_ = _hash_of(link, expected, GENESIS if head is None else head.hash)
        if isinstance(hash_, AuditBroken):
            return Failure(hash_)
        head = AuditHead(expected, hash_)
        if _is_another(known_head, head):
            return Failure(AuditBroken(expected, "it is not the entry of the known head"))
        # an entry without a signature is covered by that of the head, if there is one
        if (
            check
            and link.signature is not None
            and not _is_signed(link.signature, entry_message(hash_), check)
        ):
            return Failure(AuditBroken(expected, "its signature does not fit"))
    broken = _broken_end(head, stored, known_head, check)
    if broken is not None:
        return Failure(broken)
    count = 0 if head is None else head.sequence - missing
    return Success(AuditSummary(count, head, check is not None, missing))


def _is_another(known: AuditHead | None, head: AuditHead) -> bool:
    """Return whether a head that was stored elsewhere has another hash for an entry."""
    return known is not None and known.sequence == head.sequence and known.hash != head.hash


def _hash_of(link: Link, sequence: int, previous: str) -> str | AuditBroken:
    if link.previous != previous:
        return AuditBroken(sequence, "it does not follow from the entry before it")
    signed = link.signature is not None
    if isinstance(link.body, str):
        hash_ = link_hash(sequence, previous, link.body, signed=signed)
        if hash_ == link.hash:
            return hash_
    return AuditBroken(sequence, "its hash does not fit its content")


def _broken_end(
    head: AuditHead | None, stored: Link | None, known_head: AuditHead | None, check: SignatureCheck | None
) -> AuditBroken | None:
    last = 0 if head is None else head.sequence
    if known_head is not None and known_head.sequence > last:
        return AuditBroken(last + 1, f"it is missing, and the log had a head at entry {known_head.sequence}")
    if stored is None and head is None:
        if check is None:
            return None
        # an empty log may have replaced another one
        return AuditBroken(1, "it is missing, and so is the signed head of the log")
    if stored is None:
        return AuditBroken(last, "the head of the log is missing")
    if isinstance(stored.sequence, int) and stored.sequence > last:
        return AuditBroken(last + 1, f"it is missing, and the log ends with entry {stored.sequence}")
    if head is None or (stored.sequence, stored.hash) != (head.sequence, head.hash):
        return AuditBroken(max(last, 1), "the head of the log is another one")
    if check is not None and not _is_signed(stored.signature, head_message(head), check):
        return AuditBroken(last, "the signature of the head does not fit")
    return None


def _is_signed(signature: object, message: bytes, check: SignatureCheck) -> bool:
    return isinstance(signature, str) and check(message, signature)


# --- Ed25519 signatures, by the package cryptography of the extra sign ----------------------------------


Sign: TypeAlias = Callable[[bytes], str]
"""The signature of the bytes, in hexadecimal."""

_MISSING = "Signatures need the package 'cryptography': pip install 'reactive-agents[sign]'."


def signer(signing_key: bytes) -> Result[Sign, ServiceFailed]:
    """Return a function that signs with an Ed25519 private key of 32 bytes.

    Fails with ``ServiceFailed`` when the key is invalid, or the extra is not installed.
    """
    key = _key(lambda kinds: kinds.Ed25519PrivateKey.from_private_bytes(signing_key), "signing")
    return key.map(lambda key: lambda message: key.sign(message).hex())


def signature_check(public_key: bytes) -> Result[SignatureCheck, ServiceFailed]:
    """Return a check with an Ed25519 public key of 32 bytes; fails as :func:`signer`."""
    known = _key(lambda kinds: kinds.Ed25519PublicKey.from_public_bytes(public_key), "public")
    if isinstance(known, Failure):
        return known
    key = known.unwrap()
    from cryptography.exceptions import InvalidSignature

    def check(message: bytes, signature: str) -> bool:
        try:
            octets = bytes.fromhex(signature)
            key.verify(octets, message)
        except (InvalidSignature, ValueError):
            return False
        return octets.hex() == signature  # in the one encoding that was stored

    return Success(check)


def public_key_of(signing_key: bytes) -> Result[bytes, ServiceFailed]:
    """Return the 32 bytes of the public key of a private key; fails as :func:`signer`."""
    key = _key(lambda kinds: kinds.Ed25519PrivateKey.from_private_bytes(signing_key), "signing")
    return key.map(lambda key: key.public_key().public_bytes_raw())


def _key(read: Callable[[Any], Any], name: str) -> Result[Any, ServiceFailed]:
    """Return the key that a function reads by the kinds of keys."""
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        return Failure(_failed(_MISSING, "sign"))
    try:
        return Success(read(ed25519))
    except (ValueError, TypeError):
        return Failure(_failed(f"The {name} key is not an Ed25519 key of 32 bytes.", "sign"))


# --- the log ------------------------------------------------------------------------------------------

_failed = sqlite.failure_of("audit")
_FORBIDDEN = "SELECT RAISE(ABORT, 'an audit log only grows')"
_NO_DELETE = f"CREATE TRIGGER IF NOT EXISTS entries_remain BEFORE DELETE ON entries BEGIN {_FORBIDDEN}; END"
_INDEXED = 48
_RUN = f"""substr(body, instr(body, '"run_id":"'), {_INDEXED})"""
_RUN_IN_POSTGRES = f"""(substr(body, strpos(body, '"run_id":"'), {_INDEXED}) COLLATE "C")"""
"""The run of an entry: no text in canonical JSON contains the mark before it."""
AUDIT = sqlite.Store(
    "audit",
    (
        (
            "CREATE TABLE IF NOT EXISTS entries (sequence INTEGER PRIMARY KEY, previous TEXT NOT NULL,"
            " body TEXT NOT NULL, hash TEXT NOT NULL, signature TEXT)",
            "CREATE TABLE IF NOT EXISTS heads (id INTEGER PRIMARY KEY CHECK (id = 1),"
            " sequence INTEGER NOT NULL, hash TEXT NOT NULL, signature TEXT)",
            f"CREATE TRIGGER IF NOT EXISTS entries_stay BEFORE UPDATE ON entries BEGIN {_FORBIDDEN}; END",
            _NO_DELETE,
            # INSERT OR REPLACE deletes without the trigger above
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
        ),
        (f"CREATE INDEX entries_by_run ON entries ({_RUN})",),
    ),
    postgres=(
        (
            "CREATE TABLE entries (sequence bigint PRIMARY KEY, previous text NOT NULL, body text NOT NULL,"
            " hash text NOT NULL, signature text)",
            "CREATE TABLE heads (id bigint PRIMARY KEY CHECK (id = 1), sequence bigint NOT NULL,"
            " hash text NOT NULL, signature text)",
            "CREATE FUNCTION audit_only_grows() RETURNS trigger LANGUAGE plpgsql AS"
            " $$ BEGIN RAISE EXCEPTION 'an audit log only grows'; END $$",
            "CREATE FUNCTION audit_entry_follows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF NEW.sequence IS DISTINCT FROM"
            " (SELECT coalesce(max(sequence), 0) + 1 FROM reactive_agents.entries) OR NEW.previous"
            " IS DISTINCT FROM coalesce((SELECT hash FROM reactive_agents.entries ORDER BY sequence DESC"
            f" LIMIT 1), '{GENESIS}') THEN RAISE EXCEPTION 'an audit log only grows'; END IF;"
            " RETURN NEW; END $$",
            "CREATE FUNCTION audit_head_rises() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " IF TG_OP = 'INSERT' THEN IF NEW.sequence IS DISTINCT FROM 1 OR EXISTS"
            " (SELECT 1 FROM reactive_agents.heads) THEN RAISE EXCEPTION 'an audit log only grows'; END IF;"
            " ELSIF NEW.sequence IS DISTINCT FROM OLD.sequence + 1 THEN"
            " RAISE EXCEPTION 'an audit log only grows'; END IF; RETURN NEW; END $$",
            "CREATE TRIGGER entries_stay BEFORE UPDATE OR DELETE ON entries"
            " FOR EACH ROW EXECUTE FUNCTION audit_only_grows()",
            "CREATE TRIGGER entries_remain BEFORE TRUNCATE ON entries"
            " FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows()",
            "CREATE TRIGGER entries_follow BEFORE INSERT ON entries"
            " FOR EACH ROW EXECUTE FUNCTION audit_entry_follows()",
            "CREATE TRIGGER heads_stay BEFORE DELETE ON heads"
            " FOR EACH ROW EXECUTE FUNCTION audit_only_grows()",
            "CREATE TRIGGER heads_remain BEFORE TRUNCATE ON heads"
            " FOR EACH STATEMENT EXECUTE FUNCTION audit_only_grows()",
            "CREATE TRIGGER heads_rise BEFORE INSERT OR UPDATE ON heads"
            " FOR EACH ROW EXECUTE FUNCTION audit_head_rises()",
        ),
        (f"CREATE INDEX entries_by_run ON entries ({_RUN_IN_POSTGRES})",),
    ),
)
"""The tables of the entries and of the chain head."""

_DELETING = (_NO_DELETE, "DROP TRIGGER entries_remain")
_DELETING_IN_POSTGRES = (
    "ALTER TABLE entries ENABLE TRIGGER entries_stay",
    "ALTER TABLE entries DISABLE TRIGGER entries_stay",
)
"""Statements that forbid and allow the deletion of entries, within one transaction."""
_PRUNED = re.compile(r'"subject":"(\d{1,18}):([0-9a-f]{64})"')
_MOST_READ = 1_000
_MOST_PRUNED = 10_000
"""The maximum of entries to delete in one transaction, which other writers wait for."""


@frozen
class RecordedEntry:
    """An entry with its place in the log.

    Attributes:
        sequence: its number; the first is 1.
        recorded_at: the time of recording in ISO 8601, by the clock of the log.
        hash: 64 hexadecimal digits that cover this entry and all before it.
    """

    sequence: int
    entry: AuditEntry
    recorded_at: str
    hash: str


class SqliteAuditLog:
    """Implements ``AuditLog`` as a hash chain.

    Any number of processes may append to one log, and form one chain. Triggers reject ordinary changes.
    Someone who can write the file, or owns the tables, can still tamper with it; :func:`verify
    <reactive_agents.adapters.governance.audit_log.verify>` detects that, and with a signing key or a head
    stored elsewhere even if the whole chain was recomputed.

    Args:
        path: the SQLite file, created with its directories if missing, or a Postgres URL.
        redactor: removes secrets from the texts of an entry before it is stored.
        signing_key: Ed25519 private key of 32 bytes; needs the extra ``sign``. Once a log is signed, every
            writer must sign.
        patience_s: seconds to wait for other writers before an entry fails, 0 or more.
        durable_starts: whether the start of a run is on disk before the run continues. Otherwise it survives
            a killed process, but may be lost if the machine loses power.
    """

    def __init__(
        self,
        path: sqlite.DatabasePath,
        *,
        clock: Clock,
        redactor: Redactor | None = None,
        signing_key: bytes | None = None,
        patience_s: float = sqlite.DEFAULT_PATIENCE_S,
        durable_starts: bool = True,
    ) -> None:
        self._durable_starts = durable_starts
        self._clock = clock
        self._redactor = redactor
        self._signing_key = signing_key
        self._file = sql.open_database(path, AUDIT, _failed, patience_s=patience_s)
        self._on_server = sql.is_postgres(path)
        self._beside = "" if self._on_server else self._file.place  # stores the head beside it

    @effect
    async def append(self, entry: AuditEntry) -> Result[None, ServiceFailed]:
        """Add an entry, on disk when this succeeds (starts: see ``durable_starts``)."""
        return (await attempt(self.append_with_head(entry))).map(lambda _: None)

    @effect
    async def append_with_head(self, entry: AuditEntry) -> Result[AuditHead, ServiceFailed]:
        """Append an entry and return the new head, to store out of reach of writers."""
        if entry.action == PRUNE and not entry.agent_id:  # it would permit to delete what is before it
            said = f"The entry: got the action {PRUNE!r} without an agent, which only prune writes."
            return Failure(_failed(said, "append"))
        signing = self._signing()
        if isinstance(signing, Failure):
            return Failure(signing.failure())
        durable, sign = self._durable_starts or entry.action != START, signing.unwrap()
        write = self._file.write if durable else self._file.write_soon
        done = await write("append", lambda file: self._appended(file, self._body(entry), sign))
        if not durable or not isinstance(done, Success):
            return done  # the head of the next entry will be stored
        return (await self._keep(done.unwrap(), "append")).map(lambda _: done.unwrap())

    @effect
    async def prune(self, before: datetime) -> Result[int, ServiceFailed]:
        """Delete the entries that were recorded before a time; return how many.

        It ends before the first entry that is not older. The same transaction adds an entry of the action
        ``prune``, with the number and hash of the last one that is deleted, so that the others still verify.
        Nothing is deleted from a log whose oldest entries were tampered with.

        Args:
            before: with its time zone.
        """
        signing = self._signing()
        if isinstance(signing, Failure):
            return Failure(signing.failure())
        deleted, some = 0, _MOST_PRUNED
        while some == _MOST_PRUNED:
            done = await self._file.write(
                "prune", partial(self._pruned, before=before, sign=signing.unwrap())
            )
            if not isinstance(done, Success):
                return Failure(done.failure())
            some, head = done.unwrap()
            deleted += some
            if head is not None and isinstance(kept := await self._keep(head, "prune"), Failure):
                return Failure(kept.failure())
        await self._file.empty_log()
        return Success(deleted)

    @effect
    async def read(
        self, *, after: int = 0, limit: int = 100
    ) -> Result[tuple[RecordedEntry, ...], ServiceFailed]:
        """Return entries as stored, oldest first; ``verify`` checks them.

        Args:
            after: the number of an entry; entries after it are read.
            limit: maximum number of entries, 1 to 1000.
        """

        rows = "SELECT sequence, body, hash FROM entries WHERE sequence > ? ORDER BY sequence LIMIT ?"
        return await sql.rows(self._file, "read", recorded, rows, after, min(max(limit, 1), _MOST_READ))

    @effect
    async def holds(self, entry: AuditEntry) -> Result[bool, ServiceFailed]:
        """Return whether the log has an entry, which a run may have written in a crash."""
        wanted = _without_time(self._body(entry))

        def work(file: sql.Transaction) -> bool:
            found = _of_run(file, "body", entry.run_id)
            return any(_without_time(json.loads(body)) == wanted for (body,) in found)

        return await self._file.read("holds", work)

    async def aclose(self) -> None:
        """Close the file; the next call opens it again."""
        await self._file.aclose()

    def _signing(self) -> Result[Sign | None, ServiceFailed]:
        return Success(None) if self._signing_key is None else signer(self._signing_key)

    async def _keep(self, head: AuditHead, operation: str) -> Result[None, ServiceFailed]:
        if not self._beside:
            return Success(None)
        try:
            await anyio.to_thread.run_sync(_keep_head, self._beside, head)
        except OSError as error:
            message = f"The head of the audit log {self._beside!r} cannot be kept: {error}."
            _log.warning("%s", message)
            return Failure(_failed(message, operation))
        return Success(None)

    def _pruned(
        self, connection: sql.Transaction, *, before: datetime, sign: Sign | None
    ) -> tuple[int, AuditHead | None]:
        """Delete entries, and add one that records it; return their number, and the head."""
        count, last = 0, _pruned_head(connection)
        for row in islice(_pages(connection, _LINK), _MOST_PRUNED):
            if _recorded_at(*row[:3]) >= before:
                break
            expected, previous = (1, GENESIS) if last is None else (last.sequence + 1, last.hash)
            computed = _hash_of(Link(*row), expected, previous)
            if isinstance(computed, AuditBroken):
                raise ValueError(f"nothing is deleted from it: {computed.message}")
            count, last = count + 1, AuditHead(expected, computed)
        if last is None or not count:
            return 0, None
        now, subject = self._clock.now(), f"{last.sequence}:{last.hash}"
        detail = f"The entries up to {last.sequence}, from before {before.isoformat()}, were deleted."
        entry = AuditEntry(RunId(""), TaskId(""), AgentId(""), PRUNE, None, detail, now, subject)
        fields: JsonObject = {**cast(JsonObject, encode(entry)), "recorded_at": now.isoformat()}
        head = self._appended(connection, fields, sign)
        forbid, allow = _DELETING_IN_POSTGRES if self._on_server else _DELETING
        connection.execute(allow)
        connection.execute("DELETE FROM entries WHERE sequence <= ?", (last.sequence,))
        connection.execute(forbid)
        return count, head

    def _appended(self, connection: sql.Transaction, fields: JsonObject, sign: Sign | None) -> AuditHead:
        sequence, previous, is_signed = _last(connection)
        _refuse_shortened(connection, kept_head(self._beside), sequence)
        if is_signed and sign is None:
            raise ValueError("the log is signed, and there is no signing key to continue it")
        body = canonical(fields)
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

    def _body(self, entry: AuditEntry) -> JsonObject:
        fields = cast(JsonObject, encode(entry))
        if self._redactor is not None:
            redact = self._redactor.redact_json
            fields = {
                name: value if name in ("at", "status") else redact(value) for name, value in fields.items()
            }
        return {**fields, "recorded_at": self._clock.now().isoformat()}


def _without_time(body: JsonObject) -> JsonObject:
    return {name: value for name, value in body.items() if name != "recorded_at"}


def _last(connection: sql.Transaction) -> tuple[int, str, bool]:
    """Number and hash of the last entry, and whether the head is signed."""
    last = connection.execute("SELECT sequence, hash FROM entries ORDER BY sequence DESC LIMIT 1").fetchone()
    head = connection.execute("SELECT sequence, hash, signature FROM heads").fetchone()
    if last is None and head is None:
        return 0, GENESIS, False
    if last is None or head is None or tuple(last) != tuple(head[:2]):
        raise ValueError("its head is not its last entry, so nothing is added to it")
    return int(last[0]), str(last[1]), head[2] is not None


# --- the head that is kept beside the file ---------------------------------------------------------------


def _head_path(path: sqlite.DatabasePath) -> Path | None:
    has_file = str(path) not in ("", sqlite.IN_PROCESS) and not sql.is_postgres(path)
    return Path(f"{sqlite.place_of(path).absolute()}-head") if has_file else None


def kept_head(path: sqlite.DatabasePath) -> AuditHead | None:
    """Return the head in the file beside the log; ``None`` without a file.

    Raises:
        ValueError: the file contains no head.
        OSError: the file cannot be read.
    """
    place = _head_path(path)
    if place is None:
        return None
    try:
        sequence, hash_ = place.read_text(encoding="ascii").split()
        return AuditHead(int(sequence), hash_)
    except FileNotFoundError:
        return None
    except ValueError:
        raise ValueError(f"the file {place.name!r} beside it holds no head of a log") from None


def _keep_head(path: sqlite.DatabasePath, head: AuditHead) -> None:
    place = _head_path(path)
    if place is None:
        return
    # a slower writer may leave an older head, which is valid too
    written = place.with_name(f"{place.name}.{os.getpid()}-{threading.get_ident()}")
    with open(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
        file.write(f"{head.sequence} {head.hash}\n")
    written.replace(place)


def _refuse_shortened(connection: sql.Transaction, kept: AuditHead | None, last: int) -> None:
    """Refuse a log that lost entries: it was deleted, replaced or truncated."""
    if kept is None:
        return
    first = connection.execute("SELECT min(sequence) FROM entries").fetchone()[0]
    if first is not None and kept.sequence < first:
        return  # it was pruned since a slower writer kept this head; ``verify`` checks that
    row = connection.execute("SELECT hash FROM entries WHERE sequence = ?", (kept.sequence,)).fetchone()
    if kept.sequence > last or row is None or row[0] != kept.hash:
        raise ValueError(
            f"it ends with entry {last}, and entry {kept.sequence} of the head that is kept beside it is"
            " missing: the log was deleted, replaced or cut"
        )


def recorded(sequence: int, body: object, hash_: object) -> RecordedEntry:
    """Return the entry of a row.

    Raises:
        ValueError: the row is not a valid entry.
    """
    split = from_json(str(body), JsonObject).bind(_split)
    if isinstance(split, Failure):
        raise ValueError(f"its entry {sequence} cannot be read: {split.failure().message}")
    recorded_at, entry = split.unwrap()
    return RecordedEntry(sequence, entry, recorded_at, str(hash_))


def _recorded_at(sequence: int, _: object, body: str) -> datetime:
    """Return only the time of a row, for a fraction of the work."""
    try:
        return datetime.fromisoformat(json.loads(body)["recorded_at"])
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"its entry {sequence} cannot be read: {error}") from None


def _split(fields: JsonObject) -> Result[tuple[str, AuditEntry], DecodeError]:
    recorded_at = str(fields.pop("recorded_at", ""))
    return decode(fields, AuditEntry).map(lambda entry: (recorded_at, entry))


# --- reading a file without changing it -----------------------------------------------------------------


_ENTRIES_TABLE = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'entries'"


def read_entries(
    path: sqlite.DatabasePath, *, run_id: RunId | None = None, latest: int | None = None
) -> Result[tuple[RecordedEntry, ...], ServiceFailed]:
    """Return all entries or those of one run, oldest first; ``verify`` checks them.

    Blocks while it reads; call it in a thread from a coroutine. Processes may append meanwhile.

    Fails with ``ServiceFailed`` if the file is not an audit log, or an entry cannot be read.

    Args:
        latest: the maximum of entries of all runs, the newest ones; all by default.
    """

    def work(connection: sql.Transaction) -> tuple[RecordedEntry, ...] | None:
        if not sql.is_postgres(path) and connection.execute(_ENTRIES_TABLE).fetchone() is None:
            return None
        columns = "sequence, body, hash"
        if run_id is not None:
            entries = (recorded(*row) for row in _of_run(connection, columns, run_id))
            return tuple(each for each in entries if each.entry.run_id == run_id)
        if latest is not None:
            newest = f"SELECT {columns} FROM entries ORDER BY sequence DESC LIMIT ?"
            return tuple(recorded(*row) for row in reversed(connection.execute(newest, (latest,)).fetchall()))
        return tuple(recorded(*row) for row in _pages(connection, columns))

    read = sql.look_into(path, AUDIT, work).alt(lambda sentence: _failed(sentence, "read"))
    return read.bind(lambda found: Failure(_not_a_log(path, "read")) if found is None else Success(found))


def unfinished_runs(entries: Iterable[RecordedEntry]) -> tuple[RecordedEntry, ...]:
    """Return the starts of runs without an end: still running, or killed."""
    begun: dict[RunId, RecordedEntry] = {}
    for each in entries:
        if each.entry.action == START:
            begun[each.entry.run_id] = each
        elif each.entry.action == "run":
            begun.pop(each.entry.run_id, None)
    return tuple(begun.values())


# --- verification ---------------------------------------------------------------------------------------


_TABLES = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('entries', 'heads')"
_HEAD = "SELECT sequence, NULL, NULL, hash, signature FROM heads ORDER BY id"
_LINK = "sequence, previous, body, hash, signature"
_BY_NO_AGENT = f'{{"action":"{PRUNE}","agent_id":"",'  # not a program's own action of this name


def verify(
    path: sqlite.DatabasePath, *, head: AuditHead | None = None, public_key: bytes | None = None
) -> Result[AuditSummary, AuditErrors]:
    """Verify that no entry was changed, removed or inserted.

    Blocks while it reads; call it in a thread from a coroutine.

    Fails with ``AuditBroken``, which names the first entry that was changed, is missing or out of order, and
    with ``ServiceFailed`` if the file is not a readable database, or not an audit log, such as an empty file.
    A log without entries is valid unless a signature or a head is required. Processes may append meanwhile.

    Hashes alone reveal changes unless all of them were recomputed. A signature reveals that too, but not the
    replacement by an older copy; a head stored elsewhere reveals every change up to it.

    Args:
        head: a head of this log that was stored elsewhere.
        public_key: Ed25519 public key of 32 bytes; the head must be signed with its private key, so that a
            log without entries fails. Needs the extra ``sign``.
    """
    check: SignatureCheck | None = None
    if public_key is not None:
        checking = signature_check(public_key)
        if isinstance(checking, Failure):
            return checking
        check = checking.unwrap()
    try:
        kept = kept_head(path)
        if kept is not None and not Path(path).exists():
            return Failure(AuditBroken(1, f"it is missing: the log of {kept.sequence} entries was deleted"))
        verified = _verified(path, head, check)
        if kept is None or isinstance(verified, Failure) or kept.sequence < verified.unwrap().pruned:
            return verified
        return _verified(path, kept, check)
    except sqlite.FAILURES as error:
        return Failure(_failed(sqlite.sentence_of(error, path, AUDIT), "verify"))


def _verified(
    path: sqlite.DatabasePath, known_head: AuditHead | None, check: SignatureCheck | None
) -> Result[AuditSummary, AuditErrors]:
    def work(connection: sql.Transaction) -> Result[AuditSummary, AuditErrors]:
        if isinstance(connection, sqlite3.Connection):
            # a decoding error must not hide a change
            connection.text_factory = lambda octets: octets.decode(errors="surrogateescape")
            connection.execute("BEGIN")  # one consistent view of the file
            (tables,) = connection.execute(_TABLES).fetchone()
            if tables == 0:  # SQLite accepts an empty file as a database
                return Failure(_not_a_log(path, "verify"))
            if tables == 1:
                return Failure(AuditBroken(1, "a table of the log is missing"))
        heads = connection.execute(_HEAD).fetchall()
        stored = Link(*heads[0]) if heads else None
        links = (Link(*row) for row in _pages(connection, _LINK))
        pruned = _pruned_head(connection)
        return verify_chain(links, stored, known_head=known_head, check=check, pruned=pruned)

    looked = sql.look_into(path, AUDIT, work)
    return looked.unwrap() if isinstance(looked, Success) else Failure(_failed(looked.failure(), "verify"))


def _pruned_head(connection: sql.Transaction) -> AuditHead | None:
    """Return the head of the pruned entries, from the latest entry that records it."""
    bodies = [str(body) for (body,) in _of_run(connection, "body", RunId(""))]
    last = next((each for each in reversed(bodies) if each.startswith(_BY_NO_AGENT)), "")
    found = _PRUNED.search(last)
    return None if found is None else AuditHead(int(found[1]), found[2])


def _of_run(connection: sql.Transaction, columns: str, run_id: RunId) -> list[tuple[Any, ...]]:
    """Return the rows of a run in order, with those of others whose long id begins so."""
    place = _RUN if isinstance(connection, sqlite3.Connection) else _RUN_IN_POSTGRES
    first = f'"run_id":{json.dumps(run_id)}'[:_INDEXED]
    chosen = f"SELECT {columns} FROM entries WHERE {place} >= ? AND {place} <= ? ORDER BY sequence"
    return connection.execute(chosen, (first, f"{first}~")).fetchall()


def _pages(connection: sql.Transaction, columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of the entries in their order, read in groups."""
    first, where = -(2**63), "FROM entries WHERE sequence >= ? ORDER BY sequence LIMIT ?"
    while rows := connection.execute(f"SELECT {columns} {where}", (first, _MOST_READ)).fetchall():
        yield from rows
        first = rows[-1][0] + 1


def _not_a_log(path: sqlite.DatabasePath, operation: str) -> ServiceFailed:
    return _failed(f"The file {str(path)!r} is not an audit log.", operation)
