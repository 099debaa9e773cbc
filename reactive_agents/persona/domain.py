"""A domain of a persona: where events come from, what executes steps there, and where answers go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from attrs import frozen

from reactive_agents.core.personas import Domain, DomainEvent, PlanTemplate
from reactive_agents.engine import ExecutionEngine
from reactive_agents.persona.templating import template_problem

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
