"""Compare a lock file with the list of vulnerabilities in ``safety-db``, offline.

The list is of July 2021: it knows nothing of later ones, and no release that is newer than it. It is for
places where no database can be reached, and takes the place of none.
"""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from pathlib import Path

from packaging.specifiers import InvalidSpecifier, SpecifierSet

_PIN = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==([^\s;\\]+)", re.M)


def known(pins: list[tuple[str, str]], entries: dict[str, list[dict[str, object]]]) -> list[str]:
    """Return the pins that an entry names, one line each."""
    found = []
    for name, version in pins:
        for entry in entries.get(re.sub(r"[-_.]+", "-", name).lower(), ()):
            specs = entry["specs"]
            if any(_holds(str(spec), version) for spec in (specs if isinstance(specs, list) else ())):
                found.append(f"{name} {version}: {entry.get('cve') or entry.get('id')}")
    return found


def _holds(spec: str, version: str) -> bool:
    try:
        return SpecifierSet(spec).contains(version, prereleases=True)
    except InvalidSpecifier:
        return False


def main(path: str) -> int:
    """Print what was found, and the age of the list."""
    pins = _PIN.findall(Path(path).read_text(encoding="utf-8"))
    data = Path(sysconfig.get_paths()["purelib"]) / "safety_db" / "insecure_full.json"
    entries = json.loads(data.read_text(encoding="utf-8"))
    found = known(pins, entries)
    print(
        "\n".join(found) or "No known vulnerability",
        f"in {len(pins)} packages, by a list of July 2021 ALONE.",
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
