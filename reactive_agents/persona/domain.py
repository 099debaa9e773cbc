"""A domain of a persona: its events, its engine, its answers, whether to engage."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias

from attrs import evolve, field, frozen

from reactive_agents.core import personas
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.engine import ExecutionEngine
from reactive_agents.ports import Channel

Describe: TypeAlias = Callable[[personas.DomainEvent], str]
"""Makes the description of a task from an event, as a sentence."""

Deliver: TypeAlias = Callable[..., Awaitable[str | None]]
"""Delivers a message: ``async def deliver(event, text)``, or ``deliver(event, text, key)``.

It may raise, and is then called again later. ``key`` is the same in each of these calls, so that a platform
that knows such keys sends the message once. It may return the platform's id of the message.
"""

_SENTENCES: Mapping[personas.Domain, str] = MappingProxyType(
    {
        "chat": "Respond to the message: {content}",
        "code": "Do this in the code: {content}",
        "game": "Choose what to do in the game: {content}",
        "academy": "Teach, or solve the exercise: {content}",
    }
)


@frozen(eq=False)
class PersonaDomain:
    """One domain of a persona.

    Attributes:
        name: ``chat``, ``code``, ``game``, ``academy``, or a custom name.
        engine: runs the steps, with the tools, the model and the instructions of this domain.
        describe: makes the task's description from an event; ``None`` for the standard sentence.
        deliver: delivers answers; ``None`` leaves them to the caller.
        templates: plans for known kinds of events; the first that matches is used.
        deps: the dependencies of the runs of the steps.
        channel: the platform of its events and answers, in place of ``deliver``.

    Raises:
        ValueError: a template has no steps, or its pattern is no regular expression.
    """

    name: personas.Domain
    engine: ExecutionEngine
    describe: Describe | None = None
    deliver: Deliver | None = None
    templates: tuple[personas.PlanTemplate, ...] = ()
    deps: Any = field(default=None, repr=False)
    channel: Channel | None = None

    def __attrs_post_init__(self) -> None:
        for template in self.templates:
            problem = template_problem(template)
            if problem is not None:
                raise ValueError(f"PersonaDomain: {problem.message}")

    @property
    def delivers(self) -> bool:
        """Whether messages are delivered by the persona, not by its caller."""
        return self.channel is not None or self.deliver is not None

    def description_of(self, event: personas.DomainEvent) -> str:
        """Return the description of the task that an event makes."""
        if self.describe is not None:
            return self.describe(event)
        return _SENTENCES.get(self.name, "Deal with the event: {content}").replace("{content}", event.content)

    async def send(self, event: personas.DomainEvent, text: str, key: str, *, again: bool) -> str:
        """Deliver a message, and return the platform's id of it, if the function says it.

        Args:
            again: whether an earlier try may have delivered it.

        Raises:
            Exception: as the function of the program does.
        """
        if self.channel is not None:
            return await self.channel.send(event, text, key, again=again)
        if self.deliver is None:
            return ""
        takes_key = "key" in inspect.signature(self.deliver).parameters
        sent: object = await (self.deliver(event, text, key=key) if takes_key else self.deliver(event, text))
        return sent if isinstance(sent, str) else ""

    def tool_names(self) -> tuple[str, ...]:
        """Return the names of the tools that steps can use in this domain."""
        tools = self.engine.ports.tools.value_or(None)
        return () if tools is None else tuple(tool.name for tool in tools.definitions())


# --- templates ----------------------------------------------------------------------------------------------


LONGEST_MATCHED = 2_000
"""Maximum characters of an event that is matched with templates; a longer one matches none."""

_PARAMETER = re.compile(r"\{(\w+)\}")


def template_problem(template: personas.PlanTemplate) -> InvalidConfig | None:
    """Return the first problem of a template, named by its field.

    ``None`` for a valid one.
    """
    if not template.steps:
        return InvalidConfig(f"templates.{template.name}.steps", "none", "one step or more")
    try:
        re.compile(template.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        expected = f"a regular expression ({error})"
        return InvalidConfig(f"templates.{template.name}.pattern", repr(template.pattern), expected)
    return None


def matching_template(
    templates: Sequence[personas.PlanTemplate], content: str
) -> personas.PlanTemplate | None:
    """Return the first template that matches the whole content, filled in."""
    if len(content) > LONGEST_MATCHED:
        return None
    for template in templates:
        match = re.fullmatch(template.pattern, content.strip())
        if match is not None:
            return _filled(template, match.groupdict(""))
    return None


def _filled(template: personas.PlanTemplate, parameters: Mapping[str, str]) -> personas.PlanTemplate:
    def fill(text: str) -> str:
        return _PARAMETER.sub(lambda found: parameters.get(found[1], found[0]), text)

    return evolve(
        template,
        goal=fill(template.goal),
        steps=tuple(personas.TemplateStep(fill(step.action), fill(step.expected)) for step in template.steps),
        contingencies=tuple(
            personas.Contingency(each.kind, tuple(map(fill, each.actions))) for each in template.contingencies
        ),
        success_criteria=tuple(map(fill, template.success_criteria)),
    )


# --- engagement: a pure decision ------------------------------------------------------------------------


def should_engage(
    event: personas.DomainEvent,
    *,
    name: str,
    policy: personas.EngagementPolicy,
    recent: Sequence[datetime],
    now: datetime,
    peer_turns: int = 0,
) -> personas.EngagementDecision:
    """Decide whether a persona engages with an event.

    Args:
        name: the persona's own name; it does not answer its own messages.
        recent: when it engaged with events of the same room.
        peer_turns: number of messages of personas since the last one of a person.
    """
    if event.author == name:
        return personas.EngagementDecision(False, "The persona is its author.")
    if event.author in policy.ignored_authors:
        return personas.EngagementDecision(False, f"Events by {event.author} are ignored.")
    if event.author in policy.peers and peer_turns >= policy.max_peer_turns:
        return personas.EngagementDecision(
            False, f"It is of a persona, and no person has spoken for {peer_turns} message(s)."
        )
    if event.priority < policy.min_priority:
        limit = policy.min_priority
        return personas.EngagementDecision(False, f"Its priority {event.priority:g} is below {limit:g}.")
    begin = now - timedelta(seconds=policy.window_s)
    count = sum(moment > begin for moment in recent)
    if count >= policy.max_events:
        return personas.EngagementDecision(
            False,
            f"The limit of {count} events of this context in {policy.window_s:g} seconds is reached.",
            refused=True,
        )
    return personas.EngagementDecision(True, "The engagement policy allows it.")
