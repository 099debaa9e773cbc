"""The README shows what really happens."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tests.docs.readme import OUTPUT, PROGRAM, README, ROOT, demo_output, run

TEXT = README.read_text(encoding="utf-8")
OUTPUTS = OUTPUT.findall(TEXT)


def without_figures(text: str) -> str:
    """The text without what changes from run to run, and with the documents."""
    return re.sub(r"\d+", "0", text)


def test_the_demo_prints_what_the_readme_shows() -> None:
    assert without_figures(demo_output()) == without_figures(OUTPUTS[0]), "make docs brings it up to date"


def test_the_quick_start_copied_into_a_file_runs_and_prints_what_the_readme_shows(tmp_path: Path) -> None:
    program = tmp_path / "quick_start.py"
    program.write_text(PROGRAM.findall(TEXT)[0], encoding="utf-8")
    assert run(sys.executable, str(program)) == OUTPUTS[1]


def test_the_readme_names_the_command_that_runs_the_tests_and_integration_runs_it() -> None:
    assert "```sh\nmake test\n```" in TEXT
    assert "\nstep make test " in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
