"""Approval of tool calls on the command line: the person at the terminal is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import Completed, Terminal, command

TOOLS = '''
from reactive_agents import tool

@tool(name="calculator", requires_approval=True, risk="high")
def calculator(expression: str) -> int:
    """Work it out."""
    return 391
'''


def run(folder: Path, typed: str | None, *options: str) -> Completed:
    """Run the command; with something typed, standard input is a terminal."""
    (folder / "risky_tools.py").write_text(TOOLS)
    stdin = "" if typed is None else Terminal(typed)
    arguments = ("run", "What is 17 * 23?", "--tools", "risky_tools:calculator", *options)
    return command(*arguments, stdin=stdin, modules=folder)


def test_a_yes_lets_the_call_run(tmp_path: Path) -> None:
    done = run(tmp_path, "y\n")
    assert (done.exit_code, done.stdout) == (0, "17 * 23 = 391\n"), done.stderr
    assert 'Run calculator {"expression": "17 * 23"} (high risk)? [y/N]' in done.stderr
    assert "approval  calculator approved" in done.stderr


@pytest.mark.parametrize("typed", ["n\n", "\n", "maybe\n"])
def test_anything_else_is_a_no(tmp_path: Path, typed: str) -> None:
    done = run(tmp_path, typed)
    assert done.exit_code == 3
    assert "approval  calculator denied" in done.stderr
    assert "not approved" in done.stdout


def test_without_a_terminal_nobody_is_asked_and_the_call_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, None)
    assert done.exit_code == 3
    assert "[y/N]" not in done.stderr
    assert "there is no approver" in done.stdout


def test_a_quiet_run_still_asks(tmp_path: Path) -> None:
    done = run(tmp_path, "yes\n", "--quiet")
    assert (done.exit_code, done.stdout) == (0, "17 * 23 = 391\n")
    assert done.stderr == 'Run calculator {"expression": "17 * 23"} (high risk)? [y/N] '
