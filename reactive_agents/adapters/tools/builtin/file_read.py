"""The ``file-read`` tool."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.builtin.limits import at_least_one
from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.adapters.tools.text_files import is_binary, read_lines
from reactive_agents.adapters.tools.workspace import open_to_read
from reactive_agents.core.errors import ToolErrors, WorkspaceViolation
from reactive_agents.core.tools import ToolContext

_LINE_CHARS = 2_000


class FilePart(TypedDict):
    """Some lines of a file; ``end_line`` is below ``start_line`` when there are none that far down."""

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
        total = 0
        lines: list[str] = []
        for total, line in enumerate(read_lines(file, max_chars=_LINE_CHARS), start=1):
            if start_line <= total < start_line + max_lines:
                lines.append(line)
    part = FilePart(
        path=path,
        start_line=start_line,
        end_line=start_line + len(lines) - 1,
        total_lines=total,
        text="\n".join(lines),
    )
    if "\ufffd" in part["text"]:
        part["note"] = "What is no UTF-8 is shown as \ufffd; writing this text would lose it."
    return Success(part)
