"""Agents over HTTP: an ASGI application and its protocols.

A request is data from a stranger until its key says whose it is, so that is decided once, in ``access``,
before a handler sees anything: handlers are given a ``Principal`` and ask ``AgentService`` for what belongs
to it. What belongs to another user does not exist for them, whatever id they guess.

A run outlives the connection that began it. ``AgentService`` consumes its events, keeps the latest of them,
and any number of streams read them from there, each at its own speed and from the event where it was cut off.

A protocol is one module with a function ``routes(service)``: ``PROTOCOLS`` in ``app`` names them.
The pieces of ``web`` (bodies, problem details, event streams, checks of hosts and origins) know nothing of
agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.server.access import ApiKeys, KeyLimits, Principal
    from reactive_agents.server.app import create_app
    from reactive_agents.server.channels import create_persona_app
    from reactive_agents.server.runs import AgentService

__getattr__ = lazy_names(
    __name__,
    {
        "AgentService": "reactive_agents.server.runs",
        "ApiKeys": "reactive_agents.server.access",
        "KeyLimits": "reactive_agents.server.access",
        "Principal": "reactive_agents.server.access",
        "create_app": "reactive_agents.server.app",
        "create_persona_app": "reactive_agents.server.channels",
    },
)

__all__ = ["AgentService", "ApiKeys", "KeyLimits", "Principal", "create_app", "create_persona_app"]
