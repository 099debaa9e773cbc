"""Diagrams of plans and trees of thoughts: layout, Mermaid and SVG.

The layout is part of a run's document, so that the page draws the same picture as the command.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import count, pairwise
from textwrap import wrap
from typing import Any
from xml.sax.saxutils import escape

from attrs import evolve, field, frozen

from reactive_agents.core.json import JsonObject
from reactive_agents.core.personas import PersonaPlan
from reactive_agents.core.texts import one_line, shortened

BOX_WIDTH, BOX_HEIGHT = 224, 78
_GAP_ACROSS, _GAP_ALONG = 22, 56
_MARGIN = 12
_MOST_BOXES = 2_000
_LINE, _NOTE = 27, 32
"""Characters per line of a box: of its title, which has two lines, and of its note."""

_COLOURS: Mapping[str, tuple[str, str]] = {
    "completed": ("#e7f4ec", "#2f7d4f"),
    "kept": ("#e7f4ec", "#2f7d4f"),
    "chosen": ("#dcebfb", "#2563a8"),
    "failed": ("#fbe9e7", "#b3392b"),
    "in_progress": ("#dcebfb", "#2563a8"),
    "skipped": ("#f1f1ef", "#6b6b66"),
    "pruned": ("#f1f1ef", "#6b6b66"),
}
_PLAIN = ("#ffffff", "#8a8a84")
_ENTITIES = {ord(sign): f"#{ord(sign)};" for sign in '"#&<>`'}
"""Replacements of characters with a meaning in Mermaid labels; labels are untrusted text."""


@frozen
class Box:
    """One box of a diagram, with its upper left corner in pixels."""

    id: str
    title: str
    note: str
    state: str
    x: float = 0.0
    y: float = 0.0


@frozen
class Diagram:
    """Boxes and the edges between them, by the ids of the boxes; sizes are in pixels.

    Attributes:
        recoveries: the kind of error that an edge recovers from.
    """

    boxes: tuple[Box, ...] = ()
    edges: tuple[tuple[str, str], ...] = ()
    width: float = 0.0
    height: float = 0.0
    recoveries: Mapping[tuple[str, str], str] = field(factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """The curves of the edges, as SVG paths."""
        places = {each.id: each for each in self.boxes}
        ends = [(places[first], places[then]) for first, then in self.edges]
        flows_down = all(first.y < then.y for first, then in ends)
        return tuple(edge_path(first, then, flows_down=flows_down) for first, then in ends)

    def document(self) -> JsonObject:
        """Return the diagram as JSON data."""
        return {
            "boxes": [
                {
                    **{name: getattr(each, name) for name in ("id", "title", "note", "state", "x", "y")},
                    "lines": list(title_lines(each.title)),
                    "short_note": _cut(each.note, _NOTE),
                }
                for each in self.boxes
            ],
            "edges": [list(each) for each in self.edges],
            "paths": list(self.paths),
            "width": self.width,
            "height": self.height,
            "box": [BOX_WIDTH, BOX_HEIGHT],
        }


def diagram_of(plan: Mapping[str, Any] | None, tree: Mapping[str, Any] | None) -> Diagram | None:
    """Return the diagram of a run's tree of thoughts or else plan, if there is one."""
    if tree is not None:
        return tree_diagram(tree)
    return None if plan is None else plan_diagram(plan)


def plan_diagram(plan: Mapping[str, Any]) -> Diagram:
    """Return the diagram of a plan, each step below those that it depends on."""
    steps = plan["steps"][:_MOST_BOXES]
    before: dict[str, list[str]] = {}
    level: dict[str, int] = {}
    for each in steps:  # a dependency on a later step, which no valid plan has, is ignored
        needed = [name for name in each["needs"] if name in level]
        before[each["id"]] = needed
        level[each["id"]] = 1 + max((level[name] for name in needed), default=-1)
    rows: dict[int, list[str]] = {}
    for name in level:
        rows.setdefault(level[name], []).append(name)
    widest = max((len(each) for each in rows.values()), default=0)
    across = BOX_WIDTH + _GAP_ACROSS
    places: dict[str, tuple[float, float]] = {}
    for row, names in rows.items():
        indent = (widest - len(names)) * across / 2
        for at, name in enumerate(names):
            places[name] = (_MARGIN + indent + at * across, _MARGIN + row * (BOX_HEIGHT + _GAP_ALONG))
    boxes = tuple(
        Box(each["id"], each["title"], _note_of_step(each), each["status"], *places[each["id"]])
        for each in steps
    )
    unique = tuple({each.id: each for each in boxes}.values())
    edges = tuple((first, name) for name, needed in before.items() for first in dict.fromkeys(needed))
    return _sized(unique, edges)


def persona_diagram(plan: PersonaPlan) -> Diagram:
    """Return the diagram of a persona's plan: its goal and steps, one below the other."""
    goal = Box("goal", plan.plan.goal, plan.plan.status, plan.plan.status)
    steps = (
        Box(each.id, each.instruction, each.error or each.status, each.status) for each in plan.plan.steps
    )
    boxes = tuple(
        evolve(each, x=_MARGIN, y=_MARGIN + row * (BOX_HEIGHT + _GAP_ALONG))
        for row, each in enumerate((goal, *steps))
    )
    edges = tuple((first.id, then.id) for first, then in pairwise(boxes))
    kinds = {each.steps[0]: each.kind for each in plan.recoveries}
    recoveries = {edge: kinds[edge[1]] for edge in edges if edge[1] in kinds}
    return evolve(_sized(boxes, edges), recoveries=recoveries)


def tree_diagram(tree: Mapping[str, Any]) -> Diagram:
    """Return the diagram of a tree, each thought to the right of its parent."""
    nodes = {each["id"]: each for each in tree["nodes"][:_MOST_BOXES]}
    chosen = set(tree["chosen"])
    children: dict[str | None, list[str]] = {}
    depth: dict[str, int] = {}
    for name, each in nodes.items():
        parent = each["parent"] if each["parent"] in depth else None
        depth[name] = 0 if parent is None else depth[parent] + 1
        children.setdefault(parent, []).append(name)
    rows = count()
    places: dict[str, float] = {}
    for name in _leaves(children):
        places[name] = float(next(rows))
    for name in sorted(depth, key=lambda each: -depth[each]):
        below = [places[each] for each in children.get(name, ())]
        if below:
            places[name] = (below[0] + below[-1]) / 2
    boxes = tuple(
        Box(
            name,
            each["thought"],
            _note_of_thought(each),
            "pruned" if each["pruned_because"] else "chosen" if name in chosen else "kept",
            _MARGIN + depth[name] * (BOX_WIDTH + _GAP_ALONG),
            _MARGIN + places[name] * (BOX_HEIGHT + _GAP_ACROSS),
        )
        for name, each in nodes.items()
    )
    edges = tuple(
        (parent, name) for parent, names in children.items() if parent is not None for name in names
    )
    return _sized(boxes, edges)


def _leaves(children: Mapping[str | None, Sequence[str]]) -> list[str]:
    found: list[str] = []
    stack = list(reversed(children.get(None, ())))
    while stack:
        name = stack.pop()
        below = children.get(name, ())
        if below:
            stack.extend(reversed(below))
        else:
            found.append(name)
    return found


def _note_of_step(step: Mapping[str, Any]) -> str:
    if step["error"]:
        return str(step["error"])
    return f"{step['tool'] or step['kind'].replace('_', ' ')} · {step['status'].replace('_', ' ')}"


def _note_of_thought(thought: Mapping[str, Any]) -> str:
    score = "not judged" if thought["score"] is None else f"score {thought['score']:.2f}"
    return f"{score}, {thought['pruned_because']}" if thought["pruned_because"] else score


def _sized(boxes: tuple[Box, ...], edges: tuple[tuple[str, str], ...]) -> Diagram:
    width = max((each.x for each in boxes), default=0.0) + BOX_WIDTH + _MARGIN
    height = max((each.y for each in boxes), default=0.0) + BOX_HEIGHT + _MARGIN
    return Diagram(boxes, edges, width, height)


def mermaid(diagram: Diagram | None) -> str:
    """Return the diagram in Mermaid's language."""
    if diagram is None or not diagram.boxes:
        return 'graph TD\n  empty["no plan"]'
    names = {each.id: f"n{number}" for number, each in enumerate(diagram.boxes, 1)}
    lines = ["graph TD"]
    for each in diagram.boxes:
        detail = f"{each.state}, {each.note}" if each.state in ("kept", "pruned", "chosen") else each.state
        label = f"{one_line(f'{each.id}: {each.title}')} ({one_line(detail)})".translate(_ENTITIES)
        style = f":::{each.state}" if each.state in _COLOURS else ""
        lines.append(f'  {names[each.id]}["{label}"]{style}')
    for first, then in diagram.edges:
        kind = diagram.recoveries.get((first, then))
        lines.append(f"  {names[first]} {f'-. {kind} .->' if kind else '-->'} {names[then]}")
    lines.extend(
        f"  classDef {state} fill:{fill},stroke:{edge}"
        for state, (fill, edge) in _COLOURS.items()
        if any(each.state == state for each in diagram.boxes)
    )
    return "\n".join(lines)


def svg(diagram: Diagram | None) -> str:
    """Return the diagram as an SVG picture."""
    shown = diagram or Diagram((Box("empty", "No plan", "", "pending", _MARGIN, _MARGIN),), (), 240, 88)
    places = {each.id: each for each in shown.boxes}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {shown.width:g} {shown.height:g}"'
        f' width="{shown.width:g}" height="{shown.height:g}"'
        ' font-family="system-ui, sans-serif" font-size="13" role="img">'
    ]
    for (first, then), path in zip(shown.edges, shown.paths, strict=True):
        kind = shown.recoveries.get((first, then))
        dashes = ' stroke-dasharray="4 3"' if kind else ""
        parts.append(f'<path d="{path}" fill="none" stroke="#b5b5ae" stroke-width="1.5"{dashes}/>')
        if kind:
            x, y = places[then].x + BOX_WIDTH / 2 + 10, places[then].y - 10
            parts.append(f'<text x="{x:g}" y="{y:g}" fill="#b3392b" font-size="11.5">{kind}</text>')
    for each in shown.boxes:
        fill, edge = _COLOURS.get(each.state, _PLAIN)
        lines = "".join(
            f'<text x="{each.x + 12:g}" y="{each.y + 24 + 17 * at:g}" fill="#1c1c1a">{_escaped(line)}</text>'
            for at, line in enumerate(title_lines(each.title))
        )
        parts.append(
            f"<g><title>{_escaped(each.title)} ({_escaped(each.note)})</title>"
            f'<rect x="{each.x:g}" y="{each.y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"'
            f' fill="{fill}" stroke="{edge}"/>{lines}'
            f'<text x="{each.x + 12:g}" y="{each.y + BOX_HEIGHT - 13:g}" fill="#55554f" font-size="11.5">'
            f"{_escaped(_cut(each.note, _NOTE))}</text></g>"
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def edge_path(first: Box, then: Box, *, flows_down: bool) -> str:
    """Return the curve between two boxes, as an SVG path."""
    if flows_down:
        x0, y0 = first.x + BOX_WIDTH / 2, first.y + BOX_HEIGHT
        x1, y1 = then.x + BOX_WIDTH / 2, then.y
        middle = (y0 + y1) / 2
        return f"M{x0:g},{y0:g} C{x0:g},{middle:g} {x1:g},{middle:g} {x1:g},{y1:g}"
    x0, y0 = first.x + BOX_WIDTH, first.y + BOX_HEIGHT / 2
    x1, y1 = then.x, then.y + BOX_HEIGHT / 2
    middle = (x0 + x1) / 2
    return f"M{x0:g},{y0:g} C{middle:g},{y0:g} {middle:g},{y1:g} {x1:g},{y1:g}"


def title_lines(text: str) -> tuple[str, ...]:
    """Return a title as at most two lines."""
    lines = wrap(one_line(text), _LINE, break_long_words=True) or [""]
    return tuple(lines) if len(lines) < 3 else (lines[0], _cut(f"{lines[1]} {lines[2]}", _LINE))


def _cut(text: str, most: int) -> str:
    return shortened(one_line(text), most)


def _escaped(text: str) -> str:
    """Return a text escaped for XML, without characters that XML forbids."""
    return escape(_NOT_XML.sub(" ", text))


_NOT_XML = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
