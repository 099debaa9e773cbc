"""Diagrams of a plan as Mermaid or SVG, with the status of its steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias
from xml.sax.saxutils import escape

from reactive_agents.core.personas import PersonaPlan
from reactive_agents.core.plans import PlanStep, PlanStepStatus

Edge: TypeAlias = tuple[str, str, str]
"""From a step to a step, with the kind of error that leads there; empty without an error."""

COLOURS: dict[PlanStepStatus, str] = {
    "pending": "#e8e8e8",
    "in_progress": "#fff3bf",
    "completed": "#d3f9d8",
    "failed": "#ffc9c9",
    "skipped": "#f1f3f5",
}
WIDTH, HEIGHT, GAP, MARGIN = 460, 46, 26, 20
SHOWN_CHARACTERS = 56
_ENTITIES = {ord(sign): f"#{ord(sign)};" for sign in '"#&<>`'}
"""Replacements of characters with a meaning in Mermaid labels; labels are untrusted text."""


def edges_of(plan: PersonaPlan) -> tuple[Edge, ...]:
    """Return the edges from step to step, and from failures to recoveries."""
    first = {recovery.steps[0]: recovery for recovery in plan.recoveries}
    steps = plan.plan.steps
    return tuple(
        (before.id, after.id, "" if after.id not in first else first[after.id].kind)
        for before, after in pairwise(steps)
    )


def mermaid(plan: PersonaPlan) -> str:
    """Return the plan as a Mermaid flow chart."""
    lines = ["flowchart TD", f'    goal(["{_quoted(_short(plan.plan.goal))}"])']
    lines += [f'    {step.id}["{_quoted(_label(step))}"]:::{step.status}' for step in plan.plan.steps]
    if plan.plan.steps:
        lines.append(f"    goal --> {plan.plan.steps[0].id}")
    for before, after, kind in edges_of(plan):
        lines.append(f"    {before} -. {kind} .-> {after}" if kind else f"    {before} --> {after}")
    lines += [f"    classDef {status} fill:{colour}" for status, colour in COLOURS.items()]
    return "\n".join(lines) + "\n"


def svg(plan: PersonaPlan) -> str:
    """Return the plan as a self-contained SVG image."""
    count = len(plan.plan.steps) + 1
    height = 2 * MARGIN + count * HEIGHT + (count - 1) * GAP
    width = WIDTH + 2 * MARGIN
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
            *_box(0, _short(plan.plan.goal), plan.plan.status, "#d0ebff"),
            *(
                line
                for number, step in enumerate(plan.plan.steps, 1)
                for line in _box(number, _label(step), step.status, COLOURS[step.status])
            ),
            *_arrows(plan),
            "</svg>\n",
        )
    )


def _box(number: int, text: str, status: str, colour: str) -> Iterator[str]:
    top = MARGIN + number * (HEIGHT + GAP)
    yield (
        f'<rect x="{MARGIN}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{colour}" '
        'stroke="#495057"/>'
    )
    yield f'<text x="{MARGIN + 12}" y="{top + 19}" fill="#212529">{escape(text)}</text>'
    yield f'<text x="{MARGIN + 12}" y="{top + 37}" font-size="11" fill="#495057">{escape(status)}</text>'


def _arrows(plan: PersonaPlan) -> Iterator[str]:
    middle = MARGIN + WIDTH // 2
    kinds = ["", *(kind for _, _, kind in edges_of(plan))][: len(plan.plan.steps)]
    for number, kind in enumerate(kinds, 1):
        end = MARGIN + number * (HEIGHT + GAP)
        dashes = ' stroke-dasharray="4 3"' if kind else ""
        yield f'<path d="M{middle} {end - GAP}V{end}" stroke="#495057"{dashes}/>'
        yield f'<path d="M{middle - 4} {end - 7}L{middle} {end}L{middle + 4} {end - 7}Z" fill="#495057"/>'
        if kind:
            yield f'<text x="{middle + 10}" y="{end - 9}" font-size="11" fill="#c92a2a">{kind}</text>'


def _label(step: PlanStep) -> str:
    return f"{step.id}: {_short(step.instruction)}"


def _short(text: str) -> str:
    line = "".join(each for each in " ".join(text.split()) if each.isprintable())  # XML has no others
    return line if len(line) <= SHOWN_CHARACTERS else f"{line[: SHOWN_CHARACTERS - 1].rstrip()}…"


def _quoted(text: str) -> str:
    return text.translate(_ENTITIES)
