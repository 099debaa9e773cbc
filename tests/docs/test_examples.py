"""The examples of the documentation, run as a reader runs them."""

from __future__ import annotations

import ast
import os
import runpy
import textwrap
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "docs" / "examples").glob("*.py"))
LONGEST_EXAMPLE = 60

every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)


def docstring_of(example: Path) -> str:
    """Return the docstring of an example."""
    return ast.get_docstring(ast.parse(example.read_text(encoding="utf-8"))) or ""


def promised_output(example: Path) -> str:
    """Return the output that the docstring promises."""
    _, found, output = docstring_of(example).partition("\nPrints:\n\n")
    assert found, "the docstring does not say what is printed"
    return textwrap.dedent(output).strip()


def test_the_examples_are_found() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.system
@every_example
def test_it_prints_what_it_says_without_key_network_or_warning(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in os.environ:
        if name.endswith("_KEY"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(example), run_name="__main__")
    printed, complaints = capsys.readouterr()
    assert (printed.strip(), complaints) == (promised_output(example), "")
    assert list(tmp_path.iterdir()) == []


@every_example
def test_it_is_short_and_runs_only_when_it_is_called(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LONGEST_EXAMPLE
    last = ast.parse(text).body[-1]
    assert isinstance(last, ast.If)
    assert ast.unparse(last.test) == "__name__ == '__main__'"


@pytest.mark.system
def test_the_functions_of_the_testing_example_pass_under_pytest() -> None:
    example = runpy.run_path(str(ROOT / "docs" / "examples" / "testing_an_agent.py"))
    tests = [value for name, value in example.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()
