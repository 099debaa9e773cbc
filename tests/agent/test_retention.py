"""What an agent deletes by its age: sessions, usage, and entries of the audit log."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dependency_injector.providers import Object
from returns.maybe import Some

from reactive_agents import AgentError, ReactiveAgent, ReactiveAgents
from reactive_agents.adapters.governance.audit_log import verify
from reactive_agents.core.errors import InvalidConfig, ServiceFailed, ServiceMissing
from reactive_agents.testing import FakeClock, RecordingAuditLog, ScriptedLLM, forever, say
from tests.support.command_line import command

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)


def agent(path: Path, clock: FakeClock | None = None) -> ReactiveAgent:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("Hello."))))
    built = builder.with_sessions(path).with_cost(path).with_audit(path).build()
    if clock is not None:
        built.container.core.clock.override(Object(clock))
    return built


async def test_what_is_older_is_deleted(tmp_path: Path) -> None:
    path, clock = tmp_path / "all.db", FakeClock()
    made = agent(path, clock)
    await made.run("Hello.", session="old", user="ada")
    clock.advance(3 * 86_400)
    await made.run("Hello.", session="new", user="ada")
    assert await made.sessions.prune(2 * DAY) == 1
    assert [each.session for each in await made.sessions.list()] == ["new"]
    assert await made.prune_cost(2 * DAY) == 1
    assert await made.prune_audit(2 * DAY) == 2
    assert verify(path).unwrap().pruned == 2
    assert await made.forget(user="ada") == 1
    assert await made.sessions.list() == ()
    assert verify(path).unwrap().entries == 3
    await made.aclose()


async def test_a_store_that_fails_keeps_no_user_in_the_others(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(forever(say("I see."))))
    builder = builder.with_sessions(tmp_path / "s.db").with_memory(tmp_path / "m.db")
    builder = builder.with_durability(tmp_path / "r.db").with_run_log(tmp_path / "l.db")
    made = builder.with_cost(tmp_path / "c.db").build()
    await made.run("Remember that I live in 12 Elm Street.", session="old", user="ada")
    await made.aclose()
    for name in ("s", "l"):
        (tmp_path / f"{name}.db").rename(tmp_path / f"{name}.away")
        (tmp_path / f"{name}.db").mkdir()  # which is no file
    with pytest.raises(AgentError) as refused:
        await made.forget(user="ada")
    assert isinstance(refused.value.error, ServiceFailed)
    told = str(refused.value)
    assert told.startswith("The user is not forgotten in: sessions (")
    assert ", run log (" in told
    assert ". Forgotten in: record of runs, cost, memory. Call forget again" in told
    await made.aclose()
    for name in ("r", "m"):
        assert b"Elm Street" not in (tmp_path / f"{name}.db").read_bytes()
    for name in ("s", "l"):
        (tmp_path / f"{name}.db").rmdir()
        (tmp_path / f"{name}.away").rename(tmp_path / f"{name}.db")
    assert await made.forget(user="ada") == 2  # the session, and the run of the log
    await made.aclose()
    for name in "srlcm":
        assert b"Elm Street" not in (tmp_path / f"{name}.db").read_bytes()


async def test_a_custom_store_that_raises_keeps_no_user_in_the_others(tmp_path: Path) -> None:
    class Broken:
        def forget(self, user: str) -> int:
            raise OSError("no disk")

    made = agent(tmp_path / "all.db")
    await made.run("Hello.", session="old", user="ada")
    made.container.governance.cost_tracker.override(Object(Some(Broken())))
    with pytest.raises(AgentError, match=r"not forgotten in: cost \(no disk\)\. Forgotten in: sessions\."):
        await made.forget(user="ada")
    assert await made.sessions.list() == ()


@pytest.mark.parametrize("age", [-DAY, 30, timedelta.max])
async def test_a_wrong_age_deletes_nothing(age: Any, tmp_path: Path) -> None:
    made = agent(tmp_path / "all.db")
    await made.run("Hello.", session="old")
    for prune in (made.sessions.prune, made.prune_cost, made.prune_audit):
        with pytest.raises(AgentError) as refused:
            await prune(age)
        assert isinstance(refused.value.error, InvalidConfig)
        assert str(refused.value).startswith("older_than: got ")
    assert len(await made.sessions.list()) == 1


async def test_a_service_that_is_missing_or_cannot_prune_is_named() -> None:
    made = ReactiveAgents.create().with_llm(ScriptedLLM()).build()
    with pytest.raises(AgentError) as missing:
        await made.prune_audit(DAY)
    assert isinstance(missing.value.error, ServiceMissing)
    assert "with_audit adds one" in str(missing.value)
    made.container.governance.audit.override(Object(Some(RecordingAuditLog())))
    with pytest.raises(AgentError) as unable:
        await made.prune_audit(DAY)
    assert isinstance(unable.value.error, ServiceFailed)
    assert "RecordingAuditLog has no method prune" in str(unable.value)


def test_the_commands_delete_the_same(tmp_path: Path) -> None:
    path = tmp_path / "all.db"
    agent(path).run_sync("My name is Rumpelstiltskin.", session="a")
    for group, place, deleted in (
        ("sessions", ("--sessions", path), "1 conversation"),
        ("cost", ("--path", path), "1 run"),
        ("audit", (path,), "2 entries"),
    ):
        kept = command(group, "prune", "--older-than", "1", *place)
        assert (kept.exit_code, kept.stdout.split()[:2]) == (0, ["Deleted", "0"]), kept.stderr
        done = command(group, "prune", "--older-than", "0", *place)
        assert (done.exit_code, done.stdout) == (0, f"Deleted {deleted}.\n"), done.stderr
        again = command(group, "prune", "--older-than", "1", *place, "--json")
        assert '"deleted": 0' in again.stdout
    said = command("audit", "verify", path).stdout
    assert said.startswith("The log is valid: 1 entry, after 2 entries that were pruned. Its head: 3:")
    for file in tmp_path.iterdir():
        assert b"Rumpelstiltskin" not in file.read_bytes(), "deleted data is overwritten"


def test_wrong_commands_delete_nothing(tmp_path: Path) -> None:
    path, other = tmp_path / "all.db", tmp_path / "other.db"
    agent(path).run_sync("Hello.", session="a")
    other.touch()
    for arguments in (
        ("cost", "--path", path, "prune", "--older-than", "0"),
        ("cost", "prune", "--path", path),
        ("cost", "prune", "--path", other, "--older-than", "0"),
        ("sessions", "prune", "--older-than", "-1", "--sessions", path),
        ("sessions", "prune", "--older-than", "0", "--sessions", tmp_path / "none.db"),
    ):
        assert command(*arguments).exit_code == 2, arguments
    assert command("audit", "prune", other, "--older-than", "0").exit_code == 1
    assert other.read_bytes() == b""
    assert command("cost", "--path", path).stdout.startswith("scripted")
    assert command("sessions", "list", "--sessions", path).stdout.startswith("a\t")
