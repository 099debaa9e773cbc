"""The same work by this framework and by Agno, in processes of their own that take turns.

Agno is no dependency of the project: it is measured where the variable ``BENCH_PEERS_PYTHON`` names an
interpreter that has it, or where ``make bench-peers`` has made one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.peers.timing import ROWS
from tests.benchmarks.scenarios import Measurement

BOUNDS = (1.05, 0.75, 0.75, 0.9, 1.1, 0.8, 1.1)
"""What each row may take at most, as a multiple of Agno's figure."""
_TURNS = 3
_HERE = Path(__file__).parent
_OWN = [sys.executable, "-m", "tests.benchmarks.peers.own_agent"]


def peers() -> list[Measurement]:
    """Return the rows "kept" and "built for each run", with Agno's figures where it is installed."""
    python = _interpreter()
    ours, theirs = dict.fromkeys(ROWS, float("inf")), dict.fromkeys(ROWS, float("inf"))
    for _ in range(_TURNS):
        _measure(_OWN, ours)
        if python is not None:
            _measure([python, str(_HERE / "agno_agent.py")], theirs)
    found = []
    for row, bound in zip(ROWS, BOUNDS, strict=True):
        peer = None if python is None else theirs[row]
        reach = None if peer is None else bound * peer
        found.append(Measurement("S8", row, "ms", ours[row], None, reach, peer))
    return found


def _interpreter() -> str | None:
    given = os.environ.get("BENCH_PEERS_PYTHON") or str(Path(".venv-peers/bin/python").absolute())
    return given if Path(given).exists() else None


def _measure(command: list[str], least: dict[str, float]) -> None:
    done = subprocess.run([*command, "3"], check=True, capture_output=True, text=True)
    for row, ms in json.loads(done.stdout.splitlines()[-1])["ms"].items():
        least[row] = min(least[row], ms)
