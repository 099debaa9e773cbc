"""Plans as pictures."""

from __future__ import annotations

import html
import re

from reactive_agents.persona.explanation import mermaid
from tests.support.personas import a_persona_plan

STRANGE = '`**<img src="x">** & #quot; -->'


def test_a_label_of_mermaid_is_the_text_and_nothing_else() -> None:
    (label,) = re.findall(r's1\["([^"]*)"\]', mermaid(a_persona_plan(STRANGE)))
    assert not set(label) & set("<>`&")
    assert html.unescape(re.sub(r"#([0-9]+);", r"&#\1;", label)) == f"s1: {STRANGE}"
