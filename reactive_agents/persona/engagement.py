"""Whether a persona engages with an event: a pure decision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from reactive_agents.core.personas import DomainEvent, EngagementDecision, EngagementPolicy


def should_engage(
    event: DomainEvent,
    *,
    name: str,
    policy: EngagementPolicy,
    recent: Sequence[datetime],
    now: datetime,
    handled: bool,
) -> EngagementDecision:
    """Decide whether a persona engages with an event.

    Args:
        name: the persona's own name; it does not answer its own messages.
        recent: when it engaged with events of the same context.
        handled: whether it has an ended plan for this event.
    """
    if event.author == name:
        return EngagementDecision(False, "The persona is its author.")
    if event.author in policy.ignored_authors:
        return EngagementDecision(False, f"Events by {event.author} are ignored.")
    if handled:
        return EngagementDecision(False, "It was handled already.")
    if event.priority < policy.min_priority:
        limit = policy.min_priority
        return EngagementDecision(False, f"Its priority {event.priority:g} is below {limit:g}.")
    begin = now - timedelta(seconds=policy.window_s)
    count = sum(moment > begin for moment in recent)
    if count >= policy.max_events:
        return EngagementDecision(
            False, f"The limit of {count} events of this context in {policy.window_s:g} seconds is reached."
        )
    return EngagementDecision(True, "The engagement policy allows it.")
