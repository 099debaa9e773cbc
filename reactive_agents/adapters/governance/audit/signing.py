"""Ed25519 signatures, by the ``cryptography`` package of the extra ``sign``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from returns.result import Failure, Result, Success

from reactive_agents.adapters.governance.audit.chain import SignatureCheck
from reactive_agents.core.errors import ServiceFailed

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

Sign: TypeAlias = Callable[[bytes], str]
"""The signature of the bytes, in hexadecimal."""

_MISSING = "Signatures need the package 'cryptography': pip install 'reactive-agents[sign]'."


def signer(signing_key: bytes) -> Result[Sign, ServiceFailed]:
    """Signs with a private key of Ed25519, given as its 32 bytes.

    Fails with ``ServiceFailed`` when the key is none, or the extra is not installed.
    """
    return _private_key(signing_key).map(lambda key: lambda message: key.sign(message).hex())


def signature_check(public_key: bytes) -> Result[SignatureCheck, ServiceFailed]:
    """Verifies with a public key of Ed25519, given as its 32 bytes. Fails as :func:`signer` does."""
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
    """The 32 bytes by which others check what the key signed. Fails as :func:`signer` does."""
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
