"""``reactive-agents cost``, on the cost database of real runs."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.telemetry.console import Line, describe
from reactive_agents.cli.output import printable
from reactive_agents.core.errors import ServiceFailed
from reactive_agents.core.events import BudgetNotSettled, BudgetWarning, VerificationActed
from reactive_agents.core.ids import RunId, TaskId
from reactive_agents.core.usage import Usage
from reactive_agents.testing import ScriptedLLM, say
from reactive_agents.testing.core import START
from tests.support.command_line import Terminal, command
from tests.support.sqlite_files import sample, sqlite_file

USED = Usage(10, 20, 30)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cost") / "cost.db"
    for name, model, cost in (
        ("clerk", "small/1", 0.25),
        ("boss", "large/1", 2.0),
        ("clerk", "free/1", None),
    ):
        llm = ScriptedLLM(say("Done.", usage=USED, cost_usd=cost), model=model)
        ReactiveAgents.create().with_name(name).with_llm(llm).with_cost(path).build().run_sync("Do it.")
    return path


def test_by_model_the_most_expensive_comes_first(account: Path) -> None:
    shown = command("cost", "--path", str(account))
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert shown.stdout.splitlines() == [
        "large/1: 1 run, 30 tokens, $2.0000",
        "small/1: 1 run, 30 tokens, $0.2500",
        "free/1: 1 run, 30 tokens, $0.0000 or more",
    ]


def test_by_agent_in_one_json_document(account: Path) -> None:
    document = json.loads(command("cost", "--by", "agent", "--json", "--path", str(account)).stdout)
    assert (document["by"], document["since"], document["cost_usd"]) == ("agent", None, 2.25)
    assert [(group["name"], group["runs"], group["cost_usd"]) for group in document["groups"]] == [
        ("boss", 1, 2.0),
        ("clerk", 2, 0.25),
    ]
    assert document["groups"][1]["unpriced_calls"] == 1


@pytest.mark.parametrize("closed", ["file and folder", "folder"])
def test_a_file_that_may_not_be_written_is_only_read(
    account: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str
) -> None:
    account = shutil.copy(account, tmp_path / "copy.db")  # without a log that another command has left
    opened, connect = list[str](), sqlite3.connect

    def connected(place: str, **options: Any) -> Any:
        opened.append(place.partition("?")[2])
        return connect(place, **options)

    monkeypatch.setattr(sqlite3, "connect", connected)
    monkeypatch.setattr(os, "access", lambda path, _: closed == "folder" and Path(path) == account)
    assert command("cost", "--path", str(account)).exit_code == 0
    assert {*opened} == {"mode=ro&immutable=1"}


def test_a_file_of_an_older_version_is_left_to_the_processes_that_write_it(tmp_path: Path) -> None:
    path = sample("cost_2.db", tmp_path)
    before = path.read_bytes()
    shown = command("cost", "--path", str(path))
    assert (shown.exit_code, path.read_bytes()) == (1, before)
    assert "found version 2 of its cost" in " ".join(shown.stderr.split())
    assert command("cost", "prune", "--older-than", "600000", "--path", str(path)).exit_code == 0
    assert command("cost", "--path", str(path)).exit_code == 0


def test_the_sum_of_all_groups_is_exact(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    for _ in range(3):
        llm = ScriptedLLM(say("Done.", usage=USED, cost_usd=0.2))
        ReactiveAgents.create().with_llm(llm).with_cost(path).build().run_sync("Do it.")
    document = json.loads(command("cost", "--by", "run", "--json", "--path", str(path)).stdout)
    assert (len(document["groups"]), document["cost_usd"]) == (3, 0.6)


def test_the_cost_of_each_user_stays_without_the_name_of_one_who_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "cost.db"
    for user in ("Ada", "Bo\nx: 9 runs", "Ada", None):
        llm = ScriptedLLM(say("Done.", usage=USED, cost_usd=0.2))
        agent = ReactiveAgents.create().with_llm(llm).with_cost(path).build()
        agent.run_sync("Do it.", user=user)

    def by_user() -> dict[str, tuple[int, float]]:
        document = json.loads(command("cost", "--by", "user", "--json", "--path", str(path)).stdout)
        return {group["name"]: (group["runs"], group["cost_usd"]) for group in document["groups"]}

    assert by_user() == {"Ada": (2, 0.4), "Bo\nx: 9 runs": (1, 0.2), "": (1, 0.2)}
    lines = command("cost", "--by", "user", "--path", str(path)).stdout.splitlines()
    assert [line.rpartition(":")[0] for line in lines] == ["Ada", "(unnamed)", "Bo x: 9 runs"]
    assert anyio.run(lambda: agent.forget(user="Ada")) == 0
    assert by_user() == {"Bo\nx: 9 runs": (1, 0.2), "": (3, 0.6)}


def test_since_a_date_that_is_to_come_there_is_nothing(account: Path) -> None:
    shown = command("cost", "--since", "2999-01-01", "--by", "day", "--path", str(account))
    assert (shown.exit_code, shown.stdout) == (0, "")
    wrong = command("cost", "--since", "soon", "--path", str(account))
    assert wrong.exit_code == 2
    assert "expected a date such as 2026-01-31" in " ".join(wrong.stderr.split())


def test_a_file_that_is_no_cost_database_is_bad_usage_and_stays_as_it_is(tmp_path: Path) -> None:
    missing = command("cost", "--path", str(tmp_path / "none.db"))
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "there is no such file" in missing.stderr
    assert not (tmp_path / "none.db").exists()
    as_json = command("cost", "--path", tmp_path / "none.db", "--json")
    assert (as_json.exit_code, as_json.stderr) == (2, "")
    assert json.loads(as_json.stdout)["error"]["tag"] == "InvalidConfig"
    text = tmp_path / "notes.txt"
    text.write_text("this is no database " * 100)
    assert "not a database" in command("cost", "--path", str(text)).stderr
    other = tmp_path / "other.db"
    with sqlite_file(other) as connection:
        connection.execute("CREATE TABLE facts (fact TEXT)")
    before = other.read_bytes()
    refused = command("cost", "--path", str(other))
    assert (refused.exit_code, "database of another program (facts)" in refused.stderr) == (2, True)
    assert other.read_bytes() == before


def test_a_terminal_gets_a_table(account: Path) -> None:
    shown = command("cost", "--path", account, stdout=Terminal(), COLUMNS="100").stdout
    assert "\x1b[" in shown
    lines = [printable(line).split() for line in shown.splitlines()]
    assert lines[0][-6:] == ["tokens", "out", "US", "dollars", "unpriced", "calls"]
    assert lines[1] == ["large/1", "1", "10", "20", "2.0000"]


def test_budgets_and_verification_are_told_in_a_line() -> None:
    stamp = (RunId("r"), TaskId("t"), 1, START)
    warned = describe(BudgetWarning(*stamp, period="day", limit_usd=5.0, spent_usd=4.0, share=0.8))
    assert warned == Line("budget", "80% of the day's $5.00 is used: $4.0000")
    failed = ServiceFailed("The file is locked.", "budget", "settle")
    unsettled = describe(BudgetNotSettled(*stamp, spent_usd=0.1, reserved_usd=0.5, error=failed))
    assert unsettled == Line("failure", "budget: The file is locked. The reserved amount stays counted.")
    acted = describe(VerificationActed(*stamp, action="retry", detail="confidence 0.20"))
    assert acted == Line("verify", "retry: confidence 0.20")


def test_the_json_of_a_run_has_the_report(tmp_path: Path) -> None:
    described = tmp_path / "agent.toml"
    described.write_text('tools = ["calculator"]\n[reasoning]\n[verification]\n')
    run = command("run", "What is 17 * 23?", "--config", str(described), "--json")
    report = json.loads(run.stdout)["verification"]
    assert (report["verified"], report["receipt"]["tools"]) == (True, ["calculator"])
    assert run.stderr == ""
