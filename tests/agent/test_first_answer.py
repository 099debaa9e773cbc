"""What a process imports until the first answer of the offline model."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from reactive_agents import ReactiveAgents

agent = ReactiveAgents.create().with_model("offline").with_reasoning().build()
assert agent.run_sync("What is 17 * 23?").status
heavy = {"litellm", "mcp", "regex", "rich", "sqlite3", "typer", "reactive_agents.persona"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""


def test_the_first_answer_imports_only_what_it_needs() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
