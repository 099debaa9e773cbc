"""Channels over plain HTTP: signed webhooks.

All that a platform sends is from a stranger until its signature was compared: before that nothing of a body
is read but its bytes, and no answer says more than that it was refused. The tenant of an event is the one
whose secret signed it, never a field of its body. Messages carry the key by which a platform that was sent
one twice shows it once.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any

import httpx
from attrs import field, frozen
from attrs.validators import and_, ge, le, matches_re, max_len
from returns.result import Failure, Result, Success

from reactive_agents.core.channels import (
    ChannelConfig,
    ChannelRefused,
    ChannelRequest,
    DeliveryDelayed,
    Received,
)
from reactive_agents.core.codec import decode
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.ids import ContextId, EventId
from reactive_agents.core.json import JsonObject, without_surrogates
from reactive_agents.core.personas import DomainEvent
from reactive_agents.effects import effect
from reactive_agents.ports import Channel, Clock

REPLAY_WINDOW_S = 300.0
"""Seconds by which the time of a signature may differ from the clock."""
MOST_TEXT = 100_000
"""Maximum characters of an event's content."""
DEEPEST = 64
"""Levels of arrays and objects in a body."""
_MOST_NAME = 200
_MOST_ANSWER = 1_000_000
_REQUEST_S = 30.0

_FORGED = ChannelRefused(401, "wrong-signature", "The signature is missing, wrong or too old.")


def open_channel(
    config: ChannelConfig, *, clock: Clock, environment: Mapping[str, str], option: str = "channel"
) -> Result[Channel, InvalidConfig]:
    """Return the channel that a configuration describes.

    Args:
        environment: variables with its secrets.
        option: the place of the configuration, for errors.

    Fails with ``InvalidConfig`` for a missing or short secret, two tenants with one, or a wrong address.
    """
    secrets: dict[str, bytes] = {}
    for tenant, variable in ((config.tenant, config.secret_env), *config.tenants.items()):
        secret = environment.get(variable, "")
        if len(secret) < _SHORTEST_SECRET:
            expected = f"the name of an environment variable with {_SHORTEST_SECRET} characters or more"
            return Failure(InvalidConfig(f"{option}.secret_env", repr(variable), expected))
        if tenant in secrets or secret.encode() in secrets.values():
            return Failure(InvalidConfig(f"{option}.tenants", repr(tenant), "a separate name and secret"))
        secrets[tenant] = secret.encode()
    if not _is_address(config.url):
        return Failure(InvalidConfig(f"{option}.url", repr(config.url), "an address of http or https"))
    return Success(WebhookChannel(config.url, secrets, tenant=config.tenant, clock=clock))


_SHORTEST_SECRET = 16


def _is_address(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)


# --- signatures: pure ---------------------------------------------------------------------------------------


def signature_of(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the signature of a body and the time at which it was sent.

    >>> signature_of(b"8f742231b10e8888", "1531420618", b"{}")[:11]
    'v0=afdd3027'
    """
    signed = b"v0:" + timestamp.encode("ascii", "replace") + b":" + body
    return "v0=" + hmac.new(secret, signed, sha256).hexdigest()


def is_signed(secret: bytes, timestamp: str, signature: str, body: bytes, now: datetime) -> bool:
    """Return whether a body was signed with the secret, at about this time."""
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= _MOST_DIGITS):
        return False
    fresh = abs(now.timestamp() - int(timestamp)) <= REPLAY_WINDOW_S
    expected = signature_of(secret, timestamp, body)
    given = signature.encode("utf-8", "replace")
    return hmac.compare_digest(expected.encode(), given) and fresh


_MOST_DIGITS = 12


# --- bodies -------------------------------------------------------------------------------------------------


def parsed_object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a body; ``None`` for anything else.

    Its texts have no lone surrogates.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse)
        return _cleaned(value, DEEPEST) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _cleaned(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    if not isinstance(value, dict | list):
        return value
    if not levels:
        raise ValueError("it is nested too deeply")
    if isinstance(value, list):
        return [_cleaned(each, levels - 1) for each in value]
    return {without_surrogates(key): _cleaned(each, levels - 1) for key, each in value.items()}


# --- requests to platforms ----------------------------------------------------------------------------------


class _Client:
    """The requests of a channel: without redirects, in a bounded time and size."""

    def __init__(self) -> None:
        self._http: httpx.AsyncClient | None = None

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes
    ) -> tuple[int, dict[str, Any]]:
        """Return the status of a response and its document.

        The document is empty where it has none.

        Raises:
            DeliveryDelayed: the platform wants it later.
            RuntimeError: the platform refuses it.
            httpx.HTTPError: the platform cannot be reached.
        """
        if self._http is None:
            self._http = httpx.AsyncClient(timeout=_REQUEST_S, follow_redirects=False)
        given = {"content-type": "application/json", **headers}
        async with self._http.stream(method, url, headers=given, content=content) as response:
            body = b""
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST_ANSWER:
                    raise RuntimeError(f"the answer of the platform has more than {_MOST_ANSWER} bytes")
        document = parsed_object(body) or {}
        wait_s = retry_after_s(response.headers.get("retry-after", ""), datetime.now(UTC))
        if response.status_code in (429, 503) and wait_s is not None:
            raise DeliveryDelayed(wait_s)
        if not response.is_success:
            raise RuntimeError(f"the platform answered with status {response.status_code}")
        return response.status_code, document

    async def aclose(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()


def retry_after_s(value: str, now: datetime) -> float | None:
    """Return the seconds of a ``Retry-After`` header; ``None`` without a valid one.

    It has seconds or a date.

    >>> retry_after_s("3", datetime.now(UTC)), retry_after_s("soon", datetime.now(UTC))
    (3.0, None)
    """
    if value.isascii() and value.isdecimal():
        return float(value[:_MOST_DIGITS])
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return max(0.0, (moment - now).total_seconds())


def _json(document: JsonObject) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


# --- webhooks -----------------------------------------------------------------------------------------------

_name = and_(max_len(_MOST_NAME), matches_re(r"[^\x00-\x1f\x7f]+"))


@frozen
class WebhookEvent:
    """The body of a webhook: an event, unique by its id within its context."""

    id: str = field(validator=_name)
    content: str = field(validator=max_len(MOST_TEXT))
    context: str = field(default="default", validator=_name)
    author: str = field(default="user", validator=_name)
    user: str = field(default="", validator=max_len(_MOST_NAME))
    priority: float = field(default=0.5, validator=and_(ge(0.0), le(1.0)))
    details: JsonObject = field(factory=dict)


class WebhookChannel:
    """Implements ``Channel``: signed events by POST, signed answers to an address.

    Args:
        url: where answers are posted.
        secrets: of each tenant.
        tenant: the one of requests without a tenant in their path.
    """

    def __init__(self, url: str, secrets: Mapping[str, bytes], *, tenant: str, clock: Clock) -> None:
        self._url = url
        self._secrets = dict(secrets)
        self._tenant = tenant
        self._clock = clock
        self._client = _Client()

    @effect
    async def receive(self, request: ChannelRequest) -> Result[Received, ChannelRefused]:
        """Return the event of a request. Fails with ``ChannelRefused``."""
        if request.method != "POST":
            return Failure(ChannelRefused(405, "method-not-allowed", "POST it.", {"allow": "POST"}))
        tenant = request.path or self._tenant
        known = tenant in self._secrets
        secret = self._secrets.get(tenant, _NO_SECRET)
        timestamp = request.headers.get("x-request-timestamp", "")
        given, now = request.headers.get("x-signature", ""), self._clock.now()
        if not (is_signed(secret, timestamp, given, request.body, now) and known):
            return Failure(_FORGED)
        document = parsed_object(request.body)
        if document is None:
            return Failure(ChannelRefused(400, "invalid-json", "The body is no JSON object."))
        read = decode(document, WebhookEvent)
        if isinstance(read, Failure):
            return Failure(ChannelRefused(422, "invalid-body", read.failure().message))
        body = read.unwrap()
        event = DomainEvent(
            EventId(body.id),
            ContextId(body.context),
            body.author,
            body.content,
            now,
            body.priority,
            body.details,
            body.user,
            tenant,
        )
        return Success(Received((event,)))

    async def send(self, event: DomainEvent, text: str, key: str) -> str:
        """Post an answer, and return the platform's id of it, if it says one."""
        document: JsonObject = {
            "event": event.id,
            "context": event.context_id,
            "tenant": event.tenant,
            "user": event.user_id,
            "text": text,
            "key": key,
        }
        body, timestamp = _json(document), str(int(self._clock.now().timestamp()))
        headers = {
            "idempotency-key": key,
            "x-request-timestamp": timestamp,
            "x-signature": signature_of(self._secrets[event.tenant], timestamp, body),
        }
        _, answer = await self._client.send("POST", self._url, headers=headers, content=body)
        given = answer.get("id")
        return given if isinstance(given, str) else ""

    async def aclose(self) -> None:
        """Close its connections; the next message opens them again."""
        await self._client.aclose()


_NO_SECRET = b"\x00" * 32
"""Compared with where there is no such tenant, which takes as long as for one."""
