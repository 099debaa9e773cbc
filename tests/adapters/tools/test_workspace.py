"""Paths stay inside the workspace, whatever they are made of."""

from __future__ import annotations

import importlib
import os
import stat
import sys
import threading
from contextlib import suppress
from pathlib import Path, PosixPath

import pytest
from returns.result import Failure, Success

from reactive_agents.adapters.tools.workspace import LARGEST_WRITE, open_to_read, resolve_inside, write_inside
from reactive_agents.core.errors import WorkspaceViolation


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with links that stay and links that leave, next to a secret."""
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "outside").mkdir()
    root = tmp_path / "work"
    (root / "docs").mkdir(parents=True)
    (root / "docs" / "a.txt").write_text("alpha")
    (root / "inner").symlink_to("docs")
    (root / "inner.txt").symlink_to("docs/a.txt")
    (root / "leaves").symlink_to(tmp_path / "outside")
    (root / "leaves.txt").symlink_to("../secret.txt")
    (root / "dangling").symlink_to("../not-there-yet.txt")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    return root


def refusal(path: str, workspace: Path) -> str:
    error = resolve_inside(workspace, path).failure()
    assert isinstance(error, WorkspaceViolation)
    assert error.path == path
    return error.reason


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("docs/a.txt", "docs/a.txt"),
        ("./docs//a.txt", "docs/a.txt"),
        ("docs/../docs/a.txt", "docs/a.txt"),
        ("inner/a.txt", "docs/a.txt"),
        ("inner.txt", "docs/a.txt"),
        ("new/deep/file", "new/deep/file"),
        ("~", "~"),
        ("..a", "..a"),
        ("", "."),
    ],
)
def test_inside(workspace: Path, path: str, expected: str) -> None:
    assert resolve_inside(workspace, path).unwrap() == workspace / expected


def test_absolute_inside(workspace: Path) -> None:
    assert resolve_inside(workspace, str(workspace / "docs")).unwrap() == workspace / "docs"


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../secret.txt",
        "docs/../../secret.txt",
        "not/there/../../../secret.txt",
        "/etc/passwd",
        "/",
        "leaves",
        "leaves/new.txt",
        "leaves.txt",
        "dangling",
        "inner/../../secret.txt",
        "../work-too/file",
    ],
)
def test_outside(workspace: Path, path: str) -> None:
    assert refusal(path, workspace) == "it leads out of the workspace."
    assert write_inside(workspace, path, b"x").failure().reason == "it leads out of the workspace."
    assert (workspace.parent / "secret.txt").read_text() == "secret"
    assert os.listdir(workspace.parent / "outside") == []


@pytest.mark.parametrize("path", ["nul", "NUL", "docs/Con.txt", "com1", "docs\\lpt9", "aux:x", "prn ."])
def test_devices(workspace: Path, path: str) -> None:
    assert refusal(path, workspace) == "it names a device."


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("a\0b", "it holds a NUL byte."),
        ("loop", "its symlinks form a loop."),
        ("loop/a", "its symlinks form a loop."),
        ("\ud800", "it holds characters that no file name can have."),
    ],
)
def test_paths_that_mean_nothing(workspace: Path, path: str, reason: str) -> None:
    assert refusal(path, workspace) == reason


def test_a_workspace_that_is_not_there(tmp_path: Path) -> None:
    assert refusal("a", tmp_path / "gone") == "no such file or directory."


def test_reading(workspace: Path) -> None:
    with open_to_read(workspace, "inner.txt").unwrap() as file:
        assert file.read() == b"alpha"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("none.txt", "it does not exist. Near it: inner.txt, docs/a.txt."),
        ("docs", "it is a folder. It has: docs/a.txt."),
        ("pipe", "it is not a regular file."),
        ("docs/a.txt/b", "it does not exist. Near it: docs/a.txt."),
        ("x" * 5000, "file name too long."),
    ],
)
def test_what_cannot_be_read(workspace: Path, path: str, reason: str) -> None:
    error = open_to_read(workspace, path).failure()
    assert error.reason == reason
    assert len(error.path) <= 200


def test_writing_makes_directories_and_replaces(workspace: Path) -> None:
    assert write_inside(workspace, "new/deep/file", b"one").unwrap() == workspace / "new/deep/file"
    write_inside(workspace, "new/deep/file", b"two").unwrap()
    assert (workspace / "new/deep/file").read_bytes() == b"two"
    assert os.listdir(workspace / "new/deep") == ["file"]


def test_writing_keeps_permissions_and_links(workspace: Path) -> None:
    (workspace / "docs/a.txt").chmod(0o640)
    write_inside(workspace, "inner.txt", b"new").unwrap()
    assert (workspace / "inner.txt").is_symlink()
    assert (workspace / "docs/a.txt").read_bytes() == b"new"
    assert stat.S_IMODE((workspace / "docs/a.txt").stat().st_mode) == 0o640


def test_a_reader_of_the_old_content_is_not_disturbed(workspace: Path) -> None:
    with open_to_read(workspace, "docs/a.txt").unwrap() as file:
        write_inside(workspace, "docs/a.txt", b"replaced").unwrap()
        assert file.read() == b"alpha"


def test_appending(workspace: Path) -> None:
    for content in (b"1", b"2"):
        write_inside(workspace, "log", content, append=True).unwrap()
    assert (workspace / "log").read_bytes() == b"12"


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("docs/a.txt/b", "one of its directories is a file or a link."),
        ("docs/a.txt/b/c", "one of its directories is a file or a link."),
        ("y" * 300, "file name too long."),
    ],
)
def test_what_cannot_be_written(workspace: Path, path: str, reason: str, append: bool) -> None:
    assert write_inside(workspace, path, b"x", append=append).failure().reason == reason


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize("path", ["docs", "pipe", "."])
def test_only_regular_files_are_written(workspace: Path, path: str, append: bool) -> None:
    before = sorted(os.listdir(workspace))
    assert write_inside(workspace, path, b"x", append=append).failure().path == path
    assert sorted(os.listdir(workspace)) == before


# --- races, other names, hidden and executable files ----------------------------------------------------


@pytest.mark.system
@pytest.mark.skipif(os.name == "nt", reason="needs symlinks of directories")
@pytest.mark.parametrize("append", [True, False])
def test_a_directory_that_becomes_a_link_meanwhile_leads_nowhere(workspace: Path, append: bool) -> None:
    outside = workspace.parent / "outside"
    (outside / "a.txt").write_text("secret")
    (workspace / "spare").mkdir()
    (workspace / "swapped").mkdir()
    (workspace / "spare/a.txt").write_text("own")
    (workspace / "swapped/a.txt").write_text("own")
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            with suppress(OSError):
                os.rename(workspace / "swapped", workspace / "kept")
                os.symlink(outside, workspace / "swapped")
                os.unlink(workspace / "swapped")
                os.rename(workspace / "kept", workspace / "swapped")

    swapping = threading.Thread(target=swap)
    swapping.start()
    read = set[bytes]()
    try:
        for _ in range(400):
            write_inside(workspace, "swapped/b.txt", b"x", append=append)
            opened = open_to_read(workspace, "swapped/a.txt")
            if isinstance(opened, Success):
                with opened.unwrap() as file:
                    read.add(file.read())
    finally:
        ended.set()
        swapping.join()
    assert os.listdir(outside) == ["a.txt"]
    assert b"secret" not in read


class SwappedWhenOpened(PosixPath):
    """A workspace of which a directory becomes a link between the check of a path and its opening."""

    calls = 0

    def resolve(self, strict: bool = False) -> PosixPath:
        SwappedWhenOpened.calls -= 1
        if not SwappedWhenOpened.calls:
            os.rename(self / "swapped", self / "kept")
            os.symlink(self.parent / "outside", self / "swapped")
        return PosixPath(self).resolve(strict)


@pytest.mark.parametrize("write", [False, True])
def test_a_directory_that_becomes_a_link_after_the_check_is_not_followed(
    workspace: Path, write: bool
) -> None:
    (workspace.parent / "outside" / "a.txt").write_text("secret")
    (workspace / "swapped").mkdir()
    (workspace / "swapped/a.txt").write_text("own")
    SwappedWhenOpened.calls = 3 if write else 2
    root = SwappedWhenOpened(workspace)
    opened = write_inside(root, "swapped/a.txt", b"x") if write else open_to_read(root, "swapped/a.txt")
    assert isinstance(opened, Failure)
    assert (workspace / "swapped").is_symlink()
    assert (workspace.parent / "outside" / "a.txt").read_text() == "secret"


def test_a_file_with_another_name_is_neither_read_nor_appended_to(workspace: Path) -> None:
    os.link(workspace.parent / "secret.txt", workspace / "linked.txt")
    for refused in (
        open_to_read(workspace, "linked.txt"),
        write_inside(workspace, "linked.txt", b"x", append=True),
    ):
        assert "a hard link" in refused.failure().message
    assert write_inside(workspace, "linked.txt", b"x").unwrap() == workspace / "linked.txt"
    assert (workspace.parent / "secret.txt").read_text() != "x", "a replaced file is a new one"


@pytest.mark.parametrize(
    "path",
    [".git/hooks/pre-commit", ".env", "docs/.hidden", "docs/../.github/workflows/ci.yml", "new/.git/config"],
)
@pytest.mark.parametrize("append", [True, False])
def test_hidden_files_are_not_written(workspace: Path, path: str, append: bool) -> None:
    assert "hidden files" in write_inside(workspace, path, b"x", append=append).failure().message
    assert not (workspace / path).exists()


@pytest.mark.parametrize("append", [True, False])
@pytest.mark.parametrize(
    "path", ["HEAD", "docs/HEAD", "docs/head", "docs/Head.", "new/HEAD/x", "bare/config", "bare/hooks/deep/x"]
)
def test_repositories_without_a_working_tree_are_neither_made_nor_changed(
    workspace: Path, path: str, append: bool
) -> None:
    bare = workspace / "bare"
    bare.mkdir()
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    assert "repository" in write_inside(workspace, path, b"x", append=append).failure().message
    assert [each.name for each in bare.iterdir()] == ["HEAD"]
    write_inside(workspace, "docs/headlines.md", b"x", append=append).unwrap()


@pytest.mark.parametrize("append", [True, False])
def test_executable_and_protected_files_are_not_written(workspace: Path, append: bool) -> None:
    script, config = workspace / "run.sh", workspace / "agent.toml"
    script.write_text("echo")
    script.chmod(0o755)
    config.write_text("name = 'a'")
    (workspace / "alias.toml").symlink_to("agent.toml")
    assert "executable" in write_inside(workspace, "run.sh", b"x", append=append).failure().message
    for path in ("agent.toml", "docs/../agent.toml", "alias.toml"):
        failed = write_inside(workspace, path, b"x", append=append, protected={config.resolve()})
        assert "configures the agent" in failed.failure().message
    assert (script.read_text(), config.read_text()) == ("echo", "name = 'a'")


@pytest.mark.parametrize(
    "name",
    ["a\nb.txt", "a\tb", "\u200b.env", "bill\u202egpj.sh", "a\x1b[2J.txt", "a\U000e0041", "\ufeffa"]
    + [f"a{hidden}b" for hidden in "\ufe0f\U000e0100\u00a0\u2800\u034f\u3164\uffa0\u2065"],
)
def test_names_that_are_not_seen_as_they_are_are_not_written(workspace: Path, name: str) -> None:
    assert "not seen" in write_inside(workspace, name, b"x").failure().message


def test_a_name_on_the_disk_is_named_without_its_control_characters(workspace: Path) -> None:
    (workspace / "a\nb\x1b[2J.txt").touch()
    message = open_to_read(workspace, "").failure().message
    assert "\\n" in message
    assert message.isprintable()


def test_a_write_is_bounded(workspace: Path) -> None:
    assert (
        "may be written" in write_inside(workspace, "big.txt", b"x" * (LARGEST_WRITE + 1)).failure().message
    )


# --- files that the program imports ---------------------------------------------------------------------


def test_no_library_is_imported_from_what_is_written(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(workspace)
    for path in (
        "ddgs/__init__.py",  # an optional library, imported by the first search
        "ddgs.py",
        "httpx.py",
        "httpx/_client.py",
        "json.py",
        "sitecustomize.py",
        "orjson.py",  # of a library of a library
        "opentelemetry/sdk/__init__.py",
        "presidio_analyzer.so",
        "a2a/types.py",
        "venv/lib/python3.11/site-packages/any.pth",
        "node_modules/left-pad/index.js",
    ):
        failed = write_inside(workspace, path, b"x")
        assert isinstance(failed, Failure), path
        reason = failed.failure().reason
        assert any(each in reason for each in ("in place of a library", "installed packages")), path
        assert not (workspace / path).exists()


@pytest.mark.parametrize("path", ["report.py", "tests/test_report.py", "shop/prices.py", "json/data.json"])
def test_other_code_is_written_also_where_the_program_imports_from(
    workspace: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(workspace)
    assert write_inside(workspace, path, b"x") == Success(workspace / path)


def test_a_library_elsewhere_does_not_matter_to_a_folder_that_nothing_is_imported_from(
    workspace: Path,
) -> None:
    assert write_inside(workspace, "json.py", b"x") == Success(workspace / "json.py")


def test_a_module_that_is_loaded_is_neither_written_nor_replaced(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "loaded_of_the_program.py").write_text("value = 1")
    (workspace / "open_package").mkdir()
    (workspace / "open_package" / "inner.py").touch()
    (workspace / "origin_of_a_link.py").touch()
    (workspace / "link_to_a_module.py").symlink_to(workspace / "origin_of_a_link.py")
    monkeypatch.syspath_prepend(workspace)
    for name in ("loaded_of_the_program", "open_package", "open_package.inner", "link_to_a_module"):
        monkeypatch.setitem(sys.modules, name, sys)  # which forgets the module afterwards
        del sys.modules[name]
        importlib.import_module(name)
    for path in (
        "loaded_of_the_program.py",
        "loaded_of_the_program/__init__.py",  # a package goes before a module of its name
        "loaded_of_the_program.so",
        "Loaded_Of_The_Program.PY",
        "__pycache__/loaded_of_the_program.cpython-311.pyc",
        "open_package/__init__.py",  # of a package that had none
        "open_package/inner/__init__.py",
        "origin_of_a_link.py",
    ):
        failed = write_inside(workspace, path, b"value = 2")
        assert "a part of the program" in failed.failure().reason, path
    assert write_inside(workspace, "open_package/outer.py", b"x") == Success(
        workspace / "open_package/outer.py"
    )


def test_a_program_that_the_agent_runs_imports_nothing_that_is_written(workspace: Path) -> None:
    (workspace / "servers").mkdir()
    (workspace / "servers" / "__init__.py").touch()
    (workspace / "servers" / "helpers.py").touch()
    script = workspace / "servers" / "weather.py"
    script.touch()
    for path, reason in (
        ("servers/helpers.py", "a part of weather.py"),
        ("servers/helpers/__init__.py", "a part of weather.py"),
        ("servers/httpx.py", "in place of a library"),
        ("servers/json/decoder.py", "in place of a library"),
        ("json.py", "in place of a library"),  # python -m servers.weather
        ("servers/new.py", ""),
        ("other/httpx.py", ""),
    ):
        written = write_inside(workspace, path, b"x", protected=frozenset({script}))
        assert reason in str(written), path
        assert isinstance(written, Failure) is bool(reason), path
