"""Paths that a model chooses, confined to one directory.

A path is resolved with its symlinks at each use, and refused if the result is elsewhere. The resolved path is
then opened component by component from the workspace, without following symlinks: a directory that another
process replaces by a link in between is refused too, if the system has ``dir_fd``. Written files are neither
hidden, like those of repositories, nor executable, nor imported by this program.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from errno import ELOOP
from functools import cache
from importlib.machinery import PathFinder, all_suffixes
from io import BufferedReader
from itertools import islice
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import BinaryIO

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import WorkspaceViolation
from reactive_agents.core.texts import escaped, shortened
from reactive_agents.core.values import Value

_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
)
_SHOWN_CHARS = 200
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its other end
_BINARY = getattr(os, "O_BINARY", 0)
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
_WALKS = {os.open, os.mkdir, os.stat, os.unlink, os.rename} <= os.supports_dir_fd
_EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
_IS_EXECUTABLE = "it is executable."
_LOOP = "its symlinks form a loop."
_UNREAD = (
    "it exists, and this run has not read all of its present text, which would be lost. To add to its end, "
    "use mode append. To change it, read it to its end, and write its whole new text. Only if the task says "
    "to replace it, use mode overwrite."
)
LARGEST_WRITE = 10_000_000
"""The maximum of bytes in one write."""


def resolve_inside(workspace: Path, path: str) -> Result[Path, WorkspaceViolation]:
    """Return the absolute path without symlinks of ``path``, which need not exist.

    Args:
        path: relative to the workspace, or absolute and inside it.

    Fails with ``WorkspaceViolation`` if it leads out of the workspace (by ``..``, a symlink or from the
    root), contains a NUL byte, or names a device: ``nul`` and ``com1``, devices on Windows, are refused
    everywhere.
    """
    if "\0" in path:
        return _refuse(path, "it holds a NUL byte.")
    if any(_is_device(part) for part in path.replace("\\", "/").split("/")):
        return _refuse(path, "it names a device.")
    try:
        root = workspace.resolve(strict=True)
        resolved = (root / path).resolve()
        is_loop = _is_loop(resolved)
    except RuntimeError:  # for a loop, until Python 3.12
        return _refuse(path, _LOOP)
    except OSError as error:
        return Failure(refused_by_system(path, error))
    except ValueError:  # characters that the file system cannot express
        return _refuse(path, "it holds characters that no file name can have.")
    if not resolved.is_relative_to(root):
        return _refuse(path, "it leads out of the workspace.")
    if is_loop:
        return _refuse(path, _LOOP)
    return Success(resolved)


def _is_loop(resolved: Path) -> bool:
    """Return whether a path could not be resolved, because its links form a loop."""
    try:
        resolved.stat()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    except OSError as error:
        if error.errno != ELOOP:
            raise
        return True
    return False


def open_to_read(workspace: Path, path: str) -> Result[BufferedReader, WorkspaceViolation]:
    """Open a regular file of the workspace for reading bytes; the caller closes it.

    Fails with ``WorkspaceViolation`` as :func:`resolve_inside`, and if there is no such regular file; the
    error then names similar ones.
    """
    found = resolve_inside(workspace, path)
    if isinstance(found, Failure):
        return Failure(found.failure())
    target = found.unwrap()
    if not os.path.exists(target):  # unlike Path.exists, false without permission
        return missing_path(workspace, path)
    if target.is_dir():
        paths = list(islice(files_below(workspace, target), MOST_FILES))
        return _refuse(path, f"it is a folder.{_named('It has', paths)}")
    try:
        with _folder_of(workspace, target) as folder:
            opened = _open(path, folder, target.name, os.O_RDONLY)
    except OSError as error:
        return Failure(refused_by_system(path, error))
    return opened.map(lambda descriptor: os.fdopen(descriptor, "rb"))


def write_inside(
    workspace: Path,
    path: str,
    content: bytes,
    *,
    append: bool = False,
    protected: frozenset[Path] = frozenset(),
    known: Collection[str] | None = None,
) -> Result[Path, WorkspaceViolation]:
    """Write a file of the workspace with its directories; return its resolved path.

    Replaces an existing file atomically, and keeps its permissions. Appends in one write.

    Args:
        content: at most ``LARGEST_WRITE`` bytes.
        protected: resolved paths that must not be written, such as the agent's configuration and records, and
            neither are paths below them or beside them with a suffix ``-…``, such as ``audit.db-head``.
        known: digests of the texts that may be replaced; ``None`` for any.

    Fails with ``WorkspaceViolation`` as :func:`resolve_inside`; if the existing file is not regular,
    executable or protected, or would be replaced and its text is not known; if the path or one of its
    directories is hidden; if a folder of the path is or would become a bare repository; and if a library
    would be imported from the file.
    """
    found = resolve_inside(workspace, path)
    if isinstance(found, Failure):
        return found
    target = found.unwrap()
    if len(content) > LARGEST_WRITE:
        return _refuse(path, f"{len(content)} bytes are more than the {LARGEST_WRITE} that may be written.")
    root = workspace.resolve()
    if target == root:
        return _refuse(path, "it is not a regular file.")
    if _is_protected(target, protected):
        return _refuse(path, "it configures the agent, or is a part of its code or records.")
    if any(part.startswith(".") for part in target.relative_to(root).parts):
        return _refuse(path, "hidden files and folders, such as those of a repository, are not written.")
    if _is_of_repository(root, target):
        return _refuse(path, "a file HEAD makes a folder a repository, whose settings run commands.")
    if escaped(path) != path:
        return _refuse(path, "it holds characters that are not seen, or that break a line.")
    imported = why_imported(target, protected)
    if imported is not None:
        return _refuse(path, imported)
    try:
        with _folder_of(workspace, target, create=True) as folder:
            if append:
                written = _append(path, folder, target.name, content)
            else:
                written = _replace(path, folder, target.name, content, known)
    except (FileExistsError, NotADirectoryError):
        return _refuse(path, "one of its directories is a file or a link.")
    except OSError as error:
        return Failure(refused_by_system(path, error))
    return written.map(lambda _: target)


def _is_protected(target: Path, protected: frozenset[Path]) -> bool:
    """Return whether a path is, is below, or accompanies a protected one, in any case."""
    wanted = str(target).casefold()
    known = (str(each).casefold() for each in protected)
    return any(wanted == each or wanted.startswith((each + "-", each + os.sep)) for each in known)


def _is_of_repository(root: Path, target: Path) -> bool:
    """Return whether a path is, or lies beside or below, the ``HEAD`` of Git."""
    names = target.relative_to(root).parts
    if any(name.split(":")[0].rstrip(". ").casefold() == "head" for name in names):
        return True
    return any(os.path.lexists(root.joinpath(*names[:depth], "HEAD")) for depth in range(len(names)))


# --- files that this program would import ----------------------------------------------------------------
# Libraries are imported at first use, from the folder of the program before any other: if a tool writes
# ``ddgs.py`` there, it would run within this process, or at its next start.


_INSTALLED = frozenset({"site-packages", "dist-packages", "node_modules"})
_CUSTOMIZING = frozenset({"sitecustomize", "usercustomize"})
_OWN_NAMES = frozenset({"test", "tests"})
"""Modules that other packages leave beside theirs, and that are not imported from there."""


def why_imported(target: Path, programs: frozenset[Path] = frozenset()) -> str | None:
    """Return why a file would be imported by this program or another, or ``None``.

    These are files of installed packages, files that replace a loaded module or one beside a program, and
    files that take the name of a library, even of one that is not installed but would be used.

    Args:
        target: a resolved path; the file need not exist.
        programs: resolved paths of files; Python programs also import from their folder.
    """
    if not _INSTALLED.isdisjoint(target.parts):
        return "installed packages are not written."
    if not target.name.casefold().endswith(tuple(all_suffixes())):
        return None
    module, scripts = _module_of(target), [each for each in programs if each.suffix.casefold() == ".py"]
    for loaded in tuple(sys.modules.values()):
        if any(_is_same(place, module) for place in _places_of(loaded)):
            return "it is a part of the program that runs the agent."
    for script in scripts:
        if module.parent == script.parent and _is_module(module):
            return f"it is a part of {script.name}, which the agent runs."
    for folder in (*sys.path, *(str(folder) for each in scripts for folder in _folders_of(each))):
        root = Path(folder or ".").resolve()
        if root in module.parents:
            name = module.relative_to(root).parts[0]
            if name not in _OWN_NAMES and _is_library(name, root):
                return f"the program would import it as {name}, in place of a library."
    return None


def _module_of(file: Path) -> Path:
    """Return the place of a module, the same for ``a.py`` and ``a/__init__.py``."""
    folder = file.parent.parent if file.parent.name == "__pycache__" else file.parent
    name = file.name.partition(".")[0]
    return folder if name == "__init__" else folder / name


def _places_of(module: ModuleType) -> Iterator[str]:
    """Yield the file of a module, and the folders of a package."""
    file, folders = (getattr(module, name, None) for name in ("__file__", "__path__"))
    yield from (each for each in (file, *(folders or ())) if isinstance(each, str))


def _folders_of(script: Path) -> Iterator[Path]:
    """Yield the folders that a program imports from: its own and its package's."""
    for folder in script.parents:
        yield folder
        if not (folder / "__init__.py").is_file():
            return


def _is_module(module: Path) -> bool:
    return any(
        os.path.isfile(f"{place}{suffix}")
        for place in (module, module / "__init__")
        for suffix in all_suffixes()
    )


def _is_same(place: str, module: Path) -> bool:
    if module.name.casefold() not in place.casefold() and not os.path.islink(place):
        return False  # as most are, and links take time
    known = (_module_of(Path(os.path.realpath(place))), Path(os.path.realpath(_module_of(Path(place)))))
    return any(str(each).casefold() == str(module).casefold() for each in known)


def _is_library(name: str, root: Path) -> bool:
    """Return whether a module of this name is or would be found in another folder."""
    if name in sys.stdlib_module_names or name in _CUSTOMIZING or name.casefold() in _requirements():
        return True
    others = [folder for folder in sys.path if Path(folder or ".").resolve() != root]
    try:
        return PathFinder.find_spec(name, others) is not None
    except (ImportError, ValueError):
        return False


@cache
def _requirements() -> frozenset[str]:
    """Return the modules that installed packages may use, from their requirements.

    The module has the name of the requirement or, for those of this package, the beginning of it.
    """
    from importlib import metadata  # imports parsers of mail and archives; only writes need it

    names = {"azure", "google", "opentelemetry"}
    for distribution in metadata.distributions():
        is_own = distribution.name == "reactive-agents"
        for requirement in distribution.requires or ():
            words = re.split(r"[-_.]+", re.split(r"[^\w.-]", requirement, maxsplit=1)[0].casefold())
            names.update(
                "_".join(words[:size]) for size in range(1 if is_own else len(words), len(words) + 1)
            )
    return frozenset(names)


@frozen(eq=False, repr=False)
class _Folder(Value):
    """An open directory. ``descriptor``: ``None`` if names are whole paths instead."""

    path: Path
    descriptor: int | None

    def name(self, name: str) -> str:
        return str(self.path / name) if self.descriptor is None else name


@contextmanager
def _folder_of(workspace: Path, target: Path, *, create: bool = False) -> Iterator[_Folder]:
    """Open the directory of a resolved path, without following a link on the way.

    Raises:
        OSError: a component is not a directory, or the system refuses it.
    """
    if not _WALKS:
        if create:
            target.parent.mkdir(parents=True, exist_ok=True)
        yield _Folder(target.parent, None)
        return
    root = workspace.resolve()
    descriptor = os.open(root, _DIRECTORY)
    try:
        for part in target.relative_to(root).parts[:-1]:
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=descriptor)
            inner = os.open(part, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        yield _Folder(target.parent, descriptor)
    finally:
        os.close(descriptor)


# --- the files that there are ---------------------------------------------------------------------------


MOST_FILES = 10_000
"""The maximum of files to examine for a listing."""
_MOST_COMPARED = 2_000
_MOST_NAMED = 5
_ALIKE = 0.6


def files_below(workspace: Path, folder: Path | None = None) -> Iterator[str]:
    """Yield the files of a folder and those below, by their paths in the workspace.

    Skips hidden folders, and does not follow links to folders.

    Args:
        folder: a resolved folder in the workspace; ``None`` for all of it.
    """
    root = workspace.resolve()
    for directory, below, names in os.walk(folder or root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        for name in sorted(names):
            yield (Path(directory) / name).relative_to(root).as_posix()


def missing_path(workspace: Path, path: str) -> Failure[WorkspaceViolation]:
    """Return the failure of a path that does not exist, with similar ones."""
    known = list(islice(files_below(workspace), _MOST_COMPARED))
    wanted = PurePosixPath(path[-_SHOWN_CHARS:].replace("\\", "/"))
    near = [each for each in known if PurePosixPath(each).name.casefold() == wanted.name.casefold()]
    by_name = {PurePosixPath(each).name: each for each in reversed(known)}
    near += [by_name[name] for name in get_close_matches(wanted.name, by_name, _MOST_NAMED, _ALIKE)]
    near += get_close_matches(wanted.as_posix(), known, _MOST_NAMED, _ALIKE)
    named = _named("Near it", list(dict.fromkeys(near))) or _named("There are", known)
    return _refuse(path, f"it does not exist.{named or ' There are no files.'}")


def _named(lead: str, paths: list[str]) -> str:
    """Return a sentence with the first of the paths; empty without paths."""
    more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
    shown = ", ".join(_shown(each if each.isprintable() else repr(each)) for each in paths[:_MOST_NAMED])
    return f" {lead}: {shown}{more}." if paths else ""


def refused_by_system(path: str, error: OSError) -> WorkspaceViolation:
    """Return an error of the operating system, without the full path."""
    reason = (error.strerror or type(error).__name__).lower()
    return WorkspaceViolation(_shown(path), f"{reason}.")


def _refuse(path: str, reason: str) -> Failure[WorkspaceViolation]:
    return Failure(WorkspaceViolation(_shown(path), reason))


def _shown(path: str) -> str:
    return shortened(path, _SHOWN_CHARS)


def _is_device(part: str) -> bool:
    return part.split(".")[0].split(":")[0].rstrip(" ").lower() in _DEVICES


def _open(path: str, folder: _Folder, name: str, flags: int) -> Result[int, WorkspaceViolation]:
    opening = flags | _NO_FOLLOW | _NO_WAIT | _BINARY
    try:
        descriptor = os.open(folder.name(name), opening, 0o666, dir_fd=folder.descriptor)
    except OSError as error:
        return Failure(refused_by_system(path, error))
    status = os.fstat(descriptor)
    problem = _problem(status)
    if problem is None:
        return Success(descriptor)
    os.close(descriptor)
    return _refuse(path, problem)


def _problem(status: os.stat_result) -> str | None:
    if not stat.S_ISREG(status.st_mode):
        return "it is not a regular file."
    if status.st_nlink > 1:
        return "it has another name (a hard link), which may be outside of the workspace."
    return None


def _append(path: str, folder: _Folder, name: str, content: bytes) -> Result[None, WorkspaceViolation]:
    opened = _open(path, folder, name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if isinstance(opened, Failure):
        return Failure(opened.failure())
    with os.fdopen(opened.unwrap(), "ab") as file:
        if os.fstat(file.fileno()).st_mode & _EXECUTABLE:
            return _refuse(path, _IS_EXECUTABLE)
        file.write(content)
    return Success(None)


def _replace(
    path: str, folder: _Folder, name: str, content: bytes, known: Collection[str] | None
) -> Result[None, WorkspaceViolation]:
    at, temporary = folder.descriptor, folder.name(f".writing-{secrets.token_hex(8)}")
    try:
        existing = os.stat(folder.name(name), dir_fd=at, follow_symlinks=False).st_mode
    except FileNotFoundError:
        existing = None
    if existing is not None and not stat.S_ISREG(existing):
        return _refuse(path, "it is not a regular file.")
    if existing is not None and existing & _EXECUTABLE:
        return _refuse(path, _IS_EXECUTABLE)
    if existing is not None and known is not None:
        opened = _open(path, folder, name, os.O_RDONLY)
        if isinstance(opened, Failure):
            return Failure(opened.failure())
        with os.fdopen(opened.unwrap(), "rb") as present:
            if os.fstat(present.fileno()).st_size and digest_of(present) not in known:
                return _refuse(path, _UNREAD)
    creating = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | _BINARY
    descriptor = os.open(temporary, creating, 0o666, dir_fd=at)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if existing is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), stat.S_IMODE(existing))
        os.replace(temporary, folder.name(name), src_dir_fd=at, dst_dir_fd=at)
    except OSError as error:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=at)
        return Failure(refused_by_system(path, error))
    return Success(None)


def digest_of(file: BufferedReader) -> str:
    """Return the SHA-256 of a file from where it is read, and seek back to its start."""
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest


_PROBE_BYTES = 8_192
_LINE_BYTES = 65_536


def is_binary(file: BinaryIO) -> bool:
    """Return whether the file's start, to which it seeks back, has a NUL byte."""
    probe = file.read(_PROBE_BYTES)
    file.seek(0)
    return b"\0" in probe


def read_lines(file: BinaryIO, *, max_chars: int) -> Iterator[str]:
    """Yield lines as UTF-8, without ends; beyond ``max_chars`` cut, with a note."""
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
