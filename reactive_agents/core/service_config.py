"""Configuration of the services that a builder call switches on, as data.

A value out of its range raises ``ValueError`` at once.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, ge, le, min_len, optional

from reactive_agents.core.memory import MemoryExtraction, MemoryTier

_positive = ge(1)
_fraction = and_(ge(0.0), le(1.0))


@frozen
class MemoryConfig:
    """What outlives a run.

    Attributes:
        path: an SQLite file, made when it is not there; ``:memory:`` for a memory that ends with the agent.
        tier: ``1`` finds memories by words, ``2`` also by what they mean.
        token_budget: tokens that what is recalled may take in a prompt, 1 or more.
        embedding_model: what turns texts into vectors for tier ``2``, as ``provider/model``.
        extraction: who chooses the facts that are kept of a run: rules, or one call of the run's model.
    """

    path: str = field(validator=min_len(1))
    tier: MemoryTier = "1"
    token_budget: int = field(default=1_000, validator=_positive)
    embedding_model: str | None = field(default=None, validator=optional(min_len(1)))
    extraction: MemoryExtraction = "rules"


@frozen
class GuardrailsConfig:
    """Checks of what comes into a run and leaves it."""


@frozen
class VerificationConfig:
    """Whether an answer is supported by what the run saw.

    Attributes:
        threshold: 0 to 1, the confidence from which on an answer counts as verified.
    """

    threshold: float = field(default=0.7, validator=_fraction)


@frozen
class Rung:
    """One model of a ladder.

    Attributes:
        model: its name, as the LLM service knows it.
        max_complexity: the hardest task that it is trusted with, 0 to 1.
        context_tokens: the size of its window in tokens; ``None`` when it is never the limit.
        capabilities: what it can do, in the user's words, such as ``vision``.
    """

    model: str = field(validator=min_len(1))
    max_complexity: float = field(default=1.0, validator=_fraction)
    context_tokens: int | None = field(default=None, validator=optional(_positive))
    capabilities: frozenset[str] = field(default=frozenset(), converter=frozenset)


@frozen
class CostConfig:
    """The account of what runs spend, and the choice of their model.

    Attributes:
        path: an SQLite file, made when it is not there.
        ladder: models, the cheapest first; empty leaves the agent's own model.
    """

    path: str = field(validator=min_len(1))
    ladder: tuple[Rung, ...] = ()


@frozen
class AuditConfig:
    """An append-only log of runs.

    Attributes:
        path: an SQLite file, made when it is not there.
    """

    path: str = field(validator=min_len(1))
