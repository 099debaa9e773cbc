"""Runs of a record in Postgres, as the command lists them."""

from __future__ import annotations

import json

from reactive_agents import ReactiveAgents
from reactive_agents.testing import ScriptedLLM, say
from tests.support.command_line import command


def test_the_runs_of_a_record_without_a_run_log_are_listed(place: str) -> None:
    agent = ReactiveAgents.create().with_llm(ScriptedLLM(say("Hello."))).with_durability(place)
    agent.build().run_sync("Greet me.", run_id="one")
    found = json.loads(command("runs", "list", "--runs", place, "--json").stdout)
    assert [(each["run_id"], each["state"]) for each in found] == [("one", "completed")]
