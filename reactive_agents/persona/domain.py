"""A domain of a persona: events, engine, delivery and engagement policy."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from attrs import evolve, field, frozen

from reactive_agents.core import personas
from reactive_agents.core.errors import InvalidConfig, InvalidEvent
from reactive_agents.core.persona_queue import Utterance
from reactive_agents.core.run_context import signature_of
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.effects import awaited
from reactive_agents.engine import ExecutionEngine
from reactive_agents.ports import Channel

Describe: TypeAlias = Callable[[personas.DomainEvent], str]
"""Return the description of an event's task, as a sentence."""

Engage: TypeAlias = Callable[..., Any]
"""Decide on an event that the policy allows: ``def engage(event, transcript)``, sync or async.

It returns ``True`` or ``False``, or an ``EngagementDecision`` with the reason. ``transcript`` has the earlier
messages of the room, oldest first.
"""

Check: TypeAlias = Callable[..., Any]
"""Judge an answer: ``def check(event, answer, calls)``, sync or async.

It returns ``True`` or ``False``, or ``None`` if it cannot decide. ``calls`` are the tool calls of the plan's
steps in order, each a ``StepCall``.
"""

Deliver: TypeAlias = Callable[..., Awaitable[str | None] | str | None]
"""Deliver a message: a function ``deliver(event, text)`` or ``deliver(event, text, key)``.

If it raises, it is called again later with the same ``key``, so that a platform with idempotency keys sends
the message once. It may return the platform's id of the message.
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
    """One domain of a persona; ``Personas.with_domain`` explains the other fields.

    Attributes:
        name: ``chat``, ``code``, ``game``, ``academy``, or a custom name.
        engine: runs the steps, with the tools, the model and the instructions of this domain.
        check: judges answers; overrides the verdict of the model.
        tenants: the accepted tenants of its channel; empty for any.

    Raises:
        ValueError: a template has no steps, or its pattern is not a regular expression.
    """

    name: personas.Domain
    engine: ExecutionEngine
    describe: Describe | None = None
    deliver: Deliver | None = None
    templates: tuple[personas.PlanTemplate, ...] = ()
    deps: Any = field(default=None, repr=False)
    channel: Channel | None = None
    reasoning: bool | None = None
    engage: Engage | None = None
    schedules: tuple[personas.EventSchedule, ...] = ()
    reminders: bool = False
    check: Check | None = None
    tenants: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        for template in self.templates:
            problem = template_problem(template)
            if problem is not None:
                raise ValueError(f"PersonaDomain: {problem.message}")

    async def decide(
        self, event: personas.DomainEvent, transcript: Sequence[Utterance]
    ) -> personas.EngagementDecision:
        """Return the decision of the program's function.

        Raises:
            Exception: as the function does.
        """
        allowed = personas.EngagementDecision(True, "The engagement policy allows it.")
        if self.engage is None:
            return allowed
        decided = await awaited(self.engage(event, transcript))
        if isinstance(decided, personas.EngagementDecision):
            return decided
        return (
            allowed if decided else personas.EngagementDecision(False, "A rule of the program declined it.")
        )

    async def judge(
        self, event: personas.DomainEvent, answer: str, calls: Sequence[personas.StepCall]
    ) -> bool | None:
        """Return the verdict of the program's check on an answer, if any.

        Raises:
            Exception: as the function does.
        """
        judged = None if self.check is None else await awaited(self.check(event, answer, calls))
        return None if judged is None else bool(judged)

    def problem_of(self, event: personas.DomainEvent) -> InvalidEvent | None:
        """Return the problem of an event in this domain; ``None`` for none."""
        if event.problem is None and self.tenants and event.tenant not in self.tenants:
            expected = f"a tenant of the channel of {self.name!r}"  # tenants must not see others
            return InvalidEvent("tenant", event.id, repr(event.tenant), expected)
        return event.problem

    @property
    def delivers(self) -> bool:
        """Whether the persona delivers messages, not its caller."""
        return self.channel is not None or self.deliver is not None

    def description_of(self, event: personas.DomainEvent) -> str:
        """Return the description of an event's task."""
        if self.describe is not None:
            return self.describe(event)
        return _SENTENCES.get(self.name, "Deal with the event: {content}").replace("{content}", event.content)

    async def send(self, event: personas.DomainEvent, text: str, key: str, *, again: bool) -> str:
        """Deliver a message, and return the platform's id of it, if known.

        Args:
            again: whether an earlier try may have delivered it.

        Raises:
            Exception: as the function of the program does.
        """
        if self.channel is not None:
            return await self.channel.send(event, text, key, again=again)
        if self.deliver is None:
            return ""
        keyed = {"key": key} if takes_key(self.deliver) else {}
        sent: object = await awaited(self.deliver(event, text, **keyed))
        return sent if isinstance(sent, str) else ""

    def tools(self) -> tuple[ToolDefinition, ...]:
        """Return the definitions of the tools that steps can use in this domain."""
        tools = self.engine.ports.tools.value_or(None)
        return () if tools is None else tuple(tools.definitions())

    def tool_names(self) -> tuple[str, ...]:
        """Return their names."""
        return tuple(tool.name for tool in self.tools())


def takes_key(deliver: Deliver) -> bool:
    """Return whether a function that delivers receives the key of a message."""
    try:
        return "key" in signature_of(deliver).parameters
    except (TypeError, ValueError):  # of a built-in one
        return False


LONGEST_MATCHED = 2_000
"""Maximum characters of an event for templates; a longer one matches none."""

_PARAMETER = re.compile(r"\{(\w+)\}")


def template_problem(template: personas.PlanTemplate) -> InvalidConfig | None:
    """Return the first problem of a template, with its field; ``None`` if valid."""
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
    """Return the first template that matches the whole content, with values filled in."""
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


def should_engage(
    event: personas.DomainEvent,
    *,
    name: str,
    policy: personas.EngagementPolicy,
    recent: Sequence[datetime],
    now: datetime,
    peer_turns: int = 0,
    transcript: Sequence[Utterance] = (),
) -> personas.EngagementDecision:
    """Decide whether a persona engages with an event.

    Args:
        name: the persona's name; it does not answer its own messages.
        recent: the times of its engagements in the same room.
        peer_turns: the number of messages from personas since the last one from a person.
        transcript: the earlier messages of the room, oldest first.
    """
    if event.author == name:
        return personas.EngagementDecision(False, "The persona is its author.")
    if event.author in policy.ignored_authors:
        return personas.EngagementDecision(False, f"Events by {event.author} are ignored.")
    if event.author in policy.peers and peer_turns >= policy.max_peer_turns:
        return personas.EngagementDecision(
            False, f"It is of a persona, and no person has spoken for {peer_turns} message(s)."
        )
    if event.author in policy.staff:
        return personas.EngagementDecision(False, "A person of the staff speaks.")
    heard = [each.at for each in transcript if each.author in policy.staff]
    if heard and abs(now - heard[-1]) < timedelta(seconds=policy.handover_s):
        return personas.EngagementDecision(False, "A person of the staff has taken over.")
    if policy.mentions_only and not _is_addressed(event, (name, *policy.names), transcript):
        return personas.EngagementDecision(False, "It does not mention the persona.")
    if event.priority < policy.urgent and is_quiet(policy, now):
        return personas.EngagementDecision(False, "It came in the quiet hours.", refused=True)
    if event.priority < policy.min_priority:
        limit = policy.min_priority
        return personas.EngagementDecision(False, f"Its priority {event.priority:g} is below {limit:g}.")
    window = timedelta(seconds=policy.window_s)
    count = sum(abs(now - each) < window for each in recent)  # not in the future, if the clock was set back
    if count >= policy.max_events:
        return personas.EngagementDecision(
            False,
            f"The limit of {count} events of this context in {policy.window_s:g} seconds is reached.",
            refused=True,
        )
    return personas.EngagementDecision(True, "The engagement policy allows it.")


def is_quiet(policy: personas.EngagementPolicy, now: datetime) -> bool:
    """Return whether a time is within the quiet hours, in their time zone.

    >>> night = personas.EngagementPolicy(quiet_hours=("22:00-07:00",))
    >>> at = "2026-01-01T{}:00Z"
    >>> [is_quiet(night, datetime.fromisoformat(at.format(hour))) for hour in ("06", "07", "21", "22")]
    [True, False, False, True]
    """
    clock = f"{now.astimezone(ZoneInfo(policy.timezone)):%H:%M}"
    for hours in policy.quiet_hours:
        begin, _, end = hours.partition("-")
        if begin <= clock < end or (begin >= end and (clock >= begin or clock < end)):
            return True
    return False


def _is_addressed(event: personas.DomainEvent, names: Sequence[str], transcript: Sequence[Utterance]) -> bool:
    """Return whether an event is addressed to the persona.

    That is a mention, a private message, or a message in a thread in which it has answered.
    """
    if event.details.get("mentioned") is True or event.details.get("direct") is True:
        return True
    if event.details.get("thread") is True and any(not each.author for each in transcript):
        return True
    spoken = (re.escape(name) for name in names if name)
    return re.search(rf"(?<!\w)@?(?:{'|'.join(spoken)})(?!\w)", event.content, re.IGNORECASE) is not None
