"""Approval of tool calls on the command line: the person at the terminal is asked."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.test_run import ENVIRONMENT

TOOLS = '''
from reactive_agents import tool

@tool(name="calculator", requires_approval=True, risk="high")
def calculator(expression: str) -> int:
    """Work it out."""
    return 391
'''
COMMAND = [sys.executable, "-m", "reactive_agents", "run", "What is 17 * 23?"]
COMMAND += ["--tools", "risky_tools:calculator"]


def run(folder: Path, typed: str | None, *options: str) -> tuple[int, str, str]:
    """Exit code and outputs; with something typed, standard input is a terminal."""
    (folder / "risky_tools.py").write_text(TOOLS)
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.DEVNULL if typed is None else child,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": str(folder)},
    )
    os.close(child)
    if typed is not None:
        os.write(parent, typed.encode())
    output, errors = process.communicate(timeout=60)
    os.close(parent)
    return process.returncode, output, errors


def test_a_yes_lets_the_call_run(tmp_path: Path) -> None:
    code, output, errors = run(tmp_path, "y\n")
    assert (code, output) == (0, "17 * 23 = 391\n"), errors
    assert 'Run calculator {"expression": "17 * 23"} (high risk)? [y/N]' in errors
    assert "approval  calculator approved" in errors


@pytest.mark.parametrize("typed", ["n\n", "\n", "maybe\n"])
def test_anything_else_is_a_no(tmp_path: Path, typed: str) -> None:
    code, output, errors = run(tmp_path, typed)
    assert code == 0
    assert "approval  calculator denied" in errors
    assert "not approved" in output


def test_without_a_terminal_nobody_is_asked_and_the_call_is_refused(tmp_path: Path) -> None:
    code, output, errors = run(tmp_path, None)
    assert code == 0
    assert "[y/N]" not in errors
    assert "nobody is there to give it" in output


def test_a_quiet_run_still_asks(tmp_path: Path) -> None:
    code, output, errors = run(tmp_path, "yes\n", "--quiet")
    assert (code, output) == (0, "17 * 23 = 391\n")
    assert errors == 'Run calculator {"expression": "17 * 23"} (high risk)? [y/N] '
