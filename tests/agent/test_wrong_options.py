"""Options of the wrong kind: each is a problem that ``build`` reports, and none does anything else."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import Any

import attrs
import pytest

from reactive_agents import AgentConfig, AgentError, Personas, ReactiveAgents
from reactive_agents.agent import persona_config, validation
from reactive_agents.core import config, personas
from reactive_agents.core.errors import DecodeError, InvalidConfig
from reactive_agents.engine.context import ExecutionContext
from reactive_agents.testing import ScriptedLLM, say

Build = Callable[[Any], Any]

DELIVERABLES = "verification.deliverables"
OUTSIDE: dict[str, Any] = {"model": {"model": "offline"}, "verification": {"deliverables": ["../b.md"]}}
NO_PATH: dict[str, Any] = {"model": {"model": "offline"}, "cost": {"path": "\0"}}

CASES: tuple[tuple[Build, str, str], ...] = (
    # what was accepted, and went wrong later
    (lambda b: b.with_memory(None), "memory.path", "None"),
    (lambda b: b.with_memory(" "), "memory.path", "' '"),
    (lambda b: b.with_memory(b"x"), "memory.path", "a bytes"),
    (lambda b: b.with_memory("a\0b"), "memory.path", repr("a\0b")),
    (lambda b: b.with_memory("~no-such-user/m.db"), "memory.path", "'~no-such-user/m.db'"),
    (
        lambda b: b.from_config(NO_PATH),
        "cost.path",
        repr("\0"),
    ),
    (lambda b: b.with_output_type(lambda: 1), "output_type", "<lambda>"),
    (lambda b: b.with_output_type(print), "output_type", "print"),
    (lambda b: b.with_audit(None), "audit.path", "None"),
    (lambda b: b.with_audit(""), "audit.path", "''"),
    (lambda b: b.with_cost(None), "cost.path", "None"),
    (lambda b: b.with_workspace(None), "workspace", "None"),
    (lambda b: b.with_fallbacks(["a", "b"]), "$.model.fallbacks[0]", "an array of 2 items"),
    (lambda b: b.with_policies(5), "policies", "5"),
    (lambda b: b.with_strategy("mine", 5), "strategy", "5"),
    (lambda b: b.with_strategy(5, print), "strategy.name", "5"),
    (lambda b: b.with_system_prompt(5), "$.system_prompt", "5"),
    (lambda b: b.with_system_prompt(None), "$.system_prompt", "None"),
    (lambda b: b.with_llm(ScriptedLLM), "llm", repr(ScriptedLLM)),
    (lambda b: b.with_approval(5), "approval.handler", "5"),
    (lambda b: b.with_approval(lambda: True), "approval.handler", "a function"),
    (lambda b: b.with_ask_user(lambda one, two: "L"), "ask_user.handler", "a function"),
    (lambda b: b.with_hook("think", "before", 5), "hook.handler", "5"),
    (lambda b: b.with_hook("think", "before", lambda: None), "hook.handler", "a function"),
    (lambda b: b.with_guardrails(lambda agent, context, text: []), "guardrails", "a function"),
    (lambda b: b.with_system_prompt(lambda: "text"), "system_prompt", "a function"),
    (lambda b: b.with_max_iterations(1.5), "max_iterations", "1.5"),
    (lambda b: b.with_max_iterations(True), "max_iterations", "True"),
    (lambda b: b.with_timeout(math.inf), "timeout.run", "inf"),
    (lambda b: b.with_budget(cost_usd=math.inf), "budget.cost_usd", "inf"),
    (lambda b: b.with_strict_hooks("x"), "$.strict_hooks", "'x'"),
    # what raised something else at once
    (lambda b: b.with_model(None), "model", "None"),
    (lambda b: b.with_model(b"offline"), "model", "a bytes"),
    (lambda b: b.with_provider(5), "$.model.provider", "5"),
    (lambda b: b.with_name(None), "name", "None"),
    (lambda b: b.with_max_iterations("5"), "max_iterations", "'5'"),
    (lambda b: b.with_max_iterations(math.nan), "max_iterations", "nan"),
    (lambda b: b.with_timeout("5"), "timeout.run", "'5'"),
    (lambda b: b.with_timeout(timedelta(seconds=5)), "timeout.run", "a timedelta"),
    (lambda b: b.with_approval(timeout_s="x"), "approval.timeout_s", "'x'"),
    (lambda b: b.with_approval(timeout_s=None), "approval.timeout_s", "None"),
    (lambda b: b.with_mcp("x"), "mcp_servers", "'x'"),
    (lambda b: b.with_required_tools(["a"]), "required_tools", "an array of 1 item"),
    (lambda b: b.with_required_tools("x", min_calls=3), "required_tools", "3"),
    (lambda b: b.with_required_tools(min_calls={"x": 0}), "required_tools", "'x': 0"),
    (lambda b: b.with_budget(calls=["x"]), "budget.calls", "an array of 1 item"),
    (lambda b: b.with_budget(calls={"x": True}), "budget.calls", "'x': True"),
    (lambda b: b.with_tools(None), "tools", "None"),
    (lambda b: b.from_config(None), "config", "None"),
    (lambda b: b.from_config("\0"), "config", repr("\0")),
    (lambda b: b.from_config(AgentConfig(name=5)), "$.name", "5"),  # type: ignore[arg-type]
    (lambda b: b.with_workspace("~no-such-user"), "workspace", "'~no-such-user'"),
    (lambda b: b.with_workspace("x" * 5000), "workspace", repr("x" * 5000)),
    # files that no run could leave in the workspace
    (lambda b: b.with_verification(deliverables=("a.md", "../b.md")), DELIVERABLES, "'../b.md'"),
    (lambda b: b.with_verification(deliverables=("..\\b.md",)), DELIVERABLES, r"'..\\b.md'"),
    (lambda b: b.with_verification(deliverables=("/etc/passwd",)), DELIVERABLES, "'/etc/passwd'"),
    (lambda b: b.with_verification(deliverables=("",)), DELIVERABLES, "''"),
    (lambda b: b.with_verification(deliverables=(" ",)), DELIVERABLES, "' '"),
    (lambda b: b.with_verification(deliverables=("a/..",)), DELIVERABLES, "'a/..'"),
    (lambda _: ReactiveAgents.from_config(OUTSIDE), DELIVERABLES, "'../b.md'"),
    # names that are blank
    (lambda _: ReactiveAgents.create().with_model("   "), "model", "'   '"),
    (lambda _: ReactiveAgents.create().with_provider("openai").with_model(" "), "model", "' '"),
    (lambda _: ReactiveAgents.from_config({"model": {"model": " "}}), "model", "' '"),
    (lambda _: ReactiveAgents.create().with_model("offline").with_fallbacks(" "), "model.fallbacks", "' '"),
    # personas
    (lambda _: Personas.create("p").with_memory(None), "memory", "None"),  # type: ignore[arg-type]
    (lambda _: Personas.create(None), "name", "None"),  # type: ignore[arg-type]
    (lambda _: Personas.from_config(None), "config", "None"),  # type: ignore[arg-type]
)


def test_a_decorated_function_takes_what_its_decorator_takes() -> None:
    def with_store(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def given(*arguments: Any) -> Any:
            return function(*arguments, "store")

        return given

    @with_store
    def hook(context: ExecutionContext, store: str) -> None:
        seen.append(store)

    @with_store
    def check(text: str, store: str) -> list[Any]:
        return []

    seen: list[str] = []
    built = ReactiveAgents.create().with_llm(ScriptedLLM(say("done")))
    built.with_hook("think", "before", hook).with_guardrails(check).build().run_sync("Do it.")
    assert seen == ["store"]


@pytest.mark.parametrize(("build", "option", "value"), CASES)
def test_a_value_of_the_wrong_kind_is_named_at_build(
    build: Build, option: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    builder = build(ReactiveAgents.create().with_llm(ScriptedLLM(say("done"))))
    with pytest.raises(AgentError) as caught:
        builder.build()
    error = caught.value.error
    if isinstance(error, DecodeError):
        (problem,) = error.problems
        assert problem.path == option
        assert problem.problem.startswith(f"got {value}, expected ")
    else:
        assert isinstance(error, InvalidConfig)
        assert (error.option, error.value) == (option, value)
        assert error.expected
    assert not list(tmp_path.iterdir())


def test_the_first_of_several_wrong_options_is_told_and_all_are_kept() -> None:
    builder: Any = ReactiveAgents.create()
    wrong = builder.with_name(None).with_max_iterations("5").with_system_prompt(5)
    assert len(wrong.problems) == 3
    with pytest.raises(AgentError, match="name: got None"):
        wrong.build()


def test_a_key_of_the_wrong_kind_is_not_shown() -> None:
    builder: Any = ReactiveAgents.create()
    with pytest.raises(AgentError, match=r"model\.api_key: not a valid value") as caught:
        builder.with_model("openai/a", api_key=123456).build()
    assert "123456" not in str(caught.value)


def test_whatever_names_a_path_is_one(tmp_path: Path) -> None:
    class Place(os.PathLike[str]):
        def __fspath__(self) -> str:
            return str(tmp_path)

    config = ReactiveAgents.create().with_workspace(Place()).with_memory(Place()).config  # type: ignore[arg-type]
    assert config.memory is not None
    assert (config.workspace, config.memory.path) == (str(tmp_path), str(tmp_path))


def test_a_deliverable_may_be_named_by_where_it_is_in_the_workspace(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_llm(ScriptedLLM(say("done"))).with_workspace(tmp_path)
    builder.with_verification(deliverables=("a.md", "new/b.md", str(tmp_path / "c.md"))).build()
    with pytest.raises(
        AgentError, match=r"verification\.deliverables: got '\.\./a\.md', .*out of the workspace"
    ):
        builder.with_verification(deliverables=("../a.md",)).build()


OPTIONS: list[tuple[Any, Any, set[str]]] = [
    (validation.CompactionOptions, config.CompactionConfig, set()),
    (validation.ReactiveOptions, config.ReactiveConfig, set()),
    (validation.PlanExecuteOptions, config.PlanExecuteConfig, set()),
    (validation.TreeOfThoughtOptions, config.TreeOfThoughtConfig, set()),
    (validation.ReflexionOptions, config.ReflexionConfig, set()),
    (validation.StrategiesOptions, config.StrategiesConfig, set()),
    (validation.AdaptiveOptions, config.AdaptiveConfig, set()),
    (validation.ReasoningOptions, config.ReasoningConfig, {"default_strategy"}),
    (validation.ContextProfileOptions, config.ContextProfileOverrides, {"tier"}),
    (validation.CompressionOptions, config.ResultCompressionConfig, set()),
    (validation.ContentOptions, config.ContentConfig, set()),
    (persona_config.PersonaOptions, persona_config.PersonaConfig, set()),
    (persona_config.EngagementOptions, personas.EngagementPolicy, set()),
    (persona_config.LearningOptions, personas.LearningPolicy, set()),
    (persona_config.PersonaTimeoutOptions, personas.PersonaTimeouts, set()),
    (persona_config.InboxOptions, personas.InboxConfig, set()),
]


@pytest.mark.parametrize(
    ("options", "kind", "besides"), OPTIONS, ids=lambda each: getattr(each, "__name__", "")
)
def test_type_checkers_know_the_options_that_there_are(options: Any, kind: Any, besides: set[str]) -> None:
    assert set(options.__annotations__) == {field.name for field in attrs.fields(kind)} - besides
