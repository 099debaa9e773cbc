"""JMESPath on text of strangers: what is run, what is refused before it runs, and how it fails."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from returns.result import Failure, Success

from reactive_agents.core.json import Json
from reactive_agents.kernel.context_window.previews import (
    LARGEST_QUERIED,
    LONGEST_QUERY,
    compile_query,
    run_query,
)

DATA: dict[str, Json] = {
    "matches": [{"path": "a.md", "line": 2}, {"path": "b.md", "line": 1}],
    "total": 2,
    "big": "x",
}
TEXT = json.dumps(DATA)


def problem(expression: str, text: str | None = None) -> str:
    """The sentence that an expression is refused with, or fails with on a text."""
    compiled = compile_query(expression)
    if isinstance(compiled, Success) and text is not None:
        match run_query(compiled.unwrap(), text):
            case Failure(sentence):
                return str(sentence)
    match compiled:
        case Failure(sentence):
            return str(sentence)
    raise AssertionError(f"{expression} is not refused")


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("matches[*].path", ["a.md", "b.md"]),
        ("matches[?line > `1`].{where: path, at: line}", [{"where": "a.md", "at": 2}]),
        ("sort_by(matches, &line)[0].path", "b.md"),
        ("join(', ', matches[*].path)", "a.md, b.md"),
        ("map(&[path, line], matches)", [["a.md", 2], ["b.md", 1]]),
        ("total || 'none'", 2),
        ("matches[::-1] | [0].line", 1),
        ("length(matches)", 2),
        ("total == `2` && !nope", True),
        ("max_by(matches, &line).path", "a.md"),
        ("matches[].path", ["a.md", "b.md"]),
        ("matches[0].*", ["a.md", 2]),
    ],
)
def test_a_query_takes_a_part_of_the_data(expression: str, found: Json) -> None:
    assert compile_query(expression).bind(lambda query: run_query(query, TEXT)) == Success(found)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("", "empty"),
        ("matches[", "Invalid"),
        ("(" * 400, ""),
        ("nope(@)", "no function nope()"),
        ("x" * (LONGEST_QUERY + 1), "501 characters, 500 are allowed"),
        ("&total", "not allowed"),
        ("to_array(&total)", "not allowed"),
        ("join(big, matches[*].path)", "literal"),
    ],
)
def test_what_cannot_be_run_is_refused_in_a_sentence(expression: str, words: str) -> None:
    assert words in problem(expression)
    assert "\n" not in problem(expression)


@pytest.mark.parametrize(
    "expression",
    [
        " | ".join(["[@, @]"] * 40),
        " | ".join(["[@, @][]"] * 40),
        "map(&map(&map(&map(&[@,@,@,@,@,@], @), [@,@,@,@,@,@]), [@,@,@,@,@,@]), [@,@,@,@,@,@])",
        " | ".join(["merge({a: @}, {b: @}).[a, b]"] * 12),
        "to_string([to_string([to_string([to_string([@])])])])",
    ],
)
def test_what_would_grow_without_measure_is_never_run(expression: str) -> None:
    assert "times as large" in problem(expression)


def test_the_longer_the_data_the_less_an_expression_may_multiply_it() -> None:
    doubled = compile_query(" | ".join(["[@, @]"] * 8)).unwrap()
    assert isinstance(run_query(doubled, "[1]"), Success)
    assert problem(doubled.expression, json.dumps(["x" * 60_000])) == (
        "a result of 60004 characters is too long for it"
    )
    assert "too long" in problem("@", json.dumps(["x" * LARGEST_QUERIED]))


@pytest.mark.parametrize(
    ("expression", "text", "words"),
    [
        ("@", "no JSON", "no JSON array or object"),
        ("@", '"text"', "no JSON array or object"),
        ("nope", TEXT, "finds nothing"),
        ("abs(matches)", TEXT, "abs()"),
        ("sort(matches)", TEXT, "sort()"),
        ("matches[::0]", TEXT, ""),
        ("length(total)", TEXT, "length()"),
    ],
)
def test_what_does_not_fit_the_data_fails_in_a_sentence(expression: str, text: str, words: str) -> None:
    assert words in problem(expression, text)


def test_the_library_is_loaded_with_the_first_query() -> None:
    script = (
        "import sys, reactive_agents.kernel as kernel\n"
        "from reactive_agents.kernel.context_window.previews import compile_query\n"
        "assert 'jmespath' not in sys.modules\n"
        "compile_query('a').unwrap()\n"
        "assert 'jmespath' in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
