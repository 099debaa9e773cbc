"""``reactive-agents audit``."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import anyio
import pytest

from reactive_agents.adapters.governance.audit_log import SqliteAuditLog, public_key_of
from reactive_agents.core.governance import AuditEntry
from reactive_agents.core.ids import AgentId, CallId, RunId, TaskId
from reactive_agents.effects import attempt
from reactive_agents.testing.core import START, FakeClock
from tests.support.command_line import command

KEY = bytes(range(32))


def entry(run: str, action: str = "run", **fields: object) -> AuditEntry:
    status = "completed" if action == "run" else None
    return AuditEntry(RunId(run), TaskId("t"), AgentId("clerk"), action, status, "It went.", START, **fields)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signed log of three entries."""
    path = tmp_path_factory.mktemp("audit") / "audit.db"

    async def write() -> None:
        log = SqliteAuditLog(path, clock=FakeClock(), signing_key=KEY)
        approval = entry("r1", "approval", subject="shell", call_id=CallId("call-7"))
        for each in (approval, entry("r1"), entry("r2")):
            (await attempt(log.append(each))).unwrap()
        await log.aclose()

    anyio.run(write)
    return path


def broken_copy(path: Path, directory: Path) -> Path:
    copy = directory / "broken.db"
    copy.write_bytes(path.read_bytes())
    connection = sqlite3.connect(copy, isolation_level=None)
    connection.execute("DROP TRIGGER entries_stay")
    connection.execute("UPDATE entries SET body = replace(body, 'shell', 'spell') WHERE sequence = 1")
    connection.close()
    return copy


def test_a_valid_log_and_its_head(path: Path) -> None:
    public = public_key_of(KEY).unwrap().hex()
    told = command("audit", "verify", str(path), "--public-key", public)
    assert told.exit_code == 0, told.stderr
    assert told.stdout.startswith("The log is valid: 3 entries, the signature is valid. Its head: 3:")
    head = told.stdout.split()[-1]
    document = json.loads(command("audit", "verify", str(path), "--head", head, "--json").stdout)
    assert document == {
        "valid": True,
        "entries": 3,
        "pruned": 0,
        "head": head,
        "signed": False,
        "error": None,
    }
    other = command("audit", "verify", str(path), "--head", f"4:{'0' * 64}")
    assert other.exit_code == 1
    assert "Entry 4 of the audit log is invalid" in other.stderr


def test_a_broken_log_names_its_first_broken_entry(path: Path, tmp_path: Path) -> None:
    broken = str(broken_copy(path, tmp_path))
    told = command("audit", "verify", broken)
    assert (told.exit_code, told.stdout) == (1, "")
    assert told.stderr == "error: Entry 1 of the audit log is invalid: its hash does not fit its content.\n"
    as_json = command("audit", "verify", broken, "--json")
    assert as_json.exit_code == 1
    document = json.loads(as_json.stdout)
    assert (document["valid"], document["error"]["sequence"]) == (False, 1)
    assert "Entry 1" in document["error"]["message"]


def test_the_entries_in_lines_and_as_json(path: Path) -> None:
    lines = command("audit", "show", str(path)).stdout.splitlines()
    assert lines[0] == ("1  2026-01-01T00:00:00+00:00  clerk  r1  approval: shell, call call-7, It went.")
    assert lines[1].endswith("r1  run: completed, It went.")
    assert len(lines) == 3
    of_one_run = json.loads(command("audit", "show", str(path), "--run", "r2", "--json").stdout)
    assert [(each["sequence"], each["entry"]["run_id"]) for each in of_one_run] == [(3, "r2")]


def test_runs_that_began_and_have_no_end_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "audit.db"

    async def write() -> None:
        log = SqliteAuditLog(path, clock=FakeClock())
        for each in (entry("r1", "start"), entry("r2", "start"), entry("r3"), entry("r2")):
            (await attempt(log.append(each))).unwrap()
        await log.aclose()

    anyio.run(write)
    told = command("audit", "show", str(path), "--unfinished")
    assert [line.split()[:4] for line in told.stdout.splitlines()] == [
        ["1", "2026-01-01T00:00:00+00:00", "clerk", "r1"]
    ]
    of_one_run = command("audit", "show", str(path), "--unfinished", "--run", "r2", "--json")
    assert json.loads(of_one_run.stdout) == []


@pytest.mark.parametrize("verb", ["verify", "show"])
def test_a_file_that_is_no_log_is_reported(verb: str, tmp_path: Path) -> None:
    missing = command("audit", verb, str(tmp_path / "none.db"))
    assert missing.exit_code == 2
    text = tmp_path / "text.db"
    text.write_text("this is no database " * 100)
    told = command("audit", verb, str(text))
    assert told.exit_code == 1
    assert "text.db" in told.stderr
    as_json = command("audit", verb, text, "--json")
    assert (as_json.exit_code, as_json.stderr) == (1, "")
    assert "text.db" in json.dumps(json.loads(as_json.stdout)["error"])
    assert not (tmp_path / "none.db").exists()


def test_an_empty_file_is_no_log(tmp_path: Path) -> None:
    empty = tmp_path / "empty.db"
    empty.touch()
    public = public_key_of(KEY).unwrap().hex()
    for verb, *options in (("verify",), ("verify", "--public-key", public), ("verify", "--json"), ("show",)):
        told = command("audit", verb, str(empty), *options)
        assert told.exit_code == 1
        assert "is not an audit log" in told.stdout + told.stderr
    assert empty.stat().st_size == 0


def test_wrong_options_are_named(path: Path) -> None:
    for option, value in (("--public-key", "abc"), ("--head", "3")):
        told = command("audit", "verify", str(path), option, value)
        assert told.exit_code == 2
        assert repr(value) in told.stderr
