"""The description of a server: what it refuses, what it hides, and that it survives the codec."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest

from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.core.codec import decode, encode, from_json, to_json

PROGRAM = McpServer(
    "files", command="npx", args=("-y", "server"), env={"TOKEN": "hidden"}, cwd=Path("/tmp"), approve="always"
)
ADDRESS = McpServer("web", url="https://example.org/mcp", headers={"Authorization": "hidden"}, timeout_s=5)


@pytest.mark.parametrize("server", [PROGRAM, ADDRESS])
def test_it_survives_the_codec(server: McpServer) -> None:
    assert from_json(to_json(server), McpServer).unwrap() == server


def test_fields_that_are_not_needed_may_be_left_out() -> None:
    assert from_json('{"name": "a", "command": "b"}', McpServer).unwrap() == McpServer("a", command="b")


@pytest.mark.parametrize("server", [PROGRAM, ADDRESS])
def test_secrets_are_not_shown(server: McpServer) -> None:
    assert "hidden" not in repr(server)
    assert "hidden" in str(encode(server))


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"name": "a"}, "command, url: got neither"),
        ({"name": "a", "command": "b", "url": "http://c"}, "command, url: got both"),
        ({"name": "a b", "command": "b"}, "name: got 'a b'"),
        ({"name": "a" * 33, "command": "b"}, "name: got"),
        ({"name": "a", "command": ""}, "command: got ''"),
        ({"name": "a", "command": "b\0"}, "command: got"),
        ({"name": "a", "command": "b", "headers": {"c": "d"}}, "headers: expected only together with url"),
        ({"name": "a", "url": "http://c", "args": ("d",)}, "args: expected only together with command"),
        ({"name": "a", "url": "http://c", "env": {"d": "e"}}, "env: expected only together with command"),
        ({"name": "a", "url": "http://c", "cwd": Path("d")}, "cwd: expected only together with command"),
        ({"name": "a", "url": "file:///c"}, "url: expected an http or https address"),
        ({"name": "a", "url": "http://[c"}, "url: expected an http or https address"),
        ({"name": "a", "url": "http://c:x"}, "url: expected an http or https address"),
        ({"name": "a", "command": "b", "timeout_s": 0.0}, "timeout_s: got 0.0"),
        ({"name": "a", "command": "b", "start_timeout_s": float("inf")}, "start_timeout_s: got inf"),
        ({"name": "a", "command": "b", "approve": "sometimes"}, "approve: got 'sometimes'"),
        ({"name": "a", "command": "b", "approve": True}, "approve: got True"),
        ({"name": "a", "url": "http://c", "headers": "d"}, "headers: expected texts by names"),
        ({"name": "a", "url": "http://c", "auth": ("me", "d")}, "auth: expected an httpx.Auth"),
    ],
)
def test_what_cannot_be_is_refused_with_the_name_of_the_field(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match="^" + problem.split(":")[0]) as refused:
        McpServer(**fields)
    assert problem in str(refused.value)
    decoded = from_json(to_json(fields), McpServer) if "inf" not in problem else None
    assert decoded is None or problem.split(":")[0] in decoded.failure().message


def test_an_authentication_is_for_an_address_and_stays_as_given_in_a_configuration() -> None:
    auth = httpx2.BasicAuth("me", "d")
    with pytest.raises(ValueError, match="auth: expected only together with url"):
        McpServer("a", command="b", auth=auth)
    server = McpServer("a", url="http://c", auth=auth)
    assert decode(encode(server), McpServer).unwrap() == server
    assert server.auth == auth.async_auth_flow


def test_a_function_that_takes_other_arguments_is_no_rule() -> None:
    with pytest.raises(ValueError, match=r"approve: got .*expected one of never"):
        McpServer("a", command="b", approve=lambda: True)  # type: ignore[arg-type]


def test_a_secret_that_is_wrong_is_not_shown_either() -> None:
    message = from_json('{"name": "a", "url": "ftp://key@host"}', McpServer).failure().message
    assert "url" in message
    assert "key" not in message
