"""``reactive-agents run`` as a process, and the parts of it."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from reactive_agents import ReactiveAgents
from reactive_agents.cli.event_lines import describe, one_line, printable
from reactive_agents.cli.progress_view import LiveView, PlainLines, progress_view
from reactive_agents.testing import EventRecorder, ScriptedLLM, call, say
from tests.support.interrupts import heed_interrupts
from tests.support.openai_server import Answer, OpenAIServer

ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "COVERAGE_PROCESS_START": os.environ.get("COVERAGE_PROCESS_START", ""),
}


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "reactive_agents", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**ENVIRONMENT, **environment},
    )


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    (tmp_path / "moon.md").write_text("# The moon\n\nThe moon is 384400 km away from the earth.\n")
    (tmp_path / "sun.md").write_text("# The sun\n\nThe sun is a star.\n")
    return tmp_path


def test_the_main_job_on_real_files_with_real_tools(documents: Path) -> None:
    run = command(
        "run",
        "How far away is the moon, and what is 17 * 23?",
        "--tools",
        "calculator,file-search,file-read",
        "--workspace",
        str(documents),
    )
    assert run.returncode == 0, run.stderr
    assert "The moon is 384400 km away from the earth." in run.stdout
    assert "moon.md:3" in run.stdout
    assert "391" in run.stdout
    lines = run.stderr.splitlines()
    for phase in ("bootstrap", "strategy-select", "think, act, observe: turn 1", "complete"):
        assert f"phase     {phase}" in lines
    assert any(line.startswith("action    file-search ") for line in lines)
    assert any(line.startswith("model     offline/quotes: ") and "tokens" in line for line in lines)
    assert lines[-1].startswith("done ")
    assert "\x1b" not in run.stdout + run.stderr


def test_quiet_prints_the_answer_alone(documents: Path) -> None:
    run = command("run", "What is 17 * 23?", "--tools", "calculator", "-w", str(documents), "--quiet")
    assert (run.returncode, run.stderr) == (0, "")
    assert "391" in run.stdout


def test_json_is_one_document_and_nothing_else() -> None:
    run = command("run", "What is 17 * 23?", "--tools", "calculator", "--json")
    document = json.loads(run.stdout)
    assert (run.returncode, run.stderr) == (0, "")
    assert (document["status"], document["success"], document["error"]) == ("completed", True, None)
    assert "391" in document["output"]
    assert document["metadata"]["model"] == "offline/quotes"
    assert document["metadata"]["tokens_used"] > 0
    assert [step["type"] for step in document["steps"]][-1] in {"thought", "action"}


def test_a_partial_result_has_its_own_exit_code_and_says_what_is_missing() -> None:
    run = command("run", "What is 17 * 23?", "--tools", "calculator", "--max-iterations", "1", "--json")
    document = json.loads(run.stdout)
    assert (run.returncode, document["status"], document["success"]) == (3, "partial", False)
    assert "Missing" in document["reason"]
    shown = command("run", "What is 17 * 23?", "--tools", "calculator", "-n", "1", "-q")
    assert shown.returncode == 3
    assert shown.stderr.startswith("partial: ")


def test_a_missing_key_is_one_clear_sentence() -> None:
    run = command("run", "Hello", "--model", "openai/gpt-4o-mini", "--quiet")
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert "OPENAI_API_KEY" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_failure_in_json_has_the_same_fields() -> None:
    run = command("run", "Hello", "--model", "openai/gpt-4o-mini", "--json")
    document = json.loads(run.stdout)
    assert (run.returncode, run.stderr) == (1, "")
    assert (document["status"], document["output"], document["success"]) == ("failed", None, False)
    assert document["error"]["tag"] == "ExecutionError"
    assert "OPENAI_API_KEY" in document["reason"]
    assert document["metadata"]["tokens_used"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "Missing argument"),
        (("task", "--no-such-option"), "--no-such-option"),
        (("task", "--model", ""), "model: got 'none', expected a model"),
        (("task", "--max-iterations", "0"), "--max-iterations"),
        (("task", "--max-iterations", "many"), "many"),
        (("task", "--strategy", "daydream"), "'daydream', expected one of reactive"),
        (("task", "--tools", "hammer"), "'hammer', expected one of calculator"),
        (("task", "--workspace", "/no/such/place"), "/no/such/place"),
        (("task", "--config", "/no/such/file.toml"), "/no/such/file.toml"),
    ],
)
def test_bad_usage_has_its_own_exit_code(arguments: tuple[str, ...], said: str) -> None:
    run = command("run", *arguments)
    assert run.returncode == 2, run
    assert said in " ".join(run.stderr.split())
    assert run.stdout == ""


def test_a_module_of_tools_that_ends_the_process_is_bad_usage_too(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text("import sys; sys.exit(7)")
    run = command("run", "task", "--tools", "leaving:x", PYTHONPATH=str(tmp_path))
    assert run.returncode == 2, run
    assert "importing it raised SystemExit: 7" in " ".join(run.stderr.split())


def test_bad_configuration_in_json_is_a_document_too() -> None:
    run = command("run", "task", "--tools", "hammer", "--json")
    assert (run.returncode, run.stderr) == (2, "")
    assert json.loads(run.stdout)["error"]["tag"] == "InvalidConfig"


def test_an_agent_as_data_runs_and_options_override_it(documents: Path) -> None:
    file = documents / "agent.toml"
    ReactiveAgents.create().with_model("offline").with_tools("calculator").with_name(
        "clerk"
    ).to_config().save(file)
    run = command("run", "What is 17 * 23?", "--config", str(file), "--json")
    document = json.loads(run.stdout)
    assert (document["agent_id"], document["metadata"]["strategy_used"]) == ("clerk", "direct")
    overridden = command("run", "What is 17 * 23?", "-c", str(file), "-s", "reactive", "--json")
    assert json.loads(overridden.stdout)["metadata"]["strategy_used"] == "reactive"


def test_the_same_command_line_runs_on_a_model_over_http() -> None:
    with OpenAIServer(Answer("Hello from the server."), Answer("Hello again.")) as server:
        run = command(
            "run",
            "Say hello.",
            "--model",
            "openai/gpt-4o-mini",
            OPENAI_API_KEY="sk-test",
            OPENAI_BASE_URL=server.base_url,
        )
    assert (run.returncode, run.stdout) == (0, "Hello from the server.\n"), run.stderr
    assert "sk-test" not in run.stderr


def interrupted_when(
    begun: Callable[[], object], *arguments: str, **environment: str
) -> tuple[int, str, str]:
    """Exit code, output and errors of a command that is interrupted once something has begun."""
    process = subprocess.Popen(
        [sys.executable, "-m", "reactive_agents", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, **environment},
        preexec_fn=heed_interrupts,
    )
    try:
        deadline = time.monotonic() + 30
        while not begun() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.communicate()
    return process.returncode, output, errors


def test_an_interrupt_ends_the_run_quietly() -> None:
    with OpenAIServer(Answer("late", delay_s=20)) as server:
        code, output, errors = interrupted_when(
            lambda: server.requests,
            *("run", "Say hello.", "--model", "openai/gpt-4o-mini"),
            OPENAI_API_KEY="sk-test",
            OPENAI_BASE_URL=server.base_url,
        )
    assert code == 130, errors
    assert output == ""
    assert "Traceback" not in errors
    assert errors.rstrip().endswith("Interrupted.")


WAITING = """
from pathlib import Path
from time import sleep

import anyio

async def calculator(expression: str) -> int:
    \"\"\"Work out an expression.\"\"\"
    Path(__file__).with_name("called").touch()
    await anyio.sleep(60)
    return 0
"""
IN_A_THREAD = WAITING.replace("async def", "def").replace("await anyio.", "")


def interrupted(folder: Path, *arguments: str, source: str = WAITING) -> tuple[int, str, str]:
    """Code, output and errors of a command that is interrupted while ``waiting:calculator`` is called."""
    (folder / "waiting.py").write_text(source)
    return interrupted_when((folder / "called").exists, *arguments, PYTHONPATH=str(folder))


def test_an_interrupt_in_json_is_the_document_of_a_failure(tmp_path: Path) -> None:
    code, output, errors = interrupted(tmp_path, "run", "2 * 3?", "--tools", "waiting:calculator", "--json")
    assert (code, errors) == (130, "")
    document = json.loads(output)
    assert (document["status"], document["success"], document["output"]) == ("failed", False, None)
    assert document["error"]["tag"] == "RunCancelled"
    assert document["task_id"] == document["error"]["task_id"]
    assert document["metadata"]["model_calls"] == 1


def test_an_interrupted_command_does_not_wait_for_a_tool_that_cannot_be_stopped(tmp_path: Path) -> None:
    arguments = ("run", "2 * 3?", "--tools", "waiting:calculator")
    code, output, errors = interrupted(tmp_path, *arguments, source=IN_A_THREAD)
    assert (code, output) == (130, "")
    assert errors.endswith("Interrupted.\n")


def test_a_terminal_gets_a_live_view_and_a_clean_answer() -> None:
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "reactive_agents", "run", "What is 17 * 23?", "--tools", "calculator"],
        stdout=subprocess.PIPE,
        stderr=child,
        env={**ENVIRONMENT, "TERM": "xterm-256color", "COLUMNS": "100"},
    )
    os.close(child)
    shown = b""
    while True:
        try:
            chunk = os.read(parent, 4096)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    output, _ = process.communicate(timeout=30)
    os.close(parent)
    assert process.returncode == 0
    assert b"391" in output
    assert b"\x1b[" in shown
    assert b"calculator" in shown
    assert b"tokens" in shown


def test_both_views_show_a_run() -> None:
    agent = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(call("add", a=1, b=2), say("It is 3.")))
        .with_tools(add)
        .build()
    )
    recorder = EventRecorder()
    agent.subscribe(recorder)
    agent.run_sync("What is 1 + 2?")
    plain, drawn = io.StringIO(), io.StringIO()
    console = Console(file=drawn, force_terminal=True, width=100)
    for view in (PlainLines(plain), LiveView(console)):
        with view:
            for event in recorder.events:
                view.show(event)
    for text in (plain.getvalue(), drawn.getvalue()):
        assert 'add {"a": 1, "b": 2}' in text
        assert "It is 3." in text
    assert isinstance(progress_view(io.StringIO()), PlainLines)
    assert all(
        describe(event) is None or "\n" not in one_line(describe(event).text) for event in recorder.events
    )  # type: ignore[union-attr]


def test_what_a_model_says_cannot_steer_the_terminal() -> None:
    assert printable("a\x1b[31mred\x1b[0m\x07b\x9b2J\tc\nd") == "ared" + "b2J\tc\nd"
    assert one_line("a\n\x1b]0;title\x07b") == "a ]0;titleb"
    assert len(one_line("x" * 1000)) == 160


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
