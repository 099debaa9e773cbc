"""Text about a server that is fit to be shown: short, and without what its configuration keeps secret."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from urllib.parse import urlsplit

from reactive_agents.adapters.tools.json_value import as_text
from reactive_agents.adapters.tools.mcp.server import McpServer
from reactive_agents.core.redaction import SHORTEST_SECRET, Redactor
from reactive_agents.core.secret_patterns import is_secret_name

_MOST_CHARS = 2_000


def redact(server: McpServer, text: str) -> str:
    """The text without secrets, and without any value of the server's environment, headers and address.

    Values below 4 characters stay, since they are no secrets and occur everywhere.
    """
    return Redactor(secrets=_values(server)).redact(text)


def shown(server: McpServer, text: object) -> str:
    """The text redacted and cut to 2000 characters."""
    made = redact(server, as_text(text))
    return made if len(made) <= _MOST_CHARS else made[: _MOST_CHARS - 1] + "…"


def place(server: McpServer) -> str:
    """The command without its arguments, or the address without user, password and query."""
    if server.url is None:
        return f"command {server.command!r}"
    parts = urlsplit(server.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{redact(server, parts.path)}"


def server_secrets(servers: Iterable[McpServer]) -> tuple[str, ...]:
    """What of the servers' configuration is a secret beyond doubt, to be kept out of every other text too."""
    found: set[str] = set()
    for server in servers:
        found.update(value for name, value in server.env.items() if is_secret_name(name))
        if server.url is not None:
            found.update(_values(server))
    return tuple(sorted(value for value in found if len(value) >= SHORTEST_SECRET))


def _values(server: McpServer) -> Iterator[str]:
    parts = urlsplit(server.url or "")
    user = parts.netloc.rpartition("@")[0]
    for value in (*server.env.values(), *server.headers.values(), parts.query, *user.split(":")):
        yield from (value, *value.split())
    for pair in parts.query.split("&"):
        yield pair.partition("=")[2]
