"""Memory as an option of an agent: in the process alone, by meaning, as data, and without secrets."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import anyio
import pytest

from reactive_agents import AgentError, ReactiveAgents
from reactive_agents.core.config import MemoryConfig
from reactive_agents.core.errors import ConfigErrors, InvalidConfig
from reactive_agents.core.events import MemoryBootstrapped, MemoryFlushed
from reactive_agents.core.models import ModelRequest
from reactive_agents.effects import attempt
from reactive_agents.testing import EventRecorder, ScriptedLLM, say
from tests.support.embedders import ToyEmbedder
from tests.support.models import RuledLLM, Said

pytestmark = pytest.mark.anyio

ANSWER = "The keys of the office are in the blue drawer."
QUESTION = "Where are the keys of the office?"
MODEL = "openai/text-embedding-3-small"


def shown(llm: ScriptedLLM, request: int = -1) -> str:
    return "\n".join(message.content for message in llm.requests[request].messages)


def names_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.glob("memory.db*"))


# --- in the process -------------------------------------------------------------------------------------


async def test_a_memory_in_the_process_is_shared_by_the_runs_of_its_agent_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = ScriptedLLM(say(ANSWER), say("Blue."), say("Still blue.")), ScriptedLLM(say("Unknown."))
    agent = ReactiveAgents.create().with_llm(first).with_memory(":memory:").build()
    other = ReactiveAgents.create().with_llm(second).with_memory(":memory:").build()
    async with agent, other:
        await agent.run(QUESTION)
        await agent.run(QUESTION)
        await other.run(QUESTION)
    await agent.run(QUESTION)  # an agent may be used again after it was closed
    assert "blue drawer" in shown(first, 1)
    assert "blue drawer" in shown(first, 2)
    assert "blue drawer" not in shown(second)
    assert names_of(tmp_path) == []


def test_it_survives_runs_that_are_not_async() -> None:
    llm = ScriptedLLM(say(ANSWER), say("Blue."))
    agent = ReactiveAgents.create().with_llm(llm).with_memory(":memory:").build()
    agent.run_sync(QUESTION)
    agent.run_sync(QUESTION)
    assert "blue drawer" in shown(llm)


async def test_it_ends_with_its_agent() -> None:
    def build(llm: ScriptedLLM) -> ReactiveAgents:
        return ReactiveAgents.create().with_llm(llm).with_memory(":memory:")

    await build(ScriptedLLM(say(ANSWER))).build().run(QUESTION)
    gc.collect()
    llm = ScriptedLLM(say("Unknown."))
    await build(llm).build().run(QUESTION)
    assert "blue drawer" not in shown(llm)


# --- by meaning -----------------------------------------------------------------------------------------


async def test_an_embedder_of_ones_own_finds_what_shares_no_word(tmp_path: Path) -> None:
    llm, recorder = ScriptedLLM(say("Ann owns 1 red automobile."), say("One.")), EventRecorder()
    builder = ReactiveAgents.create().with_llm(llm)
    async with builder.with_memory(":memory:", tier="2", embedder=ToyEmbedder()).build() as agent:
        agent.subscribe(recorder)
        await agent.run("What belongs to Ann?")
        await agent.run("Red car?")
    assert "from a model's answer, unverified" in shown(llm)
    assert "Ann owns 1 red automobile." in shown(llm)
    assert {event.tier for event in recorder.of(MemoryBootstrapped)} == {"2"}


async def test_an_embedder_that_fails_is_said_and_the_run_goes_on(tmp_path: Path) -> None:
    llm, recorder = ScriptedLLM(say(ANSWER)), EventRecorder()
    embedder = ToyEmbedder(problem=RuntimeError("out of memory"))
    builder = ReactiveAgents.create().with_llm(llm).with_memory(":memory:", tier="2", embedder=embedder)
    async with builder.build() as agent:
        agent.subscribe(recorder)
        assert (await agent.run(QUESTION)).status == "completed"
    for event in (*recorder.of(MemoryBootstrapped), *recorder.of(MemoryFlushed)):
        assert "out of memory" in event.problem


# --- secrets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("patterns", [(), (r"violet-\w+",)])
async def test_what_the_redactor_knows_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patterns: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HOUSE_TOKEN", "violet-elephant")
    llm = ScriptedLLM(say("The door of Ann opens by violet-elephant since 2020."))
    builder = ReactiveAgents.create().with_llm(llm).with_memory(tmp_path / "memory.db")
    if patterns:
        monkeypatch.delenv("HOUSE_TOKEN")
        builder = builder.with_redaction(*patterns)
    async with builder.build() as agent:
        await agent.run("What opens the door? Remember that I say violet-elephant.")
    content = bytes_of(tmp_path)
    assert b"elephant" not in content
    assert b"What opens the door?" in content


# --- as data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["agent.json", "agent.toml"])
def test_every_option_is_data(tmp_path: Path, name: str) -> None:
    builder = ReactiveAgents.create().with_memory(
        ":memory:", tier="2", token_budget=300, embedding_model=MODEL, extraction="model"
    )
    config = builder.to_config()
    assert config.memory == MemoryConfig(":memory:", "2", 300, MODEL, "model")
    config.save(tmp_path / name)
    assert ReactiveAgents.from_config(tmp_path / name).to_config() == config


def problem(builder: ReactiveAgents) -> ConfigErrors:
    return anyio.run(attempt, builder.build_effect()).failure()


@pytest.mark.parametrize(
    ("options", "option"),
    [
        ({"tier": "2"}, "memory.embedding_model"),
        ({"embedding_model": MODEL}, "memory.tier"),
        ({"embedder": ToyEmbedder()}, "memory.tier"),
        ({"tier": "2", "embedding_model": MODEL, "embedder": ToyEmbedder()}, "memory.embedding_model"),
        ({"tier": "2", "embedder": object()}, "memory.embedder"),
        ({"tier": "3"}, "$.memory.tier"),
        ({"extraction": "magic"}, "$.memory.extraction"),
        ({"tier": "2", "embedding_model": ""}, "$.memory.embedding_model"),
    ],
)
def test_options_that_do_not_go_together_are_named(options: dict[str, object], option: str) -> None:
    builder = ReactiveAgents.create().with_model("offline").with_memory(":memory:", **options)  # type: ignore[arg-type]
    assert option in problem(builder).message


def test_an_embedder_is_no_data() -> None:
    with pytest.raises(AgentError) as raised:
        ReactiveAgents.create().with_memory("m.db", tier="2", embedder=ToyEmbedder()).to_config()
    assert isinstance(raised.value.error, InvalidConfig)
    assert raised.value.error.option == "memory.embedder"


async def test_reflexion_is_told_what_was_criticised_in_an_earlier_run(tmp_path: Path) -> None:
    def never_satisfied(request: ModelRequest) -> Said:
        if request.purpose == "critique":
            issue = "The timetable of winter was ignored."
            return json.dumps({"issues": [issue], "score": 0.5, "satisfied": False})
        return "Take the ferry at nine."

    first_requests = []
    for _ in range(2):
        model = RuledLLM(never_satisfied)
        builder = ReactiveAgents.create().with_llm(model).with_memory(tmp_path / "memory.db")
        async with builder.with_reasoning("reflexion").build() as agent:
            await agent.run("When does the ferry to Oslo leave?")
        first_requests.append(model.requests[0].messages[-1].content)
    untold, told = first_requests
    assert "winter" not in untold
    lesson = told.partition("<earlier-lessons>")[2].partition("</earlier-lessons>")[0]
    assert "from a model's critique, unverified" in lesson
    assert "The timetable of winter was ignored." in lesson
