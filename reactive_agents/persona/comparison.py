"""The same events through several personas, side by side: what each achieves, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import UnknownDomain
from reactive_agents.core.personas import Domain, DomainEvent, PersonaOutcome
from reactive_agents.effects import attempt, effect
from reactive_agents.persona.persona import Persona

Judge: TypeAlias = Callable[[DomainEvent, PersonaOutcome], bool]
"""Whether an outcome is a success; it should look at the answer, and not at what the persona thinks of it."""


@frozen
class VariantReport:
    """What one persona made of the events.

    Attributes:
        succeeded: of each event in their order.
        cost_usd: US dollars of all events, of the model calls whose price is known.
        duration_ms: wall-clock milliseconds of one event, on average.
    """

    name: str
    succeeded: tuple[bool, ...]
    tokens: int
    cost_usd: float
    duration_ms: float

    @property
    def success_rate(self) -> float:
        """0 to 1; 0 without events."""
        return sum(self.succeeded) / len(self.succeeded) if self.succeeded else 0.0


@effect
async def compare_personas(
    domain: Domain, events: Sequence[DomainEvent], variants: Mapping[str, Persona], judge: Judge
) -> Result[tuple[VariantReport, ...], UnknownDomain]:
    """A report for each variant, in their order: every variant gets every event, one after the other.

    To compare planning with plain reactions, make one variant with ``reasoning`` and one without, each with
    a store of its own. Fails with ``UnknownDomain`` when a variant lacks the domain.
    """
    reports = []
    for name, persona in variants.items():
        outcomes = []
        for event in events:
            outcome = await attempt(persona.process_event(domain, event))
            if isinstance(outcome, Failure):
                return Failure(outcome.failure())
            outcomes.append(outcome.unwrap())
        judged = zip(events, outcomes, strict=True)
        report = VariantReport(
            name,
            succeeded=tuple(judge(event, outcome) for event, outcome in judged),
            tokens=sum(outcome.tokens for outcome in outcomes),
            cost_usd=sum(outcome.cost_usd for outcome in outcomes),
            duration_ms=sum(outcome.duration_ms for outcome in outcomes) / max(1, len(outcomes)),
        )
        reports.append(report)
    return Success(tuple(reports))
