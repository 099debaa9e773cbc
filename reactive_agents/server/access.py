"""API keys: authentication, authorization and limits of requests.

A key is its id followed by 256 random bits, so its SHA-256 cannot be brute-forced and needs no salt: the file
contains only the digest. It is read again when it has changed, so a revoked key is refused at the next
request, and its streams end. A key in it that cannot be read stays as it was, unless it says that it is
revoked. If the file cannot be read any more, as while it is replaced, its keys stay as they were for a
minute after it could be read last; then all are refused.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterator, MutableSequence, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from math import inf
from pathlib import Path
from typing import Any, TypeAlias, cast

import anyio
from attrs import define, field, frozen
from attrs.validators import ge, gt
from returns.result import Failure, Success
from starlette.requests import Request

from reactive_agents.adapters.system import SystemClock, write_for_owner
from reactive_agents.core.codec import decode, encode, from_json, to_json
from reactive_agents.core.conversation import wrong_name
from reactive_agents.core.json import JsonObject
from reactive_agents.core.values import OMITTED
from reactive_agents.server.web import Problem

_log = logging.getLogger("reactive_agents")
_PREFIX = "ra"
_NO_DIGEST = "0" * 64
_KEPT_S = 60.0
"""Seconds that keys are admitted after their file could be read last."""


@frozen
class KeyLimits:
    """Limits of one key.

    Attributes:
        requests_per_minute: on average; a burst of as many is accepted after an idle minute.
        runs: the maximum of concurrent runs.
        streams: the maximum of open streams.
        body_bytes: the maximum size of a request body.
        body_s: seconds in which a body must arrive.
        run_s: seconds after which a run is stopped with its partial result; while it waits for a person, or
            is paused, they stand still.
        queued: the maximum of runs in the queue that no worker has begun, of its user or, without one, of
            all; counted in the record, so that all processes with it count the same ones.

    The others are counted by each process.

    Raises:
        ValueError: a limit is negative, or one but ``runs``, ``streams`` and ``queued`` is 0.
    """

    requests_per_minute: int = field(default=600, validator=gt(0))
    runs: int = field(default=100, validator=ge(0))
    streams: int = field(default=1_000, validator=ge(0))
    body_bytes: int = field(default=10_000_000, validator=gt(0))
    body_s: float = field(default=10.0, validator=gt(0))
    run_s: float = field(default=3_600.0, validator=gt(0))
    queued: int = field(default=1_000, validator=ge(0), metadata=OMITTED)


@frozen
class Principal:
    """The sender of a request.

    Attributes:
        key: the id of the key, for which limits are counted; empty without keys: they are then counted for
            the user.
        agents: names of the agents that the sender may use; ``None`` for all.
        user: the only user whose runs and sessions the sender can create and access; ``None`` for a program
            that names a user for each run, and can access those of all users.
        approves: whether the sender may decide on calls that wait for approval.
        label: the name in the audit log of a sender without user and key.
    """

    key: str = ""
    agents: frozenset[str] | None = None
    user: str | None = None
    limits: KeyLimits = KeyLimits()
    approves: bool = True
    label: str = ""

    @property
    def owner(self) -> str:
        """The owner of its runs and threads: its user, or else its key."""
        return f"user:{self.user}" if self.user is not None else f"key:{self.key}"

    @property
    def name(self) -> str:
        """The name of the sender in the audit log; empty for everybody."""
        return self.user or (f"the key {self.key}" if self.key else self.label)

    def may_use(self, agent: str) -> bool:
        """Return whether the sender may use the agent."""
        return self.agents is None or agent in self.agents

    def may_read(self, user: str | None) -> bool:
        """Return whether the sender may read the runs and sessions of a user."""
        return self.user is None or self.user == user

    def must_settle(self, kind: str) -> None:
        """Check that the sender may settle requests of a kind.

        Raises:
            Problem: it is an approval, and another person has to decide.
        """
        if kind == "approval" and not self.approves:
            raise Problem(403, "may-not-approve", "Another person has to decide on the call.")

    def acts_for(self, user: str | None) -> str | None:
        """Return the user to act for.

        Raises:
            Problem: the key belongs to another user.
        """
        if self.user is None or user in (None, self.user):
            return user if self.user is None else self.user
        raise Problem(403, "foreign-user", "The key may not act for this user.")


Authenticate: TypeAlias = Callable[[Request], Principal | None]
"""Return the sender of a request; ``None`` if it is not authenticated."""


def _has_zone(_: object, attribute: Any, value: datetime | None) -> None:
    if value is not None and value.tzinfo is None:
        expected = "a time with its zone, such as 2030-01-01T00:00:00Z"
        raise ValueError(f"{attribute.name}: got {value.isoformat()}, expected {expected}")


@frozen
class StoredKey:
    """A stored key, without its secret.

    Attributes:
        id: public; the part of the key before its secret.
        name: a name for people.
        digest: SHA-256 of the key, in hexadecimal digits.
        expires_at: the time of expiry, UTC; ``None`` for never.
        revoked_at: the time of revocation; ``None`` if it is not revoked.
        approves: whether it may decide on calls that wait for approval.

    Raises:
        ValueError: ``expires_at`` has no zone.
    """

    id: str
    name: str
    digest: str = field(repr=False)
    created_at: datetime
    agents: tuple[str, ...] | None = None
    user: str | None = None
    expires_at: datetime | None = field(default=None, validator=_has_zone)
    revoked_at: datetime | None = None
    limits: KeyLimits = KeyLimits()
    approves: bool = field(default=True, metadata=OMITTED)

    def holds(self, now: datetime) -> bool:
        """Return whether the key is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@frozen
class KeyFile:
    """The content of a key file: entries that :class:`StoredKey` may not fit."""

    keys: tuple[JsonObject, ...] = ()


class ApiKeys:
    """The keys in a JSON file, made with the first key, readable only for its owner."""

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._clock = SystemClock()
        self._seen: tuple[int, int, int] | None = None
        self._read_at = -inf
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
        approves: bool = True,
    ) -> tuple[str, StoredKey]:
        """Add a key; return the key, which cannot be shown again, and its stored form.

        Raises:
            OSError: the file cannot be written.
            ValueError: it is not a key file, no run can have this user, or ``expires_at`` has no zone.
        """
        problem = wrong_name("user", user)
        if problem is not None:
            raise ValueError(problem)
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
            approves=approves,
        )
        with self._changing() as entries:
            entries.append(cast(JsonObject, encode(stored)))
        return key, stored

    def revoke(self, key_id: str) -> bool:
        """Revoke a key, also by a wrong entry; return whether there was one of this id.

        Raises:
            OSError: the file cannot be written.
            ValueError: it is not a key file.
        """
        with self._changing() as entries:
            found = [number for number, each in enumerate(entries) if each.get("id") == key_id]
            for number in found:
                if entries[number].get("revoked_at") is None:
                    entries[number] = {**entries[number], "revoked_at": encode(self._clock.now())}
            return bool(found)

    def list(self) -> tuple[StoredKey, ...]:
        """Return the keys, oldest first.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not a key file, or an entry is wrong.
        """
        keys, problems = self.read()
        if problems:
            raise ValueError(problems[0])
        return keys

    def read(self) -> tuple[tuple[StoredKey, ...], tuple[str, ...]]:
        """Return the keys, oldest first, and what is wrong with other entries.

        Raises:
            OSError: the file cannot be read.
            ValueError: it is not a key file.
        """
        keys, problems = self._read_each()
        return tuple(keys.values()), tuple(problem for problem, _ in problems.values())

    @contextmanager
    def _changing(self) -> Iterator[MutableSequence[JsonObject]]:
        """Write changed entries after the block; one process at a time."""
        self._path.parent.mkdir(0o700, parents=True, exist_ok=True)
        with _locked(self._path.parent):
            before = self._entries() if self._path.exists() else ()
            entries = [*before]
            yield entries
            if entries != [*before]:
                write_for_owner(self._path, f"{to_json(KeyFile(tuple(entries)))}\n")

    def _entries(self) -> tuple[JsonObject, ...]:
        read = from_json(self._path.read_bytes(), KeyFile)
        if isinstance(read, Failure):
            raise ValueError(f"{self._path} is not a key file: {read.failure().message}")
        content: KeyFile = read.unwrap()
        return content.keys

    def _read_each(self) -> tuple[dict[str, StoredKey], dict[str, tuple[str, bool]]]:
        """Return the keys by id; why others cannot be read, and if they are revoked."""
        keys, problems = dict[str, StoredKey](), dict[str, tuple[str, bool]]()
        for number, each in enumerate(self._entries()):
            key_id = str(each.get("id", f"number {number}"))
            key = decode(each, StoredKey)
            if isinstance(key, Success):
                keys[key_id] = key.unwrap()
            else:
                problem = f"{self._path}: the key {key_id!r} is wrong: {key.failure().message}"
                problems[key_id] = problem, each.get("revoked_at") is not None
        return keys, problems

    # --- requests -------------------------------------------------------------------------------------------

    def __call__(self, request: Request) -> Principal | None:
        """Return the sender of a request by its ``Authorization: Bearer`` header."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return self.find(given.strip()) if scheme.lower() == "bearer" else None

    def find(self, key: str) -> Principal | None:
        """Return the owner of a key; ``None`` for an invalid key."""
        self._refresh()
        prefix, _, rest = key.partition("_")
        stored = self._keys.get(rest.partition("_")[0]) if prefix == _PREFIX else None
        digest = _NO_DIGEST if stored is None else stored.digest
        fits = hmac.compare_digest(_digest(key).encode(), digest.encode())
        if stored is None or not fits or not stored.holds(self._clock.now()):
            return None
        agents = None if stored.agents is None else frozenset(stored.agents)
        return Principal(stored.id, agents, stored.user, stored.limits, stored.approves)

    def holds(self, key_id: str) -> bool:
        """Return whether a key is neither revoked nor expired."""
        self._refresh()
        stored = self._keys.get(key_id)
        return stored is not None and stored.holds(self._clock.now())

    @property
    def is_readable(self) -> bool:
        """Whether the key file can be read."""
        self._refresh()
        return self._seen is not None

    def _refresh(self) -> None:
        try:
            found = os.stat(self._path)
            seen = (found.st_mtime_ns, found.st_size, found.st_ino)
            if seen != self._seen:
                keys, problems = self._read_each()
                for key_id, (problem, is_revoked) in problems.items():
                    known = None if is_revoked else self._keys.get(key_id)
                    _log.warning("%s %s", problem, "It stays as it was." if known else "It is refused.")
                    if known is not None:
                        keys[key_id] = known
                self._keys, self._seen, self._problem = keys, seen, ""
            self._read_at = time.monotonic()
        except (OSError, ValueError) as error:
            level, told = logging.WARNING, f"The keys are admitted up to {_KEPT_S:g} s more: {error}"
            if time.monotonic() >= self._read_at + _KEPT_S:
                level, told, self._keys = logging.ERROR, f"No key is admitted: {error}", {}
            if told != self._problem:  # once, not for each request
                _log.log(level, told)
            self._seen, self._problem = None, told


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Hold the lock of a directory, if the platform has such locks."""
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


@define(eq=False)
class KeyUse:
    """The current use of one key.

    Attributes:
        runs: the number of runs in progress.
        streams: the number of open streams.
        requests_left: the number of requests that may come at once, at ``counted_at``.
        queueing: held while a run is put into the queue; for the one event loop of its application.
    """

    requests_left: float
    counted_at: float
    runs: int = 0
    streams: int = 0
    queueing: anyio.Lock = field(factory=anyio.Lock)

    def holds_something(self, now: float) -> bool:
        """Return whether the use differs from a new one, as for a minute after it."""
        return bool(self.runs or self.streams) or now - self.counted_at < 60.0


class UseOfKeys:
    """Counts the requests, runs and streams of each key, and enforces its limits.

    It is used in one event loop, and needs no lock between threads: an application has the loop of its
    lifespan, since its runs, streams and connections are bound to the loop in which they began.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._uses: dict[str, KeyUse] = {}
        self._most_kept = 1_000

    def of(self, principal: Principal) -> KeyUse:
        """Return the use of a key."""
        whose = principal.key or principal.owner
        found = self._uses.get(whose)
        if found is None:
            most, now = float(principal.limits.requests_per_minute), self._monotonic()
            if len(self._uses) >= self._most_kept:
                self._uses = {name: use for name, use in self._uses.items() if use.holds_something(now)}
                self._most_kept = max(1_000, 2 * len(self._uses))
            found = self._uses[whose] = KeyUse(most, now)
        return found

    @property
    def open_streams(self) -> int:
        """The number of streams that are open."""
        return sum(each.streams for each in self._uses.values())

    def count_request(self, principal: Principal) -> None:
        """Count a request.

        Raises:
            Problem: the key has sent too many.
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
        """Count the start of a run or stream: ``runs`` or ``streams``.

        Raises:
            Problem: the limit of the key is reached.
        """
        use: Any = self.of(principal)
        most = getattr(principal.limits, kind)
        if getattr(use, kind) >= most:
            detail = f"The key may have {most} {kind} at the same time."
            raise Problem(429, f"too-many-{kind}", detail, headers={"retry-after": "1"})
        setattr(use, kind, getattr(use, kind) + 1)

    def held(self, principal: Principal, kind: str) -> ExitStack:
        """Count a run or stream as :meth:`begin` does, until the stack is closed."""
        self.begin(principal, kind)
        stack = ExitStack()
        stack.callback(self.end, principal, kind)
        return stack

    def end(self, principal: Principal, kind: str) -> None:
        """Count the end of a run or stream."""
        use: Any = self.of(principal)
        setattr(use, kind, getattr(use, kind) - 1)
