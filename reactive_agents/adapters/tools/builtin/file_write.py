"""The ``file-write`` tool."""

from __future__ import annotations

from typing import Literal, TypedDict

from returns.result import Result

from reactive_agents.adapters.tools.decorator import tool
from reactive_agents.adapters.tools.workspace import write_inside
from reactive_agents.core.errors import ToolErrors
from reactive_agents.core.tools import ToolContext


class WrittenFile(TypedDict):
    """What was written: the path as given, and how many bytes."""

    path: str
    bytes: int


@tool(name="file-write", risk="medium", output=True)
def file_write(
    path: str,
    content: str,
    mode: Literal["overwrite", "append"] = "overwrite",
    *,
    context: ToolContext,
) -> Result[WrittenFile, ToolErrors]:
    """Write text to a file in the workspace. Directories on the way are created.

    Args:
        path: the file, relative to the workspace
        content: the text to write, in UTF-8
        mode: replace what the file holds, or add to its end
    """
    encoded = content.encode()
    written: Result[WrittenFile, ToolErrors] = write_inside(
        context.workspace, path, encoded, append=mode == "append"
    ).map(lambda _: WrittenFile(path=path, bytes=len(encoded)))
    return written
