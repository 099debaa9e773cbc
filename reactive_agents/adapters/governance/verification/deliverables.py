"""Files that an answer says were written: are they there?"""

from __future__ import annotations

import stat
from pathlib import Path

from reactive_agents.adapters.governance.verification.claims import Claim
from reactive_agents.core.governance import ClaimEvidence

WORKSPACE_KEY = "workspace"


def look_for_file(claim: Claim, workspace: Path) -> ClaimEvidence:
    """The claim with the size of the file, or without evidence when no regular file is there.

    A path that leads out of the workspace, by ``..`` or a symlink, counts as missing.
    """
    try:
        root = workspace.resolve()
        path = (root / claim.text.replace("\\", "/")).resolve()
        status = path.stat() if path.is_relative_to(root) else None
    except (OSError, ValueError, RuntimeError):
        status = None
    if status is None or not stat.S_ISREG(status.st_mode):
        return ClaimEvidence("file", claim.text, supported=False)
    return ClaimEvidence("file", claim.text, True, WORKSPACE_KEY, f"{status.st_size} bytes")
