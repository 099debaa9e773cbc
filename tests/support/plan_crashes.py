"""Runs a plan in a process that is killed in the middle of its second step.

``python -m tests.support.plan_crashes MEMORY SECOND``, where ``SECOND`` is the tool of that step.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from reactive_agents import ReactiveAgents, tool
from reactive_agents.testing import ScriptedLLM
from tests.support.plans import analysis_step, plan, tool_step


@tool
def note(text: str) -> str:
    """Note something down."""
    return f"noted {text}"


@tool(idempotent=True)
def look() -> str:
    """Look around."""
    return kill()


@tool
def send() -> str:
    """Send a letter."""
    return kill()


def kill() -> str:
    """End the process as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


def main(path: Path, second: str) -> None:
    """One run, which never ends."""
    made = plan(tool_step("note", text="one"), tool_step(second), analysis_step("Write: {{from_step:s1}}"))
    start = ReactiveAgents.create().with_name("clerk").with_llm(ScriptedLLM(made)).with_memory(path)
    start.with_reasoning("plan-execute-reflect").with_tools(note, look, send).build().run_sync("Do the work.")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
