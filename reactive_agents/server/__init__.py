"""Agents over HTTP: an ASGI application and its protocols.

Requests are untrusted until ``access`` has authenticated their key, once, before any handler runs. Handlers
get a ``Principal`` and ask ``AgentService`` for its runs and sessions; those of other users do not exist for
them.

A run outlives the connection that began it. ``AgentService`` consumes its events and buffers the latest. Any
number of streams read them, each at its own speed, and resume where they were cut off.

A protocol is one module with a function ``routes(service)``, listed in ``PROTOCOLS`` in ``app``. ``web``
(bodies, problem details, event streams, checks of hosts and origins) does not depend on agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reactive_agents.lazy_imports import lazy_names

if TYPE_CHECKING:
    from reactive_agents.server.access import ApiKeys, KeyLimits, Principal
    from reactive_agents.server.app import create_app
    from reactive_agents.server.channels import create_persona_app
    from reactive_agents.server.runs import AgentService

_imported = lazy_names(
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


if not TYPE_CHECKING:  # else type checkers accept any name

    def __getattr__(name: str) -> Any:
        """Import a name on first use.

        Raises:
            ModuleNotFoundError: the extra ``server`` is not installed.
        """
        try:
            return _imported(name)
        except ModuleNotFoundError as error:
            needed = f"{__name__} needs {error.name}: pip install 'reactive-agents[server]'"
            raise ModuleNotFoundError(needed, name=error.name) from error


__all__ = ["AgentService", "ApiKeys", "KeyLimits", "Principal", "create_app", "create_persona_app"]
