"""Text about a server that is fit to be shown: short, and without what its configuration keeps secret."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from reactive_agents.adapters.tools.json_value import as_text
from reactive_agents.adapters.tools.mcp.server import McpServer

_SHORTEST_SECRET = 4
_MOST_CHARS = 2_000


def redact(server: McpServer, text: str) -> str:
    """The text with ``***`` for each value of the server's environment, headers and address.

    Values below 4 characters stay, since they are no secrets and occur everywhere.
    """
    for secret in sorted(set(_secrets(server)), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


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


def _secrets(server: McpServer) -> Iterator[str]:
    parts = urlsplit(server.url or "")
    user = parts.netloc.rpartition("@")[0]
    for value in (*server.env.values(), *server.headers.values(), parts.query, *user.split(":")):
        for secret in (value, *value.split(), value.strip()):
            if len(secret) >= _SHORTEST_SECRET:
                yield secret
    for pair in parts.query.split("&"):
        value = pair.partition("=")[2]
        if len(value) >= _SHORTEST_SECRET:
            yield value
