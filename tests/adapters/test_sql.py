"""Places of stores: which are addresses, and what of an address may be shown."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from returns.result import Failure

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.adapters import sql
from reactive_agents.adapters.governance.budget import SqliteBudget
from reactive_agents.adapters.memory.database import MEMORY
from reactive_agents.adapters.sql import is_postgres, shown_place
from reactive_agents.adapters.sqlite import SqliteFile
from reactive_agents.core.errors import InvalidConfig, MemoryUnavailable, ServiceFailed
from reactive_agents.core.ids import RunId
from reactive_agents.effects import attempt
from reactive_agents.testing.core import FakeClock


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://agents:hush@db.example:5432/agents", "postgresql://db.example:5432/agents"),
        ("postgres://hush@db.example/agents?sslmode=require", "postgresql://db.example/agents"),
        ("postgresql:///agents?host=/run/pg&password=hush", "postgresql:///agents?host=/run/pg"),
        ("postgresql://agents:hush?hush#hush@db.example/agents", "postgresql://db.example/agents"),
        # those that are not well formed may have a part of the password anywhere
        ("postgresql://agents:hu@hush@db.example/agents", "postgresql://…"),
        ("postgresql://agents:hu/hush@db.example/agents", "postgresql://…"),
        ("postgresql://agents:hu@hush/x?hush&hush@db.example/agents", "postgresql://…"),
        ("postgresql://agents:hush/hu?sh@db.example/agents", "postgresql://…"),
        ("postgresql://db.example/agents?user=me@tenant", "postgresql://db.example/agents"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    assert is_postgres(address)
    assert shown_place(address) == shown
    assert "hush" not in shown_place(address)


def test_no_file_is_made_of_an_address() -> None:
    with pytest.raises(ValueError, match="got 'postgresql://h/d', expected the path of a file"):
        SqliteFile("postgresql://u:hush@h/d", MEMORY, MemoryUnavailable)


def test_a_file_is_shown_as_it_is() -> None:
    assert not is_postgres("agent.db")
    assert not is_postgres(Path("postgresql:/host"))
    assert shown_place(Path("agent.db")) == "agent.db"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "address",
    [
        "postgresql://agents:hush@127.0.0.1:1/agents",
        "postgresql://agents:hu/hush@127.0.0.1:1/agents",
        "postgresql://agents:hu%zzhush@127.0.0.1/agents",
        "postgresql://agents:hu@hush@127.0.0.1:1/agents",
    ],
)
async def test_a_server_that_is_not_there_is_a_failure_without_the_password(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    budget = SqliteBudget(address, daily_usd=1.0, monthly_usd=None, clock=FakeClock())
    with caplog.at_level(logging.WARNING):
        failed = await attempt(budget.reserve(RunId("r"), 0.5))
    assert isinstance(failed, Failure)
    error = failed.failure()
    assert isinstance(error, ServiceFailed)
    assert "in the database" in error.message
    assert "hush" not in error.message + caplog.text
    assert "hush" not in budget.place
    ours = [record for record in caplog.records if record.module == "postgres"]  # not those of other threads
    assert [record.levelname for record in ours] == ["WARNING"]


def test_no_configuration_shows_a_password() -> None:
    address = "postgresql://agents:hush@db.example/agents"
    builder = ReactiveAgents.create().with_memory(address).with_sessions(address).with_audit(address)
    config = builder.with_cost(address).with_durability(address).with_run_log(address).config
    assert repr(config).count("postgresql://db.example/agents") == 6
    assert "hush" not in repr(config)
    assert config.memory is not None
    assert config.memory.path == address


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (
            lambda made: made.with_response_cache("postgresql://h/d"),
            "got the address of a database, expected a path",
        ),
        (lambda made: made.with_memory(Path("postgresql://h/d")), "expected an address as a str"),
        (
            lambda made: made.with_durability("postgresql+psycopg://a:b@h/d"),
            "got postgresql.psycopg://…, exp",
        ),
        (lambda made: made.with_cost("mysql://h/d"), "a path, or an address that begins with postgresql://"),
    ],
    ids=["file alone", "path", "address of another library", "other database"],
)
def test_an_address_is_refused_where_a_file_is_meant(
    build: Callable[[ReactiveAgents], ReactiveAgents], problem: str
) -> None:
    with pytest.raises(AgentError, match=problem):
        build(ReactiveAgents.create()).build()


PLACES: dict[str, Callable[[ReactiveAgents, str], ReactiveAgents]] = {
    "memory": ReactiveAgents.with_memory,
    "sessions": ReactiveAgents.with_sessions,
    "cost": ReactiveAgents.with_cost,
    "audit": ReactiveAgents.with_audit,
    "durability": ReactiveAgents.with_durability,
    "run_log": ReactiveAgents.with_run_log,
}


@pytest.mark.parametrize("service", PLACES)
def test_an_agent_with_a_database_is_not_built_without_its_library(
    service: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    builder = PLACES[service](ReactiveAgents.create().with_model("offline"), "postgresql://h/d")
    with pytest.raises(AgentError) as refused:
        builder.build()
    assert isinstance(refused.value.error, InvalidConfig)
    assert refused.value.error.option == f"{service}.path"
    assert "pip install 'reactive-agents[durable]'" in str(refused.value)


@pytest.mark.anyio
async def test_a_store_in_a_database_fails_as_a_value_without_its_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    database = sql.open_database("postgresql://h/d", MEMORY, MemoryUnavailable)
    read = await database.read("look", lambda transaction: None)
    assert "pip install 'reactive-agents[durable]'" in str(read.failure())


def test_no_statement_numbers_its_values() -> None:
    # Python 3.12.0 to 3.12.3 take "?1" for a name, and warn of each statement
    adapters = Path(sql.__file__).parent.rglob("*.py")
    assert [each.name for each in adapters if re.search(r"\?\d", each.read_text(encoding="utf-8"))] == []


def test_a_clock_is_believed_from_the_next_day_on() -> None:
    noon = sql.DAY_US // 2
    assert sql.believed_us(100 * sql.DAY_US + noon, None) == 100 * sql.DAY_US + noon
    assert sql.believed_us(100 * sql.DAY_US + noon, 99 * sql.DAY_US) == 100 * sql.DAY_US + noon
    assert sql.believed_us(100 * sql.DAY_US + noon, 9 * sql.DAY_US + noon) == 11 * sql.DAY_US - 1
    assert sql.believed_us(8 * sql.DAY_US, 9 * sql.DAY_US) == 8 * sql.DAY_US
