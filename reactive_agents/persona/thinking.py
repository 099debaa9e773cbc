"""Entries of a persona's working memory."""

from __future__ import annotations

from reactive_agents.core.personas import PersonaPlan, Thought, ThoughtId, ThoughtKind
from reactive_agents.persona.cycle import Cycle

LONGEST_THOUGHT = 500


async def keep_thought(
    plan: PersonaPlan, kind: ThoughtKind, content: str, importance: float, cycle: Cycle
) -> None:
    """Keep a thought about the context of a plan, shortened to :data:`LONGEST_THOUGHT` characters."""
    text = content if len(content) <= LONGEST_THOUGHT else content[: LONGEST_THOUGHT - 1] + "…"
    services = cycle.services
    thought = Thought(
        ThoughtId(services.ids.new()),
        plan.persona_id,
        plan.domain,
        plan.context_id,
        kind,
        text,
        importance,
        services.clock.now(),
    )
    await cycle.kept("record", services.store.keep_thought(thought), None)
