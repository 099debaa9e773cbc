"""The law of the workspace: no path leads out of it, whatever links it holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from returns.result import Failure, Success

from reactive_agents.adapters.tools.workspace import open_to_read, resolve_inside, write_inside
from reactive_agents.core.errors import WorkspaceViolation

SECRET = b"secret"


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A directory that holds a workspace full of links, and secrets beside it."""
    with tempfile.TemporaryDirectory() as name:
        outer = Path(name).resolve()
        (outer / "secret").write_bytes(SECRET)
        (outer / "away").mkdir()
        (outer / "away" / "secret").write_bytes(SECRET)
        work = outer / "work"
        (work / "a" / "b").mkdir(parents=True)
        (work / "a" / "file").write_bytes(b"file")
        links = {
            "up": "..",
            "a/up": "../..",
            "a/b/down": "../..",
            "out": "../away",
            "a/out": str(outer / "away"),
            "root": "/",
            "secret-link": "../secret",
            "dangling": "../away/new",
            "chain": "a/chain",
            "a/chain": "../out",
            "loop": "loop",
            "stays": "a/b",
        }
        for link, target in links.items():
            (work / link).symlink_to(target)
        yield outer


PARTS = (
    "a b up down out root secret secret-link dangling chain loop stays file away work new .. .. . ~ C: nul "
    "etc passwd tmp"
)
parts = st.sampled_from([*PARTS.split(), ""]) | st.text(max_size=3)
paths = st.builds(
    lambda start, middle: start + "/".join(middle),
    st.sampled_from(["", "", "", "/", "./", "//", "\\", "file:///"]),
    st.lists(parts, max_size=7),
)


def everything_outside(root: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() if path.is_file() else b""
        for path in (root, root / "away", root / "secret", *(root / "away").iterdir())
    } | {"names": repr(sorted(os.listdir(root))).encode()}


@given(path=paths)
def test_a_resolved_path_is_inside(root: Path, path: str) -> None:
    work = root / "work"
    for tried in (path, str(work) + "/" + path):
        match resolve_inside(work, tried):
            case Success(resolved):
                assert Path(os.path.realpath(resolved)).is_relative_to(work)
            case Failure(error):
                assert isinstance(error, WorkspaceViolation)
                assert error.reason


@given(path=paths)
@example(path="a/up/work/a/file")
@example(path="secret-link")
@example(path="up/secret")
def test_nothing_outside_is_read(root: Path, path: str) -> None:
    match open_to_read(root / "work", path):
        case Success(file):
            with file:
                assert file.read() != SECRET
                inode = os.fstat(file.fileno()).st_ino
                assert inode == (root / "work" / "a" / "file").stat().st_ino
        case Failure(error):
            assert isinstance(error, WorkspaceViolation)


@given(path=paths, append=st.booleans())
@example(path="secret-link", append=True)
@example(path="a/out/new", append=False)
def test_nothing_outside_is_written(root: Path, path: str, append: bool) -> None:
    before = everything_outside(root)
    written = write_inside(root / "work", path, b"written", append=append)
    assert everything_outside(root) == before
    if isinstance(written, Success):
        resolved = written.unwrap()
        assert resolved.is_relative_to(root / "work")
        assert resolved.read_bytes().endswith(b"written")
        resolved.unlink()
