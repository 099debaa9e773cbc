"""The builder, which describes an agent option by option."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, cast, overload

from attrs import evolve
from returns.future import FutureResult
from returns.result import Failure, Result, Success
from typing_extensions import TypeForm, TypeVar, Unpack

from reactive_agents.adapters.tools import mcp
from reactive_agents.adapters.tools.decorator import Tool
from reactive_agents.agent import tool_references, validation
from reactive_agents.agent.agent import AgentResult, R, ReactiveAgent
from reactive_agents.agent.config import MODEL_EXPECTED, AgentConfig, name_model, name_provider, read_config
from reactive_agents.agent.description import AgentComponents, not_an_attribute, unserializable_component
from reactive_agents.agent.errors import value_or_raise
from reactive_agents.agent.run_options import BudgetOptions, budget_of
from reactive_agents.agent.service_options import ServiceOptions
from reactive_agents.core.codec import abbreviated
from reactive_agents.core.config import ContextTier, FallbackModel, ModelPrice, ReasoningConfig
from reactive_agents.core.content import ContentKind
from reactive_agents.core.errors import ConfigErrors, InvalidConfig
from reactive_agents.core.json import Json
from reactive_agents.core.messages import ToolCall
from reactive_agents.core.model_settings import ModelSettings
from reactive_agents.core.results import ModelRetry, ReasoningStrategy
from reactive_agents.core.run_context import RunContext, can_take, checked_deps_function, context_function
from reactive_agents.core.settings import ToolRequirement
from reactive_agents.core.tasks import TypedResult
from reactive_agents.core.tools import RunTool, ToolDefinition, ToolResult
from reactive_agents.effects import Effect
from reactive_agents.engine import HookHandler, HookTiming, LifecycleHook, LifecyclePhase
from reactive_agents.engine.hooks import wrong_hook
from reactive_agents.engine.services import output_validator
from reactive_agents.kernel import CompactionFunction, Policy, ThoughtKernel
from reactive_agents.lazy_imports import uncollected
from reactive_agents.ports import LLM
from reactive_agents.reasoning import Strategy

if TYPE_CHECKING:
    from reactive_agents.agent.multi_agent import HandoffLike  # imported by agents that hand over
    from reactive_agents.reasoning import ReasoningController
    from reactive_agents.reasoning.strategies.workflow import Workflow

_Output = TypeVar("_Output")
_Given = TypeVar("_Given")
_Deps = TypeVar("_Deps", default=None)

ValidatedOutput: TypeAlias = _Output | ModelRetry | Awaitable[_Output | ModelRetry | None] | None
"""What a validator returns: ``None`` keeps the answer, ``ModelRetry`` asks the model again."""

Instruction: TypeAlias = str | Awaitable[str | None] | None
"""What a function for instructions returns."""

MadeDeps: TypeAlias = (
    _Output | Awaitable[_Output] | AbstractContextManager[_Output] | AbstractAsyncContextManager[_Output]
)
"""What a function for dependencies returns."""

ChosenTools: TypeAlias = Sequence[Tool | Callable[..., Any]]
"""The tools that a function chooses for a run."""

ConfigSource: TypeAlias = AgentConfig | Mapping[str, Any] | str | Path


class ReactiveAgents(ServiceOptions[_Deps], Generic[R, _Deps]):
    """An immutable builder of agents: each ``with_*`` returns a new one."""

    __slots__ = ()  # see ServiceOptions

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Refuse an attribute that the builder lacks, with advice if the agent has it.

            Raises:
                AttributeError: always.
            """
            raise not_an_attribute(self, name, ReactiveAgent)

    @overload
    @classmethod
    def create(cls) -> ReactiveAgents[AgentResult, None]: ...

    @overload
    @classmethod
    def create(cls, *, deps: TypeForm[_Given]) -> ReactiveAgents[AgentResult, _Given]: ...

    @classmethod
    def create(cls, *given: object, deps: Any = None, **options: object) -> ReactiveAgents[AgentResult, Any]:
        """Return a builder with all defaults and without a model.

        Args:
            deps: the type of the dependencies, which each run is given and which tools and other functions
                find in their ``RunContext``.
            given, options: none; what belongs to another method is an error of ``build``, which names it.
        """
        named = [("create", each) for each in given] + [*options.items()]
        wrong = tuple(_misplaced(cls, name, value) for name, value in named)
        return ReactiveAgents(components=AgentComponents(deps=deps), problems=wrong)

    @overload
    @classmethod
    def from_config(
        cls, source: ConfigSource, *, allow_tools_from: Collection[str] = ()
    ) -> ReactiveAgents[AgentResult, None]: ...

    @overload
    @classmethod
    def from_config(
        cls, source: ConfigSource, *, deps: TypeForm[_Given], allow_tools_from: Collection[str] = ()
    ) -> ReactiveAgents[AgentResult, _Given]: ...

    @classmethod
    def from_config(
        cls, source: ConfigSource, *, deps: Any = None, allow_tools_from: Collection[str] = ()
    ) -> ReactiveAgents[AgentResult, Any]:
        """Return a builder from a config, a mapping, or a ``.json`` or ``.toml`` file.

        Args:
            deps: the type of the dependencies, as in :meth:`create`.
            allow_tools_from: modules and packages whose functions a mapping or file may name.
        """
        read = read_config(source, allow_tools_from=allow_tools_from)
        if isinstance(read, Failure):
            return ReactiveAgents(problems=(read.failure(),))
        config = read.unwrap()
        files = (Path(source).resolve(),) if isinstance(source, str | Path) else ()
        return ReactiveAgents(
            config,
            AgentComponents(tools=config.tools, handoffs=config.handoffs, config_files=files, deps=deps),
        )

    # --- the model --------------------------------------------------------------------------------------

    def with_model(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        profiles: str | Path | None = None,
        settings: ModelSettings | None = None,
    ) -> Self:
        """Choose the model.

        The stored profile of the model, which ``reactive-agents models probe`` makes, is used for everything
        that is not set.

        Args:
            model: ``provider/model`` in litellm's spelling, or a provider alone for its default model.
            api_key: the key, instead of the provider's environment variable. It never goes to another
                provider, even when a later call names one.
            base_url: the address, instead of the provider's own; never used for another provider either.
            profiles: the file of model profiles; by default the one in the user's state directory;
                ``:memory:`` for none.
            settings: parameters of every request, as in :meth:`with_model_settings`.
        """
        if settings is not None:
            chosen = self.with_model(model, api_key=api_key, base_url=base_url, profiles=profiles)
            return chosen.with_model_settings(settings)
        expected = f"{MODEL_EXPECTED} (with_llm takes an object)"
        wrong = validation.wrong_value("model", model, str, expected)
        if wrong is None and profiles is not None:
            wrong = validation.wrong_path("model.profiles", profiles)
        if wrong is not None:
            return self._with_problem(wrong)
        named = name_model(self.config.model, model, api_key, base_url)
        if profiles is not None:
            named = evolve(named, profiles=os.fspath(profiles))
        if api_key is None and base_url is None:  # the rest is checked
            return self._with_config(model=named)
        return self._evolve(model=named)

    def with_model_settings(self, settings: ModelSettings) -> Self:
        """Set parameters of every request to the model, such as the temperature.

        They override those of the strategy, and are overridden by those of ``run(settings=…)``. A later call
        keeps the parameters that it does not name.
        """
        if not isinstance(settings, ModelSettings):
            return self._with_problem(InvalidConfig("model_settings", abbreviated(settings), "ModelSettings"))
        return self._with_config(model_settings=settings.over(self.config.model_settings))

    def with_provider(
        self, provider: str, *, api_key: str | None = None, base_url: str | None = None
    ) -> Self:
        """Set the provider, with its default model unless ``with_model`` names another."""
        return self._evolve(model=name_provider(self.config.model, provider, api_key, base_url))

    def with_llm(self, llm: LLM) -> Self:
        """Use a model object, such as a ``ScriptedLLM``, in place of ``with_model``."""
        expected = "an object with complete, stream and model (with_model takes the name of a model)"
        wrong = validation.wrong_object("llm", llm, expected, "complete", "stream", "model")
        return self._with_problem(wrong)._with_components(llm=llm)

    def with_fallbacks(self, *models: str | FallbackModel) -> Self:
        """Set the models that are tried in order when the first keeps failing.

        Args:
            models: names, or a ``FallbackModel`` with its own server, key, settings or price. A name at the
                provider of the first model has its server and key.
        """
        return self._evolve_model(fallbacks=models)

    def with_rate_limit(
        self, *, requests_per_minute: int | None = None, tokens_per_minute: int | None = None
    ) -> Self:
        """Limit requests and tokens a minute; a request that would exceed a limit waits.

        All agents and runs of the process with the same key at the same address share the limits. A request
        that waits publishes ``ModelCallDelayed``, and the wait is part of the run's time. Fallbacks at other
        providers are not limited.

        Args:
            requests_per_minute: requests a minute, 1 or more; ``None`` for no limit.
            tokens_per_minute: tokens of requests and answers a minute, 1 or more; ``None`` for no limit.
        """
        limits = {"requests_per_minute": requests_per_minute, "tokens_per_minute": tokens_per_minute}
        return self._evolve_model(rate_limit=limits)

    def with_prices(self, prices: Mapping[str, ModelPrice | Mapping[str, Any]]) -> Self:
        """Set the prices of models that are not on litellm's list, or cost something else.

        Args:
            prices: by the names of models, fallbacks and tiers, as ``provider/model``.
        """
        return self._evolve_model(prices=prices)

    def with_response_cache(self, path: str | Path) -> Self:
        """Record answers, and return the recorded one for an equal request.

        For development: a model that is asked twice gives one answer. Requests are equal when their messages,
        tools, settings and model are. Recorded answers cost nothing and are marked ``cached`` in events and
        usage.

        Args:
            path: an SQLite file, created if it does not exist.
        """
        wrong = validation.wrong_path("model.response_cache", path)
        if wrong is not None:
            return self._with_problem(wrong)
        return self._evolve_model(response_cache=os.fspath(path))

    # --- how it works -----------------------------------------------------------------------------------

    def with_name(self, name: str) -> Self:
        """Name the agent in memory, usage records and the audit log."""
        wrong = validation.wrong_text("name", name, "a name that is not blank")
        return self._evolve(name=name) if wrong is None else self._with_problem(wrong)

    def with_reasoning(
        self, default_strategy: ReasoningStrategy = "reactive", **options: Unpack[validation.ReasoningOptions]
    ) -> Self:
        """Reason with a strategy.

        Args:
            options: the other fields of ``ReasoningConfig``, as values or as mappings:
                ``strategies={"reactive": {"temperature": 0.2}}``.
        """
        usual = ReasoningConfig()
        chosen = {} if default_strategy == usual.default_strategy else {"default_strategy": default_strategy}
        return self._with_read("reasoning", validation.changed_options(usual, {**chosen, **options}))

    def with_strategy(self, name: ReasoningStrategy, strategy: Strategy) -> Self:
        """Register a custom strategy, for ``with_reasoning(name)``."""
        wrong = validation.wrong_text("strategy.name", name, "a name that is not blank")
        wrong = wrong or validation.wrong_functions("strategy", strategy)
        strategies = (*self.components.strategies, (name, strategy))
        return self._with_problem(wrong)._with_components(strategies=strategies)

    def with_workflow(self, workflow: Workflow) -> Self:
        """Run a function of the program, with the agent's tools and services.

        It takes the place of the turns of a model.

        Args:
            workflow: an ``async`` function that takes a ``WorkflowRun`` and the task, and returns the answer.
                Its name is that of the agent's strategy. Without a model, it cannot ``ask``.
        """
        from reactive_agents.reasoning.strategies.workflow import strategy_of

        wrong = validation.wrong_workflow(workflow)
        function = workflow.func if isinstance(workflow, partial) else workflow
        name = getattr(function, "__name__", "workflow")
        following = self._with_problem(wrong).with_strategy(name, strategy_of(name, workflow))
        return following.with_reasoning(name, tool_classifier="off")._with_components(needs_model=False)

    def with_kernel(self, name: str, kernel: ThoughtKernel) -> Self:
        """Register a custom kernel under a name; ``with_reasoning(kernel=name)`` runs it.

        Under the name of a built-in kernel (``react``, ``direct`` or ``one-shot``) it replaces that kernel.
        """
        wrong = validation.wrong_text("kernel.name", name, "a name that is not blank")
        wrong = wrong or validation.wrong_functions("kernel", kernel)
        kernels = (*self.components.kernels, (name, kernel))
        return self._with_problem(wrong)._with_components(kernels=kernels)

    def with_controller(self, controller: ReasoningController) -> Self:
        """Watch the reasoning of every run with functions that may change or end the run."""
        from reactive_agents.reasoning import ReasoningController

        if not isinstance(controller, ReasoningController):
            return self._with_problem(InvalidConfig("controller", repr(controller), "a ReasoningController"))
        return self._with_components(controller=controller)

    def with_compaction_function(self, function: CompactionFunction) -> Self:
        """Summarize earlier turns with a function, for the compaction method ``custom``.

        Args:
            function: takes a ``CompactionMaterial`` and returns a text; sync or async.
        """
        wrong = validation.wrong_functions("compaction_function", function)
        return self._with_problem(wrong)._with_components(compaction_function=function)

    with_synthesis_strategy = with_compaction_function
    """The earlier name of :meth:`with_compaction_function`."""

    def with_policies(self, *policies: Policy) -> Self:
        """Add custom policies, which are asked before the built-in ones.

        A policy is a pure function of the kernel's state and context. It returns a verdict that steers the
        model or ends the run, or ``None``.
        """
        described = self._with_problem(validation.wrong_functions("policies", *policies))
        return described._with_components(policies=(*self.components.policies, *policies))

    def with_tools(self, *tools: Tool[..., Any, _Deps] | tool_references.PlainFunction | str) -> Self:
        """Add tools: functions, built-in names or ``module:function``.

        Without arguments it adds all built-in tools.
        """
        from reactive_agents.adapters.tools.builtin import builtin_tools

        return self._with_components(tools=(*self.components.tools, *(tools or builtin_tools())))

    def with_handoffs(self, *agents: HandoffLike) -> Self:
        """Let the model hand the conversation over to other agents.

        The other agent is shown the conversation, and its answer becomes the run's. In a session the other
        agent keeps the conversation, and answers the next turn as well. A later call adds to an earlier one.

        Args:
            agents: agents that are built, ``handoff(agent, …)`` with options, or ``module:agent``.
        """
        from reactive_agents.agent.multi_agent import resolve_handoffs

        handoffs = (*self.components.handoffs, *agents)
        wrong = resolve_handoffs([each for each in handoffs if not isinstance(each, str)])
        if isinstance(wrong, Failure):
            return self._with_problem(wrong.failure())
        return self._with_components(handoffs=handoffs)

    def with_toolset(
        self,
        tools: Sequence[Tool[..., Any, _Deps] | tool_references.PlainFunction | str]
        | Callable[[RunContext[_Deps]], ChosenTools | Awaitable[ChosenTools]]
        | Callable[[], ChosenTools | Awaitable[ChosenTools]],
        *,
        prefix: str = "",
        rename: Mapping[str, str] | None = None,
        only: Collection[str] | None = None,
        filter: Callable[[RunContext[_Deps], ToolDefinition], bool | Awaitable[bool]] | None = None,
        each_turn: bool = False,
        prepare: Callable[
            [RunContext[_Deps], ToolDefinition], ToolDefinition | Awaitable[ToolDefinition | None] | None
        ]
        | None = None,
    ) -> Self:
        """Add tools under other names, or tools that are chosen for each run.

        Args:
            tools: tools as in :meth:`with_tools`, or a sync or async function that returns functions and
                tools for a run; it may take the ``RunContext``.
            prefix: the text before each name, such as ``crm_``.
            rename: new names by the tools' own names; they get no prefix.
            only: the tools' own names of those that are added; by default all.
            filter: takes the ``RunContext`` and a definition under its new name, and returns whether the run
                has the tool; sync or async.
            each_turn: ask the filter before each turn of the model, not once for a run.
            prepare: takes the ``RunContext`` and a copy of a definition before each turn of the model, and
                returns it with another description or other parameters, as it is, or ``None`` to leave the
                tool out; sync or async. Arguments have to fit what it returns and the tool.
        """
        read = tool_references.read_toolset(
            tools,
            prefix=prefix,
            rename=rename,
            only=only,
            keeps=filter,
            each_turn=each_turn,
            prepare=prepare,
        )
        if isinstance(read, Failure):
            return self._with_problem(read.failure())
        toolset = read.unwrap()
        if toolset.is_dynamic:
            return self._with_components(toolsets=(*self.components.toolsets, toolset))
        return self._with_components(tools=(*self.components.tools, *tool_references.static_tools(toolset)))

    def with_mcp(
        self,
        *servers: mcp.McpServer,
        filter: Callable[[RunContext[_Deps], ToolDefinition], bool | Awaitable[bool]] | None = None,
        each_turn: bool = False,
        prepare: Callable[
            [RunContext[_Deps], ToolDefinition], ToolDefinition | Awaitable[ToolDefinition | None] | None
        ]
        | None = None,
    ) -> Self:
        """Add the tools of MCP servers.

        The servers are started or connected before the first run.

        Args:
            filter: takes the ``RunContext`` and a definition of these servers, and returns whether the run
                has the tool; sync or async.
            each_turn: ask the filter before each turn of the model, not once for a run.
            prepare: takes the ``RunContext`` and a copy of a definition before each turn of the model, and
                returns it with another description or other parameters, as it is, or ``None`` to leave the
                tool out; sync or async. Arguments have to fit what it returns and the tool.
        """
        for server in servers:
            if not isinstance(server, mcp.McpServer):
                return self._with_problem(InvalidConfig("mcp_servers", abbreviated(server), "an McpServer"))
        known = self.config.mcp_servers
        names = [server.name for server in (*known, *servers)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            return self._with_problem(InvalidConfig("mcp_servers", ", ".join(twice), "each server name once"))
        if filter is not None or each_turn is not False or prepare is not None:
            read = tool_references.read_toolset((), keeps=filter, each_turn=each_turn, prepare=prepare)
            if isinstance(read, Failure):
                return self._with_problem(read.failure())
            filtered = evolve(read.unwrap(), servers=frozenset(server.name for server in servers))
            return self._with_components(toolsets=(*self.components.toolsets, filtered)).with_mcp(*servers)
        return self._evolve(mcp_servers=(*known, *servers))

    @overload
    def with_tool_wrapper(
        self, wrapper: Callable[[RunContext[_Deps], ToolCall, RunTool], Awaitable[ToolResult]]
    ) -> Self: ...

    @overload
    def with_tool_wrapper(
        self,
        wrapper: Callable[
            [RunContext[_Deps], ToolCall, Callable[[Mapping[str, Json]], ToolResult]], ToolResult
        ],
    ) -> Self: ...

    def with_tool_wrapper(self, wrapper: Callable[..., Any]) -> Self:
        """Run code around each tool call, such as a timer, a lock, a retry or a cache.

        It is called when the arguments are checked and the call is approved. A later wrapper runs within the
        earlier ones.

        Args:
            wrapper: takes the ``RunContext``, the call and a function ``run(arguments)``, which runs the tool
                and returns a ``ToolResult``; returns a ``ToolResult``. Sync or async; an async one awaits
                ``run``. What it raises is the failure of the call.
        """
        if not callable(wrapper) or not can_take(wrapper, 3):
            expected = "a function that takes a RunContext, a ToolCall and a function that runs the tool"
            return self._with_problem(InvalidConfig("tool_wrapper", abbreviated(wrapper), expected))
        return self._with_components(tool_wrappers=(*self.components.tool_wrappers, wrapper))

    def with_skills(self, *folders: str | Path) -> Self:
        """Add skills: instructions that the model loads when a task needs them.

        They are read at ``build()``; their texts, by the tool ``load-skill``, when the model asks for them.

        Args:
            folders: each has a ``SKILL.md`` in the form of https://agentskills.io, or subfolders that
                have one.
        """
        for folder in folders:
            wrong = validation.wrong_path("skills", folder)
            if wrong is not None:
                return self._with_problem(wrong)
        return self._evolve(skills=(*self.config.skills, *(os.fspath(each) for each in folders)))

    def with_workspace(self, path: str | Path) -> Self:
        """Choose the directory to which file tools are confined."""
        wrong = validation.wrong_path("workspace", path)
        return self._evolve(workspace=os.fspath(path)) if wrong is None else self._with_problem(wrong)

    def with_system_prompt(self, prompt: str) -> Self:
        """Set the text of the agent's instructions; it replaces an earlier one."""
        if callable(prompt):
            expected = "a text; with_instructions takes functions"
            return self._with_problem(InvalidConfig("system_prompt", abbreviated(prompt), expected))
        return self._evolve(system_prompt=prompt)

    def with_instructions(
        self, *instructions: str | Callable[[RunContext[_Deps]], Instruction] | Callable[[], Instruction]
    ) -> Self:
        """Add instructions: texts, and functions that are called once in each run.

        The model reads the text of :meth:`with_system_prompt` first, then these texts in their order, then
        what the functions return. All of it is trusted alike.

        Args:
            instructions: texts, and sync or async functions that return a text, or ``None`` for no text; they
                may take the ``RunContext``.
        """
        texts, functions = [self.config.system_prompt], [*self.components.instructions]
        for each in instructions:
            if isinstance(each, str):
                texts.append(each)
                continue
            function = context_function(each) if callable(each) else None
            if function is None:
                expected = "a text, or a function that takes a RunContext or nothing"
                return self._with_problem(InvalidConfig("instructions", abbreviated(each), expected))
            functions.append(function)
        changed = self._evolve(system_prompt="\n\n".join(filter(None, texts)))
        return changed._with_components(instructions=tuple(functions))

    def with_max_iterations(self, limit: int) -> Self:
        """Limit the turns of the model, 1 or more.

        For ``reactive``, and without reasoning, this is the limit of the run, in place of the strategy's own.
        A strategy of several passes takes at most that many turns in each pass.
        """
        wrong = validation.wrong_value(
            "max_iterations", limit, int, "a whole number, 1 or more", validation.is_count
        )
        return self._with_config(max_iterations=limit) if wrong is None else self._with_problem(wrong)

    def with_timeout(
        self,
        run: float | None = None,
        *,
        model_call: float | None = None,
        tool_call: float | None = None,
        answer: float | None = None,
    ) -> Self:
        """Set limits in seconds, each above 0.

        Args:
            run: for the whole run, which then ends as ``partial`` with its results so far.
            model_call: for one request to a model.
            tool_call: for one call of a tool without its own limit.
            answer: for a question to a person, and for a call that another program executes.
        """
        given = {"run": run, "model_call": model_call, "tool_call": tool_call, "answer": answer}
        for name, seconds in given.items():
            wrong = validation.wrong_seconds(f"timeout.{name}", seconds)
            if wrong is not None:
                return self._with_problem(wrong)
        timeouts, model = self.config.timeouts, self.config.model
        return self._evolve(
            timeouts=evolve(
                timeouts,
                run_s=run or timeouts.run_s,
                tool_call_s=tool_call or timeouts.tool_call_s,
                answer_s=answer or timeouts.answer_s,
            ),
            model=evolve(model, timeout_s=model_call or model.timeout_s),
        )

    def with_required_tools(self, *tools: str, min_calls: Mapping[str, int] | None = None) -> Self:
        """Accept no answer as complete before these tools have succeeded.

        A later call adds to an earlier one.

        Args:
            tools: names of the agent's tools.
            min_calls: how often each tool must have succeeded, 1 or more; once by default.
        """
        texts = (validation.wrong_text("required_tools", each, "names of tools") for each in tools)
        wrong = next(filter(None, texts), None) or validation.wrong_counts("required_tools", min_calls)
        if wrong is not None:
            return self._with_problem(wrong)
        known = {each.name: each for each in self.config.required_tools}
        for name, count in {**dict.fromkeys(tools, 1), **(min_calls or {})}.items():
            known[name] = ToolRequirement(name, count)
        return self._evolve(required_tools=tuple(known.values()))

    def with_budget(
        self,
        *,
        tokens: int | None = None,
        cost_usd: float | None = None,
        calls: Mapping[str, int] | None = None,
        requests: int | None = None,
        tool_calls: int | None = None,
    ) -> Self:
        """Limit the tokens, cost, model calls and tool calls of a run.

        A run that reaches one of the limits except ``calls`` ends as ``partial``. A later call keeps the
        limits that it does not name. ``with_timeout(run=…)`` limits the time.

        Args:
            tokens: total tokens of all model calls, 1 or more.
            cost_usd: US dollars, above 0, of the model calls whose price is known.
            calls: how often each tool may be called, 1 or more; further calls are refused.
            requests: how many model calls may be answered, 1 or more; the next one is not made.
            tool_calls: calls of all tools together, 1 or more; a turn that asks for more runs none.
        """
        given: BudgetOptions = {
            "tokens": tokens,
            "cost_usd": cost_usd,
            "calls": calls,
            "requests": requests,
            "tool_calls": tool_calls,
        }
        limits = budget_of(given).map(lambda named: named.over(self.config.budget))
        return self._with_read("budget", limits)

    def with_context_profile(
        self, tier: ContextTier | None = None, **fields: Unpack[validation.ContextProfileOptions]
    ) -> Self:
        """Describe what the model can take, where its name implies too little.

        Args:
            tier: uses the profile of ``local``, ``mid``, ``large`` or ``frontier`` models.
            fields: the other fields of ``ContextProfileOverrides``, such as ``tool_result_chars=4000``; each
                replaces the field of the profile.
        """
        given = fields if tier is None else {**fields, "tier": tier}
        return self._with_read(
            "context_profile", validation.changed_options(self.config.context_profile, given)
        )

    def with_result_compression(self, **options: Unpack[validation.CompressionOptions]) -> Self:
        """Set how long tool results are shortened before the model reads them.

        Args:
            options: fields of ``ResultCompressionConfig``: ``budget``, ``head_share``, and ``transform``,
                such as ``transform={"file-search": "matches[*].path"}``.
        """
        return self._with_read("compression", validation.changed_options(self.config.compression, options))

    def with_content(
        self, *, model_takes: Sequence[ContentKind] | None = None, **limits: Unpack[validation.ContentOptions]
    ) -> Self:
        """Limit the images, audio and documents of tasks and tool results.

        Args:
            model_takes: the kinds that the model and its fallbacks take: ``image``, ``audio``, ``document``;
                by default the kinds that each model is known to take, or all for an unknown model.
            limits: the fields of ``ContentConfig``, such as ``max_bytes=5_000_000``.
        """
        limited = self._with_read("content", validation.changed_options(self.config.content, limits))
        return limited if model_takes is None else limited._evolve_model(takes=model_takes)

    def with_hook(self, phase: LifecyclePhase, timing: HookTiming, handler: HookHandler) -> Self:
        """Run a sync or async handler before a phase, after it or on its error."""
        wrong = wrong_hook(phase, timing, handler)
        if wrong is not None:
            return self._with_problem(wrong)
        return self._with_components(hooks=(*self.components.hooks, LifecycleHook(phase, timing, handler)))

    def with_strict_hooks(self, strict: bool = True) -> Self:
        """Make a failing lifecycle hook fail the run."""
        return self._evolve(strict_hooks=strict)

    def with_deps(
        self, function: Callable[[RunContext[None]], MadeDeps[_Deps]] | Callable[[], MadeDeps[_Deps]]
    ) -> ReactiveAgents[R, _Deps | None]:
        """Let a function make the dependencies of each run that is given none.

        Workers, servers, schedules and recovery then need no ``deps``. Call it after the functions that take
        a ``RunContext`` were added, since type checkers then let a run leave ``deps`` out.

        Args:
            function: plain or ``async``; it may take a ``RunContext`` with the user, session, id, metadata
                and tags of the run. It returns the dependencies, or a context manager, such as of
                ``contextlib.asynccontextmanager``, which is entered when the run begins and left after it.
        """
        found = checked_deps_function(function, self.components.deps)
        wrong = found if isinstance(found, InvalidConfig) else None
        changed: object = self._with_problem(wrong)._with_components(deps_function=function)
        return cast("ReactiveAgents[R, _Deps | None]", changed)

    # --- the result -------------------------------------------------------------------------------------

    def with_output_type(self, output_type: TypeForm[_Output]) -> ReactiveAgents[TypedResult[_Output], _Deps]:
        """Make answers structured output: values of a type.

        The model is shown the type. An answer that does not fit is converted by further model calls; when
        that fails too, the run is ``partial`` and keeps the text.

        Args:
            output_type: an attrs class, a dataclass, a ``TypedDict``, a pydantic model, or a type like
                ``list[int]`` or ``City | Country``.
        """
        changed: object = self._with_components(output_type=output_type)
        return cast("ReactiveAgents[TypedResult[_Output], _Deps]", changed)

    @overload
    def with_output_validator(
        self: ReactiveAgents[TypedResult[_Output], _Deps],
        function: Callable[[_Output], ValidatedOutput[_Output]],
    ) -> ReactiveAgents[TypedResult[_Output], _Deps]: ...

    @overload
    def with_output_validator(
        self: ReactiveAgents[TypedResult[_Output], _Deps],
        function: Callable[[RunContext[_Deps], _Output], ValidatedOutput[_Output]],
    ) -> ReactiveAgents[TypedResult[_Output], _Deps]: ...

    def with_output_validator(self, function: Callable[..., Any]) -> Any:
        """Let a function judge each answer before it is delivered.

        It is called after the validators that were added earlier. When it rejects an answer, the model is
        asked again with the reason, at most twice; then the run is ``partial``. It does not judge the answers
        of a run with another type, by ``run(task, output=…)``.

        Args:
            function: takes the answer, or a ``RunContext`` and the answer; sync or async. It raises
                ``ModelRetry`` with the reason, or returns the answer, another answer, or ``None`` to keep the
                answer as it is. Any other exception fails the run with ``OutputValidatorFailed``.
        """
        found = output_validator(function)
        if isinstance(found, Failure):
            return self._with_problem(found.failure())
        return self._with_components(output_validators=(*self.components.output_validators, found.unwrap()))

    def build(self) -> ReactiveAgent[R, _Deps]:
        """Return the agent.

        Raises:
            AgentError: the description is wrong; ``.error`` is the typed error.
        """
        return value_or_raise(self._build())

    def build_effect(self) -> Effect[ReactiveAgent[R, _Deps], ConfigErrors]:
        """Build the agent as an effect, which fails with the first error."""
        return FutureResult.from_result(self._build())

    def to_config(self) -> AgentConfig:
        """Return the agent as a configuration, without its key.

        Raises:
            AgentError: the agent has a part that cannot be serialised, such as a model object, a hook or a
                local function.
        """
        return value_or_raise(self._described())

    def _build(self) -> Result[ReactiveAgent[R, _Deps], ConfigErrors]:
        if self.problems:
            return Failure(self.problems[0])
        return _assembly()(self.config, self.components)

    def _described(self) -> Result[AgentConfig, ConfigErrors]:
        if self.problems:
            return Failure(self.problems[0])
        live = unserializable_component(self.config, self.components)
        if live is not None:
            return Failure(live)
        names: list[str] = []
        external = list(self.config.external_tools)
        for source in self.components.tools:
            described = tool_references.find_tool(source).map(tool_references.tool_description).value_or(None)
            if described is not None:
                external.append(described)
                continue
            reference = tool_references.find_tool(source).bind(tool_references.tool_reference)
            if isinstance(reference, Failure):
                return Failure(reference.failure())
            names.append(reference.unwrap())
        model = self.config.model.keyless
        handoffs = tuple(each for each in self.components.handoffs if isinstance(each, str))
        return Success(
            evolve(
                self.config,
                model=model,
                tools=tuple(names),
                handoffs=handoffs,
                external_tools=tuple(external),
            )
        )


def _misplaced(builder: type, name: str, value: object) -> InvalidConfig:
    """Return the problem of an argument of ``create`` that it does not take."""
    methods = (each for each in (f"with_{name}", f"with_{name}s") if hasattr(builder, each))
    following = next(methods, "with_model")
    return InvalidConfig(name, abbreviated(value), f"create(deps=…), followed by .{following}(…)")


@cache
def _assembly() -> Callable[[AgentConfig, AgentComponents], Result[ReactiveAgent[Any, Any], ConfigErrors]]:
    """Return the function that makes agents; the first call imports the containers."""
    with uncollected():
        from reactive_agents.agent.assembly import assemble_agent
    return assemble_agent
