"""Configuration, with its defaults and its limits. A value out of its range raises ``ValueError`` at once."""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import field, frozen
from attrs.validators import and_, ge, gt, le, optional

from reactive_agents.core.ids import AgentId
from reactive_agents.core.memory import MemoryTier
from reactive_agents.core.plans import PlanMode
from reactive_agents.core.reasoning import ReasoningStrategy
from reactive_agents.core.requirements import BudgetConfig, ToolRequirement

Depth: TypeAlias = Literal["shallow", "deep"]
PatchStrategy: TypeAlias = Literal["in-place", "replan-remaining"]
ContextTier: TypeAlias = Literal["local", "mid", "large", "frontier"]

_positive = ge(1)
_fraction = and_(ge(0.0), le(1.0))
_temperature = and_(ge(0.0), le(2.0))

# --- reasoning ------------------------------------------------------------------------------------------


@frozen
class ReactiveConfig:
    """The ReAct loop. ``max_iterations``: model turns, 1 or more; ``temperature``: 0 to 2."""

    max_iterations: int = field(default=10, validator=_positive)
    temperature: float = field(default=0.7, validator=_temperature)


@frozen
class PlanExecuteConfig:
    """Plan-execute-reflect.

    Attributes:
        max_refinements: plan revisions after reflection, 1 or more.
        reflection_depth: reflection within 1500 (shallow) or 2500 (deep) tokens.
        step_retries: attempts a step gets after its first, before it is patched.
        step_kernel_max_iterations: model turns of a composite step.
        plan_mode: ``linear`` runs the steps in order, ``dag`` by their dependencies.
        patch_strategy: rewrite the failed step alone, or everything that remains.
    """

    max_refinements: int = field(default=2, validator=_positive)
    reflection_depth: Depth = "deep"
    step_retries: int = field(default=1, validator=ge(0))
    step_kernel_max_iterations: int = field(default=3, validator=_positive)
    plan_mode: PlanMode = "linear"
    patch_strategy: PatchStrategy = "in-place"


@frozen
class TreeOfThoughtConfig:
    """Tree of thought. ``pruning_threshold``: 0 to 1, the least score that survives."""

    breadth: int = field(default=3, validator=_positive)
    depth: int = field(default=3, validator=_positive)
    pruning_threshold: float = field(default=0.5, validator=_fraction)


@frozen
class ReflexionConfig:
    """Reflexion. ``kernel_max_iterations``: model turns of each generate or improve pass."""

    max_retries: int = field(default=3, validator=_positive)
    self_critique_depth: Depth = "deep"
    kernel_max_iterations: int = field(default=3, validator=_positive)


@frozen
class AdaptiveConfig:
    """Whether every task is routed to the strategy that suits it, and whether outcomes are learned from."""

    enabled: bool = False
    learning: bool = True


@frozen
class StrategiesConfig:
    """The options of each strategy."""

    reactive: ReactiveConfig = ReactiveConfig()
    plan_execute: PlanExecuteConfig = PlanExecuteConfig()
    tree_of_thought: TreeOfThoughtConfig = TreeOfThoughtConfig()
    reflexion: ReflexionConfig = ReflexionConfig()


ToolClassifier: TypeAlias = Literal["off", "heuristic", "model"]


@frozen
class ReasoningConfig:
    """How an agent reasons.

    Attributes:
        parallel_tool_calls: whether one turn may call several tools.
        tool_classifier: whether the tools that a task requires are found by rules or by one model call.
    """

    default_strategy: ReasoningStrategy = "reactive"
    adaptive: AdaptiveConfig = AdaptiveConfig()
    strategies: StrategiesConfig = StrategiesConfig()
    parallel_tool_calls: bool = True
    tool_classifier: ToolClassifier = "off"


# --- what the model is shown ----------------------------------------------------------------------------


@frozen
class ContextProfile:
    """What a model of a tier can take.

    Attributes:
        tier: the size class of the model.
        tool_result_chars: characters of one tool result that the prompt shows; the rest stays stored.
    """

    tier: ContextTier = "mid"
    tool_result_chars: int = field(default=8_000, validator=ge(200))


@frozen
class ContextProfileOverrides:
    """Fields of a profile to replace; ``None`` keeps the profile's own."""

    tier: ContextTier | None = None
    tool_result_chars: int | None = field(default=None, validator=optional(ge(200)))


@frozen
class ResultCompressionConfig:
    """How a long tool result is shortened for the prompt.

    Attributes:
        budget: characters shown; ``None`` takes the profile's figure.
        head_share: 0 to 1, the part of the budget that the start of a text gets; the end gets the rest.
    """

    budget: int | None = field(default=None, validator=optional(ge(200)))
    head_share: float = field(default=0.7, validator=_fraction)


# --- the runtime ----------------------------------------------------------------------------------------


@frozen
class TimeoutConfig:
    """Seconds, each above 0.

    Attributes:
        run_s: the whole run; it then ends as ``partial`` with what it has. ``None`` for no limit.
        tool_call_s: one tool call, for tools that do not say it themselves.
        grace_s: what a service may still take once the run's time is up, as to close its account.
    """

    run_s: float | None = field(default=None, validator=optional(gt(0.0)))
    tool_call_s: float = field(default=60.0, validator=gt(0.0))
    grace_s: float = field(default=5.0, validator=gt(0.0))


@frozen
class ModelConfig:
    """Which model answers.

    Attributes:
        provider: ``offline``, ``scripted`` or a litellm provider; empty when the model's name says it.
        model: a litellm model string, with or without the provider.
        api_key: overrides the provider's environment variable; never written to events, traces or errors.
        base_url: overrides the provider's address.
        fallbacks: models to try, in order, when one fails for good.
        max_attempts: requests to one model before the next is tried, 1 or more.
        timeout_s: seconds one request may take.
    """

    provider: str = ""
    model: str = ""
    api_key: str | None = field(default=None, repr=False)
    base_url: str | None = None
    fallbacks: tuple[str, ...] = ()
    max_attempts: int = field(default=3, validator=_positive)
    timeout_s: float = field(default=120.0, validator=gt(0.0))


@frozen
class ReactiveAgentsConfig:
    """What the execution engine goes by.

    Each ``enable_*`` flag makes its service a must: a run fails with ``ServiceMissing`` when the container
    has none. Without the flag the phase uses the service when there is one, and is skipped otherwise.

    Attributes:
        max_iterations: iterations of the agent loop, 1 or more.
        strict_hooks: a failing lifecycle hook fails the run.
        reasoning: ``None`` switches reasoning off: the loop asks the model until it stops calling tools.
    """

    agent_id: AgentId
    name: str = "agent"
    max_iterations: int = field(default=10, validator=_positive)
    default_model: str | None = None
    system_prompt: str = ""
    memory_tier: MemoryTier = "1"
    enable_guardrails: bool = False
    enable_verification: bool = False
    enable_cost_tracking: bool = False
    enable_audit: bool = False
    strict_hooks: bool = False
    reasoning: ReasoningConfig | None = None
    timeouts: TimeoutConfig = TimeoutConfig()
    context_profile: ContextProfileOverrides = ContextProfileOverrides()
    compression: ResultCompressionConfig = ResultCompressionConfig()
    required_tools: tuple[ToolRequirement, ...] = ()
    budget: BudgetConfig = field(factory=BudgetConfig)
