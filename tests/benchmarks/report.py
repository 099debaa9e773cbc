"""The measurements as a table."""

from __future__ import annotations

from rich.table import Table

from tests.benchmarks.scenarios import Measurement


def table(measured: list[Measurement]) -> Table:
    """The measurements as a table."""
    shown = Table("", "what", box=None, pad_edge=False)
    for heading in ("reactive_agents", "bare loop", "Agno", "target", "unit"):
        shown.add_column(heading, justify="right")
    for each in measured:
        style = "" if each.reach is None or each.ours <= each.reach else "bold red"
        shown.add_row(
            each.scenario,
            each.what,
            figure(each.ours),
            figure(each.bare),
            figure(each.peer),
            figure(each.reach),
            each.unit,
            style=style,
        )
    return shown


def figure(value: float | None) -> str:
    """Three significant digits."""
    return "" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"
