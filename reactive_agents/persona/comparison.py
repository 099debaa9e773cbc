"""Comparison of personas on the same events: success, tokens, cost, duration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from attrs import frozen
from returns.result import Failure, Result, Success

from reactive_agents.core.errors import UnknownDomain
from reactive_agents.core.personas import Domain, DomainEvent, PersonaOutcome
from reactive_agents.effects import attempt, effect
from reactive_agents.persona.persona import Persona

OutcomeJudge: TypeAlias = Callable[[DomainEvent, PersonaOutcome], bool]
"""Returns whether an outcome is a success; it should judge the answer, not the persona's own evaluation."""


@frozen
class VariantReport:
    """Results of one persona over all events.

    Attributes:
        succeeded: whether each event succeeded, in the order of the events.
        tokens: tokens of all events.
        cost_usd: US dollars of all events, for model calls with a known price.
        duration_ms: average wall-clock milliseconds of one event.
    """

    name: str
    succeeded: tuple[bool, ...]
    tokens: int
    cost_usd: float
    duration_ms: float

    @property
    def success_rate(self) -> float:
        """Share of successes, 0 to 1; 0 without events."""
        return sum(self.succeeded) / len(self.succeeded) if self.succeeded else 0.0


@effect
async def compare_personas(
    domain: Domain, events: Sequence[DomainEvent], variants: Mapping[str, Persona], judge: OutcomeJudge
) -> Result[tuple[VariantReport, ...], UnknownDomain]:
    """Send every event to every variant and return a report for each variant.

    To compare planning with plain reactions, make one variant with ``reasoning`` and one without, each with
    a separate store. Fails with ``UnknownDomain`` when a variant lacks the domain.
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
