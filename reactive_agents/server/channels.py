"""The channels of a persona over HTTP.

An event is on disk before it is acknowledged.

A channel authenticates and parses a request. This module has the common parts: a bounded body, the queue of
the persona with status 429 if it is full, and a shutdown that lets events in progress end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager

import anyio
from returns.result import Failure
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from reactive_agents.agent.persona import PersonaAgent
from reactive_agents.core.channels import ChannelRequest
from reactive_agents.core.errors import InboxFull, InvalidEvent
from reactive_agents.core.json import JsonObject
from reactive_agents.core.personas import Domain
from reactive_agents.effects import attempt
from reactive_agents.persona import PersonaInbox
from reactive_agents.persona.inbox import OnOutcome
from reactive_agents.ports import Channel
from reactive_agents.server.web import Border, JsonText, Problem, healthy, read_bytes, report

BODY_S = 10.0
RETRY_AFTER_S = 5
"""Seconds after which a platform may retry if the inbox is full or the store busy."""


def create_persona_app(
    persona: PersonaAgent,
    *,
    on_outcome: OnOutcome | None = None,
    hosts: Collection[str] = ("*",),
    drain_s: float = 30.0,
) -> Starlette:
    """Return the ASGI application that receives the events of a persona's channels.

    Each domain with a channel is at ``/channels/<domain>``. While it is open, the application processes the
    queue of the persona.

    Args:
        on_outcome: called with the outcome of each event.
        hosts: accepted host names; any by default, since requests are signed.
        drain_s: seconds for events in progress to end when the application is closed.

    Raises:
        ValueError: no domain has a channel.
    """
    channels = {name: each.channel for name, each in persona.persona.domains.items() if each.channel}
    if not channels:
        raise ValueError(f"No domain of {persona.name!r} has a channel.")
    inbox = persona.inbox(on_outcome)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with persona:
            with anyio.CancelScope() as ending:
                async with inbox:
                    yield
                    inbox.drain()
                    ending.deadline = anyio.current_time() + drain_s

    async def take(request: Request) -> Response:
        domain: str = request.path_params["domain"]
        channel = channels.get(domain)
        if channel is None:
            raise Problem(404, "channel-not-found", "There is no such channel.")
        return await _taken(request, domain, channel, inbox)

    async def ready(request: Request) -> Response:
        if isinstance(await attempt(inbox.waiting()), Failure):
            raise Problem(503, "store-unavailable", "The records of the persona cannot be read.")
        return JsonText({"status": "ready"})

    methods = ["GET", "POST", "PUT"]
    app = Starlette(
        routes=[
            Route("/healthz", healthy),
            Route("/readyz", ready),
            Route("/channels/{domain}", take, methods=methods),
            Route("/channels/{domain}/{rest:path}", take, methods=methods),
        ],
        middleware=[Middleware(Border, hosts=hosts)],
        lifespan=lifespan,
        exception_handlers={HTTPException: report, Problem: report},
    )
    app.router.redirect_slashes = False
    return app


def _busy(status: int, code: str, detail: str) -> Problem:
    return Problem(status, code, detail, headers={"retry-after": str(RETRY_AFTER_S)})


async def _taken(request: Request, domain: Domain, channel: Channel, inbox: PersonaInbox) -> Response:
    """Put the events of a request into the queue, and return its response."""
    rest = request.path_params.get("rest", "")
    headers = {name.lower(): value for name, value in request.headers.items()}
    body = await read_bytes(request, most=channel.most_bytes(headers), seconds=BODY_S)
    received = await attempt(channel.receive(ChannelRequest(request.method, rest, headers, body)))
    if isinstance(received, Failure):
        refused = received.failure()
        raise Problem(refused.status, refused.code, refused.detail, headers=refused.headers)
    content = received.unwrap()
    events: list[JsonObject] = []
    given = list(content.events)
    for reaction in content.reactions:
        found = await attempt(inbox.persona.feedback_of(domain, reaction))
        if isinstance(found, Failure):
            raise _busy(503, "store-unavailable", "The reaction could not be stored.")
        about = found.unwrap()
        given += [] if about is None else [about]
    for event in given:
        submitted = await attempt(inbox.submit(domain, event))
        if isinstance(submitted, Failure):
            if isinstance(submitted.failure(), InboxFull):
                raise _busy(429, "inbox-full", "Too many events wait.")
            if isinstance(submitted.failure(), InvalidEvent):
                if content.reply is not None:  # a platform would retry all of them forever
                    continue
                raise Problem(422, "invalid-event", submitted.failure().message)
            raise _busy(503, "store-unavailable", "The event could not be stored.")
        events.append({"id": event.id, "new": submitted.unwrap().is_new})
    if content.reply is not None:
        return JsonText(content.reply)
    return JsonText({"events": events}, 202 if any(each["new"] for each in events) else 200)
