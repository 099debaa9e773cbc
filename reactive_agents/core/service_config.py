"""Configuration of the services that a builder call switches on, as data.

A value out of its range raises ``ValueError`` at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias, get_args

from attrs import field, frozen
from attrs.validators import and_, deep_iterable, ge, gt, le, min_len, optional

from reactive_agents.core.governance import GuardrailAction, GuardrailStage
from reactive_agents.core.memory import MemoryExtraction, MemoryTier

_positive = ge(1)
_fraction = and_(ge(0.0), le(1.0))
_dollars = and_(ge(0.0), le(1e9))


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


CheckName: TypeAlias = Literal[
    "prompt-injection", "personal-data", "toxicity", "length", "topics", "presidio"
]
ALL_STAGES: tuple[GuardrailStage, ...] = get_args(GuardrailStage)


@frozen
class CheckConfig:
    """One check of a guardrail. ``None`` leaves an option to the check.

    An option that the check does not have, or lacks, is found when the guardrail is built.

    Attributes:
        name: ``prompt-injection``; ``personal-data``, by rules and check digits; ``toxicity``, insults and
            threats; ``length``; ``topics``, of which a text must have one; ``presidio``, personal data by the
            library of that name, which needs the extra ``presidio``.
        action: what is done about what is found; by default personal data is redacted, all else is blocked.
        stages: which texts are checked: the task (``input``), the answer (``output``), ``tool-result``. By
            default injections are looked for in input and tool results, insults and topics in input and
            output, all else everywhere.
        threshold: 0 to 1, of ``prompt-injection``, ``toxicity`` and ``presidio``: what is found below is a
            warning, and with ``presidio`` nothing.
        max_characters: of ``length``, 1 or more; required there.
        topics: of ``topics``: the words of each topic, each for every word that begins so; required there.
    """

    name: CheckName
    action: GuardrailAction | None = None
    stages: tuple[GuardrailStage, ...] | None = None
    threshold: float | None = field(default=None, validator=optional(_fraction))
    max_characters: int | None = field(default=None, validator=optional(_positive))
    topics: Mapping[str, tuple[str, ...]] = field(factory=dict)


@frozen
class GuardrailsConfig:
    """Checks of what comes into a run, of what its tools give, and of what leaves it.

    Attributes:
        checks: each judges the text for itself; one that blocks is enough.
        judge_model: a model that judges each text besides, at every stage; ``None`` for no judge.
    """

    checks: tuple[CheckConfig, ...] = (CheckConfig("prompt-injection"), CheckConfig("personal-data"))
    judge_model: str | None = field(default=None, validator=optional(min_len(1)))


@frozen
class RedactionConfig:
    """What is kept out of events, logs, memory and the audit log, besides the secrets that are known.

    Attributes:
        patterns: regular expressions; a group named ``secret`` is the secret, else the whole match.
    """

    patterns: tuple[str, ...] = ()


VerificationAction: TypeAlias = Literal["annotate", "retry", "fail"]
"""What is done about an answer that is not verified."""


@frozen
class VerificationConfig:
    """Whether an answer is supported by what the run saw.

    Attributes:
        threshold: 0 to 1, the confidence from which on an answer counts as verified.
        action: what is done below it: ``annotate`` says so in the result's reason, ``retry`` lets the agent
            try once more with what was found and keeps the better answer, ``fail`` ends the run with
            ``VerificationFailed``.
        judge_model: asked for its opinion on each answer; ``None`` for no judge.
        self_consistency: further answers that the model gives to the same observations, to see whether they
            agree; 0 for none.
        deliverables: files that a run is to leave in the workspace.
    """

    threshold: float = field(default=0.7, validator=_fraction)
    action: VerificationAction = "annotate"
    judge_model: str | None = field(default=None, validator=optional(min_len(1)))
    self_consistency: int = field(default=0, validator=and_(ge(0), le(20)))
    deliverables: tuple[str, ...] = ()


def _names(given: Iterable[str]) -> frozenset[str]:
    if isinstance(given, str):  # its letters are no names
        raise ValueError(f"'capabilities' must be a collection of texts: {given!r}")
    return frozenset(given)


@frozen
class ModelTier:
    """One model tier.

    Attributes:
        model: its name, as the LLM service knows it.
        max_complexity: the hardest task that it is trusted with, 0 to 1.
        context_tokens: the size of its window in tokens; ``None`` when it is never the limit.
        capabilities: what it can do, in the user's words, such as ``vision``.
    """

    model: str = field(validator=min_len(1))
    max_complexity: float = field(default=1.0, validator=_fraction)
    context_tokens: int | None = field(default=None, validator=optional(_positive))
    capabilities: frozenset[str] = field(default=frozenset(), converter=_names)


@frozen
class CostConfig:
    """The account of what runs spend, and the choice of their model.

    Attributes:
        path: an SQLite file, made when it is not there.
        tiers: models, the cheapest first; empty leaves the agent's own model.
        run_usd: US dollars that a run may spend, 0 or more; ``None`` for no limit.
        daily_usd: US dollars for a day of UTC, of all that share the file; likewise.
        monthly_usd: US dollars for a month of UTC; likewise.
        warn_at: shares of a limit to warn at, above 0 and up to 1.
    """

    path: str = field(validator=min_len(1))
    tiers: tuple[ModelTier, ...] = ()
    run_usd: float | None = field(default=None, validator=optional(_dollars))
    daily_usd: float | None = field(default=None, validator=optional(_dollars))
    monthly_usd: float | None = field(default=None, validator=optional(_dollars))
    warn_at: tuple[float, ...] = field(default=(0.5, 0.8), validator=deep_iterable(and_(gt(0.0), le(1.0))))

    @property
    def has_limits(self) -> bool:
        """Whether any budget is set."""
        return any(limit is not None for limit in (self.run_usd, self.daily_usd, self.monthly_usd))


@frozen
class AuditConfig:
    """An append-only log of runs.

    Attributes:
        path: an SQLite file, made when it is not there.
    """

    path: str = field(validator=min_len(1))
