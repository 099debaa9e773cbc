"""Paths that a model chose, held inside one directory.

A path is resolved each time it is used, symlinks included, and refused when the result lies elsewhere. The
resolved path is then opened without following a symlink at its end, so that a link put there in between is
refused too. A process that may rename directories of the workspace at the same moment is outside this guard.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from difflib import get_close_matches
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from returns.result import Failure, Result, Success

from reactive_agents.core.errors import WorkspaceViolation

_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
)
_SHOWN_CHARS = 200
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its other end
_BINARY = getattr(os, "O_BINARY", 0)


def resolve_inside(workspace: Path, path: str) -> Result[Path, WorkspaceViolation]:
    """The absolute path without symlinks that ``path`` means; it need not exist.

    Args:
        workspace: an existing directory.
        path: relative to the workspace, or absolute and inside it.

    Fails with ``WorkspaceViolation`` when it leads out of the workspace (by ``..``, by a symlink or from the
    root), holds a NUL byte, or names a device: ``nul`` or ``com1`` is one on Windows, so it is refused
    everywhere.
    """
    if "\0" in path:
        return _refuse(path, "it holds a NUL byte.")
    if any(_is_device(part) for part in path.replace("\\", "/").split("/")):
        return _refuse(path, "it names a device.")
    try:
        root = workspace.resolve(strict=True)
        resolved = (root / path).resolve()
        if resolved.is_symlink():  # a loop of links has no end to resolve to
            return _refuse(path, "its symlinks form a loop.")
    except RuntimeError:
        return _refuse(path, "its symlinks form a loop.")
    except OSError as error:
        return Failure(refused_by_system(path, error))
    except ValueError:  # characters that the file system cannot express
        return _refuse(path, "it holds characters that no file name can have.")
    if not resolved.is_relative_to(root):
        return _refuse(path, "it leads out of the workspace.")
    return Success(resolved)


def open_to_read(workspace: Path, path: str) -> Result[BinaryIO, WorkspaceViolation]:
    """Open a regular file of the workspace for reading bytes; the caller closes it.

    Fails with ``WorkspaceViolation`` as :func:`resolve_inside`, and when there is no such regular file; it
    then names the nearest ones.
    """
    found = resolve_inside(workspace, path)
    if isinstance(found, Failure):
        return Failure(found.failure())
    target = found.unwrap()
    if not os.path.exists(target):  # unlike Path.exists, false also where it may not be looked at
        return missing_path(workspace, path)
    if target.is_dir():
        return _refuse(path, f"it is a folder.{_named('It has', _paths_below(workspace, target))}")
    return _open(path, target, os.O_RDONLY).map(lambda descriptor: os.fdopen(descriptor, "rb"))


def write_inside(
    workspace: Path, path: str, content: bytes, *, append: bool = False
) -> Result[Path, WorkspaceViolation]:
    """Write a file of the workspace with its directories; return its resolved path.

    An existing file is replaced in one step, so a reader sees the old content or the new one, and keeps its
    permissions. Appending adds the content at the end in one write.

    Fails with ``WorkspaceViolation`` as :func:`resolve_inside`, and when what is there is no regular file.
    """
    found = resolve_inside(workspace, path)
    if isinstance(found, Failure):
        return found
    target = found.unwrap()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        return _refuse(path, "a file stands where it needs a directory.")
    except OSError as error:
        return Failure(refused_by_system(path, error))
    again = resolve_inside(workspace, str(target))
    if isinstance(again, Failure) or again.unwrap() != target:
        return _refuse(path, "its directories changed while it was written.")
    written = _append(path, target, content) if append else _replace(path, target, content)
    return written.map(lambda _: target)


# --- the files that there are ---------------------------------------------------------------------------


MOST_FILES = 10_000
"""Files of a workspace that are looked at to list them."""
_MOST_COMPARED = 2_000
_MOST_NAMED = 5
_ALIKE = 0.6


def files_below(workspace: Path, folder: Path | None = None) -> Iterator[str]:
    """Yield the files of a folder and those below, by their paths in the workspace.

    Hidden folders are left out, and links to folders are not followed.

    Args:
        folder: a resolved one inside the workspace; ``None`` for all of it.
    """
    root = workspace.resolve()
    for directory, below, names in os.walk(folder or root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            yield (Path(directory) / name).relative_to(root).as_posix()


def missing_path(workspace: Path, path: str) -> Failure[WorkspaceViolation]:
    """Return the failure of a path that does not exist, with the nearest that do."""
    known = list(islice(files_below(workspace), _MOST_COMPARED))
    wanted = PurePosixPath(path[-_SHOWN_CHARS:].replace("\\", "/"))
    near = [each for each in known if PurePosixPath(each).name.casefold() == wanted.name.casefold()]
    by_name = {PurePosixPath(each).name: each for each in reversed(known)}
    near += [by_name[name] for name in get_close_matches(wanted.name, by_name, _MOST_NAMED, _ALIKE)]
    near += get_close_matches(wanted.as_posix(), known, _MOST_NAMED, _ALIKE)
    named = _named("Near it", list(dict.fromkeys(near))) or _named("There are", known)
    return _refuse(path, f"it does not exist.{named or ' There are no files.'}")


def _paths_below(workspace: Path, folder: Path) -> list[str]:
    return list(islice(files_below(workspace, folder), MOST_FILES))


def _named(lead: str, paths: list[str]) -> str:
    """Return a sentence with the first of the paths; empty without any."""
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    shown = ", ".join(_shown(each) for each in paths[:_MOST_NAMED])
    return f" {lead}: {shown}{more}." if paths else ""


def refused_by_system(path: str, error: OSError) -> WorkspaceViolation:
    """Return an error of the operating system, without the full path."""
    reason = (error.strerror or type(error).__name__).lower()
    return WorkspaceViolation(_shown(path), f"{reason}.")


def _refuse(path: str, reason: str) -> Failure[WorkspaceViolation]:
    return Failure(WorkspaceViolation(_shown(path), reason))


def _shown(path: str) -> str:
    return path if len(path) <= _SHOWN_CHARS else path[: _SHOWN_CHARS - 1] + "…"


def _is_device(part: str) -> bool:
    return part.split(".")[0].split(":")[0].rstrip(" ").lower() in _DEVICES


def _open(path: str, target: Path, flags: int) -> Result[int, WorkspaceViolation]:
    try:
        descriptor = os.open(target, flags | _NO_FOLLOW | _NO_WAIT | _BINARY, 0o666)
    except OSError as error:
        return Failure(refused_by_system(path, error))
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return Success(descriptor)
    os.close(descriptor)
    return _refuse(path, "it is not a regular file.")


def _append(path: str, target: Path, content: bytes) -> Result[None, WorkspaceViolation]:
    opened = _open(path, target, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if isinstance(opened, Failure):
        return Failure(opened.failure())
    try:
        with os.fdopen(opened.unwrap(), "ab") as file:
            file.write(content)
    except OSError as error:
        return Failure(refused_by_system(path, error))
    return Success(None)


def _replace(path: str, target: Path, content: bytes) -> Result[None, WorkspaceViolation]:
    temporary = target.with_name(f".writing-{secrets.token_hex(8)}")
    try:
        existing = target.lstat().st_mode if os.path.lexists(target) else None
        if existing is not None and not stat.S_ISREG(existing):
            return _refuse(path, "it is not a regular file.")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY, 0o666)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        if existing is not None:
            temporary.chmod(stat.S_IMODE(existing))
        temporary.replace(target)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        return Failure(refused_by_system(path, error))
    return Success(None)


# --- text files -----------------------------------------------------------------------------------------


_PROBE_BYTES = 8_192
_LINE_BYTES = 65_536


def is_binary(file: BinaryIO) -> bool:
    """Return whether the start of the file has a NUL byte, unlike text in UTF-8.

    Seeks back to the start.
    """
    probe = file.read(_PROBE_BYTES)
    file.seek(0)
    return b"\0" in probe


def read_lines(file: BinaryIO, *, max_chars: int) -> Iterator[str]:
    """Yield lines as UTF-8, without their ends; long ones are cut with a note.

    Args:
        max_chars: of a line, 1 or more.
    """
    first = True
    while line := file.readline(_LINE_BYTES):
        length = len(line)
        if not line.endswith(b"\n") and length == _LINE_BYTES:
            length += _skip_to_end_of_line(file)
        text = line.decode("utf-8-sig" if first else "utf-8", "replace").rstrip("\r\n")
        first = False
        if len(text) > max_chars or length > _LINE_BYTES:
            text = f"{text[:max_chars]} [… line of {length} bytes cut …]"
        yield text


def _skip_to_end_of_line(file: BinaryIO) -> int:
    skipped = 0
    while rest := file.readline(_LINE_BYTES):
        skipped += len(rest)
        if rest.endswith(b"\n"):
            break
    return skipped
