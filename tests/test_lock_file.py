"""The lock of the development environment: it covers the declared dependencies, and every line has a hash."""

from __future__ import annotations

import re
import tomllib
from typing import Any

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
