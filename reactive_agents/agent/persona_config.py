"""A persona as data: what can be written to a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, le, min_len, optional
from returns.result import Result

from reactive_agents.agent.config import AgentConfig, read_document
from reactive_agents.core.config import ModelConfig, ReasoningConfig
from reactive_agents.core.errors import ConfigErrors
from reactive_agents.core.ids import PersonaId
from reactive_agents.core.memory import MemoryTier
from reactive_agents.core.personas import (
    EngagementPolicy,
    EvaluationMode,
    InboxConfig,
    LearningPolicy,
    PersonaSettings,
    PersonaTimeouts,
    PlanTemplate,
)

_defaults = PersonaSettings(PersonaId("persona"), "persona")


@frozen
class DomainConfig:
    """One domain of a persona.

    Attributes:
        name: ``chat``, ``code``, ``game``, ``academy``, or one of your own.
        agent: executes the steps there; without a model of its own it has the persona's.
        templates: plans for known kinds of events, made without a model; the first that fits is taken.
    """

    name: str = field(validator=min_len(1))
    agent: AgentConfig = field(factory=lambda: AgentConfig(reasoning=ReasoningConfig()))
    templates: tuple[PlanTemplate, ...] = ()


@frozen
class PersonaConfig:
    """A persona as data.

    Attributes:
        name: what it is called; events by an author of this name are its own.
        memory: an SQLite file, made when it is not there; what the persona knows is in it.
        domains: where its events come from.
        tier: ``1`` compares what it learned by the words; ``2`` by what it means, with an embedding model.
        embedding_model: what turns texts into vectors for tier ``2``, as ``provider/model``.
        id: names it in the file; its name by default.
        role: who it is.
        model: of domains whose agents have none; its key is never written.
        reasoning: without it every event is answered at once, without plan and evaluation.
        planning_model: plans; the model of the domain by default.
        evaluation_model: assesses outcomes; the model of the domain by default.
        evaluation: ``after`` the answer, in the ``background``, or ``off``.
        reuse_above: 0 to 1; an earlier plan serves again for a task more alike than this; 1 for never.
        max_replans: how often a plan is made anew after failures, 0 or more.
        max_depth: levels of plans, 1 or more; with 1 no step gets a plan of its own.
        engagement: which events it takes up.
        learning: what it learns.
        timeouts: of steps, planning and evaluation.
        inbox: how many events wait, and how many are worked on.
    """

    name: str = field(validator=min_len(1))
    memory: str = field(validator=min_len(1))
    domains: tuple[DomainConfig, ...] = ()
    tier: MemoryTier = "1"
    embedding_model: str | None = field(default=None, validator=optional(min_len(1)))
    id: str = ""
    role: str = ""
    model: ModelConfig = field(factory=ModelConfig)
    reasoning: bool = True
    planning_model: str | None = None
    evaluation_model: str | None = None
    evaluation: EvaluationMode = _defaults.evaluation
    reuse_above: float = field(default=_defaults.reuse_above, validator=and_(ge(0.0), le(1.0)))
    max_replans: int = field(default=_defaults.max_replans, validator=ge(0))
    max_depth: int = field(default=_defaults.max_depth, validator=ge(1))
    engagement: EngagementPolicy = field(factory=EngagementPolicy)
    learning: LearningPolicy = field(factory=LearningPolicy)
    timeouts: PersonaTimeouts = field(factory=PersonaTimeouts)
    inbox: InboxConfig = field(factory=InboxConfig)

    @property
    def persona_id(self) -> PersonaId:
        """The id in the records."""
        return PersonaId(self.id or self.name)

    def settings(self) -> PersonaSettings:
        """What the persona goes by."""
        return PersonaSettings(
            id=self.persona_id,
            name=self.name,
            role=self.role,
            reasoning=self.reasoning,
            planning_model=self.planning_model,
            evaluation_model=self.evaluation_model,
            evaluation=self.evaluation,
            reuse_above=self.reuse_above,
            max_replans=self.max_replans,
            max_depth=self.max_depth,
            engagement=self.engagement,
            learning=self.learning,
            timeouts=self.timeouts,
            inbox=self.inbox,
        )


def read_persona(
    source: PersonaConfig | Mapping[str, Any] | str | Path,
) -> Result[PersonaConfig, ConfigErrors]:
    """The persona that a mapping or a ``.json`` or ``.toml`` file describes.

    Fails with ``DecodeError``, which names the path of each wrong field, or with ``InvalidConfig`` when the
    file cannot be read.
    """
    return read_document(source, PersonaConfig)
