"""An agent as data."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import anyio
import pytest
from returns.maybe import Some
from returns.result import Failure

from reactive_agents import AgentConfig, AgentError, Personas, ReactiveAgents, read_config, tool
from reactive_agents.adapters.governance.guardrails.checks import length_limit
from reactive_agents.adapters.tools.workspace import write_inside
from reactive_agents.agent.tool_references import imported
from reactive_agents.containers import ToolSettings
from reactive_agents.core.config import ModelTier
from reactive_agents.core.errors import DecodeError, InvalidConfig
from reactive_agents.effects import attempt
from reactive_agents.reasoning.strategies.reactive import direct
from reactive_agents.testing import ScriptedLLM, answer, call, forever


@tool(name="shout")
async def shout(text: str) -> str:
    """Say it loud."""
    return text.upper()


async def whisper(text: str) -> str:
    """Say it quietly."""
    return text.lower()


def described() -> ReactiveAgents:
    return (
        ReactiveAgents.create()
        .with_name("clerk")
        .with_model("openai/gpt-4o-mini", api_key="sk-secret", base_url="http://127.0.0.1:1/v1")
        .with_fallbacks("ollama/llama3.2")
        .with_reasoning("reactive", strategies={"reactive": {"max_iterations": 6}})
        .with_tools("calculator", "file-read", f"{__name__}:shout")
        .with_workspace(".")
        .with_system_prompt('You are a "clerk".\nBe brief.')
        .with_max_iterations(5)
        .with_timeout(run=30)
    )


@pytest.mark.parametrize("name", ["agent.json", "agent.toml"])
def test_an_agent_survives_a_file(name: str, tmp_path: Path) -> None:
    config = described().to_config()
    path = tmp_path / name
    config.save(path)
    assert read_config(path, allow_tools_from=[__name__]).unwrap() == config
    assert ReactiveAgents.from_config(str(path), allow_tools_from=[__name__]).to_config() == config
    assert "sk-secret" not in path.read_text()
    document = json.loads(path.read_text()) if name.endswith("json") else tomllib.loads(path.read_text())
    assert document["tools"] == ["calculator", "file-read", f"{__name__}:shout"]
    assert ReactiveAgents.from_config(document, allow_tools_from=["tests.agent"]).to_config() == config


@pytest.mark.parametrize("name", ["agent.json", "agent.toml"])
def test_a_file_may_begin_with_a_byte_order_mark(name: str, tmp_path: Path) -> None:
    config = described().to_config()
    path = tmp_path / name
    config.save(path)
    path.write_text(path.read_text(), encoding="utf-8-sig")
    assert read_config(path, allow_tools_from=[__name__]).unwrap() == config


def test_an_agent_from_data_is_the_same_agent(tmp_path: Path) -> None:
    config = described().to_config()
    built = ReactiveAgents.from_config(config).build()
    tools = built.container.tooling.tools().unwrap()
    assert [each.name for each in tools.definitions()] == ["calculator", "file-read", "shout"]
    assert built.container.settings() == described().build().container.settings()


def test_a_key_is_never_written_even_by_the_config_itself() -> None:
    config = described().config
    assert config.model.api_key == "sk-secret"
    assert "sk-secret" not in config.to_json() + config.to_toml() + repr(config)


def test_a_function_of_a_module_is_written_by_its_name() -> None:
    reference = f"{__name__}:whisper"
    config = described().with_tools(whisper).to_config()
    assert config.tools[-1] == reference
    assert ReactiveAgents.from_config(config).to_config() == config


@pytest.mark.parametrize(
    ("builder", "option"),
    [
        (described().with_llm(ScriptedLLM()), "llm"),
        (described().with_hook("think", "before", print), "hooks"),  # type: ignore[arg-type]
        (described().with_tools(tool(name="local")(lambda: 1)), "tools"),
        (described().with_tools("nothing"), "tools"),
        (described().with_approval(), "approval"),
        (described().with_strategy("own", direct), "strategies"),
        (described().with_name(""), "name"),
    ],
)
def test_what_is_no_data_is_a_typed_error(builder: ReactiveAgents, option: str) -> None:
    with pytest.raises(AgentError) as caught:
        builder.to_config()
    assert isinstance(caught.value.error, InvalidConfig)
    assert caught.value.error.option == option


def test_a_blank_name_in_a_file_is_refused() -> None:
    with pytest.raises(AgentError, match="name: got ' ', expected a name that is not blank"):
        ReactiveAgents.from_config({"name": " ", "model": {"model": "offline"}}).build()


@pytest.mark.parametrize(
    ("document", "path", "problem"),
    [
        ({"nam": "x"}, "$.nam", "unknown"),
        ({"max_iterations": 0}, "$.max_iterations", "0"),
        ({"max_iterations": "ten"}, "$.max_iterations", "'ten'"),
        ({"model": {"max_attempts": True}}, "$.model.max_attempts", "True"),
        ({"reasoning": {"adaptive": {"enabled": 1}}}, "$.reasoning.adaptive.enabled", "1"),
        ({"tools": "calculator"}, "$.tools", "'calculator'"),
    ],
)
def test_a_wrong_field_is_named_with_its_path(document: dict[str, object], path: str, problem: str) -> None:
    read = read_config(document)
    assert isinstance(read, Failure)
    error = read.failure()
    assert isinstance(error, DecodeError)
    assert [each.path for each in error.problems] == [path]
    assert problem in error.problems[0].problem
    with pytest.raises(AgentError):
        ReactiveAgents.from_config(document).build()


def test_a_file_that_cannot_be_read_or_parsed_is_a_typed_error(tmp_path: Path) -> None:
    missing = read_config(tmp_path / "none.toml").failure()
    assert isinstance(missing, InvalidConfig)
    assert "none.toml" in missing.message
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert isinstance(read_config(broken).failure(), DecodeError)
    broken.write_text('{"name": "a", "name": "b"}')
    assert "name" in read_config(broken).failure().message
    broken_toml = tmp_path / "broken.toml"
    broken_toml.write_bytes(b"\xff\xfe")
    assert isinstance(read_config(broken_toml).failure(), InvalidConfig)


def test_the_defaults_are_an_agent_too() -> None:
    assert read_config({}).unwrap() == AgentConfig()


@pytest.mark.parametrize("name", ["agent.toml", "agent.json"])
def test_tiers_are_written_and_read_again(tmp_path: Path, name: str) -> None:
    tiers = [
        ModelTier("openai/small", max_complexity=0, context_tokens=8_000),
        ModelTier("openai/large", capabilities=frozenset({"tools", "vision"})),
    ]
    builder = ReactiveAgents.create().with_model("offline").with_cost(tmp_path / "cost.db", tiers=tiers)
    builder.to_config().save(tmp_path / name)
    read = ReactiveAgents.from_config(tmp_path / name).to_config()
    assert read == builder.to_config()
    assert read.cost is not None
    assert read.cost.tiers == tuple(tiers)


@pytest.mark.parametrize("name", ["agent.toml", "agent.json"])
def test_runs_that_are_never_deleted_are_so_after_a_file_too(tmp_path: Path, name: str) -> None:
    builder = ReactiveAgents.create().with_model("offline").with_run_log("log.db", keep_days=None)
    builder.to_config().save(tmp_path / name)
    read = ReactiveAgents.from_config(tmp_path / name).to_config()
    assert read == builder.to_config()
    assert read.run_log is not None
    assert read.run_log.keep_days == 0


@pytest.mark.parametrize("name", ["agent.toml", "agent.json"])
def test_a_tier_that_is_only_a_name_is_refused_with_what_it_lacks(tmp_path: Path, name: str) -> None:
    texts = {
        "agent.toml": '[cost]\npath = "c.db"\ntiers = ["openai/x"]',
        "agent.json": '{"cost": {"path": "c.db", "tiers": ["openai/x"]}}',
    }
    (tmp_path / name).write_text(texts[name])
    by_call = ReactiveAgents.create().with_model("offline").with_cost("c.db", tiers=["openai/x"])  # type: ignore[list-item]
    for builder in (by_call, ReactiveAgents.from_config(tmp_path / name)):
        with pytest.raises(AgentError) as caught:
            builder.build()
        assert isinstance(caught.value.error, DecodeError)
        (problem,) = caught.value.error.problems
        assert (problem.path, problem.problem) == (
            "$.cost.tiers[0]",
            "got 'openai/x', expected an object with model",
        )


def test_services_are_data_too(tmp_path: Path) -> None:
    builder = (
        ReactiveAgents.create()
        .with_model("offline")
        .with_memory(tmp_path / "memory.db", token_budget=500)
        .with_guardrails()
        .with_verification(
            threshold=0.5,
            action="retry",
            judge_model="offline",
            self_consistency=2,
            deliverables=["report.md"],
        )
        .with_cost(
            tmp_path / "cost.db",
            tiers=[ModelTier("offline", capabilities=frozenset({"quotes"}))],
            run_usd=0.5,
            daily_usd=5.0,
            monthly_usd=50.0,
            warn_at=(0.25, 0.75),
        )
        .with_audit(tmp_path / "audit.db")
    )
    config = builder.to_config()
    config.save(tmp_path / "agent.toml")
    read = ReactiveAgents.from_config(tmp_path / "agent.toml")
    assert read.to_config() == config
    governance = read.build().container.governance
    for provider in (
        governance.guardrail,
        governance.verifier,
        governance.cost_router,
        governance.cost_tracker,
        governance.budget,
        governance.audit,
    ):
        assert isinstance(provider(), Some)


@pytest.mark.parametrize(
    ("builder", "path"),
    [
        (ReactiveAgents.create().with_memory("m.db", token_budget=0), "$.memory.token_budget"),
        (ReactiveAgents.create().with_verification(threshold=1.5), "$.verification.threshold"),
        (ReactiveAgents.create().with_verification(action="shout"), "$.verification.action"),
        (ReactiveAgents.create().with_verification(self_consistency=-1), "$.verification.self_consistency"),
        (ReactiveAgents.create().with_cost("c.db", daily_usd=-1.0), "$.cost.daily_usd"),
        (ReactiveAgents.create().with_cost("c.db", warn_at=(0.5, 1.5)), "$.cost.warn_at"),
        (ReactiveAgents.create().with_verification(deliverables="report.md"), "$.verification.deliverables"),
        (ReactiveAgents.create().with_cost("c.db", tiers="openai/gpt-5.4"), "$.cost.tiers"),  # type: ignore[arg-type]
    ],
)
def test_a_wrong_option_of_a_service_is_named(builder: ReactiveAgents, path: str) -> None:
    failed = builder.build_effect()
    error = anyio.run(attempt, failed).failure()
    assert isinstance(error, DecodeError)
    assert [problem.path for problem in error.problems] == [path]


@pytest.mark.parametrize(
    ("builder", "option"),
    [
        (ReactiveAgents.create().with_guardrails(length_limit(10)), "guardrails.checks"),
        (ReactiveAgents.create().with_audit("audit.db", signing_key=bytes(32)), "audit"),
    ],
)
def test_what_a_service_has_that_is_no_data_cannot_be_written(builder: ReactiveAgents, option: str) -> None:
    with pytest.raises(AgentError) as raised:
        builder.to_config()
    assert isinstance(raised.value.error, InvalidConfig)
    assert raised.value.error.option == option


def test_a_key_that_cannot_sign_is_found_before_the_first_run(tmp_path: Path) -> None:
    builder = ReactiveAgents.create().with_model("offline")
    builder = builder.with_audit(tmp_path / "audit.db", signing_key=b"hunter22")
    with pytest.raises(AgentError) as raised:
        builder.build()
    assert isinstance(raised.value.error, InvalidConfig)
    assert raised.value.error.option == "audit.signing_key"
    assert "32 bytes" in raised.value.error.expected
    assert "hunter22" not in str(raised.value)


# --- what a file may name -------------------------------------------------------------------------------

NAMING: list[dict[str, Any]] = [
    {"tools": ["subprocess:getoutput"]},
    {
        "reasoning": {
            "strategies": {"reactive": {"compaction": {"method": "custom", "function": "os:system"}}}
        }
    },
]


@pytest.mark.parametrize("described", NAMING)
def test_a_file_names_functions_of_allowed_modules_only(described: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "agent.json"
    path.write_text(json.dumps(described))
    for source in (path, str(path), described):
        assert "in allow_tools_from (--allow-tools-from)" in read_config(source).failure().message
        assert (
            "allow_tools_from" in read_config(source, allow_tools_from=["sub", "os.path"]).failure().message
        )
        with pytest.raises(AgentError, match="allow_tools_from"):
            ReactiveAgents.from_config(source).build()
    assert read_config(path, allow_tools_from=["subprocess", "os"]).unwrap()


@pytest.mark.parametrize("given", [None, True, "json"])
def test_allowed_modules_that_are_no_collection_are_named(given: Any) -> None:
    wrong = f"allow_tools_from: got {given!r}, expected names of modules."
    assert read_config({"tools": ["json:loads"]}, allow_tools_from=given).failure().message == wrong
    with pytest.raises(AgentError, match="allow_tools_from: got"):
        Personas.from_config({}, allow_tools_from=given).build()


@pytest.mark.parametrize(
    "reference",
    [
        "os.system",
        "subprocess.getoutput",
        "getoutput",
        "wrapped",
        "own.__globals__",
        "kept.run",
        "Runner",
        "runner.run",
    ],
)
def test_an_allowed_module_does_not_allow_what_it_imports(
    reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere.py").write_text(
        "class Runner:\n    'Runs.'\n    def __init__(self, command: str = '') -> None:\n        'Run it.'\n"
        "    def run(self, command: str) -> str:\n        'Run it.'\n        return command\n"
    )
    (tmp_path / "allowed_tools.py").write_text(
        "import os, subprocess\nfrom subprocess import getoutput\nfrom reactive_agents import tool\n"
        "from elsewhere import Runner\nrunner = Runner()\n"
        "wrapped = tool(getoutput)\n"
        "class kept:\n    run = staticmethod(getoutput)\n"
        "def own(text: str) -> str:\n    'Say it.'\n    return text\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def build(name: str) -> ReactiveAgents:
        described = {"model": {"model": "offline"}, "tools": [f"allowed_tools:{name}"]}
        return ReactiveAgents.from_config(described, allow_tools_from=["allowed_tools"])

    assert build("own").build()
    with pytest.raises(AgentError, match="tools: got "):
        build(reference).build()
    assert isinstance(imported(f"allowed_tools:{reference.replace('runner.', 'Runner.')}", "x"), Failure)


def test_a_refused_module_is_not_imported(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text('tools = ["antigravity:fly"]')
    assert read_config(path).failure()
    assert "antigravity" not in sys.modules


def test_configuration_code_and_records_of_an_agent_are_not_written_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = ("memory", "sessions", "cost", "audit", "durability", "run_log")
    files = {f"{each}.db{end}" for each in stores for end in ("", "-wal", "-shm", "-journal")}
    files |= {"audit.db-head", "cost.db-cost", "cost.db-budget", "Audit.DB", "profiles.json", "answers.db"}
    files |= {"known.db", "known.db-wal", "server.py", "fleet/crm.py", "clerk_tools.py", "agent.toml"}
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("clerk_tools.py").write_text("def price(item: str) -> int:\n    'Price.'\n    return 1\n")
    Path("fleet").mkdir()
    Path("fleet/crm.py").touch()
    Path("server.py").touch()
    Path("agent.toml").write_text(
        'tools = ["file-write", "clerk_tools:price"]\n[reasoning]\n'
        + "".join(f'[{each}]\npath = "{each}.db"\n' for each in stores)
        + '[model]\nmodel = "offline"\nprofiles = "profiles.json"\nresponse_cache = "answers.db"\n'
        '[[mcp_servers]]\nname = "one"\ncommand = "python"\nargs = ["server.py"]\nknown_tools = "known.db"\n'
        '[[mcp_servers]]\nname = "two"\ncommand = "python"\nargs = ["-m", "fleet.crm"]\n'
    )
    builder = ReactiveAgents.from_config("agent.toml", allow_tools_from=["clerk_tools"])
    settings = builder.build().container.tool_settings()
    written = {each for each in files if _writes(settings, each)}
    assert (written, _writes(settings, "audit.md")) == (set(), True)
    llm = ScriptedLLM(call("file-write", path="audit.db-head", content="x"), forever(answer("Done.")))
    kept = ReactiveAgents.create().with_llm(llm).with_reasoning().with_tools("file-write")
    result = kept.with_audit("audit.db").build().run_sync("Write it.")
    assert "configures the agent" in " ".join(step.content for step in result.steps)


def _writes(settings: ToolSettings, path: str) -> bool:
    return bool(write_inside(settings.workspace, path, b"x", protected=settings.protected).value_or(None))
