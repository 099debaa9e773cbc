"""The figures that the adaptive strategy chooses by: right answers and tokens by strategy and slip rate."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import reactive_agents
from reactive_agents.core.codec import to_json
from reactive_agents.reasoning.selection.selector import MEASUREMENTS_FILE, Measurement
from tests.lab.laboratory import Figures

PACKAGED = Path(reactive_agents.__file__).parent / "reasoning" / "selection" / MEASUREMENTS_FILE


def measurement(strategy: str, slips: float, figures: Figures) -> Measurement:
    """Return the figures of a strategy with models that slip in a share of their turns."""
    return Measurement(
        strategy,
        slips,
        runs=len(figures.outcomes),
        right=figures.count("right"),
        false_success=figures.count("false success"),
        prompt_tokens=figures.prompt_tokens,
    )


def write_measurements(measured: Iterable[Measurement], path: Path = PACKAGED) -> None:
    """Write the data of the package, except the strategy that chooses by it."""
    rows = tuple(each for each in measured if each.strategy != "adaptive")
    path.write_text(to_json(rows, indent=1) + "\n", encoding="utf-8")
