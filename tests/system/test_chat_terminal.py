"""``reactive-agents chat`` on a terminal: lines are edited, recalled and completed; Ctrl-C and Ctrl-D."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import sys
import termios
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.command_line import ENVIRONMENT, command

PATIENCE_S = 300.0
SLOW_TOOLS = """
import sys, time
def calculator(expression: str) -> str:
    '''Calculate an expression.'''
    if '9' in expression:
        print('waiting', file=sys.stderr, flush=True)
        time.sleep(600)
    return str(eval(expression))
"""
UP, FIRST, TAB, ENTER, CLEAR, CTRL_C, CTRL_D = "\x1b[A", "\x1b<", "\t", "\r", "\x15", "\x03", "\x04"


class Terminal:
    """A process whose standard streams are a terminal of so many columns."""

    def __init__(self, *arguments: object, directory: Path, columns: int = 80) -> None:
        self._rest = ""
        self.process, self._file = pty.fork()
        if self.process == 0:
            os.chdir(directory)
            environment = {**ENVIRONMENT, "TERM": "xterm", "PYTHONPATH": f"{Path(__file__).parents[2]}:."}
            module = [sys.executable, "-m", "reactive_agents", *map(str, arguments)]
            os.execve(sys.executable, module, environment)
        self.resize(columns)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def resize(self, columns: int) -> None:
        """Have another window size."""
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def type(self, text: str, until: str) -> str:
        """Type a text, wait until another one is shown, and return what was shown before that."""
        os.write(self._file, text.encode())
        shown = self._rest
        while until not in shown:
            readable, _, _ = select.select([self._file], [], [], PATIENCE_S)
            read = os.read(self._file, 65_536) if readable else b""
            assert read, f"{until!r} is not shown after {text[:80]!r}: {shown[-2_000:]!r}"
            shown += read.decode(errors="replace")
        before, _, self._rest = shown.partition(until)
        return before

    def exit_code(self) -> int:
        """Return the exit code of the process that has ended."""
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def test_a_conversation_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "slow_tools.py").write_text(SLOW_TOOLS)
    arguments = ("chat", "--session", "one", "--sessions", "s.db", "--tools", "slow_tools:calculator")
    with Terminal(*arguments, directory=tmp_path) as terminal:
        terminal.type("", "> ")
        terminal.type(f"What is 2 + 2?{ENTER}", "2 + 2 = 4\r\n> ")
        terminal.type(UP, "What is 2 + 2?")
        terminal.type(f"{CLEAR}/hi{TAB}", "/history")
        terminal.type(f"{CLEAR}/switch o{TAB}", "/switch one")
        terminal.type(f'{CLEAR}"""{ENTER}What is{ENTER}3 + 3?{ENTER}', "... ")
        terminal.type(f'"""{ENTER}', "3 + 3 = 6\r\n> ")
        terminal.type(f"What is 9 + 9?{ENTER}", "waiting")
        terminal.type(CTRL_C, "Stopped.\r\n> ")
        terminal.resize(30)
        # longer than a line that a terminal without editing takes
        terminal.type(f"What is 4 + 4?{' ' * 6_000}Tell me.{ENTER}", "complete")
        terminal.type("", "\n> ")
        os.write(terminal._file, CTRL_D.encode())
        assert terminal.exit_code() == 0
    said = command("sessions", "show", "one", "--sessions", tmp_path / "s.db", "--json").stdout
    assert "What is\\n3 + 3?" in said
    assert "Tell me." in said
    assert "9 + 9" not in said
    with Terminal(*arguments, directory=tmp_path) as terminal:
        terminal.type("", "> ")
        terminal.type(FIRST, "What is 2 + 2?")  # of the conversation that goes on
        terminal.type(f"{CLEAR}/quit{ENTER}", "/quit")
        assert terminal.exit_code() == 0


RISKY_TOOLS = """
from reactive_agents import tool

@tool(requires_approval=True, risk="high")
def calculator(expression: str) -> str:
    '''Calculate an expression.'''
    return str(eval(expression))
"""
ASKED = "(high risk)? [y/N] "


def test_what_was_typed_before_a_question_is_no_approval(tmp_path: Path) -> None:
    (tmp_path / "risky_tools.py").write_text(RISKY_TOOLS)
    arguments = ("run", "What is 2 + 2?", "--tools", "risky_tools:calculator")
    with Terminal(*arguments, directory=tmp_path) as terminal:
        terminal.type("y\n", ASKED)
        terminal.type("\n", "2 + 2: not calculated.")


def test_a_stopped_chat_asks_no_further_question(tmp_path: Path) -> None:
    (tmp_path / "risky_tools.py").write_text(RISKY_TOOLS)
    arguments = ("chat", "--sessions", "s.db", "--tools", "risky_tools:calculator")
    with Terminal(*arguments, directory=tmp_path) as terminal:
        terminal.type("", "> ")
        terminal.type(f"What is 2 + 2? What is 3 + 4?{ENTER}", ASKED)
        terminal.type(CTRL_C, "Stopped.\r\n> ")
        shown = terminal.type(f"Hello.{ENTER}", "There is nothing to quote")  # the message is taken
        assert ASKED not in shown
        terminal.type("", "\n> ")
        os.write(terminal._file, CTRL_D.encode())
        assert terminal.exit_code() == 0
