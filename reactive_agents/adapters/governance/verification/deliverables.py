"""Files that a run was to leave, or that an answer says were written: are they there?"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from reactive_agents.core.governance import ClaimEvidence
from reactive_agents.core.tasks import Task

WORKSPACE_KEY = "workspace"


def declared_deliverables(task: Task, configured: Sequence[str]) -> tuple[str, ...]:
    """The paths that are configured, and those that the task lists in its details under ``deliverables``."""
    return tuple(dict.fromkeys((*configured, *task.listed("deliverables"))))


def look_for_file(path: str, workspace: Path) -> ClaimEvidence:
    """The path with the size of the file, or without evidence when no regular file is there.

    A path that leads out of the workspace, by ``..`` or a symlink, counts as missing.
    """
    try:
        root = workspace.resolve()
        place = (root / path.replace("\\", "/")).resolve()
        status = place.stat() if place.is_relative_to(root) else None
    except (OSError, ValueError, RuntimeError):
        status = None
    if status is None or not stat.S_ISREG(status.st_mode):
        return ClaimEvidence("file", path, supported=False)
    return ClaimEvidence("file", path, True, WORKSPACE_KEY, f"{status.st_size} bytes")
