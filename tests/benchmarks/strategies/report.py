"""The results of a contest, as a Markdown table and as a plot in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tests.benchmarks.strategies.contest import Standing

WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 820, 400, 60, 30, 430, 300
COLOURS = ("#777777", "#bbbbbb", "#d98200", "#0a7d4b", "#1f5fbf", "#8a3ffc", "#c21e56", "#00788a")


def table(standings: Sequence[Standing]) -> str:
    """A row for each entrant, a column for each skill: games won, and model calls a game in brackets."""
    skills = sorted({each.step for each in standings})
    cells = {(each.entrant, each.step): f"{each.won:.0%} ({each.calls:.1f})" for each in standings}
    rows = [f"| | {' | '.join(f'p = {skill}' for skill in skills)} |", "| --- |" + " ---: |" * len(skills)]
    rows.extend(
        f"| {entrant} | {' | '.join(cells[entrant, skill] for skill in skills)} |"
        for entrant in _entrants(standings)
    )
    return "\n".join(rows)


def plot(standings: Sequence[Standing]) -> str:
    """Games won over the skill of the model, a line for each entrant, broken where it lies on another."""
    skills = sorted({each.step for each in standings})
    low, high = skills[0], skills[-1]

    def x(skill: float) -> float:
        return LEFT + PLOT_WIDTH * ((skill - low) / (high - low) if high > low else 0.5)

    def y(won: float) -> float:
        return TOP + PLOT_HEIGHT * (1 - won)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="13">',
        "<title>Games of 24 won, by strategy and by skill of the model</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    for won in (0.0, 0.25, 0.5, 0.75, 1.0):
        parts.append(
            f'<line x1="{LEFT}" y1="{y(won):.0f}" x2="{LEFT + PLOT_WIDTH}" y2="{y(won):.0f}" '
            'stroke="#dddddd"/>'
        )
        parts.append(_text(LEFT - 8, y(won) + 4, f"{won:.0%}", anchor="end"))
    parts.extend(_text(x(skill), TOP + PLOT_HEIGHT + 20, f"{skill}", anchor="middle") for skill in skills)
    parts.append(
        _text(LEFT + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 45, "p: how often a step is right", anchor="middle")
    )
    drawn: set[str] = set()
    for number, entrant in enumerate(_entrants(standings)):
        colour = COLOURS[number % len(COLOURS)]
        own = sorted((each for each in standings if each.entrant == entrant), key=lambda each: each.step)
        points = " ".join(f"{x(each.step):.1f},{y(each.won):.1f}" for each in own)
        look = f'stroke="{colour}"' + (' stroke-dasharray="8 8"' if points in drawn else "")
        drawn.add(points)
        parts.append(f'<polyline points="{points}" fill="none" {look} stroke-width="2"/>')
        calls = sum(each.calls for each in own) / len(own)
        at = TOP + 12 + 24 * number
        right = LEFT + PLOT_WIDTH + 20
        parts.append(
            f'<line x1="{right}" y1="{at - 4}" x2="{right + 24}" y2="{at - 4}" {look} stroke-width="3"/>'
        )
        parts.append(_text(right + 30, at, f"{entrant}: {calls:.1f} calls"))
    return "\n".join([*parts, "</svg>", ""])


def _entrants(standings: Sequence[Standing]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.entrant for each in standings))


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}">{escape(text)}</text>'
