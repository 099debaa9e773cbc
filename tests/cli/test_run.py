"""``reactive-agents run``: answers, documents, exit codes, interruptions and views."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reactive_agents import ReactiveAgents
from reactive_agents.adapters.telemetry.console import (
    KINDS,
    STYLES,
    LiveView,
    PlainView,
    describe,
    progress_view,
)
from reactive_agents.cli.output import one_line, printable
from reactive_agents.testing import EventRecorder, ScriptedLLM, call, say
from tests.support.command_line import ENVIRONMENT, Terminal, command
from tests.support.interrupts import heed_interrupts
from tests.support.openai_server import Answer, Call, OpenAIServer


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
    assert run.exit_code == 0, run.stderr
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
    assert (run.exit_code, run.stderr) == (0, "")
    assert "391" in run.stdout


def test_json_is_one_document_and_nothing_else() -> None:
    run = command("run", "What is 17 * 23?", "--tools", "calculator", "--json")
    document = json.loads(run.stdout)
    assert (run.exit_code, run.stderr) == (0, "")
    assert (document["status"], document["success"], document["error"]) == ("completed", True, None)
    assert "391" in document["output"]
    assert document["metadata"]["model"] == "offline/quotes"
    assert document["metadata"]["tokens_used"] > 0
    assert [step["type"] for step in document["steps"]][-1] in {"thought", "action"}
    page = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
    table = page.partition("### The JSON document")[2].partition("\n## ")[0]
    assert [each for each in document if f"`{each}`" not in table] == []


def test_json_on_a_terminal_has_no_sign_that_steers_it_or_is_not_seen() -> None:
    signs = {"\x9b", "\u202e", "\u200b"}
    run = command("run", f"Say {' '.join(signs)}.", "--json", stdout=Terminal())
    assert signs <= set(json.dumps(json.loads(run.stdout), ensure_ascii=False))
    assert not signs & set(run.stdout)


def test_a_partial_result_has_its_own_exit_code_and_says_what_is_missing() -> None:
    run = command("run", "What is 17 * 23?", "--tools", "calculator", "--max-iterations", "1", "--json")
    document = json.loads(run.stdout)
    assert (run.exit_code, document["status"], document["success"]) == (3, "partial", False)
    assert "Missing" in document["reason"]
    shown = command("run", "What is 17 * 23?", "--tools", "calculator", "-n", "1", "-q")
    assert shown.exit_code == 3
    assert shown.stderr.startswith("partial: ")


def test_a_missing_key_is_one_clear_sentence() -> None:
    run = command("run", "Hello", "--model", "openai/gpt-4o-mini", "--quiet")
    assert run.exit_code == 1
    assert run.stdout == ""
    assert run.stderr.count("\n") == 1
    assert "OPENAI_API_KEY" in run.stderr
    assert "Traceback" not in run.stderr


def test_a_failure_in_json_has_the_same_fields() -> None:
    run = command("run", "Hello", "--model", "openai/gpt-4o-mini", "--json")
    document = json.loads(run.stdout)
    assert (run.exit_code, run.stderr) == (1, "")
    assert (document["status"], document["output"], document["success"]) == ("failed", None, False)
    assert (document["error"]["tag"], document["error"]["message"]) == ("ExecutionError", document["reason"])
    assert "OPENAI_API_KEY" in document["reason"]
    assert document["metadata"]["tokens_used"] == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "task: got '', expected a task"),
        (("task", "--no-such-option"), "--no-such-option"),
        (("task", "--model", ""), "model: got none, expected a model"),
        (("task", "--max-iterations", "0"), "--max-iterations"),
        (("task", "--max-iterations", "many"), "many"),
        (("task", "--strategy", "daydream"), "'daydream', expected one of reactive"),
        (("task", "--tools", "hammer"), "'hammer', expected one of calculator"),
        (("task", "--workspace", "/no/such/place"), "/no/such/place"),
        (("task", "--config", "/no/such/file.toml"), "/no/such/file.toml"),
        (("task", "--runs", ""), "--runs: got '', expected a file"),
    ],
)
def test_bad_usage_has_its_own_exit_code(arguments: tuple[str, ...], said: str) -> None:
    run = command("run", *arguments)
    assert run.exit_code == 2, run
    assert said in " ".join(run.stderr.split())
    assert run.stdout == ""


def test_a_module_of_tools_that_ends_the_process_is_bad_usage_too(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text("import sys; sys.exit(7)")
    run = command("run", "task", "--tools", "leaving:x", modules=tmp_path)
    assert run.exit_code == 2, run
    assert "importing it raised SystemExit: 7" in " ".join(run.stderr.split())


def test_bad_configuration_in_json_is_a_document_too() -> None:
    run = command("run", "task", "--tools", "hammer", "--json")
    assert (run.exit_code, run.stderr) == (2, "")
    error = json.loads(run.stdout)["error"]
    assert (error["tag"], error["option"] in error["message"]) == ("InvalidConfig", True)


def test_a_configuration_file_runs_and_options_override_it(documents: Path) -> None:
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
    assert (run.exit_code, run.stdout) == (0, "Hello from the server.\n"), run.stderr
    assert "sk-test" not in run.stderr


def test_a_server_of_ones_own_needs_an_address_and_no_key() -> None:
    with OpenAIServer(Answer("Hello from here.")) as server:
        run = command("run", "Say hello.", "-q", "-m", "openai/small", "--base-url", server.base_url)
        (request,) = server.requests
    assert (run.exit_code, run.stdout) == (0, "Hello from here.\n"), run.stderr
    assert request.headers["authorization"] == "Bearer none"
    wrong = command("run", "Say hello.", "-m", "openai/small", "--base-url", "localhost:8000")
    assert (wrong.exit_code, "model.base_url" in wrong.stderr) == (2, True)


def test_runs_of_a_session_are_one_conversation_of_its_user(tmp_path: Path) -> None:
    with OpenAIServer(Answer("Hello Ada."), Answer("Ada.")) as server:
        shared = ("-m", "openai/small", "--base-url", server.base_url, "--sessions", tmp_path / "s.db")
        for task, answer in (("I am Ada.", "Hello Ada.\n"), ("Who am I?", "Ada.\n")):
            run = command("run", task, "-q", "--session", "talk", "--user", "ada", *shared)
            assert (run.exit_code, run.stdout) == (0, answer), run.stderr
        said = [each["content"] for each in server.requests[1].body["messages"] if each["role"] != "system"]
        assert said == ["I am Ada.", "Hello Ada.", "Who am I?"]
        other = command("run", "Who am I?", "-q", "--session", "talk", "--user", "bo", *shared)
        assert (other.exit_code, len(server.requests)) == (1, 2)
        assert "another user" in other.stderr
    blank = command("run", "Who am I?", "--session", " ")
    assert (blank.exit_code, "--session" in blank.stderr) == (2, True)


INTERRUPTING = """
import signal

import anyio

async def calculator(expression: str) -> int:
    \"\"\"Work out an expression.\"\"\"
    signal.raise_signal(signal.SIGINT)
    await anyio.sleep_forever()
    return 0
"""
BLOCKING = """
import sys
from threading import Event

def calculator(expression: str) -> int:
    \"\"\"Work out an expression.\"\"\"
    print("called", file=sys.stderr, flush=True)
    Event().wait()
    return 0
"""


def test_an_interrupt_ends_the_run_quietly(tmp_path: Path) -> None:
    (tmp_path / "interrupting.py").write_text(INTERRUPTING)
    run = command("run", "2 * 3?", "--tools", "interrupting:calculator", modules=tmp_path)
    assert (run.exit_code, run.stdout) == (130, "")
    assert "Traceback" not in run.stderr
    assert run.stderr.endswith("Interrupted.\n")


def test_an_interrupt_in_json_is_the_document_of_a_failure(tmp_path: Path) -> None:
    (tmp_path / "interrupting.py").write_text(INTERRUPTING)
    run = command("run", "2 * 3?", "--tools", "interrupting:calculator", "--json", modules=tmp_path)
    assert (run.exit_code, run.stderr) == (130, "")
    document = json.loads(run.stdout)
    assert (document["status"], document["success"], document["output"]) == ("failed", False, None)
    assert document["error"]["tag"] == "RunCancelled"
    assert document["task_id"] == document["error"]["task_id"]
    assert document["metadata"]["model_calls"] == 1


def test_an_interrupt_of_a_recorded_run_names_the_id_that_it_goes_on_under(tmp_path: Path) -> None:
    (tmp_path / "interrupting.py").write_text(INTERRUPTING)
    line = ("2 * 3?", "--tools", "interrupting:calculator", "--runs", tmp_path / "runs.db", "--json")
    run = command("run", *line, modules=tmp_path)
    error = json.loads(run.stdout)["error"]
    assert (run.exit_code, error["tag"]) == (130, "RunInterrupted")
    steps = command("runs", "steps", error["run_id"], "--runs", tmp_path / "runs.db", "--json")
    assert [step["kind"] for step in json.loads(steps.stdout)] == ["model"]


@pytest.mark.system
def test_an_interrupted_command_does_not_wait_for_a_tool_that_cannot_be_stopped(tmp_path: Path) -> None:
    (tmp_path / "blocking.py").write_text(BLOCKING)
    with subprocess.Popen(
        [sys.executable, "-m", "reactive_agents", "run", "2 * 3?", "--tools", "blocking:calculator"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**ENVIRONMENT, "PYTHONPATH": str(tmp_path)},
        preexec_fn=heed_interrupts,
    ) as process:
        assert process.stderr is not None
        while process.stderr.readline() != "called\n":
            assert process.poll() is None, "the tool is called before the command ends"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (130, "")
    assert errors.endswith("Interrupted.\n")


def test_a_terminal_gets_a_live_view_and_a_clean_answer() -> None:
    run = command("run", "What is 17 * 23?", "--tools", "calculator", stderr=Terminal(), COLUMNS="100")
    assert run.exit_code == 0
    assert "391" in run.stdout
    assert "\x1b" not in run.stdout
    for shown in ("\x1b[", "calculator", "tokens"):
        assert shown in run.stderr


def test_every_kind_of_line_has_a_style() -> None:
    assert set(STYLES) == set(KINDS)


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
    for view in (PlainView(plain), LiveView(drawn, width=100)):
        with view:
            for event in recorder.events:
                view.show(event)
    for text in (plain.getvalue(), drawn.getvalue()):
        assert 'add {"a": 1, "b": 2}' in text
        assert "It is 3." in text
    assert isinstance(progress_view(io.StringIO()), PlainView)
    assert isinstance(progress_view(Terminal()), LiveView)
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


def test_a_task_that_cannot_be_done_has_its_own_exit_code() -> None:
    why = "There is no price list for that year."
    with OpenAIServer(
        Answer(calls=(Call("final-answer", {"answer": "No idea.", "could_not": why}),))
    ) as server:
        run = command(
            "run",
            "What does it cost?",
            "--tools",
            "calculator",
            "--quiet",
            "--model",
            "openai/gpt-4o-mini",
            OPENAI_API_KEY="sk-test",
            OPENAI_BASE_URL=server.base_url,
        )
    assert (run.exit_code, run.stdout) == (4, "No idea.\n")
    assert run.stderr == f"abstained: It could not be done: {why}\n"
