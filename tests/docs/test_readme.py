"""The README shows what really happens."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import reactive_agents
from tests.docs.readme import OUTPUT, PROGRAM, README, ROOT, demo_output, run
from tests.support.openai_server import Answer, Call, OpenAIServer

TEXT = README.read_text(encoding="utf-8")
OUTPUTS = OUTPUT.findall(TEXT)


def without_figures(text: str) -> str:
    """The text without what changes from run to run, and with the documents."""
    of_one_unit = re.sub(r" *\d+(\.\d+)? m?s\b *", " 0 ms ", text)  # a slow machine needs seconds
    return re.sub(r"\d+", "0", of_one_unit)


@pytest.mark.system
def test_the_demo_prints_what_the_readme_shows() -> None:
    assert without_figures(demo_output()) == without_figures(OUTPUTS[0]), "make docs brings it up to date"


@pytest.mark.system
def test_the_quick_start_copied_into_a_file_runs_and_prints_what_the_readme_shows(tmp_path: Path) -> None:
    program = tmp_path / "quick_start.py"
    program.write_text(PROGRAM.findall(TEXT)[0], encoding="utf-8")
    assert run(sys.executable, str(program)) == OUTPUTS[1]


ANSWERS: dict[str, tuple[Answer, ...]] = {
    "How many A-1 are left?": (Answer(calls=(Call("stock", {"product": "A-1"}),)), Answer("There are 12.")),
    "with_sessions": (Answer("Hello, Ada."), Answer("Ada.")),
    "with_output_type": (Answer('{"name": "Paris", "country": "France"}'),),
}
"""What a model answers to the first programs, each found by what is in it."""


@pytest.mark.parametrize("sign", ANSWERS)
def test_each_first_program_is_short_and_runs(
    sign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (program,) = [each for each in PROGRAM.findall(TEXT) if sign in each]
    assert len(program.splitlines()) <= 15
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with OpenAIServer(*ANSWERS[sign]) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.base_url)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        module = ModuleType("program")
        monkeypatch.setitem(sys.modules, "program", module)
        exec(compile(program, "program.py", "exec"), vars(module))
    printed = capsys.readouterr().out
    assert (
        printed
        == {
            "How many A-1 are left?": "There are 12.\n",
            "with_sessions": "Hello, Ada.\nAda.\n",
            "with_output_type": "City(name='Paris', country='France')\n",
        }[sign]
    )
    if sign == "with_sessions":
        assert "My name is Ada." in str(server.requests[1].body["messages"])


def test_what_a_first_program_needs_is_imported_from_the_package() -> None:
    named = ["ModelSettings", "RunContext", "McpServer", "UserMessage", "ToolCall", "TaskCompleted", "Image"]
    assert all(getattr(reactive_agents, name).__name__ == name for name in named)


def test_the_readme_names_the_command_that_runs_the_tests_and_integration_runs_it() -> None:
    assert "```sh\nmake test\n```" in TEXT
    assert re.search(r"\nstep \d+ make test ", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
