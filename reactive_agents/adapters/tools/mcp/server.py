"""The configuration of an MCP server: command or URL, and trust."""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import unquote, urlsplit
from weakref import ReferenceType, ref

from attrs import Attribute, field, frozen

from reactive_agents.adapters.tools.json_value import as_text
from reactive_agents.core.redaction import SHORTEST_SECRET, Redactor
from reactive_agents.core.run_context import can_take
from reactive_agents.core.secret_patterns import is_secret_field, is_secret_name
from reactive_agents.core.texts import shortened
from reactive_agents.core.tools import ApprovalRule, is_approval_rule
from reactive_agents.core.values import LIVE, OMITTED, Value, lazy_pattern

Approval: TypeAlias = Literal["never", "destructive", "always"]
HeadersFunction: TypeAlias = Callable[[], Mapping[str, str] | Awaitable[Mapping[str, str]]]

_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,32}")
_TOOL_NAME = lazy_pattern(r"[A-Za-z0-9_-]{1,64}")
_URL = lazy_pattern(r"https?://[^/?#\s]+\S*")


def _check_name(_: Any, attribute: Attribute[str], value: str) -> None:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{attribute.name}: got {value!r}, expected 1 to 32 letters, digits, '_' and '-'.")


def _check_seconds(_: Any, attribute: Attribute[float], value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{attribute.name}: got {value!r}, expected seconds above 0.")


def _check_approval(_: Any, attribute: Attribute[Any], value: object) -> None:
    if value not in get_args(Approval) and not is_approval_rule(value):
        known = f"one of {', '.join(get_args(Approval))}, or a function of the arguments,"
        raise ValueError(
            f"{attribute.name}: got {value!r}, expected {known} or of the context and the arguments."
        )


def _check_headers(_: Any, attribute: Attribute[Any], value: object) -> None:
    if not (can_take(value, 0) if callable(value) else isinstance(value, Mapping)):
        raise ValueError(f"{attribute.name}: expected texts by names, or a function that returns them.")


def _check_auth(_: Any, attribute: Attribute[Any], value: object) -> None:
    if not callable(value) and value is not None:
        raise ValueError(f"{attribute.name}: expected an httpx.Auth, such as OAuthClientProvider of mcp.")


def _flow(value: Any) -> Any:
    return getattr(value, "async_auth_flow", value)  # the codec keeps functions as they are


def _names(value: Iterable[str] | None) -> tuple[str, ...] | None:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else value


def _check_only(_: Any, attribute: Attribute[Any], value: object) -> None:
    if value is not None and not (isinstance(value, tuple) and value and all(map(_is_text, value))):
        raise ValueError(f"{attribute.name}: got {value!r}, expected names of tools.")


def _check_prefix(_: Any, attribute: Attribute[str], value: object) -> None:
    if value != "" and not (isinstance(value, str) and _NAME.fullmatch(value)):
        expected = "at most 32 letters, digits, '_' and '-'"
        raise ValueError(f"{attribute.name}: got {value!r}, expected {expected}.")


def _check_renamed(_: Any, attribute: Attribute[Any], value: object) -> None:
    if not (isinstance(value, Mapping) and all(map(_is_text, value))):
        raise ValueError(f"{attribute.name}: got {value!r}, expected new names by names of tools.")
    given: dict[str, object] = {}
    for old, new in value.items():
        if not (isinstance(new, str) and _TOOL_NAME.fullmatch(new)):
            expected = "1 to 64 letters, digits, '_' and '-'"
            raise ValueError(f"{attribute.name}: got {new!r} for {old!r}, expected {expected}.")
        other = given.setdefault(read_as(new), old)
        if other != old:
            expected = "names that differ in more than case and separators"
            raise ValueError(f"{attribute.name}: got {new!r} for {other!r} and {old!r}, expected {expected}.")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value)


def read_as(name: str) -> str:
    """Return a name without case and separators, which models confuse."""
    return name.replace("_", "-").casefold()


def _is_address(url: str) -> bool:
    try:
        return bool(_URL.fullmatch(url)) and urlsplit(url).port != 0
    except ValueError:
        return False


_MOST_SENT = 100
_OF_GRANTS = frozenset(
    {"id_token", "code", "code_verifier", "assertion", "client_assertion", "subject_token"}
)


class SentSecrets:
    """Secrets that were sent to a server or for tokens, and those tokens.

    Attributes:
        values: the latest 100.
    """

    def __init__(self) -> None:
        self.values: tuple[str, ...] = ()
        self._everywhere: tuple[str, ...] = ()
        self._redactors: tuple[ReferenceType[Redactor], ...] = ()

    def make_known_to(self, redactor: Redactor) -> None:
        """Let a redactor learn those that are redacted everywhere, now and later."""
        live = [each for each in self._redactors if each() not in (None, redactor)]
        self._redactors = (*live, ref(redactor))
        redactor.learn(self._everywhere)

    def add_headers(self, headers: Mapping[str, str]) -> None:
        """Add the values of headers.

        Those whose names look secret are redacted everywhere.
        """
        secret = [value for name, value in headers.items() if is_secret_name(name) or is_secret_field(name)]
        words = [word for value in secret for word in (value, *value.split())]
        for value in secret:
            with suppress(ValueError):
                kind, encoded = value.split()
                given = b64decode(encoded, validate=True).decode() if kind.lower() == "basic" else ""
                words += (given.partition(":")[2], unquote(given.partition(":")[2]))
        self._add((*headers.values(), *words), words)

    def add_fields(self, fields: Iterable[tuple[str, object]]) -> None:
        """Add the texts of secret fields of a request for a token, or of its answer."""
        found = [
            value
            for name, value in fields
            if isinstance(value, str) and (is_secret_field(name) or name in _OF_GRANTS)
        ]
        self._add(found, found)

    def _add(self, values: Iterable[str], everywhere: Iterable[str]) -> None:
        self.values = _latest(self.values, values)
        self._everywhere = _latest(self._everywhere, everywhere)
        for each in self._redactors:
            if (redactor := each()) is not None:
                redactor.learn(everywhere)


def _latest(known: Iterable[str], new: Iterable[str]) -> tuple[str, ...]:
    used = tuple(dict.fromkeys(new))
    return (*(each for each in known if each not in used), *used)[-_MOST_SENT:]


@frozen(eq=False, repr=False)
class McpServer(Value):
    """An MCP server: a program to start, or an HTTP address.

    Attributes:
        name: unique among the servers of an agent; 1 to 32 letters, digits, ``_`` and ``-``.
        command: the program, started without a shell. Either this or ``url`` is required.
        args: the arguments of the command.
        env: variables besides the few that a server inherits (such as ``PATH`` and ``HOME``); may be secret.
        cwd: the working directory of the command; by default that of this process.
        url: the ``http`` or ``https`` URL of a server with streamable HTTP.
        headers: headers of each HTTP request, or a function, sync or async, that returns them for each; may
            be secret.
        timeout_s: seconds for a call, above 0.
        start_timeout_s: seconds in which the server must list its tools, above 0.
        approve: the tools that need approval. As in the protocol, a tool is destructive unless its hints say
            that it only reads or only adds; without trust in the hints, all tools are. Or a rule as for
            :func:`~reactive_agents.tool`, which returns for each call whether it needs approval; the
            ``tool_name`` of its context is the server's.
        trust_hints: whether to trust the server's hints that tools only read, only add, or may be repeated.
        trust_descriptions: whether to offer tools whose description or schema looks like orders to the model;
            otherwise they are left out.
        known_tools: the SQLite file of approved definitions, ``:memory:`` for none; by default
            ``mcp-tools.db`` in the user's state directory.
        only: the server's names of the tools to use; ``None`` for all.
        prefix: a literal prefix of each name, such as ``crm_``; at most 32 letters, digits, ``_`` and ``-``.
        rename: new names, by the server's names; they get no prefix.
        auth: the flow that authenticates HTTP requests; given as an ``httpx.Auth``, such as
            ``OAuthClientProvider`` of ``mcp``.
        listed_in: the ``mcp.json`` that it was read from, which tools do not write; empty for none.

    Raises:
        ValueError: a field has an invalid value, or does not apply to ``command`` or ``url``.
    """

    name: str = field(validator=_check_name)
    command: str | None = None
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(factory=dict, repr=False)
    cwd: Path | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] | HeadersFunction = field(factory=dict, repr=False, validator=_check_headers)
    timeout_s: float = field(default=60.0, validator=_check_seconds)
    start_timeout_s: float = field(default=30.0, validator=_check_seconds)
    approve: Approval | ApprovalRule = field(default="destructive", validator=_check_approval)
    trust_hints: bool = False
    trust_descriptions: bool = False
    known_tools: str | None = None
    only: tuple[str, ...] | None = field(default=None, converter=_names, validator=_check_only)
    prefix: str = field(default="", validator=_check_prefix)
    rename: Mapping[str, str] = field(factory=dict, validator=_check_renamed)
    auth: Any = field(default=None, converter=_flow, repr=False, validator=_check_auth, metadata=OMITTED)
    listed_in: str = field(default="", eq=False, repr=False, metadata=OMITTED)
    sent: SentSecrets = field(factory=SentSecrets, init=False, eq=False, repr=False, metadata=LIVE)

    def __attrs_post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            got = "neither" if self.command is None else "both"
            raise ValueError(f"command, url: got {got}, expected one of them (server {self.name!r}).")
        if self.only is not None and (left := sorted(self.rename.keys() - set(self.only))):
            raise ValueError(f"rename: got {', '.join(left)}, expected names that are in only.")
        if self.url is None:
            self._refuse("url", self.headers, "headers")
            self._refuse("url", self.auth, "auth")
            if not self.command or "\0" in self.command:
                raise ValueError(f"command: got {self.command!r}, expected the name or path of a program.")
            return
        self._refuse("command", self.args, "args")
        self._refuse("command", self.env, "env")
        self._refuse("command", self.cwd, "cwd")
        if not _is_address(self.url):  # the value is not shown, since a query may hold a key
            raise ValueError(f"url: expected an http or https address (server {self.name!r}).")

    @property
    def approval_rule(self) -> ApprovalRule | None:
        """The function that says which calls need approval, if there is one."""
        return None if isinstance(self.approve, str) else self.approve

    def named(self, tool: str) -> str:
        """Return the name under which a tool is offered, if it is free."""
        return self.rename.get(tool) or self.prefix + tool

    def _refuse(self, partner: str, value: object, name: str) -> None:
        if value:
            raise ValueError(f"{name}: expected only together with {partner} (server {self.name!r}).")


_MOST_CHARS = 2_000


def redact(server: McpServer, text: str) -> str:
    """Return the text without secrets.

    Secrets include all values of the server's environment, headers and URL with at least 4 characters;
    shorter ones are no secrets and occur everywhere.
    """
    return Redactor(secrets=_values(server)).redact(text)


def shown(server: McpServer, text: object) -> str:
    """The text redacted and cut to 2000 characters."""
    return shortened(redact(server, as_text(text)), _MOST_CHARS)


def place(server: McpServer) -> str:
    """Return the command without arguments, or the URL without credentials."""
    if server.url is None:
        return f"command {server.command!r}"
    parts = urlsplit(server.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{redact(server, parts.path)}"


def server_secrets(servers: Iterable[McpServer]) -> tuple[str, ...]:
    """Return the certain secrets of server configurations, to redact everywhere."""
    found: set[str] = set()
    for server in servers:
        found.update(value for name, value in server.env.items() if is_secret_name(name))
        if server.url is not None:
            found.update(_values(server))
    return tuple(sorted(value for value in found if len(value) >= SHORTEST_SECRET))


def _values(server: McpServer) -> Iterator[str]:
    parts = urlsplit(server.url or "")
    user = parts.netloc.rpartition("@")[0]
    headers = () if callable(server.headers) else server.headers.values()
    sent = server.sent.values
    for value in (*server.env.values(), *headers, *sent, parts.query, *user.split(":")):
        yield from (value, *value.split())
    for pair in parts.query.split("&"):
        yield pair.partition("=")[2]
