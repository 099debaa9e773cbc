"""API keys: who sends a request, what that key may reach, and how much of it.

A key is 256 random bits behind its id, so its SHA-256 cannot be searched through and needs no salt: the file
holds the digest alone. It is read again when it has changed, so a revoked key ends with the next request. A
file that cannot be read admits no one.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from attrs import define, evolve, field, frozen
from returns.result import Failure
from starlette.requests import Request

from reactive_agents.adapters.system import SystemClock
from reactive_agents.core.codec import from_json, to_json
from reactive_agents.server.web import Problem

_log = logging.getLogger("reactive_agents")
_PREFIX = "ra"
_NO_DIGEST = "0" * 64


@frozen
class KeyLimits:
    """Limits of one key.

    Attributes:
        requests_per_minute: on average; as many may come at once after a minute without any.
        runs: that are under way at the same time.
        streams: that are open at the same time.
        body_bytes: of one request.
        body_s: seconds until a body has to be there.
        run_s: seconds after which a run is stopped with what it has.
    """

    requests_per_minute: int = 600
    runs: int = 100
    streams: int = 1_000
    body_bytes: int = 10_000_000
    body_s: float = 10.0
    run_s: float = 3_600.0


@frozen
class Principal:
    """The sender of a request.

    Attributes:
        key: the id of the key, whose limits are counted under it; empty where no keys are used: they are
            counted for the user then.
        agents: names of the agents that it may use; ``None`` for all.
        user: the user that all it does is done for, and whose runs and sessions alone it reaches; ``None``
            for a program that says for each run whose it is, and reaches those of all users.
    """

    key: str = ""
    agents: frozenset[str] | None = None
    user: str | None = None
    limits: KeyLimits = KeyLimits()

    @property
    def owner(self) -> str:
        """Whose runs and threads it has: its user's, or those of its key."""
        return f"user:{self.user}" if self.user is not None else f"key:{self.key}"

    def may_use(self, agent: str) -> bool:
        """Return whether the agent exists for it."""
        return self.agents is None or agent in self.agents

    def may_read(self, user: str | None) -> bool:
        """Return whether the runs and sessions of a user exist for it."""
        return self.user is None or self.user == user

    def acts_for(self, user: str | None) -> str | None:
        """Return the user that something is done for.

        Raises:
            Problem: it is another one than that of the key.
        """
        if self.user is None or user in (None, self.user):
            return self.user or user
        raise Problem(403, "foreign-user", "The key may not act for this user.")


Authenticate: TypeAlias = Callable[[Request], Principal | None]
"""Return who sends a request, or ``None`` for a stranger."""


# --- the file of keys -----------------------------------------------------------------------------------


@frozen
class StoredKey:
    """A key as its file has it, without the key itself.

    Attributes:
        id: public; the part of the key before its secret.
        name: for people.
        digest: SHA-256 of the key, in hexadecimal digits.
        expires_at: when it ends, UTC; ``None`` for never.
        revoked_at: when it was revoked; ``None`` while it holds.
    """

    id: str
    name: str
    digest: str = field(repr=False)
    created_at: datetime
    agents: tuple[str, ...] | None = None
    user: str | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    limits: KeyLimits = KeyLimits()

    def holds(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@frozen
class KeyFile:
    """The document of a file of keys."""

    keys: tuple[StoredKey, ...] = ()


class ApiKeys:
    """The keys in a file.

    Args:
        path: of a JSON file, which is made with the first key, for its owner alone.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._clock = SystemClock()
        self._seen: tuple[int, int, int] | None = None
        self._problem = ""
        self._keys: dict[str, StoredKey] = {}

    # --- changes, by the command ----------------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        agents: Sequence[str] | None = None,
        user: str | None = None,
        expires_at: datetime | None = None,
        limits: KeyLimits | None = None,
    ) -> tuple[str, StoredKey]:
        """Add a key; return it, which is shown this once, and what is stored of it.

        Raises:
            OSError: the file cannot be written.
            ValueError: the file holds something else.
        """
        key_id = secrets.token_hex(6)
        key = f"{_PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
        scope = None if agents is None else tuple(agents)
        stored = StoredKey(
            key_id,
            name,
            _digest(key),
            self._clock.now(),
            scope,
            user,
            expires_at,
            limits=limits or KeyLimits(),
        )
        with self._changing() as known:
            known[key_id] = stored
        return key, stored

    def revoke(self, key_id: str) -> bool:
        """Revoke a key; return whether there was one of this id.

        Raises:
            OSError: the file cannot be written.
            ValueError: the file holds something else.
        """
        with self._changing() as known:
            found = known.get(key_id)
            if found is not None and found.revoked_at is None:
                known[key_id] = evolve(found, revoked_at=self._clock.now())
            return found is not None

    def list(self) -> tuple[StoredKey, ...]:
        """Return the keys, the oldest first.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file holds something else.
        """
        return tuple(self._read().values())

    @contextmanager
    def _changing(self) -> Iterator[dict[str, StoredKey]]:
        """Write the keys after the block, unless they are the same; one process at a time."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self._path.parent):
            known = self._read() if self._path.exists() else {}
            before = dict(known)
            yield known
            if known != before:
                self._write(known)

    def _read(self) -> dict[str, StoredKey]:
        read = from_json(self._path.read_text(encoding="utf-8"), KeyFile)
        if isinstance(read, Failure):
            raise ValueError(f"{self._path} is no file of keys: {read.failure().message}")
        return {each.id: each for each in read.unwrap().keys}

    def _write(self, keys: dict[str, StoredKey]) -> None:
        document = to_json(KeyFile(tuple(keys.values())))
        written = self._path.with_name(f"{self._path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{document}\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(written, self._path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise

    # --- requests -------------------------------------------------------------------------------------------

    def __call__(self, request: Request) -> Principal | None:
        """Return who sends a request, by its ``Authorization: Bearer`` header."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return self.find(given.strip()) if scheme.lower() == "bearer" else None

    def find(self, key: str) -> Principal | None:
        """Return whose key this is; ``None`` for one that does not hold."""
        self._refresh()
        prefix, _, rest = key.partition("_")
        stored = self._keys.get(rest.partition("_")[0]) if prefix == _PREFIX else None
        fits = hmac.compare_digest(_digest(key), _NO_DIGEST if stored is None else stored.digest)
        if stored is None or not fits or not stored.holds(self._clock.now()):
            return None
        agents = None if stored.agents is None else frozenset(stored.agents)
        return Principal(stored.id, agents, stored.user, stored.limits)

    @property
    def is_readable(self) -> bool:
        """Whether the file of keys can be read."""
        self._refresh()
        return self._seen is not None

    def _refresh(self) -> None:
        try:
            found = os.stat(self._path)
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                self._keys, self._seen, self._problem = self._read(), seen, ""
        except (OSError, ValueError) as error:
            if str(error) != self._problem:  # once, and not with each request
                _log.error("No key is admitted: %s", error)
            self._keys, self._seen, self._problem = {}, None, str(error)


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, where the platform has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


# --- limits ---------------------------------------------------------------------------------------------


@define(eq=False)
class KeyUse:
    """The use of one key at the moment.

    Attributes:
        runs: under way.
        streams: that are open.
        requests_left: that may come at once; as of ``counted_at``.
    """

    requests_left: float
    counted_at: float
    runs: int = 0
    streams: int = 0


class UseOfKeys:
    """Counts what is done with each key, and refuses what is beyond its limits.

    Args:
        monotonic: seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._uses: dict[str, KeyUse] = {}

    def of(self, principal: Principal) -> KeyUse:
        """Return the use of a key."""
        whose = principal.key or principal.owner
        found = self._uses.get(whose)
        if found is None:
            most = float(principal.limits.requests_per_minute)
            found = self._uses[whose] = KeyUse(most, self._monotonic())
        return found

    @property
    def open_streams(self) -> int:
        """The number of streams that are open."""
        return sum(each.streams for each in self._uses.values())

    def count_request(self, principal: Principal) -> None:
        """Count a request.

        Raises:
            Problem: too many have come.
        """
        use, most, now = self.of(principal), principal.limits.requests_per_minute, self._monotonic()
        left = min(float(most), use.requests_left + (now - use.counted_at) * most / 60.0)
        use.counted_at = now
        if left < 1.0:
            use.requests_left = left
            wait_s = int((1.0 - left) * 60.0 / most) + 1
            detail = f"The key may send {most} requests a minute."
            raise Problem(429, "too-many-requests", detail, headers={"retry-after": str(wait_s)})
        use.requests_left = left - 1.0

    def begin(self, principal: Principal, kind: str) -> None:
        """Count a run or a stream that begins: ``runs`` or ``streams``.

        Raises:
            Problem: too many are under way.
        """
        use: Any = self.of(principal)
        most = getattr(principal.limits, kind)
        if getattr(use, kind) >= most:
            detail = f"The key may have {most} {kind} at the same time."
            raise Problem(429, f"too-many-{kind}", detail, headers={"retry-after": "1"})
        setattr(use, kind, getattr(use, kind) + 1)

    def end(self, principal: Principal, kind: str) -> None:
        """Count the end of a run or a stream."""
        use: Any = self.of(principal)
        setattr(use, kind, getattr(use, kind) - 1)
