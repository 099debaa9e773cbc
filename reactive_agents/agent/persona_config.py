"""Declarative configuration of personas, readable from files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from attrs import field, fields, frozen
from attrs.validators import min_len, optional
from returns.result import Result
from typing_extensions import TypedDict

from reactive_agents.agent.config import AgentConfig, read_document
from reactive_agents.core import personas
from reactive_agents.core.channels import ChannelConfig
from reactive_agents.core.config import ModelConfig, ReasoningConfig, place_field
from reactive_agents.core.errors import ConfigErrors
from reactive_agents.core.ids import PersonaId
from reactive_agents.core.memory import MemoryTier


@frozen
class FunctionConfig:
    """A function of the program, as ``module:function``."""

    function: str = field(validator=min_len(1))


@frozen
class DomainConfig:
    """One domain of a persona.

    Attributes:
        name: ``chat``, ``code``, ``game``, ``academy``, or a custom name.
        agent: the agent that executes steps; without a model it uses the persona's.
        templates: plans for known kinds of events, without a model; the first that matches is used.
        channel: the platform that its events come from and its answers go to.
        reasoning: as that of the persona; ``None`` for the same.
        describe: a function that makes the task's description from an event, likewise ``deliver``,
            ``engage`` and ``check``; see :meth:`Personas.with_domain`.
        schedules: events that come again and again.
        reminders: whether its steps have a tool ``remind`` to schedule events.
    """

    name: str = field(validator=min_len(1))
    agent: AgentConfig = field(factory=lambda: AgentConfig(reasoning=ReasoningConfig()))
    templates: tuple[personas.PlanTemplate, ...] = ()
    channel: ChannelConfig | None = None
    reasoning: bool | None = None
    describe: FunctionConfig | None = None
    deliver: FunctionConfig | None = None
    engage: FunctionConfig | None = None
    check: FunctionConfig | None = None
    schedules: tuple[personas.EventSchedule, ...] = ()
    reminders: bool = False


class EngagementOptions(TypedDict, total=False):
    """Fields of ``EngagementPolicy``."""

    min_priority: float
    max_events: int
    window_s: float
    ignored_authors: Sequence[str]
    peers: Sequence[str]
    max_peer_turns: int
    mentions_only: bool
    names: Sequence[str]
    quiet_hours: Sequence[str]
    timezone: str
    urgent: float
    staff: Sequence[str]
    handover_s: float


class LearningOptions(TypedDict, total=False):
    """Fields of ``LearningPolicy``."""

    enabled: bool
    shown: int
    warnings: int
    min_confidence: float
    merge_above: float
    merge_above_cosine: float
    half_life_days: float
    drop_below: float
    sharing: personas.LearningSharing


class PersonaTimeoutOptions(TypedDict, total=False):
    """Fields of ``PersonaTimeouts``."""

    step_s: float
    planning_s: float
    evaluation_s: float


class InboxOptions(TypedDict, total=False):
    """Fields of ``InboxConfig``."""

    capacity: int
    overflow: personas.Overflow
    max_contexts: int


class DeliveryOptions(TypedDict, total=False):
    """Fields of ``DeliveryPolicy``."""

    tries: int
    backoff_s: float
    fallback: str


class LimitOptions(TypedDict, total=False):
    """Fields of ``DailyLimits``."""

    tenant_events: int | None
    user_events: int | None
    room_events: int | None
    tenant_usd: float | None
    user_usd: float | None
    room_usd: float | None


class PersonaOptions(TypedDict, total=False):
    """Fields of ``PersonaConfig``."""

    name: str
    memory: str
    domains: Sequence[DomainConfig]
    tier: MemoryTier
    embedding_model: str | None
    id: str
    role: str
    model: ModelConfig | Mapping[str, Any]
    reasoning: bool
    planning_model: str | None
    evaluation_model: str | None
    evaluation: personas.EvaluationMode
    reuse_above: float
    max_replans: int
    max_depth: int
    engagement: personas.EngagementPolicy | EngagementOptions
    learning: personas.LearningPolicy | LearningOptions
    timeouts: personas.PersonaTimeouts | PersonaTimeoutOptions
    inbox: personas.InboxConfig | InboxOptions
    voice: str
    transcript: int
    streaming: bool
    delivery: personas.DeliveryPolicy | DeliveryOptions
    limits: personas.DailyLimits | LimitOptions


@frozen
class PersonaConfig(personas.PersonaRules):
    """The configuration of a persona.

    Attributes:
        name: its name; events by an author of this name are its own.
        memory: an SQLite file for its records, created if needed, or the address of a Postgres database.
        domains: the sources of its events.
        tier: ``1`` compares learnings by words; ``2`` by embeddings.
        embedding_model: the embedding model of tier ``2``, as ``provider/model``.
        id: the key of its records; its name by default.
        model: the model of domains whose agents have none; its key is never written.
    """

    name: str = field(validator=min_len(1))
    memory: str = place_field()
    domains: tuple[DomainConfig, ...] = ()
    tier: MemoryTier = "1"
    embedding_model: str | None = field(default=None, validator=optional(min_len(1)))
    id: str = ""
    model: ModelConfig = field(factory=ModelConfig)

    @property
    def persona_id(self) -> PersonaId:
        """The key of the records."""
        return PersonaId(self.id or self.name)

    def settings(self) -> personas.PersonaSettings:
        """Return the settings of the persona."""
        rules = {each.name: getattr(self, each.name) for each in fields(personas.PersonaRules)}
        return personas.PersonaSettings(self.persona_id, self.name, **rules)


def read_persona(
    source: PersonaConfig | Mapping[str, Any] | str | Path, *, allow_tools_from: Collection[str] = ()
) -> Result[PersonaConfig, ConfigErrors]:
    """Read the configuration of a persona from a mapping or a file.

    Args:
        allow_tools_from: modules whose functions the file or mapping may name, with the modules in them.

    Fails with ``DecodeError``, which names the path of each wrong field, or with ``InvalidConfig`` when the
    file cannot be read or names a function of another module.
    """
    return read_document(source, PersonaConfig, allow_tools_from=allow_tools_from)
