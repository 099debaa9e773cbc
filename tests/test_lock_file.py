"""The lock of the development environment: it covers the declared dependencies, and every line has a hash."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.lock_file import BUILD, LOCK, ROOT, lock_of

LINE = re.compile(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def locked() -> dict[str, str]:
    """The versions of the lock by name."""
    lines = [each for each in LOCK.read_text(encoding="utf-8").splitlines() if not each.startswith("#")]
    found = [LINE.fullmatch(each) for each in lines]
    assert all(found), "each line is a name, a version and a hash, and names no place to load it from"
    return {each[1]: each[2] for each in found if each is not None}


def declared() -> list[Requirement]:
    """The requirements of the package and of its development, with those of the extras that they name."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    waiting = [*project["dependencies"], *extras["dev"], *BUILD]
    found = []
    while waiting:
        requirement = Requirement(waiting.pop())
        if canonicalize_name(requirement.name) == project["name"]:
            waiting += [each for extra in requirement.extras for each in extras[extra]]
        else:
            found.append(requirement)
    return found


def test_every_declared_dependency_is_locked_in_a_version_that_fits() -> None:
    versions = locked()
    wrong = [
        str(each)
        for each in declared()
        if not each.specifier.contains(versions.get(canonicalize_name(each.name), "0"), prereleases=True)
    ]
    assert wrong == [], "make lock writes the lock again"


def test_the_lock_has_no_more_than_an_installation_of_files() -> None:
    report = {
        "install": [
            {
                "metadata": {"name": "A.b_C", "version": "1"},
                "download_info": {"archive_info": {"hashes": {"sha256": "0"}}},
            },
            {"metadata": {"name": "reactive-agents", "version": "1"}, "download_info": {"dir_info": {}}},
        ]
    }
    assert lock_of(report).splitlines()[1:] == ["a-b-c==1 --hash=sha256:0"]


# --- make audit -------------------------------------------------------------------------------------------


def audit(folder: Path, pip_audit: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run ``make audit`` with other tools in the place of the installed ones."""
    tools = folder / "tools"
    (tools / "bin").mkdir(parents=True)
    (tools / ".installed").touch()
    for name, script in (
        ("pip-audit", pip_audit),
        ("cyclonedx-py", "exit 0"),
        ("python", 'echo "compared: $2"'),
    ):
        tool = tools / "bin" / name
        tool.write_text(f"#!/bin/sh\n{script}\n")
        tool.chmod(0o755)
    command = ["make", "-f", str(ROOT / "Makefile"), "audit", f"AUDIT={tools}", "DEVELOPMENT=", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


FOUND = "echo '{}' > build/vulnerabilities.json; exit"


@pytest.mark.parametrize(
    ("pip_audit", "passes", "compared"),
    [
        (f"{FOUND} 0", True, True),
        (f"{FOUND} 1", False, True),
        ("exit 1", False, False),
        ("exit 0", False, False),
    ],
)
def test_an_audit_that_compared_nothing_never_passes(
    pip_audit: str, passes: bool, compared: bool, tmp_path: Path
) -> None:
    done = audit(tmp_path, pip_audit)
    assert (done.returncode == 0) == passes
    assert ("NOT COMPARED" not in done.stderr) == compared


def test_an_audit_without_the_network_says_what_it_leaves_out(tmp_path: Path) -> None:
    done = audit(tmp_path, "exit 1", "OFFLINE=yes")
    assert (done.returncode, "NOT COMPARED" in done.stdout) == (0, True)
    assert "compared: requirements-dev.lock" in done.stdout


def test_the_lock_is_installed_as_it_is_and_then_checked_to_be_complete() -> None:
    # resolving would look for newer releases of what extras name, and refuse them for want of a hash
    asked = ["make", "--dry-run", "--always-make", "install-dev", "LOCKED=yes"]
    shown = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installs = [each for each in shown.splitlines() if " install " in each]
    *of_lock, package = installs
    assert len(of_lock) == 3  # uv, everything by uv, and by pip where uv does not find the index
    assert all("--no-deps --require-hashes" in each for each in of_lock)
    assert all(f"-r {LOCK.name}" in each for each in of_lock[1:])
    assert f"grep '^uv==' {LOCK.name} |" in of_lock[0]
    assert "uv" in locked()
    assert "--no-deps --no-build-isolation -e ." in package
    assert "-m pip check" in shown
