"""Runs in a database that could not be written to another store as they ended."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reactive_agents import ReactiveAgent, ReactiveAgents
from reactive_agents.testing import ScriptedLLM, say
from tests.support.postgres import Server
from tests.support.sqlite_files import sqlite_file

pytestmark = pytest.mark.anyio


async def test_what_a_run_owes_is_found_written_once_and_kept_until_then(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place, folder = server.new(), tmp_path_factory.mktemp("files")
    cost = folder / "cost.db"
    cost.write_text("This is no database.")

    def described() -> ReactiveAgent:
        one = ReactiveAgents.create().with_llm(ScriptedLLM(say("Done."))).with_cost(cost)
        return one.with_sessions(place).with_durability(place, recover=False).build()

    async with described() as first:
        await first.run("Do it.", run_id="r", session="s")
        assert (await first.runs.find("r")).owes == ("cost",)
        assert await first.runs.prune(timedelta(0)) == 0
        await first.runs.recover()
        assert (await first.runs.find("r")).owes == ("cost",)
    cost.unlink()
    async with described() as later:
        await later.run("Do more.", run_id="r2", session="s")  # settles the one before
        assert (await later.runs.find("r")).owes == ()
        assert await later.runs.recover() == {}
        assert await later.runs.prune(timedelta(0)) == 2
    with sqlite_file(cost) as file:
        assert file.execute("SELECT run_id FROM spending_runs").fetchall() == [("r",), ("r2",)]
