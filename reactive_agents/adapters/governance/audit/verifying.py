"""Whether an audit log is whole: reads the file, changes nothing."""

from __future__ import annotations

from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.audit.chain import (
    AuditHead,
    AuditSummary,
    Link,
    SignatureCheck,
    verify_chain,
)
from reactive_agents.adapters.governance.audit.reading import open_log
from reactive_agents.adapters.governance.audit.signing import signature_check
from reactive_agents.adapters.governance.database import FAILURES, DatabasePath, failure_of
from reactive_agents.core.errors import AuditBroken, AuditErrors

_TABLES = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('entries', 'heads')"
_ENTRIES = "SELECT sequence, previous, body, hash, signature FROM entries ORDER BY sequence"
_HEAD = "SELECT sequence, NULL, NULL, hash, signature FROM heads ORDER BY id"


def verify(
    path: DatabasePath, *, sealed: AuditHead | None = None, public_key: bytes | None = None
) -> Result[AuditSummary, AuditErrors]:
    """Whether the log is whole. Blocks while it reads; call it in a thread from a coroutine.

    Fails with ``AuditBroken``, which names the first entry that was changed, is missing or out of its order,
    and with ``ServiceFailed`` when the file cannot be read as a database, or is no audit log: it has none of
    its tables, as an empty file has not. A log that was opened and never written to has the tables; it is
    whole, with no entries, except where a signature or a sealed head is asked for. Processes may append
    meanwhile.

    By itself the file shows changes and removals by anyone who does not make all hashes anew, the last
    entry's and the head's too. A signature shows those as well, but not that an older copy of the whole file
    took its place; a sealed head shows everything up to it.

    Args:
        sealed: a head that was kept elsewhere, of this log.
        public_key: of Ed25519, its 32 bytes; the head must be signed with its counterpart, so that a log
            without entries fails. Needs the extra ``sign``.
    """
    check: SignatureCheck | None = None
    if public_key is not None:
        checking = signature_check(public_key)
        if isinstance(checking, Failure):
            return checking
        check = checking.unwrap()
    try:
        return _verified(path, sealed, check)
    except FAILURES as error:
        return Failure(failure_of(error, path, "audit", "verify"))


def _verified(
    path: DatabasePath, sealed: AuditHead | None, check: SignatureCheck | None
) -> Result[AuditSummary, AuditErrors]:
    connection = open_log(path)
    # a change must not hide behind a failure to decode it
    connection.text_factory = lambda octets: octets.decode(errors="surrogateescape")
    try:
        connection.execute("BEGIN")  # one state of the file for all that is read
        (tables,) = connection.execute(_TABLES).fetchone()
        if tables == 0:  # an empty file, too, is a database to SQLite
            return Failure(failure_of(ValueError("it is no audit log"), path, "audit", "verify"))
        if tables == 1:
            return Failure(AuditBroken(1, "a table of the log is missing"))
        heads = connection.execute(_HEAD).fetchall()
        stored = Link(*heads[0]) if heads else None
        links = (Link(*row) for row in connection.execute(_ENTRIES))
        verified = verify_chain(links, stored, sealed=sealed, check=check)
        if isinstance(verified, Failure):
            return Failure(verified.failure())
        return Success(verified.unwrap())
    finally:
        connection.close()
