"""How the process of the command begins and ends: interruptions, and streams that are full or closed."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.cli.test_run import ENVIRONMENT
from tests.support.interrupts import heed_interrupts

FULL = Path("/dev/full")
PIPE_BYTES = 4096
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_an_interrupt_while_the_commands_are_imported_is_one_word() -> None:
    with subprocess.Popen(
        # each import is told on standard error, so the process waits there until it is read
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
            if line.rstrip().endswith(" typer"):
                break
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output) == (130, "")
    assert "reactive_agents.cli.run" not in errors
    assert "Traceback" not in errors
    assert errors.splitlines()[-1] == "Interrupted."


@pytest.mark.skipif(not FULL.exists(), reason="there is no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("run", "hi", "--quiet"), ("models",), ("models", "--json")])
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
    said = "error: Standard output cannot be written: No space left on device.\n"
    assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.parametrize(
    ("closed", "code", "output", "errors"),
    [
        (">&-", 1, "", "error: Standard output is closed.\n"),
        ("<&-", 0, "There is nothing to quote for this question, and this model can only quote.\n", "phase"),
        ("2>&-", 0, "There is nothing to quote for this question, and this model can only quote.\n", ""),
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
    assert (done.returncode, done.stdout) == (code, output)
    assert done.stderr.startswith(errors)
    assert "Traceback" not in done.stderr


def test_the_version_is_printed_alone_and_is_that_of_the_package() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reactive_agents", "--version"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
        check=False,
    )
    version = tomllib.loads(PROJECT.read_text())["project"]["version"]
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{version}\n", "")
