"""``make bench``: measure, print a table, write ``bench.json``."""

from __future__ import annotations

import asyncio
import json
import os
import platform
from pathlib import Path

from attrs import asdict
from rich.console import Console

from tests.benchmarks.memory import memory
from tests.benchmarks.peers.comparison import peers
from tests.benchmarks.report import table
from tests.benchmarks.scenarios import in_process, new_process


def main() -> None:
    """Run all scenarios."""
    measured = [*asyncio.run(in_process()), *asyncio.run(memory()), *new_process(), *peers()]
    Console().print(table(measured))
    document = {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "measurements": [asdict(each) for each in measured],
    }
    Path("bench.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


main()
