"""Plans as diagrams."""

from __future__ import annotations

import html
import re

from reactive_agents.studio.diagrams import mermaid, persona_diagram, plan_diagram
from tests.support.personas import a_persona_plan

STRANGE = '`**<img src="x">** & #quot; -->'


def test_a_label_of_mermaid_is_the_text_and_nothing_else() -> None:
    step = {"id": "s1", "title": STRANGE, "needs": [], "kind": "tool", "tool": "", "error": ""}
    for state in ("done", 'x"]\n  end'):  # as the file of another person may have it
        chart = mermaid(plan_diagram({"steps": [{**step, "status": state}]}))
        (label,) = re.findall(r'n1\["([^"]*)"\]', chart)
        assert not set(label) & set("<>`&")
        shown = html.unescape(re.sub(r"#([0-9]+);", r"&#\1;", label))
        assert shown == f"s1: {STRANGE} ({' '.join(state.split())})"
        assert len(chart.splitlines()) == 2


def test_the_steps_of_a_persona_follow_each_other() -> None:
    drawn = persona_diagram(a_persona_plan("Look it up.", "Write it."))
    assert drawn.edges == (("goal", "s1"), ("s1", "s2"))
    assert [each.y for each in drawn.boxes] == sorted({each.y for each in drawn.boxes})
