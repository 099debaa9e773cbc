"""Plans for known kinds of events: a template whose pattern fits, filled in with words of the event."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from attrs import evolve

from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.personas import Contingency, PlanTemplate, TemplateStep

LONGEST_MATCHED = 2_000
"""Characters up to which an event is matched; a longer one fits no template."""

_PARAMETER = re.compile(r"\{(\w+)\}")


def template_problem(template: PlanTemplate) -> InvalidConfig | None:
    """What keeps a template from being used, by the name of its field."""
    if not template.steps:
        return InvalidConfig(f"templates.{template.name}.steps", "none", "one step or more")
    try:
        re.compile(template.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        expected = f"a regular expression ({error})"
        return InvalidConfig(f"templates.{template.name}.pattern", repr(template.pattern), expected)
    return None


def fitting_template(templates: Sequence[PlanTemplate], content: str) -> PlanTemplate | None:
    """The first template whose pattern the content matches as a whole, with its parameters filled in."""
    if len(content) > LONGEST_MATCHED:
        return None
    for template in templates:
        match = re.fullmatch(template.pattern, content.strip())
        if match is not None:
            return _filled(template, match.groupdict(""))
    return None


def _filled(template: PlanTemplate, parameters: Mapping[str, str]) -> PlanTemplate:
    def fill(text: str) -> str:
        return _PARAMETER.sub(lambda found: parameters.get(found[1], found[0]), text)

    return evolve(
        template,
        goal=fill(template.goal),
        steps=tuple(TemplateStep(fill(step.action), fill(step.expected)) for step in template.steps),
        contingencies=tuple(
            Contingency(each.kind, tuple(map(fill, each.actions))) for each in template.contingencies
        ),
        success_criteria=tuple(map(fill, template.success_criteria)),
    )
