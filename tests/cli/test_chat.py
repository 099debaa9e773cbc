"""The subcommands ``chat`` and ``sessions``."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from reactive_agents import ReactiveAgents
from reactive_agents.cli.chat import chat
from reactive_agents.cli.run import DescribedAgent
from tests.support.command_line import ENVIRONMENT, command

ONE = ("chat", "--session", "one", "--tools", "calculator")


def test_a_conversation_goes_on_in_the_next_process(tmp_path: Path) -> None:
    file = tmp_path / "new" / "sessions.db"
    first = command(*ONE, "--sessions", file, stdin="What is 17 * 23?\n")
    assert (first.exit_code, first.stdout) == (0, "17 * 23 = 391\n")
    assert "Session one." in first.stderr
    assert "tool      calculator succeeded" in first.stderr
    assert "phase" not in first.stderr
    second = command(*ONE, "--sessions", file, "-q", stdin="/history\n")
    assert second.stdout == ""
    assert "User: What is 17 * 23?\n" in second.stderr
    assert "Assistant: 17 * 23 = 391\n" in second.stderr


def test_conversations_are_kept_in_the_state_directory_by_default(tmp_path: Path) -> None:
    command(*ONE, stdin="What is 2 + 2?\n", XDG_STATE_HOME=str(tmp_path))
    assert (tmp_path / "reactive-agents" / "sessions.db").exists()
    listed = command("sessions", "list", XDG_STATE_HOME=str(tmp_path))
    assert listed.exit_code == 0
    assert listed.stdout.split("\t")[0] == "one"


def test_a_message_of_several_lines_stands_between_three_quotes(tmp_path: Path) -> None:
    text = '"""\nWhat is\n2 + 2?\n"""\n/history\n'
    shown = command(*ONE, "--sessions", tmp_path / "s.db", stdin=text)
    assert "User: What is\n  2 + 2?\n" in shown.stderr


def test_commands_switch_fork_name_and_delete_conversations(tmp_path: Path) -> None:
    lines = [
        "What is 2 + 2?",
        "/title Sums",
        "/fork two",
        "What is 3 + 3?",
        "/sessions",
        "/switch one",
        "/delete",
        "/delete",
        "/fork",
        "/nothing",
        "/help",
        "/quit",
        "What is 4 + 4?",
    ]
    file = tmp_path / "s.db"
    shown = command(*ONE, "--sessions", file, stdin="\n".join(lines))
    assert shown.stdout == "2 + 2 = 4\n3 + 3 = 6\n"
    assert "* two" in shown.stderr
    assert "  one" in shown.stderr
    assert "error: session" in shown.stderr
    assert "/fork: expected a name after it." in shown.stderr
    assert "There is no /nothing." in shown.stderr
    assert "/switch NAME" in shown.stderr
    (left,) = json.loads(command("sessions", "list", "--sessions", file, "--json").stdout)
    assert (left["session"], left["title"], left["turns"]) == ("two", "Sums", 2)


def test_a_session_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    command(*ONE, "--sessions", file, "--user", "ada", stdin="What is 2 + 2?\n")
    refused = command(*ONE, "--sessions", file, "--user", "eve", stdin="What is 3 + 3?\n")
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert "it belongs to another user" in refused.stderr


def test_sessions_are_shown_and_deleted(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    command(*ONE, "--sessions", file, stdin="What is 2 + 2?\n")
    assert "Assistant: 2 + 2 = 4" in command("sessions", "show", "one", "--sessions", file).stdout
    messages = json.loads(command("sessions", "show", "one", "--sessions", file, "--json").stdout)
    assert messages[0]["content"] == "What is 2 + 2?"
    assert json.loads(command("sessions", "show", "one", "--state", "--sessions", file).stdout) == {}
    assert command("sessions", "delete", "one", "--sessions", file).stdout == "Deleted one.\n"
    gone = command("sessions", "show", "one", "--sessions", file, "--json")
    assert gone.exit_code == 1
    assert json.loads(gone.stdout)["error"]["tag"] == "SessionRefused"


@pytest.mark.parametrize("arguments", [("list",), ("show", "a"), ("delete", "a")])
def test_a_missing_file_is_named_and_not_made(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / "none.db"
    shown = command("sessions", *arguments, "--sessions", file)
    assert shown.exit_code == 2
    assert "none.db', expected a file of conversations that exists." in shown.stderr
    assert not file.exists()


@pytest.mark.parametrize("arguments", [("delete", "a"), ("prune", "--older-than", "1")])
def test_no_conversations_are_added_to_another_file(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / "log.db"
    ReactiveAgents.create().with_model("offline").with_run_log(file).build().run_sync("Hello.")
    before = file.read_bytes()
    done = command("sessions", *arguments, "--sessions", file)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: --sessions: got {str(file)!r}, expected a file of conversations that exists.\n"
    )
    assert file.read_bytes() == before


@pytest.mark.parametrize("arguments", [("list",), ("show", "a")])
def test_reading_commands_do_not_write_to_a_file(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / "s.db"
    file.touch()
    shown = command("sessions", *arguments, "--sessions", file)
    assert shown.exit_code == 1
    assert "an empty file" in shown.stderr
    assert [(each.name, each.stat().st_size) for each in tmp_path.iterdir()] == [("s.db", 0)]


def test_an_interrupt_of_a_command_does_not_end_the_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["What is 2 + 2?", "/history", "What is 3 + 3?"])

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    def read(_: str = "") -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", read)
    monkeypatch.setattr("reactive_agents.cli.chat.conversation_lines", interrupted)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(typer.Exit) as ended:
        chat(DescribedAgent(tools="calculator"), quiet=True, session="one", sessions=str(tmp_path / "s.db"))
    assert ended.value.exit_code == 0
    assert capsys.readouterr().out == "2 + 2 = 4\n3 + 3 = 6\n"


@pytest.mark.system
def test_an_interrupt_stops_the_answer_and_keeps_the_conversation(tmp_path: Path) -> None:
    (tmp_path / "slow_tools.py").write_text(
        "import sys, time\n"
        "def calculator(expression: str) -> str:\n"
        "    '''Calculate an expression.'''\n"
        "    if '9' in expression:\n"
        "        print('waiting', file=sys.stderr, flush=True)\n"
        "        time.sleep(600)\n"
        "    return str(eval(expression))\n"
    )
    arguments = ["chat", "-q", "--session", "one", "--sessions", str(tmp_path / "s.db")]
    with subprocess.Popen(
        [sys.executable, "-m", "reactive_agents", *arguments, "--tools", "slow_tools:calculator"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**ENVIRONMENT, "PYTHONPATH": f"{Path.cwd()}:{tmp_path}"},
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write("What is 2 + 2?\nWhat is 9 + 9?\n")
        process.stdin.flush()
        while "waiting" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate("What is 3 + 3?\n")
    assert printed.splitlines() == ["2 + 2 = 4", "3 + 3 = 6"]
    said = command("sessions", "show", "one", "--sessions", tmp_path / "s.db").stdout
    assert "2 + 2" in said
    assert "9 + 9" not in said
