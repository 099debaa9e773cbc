"""Runs killed beside writes to their stores: ``python -m tests.support.owed_crashes FOLDER EVERY``.

A boundary is before and after each call of the record and of a store. In the case ``kept`` the stores can be
written to. In ``owed`` their disk is full as the run ends, and empty for the process after the kill. In
``settled`` the run owes, and the process that writes what it owes is killed. A last process goes on; each
store has to have what it has of a run that was not killed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
from dependency_injector.providers import Object
from returns.maybe import Some

from reactive_agents import ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters.run_record import SqliteRunRecord
from reactive_agents.adapters.system import SystemClock
from reactive_agents.effects import Effect, attempt, effect
from reactive_agents.testing import ScriptedLLM, answer, call
from tests.support.durable_crashes import Boundaries
from tests.support.sqlite_files import audited, sqlite_file

CASES = ("kept", "owed", "settled")
TABLES = {
    "sessions": ("conversation_turns",),
    "cost": ("spending_runs", "spending_models"),
    "memory": ("memories", "sessions"),
    "audit": ("entries",),
}
"""The tables of each store, in a file of its own."""
_METHODS = ("end", "record", "flush", "snapshot", "append", "claim", "owe")


class AtBoundaries:
    """A service with a boundary on each side of the calls that write."""

    def __init__(self, service: Any, boundary: Boundaries) -> None:
        self._service, self._boundary = service, boundary

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._service, name)
        if name not in _METHODS:
            return found

        @effect
        async def called(*args: Any, **kwargs: Any) -> Any:
            self._boundary()
            done: Effect[Any, Any] = found(*args, **kwargs)
            outcome = await attempt(done)
            self._boundary()
            return outcome

        return called


def clerk(folder: Path, boundary: Boundaries, *, fills: bool) -> ReactiveAgent:
    """Return an agent with all stores in files; ``fills``: whether its tool fills their disk."""

    @tool(idempotent=True)
    def pay() -> str:
        """Make a payment."""
        if fills:
            set_full(folder, is_full=True)
        return "paid"

    # a run that goes on asks for the rest alone, by the number of its messages
    llm = ScriptedLLM(*[lambda request: call("pay") if len(request.messages) < 3 else answer("Paid.")] * 2)
    described = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools(pay)
    described = described.with_sessions(folder / "sessions.db").with_cost(folder / "cost.db")
    described = described.with_memory(folder / "memory.db").with_audit(folder / "audit.db")
    agent = described.with_durability(folder / "runs.db", recover=False).build()
    memory, governance = agent.container.memory, agent.container.governance
    record = SqliteRunRecord(folder / "runs.db", clock=SystemClock())
    memory.record.override(Object(AtBoundaries(record, boundary)))
    for provider in (memory.memory, memory.sessions, governance.cost_tracker, governance.audit):
        provider.override(Object(Some(AtBoundaries(provider().unwrap(), boundary))))
    return agent


def set_full(folder: Path, *, is_full: bool) -> None:
    """Let nothing be added to the stores, or everything."""
    for name, tables in TABLES.items():
        with sqlite_file(folder / f"{name}.db") as file:
            for table in tables:
                file.execute(
                    f"CREATE TRIGGER IF NOT EXISTS full_{table} BEFORE INSERT ON {table} BEGIN"
                    " SELECT RAISE(ABORT, 'database or disk is full'); END"
                    if is_full
                    else f"DROP TRIGGER IF EXISTS full_{table}"
                )


def rows(folder: Path) -> dict[str, Any]:
    """Return what the stores have of the run."""
    found: dict[str, Any] = {"actions": audited(folder / "audit.db")}
    for name, tables in TABLES.items():
        with sqlite_file(folder / f"{name}.db") as file:
            for table in tables:
                (found[f"{name}.{table}"],) = file.execute(f"SELECT count(*) FROM {table}").fetchone()
    with sqlite_file(folder / "memory.db") as file:
        found["executions"] = file.execute("SELECT kind, executions FROM memories ORDER BY kind").fetchall()
    with sqlite_file(folder / "runs.db") as file:
        found["runs"] = file.execute("SELECT status, wanted, holder FROM runs").fetchall()
    return found


def forked(folder: Path, kill_at: int | None, *, fills: bool = False) -> int:
    """Run in a process of its own; return the number of boundaries, or 0 when it was killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            boundary = Boundaries(kill_at)
            agent = clerk(folder, boundary, fills=fills)

            async def run() -> None:
                result = await agent.run("Pay.", run_id="order-1", session="s", user="ann")
                assert result.output == "Paid.", result

            anyio.run(run)
            os.write(writing, str(boundary.passed).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading) as file:
        passed = file.read()
    _, ended = os.waitpid(child, 0)
    assert os.WIFSIGNALED(ended) or os.WEXITSTATUS(ended) == 0, f"the run in {folder} failed"
    return 0 if os.WIFSIGNALED(ended) else int(passed)


def made_stores(folder: Path) -> None:
    """Make the files of the stores, so that each can be full."""
    folder.mkdir()
    boundary = Boundaries(None)

    async def make() -> None:
        agent = clerk(folder, boundary, fills=False)
        await agent.forget(user="nobody")
        await attempt(agent.container.governance.audit().unwrap().read())
        await agent.aclose()

    anyio.run(make)


def main(folder: Path, every: int) -> None:
    """Kill at boundaries of each case; print how many there were."""
    whole = folder / "whole"
    made_stores(whole)
    boundaries = {"kept": forked(whole, None)}
    expected = rows(whole)
    assert expected["actions"] == ["start", "run"], expected
    assert expected["runs"] == [("completed", "", "")], expected
    full = folder / "full"
    made_stores(full)
    boundaries["owed"] = forked(full, None, fills=True)
    assert rows(full)["runs"][0][1].startswith("owes:"), rows(full)
    set_full(full, is_full=False)
    boundaries["settled"] = forked(full, None)
    assert rows(full) == expected, (rows(full), expected)
    for case in CASES:
        kills = 0
        for kill_at in range(1, boundaries[case] + 1, every):
            place = folder / f"{case}-{kill_at}"
            made_stores(place)
            if case == "settled":
                forked(place, None, fills=True)
                set_full(place, is_full=False)
            kills += forked(place, kill_at, fills=case == "owed") == 0
            set_full(place, is_full=False)
            forked(place, None)
            forked(place, None)
            assert rows(place) == expected, (case, kill_at, rows(place), expected)
        print(json.dumps({"case": case, "kills": kills, "boundaries": boundaries[case]}), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
