"""The builder: an agent described step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, cast, get_args, overload

from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success

from reactive_agents.adapters.tools.mcp import McpServer
from reactive_agents.agent.agent import AgentResult, R, ReactiveAgent
from reactive_agents.agent.assembly import LiveParts, assemble_agent
from reactive_agents.agent.config import AgentConfig, read_config
from reactive_agents.agent.errors import AgentError
from reactive_agents.agent.model_names import name_model, name_provider
from reactive_agents.agent.output_types import TypedResult
from reactive_agents.agent.service_options import ServiceOptions
from reactive_agents.agent.tool_names import ToolLike, find_tool, tool_reference
from reactive_agents.core.codec import decode, encode
from reactive_agents.core.config import ContextTier, ReasoningConfig
from reactive_agents.core.errors import ConfigErrors, DecodeError, InvalidConfig
from reactive_agents.core.frozen import frozen
from reactive_agents.core.reasoning import ReasoningStrategy
from reactive_agents.core.requirements import CallLimit, ToolRequirement
from reactive_agents.effects import Effect
from reactive_agents.engine import LIFECYCLE_PHASES, HookHandler, HookTiming, LifecycleHook, LifecyclePhase
from reactive_agents.kernel import Policy
from reactive_agents.ports import LLM
from reactive_agents.reasoning import ReasoningController, Strategy
from reactive_agents.reasoning.synthesis import SynthesisFunction

_Options = TypeVar("_Options")
_Output = TypeVar("_Output")

_TIMINGS: tuple[HookTiming, ...] = get_args(HookTiming)


@frozen
class ReactiveAgents(ServiceOptions, Generic[R]):
    """An immutable builder: each ``with_*`` returns a new one, and ``build()`` says what is wrong."""

    @classmethod
    def create(cls) -> ReactiveAgents[AgentResult]:
        """An agent with all defaults and without a model."""
        return ReactiveAgents()

    @classmethod
    def from_config(cls, source: AgentConfig | Mapping[str, Any] | str | Path) -> ReactiveAgents[AgentResult]:
        """The agent that a config, a mapping, or a ``.json`` or ``.toml`` file describes."""
        read = read_config(source)
        if isinstance(read, Failure):
            return ReactiveAgents(problems=(read.failure(),))
        config = read.unwrap()
        return ReactiveAgents(config, LiveParts(tools=config.tools))

    # --- the model --------------------------------------------------------------------------------------

    def with_model(self, model: str, *, api_key: str | None = None, base_url: str | None = None) -> Self:
        """Which model answers.

        Args:
            model: ``provider/model`` in litellm's spelling, or a provider alone for its default model.
            api_key: instead of the provider's environment variable. It goes to no other provider, also not
                when a later call names one.
            base_url: instead of the provider's address; likewise.
        """
        return self._evolve(model=name_model(self.config.model, model, api_key, base_url))

    def with_provider(
        self, provider: str, *, api_key: str | None = None, base_url: str | None = None
    ) -> Self:
        """Who runs the model: its default model, unless ``with_model`` names one of its models."""
        return self._evolve(model=name_provider(self.config.model, provider, api_key, base_url))

    def with_llm(self, llm: LLM) -> Self:
        """A model object of one's own, such as a ``ScriptedLLM``; it takes the place of ``with_model``."""
        if not all(hasattr(llm, name) for name in ("complete", "stream", "model")):
            expected = "an object with complete, stream and model; with_model takes a model's name"
            return self._with_problem(InvalidConfig("llm", repr(llm), expected))
        return self._with_parts(llm=llm)

    def with_fallbacks(self, *models: str) -> Self:
        """Models to try, in order, when the first fails for good."""
        return self._evolve(model=evolve(self.config.model, fallbacks=models))

    # --- how it works -----------------------------------------------------------------------------------

    def with_name(self, name: str) -> Self:
        """Names the agent in memory, accounts and the audit log."""
        if not name.strip():
            return self._with_problem(InvalidConfig("name", repr(name), "a name that is not blank"))
        return self._evolve(name=name)

    def with_reasoning(self, default_strategy: ReasoningStrategy = "reactive", **options: Any) -> Self:
        """Reason with a strategy.

        Args:
            options: the other fields of ``ReasoningConfig``, as values or as mappings:
                ``strategies={"reactive": {"temperature": 0.2}}``.
        """
        read = _changed(ReasoningConfig(), {"default_strategy": default_strategy, **options})
        if isinstance(read, Failure):
            return self._with_problem(read.failure())
        return self._evolve(reasoning=read.unwrap())

    def with_strategy(self, name: ReasoningStrategy, strategy: Strategy) -> Self:
        """Make a strategy of one's own known, for ``with_reasoning(name)``."""
        return self._with_parts(strategies=(*self.parts.strategies, (name, strategy)))

    def with_controller(self, controller: ReasoningController) -> Self:
        """Watch the reasoning of every run with functions of one's own, which may change or end it."""
        if not isinstance(controller, ReasoningController):
            return self._with_problem(InvalidConfig("controller", repr(controller), "a ReasoningController"))
        return self._with_parts(controller=controller)

    def with_synthesis_strategy(self, function: SynthesisFunction) -> Self:
        """Put earlier turns in short with a function, where ``with_reasoning`` says ``synthesis="custom"``.

        Args:
            function: takes a ``SynthesisMaterial`` and returns a text; sync or async.
        """
        if not callable(function):
            return self._with_problem(InvalidConfig("synthesis_strategy", repr(function), "a function"))
        return self._with_parts(synthesizer=function)

    def with_policies(self, *policies: Policy) -> Self:
        """Decide about runs with policies of one's own, which are asked before the built-in ones.

        A policy is a pure function of the kernel's state and context; it may redirect the model with
        guidance, end the run, or have nothing to say (``None``).
        """
        return self._with_parts(policies=(*self.parts.policies, *policies))

    def with_tools(self, *tools: ToolLike) -> Self:
        """Add tools: typed functions, built-in names, ``module:function``; all built-in tools by default."""
        from reactive_agents.adapters.tools.builtin import builtin_tools

        return self._with_parts(tools=(*self.parts.tools, *(tools or builtin_tools())))

    def with_mcp(self, *servers: McpServer) -> Self:
        """Add the tools of MCP servers, which are started or reached before the first run."""
        known = self.config.mcp_servers
        names = [server.name for server in (*known, *servers)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            return self._with_problem(InvalidConfig("mcp_servers", ", ".join(twice), "each server name once"))
        return self._evolve(mcp_servers=(*known, *servers))

    def with_workspace(self, path: str | Path) -> Self:
        """The directory that file tools are held inside."""
        return self._evolve(workspace=str(path))

    def with_system_prompt(self, prompt: str) -> Self:
        """The agent's role."""
        return self._evolve(system_prompt=prompt)

    def with_max_iterations(self, limit: int) -> Self:
        """Turns that the model may take, 1 or more.

        For ``reactive``, and without reasoning, it is the limit of the run, in place of the strategy's own. A
        strategy that asks in several passes takes at most that many turns in each.
        """
        if limit < 1:
            return self._with_problem(InvalidConfig("max_iterations", str(limit), "1 or more"))
        return self._evolve(max_iterations=limit)

    def with_timeout(
        self, run: float | None = None, *, model_call: float | None = None, tool_call: float | None = None
    ) -> Self:
        """Limits in seconds, each above 0.

        Args:
            run: the whole run, which then ends as ``partial`` with what it has.
            model_call: one request to a model.
            tool_call: one tool call, for tools that do not say it themselves.
        """
        for name, seconds in (("run", run), ("model_call", model_call), ("tool_call", tool_call)):
            if seconds is not None and not seconds > 0:
                return self._with_problem(InvalidConfig(f"timeout.{name}", str(seconds), "above 0 seconds"))
        known, model = self.config.timeouts, self.config.model
        return self._evolve(
            timeouts=evolve(known, run_s=run or known.run_s, tool_call_s=tool_call or known.tool_call_s),
            model=evolve(model, timeout_s=model_call or model.timeout_s),
        )

    def with_required_tools(self, *tools: str, min_calls: Mapping[str, int] | None = None) -> Self:
        """Accept no answer as complete before these tools have worked. A later call adds to an earlier one.

        Args:
            tools: names of the agent's tools.
            min_calls: how often each must have worked, 1 or more; once by default.
        """
        known = {each.name: each for each in self.config.required_tools}
        for name, count in {**dict.fromkeys(tools, 1), **(min_calls or {})}.items():
            try:
                known[name] = ToolRequirement(name, count)
            except (ValueError, TypeError):
                problem = InvalidConfig("required_tools", f"{name}: {count}", "1 call or more")
                return self._with_problem(problem)
        return self._evolve(required_tools=tuple(known.values()))

    def with_budget(
        self,
        *,
        tokens: int | None = None,
        cost_usd: float | None = None,
        calls: Mapping[str, int] | None = None,
    ) -> Self:
        """What a run may spend; it then ends as ``partial`` with what it has.

        What a later call does not name stays as an earlier one set it. The wall clock has a limit of its own,
        ``with_timeout(run=…)``.

        Args:
            tokens: total tokens of all model calls, 1 or more.
            cost_usd: US dollars, above 0, of the model calls whose price is known.
            calls: how often each tool may be called, 1 or more; further calls are refused.
        """
        known = self.config.budget
        try:
            named = tuple(CallLimit(*each) for each in (calls or {}).items())
        except (ValueError, TypeError):
            problem = InvalidConfig("budget.calls", str(calls), "whole numbers, 1 or more")
            return self._with_problem(problem)
        kept = tuple(limit for limit in known.calls if limit.name not in (calls or {}))
        try:
            budget = evolve(known, calls=(*kept, *named), tokens=known.tokens if tokens is None else tokens)
        except (ValueError, TypeError):
            problem = InvalidConfig("budget.tokens", str(tokens), "a whole number, 1 or more")
            return self._with_problem(problem)
        try:
            budget = evolve(budget, cost_usd=known.cost_usd if cost_usd is None else cost_usd)
        except (ValueError, TypeError):
            return self._with_problem(InvalidConfig("budget.cost_usd", str(cost_usd), "US dollars above 0"))
        return self._evolve(budget=budget)

    def with_context_profile(self, tier: ContextTier | None = None, **fields: Any) -> Self:
        """What the model can take, where its name does not say it, or says it wrong.

        Args:
            tier: takes the profile of ``local``, ``mid``, ``large`` or ``frontier`` models.
            fields: the other fields of ``ContextProfileOverrides``, such as ``tool_result_chars=4000``; each
                replaces the field of the profile.
        """
        given = fields if tier is None else {**fields, "tier": tier}
        read = _changed(self.config.context_profile, given)
        if isinstance(read, Failure):
            return self._with_problem(read.failure())
        return self._evolve(context_profile=read.unwrap())

    def with_result_compression(self, **options: Any) -> Self:
        """How long tool results are shortened for the model.

        Args:
            options: fields of ``ResultCompressionConfig``: ``budget``, ``head_share``, and ``transform``,
                such as ``transform={"file-search": "matches[*].path"}``.
        """
        read = _changed(self.config.compression, options)
        if isinstance(read, Failure):
            return self._with_problem(read.failure())
        return self._evolve(compression=read.unwrap())

    def with_hook(self, phase: LifecyclePhase, timing: HookTiming, handler: HookHandler) -> Self:
        """Run a handler, sync or async, before, after, or on an error of a phase, with the run's context."""
        if phase not in LIFECYCLE_PHASES:
            return self._with_problem(InvalidConfig("hook.phase", repr(phase), _one_of(LIFECYCLE_PHASES)))
        if timing not in _TIMINGS:
            return self._with_problem(InvalidConfig("hook.timing", repr(timing), _one_of(_TIMINGS)))
        return self._with_parts(hooks=(*self.parts.hooks, LifecycleHook(phase, timing, handler)))

    def with_strict_hooks(self, strict: bool = True) -> Self:
        """Whether a failing lifecycle hook fails the run."""
        return self._evolve(strict_hooks=strict)

    # --- the result -------------------------------------------------------------------------------------

    @overload
    def with_output_type(self, output_type: type[_Output]) -> ReactiveAgents[TypedResult[_Output]]: ...

    @overload
    def with_output_type(self, output_type: Any) -> ReactiveAgents[TypedResult[Any]]: ...

    def with_output_type(self, output_type: Any) -> ReactiveAgents[Any]:
        """Give every answer as a value of a type; ``run`` then gives a ``TypedResult``.

        The model is told of the type; an answer that does not fit is turned into it by further model calls,
        and where that fails too the run is ``partial``, with the text kept.

        Args:
            output_type: an attrs class, a dataclass, a ``TypedDict``, a pydantic model, or a type like
                ``list[int]``. Unions are taken too, but type checkers then see ``Any``.
        """
        return self._with_parts(output_type=output_type)

    def build(self) -> ReactiveAgent[R]:
        """The agent.

        Raises:
            AgentError: something of the description is wrong; ``.error`` says what.
        """
        built = self._build()
        if isinstance(built, Failure):
            raise AgentError(built.failure())
        return built.unwrap()

    def build_effect(self) -> Effect[ReactiveAgent[R], ConfigErrors]:
        """The agent, or the first thing that is wrong with its description."""
        return FutureResult.from_result(self._build())

    def to_config(self) -> AgentConfig:
        """The agent as data, without its key.

        Raises:
            AgentError: it has a part that is no data: a model object, a hook, a function of no module.
        """
        described = self._described()
        if isinstance(described, Failure):
            raise AgentError(described.failure())
        return described.unwrap()

    def _build(self) -> Result[ReactiveAgent[R], ConfigErrors]:
        if self.problems:
            return Failure(self.problems[0])
        return assemble_agent(self.config, self.parts)

    def _described(self) -> Result[AgentConfig, ConfigErrors]:
        if self.problems:
            return Failure(self.problems[0])
        parts = self.parts
        if parts.llm is not None:
            kind = type(parts.llm).__name__
            return Failure(InvalidConfig("llm", kind, "a model by name, to be written as data"))
        if parts.hooks:
            where = f"a hook for {parts.hooks[0].phase}/{parts.hooks[0].timing}"
            return Failure(InvalidConfig("hooks", where, "no hooks, which cannot be written as data"))
        if parts.approver is not None:
            kind = type(parts.approver).__name__
            return Failure(InvalidConfig("approval", kind, "no approver, which cannot be written as data"))
        if parts.strategies:
            name = repr(parts.strategies[0][0])
            return Failure(InvalidConfig("strategies", name, "a built-in strategy, to be written as data"))
        if parts.output_type is not None:
            kind = repr(parts.output_type)
            return Failure(InvalidConfig("output_type", kind, "none, to be written as data"))
        if parts.controller is not None:
            return Failure(InvalidConfig("controller", "a controller", "none, to be written as data"))
        if parts.checks:
            name = getattr(parts.checks[0], "__name__", "a check")
            return Failure(InvalidConfig("guardrails.checks", name, "no functions, to be written as data"))
        if parts.embedder is not None:
            kind = type(parts.embedder).__name__
            return Failure(
                InvalidConfig("memory.embedder", kind, "an embedding_model, to be written as data")
            )
        if parts.signing_key is not None:
            return Failure(InvalidConfig("audit", "a signing key", "none, to be written as data"))
        if parts.synthesizer is not None:
            name = repr(parts.synthesizer)
            return Failure(
                InvalidConfig("synthesis_strategy", name, "module:function, to be written as data")
            )
        if parts.policies:
            name = getattr(parts.policies[0], "__name__", "a policy")
            return Failure(InvalidConfig("policies", name, "no policies, which cannot be written as data"))
        names: list[str] = []
        for source in parts.tools:
            reference = find_tool(source).bind(tool_reference)
            if isinstance(reference, Failure):
                return Failure(reference.failure())
            names.append(reference.unwrap())
        model = evolve(self.config.model, api_key=None)
        return Success(evolve(self.config, model=model, tools=tuple(names)))


def _changed(options: _Options, given: Mapping[str, Any]) -> Result[_Options, DecodeError]:
    """The options with the given fields in place of theirs. Fails with ``DecodeError`` at a wrong one."""
    fields = {name: encode(value) for name, value in given.items()}
    document = {**cast(dict[str, Any], encode(options)), **fields}
    return decode(document, type(options))


def _one_of(names: tuple[str, ...]) -> str:
    return "one of " + ", ".join(names)
