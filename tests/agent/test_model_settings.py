"""Settings of models in whole runs: every kind of call, over the wire."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reactive_agents import AgentError, ModelSettings, ReactiveAgents, WorkflowRun, tool
from reactive_agents.adapters.llm.chat_format import chat_arguments
from reactive_agents.adapters.llm.parameters import for_provider
from reactive_agents.adapters.llm.profiled_llm import adapted
from reactive_agents.core.errors import TaskError
from reactive_agents.core.events import ContextCompacted, GuidanceGiven, ModelParameterRefused
from reactive_agents.core.messages import UserMessage
from reactive_agents.core.model_profiles import ModelProfile, ProbeFinding
from reactive_agents.core.models import ModelRequest
from reactive_agents.core.tasks import Task
from reactive_agents.core.tools import ToolDefinition
from reactive_agents.testing import EventRecorder, ScriptedLLM, TestModel, answer, call, say
from tests.lab.anthropic_server import AnthropicServer
from tests.lab.laboratory import ModelServer, run_tasks
from tests.lab.simulated_model import SimulatedModel
from tests.lab.slips import CAPABLE
from tests.lab.tasks import FAMILIES
from tests.support.openai_server import Answer, Call, OpenAIServer, Raw, Received, Reply, refusal

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


# --- the choice of a tool: the first call of a run ---


def find(word: str) -> str:
    """Find a word."""
    return f"{word} is on page 7."


def clerk_at(server: OpenAIServer, model: str = "openai/house-brand", **settings: Any) -> Any:
    base_url = server.base_url if model.startswith("openai/") else server.base_url.removesuffix("/v1")
    return (
        ReactiveAgents.create()
        .with_model(model, api_key="k", base_url=base_url, settings=ModelSettings(**settings))
        .with_reasoning()
        .with_tools(find, shelve)
        .build()
    )


def shelve(word: str) -> str:
    """Shelve a word."""
    return f"{word} is shelved."


FOUND = Answer(calls=(Call("find", {"word": "lamp"}),))
DELIVERED = Answer(calls=(Call("final-answer", {"answer": "lamp is on page 7."}, id="call-b"),))
NAMED = {"type": "function", "function": {"name": "find"}}


def names(received: Received) -> list[str]:
    return [each["function"]["name"] for each in received.body.get("tools", ())]


@pytest.mark.parametrize(
    ("choice", "sent", "offered"),
    [("required", "required", ["find", "shelve"]), ("find", NAMED, ["find"])],
)
def test_a_choice_of_a_tool_holds_until_the_first_call(choice: str, sent: Any, offered: list[str]) -> None:
    with OpenAIServer(FOUND, DELIVERED) as server:
        result = clerk_at(server, tool_choice=choice).run_sync("Where is the lamp?")
    first, second = server.requests
    assert (first.body["tool_choice"], names(first)) == (sent, offered)
    assert ("tool_choice" in second.body, names(second)) == (False, ["find", "shelve", "final-answer"])
    assert (result.status, result.output) == ("completed", "lamp is on page 7.")


def test_a_choice_of_a_tool_reaches_a_server_of_the_anthropic_protocol() -> None:
    use = {"type": "tool_use", "id": "call-a", "name": "find", "input": {"word": "lamp"}}
    said = {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "usage": {"input_tokens": 3, "output_tokens": 2},
    }
    called = Raw(200, json.dumps({**said, "content": [use], "stop_reason": "tool_use"}))
    done = {**use, "id": "call-b", "name": "final-answer", "input": {"answer": "lamp is on page 7."}}
    with OpenAIServer(
        called, Raw(200, json.dumps({**said, "content": [done], "stop_reason": "tool_use"}))
    ) as server:
        clerk_at(server, "anthropic/claude-sonnet-5", tool_choice="find").run_sync("Where is the lamp?")
    first, second = server.requests
    assert (first.body["tool_choice"]["type"], first.body["tool_choice"]["name"]) == ("tool", "find")
    assert second.body.get("tool_choice", {}).get("type") != "tool"


def test_the_choice_of_a_run_goes_before_that_of_the_agent() -> None:
    with OpenAIServer(DELIVERED, FOUND, DELIVERED) as server:
        clerk = clerk_at(server, tool_choice="find")
        clerk.run_sync("Where is the lamp?", settings=ModelSettings(tool_choice="auto"))
        clerk.run_sync("Where is the lamp?", settings=ModelSettings(tool_choice="required"))
    assert [each.body.get("tool_choice") for each in server.requests] == ["auto", "required", None]


def test_a_server_that_cannot_be_given_a_choice_is_reported_and_offered_that_tool_alone() -> None:
    used = {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"function": {"name": "find", "arguments": {"word": "a"}}}],
    }
    done = {
        **used,
        "tool_calls": [{"function": {"name": "final-answer", "arguments": {"answer": "a is on page 7."}}}],
    }
    replies = (Raw(200, json.dumps({"model": "m", "message": each, "done": True})) for each in (used, done))
    recorder = EventRecorder()
    with OpenAIServer(*replies) as server:
        clerk = clerk_at(server, "ollama_chat/m", tool_choice="find")
        clerk.subscribe(recorder)
        clerk.run_sync("Where is a?")
    first, second = server.requests
    assert (names(first), names(second)) == (["find"], ["find", "shelve", "final-answer"])
    left_out = [(each.parameter, each.by_provider) for each in recorder.of(ModelParameterRefused)]
    assert left_out == [("tool_choice", False)]


def test_no_choice_leaves_the_run_no_tools() -> None:
    with OpenAIServer(Answer("Somewhere.")) as server:
        assert clerk_at(server, tool_choice="none").run_sync("Where is the lamp?").output == "Somewhere."
    assert {"tools", "tool_choice"}.isdisjoint(server.requests[0].body)


def test_a_model_that_answers_without_the_call_is_told_and_its_answer_partial() -> None:
    model = ScriptedLLM(say("Page 7."), answer("Page 7."), say("It is on page 7."))
    recorder = EventRecorder()
    clerk = (
        ReactiveAgents.create()
        .with_llm(model)
        .with_model_settings(ModelSettings(tool_choice="find"))
        .with_tools(find)
        .with_reasoning()
        .build()
    )
    clerk.subscribe(recorder)
    result = clerk.run_sync("Where is the lamp?")
    assert [each.policy for each in recorder.of(GuidanceGiven)] == ["tool_choice", "tool_choice"]
    assert [each.tool_choice for each in model.requests] == ["find"] * 3
    assert (result.status, result.metadata.terminated_by) == ("partial", "tool_choice")
    assert (
        result.reason == "The model did not make the call that tool_choice requires. Missing: a call of find."
    )


@pytest.mark.parametrize(
    ("choice", "made", "told"),
    [
        ("find", "shelve", "Not run: a call of find has to come first."),
        ("find", "look", "Unknown tool 'look'. Known tools: find, shelve, final-answer."),
        ("required", "look", "Unknown tool 'look'. Known tools: find, shelve, final-answer."),
    ],
)
def test_another_call_does_not_stand_for_the_chosen_one(choice: str, made: str, told: str) -> None:
    shelved: list[str] = []

    def shelve(word: str) -> str:
        """Shelve a word."""
        shelved.append(word)
        return "shelved"

    model = ScriptedLLM(call(made, word="lamp"), call("find", word="lamp"), answer("lamp is on page 7."))
    builder = ReactiveAgents.create().with_llm(model).with_reasoning().with_tools(find, shelve)
    result = builder.build().run_sync("Where is the lamp?", settings=ModelSettings(tool_choice=choice))
    assert [each.tool_choice for each in model.requests] == [choice, choice, None]
    observed = [each.content for each in result.steps if each.type == "observation"]
    assert (observed[0], result.status, shelved) == (told, "completed", [])


def test_the_calls_of_a_function_need_not_begin_with_the_chosen_one() -> None:
    async def flow(run: WorkflowRun[Any], task: str) -> Any:
        return await run.call("shelve", word=task)

    builder = ReactiveAgents.create().with_llm(TestModel()).with_tools(find, shelve).with_workflow(flow)
    result = builder.build().run_sync("lamp", settings=ModelSettings(tool_choice="find"))
    assert (result.status, result.output) == ("completed", "lamp is shelved.")


def test_a_declined_call_is_a_call_so_that_the_model_can_answer() -> None:
    model = ScriptedLLM(call("find", word="lamp"), answer("It may not be looked up."))
    clerk = (
        ReactiveAgents.create()
        .with_llm(model)
        .with_model_settings(ModelSettings(tool_choice="required"))
        .with_tools(tool(requires_approval=True)(find))
        .with_reasoning()
        .with_approval(lambda _: False)
        .build()
    )
    clerk.run_sync("Where is the lamp?")
    assert [each.tool_choice for each in model.requests] == ["required", None]


@pytest.mark.parametrize(
    ("choice", "other", "chosen"), [("find", "shelve", "find"), ("required", "look", "find or shelve")]
)
def test_an_answer_after_another_call_is_partial(choice: str, other: str, chosen: str) -> None:
    answers = say("Page 7."), answer("It is on page 7."), say("The lamp is on page 7.")
    model = ScriptedLLM(call(other, word="lamp"), *answers)
    builder = ReactiveAgents.create().with_llm(model).with_tools(find, shelve).with_reasoning()
    result = builder.build().run_sync("Where is the lamp?", settings=ModelSettings(tool_choice=choice))
    assert [each.tool_choice for each in model.requests] == [choice] * 4
    assert result.status == "partial"
    assert result.reason.endswith(f"Missing: a call of {chosen}.")


def test_a_model_without_tool_calls_reads_the_choice_in_its_prompt() -> None:
    offered = ToolDefinition("find", "Find a word.", {"type": "object"})
    request = ModelRequest((UserMessage("Hi"),), (offered,), tool_choice="find")
    found = ProbeFinding("tool calls", "yes", "It writes calls.", datetime(2026, 1, 1, tzinfo=UTC), "prompt")
    sent = adapted(request, ModelProfile("m", "", (found,)))
    assert (sent.tools, sent.tool_choice) == ((), None)
    assert "Make such a call now, before anything else." in sent.messages[0].content


def test_a_model_without_a_script_makes_the_chosen_call_first() -> None:
    builder = ReactiveAgents.create().with_llm(TestModel()).with_reasoning().with_tools(find, shelve)
    result = builder.build().run_sync("Look.", settings=ModelSettings(tool_choice="shelve"))
    calls = [each.content for each in result.steps if each.type == "action"]
    assert [each.split('"')[3] for each in calls[:2]] == ["shelve", "find"]


def test_a_choice_of_an_unknown_tool_is_refused() -> None:
    builder = ReactiveAgents.create().with_llm(TestModel()).with_tools(find)
    with pytest.raises(AgentError, match="tool_choice: got 'fnd', expected one of the agent's"):
        builder.with_model_settings(ModelSettings(tool_choice="fnd")).build()
    clerk = builder.build()
    with pytest.raises(AgentError, match="tool_choice: got 'fnd', expected one of the run's tools: find"):
        clerk.run_sync("Where is the lamp?", settings=ModelSettings(tool_choice="fnd"))
    bare = (
        ReactiveAgents.create()
        .with_llm(TestModel())
        .with_model_settings(ModelSettings(tool_choice="required"))
    )
    with pytest.raises(AgentError, match="got 'required', expected one of the run's tools: it has none"):
        bare.build().run_sync("Hi?")
