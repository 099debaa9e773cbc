"""Redacted descriptions of a server."""

from __future__ import annotations

from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.adapters.tools.mcp.server import place, redact, server_secrets, shown

PROGRAM = McpServer("a", command="run", args=("--key=abcd1234",), env={"KEY": "s3cret", "DEBUG": "1"})
ADDRESS = McpServer(
    "b",
    url="https://me:passw0rd@host.example:8/path?key=k3y-value&x=1",
    headers={"Authorization": "Bearer t0ken"},
)


def test_secrets_are_blotted_out() -> None:
    assert redact(PROGRAM, "KEY=s3cret, DEBUG=1") == "KEY=[redacted:known], DEBUG=1"
    said = "sent t0ken, Bearer t0ken, passw0rd, k3y-value"
    assert redact(ADDRESS, said) == "sent " + ", ".join(["[redacted:known]"] * 4)


def test_a_place_has_neither_arguments_nor_credentials() -> None:
    assert place(PROGRAM) == "command 'run'"
    assert place(ADDRESS) == "https://host.example:8/path"


def test_long_text_is_cut_after_it_is_redacted() -> None:
    text = shown(PROGRAM, "x" * 1_996 + "s3cret and more")
    assert text == "x" * 1_996 + "[re…"


def test_what_looks_like_a_secret_goes_too() -> None:
    assert redact(PROGRAM, "key sk-aB3dE6gH1jK4mN7pQ0sT") == "key [redacted:openai-key]"


def test_what_other_texts_must_not_have_either() -> None:
    chatty = McpServer("c", command="run", env={"TOKEN": "s3cret-value", "LEVEL": "verbose-output"})
    assert server_secrets([chatty, PROGRAM]) == ("s3cret-value",)
    assert set(server_secrets([ADDRESS])) == {"passw0rd", "k3y-value", "Bearer t0ken", "key=k3y-value&x=1"}
