"""Configuration of the services that a builder call switches on, as data.

A value out of its range raises ``ValueError`` at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import Attribute, evolve, field, frozen
from attrs.validators import and_, deep_iterable, ge, gt, le, min_len, optional

from reactive_agents.core.content import MEDIA_TYPES, PDF, ContentKind
from reactive_agents.core.errors import InvalidConfig
from reactive_agents.core.json import JsonObject, abbreviated
from reactive_agents.core.model_settings import NO_SETTINGS, UNSET, ModelSettings
from reactive_agents.core.results import ReasoningStrategy
from reactive_agents.core.tools import Risk
from reactive_agents.core.values import Value

_positive = ge(1)
_fraction = and_(ge(0.0), le(1.0))
_dollars = and_(ge(0.0), le(1e9))
_days = and_(ge(0.0), le(36500.0))


def _or_never(days: float | None) -> float:  # TOML has no None
    return days or 0.0


def _known_media_types(_: object, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    known = [each for types in MEDIA_TYPES.values() for each in types]
    for pattern in value:
        if not fnmatchcase(pattern, "text/*") and not any(fnmatchcase(each, pattern) for each in known):
            raise ValueError(f"'{attribute.name}' must be of {', '.join(known)} and text/*: {pattern!r}")


PROFILES_FILE = "models.db"
"""The name of the file of model profiles in the user's state directory."""

IN_PROCESS = ":memory:"
"""The path of a database that is kept in no file, and ends with its service."""


_WHERE = ("host", "hostaddr", "port", "dbname")
_WITH_AT = ("user", "password")


def is_postgres(place: object) -> bool:
    """Return whether the place of a store is the address of a Postgres database."""
    return isinstance(place, str) and place.startswith(("postgres://", "postgresql://"))


def shown_place(place: object) -> str:
    """Return a place as it may be shown: an address without user and password.

    >>> shown_place("postgresql://agents:secret@db.example:5432/agents?sslmode=require")
    'postgresql://db.example:5432/agents'
    """
    if not is_postgres(place):
        return str(place)
    rest = str(place).partition("://")[2]
    before, at, after = rest.partition("@")
    server, _, query = (after if at and "/" not in before else rest).partition("?")
    given = [(each.partition("=")[0], each) for each in query.split("&")]
    where = [each for name, each in given if name in _WHERE]
    is_torn = "@" in server or any("@" in each and name not in _WITH_AT for name, each in given)
    return f"postgresql://{'…' if is_torn else '?'.join(filter(None, (server, '&'.join(where))))}"


def place_field(**options: Any) -> Any:
    """Return the field of a file or an address, which is not shown with its password."""
    return field(validator=min_len(1), repr=lambda place: repr(shown_place(place)), **options)


MemoryTier: TypeAlias = Literal["1", "2"]
MemoryExtraction: TypeAlias = Literal["rules", "model"]
"""How the facts of a run to keep are chosen: by rules, or by a call of the run's model."""

MemoryScope: TypeAlias = Literal["user", "agent"]
"""Who shares the memories of a run: its user alone, or everybody that the agent works for."""

AnonymousMemory: TypeAlias = Literal["agent", "nothing"]
"""The memories of a run without user and session: the agent's own, which reach all runs, or none."""


@frozen(eq=False, repr=False)
class MemoryConfig(Value):
    """Memory across runs.

    Attributes:
        path: an SQLite file, created if needed, or the address of a Postgres database; ``:memory:`` for a
            memory that ends with the agent.
        tier: ``1`` is keyword search, ``2`` hybrid search with embeddings.
        token_budget: maximum tokens of recalled memory in a prompt, 1 or more.
        embedding_model: the embedding model of tier ``2``, as ``provider/model``.
        extraction: how facts of a run are chosen: by rules, or by one call of the run's model.
        scope: ``user`` keeps the memories of a run to its user, or to its session when it has no user;
            ``agent`` shares them with everybody that the agent works for.
        anonymous: with ``agent`` a run without user and session stores and recalls memories of the agent
            itself, which may reach every run; with ``nothing`` it neither stores nor recalls any.
    """

    path: str = place_field(default=IN_PROCESS)
    tier: MemoryTier = "1"
    token_budget: int = field(default=1_000, validator=_positive)
    embedding_model: str | None = field(default=None, validator=optional(min_len(1)))
    extraction: MemoryExtraction = "rules"
    scope: MemoryScope = "user"
    anonymous: AnonymousMemory = "agent"


@frozen(eq=False, repr=False)
class SessionsConfig(Value):
    """Where the conversations of an agent are kept.

    Attributes:
        path: an SQLite file, created if needed, or the address of a Postgres database; ``:memory:`` for
            sessions that end with the agent.
    """

    path: str = place_field(default=IN_PROCESS)


@frozen(eq=False, repr=False)
class RunLogConfig(Value):
    """Where the events of runs are kept, for reading them afterwards.

    Attributes:
        path: an SQLite file, created if needed, or the address of a Postgres database.
        keep_days: days after which a run is deleted; 0 or ``None`` for never.
        keep_runs: how many runs are kept, the latest ones, 1 or more; ``None`` for all.
    """

    path: str = place_field()
    keep_days: float | None = field(
        default=30.0,
        converter=_or_never,
        validator=optional(_days),  # type: ignore[arg-type]  # attrs takes the type of the default
    )
    keep_runs: int | None = field(default=None, validator=optional(ge(1)))


InDoubt: TypeAlias = Literal["tell", "ask", "fail"]


QueueEngineName: TypeAlias = Literal["record", "dbos"]


@frozen(eq=False, repr=False)
class DurabilityConfig(Value):
    """Runs that outlive their process.

    Attributes:
        path: an SQLite file, created if needed, or the address of a Postgres database.
        in_doubt: how a tool call is settled that was under way when its process ended, if the tool is not
            idempotent and its probe does not know: ``tell`` the model about it, ``ask`` the approver, or
            ``fail``, which stops the run until a person settles the call.
        recover: whether entering the agent with ``async with`` continues its interrupted runs.
        engine: hands queued runs to workers: the ``record``, or ``dbos``, which needs the extra ``durable``.
    """

    path: str = place_field()
    in_doubt: InDoubt = "tell"
    recover: bool = True
    engine: QueueEngineName = "record"


CheckName: TypeAlias = Literal[
    "prompt-injection", "personal-data", "toxicity", "length", "topics", "presidio"
]
GuardrailStage: TypeAlias = Literal["input", "output", "tool-result"]
GuardrailAction: TypeAlias = Literal["block", "redact", "warn"]
ALL_STAGES: tuple[GuardrailStage, ...] = get_args(GuardrailStage)


@frozen(eq=False, repr=False)
class CheckConfig(Value):
    """One check of a guardrail. ``None`` leaves an option to the check.

    An option that the check does not have, or lacks, is found when the guardrail is built.

    Attributes:
        name: ``prompt-injection``; ``personal-data``, by rules and check digits; ``toxicity``, insults and
            threats; ``length``; ``topics``, of which a text must have one; ``presidio``, personal data by the
            library of that name, which needs the extra ``presidio``.
        action: the reaction to a finding; by default personal data is redacted and all else is blocked.
        stages: the texts that are checked: the task (``input``), the answer (``output``), ``tool-result``. By
            default injections are looked for in input and tool results, insults and topics in input and
            output, all else everywhere.
        threshold: 0 to 1, of ``prompt-injection``, ``toxicity`` and ``presidio``: a finding below it is a
            warning, or with ``presidio`` no finding.
        max_characters: the limit of ``length``, 1 or more; required there.
        topics: the words of each topic for ``topics``, each for every word that begins so; required there.
    """

    name: CheckName
    action: GuardrailAction | None = None
    stages: tuple[GuardrailStage, ...] | None = None
    threshold: float | None = field(default=None, validator=optional(_fraction))
    max_characters: int | None = field(default=None, validator=optional(_positive))
    topics: Mapping[str, tuple[str, ...]] = field(factory=dict)


@frozen(eq=False, repr=False)
class GuardrailsConfig(Value):
    """Checks of a run's input, of its tool results and of its output.

    Attributes:
        checks: the checks, each of which judges the text by itself; one that blocks is enough.
        judge_model: a model that also judges each text, at every stage; ``None`` for no judge.
    """

    checks: tuple[CheckConfig, ...] = (CheckConfig("prompt-injection"), CheckConfig("personal-data"))
    judge_model: str | None = field(default=None, validator=optional(min_len(1)))


@frozen(eq=False, repr=False)
class RedactionConfig(Value):
    """Redaction of events, logs, memory and the audit log, besides known secrets.

    Attributes:
        patterns: regular expressions; the secret is the group named ``secret``, or else the whole match.
    """

    patterns: tuple[str, ...] = ()


VerificationAction: TypeAlias = Literal["annotate", "retry", "fail"]
"""The action taken on an answer that is not verified."""


@frozen(eq=False, repr=False)
class VerificationConfig(Value):
    """Verification of an answer by the evidence of the run.

    Attributes:
        threshold: 0 to 1, the least confidence of a verified answer.
        action: the reaction to an unverified answer: ``annotate`` adds it to the result's reason, ``retry``
            lets the agent try once more with the findings and keeps the better answer, ``fail`` ends the run
            with ``VerificationFailed``.
        judge_model: a model that judges each answer; ``None`` for no judge.
        self_consistency: number of further answers to the same observations that are compared with the
            answer; 0 for none.
        deliverables: files that a run must leave in the workspace.
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


@frozen(eq=False, repr=False)
class ModelTier(Value):
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


@frozen(eq=False, repr=False)
class CostConfig(Value):
    """Usage and cost tracking, budgets, and model routing.

    Attributes:
        path: an SQLite file, created if needed, or the address of a Postgres database; ``:memory:`` for an
            account that ends with the agent.
        tiers: models, the cheapest first; empty for the agent's own model.
        run_usd: US dollars that a run may spend, 0 or more; ``None`` for no limit.
        daily_usd: US dollars that all runs in the file may spend in a day in UTC; ``None`` for no limit.
        monthly_usd: US dollars that they may spend in a month in UTC; ``None`` for no limit.
        user_daily_usd: US dollars that the runs of each user may spend in a day; ``None`` for no limit.
        user_monthly_usd: US dollars that they may spend in a month; ``None`` for no limit.
        warn_at: shares of a limit to warn at, above 0 and up to 1.
    """

    path: str = place_field(default=IN_PROCESS)
    tiers: tuple[ModelTier, ...] = ()
    run_usd: float | None = field(default=None, validator=optional(_dollars))
    daily_usd: float | None = field(default=None, validator=optional(_dollars))
    monthly_usd: float | None = field(default=None, validator=optional(_dollars))
    user_daily_usd: float | None = field(default=None, validator=optional(_dollars))
    user_monthly_usd: float | None = field(default=None, validator=optional(_dollars))
    warn_at: tuple[float, ...] = field(default=(0.5, 0.8), validator=deep_iterable(and_(gt(0.0), le(1.0))))

    @property
    def has_limits(self) -> bool:
        """Return whether any budget is set."""
        of_all = (self.run_usd, self.daily_usd, self.monthly_usd)
        return any(limit is not None for limit in (*of_all, self.user_daily_usd, self.user_monthly_usd))


@frozen(eq=False, repr=False)
class AuditConfig(Value):
    """An append-only log of runs.

    Attributes:
        path: an SQLite file, created if needed, or the address of a Postgres database; ``:memory:`` for a log
            that ends with the agent.
    """

    path: str = place_field(default=IN_PROCESS)


RecordService: TypeAlias = Literal["memory", "cost", "audit"]
OnFailure: TypeAlias = Literal["report", "stop"]
Depth: TypeAlias = Literal["shallow", "deep"]
Evaluation: TypeAlias = Literal["score", "vote"]
PlanMode: TypeAlias = Literal["linear", "dag"]
PatchStrategy: TypeAlias = Literal["in-place", "replan-remaining"]
ContextTier: TypeAlias = Literal["local", "mid", "large", "frontier"]
SchemaDetail: TypeAlias = Literal["compact", "trimmed", "full"]
SelectionMode: TypeAlias = Literal["heuristic", "model"]
CompactionMethod: TypeAlias = Literal["auto", "drop", "template", "model", "custom"]

_temperature = and_(ge(0.0), le(2.0))
_shown_chars = ge(200)
_window = ge(1024)

# --- reasoning ------------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class CompactionConfig(Value):
    """Compaction of a long transcript before it exceeds the context window.

    Attributes:
        method: ``template`` summarizes earlier turns by templates, ``model`` by a model call, ``custom`` by a
            custom function, ``auto`` as the size of the transcript asks for; ``drop`` summarizes nothing, and
            drops old results when a request does not fit.
        model: the model of the method ``model``; ``None`` for the run's model.
        provider: the provider of that model, if its name lacks it; alone, for the provider's default model.
        function: the function of the method ``custom``, as ``module:function``.
        temperature: the temperature of the method ``model``, 0 to 2.
    """

    method: CompactionMethod = "auto"
    model: str | None = None
    provider: str | None = None
    function: str | None = None
    temperature: float = field(default=0.0, validator=_temperature)

    @property
    def model_name(self) -> str | None:
        """Return the model with its provider."""
        if not self.model or not self.provider or self.model.startswith(f"{self.provider}/"):
            return self.model
        return f"{self.provider}/{self.model}"


@frozen(eq=False, repr=False)
class StrategyOptions(Value):
    """Options of every strategy.

    Attributes:
        compaction: compaction of the strategy's transcripts; ``None`` for that of :class:`ReasoningConfig`.
    """

    compaction: CompactionConfig | None = field(default=None, kw_only=True)


@frozen(eq=False, repr=False)
class ReactiveConfig(StrategyOptions):
    """The ReAct loop.

    Attributes:
        max_iterations: maximum model turns, 1 or more.
        temperature: 0 to 2; ``None`` leaves it to the provider.
    """

    max_iterations: int = field(default=10, validator=_positive)
    temperature: float | None = field(default=None, validator=optional(_temperature))


@frozen(eq=False, repr=False)
class PlanExecuteConfig(StrategyOptions):
    """Plan-execute-reflect.

    Attributes:
        max_refinements: plan revisions after reflection, 1 or more; then a reactive run does the rest.
        reflection_depth: reflection within 1500 (shallow) or 2500 (deep) tokens.
        step_retries: attempts a step gets after its first, before it is patched.
        step_kernel_max_iterations: model turns of a composite step.
        plan_mode: ``linear`` runs the steps in order, ``dag`` by their dependencies.
        patch_strategy: rewrite the failed step alone, or everything that remains.
    """

    max_refinements: int = field(default=1, validator=_positive)
    reflection_depth: Depth = "deep"
    step_retries: int = field(default=1, validator=ge(0))
    step_kernel_max_iterations: int = field(default=3, validator=_positive)
    plan_mode: PlanMode = "linear"
    patch_strategy: PatchStrategy = "in-place"


@frozen(eq=False, repr=False)
class TreeOfThoughtConfig(StrategyOptions):
    """Tree of thought.

    Attributes:
        breadth: number of thoughts after each thought, and of thoughts that each level keeps.
        depth: number of levels.
        pruning_threshold: 0 to 1; thoughts with a lower score are pruned.
        evaluation: whether thoughts are scored one by one, or voted on by level; the score is then the share
            of votes.
        kernel_max_iterations: maximum model turns of each pass along a path.
    """

    breadth: int = field(default=3, validator=_positive)
    depth: int = field(default=3, validator=_positive)
    pruning_threshold: float = field(default=0.5, validator=_fraction)
    evaluation: Evaluation = "score"
    kernel_max_iterations: int = field(default=10, validator=_positive)


@frozen(eq=False, repr=False)
class ReflexionConfig(StrategyOptions):
    """Reflexion.

    Attributes:
        max_retries: attempts to improve the first answer, 1 or more.
        self_critique_depth: whether the critic looks for the gravest fault or goes through the whole answer.
        kernel_max_iterations: model turns of each generate or improve pass.
    """

    max_retries: int = field(default=3, validator=_positive)
    self_critique_depth: Depth = "deep"
    kernel_max_iterations: int = field(default=10, validator=_positive)


@frozen(eq=False, repr=False)
class AdaptiveConfig(Value):
    """Selection of a strategy for each task.

    Attributes:
        enabled: whether each task is routed to the strategy that suits it, as the strategy ``adaptive`` does
            by itself.
        learning: whether outcomes are recorded and used for later choices; needs a memory that keeps them.
        selection: whether rules choose, at once and for free, or one model call.
        measured: whether the rules choose a heavier strategy than ``reactive`` only where the measurements
            in the package show a gain.
    """

    enabled: bool = False
    learning: bool = True
    selection: SelectionMode = "heuristic"
    measured: bool = True


@frozen(eq=False, repr=False)
class StrategiesConfig(Value):
    """The options of each strategy."""

    reactive: ReactiveConfig = ReactiveConfig()
    plan_execute: PlanExecuteConfig = PlanExecuteConfig()
    tree_of_thought: TreeOfThoughtConfig = TreeOfThoughtConfig()
    reflexion: ReflexionConfig = ReflexionConfig()

    def of(self, strategy: str) -> StrategyOptions | None:
        """Return the options of a built-in strategy, by its registered name."""
        tables: dict[str, StrategyOptions] = {
            "reactive": self.reactive,
            "plan-execute-reflect": self.plan_execute,
            "tree-of-thought": self.tree_of_thought,
            "reflexion": self.reflexion,
        }
        return tables.get(strategy.replace("_", "-"))


ToolClassifier: TypeAlias = Literal["off", "heuristic", "model"]
AnswerCheck: TypeAlias = Literal[
    "written_call", "failed_call", "left_out", "refusal", "text_answer", "unsupported", "not_done"
]
"""A policy that may ask the model about an answer, by its name."""
ANSWER_CHECKS: Final[tuple[AnswerCheck, ...]] = get_args(AnswerCheck)


DEFAULT_KERNEL: Final = "react"


@frozen(eq=False, repr=False)
class ReasoningConfig(Value):
    """Reasoning: strategy, kernel and compaction.

    Attributes:
        parallel_tool_calls: whether one turn may call several tools.
        kernel: the kernel that strategies run, by its name; ``react`` unless a custom one is registered.
        tool_classifier: whether the tools that a task requires are found by rules (``heuristic``), by one
            model call, or not at all.
        compaction: how the transcript of a long run is shortened.
        answer_checks: the policies that may ask the model about an answer; without any, each answer stands as
            the model gives it.
    """

    default_strategy: ReasoningStrategy = "reactive"
    adaptive: AdaptiveConfig = AdaptiveConfig()
    strategies: StrategiesConfig = StrategiesConfig()
    kernel: str = DEFAULT_KERNEL
    parallel_tool_calls: bool = True
    tool_classifier: ToolClassifier = "heuristic"
    compaction: CompactionConfig = CompactionConfig()
    answer_checks: tuple[AnswerCheck, ...] = ANSWER_CHECKS


# --- what the model is shown ----------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class ContextProfile(Value):
    """Limits of what a model is shown, by its tier; the defaults are those of ``mid``.

    Attributes:
        tier: the size class of the model.
        tool_result_chars: maximum characters of one tool result in the prompt, 200 or more; the full result
            is stored.
        list_items: maximum items of a list of objects in a preview, 1 or more; ten times as many plain
            values.
        search_hits: maximum hits of one search in a stored result, 1 or more.
        schema_detail: detail of tool descriptions and schemas: ``compact`` has only the first sentences,
            ``trimmed`` leaves out examples and details of nested values, ``full`` is unchanged.
        window_tokens: assumed context window in tokens when it is unknown, 1024 or more. One result gets at
            most a quarter of it, at four characters a token.
        max_answer_tokens: maximum tokens of one answer, 1 or more, where the run sets none; ``None`` leaves
            it to the provider, as some refuse a limit above their own.
    """

    tier: ContextTier = "mid"
    tool_result_chars: int = field(default=8_000, validator=_shown_chars)
    list_items: int = field(default=50, validator=_positive)
    search_hits: int = field(default=10, validator=_positive)
    schema_detail: SchemaDetail = "trimmed"
    window_tokens: int = field(default=32_768, validator=_window)
    max_answer_tokens: int | None = field(default=None, validator=optional(_positive))

    @property
    def is_brief(self) -> bool:
        """Whether instructions and guidance are in fewer and simpler words."""
        return self.tier == "local"


CONTEXT_PROFILES: Mapping[ContextTier, ContextProfile] = MappingProxyType(
    {
        "local": ContextProfile(
            "local",
            tool_result_chars=2_000,
            list_items=10,
            search_hits=5,
            schema_detail="compact",
            window_tokens=8_192,
            max_answer_tokens=4_096,
        ),
        "mid": ContextProfile(),
        "large": ContextProfile(
            "large",
            tool_result_chars=16_000,
            list_items=100,
            search_hits=20,
            schema_detail="full",
            window_tokens=128_000,
        ),
        "frontier": ContextProfile(
            "frontier",
            tool_result_chars=32_000,
            list_items=200,
            search_hits=40,
            schema_detail="full",
            window_tokens=200_000,
        ),
    }
)
"""The profile of each tier."""


@frozen(eq=False, repr=False)
class ContextProfileOverrides(Value):
    """Fields of a profile to replace; ``None`` keeps the profile's value.

    Attributes:
        tier: uses the profile of this tier for any model; the other fields then replace its fields.
        window_tokens: tokens of the model's window, whatever else is known of it.
    """

    tier: ContextTier | None = None
    tool_result_chars: int | None = field(default=None, validator=optional(_shown_chars))
    list_items: int | None = field(default=None, validator=optional(_positive))
    search_hits: int | None = field(default=None, validator=optional(_positive))
    schema_detail: SchemaDetail | None = None
    window_tokens: int | None = field(default=None, validator=optional(_window))
    max_answer_tokens: int | None = field(default=None, validator=optional(_positive))


NO_PROFILE_OVERRIDES = ContextProfileOverrides()


@frozen(eq=False, repr=False)
class ContentConfig(Value):
    """Limits of images, audio and documents in tasks and tool results.

    Attributes:
        max_bytes: bytes of one part, 1 or more.
        max_total_bytes: bytes of all parts of one task or tool result, 1 or more.
        max_parts: number of parts of one task or tool result, 1 or more.
        media_types: what is taken, such as ``image/png``, as far as it is known; ``text/*`` for every text.
        fetch_s: seconds that fetching one URL may take, above 0.
        allow_hosts: hosts whose URLs are fetched although their addresses are not public; exact names.
        unheld_bytes: bytes of stored content that no session holds, 0 or more; the oldest is deleted beyond.
    """

    max_bytes: int = field(default=20_000_000, validator=_positive)
    max_total_bytes: int = field(default=50_000_000, validator=_positive)
    max_parts: int = field(default=20, validator=_positive)
    media_types: tuple[str, ...] = field(
        default=(*MEDIA_TYPES["image"], *MEDIA_TYPES["audio"], PDF, "text/*"), validator=_known_media_types
    )
    fetch_s: float = field(default=30.0, validator=gt(0.0))
    allow_hosts: tuple[str, ...] = ()
    unheld_bytes: int = field(default=256_000_000, validator=ge(0))


@frozen(eq=False, repr=False)
class ResultCompressionConfig(Value):
    """Shortening of long tool results for the prompt.

    Attributes:
        budget: characters shown, 200 or more; ``None`` takes the profile's figure.
        head_share: 0 to 1, the part of the budget that the start of a text gets; the end gets the rest.
        transform: for the name of a tool a JMESPath expression of at most 500 characters that takes the part
            of its results to show, such as ``matches[*].path``; the full result stays stored.
    """

    budget: int | None = field(default=None, validator=optional(_shown_chars))
    head_share: float = field(default=0.7, validator=_fraction)
    transform: Mapping[str, str] = field(factory=dict)


# --- the runtime ----------------------------------------------------------------------------------------


@frozen(eq=False, repr=False)
class TimeoutConfig(Value):
    """Seconds, each above 0.

    Attributes:
        run_s: for the whole run, which then ends as ``partial`` with its results so far; ``None`` for no
            limit.
        tool_call_s: for one call of a tool without its own limit.
        answer_s: for a question to a person, and for a call that another program executes.
        grace_s: for a service after the run's time is up, for example to close its account.
    """

    run_s: float | None = field(default=None, validator=optional(gt(0.0)))
    tool_call_s: float = field(default=60.0, validator=gt(0.0))
    grace_s: float = field(default=5.0, validator=gt(0.0))
    answer_s: float = field(default=300.0, validator=gt(0.0))


@frozen(eq=False, repr=False)
class RateLimit(Value):
    """Limits of a provider's key, which all users of the key in a process share.

    Attributes:
        requests_per_minute: requests a minute, 1 or more; ``None`` for no limit.
        tokens_per_minute: tokens of requests and answers a minute, 1 or more; ``None`` for no limit.
    """

    requests_per_minute: int | None = field(default=None, validator=optional(_positive))
    tokens_per_minute: int | None = field(default=None, validator=optional(_positive))


@frozen(eq=False, repr=False)
class ModelPrice(Value):
    """The price of a model that is not on litellm's list, or has another price.

    Attributes:
        input_usd_per_million: US dollars for a million input tokens, cached ones included, 0 or more.
        output_usd_per_million: US dollars for a million output tokens, 0 or more.
        max_output_tokens: the longest answer, 1 or more, which a budget reserves; ``None`` if it is unknown.
    """

    input_usd_per_million: float = field(validator=_dollars)
    output_usd_per_million: float = field(validator=_dollars)
    max_output_tokens: int | None = field(default=None, validator=optional(_positive))


@frozen(eq=False, repr=False)
class ExternalToolConfig(Value):
    """A tool that another program executes.

    Attributes:
        name: letters, digits, ``_`` and ``-``, at most 64 characters.
        description: what the tool does, shown to the model.
        parameters: JSON Schema of the arguments, an object schema.
        timeout_s: seconds that a call waits for its result, above 0; ``None`` for ``timeouts.answer_s``.
        requires_approval, risk, output, idempotent, volatile, return_direct, retries: as in
            ``ToolDefinition``.
    """

    name: str = field(validator=min_len(1))
    description: str
    parameters: JsonObject = field(factory=lambda: {"type": "object"})
    timeout_s: float | None = field(default=None, validator=optional(gt(0.0)))
    requires_approval: bool = False
    risk: Risk = "low"
    output: bool = False
    idempotent: bool = False
    volatile: bool = False
    return_direct: bool = False
    retries: int | None = field(default=None, validator=optional(ge(0)))


def _without_credentials(url: str | None) -> str:
    return repr(url and re.sub(r"(?<=//)[^/]*@|\?.*", "", url))


def _check_no_choice(_: object, __: object, settings: object) -> None:
    if not isinstance(settings, ModelSettings):
        raise ValueError(InvalidConfig("settings", abbreviated(settings), "ModelSettings").message)
    if settings.tool_choice not in (UNSET, None):  # the tools of the turn follow that of the run
        expected = "None, for none to be sent: a fallback cannot have another choice"
        raise ValueError(InvalidConfig("settings.tool_choice", repr(settings.tool_choice), expected).message)


@frozen(eq=False, repr=False)
class FallbackModel(Value):
    """A fallback with its own server, key, settings or price.

    Attributes:
        model: as ``provider/model``.
        base_url: its server; by default the provider's own, never that of the first model.
        api_key: its key, sent to its server only. Without one, a ``base_url`` gets the key in the environment
            unless another model of the agent has that provider.
        settings: parameters of its requests, which override those of the agent and the run; without a
            ``tool_choice``, or with ``None`` to send none.
        price: in place of ``prices`` and litellm's list.
    """

    model: str = field(validator=min_len(1))
    base_url: str | None = field(default=None, repr=_without_credentials)
    api_key: str | None = field(default=None, repr=False)
    settings: ModelSettings = field(default=NO_SETTINGS, validator=_check_no_choice)
    price: ModelPrice | None = None


@frozen(eq=False, repr=False)
class ModelConfig(Value):
    """The model of an agent.

    Attributes:
        provider: ``offline``, ``scripted`` or a litellm provider; empty when the model's name says it.
        model: a litellm model string, with or without the provider.
        api_key: overrides the provider's environment variable; never written to events, traces or errors.
        base_url: overrides the provider's address.
        fallbacks: models to try, in order, when one fails for good: names, or a ``FallbackModel`` each.
        max_attempts: requests to one model before the next is tried, 1 or more; at most 3 of those that may
            be charged for, as a request without an answer in time.
        timeout_s: seconds one request may take.
        profiles: the file of probed model profiles; ``None`` for that in the user's state directory,
            ``:memory:`` for none.
        takes: the kinds of content that the model takes: ``image``, ``audio``, ``document``; ``None`` uses
            litellm's list, and sends everything to a model that is not on it.
        rate_limit: requests and tokens a minute; requests that would exceed it wait.
        prices: of models by their names, as ``provider/model``, in place of litellm's list.
        response_cache: the file of recorded answers, given for the same requests; ``None`` for none.
    """

    provider: str = ""
    model: str = ""
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = field(default=None, repr=_without_credentials)
    fallbacks: tuple[str | FallbackModel, ...] = ()
    max_attempts: int = field(default=5, validator=_positive)
    timeout_s: float = field(default=120.0, validator=gt(0.0))
    profiles: str | None = field(default=None, validator=optional(min_len(1)))
    takes: tuple[ContentKind, ...] | None = None
    rate_limit: RateLimit | None = None
    prices: Mapping[str, ModelPrice] = field(factory=dict)
    response_cache: str | None = field(default=None, validator=optional(min_len(1)))

    @property
    def keyless(self) -> ModelConfig:
        """Return the configuration without its keys, as files have it."""
        fallbacks = (each if isinstance(each, str) else evolve(each, api_key=None) for each in self.fallbacks)
        return evolve(self, api_key=None, fallbacks=tuple(fallbacks))
