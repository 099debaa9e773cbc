"""What learning brings a persona in worlds whose rules change.

``python -m tests.benchmarks.persona_learning`` prints the table and writes the plot of docs/personas.md;
with the argument ``unseen`` it prints how many of twenty other seeds reach each bound, and with ``ideal``
what can be reached at all in the first events after the change.
All figures are with a persona's defaults: learning on, reuse of plans on.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from pathlib import Path

import anyio

from reactive_agents.persona.learnings import WORTH_A_TRY
from tests.support.changing_rules import WORLDS, World, play

PLOT = Path(__file__).parents[2] / "docs" / "persona-worlds.svg"
SEEDS = (1, 2, 3)
UNSEEN = range(200, 220)
BOUNDS = (0.75, 0.45, 0.7)
"""Shares of successes before the change, in the first events after it, and at the end."""
WINDOW = 50
COLOURS = ("#26425a", "#b5541c", "#4d7c32")


def shares(world: World, helped: Sequence[bool]) -> tuple[float, float, float]:
    """Return the share of successes before the change, in the first 50 after it, and in the last 50."""
    at = world.change_at
    return (
        sum(helped[:at]) / at,
        sum(helped[at : at + WINDOW]) / WINDOW,
        sum(helped[-WINDOW:]) / WINDOW,
    )


def _plot(courses: Sequence[tuple[World, Sequence[Sequence[bool]]]]) -> str:
    width, height, left, top = 640, 300, 48, 20
    longest = max(world.events for world, _ in courses)
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
    ]
    drawn[0] += ' font-size="12">'
    for tenth in range(0, 11, 2):
        y = top + (height - 60) * (1 - tenth / 10)
        drawn.append(f'<path d="M{left} {y:.0f}H{width - 12}" stroke="#ccc"/>')
        drawn.append(f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">{tenth * 10} %</text>')
    for (world, runs), colour in zip(courses, COLOURS, strict=True):
        points = []
        for end in range(WINDOW // 2, world.events + 1, 5):
            begin = max(0, end - WINDOW // 2)
            share = sum(sum(run[begin:end]) for run in runs) / (len(runs) * (end - begin))
            x = left + (width - 60) * end / longest
            points.append(f"{x:.1f},{top + (height - 60) * (1 - share):.1f}")
        x = left + (width - 60) * world.change_at / longest
        drawn.append(f'<path d="M{x:.0f} {top}v{height - 60}" stroke="{colour}" stroke-dasharray="3 3"/>')
        drawn.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    for number, ((world, _), colour) in enumerate(zip(courses, COLOURS, strict=True)):
        drawn.append(f'<text x="{left + 110 * number}" y="{height - 8}" fill="{colour}">{world.name}</text>')
    drawn.append(
        f'<text x="{width - 12}" y="{height - 8}" text-anchor="end">events; dashed: the change</text>'
    )
    return "\n".join([*drawn, "</svg>\n"])


def print_unseen() -> None:
    """Print the mean shares of twenty other seeds, and how many of them reach each bound."""
    print("| world | before the change | first 50 after | last 50 |")
    print("| --- | --- | --- | --- |")
    for world in WORLDS:
        rows = [shares(world, anyio.run(play, world, seed)) for seed in UNSEEN]
        cells = []
        for place, bound in enumerate(BOUNDS):
            found = [row[place] for row in rows]
            reached = sum(share >= bound for share in found)
            cells.append(f"{sum(found) / len(found):.2f}, {reached} of {len(found)}")
        print(f"| {world.name} | {' | '.join(cells)} |", flush=True)


def ideal(world: World, seed: int, *, worth_a_try: float) -> float:
    """Return the share of successes after the change of one that knows when it was.

    It tries no wrong remedy twice, except by the noise of the world.

    Args:
        worth_a_try: the share of old remedies that still help, among those tried, from which on the next one
            is tried first; else it is tried last.
    """
    before, after = world.rules(seed)
    chance, right = random.Random(seed), dict[str, str]()
    wrong: dict[str, list[str]] = {trouble: [] for trouble in world.troubles}
    held: list[bool] = []
    helped = 0
    for event in world.happenings(seed)[world.change_at : world.change_at + WINDOW]:
        trouble = next(each for each in world.troubles if each in event.content)
        left = [each for each in world.remedies if each not in wrong[trouble]] or list(world.remedies)
        others = [each for each in left if each != before[trouble]]
        first = before[trouble] in left and (sum(held) + 1) / (len(held) + 2) >= worth_a_try
        remedy = right.get(trouble) or (before[trouble] if first or not others else chance.choice(others))
        success = after[trouble] == remedy and chance.random() >= world.noise
        if remedy == before[trouble] and trouble not in right:
            held.append(success)
        helped += success
        if success:
            right[trouble] = remedy
        elif trouble not in right:
            wrong[trouble].append(remedy)
    return helped / WINDOW


def print_ideal() -> None:
    """Print what is possible at most: by trying old remedies first, last, and by the persona's rule."""
    print("| world | old ones first | last | by the persona's rule |")
    print("| --- | --- | --- | --- |")
    for world in WORLDS:
        cells = []
        for worth_a_try in (0.0, 1.0, WORTH_A_TRY):
            found = [ideal(world, seed, worth_a_try=worth_a_try) for seed in range(1_000)]
            reached = sum(share >= BOUNDS[1] for share in found) / len(found)
            cells.append(f"{sum(found) / len(found):.2f}, {reached:.0%}")
        print(f"| {world.name} | {' | '.join(cells)} |")


def main() -> None:
    """Print the table and write the plot."""
    courses = []
    print("| world | before the change | first 50 after | last 50 | last 50 without learning |")
    print("| --- | --- | --- | --- | --- |")
    for world in WORLDS:
        runs = [anyio.run(play, world, seed) for seed in SEEDS]
        alone = sum(anyio.run(lambda: play(world, SEEDS[0], learning=False))[-WINDOW:]) / WINDOW  # noqa: B023
        rows = [shares(world, run) for run in runs]
        cells = (", ".join(f"{row[place]:.2f}" for row in rows) for place in range(3))
        print(f"| {world.name} | {' | '.join(cells)} | {alone:.2f} |", flush=True)
        courses.append((world, runs))
    PLOT.write_text(_plot(courses), encoding="utf-8")


if __name__ == "__main__":
    {"unseen": print_unseen, "ideal": print_ideal}.get("".join(sys.argv[1:]), main)()
