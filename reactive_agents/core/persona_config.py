"""What a persona goes by, as data. A value out of its range raises ``ValueError`` at once."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le, min_len

from reactive_agents.core.ids import PersonaId

Overflow: TypeAlias = Literal["reject", "drop_oldest"]
EvaluationMode: TypeAlias = Literal["after", "background", "off"]

_count = ge(1)
_fraction = and_(ge(0.0), le(1.0))
_seconds = gt(0.0)


@frozen
class EngagementPolicy:
    """Which events a persona takes up.

    Attributes:
        min_priority: 0 to 1; events below it are declined.
        max_events: events of one context that are taken up within the window, 1 or more.
        window_s: seconds of that window.
        ignored_authors: authors whose events are declined, besides the persona itself.
    """

    min_priority: float = field(default=0.0, validator=_fraction)
    max_events: int = field(default=20, validator=_count)
    window_s: float = field(default=60.0, validator=_seconds)
    ignored_authors: tuple[str, ...] = ()


@frozen
class LearningPolicy:
    """What is learned, and what is held off.

    Attributes:
        enabled: whether plans are shown what was learned, and outcomes change it.
        shown: learnings that one plan is shown at most, 1 or more.
        min_confidence: 0 to 1; learnings below it are not shown.
        merge_above: 0 to 1; patterns more alike than this by their words are one learning.
        merge_above_cosine: 0 to 1; the same by their vectors, where there are any. Embedding models differ:
            restated sentences are near 0.9 with most, and near 0.8 with some.
        half_life_days: in this time, unused, a learning loses half of its confidence.
        drop_below: 0 to 1; a learning whose confidence has fallen under it is deleted with the next outcome.
    """

    enabled: bool = True
    shown: int = field(default=5, validator=_count)
    min_confidence: float = field(default=0.5, validator=_fraction)
    merge_above: float = field(default=0.5, validator=_fraction)
    merge_above_cosine: float = field(default=0.85, validator=_fraction)
    half_life_days: float = field(default=90.0, validator=gt(0.0))
    drop_below: float = field(default=0.2, validator=_fraction)


@frozen
class PersonaTimeouts:
    """Seconds, each above 0: for a step or a delivery, for planning or planning anew, for evaluation."""

    step_s: float = field(default=120.0, validator=_seconds)
    planning_s: float = field(default=60.0, validator=_seconds)
    evaluation_s: float = field(default=60.0, validator=_seconds)


@frozen
class InboxConfig:
    """How many events wait, and how many are worked on.

    Attributes:
        capacity: events that may wait, 1 or more.
        overflow: what a full inbox does with one more: refuse it, or drop the one that waits longest.
        max_contexts: contexts that are worked on at once, 1 or more.
    """

    capacity: int = field(default=100, validator=_count)
    overflow: Overflow = "reject"
    max_contexts: int = field(default=4, validator=_count)


@frozen
class PersonaSettings:
    """How a persona works.

    Attributes:
        id: names it in its records; one that starts again with the same id goes on where it was.
        name: what it is called; events by an author of this name are its own.
        role: who it is, in its own prompts.
        reasoning: without it every event is answered at once, without plan and evaluation.
        planning_model: plans and plans anew; ``None`` for the model of the domain.
        evaluation_model: assesses outcomes; ``None`` for the model of the domain.
        evaluation: when outcomes are assessed.
        reuse_above: 0 to 1; an earlier plan serves again for a task more alike than this; 1 for never.
        max_replans: how often a plan is made anew after failures, 0 or more.
        max_depth: levels of plans, 1 or more; with 1 no step gets a plan of its own.
    """

    id: PersonaId
    name: str = field(validator=min_len(1))
    role: str = ""
    reasoning: bool = True
    planning_model: str | None = None
    evaluation_model: str | None = None
    evaluation: EvaluationMode = "after"
    reuse_above: float = field(default=0.8, validator=_fraction)
    max_replans: int = field(default=3, validator=ge(0))
    max_depth: int = field(default=2, validator=_count)
    engagement: EngagementPolicy = field(factory=EngagementPolicy)
    learning: LearningPolicy = field(factory=LearningPolicy)
    timeouts: PersonaTimeouts = field(factory=PersonaTimeouts)
    inbox: InboxConfig = field(factory=InboxConfig)
