"""Start and end of the command's process: what it imports, interruptions, full and closed streams."""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reactive_agents.cli import app, exit_on_interrupt, raise_on_interrupt
from reactive_agents.cli.app import SUBCOMMANDS
from tests.support.command_line import ENVIRONMENT, command, parsed_command
from tests.support.interrupts import heed_interrupts

FULL = Path("/dev/full")
PIPE_BYTES = 4096
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
NOTHING_TO_QUOTE = "There is nothing to quote for this question, and this model can only quote.\n"

# --- the start ------------------------------------------------------------------------------------------


def test_the_version_is_printed_alone_and_is_that_of_the_package() -> None:
    version = tomllib.loads(PROJECT.read_text())["project"]["version"]
    done = command("--version")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{version}\n", "")


def test_help_lists_every_subcommand_with_its_own_summary() -> None:
    listed = command("--help").stdout
    for name, (_, summary) in SUBCOMMANDS.items():
        assert f"  {name} " in listed
        assert summary in listed
        own: str = parsed_command(name).help
        assert own.splitlines()[0] == summary, name


@pytest.mark.parametrize("number", ["nan", "-1", "much"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("keys", "create", "shop", "--keys", "keys.json", "--any-user", "--days"),
        ("sessions", "prune", "--sessions", "s.db", "--older-than"),
        ("runs", "list", "--runs", "runs.db", "--min-cost"),
        ("worker", "agent.toml", "--runs", "runs.db", "--finish"),
        ("serve", "agent.toml", "--drain"),
        ("persona", "serve", "ada.toml", "--drain"),
    ],
)
def test_a_number_that_is_none_or_too_small_is_bad_usage(
    arguments: tuple[str, ...], number: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = command(*arguments, number)
    assert refused.exit_code == 2
    said = refused.stderr.replace("'", "")
    assert f"Invalid value for {arguments[-1]}: got {number}" in said
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_subcommand_is_bad_usage() -> None:
    done = command("bogus")
    assert (done.exit_code, done.stdout) == (2, "")
    assert "No such command 'bogus'" in done.stderr


@pytest.mark.parametrize("name", ["uvicorn", "mcp.server"])
def test_a_missing_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(app, "import_module", missing)
    done = command("serve", "agent.toml")
    needed = name.partition(".")[0]
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == f"error: serve needs {needed}: install reactive-agents[server].\n"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("runs list --json --limit 0", "Invalid value for '--limit' / '-n': "),
        ("runs none --json", "No such command 'none'."),
        ("runs approve --runs x --json", "Missing argument 'RUN'."),
        ("worker --json", "Missing argument 'AGENT'."),
        ("none --json", "No such command 'none'."),
        ("--json", "No such option: --json"),
    ],
)
def test_a_usage_error_is_json_where_json_is_asked_for(arguments: str, problem: str) -> None:
    done = command(*arguments.split())
    assert (done.exit_code, done.stderr) == (2, "")
    error = json.loads(done.stdout)["error"]
    assert error["tag"] == "BadUsage"
    assert error["message"].startswith(problem)
    as_text = command("run", "--", "a", "--json")  # two tasks, of which one has that name
    assert (as_text.exit_code, as_text.stdout) == (2, "")


def test_a_missing_extra_is_json_where_json_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")

    monkeypatch.setattr(app, "import_module", missing)
    done = command("serve", "agent.toml", "--json")
    needed = "serve needs uvicorn: install reactive-agents[server]."
    assert json.loads(done.stdout)["error"] == {"tag": "BadUsage", "message": needed}


def test_a_missing_module_of_the_package_is_no_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    monkeypatch.setattr(app, "import_module", missing)
    with pytest.raises(ModuleNotFoundError):
        app.app(["serve"], standalone_mode=False)


@pytest.mark.system
def test_the_start_imports_no_more_than_the_command_needs() -> None:
    script = """
import json, sys

from reactive_agents.cli.app import app
loaded = {}
for arguments in (["--version"], ["--help"], ["run", "hi", "--quiet"]):
    sys.argv = ["reactive-agents", *arguments]
    try:
        app(prog_name="reactive-agents")
    except SystemExit:
        loaded[arguments[0]] = sorted(sys.modules)
print(json.dumps(loaded), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=ENVIRONMENT,
    )
    loaded = {name: set(modules) for name, modules in json.loads(done.stderr).items()}
    for option in ("--version", "--help"):
        ours = {name for name in loaded[option] if name.startswith("reactive_agents.")}
        expected = {"cli", "cli.app", "core", "lazy_imports"}
        assert ours == {f"reactive_agents.{name}" for name in expected}
        assert not loaded[option] & {"anyio", "attrs", "returns", "rich"}
    assert not loaded["run"] & {"litellm", "rich", "reactive_agents.cli.persona", "reactive_agents.persona"}


# --- interruptions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("imported", ["typer", "reactive_agents.core.json"])
def test_an_interrupt_while_the_command_is_imported_is_one_word(imported: str) -> None:
    with subprocess.Popen(
        # each import is reported on standard error, so the process waits there until it is read
        [sys.executable, "-X", "importtime", "-m", "reactive_agents", "models"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        preexec_fn=heed_interrupts,
    ) as process:
        assert process.stderr is not None
        fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        for line in process.stderr:
            if line.rstrip().endswith(f" {imported}"):
                break
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    assert (process.returncode, output) == (130, "")
    assert "Traceback" not in errors
    assert errors.count("Interrupted.\n") == 1  # among lines about imports, also in the middle of one


def test_an_interrupt_of_a_command_that_does_not_heed_it_is_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("reactive_agents.cli.governance.cost", interrupted)
    done = command("cost")
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_once_the_command_is_imported_an_interrupt_is_an_exception_again() -> None:
    before = signal.getsignal(signal.SIGINT)
    exit_on_interrupt()
    try:
        assert signal.getsignal(signal.SIGINT) is not before
        assert command("models").exit_code == 0
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        raise_on_interrupt()


# --- streams --------------------------------------------------------------------------------------------


@pytest.mark.system
@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
@pytest.mark.parametrize(("unbuffered", "arguments"), [("", ("run", "hi", "--quiet")), ("1", ("models",))])
def test_standard_output_that_is_full_is_one_sentence(arguments: tuple[str, ...], unbuffered: str) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "reactive_agents", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, "PYTHONUNBUFFERED": unbuffered},
            timeout=60,
            check=False,
        )
    sentence = "error: Standard output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (1, sentence)


@pytest.mark.system
@pytest.mark.parametrize(
    ("arguments", "given", "shown"),
    [
        (
            ("run", "--quiet"),
            b"Caf\xe9?",
            "error: task: got bytes of another encoding, expected a text in UTF-8.",
        ),
        (("chat", "--quiet"), b"Caf\xe9?\n", "There is nothing to quote"),
        (("run", "--json"), b"\xef\xbb\xbfHi?", '"content": "Hi?"'),
    ],
)
def test_bytes_that_are_no_utf_8_and_its_mark_on_standard_input(
    tmp_path: Path, arguments: tuple[str, ...], given: bytes, shown: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reactive_agents", *arguments],
        input=given,
        capture_output=True,
        env={**ENVIRONMENT, "PYTHONIOENCODING": "utf-8:strict", "XDG_STATE_HOME": str(tmp_path)},
        timeout=60,
        check=False,
    )
    assert shown in (done.stdout + done.stderr).decode()
    assert b"Traceback" not in done.stderr


@pytest.mark.system
@pytest.mark.parametrize(
    ("closed", "code", "output", "errors"),
    [
        (">&-", 1, "", "error: Standard output is closed.\n"),
        ("<&- 2>&-", 0, NOTHING_TO_QUOTE, ""),
    ],
)
def test_streams_that_are_closed(closed: str, code: int, output: str, errors: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m reactive_agents run hi {closed}', sys.executable],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, output, errors)
