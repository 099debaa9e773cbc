"""``python -m tests.benchmarks.strategies``: play, print the tables, write them and the plot to ``docs/``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import anyio

from tests.benchmarks.strategies.contest import Standing, compete, entrants
from tests.benchmarks.strategies.game import Numbers, puzzles
from tests.benchmarks.strategies.player import Skill
from tests.benchmarks.strategies.report import plot, table

DOCS = Path(__file__).parents[3] / "docs"
GAMES = 200
SKILLS = (0.5, 0.6, 0.7, 0.8, 0.9)


async def contest(games: Sequence[Numbers], skills: Sequence[float], *, with_check: bool) -> list[Standing]:
    """Every entrant at every skill; those of several runs only without a check, as with one they are dear."""
    return [
        await compete(entrant, Skill(step), games, with_check=with_check)
        for entrant in entrants()
        if entrant.runs == 1 or not with_check
        for step in skills
    ]


def write_table(name: str, text: str) -> None:
    """Put a table between its marks in the page about strategies."""
    page = DOCS / "strategies.md"
    marks = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.S)
    old = page.read_text(encoding="utf-8")
    page.write_text(marks.sub(lambda found: f"{found[1]}{text}\n{found[2]}", old), encoding="utf-8")


def main() -> None:
    """Play both games."""
    games = puzzles(GAMES)
    alone = anyio.run(lambda: contest(games, SKILLS, with_check=False))
    checked = anyio.run(lambda: contest(games, SKILLS, with_check=True))
    for name, standings in (("without a check", alone), ("with a check", checked)):
        print(f"{name}\n{table(standings)}\n")
        write_table(name, table(standings))
    (DOCS / "strategies.svg").write_text(plot(alone), encoding="utf-8")


if __name__ == "__main__":
    main()
