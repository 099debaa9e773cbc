"""The file tools over real files, through the service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from reactive_agents.adapters.system import SystemClock
from reactive_agents.adapters.tools import builtin
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.adapters.tools.service import LocalToolService
from reactive_agents.core.config import SchemaDetail
from reactive_agents.core.errors import (
    ArgumentProblem,
    InvalidToolArguments,
    ToolErrors,
    ToolFailed,
    WorkspaceViolation,
)
from reactive_agents.core.ids import AgentId, CallId, RunId, SessionId, TaskId
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.tools import ToolScope
from reactive_agents.effects import attempt
from reactive_agents.kernel.toolset import first_sentence, fit_definitions

SCOPE = ToolScope(RunId("run"), TaskId("task"), AgentId("agent"), SessionId("session"), "run-1.0")


def _execute(workspace: Path, name: str, arguments: dict[str, Json]) -> Any:
    service = LocalToolService(tuple(builtin_tools().values()), workspace=workspace, clock=SystemClock())
    return anyio.run(attempt, service.execute(ToolCall(CallId("c1"), name, arguments), SCOPE))


def result_of(workspace: Path, name: str, **arguments: Json) -> Any:
    return _execute(workspace, name, arguments).unwrap().result


def error_of(workspace: Path, name: str, **arguments: Json) -> ToolErrors:
    error: ToolErrors = _execute(workspace, name, arguments).failure()
    return error


def test_the_builtin_tools() -> None:
    tools = builtin_tools()
    exported = [getattr(builtin, name) for name in builtin.__all__]
    assert {id(each) for each in exported if isinstance(each, Tool)} == set(map(id, tools.values()))
    assert len(tools) >= 8
    assert all(one.definition.name == name and one.definition.description for name, one in tools.items())
    write = tools["file-write"].definition
    assert (write.risk, write.output, write.idempotent) == ("medium", True, False)
    assert all("context" not in str(one.definition.parameters) for one in tools.values())


def test_the_calculator_through_the_service(tmp_path: Path) -> None:
    assert result_of(tmp_path, "calculator", expression="6 * 7") == 42
    assert error_of(tmp_path, "calculator", expression="1/0") == ToolFailed(
        "calculator", "division by zero", "ZeroDivisionError"
    )


# --- file-list ------------------------------------------------------------------------------------------


def made(workspace: Path, *paths: str) -> None:
    """Files of four bytes."""
    for path in paths:
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text("text")


def test_listing_files(tmp_path: Path) -> None:
    made(tmp_path, "b.md", "docs/a.md", "docs/deep/c.md", ".git/config")
    listed = result_of(tmp_path, "file-list")
    assert listed == {
        "files": [
            {"path": "b.md", "bytes": 4},
            {"path": "docs/a.md", "bytes": 4},
            {"path": "docs/deep/c.md", "bytes": 4},
        ]
    }
    assert [each["path"] for each in result_of(tmp_path, "file-list", folder="docs/deep/")["files"]] == [
        "docs/deep/c.md"
    ]
    some = result_of(tmp_path, "file-list", max_results=1)
    assert [each["path"] for each in some["files"]] == ["b.md"]
    assert some["note"] == "2 further files; name a folder to see fewer."
    for each in listed["files"]:
        assert result_of(tmp_path, "file-read", path=each["path"])["text"] == "text"


def test_folders_that_cannot_be_listed(tmp_path: Path) -> None:
    work = tmp_path / "work"
    made(tmp_path, "secret.md", "work/docs/a.md")
    (work / "out").symlink_to(tmp_path)
    for folder in ("..", "/", "out", str(tmp_path)):
        refused = error_of(work, "file-list", folder=folder)
        assert isinstance(refused, WorkspaceViolation)
        assert "leads out" in refused.reason
    assert "secret.md" not in str(result_of(work, "file-list")), "links to folders are not followed"
    assert error_of(work, "file-list", folder="docs/a.md").message.endswith("it is a file, not a folder.")
    assert "Near it: docs/a.md." in error_of(work, "file-list", folder="doc/a.md").message
    assert isinstance(error_of(work, "file-list", max_results=0), InvalidToolArguments)


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("docs/shiping.md", "Near it: docs/shipping.md"),
        ("shipping.md", "Near it: docs/shipping.md"),
        ("SHIPPING.MD", "Near it: docs/shipping.md"),
        ("docs\\shipping.txt", "Near it: docs/shipping.md"),
        (
            "xyz",
            "There are: docs/returns.md, docs/shipping.md, notes/1.txt, notes/2.txt, notes/3.txt and 1 more.",
        ),
    ],
)
def test_a_missing_file_names_the_nearest(path: str, near: str, tmp_path: Path) -> None:
    made(tmp_path, "docs/shipping.md", "docs/returns.md", *(f"notes/{n}.txt" for n in range(1, 5)))
    error = error_of(tmp_path, "file-read", path=path)
    assert isinstance(error, WorkspaceViolation)
    assert error.reason.startswith(f"it does not exist. {near}")


def test_a_folder_names_its_files_and_an_empty_workspace_says_that_it_is_empty(tmp_path: Path) -> None:
    assert error_of(tmp_path, "file-read", path="a").message.endswith(
        "it does not exist. There are no files."
    )
    made(tmp_path, "docs/a.md", ".hidden/b.md")
    assert error_of(tmp_path, "file-read", path="docs").message.endswith("it is a folder. It has: docs/a.md.")
    assert ".hidden" not in error_of(tmp_path, "file-read", path="b.md").message


# --- file-read ------------------------------------------------------------------------------------------


def test_reading_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\nthree \xff")
    assert result_of(tmp_path, "file-read", path="a.txt") == {
        "path": "a.txt",
        "start_line": 1,
        "end_line": 3,
        "total_lines": 3,
        "text": "one\ntwo\nthree \ufffd",
        "note": "What is no UTF-8 is shown as �; writing this text would lose it.",
    }
    part = result_of(tmp_path, "file-read", path="a.txt", start_line=2, max_lines=1)
    assert (part["start_line"], part["end_line"], part["total_lines"], part["text"]) == (2, 2, 3, "two")
    assert "note" not in part


def test_reading_where_nothing_is(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    part = result_of(tmp_path, "file-read", path="empty", start_line=5)
    assert (part["start_line"], part["end_line"], part["total_lines"], part["text"]) == (5, 4, 0, "")


def test_long_lines_are_cut(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 200_000 + "\n" + "y" * 2_001 + "\n" + "z" * 2_000 + "\n")
    part = result_of(tmp_path, "file-read", path="long")
    lines = part["text"].splitlines()
    assert part["total_lines"] == 3
    assert lines[0] == "x" * 2_000 + " [… line of 200001 bytes cut …]"
    assert lines[1].startswith("y" * 2_000 + " [… line of 2002")
    assert lines[2] == "z" * 2_000


def test_a_binary_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"GIF\0")
    assert error_of(tmp_path, "file-read", path="b") == WorkspaceViolation(
        "b", "it is a binary file, not text."
    )


@pytest.mark.parametrize("argument", ["start_line", "max_lines"])
def test_lines_are_counted_from_one(tmp_path: Path, argument: str) -> None:
    error = error_of(tmp_path, "file-read", path="a", **{argument: 0})
    assert isinstance(error, InvalidToolArguments)
    assert error.problems[0].argument == argument


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "link"])
def test_nothing_outside_is_read_or_written(tmp_path: Path, path: str) -> None:
    (tmp_path / "secret").write_text("secret")
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "link").symlink_to("../secret")
    assert isinstance(error_of(workspace, "file-read", path=path), WorkspaceViolation)
    assert isinstance(error_of(workspace, "file-write", path=path, content="x"), WorkspaceViolation)
    assert result_of(workspace, "file-search", query="secret root")["matches"] == []
    assert (tmp_path / "secret").read_text() == "secret"


# --- file-write -----------------------------------------------------------------------------------------


def test_writing_and_appending(tmp_path: Path) -> None:
    written = result_of(tmp_path, "file-write", path="new/ä.txt", content="größe\r\n")
    assert written == {"path": "new/ä.txt", "bytes": 9}
    result_of(tmp_path, "file-write", path="new/ä.txt", content="more", mode="append")
    assert (tmp_path / "new/ä.txt").read_bytes() == "größe\r\nmore".encode()
    result_of(tmp_path, "file-write", path="new/ä.txt", content="", mode="overwrite")
    assert (tmp_path / "new/ä.txt").read_bytes() == b""


@pytest.mark.parametrize("detail", ["full", "compact"])
def test_every_model_is_told_that_writing_replaces_and_how_to_append(detail: SchemaDetail) -> None:
    (shown,) = fit_definitions([builtin_tools()["file-write"].definition], detail)
    assert "replacing what it holds; mode append" in first_sentence(shown.description)


def test_text_that_utf8_cannot_express_is_not_written(tmp_path: Path) -> None:
    error = error_of(tmp_path, "file-write", path="a", content="\ud800")
    assert isinstance(error, ToolFailed)
    assert os.listdir(tmp_path) == []


def test_an_unknown_mode_is_refused(tmp_path: Path) -> None:
    error = error_of(tmp_path, "file-write", path="a", content="x", mode="insert")
    assert isinstance(error, InvalidToolArguments)
    assert error.problems[0].expected == "'write', 'append' or 'overwrite'"


# --- file-search ----------------------------------------------------------------------------------------


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """Text files among files and directories that are not searched."""
    files: dict[str, bytes] = {
        "b.md": b"Apple\nbanana\nAPPLE and Banana\n",
        "a.md": b"nothing\nan apple tree\n",
        "docs/deep/c.txt": b"banana apple pear\n",
        "docs/d.txt": b"banana\n",
        ".git/apple.txt": b"apple\n",
        "docs/.venv/apple.txt": b"apple\n",
        "apple.bin": b"apple\0",
        "apple.log": b"apple\n" * 400_000,
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe.md")
    return tmp_path


def places(result: Any) -> list[tuple[str, int]]:
    return [(match["path"], match["line"]) for match in result["matches"]]


def test_lines_with_more_of_the_words_come_first(library: Path) -> None:
    result = result_of(library, "file-search", query="apple, BANANA apple")
    assert places(result) == [
        ("b.md", 3),
        ("docs/deep/c.txt", 1),
        ("a.md", 2),
        ("b.md", 1),
        ("b.md", 2),
        ("docs/d.txt", 1),
    ]
    assert result["matches"][0]["text"] == "APPLE and Banana"
    assert (result["total"], result["skipped"]) == (6, 3)
    assert result["note"] == "Files skipped: 1 above 2 MB, 1 binary, 1 not readable inside the workspace."


def test_results_are_limited_but_all_counted(library: Path) -> None:
    result = result_of(library, "file-search", query="apple banana", max_results=2)
    assert places(result) == [("b.md", 3), ("docs/deep/c.txt", 1)]
    assert result["total"] == 6


@pytest.mark.parametrize(
    ("glob", "expected"),
    [
        ("*.txt", []),
        ("**/*.txt", ["docs/d.txt", "docs/deep/c.txt"]),
        ("docs/*.txt", ["docs/d.txt"]),
        ("docs/**", ["docs/d.txt", "docs/deep/c.txt"]),
        ("docs/**/*", ["docs/d.txt", "docs/deep/c.txt"]),
        ("**/deep/**/c.*", ["docs/deep/c.txt"]),
        ("./[ab].md", ["b.md"]),
        ("?.md", ["b.md"]),
        ("../**", []),
        ("**/" * 300 + "d.*", ["docs/d.txt"]),
        ("docs/" + "**/" * 300 + "**", ["docs/d.txt", "docs/deep/c.txt"]),
        ("deep**/**/**/c.txt", []),
        ("[z-a", []),
    ],
)
def test_globs(library: Path, glob: str, expected: list[str]) -> None:
    result = result_of(library, "file-search", query="banana", glob=glob)
    assert sorted({path for path, _ in places(result)}) == expected


def test_a_glob_that_would_take_long_to_read_is_refused(library: Path) -> None:
    error = error_of(library, "file-search", query="banana", glob="[a" * 20_000)
    assert isinstance(error, InvalidToolArguments)
    assert error.problems == (ArgumentProblem("glob", "40000 characters", "at most 1000 characters"),)


def test_a_search_without_findings_has_no_note(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    assert result_of(tmp_path, "file-search", query="?") == {"matches": [], "total": 0, "skipped": 0}


def test_long_lines_are_shown_around_the_word(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x" * 1_000 + "needle" + "y" * 1_000)
    (match,) = result_of(tmp_path, "file-search", query="needle")["matches"]
    assert match["text"] == "…" + "x" * 100 + "needle" + "y" * 194 + "…"


@pytest.mark.parametrize(("argument", "value"), [("query", " "), ("max_results", 0)])
def test_searches_that_make_no_sense(tmp_path: Path, argument: str, value: Json) -> None:
    error = error_of(tmp_path, "file-search", **{"query": "a", argument: value})
    assert isinstance(error, InvalidToolArguments)
    assert error.problems[0].argument == argument
