"""``reactive-agents cost`` as a process, on the account of real runs."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.core.usage import Usage
from reactive_agents.testing import ScriptedLLM, say
from tests.cli.test_run import command

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


def test_by_model_the_dearest_comes_first(account: Path) -> None:
    shown = command("cost", "--path", str(account))
    assert (shown.returncode, shown.stderr) == (0, "")
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


def test_since_a_date_that_is_to_come_there_is_nothing(account: Path) -> None:
    shown = command("cost", "--since", "2999-01-01", "--by", "day", "--path", str(account))
    assert (shown.returncode, shown.stdout) == (0, "")
    wrong = command("cost", "--since", "soon", "--path", str(account))
    assert wrong.returncode == 2
    assert "expected a date such as 2026-01-31" in " ".join(wrong.stderr.split())


def test_a_file_that_is_no_account_is_bad_usage_and_stays_as_it_is(tmp_path: Path) -> None:
    missing = command("cost", "--path", str(tmp_path / "none.db"))
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "expected the file of an account" in missing.stderr
    assert not (tmp_path / "none.db").exists()
    text = tmp_path / "notes.txt"
    text.write_text("this is no database " * 100)
    assert "not a database" in command("cost", "--path", str(text)).stderr
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE facts (fact TEXT)")
    connection.close()
    before = other.read_bytes()
    refused = command("cost", "--path", str(other))
    assert (refused.returncode, "is no account of spending" in refused.stderr) == (2, True)
    assert other.read_bytes() == before
