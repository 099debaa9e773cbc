"""``make bench``: measure, print a table, write ``bench.json``."""

from __future__ import annotations

import asyncio
import json
import os
import platform
from pathlib import Path

from attrs import asdict
from rich.console import Console
from rich.table import Table

from tests.benchmarks.memory import memory
from tests.benchmarks.scenarios import Measurement, in_process, new_process


def main() -> None:
    """Run all scenarios."""
    measured = [*asyncio.run(in_process()), *asyncio.run(memory()), *new_process()]
    Console().print(table(measured))
    document = {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors",
        "measurements": [asdict(each) for each in measured],
    }
    Path("bench.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def table(measured: list[Measurement]) -> Table:
    """The measurements as a table."""
    shown = Table("", "what", box=None, pad_edge=False)
    for heading in ("reactive_agents", "bare loop", "reach", "unit"):
        shown.add_column(heading, justify="right")
    for each in measured:
        style = "" if each.reach is None or each.ours <= each.reach else "bold red"
        shown.add_row(
            each.scenario,
            each.what,
            figure(each.ours),
            figure(each.bare),
            figure(each.reach),
            each.unit,
            style=style,
        )
    return shown


def figure(value: float | None) -> str:
    """Three significant digits."""
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


main()
