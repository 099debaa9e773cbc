"""``reactive-agents studio``: which files it takes, and what it makes of them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from reactive_agents.cli.studio import build_app, read_files
from tests.studio.test_app import signed_in
from tests.support import studio_runs
from tests.support.command_line import command
from tests.support.servers import asking

AGENT = 'name = "helper"\ntools = ["calculator"]\n[model]\nmodel = "offline"\n[reasoning]\n'
TOKEN = "a-token-that-nobody-knows"


def test_agents_personas_and_files_of_runs_are_told_apart(tmp_path: Path) -> None:
    agent, persona, runs = (tmp_path / name for name in ("agent.toml", "ada.toml", "run.jsonl"))
    agent.write_text(AGENT)
    persona.write_text(f'name = "ada"\nmemory = "{tmp_path}/ada.db"\n[[domains]]\nname = "chat"\n')
    runs.write_text("{}\n")
    found = read_files([agent, persona, runs], ())
    assert [config.name for _, config in found.agents] == ["helper"]
    assert [each.name for each in found.personas] == ["ada"]
    assert found.runs == (runs,)


@pytest.mark.parametrize(
    ("text", "told"),
    [("name = 7\n", "name"), ('name = "ada"\n[[domains]]\nname = 7\n', "domains"), ("= no toml", "parsed")],
)
def test_a_wrong_file_is_told_as_what_it_was_meant(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    refused = command("studio", tmp_path / "wrong.toml")
    assert (refused.exit_code, told in refused.stderr) == (2, True)


def test_agents_log_and_record_their_runs_where_the_page_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "agent.toml").write_text(AGENT)
    given = read_files([tmp_path / "agent.toml"], ())
    log = tmp_path / "runs.db"

    async def use() -> Any:
        app = build_app(given, log, TOKEN, ("localhost",))
        async with asking(app) as client:
            client.base_url = await signed_in(client)
            task = {"agent": "helper", "task": "What is 17 * 23?"}
            run_id = (await client.post("/api/runs", json=task)).json()["run_id"]
            await client.get(f"/api/runs/{run_id}/stream")
            return (await client.get(f"/api/runs/{run_id}")).json()

    shown = anyio.run(use)
    assert shown["run"]["ended_at"] is not None
    assert shown["can"]["fork"] is True


def test_two_agents_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "agent.toml").write_text(AGENT)
    refused = command("studio", *[tmp_path / "agent.toml"] * 2, "--runs", tmp_path / "runs.db")
    assert (refused.exit_code, "got 'helper'" in refused.stderr) == (2, True)


def test_runs_of_a_file_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio_runs, "PACE", 0.0)
    anyio.run(studio_runs.failed, tmp_path / "runs.db")
    file = tmp_path / "run.jsonl"
    file.write_text(command("runs", "export", "--runs", tmp_path / "runs.db").stdout)
    app = build_app(read_files([file], ()), tmp_path / "none.db", TOKEN, ("localhost",))

    async def ask() -> httpx.Response:
        async with asking(app) as client:
            client.base_url = await signed_in(client)
            return await client.get("/api/runs")

    (run,) = anyio.run(ask).json()["runs"]
    assert (run["agent"], run["status"], run["opened"]) == ("sales", "failed", True)
    file.write_text(json.dumps({"event": {}}))
    refused = command("studio", file, "--runs", tmp_path / "none.db")
    assert (refused.exit_code, "a file of runs" in refused.stderr) == (2, True)


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = command("studio", "--port", port, "--runs", tmp_path / "runs.db")
        agent = tmp_path / "agent.toml"
        agent.write_text('model = {model = "offline"}\n')
        served = command("serve", agent, "--port", port)
    for each in (refused, served):
        assert each.exit_code == 1
        assert f"--port: got 127.0.0.1:{port}, expected a free port; --port 0 picks one" in each.stderr


def test_a_file_that_is_missing_is_bad_usage(tmp_path: Path) -> None:
    assert command("studio", tmp_path / "none.toml").exit_code == 2
