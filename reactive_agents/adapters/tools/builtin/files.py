"""The tools ``file-read``, ``file-write``, ``file-list`` and ``file-search``."""

from __future__ import annotations

import heapq
import os
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Literal, NotRequired, TypedDict

from attrs import define, field, frozen
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.call_checks import at_least_one
from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.adapters.tools.workspace import (
    MOST_FILES,
    digest_of,
    files_below,
    is_binary,
    missing_path,
    open_to_read,
    read_lines,
    resolve_inside,
    write_inside,
)
from reactive_agents.core.errors import ArgumentProblem, InvalidToolArguments, ToolErrors, WorkspaceViolation
from reactive_agents.core.tools import KnownText, ToolContext, texts_known_whole

_READ_LINE_CHARS = 2_000
_READ_CHARS = 1_000_000


class FilePart(TypedDict):
    """Some lines of a file.

    ``end_line`` is below ``start_line`` when the file has no such lines.
    """

    path: str
    start_line: int
    end_line: int
    total_lines: int
    text: str
    note: NotRequired[str]


@tool(name="file-read", idempotent=True)
def file_read(
    path: str, start_line: int = 1, max_lines: int = 400, *, context: ToolContext
) -> Result[FilePart, ToolErrors]:
    """Read lines of a text file in the workspace. Long lines are cut, and say so.

    Args:
        path: the file, relative to the workspace
        start_line: the first line to read, counted from 1
        max_lines: how many lines to read at most, 1 or more
    """
    for argument, value in (("start_line", start_line), ("max_lines", max_lines)):
        invalid = at_least_one("file-read", argument, value)
        if invalid is not None:
            return Failure(invalid)
    opened = open_to_read(context.workspace, path)
    if isinstance(opened, Failure):
        return Failure(opened.failure())
    with opened.unwrap() as file:
        if is_binary(file):
            return Failure(WorkspaceViolation(path, "it is a binary file, not text."))
        digest = digest_of(file)  # before its lines: what changes meanwhile is not taken for read
        total = characters = 0
        lines: list[str] = []
        for total, line in enumerate(read_lines(file, max_chars=_READ_LINE_CHARS), start=1):
            if start_line <= total < start_line + max_lines and characters < _READ_CHARS:
                lines.append(line)
                characters += len(line)
    part = FilePart(
        path=path,
        start_line=start_line,
        end_line=start_line + len(lines) - 1,
        total_lines=total,
        text="\n".join(lines),
    )
    if "\ufffd" in part["text"]:
        part["note"] = "What is no UTF-8 is shown as \ufffd; writing this text would lose it."
    elif all(len(line) <= _READ_LINE_CHARS for line in lines):
        context.known_texts.append(KnownText(digest, start_line, part["end_line"], total))
    return Success(part)


class WrittenFile(TypedDict):
    """A written file: the path as given, and the number of bytes."""

    path: str
    bytes: int


@tool(name="file-write", risk="medium", output=True)
def file_write(
    path: str, content: str, mode: Literal["write", "append", "overwrite"] = "write", *, context: ToolContext
) -> Result[WrittenFile, ToolErrors]:
    """Write text to a file, replacing what it holds; mode append adds to its end.

    A file that exists must have been read to its end. Directories on the way are created. Hidden and
    executable files are not written.

    Args:
        path: the file, relative to the workspace
        content: the text to write, in UTF-8
        mode: write a file that is new or was read, the default; append to its end; or overwrite it unread
    """
    encoded = content.encode()
    known = None if mode == "overwrite" else texts_known_whole(context.known_texts)
    written = write_inside(
        context.workspace,
        path,
        encoded,
        append=mode == "append",
        protected=context.protected,
        known=known,
    )
    if isinstance(written, Failure):
        return Failure(written.failure())
    if mode != "append":
        context.known_texts.append(KnownText(sha256(encoded).hexdigest()))
    return Success(WrittenFile(path=path, bytes=len(encoded)))


class ListedFile(TypedDict):
    """A file: its path in the workspace, and its size."""

    path: str
    bytes: int


class FileList(TypedDict):
    """Files of a folder and those below. ``note``: how many more there are."""

    files: list[ListedFile]
    note: NotRequired[str]


@tool(name="file-list", idempotent=True)
def file_list(
    folder: str = ".", max_results: int = 100, *, context: ToolContext
) -> Result[FileList, ToolErrors]:
    """List the files of a workspace folder and those below, without hidden folders.

    Args:
        folder: the folder, relative to the workspace
        max_results: how many files to list at most, 1 or more
    """
    invalid = at_least_one("file-list", "max_results", max_results)
    if invalid is not None:
        return Failure(invalid)
    found = resolve_inside(context.workspace, folder)
    if isinstance(found, Failure):
        return Failure(found.failure())
    target = found.unwrap()
    if not os.path.exists(target):
        return missing_path(context.workspace, folder)
    if not target.is_dir():
        return Failure(WorkspaceViolation(folder, "it is a file, not a folder."))
    paths = list(islice(files_below(context.workspace, target), MOST_FILES))
    listed = [ListedFile(path=path, bytes=_size(context.workspace / path)) for path in paths[:max_results]]
    result = FileList(files=listed)
    if len(paths) > max_results:
        reached = "or more " if len(paths) == MOST_FILES else ""
        result["note"] = f"{len(paths) - max_results} {reached}further files; name a folder to see fewer."
    return Success(result)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:  # it was removed meanwhile
        return 0


_MAX_FILE_BYTES = 2_000_000
_SEARCHED_LINE_CHARS = 10_000
_SHOWN_CHARS = 300
_LEAD_CHARS = 100
_PUNCTUATION = ".,;:!?\"'()[]{}"
_LONGEST_GLOB = 1_000
_DOUBLE_STARS = re.compile(r"(?<![^/])(?:\*\*/)+")


class Match(TypedDict):
    """A line with at least one of the words; long lines are cut around the first."""

    path: str
    line: int
    text: str


class SearchResult(TypedDict):
    """The best matches, the count of matching lines, and skipped files by reason."""

    matches: list[Match]
    total: int
    skipped: int
    note: NotRequired[str]


@frozen(order=True)
class _Hit:
    """A matching line; the better one is the smaller one."""

    missing: int
    path: str
    line: int
    text: str = field(order=False)


@define
class _Tally:
    """Counts of a search so far; ``skipped`` counts files by reason."""

    lines: int = 0
    skipped: Counter[str] = field(factory=Counter)


@tool(name="file-search", idempotent=True)
def file_search(
    query: str, glob: str = "**/*", max_results: int = 20, *, context: ToolContext
) -> Result[SearchResult, ToolErrors]:
    """Search the text files of the workspace for words, whatever their case.

    Lines with more of the words come first. Hidden directories, binary files and files above 2 MB are
    skipped.

    Args:
        query: the words to look for, separated by blanks
        glob: which files to search, such as "docs/**/*.md"
        max_results: how many matching lines to return at most, 1 or more
    """
    invalid = at_least_one("file-search", "max_results", max_results)
    if invalid is not None:
        return Failure(invalid)
    words = tuple(dict.fromkeys(_words(query)))
    problem = None if words else ArgumentProblem("query", repr(query), "at least one word")
    if len(glob) > _LONGEST_GLOB:
        got, most = f"{len(glob)} characters", f"at most {_LONGEST_GLOB} characters"
        problem = ArgumentProblem("glob", got, most)
    if problem is not None:
        return Failure(InvalidToolArguments("file-search", (problem,)))
    tally = _Tally()
    best = heapq.nsmallest(max_results, _search(context.workspace, glob, words, tally))
    matches = [Match(path=hit.path, line=hit.line, text=_excerpt(hit.text, words)) for hit in best]
    result = SearchResult(matches=matches, total=tally.lines, skipped=tally.skipped.total())
    if tally.skipped:
        reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(tally.skipped.items()))
        result["note"] = f"Files skipped: {reasons}."
    return Success(result)


def _words(query: str) -> Iterator[str]:
    for word in query.casefold().split():
        yield word.strip(_PUNCTUATION) or word


def _search(workspace: Path, glob: str, words: tuple[str, ...], tally: _Tally) -> Iterator[_Hit]:
    for path in files_below(workspace):
        if fits_glob(path, glob):
            yield from _search_file(workspace, path, words, tally)


def _search_file(workspace: Path, path: str, words: tuple[str, ...], tally: _Tally) -> Iterator[_Hit]:
    opened = open_to_read(workspace, path)
    if isinstance(opened, Failure):
        tally.skipped["not readable inside the workspace"] += 1
        return
    with opened.unwrap() as file:
        if os.fstat(file.fileno()).st_size > _MAX_FILE_BYTES:
            tally.skipped["above 2 MB"] += 1
            return
        if is_binary(file):
            tally.skipped["binary"] += 1
            return
        for number, text in enumerate(read_lines(file, max_chars=_SEARCHED_LINE_CHARS), start=1):
            folded = text.casefold()
            missing = sum(word not in folded for word in words)
            if missing < len(words):
                tally.lines += 1
                yield _Hit(missing, path, number, text)


def _excerpt(line: str, words: tuple[str, ...]) -> str:
    text = line.strip()
    if len(text) <= _SHOWN_CHARS:
        return text
    folded = text.casefold()
    first = min((folded.find(word) for word in words if word in folded), default=0)
    start = max(0, first - _LEAD_CHARS)
    end = start + _SHOWN_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def fits_glob(path: str, glob: str) -> bool:
    """Return whether a path fits a glob, part by part."""
    pattern = tuple(_DOUBLE_STARS.sub("**/", glob.removeprefix("./")).split("/"))
    reached = _past_double_stars({0}, pattern)
    for part in path.split("/"):
        following = set()
        for position in reached:
            if position == len(pattern):
                continue
            if pattern[position] == "**":
                following.add(position)
            elif fnmatchcase(part, pattern[position]):
                following.add(position + 1)
        reached = _past_double_stars(following, pattern)
    return len(pattern) in reached


def _past_double_stars(positions: set[int], pattern: tuple[str, ...]) -> set[int]:
    reached = set(positions)
    for position in positions:
        while position < len(pattern) and pattern[position] == "**":
            position += 1
            reached.add(position)
    return reached
