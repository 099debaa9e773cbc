"""Print how runs with simulated models end: ``python -m tests.lab [--tasks N] [--seed N]``.

Rules are tuned on one half of the families; the table of strategies is that of the half that is held back.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterable

from tests.lab.laboratory import Figures, run_tasks
from tests.lab.slips import CAPABLE, SLIPS, WEAK, Profile, of_one_kind
from tests.lab.tasks import FAMILIES, Family, LabTask

STRATEGIES = ("reactive", "plan-execute-reflect", "reflexion", "tree-of-thought", "adaptive")
COLUMNS = ("right", "false success", "honest failure", "calls", "prompt tokens")


def tasks_of(families: Iterable[Family], each: int, seed: int) -> list[tuple[Family, LabTask]]:
    """Return so many tasks of each family."""
    return [(family, family.task(number, seed)) for family in families for number in range(each)]


def row(name: str, figures: Figures) -> str:
    """Return one line of a Markdown table."""
    counts = [figures.count("right"), figures.count("false success"), figures.count("honest failure")]
    return (
        "| " + " | ".join([name, *map(str, counts), str(figures.calls), f"{figures.prompt_tokens:,}"]) + " |"
    )


def table(title: str, first: str, rows: Iterable[str]) -> str:
    """Return a Markdown table."""
    head = f"| {first} | " + " | ".join(COLUMNS) + " |"
    return "\n".join([f"### {title}", "", head, "| --- |" + " ---: |" * len(COLUMNS), *rows, ""])


def by_family(profile: Profile, each: int, seed: int) -> Iterable[str]:
    """Run ``reactive`` on each family by itself."""
    for family in FAMILIES:
        figures = run_tasks(tasks_of([family], each, seed), profile, seed=seed)
        yield row(f"{family.name} ({family.half})", figures)


def main() -> None:
    """Print the tables."""
    logging.disable(logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=20, help="tasks of each family")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--strategies", nargs="*", default=list(STRATEGIES))
    options = parser.parse_args()
    each, seed = options.tasks, options.seed
    held_back = [family for family in FAMILIES if family.half == "held-back"]

    for profile in (CAPABLE, WEAK):
        rows = [
            row(strategy, run_tasks(tasks_of(held_back, each, seed), profile, strategy, seed=seed))
            for strategy in options.strategies
        ]
        print(table(f"Strategies, {profile.name} model, held-back families", "strategy", rows), flush=True)
    print(table("Families, reactive, weak model", "family", by_family(WEAK, each, seed)), flush=True)
    rows = [
        row(kind, run_tasks(tasks_of(held_back, max(each // 4, 1), seed), of_one_kind(kind), seed=seed))
        for kind in SLIPS
    ]
    print(table("Slips, reactive, held-back families", "half of all turns", rows))


if __name__ == "__main__":
    main()
