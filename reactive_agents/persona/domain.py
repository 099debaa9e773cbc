"""A domain of a persona: where events come from, what executes steps there, and where answers go."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from attrs import evolve, frozen

from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.personas import Contingency, Domain, DomainEvent, PlanTemplate, TemplateStep
from reactive_agents.engine import ExecutionEngine

Describe: TypeAlias = Callable[[DomainEvent], str]
"""What there is to do about an event, as a sentence."""

Deliver: TypeAlias = Callable[[DomainEvent, str], Awaitable[None]]
"""Puts out the answer to an event: posts a message, writes a file, makes a move. It may raise."""

_SENTENCES: Mapping[Domain, str] = MappingProxyType(
    {
        "chat": "Respond to the message: {content}",
        "code": "Do this in the code: {content}",
        "game": "Choose what to do in the game: {content}",
        "academy": "Teach, or solve the exercise: {content}",
    }
)


@frozen(eq=False)
class PersonaDomain:
    """One domain.

    Attributes:
        name: ``chat``, ``code``, ``game``, ``academy``, or one of the user's own.
        engine: runs the steps, with the tools, the model and the role that they have in this domain.
        describe: makes the task's description of an event; ``None`` for the standard sentence.
        deliver: where answers go; ``None`` leaves them to the caller.
        templates: plans for known kinds of events; the first that fits is taken.

    Raises:
        ValueError: a template has no steps, or its pattern is no regular expression.
    """

    name: Domain
    engine: ExecutionEngine
    describe: Describe | None = None
    deliver: Deliver | None = None
    templates: tuple[PlanTemplate, ...] = ()

    def __attrs_post_init__(self) -> None:
        for template in self.templates:
            problem = template_problem(template)
            if problem is not None:
                raise ValueError(f"PersonaDomain: {problem.message}")

    def description_of(self, event: DomainEvent) -> str:
        """What there is to do about the event."""
        if self.describe is not None:
            return self.describe(event)
        return _SENTENCES.get(self.name, "Deal with the event: {content}").replace("{content}", event.content)

    def tool_names(self) -> tuple[str, ...]:
        """The tools that steps can use here."""
        tools = self.engine.ports.tools.value_or(None)
        return () if tools is None else tuple(tool.name for tool in tools.definitions())


# --- Plans for known kinds of events: a template whose pattern fits, filled in with words of the event ---


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
