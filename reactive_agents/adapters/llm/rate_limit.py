"""Rate limits: requests and tokens per minute for each key.

Providers count by key, so a process does too: all agents and runs with the same key and URL share one count
of the last minute, in all threads and event loops, first come first served. A request that would exceed a
limit waits until enough earlier ones are older than a minute; it is never refused. Tokens are estimated
before the call and corrected afterwards. Existing libraries either serve one event loop, or do not wait in
order.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from threading import Lock
from typing import Final, Literal, TypeAlias

import anyio
from attrs import define, field, frozen

from reactive_agents.adapters.llm.attempts import FailedAttempt
from reactive_agents.adapters.llm.providers import key_in, provider_of, server_address
from reactive_agents.core.bases import NOT_SENT, PUBLISH
from reactive_agents.core.config import ModelConfig, RateLimit
from reactive_agents.core.events import ModelCallDelayed
from reactive_agents.core.models import ModelRequest, ModelResponse, StreamCompleted
from reactive_agents.ports import Clock

LimitKind: TypeAlias = Literal["requests", "tokens", "queue"]
WINDOW_S: Final = 60.0
_LOOK_S: Final = 5.0
"""Seconds after which a waiting request checks whether those before it still exist."""
_CHARACTERS_PER_TOKEN: Final = 4


@define(eq=False)
class Admitted:
    """A request that counts towards the limits of a key; ``at``: monotonic seconds."""

    usage: KeyUsage
    at: float
    tokens: int

    def settle(self, outcome: object) -> None:
        """Correct the tokens by the outcome of the request; deltas have no count yet."""
        if isinstance(outcome, StreamCompleted):
            outcome = outcome.response
        if isinstance(outcome, ModelResponse) and outcome.usage.reported:
            self.usage.settle(self, outcome.usage.total_tokens)
        elif isinstance(outcome, FailedAttempt):
            self.usage.settle(self, 0 if outcome.spent is None else outcome.spent.tokens)


@frozen(eq=False)
class _Waiting:
    loop: asyncio.AbstractEventLoop
    turn: asyncio.Event

    @property
    def is_gone(self) -> bool:
        return self.loop.is_closed() or not self.loop.is_running()

    def wake(self) -> None:
        with suppress(RuntimeError):  # its event loop has ended, perhaps just now
            self.loop.call_soon_threadsafe(self.turn.set)


@define(eq=False)
class KeyUsage:
    """The requests of one key in the last minute, and the waiting ones."""

    _admitted: deque[Admitted] = field(factory=deque)
    _tokens: int = 0
    _queue: deque[_Waiting] = field(factory=deque)
    _lock: Lock = field(factory=Lock)

    async def admit(
        self, limit: RateLimit, tokens: int, clock: Clock, tell: Callable[[LimitKind, float], None]
    ) -> Admitted:
        """Wait until a request is within the limits, and count it.

        Args:
            limit: the limit of the calling agent.
            tokens: the estimate for the request and its answer.
            tell: called once, if it has to wait, with the limit that it waits for and the least seconds.
        """
        waiting, told = _Waiting(asyncio.get_running_loop(), asyncio.Event()), False
        with self._lock:
            self._queue.append(waiting)
        try:
            while True:
                with self._lock:
                    waiting.turn.clear()
                    while self._queue[0] is not waiting and self._queue[0].is_gone:
                        self._queue.popleft()
                    wait_s, kind = self._wait(limit, tokens, clock.monotonic())
                    if self._queue[0] is not waiting:
                        wait_s, kind = max(wait_s, 0.0), kind if wait_s > 0 else "queue"
                    elif wait_s <= 0:
                        return self._count(tokens, clock)
                    pause_s = wait_s if self._queue[0] is waiting else _LOOK_S
                if not told:
                    told = True
                    tell(kind, wait_s)
                with anyio.move_on_after(pause_s):
                    await waiting.turn.wait()
        finally:
            with self._lock:
                if waiting in self._queue:
                    self._queue.remove(waiting)
                if self._queue:
                    self._queue[0].wake()

    def settle(self, admitted: Admitted, tokens: int) -> None:
        """Correct the tokens of a request to the real count."""
        with self._lock:
            if admitted in self._admitted:
                self._tokens += tokens - admitted.tokens
            admitted.tokens = tokens
            if self._queue:
                self._queue[0].wake()

    def _count(self, tokens: int, clock: Clock) -> Admitted:
        admitted = Admitted(self, clock.monotonic(), tokens)
        self._admitted.append(admitted)
        self._tokens += tokens
        return admitted

    def _wait(self, limit: RateLimit, tokens: int, now: float) -> tuple[float, LimitKind]:
        """Return the seconds until a request is within the limits; 0 or less for now."""
        admitted = self._admitted
        while admitted and admitted[0].at + WINDOW_S <= now:
            self._tokens -= admitted.popleft().tokens
        until, kind = now, "requests"
        most = limit.requests_per_minute
        if most is not None and len(admitted) >= most:
            until = admitted[len(admitted) - most].at + WINDOW_S
        most = limit.tokens_per_minute
        if most is not None:
            left = self._tokens
            for each in admitted:  # a request above the limit runs alone
                if left + tokens <= most:
                    break
                left -= each.tokens
                if each.at + WINDOW_S > until:
                    until, kind = each.at + WINDOW_S, "tokens"
        return until - now, kind  # type: ignore[return-value]


class RateLimits:
    """The usage of each key; thread-safe."""

    def __init__(self) -> None:
        self._keys: dict[tuple[str, str], KeyUsage] = {}
        self._lock = Lock()

    def of(self, config: ModelConfig, model: str, environment: Mapping[str, str] = os.environ) -> KeyUsage:
        """Return the usage of the key for requests to a model."""
        address = server_address(model, config.base_url, environment) or provider_of(model)
        key = config.api_key or key_in(model, environment)
        with self._lock:
            return self._keys.setdefault((address, sha256(key.encode()).hexdigest()), KeyUsage())


LIMITS: Final = RateLimits()
"""The usage of the keys of this process."""


async def admit(
    usage: KeyUsage,
    limit: RateLimit,
    request: ModelRequest,
    model: str,
    clock: Clock,
    *,
    is_charged: bool,
) -> Admitted:
    """Wait until a request is within the limits of its key, and publish the wait.

    Args:
        is_charged: whether an earlier attempt of the same model call may be charged for.
    """

    def tell(kind: LimitKind, wait_s: float) -> None:
        publish = PUBLISH.get()
        if publish is not None:
            publish(ModelCallDelayed, request.purpose, model, kind, wait_s)

    try:
        return await usage.admit(limit, estimated_tokens(request), clock, tell)
    except asyncio.CancelledError as cut_off:
        if not is_charged:
            cut_off.add_note(NOT_SENT)
        raise


def estimated_tokens(request: ModelRequest) -> int:
    """Return an estimate for a request and its longest possible answer."""
    characters = sum(len(message.content) for message in request.messages)
    characters += sum(len(tool.description) + len(tool.schema_text) for tool in request.tools)
    return characters // _CHARACTERS_PER_TOKEN + (request.max_tokens or 0)
