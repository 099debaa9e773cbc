"""Channels of personas: the platforms that events come from and answers go to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import field, frozen

from reactive_agents.core.json import JsonObject
from reactive_agents.core.personas import DomainEvent
from reactive_agents.core.values import Value

ChannelKind: TypeAlias = Literal["webhook", "slack", "matrix"]
"""``webhook``: events by POST to this program, answers by POST to an address. ``slack``: its Events API.
``matrix``: an application service of a homeserver."""


@frozen(eq=False, repr=False)
class ChannelConfig(Value):
    """The channel of a domain.

    Secrets are named by the environment variables that hold them.

    Attributes:
        kind: the platform.
        url: where answers are posted; of Matrix the homeserver, of Slack an API in place of the public one.
        secret_env: holds the secret by which requests of the platform are signed; of Matrix the ``hs_token``.
        token_env: holds the token of Slack's bot, or the ``as_token`` of Matrix.
        user: the persona's user id on Matrix; on Slack only where its events do not name the bot.
        tenant: the tenant of all rooms of a webhook or homeserver; on Slack each workspace is one.
        tenants: further tenants, each with the variable of its secret; on Slack workspaces by their ids, each
            with that of its token, and no others are answered.
        inviters: patterns of the users whose invitations on Matrix are accepted, such as ``@*:example.org``.
        typing: whether the platform shows that an answer is being made.
    """

    kind: ChannelKind
    url: str = ""
    secret_env: str = ""
    token_env: str = ""
    user: str = ""
    tenant: str = ""
    tenants: Mapping[str, str] = field(factory=dict)
    inviters: tuple[str, ...] = ()
    typing: bool = True

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables with its secrets."""
        return (self.secret_env, self.token_env, *self.tenants.values())

    @property
    def known_tenants(self) -> tuple[str, ...]:
        """All tenants; none where any workspace of Slack is one."""
        return tuple(self.tenants) if self.kind == "slack" else (self.tenant, *self.tenants)


@frozen(eq=False, repr=False)
class ChannelRequest(Value):
    """A request that a platform sent, of which nothing was checked.

    ``path``: what follows the address of the channel, without the first slash; ``headers``: by names in lower
    case.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@frozen(eq=False, repr=False)
class Reaction(Value):
    """A reaction of a user to a message of the persona.

    Attributes:
        message_id: the id of the message, as the port ``Channel`` returned it.
        good: whether the user liked it.
        sign: the sign that the user gave, for people to read.
        id: the platform's id of the reaction, by which one that is sent again is recognised; empty for none.
    """

    message_id: str
    user: str
    good: bool
    sign: str = ""
    tenant: str = ""
    id: str = ""


@frozen(eq=False, repr=False)
class Received(Value):
    """The content of a request whose sender was verified.

    Attributes:
        events: to be answered; none where there is nothing to do.
        reactions: to earlier answers.
        reply: the document that the platform expects; ``None`` for the ids of the events.
    """

    events: tuple[DomainEvent, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    reply: JsonObject | None = None


@frozen(eq=False, repr=False)
class ChannelRefused(Value):
    """A request that a channel does not take, with the HTTP response to it.

    ``detail``: a sentence, which tells a stranger nothing of secrets.
    """

    status: int
    code: str
    detail: str
    headers: Mapping[str, str] = field(factory=dict)

    @property
    def message(self) -> str:
        """The detail."""
        return self.detail


class DeliveryDelayed(Exception):
    """Raised by a function that delivers: the platform wants the message later.

    ``retry_after_s``: seconds, 0 or more; more than an hour count as one.
    """

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"The platform takes messages again in {retry_after_s:g} seconds.")
        self.retry_after_s = min(max(0.0, retry_after_s), 3_600.0)
