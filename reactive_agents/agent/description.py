"""The description of an agent: configuration and unserialisable components."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from attrs import evolve, field, frozen
from returns.result import Failure, Result

from reactive_agents.adapters.tools.combined import ToolGroup
from reactive_agents.agent.config import AgentConfig
from reactive_agents.agent.errors import AgentError
from reactive_agents.agent.tool_references import ToolLike
from reactive_agents.agent.validation import changed_options
from reactive_agents.core.codec import abbreviated, encode
from reactive_agents.core.errors import ConfigErrors, InvalidConfig
from reactive_agents.core.results import ReasoningStrategy
from reactive_agents.core.run_context import ContextFunction, type_name
from reactive_agents.core.tools import ToolWrapper
from reactive_agents.core.values import Value, replaced
from reactive_agents.engine import LifecycleHook
from reactive_agents.engine.services import OutputValidator
from reactive_agents.kernel import CompactionFunction, Policy, ThoughtKernel
from reactive_agents.ports import LLM, Embedder, EventHandler
from reactive_agents.reasoning import Strategy

if TYPE_CHECKING:
    from reactive_agents.adapters.encryption import RecordKey  # by durable agents
    from reactive_agents.adapters.governance import requests
    from reactive_agents.adapters.governance.guardrails.checks import Check
    from reactive_agents.adapters.telemetry.console import RunConsole
    from reactive_agents.agent.multi_agent import HandoffLike  # by agents that hand over
    from reactive_agents.reasoning import ReasoningController


@frozen(eq=False, repr=False)
class DeskOptions(Value):
    """The people whom an agent asks.

    Attributes:
        approves: whether there is an approver.
        approval_handler: decides on approvals; without one, they wait for ``agent.approve``.
        approval_timeout_s: seconds that an approval waits.
        question_handler: answers questions; without one, they wait for ``agent.answer``.
        call_handler: gives the results of external calls; without one, they wait for ``agent.deliver``.
        attended: whether anybody is there; otherwise the model learns that no one can answer.
    """

    approves: bool = False
    approval_handler: requests.ApprovalHandler | None = None
    approval_timeout_s: float = 300.0
    question_handler: requests.QuestionHandler | None = None
    call_handler: requests.CallHandler | None = None
    attended: bool = True

    def desk(self) -> requests.LocalRequestDesk:
        """Return a new desk."""
        from reactive_agents.adapters.governance import requests  # of agents that ask people

        return requests.LocalRequestDesk(
            self.approval_handler,
            timeout_s=self.approval_timeout_s,
            answer=self.question_handler,
            execute=self.call_handler,
        )


@frozen(slots=False, eq=False, repr=False)
class AgentComponents(Value):
    """Parts of an agent that cannot be serialised: callables, clients, keys.

    The builder's methods explain them.

    Attributes:
        llm, tools, handoffs, embedder: instead of the configured names.
        desk: the people whom each agent that is built asks.
        checks: functions that guardrails ask besides the configured checks, at every stage.
        needs_model: whether a model has to be chosen; a workflow may do without.
        deps: the type of the dependencies that each run is given; ``None`` for none.
        deps_function: makes them where a run is not given any.
        console: makes the console that shows the runs of each agent that is built; ``None`` for none.
        instructions: functions whose texts follow the configured instructions.
        config_files: resolved paths of the files that configure the agent, which its file tools do not write.
    """

    llm: LLM | None = None
    tools: tuple[ToolLike, ...] = ()
    hooks: tuple[LifecycleHook, ...] = ()
    handoffs: tuple[HandoffLike, ...] = ()
    desk: DeskOptions = DeskOptions()
    strategies: tuple[tuple[ReasoningStrategy, Strategy], ...] = ()
    needs_model: bool = True
    kernels: tuple[tuple[str, ThoughtKernel], ...] = ()
    compaction_function: CompactionFunction | None = None
    controller: ReasoningController | None = None
    output_type: Any = None
    output_validators: tuple[OutputValidator, ...] = ()
    policies: tuple[Policy, ...] = ()
    checks: tuple[Check, ...] = ()
    embedder: Embedder | None = None
    signing_key: bytes | None = field(default=None, repr=False)
    record_key: RecordKey | None = field(default=None, repr=False)
    config_files: tuple[Path, ...] = ()
    deps: Any = None
    deps_function: Callable[..., Any] | None = None
    subscribers: tuple[EventHandler, ...] = ()
    console: Callable[[], RunConsole] | None = None
    instructions: tuple[ContextFunction, ...] = ()
    toolsets: tuple[ToolGroup, ...] = ()
    tool_wrappers: tuple[ToolWrapper, ...] = ()


def _check_config(description: object, attribute: object, config: object) -> None:
    if not isinstance(config, AgentConfig):
        expected = "an AgentConfig (with the name of a model: ReactiveAgents.create().with_model(…))"
        raise AgentError(InvalidConfig("config", abbreviated(config), expected))


@frozen(eq=False, repr=False)
class AgentDescription(Value):
    """The description of an agent, complete or not.

    Attributes:
        config: the part that can be serialised.
        components: the part that cannot.
        problems: found by the ``with_*`` calls; ``build`` fails with the first.
    """

    config: AgentConfig = field(factory=AgentConfig, validator=_check_config)
    components: AgentComponents = field(factory=AgentComponents)
    problems: tuple[ConfigErrors, ...] = ()

    def _evolve(self, **changes: object) -> Self:
        """Return the description with changed configuration fields, or with a problem."""
        read = changed_options(self.config, changes)
        if isinstance(read, Failure):
            return self._with_problem(read.failure())
        return evolve(self, config=read.unwrap())

    def _with_config(self, **fields: object) -> Self:
        """Return the description with fields of its config that are checked already."""
        return evolve(self, config=replaced(self.config, **fields))

    def _evolve_model(self, **changes: object) -> Self:
        """Return the description with other fields of the config's model."""
        return self._evolve(model={**cast(dict[str, Any], encode(self.config.model)), **changes})

    def _with_components(self, **changes: object) -> Self:
        return evolve(self, components=replaced(self.components, **changes))

    def _with_read(self, option: str, read: Result[object, ConfigErrors]) -> Self:
        """Return the description with a field that was read, or with its problem."""
        if isinstance(read, Failure):
            return self._with_problem(read.failure())
        return self._with_config(**{option: read.unwrap()})

    def _with_problem(self, problem: ConfigErrors | None) -> Self:
        return self if problem is None else evolve(self, problems=(*self.problems, problem))


def unserializable_component(config: AgentConfig, components: AgentComponents) -> InvalidConfig | None:
    """Return the error of the first component, tools apart, that has no data form."""
    given, nothing = components, "none, to be serialised"
    handoffs = [repr(each.name) for each in given.handoffs if not isinstance(each, str)]
    hooks = [f"a hook for {each.phase}/{each.timing}" for each in given.hooks]
    validators = [each.name for each in given.output_validators]
    toolsets = ["tools chosen for each run" for _ in given.toolsets]
    checks = [getattr(each, "__name__", "a check") for each in given.checks]
    policies = [getattr(each, "__name__", "a policy") for each in given.policies]
    rules = [f"a rule of {each.name!r}" for each in config.mcp_servers if each.approval_rule is not None]
    headers = [f"a function of {each.name!r}" for each in config.mcp_servers if callable(each.headers)]
    auths = [f"that of {each.name!r}" for each in config.mcp_servers if each.auth is not None]
    wrappers = [getattr(each, "__name__", "a function") for each in given.tool_wrappers]
    live: tuple[tuple[str, Sequence[str], str], ...] = (
        ("llm", _shown(given.llm, _kind), "a model by name, to be serialised"),
        ("hooks", hooks, "no hooks, which cannot be serialised"),
        ("handoffs", handoffs, "module:agent, to be serialised"),
        ("approval", ["an approver"] * given.desk.approves, nothing),
        ("ask_user.handler", _shown(given.desk.question_handler, "a function"), nothing),
        ("strategies", [repr(name) for name, _ in given.strategies], "a built-in strategy, to be serialised"),
        ("kernels", [repr(name) for name, _ in given.kernels], "a built-in kernel, to be serialised"),
        ("output_type", _shown(given.output_type, repr), nothing),
        ("output_validators", validators, "no functions, to be serialised"),
        ("instructions", [each.name for each in given.instructions], "texts, to be serialised"),
        ("toolset", toolsets, "the same for all, to be serialised"),
        ("mcp_servers.approve", rules, "always, destructive or never, to be serialised"),
        ("mcp_servers.headers", headers, "texts by names, to be serialised"),
        ("mcp_servers.auth", auths, nothing),
        ("tool_wrapper", wrappers, "no functions, to be serialised"),
        ("deps", _shown(given.deps, type_name), nothing),
        ("console", _shown(given.console, "a console"), nothing),
        ("telemetry", ["event handlers" for _ in given.subscribers], nothing),
        ("controller", _shown(given.controller, "a controller"), nothing),
        ("guardrails.checks", checks, "no functions, to be serialised"),
        ("memory.embedder", _shown(given.embedder, _kind), "an embedding_model, to be serialised"),
        ("audit", _shown(given.signing_key, "a signing key"), nothing),
        ("durability", _shown(given.record_key, "a key"), nothing),
        ("compaction_function", _shown(given.compaction_function, repr), "module:function, to be serialised"),
        ("policies", policies, "no policies, which cannot be serialised"),
    )
    found = (InvalidConfig(option, shown[0], expected) for option, shown, expected in live if shown)
    return next(found, None)


def _shown(part: object, text: str | Callable[[Any], str]) -> tuple[str, ...]:
    return () if part is None else (text if isinstance(text, str) else text(part),)


def _kind(part: object) -> str:
    return type(part).__name__


def not_an_attribute(builder: object, name: str, product: type) -> AttributeError:
    """Return the error for a missing attribute, with advice if the product has it."""
    kind = type(builder).__name__
    message = f"{kind!r} object has no attribute {name!r}"
    if not name.startswith("_") and hasattr(product, name):
        message = (
            f"{kind} only describes what {product.__name__} does: call build(), and {name!r} on its result"
        )
    return AttributeError(message, name=name, obj=builder)
