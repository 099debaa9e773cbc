"""Settings of models in whole runs: every kind of call, over the wire."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reactive_agents import AgentError, ModelSettings, ReactiveAgents
from reactive_agents.adapters.llm.chat_format import chat_arguments
from reactive_agents.adapters.llm.parameters import for_provider
from reactive_agents.core.errors import TaskError
from reactive_agents.core.events import ContextCompacted, ModelParameterRefused
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tasks import Task
from reactive_agents.testing import EventRecorder, ScriptedLLM, answer, call, say
from tests.lab.anthropic_server import AnthropicServer
from tests.lab.laboratory import ModelServer, run_tasks
from tests.lab.simulated_model import SimulatedModel
from tests.lab.slips import CAPABLE
from tests.lab.tasks import FAMILIES
from tests.support.openai_server import Answer, OpenAIServer, Raw, Received, Reply, refusal

TASKS = [(FAMILIES[0], FAMILIES[0].task(0))]
STRATEGIES = ["reactive", "plan-execute-reflect", "reflexion", "tree-of-thought"]
SETTINGS = ModelSettings(
    temperature=None, top_p=0.4, max_tokens=3000, extra_body={"custom": 1}, headers={"x-team": "blue"}
)


class Keeping(ModelServer):
    """Keeps the requests; refuses a temperature."""

    def __init__(self, model: SimulatedModel) -> None:
        super().__init__(model)
        self.refused = 0

    def _next(self, received: Received) -> Reply:
        self.requests.append(received)
        if "temperature" in received.body:
            self.refused += 1
            return refusal(400, "'temperature' is not supported with this model.")
        return super()._next(received)


def serve(strategy: str, settings: ModelSettings, kind: Any = Keeping) -> tuple[Any, list[str]]:
    servers: list[Any] = []

    def start(model: SimulatedModel) -> Any:
        servers.append(kind(model))
        return servers[0]

    figures = run_tasks(
        TASKS, CAPABLE, strategy, build=lambda each: each.with_model_settings(settings), serve=start
    )
    return servers[0], [each.ending for each in figures.outcomes]


@pytest.mark.parametrize("kind", [Keeping, AnthropicServer], ids=["openai", "anthropic"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_settings_reach_every_call_of_a_strategy(strategy: str, kind: Any) -> None:
    server, endings = serve(strategy, SETTINGS, kind)
    assert endings == ["right"]
    assert len(server.requests) > 1
    for request in server.requests:
        body = request.body
        assert (body["max_tokens"], body["custom"], "temperature" in body) == (3000, 1, False)
        assert request.headers["x-team"] == "blue"
        assert kind is AnthropicServer or body["top_p"] == 0.4


def test_a_refused_temperature_costs_a_process_one_request_for_each_model() -> None:
    server, endings = serve("plan-execute-reflect", ModelSettings(temperature=0.7))
    assert (endings, server.refused) == (["right"], 1)


def agent(model: ScriptedLLM, **settings: Any) -> Any:
    builder = ReactiveAgents.create().with_llm(model).with_reasoning()
    return builder.with_model_settings(ModelSettings(**settings)).build()


def test_those_of_a_run_go_before_those_of_the_agent() -> None:
    model = ScriptedLLM(say("one"), say("two"), say("three"))
    clerk = agent(model, temperature=0.2, seed=7)
    clerk.run_sync("Hi?", settings=ModelSettings(temperature=None, stop="END"))
    clerk.run_sync("Hi?", settings=None)
    task = clerk.new_task("Hi?", settings=ModelSettings(seed=8))
    assert isinstance(task, Task)
    clerk.run_sync(task)
    first, second, third = model.requests
    assert (first.temperature, first.settings) == (
        None,
        ModelSettings(temperature=None, seed=7, stop=("END",)),
    )
    assert (second.temperature, second.settings.seed) == (0.2, 7)
    assert (third.temperature, third.settings.seed) == (0.2, 8)


def test_turns_have_no_temperature_unless_one_is_set() -> None:
    model = ScriptedLLM(say("one"))
    ReactiveAgents.create().with_llm(model).with_reasoning().build().run_sync("Hi?")
    assert model.requests[0].temperature is None


def test_an_answer_is_as_long_as_the_settings_say() -> None:
    model = ScriptedLLM(say("x"))
    agent(model, max_tokens=77).run_sync("Hi?")
    assert model.requests[0].max_tokens == 77


def test_a_later_call_of_the_builder_keeps_what_it_does_not_name() -> None:
    builder = (
        ReactiveAgents.create()
        .with_model("offline", settings=ModelSettings(seed=1, temperature=0.5))
        .with_model_settings(ModelSettings(seed=2))
    )
    assert builder.config.model_settings == ModelSettings(seed=2, temperature=0.5)


def test_wrong_settings_are_typed_errors() -> None:
    wrong: Any = {"temperature": 1}
    with pytest.raises(AgentError, match="model_settings: got an object of 1 field, expected ModelSettings"):
        ReactiveAgents.create().with_model_settings(wrong).build()
    with pytest.raises(AgentError, match="settings: got an object of 1 field") as caught:
        agent(ScriptedLLM(say("x"))).run_sync("Hi?", settings=wrong)
    assert isinstance(caught.value.error, TaskError)


def test_the_record_of_a_durable_run_has_the_settings_without_their_secrets(tmp_path: Path) -> None:
    model = ScriptedLLM(say("x"))
    clerk = (
        ReactiveAgents.create()
        .with_llm(model)
        .with_reasoning()
        .with_durability(tmp_path / "runs.db")
        .with_model_settings(ModelSettings(headers={"x-gateway": "hush-hush-1"}))
        .build()
    )
    body = {"token": "hush-hush-3", "tier": "a"}
    own = ModelSettings(seed=5, headers={"x-key": "hush-hush-2"}, extra_body=body)
    clerk.run_sync("Hi?", settings=own)
    sent = model.requests[0].settings
    assert (sent.seed, sorted(sent.headers), dict(sent.extra_body)) == (
        5,
        ["x-gateway", "x-key"],
        body,
    )
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"hush-hush" not in stored
    assert b'"seed": 5' in stored


def test_no_secret_of_settings_is_in_events_or_results() -> None:
    secret = "hush-hush-123"
    settings = ModelSettings(headers={"x-gateway-key": secret})
    with OpenAIServer(Answer(f"The key is {secret}."), refusal(400, f"bad {secret}")) as server:
        clerk = (
            ReactiveAgents.create()
            .with_model("openai/house-brand", api_key="k", base_url=server.base_url, settings=settings)
            .build()
        )
        recorder = EventRecorder()
        clerk.subscribe(recorder)
        clerk.run_sync("What is the key?")
        with pytest.raises(AgentError) as caught:
            clerk.run_sync("And now?", settings=ModelSettings(headers={"x-other": "more-hush-456"}))
    assert secret in str(server.requests[0].headers)
    assert secret not in repr(recorder.events)
    assert secret not in str(caught.value)
    assert not recorder.of(ModelParameterRefused)


@pytest.mark.parametrize("model", ["ollama/m", "ollama_chat/m"])
@pytest.mark.parametrize("body", [{"options": {"num_ctx": 16_384}}, {"num_ctx": 16_384}])
def test_options_of_ollama_are_sent_beside_those_of_the_settings(model: str, body: dict[str, Any]) -> None:
    settings = ModelSettings(
        temperature=0.2, max_tokens=100, seed=3, stop="END", extra_body={"keep_alive": "5m", **body}
    )
    said = {"message": {"role": "assistant", "content": "Hello."}, "done": True, "done_reason": "stop"}
    with OpenAIServer(Raw(200, json.dumps({"model": "m", **said}))) as server:
        base_url = server.base_url.removesuffix("/v1")
        clerk = ReactiveAgents.create().with_model(model, base_url=base_url, settings=settings).build()
        assert clerk.run_sync("Hello?").output == "Hello."
    (asked,) = server.requests
    del asked.body["messages"]
    assert asked.body == {
        "model": "m",
        "stream": False,
        "keep_alive": "5m",
        "options": {"temperature": 0.2, "num_predict": 100, "seed": 3, "stop": ["END"], "num_ctx": 16_384},
    }


def test_an_option_of_ollama_goes_before_the_setting_of_the_same_thing() -> None:
    body = {"options": {"temperature": 0.9, "top_k": 5}}
    settings = ModelSettings(temperature=0.2, max_tokens=None, extra_body=body)
    request = ModelRequest((UserMessage("Hello?"),), temperature=0.2, settings=settings)
    arguments = chat_arguments(request, schema_supported=False, json_supported=False)
    sent = for_provider(arguments, request, "ollama/m", ())
    assert sent["extra_body"] == {"options": {"temperature": 0.9, "top_k": 5}}


def test_options_of_ollama_that_are_no_table_are_refused_by_its_server() -> None:
    refused = Raw(400, json.dumps({"error": "options: cannot unmarshal string"}))
    with OpenAIServer(refused) as server:
        settings = ModelSettings(extra_body={"options": "num_ctx 16384"})
        base_url = server.base_url.removesuffix("/v1")
        clerk = ReactiveAgents.create().with_model("ollama_chat/m", base_url=base_url, settings=settings)
        with pytest.raises(AgentError, match="cannot unmarshal string"):
            clerk.build().run_sync("Hello?")
    assert server.requests[0].body["options"] == "num_ctx 16384"


@pytest.mark.parametrize("for_the_run", [False, True])
def test_the_window_that_is_set_for_ollama_is_counted_with(*, for_the_run: bool) -> None:
    def chapter(number: int) -> str:
        """Read a chapter."""
        return f"Chapter {number}. " + "Nothing happened. " * 100

    settings = ModelSettings(extra_body={"options": {"num_ctx": 6_000}})
    turns = [*(call("chapter", number=n) for n in range(1, 9)), answer("Nothing happened.")]
    reader = (
        ReactiveAgents.create()
        .with_llm(ScriptedLLM(*turns))
        .with_model_settings(ModelSettings() if for_the_run else settings)
        .with_reasoning(compaction={"method": "drop"})
        .with_tools(chapter)
        .build()
    )
    recorder = EventRecorder()
    reader.subscribe(recorder)
    reader.run_sync("What happens in the book?", settings=settings if for_the_run else ModelSettings())
    assert {each.window_tokens for each in recorder.of(ContextCompacted)} == {6_000}
