"""The encryption of stored runs: AES-256-GCM, by the extra ``durable``."""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode, urlsafe_b64decode
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from attrs import evolve

from reactive_agents.core.run_record import RunEntry

_Keys: TypeAlias = bytes | str | Sequence[bytes | str]
RecordKey: TypeAlias = _Keys | Callable[[], _Keys]
"""Keys of 32 bytes or their URL-safe base64, or a function that returns them.

The first key encrypts, and each of them decrypts. A text may hold several keys, separated by commas.
"""

KEY_VARIABLE = "REACTIVE_AGENTS_RUNS_KEY"
"""The environment variable of the keys in base64."""

_SEALED = "sealed:"
_SEALED_TEXT = re.compile(r"sealed:[A-Za-z0-9+/]{38,}=*")
"""A nonce and a tag at least, so that a plain text that begins with the same word is none."""


class Seal:
    """The encryption of a record: AES-256-GCM with a key, none without one.

    What was stored without a key stays readable, and so does what an earlier one of several keys encrypted.

    Attributes:
        has_key: whether texts are encrypted.
    """

    def __init__(self, key: RecordKey | None) -> None:
        self._key = key
        self.has_key = key is not None
        self._ciphers: tuple[Any, ...] = ()

    def close(self, text: str) -> str:
        """Return the encrypted text.

        Raises:
            ValueError: a key does not have 32 bytes, or the extra ``durable`` is not installed.
        """
        if self._key is None or not text:
            return text
        nonce = os.urandom(12)
        sealed = nonce + self._ready()[0].encrypt(nonce, text.encode(errors="surrogatepass"), None)
        return _SEALED + b64encode(sealed).decode()

    def open(self, text: str) -> str:
        """Decrypt a text.

        Raises:
            ValueError: there is no key, or none is the right one.
        """
        if not text.startswith(_SEALED) or not _SEALED_TEXT.fullmatch(text):
            return text
        if self._key is None:
            raise ValueError(f"it is encrypted, and there is no key: see {KEY_VARIABLE}")
        sealed = b64decode(text.removeprefix(_SEALED))
        ciphers = self._ready()
        from cryptography.exceptions import InvalidTag

        for cipher in ciphers:
            with suppress(InvalidTag):
                opened: bytes = cipher.decrypt(sealed[:12], sealed[12:], None)
                return opened.decode(errors="surrogatepass")
        raise ValueError("it is encrypted with another key; to change keys, give the new and the old one")

    def check(self) -> None:
        """Raise ``ValueError`` if the keys cannot be used."""
        if self._key is not None:
            self._ready()

    def entries(self, entries: Iterable[RunEntry]) -> tuple[RunEntry, ...]:
        """Return entries with encrypted bodies."""
        if self._key is None:
            return tuple(entries)
        return tuple(evolve(each, body=self.close(each.body)) for each in entries)

    def _ready(self) -> tuple[Any, ...]:
        if not self._ciphers:
            try:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            except ImportError as error:
                raise ValueError(f"encryption needs the extra 'durable' ({error})") from None
            try:
                keys = self._key() if callable(self._key) else self._key
            except Exception as error:
                raise ValueError(f"the function of its key raised {type(error).__name__}") from error
            if isinstance(keys, str):
                keys = keys.split(",")
            several = keys if isinstance(keys, list | tuple) and keys else (keys,)
            self._ciphers = tuple(AESGCM(_bytes_of(each)) for each in several)
        return self._ciphers


def _bytes_of(key: object) -> bytes:
    if isinstance(key, str):
        text = key.strip()
        with suppress(ValueError):  # it is no base64
            key = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    if not isinstance(key, bytes) or len(key) != 32:
        raise ValueError("its key does not have 32 bytes")
    return key
