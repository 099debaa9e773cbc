"""Channels over plain HTTP: signed webhooks, Slack, Matrix.

A request is untrusted until its signature has been verified: before that its body is not parsed, and the
response says only that it was refused. The tenant of an event is the one whose secret signed it, never a
field of its body. Messages carry an idempotency key, so that a platform shows a repeated message once.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import cached_property, partial
from hashlib import sha256
from html import escape
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from anyio.lowlevel import RunVar
from attrs import define, field, frozen
from attrs.validators import and_, ge, le, matches_re, max_len
from returns.result import Failure, Result, Success

from reactive_agents.adapters.system import retry_after_s
from reactive_agents.core.channels import (
    ChannelConfig,
    ChannelRefused,
    ChannelRequest,
    DeliveryDelayed,
    Reaction,
    Received,
)
from reactive_agents.core.codec import decode
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.ids import ContextId, EventId
from reactive_agents.core.json import MOST_LEVELS, JsonObject, json_bytes, without_surrogates
from reactive_agents.core.personas import DomainEvent
from reactive_agents.effects import effect
from reactive_agents.ports import Channel, Clock

REPLAY_WINDOW_S = 300.0
"""The maximum difference of a signature's time from the clock, in seconds."""
MOST_TEXT = 100_000
"""Maximum characters of an event's content."""
BODY_BYTES = 1_000_000
"""Maximum length of a body before authentication."""
TRANSACTION_BYTES = 10_000_000
"""Maximum length of a homeserver's body: a hundred events."""
_MOST_NAME = 200
_MOST_ANSWER = 1_000_000
_REQUEST_S = 30.0

_FORGED = ChannelRefused(401, "wrong-signature", "The signature is missing, wrong or too old.")


def open_channel(
    config: ChannelConfig, *, name: str, clock: Clock, environment: Mapping[str, str], option: str = "channel"
) -> Result[Channel, InvalidConfig]:
    """Return the channel that a configuration describes.

    Args:
        name: the name of the persona, for mentions of its user.
        environment: variables with the secrets.
        option: the path of the configuration, for errors.

    Fails with ``InvalidConfig`` for a missing or short secret, a shared secret, or a wrong URL.
    """

    def wrong(field_name: str, value: str, expected: str) -> Result[Channel, InvalidConfig]:
        return Failure(InvalidConfig(f"{option}.{field_name}", repr(value), expected))

    variables = [("secret_env", config.secret_env)]
    variables += [("tenants", variable) for variable in config.tenants.values()]
    if config.kind == "matrix" or (config.kind == "slack" and not config.tenants):
        variables.append(("token_env", config.token_env))
    for field_name, variable in variables:
        length = len(environment.get(variable, ""))
        if length < _SHORTEST_SECRET:
            has = f"it has {length}" if length else "it is not set"
            expected = f"an environment variable whose value has {_SHORTEST_SECRET} characters or more"
            return wrong(field_name, variable, f"{expected} ({has})")
    url = config.url or (SLACK_API if config.kind == "slack" else "")
    if not _is_address(url):
        return wrong("url", url, "an address of http or https")
    secret = environment[config.secret_env].encode()
    tenants = {tenant: environment[variable] for tenant, variable in config.tenants.items()}
    if config.kind == "slack":
        token = environment.get(config.token_env, "")
        return Success(SlackChannel(config, url.rstrip("/"), secret, token, name, clock, tokens=tenants))
    if config.kind == "matrix":
        if not _MATRIX_USER.fullmatch(config.user):
            return wrong("user", config.user, "a user id such as @mira:example.org")
        token = environment[config.token_env]
        return Success(MatrixChannel(config, url.rstrip("/"), secret, token, name, clock))
    secrets = {config.tenant: secret}
    for tenant, given in tenants.items():
        if tenant in secrets or given.encode() in secrets.values():
            return wrong("tenants", tenant, "a separate name and secret")
        secrets[tenant] = given.encode()
    return Success(WebhookChannel(url, secrets, tenant=config.tenant, clock=clock))


_SHORTEST_SECRET = 16
SLACK_API = "https://slack.com/api"


def _is_address(url: str) -> bool:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return False
    return parsed.scheme in ("http", "https") and bool(parsed.host)


# --- signatures: pure ---------------------------------------------------------------------------------------


def signature_of(secret: bytes, timestamp: str, body: bytes) -> str:
    """Return the signature of a body with its time.

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
    """Return the JSON object of a body, without lone surrogates; else ``None``."""
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse)
        return _cleaned(value, MOST_LEVELS) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def parsed_transaction(body: bytes) -> list[dict[str, Any]] | None:
    """Return the events of a homeserver's transaction.

    ``None`` if there is no list of events. Unreadable events are skipped, since they would block the others,
    which would be repeated with them forever.
    """
    text, read = body.decode("utf-8", "replace"), partial(json.loads, parse_constant=str, parse_int=_short)
    try:
        try:
            value = read(text)
        except RecursionError:
            value = read(_flattened(text))
    except ValueError:
        return None
    listed = value.get("events") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        return None
    readable: list[dict[str, Any]] = []
    for each in listed:
        try:
            readable += [_cleaned(each, MOST_LEVELS)] if isinstance(each, dict) else []
        except ValueError:
            continue
    return readable


_PART = re.compile(r'"(?:[^"\\]|\\.)*+"?|[][{}]', re.DOTALL)
_TOO_DEEP = MOST_LEVELS + 3  # an event is in a list in an object
"""Levels below those that an event may have, at which its nesting is cut off."""


def _flattened(text: str) -> str:
    """Return a JSON text with ``null`` for what is nested too deeply.

    No event with it is taken, and the parser would fail at it with all others.
    """
    kept: list[str] = []
    levels = start = 0
    for part in _PART.finditer(text):
        if part[0] in "[{":
            levels += 1
            if levels == _TOO_DEEP + 1:
                kept += (text[start : part.start()], "null")
        elif part[0] in "]}":
            start = part.end() if levels == _TOO_DEEP + 1 else start
            levels -= 1
    return "".join((*kept, text[start:]))


def _short(digits: str) -> int:
    return int(digits[:_MOST_DIGITS])


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


class _Channel:
    """A channel by HTTP, without redirects, and with limits of time and size."""

    @cached_property
    def _http(self) -> RunVar[httpx.AsyncClient | None]:
        return RunVar("http", None)  # a connection belongs to its event loop

    def most_bytes(self, headers: Mapping[str, str]) -> int:
        """Return the maximum length of a body."""
        return BODY_BYTES

    async def _request(
        self, method: str, url: str, *, headers: Mapping[str, str], content: bytes | None = None
    ) -> dict[str, Any]:
        """Return the JSON document of a response; empty if it has none.

        Raises:
            DeliveryDelayed: the platform asks for a later retry.
            RuntimeError: the platform refuses it.
            httpx.HTTPError: the platform cannot be reached.
        """
        http = self._http.get()
        if http is None:
            http = httpx.AsyncClient(timeout=_REQUEST_S, follow_redirects=False)
            self._http.set(http)
        given = {"content-type": "application/json", **headers}
        async with http.stream(method, url, headers=given, content=content) as response:
            body = b""
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > _MOST_ANSWER:
                    raise RuntimeError(f"the answer of the platform has more than {_MOST_ANSWER} bytes")
        document = parsed_object(body) or {}
        wait_s = retry_after_s(response.headers.get("retry-after", ""), datetime.now(UTC))
        wait_ms = document.get("retry_after_ms")
        if wait_s is None and isinstance(wait_ms, int) and wait_ms >= 0:  # of homeservers without the header
            wait_s = min(wait_ms, 10**_MOST_DIGITS) / 1_000
        if response.status_code in (429, 503) and wait_s is not None:
            raise DeliveryDelayed(wait_s)
        if not response.is_success:
            code = re.sub(r"[^A-Za-z_]", "", _text(document, "errcode"))[:50]  # of Matrix
            raise RuntimeError(f"the platform answered with status {response.status_code} {code}".rstrip())
        return document

    async def aclose(self) -> None:
        """Close its connections in this event loop; the next message opens them again."""
        http = self._http.get()
        self._http.set(None)
        if http is not None:
            await http.aclose()


@define(eq=False)
class _UserChannel(_Channel):
    """A channel of a platform on which the persona has a user.

    Args:
        secret: the secret that signs incoming requests, or that they contain.
        token: the token of outgoing requests.
        name: the name of the persona, for mentions of its user.
    """

    _config: ChannelConfig
    _url: str
    _secret: bytes
    _token: str
    _name: str
    _clock: Clock


def _text(value: Any, *path: str) -> str:
    """Return the text at a path of a document; empty for anything else."""
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _shortened(text: str, most: int) -> str:
    """Return a text, truncated to a number of bytes."""
    data = text.encode("utf-8", "replace")
    return text if len(data) <= most else data[: most - 3].decode("utf-8", "ignore") + "…"


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


@frozen
class WebhookReaction:
    """The body of a webhook: a reaction to an answer, which has the receiver's id.

    Attributes:
        id: the id of the reaction, which identifies repeats; by default the time of the request.
    """

    message: str = field(validator=_name)
    good: bool
    user: str = field(validator=_name)
    id: str = field(default="", validator=max_len(_MOST_NAME))


class WebhookChannel(_Channel):
    """Implements ``Channel``: signed events by POST, signed answers to a URL.

    Args:
        url: the URL for answers.
        secrets: the secret of each tenant.
        tenant: the tenant of requests without a tenant in their path.
    """

    def __init__(self, url: str, secrets: Mapping[str, bytes], *, tenant: str, clock: Clock) -> None:
        self._url = url
        self._secrets = dict(secrets)
        self._tenant = tenant
        self._clock = clock

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
            return Failure(ChannelRefused(400, "invalid-json", "The body is not a JSON object."))
        read = decode(document, WebhookReaction if "message" in document else WebhookEvent)
        if isinstance(read, Failure):
            return Failure(ChannelRefused(422, "invalid-body", read.failure().message))
        body: WebhookReaction | WebhookEvent = read.unwrap()
        if isinstance(body, WebhookReaction):
            reaction = Reaction(body.message, body.user, body.good, tenant=tenant, id=body.id or timestamp)
            return Success(Received(reactions=(reaction,)))
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

    async def send(self, event: DomainEvent, text: str, key: str, *, again: bool) -> str:
        """Post an answer, and return the platform's id of it, if any.

        Raises:
            RuntimeError: the channel has no such tenant, or the platform refuses it.
        """
        document: JsonObject = {
            "event": event.id,
            "context": event.context_id,
            "tenant": event.tenant,
            "user": event.user_id,
            "text": text,
            "key": key,
        }
        secret = self._secrets.get(event.tenant)
        if secret is None:  # it was removed from the configuration since
            raise RuntimeError(f"the channel has no tenant {event.tenant!r}")
        body, timestamp = json_bytes(document), str(int(self._clock.now().timestamp()))
        headers = {
            "idempotency-key": key,
            "x-request-timestamp": timestamp,
            "x-signature": signature_of(secret, timestamp, body),
        }
        return _text(await self._request("POST", self._url, headers=headers, content=body), "id")

    async def typing(self, event: DomainEvent) -> None:
        """Do nothing: webhooks have no typing indicator."""


_NO_SECRET = b"\x00" * 32
"""Compared with for an unknown tenant, so that the time does not reveal tenants."""


_NO_RETRY = {"x-slack-no-retry": "1"}
_SLACK_ID = re.compile(r"[A-Z0-9]{1,50}")
_SLACK_MOMENT = re.compile(r"[0-9]{1,20}\.[0-9]{1,10}")
_SLACK_MESSAGES = ("", "file_share", "thread_broadcast", "me_message")
_SLACK_OPINIONS = {
    **dict.fromkeys(("+1", "thumbsup", "white_check_mark", "heavy_check_mark", "heart", "tada", "100"), True),
    **dict.fromkeys(("-1", "thumbsdown", "x", "no_entry_sign"), False),
}
_SLACK_MARK = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")
_SLACK_BYTES = 39_000
_SLACK_METADATA = "reactive_agents_message"


@define(eq=False)
class SlackChannel(_UserChannel):
    """Implements ``Channel`` with Slack's Events API and ``chat.postMessage``.

    A workspace is a tenant, and a thread is a room: the answer to a message outside of threads begins one. A
    direct conversation is one room. Every message carries its key as Slack metadata; before a retry, the
    thread is searched for it.
    """

    _tokens: Mapping[str, str] = field(kw_only=True, alias="tokens")

    @effect
    async def receive(self, request: ChannelRequest) -> Result[Received, ChannelRefused]:
        """Return the event of a request. Fails with ``ChannelRefused``."""
        headers = request.headers
        timestamp = headers.get("x-slack-request-timestamp", "")
        given, now = headers.get("x-slack-signature", ""), self._clock.now()
        if not is_signed(self._secret, timestamp, given, request.body, now):
            return Failure(_FORGED)
        document = parsed_object(request.body)
        if document is None:
            return Failure(ChannelRefused(400, "invalid-json", "The body is not a JSON object.", _NO_RETRY))
        if document.get("type") == "url_verification":
            return Success(Received(reply={"challenge": _text(document, "challenge")}))
        events, reactions = [self._event(document, now)], [self._reaction(document)]
        return Success(Received(tuple(filter(None, events)), tuple(filter(None, reactions)), reply={}))

    def _reaction(self, document: dict[str, Any]) -> Reaction | None:
        given, team = document.get("event"), _text(document, "team_id")
        if document.get("type") != "event_callback" or _text(given, "type") != "reaction_added":
            return None
        channel, moment = _text(given, "item", "channel"), _text(given, "item", "ts")
        user, name = _text(given, "user"), _text(given, "reaction").partition("::")[0]
        named = all(map(_SLACK_ID.fullmatch, (team, channel, user))) and _SLACK_MOMENT.fullmatch(moment)
        own = user == (self._config.user or _bot_of(document))
        if not named or own or name not in _SLACK_OPINIONS or (self._tokens and team not in self._tokens):
            return None
        given_at = _text(given, "event_ts")[:_MOST_NAME]
        return Reaction(f"{channel}/{moment}", user, _SLACK_OPINIONS[name], f":{name}:", team, given_at)

    def _event(self, document: dict[str, Any], now: datetime) -> DomainEvent | None:
        given, team = document.get("event"), _text(document, "team_id")
        if document.get("type") != "event_callback" or not isinstance(given, dict):
            return None
        channel, user, moment = _text(given, "channel"), _text(given, "user"), _text(given, "ts")
        thread = _text(given, "thread_ts") or moment
        wanted = given.get("type") in ("message", "app_mention") and not given.get("bot_id")
        named = all(map(_SLACK_ID.fullmatch, (team, channel, user)))
        timed = all(map(_SLACK_MOMENT.fullmatch, (moment, thread)))
        if not (wanted and named and timed and given.get("subtype", "") in _SLACK_MESSAGES):
            return None
        if self._tokens and team not in self._tokens:
            return None
        bot = self._config.user or _bot_of(document)
        content = _plain(_text(given, "text"), bot, self._name)[:MOST_TEXT]
        if user == bot or not content.strip():
            return None
        is_direct = _text(given, "channel_type") == "im"
        alone = is_direct and not given.get("thread_ts")
        return DomainEvent(
            EventId(moment),
            ContextId(channel if alone else f"{channel}/{thread}"),
            user,
            content,
            now,
            details={
                "direct": is_direct,
                "mentioned": any(
                    (mark[1], mark[2]) == ("@", bot) for mark in _SLACK_MARK.finditer(_text(given, "text"))
                ),
                "thread": thread != moment,
            },
            user=user,
            tenant=team,
        )

    async def send(self, event: DomainEvent, text: str, key: str, *, again: bool) -> str:
        """Post a message into the thread of an event, and return its channel and time.

        Raises:
            RuntimeError: Slack refuses it.
        """
        channel, _, thread = event.context_id.partition("/")
        known = await self._sent(event, key) if again else ""
        if known:
            return f"{channel}/{known}"
        document: JsonObject = {
            "channel": channel,
            "text": escape(_shortened(text, _SLACK_BYTES), quote=False),  # no mentions, no hidden links
            "metadata": {"event_type": _SLACK_METADATA, "event_payload": {"key": key}},
            "unfurl_links": False,
            "unfurl_media": False,
        }
        if thread:
            document["thread_ts"] = thread
        answered = await self._call("chat.postMessage", event, content=json_bytes(document))
        return f"{channel}/{_text(answered, 'ts')}"

    async def _sent(self, event: DomainEvent, key: str) -> str:
        """Return the time of the message with a key; empty if it was not sent."""
        channel, _, thread = event.context_id.partition("/")
        method = "conversations.replies" if thread else "conversations.history"
        query = {"channel": channel, "include_all_metadata": "true", "limit": "200"}
        if thread:
            query["ts"] = thread
        cursor = ""
        while True:
            page = {**query, "cursor": cursor} if cursor else query
            found = await self._call(f"{method}?{urlencode(page)}", event, method="GET")
            messages = found.get("messages")
            for each in messages if isinstance(messages, list) else ():
                if _text(each, "metadata", "event_payload", "key") == key:
                    return _text(each, "ts")
            cursor = _text(found, "response_metadata", "next_cursor")
            if not (thread and cursor):  # only one page of a channel is searched
                return ""

    async def typing(self, event: DomainEvent) -> None:
        """Show a status in the thread of an event."""
        channel, _, thread = event.context_id.partition("/")
        if self._config.typing and thread:
            status: JsonObject = {"channel_id": channel, "thread_ts": thread, "status": "is typing…"}
            await self._call("assistant.threads.setStatus", event, content=json_bytes(status))

    async def _call(
        self, path: str, event: DomainEvent, *, method: str = "POST", content: bytes | None = None
    ) -> dict[str, Any]:
        token = self._tokens.get(event.tenant, self._token)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json; charset=utf-8"}
        answered = await self._request(method, f"{self._url}/{path}", headers=headers, content=content)
        if answered.get("ok") is not True:
            problem = re.sub(r"[^a-z_]", "", _text(answered, "error"))[:50]
            raise RuntimeError(f"Slack refused it: {problem or 'without a reason'}")
        return answered


def _bot_of(document: dict[str, Any]) -> str:
    """Return the user id of the bot that an event of Slack is for; empty if unknown."""
    given = document.get("authorizations")
    for each in given if isinstance(given, list) else ():
        if isinstance(each, dict) and each.get("is_bot") is True:
            return _text(each, "user_id")
    return ""


def _plain(text: str, bot: str, name: str) -> str:
    """Return a text of Slack without its markup.

    >>> _plain("<@U1|mira> see <https://a.example|this> &lt;3", "U1", "Mira")
    '@Mira see this (https://a.example) <3'
    """

    def shown(mark: re.Match[str]) -> str:
        kind, target, label = mark[1], mark[2], mark[3] or ""
        if kind == "@":
            return f"@{name if target == bot else label or target}"
        if kind:
            return f"{'#' if kind == '#' else '@'}{label or target}"
        return f"{label} ({target})" if label and label != target else target

    plain = _SLACK_MARK.sub(shown, text)
    return plain.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


_MATRIX_USER = re.compile(r"@[^\x00-\x20\x7f:]{1,200}:[^\x00-\x20\x7f/]{1,200}")
_MATRIX_ROOM = re.compile(r"![^\x00-\x20\x7f/]{1,255}")  # a slash separates the thread
_MATRIX_EVENT = re.compile(r"\$[^\x00-\x20\x7f]{1,255}")
_OPINIONS = {**dict.fromkeys("👍❤✅✔🎉💯", True), **dict.fromkeys("👎❌✖🚫", False)}
_MATRIX_BYTES = 32_000
_TYPING_MS = 30_000


@define(eq=False)
class MatrixChannel(_UserChannel):
    """Implements ``Channel`` as an application service of a Matrix homeserver.

    The homeserver repeats each transaction until it is answered with 200, so that none is lost, and shows a
    message with a known transaction id once. A Matrix room is a room, and so is each thread in it.
    """

    def most_bytes(self, headers: Mapping[str, str]) -> int:
        """Return the maximum length of a body; shorter without authentication."""
        return TRANSACTION_BYTES if self._knows(headers) else BODY_BYTES

    def _knows(self, headers: Mapping[str, str]) -> bool:
        """Return whether the headers have the token of the homeserver."""
        given = headers.get("authorization", "").encode("utf-8", "replace")
        return hmac.compare_digest(b"Bearer " + self._secret, given)

    @effect
    async def receive(self, request: ChannelRequest) -> Result[Received, ChannelRefused]:
        """Return the events of a transaction. Fails with ``ChannelRefused``."""
        if not self._knows(request.headers):
            return Failure(_FORGED)
        match request.method, request.path.split("/"):
            case "POST", ["_matrix", "app", "v1", "ping"]:
                return Success(Received(reply={}))
            case "PUT", ["_matrix", "app", "v1", "transactions", _]:
                pass
            case _:
                return Failure(ChannelRefused(404, "not-found", "There is no such user or room."))
        listed = parsed_transaction(request.body)
        if listed is None:
            return Failure(ChannelRefused(400, "invalid-json", "The body has no list of events."))
        for each in listed:
            if self._invites(each):
                problem = await self._join(_text(each, "room_id"))
                if problem is not None:
                    return Failure(problem)
        now = self._clock.now()
        events, reactions = (self._event(each, now) for each in listed), map(self._reaction, listed)
        return Success(Received(tuple(filter(None, events)), tuple(filter(None, reactions)), reply={}))

    def _reaction(self, given: dict[str, Any]) -> Reaction | None:
        relation, user = ("content", "m.relates_to"), _text(given, "sender")
        sign = _text(given, *relation, "key").replace("\ufe0f", "")[:1]
        annotates = _text(given, *relation, "rel_type") == "m.annotation"
        if given.get("type") != "m.reaction" or not annotates or sign not in _OPINIONS:
            return None
        if user == self._config.user or not _MATRIX_USER.fullmatch(user):
            return None
        message = _text(given, *relation, "event_id")
        name = _text(given, "event_id")[:_MOST_NAME]
        return Reaction(message, user, _OPINIONS[sign], sign, self._config.tenant, name)

    def _event(self, given: dict[str, Any], now: datetime) -> DomainEvent | None:
        """Return a person's message; ``None`` for all else, even what is unreadable."""
        content, user = given.get("content"), _text(given, "sender")
        room, name = _text(given, "room_id"), _text(given, "event_id")
        kind = _text(content, "msgtype")
        if given.get("type") != "m.room.message" or kind not in ("m.text", "m.emote"):
            return None
        if not (_MATRIX_USER.fullmatch(user) and _MATRIX_ROOM.fullmatch(room)):
            return None
        relation = _text(content, "m.relates_to", "rel_type")
        root = _text(content, "m.relates_to", "event_id") if relation == "m.thread" else ""
        body = _text(content, "body")[:MOST_TEXT]
        if user == self._config.user or relation == "m.replace" or not body.strip():
            return None
        if not all(map(_MATRIX_EVENT.fullmatch, (name, root or name))):
            return None
        mentions = content.get("m.mentions") if isinstance(content, dict) else None
        users = mentions.get("user_ids") if isinstance(mentions, dict) else None
        return DomainEvent(
            EventId(name),
            ContextId(f"{room}/{root}" if root else room),
            user,
            body.replace(self._config.user, f"@{self._name}"),
            now,
            details={
                "mentioned": isinstance(users, list) and self._config.user in users,
                "thread": bool(root),
            },
            user=user,
            tenant=self._config.tenant,
        )

    def _invites(self, given: dict[str, Any]) -> bool:
        """Return whether an event is an allowed invitation of the persona's user."""
        if given.get("type") != "m.room.member" or given.get("state_key") != self._config.user:
            return False
        inviter = _text(given, "sender")
        admitted = any(fnmatchcase(inviter, pattern) for pattern in self._config.inviters)
        invites = _text(given, "content", "membership") == "invite"
        return admitted and invites and bool(_MATRIX_ROOM.fullmatch(_text(given, "room_id")))

    async def _join(self, room: str) -> ChannelRefused | None:
        try:
            await self._call("POST", f"join/{quote(room, safe='')}", {})
        except RuntimeError:  # the invitation was withdrawn
            return None
        except (DeliveryDelayed, httpx.HTTPError):
            detail = "The invitation cannot be accepted now."
            return ChannelRefused(503, "homeserver-unavailable", detail, {"retry-after": "5"})
        return None

    async def send(self, event: DomainEvent, text: str, key: str, *, again: bool) -> str:
        """Send a message into the room or thread of an event, and return its id."""
        room, _, root = event.context_id.partition("/$")
        content: JsonObject = {
            "msgtype": "m.notice",
            "body": _shortened(text, _MATRIX_BYTES),
            "m.mentions": {},
        }
        if root:
            content["m.relates_to"] = {"rel_type": "m.thread", "event_id": f"${root}"}
        path = f"rooms/{quote(room, safe='')}/send/m.room.message/{quote(key, safe='')}"
        return _text(await self._call("PUT", path, content), "event_id")

    async def typing(self, event: DomainEvent) -> None:
        """Show that the persona's user is typing in the room of an event."""
        if self._config.typing:
            room = quote(event.context_id.partition("/$")[0], safe="")
            path = f"rooms/{room}/typing/{quote(self._config.user, safe='')}"
            await self._call("PUT", path, {"typing": True, "timeout": _TYPING_MS})

    async def _call(self, method: str, path: str, document: JsonObject) -> dict[str, Any]:
        url = f"{self._url}/_matrix/client/v3/{path}?{urlencode({'user_id': self._config.user})}"
        headers = {"authorization": f"Bearer {self._token}"}
        return await self._request(method, url, headers=headers, content=json_bytes(document))
