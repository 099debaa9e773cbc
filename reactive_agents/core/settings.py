"""The settings of an agent's runs, read by every layer down to the kernel.

The builder makes the settings, and they are passed on by reference; no layer copies their fields. So an
option that the kernel reads is added here and where the kernel reads it, and nowhere in between. A layer that
needs another value for a part of a run, such as a share of the budget, passes on a changed copy of the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from attrs import evolve, field, frozen
from attrs.validators import and_, ge, gt, instance_of, optional

from reactive_agents.core import config
from reactive_agents.core.ids import AgentId
from reactive_agents.core.json import JsonObject
from reactive_agents.core.model_settings import NO_SETTINGS, ModelSettings
from reactive_agents.core.values import OMITTED, Value, computed

# --- required tools, and limits of calls, tokens and dollars ---

_COUNT = and_(instance_of(int), ge(1))


@frozen(eq=False, repr=False)
class ToolRequirement(Value):
    """A tool that must succeed before an answer counts.

    Attributes:
        min_calls: how often it must succeed, 1 or more.
        derived: whether it was derived from the task, and not given by the user. Such a requirement sets no
            limit of calls, and an answer without it is accepted when the model insists.
    """

    name: str
    min_calls: int = field(default=1, validator=_COUNT)
    derived: bool = False


@frozen(eq=False, repr=False)
class ToolNeeds(Value):
    """The tools that must succeed before an answer is complete, and that may help."""

    required: tuple[ToolRequirement, ...] = ()
    relevant: frozenset[str] = frozenset()


NO_NEEDS = ToolNeeds()
"""Of a kernel run that requires no tool."""


@frozen(eq=False, repr=False)
class CallLimit(Value):
    """The maximum number of calls of a tool in a run, 1 or more."""

    name: str
    max_calls: int = field(validator=_COUNT)


@frozen(eq=False, repr=False)
class BudgetConfig(Value):
    """Limits of a run, which ends as ``partial`` when one is reached.

    Attributes:
        tokens: total tokens of all model calls, 1 or more; ``None`` for no limit.
        cost_usd: US dollars of model calls with a known price, above 0; ``None`` for no limit.
        calls: tools with a limited number of calls; further calls are refused.
        requests: answered model calls, 1 or more; ``None`` for no limit.
        tool_calls: calls of all tools together, 1 or more; ``None`` for no limit.
    """

    tokens: int | None = field(default=None, validator=optional(_COUNT))
    cost_usd: float | None = field(default=None, validator=optional(gt(0.0)))
    calls: tuple[CallLimit, ...] = ()
    requests: int | None = field(default=None, validator=optional(_COUNT), metadata=OMITTED)
    tool_calls: int | None = field(default=None, validator=optional(_COUNT), metadata=OMITTED)

    @property
    def limits_spending(self) -> bool:
        """Return whether there is a limit on tokens, dollars or model calls."""
        return (self.tokens, self.cost_usd, self.requests) != (None, None, None)

    def over(self, known: BudgetConfig) -> BudgetConfig:
        """Return the limits, and of others those that they do not name."""
        named = {limit.name for limit in self.calls}
        return BudgetConfig(
            known.tokens if self.tokens is None else self.tokens,
            known.cost_usd if self.cost_usd is None else self.cost_usd,
            (*(limit for limit in known.calls if limit.name not in named), *self.calls),
            known.requests if self.requests is None else self.requests,
            known.tool_calls if self.tool_calls is None else self.tool_calls,
        )


RECORDING_PHASES: Final[Mapping[config.RecordService, tuple[str, ...]]] = {
    "memory": ("bootstrap", "memory-flush"),
    "cost": ("cost-track",),
    "audit": ("audit",),
}
"""The phases in which a service reads or writes its records."""
UntrustedArguments: TypeAlias = Literal["ask", "block", "allow"]
"""What is done about a high-risk call with an argument from outside; see ``docs/safety.md``."""

DEFAULT_MAX_ITERATIONS = 10
"""Maximum turns of a run without a limit."""


@frozen(slots=False, eq=False, repr=False)
class RunSettings(Value):
    """Settings of an agent's runs.

    Each ``enable_*`` flag makes its service required: a run fails with ``ServiceMissing`` when the container
    has none. Without the flag the phase uses the service when there is one, and is skipped otherwise.

    Attributes:
        name: the agent's name in memory, accounts and the audit log.
        reasoning: the options of reasoning; without them the model is asked until it stops calling tools.
        system_prompt: the agent's instructions; empty for the default.
        max_iterations: turns that the model may take, 1 or more; with a strategy of several passes, in each
            pass. ``None`` leaves it to the strategy, and is 10 without reasoning.
        strict_hooks: whether a failing lifecycle hook fails the run.
        verification: how answers are verified, and the reaction to one that is not verified.
        model_settings: parameters of every request to a model; those of a single run override them.
        context_profile: limits of the model, where its name does not imply them.
        compression: how long tool results are shortened for the model.
        required_tools: tools that must have succeeded before an answer is complete.
        budget: limits of tokens, cost and tool calls of a run.
        required_records: services without whose record a run fails, instead of continuing without it:
            ``memory``, ``cost`` and ``audit``.
        content: limits of images, audio and documents.
        untrusted_arguments: how a call of high risk is treated that has an argument copied from a tool result
            or a recalled note; ``None`` asks for approval if there is an approver.
        written_calls: how a call is treated that the model writes as text: ``allow`` runs it if the model was
            not shown it, ``ask`` needs approval once a tool result or a recalled note was shown, and
            ``block`` runs none.
        durability: where runs are recorded, so that they outlive their process; ``None`` if they are not.
        session_state: the state with which new sessions, and runs without one, begin.
    """

    name: str = "agent"
    reasoning: config.ReasoningConfig | None = None
    system_prompt: str = ""
    max_iterations: int | None = field(default=None, validator=optional(ge(1)))
    strict_hooks: bool = False
    verification: config.VerificationConfig | None = None
    enable_guardrails: bool = False
    enable_verification: bool = False
    enable_cost_tracking: bool = False
    enable_audit: bool = False
    timeouts: config.TimeoutConfig = config.TimeoutConfig()
    model_settings: ModelSettings = NO_SETTINGS
    context_profile: config.ContextProfileOverrides = config.NO_PROFILE_OVERRIDES
    compression: config.ResultCompressionConfig = config.ResultCompressionConfig()
    required_tools: tuple[ToolRequirement, ...] = ()
    budget: BudgetConfig = BudgetConfig()
    content: config.ContentConfig = config.ContentConfig()
    required_records: tuple[config.RecordService, ...] = ()
    untrusted_arguments: UntrustedArguments | None = None
    written_calls: UntrustedArguments = "allow"
    durability: config.DurabilityConfig | None = None
    session_state: JsonObject = field(factory=dict, metadata=OMITTED)

    def requires(self, phase: str) -> bool:
        """Return whether a failure of the phase, which records something, ends the run."""
        return any(phase in RECORDING_PHASES[each] for each in self.required_records)

    @property
    def agent_id(self) -> AgentId:
        """The id that the agent's tasks, accounts and memories carry."""
        return AgentId(self.name)

    @property
    def iteration_limit(self) -> int:
        """Turns that a run of the reactive strategy, or one without reasoning, may take."""
        if self.max_iterations is not None:
            return self.max_iterations
        if self.reasoning is None:
            return DEFAULT_MAX_ITERATIONS
        return self.reasoning.strategies.reactive.max_iterations

    @computed
    def needs(self) -> ToolNeeds:
        """The needs of the runs of their tools."""
        return ToolNeeds(self.required_tools)

    @computed
    def limits_of_model(self) -> config.ContextProfileOverrides:
        """The limits that are configured, the window also by the parameters of requests."""
        given, window = self.context_profile, self.model_settings.window_tokens
        return given if window is None or given.window_tokens else evolve(given, window_tokens=window)

    def explicit_limit(self, limit: int) -> int | None:
        """Return the limit of a run that an option or a hook set.

        ``None`` for the default, which leaves strategies of several passes their own limits.
        """
        return None if self.max_iterations is None and limit == self.iteration_limit else limit

    @property
    def verification_action(self) -> config.VerificationAction:
        """The reaction to an answer that the verifier does not support."""
        return "annotate" if self.verification is None else self.verification.action

    def asks_about_copied(self, *, approves: bool) -> bool:
        """Return whether a call of high risk with a copied argument needs approval."""
        return self.untrusted_arguments == "ask" or (self.untrusted_arguments is None and approves)

    @property
    def parallel_tool_calls(self) -> bool:
        """Whether the calls of one turn run concurrently, or one after the other."""
        return self.reasoning is None or self.reasoning.parallel_tool_calls

    @computed
    def answer_checks(self) -> tuple[config.AnswerCheck, ...]:
        """The policies that may ask the model about an answer."""
        return config.ANSWER_CHECKS if self.reasoning is None else self.reasoning.answer_checks
