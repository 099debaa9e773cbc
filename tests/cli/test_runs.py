"""``reactive-agents runs``: what is listed, shown, followed and exported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import anyio
import pytest

from reactive_agents import ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support import studio_runs
from tests.support.command_line import Terminal, command


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    model = ScriptedLLM(call("add", a=1, b=2), answer("It is 3."))
    builder = ReactiveAgents.create().with_name("sums").with_llm(model).with_reasoning().with_tools(add)
    builder.with_run_log(path).build().run_sync("Add 1 and 2.", user="ann")
    return path


def document(*arguments: object) -> Any:
    return json.loads(command("runs", *arguments, "--json").stdout)


def test_runs_are_listed_and_filtered(logged: Path) -> None:
    text = command("runs", "list", "--runs", logged).stdout
    assert "sums" in text
    assert "completed" in text
    assert "Add 1 and 2." in text
    (run,) = document("list", "--runs", logged)
    assert (run["agent"], run["user"], run["status"]) == ("sums", "ann", "completed")
    assert document("list", "--runs", logged, "--user", "bob") == []
    assert len(document("list", "--runs", logged, "--tool", "add", "--since", "2020-01-01")) == 1
    assert document("list", "--runs", logged, "--before", "2020-01-01") == []


def test_a_run_is_shown_by_the_beginning_of_its_id(logged: Path) -> None:
    (run,) = document("list", "--runs", logged)
    shown = command("runs", "show", run["run_id"][:14], "--runs", logged)
    assert shown.exit_code == 0
    assert "sums" in shown.stdout.splitlines()[0]
    assert "add succeeded" in shown.stdout
    assert "ended by final_answer" in shown.stdout
    assert '"Add 1 and 2."' not in shown.stdout
    whole = command("runs", "show", run["run_id"], "--runs", logged, "--requests", "--results").stdout
    assert '"content": "Add 1 and 2."' in whole
    events = document("show", run["run_id"], "--runs", logged)["log"]
    assert [each["sequence"] for each in events] == list(range(1, len(events) + 1))


def test_a_run_that_has_ended_is_followed_to_its_end(logged: Path) -> None:
    (run,) = document("list", "--runs", logged)
    followed = command("runs", "tail", run["run_id"], "--runs", logged)
    assert followed.exit_code == 0
    assert "add succeeded" in followed.stdout


def test_runs_are_exported_as_json_lines(logged: Path) -> None:
    lines = [json.loads(line) for line in command("runs", "export", "--runs", logged).stdout.splitlines()]
    assert [next(iter(line)) for line in lines[:2]] == ["run", "event"]
    assert len(lines) == lines[0]["run"]["events"] + 1
    of_user = command("runs", "export", "--user", "ann", "--runs", logged).stdout.splitlines()
    assert list(map(json.loads, of_user)) == lines
    of_another = command("runs", "export", "--user", "bob", "--runs", logged)
    assert (of_another.exit_code, of_another.stdout) == (0, "")
    both = command("runs", "export", lines[0]["run"]["run_id"], "--user", "ann", "--runs", logged)
    assert (both.exit_code, both.stdout) == (2, "")


def test_a_plan_is_a_graph(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    builder = ReactiveAgents.create().with_model("offline").with_reasoning("plan-execute-reflect")
    builder.with_tools(add).with_run_log(path).build().run_sync("Add 1 and 2.")
    (run,) = document("list", "--runs", path)
    graph = command("runs", "show", run["run_id"], "--runs", path, "--graph").stdout
    assert graph.startswith("graph TD")
    assert 'n1["' in graph


@pytest.mark.parametrize("arguments", [("show", "nothing"), ("tail", "nothing"), ("export", "nothing")])
def test_what_is_not_there_is_an_error(logged: Path, arguments: tuple[str, ...]) -> None:
    done = command("runs", *arguments, "--runs", logged)
    assert done.exit_code == 1
    assert "There is no run 'nothing'" in done.stderr


def test_a_beginning_of_several_ids_is_no_missing_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    agent = ReactiveAgents.create().with_model("offline").with_run_log(path).build()
    for run_id in ("may-1", "may-2"):
        agent.run_sync("Hello.", run_id=run_id)
    done = command("runs", "show", "may", "--runs", path)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "2 runs in the log begin with 'may', such as may-2 and may-1." in done.stderr


def test_a_missing_file_is_bad_usage_and_is_not_made(tmp_path: Path) -> None:
    done = command("runs", "list", "--runs", tmp_path / "none.db")
    assert done.exit_code == 2
    assert done.stderr.count("none.db") == 1
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs", "list", "--runs", ""),
        ("runs", "list", "--state", "queued", "--runs", ""),
        ("runs", "export", "--runs", ""),
        ("sessions", "list", "--sessions", ""),
        ("memory", "show", "--path", ""),
        ("run", "Hello.", "--sessions", ""),
        ("run", "Hello.", "-m", "openai/small", "--base-url", ""),
        ("chat", "--sessions", ""),
        ("chat", "--session", ""),
        ("runs", "export", "--user", ""),
        ("memory", "export", "--path", "m.db", "--user", ""),
    ],
)
def test_an_empty_place_is_not_the_one_of_the_user(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """A variable of the shell that is not set: other runs would be shown, or conversations deleted."""
    state = {"XDG_STATE_HOME": str(tmp_path), "REACTIVE_AGENTS_RUN_LOG": ""}
    assert command("run", "What is 2 * 3?", "--tools", "calculator", "--quiet", **state).exit_code == 0
    done = command(*arguments, **state)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "got ''" in done.stderr


def test_nothing_is_exported_before_anything_has_run(tmp_path: Path) -> None:
    done = command("runs", "export", XDG_STATE_HOME=str(tmp_path))
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "")


def test_no_run_is_in_a_state_before_anything_was_recorded(tmp_path: Path) -> None:
    done = command("runs", "list", "--state", "queued", "--json", XDG_STATE_HOME=str(tmp_path))
    assert (done.exit_code, done.stdout.strip(), done.stderr) == (0, "[]", "")


def test_a_status_that_there_is_not_is_refused(logged: Path) -> None:
    done = command("runs", "list", "--runs", logged, "--status", "complete")
    assert done.exit_code == 2
    assert "'completed'" in done.stderr


@pytest.mark.parametrize("columns", ["30", "80"])
def test_no_time_or_number_is_torn_apart_on_a_narrow_terminal(logged: Path, columns: str) -> None:
    (run,) = document("list", "--runs", logged)
    shown = command("runs", "list", "--runs", logged, stdout=Terminal(), COLUMNS=columns, NO_COLOR="1").stdout
    (line,) = (each for each in shown.splitlines() if run["run_id"] in each)
    began = run["started_at"][:19].replace("T", " ")
    assert re.search(rf"{began}  sums   completed .* {run['tokens']}  \$0\.0000  Add 1 and 2\.", line)


def test_runs_of_the_command_line_are_logged_in_the_state_directory(tmp_path: Path) -> None:
    where = {"XDG_STATE_HOME": str(tmp_path), "REACTIVE_AGENTS_RUN_LOG": ""}
    assert command("run", "What is 2 * 3?", "--tools", "calculator", "--quiet", **where).exit_code == 0
    listed = command("runs", "list", **where)
    assert "What is 2 * 3?" in listed.stdout


def test_a_tree_of_thoughts_is_a_graph_and_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    monkeypatch.setattr(studio_runs, "PACE", 0.0)
    anyio.run(studio_runs.searched, path)
    (run,) = document("list", "--runs", path)
    graph = command("runs", "show", run["run_id"], "--runs", path, "--graph").stdout
    assert "Lower the price by 10 % (pruned, score 0.30" in graph
    assert graph.count(" --> ") == 6
    picture = ElementTree.fromstring(command("runs", "show", run["run_id"], "--runs", path, "--svg").stdout)
    titles = [each.text or "" for each in picture.iter("{http://www.w3.org/2000/svg}title")]
    assert any("Bundle it with a gas cartridge (score 0.80)" in each for each in titles)


def test_a_new_machine_has_no_runs_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("REACTIVE_AGENTS_RUN_LOG", "")
    listed = command("runs", "list", "--json")
    assert (listed.exit_code, json.loads(listed.stdout)) == (0, [])
