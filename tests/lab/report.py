"""The page ``docs/weak-models.md`` and its plot, out of the figures of the laboratory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from tests.lab.laboratory import Ending, Figures

COLUMNS: tuple[Ending, ...] = ("right", "false success", "honest failure")
COLOURS: Mapping[Ending, str] = {
    "right": "#0a7d4b",
    "false success": "#c21e56",
    "honest failure": "#bbbbbb",
}
WIDTH, LEFT, BAR, GAP, PLOT_WIDTH = 820, 250, 18, 8, 520

INTRODUCTION = """\
# Weak models

This page says how runs end when the model slips.

A slip is, for example, a call that is announced but not made, a call written as text, a forgotten argument,
an answer that comes too early, or one with figures that the model made up.

`make lab` measures this and writes the page.
[Checks of answers](answer-checks.md) lists the policies that ask again.

The models are simulated, behind a real HTTP server with the OpenAI protocol.
They know how their tasks are done, see only what they are shown, slip in a stated share of their turns, and
slip less often after they were told that something was wrong.
There are {families} families of tasks with checkable answers, and {slips} kinds of slips.
The rules were tuned on one half of the families; the figures by strategy and by kind of slip are for the
other half, which is worded differently.

Conclusions:

- A model that slips needs no heavier strategy to end honestly: the policies of the kernel are the same in
  every strategy. Choose a heavier one for what it does, and compare its row with that of `reactive`.
- Name the tools that an answer must rest on with `with_required_tools(…)`; this catches answers that come
  too early, whatever they are based on.
- Read `result.status` and `result.reason`: a `partial` run says what is missing.
- A tool whose effects cannot be undone should need approval: nothing here keeps a model from calling
  one by mistake.

A run is *right* if it is `completed` and both its answer and the effects of its tools are correct, or if it
is `abstained` and the task cannot be done.
It is a *false success* if it is `completed` and they are not correct, and an *honest failure* if it ends
`partial` or failed and says why.
Four characters are counted as one prompt token.
"""


BEFORE = """\
`reactive` with a weak model: half of all turns slip, with all kinds of slips mixed.
Before texts without a call, figures and calls as text were checked, the same tasks ended like this:

| before | right | false success | honest failure | prompt tokens |
| --- | ---: | ---: | ---: | ---: |
| 200 sums of prices | 52 | 121 | 27 | 204,000 |
| twelve families, ten tasks each | 41 | 57 | 22 | 137,000 |"""


OVERHEAD = """\
The same loop written by hand has no `final-answer`, and does not mention turns. With a tool of everyday size
and four turns, `reactive` takes 1.25 times its tokens; with the smallest possible tool it takes 1.60
times (1.56 for a `local` model, with its shorter texts), and the bare definition of `final-answer` alone
1.30 times.
These are the characters of each request that the loop by hand does not have:

| part | characters | what for |
| --- | ---: | --- |
| `final-answer` with `answer` | 205 | tells an answer from an announcement: \
without it 81 of 100 sums are right and 19 false successes, instead of 100 and 0; \
of 80 tasks of all families 57 and 23, instead of 72 and 5 |
| its argument `could_not` | 87 | a run that finds its task impossible ends `abstained`, \
with the reason; as many are right without it, and end `completed` |
| the way of working | 57 | independent calls in one turn, and the name of the tool to end with |
| the number of turns | 19 | the model can plan for them |
| that results are data | 42 | [safety](safety.md): pages that contain instructions |

The figures are for a weak model, half of whose turns slip."""


def table(first: str, rows: Iterable[tuple[str, Figures]]) -> str:
    """Return a Markdown table of figures."""
    head = f"| {first} | " + " | ".join(COLUMNS) + " | model calls | prompt tokens |"
    lines = [head, "| --- |" + " ---: |" * (len(COLUMNS) + 2)]
    for name, figures in rows:
        counts = [str(figures.count(ending)) for ending in COLUMNS]
        lines.append(
            "| " + " | ".join([name, *counts, f"{figures.calls:,}", f"{figures.prompt_tokens:,}"]) + " |"
        )
    return "\n".join(lines)


def page(sections: Sequence[tuple[str, str]], *, families: int, slips: int) -> str:
    """Return the whole page: the introduction, the plot, and each section with its table."""
    parts = [INTRODUCTION.format(families=families, slips=slips)]
    parts.append("![How runs end, by strategy and share of slips](weak-models.svg)\n")
    parts.extend(f"## {title}\n\n{body}\n" for title, body in sections)
    return "\n".join(parts)


def plot(rows: Sequence[tuple[str, Figures]]) -> str:
    """Return an SVG with a bar for each row, divided by how its runs ended."""
    height = 40 + len(rows) * (BAR + GAP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13">',
        "<title>How runs end, by strategy and share of slips</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, ending in enumerate(COLUMNS):
        x = LEFT + number * 150
        parts.append(f'<rect x="{x}" y="8" width="14" height="14" fill="{COLOURS[ending]}"/>')
        parts.append(f'<text x="{x + 20}" y="20">{ending}</text>')
    for number, (name, figures) in enumerate(rows):
        y = 36 + number * (BAR + GAP)
        parts.append(f'<text x="{LEFT - 10}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        x = float(LEFT)
        for ending in COLUMNS:
            width = PLOT_WIDTH * figures.count(ending) / max(len(figures.outcomes), 1)
            parts.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[ending]}"/>'
            )
            x += width
    return "\n".join([*parts, "</svg>", ""])
