"""What the README shows is what happens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
OUTPUTS = re.findall(r"```text\n(.*?)```", README, re.S)
PROGRAMS = re.findall(r"```python\n(.*?)```", README, re.S)


def run(*command: str) -> str:
    """Both outputs together, as on a terminal."""
    ran = subprocess.run(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": os.environ["PATH"], "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    return ran.stdout


def without_figures(text: str) -> str:
    """The text without what changes from run to run, and with the documents."""
    return re.sub(r"\d+", "0", text)


def test_the_demo_prints_what_the_readme_shows() -> None:
    (question,) = re.findall(r"^QUESTION \?= (.*)$", MAKEFILE, re.M)
    command = [sys.executable, "-m", "reactive_agents", "run", question, "--model", "offline"]
    shown = run(*command, "--tools", "calculator,file-search,file-read", "--workspace", "docs")
    assert without_figures(shown) == without_figures(OUTPUTS[0])


def test_the_quick_start_copied_into_a_file_runs_and_prints_what_the_readme_shows(tmp_path: Path) -> None:
    program = tmp_path / "quick_start.py"
    program.write_text(PROGRAMS[0], encoding="utf-8")
    assert run(sys.executable, str(program)) == OUTPUTS[1]


def test_the_readme_names_the_command_that_runs_the_tests_and_integration_runs_it() -> None:
    assert "```sh\nmake test\n```" in README
    assert (ROOT / ".ci" / "run").read_text(encoding="utf-8").endswith("\nmake test\n")
