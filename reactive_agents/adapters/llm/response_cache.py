"""A response cache for development: recorded answers of models.

The same request gets the same answer without a call. The key is a digest of the whole request (settings,
messages and tools), the model and its URL, but not of its purpose: another tool result or another word in a
prompt is another request. Only successful answers are recorded; they never expire. Of equal concurrent
requests, one is made and the others wait for its answer; if it fails or is cancelled, another is made. After
a second failure all are made at once, so that they do not wait for one timeout after the other.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from hashlib import sha256
from typing import Any, Final

import anyio
from attrs import evolve
from returns.result import Failure, Result, Success

from reactive_agents.adapters import sqlite
from reactive_agents.core.codec import from_json, to_json
from reactive_agents.core.errors import LLMErrors
from reactive_agents.core.models import ModelChunk, ModelRequest, ModelResponse, StreamCompleted, TextDelta
from reactive_agents.effects import attempt, effect
from reactive_agents.event_loop import calls_on_this_loop
from reactive_agents.ports import LLM

_SERVICE: Final = "response-cache"
_failed = sqlite.failure_of(_SERVICE)
RESPONSES = sqlite.Store(
    _SERVICE,
    (("CREATE TABLE model_responses (request TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID",),),
)
"""Answers as JSON, by the digests of their requests."""
_MOST_FAILURES: Final = 2
_log = logging.getLogger("reactive_agents")


class _Flight:
    """A request in progress.

    Attributes:
        answer: the recorded form of a successful answer.
        has_failed: whether it failed other than by cancellation.
    """

    def __init__(self) -> None:
        self.has_failed = False
        self.answer: ModelResponse | None = None
        self._has_ended = False
        self._waiting: list[Callable[[], object]] = []

    def land(self, answer: ModelResponse | None) -> None:
        """Pass the outcome to waiting requests; ``None`` for a failure."""
        self.has_failed = answer is None
        if answer is not None:
            self.answer = evolve(answer, refused=(), cached=True)
            self.end()

    def end(self) -> None:
        self._has_ended = True
        for go_on in tuple(self._waiting):
            go_on()

    async def ended(self) -> None:
        call_soon, event = calls_on_this_loop(), anyio.Event()
        self._waiting.append(lambda: call_soon(event.set))
        if not self._has_ended:
            await event.wait()


class CachedLLM:
    """Implements ``LLM`` with recorded answers, and records those of a service.

    An unusable file is logged, and the model called without cache.

    Args:
        path: an SQLite file, created if missing.
        address: the URL of the model's server; part of the key.
    """

    def __init__(self, inner: LLM, path: sqlite.DatabasePath, *, address: str = "") -> None:
        self.inner = inner
        self._address = address
        self._file = sqlite.shared_file(path, RESPONSES, _failed)
        self._flights: dict[str, _Flight] = {}

    def __getattr__(self, name: str) -> Any:
        """Return other members of the inner service, such as ``count``."""
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    @property
    def model(self) -> str:
        """The model that answers a request which names none."""
        return self.inner.model

    @effect
    async def complete(self, request: ModelRequest) -> Result[ModelResponse, LLMErrors]:
        """As the port says."""
        key = self._key(request)
        async with self._flight(key) as flight:
            known = flight.answer or await self._find(key)
            if known is not None:
                return Success(known)
            answer = await attempt(self.inner.complete(request))
            if isinstance(answer, Success):
                await self._keep(key, answer.unwrap())
            flight.land(answer.value_or(None))
            return answer

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Result[ModelChunk, LLMErrors]]:
        """As the port says; the text of a recorded answer is one delta."""
        key = self._key(request)
        async with self._flight(key) as flight:
            known = flight.answer or await self._find(key)
            if known is None:
                async with aclosing(self.inner.stream(request)) as chunks:  # type: ignore[type-var]
                    async for chunk in chunks:
                        last = chunk.value_or(None)
                        if isinstance(last, StreamCompleted):
                            await self._keep(key, last.response)
                            flight.land(last.response)  # before its reader, which may be slow, continues
                        elif isinstance(chunk, Failure):
                            flight.land(None)
                        yield chunk
                return
        if known.content:
            yield Success(TextDelta(known.content))
        yield Success(StreamCompleted(known))

    async def aclose(self) -> None:
        """Close the file."""
        await self._file.aclose()

    @asynccontextmanager
    async def _flight(self, key: str) -> AsyncGenerator[_Flight]:
        """Wait for an equal request in progress, on any event loop."""
        flight, failures = _Flight(), 0
        earlier = self._flights.setdefault(key, flight) if key else flight
        while earlier is not flight and failures < _MOST_FAILURES:
            await earlier.ended()
            flight.answer = earlier.answer
            if earlier.answer is not None:
                break
            failures += earlier.has_failed
            earlier = self._flights.setdefault(key, flight)
        try:
            yield flight
        finally:
            if self._flights.get(key) is flight:
                del self._flights[key]
            flight.end()

    def _key(self, request: ModelRequest) -> str:
        """Return the digest of a request; empty if it cannot be encoded."""
        asked = evolve(request, model=request.model or self.model, purpose="", stable=0)
        try:
            text = to_json(asked)
        except (TypeError, ValueError, RecursionError):
            return ""
        return sha256(f"{self._address}\n{text}".encode()).hexdigest()

    async def _find(self, key: str) -> ModelResponse | None:
        def work(file: sqlite3.Connection) -> str | None:
            row = file.execute("SELECT body FROM model_responses WHERE request = ?", (key,)).fetchone()
            return None if row is None else row[0]

        found = await self._file.read("find", work) if key else None
        body = found.unwrap() if isinstance(found, Success) else None
        if body is None:
            return None
        read = from_json(body, ModelResponse)
        if isinstance(read, Failure):
            _log.warning("A recorded answer cannot be read: %s", read.failure().message)
            return None
        return evolve(read.unwrap(), cached=True)

    async def _keep(self, key: str, response: ModelResponse) -> None:
        if not key or response.cached:
            return
        try:
            body = to_json(evolve(response, refused=()))
        except (TypeError, ValueError, RecursionError):
            return
        await self._file.write(
            "keep",
            lambda file: file.execute("INSERT OR REPLACE INTO model_responses VALUES (?, ?)", (key, body)),
        )


def cache_problem(path: sqlite.DatabasePath) -> str | None:
    """Return why a file cannot be a cache, or ``None``, without creating it."""
    if str(path) == sqlite.IN_PROCESS or not os.path.exists(sqlite.place_of(path)):
        return None
    looked = sqlite.look_into(path, RESPONSES, lambda _: None)
    return looked.failure() if isinstance(looked, Failure) else None
