"""The builder: immutable, and clear about what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from returns.result import Failure, Success

from reactive_agents import AgentError, McpServer, Personas, ReactiveAgent, ReactiveAgents, tool
from reactive_agents.adapters.tools.builtin import builtin_tools
from reactive_agents.core.config import MemoryConfig, ReactiveConfig, ReasoningConfig, StrategiesConfig
from reactive_agents.core.errors import DecodeError, InvalidConfig, ReasoningErrors
from reactive_agents.core.results import ReasoningResult
from reactive_agents.effects import Effect, attempt
from reactive_agents.engine import ExecutionContext, ExecutionEngine
from reactive_agents.kernel import KernelContext, KernelState, Redirect, Verdict
from reactive_agents.ports import ToolService
from reactive_agents.reasoning import StrategyInput, StrategyServices
from reactive_agents.reasoning.strategies.reactive import direct
from reactive_agents.testing import ScriptedLLM, answer, call, forever, say

Build = Callable[[ReactiveAgents], ReactiveAgents]


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def start() -> ReactiveAgents:
    return ReactiveAgents.create().with_llm(ScriptedLLM(answer("done")))


def test_each_step_gives_a_new_builder() -> None:
    first = ReactiveAgents.create()
    second = first.with_name("other").with_max_iterations(3)
    assert first == ReactiveAgents.create()
    assert (second.config.name, second.config.max_iterations) == ("other", 3)


@pytest.mark.parametrize(
    ("build", "option", "value"),
    [
        (lambda b: b.with_name(" "), "name", "' '"),
        (lambda b: b.with_max_iterations(0), "max_iterations", "0"),
        (lambda b: b.with_timeout(run=0), "timeout.run", "0"),
        (lambda b: b.with_timeout(model_call=-1.0), "timeout.model_call", "-1.0"),
        (lambda b: b.with_timeout(tool_call=float("nan")), "timeout.tool_call", "nan"),
        (lambda b: b.with_hook("lunch", "before", print), "hook.phase", "'lunch'"),
        (lambda b: b.with_hook("think", "during", print), "hook.timing", "'during'"),
        (lambda b: b.with_tools("hammer"), "tools", "'hammer'"),
        (lambda b: b.with_tools("no_such_module:f"), "tools", "'no_such_module:f'"),
        (lambda b: b.with_tools("json:no_such"), "tools", "'json:no_such'"),
        (lambda b: b.with_tools(":"), "tools", "':'"),
        (lambda b: b.with_tools(lambda **anything: None), "tools", "<lambda>"),
        (lambda b: b.with_tools(tool(name="final-answer")(add)), "tools", "'final-answer'"),
        (lambda b: b.with_tools(add, tool(name="add")(lambda: 1)), "tools", "'add'"),
        (lambda b: b.with_result_compression(transform={"hammer": "a"}), "compression.transform", "'hammer'"),
        (lambda b: b.with_workspace("/no/such/place"), "workspace", "'/no/such/place'"),
        (lambda b: b.with_workspace("\ud800"), "workspace", "'\\ud800'"),
        (lambda b: b.with_reasoning("daydream"), "reasoning.default_strategy", "'daydream'"),
        (lambda b: b.with_timeout(run=start()), "timeout.run", "a ReactiveAgents"),
        (lambda b: _at("localhost:8000/v1"), "model.base_url", "localhost…"),
        (lambda b: _at("localhost?key=secret"), "model.base_url", "localhost…"),
        (lambda b: _at(""), "model.base_url", "''"),
    ],
)
def test_what_is_wrong_is_named_at_build(build: Build, option: str, value: str) -> None:
    builder = build(start())
    with pytest.raises(AgentError) as caught:
        builder.build()
    error = caught.value.error
    assert isinstance(error, InvalidConfig)
    assert (error.option, error.value) == (option, value)
    assert str(caught.value) == f"{option}: got {value}, expected {error.expected.rstrip('.')}."


def _at(address: str) -> Any:
    return ReactiveAgents.create().with_model("openai/gpt-5.4-mini", base_url=address)


def test_without_a_model_it_says_how_to_name_one() -> None:
    with pytest.raises(AgentError, match="'openai/gpt-4o-mini'"):
        ReactiveAgents.create().build()


def test_the_name_of_a_model_in_place_of_the_parts_of_an_agent_says_where_it_belongs() -> None:
    builder: Any = ReactiveAgents
    agent: Any = ReactiveAgent
    for part, make in (
        ("config", partial(builder, "openai/gpt-4o")),
        ("container", partial(agent, "gpt-4o")),
        ("model", partial(agent, model="gpt-4o")),
        ("create", builder.create("openai/gpt-4o").build),
        ("model", builder.create(model="openai/gpt-4o", name="Ada").build),
    ):
        with pytest.raises(AgentError, match=r"got '.*gpt-4o', expected .*\.with_model") as refused:
            make()
        assert str(refused.value).startswith(f"{part}: ")


def test_what_is_no_tool_by_itself_says_what_makes_one_of_it() -> None:
    for given, advice in (
        (start(), r"agent_tool\(builder\.build\(\)\)"),
        (start().build(), r"agent_tool\(agent\)"),
        (McpServer("notes", command="notes"), r"with_mcp\(server\)"),
    ):
        wrong: Any = given
        with pytest.raises(AgentError, match=rf"^tools: got an? \w+, expected a function.*; {advice}"):
            start().with_tools(wrong).build()


def test_an_option_of_a_method_given_to_create_names_the_method() -> None:
    builder: Any = ReactiveAgents
    with pytest.raises(
        AgentError, match=r"tools: got an array of 1 item, expected create\(.*\.with_tools\(…\)"
    ):
        builder.create(tools=[print]).with_model("offline").build()


def test_a_builder_in_place_of_an_option_is_named() -> None:
    wrong: Any = start()
    with pytest.raises(AgentError, match="threshold: got a ReactiveAgents"):
        start().with_verification(threshold=wrong).build()


def test_wrong_reasoning_options_are_named_with_their_path() -> None:
    builder = start().with_reasoning("reactive", strategies={"reactive": {"temperature": "hot"}})
    with pytest.raises(AgentError) as caught:
        builder.build()
    assert isinstance(caught.value.error, DecodeError)
    (problem,) = caught.value.error.problems
    assert "strategies.reactive.temperature" in problem.path
    with pytest.raises(AgentError, match="no_such_option"):
        start().with_reasoning("reactive", no_such_option=1).build()


@pytest.mark.anyio
async def test_build_effect_gives_values_for_both_ways() -> None:
    assert isinstance(await attempt(start().build_effect()), Success)
    failed = await attempt(start().with_name("").build_effect())
    assert isinstance(failed, Failure)
    assert isinstance(failed.failure(), InvalidConfig)


def test_the_limit_on_iterations_holds_for_strategies_too() -> None:
    endless = ScriptedLLM(*(call("add", a=1, b=n) for n in range(100)))
    builder = ReactiveAgents.create().with_llm(endless).with_tools(add).with_reasoning()
    assert builder.with_max_iterations(12).build().run_sync("x").metadata.iterations == 12
    assert builder.build().run_sync("x").metadata.iterations == 10
    own = builder.with_reasoning(strategies=StrategiesConfig(reactive=ReactiveConfig(max_iterations=14)))
    assert own.build().run_sync("x").metadata.iterations == 14
    assert own.with_max_iterations(2).build().run_sync("x").metadata.iterations == 2


@pytest.mark.parametrize(("limit", "turns"), [(None, 14), (2, 2), (20, 14)])
def test_a_strategy_of_several_passes_takes_at_most_that_many_turns_in_each(
    limit: int | None, turns: int
) -> None:
    own = {"reflexion": {"max_retries": 1, "kernel_max_iterations": 14}, "reactive": {"max_iterations": 1}}
    endless = ScriptedLLM(*(call("add", a=1, b=n) for n in range(100)))
    builder = (
        ReactiveAgents.create().with_llm(endless).with_tools(add).with_reasoning("reflexion", strategies=own)
    )
    builder = builder if limit is None else builder.with_max_iterations(limit)
    assert builder.build().run_sync("x").metadata.iterations == 2 * turns  # one retry


def test_every_option_reaches_the_agent(tmp_path: Path) -> None:
    seen: list[str] = []

    def note(context: ExecutionContext) -> None:
        seen.append(context.phase)

    llm = ScriptedLLM(answer("done"))
    agent = (
        ReactiveAgents.create()
        .with_name("scribe")
        .with_llm(llm)
        .with_reasoning("reactive", strategies={"reactive": {"temperature": 0.1}})
        .with_tools(add, "calculator")
        .with_workspace(tmp_path)
        .with_system_prompt("You are a scribe.")
        .with_max_iterations(7)
        .with_timeout(run=9, model_call=5, tool_call=3)
        .with_hook("think", "before", note)
        .with_strict_hooks()
        .build()
    )
    assert agent.run_sync("Write.").output == "done"
    assert seen == ["think"]
    assert llm.requests[0].messages[0].content.startswith("You are a scribe.")
    assert llm.requests[0].temperature == 0.1
    assert [each.name for each in llm.requests[0].tools] == ["add", "calculator", "final-answer"]
    engine: ExecutionEngine = agent.container.engine.engine()
    config = engine.settings
    assert (config.name, config.agent_id, config.max_iterations) == ("scribe", "scribe", 7)
    assert (config.strict_hooks, config.timeouts.run_s) == (True, 9)
    assert agent.container.model_config().timeout_s == 5
    tools: ToolService = agent.container.tooling.tools().unwrap()
    assert {each.timeout_s for each in tools.definitions()} == {3.0}
    assert agent.container.tool_settings().workspace == tmp_path.resolve()


def test_a_limit_in_seconds_leaves_the_others_of_a_file_as_they_are() -> None:
    told = {"timeouts": {"run_s": 9.0, "tool_call_s": 3.0, "grace_s": 1.5}}
    timeouts = ReactiveAgents.from_config(told).with_timeout(tool_call=2.0).config.timeouts
    assert (timeouts.run_s, timeouts.tool_call_s, timeouts.grace_s) == (9.0, 2.0, 1.5)


def test_the_model_can_be_named_in_every_usual_way() -> None:
    def named(builder: ReactiveAgents) -> str:
        return str(builder.build().container.models.llm().model)

    create = ReactiveAgents.create
    assert named(create().with_model("openai/gpt-4o-mini")) == "openai/gpt-4o-mini"
    assert named(create().with_provider("openai").with_model("gpt-4o-mini")) == "openai/gpt-4o-mini"
    assert named(create().with_model("offline")) == "offline/quotes"
    assert named(create().with_provider("offline")) == "offline/quotes"
    assert named(create().with_provider("ollama")).startswith("ollama")
    config = (
        create().with_model("openai/a", api_key="k", base_url="http://h").with_fallbacks("openai/b").config
    )
    assert (config.model.api_key, config.model.base_url, config.model.fallbacks) == (
        "k",
        "http://h",
        ("openai/b",),
    )


def test_a_key_goes_to_the_provider_that_it_was_given_for_and_to_no_other() -> None:
    keyed = ReactiveAgents.create().with_model("openai/a", api_key="k", base_url="http://h")
    for same in (keyed.with_model("openai/b"), keyed.with_model("b"), keyed.with_provider("openai")):
        assert (same.config.model.api_key, same.config.model.base_url) == ("k", "http://h")
    for other in (
        keyed.with_model("anthropic/b"),
        keyed.with_model("offline"),
        keyed.with_provider("anthropic"),
        keyed.with_provider("anthropic").with_model("b"),
    ):
        assert (other.config.model.api_key, other.config.model.base_url) == (None, None)


def test_the_later_of_two_providers_wins() -> None:
    def named(builder: ReactiveAgents) -> str:
        return str(builder.build().container.models.llm().model)

    create = ReactiveAgents.create
    assert named(create().with_provider("openai").with_model("anthropic/claude")) == "anthropic/claude"
    assert named(create().with_model("openai/gpt-4o").with_provider("anthropic")).startswith(
        "anthropic/claude"
    )
    assert named(create().with_model("openrouter/anthropic/claude")) == "openrouter/anthropic/claude"


def test_the_same_tool_may_be_given_twice() -> None:
    agent = start().with_tools(add, "calculator").with_tools(add, "calculator").build()
    tools: ToolService = agent.container.tooling.tools().unwrap()
    assert [each.name for each in tools.definitions()] == ["add", "calculator"]


def test_a_model_object_is_no_model_name() -> None:
    with pytest.raises(
        AgentError, match=r"model: got a ScriptedLLM, expected .*\(with_llm takes an object\)"
    ):
        ReactiveAgents.create().with_model(ScriptedLLM(say("Hi."))).build()  # type: ignore[arg-type]


def test_a_model_name_is_no_model_object() -> None:
    with pytest.raises(AgentError, match="with_model takes the name of a model"):
        ReactiveAgents.create().with_llm("offline").build()  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_strategy_of_ones_own_can_be_reasoned_with() -> None:
    def twice(
        strategy_input: StrategyInput, services: StrategyServices
    ) -> Effect[ReasoningResult, ReasoningErrors]:
        doubled = strategy_input.task_description * 2
        return direct(evolve(strategy_input, task_description=doubled), services)

    llm = ScriptedLLM(say("done"))
    builder = ReactiveAgents.create().with_llm(llm).with_strategy("twice", twice)
    agent = builder.with_reasoning("twice").build()
    assert (await agent.run("ab ")).output == "done"
    assert llm.requests[0].messages[-1].content == "ab ab "


@pytest.mark.anyio
async def test_hooks_survive_a_reset_of_the_container() -> None:
    seen: list[str] = []
    start = ReactiveAgents.create().with_llm(ScriptedLLM(say("done")))
    agent = start.with_hook("complete", "before", lambda context: seen.append(context.phase)).build()
    agent.container.engine.engine()
    agent.container.reset_singletons()
    await agent.run("x")
    assert seen == ["complete"]


def test_no_arguments_to_with_tools_means_all_built_in_ones() -> None:
    agent = start().with_tools().build()
    tools: ToolService = agent.container.tooling.tools().unwrap()
    assert [each.name for each in tools.definitions()] == list(builtin_tools())


def test_reasoning_takes_values_as_well_as_mappings() -> None:
    strategies = StrategiesConfig(reactive=ReactiveConfig(temperature=0.2))
    one = start().with_reasoning(strategies=strategies)
    other = start().with_reasoning(strategies={"reactive": {"temperature": 0.2}})
    assert one.config.reasoning == other.config.reasoning == ReasoningConfig(strategies=strategies)


def test_policies_of_ones_own_are_asked_first() -> None:
    def no_guesses(state: KernelState, context: KernelContext) -> Verdict | None:
        if state.proposal is None or "surely" not in state.proposal.text:
            return None
        return Redirect("no_guesses", "Do not guess.")

    llm = ScriptedLLM(say("It is surely 3."), say("It is 3."))
    builder = ReactiveAgents.create().with_llm(llm).with_reasoning().with_policies(no_guesses)
    assert builder.build().run_sync("What is 1 + 2?").output == "It is 3."
    assert "Do not guess." in llm.requests[1].messages[-1].content
    with pytest.raises(AgentError, match="policies: got no_guesses"):
        ReactiveAgents.create().with_model("offline").with_policies(no_guesses).to_config()


def test_a_module_of_the_working_directory_says_how_it_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tools_beside.py").write_text("", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    builder = ReactiveAgents.create().with_model("offline").with_tools("tools_beside:look")
    with pytest.raises(AgentError, match=r"it is in the working directory: set PYTHONPATH=\. or run"):
        builder.build()


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("wrong_syntax", "def (", "importing it raised SyntaxError: invalid syntax"),
        ("dividing", "1 / 0", "importing it raised ZeroDivisionError: division by zero"),
        ("leaving", "import sys; sys.exit(7)", "importing it raised SystemExit: 7"),
        ("attributeless", "None.x", "importing it raised AttributeError"),
        ("importing", "import no_such_module", "No module named 'no_such_module'"),
        ("..", None, "an absolute name"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(
    name: str, text: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    if text is not None:
        (tmp_path / f"{name}.py").write_text(text)
    with pytest.raises(AgentError) as caught:
        start().with_tools(f"{name}:x").build()
    error = caught.value.error
    assert isinstance(error, InvalidConfig)
    assert (error.option, error.value) == ("tools", repr(f"{name}:x"))
    assert told in error.expected


def test_a_builder_that_is_used_as_the_agent_says_what_to_do() -> None:
    builder: Any
    for builder, name, product in (
        (ReactiveAgents.create(), "run", "ReactiveAgent"),
        (ReactiveAgents.create(), "stream", "ReactiveAgent"),
        (Personas.create(), "send", "PersonaAgent"),
    ):
        with pytest.raises(
            AttributeError, match=rf"describes what {product} does: call build\(\), and '{name}'"
        ):
            getattr(builder, name)("Hello?")
    with pytest.raises(AttributeError, match="'ReactiveAgents' object has no attribute 'with_tool'"):
        builder = ReactiveAgents.create().with_tool  # type: ignore[attr-defined]
    assert not hasattr(ReactiveAgents.create(), "__wrapped__")


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("change", "limit"),
    [
        (lambda builder: builder, 10),
        (lambda builder: builder.with_reasoning(), 10),
        (lambda builder: builder.with_reasoning(strategies={"reactive": {"max_iterations": 14}}), 14),
        (lambda builder: builder.with_reasoning().with_max_iterations(3), 3),
    ],
)
async def test_hooks_see_the_limit_on_iterations(
    change: Callable[[ReactiveAgents], ReactiveAgents], limit: int
) -> None:
    seen: list[int] = []
    builder = change(ReactiveAgents.create().with_llm(ScriptedLLM(say("Hello."))))
    builder = builder.with_hook("bootstrap", "before", lambda context: seen.append(context.max_iterations))
    assert (await builder.build().run("Hello?")).output == "Hello."
    assert seen == [limit]


@pytest.mark.anyio
async def test_memory_without_a_path_lives_with_the_agent() -> None:
    described = ReactiveAgents.create().with_memory()
    llm = ScriptedLLM(forever(say("In the blue drawer.")))
    first, second = described.with_llm(llm).build(), described.with_llm(llm).build()
    await first.run("Where are the office keys?")
    await second.run("Where are the office keys?")
    assert "blue drawer" not in str(llm.requests[-1].messages)
    await first.run("Where are the office keys?")
    assert "blue drawer" in str(llm.requests[-1].messages)
    assert described.to_config().memory == MemoryConfig()
