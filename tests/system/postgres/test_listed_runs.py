"""Runs of a record in Postgres, as the command lists them."""

from __future__ import annotations

import json
import time

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.postgres import SERVER_TIME
from reactive_agents.adapters.run_record import states_in
from reactive_agents.testing import ScriptedLLM, say
from tests.support.command_line import command
from tests.support.postgres import Server


def test_the_runs_of_a_record_without_a_run_log_are_listed(place: str) -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("Hello."))).with_durability(place)
    agent.build().run_sync("Greet me.", run_id="one")
    found = json.loads(command("runs", "list", "--runs", place, "--json").stdout)
    assert [(each["run_id"], each["state"]) for each in found] == [("one", "completed")]


def test_a_run_is_under_way_by_the_clock_of_the_server(
    place: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("Hello."))).with_durability(place)
    agent.build().run_sync("Greet me.", run_id="one")
    until_us = f"({SERVER_TIME}) + 20000000"
    held = f"status = 'open', holder = 'a elsewhere 1 1', lease_until_us = {until_us}"
    server.run(place.partition("?")[0].rpartition("/")[2], f"UPDATE reactive_agents.runs SET {held}")
    ahead_ns = time.time_ns() + 90 * 10**9
    monkeypatch.setattr("reactive_agents.adapters.run_record.time.time_ns", lambda: ahead_ns)
    assert states_in(place, ["one"]).unwrap() == {"one": "running"}
