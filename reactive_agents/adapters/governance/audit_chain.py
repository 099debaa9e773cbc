"""The hash chain of an audit log: hashes, signatures and their verification."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import AuditBroken, ServiceFailed
from reactive_agents.core.json import JsonObject

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

GENESIS = "0" * 64
"""What the first entry names as the hash before it."""

SignatureCheck: TypeAlias = Callable[[bytes, str], bool]
"""Whether a signature, in hexadecimal, is that of the bytes."""


@frozen
class AuditHead:
    """Where a log ends. Kept elsewhere, it seals everything up to there.

    Attributes:
        sequence: number of the last entry, 1 or more.
        hash: of the last entry, 64 hexadecimal digits.
    """

    sequence: int
    hash: str


@frozen
class AuditSummary:
    """A log that is whole.

    Attributes:
        entries: how many there are.
        head: the last of them; ``None`` when there are none.
        signed: whether a signature of the head was checked, which covers all entries.
    """

    entries: int
    head: AuditHead | None
    signed: bool


@frozen
class Link:
    """One stored row of the log; after tampering any field may have a wrong type."""

    sequence: object
    previous: object
    body: object
    hash: object
    signature: object


def canonical(value: JsonObject) -> str:
    """JSON text that is the same for equal values: sorted keys, no spaces, ASCII only.

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
) -> Result[AuditSummary, AuditBroken]:
    """Verify that no entry was changed, removed or inserted.

    Args:
        links: the entries in the order of their numbers.
        stored: the head as stored in the log: number, hash and signature.
        known_head: a head that was stored elsewhere; the log must contain it.
        check: verifies signatures; with it the head must be signed, which covers entries from before the log
            was signed too. A log without entries has no head, and is invalid then.
    """
    head: AuditHead | None = None
    for link in links:
        expected = 1 if head is None else head.sequence + 1
        if link.sequence != expected:
            return Failure(AuditBroken(expected, "it is missing"))
        hash_ = _hash_of(link, expected, GENESIS if head is None else head.hash)
        if isinstance(hash_, AuditBroken):
            return Failure(hash_)
        head = AuditHead(expected, hash_)
        if known_head is not None and known_head.sequence == expected and known_head.hash != hash_:
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
    count = 0 if head is None else head.sequence
    return Success(AuditSummary(count, head, signed=check is not None))


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
    return _private_key(signing_key).map(lambda key: lambda message: key.sign(message).hex())


def signature_check(public_key: bytes) -> Result[SignatureCheck, ServiceFailed]:
    """Return a check with an Ed25519 public key of 32 bytes; fails as :func:`signer`."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        return _failed(_MISSING)
    try:
        key = Ed25519PublicKey.from_public_bytes(public_key)
    except (ValueError, TypeError):
        return _failed("The public key is no Ed25519 key of 32 bytes.")

    def check(message: bytes, signature: str) -> bool:
        try:
            octets = bytes.fromhex(signature)
            key.verify(octets, message)
        except (InvalidSignature, ValueError):
            return False
        return octets.hex() == signature  # of the many ways to write it, the one that was stored

    return Success(check)


def public_key_of(signing_key: bytes) -> Result[bytes, ServiceFailed]:
    """Return the 32 bytes of the public key of a private key; fails as :func:`signer`."""
    return _private_key(signing_key).map(lambda key: key.public_key().public_bytes_raw())


def _private_key(signing_key: bytes) -> Result[Ed25519PrivateKey, ServiceFailed]:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        return _failed(_MISSING)
    try:
        key = Ed25519PrivateKey.from_private_bytes(signing_key)
    except (ValueError, TypeError):
        return _failed("The signing key is no Ed25519 key of 32 bytes.")
    return Success(key)


def _failed(message: str) -> Failure[ServiceFailed]:
    return Failure(ServiceFailed(message, "audit", "sign"))
