"""Write ``requirements-dev.lock``: the packages of a development environment with versions and hashes.

The hashes are those of the files that pip chooses for CPython 3.11 on this platform. ``make lock`` runs it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-dev.lock"
BUILD = ("hatchling", "editables")
"""What building the package itself needs."""
_TITLE = (
    "# Written by `make lock`. Linux on x86-64, CPython 3.11; installed by `make install-dev LOCKED=yes`.\n"
)


def lock_of(report: Mapping[str, Any]) -> str:
    """Return the lock of an installation report of pip, without the package itself."""
    found = {}
    for each in report["install"]:
        name, version = each["metadata"]["name"], each["metadata"]["version"]
        if "archive_info" in each["download_info"]:
            hashes = each["download_info"]["archive_info"]["hashes"]
            found[re.sub(r"[-_.]+", "-", name).lower()] = f"{version} --hash=sha256:{hashes['sha256']}"
    return _TITLE + "".join(f"{name}=={found[name]}\n" for name in sorted(found))


def report_of(requirements: Iterable[str]) -> Mapping[str, Any]:
    """Return the report of pip on an installation that is not made."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*pip, "--report", str(report), *requirements], check=True, cwd=ROOT)
        loaded: Mapping[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        return loaded


if __name__ == "__main__":
    LOCK.write_text(lock_of(report_of((".[dev]", *BUILD))), encoding="utf-8")
