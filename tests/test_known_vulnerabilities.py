"""The comparison with a list of vulnerabilities, offline."""

from __future__ import annotations

import re
from pathlib import Path

from tests.known_vulnerabilities import _PIN, known

ENTRIES: dict[str, list[dict[str, object]]] = {
    "py-yaml": [{"specs": ["<5.4", ">6,<6.1"], "cve": "CVE-1"}, {"specs": ["what?"], "cve": "CVE-2"}]
}


def test_a_pin_within_a_range_is_named() -> None:
    assert known([("Py_YAML", "5.3.1")], ENTRIES) == ["Py_YAML 5.3.1: CVE-1"]
    assert known([("py-yaml", "6.0.1"), ("py-yaml", "5.4"), ("other", "1")], ENTRIES) == [
        "py-yaml 6.0.1: CVE-1"
    ]


def test_every_package_of_the_lock_is_compared() -> None:
    text = (Path(__file__).parents[1] / "requirements-dev.lock").read_text(encoding="utf-8")
    assert len(_PIN.findall(text)) == len(re.findall(r"^\S+==", text, re.M)) > 50
