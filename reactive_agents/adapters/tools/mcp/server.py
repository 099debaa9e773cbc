"""Where an MCP server is and how far it is trusted, as data."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from attrs import Attribute, field, frozen

Approval: TypeAlias = Literal["never", "destructive", "always"]

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_URL = re.compile(r"https?://[^/?#\s]+\S*")


def _check_name(_: Any, attribute: Attribute[str], value: str) -> None:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{attribute.name}: got {value!r}, expected 1 to 32 letters, digits, '_' and '-'.")


def _check_seconds(_: Any, attribute: Attribute[float], value: float) -> None:
    if not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{attribute.name}: got {value!r}, expected seconds above 0.")


def _check_approval(_: Any, attribute: Attribute[Any], value: object) -> None:
    if value not in get_args(Approval):
        known = ", ".join(get_args(Approval))
        raise ValueError(f"{attribute.name}: got {value!r}, expected one of {known}.")


def _is_address(url: str) -> bool:
    try:
        return bool(_URL.fullmatch(url)) and urlsplit(url).port != 0
    except ValueError:
        return False


@frozen
class McpServer:
    """An MCP server: a program to start and talk to over its standard streams, or an address to talk HTTP to.

    Attributes:
        name: unique among the servers of an agent; 1 to 32 letters, digits, ``_`` and ``-``.
        command: the program; it is started without a shell. Either this or ``url`` is given, not both.
        args: of the command.
        env: added to the few variables that a server inherits (such as ``PATH`` and ``HOME``); may be secret.
        cwd: where the command starts; the working directory of this process when it is not given.
        url: the ``http`` or ``https`` address of a server that speaks streamable HTTP.
        headers: sent with each HTTP request; may be secret.
        timeout_s: seconds a call may take, above 0.
        start_timeout_s: seconds until the server must have listed its tools, above 0.
        approve: which of its tools need approval. Destructive is, as in the protocol, every tool that does
            not say that it only reads or only adds.

    Raises:
        ValueError: a field has a value that it cannot have, or does not go with ``command`` or ``url``.
    """

    name: str = field(validator=_check_name)
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(factory=dict, repr=False)
    cwd: Path | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    timeout_s: float = field(default=60.0, validator=_check_seconds)
    start_timeout_s: float = field(default=30.0, validator=_check_seconds)
    approve: Approval = field(default="destructive", validator=_check_approval)

    def __attrs_post_init__(self) -> None:
        """Check the fields against each other."""
        if (self.command is None) == (self.url is None):
            got = "neither" if self.command is None else "both"
            raise ValueError(f"command, url: got {got}, expected one of them (server {self.name!r}).")
        if self.url is None:
            self._refuse("url", self.headers, "headers")
            if not self.command or "\0" in self.command:
                raise ValueError(f"command: got {self.command!r}, expected the name or path of a program.")
            return
        self._refuse("command", self.args, "args")
        self._refuse("command", self.env, "env")
        self._refuse("command", self.cwd, "cwd")
        if not _is_address(self.url):  # the value is not shown, since a query may hold a key
            raise ValueError(f"url: expected an http or https address (server {self.name!r}).")

    def _refuse(self, partner: str, value: object, name: str) -> None:
        if value:
            raise ValueError(f"{name}: expected only together with {partner} (server {self.name!r}).")
